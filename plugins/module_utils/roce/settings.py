"""What one RoCE port of a host has to be set to, as the fleet's declaration gives it to the node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..expectations import PCI_ADDRESS, ROCE_PORT, TEXT, Nullable, check_kind

# What only the single port has.
_OWN = {"device": TEXT, "address": Nullable(PCI_ADDRESS), "interface": Nullable(TEXT), "ip": Nullable(TEXT)}


@dataclass(frozen=True)
class PortSettings:
    """Wanted state of one rail's port, by the backend ``doca`` (mlnx_qos, vendor sysfs) or ``inbox`` (dcb, configfs).

    ``device`` is the RDMA device, known by its PCI ``address`` where the class declares one; ``interface`` is its
    network interface, None where it is to be looked up in sysfs; ``ip`` has its prefix length. ``dscp_priority`` maps
    every declared DSCP to its priority (trust is by DSCP). ``cm_tos`` is the ToS byte that RDMA-CM gives new queue
    pairs. ``traffic_class`` is the device-wide ToS byte, which overrides every queue pair's own: None means unset.
    With ``dcqcn`` on notification and reaction point are enabled on every declared priority and no other, off on
    none; None leaves it to the NIC's firmware. Without any DSCP the port is of best effort: what a device does with
    priorities is neither set nor read.
    """

    device: str
    address: str | None
    interface: str | None
    ip: str | None
    backend: str
    mtu_bytes: int
    dscp_priority: Mapping[int, int]
    lossless_priorities: tuple[int, ...]
    dcqcn: bool | None
    cnp_dscp: int | None
    cnp_priority: int | None
    cm_tos: int
    traffic_class: int | None
    rings: Mapping[str, int] | None
    buffers: Mapping[str, Any] | None

    @classmethod
    def from_dict(cls, data: Any, key: str = "") -> PortSettings:
        """Return the settings in ``data``; raises ExpectationError naming the key (below ``key``)."""
        check_kind(data, {**_OWN, **ROCE_PORT}, key)
        taken = dict(data)
        taken["dscp_priority"] = {each["dscp"]: each["priority"] for each in data["dscp_priority"]}
        taken["lossless_priorities"] = tuple(data["lossless_priorities"])
        return cls(**taken)

    @classmethod
    def from_json(cls, text: str) -> PortSettings:
        """Return the settings of a file in ``/etc/muster/roce``; raises ExpectationError or ValueError."""
        return cls.from_dict(json.loads(text))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data that ``from_dict`` reads back."""
        data = asdict(self)
        data["dscp_priority"] = [{"dscp": key, "priority": value} for key, value in sorted(self.dscp_priority.items())]
        data["lossless_priorities"] = list(self.lossless_priorities)
        return data
