"""Does the host have GPUs and NICs where its class has them?

One that is missing is burn-in's to name. Where none is at its place and others are elsewhere, the class is another
machine's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..host.host import Host
from ..words.expectations import Expectations, pci_address

_DEVICES = "/sys/bus/pci/devices"
# Vendors' numbers, and the classes of their functions (PCI Code and ID Assignment Specification).
_NVIDIA, _MELLANOX = "0x10de", "0x15b3"
_DISPLAY, _NETWORK = ("0x0300", "0x0302"), ("0x02",)


def lacks(host: Host, expect: Expectations, shipped: Mapping[str, Mapping[str, Sequence[str]]]) -> list[str]:
    """Return that the class does not fit, and which shipped one does.

    ``shipped`` has the PCI addresses under ``gpus`` and ``rails`` of each class that comes with Muster and has them.
    """
    gpus, nics = _functions(host, _NVIDIA, _DISPLAY), _functions(host, _MELLANOX, _NETWORK)
    wanted_gpus = [part.address for part in expect.gpu.parts] if expect.gpu else []
    wanted_rails = [rail.address for rail in expect.nic.rails] if expect.nic else []
    wrong = []
    if gpus and wanted_gpus and not gpus.intersection(wanted_gpus):
        wrong.append(f"GPUs at {_listed(gpus)}, expected at {_listed(wanted_gpus)}")
    # Of any vendor: rails need not be NVIDIA's.
    if nics and wanted_rails and not _functions(host, "", _NETWORK).intersection(wanted_rails):
        wrong.append(f"NICs at {_listed(nics)}, expected rails at {_listed(wanted_rails)}")
    if not wrong:
        return []
    fitting = [
        name
        for name, places in sorted(shipped.items())
        if gpus == set(places["gpus"]) and nics.issuperset(places["rails"])
    ]
    way = (
        f"class {' or '.join(fitting)} has these places" if fitting else "declare gpu.parts and nic.rails of this host"
    )
    return [f"class {expect.class_} does not fit: found {'; '.join(wrong)}; {way}"]


def _functions(host: Host, vendor: str, classes: tuple[str, ...]) -> frozenset[str]:
    """Return the addresses of a vendor's functions of these classes; of every vendor's without one."""
    found = set()
    for path in host.paths(f"{_DEVICES}/*/vendor"):
        place = path.rpartition("/")[0]
        address = pci_address(place.rpartition("/")[2])
        if address and host.read(path).stdout.startswith(vendor) and _is(host, place, classes):
            found.add(address)
    return frozenset(found)


def _is(host: Host, place: str, classes: tuple[str, ...]) -> bool:
    return any(host.read(path).stdout.startswith(classes) for path in host.paths(f"{place}/class"))


def _listed(addresses: Iterable[str]) -> str:
    return ", ".join(sorted(addresses))
