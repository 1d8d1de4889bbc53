"""The RDMA device of each rail among those that were read, found by what the host calls it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..host.rail_names import NamedRail, Names, no_device
from ..nic.declared_nics import named_rails
from ..probes.infiniband import Device
from ..words.expectations import Expectations


def rail_devices(values: Mapping[str, Any], expect: Expectations) -> list[tuple[NamedRail, Device | str]]:
    """Return each rail of the class with its device, or with why it has none.

    ``values`` are those of the probes ``infiniband`` and ``rail_names``.
    """
    devices: Mapping[str, Device] = values["infiniband"]
    names: Names = values["rail_names"]
    return [(rail, _device(rail, names, devices)) for rail in named_rails(expect, names)]


def _device(rail: NamedRail, names: Names, devices: Mapping[str, Device]) -> Device | str:
    if rail.device is None:
        return no_device(rail, names)
    return devices.get(rail.device) or f"{rail} is not among the {len(devices)} RDMA devices that were read"
