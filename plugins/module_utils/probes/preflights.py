"""``/var/lib/muster/evidence/preflight``: on which boots this host was examined before it was burned in."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..host import blocks
from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations
from ..words.finding import PASS, VERDICTS, Finding, worst

NAME = "preflights"
DIRECTORY = "/var/lib/muster/evidence/preflight"
FILES = f"{DIRECTORY}/*/evidence.json"


@dataclass(frozen=True)
class Preflight:
    """When the last preflight of a boot ended, in seconds since the epoch, and the worst that it found."""

    ended: float
    verdict: str


def collect(host: Host, expect: Expectations) -> Output:
    """Read the kept records, at most five."""
    return blocks.read_files(host, FILES)


def accepting(output: Output, accepted: Callable[[Finding], bool]) -> Output:
    """Return the records as they are where findings that did not pass are ``accepted``: unchanged if unreadable."""
    records = blocks.split(output.stdout) if blocks.is_listed(output.stdout) else {}
    for path, block in records.items():
        try:
            data = json.loads(block.stdout)
            for item in data["findings"]:
                if accepted(Finding.from_dict(item)):
                    item["verdict"] = PASS
            records[path] = replace(block, stdout=json.dumps(data))
        except (ValueError, RecursionError, KeyError, TypeError):
            return output
    return replace(output, stdout=blocks.listed(records).stdout) if records else output


def parse(output: Output) -> dict[str, Preflight]:
    """Return the last preflight of each boot; raises Unreadable."""
    require_success(output)
    if not blocks.is_listed(output.stdout):
        raise Unreadable(f"begins with {output.stdout[:60]!r}, expected the list of {DIRECTORY}")
    records = blocks.split(output.stdout)
    last: dict[str, Preflight] = {}
    for path, block in records.items():
        try:
            data = json.loads(block.stdout)
            boot_id, finished = data["boot_id"], data["finished"]
            verdicts = [finding["verdict"] for finding in data["findings"]]
        except (ValueError, RecursionError, KeyError, TypeError) as exc:
            raise Unreadable(f"{path}: {block.error or exc!r}, expected evidence") from exc
        if finished is None:
            continue
        number = isinstance(finished, (int, float)) and not isinstance(finished, bool)
        if not isinstance(boot_id, str) or not number or not 0 < finished < math.inf:
            raise Unreadable(f"{path}: boot_id {boot_id!r}, finished {finished!r}, expected a text and a time")
        if not all(verdict in VERDICTS for verdict in verdicts):
            raise Unreadable(f"{path}: verdicts {verdicts!r}, expected {', '.join(VERDICTS)}")
        if boot_id not in last or finished > last[boot_id].ended:
            last[boot_id] = Preflight(finished, worst(verdicts))
    return last
