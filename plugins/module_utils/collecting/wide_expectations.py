"""What makes every probe read all that a host has, where no class has been written for it yet.

Nothing is judged by these expectations: devices are those that sysfs shows, every limit is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from ..host.host import Host
from ..host.nvswitch_nics import managers
from ..host.pci_functions import DISPLAY, MELLANOX, NETWORK, NVIDIA, functions, virtual_functions
from ..host.rail_names import read_names
from ..probes import pytorch
from ..words.expectations import (
    Bmc,
    BmcLog,
    BmcSensors,
    Collectives,
    Dcgm,
    Expectations,
    Gpu,
    GpuPart,
    Imex,
    Inlet,
    Nic,
    NicPhysical,
    NvLink,
    NvLinkDomain,
    Nvme,
    PowerSupplies,
    PyTorch,
    Rail,
    Tools,
)

T = TypeVar("T")

NVML = "libnvidia-ml.so.1"
# Where the service logs unless it is told otherwise (LOG_FILE_NAME of fabricmanager.cfg).
FABRIC_MANAGER_LOG = "/var/log/fabricmanager.log"
_SCALARS: dict[Any, Any] = {str: "-", bool: False, int: 0, float: 0.0}


def wide_expectations(host: Host, tool_path: str, root: str) -> Expectations:
    """Return expectations by which probes ask for all GPUs, NICs and drives of this host and for all of its BMC.

    Slots are ``GPU0`` and on, rails 0 and on, both in the order of the PCI addresses.
    """
    return filled(
        Expectations,
        gpu=_gpu(host),
        # With a domain, as IMEX is asked for.
        nvlink=filled(
            NvLink,
            fabric=True,
            fabric_manager_log=FABRIC_MANAGER_LOG,
            domain=filled(NvLinkDomain, imex=filled(Imex)),
        ),
        nic=_nic(host),
        nvme=filled(Nvme, count=len(host.paths("/sys/class/nvme/nvme*"))),
        # Not null: errors of NVLinks are asked for.
        dcgm=filled(Dcgm, nvlink_errors=0),
        bmc=filled(
            Bmc,
            interface="ipmitool",
            log=filled(BmcLog),
            sensors=filled(BmcSensors),
            power_supplies=filled(PowerSupplies),
            inlet=filled(Inlet),
        ),
        # Not null: enroot is asked for its version.
        collective=filled(Collectives, container="-"),
        pytorch=filled(PyTorch, python=pytorch.PROVIDED),
        tools=Tools(tool_path, root),
    )


def filled(kind: type[T], **given: Any) -> T:
    """Return an object of a dataclass with these values, and for all others null or the emptiest of their type."""
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind) if each.init]  # type: ignore[arg-type]
    return kind(**{name: given[name] if name in given else _emptiest(hints[name]) for name in names})


def _emptiest(hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if type(None) in arguments:
        return None
    if origin is Literal:
        return arguments[0]
    if isinstance(origin, type):
        return {} if issubclass(origin, Mapping) else ()
    return filled(hint) if is_dataclass(hint) and isinstance(hint, type) else _SCALARS[hint]


def _gpu(host: Host) -> Gpu | None:
    addresses = sorted(functions(host, NVIDIA, DISPLAY))
    parts = tuple(GpuPart(f"GPU{index}", address) for index, address in enumerate(addresses))
    return filled(Gpu, count=len(parts), parts=parts, nvml=NVML) if parts else None


def _nic(host: Host) -> Nic:
    """Return all NICs that can be rails: those with an RDMA device, and NVIDIA's without one (a driver is missing).

    Virtual functions have no firmware, port or cable of their own; what manages NVSwitches leads to no other host.
    """
    with_device = functions(host, "", NETWORK).intersection(read_names(host).devices)
    managing = {address for address, manages in managers(host).items() if manages}
    addresses = sorted((with_device | functions(host, MELLANOX, NETWORK)) - virtual_functions(host) - managing)
    return filled(
        Nic,
        rails=tuple(Rail(rail, address) for rail, address in enumerate(addresses)),
        # Not null: settings of the firmware and the physical layer are asked for.
        firmware_settings=(),
        physical=filled(NicPhysical, fec_histogram=True),
    )
