"""Files of an InfiniBand host: the name by which the fabric knows its adapters, and IPoIB on its rails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.nic.infiniband_rails import (
    ARP,
    FULL_MEMBER,
    IPOIB_TYPE,
    child_name,
    description_of,
    interface_mtu,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.rail_network import (
    NETWORKD_CONF,
    NETWORKS,
    SERVICES,
    PlacedRail,
    keyfile,
    networkd,
)

_HEAD = "# Written by Muster (infiniband); edits are lost.\n"
_NDD = "/etc/systemd/system/rdma-ndd.service.d/50-muster.conf"
# Before a rail's, as networkd takes the first file that matches an interface.
_CHILD = "/etc/systemd/network/41-muster-ib-{}.{}"
_RAIL = "/etc/systemd/network/51-muster-ib-{}.network"
_PROFILE = "/etc/NetworkManager/system-connections/muster_ib-{}.nmconnection"
_CONF = "/etc/systemd/networkd.conf.d/51-muster-ib.conf"
# Before rdma-core's 60-rdma-persistent-naming.rules, which moves the device's files under a new name.
_UDEV = "/etc/udev/rules.d/50-muster-ib.rules"
_BOOT = "/etc/systemd/system/multi-user.target.d/50-muster-ib.conf"


class InfinibandError(MusterError, ValueError):
    """Rails that cannot be set up as they are declared."""


@dataclass(frozen=True)
class Ipoib:
    """IP on the rails: mode, MTU of the links in bytes, and the fabric's partitions in their declared order."""

    mode: str
    mtu_bytes: int
    partitions: Sequence[Mapping[str, Any]] = ()

    @property
    def children(self) -> list[int]:
        """Keys of the partitions with an interface beside the rail's own, which is the first partition's."""
        return [partition["pkey"] for partition in self.partitions[1:] if partition["ipoib"]]


def placed(rails: Sequence[Mapping[str, Any]], places: Sequence[Mapping[str, Any]]) -> list[PlacedRail]:
    """Return a node's rails (``muster_node.rails``) with their places in its class (``muster_expect.nic.rails``).

    Raises InfinibandError for a rail that has none.
    """
    known = {place["rail"]: place["address"] for place in places}
    if lost := [rail["rail"] for rail in rails if rail["rail"] not in known]:
        raise InfinibandError(f"rail {lost[0]}: expected its PCI address under nic.rails of the class, found none")
    return [PlacedRail(rail["rail"], known[rail["rail"]], rail["address"], rail["gateway"]) for rail in rails]


def files_of(name: str, rails: Sequence[PlacedRail], ipoib: Ipoib | None, network: str) -> list[dict[str, str]]:
    """Return path, content and mode of each file of host ``name``.

    Raises InfinibandError for what contradicts itself, or cannot be declared without the name of an interface.
    """
    if network not in NETWORKS:
        raise InfinibandError(f"infiniband_network is {network!r}, expected one of {', '.join(NETWORKS)}")
    # It would write its own description over that of the rules, at its start and when a device is added.
    files = [_file(_NDD, f"[Unit]\nConditionPathExists=!{_UDEV}\n")]
    rules = _descriptions(name, rails)
    if ipoib is None:
        if given := [rail for rail in rails if rail.ip]:
            raise InfinibandError(f"{given[0].name} has address {given[0].ip}, which needs fabric.ipoib")
        return [*files, _file(_UDEV, rules)]
    if ipoib.partitions and not ipoib.partitions[0]["ipoib"]:
        first = ipoib.partitions[0]["name"]
        raise InfinibandError(f"partition {first} has no ipoib and is the first, whose interfaces are the rails' own")
    if ipoib.children and network == "networkmanager":
        raise InfinibandError(
            "partitions after the first have ipoib, and NetworkManager finds an interface to put theirs on by its name "
            "only, which the system chooses: expected infiniband_network networkd, or ipoib for the first one alone"
        )
    for rail in rails:
        files += _networkd_files(rail, ipoib) if network == "networkd" else _profile(rail, ipoib)
    # Wanted and not enabled, which would bring networkd's wait for a network into the boot.
    files.append(_file(_BOOT, f"[Unit]\nWants={SERVICES[network]}\n"))
    kernel = "".join(f', SYSCTL{{net/ipv4/conf/$name/{name}}}="{value}"' for name, value in ARP.items())
    files.append(_file(_UDEV, f'{rules}ACTION!="remove", SUBSYSTEM=="net", ATTR{{type}}=="{IPOIB_TYPE}"{kernel}\n'))
    if network == "networkd":
        files.append(_file(_CONF, NETWORKD_CONF))
    return files


def absent_of() -> list[str]:
    """Return the patterns of all files that ``files_of`` may have written: one that is not listed is of the past."""
    return [_NDD, _CHILD.format("*", "net*"), _RAIL.format("*"), _PROFILE.format("*"), _CONF, _UDEV, _BOOT]


def _descriptions(name: str, rails: Sequence[PlacedRail]) -> str:
    """Return udev rules that describe each adapter: a rail by its name, any other as rdma-ndd would."""
    adapter, called = 'SUBSYSTEM=="infiniband", ', "ENV{.MUSTER_NAME}"
    lines = [f'{called}="%k"', *(f'KERNELS=="{rail.address}", {called}="{rail.name}"' for rail in rails)]
    lines.append(f'ACTION=="add|change|move", ATTR{{node_desc}}="{description_of(name, "$env{.MUSTER_NAME}")}"')
    return "".join(f"{adapter}{line}\n" for line in lines)


def _networkd_files(rail: PlacedRail, ipoib: Ipoib) -> list[dict[str, str]]:
    mtu = interface_mtu(ipoib.mode, ipoib.mtu_bytes)
    names = {child_name(rail.name, pkey): pkey for pkey in ipoib.children}
    text = f"{_addressed(rail)}\n[Link]\nMTUBytes={mtu}\n\n[IPoIB]\nMode={ipoib.mode}\n"
    if names:
        text += "\n[Network]\n" + "".join(f"IPoIB={name}\n" for name in names)
    files = [_file(_RAIL.format(rail.name), text)]
    for name, pkey in names.items():
        key = f"PartitionKey={pkey | FULL_MEMBER:#06x}\nMode={ipoib.mode}\n"
        files.append(_file(_CHILD.format(name, "netdev"), f"[NetDev]\nName={name}\nKind=ipoib\n\n[IPoIB]\n{key}"))
        link = f"[Link]\nMTUBytes={mtu}\nRequiredForOnline=no\n"
        own = f"[Match]\nName={name}\n\n{link}\n[Network]\nLinkLocalAddressing=no\n"
        files.append(_file(_CHILD.format(name, "network"), own))
    return files


def _addressed(rail: PlacedRail) -> str:
    if rail.ip is not None:
        return networkd(rail)
    return f"{rail.match}\n[Link]\nRequiredForOnline=no\n\n[Network]\nLinkLocalAddressing=no\n"


def _profile(rail: PlacedRail, ipoib: Ipoib) -> list[dict[str, str]]:
    if rail.ip is None:
        return []
    own = f"\n[infiniband]\ntransport-mode={ipoib.mode}\nmtu={interface_mtu(ipoib.mode, ipoib.mtu_bytes)}\n"
    return [{**_file(_PROFILE.format(rail.name), keyfile(rail, "infiniband") + own), "mode": "0600"}]


def _file(path: str, content: str) -> dict[str, str]:
    return {"path": path, "content": _HEAD + content, "mode": "0644"}
