"""``ipmitool sdr elist``: every sensor of the BMC.

Layouts of ipmitool 1.8 (lib/ipmi_sdr.c): ``name | number | status | entity | reading`` of ``sdr elist`` and
``sdr type``, ``name | reading | status`` of ``sdr list``, ``name | reading | unit | status`` and six limits of
``sensor`` (lib/ipmi_sensor.c). Status ``ns`` (with "Disabled" or "No Reading") is a sensor
that is not populated; entity 10 is a power supply (IPMI 2.0 specification, table 43-13).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..formats.bmc import ABSENT, CRITICAL, NOT_DECLARED, OK, UNKNOWN, WARNING, Sensor, bmc_declared, fault_of
from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "ipmi_sdr"
ARGV = ("ipmitool", "sdr", "elist")
TIMEOUT_SECONDS = 120.0

_STATES = {
    "ok": OK,
    "ns": ABSENT,
    **dict.fromkeys(("nc", "lnc", "unc"), WARNING),
    **dict.fromkeys(("cr", "lcr", "ucr", "nr", "lnr", "unr"), CRITICAL),
}
_READING = re.compile(r"(-?\d+(?:\.\d+)?) ([A-Za-z%].*)", re.ASCII)
_EMPTY_BAY = re.compile(r"absent|removed", re.IGNORECASE)
_LOCATOR = re.compile(r"MC @|FRU @")
_SUPPLY = re.compile(r"status|supply|^psu? ?\d+$", re.IGNORECASE)
# What a sound supply says of itself; some print its load before the states (iLO: "95 Watts, Presence detected").
_SUPPLY_STATE = re.compile(
    r"presence detected|device present|enabled|fully redundant|power supply inactive|transition to running"
    r"|-?\d+(?:\.\d+)? (?:watts|percent|amps|volts)",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True)
class Sensors:
    """All sensors, and among them the power supplies' own, in the order of entity and name."""

    sensors: tuple[Sensor, ...]
    supplies: tuple[Sensor, ...]


def collect(host: Host, expect: Expectations) -> Output:
    """Ask the host's BMC through the kernel's driver."""
    return host.run(ARGV, TIMEOUT_SECONDS) if bmc_declared(expect, "ipmitool") else NOT_DECLARED


def parse(output: Output) -> Sensors | None:
    """Return the sensors, None where the class declares no BMC behind ipmitool; raises Unreadable."""
    if output.stdout == NOT_DECLARED.stdout:
        return None
    require_success(output)
    # One that is listed twice, number and entity and all, is one.
    lines = [line for line in dict.fromkeys(output.stdout.splitlines()) if line.strip()]
    if not lines or not output.stdout.endswith("\n"):
        raise Unreadable(f"ends with {output.stdout[-40:]!r}, expected whole lines")
    sensors: list[Sensor] = []
    seen: set[tuple[str, ...]] = set()
    supplies: list[tuple[tuple[int, ...], Sensor]] = []
    for line in lines:
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 5:
            name, _, status, entity, text = fields
        elif len(fields) == 3:
            (name, text, status), entity = fields, ""
        elif len(fields) == 10:
            (name, text, status), entity = _with_limits(fields), ""
        else:
            raise Unreadable(f"line {line[:80]!r}, expected five columns")
        if _LOCATOR.search(text):
            continue
        if len(fields) == 5:
            if (name, fields[1], entity) in seen:
                raise Unreadable(f"sensor {name} ({fields[1]}, entity {entity}) is listed twice, with two readings")
            seen.add((name, fields[1], entity))
        sensor = _sensor(name, status, text)
        sensors.append(sensor)
        if _is_supply(name, entity, text):
            numbers = tuple(int(number) for number in re.findall(r"\d+", entity or name))
            supplies.append((numbers, _supply(sensor)))
    return Sensors(tuple(sensors), tuple(sensor for _, sensor in sorted(supplies, key=lambda pair: pair[0])))


def _with_limits(fields: list[str]) -> tuple[str, str, str]:
    """Return name, reading and status of a line of ``ipmitool sensor``."""
    name, reading, unit, status = fields[:4]
    if reading == "na":
        return name, "No Reading", "ns" if status == "na" else status
    # A sensor of states has a mask of them in place of its status. What its bits mean only the type of sensor tells.
    return (name, f"states {status}", unit) if unit == "discrete" else (name, f"{reading} {unit}", status)


def _sensor(name: str, status: str, text: str) -> Sensor:
    state = _STATES.get(status, UNKNOWN)
    match = _READING.fullmatch(text)
    if match:
        unit = "C" if match.group(2) == "degrees C" else match.group(2)
        return Sensor(name, state, float(match.group(1)), unit, text)
    # A state sensor reports "ok" whatever its state is; one whose reading failed has no state at all.
    # What a state asserted means, or "Low", its name tells; an empty bay is no fault.
    if state in (OK, WARNING) and (fault_of(text) or (fault_of(text, name) and not _EMPTY_BAY.search(text))):
        state = CRITICAL
    elif state == OK and text in ("No Reading", "Disabled", "Not Readable", "Unknown", "na"):
        state = ABSENT
    return Sensor(name, state, None, "", text)


def _is_supply(name: str, entity: str, text: str) -> bool:
    if _READING.fullmatch(text) or (entity and not entity.startswith("10.")):
        return False
    if not entity:
        return bool(re.match(r"ps|power supply", name, re.IGNORECASE) and _SUPPLY.search(name))
    return "resence detected" in text or bool(_SUPPLY.search(name))


def _supply(sensor: Sensor) -> Sensor:
    if sensor.state == OK and "resence detected" not in sensor.text:
        # No state is asserted, not even that it is there; a hexadecimal mask tells us nothing.
        return Sensor(sensor.name, UNKNOWN if sensor.text else ABSENT, text=sensor.text)
    if sensor.state == OK and not all(_SUPPLY_STATE.fullmatch(state.strip()) for state in sensor.text.split(",")):
        return Sensor(sensor.name, UNKNOWN, text=sensor.text)
    return sensor
