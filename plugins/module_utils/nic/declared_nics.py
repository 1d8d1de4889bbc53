"""The NICs that a hardware class declares: rails of the compute fabric, and front-end interfaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..host.rail_names import NamedRail, Names, named
from ..roce.settings import PortSettings
from ..words.expectations import Expectations, Rail

# Port counters of the InfiniBand specification (PortCounters) stop at their end and stay there until they are cleared:
# what stands at the end is a lower bound. Widths from the specification, volume 1, section 16.1.3.5.
COUNTER_END: dict[str, int] = {
    "symbol_error": 0xFFFF,
    "link_error_recovery": 0xFF,
    "link_downed": 0xFF,
    "port_rcv_errors": 0xFFFF,
    "port_rcv_remote_physical_errors": 0xFFFF,
    "port_rcv_constraint_errors": 0xFF,
    "port_xmit_discards": 0xFFFF,
    "port_xmit_constraint_errors": 0xFF,
    "local_link_integrity_errors": 0xF,
    "excessive_buffer_overrun_errors": 0xF,
    "VL15_dropped": 0xFFFF,
}
# Counters of a device's network interface; those of RoCE ports, whose InfiniBand counters stay at 0.
INTERFACE_COUNTERS = ("carrier_changes", "rx_crc_errors")


def rails_of(expect: Expectations) -> Sequence[Rail]:
    """Return the rails of the class; a class without NICs says so with ``nic: null``, a missing key is an error."""
    nic = expect.nic
    return () if nic is None else nic.rails


def named_rails(expect: Expectations, names: Names) -> Sequence[NamedRail]:
    """Return the rails of the class with what the host calls them (probe ``rail_names``)."""
    return named(rails_of(expect), names)


def subject_of(rail: Rail) -> str:
    """Return the name of a rail's part, the same on every host: ``nic rail0``."""
    return f"nic {rail.name}"


def rail_subjects(expect: Expectations) -> list[str]:
    """Return the parts of the rails."""
    return [subject_of(rail) for rail in rails_of(expect)]


def gpus_beside(expect: Expectations) -> dict[int, int]:
    """Return by rail the CUDA number of the GPU beside it, GPUs numbered by their PCI addresses.

    By the class' affinity where it names rails, else in the order of both parts' addresses.
    """
    if not expect.gpu:
        return {}
    gpus = sorted(expect.gpu.parts, key=lambda part: part.address)
    numbers = {part.slot: number for number, part in enumerate(gpus)}
    affinity = (expect.affinity.parts if expect.affinity else None) or ()
    declared = {part.rail: numbers[part.slot] for part in affinity if part.slot in numbers}
    rails = sorted(rails_of(expect), key=lambda rail: rail.address)
    return {rail.rail: declared.get(rail.rail, number % len(gpus)) for number, rail in enumerate(rails)}


def roce_ports(expect: Expectations) -> dict[str, PortSettings]:
    """Return what each rail's port is set to by part, none where the class' fabric is no RoCE.

    Which address a rail has is the node's, not the class': ``ip`` is None.
    """
    port = expect.fabric.port if expect.fabric is not None else None
    if port is None:
        return {}
    return {
        subject_of(rail): PortSettings(**vars(port), rail=rail.rail, address=rail.address, ip=None)
        for rail in rails_of(expect)
    }


@dataclass(frozen=True)
class WantedInterface:
    """What the class expects of a network interface; ``where`` is how reasons name it.

    ``interface`` is None where the rail has none, or more than one.
    """

    interface: str | None
    speed_gbps: int
    mtu_bytes: int | None
    where: str


def interface_subjects(expect: Expectations) -> list[str]:
    """Return the parts that owe a network interface: rails that have one, and the front end."""
    nic = expect.nic
    if nic is None:
        return []
    rails = rail_subjects(expect) if _rails_have_interfaces(expect) else []
    return [*rails, *(f"nic {item.interface}" for item in nic.frontend)]


def _rails_have_interfaces(expect: Expectations) -> bool:
    """Return whether rails are declared to have network interfaces, by the fabric or, without one, by the class."""
    by_fabric = expect.fabric is not None and expect.fabric.has_interfaces
    return by_fabric or (expect.nic is not None and expect.nic.link_layer == "Ethernet")


def interfaces_of(expect: Expectations, names: Names) -> dict[str, WantedInterface]:
    """Return what the class expects of each network interface that is owed, by part (``nic rail0``)."""
    nic = expect.nic
    if nic is None:
        return {}
    found = {}
    # An IPoIB interface says the speed of its port, as an Ethernet one does.
    for rail in named_rails(expect, names) if _rails_have_interfaces(expect) else ():
        where = f"{rail} interface {rail.interface}" if rail.interface else str(rail)
        found[subject_of(rail)] = WantedInterface(rail.interface, nic.speed_gbps, nic.mtu_bytes, where)
    for item in nic.frontend:
        where = f"front-end interface {item.interface}"
        found[f"nic {item.interface}"] = WantedInterface(item.interface, item.speed_gbps, item.mtu_bytes, where)
    return found
