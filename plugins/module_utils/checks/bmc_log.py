"""Does the BMC's event log leave a fault open?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..formats.bmc import faults_in
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "bmc_log"
RULES = 3
PROBES: tuple[str, ...] = ()
# The one that the class does not declare has no value; without a value of either no part is judged.
OPTIONAL_PROBES: tuple[str, ...] = ("ipmi_sel", "redfish")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the BMC."""
    return ["bmc"] if expect.bmc and expect.bmc.log else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Name what the log blames (a DIMM by its own name), and the BMC for all the rest."""
    source = values.get("ipmi_sel") or values.get("redfish")
    if source is None:
        return []
    wanted = stated(stated(expect.bmc).log)
    missing = "; ".join(f"{path}: {why}" for path, why in getattr(source, "unread", {}).items())
    if source.events is None:
        missing = missing or "no log among the declared documents"
    elif getattr(source, "overflow", False):
        missing = "the log was full and lost events: keep it, then clear it"
    faults, watched = faults_in(source.events or (), wanted.since, wanted.correctable_ecc_events)
    findings = []
    for part in dict.fromkeys(fault.part for fault in faults):
        mine = [fault for fault in faults if fault.part == part]
        why = "; ".join(fault.why for fault in mine[:5]) + (f"; {len(mine) - 5} more" if len(mine) > 5 else "")
        action = next((fault.action for fault in mine if fault.action == "replace"), mine[0].action)
        # What to replace is a person's to find, where the log names no part.
        action = "investigate" if part == "bmc" and len({fault.action for fault in mine}) > 1 else action
        findings.append(Finding(NAME, part, FAIL, len(mine), 0, "open faults", why[:600], action))
    if "bmc" in {finding.subject for finding in findings}:
        return findings
    if missing:
        findings.append(Finding(NAME, "bmc", INCOMPLETE, None, 0, "open faults", missing[:600], "investigate"))
    elif watched:
        why = f"to be watched: {'; '.join(watched[:5])}" + (f"; {len(watched) - 5} more" if len(watched) > 5 else "")
        findings.append(Finding(NAME, "bmc", PASS, 0, 0, "open faults", why[:600], "investigate"))
    else:
        findings.append(Finding(NAME, "bmc", PASS, 0, 0, "open faults"))
    return findings
