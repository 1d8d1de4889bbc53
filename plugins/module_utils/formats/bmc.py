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

    ``time`` is the BMC's own clock as ``2015-01-27T11:31:21``, None before that clock was set. ``sensor`` begins with
    the sensor's type where the BMC tells one ("Power Supply PS2 Status"). ``severity`` and ``resolved`` are None where
    the log has no such field (IPMI).
    """

    id: str
    time: str | None
    sensor: str
    text: str
    asserted: bool = True
    severity: str | None = None
    resolved: bool | None = None
    # Whether the BMC files the entry under its hardware; None where it does not say.
    hardware: bool | None = None


@dataclass(frozen=True)
class Fault:
    """What is wrong by the log: the part ("bmc" where no other can be named), why, and what has to be done."""

    part: str
    why: str
    action: str


_WATCHED, _GOOD, _NOTHING = "watch", "good", ""


def _table(*rows: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), meaning) for pattern, meaning in rows)


# Event and state names of the IPMI 2.0 specification, tables 42-2 and 42-3, as ipmitool (lib/ipmi_sel.c) and BMCs spell
# them: what each asks for. Those that mean the same for every type of sensor; the first that fits counts.
_ANY_TYPE = _table(
    # States that say that there is nothing, and the ends of others; their names hold those of the faults.
    (r"deasserted$|limit not exceeded|performance met|transition to ok|device (?:inserted|enabled)", _GOOD),
    (r"(?<!not )fully redundant|(?:are|is) redundant|operating normally|(?:has|have) been restored", _GOOD),
    (r"returned? to (?:a )?normal|status changed to ok", _GOOD),
    (r"sufficient from insufficient", _WATCHED),
    (r"transition to (?:running|on ?line)", _GOOD),
    (r"transition to (?:idle|active|busy|in test|power save)", _NOTHING),
    (r"(?<!non-)uncorrectable (?:ecc|memory)|uncorrectable error.*dimm", "replace"),
    (r"memory scrub failed|memory device disabled|correctable (?:ecc|memory error).*logging limit reached", "replace"),
    (r"failure detected|predictive (?:failure|fault)|drive fault|in (?:critical|failed) array", "replace"),
    (r"rebuild/remap aborted|rebuild aborted|install error", "investigate"),
    (r"ac lost|(?:ac|input) out-of-range|input (?:power )?(?:is |was )?(?:lost|loss)|unplugged power", "investigate"),
    (r"(?<!non-)critical going|\b(?:lower|upper) critical|non-recoverable", "investigate"),
    (r"over-?temperature|limit exceeded", "investigate"),
    (r"transition to (?:critical|non-recoverable|degraded)", "investigate"),
    (
        r"redundancy (?:is )?(?:lost|degraded)|not redundant|non-redundant: (?:insuff|sufficient from red)",
        "investigate",
    ),
    (r"(?:\b|_)(?:ierr|cat ?err|therm(?:al)?[ _]?trip)\b|fatal nmi|\bfrb[123]\b", "investigate"),
    (r"(?<!correctable )machine check|\b[ps]err\b", "investigate"),
    (r"bus (?:fatal|uncorrectable) error|uncorrectable cpu|config(?:uration)? error|power unit failure", "investigate"),
    (r"(?<!no )\buncorrectable", "investigate"),
    (r"undetermined system hardware failure|fru failure", "investigate"),
    (r"presence detected|(?:device|drive|slot).{0,20} (?:presen(?:t|ce)|installed)", _GOOD),
    (r"supply (?:is )?installed|cable/interconnect is connected", _GOOD),
    (r"(?<!no )\bleak\w* ?(?:was |is )?detected|(?:\b|_)leak\w*.*\bstate asserted", "investigate"),
    (r"correctable|going (?:low|high)|intrusion|critical stop|watchdog|panic|timer expired|throttled", _WATCHED),
    (r"transition to|performance lags|device (?:removed|disabled)|state asserted|sensor failure", _WATCHED),
    (r"log (?:almost )?full|logging disabled", _WATCHED),
    # What a maker records in bytes of its own: somebody has to read it.
    (r"^oem record ", _WATCHED),
    (r"communication lost", "investigate"),
)
# Types of sensors and makers' own names that are not above: a fault and a failure are called so by all of them. So are
# those of jobs and of the BMC's programs, which are no hardware.
_CALLED_FAULT = re.compile(r"(?<!no )\b(?:fault|fail(?!-)|failed|failure)\b", re.IGNORECASE)
# By the type of the sensor, for names that say too little without it.
_BY_TYPE = tuple(
    (re.compile(kind, re.IGNORECASE), table)
    for kind, table in (
        (
            r"processor",
            _table((r"^disabled", "investigate"), (r"(?:cat ?err|therm ?trip).*state asserted", "investigate")),
        ),
        (r"power supply", _table((r"removed|absent", "investigate"), (r"inactive", _WATCHED))),
        (r"fan|cooling", _table((r"removed|absent|off ?line", "investigate"))),
        (r"power unit", _table((r"240va|control failure|failure", "investigate"), (r"power (?:off|cycle)", _NOTHING))),
        (r"memory", _table((r"^parity", "replace"), (r"critical over-?temp", "investigate"), (r"^spare\b", _WATCHED))),
        (r"drive", _table((r"rebuild.*in progress|hot spare|consistency", _WATCHED))),
        (
            r"system firmware",
            _table((r"progress", _NOTHING), (r"error|failure|hang|corrupt|no (?:\w+ )*memory", "investigate")),
        ),
        (r"event logging", _table((r"correctable memory error logging disabled", "replace"))),
        (
            r"critical interrupt",
            _table(
                (r"front panel|software nmi|bus correctable", _WATCHED),
                (r"time-?out|channel check|fail-?safe|uncorrectable|fatal|degraded", "investigate"),
            ),
        ),
        (r"slot|connector", _table((r"fault", "investigate"))),
        (r"cable", _table((r"incorrect", "investigate"))),
        (r"battery", _table((r"\blow\b|failed", "replace"))),
        (r"management subsystem", _table((r"degraded|unavailable|off-?line|failure", _WATCHED))),
        (r"boot error|watchdog|os (?:critical )?stop", _table((r".", _WATCHED))),
        (r"oem record", _table((r".", _WATCHED))),
        (r"entity presence", _table((r"absent|disabled", _WATCHED))),
        (r"button|system acpi|os boot|platform alert|version change|session audit", _table((r".", _NOTHING))),
    )
)
# Judged where the state itself is read: a port that lost its link, a temperature that was not there for a while
# (bmc_sensors asks for those that must read).
_ELSEWHERE = re.compile(
    r"\blinks? (?:is )?(?:down|lost|failure)|connectivity status|lan heartbeat|\btemp\w*\b.*is not present",
    re.IGNORECASE,
)
# States that a part is in while all is well: their end is a fault. The end of any other good state says nothing.
_HELD = re.compile(r"presen|redundant|installed|connected", re.IGNORECASE)
# What an HGX board's BMC logs as an error and is none, or is judged elsewhere: a power cap at full load, a bus of the
# BMC itself that has a second one, driver messages whose authority is the kernel log of the current boot.
_BENIGN = re.compile(r"SWPowerCap|Failover to Redundant Interface|Driver Event Message", re.IGNORECASE)
_CLEARED = re.compile(r"log area reset/cleared|log cleared", re.IGNORECASE)
_CORRECTABLE = re.compile(r"(?<!un)correctable (?:ecc|memory)", re.IGNORECASE)
_MEMORY_FAULT = re.compile(r"\becc\b|\bmemory\b", re.IGNORECASE)
_PART = re.compile(
    r"\b(?:PSU?|Power Supply|Fan|DIMM|Drive|Disk|CPU|Processor|GPU|Slot|Bay)[ ._#-]*\d\w*", re.IGNORECASE
)
_DIMM = re.compile(r"(?:CPU ?\d+[ _]?)?DIMM[ _#]*\w+", re.IGNORECASE)


def fault_of(text: str, sensor: str = "", hardware: bool | None = None) -> str | None:
    """Return the action that a state or event asks for by its name and its sensor's type, None if it is no fault.

    ``hardware`` is what the BMC says of the entry (``Event.hardware``).
    """
    meaning = _meaning(text, sensor, hardware)
    return meaning if meaning not in (None, _WATCHED, _GOOD, _NOTHING) else None


def _meaning(text: str, sensor: str = "", hardware: bool | None = None) -> str | None:
    """Return what a name of an event asks for, None for one that is not known."""
    # A limit is left on the side on which it was crossed.
    if re.search(r"\bupper\b.*going low|\blower\b.*going high", text, re.IGNORECASE):
        return _WATCHED
    tables = [table for kind, table in _BY_TYPE if kind.match(sensor)]
    rows = [row for table in (*tables, _ANY_TYPE) for row in table]
    said = f"{sensor} {text}" if "state asserted" in text.lower() else text
    known = next((meaning for pattern, meaning in rows if pattern.search(said)), None)
    return "investigate" if known is None and hardware is not False and _CALLED_FAULT.search(text) else known


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
        place = event.sensor or _part(event.text)
        key = (place, _name(event.text))
        kind = _kind(event)
        if kind == "good":
            # A part that is back, or whole again; a log that names none closes nothing by it.
            for other in [other for other in active if place and other[0] == place and not _lasting(active[other])]:
                fault = active.pop(other)
                if _meaning(other[1], place) != _GOOD:
                    watched.append(f"{fault.why} (over)")
        elif kind == "over":
            if (
                active.pop(key, None)
                or fault_of(event.text, event.sensor, event.hardware)
                or event.severity == CRITICAL
            ):
                watched.append(f"{said} (over)")
        elif kind == "correctable":
            part = _dimm(event)
            correctable[part] = correctable.get(part, 0) + 1
        elif kind == "fault":
            part = _dimm(event) if _MEMORY_FAULT.search(said) else "bmc"
            active[key] = Fault(part, said, fault_of(event.text, event.sensor, event.hardware) or "investigate")
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
    meaning = _meaning(event.text, event.sensor, event.hardware)
    action = fault_of(event.text, event.sensor, event.hardware)
    if meaning == _GOOD:
        return "good" if event.asserted else "fault" if _HELD.search(event.text) else ""
    # An uncorrectable memory error does not end with its state.
    lasting = action == "replace" and _MEMORY_FAULT.search(f"{event.sensor} {event.text}")
    if not event.asserted or event.resolved:
        return "" if lasting else "over"
    if _BENIGN.search(event.text):
        return "watch"
    if _CORRECTABLE.search(event.text) and action is None:
        return "correctable"
    if action:
        return "fault"
    serious = event.severity in (WARNING, CRITICAL)
    # What the BMC does not file under hardware (jobs, logins, licences) says nothing of the host's parts.
    if serious and (event.hardware is False or _ELSEWHERE.search(event.text)):
        return "watch"
    # Critical and of no known kind, or a warning that the BMC itself holds open on its hardware.
    if event.severity == CRITICAL or (serious and event.hardware and event.resolved is False):
        return "fault"
    return "watch" if serious or meaning == _WATCHED else ""


def _lasting(fault: Fault) -> bool:
    return fault.action == "replace" and fault.part != "bmc"


def _part(text: str) -> str:
    """Return the part that a text names, "" where it names none."""
    if "redundan" in text.lower():
        match = re.search(r"power|fan|cooling", text, re.IGNORECASE)
        return f"redundancy {match.group().lower()}" if match else ""
    match = _PART.search(text)
    return re.sub(r"[\W_]+", " ", match.group()).lower() if match else ""


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
