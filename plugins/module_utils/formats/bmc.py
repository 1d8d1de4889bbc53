"""What a BMC says, whichever way it is asked: sensors, power supplies and the events of its log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..host.host import Output
from ..words.expectations import Expectations

# What a probe gives where the class declares the other interface, or no BMC.
NOT_DECLARED = Output("not declared by the class\n")

OK, WARNING, CRITICAL = "ok", "warning", "critical"
# Not populated: neither a fault nor a measurement. UNKNOWN: should have a reading and has none that is understood.
ABSENT, UNKNOWN = "absent", "unknown"
_SILENT = (ABSENT, UNKNOWN)
# ipmitool's, that of Redfish's Thermal, and that of its Sensor (UCUM).
_PERCENT = ("percent", "Percent", "%")


@dataclass(frozen=True)
class Sensor:
    """One sensor, or the health that a BMC sums up for one part; ``text`` is its reading as the BMC prints it."""

    name: str
    state: str
    reading: float | None = None
    unit: str = ""
    text: str = ""


@dataclass(frozen=True)
class Event:
    """One entry of the log, in the order of the log.

    ``time`` is the BMC's own clock as ``2015-01-27T11:31:21``, None before that clock was set. ``severity`` and
    ``resolved`` are None where the log has no such field (IPMI).
    """

    id: str
    time: str | None
    sensor: str
    text: str
    asserted: bool = True
    severity: str | None = None
    resolved: bool | None = None


@dataclass(frozen=True)
class Fault:
    """What is wrong by the log: the part ("bmc" where no other can be named), why, and what has to be done."""

    part: str
    why: str
    action: str


# Event and state names of the IPMI 2.0 specification, tables 42-2 and 42-3, as ipmitool spells them.
_FAULTS = tuple(
    (re.compile(pattern, re.IGNORECASE), action)
    for pattern, action in (
        (
            r"uncorrectable (?:ecc|memory)|uncorrectable error.*dimm|memory scrub failed|memory device disabled",
            "replace",
        ),
        (r"correctable (?:ecc|memory error) logging limit reached", "replace"),
        (r"failure detected|predictive failure|drive fault|in (?:critical|failed) array", "replace"),
        (r"ac lost|ac out-of-range|out-of-range, but present|power supply input lost", "investigate"),
        (
            r"(?<!non-)critical going|\b(?:lower|upper) critical|non-recoverable|critical over-?temperature",
            "investigate",
        ),
        (r"transition to (?:critical|non-recoverable)", "investigate"),
        (r"redundancy (?:lost|degraded)|non-redundant: insufficient", "investigate"),
        (r"\bierr\b|\bcat ?err\b|thermal trip|\bfrb[123]\b|machine check|\b[ps]err\b", "investigate"),
        (r"bus (?:fatal|uncorrectable) error|configuration error|config error|power unit failure", "investigate"),
    )
)
_WATCH = re.compile(
    r"correctable|going (?:low|high)|intrusion|critical stop|watchdog|panic|timer expired", re.IGNORECASE
)
# A state that is good while it is asserted: its end is the fault.
_GOOD = re.compile(r"presence detected|device present|drive present|fully redundant", re.IGNORECASE)
# What an HGX board's BMC logs as an error and is none, or is judged elsewhere: a power cap at full load, a bus of the
# BMC itself that has a second one, driver messages whose authority is the kernel log of the current boot.
_BENIGN = re.compile(r"SWPowerCap|Failover to Redundant Interface|Driver Event Message", re.IGNORECASE)
_CLEARED = re.compile(r"log area reset/cleared|log cleared", re.IGNORECASE)
_CORRECTABLE = re.compile(r"(?<!un)correctable (?:ecc|memory)", re.IGNORECASE)
_MEMORY_FAULT = re.compile(r"\becc\b|\bmemory\b", re.IGNORECASE)
_DIMM = re.compile(r"(?:CPU ?\d+[ _]?)?DIMM[ _#]*\w+", re.IGNORECASE)


def fault_of(text: str) -> str | None:
    """Return the action that a state or event asks for by its name, None if it is no fault."""
    return next((action for pattern, action in _FAULTS if pattern.search(text)), None)


def bmc_declared(expect: Expectations, interface: str) -> bool:
    """Say whether the class declares a BMC that is asked through ``interface``."""
    return expect.bmc is not None and expect.bmc.interface == interface


def temperature_of(sensors: Sequence[Sensor], name: str) -> float | None:
    """Return what the sensors of this name read at most, in degrees C; None where none measures."""
    found = [item for item in sensors if item.name == name and item.state not in _SILENT and item.unit == "C"]
    readings = [item.reading for item in found if item.reading is not None]
    # 0 C is what some BMCs show while they do not measure.
    return max(readings) if readings and min(readings) > 0 else None


def fans_of(sensors: Sequence[Sensor]) -> list[Sensor]:
    """Return the fans whose speed is told, 0 of those that stand still, in revolutions per minute or percent.

    Percent are of a fan where its name says so: iDRACs tell by it how busy CPU and memory are.
    """
    told = [item for item in sensors if item.state not in _SILENT and item.reading is not None]
    return [item for item in told if item.unit == "RPM" or (item.unit in _PERCENT and "fan" in item.name.lower())]


def faults_in(events: Sequence[Event], since: str | None, correctable_limit: int) -> tuple[list[Fault], list[str]]:
    """Return the faults that the log leaves open, and what is to be watched.

    Only what came after the log was last cleared counts, and of that what is not dated before ``since`` (an event
    without a date counts). A state that was left again (deasserted, resolved) is no open fault, but worth watching; an
    uncorrectable memory error stays one.
    """
    # By part and text: what is open now.
    active: dict[tuple[str, str], Fault] = {}
    watched: list[str] = []
    correctable: dict[str, int] = {}
    for event in _counting(events, since):
        said = f"{event.sensor}: {event.text}" if event.sensor else event.text
        key = (event.sensor, _name(event.text))
        kind = _kind(event)
        if kind == "good":
            for other in [other for other in active if other[0] == event.sensor]:
                del active[other]
        elif kind == "over":
            if active.pop(key, None) or fault_of(event.text) or event.severity == CRITICAL:
                watched.append(f"{said} (over)")
        elif kind == "correctable":
            part = _dimm(event)
            correctable[part] = correctable.get(part, 0) + 1
        elif kind == "fault":
            part = _dimm(event) if _MEMORY_FAULT.search(said) else "bmc"
            active[key] = Fault(part, said, fault_of(event.text) or "investigate")
        elif kind == "watch":
            watched.append(said)
    for part, count in correctable.items():
        if count > correctable_limit:
            why = f"{count} correctable ECC events, class limit {correctable_limit}"
            active[part, "correctable"] = Fault(part, why, "replace")
        else:
            watched.append(f"{part}: {count} correctable ECC events")
    return list(active.values()), list(dict.fromkeys(watched))


def _kind(event: Event) -> str:
    """Return what an event is: ``fault``, ``correctable``, ``watch``, ``good``, ``over`` (a state that ended) or ""."""
    action = fault_of(event.text)
    if _GOOD.search(event.text) and action is None:
        return "good" if event.asserted else "fault"
    # An uncorrectable memory error does not end with its state.
    lasting = action == "replace" and _MEMORY_FAULT.search(f"{event.sensor} {event.text}")
    if not event.asserted or event.resolved:
        return "" if lasting else "over"
    if _BENIGN.search(event.text):
        return "watch"
    if _CORRECTABLE.search(event.text) and action is None:
        return "correctable"
    if action or event.severity == CRITICAL:
        return "fault"
    return "watch" if event.severity == WARNING or _WATCH.search(event.text) else ""


def _counting(events: Sequence[Event], since: str | None) -> list[Event]:
    cleared = [index for index, event in enumerate(events) if _CLEARED.search(event.text)]
    kept = events[cleared[-1] :] if cleared else events
    return [event for event in kept if since is None or event.time is None or event.time >= since]


def _name(text: str) -> str:
    """Return an event's name without the values that follow it, which differ between its begin and its end."""
    return re.split(r" \(| \| | reading ", text, maxsplit=1, flags=re.IGNORECASE)[0].strip().lower()


def _dimm(event: Event) -> str:
    match = _DIMM.search(event.text) or _DIMM.search(event.sensor)
    if match:
        return f"dimm {match.group()}"
    # "Correctable ECC (CPU0_G1)", or no more than the sensor.
    inside = re.search(r"\(([^()|]+)\)", event.text)
    return f"dimm {inside.group(1).strip() if inside else event.sensor or 'unnamed'}"
