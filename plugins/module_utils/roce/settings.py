"""What one RoCE port of a host has to be set to, as the fleet's declaration gives it to the node."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ..words.expectations import Rail, RocePort
from ..words.reader import Text, plain, read


@dataclass(frozen=True)
class PortSettings(RocePort, Rail):
    """Wanted state of one rail's port, by the backend ``doca`` (mlnx_qos, vendor sysfs) or ``inbox`` (dcb, configfs).

    ``ip`` has its prefix length. Trust is by DSCP.
    ``cm_tos`` is the ToS byte that RDMA-CM gives new queue pairs. ``traffic_class`` is the device-wide ToS byte, which
    overrides every queue pair's own: None means unset. With ``dcqcn`` on notification and reaction point are enabled on
    every declared priority and no other, off on none; None leaves it to the NIC's firmware. Without any DSCP the port
    is of best effort: what a device does with priorities is neither set nor read.
    """

    # Read at run time, by Python 3.9 too.
    ip: Optional[Text]  # noqa: UP045

    @property
    def priorities(self) -> dict[int, int]:
        """Return the priority of every declared DSCP."""
        return {each.dscp: each.priority for each in self.dscp_priority}

    @classmethod
    def from_dict(cls, data: Any, key: str = "") -> PortSettings:
        """Return the settings in ``data``; raises ReadError naming the key (below ``key``)."""
        return read(cls, data, key)

    @classmethod
    def from_json(cls, text: str) -> PortSettings:
        """Return the settings of a file in ``/etc/muster/roce``; raises ReadError or ValueError."""
        return cls.from_dict(json.loads(text))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data that ``from_dict`` reads back."""
        data: dict[str, Any] = plain(self)
        data["dscp_priority"] = [{"dscp": key, "priority": value} for key, value in sorted(self.priorities.items())]
        return data


def settings_of(ports: Sequence[Mapping[str, Any]]) -> list[PortSettings]:
    """Return the settings of ports as lookup ``roce_ports`` gives them; raises ReadError."""
    return [
        PortSettings.from_dict({key: value for key, value in port.items() if key != "gateway"}, f"ports[{n}]")
        for n, port in enumerate(ports)
    ]
