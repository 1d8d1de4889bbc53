"""Is every sensor of the BMC within its own limits, and are those there that the class names?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..formats.bmc import ABSENT, CRITICAL, OK, UNKNOWN, WARNING, Sensor, fans_of
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "bmc_sensors"
RULES = 3
PROBES: tuple[str, ...] = ()
# The one that the class does not declare has no value; without a value of either no part is judged.
OPTIONAL_PROBES: tuple[str, ...] = ("ipmi_sdr", "redfish")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the BMC, and each sensor that the class names."""
    wanted = expect.bmc and expect.bmc.sensors
    return ["bmc", *(f"sensor {name}" for name in wanted.required)] if wanted else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Name each sensor that is critical; the BMC itself answers for how many it has."""
    source = values.get("ipmi_sdr") or values.get("redfish")
    if source is None:
        return []
    wanted = stated(stated(expect.bmc).sensors)
    sensors: Sequence[Sensor] = source.sensors
    findings = []
    for name in dict.fromkeys([*wanted.required, *(item.name for item in sensors if item.state == CRITICAL)]):
        findings.append(_named(name, [item for item in sensors if item.name == name]))
    findings.append(_all(sensors, wanted.count, getattr(source, "unread", {})))
    return findings


def _all(sensors: Sequence[Sensor], count: int, unread: Mapping[str, str]) -> Finding:
    live = [item for item in sensors if item.state not in (ABSENT, UNKNOWN)]
    why = "; ".join(f"{path}: {reason}" for path, reason in unread.items())
    if not why and len(live) < count:
        why = f"{len(live)} sensors with a reading, class floor {count}"
    if why:
        return Finding(NAME, "bmc", INCOMPLETE, len(live), count, "sensors", why, "investigate")
    still = [item for item in fans_of(sensors) if item.reading == 0 and item.state == OK]
    odd = [f"{item.name}: {item.text}" for item in sensors if item.state in (WARNING, UNKNOWN) or item in still]
    if odd:
        why = f"to be watched: {', '.join(odd[:5])}" + (f" and {len(odd) - 5} more" if len(odd) > 5 else "")
        return Finding(NAME, "bmc", PASS, len(live), count, "sensors", why, "investigate")
    return Finding(NAME, "bmc", PASS, len(live), count, "sensors")


def _named(name: str, sensors: Sequence[Sensor]) -> Finding:
    part = f"sensor {name}"
    bad = next((item for item in sensors if item.state == CRITICAL), None)
    if bad is not None:
        measured = bad.text if bad.reading is None else bad.reading
        why = f"{name} is critical by the BMC's own limits: {bad.text}"
        return Finding(NAME, part, FAIL, measured, "within its limits", bad.unit, why, "investigate")
    good = next((item for item in sensors if item.state not in (ABSENT, UNKNOWN)), None)
    if good is None:
        why = f"{name} has no reading" + (f": {sensors[0].text}" if sensors else ", the BMC has no sensor of this name")
        return Finding(NAME, part, INCOMPLETE, None, "a reading", "", why, "investigate")
    return Finding(
        NAME, part, PASS, good.text if good.reading is None else good.reading, "within its limits", good.unit
    )
