"""What the system calls the rails of a host: RDMA device and network interface of each PCI function, read from sysfs.

Names are the system's to choose and to change: rdma-core's udev rule makes ``mlx5_0`` ``rocep26s0`` when a device is
added, a further card shifts the numbers of all (60-rdma-persistent-naming.rules, systemd.net-naming-scheme). The paths
tell them: ``/sys/bus/pci/devices/ADDRESS/infiniband/NAME`` and ``.../net/NAME`` (Linux, Documentation/ABI/testing/
sysfs-class-net; drivers/infiniband/core/device.c). A file ``parent`` tells what lies on another one: an RDMA device in
software (drivers/infiniband/sw/rxe) on its network interface, the interface of a further partition on the rail's own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..words.expectations import Rail, pci_address
from .host import Host, Output, Unreadable, require_success

_PCI = "/sys/bus/pci/devices"
_PATHS = (f"{_PCI}/*/infiniband/*", f"{_PCI}/*/net/*", f"{_PCI}/*/virtio*/net/*")
_PARENTS = ("/sys/class/infiniband/*/parent", "/sys/class/net/*/parent")
_NAMED = re.compile(rf"{_PCI}/([^/ ]+)/(?:virtio\d+/)?(infiniband|net)/([^/ ]+)", re.ASCII)
_PARENT = re.compile(r"/sys/class/(infiniband|net)/([^/ ]+)/parent ([^/ ]+)", re.ASCII)
_WHAT = {"infiniband": "RDMA device", "net": "network interface"}


@dataclass(frozen=True)
class Names:
    """RDMA devices and network interfaces by PCI address, each sorted."""

    devices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    interfaces: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class NamedRail(Rail):
    """A rail with what the system calls its RDMA device and network interface, None where that is not one name."""

    device: str | None
    interface: str | None

    def __str__(self) -> str:
        return f"rail {self.rail} ({self.device or self.address})"


def collect_names(host: Host) -> Output:
    """Return the paths that tell the names, one in a line; after a file ``parent`` its text."""
    lines = host.paths(*_PATHS)
    for path in host.paths(*_PARENTS):
        output = host.read(path)
        if output.rc == 0 and output.stdout.strip():
            lines.append(f"{path} {output.stdout.strip()}")
    return Output("".join(f"{line}\n" for line in lines))


def parse_names(output: Output) -> Names:
    """Return the names; none at all where the host has no such devices. Raises Unreadable."""
    require_success(output)
    if output.stdout and not output.stdout.endswith("\n"):
        raise Unreadable("the last line has no end, expected a whole output")
    found: dict[str, dict[str, set[str]]] = {"infiniband": {}, "net": {}}
    parents: dict[tuple[str, str], str] = {}
    for line in output.stdout.splitlines():
        if match := _NAMED.fullmatch(line):
            address = pci_address(match.group(1)) or match.group(1)
            found[match.group(2)].setdefault(address, set()).add(match.group(3))
        elif match := _PARENT.fullmatch(line):
            parents[match.group(1), match.group(2)] = match.group(3)
        else:
            raise Unreadable(f"line is {line[:100]!r}, expected a path of /sys/bus/pci/devices or a parent")
    for kind, names in found.items():
        counted = Counter(name for own in names.values() for name in own)
        if twice := next((name for name, times in counted.items() if times > 1), None):
            raise Unreadable(f"{kind} device {twice} stands at two PCI addresses")
    for (kind, name), parent in parents.items():
        for address, interfaces in found["net"].items():
            if kind == "net":
                interfaces.discard(name)
            elif parent in interfaces:
                found[kind].setdefault(address, set()).add(name)
    return Names(*({address: sorted(names) for address, names in kind.items()} for kind in found.values()))


def read_names(host: Host) -> Names:
    """Return the names on a host."""
    return parse_names(collect_names(host))


def named(rails: Iterable[Rail], names: Names) -> list[NamedRail]:
    """Return the rails with their names."""
    return [
        NamedRail(
            rail.rail,
            rail.address,
            _only(names.devices.get(rail.address, ())),
            _only(names.interfaces.get(rail.address, ())),
        )
        for rail in rails
    ]


def no_device(rail: Rail, names: Names) -> str:
    """Return why the rail has no RDMA device of one name."""
    return _not_one("infiniband", rail, names.devices)


def no_interface(rail: Rail, names: Names) -> str:
    """Return why the rail has no network interface of one name."""
    return _not_one("net", rail, names.interfaces)


def _only(names: Sequence[str]) -> str | None:
    return names[0] if len(names) == 1 else None


def _not_one(kind: str, rail: Rail, found: Mapping[str, Sequence[str]]) -> str:
    what, own = _WHAT[kind], found.get(rail.address, ())
    if own:
        return f"rail {rail.rail} has {what}s {', '.join(own)} at {rail.address}, expected one"
    others = ", ".join(f"{name} at {address}" for address, names in sorted(found.items()) for name in names)
    return f"rail {rail.rail} has no {what} at {rail.address}, {what}s of this host: {others or 'none'}"
