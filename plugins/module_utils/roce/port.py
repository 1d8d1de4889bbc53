"""What a RoCE port shows: where it lies, and each of its settings as the backend's sources tell it."""

from __future__ import annotations

import fnmatch
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Union

from ..host.host import Host, Output, Unreadable
from ..words.errors import MusterError
from ..words.expectations import pci_address
from .settings import PortSettings

RDMA = "/sys/class/infiniband"
TOOL_SECONDS = 30.0
CONFIGFS = "/sys/kernel/config/rdma_cm"


class PortError(MusterError):
    """A port that is not there, or not where it was declared."""


@dataclass(frozen=True)
class Place:
    """Where a port is: RDMA device, its network interface, and PCI address (None for a device in software)."""

    device: str
    interface: str
    address: str | None


@dataclass(frozen=True)
class Gid:
    """A RoCE v2 entry of the port's GID table: the address that peers reach it by."""

    index: int
    address: str
    interface: str | None


@dataclass(frozen=True)
class PortState:
    """Values of settings by name, and why what is not there could not be read."""

    place: Place
    values: Mapping[str, Any]
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """One tool run (``words`` are its argv) or file (one word, a path that may be a glob pattern).

    In words ``{device}`` and ``{interface}`` stand for the port's. ``parse`` turns the texts by name (a file's is its
    path) into values of the settings in ``gives``, and raises Unreadable; ``absent`` holds where there is no file.
    """

    gives: tuple[str, ...]
    words: tuple[str, ...]
    parse: Callable[[Mapping[str, str]], Mapping[str, Any]]
    absent: Mapping[str, Any] | None = None

    def at(self, place: Place) -> tuple[str, ...]:
        """Return the words for one port."""
        return tuple(word.format(device=place.device, interface=place.interface) for word in self.words)

    def found(self, place: Place, outputs: Mapping[str, Output]) -> dict[str, Output]:
        """Return of the raw outputs those that this source gave for one port."""
        name = " ".join(self.at(place))
        if name.startswith("/"):
            return {path: outputs[path] for path in outputs if fnmatch.fnmatchcase(path, name)}
        return {name: outputs[name]} if name in outputs else {}


@dataclass(frozen=True)
class Command:
    """A tool run that changes something."""

    argv: tuple[str, ...]


@dataclass(frozen=True)
class Write:
    """A file to be written."""

    path: str
    text: str


Step = Union[Command, Write]


@dataclass(frozen=True)
class Backend:
    """One way of setting ports.

    ``abilities`` is the table of what it can set and read back, each by what; ``steps`` how, in the order in which it
    is done.
    """

    name: str
    abilities: Mapping[str, str]
    sources: tuple[Source, ...]
    steps: Mapping[str, Callable[[Place, Any], list[Step]]]


def collect(host: Host, settings: PortSettings, backend: Backend, names: frozenset[str]) -> dict[str, Output]:
    """Return the raw outputs that tell the place of the port and its settings of these names, by command or path."""
    outputs = {path: host.read(path) for path in host.paths(*_place_files(settings.device))}
    try:
        place = place_of(settings.device, outputs)
    except PortError:
        return outputs
    for source in backend.sources:
        if names.isdisjoint(source.gives):
            continue
        words = source.at(place)
        if not words[0].startswith("/"):
            outputs[" ".join(words)] = host.run(words, TOOL_SECONDS)
        elif words[0].startswith(CONFIGFS):
            outputs.update(_read_configfs(host, words[0]))
        else:
            outputs.update({path: host.read(path) for path in host.paths(words[0])})
    outputs.update(_read_gids(host, settings.device))
    return outputs


def place_of(device: str, outputs: Mapping[str, Output]) -> Place:
    """Return where the device lies, by its files; raises PortError."""
    base = f"{RDMA}/{device}"
    if not any(path.startswith(f"{base}/") for path in outputs):
        raise PortError(f"{device} is absent, expected in {RDMA}: is its driver loaded?")
    names = {path.split("/")[-2] for path in outputs if fnmatch.fnmatch(path, f"{base}/device/net/*/mtu")}
    # A device in software names the interface that it sits on.
    parent = outputs.get(f"{base}/parent", Output(rc=1))
    names |= {parent.stdout.strip()} if parent.rc == 0 and parent.stdout.strip() else set()
    if len(names) != 1:
        raise PortError(f"{device} has {', '.join(sorted(names)) or 'no network interface'}, expected one interface")
    slot = re.search(r"^PCI_SLOT_NAME=(\S+)$", outputs.get(f"{base}/device/uevent", Output()).stdout, re.MULTILINE)
    return Place(device, names.pop(), pci_address(slot.group(1)) if slot else None)


def check_place(settings: PortSettings, place: Place) -> None:
    """Raise PortError unless the device lies where it was declared."""
    if settings.address is not None and place.address != settings.address:
        where = place.address or "no PCI address"
        raise PortError(f"{settings.device} is at {where}, expected {settings.address}")
    if settings.interface is not None and place.interface != settings.interface:
        raise PortError(f"{settings.device} has interface {place.interface}, expected {settings.interface}")


def state_of(
    settings: PortSettings, outputs: Mapping[str, Output], backend: Backend, names: frozenset[str]
) -> PortState:
    """Return what the raw outputs say of the settings of these names; raises PortError."""
    place = place_of(settings.device, outputs)
    check_place(settings, place)
    values: dict[str, Any] = {}
    unread: dict[str, str] = {}
    for source in backend.sources:
        asked = names.intersection(source.gives)
        if not asked:
            continue
        try:
            given = _values(source, place, outputs)
        except Unreadable as exc:
            unread.update(dict.fromkeys(asked, str(exc)))
            continue
        values.update({name: given[name] for name in asked})
    return PortState(place, {**values, "gids": _gids(settings.device, outputs)}, unread)


def unread_gid(device: str, outputs: Mapping[str, Output]) -> str:
    """Return which file of the device's GID table could not be read, "" where all were."""
    table = f"{RDMA}/{device}/ports/1/gid"
    return next((f"{path}: {output.error}" for path, output in outputs.items() if _lost(path, table, output)), "")


def _lost(path: str, table: str, output: Output) -> bool:
    return path.startswith(table) and output.rc != 0


def _place_files(device: str) -> tuple[str, ...]:
    return tuple(f"{RDMA}/{device}/{name}" for name in ("device/net/*/mtu", "device/uevent", "parent"))


def _values(source: Source, place: Place, outputs: Mapping[str, Output]) -> Mapping[str, Any]:
    name, found = " ".join(source.at(place)), source.found(place, outputs)
    if not found and source.absent is not None:
        return source.absent
    if not found:
        raise Unreadable(f"{name} is absent")
    for path, output in found.items():
        if output.rc != 0 or output.timed_out or output.error:
            said = " ".join((output.error or output.stderr or output.stdout).split())
            raise Unreadable(f"{path}: {said[:200] or f'exit status {output.rc}'}")
    try:
        return source.parse({path: output.stdout for path, output in found.items()})
    except Unreadable as exc:
        raise Unreadable(f"{name}: {exc}") from exc


def _read_configfs(host: Host, path: str) -> dict[str, Output]:
    """Return a file of a directory that is there as long as somebody wants to look into it."""
    if host.paths(path):
        return {path: host.read(path)}
    directory = "/".join(path.split("/")[:6])
    made = host.run(("mkdir", directory), TOOL_SECONDS)
    if made.rc != 0:
        why = (made.stderr or made.error).strip() or "cannot be made"
        return {path: Output(rc=None, error=f"{why} (is rdma_cm loaded, and configfs mounted?)")}
    output = host.read(path)
    host.run(("rmdir", directory), TOOL_SECONDS)
    return {path: output}


def _read_gids(host: Host, device: str) -> dict[str, Output]:
    """Return the port's GIDs in use, each with its type and interface; a table has hundreds of free entries."""
    port = f"{RDMA}/{device}/ports/1"
    outputs: dict[str, Output] = {}
    for path in host.paths(f"{port}/gids/*"):
        output = host.read(path)
        if output.rc == 0 and not output.stdout.strip(":0 \n"):
            continue
        index = path.rpartition("/")[2]
        outputs[path] = output
        for name in ("types", "ndevs"):
            outputs[f"{port}/gid_attrs/{name}/{index}"] = host.read(f"{port}/gid_attrs/{name}/{index}")
    return outputs


def _gids(device: str, outputs: Mapping[str, Output]) -> tuple[Gid, ...]:
    port = f"{RDMA}/{device}/ports/1"
    found = []
    for path, output in outputs.items():
        directory, _, index = path.rpartition("/")
        if directory != f"{port}/gids" or output.rc != 0 or not index.isdigit():
            continue
        kind, interface = (outputs.get(f"{port}/gid_attrs/{name}/{index}", Output(rc=1)) for name in ("types", "ndevs"))
        if kind.rc != 0 or kind.stdout.strip() != "RoCE v2":
            continue
        try:
            address = ipaddress.IPv6Address(output.stdout.strip())
        except ValueError:
            continue
        shown = str(address.ipv4_mapped or address)
        found.append(Gid(int(index), shown, interface.stdout.strip() if interface.rc == 0 else None))
    return tuple(sorted(found, key=lambda gid: gid.index))
