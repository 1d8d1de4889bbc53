"""Programs of this folder that probes send to a Python of the host as text, and the JSON that they print."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

from .host import Output, Unreadable


def source_of(name: str) -> str:
    """Return the text of a program by its module's name, "" where there is none."""
    # From wherever this package was imported, a directory or the archive that nodes run.
    spec = importlib.util.find_spec(f".{name}", __package__)
    source = spec.loader.get_source(spec.name) if spec and spec.loader else None  # type: ignore[attr-defined]
    return source or ""


def printed_by(output: Output) -> Any:
    """Return what a program printed, as plain data; raises Unreadable."""
    if output.rc != 0:
        said = (output.stderr.strip().splitlines() or ["no message"])[-1]
        raise Unreadable(f"exit status {output.rc}: {said[:200]}")
    try:
        return json.loads(output.stdout)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"not JSON: {output.stdout[:60]!r}") from exc
