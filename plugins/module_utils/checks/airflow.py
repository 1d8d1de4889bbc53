"""Does enough air go through the host: is it not much warmer where it leaves, and does every fan turn?

A host whose air is blocked, or goes round its parts, is hot without a part being at fault.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..formats.bmc import Sensor, fans_of, temperature_of
from ..words.expectations import Airflow, Expectations, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding, Value, worst

NAME = "airflow"
RULES = 2
PROBES: tuple[str, ...] = ()
# The one that the class does not declare has no value; without a value of either no part is judged.
OPTIONAL_PROBES: tuple[str, ...] = ("ipmi_sdr", "redfish")
# Two sensors that read the same air differ by this much; a colder outlet is another sensor than the class says.
_COLDER_CELSIUS = 2.0
_REMEDY = "too little air goes through: check filters, fans and blanking panels"


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host where the class says what its air has to do."""
    return ["host"] if expect.bmc and expect.bmc.airflow else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare outlet with inlet, and count the fans that turn."""
    source = values.get("ipmi_sdr") or values.get("redfish")
    if source is None:
        return []
    bmc = stated(expect.bmc)
    air, sensors = stated(bmc.airflow), source.sensors
    found = [*(_warmth(air, stated(bmc.inlet).sensor, sensors) if air.outlet else ()), *_turning(air, sensors)]
    first = next(finding for finding in found if finding.verdict == worst(each.verdict for each in found))
    reasons = [finding.reason for finding in found if first.verdict == PASS or finding.verdict != PASS]
    return [replace(first, reason="; ".join(reasons)[:900])]


def _finding(verdict: str, measured: Value, expected: Value, unit: str, why: str) -> Finding:
    return Finding(NAME, "host", verdict, measured, expected, unit, why, "none" if verdict == PASS else "investigate")


def _warmth(air: Airflow, inlet: str, sensors: Sequence[Sensor]) -> Iterator[Finding]:
    outlet, limit, unit = stated(air.outlet), air.rise_celsius, "C above the inlet"
    cold, warm = temperature_of(sensors, inlet), temperature_of(sensors, outlet)
    if cold is None or warm is None:
        silent = " and ".join(name for name, told in ((inlet, cold), (outlet, warm)) if told is None)
        yield _finding(INCOMPLETE, None, limit, unit, f"no temperature of {silent}")
        return
    rise, said = round(warm - cold, 1), f"{inlet} {cold:g} C, {outlet} {warm:g} C"
    if rise < -_COLDER_CELSIUS:
        yield _finding(INCOMPLETE, rise, limit, unit, f"{said}: the outlet is colder: are the sensors the right ones?")
    elif limit is not None and rise > limit:
        yield _finding(FAIL, rise, limit, unit, f"{said}: {rise:g} C warmer, class limit {limit:g} C: {_REMEDY}")
    else:
        yield _finding(PASS, rise, limit, unit, said)


def _turning(air: Airflow, sensors: Sequence[Sensor]) -> Iterator[Finding]:
    if air.fans is None:
        return
    told = fans_of(sensors)
    # Percent may be what a fan is told to do, beside what it does: it counts only where too few tell their turns.
    measured = [fan for fan in told if fan.unit == "RPM"]
    if len({fan.name for fan in measured}) >= air.fans:
        told = measured
    if not told:
        yield _finding(INCOMPLETE, None, air.fans, "fans that turn", "the BMC tells no fan's speed")
        return
    # One that is told twice is one, and turns where both say so.
    still = {fan.name for fan in told if not (fan.reading or 0) > 0}
    turning = {fan.name for fan in told} - still
    if len(turning) < air.fans:
        why = f"{', '.join(sorted(still))} without speed" if still else "the BMC tells the speed of no other"
        why = f"{len(turning)} of {air.fans} fans turn: {why}"
        yield _finding(FAIL, len(turning), air.fans, "fans that turn", why)
        return
    speeds = [fan.reading for fan in told if fan.reading and fan.unit == "RPM"]
    speed = f", {statistics.median(speeds):g} RPM in the middle" if speeds else ""
    yield _finding(PASS, len(turning), air.fans, "fans that turn", f"{len(turning)} fans turn{speed}")
