"""``lscpu -J``: sockets and cores."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..examine import Unreadable
from ..host import Host, Output

NAME = "lscpu"
ARGV = ("lscpu", "-J")
TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class Cpu:
    """Sockets, and physical cores in all of them."""

    sockets: int
    cores: int
    model: str | None


def collect(host: Host, expect: Mapping[str, Any]) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> Cpu:
    """Return what lscpu says; raises Unreadable. util-linux 2.38 nests fields in ``children``, older ones do not."""
    if output.rc != 0:
        raise Unreadable(f"exit status {output.rc}: {output.stderr.strip()[:200]}")
    try:
        document = json.loads(output.stdout)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"not JSON: {exc}") from exc
    fields = dict(_fields(document.get("lscpu") if isinstance(document, dict) else None))
    sockets = _count(fields, "Socket(s)")
    return Cpu(sockets, sockets * _count(fields, "Core(s) per socket"), fields.get("Model name"))


def _fields(items: Any) -> Iterator[tuple[str, str]]:
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict):
            if isinstance(item.get("field"), str) and isinstance(item.get("data"), str):
                yield item["field"].rstrip(":"), item["data"]
            yield from _fields(item.get("children"))


def _count(fields: dict[str, str], name: str) -> int:
    text = fields.get(name, "")
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise Unreadable(f"{name} is {text or 'missing'}, expected a number")
    return int(text)
