"""``/var/lib/muster/evidence/preflight``: on which boots this host was examined before it was burned in."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from .. import blocks
from ..examine import Unreadable, require_success
from ..host import Host, Output

NAME = "preflights"
DIRECTORY = "/var/lib/muster/evidence/preflight"
FILES = f"{DIRECTORY}/*/evidence.json"


def collect(host: Host, expect: Mapping[str, Any]) -> Output:
    """Read the kept records, at most five."""
    paths = host.paths(FILES)
    return blocks.joined(
        {DIRECTORY: Output("".join(f"{path}\n" for path in paths)), **{p: host.read(p) for p in paths}}
    )


def parse(output: Output) -> dict[str, float]:
    """Return when the last preflight of each boot ended, in seconds since the epoch; raises Unreadable."""
    require_success(output)
    records = blocks.split(output.stdout)
    listed = records.pop(DIRECTORY, None)
    if listed is None or sorted(records) != sorted(listed.stdout.split("\n")[:-1]):
        raise Unreadable(f"begins with {output.stdout[:60]!r}, expected the list of {DIRECTORY} and all in it")
    ended: dict[str, float] = {}
    for path, block in records.items():
        try:
            data = json.loads(block.stdout)
            boot_id, finished = data["boot_id"], data["finished"]
        except (ValueError, RecursionError, KeyError, TypeError) as exc:
            raise Unreadable(f"{path}: {block.error or exc!r}, expected evidence") from exc
        if finished is None:
            continue
        if not isinstance(boot_id, str) or not isinstance(finished, (int, float)) or not 0 < finished < math.inf:
            raise Unreadable(f"{path}: boot_id {boot_id!r}, finished {finished!r}, expected a text and a time")
        ended[boot_id] = max(finished, ended.get(boot_id, 0.0))
    return ended
