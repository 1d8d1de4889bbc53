"""PCI functions of a host by vendor and class, read from sysfs."""

from __future__ import annotations

from ..words.expectations import pci_address
from .host import Host

_DEVICES = "/sys/bus/pci/devices"
# Vendors' numbers, and the classes of functions (PCI Code and ID Assignment Specification).
NVIDIA, MELLANOX = "0x10de", "0x15b3"
DISPLAY, NETWORK = ("0x0300", "0x0302"), ("0x02",)


def functions(host: Host, vendor: str, classes: tuple[str, ...]) -> frozenset[str]:
    """Return the addresses of a vendor's functions of these classes; of every vendor's without one."""
    found = set()
    for path in host.paths(f"{_DEVICES}/*/vendor"):
        place = path.rpartition("/")[0]
        address = pci_address(place.rpartition("/")[2])
        if address and host.read(path).stdout.startswith(vendor) and _is(host, place, classes):
            found.add(address)
    return frozenset(found)


def virtual_functions(host: Host) -> frozenset[str]:
    """Return the addresses of the functions of which this host has the physical one too (SR-IOV)."""
    places = (path.split("/")[-2] for path in host.paths(f"{_DEVICES}/*/physfn"))
    return frozenset(address for address in map(pci_address, places) if address)


def _is(host: Host, place: str, classes: tuple[str, ...]) -> bool:
    return any(host.read(path).stdout.startswith(classes) for path in host.paths(f"{place}/class"))
