"""What a RoCE port shows: where it lies, and each of its settings as the backend's sources tell it."""

from __future__ import annotations

import fnmatch
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Union

from ..host.host import Host, Output, Unreadable
from ..host.rail_names import collect_names, named, no_device, no_interface, parse_names
from ..words.errors import MusterError
from ..words.expectations import Rail

RDMA = "/sys/class/infiniband"
TOOL_SECONDS = 30.0
CONFIGFS = "/sys/kernel/config/rdma_cm"
# Under this name the raw outputs of ports have those of ``collect_names``, so that they can be judged on another host.
RAIL_NAMES = "rail_names"


class PortError(MusterError):
    """A rail without a port: no RDMA device, or no network interface, at its PCI address."""


@dataclass(frozen=True)
class Place(Rail):
    """Where a rail's port is: what the system calls its RDMA device and its network interface."""

    device: str
    interface: str

    def __str__(self) -> str:
        return f"rail {self.rail} ({self.device}, {self.interface})"


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


def place_of(rail: Rail, outputs: Mapping[str, Output]) -> Place:
    """Return where the rail's port is, by the names among the raw outputs (``RAIL_NAMES``); raises PortError."""
    try:
        names = parse_names(outputs[RAIL_NAMES])
    except (KeyError, Unreadable) as exc:
        raise PortError(f"{rail}: what the system calls its devices could not be read: {exc}") from exc
    (found,) = named([rail], names)
    if found.device is None:
        raise PortError(no_device(rail, names))
    if found.interface is None:
        raise PortError(no_interface(rail, names))
    return Place(rail.rail, rail.address, found.device, found.interface)


def find(host: Host, rail: Rail) -> Place:
    """Return where the rail's port is on a host now, as udev may change the names at any time; raises PortError."""
    return place_of(rail, {RAIL_NAMES: collect_names(host)})


def collect(host: Host, place: Place, backend: Backend, names: frozenset[str]) -> dict[str, Output]:
    """Return the raw outputs that tell the port's settings of these names and its GIDs, by command or path."""
    outputs: dict[str, Output] = {}
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
    outputs.update(_read_gids(host, place.device))
    return outputs


def state_of(place: Place, outputs: Mapping[str, Output], backend: Backend, names: frozenset[str]) -> PortState:
    """Return what the raw outputs say of the port's settings of these names."""
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
    return PortState(place, {**values, "gids": _gids(place.device, outputs)}, unread)


def unread_gid(device: str, outputs: Mapping[str, Output]) -> str:
    """Return which file of the device's GID table could not be read, "" where all were."""
    table = f"{RDMA}/{device}/ports/1/gid"
    return next((f"{path}: {output.error}" for path, output in outputs.items() if _lost(path, table, output)), "")


def _lost(path: str, table: str, output: Output) -> bool:
    return path.startswith(table) and output.rc != 0


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
