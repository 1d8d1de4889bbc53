"""Services as systemd tells them: ``systemctl --failed``, ``systemctl list-units``, ``systemctl status NAME``.

A service that failed is a fault where GPUs, fabric, storage or the scheduler need it; of any other one a person has to
look. That a service runs says nothing of what it manages. Format: systemctl(1).
"""

from __future__ import annotations

import re

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_findings import fault, unread

NAME = "systemctl"
_CHECK = "services"

_UNIT = r"[\w.@:\\-]+\.(?:service|socket|mount|target|timer|slice|scope|path|device|automount|swap)"
# A mark stands before a unit that failed, or before every one.
_ROW = re.compile(
    rf"^[ \t]*(?:[^\w\s] )?({_UNIT})[ \t]+(?:loaded|not-found|masked|error|bad-setting)[ \t]+(\w+)[ \t]+([\w-]+)",
    re.MULTILINE,
)
_STATUS = re.compile(
    rf"^[^\w\s] ({_UNIT})(?: - .*)?\n(?:[ \t]+.*\n)*?[ \t]+Active: ([\w-]+)(?: \(([^)]*)\))?", re.MULTILINE
)
_NONE = re.compile(r"^0 loaded units listed", re.MULTILINE)
_NEEDED = re.compile(
    r"nvidia-(?:fabricmanager|persistenced|imex|dcgm|peermem)|dcgm|nvlsm|opensm|openibd|rdma|mlnx|ibacm|slurm|munge"
    r"|chrony|ntp|lustre|lnet|beegfs|gpfs|mmfs|weka|nfs|autofs|docker|containerd|\.mount$",
    re.IGNORECASE,
)


def recognises(text: str) -> bool:
    """Return whether systemctl printed this."""
    return bool(_ROW.search(text) or _STATUS.search(text) or _NONE.search(text))


def findings(text: str, expect: Expectations | None) -> list[Finding]:
    """Return a finding for each unit that did not do what it should, and one for the others."""
    rows = dict.fromkeys([*_ROW.findall(text), *_STATUS.findall(text)])
    found = [_failed(unit, detail) for unit, state, detail in rows if state == "failed"]
    unsettled = [unit for unit, state, _ in rows if state in ("activating", "deactivating", "reloading")]
    found += [unread(_CHECK, unit, "neither runs nor stands still") for unit in unsettled]
    return found or [unread(_CHECK, "host", "no fault seen; whether a service that runs does its work it tells itself")]


def _failed(unit: str, detail: str) -> Finding:
    why = f"the service failed ({detail}); systemctl status and its journal say why"
    return fault(_CHECK, unit, why) if _NEEDED.search(unit) else unread(_CHECK, unit, why)
