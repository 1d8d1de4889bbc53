"""Redfish documents of the BMC, read with ``curl``: health, sensors, power supplies, logs, firmware.

Schemas of DMTF DSP8010 (Thermal, Power, PowerSubsystem, PowerSupply, Sensor, ThermalSubsystem, Fan, LeakDetector,
ComputerSystem, Chassis, Manager, EthernetInterface, LogEntryCollection), as the BMCs of DGX H100, Supermicro SYS-821GE
and Dell iDRAC9 fill them. The class lists the documents to read; user and password stand in a netrc file on the host,
never in an argument. A sensor with ``State: Absent`` has no reading and is not at 0 C; the thresholds say whether high
or low is bad (a T.Limit is a margin that falls).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..formats.bmc import ABSENT, CRITICAL, NOT_DECLARED, OK, UNKNOWN, WARNING, Event, Sensor, bmc_declared
from ..host.blocks import joined, split
from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations, stated

NAME = "redfish"
TIMEOUT_SECONDS = 60.0

_READINGS = {
    "ReadingCelsius": "C",
    "ReadingVolts": "V",
    "PowerConsumedWatts": "W",
    "LineInputVoltage": "V",
    "Reading": "",
}
# Which of them a member of the list, or a document of the kind, owes.
_LINKS = {"LinkUp": OK, "Up": OK, "LinkDown": CRITICAL, "Down": CRITICAL}
_OWED = {"Temperatures": "ReadingCelsius", "Fans": "Reading", "Voltages": "ReadingVolts", "#Sensor": "Reading"}
_HEALTH = {"OK": OK, "Warning": WARNING, "Critical": CRITICAL}
# Categories of iLO's (HpeLogEntry) and iDRAC's (DellLCLogEntry) entries, and message registries of DMTF DSP8011, that
# are about jobs, users and settings.
_NO_HARDWARE = frozenset(
    (
        *("Administration", "Maintenance", "Security", "Configuration", "Firmware", "Other"),
        *("Audit", "Updates", "Work Notes", "WorkNotes"),
        *("Base", "TaskEvent", "JobEvent", "Update", "License", "HeartbeatEvent", "Security"),
    )
)
_MAC = re.compile(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}")
_NOT_THERE = ("Absent", "Disabled", "StandbyOffline", "UnavailableOffline")
# What parts say of themselves beside their health (DSP8010: LeakDetector, PowerSupply, Drive).
_SAYS: dict[str, dict[Any, str]] = {
    "DetectorState": {"OK": OK, "Warning": WARNING, "Critical": CRITICAL},
    "LineInputStatus": {"LossOfInput": CRITICAL, "OutOfRange": CRITICAL},
    "FailurePredicted": {True: CRITICAL},
    "PredictedMediaLifeLeftPercent": {0: CRITICAL},
    "StatusIndicator": {
        **dict.fromkeys(("Fail", "PredictiveFailureAnalysis", "InACriticalArray", "InAFailedArray"), CRITICAL),
        "Rebuild": WARNING,
    },
}
# (name in a Sensor, in a Thermal or Power document, whether above it is bad, what it then is)
_LIMITS = (
    ("UpperFatal", "UpperThresholdFatal", True, CRITICAL),
    ("LowerFatal", "LowerThresholdFatal", False, CRITICAL),
    ("UpperCritical", "UpperThresholdCritical", True, CRITICAL),
    ("LowerCritical", "LowerThresholdCritical", False, CRITICAL),
    ("UpperCaution", "UpperThresholdNonCritical", True, WARNING),
    ("LowerCaution", "LowerThresholdNonCritical", False, WARNING),
)


@dataclass(frozen=True)
class Documents:
    """What the documents say together.

    ``events`` is None where no log is among them. ``unread`` tells by address why a document, or the rest of a log,
    is missing. ``firmware`` is that of the BMC, ``mac`` the address of its network interface.
    """

    sensors: tuple[Sensor, ...]
    supplies: tuple[Sensor, ...]
    events: tuple[Event, ...] | None
    firmware: str | None
    unread: Mapping[str, str]
    mac: str | None = None


def collect(host: Host, expect: Expectations) -> Output:
    """Read each document that the class lists."""
    if not bmc_declared(expect, "redfish"):
        return NOT_DECLARED
    return fetched(host, expect, stated(stated(expect.bmc).redfish).documents)


def fetched(host: Host, expect: Expectations, documents: Sequence[str]) -> Output:
    """Return documents of the BMC, each under its path."""
    wanted = stated(stated(expect.bmc).redfish)
    curl = ["curl", "--silent", "--show-error", "--fail", "--max-time", "45", "--netrc-file", wanted.netrc]
    curl += ["--cacert", wanted.certificate] if wanted.certificate else []
    return joined({path: host.run((*curl, f"https://{wanted.address}{path}"), TIMEOUT_SECONDS) for path in documents})


def parse(output: Output) -> Documents | None:
    """Return what the documents say, None where the class declares no BMC behind Redfish; raises Unreadable.

    One document alone is understood as well.
    """
    if output.stdout == NOT_DECLARED.stdout:
        return None
    texts = {"document": output} if output.stdout.startswith("{") else split(output.stdout)
    if not texts or not output.stdout.startswith(("{", "==> ")):
        raise Unreadable(f"begins with {output.stdout[:40]!r}, expected a heading for each document")
    unread: dict[str, str] = {}
    sensors: list[Sensor] = []
    supplies: list[Sensor] = []
    events: list[Event] | None = None
    firmware = mac = None
    for path, answer in texts.items():
        document = _document(answer)
        if isinstance(document, str):
            unread[path] = document
            continue
        kind = str(document.get("@odata.type", "")).split(".")[0]
        if kind == "#LogEntryCollection":
            read, missing = _log(document)
            events = [*(events or []), *read]
            if missing:
                unread[path] = missing
            continue
        if kind == "#Manager":
            version = document.get("FirmwareVersion")
            firmware = version if isinstance(version, str) and version else firmware
        # The BMC's own interface answers, or nobody would read this; its others need no cable.
        if "LinkStatus" in document and "/Managers/" not in str(document.get("@odata.id")):
            sensors.append(_link(document))
        if kind == "#EthernetInterface":
            mac = mac or _mac(document)
            continue
        for place, item in _items(document, kind):
            (supplies if place in ("PowerSupplies", "#PowerSupply") else sensors).append(_sensor(place, item))
    if len(unread) == len(texts):
        raise Unreadable("; ".join(f"{path}: {why}" for path, why in unread.items())[:300])
    return Documents(tuple(sensors), tuple(supplies), None if events is None else tuple(events), firmware, unread, mac)


def _mac(document: Mapping[str, Any]) -> str | None:
    """Return the address of a BMC's interface in lower case; the host's interfaces stand below Systems."""
    address = document.get("PermanentMACAddress") or document.get("MACAddress")
    own = "/Managers/" in str(document.get("@odata.id"))
    return address.lower() if own and isinstance(address, str) and _MAC.fullmatch(address) else None


def _document(answer: Output) -> dict[str, Any] | str:
    if answer.rc != 0:
        return answer.error or f"exit status {answer.rc}: {answer.stderr}"
    try:
        document = json.loads(answer.stdout)
    except (ValueError, RecursionError) as exc:
        return f"not JSON: {exc}"
    if not isinstance(document, dict) or not isinstance(document.get("@odata.type"), str):
        return "no Redfish document: @odata.type is missing"
    return document


def _items(value: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each part that has a status of its own, with the name of the list or the document it stands in."""
    if isinstance(value, dict):
        if isinstance(value.get("Status"), dict) or place in _OWED or "DetectorState" in value:
            yield place, value
        for name, inner in value.items():
            if name not in ("Oem", "Status"):
                yield from _items(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _items(inner, place)


def _sensor(place: str, item: Mapping[str, Any]) -> Sensor:
    name = str(item.get("Name") or item.get("MemberId") or place)
    # What stands outside its place counts all the same.
    status = item["Status"] if isinstance(item.get("Status"), dict) else item
    owed = _OWED.get(place)
    key = owed or next((key for key in _READINGS if _number(item.get(key)) is not None), None)
    reading = _number(item.get(key)) if key else None
    unit = _READINGS[key] if key else ""
    if key == "Reading":
        unit = str(item.get("ReadingUnits") or ("C" if item.get("ReadingType") == "Temperature" else ""))
    if place == "#Fan":
        reading, unit = _speed(item)
    text = f"State {status.get('State')}, Health {status.get('Health')}"
    if status.get("State") in _NOT_THERE:
        return Sensor(name, ABSENT, None, unit, text)
    states = [_HEALTH.get(str(status.get(health))) for health in ("Health", "HealthRollup")]
    by_limits = _by_limits(item, reading) if reading is not None else None
    plain = {key: value for key, value in item.items() if isinstance(value, (str, bool, int))}
    said = {key: plain[key] for key, of in _SAYS.items() if key in plain and plain[key] in of}
    text += "".join(f", {key} {value}" for key, value in said.items())
    conditions = [_HEALTH.get(str(each.get("Severity"))) for each in _dicts(status.get("Conditions"))]
    own = [_SAYS[key][value] for key, value in said.items()]
    known = [state for state in (*states, *own, *conditions, by_limits) if state is not None]
    if CRITICAL in known or WARNING in known:
        return Sensor(name, CRITICAL if CRITICAL in known else WARNING, reading, unit, text)
    if (
        (states == [None, None] and not own)
        or (owed and reading is None)
        or status.get("State") not in (None, "Enabled")
    ):
        return Sensor(name, UNKNOWN, reading, unit, text)
    return Sensor(name, OK, reading, unit, text)


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _link(port: Mapping[str, Any]) -> Sensor:
    """Return the link of a port that the class lists: down is a fault, one without a cable is to be watched."""
    said = port.get("LinkStatus")
    off = port.get("InterfaceEnabled") is False or port.get("LinkState") == "Disabled"
    state = ABSENT if off else _LINKS.get(str(said), WARNING if isinstance(said, str) else UNKNOWN)
    return Sensor(f"link {port.get('Id') or port.get('Name')}", state, text=f"LinkStatus {said}")


def _speed(fan: Mapping[str, Any]) -> tuple[float | None, str]:
    """Return the speed that a Fan document of a ThermalSubsystem tells, in RPM where it does, and its unit.

    By the schema alone: none is recorded.
    """
    told = fan.get("SpeedPercent") if isinstance(fan.get("SpeedPercent"), dict) else {}
    assert isinstance(told, dict)
    turns, percent = _number(told.get("SpeedRPM")), _number(told.get("Reading"))
    return (percent, "%" if percent is not None else "") if turns is None else (turns, "RPM")


def _by_limits(item: Mapping[str, Any], reading: float) -> str | None:
    """Return what the limits make of a reading, None where there are none."""
    nested = item.get("Thresholds") if isinstance(item.get("Thresholds"), dict) else {}
    assert isinstance(nested, dict)
    seen = False
    for short, long, above, state in _LIMITS:
        inner = nested.get(short)
        limit = _number(inner.get("Reading")) if isinstance(inner, dict) else _number(item.get(long))
        # 0 as an upper limit is how some BMCs print "none".
        if limit is None or (above and limit == 0):
            continue
        seen = True
        if reading >= limit if above else reading <= limit:
            return state
    return OK if seen else None


def _log(document: Mapping[str, Any]) -> tuple[list[Event], str]:
    """Return the entries, oldest first, and what is missing of the log."""
    members = document.get("Members")
    if not isinstance(members, list):
        return [], "the log has no list of members"
    entries = [item for item in members if isinstance(item, dict) and isinstance(item.get("Message"), str)]
    missing = ""
    if len(entries) != len(members):
        missing = f"{len(members) - len(entries)} of {len(members)} log entries without a message"
    count = document.get("Members@odata.count")
    if document.get("Members@odata.nextLink") or (isinstance(count, int) and count > len(members)):
        missing = f"{len(members)} of {count} log entries: declare the following pages as documents too"
    if all(str(item.get("Id", "")).isdigit() for item in entries):
        entries.sort(key=lambda item: int(item["Id"]))
    return [_event(item) for item in entries], missing


def _event(item: Mapping[str, Any]) -> Event:
    severity = _HEALTH.get(str(item.get("Severity") or item.get("MessageSeverity")))
    time = item.get("EventTimestamp") or item.get("Created")
    dated = isinstance(time, str) and not time.startswith("1970")
    resolved = item.get("Resolved")
    # iLO's own word for it: its log has no Resolved.
    repaired = _oem(item, "Hpe").get("Repaired")
    resolved = repaired if isinstance(repaired, bool) else resolved
    message = str(item["Message"])
    # AMI's BMCs print the record's fields for a message, the event's name among them.
    told = re.search(r"\bEvent_Type : ([^,]+)", message) if message.startswith("Event_Data_1 :") else None
    return Event(
        str(item.get("Id", "")),
        str(time)[:19] if dated else None,
        f"{item.get('SensorType') or 'sensor'} {item['SensorNumber']}" if item.get("SensorNumber") is not None else "",
        told.group(1).strip() if told else message,
        not str(item.get("EntryCode", "")).startswith("Deassert"),
        severity,
        resolved if isinstance(resolved, bool) else None,
        _hardware(item),
    )


def _hardware(item: Mapping[str, Any]) -> bool | None:
    """Return whether the BMC files an entry under its hardware: by iLO's and iDRAC's categories, or the registry."""
    categories = _oem(item, "Hpe").get("Categories")
    category = _oem(item, "Dell").get("Category")
    if isinstance(categories, list) and categories:
        return not {str(name) for name in categories} <= _NO_HARDWARE
    if isinstance(category, str) and category:
        return category not in _NO_HARDWARE
    # What the BMC's own programs wrote into their system's log.
    if "/LogServices/Journal/" in str(item.get("@odata.id")):
        return False
    registry = str(item.get("MessageId", "")).partition(".")[0]
    return False if registry in _NO_HARDWARE else None


def _oem(item: Mapping[str, Any], vendor: str) -> Mapping[str, Any]:
    oem = item.get("Oem")
    own = oem.get(vendor) if isinstance(oem, dict) else None
    return own if isinstance(own, dict) else {}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
