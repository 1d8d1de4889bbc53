"""``smartctl`` of the drives below a node's own storage tier, with limits that a health check can wait for."""

from __future__ import annotations

import time

from ..formats.mounts import LOCAL
from ..formats.nvme import assigned
from ..host.blocks import joined
from ..host.host import Host, Output
from ..words.expectations import Expectations
from . import nvme_sysfs, smartctl
from .smartctl import Report

NAME = "local_drives"
# Of all drives together: each answers within milliseconds, and the whole of health has 5 s.
TIMEOUT_SECONDS = 1.0


def stated(expect: Expectations) -> bool:
    """Return whether the node has a storage tier of its own."""
    return any(mount.kind == LOCAL for mount in expect.mounts or ())


def collect(host: Host, expect: Expectations) -> Output:
    """Ask each drive of the class, as long as there is time."""
    if not stated(expect):
        return Output(smartctl.NO_DRIVE)
    parts = assigned(nvme_sysfs.parse(nvme_sysfs.collect(host, expect)), expect.nvme)
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
