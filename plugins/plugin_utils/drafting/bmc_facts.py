"""What a host's BMC says of its class: how it is asked, its sensors, power supplies and firmware.

What its log may hold is a limit that no good host tells, and is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.formats.bmc import (
    ABSENT,
    OK,
    UNKNOWN,
    Sensor,
    fans_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.blocks import split
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Unreadable
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.probe_values import ProbeValues

# NVIDIA's "TEMP_AMBIENT" and HPE's "01-Inlet Ambient", beside which others are inside the host; else "Inlet Temp".
_INLETS = tuple(re.compile(name, re.IGNORECASE) for name in ("ambient", "inlet"))
# NVIDIA's "TEMP_MB_OUTLET"; iDRACs' and others' "Exhaust Temp".
_OUTLETS = (re.compile("exhaust|outlet", re.IGNORECASE),)
# RFC 2606: such a name is never found, so that a BMC which nobody has declared is asked in vain.
UNTOLD_ADDRESS = "bmc.invalid"
UNTOLD_NETRC = "/etc/muster/bmc"
_SILENT = (ABSENT, UNKNOWN)
# From which limit on a temperature is no longer normal: name in a Sensor, in a Thermal document.
_LIMITS = (("UpperCaution", "UpperThresholdNonCritical"), ("UpperCritical", "UpperThresholdCritical"))


def bmc_facts(seen: ProbeValues) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the keys of section bmc, and firmware.bmc_version; and by key why something could not be read."""
    values: dict[str, Any] = {}
    unseen: dict[str, str] = {}
    try:
        interface, source = _source(seen)
    except Unreadable as exc:
        return {}, {"bmc": str(exc)}
    values["bmc.interface"] = interface
    if interface == "redfish":
        documents = list(split(seen.collected.outputs["redfish"].stdout))
        where = {"address": UNTOLD_ADDRESS, "netrc": UNTOLD_NETRC}
        values["bmc.redfish"] = {**where, "certificate": None, "documents": documents}
    unseen["bmc.log"] = "what a log may hold no good host tells: declare since and correctable_ecc_events"
    missing = getattr(source, "unread", {})
    for key, count in (("sensors", _live(source.sensors)), ("power_supplies", _supplies(source.supplies))):
        if missing or not count:
            why = "; ".join(f"{path}: {reason}" for path, reason in missing.items())
            unseen[f"bmc.{key}"] = why or f"the BMC shows no {key.replace('_', ' ')}, or one that is not well"
        else:
            values[f"bmc.{key}.count"] = count
    try:
        values["bmc.inlet.sensor"] = name = _named(source.sensors, _INLETS, "comes in")
        limit = _limit(seen, name) if interface == "redfish" else None
        if limit is not None:
            values["bmc.inlet.limit_celsius"] = limit
    except Unreadable as exc:
        unseen["bmc.inlet"] = str(exc)
    try:
        values["bmc.airflow.outlet"] = _named(source.sensors, _OUTLETS, "leaves")
    except Unreadable as exc:
        unseen["bmc.airflow.outlet"] = str(exc)
    if turning := sum(bool(fan.reading) for fan in fans_of(source.sensors)):
        values["bmc.airflow.fans"] = turning
    else:
        unseen["bmc.airflow.fans"] = "the BMC tells no fan's speed"
    try:
        version = source.firmware if interface == "redfish" else seen.value("ipmi_mc")
        if version is None:
            raise Unreadable("no Manager is among the Redfish documents")
        values["firmware.bmc_version"] = version
    except Unreadable as exc:
        unseen["firmware.bmc_version"] = str(exc)
    return values, unseen


def _source(seen: ProbeValues) -> tuple[str, Any]:
    """Return the interface by which the BMC answered, and what it said; raises Unreadable where neither was asked."""
    try:
        return "ipmitool", seen.value("ipmi_sdr")
    except Unreadable as exc:
        why = str(exc)
    try:
        return "redfish", seen.value("redfish")
    except Unreadable as exc:
        raise Unreadable(f"{why}; {exc}") from exc


def _live(sensors: Sequence[Sensor]) -> int:
    return sum(sensor.state not in _SILENT for sensor in sensors)


def _supplies(supplies: Sequence[Sensor]) -> int:
    """Return how many are present, 0 unless all of these are well and come first, as they are counted."""
    present = sum(supply.state != ABSENT for supply in supplies)
    return present if all(supply.state == OK for supply in supplies[:present]) else 0


def _named(sensors: Sequence[Sensor], ways: Sequence[re.Pattern[str]], where: str) -> str:
    """Return the one sensor that is named in the first of these ways of which any is; raises Unreadable."""
    warm = [sensor for sensor in sensors if sensor.unit == "C" and sensor.reading]
    names = sorted({sensor.name for sensor in warm if sensor.state not in _SILENT})
    found = next((at for way in ways if (at := list(filter(way.search, names)))), [])
    if len(found) != 1:
        raise Unreadable(f"sensors of the air that {where}: {', '.join(found) or 'none'}, expected one")
    return found[0]


def _limit(seen: ProbeValues, name: str) -> float | None:
    """Return the temperature in degrees C from which on the BMC itself calls a sensor's reading not normal."""
    text = seen.collected.outputs["redfish"].stdout
    answers = [text] if text.startswith("{") else [answer.stdout for answer in split(text).values()]
    for answer in answers:
        try:
            items = [item for item in _items(json.loads(answer)) if item.get("Name") == name]
        except ValueError:
            continue
        for item in items:
            nested = item.get("Thresholds") if isinstance(item.get("Thresholds"), dict) else {}
            for short, long in _LIMITS:
                inner = (nested or {}).get(short)
                limit = inner.get("Reading") if isinstance(inner, dict) else item.get(long)
                # 0 is how some BMCs print "none".
                if isinstance(limit, (int, float)) and not isinstance(limit, bool) and limit > 0:
                    return limit
    return None


def _items(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _items(inner)
