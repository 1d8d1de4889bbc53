"""What a host says of its class: each key that describes hardware or a version, with what has to be read for it.

Limits and policy are no facts of a host, and are left to the class that a draft extends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.checks.gpu_affinity import CONNECTIONS
from ansible_collections.muster.cluster.plugins.module_utils.checks.nic_pcie import GENERATIONS
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.host.rail_names import Names, named
from ansible_collections.muster.cluster.plugins.module_utils.judging.nvlink_domain import NO_CLUSTER, domain_of
from ansible_collections.muster.cluster.plugins.module_utils.probes.cpuinfo import LogicalCpu
from ansible_collections.muster.cluster.plugins.module_utils.probes.dmidecode import Firmware
from ansible_collections.muster.cluster.plugins.module_utils.probes.dmidecode_memory import Module, Modules
from ansible_collections.muster.cluster.plugins.module_utils.probes.fabric_manager import FabricManager
from ansible_collections.muster.cluster.plugins.module_utils.probes.infiniband import Device, Port
from ansible_collections.muster.cluster.plugins.module_utils.probes.lscpu import Cpu
from ansible_collections.muster.cluster.plugins.module_utils.probes.meminfo import Memory
from ansible_collections.muster.cluster.plugins.module_utils.probes.numa import Node
from ansible_collections.muster.cluster.plugins.module_utils.probes.nvidia_smi import Gpu, Gpus
from ansible_collections.muster.cluster.plugins.module_utils.probes.nvlink import Links
from ansible_collections.muster.cluster.plugins.module_utils.probes.topology import Topology
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Rail
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.bmc_facts import bmc_facts
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.drive_facts import drive_facts
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.one_value import one, whole
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.part_places import Places
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.probe_values import ProbeValues


@dataclass(frozen=True)
class Question:
    """One key of a class, the probes it is read from, and what their values make of it.

    ``answer`` takes the places and the probes' values; it raises Unreadable where they do not tell one value.
    """

    key: str
    probes: tuple[str, ...]
    answer: Callable[..., Any]


def facts_of(seen: ProbeValues, places: Places) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what a host says by dotted key, and by key why something could not be read."""
    values, unseen = bmc_facts(seen)
    for question in QUESTIONS:
        try:
            values[question.key] = question.answer(places, *(seen.value(probe) for probe in question.probes))
        except Unreadable as exc:
            unseen[question.key] = str(exc)
    drives, why = drive_facts(seen)
    values.update(drives)
    unseen.update(why)
    return values, unseen


def _of_gpus(what: str, read: Callable[[Gpu], Any]) -> Callable[..., Any]:
    def answer(places: Places, report: Gpus) -> Any:
        return one(what, {gpu.address: read(gpu) for gpu in report.gpus})

    return answer


def _default_watts(gpu: Gpu) -> float | None:
    return None if gpu.power_default_watts is None else whole(gpu.power_default_watts)


def _of_rails(what: str, read: Callable[[Device], Any]) -> Callable[..., Any]:
    def answer(places: Places, devices: Mapping[str, Device], names: Names) -> Any:
        return one(what, {at: read(device) for at, device in _rail_devices(places, devices, names).items()})

    return answer


def _of_ports(what: str, read: Callable[[Port], Any]) -> Callable[..., Any]:
    def answer(places: Places, devices: Mapping[str, Device], names: Names) -> Any:
        found = _rail_devices(places, devices, names).items()
        return one(what, {f"{at} port {port.number}": read(port) for at, device in found for port in device.ports})

    return answer


def _rail_devices(places: Places, devices: Mapping[str, Device], names: Names) -> dict[str, Device]:
    rails = named([Rail(number, address) for number, address in enumerate(places.rails)], names)
    without = [rail.address for rail in rails if rail.device not in devices]
    if without:
        raise Unreadable(f"no RDMA device of one name at {', '.join(without)}")
    return {rail.address: devices[str(rail.device)] for rail in rails}


def _rate(port: Port) -> float | None:
    return None if port.rate_gbps is None else whole(port.rate_gbps)


def _generation(device: Device) -> int | None:
    return GENERATIONS.get(device.pcie_gt_per_s or 0)


def _links(places: Places, gpus: Sequence[Links]) -> int:
    _all_up(gpus)
    return int(one("number of NVLinks", {f"GPU{gpu.index}": len(gpu.speeds) for gpu in gpus}))


def _link_speed(places: Places, gpus: Sequence[Links]) -> float:
    _all_up(gpus)
    speeds = {f"GPU{gpu.index} link {number}": speed for gpu in gpus for number, speed in gpu.speeds.items()}
    return float(one("speed of NVLinks", speeds))


def _all_up(gpus: Sequence[Links]) -> None:
    for gpu in gpus:
        if gpu.said or not gpu.speeds or not all(gpu.speeds.values()):
            raise Unreadable(f"GPU{gpu.index} has NVLinks that are down: {gpu.said or dict(gpu.speeds)}")


def _in_fabric(places: Places, report: Gpus) -> bool:
    one("fabric state", {gpu.address: gpu.fabric_state for gpu in report.gpus})
    return True


def _has_fabric_manager(places: Places, service: FabricManager, report: Gpus) -> bool:
    domain = domain_of(report)
    if domain and not domain.startswith(NO_CLUSTER):
        # The NVSwitches lie outside the host. A tray may have the service all the same, which then has nothing to do.
        return False
    if service.load == "loaded":
        return True
    joined = all((gpu.fabric_state or "").lower() == "completed" for gpu in report.gpus)
    if service.load == "not-found" and joined:
        # Somebody else, the hypervisor, has set up the fabric that the GPUs are in.
        return False
    raise Unreadable(f"nvidia-fabricmanager.service is {service.load}, and the GPUs have not joined a fabric")


def _has_subnet_manager(places: Places, managers: Mapping[str, bool | None]) -> bool:
    unread = [address for address, manages in managers.items() if manages is None]
    if any(managers.values()):
        return True
    if unread:
        raise Unreadable(f"whether a NIC manages NVSwitches could not be read of {', '.join(unread)}")
    return False


def _numa_nodes(places: Places) -> int:
    nodes = {gpu.numa_node for gpu in places.gpus}
    if None in nodes:
        raise Unreadable("the NUMA node of not all GPUs is told by nvidia-smi topo or lspci")
    return len(nodes)


def _farthest_nic(places: Places, topology: Topology, names: Names) -> str | None:
    """Return the connection of the GPU that is farthest from its own rail, or else from the nearest one.

    None is for a host of which nvidia-smi shows no NIC, though the system has RDMA devices for all rails.
    """
    if not topology.nics and all(names.devices.get(rail) for rail in places.rails):
        return None
    if [row.index for row in topology.gpus] != list(range(len(places.gpus))):
        raise Unreadable(f"nvidia-smi topo lists {len(topology.gpus)} GPUs, expected {len(places.gpus)}")
    nearest = []
    for gpu, row in zip(places.gpus, topology.gpus, strict=True):
        own = places.rails if gpu.rail is None else (places.rails[gpu.rail],)
        kinds = {row.nics.get(name) for rail in own for name in names.devices.get(rail, ())}
        ranks = [CONNECTIONS.index(kind) for kind in kinds if kind in CONNECTIONS]
        if not ranks:
            raise Unreadable(f"nvidia-smi topo shows no connection of GPU{row.index} to {', '.join(own)}")
        nearest.append(min(ranks))
    return CONNECTIONS[max(nearest)]


def _of_cpu(what: str, read: Callable[[Cpu], Any]) -> Callable[..., Any]:
    def answer(places: Places, cpu: Cpu) -> Any:
        if cpu.offline:
            raise Unreadable(f"CPUs {cpu.offline} are switched off")
        return one(what, {"the host": read(cpu)})

    return answer


def _microcode(places: Places, cpus: Sequence[LogicalCpu]) -> Any:
    # arm64 has none.
    if all(cpu.microcode is None and (cpu.model or "").startswith("Arm ") for cpu in cpus):
        return None
    return one("microcode", {f"CPU {cpu.number}": cpu.microcode for cpu in cpus})


def _mib(places: Places, memory: Memory, nodes: Mapping[int, Node]) -> int:
    """Return the memory without that of GPUs, which is the system's where they are coherent (Grace)."""
    return memory.mib - sum(node.mib for node in nodes.values() if not node.cpus)


def _gpu_memory_nodes(places: Places, nodes: Mapping[int, Node]) -> int | None:
    without = [node for node in nodes.values() if not node.cpus]
    found = sum(node.mib > 0 for node in without)
    if found not in (0, len(places.gpus)):
        raise Unreadable(f"{found} NUMA nodes without CPUs hold memory, expected one for each of the GPUs, or none")
    return found if without else None


def _of_modules(what: str, read: Callable[[Module], Any]) -> Callable[..., Any]:
    def answer(places: Places, modules: Modules) -> Any:
        return one(what, {module.slot: read(module) for module in _fitted(modules)})

    return answer


def _fitted(modules: Modules) -> list[Module]:
    return [module for module in modules.slots if module.mib != 0]


def _all_fitted(modules: Modules, cpu: Cpu) -> list[Module]:
    """Return the modules, once they are as many at each socket: of what is missing a class would never be told."""
    fitted = _fitted(modules)
    if len(fitted) % (cpu.sockets or 1):
        raise Unreadable(f"{len(fitted)} memory modules do not divide among {cpu.sockets} sockets")
    return fitted


def _slots(places: Places, modules: Modules, cpu: Cpu) -> list[str]:
    slots = [module.slot for module in _all_fitted(modules, cpu)]
    if len(set(slots)) != len(slots):
        raise Unreadable("two memory modules have one slot's name (Locator)")
    return slots


def _of_firmware(what: str, read: Callable[[Firmware], str | None]) -> Callable[..., Any]:
    def answer(places: Places, firmware: Firmware) -> Any:
        return one(what, {"the host": read(firmware)})

    return answer


def _questions(section: str, probes: Iterable[str], answers: Mapping[str, Callable[..., Any]]) -> list[Question]:
    return [Question(f"{section}.{key}", tuple(probes), answer) for key, answer in answers.items()]


QUESTIONS: tuple[Question, ...] = (
    *_questions(
        "gpu",
        ["nvidia_smi"],
        {
            "model": _of_gpus("model", lambda gpu: gpu.model),
            "memory_mib": _of_gpus("memory", lambda gpu: gpu.memory_mib),
            "driver": lambda places, report: one("driver version", {"the host": report.driver}),
            "vbios": _of_gpus("VBIOS", lambda gpu: gpu.vbios),
            "power_limit_watts": _of_gpus("default power limit", _default_watts),
            "pcie_generation": _of_gpus("highest PCIe generation", lambda gpu: gpu.pcie.generation_max),
            "pcie_width": _of_gpus("PCIe width", lambda gpu: gpu.pcie.width),
        },
    ),
    Question("gpu.count", (), lambda places: len(places.gpus)),
    Question("nvlink.links", ("nvlink",), _links),
    Question("nvlink.link_gb_per_s", ("nvlink",), _link_speed),
    Question("nvlink.fabric", ("nvidia_smi",), _in_fabric),
    Question("nvlink.fabric_manager", ("fabric_manager", "nvidia_smi"), _has_fabric_manager),
    Question("nvlink.subnet_manager", ("nvswitch_nics",), _has_subnet_manager),
    Question("affinity.numa_nodes", (), _numa_nodes),
    Question("affinity.nic_connection", ("topology", "rail_names"), _farthest_nic),
    *_questions(
        "nic",
        ["infiniband", "rail_names"],
        {
            "model": _of_rails("model", lambda device: device.model),
            "firmware": _of_rails("firmware", lambda device: device.firmware),
            "link_layer": _of_ports("link layer", lambda port: port.link_layer),
            "speed_gbps": _of_ports("rate", _rate),
            "lanes": _of_ports("number of lanes", lambda port: port.lanes),
            "pcie.generation": _of_rails("PCIe generation", _generation),
            "pcie.width": _of_rails("PCIe width", lambda device: device.pcie_width),
        },
    ),
    *_questions(
        "cpu",
        ["lscpu"],
        {
            "architecture": _of_cpu("architecture", lambda cpu: cpu.architecture),
            "sockets": _of_cpu("number of sockets", lambda cpu: cpu.sockets),
            "cores": _of_cpu("number of cores", lambda cpu: cpu.cores),
            "threads_per_core": _of_cpu("threads per core", lambda cpu: cpu.threads_per_core),
            "model": _of_cpu("model", lambda cpu: cpu.model),
        },
    ),
    Question("cpu.microcode", ("cpuinfo",), _microcode),
    Question("memory.mib", ("meminfo", "numa"), _mib),
    *_questions(
        "memory.dimms",
        ["dmidecode_memory"],
        {
            "size_mib": _of_modules("size of modules", lambda module: module.mib),
            "speed_mts": _of_modules("speed of modules", lambda module: module.mts),
        },
    ),
    *_questions(
        "memory.dimms",
        ["dmidecode_memory", "lscpu"],
        {"count": lambda places, modules, cpu: len(_all_fitted(modules, cpu)), "slots": _slots},
    ),
    Question("numa.nodes", ("numa",), lambda places, nodes: sum(node.cpus > 0 for node in nodes.values())),
    Question("numa.gpu_memory_nodes", ("numa",), _gpu_memory_nodes),
    Question("clock.clocksource", ("clocksource",), lambda places, name: name),
    *_questions(
        "firmware",
        ["dmidecode"],
        {
            "system_product": _of_firmware("system product", lambda found: found.system_product),
            "bios_vendor": _of_firmware("BIOS vendor", lambda found: found.bios_vendor),
            "bios_version": _of_firmware("BIOS version", lambda found: found.bios_version),
        },
    ),
)
