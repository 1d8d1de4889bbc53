"""Are all power supplies of the class there and well?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..formats.bmc import ABSENT, OK, UNKNOWN, Sensor
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "power_supplies"
RULES = 3
PROBES: tuple[str, ...] = ()
# The one that the class does not declare has no value; without a value of either no part is judged.
OPTIONAL_PROBES: tuple[str, ...] = ("ipmi_sdr", "redfish")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return ``psu 1`` to ``psu N``, in the order in which the BMC counts them."""
    wanted = expect.bmc and expect.bmc.power_supplies
    return [f"psu {number}" for number in range(1, wanted.count + 1)] if wanted else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge each supply; one that the BMC does not list at all is missing."""
    source = values.get("ipmi_sdr") or values.get("redfish")
    if source is None:
        return []
    supplies: Sequence[Sensor] = source.supplies
    count = stated(stated(expect.bmc).power_supplies).count
    findings = [_judged(f"psu {number}", supply) for number, supply in enumerate(supplies[:count], 1)]
    findings += [
        _judged(f"psu {number}", supply)
        for number, supply in enumerate(supplies[count:], count + 1)
        if supply.state not in (OK, ABSENT)
    ]
    for number in range(len(supplies) + 1, count + 1):
        # A document that was not read may hold it.
        verdict = INCOMPLETE if getattr(source, "unread", {}) or not supplies else FAIL
        why = f"the BMC lists {len(supplies)} of {count} power supplies"
        action = "reseat" if verdict == FAIL else "investigate"
        findings.append(Finding(NAME, f"psu {number}", verdict, "absent", OK, "", why, action))
    return findings


def _judged(part: str, supply: Sensor) -> Finding:
    text = f"{supply.name}: {supply.text or 'no state'}"
    if supply.state == OK:
        return Finding(NAME, part, PASS, OK, OK, "", supply.name)
    if supply.state == UNKNOWN:
        return Finding(NAME, part, INCOMPLETE, None, OK, "", f"state not understood: {text}", "investigate")
    if supply.state == ABSENT:
        return Finding(NAME, part, FAIL, ABSENT, OK, "", f"not there: {text}", "reseat")
    # Without mains the feed comes before the supply.
    said = supply.text.lower()
    unfed = ("ac " in said or "lineinputstatus" in said) and "failure" not in said
    action = "investigate" if unfed else "replace"
    return Finding(NAME, part, FAIL, supply.state, OK, "", text, action)
