"""Where the GPUs and the NICs of the compute fabric lie on a host, and which of them lie beside each other.

A rail's NIC is told by the PCIe switch that it shares with a GPU, else by ``nvidia-smi topo -m``, else by there being
as many NICs of one kind as GPUs. What none of them tells is an error that lists the NICs: a person has to name them.
A NIC that manages NVSwitches is none, whatever it lies beside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.muster.cluster.plugins.module_utils.checks.gpu_affinity import CONNECTIONS
from ansible_collections.muster.cluster.plugins.module_utils.checks.pcie_links import is_fast_nic
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.host.rail_names import Names
from ansible_collections.muster.cluster.plugins.module_utils.probes.lspci import Device, above
from ansible_collections.muster.cluster.plugins.module_utils.probes.topology import Row
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import pci_address
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.draft_error import DraftError
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.probe_values import ProbeValues
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.shortened import shortened

_GPUS = ("3D controller", "VGA compatible controller")
_NEAR = ("PIX", "PXB")
_SHOWN = 8


@dataclass(frozen=True)
class Place:
    """One GPU: its PCI address, its NUMA node (None: not told), and the rail beside it (None: no single one)."""

    address: str
    numa_node: int | None
    rail: int | None


@dataclass(frozen=True)
class Places:
    """GPUs in the order of their PCI addresses, and the addresses of the rails' NICs by the number of the rail.

    Without a NIC that could be a rail there are no rails.
    """

    gpus: tuple[Place, ...]
    rails: tuple[str, ...]

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(gpu.address for gpu in self.gpus)


@dataclass(frozen=True)
class _Host:
    """What is known of a host's PCI functions; None where the tool was not run or tells nothing."""

    devices: Mapping[str, Device] | None
    names: Names | None
    # By PCI address of the GPU.
    rows: Mapping[str, Row]
    # NICs that manage NVSwitches.
    managing: frozenset[str]
    # NUMA nodes that have CPUs.
    with_cpus: frozenset[int]


_Fit = Callable[[Sequence[str], Sequence[str], _Host], list[str]]


def places_of(seen: ProbeValues, rails: Sequence[str] | None = None) -> Places:
    """Return the places on one host; ``rails`` are PCI addresses that a person has named, in the order of the rails.

    Raises DraftError.
    """
    gpus = _gpus(seen)
    topology = seen.value_or_none("topology")
    rows = topology.gpus if topology else ()
    # NVML counts GPUs in the order of their addresses.
    numbers = [row.index for row in rows]
    known = dict(zip(gpus, rows, strict=True)) if numbers == list(range(len(gpus))) else {}
    managers = seen.value_or_none("nvswitch_nics") or {}
    managing = frozenset(address for address, manages in managers.items() if manages)
    nodes = seen.value_or_none("numa") or {}
    with_cpus = frozenset(number for number, node in nodes.items() if node.cpus)
    host = _Host(seen.value_or_none("lspci"), seen.value_or_none("rail_names"), known, managing, with_cpus)
    chosen = _named(seen.host, rails, host) if rails is not None else _rails(seen, gpus, host)
    beside = _nearest(gpus, chosen, host)
    rail_of = {address: number for number, address in enumerate(chosen)}
    return Places(
        tuple(Place(gpu, _numa_node(gpu, host), rail_of.get(beside.get(gpu, ""))) for gpu in gpus), tuple(chosen)
    )


def _gpus(seen: ProbeValues) -> list[str]:
    try:
        report = seen.value("nvidia_smi")
    except Unreadable as exc:
        report, why = None, str(exc)
    if report and not report.whole:
        what = f"has lost GPU {', '.join(report.lost)}" if report.lost else "does not describe every GPU"
        raise DraftError(f"{seen.host}: nvidia-smi {what}, expected a host that is good")
    devices: Mapping[str, Device] = seen.value_or_none("lspci") or {}
    on_bus = sorted(at for at, device in devices.items() if device.kind in _GPUS and "NVIDIA" in device.name)
    if report is None:
        if not on_bus:
            raise DraftError(f"{seen.host}: no GPU is seen by lspci, and {why}; expected one at least")
        return on_bus
    listed = sorted(gpu.address for gpu in report.gpus)
    if not listed or (on_bus and on_bus != listed):
        found = f"nvidia-smi lists GPUs at {shortened(listed, _SHOWN)}, lspci at {shortened(on_bus, _SHOWN)}"
        raise DraftError(f"{seen.host}: {found}; expected the same from both, and one at least")
    return listed


def _named(host: str, rails: Sequence[str], known: _Host) -> list[str]:
    """Return the rails that a person has named, each seen to be on the host where that can be told."""
    chosen = []
    for text in rails:
        address = pci_address(text)
        if address is None:
            raise DraftError(f"{host}: rail {text!r}, expected a PCI address such as 0000:1b:00.0")
        if address in chosen:
            raise DraftError(f"{host}: rail {address} is named twice, expected each once")
        if known.devices is not None and address not in known.devices:
            raise DraftError(f"{host}: rail {address} is no device that lspci lists, NICs are {_listed(known)}")
        if address in known.managing:
            why = f"manages NVSwitches (SW_MNG in its VPD) and is no rail, NICs are {_listed(known)}"
            raise DraftError(f"{host}: rail {address} {why}")
        chosen.append(address)
    return chosen


def _rails(seen: ProbeValues, gpus: Sequence[str], host: _Host) -> list[str]:
    candidates = _candidates(host)
    if not candidates:
        if host.devices is None:
            why = "rails cannot be told, as neither lspci nor rail_names lists a NIC"
            raise DraftError(f"{seen.host}: {why}: name them with --rails ADDRESS,...")
        return []
    kinds = _kinds(seen, candidates, host)

    def fitting(fit: _Fit, groups: Iterable[Sequence[str]]) -> list[list[str]]:
        return [rails for group in groups if (rails := fit(gpus, group, host))]

    found = fitting(_beside_all, kinds) or fitting(_beside_all, [candidates]) or fitting(_as_many, kinds)
    # Storage may have a NIC beside every GPU too: of several kinds none is preferred.
    if len(found) == 1:
        return found[0]
    raise DraftError(
        f"{seen.host}: which NICs are the rails of {len(gpus)} GPUs cannot be told from {_listed(host)}: "
        "name them with --rails ADDRESS,..."
    )


def _beside_all(gpus: Sequence[str], nics: Sequence[str], host: _Host) -> list[str]:
    """Return the NICs that lie beside the GPUs, none unless every GPU has one."""
    return sorted(set(_nearest(gpus, nics, host).values()))


def _as_many(gpus: Sequence[str], nics: Sequence[str], _host: _Host) -> list[str]:
    """Return the NICs if there are as many as GPUs."""
    return list(nics) if len(nics) == len(gpus) else []


def _candidates(host: _Host) -> list[str]:
    """Return the addresses of the NICs that may be rails: those with RDMA devices, else those with a fast link."""
    devices = host.devices or {}
    virtual = {address for address, device in devices.items() if "Virtual Function" in device.name}
    with_rdma = [address for address in (host.names.devices if host.names else ()) if pci_address(address) == address]
    fast = [address for address, device in devices.items() if is_fast_nic(device)]
    # Without a driver of the rails, those of the NVSwitches may be the only RDMA devices.
    rdma = {*with_rdma} - host.managing
    return sorted((rdma or {*fast}) - virtual - host.managing)


def _kinds(seen: ProbeValues, candidates: Iterable[str], host: _Host) -> list[list[str]]:
    """Return the candidates by model and link layer, largest group first."""
    rdma, devices = seen.value_or_none("infiniband") or {}, host.devices or {}
    groups: dict[object, list[str]] = defaultdict(list)
    for address in candidates:
        names = host.names.devices.get(address, ()) if host.names else ()
        ports = tuple(
            (rdma[name].model, port.link_layer) for name in names for port in (rdma[name].ports if name in rdma else ())
        )
        device = devices.get(address)
        groups[device.name if device else None, ports].append(address)
    return sorted(groups.values(), key=lambda group: (-len(group), group))


def _nearest(gpus: Sequence[str], nics: Sequence[str], host: _Host) -> dict[str, str]:
    """Return the NIC beside each GPU that has a single nearest one: by PCIe switch, where all have it, else by topo."""
    for find in (_below_switch, _by_topology):
        beside = {gpu: nic for gpu in gpus if (nic := find(gpu, nics, host)) is not None}
        if len(beside) == len(gpus):
            return beside
    return {}


def _below_switch(gpu: str, nics: Iterable[str], host: _Host) -> str | None:
    """Return the one NIC whose way up meets the GPU's soonest, below the root port."""
    if not host.devices:
        return None
    way = [bridge.address for bridge in above(gpu, host.devices)][:-1]
    ranked: dict[int, list[str]] = defaultdict(list)
    for nic in nics:
        other = {bridge.address for bridge in above(nic, host.devices)[:-1]}
        meeting = next((rank for rank, bridge in enumerate(way) if bridge in other), None)
        if meeting is not None:
            ranked[meeting].append(nic)
    return _only(ranked)


def _by_topology(gpu: str, nics: Iterable[str], host: _Host) -> str | None:
    """Return the one NIC that nvidia-smi calls nearest, with no host bridge between."""
    row, names = host.rows.get(gpu), host.names
    if row is None or names is None:
        return None
    ranked: dict[int, list[str]] = defaultdict(list)
    for nic in nics:
        for kind in {row.nics.get(name) for name in names.devices.get(nic, ())}:
            if kind in _NEAR:
                ranked[CONNECTIONS.index(kind)].append(nic)
    return _only(ranked)


def _only(ranked: Mapping[int, list[str]]) -> str | None:
    nearest = ranked[min(ranked)] if ranked else []
    return nearest[0] if len(nearest) == 1 else None


def _numa_node(gpu: str, host: _Host) -> int | None:
    """Return the node by nvidia-smi, whose word the check of it takes, else by lspci.

    Nodes without CPUs that nvidia-smi names beside it hold memory of GPUs.
    """
    row, device = host.rows.get(gpu), (host.devices or {}).get(gpu)
    if row is not None and row.numa_node is not None:
        return row.numa_node
    beside = host.with_cpus.intersection(row.numa_nodes or ()) if row is not None else frozenset()
    if len(beside) == 1:
        return next(iter(beside))
    return device.numa_node if device else None


def _listed(host: _Host) -> str:
    devices = host.devices or {}
    found = [f"{at} ({devices[at].name})" if at in devices else at for at in _candidates(host)]
    return ", ".join(found) or "none"
