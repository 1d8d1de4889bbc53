"""Is the air that the host takes in cool enough?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..formats.bmc import temperature_of
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "inlet_temperature"
RULES = 2
PROBES: tuple[str, ...] = ()
# The one that the class does not declare has no value; without a value of either no part is judged.
OPTIONAL_PROBES: tuple[str, ...] = ("ipmi_sdr", "redfish")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host where the class names the sensor."""
    return ["host"] if expect.bmc and expect.bmc.inlet else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare the sensor that the class names; every host's number stands in its finding for a look at the rack."""
    source = values.get("ipmi_sdr") or values.get("redfish")
    if source is None:
        return []
    wanted = stated(stated(expect.bmc).inlet)
    name, limit = wanted.sensor, wanted.limit_celsius
    reading = temperature_of(source.sensors, name)
    if reading is None:
        why = f"sensor {name} has no temperature"
        return [Finding(NAME, "host", INCOMPLETE, None, limit, "C", why, "investigate")]
    if reading > limit:
        why = f"{name} above the class limit: check the neighbours, the blanking panels and the cooling"
        return [Finding(NAME, "host", FAIL, reading, limit, "C", why, "investigate")]
    return [Finding(NAME, "host", PASS, reading, limit, "C", name)]
