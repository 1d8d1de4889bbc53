"""What saved outputs can be held against where nobody names a class: their own parts, and limits of every class.

The parts are those that the outputs show. What GPUs or ports of one host have in common stands for what a class would
say. What only a class can say is not asked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from ansible_collections.muster.cluster.plugins.module_utils.formats import nvidia_smi_query
from ansible_collections.muster.cluster.plugins.module_utils.judging.gpu_parts import on_superchip
from ansible_collections.muster.cluster.plugins.module_utils.probes import nvidia_smi
from ansible_collections.muster.cluster.plugins.module_utils.probes.infiniband import Device
from ansible_collections.muster.cluster.plugins.module_utils.probes.mlxlink import Links
from ansible_collections.muster.cluster.plugins.module_utils.probes.nvidia_smi import Gpus
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import (
    Bmc,
    BmcLog,
    BmcSensors,
    Expectations,
    Gpu,
    GpuPart,
    Nic,
    PowerSupplies,
    Rail,
    read_expectations,
    stated,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from .recognised import NOWHERE

T = TypeVar("T")

# A shipped class of hosts with all kinds of parts, whose limits for what parts count are those of every other class.
_CLASS = "dgx_h100"
# As gpu.retired_pages of a class of GPUs that retire pages: NVIDIA replaces a GPU with 60 and more (dynamic page
# retirement, RMA policy).
_RETIRED_PAGES = 59

_GPU_HEADING = re.compile(r"^GPU [0-9A-Fa-f]{4,8}:|Unable to determine", re.MULTILINE)
_ATTACHED = re.compile(r"^Attached GPUs +: \d+\n", re.MULTILINE)

# Checks whose faults an output tells by itself.
ASKED = frozenset(
    {
        *("filesystem_log", "gpu_log", "kernel_crash", "machine_check", "mount_log", "nic_log", "nvme_log", "oom_log"),
        *("pcie_errors", "program_crash", "sxid", "xid", "fabric_manager_log"),
        *("gpu_ecc", "gpu_fabric", "gpu_inventory", "gpu_nvlink", "gpu_nvlink_errors", "gpu_pcie", "gpu_recovery"),
        *("gpu_power", "gpu_retired_pages", "gpu_row_remap", "gpu_settings", "gpu_throttle", "gpu_versions"),
        *("dcgm_diag", "gpu_bandwidth", "cpu_stress"),
        *("nic_errors", "nic_firmware", "nic_link", "nic_physical", "pcie_aer", "pcie_links", "memory_errors"),
        *("nvme_smart", "bmc_log", "bmc_sensors", "power_supplies", "clock", "microcode"),
    }
)
# Of these only a class says whether what looks wrong is wanted: a remark, no fault.
DOUBTFUL = frozenset({"gpu_inventory", "gpu_settings", "gpu_versions", "nic_firmware", "microcode", "gpu_bandwidth"})
# What they measure where it is a fault whatever the class says.
CERTAIN = ("lost", "wrong data", "a fault of the hardware", "infoROM is corrupted", "the identity of another GPU")


def told(values: Mapping[str, Any]) -> Expectations:
    """Return the expectations that the values of the probes, None for unreadable ones, tell themselves."""
    base = _base()
    gpu = _gpu(values, stated(base.gpu))
    report: Gpus | None = values.get("nvidia_smi")
    links = [link for each in values.get("nvlink") or () for link in [each.speeds] if link]
    speeds = [speed for link in links for speed in link.values() if speed]
    fabric = report is None or any(each.fabric_state for each in report.gpus)
    nvlink = replace(
        stated(base.nvlink),
        links=_usual(map(len, links), stated(base.nvlink).links),
        link_gb_per_s=_usual(speeds, 0.0),
        fabric=fabric,
        fabric_manager=fabric,
    )
    return replace(
        with_parts(base, values),
        gpu=gpu,
        affinity=None,
        gpu_stack=None,
        telemetry=None,
        nvlink=nvlink,
        bmc=_bmc(values),
        pcie=replace(stated(base.pcie), devices=()),
    )


def with_parts(expect: Expectations, values: Mapping[str, Any]) -> Expectations:
    """Return the expectations with the NICs and drives that outputs show without saying where these lie."""
    found: dict[str, Any] = {}
    reports: Links | None = values.get("mlxlink")
    devices: Mapping[str, Device] | None = values.get("infiniband")
    if expect.nic and devices:
        found["nic"] = _class_nic(expect, devices, values) if expect.nic.rails else _nic_of(expect, devices, values)
    elif expect.nic and reports:
        found["nic"] = _linked(expect.nic, reports)
    drives = values.get("smartctl")
    if expect.nvme and drives:
        found["nvme"] = replace(expect.nvme, count=len(drives), addresses=None)
    # The places of GPUs beside rails are those of the class.
    return replace(expect, affinity=None, **found) if "nic" in found else replace(expect, **found)


def excerpt_of(report: str) -> str:
    """Return the text of ``nvidia-smi -q`` as if it were a whole one of the GPUs that it describes.

    People cut out the GPU that matters, or a section of it.
    """
    if report.lstrip().startswith("<"):
        return report
    if nvidia_smi_query.recognises(report):
        return report if nvidia_smi_query.names_places(report) else _placed(report)
    if not _GPU_HEADING.search(report):
        report = f"GPU 0000{NOWHERE.upper()}:00:00.0\n{report}"
    described = len(_GPU_HEADING.findall(report))
    return f"Attached GPUs : {described}\n{_ATTACHED.sub('', report)}"


def _placed(answer: str) -> str:
    """Return an answer to ``--query-gpu`` that names its GPUs otherwise, with addresses that no host has."""
    header, *rows = answer.lstrip("\n").split("\n")
    at = (f"0000{NOWHERE.upper()}:{number:02x}:00.0, {row}" if row.strip() else row for number, row in enumerate(rows))
    return "\n".join([f"pci.bus_id, {header}", *at])


def names_of(devices: Iterable[str]) -> str:
    """Return what probe ``rail_names`` would give for these RDMA devices, whose places are not known."""
    return "".join(f"/sys/bus/pci/devices/{_rail(at).address}/infiniband/{name}\n" for at, name in enumerate(devices))


@lru_cache(maxsize=1)
def _base() -> Expectations:
    expect = read_expectations(expectations_of(_CLASS, {}, _CLASS))
    # Where that class has its rails says nothing of this host.
    return replace(expect, nic=replace(stated(expect.nic), rails=()), affinity=None)


def _gpu(values: Mapping[str, Any], base: Gpu) -> Gpu:
    report: Gpus | None = values.get("nvidia_smi")
    if report is None or not (report.gpus or report.lost):
        # A list of the bus shows every GPU, or that there is none.
        unseen = 0 if values.get("lspci") is not None else 1
        listed = max((each.index + 1 for each in values.get("nvlink") or ()), default=unseen)
        addresses = _addresses(values) or [_place(number) for number in range(listed)]
        return replace(base, count=len(addresses), parts=_parts(addresses), driver=None, vbios=None)
    gpus = report.gpus
    addresses = sorted({*(each.address for each in gpus), *report.lost})
    pages = any(each.retired_pages.double_bit is not None for each in gpus)
    return replace(
        base,
        count=len(addresses),
        parts=_parts(addresses),
        model=_usual((each.model for each in gpus), base.model),
        memory_mib=_usual((each.memory_mib for each in gpus), base.memory_mib),
        driver=None,
        vbios=None,
        persistence=False,
        pcie_generation=_usual((each.pcie.generation_max for each in gpus), 1),
        pcie_width=_usual((_lanes(each) for each in gpus), 1),
        power_limit_watts=int(_usual((each.power_default_watts for each in gpus), base.power_limit_watts)),
        retired_pages=_RETIRED_PAGES if pages else None,
        row_remap=None if pages else base.row_remap,
    )


def _lanes(gpu: nvidia_smi.Gpu) -> int | None:
    """Return how many lanes a GPU must have by its own word: those that it and its slot can have.

    The link of a superchip's GPU to its CPU is another, and not all of its lanes need be there.
    """
    return gpu.pcie.width if on_superchip(gpu) else gpu.pcie.width_max or gpu.pcie.width


def _addresses(values: Mapping[str, Any]) -> list[str]:
    """Return the addresses of GPUs that another tool than nvidia-smi tells."""
    if values.get("dcgmi_nvlink"):
        return sorted(values["dcgmi_nvlink"])
    diagnosis, copies, slots = values.get("dcgm_diag"), values.get("nvbandwidth"), values.get("lspci")
    if diagnosis is not None and diagnosis.addresses:
        return sorted(diagnosis.addresses.values())
    if copies is not None and copies.addresses:
        return sorted(set(copies.addresses))
    if slots:
        found = slots.values() if isinstance(slots, Mapping) else slots
        return sorted(each.address for each in found if each.kind == "3D controller" and "NVIDIA" in each.name)
    return []


def _parts(addresses: Sequence[str]) -> tuple[GpuPart, ...]:
    return tuple(GpuPart(f"GPU{number}", address) for number, address in enumerate(addresses))


def _linked(nic: Nic, reports: Links) -> Nic:
    """Return the NICs of which mlxlink tells the ports: with a class the fastest ones, as many as it has rails."""
    told = {name: link.gbps or 0.0 for name, link in reports.links.items()}
    # What could not be read may be a rail.
    rates = {**told, **dict.fromkeys(reports.unread, float("inf"))}
    kept = sorted(rates, key=lambda name: -rates[name])[: len(nic.rails) or None]
    numbers = sorted(int(name[len("rail") :]) for name in kept if re.fullmatch(r"rail[0-9]{1,4}", name))
    nic = nic if nic.rails else replace(nic, speed_gbps=int(min(told.values(), default=0.0)))
    # Without a class the rate of a port is right: which one it has to have nothing tells.
    return replace(nic, rails=tuple(map(_rail, numbers)))


def _class_nic(expect: Expectations, devices: Mapping[str, Device], values: Mapping[str, Any]) -> Any:
    """Return the NICs of a class, all of its rails, at the places of the ports that come nearest to them.

    What the class asks of them stays. A rail for which there is no device is left where none is.
    """
    nic = stated(expect.nic)
    known = values.get("rail_names")
    if known and any(rail.address in known.devices for rail in nic.rails):
        return nic
    at = {name: _rail(number).address for number, name in enumerate(devices)}

    def rate(name: str) -> float:
        # A port that is down has to be a rail as long as there are too few that are up.
        ports = devices[name].ports
        return max((port.rate_gbps or 0 for port in ports if port.state == "active"), default=0)

    nearest = sorted(devices, key=rate, reverse=True)[: len(nic.rails)]
    places = [at[name] for name in devices if name in nearest]
    places += [_rail(len(devices) + number).address for number in range(len(nic.rails) - len(places))]
    return replace(nic, rails=tuple(Rail(rail.rail, place) for rail, place in zip(nic.rails, places, strict=True)))


def _nic_of(expect: Expectations, devices: Mapping[str, Device], values: Mapping[str, Any]) -> Any:
    """Return the NICs of which the rails are the fastest ports, and all that are down."""
    nic = stated(expect.nic)
    ports = {name: device.ports for name, device in devices.items() if device.ports}
    rates = [port.rate_gbps for each in ports.values() for port in each if port.state == "active" and port.rate_gbps]
    speed = max(rates, default=nic.speed_gbps)
    rails = [
        name for name, each in ports.items() if any(port.rate_gbps == speed or port.state != "active" for port in each)
    ]
    lanes = [port.lanes for name in rails for port in ports[name] if port.lanes]
    known = values.get("rail_names")
    places = {name: address for address, each in (known.devices if known else {}).items() for name in each}
    at = {name: places.get(name, _rail(number).address) for number, name in enumerate(devices)}
    return replace(
        nic,
        rails=tuple(Rail(number, at[name]) for number, name in enumerate(devices) if name in rails),
        model=None,
        firmware=None,
        link_layer=None,
        # A class states whole Gb/s; the only rate that is none, one lane of SDR (2.5), is no rail's.
        speed_gbps=int(speed),
        lanes=_usual(lanes, 0) or None,
    )


def _bmc(values: Mapping[str, Any]) -> Bmc | None:
    source = values.get("ipmi_sdr") or values.get("ipmi_sel") or values.get("redfish")
    if source is None:
        return None
    supplies = len(getattr(source, "supplies", ()))
    return Bmc(
        "ipmitool",
        None,
        log=BmcLog(None, 1) if getattr(values.get("ipmi_sel") or source, "events", None) is not None else None,
        sensors=BmcSensors(1, ()) if getattr(source, "sensors", ()) else None,
        power_supplies=PowerSupplies(supplies) if supplies else None,
        inlet=None,
        airflow=None,
    )


def _rail(number: int) -> Rail:
    return Rail(number, _place(number))


def _place(number: int) -> str:
    return f"{NOWHERE}:{number:02x}:00.0"


def _usual(found: Iterable[T | None], otherwise: T) -> T:
    """Return what is found most often: of equals the first."""
    counted = Counter(each for each in found if each is not None)
    return counted.most_common(1)[0][0] if counted else otherwise
