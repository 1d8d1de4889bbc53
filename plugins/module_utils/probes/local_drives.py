"""``smartctl`` of the drives below a node's own storage tier, with limits that a health check can wait for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ..blocks import joined
from ..host import Host, Output
from ..mounts import LOCAL
from ..nvme import assigned
from . import nvme_sysfs, smartctl
from .smartctl import Report

NAME = "local_drives"
# Of all drives together: each answers within milliseconds, and the whole of health has 5 s.
TIMEOUT_SECONDS = 1.0


def declared(expect: Mapping[str, Any]) -> bool:
    """Return whether the node has a storage tier of its own."""
    return any(mount["kind"] == LOCAL for mount in expect["mounts"] or ())


def collect(host: Host, expect: Mapping[str, Any]) -> Output:
    """Ask each drive of the class, as long as there is time."""
    if not declared(expect):
        return Output(smartctl.NO_DRIVE)
    parts = assigned(nvme_sysfs.parse(nvme_sysfs.collect(host, expect)), expect)
    if not parts:
        return Output(smartctl.NO_DRIVE)
    end = time.monotonic() + TIMEOUT_SECONDS
    answers: dict[str, Output] = {}
    for part, drive in parts.items():
        left = end - time.monotonic()
        answers[part] = (
            host.run((*smartctl.ARGV, f"/dev/{drive.controller}"), left)
            if left > 0
            else Output(rc=None, error=f"not asked: the drives before it took {TIMEOUT_SECONDS:g} s")
        )
    return joined(answers)


def parse(output: Output) -> dict[str, Report]:
    """Return what each drive says by its part's name; raises Unreadable."""
    return smartctl.parse(output)
