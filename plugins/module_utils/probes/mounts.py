"""The declared mounts, each used by a child that can be given up (mount_program.py)."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..formats.mounts import Mount, mounted_at, mounts_of
from ..host.host import Host, Output, Unreadable
from ..host.mount_program import MARK
from ..words.expectations import Expectations

NAME = "mounts"
NOT_DECLARED = Output("{}\n")
# The whole of health has 5 s; a small write that takes longer is as good as none.
ANSWER_SECONDS = 1.5
TIMEOUT_SECONDS = 2.5


@dataclass(frozen=True)
class Array:
    """The md device below a mount: its state, and how many of its members are there."""

    state: str
    disks: int | None
    present: int


@dataclass(frozen=True)
class Used:
    """One path: what is mounted there (None: nothing), and how that answered; sizes in bytes.

    ``stuck`` is "" where all was answered in time, "mount" where nothing was, "write" where the write was not.
    """

    mount: Mount | None
    free: int | None = None
    size: int | None = None
    write_ms: float | None = None
    error: str = ""
    errno: str = ""
    stuck: str = ""
    array: Array | None = None
    version: str = ""


def collect(host: Host, expect: Expectations) -> Output:
    """Use the mounts that the expectations name."""
    if not expect.mounts:
        return NOT_DECLARED
    # From wherever this package was imported, a directory or the archive that nodes run.
    spec = importlib.util.find_spec("..host.mount_program", __package__)
    source = spec.loader.get_source(spec.name) if spec and spec.loader else None  # type: ignore[attr-defined]
    paths = [mount.path for mount in expect.mounts]
    argv = ("/usr/bin/python3", "-IS", "-c", source or "", MARK, str(ANSWER_SECONDS), *paths)
    return host.run(argv, TIMEOUT_SECONDS)


def parse(output: Output) -> dict[str, Used]:
    """Return what was found by path; raises Unreadable."""
    if output.rc != 0:
        said = (output.stderr.strip().splitlines() or ["no message"])[-1]
        raise Unreadable(f"exit status {output.rc}: {said[:200]}")
    try:
        data = json.loads(output.stdout)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"not JSON: {output.stdout[:60]!r}") from exc
    if not isinstance(data, dict) or not all(isinstance(answer, dict) for answer in data.values()):
        raise Unreadable(f"found {output.stdout[:60]!r}, expected an answer of each mount")
    return {path: _used(path, answer) for path, answer in data.items()}


def _used(path: str, answer: Mapping[str, Any]) -> Used:
    if not isinstance(answer.get("mountinfo"), str):
        raise Unreadable(f"{path}: no mountinfo")
    if not answer["mountinfo"]:
        return Used(None)
    mount = mounted_at(path, mounts_of(Output(answer["mountinfo"])))
    if mount is None:
        raise Unreadable(f"{path}: mountinfo is of another path")
    if answer.get("stuck") not in ("", "mount", "write"):
        raise Unreadable(f"{path}: stuck is {answer.get('stuck')!r}, expected nobody, mount or write")
    array = answer.get("array")
    if array is not None and not (isinstance(array, dict) and _whole(array.get("present")) is not None):
        raise Unreadable(f"{path}: array is {array!r:.60}, expected state, disks and present")
    free, size = _whole(answer.get("free")), _whole(answer.get("size"))
    if free is not None and size is not None and free > size:
        raise Unreadable(f"{path}: {free} bytes free of {size}")
    disks = _whole(array.get("disks")) if array else None
    if array and disks is not None and array["present"] > disks:
        raise Unreadable(f"{path}: {array['present']} drives present of {disks}")
    return Used(
        mount,
        free=free,
        size=size,
        write_ms=_number(answer.get("write_ms")),
        error=str(answer.get("error") or ""),
        errno=str(answer.get("errno") or ""),
        stuck=answer["stuck"],
        array=Array(str(array.get("state") or ""), disks, array["present"]) if array else None,
        version=str(answer.get("version") or ""),
    )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _number(value: Any) -> float | None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if number and 0 <= value < float("inf") else None
