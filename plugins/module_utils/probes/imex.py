"""NVIDIA IMEX, by which the hosts of an NVLink domain use each other's GPU memory: service, domain, channels.

``nvidia-imex-ctl -q`` tells the state of this host's daemon, ``nvidia-imex-ctl -N`` that of every node of its list and
of the connection from each to each. ``-N -j`` gives the same as JSON, but does not tell which node this host is: the
text marks it with ``*``. Both may end with status 0 whatever they say. ``-N`` takes up to 4 s with nodes that do not
answer, and half a minute where the list has no address of this host.

Formats: nvidia-imex 580.178.04 and 615.71.09, run without a GPU (``--nogpu``) as domains of three and four nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..formats.unit_state import UnitState, parse_unit_state, show
from ..host import blocks
from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import IMEX_SERVICE, Expectations

NAME = "imex"
PARTLY_UNVERIFIED = "channels, and the version of nodes with GPUs"
ARGV = show(IMEX_SERVICE)
VERSION_ARGV = ("nvidia-imex", "--version")
OWN_ARGV = ("nvidia-imex-ctl", "-q")
DOMAIN_ARGV = ("nvidia-imex-ctl", "-N")
# With nodes that do not answer it took up to 4 s.
TIMEOUT_SECONDS = 20.0
CHANNELS = "/dev/nvidia-caps-imex-channels/channel"
NOT_DECLARED = Output("not declared by the class\n")
READY, CONNECTED = "READY", "C"

_VERSION = re.compile(r"IMEX version is: (\d+(?:\.\d+)+)\n")
_WORD = re.compile(r"([A-Z_]{2,40})\n+")
_NODE = re.compile(r"Node #(\d{1,4}) +(?:- (\S+) +|\* (\S+) \* +)- ([A-Z_]{2,40}) +- Version:(?: (\S+))?")
_STATE = re.compile(r"Domain State: ([A-Z_]{2,40})")
_CHANNEL = re.compile(rf"{CHANNELS}(\d{{1,5}})")


@dataclass(frozen=True)
class Node:
    """One node of the list; ``version`` is "" where it does not answer."""

    address: str
    own: bool
    status: str
    version: str


@dataclass(frozen=True)
class Domain:
    """The nodes by number, and the letter of the connection from each (first) to each."""

    nodes: tuple[Node, ...]
    connections: Mapping[tuple[int, int], str]
    state: str


@dataclass(frozen=True)
class Imex:
    """What could be read; None: could not be. ``domain`` is else the reason."""

    service: UnitState
    version: str | None
    own: str | None
    domain: Domain | str
    channels: frozenset[int] | None


def collect(host: Host, expect: Expectations) -> Output:
    """Ask systemd, the programs where the service is active, and see which channels there are."""
    domain = expect.nvlink.domain if expect.nvlink else None
    if domain is None or domain.imex is None:
        return NOT_DECLARED
    service = host.run(ARGV, TIMEOUT_SECONDS)
    not_asked = Output(rc=None, error="not asked, as the service is not active")
    active = "ActiveState=active\n" in service.stdout
    channels = host.paths(f"{CHANNELS}*")
    return blocks.joined(
        {
            "service": service,
            "version": host.run(VERSION_ARGV, TIMEOUT_SECONDS),
            "own": host.run(OWN_ARGV, TIMEOUT_SECONDS) if active else not_asked,
            "domain": host.run(DOMAIN_ARGV, TIMEOUT_SECONDS) if active else not_asked,
            "channels": Output("".join(f"{path}\n" for path in channels) + f"{len(channels)} in all\n"),
        }
    )


def parse(output: Output) -> Imex:
    """Return what was found; raises Unreadable when systemd does not tell the service's state."""
    require_success(output)
    found = blocks.split(output.stdout)
    lost = Output(rc=None, error="no answer")
    version = _VERSION.fullmatch(_printed(found.get("version", lost)))
    own = _WORD.fullmatch(_printed(found.get("own", lost)))
    return Imex(
        service=parse_unit_state(found.get("service", lost)),
        version=version.group(1) if version else None,
        own=own.group(1) if own else None,
        domain=_domain(found.get("domain", lost)),
        channels=_channels(_printed(found.get("channels", lost))),
    )


def _printed(output: Output) -> str:
    return output.stdout if output.rc == 0 else ""


def _domain(output: Output) -> Domain | str:
    """Return the domain, or why it could not be read."""
    try:
        require_success(output)
        return parse_domain(output.stdout)
    except Unreadable as exc:
        return output.error or str(exc)


def parse_domain(text: str) -> Domain:
    """Return what ``nvidia-imex-ctl -N`` tells; raises Unreadable unless it tells each node and each connection."""
    lines = [line.rstrip() for line in text.splitlines()]
    rows = [_NODE.fullmatch(line) for line in lines if line.startswith("Node #")]
    nodes = tuple(
        Node(match.group(2) or match.group(3), match.group(3) is not None, match.group(4), match.group(5) or "")
        for match in rows
        if match
    )
    if not nodes or [int(match.group(1)) if match else -1 for match in rows] != [*range(len(nodes))]:
        raise Unreadable(
            f"{len(rows)} lines of nodes, expected them numbered from 0, such as 'Node #0 * ADDRESS * ...'"
        )
    if sum(node.own for node in nodes) != 1:
        raise Unreadable(f"{sum(node.own for node in nodes)} nodes are marked as this host, expected one")
    states = [match for line in lines if (match := _STATE.fullmatch(line))]
    if len(states) != 1:
        raise Unreadable(f"{len(states)} lines with the domain's state, expected one")
    return Domain(nodes, _connections(lines, len(nodes)), states[0].group(1))


def _connections(lines: list[str], count: int) -> dict[tuple[int, int], str]:
    numbers = [str(number) for number in range(count)]
    heads = [index for index, line in enumerate(lines) if line.split() == ["Nodes", "From\\To", *numbers]]
    if len(heads) != 1:
        raise Unreadable(f"{len(heads)} tables from {count} nodes to {count}, expected one")
    table = [line.split() for line in lines[heads[0] + 1 : heads[0] + 1 + count]]
    if [row[:1] for row in table] != [[number] for number in numbers] or {len(row) for row in table} != {count + 1}:
        raise Unreadable(f"the table of connections does not tell {count} of each of the {count} nodes")
    return {(start, end): word for start, row in enumerate(table) for end, word in enumerate(row[1:])}


def _channels(text: str) -> frozenset[int] | None:
    *paths, count = text.splitlines() or [""]
    found = [_CHANNEL.fullmatch(path) for path in paths]
    if count != f"{len(paths)} in all" or not text.endswith("\n") or not all(found):
        return None
    return frozenset(int(match.group(1)) for match in found if match)
