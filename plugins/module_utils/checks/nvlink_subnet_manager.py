"""Does the NVLink subnet manager (nvlsm) run, and has the host what it needs: ib_umad, a NIC that manages NVSwitches?

Without it the GPUs of an HGX B200 join no NVLink fabric. The fabric manager's unit starts it, and stays active when it
ends later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.nvlsm import MODULE, PROGRAM, SubnetManager
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nvlink_subnet_manager"
RULES = 2
PROBES: tuple[str, ...] = ("nvlsm", "nvswitch_nics")

# A defunct process (Z, X) has ended, a stopped one (T, t) answers nobody.
_ALIVE = ("R", "S", "D", "I")
_EXPECTED = "nvlsm runs"


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, if its fabric manager starts a subnet manager."""
    return ["host"] if expect.gpu and expect.nvlink and expect.nvlink.subnet_manager else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Name all that is missing: the cause of a process that does not run stands before it."""
    found: SubnetManager = values["nvlsm"]
    nics: Mapping[str, bool | None] = values["nvswitch_nics"]
    managing = sum(manages is True for manages in nics.values())
    unread = [address for address, manages in nics.items() if manages is None]
    runs = any(state.startswith(_ALIVE) for state in found.states)
    measured = f"nvlsm {'runs' if runs else 'does not run'}, NICs that manage NVSwitches: {managing}"
    lacks = [] if managing or unread else [f"none of {len(nics)} NICs manages NVSwitches (VPD with SW_MNG)"]
    if not found.module:
        lacks.append(f"kernel module {MODULE} is not loaded")
    if not runs:
        lacks.append(_not_running(found))
    if lacks:
        return [Finding(NAME, "host", FAIL, measured, _EXPECTED, "", "; ".join(lacks), "investigate")]
    if not managing:
        why = f"whether a NIC manages NVSwitches could not be read of {', '.join(unread)}"
        return [Finding(NAME, "host", INCOMPLETE, measured, _EXPECTED, "", why, "investigate")]
    return [Finding(NAME, "host", PASS, measured, _EXPECTED)]


def _not_running(found: SubnetManager) -> str:
    if found.states:
        return f"no process nvlsm runs, the states of those there are {', '.join(found.states)}"
    if not found.installed:
        return f"nvlsm is not installed ({PROGRAM}): install the package nvlsm and restart the fabric manager"
    return "no process nvlsm runs: restart nvidia-fabricmanager.service, and see /var/log/nvlsm.log"
