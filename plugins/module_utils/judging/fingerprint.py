"""What a host consists of, as far as evidence depends on it: a changed component voids the stages that tested it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..formats.bmc import bmc_declared
from ..formats.mounts import LOCAL
from ..formats.nvme import Drive, assigned
from ..probes.cpuinfo import LogicalCpu
from ..probes.dmidecode import Firmware
from ..probes.dmidecode_memory import Modules
from ..probes.fabric_manager import FabricManager
from ..probes.infiniband import Device
from ..probes.mlxlink import Link, Links
from ..probes.mounts import Used
from ..probes.nccl import Nccl
from ..probes.nvidia_smi import Gpus
from ..probes.pytorch import PyTorch
from ..probes.redfish import Documents
from ..probes.redfish_manager import manager_declared
from ..words.expectations import Expectations
from ..words.finding import PASS
from .nvlink_domain import domain_of
from .placeholders import real
from .rail_devices import rail_devices
from .xid import events_in, verdict_of


@dataclass(frozen=True)
class Component:
    """One family of parts, or one version: the stages whose evidence a change of it voids, and why these.

    ``closing`` says that a change by itself closes a node in service: another machine stands there. The others make
    its proof due again.
    """

    stages: tuple[str, ...]
    why: str
    closing: bool = False


_EVERY = ("burn_in", "fabric", "storage", "acceptance")
_PATHS = ("burn_in", "fabric", "acceptance")
TABLE: Mapping[str, Component] = {
    "gpu_serials": Component(("burn_in", "acceptance"), "GPUs by slot: what is loaded and computes", closing=True),
    "gpu_vbios": Component(("burn_in", "acceptance"), "sets clocks, power and NVLinks"),
    "gpu_driver": Component(_PATHS, "loads, collectives and GPUDirect go through it"),
    "gpu_errors": Component(("burn_in",), "a GPU that reports an error after its burn-in is not the one that passed"),
    "fabric_manager": Component(("burn_in", "acceptance"), "routes the NVSwitches between the GPUs"),
    "nvlink_domain": Component(("acceptance",), "what NCCL moves between the hosts of a rack goes over its NVLinks"),
    "nic_guids": Component(_EVERY, "the rails' adapters; shared storage may be reached over them", closing=True),
    "nic_firmware": Component(_EVERY, "congestion control, loss recovery and PCIe settings are its"),
    "cables": Component(_EVERY, "bit errors and heat are the cable's or module's, and so is a rail's speed"),
    "cpus": Component(_PATHS, "computes under load; the PCIe lanes of GPUs and NICs end in it"),
    "microcode": Component(("burn_in",), "mends or slows what the CPU load measures"),
    "dimms": Component(("burn_in",), "memory modules by slot: filled and read under load"),
    "drives": Component(("burn_in", "storage"), "data drives by address: read under load; checkpoints may go to them"),
    "drive_firmware": Component(("burn_in", "storage"), "speed and wear of the drives"),
    "board": Component(_PATHS, "every PCIe link and memory channel goes over it"),
    "bios": Component(_PATHS, "sets PCIe links, access control, memory speed and NUMA"),
    "bmc_firmware": Component(("burn_in",), "steers fans and power, and tells the sensors that burn-in reads"),
    "kernel": Component(("fabric", "storage", "acceptance"), "drivers and network stack"),
    "rdma_core": Component(("fabric", "acceptance"), "the libraries through which rails are used"),
    "nccl": Component(("acceptance",), "moves the data of collectives"),
    "container_runtime": Component(("acceptance",), "starts the image in which ranks run"),
    "pytorch": Component(
        ("storage", "acceptance"), "moves the data of collectives with an NCCL of its own, writes checkpoints"
    ),
    "storage_client": Component(("storage",), "how shared tiers are mounted"),
}
COMPONENTS = tuple(TABLE)
# Preflight says what the host is: all of it.
DEPENDS: Mapping[str, tuple[str, ...]] = {
    "preflight": COMPONENTS,
    **{
        stage: tuple(name for name, each in TABLE.items() if stage in each.stages)
        for stage in sorted({stage for each in TABLE.values() for stage in each.stages})
    },
}
# The components whose change closes a node in service by itself, as another machine's identity does.
CLOSING = tuple(name for name, each in TABLE.items() if each.closing)

# What a mount's options tell of how its client works.
_CLIENT_OPTIONS = ("vers", "proto", "nconnect", "remoteports", "rsize", "wsize", "hard", "soft")
# The probes whose values fingerprint_of reads.
PROBES = (
    *("nvidia_smi", "kernel_log", "uname", "nccl", "infiniband", "mounts"),
    *("cpuinfo", "dmidecode", "dmidecode_memory", "nvme_sysfs", "mlxlink", "ipmi_mc", "redfish"),
    *("fabric_manager", "rdma_core", "enroot", "rail_names", "pytorch"),
)
# What stands where firmware was asked and has nothing to say: no serial number on a memory module, say.
UNSPECIFIED = "unspecified"
# How mlx5 calls its virtual functions (drivers/net/ethernet/mellanox/mlx5/core/main.c: 0x1012, 0x1014, ..., 0x101e,
# 0xa2d3): a hypervisor gives them their GUIDs.
_VIRTUAL_FUNCTIONS = ("MT4114", "MT4116", "MT4118", "MT4120", "MT4122", "MT4124", "MT4126", "MT41683")
# What a value ends with that is not the part's own. All ends of a copper cable, on as many hosts, show one serial
# number.
_VIRTUAL, _SHARED = " (virtual)", " (cable)"
# As mlxlink calls a transceiver that a fibre is put into, and an empty cage.
_MODULE, _UNPLUGGED = "Optical Module (separated)", "Cable unplugged"
# Components that list serial numbers by slot, and what such a part is called.
LISTS = {"gpu_serials": "gpu", "nic_guids": "nic", "cables": "module", "dimms": "dimm", "drives": "drive"}


def fingerprint_of(values: Mapping[str, Any], expect: Expectations | None = None) -> dict[str, str | None]:
    """Return each component's value, None where it could not be read, ``none`` where the class has no such part.

    ``values`` are parsed probes by name. Serials stand with their places (``SLOT=SERIAL,...``): two GPUs that swapped
    slots are another host.
    """
    components: dict[str, str | None] = dict.fromkeys(COMPONENTS)
    for found in (
        _gpus(values.get("nvidia_smi")),
        _nics(values, expect),
        _cpus(values.get("cpuinfo")),
        _drives(values.get("nvme_sysfs"), expect),
        _firmware(values.get("dmidecode")),
    ):
        components.update(found)
    components["gpu_errors"] = _errors(values.get("kernel_log"))
    components["cables"] = _cables(values, expect)
    components["dimms"] = _dimms(values.get("dmidecode_memory"))
    components["bmc_firmware"] = _bmc(values.get("ipmi_mc"), values.get("redfish"))
    components["fabric_manager"] = _version_of(values.get("fabric_manager"))
    components["kernel"] = values.get("uname")
    components["rdma_core"] = values.get("rdma_core")
    components["nccl"] = _nccl(values.get("nccl"))
    components["container_runtime"] = values.get("enroot")
    components["pytorch"] = _pytorch(values.get("pytorch"))
    components["storage_client"] = _storage_client(values.get("mounts"), expect)
    return {**components, **dict.fromkeys(_absent(expect), "none")}


def parts_of(fingerprint: Mapping[str, str | None]) -> list[tuple[str, str, str]]:
    """Return (kind, slot, serial) of every part whose serial number is its own, as the fingerprint lists them.

    A placeholder is none, a virtual function and a copper cable have none, and what two slots of one host show names
    neither.
    """
    found = []
    for component, kind in LISTS.items():
        text = fingerprint.get(component)
        pairs = [pair.partition("=") for pair in text.split(",")] if isinstance(text, str) else []
        named = [(slot, serial) for slot, _, serial in pairs if slot and not serial.endswith((_VIRTUAL, _SHARED))]
        times = Counter(serial for _, serial in named)
        found += [
            (kind, slot, serial)
            for slot, serial in named
            # Of modules "PART/SERIAL".
            if times[serial] == 1 and real(serial.rpartition("/")[2])
        ]
    return found


def _absent(expect: Expectations | None) -> list[str]:
    """Return the components that a host of the class cannot have."""
    if expect is None:
        return []
    nic, bmc = expect.nic, bmc_declared(expect, "ipmitool") or manager_declared(expect)
    gone = {
        ("gpu_serials", "gpu_vbios", "gpu_driver"): expect.gpu is None,
        ("fabric_manager",): expect.nvlink is None or not expect.nvlink.fabric_manager,
        ("nvlink_domain",): expect.nvlink is None or expect.nvlink.domain is None,
        ("nic_guids", "nic_firmware", "rdma_core"): nic is None,
        ("cables",): nic is None or nic.physical is None,
        ("microcode",): not expect.cpu.has_microcode,
        ("dimms",): expect.memory.dimms is None,
        ("drives", "drive_firmware"): expect.nvme is None,
        ("bmc_firmware",): not bmc,
        ("container_runtime",): expect.collective.container is None,
    }
    return [name for names, absent in gone.items() if absent for name in names]


def _gpus(found: Gpus | None) -> dict[str, str | None]:
    if found is None or not found.gpus:
        return {}
    # One that is lost is no other GPU: what it is remains unread.
    return {
        "gpu_serials": _listed((gpu.address, gpu.serial) for gpu in found.gpus) if found.whole else None,
        "gpu_vbios": _distinct(gpu.vbios for gpu in found.gpus) if found.whole else None,
        "gpu_driver": found.driver,
        "nvlink_domain": domain_of(found),
    }


def _nics(values: Mapping[str, Any], expect: Expectations | None) -> dict[str, str | None]:
    """Return identity and firmware of the rails' devices that are there; other NICs are no part of what was tested."""
    found = _rails(values, expect)
    return {
        "nic_guids": _listed((rail, _guid(nic)) for rail, nic in found.items()),
        "nic_firmware": _distinct(nic.firmware for nic in found.values()),
    }


def _rails(values: Mapping[str, Any], expect: Expectations | None) -> dict[str, Device]:
    """Return the devices that are there by rail (``rail0``); what the system calls them is no part of the host."""
    if expect is None or values.get("infiniband") is None or values.get("rail_names") is None:
        return {}
    return {rail.name: device for rail, device in rail_devices(values, expect) if isinstance(device, Device)}


def _guid(nic: Device) -> str | None:
    return f"{nic.guid}{_VIRTUAL}" if nic.guid and nic.model in _VIRTUAL_FUNCTIONS else nic.guid


def _cables(values: Mapping[str, Any], expect: Expectations | None) -> str | None:
    """Return the cable or module of each rail's device that is there; one unread leaves the whole unread."""
    found: Links | None = values.get("mlxlink")
    return _listed((rail, _cable(found.links.get(rail))) for rail in _rails(values, expect)) if found else None


def _cable(link: Link | None) -> str | None:
    if link is None or not (link.vendor or link.part or link.serial or link.cable_type == _UNPLUGGED):
        return None
    name = f"{link.part or link.vendor or UNSPECIFIED}/{link.serial or UNSPECIFIED}"
    return name if link.cable_type == _MODULE else f"{name}{_SHARED}"


def _cpus(found: tuple[LogicalCpu, ...] | None) -> dict[str, str | None]:
    sockets = {cpu.socket: cpu.model for cpu in found or ()}
    models = Counter(sockets.values())
    return {
        "cpus": _distinct(f"{times} x {model}" if model else None for model, times in models.items()),
        "microcode": _distinct(cpu.microcode for cpu in found or ()),
    }


def _dimms(found: Modules | None) -> str | None:
    # Serial numbers are a maker's for one kind of module: its part number belongs to it.
    modules = [module for module in (found.slots if found else ()) if module.mib != 0]
    return _listed((module.slot, f"{module.part or UNSPECIFIED}/{module.serial or UNSPECIFIED}") for module in modules)


def _drives(found: tuple[Drive, ...] | None, expect: Expectations | None) -> dict[str, str | None]:
    drives = assigned(found, expect.nvme).values() if found and expect else ()
    return {
        "drives": _listed((drive.address, drive.serial) for drive in drives),
        "drive_firmware": _distinct(drive.firmware for drive in drives),
    }


def _firmware(found: Firmware | None) -> dict[str, str | None]:
    if found is None:
        return {}
    known = {"product": found.board_product, "serial": found.board_serial, "uuid": found.system_uuid}
    return {
        "board": _listed((name, value or UNSPECIFIED) for name, value in known.items()),
        "bios": found.bios_version or UNSPECIFIED,
    }


def _bmc(mc: str | None, documents: Documents | None) -> str | None:
    return mc or (documents.firmware if documents else None)


def _version_of(found: FabricManager | None) -> str | None:
    return found.version if found else None


def _nccl(found: Nccl | None) -> str | None:
    return f"library {found.library}, conf {found.conf[:16]}" if found else None


def _pytorch(found: PyTorch | None) -> str | None:
    """Return versions and place, which names what was declared; a Python that is not there is an unread one."""
    if found is None or found.absent:
        return None
    nccl = f" nccl {found.nccl}" if found.nccl else ""
    return f"{found.torch or 'no torch'}{nccl} python {found.python} in {found.prefix}"


def _storage_client(used: Mapping[str, Used] | None, expect: Expectations | None) -> str | None:
    """Return by what client, and how, each shared tier is mounted; one that is not says so, and is no unread one."""
    if used is None or expect is None:
        return None
    found = []
    for wanted in expect.mounts or ():
        if wanted.kind == LOCAL:
            continue
        state = used.get(wanted.path)
        if state is None:
            return None
        how = "not mounted"
        if state.mount is not None:
            shown = [option for option in state.mount.options if option.partition("=")[0] in _CLIENT_OPTIONS]
            how = " ".join([state.mount.filesystem, state.version, *sorted({*shown})]).replace("  ", " ")
        found.append(f"{wanted.tier}={how}")
    return ", ".join(found) or "none"


def _errors(log: Any) -> str | None:
    """Return the driver's errors since boot that keep a GPU from passing, however often each came."""
    if log is None:
        return None
    seen = {
        f"{event.address or 'unknown GPU'} {event.name}" for event in events_in(log) if verdict_of(event)[0] != PASS
    }
    return ", ".join(sorted(seen)) or "none"


def _listed(pairs: Iterable[tuple[str, str | None]]) -> str | None:
    """Return values by their places, as one text that ``parts_of`` can read."""
    return _distinct(f"{_plain(place)}={_plain(value)}" if value else None for place, value in pairs)


def _plain(text: str) -> str:
    return text.replace(",", "_").replace("=", "_")


def _distinct(values: Iterable[str | None]) -> str | None:
    """Return the distinct values as one text; one unread value, or none at all, leaves the whole unread."""
    found = set(values)
    return None if None in found or not found else ",".join(sorted(value for value in found if value))
