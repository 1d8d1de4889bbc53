"""Files of a RoCE host: each port's settings, the rails' addresses and routes, and what applies them at boot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.roce.decide import unsupported
from ansible_collections.muster.cluster.plugins.module_utils.roce.settings import PortSettings
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.rail_network import (
    NETWORKD_CONF,
    NETWORKS,
    SERVICES,
    PlacedRail,
    keyfile,
    networkd,
)

SETTINGS = "/etc/muster/roce"

_UNIT = "muster-roce@{}.service"
# A device that comes back, after its driver was loaded anew, comes back with the firmware's settings; with another name
# (rdma-core's udev rule moves it) it is another one to systemd. One in software (Soft-RoCE) has no PCI device above it
# for KERNELS to match: only the boot's Wants= sets its port.
_RULE = 'ACTION=="add|move", SUBSYSTEM=="infiniband", KERNELS=="{}", TAG+="systemd", ENV{{SYSTEMD_WANTS}}+="{}"\n'
_HEAD = "# Written by Muster (roce); edits are lost.\n"
_NETWORKD = "/etc/systemd/network/50-muster-{}.network"
_KEYFILE = "/etc/NetworkManager/system-connections/muster-{}.nmconnection"


class RoceError(MusterError, ValueError):
    """Ports that cannot be set up as they are declared."""


def files_of(ports: Sequence[Mapping[str, Any]], network: str) -> list[dict[str, str]]:
    """Return path, content and mode of each file of a host with these ports (``muster.cluster.roce_ports``).

    Raises RoceError, before anything is changed, for what a port's backend cannot do.
    """
    if network not in NETWORKS:
        raise RoceError(f"network is {network!r}, expected one of {', '.join(NETWORKS)}")
    settings = [_settings(index, port) for index, port in enumerate(ports)]
    if impossible := [text for each in settings for text in unsupported(each)]:
        raise RoceError("; ".join(impossible))
    files = [
        {"path": f"{SETTINGS}/{each.name}.json", "content": _json(each.to_dict()), "mode": "0644"} for each in settings
    ]
    places = [
        PlacedRail(each.rail, each.address, each.ip, port["gateway"])
        for each, port in zip(settings, ports, strict=True)
    ]
    with_address = [place for place in places if place.ip is not None]
    if network == "networkd":
        files += [_file(_NETWORKD.format(place.name), networkd(place)) for place in with_address]
        if with_address:
            files.append(_file("/etc/systemd/networkd.conf.d/50-muster.conf", NETWORKD_CONF))
    else:
        for place in with_address:
            files.append({**_file(_KEYFILE.format(place.name), keyfile(place, "ethernet")), "mode": "0600"})
    return [*files, *_boot(settings, SERVICES[network] if with_address else "")]


def absent_of() -> list[str]:
    """Return the patterns of all files that ``files_of`` may have written: one that is not listed is of the past."""
    return [
        f"{SETTINGS}/*.json",
        _NETWORKD.format("*"),
        _KEYFILE.format("*"),
        "/etc/systemd/networkd.conf.d/50-muster.conf",
        "/etc/systemd/system/multi-user.target.d/50-muster-roce.conf",
        "/etc/udev/rules.d/90-muster-roce.rules",
    ]


def _settings(index: int, port: Mapping[str, Any]) -> PortSettings:
    key = f"roce_ports[{index}]"
    if "gateway" not in port:
        raise RoceError(f"{key}.gateway: found nothing, expected a value as muster.cluster.roce_ports gives it")
    try:
        return PortSettings.from_dict({name: value for name, value in port.items() if name != "gateway"}, key)
    except ReadError as exc:
        raise RoceError(str(exc)) from exc


def _boot(settings: Sequence[PortSettings], service: str) -> list[dict[str, str]]:
    if not settings:
        return []
    units = [f"Wants={_UNIT.format(each.name)}\n" for each in settings]
    units += [f"Wants={service}\n"] if service else []
    rules = [_RULE.format(each.address, _UNIT.format(each.name)) for each in settings]
    return [
        _file("/etc/systemd/system/multi-user.target.d/50-muster-roce.conf", f"[Unit]\n{''.join(units)}"),
        _file("/etc/udev/rules.d/90-muster-roce.rules", "".join(rules)),
    ]


def _file(path: str, content: str) -> dict[str, str]:
    return {"path": path, "content": _HEAD + content, "mode": "0644"}


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=1, sort_keys=True) + "\n"
