"""Parsers of what infiniband-diags print of a whole fabric: ibnetdiscover, iblinkinfo and ibqueryerrors.

Formats: ibnetdiscover(8), iblinkinfo(8), ibqueryerrors(8) of infiniband-diags. Ports are known by port GUID and number,
which all three print. Each parser takes every line or none: one that it does not know makes the whole unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.live_fabric import UnreadableError

# Gb/s of one lane by name, and by the signalling rate that iblinkinfo prints.
LANE_GBPS = {
    **{"SDR": 2.5, "DDR": 5.0, "QDR": 10.0, "FDR10": 10.0, "FDR": 14.0, "EDR": 25.0, "HDR": 50.0, "NDR": 100.0},
    "XDR": 200.0,
}
_SIGNALLING = {
    **{"2.5": "SDR", "5.0": "DDR", "10.0": "QDR", "14.0625": "FDR", "25.78125": "EDR", "53.125": "HDR"},
    **{"106.25": "NDR", "212.5": "XDR"},
}
PortKey = tuple[int, int]


class Seen(NamedTuple):
    """A port as ibnetdiscover names it: ``kind`` CA, SW or RT, the node's description, port GUID and number."""

    kind: str
    node: str
    guid: int
    port: int

    @property
    def key(self) -> PortKey:
        return self.guid, self.port


class SeenPort(NamedTuple):
    """A port with its peer, None where it is linked to nothing; width and speed as printed (``4x``, ``HDR``)."""

    own: Seen
    peer: Seen | None
    width: str = ""
    speed: str = ""


class LinkState(NamedTuple):
    """What iblinkinfo says of a port; lanes and speed (``HDR``) are None where it is down or they have no name."""

    state: str
    lanes: int | None
    speed: str | None
    peer: PortKey | None


@dataclass(frozen=True)
class Errors:
    """Counters that are not 0 by port, how many nodes were asked, and the descriptions of those that did not answer."""

    counters: Mapping[PortKey, Mapping[str, int]]
    nodes: int
    failures: int


_PORTS_LINE = re.compile(
    r"(CA|SW|RT) +(\d+) +(\d+) 0x([0-9a-f]+) (\d+x|\?\?) (\S+)"
    r"(?: - (CA|SW|RT) +(\d+) +(\d+) 0x([0-9a-f]+) \( '(.*)' - '(.*)' \)| +'(.*)')\s*"
)
_HEADER = re.compile(r'(Switch|Ca|Rt)\s+(\d+)\s+"([SHR])-([0-9a-f]+)"\s+# "(.*)"(.*)')
_KINDS = {"Switch": "SW", "Ca": "CA", "Rt": "RT", "S": "SW", "H": "CA", "R": "RT"}
_GUID = re.compile(r"switchguid=0x([0-9a-f]+)\(([0-9a-f]+)\)")
_PORT = re.compile(
    r'\[(\d+)\](?:\[ext \d+\])?(?:\(([0-9a-f]+)\))?\s+"([SHR])-([0-9a-f]+)"\[(\d+)\](?:\[ext \d+\])?\s*'
    r'(?:\(([0-9a-f]+)\))?\s*# (?:lid \d+ lmc \d+ )?"(.*)" lid \d+ (\d+x|\?\?)(\S+)(?: .*)?'
)
_BESIDE = re.compile(r"\s*(#.*|(vendid|devid|sysimgguid|caguid|rtguid)=.*|Chassis \d+.*)?")


def parse_ibnetdiscover(text: str) -> list[SeenPort]:
    """Return every port of ``ibnetdiscover`` or ``ibnetdiscover -p``. Raises UnreadableError.

    Each link is printed at both of its ends: one of which an end is missing shows that the output was cut short.
    """
    lines = _lines(text, "ibnetdiscover")
    found = _ports_report(lines) if lines[0][:3] in ("CA ", "SW ", "RT ") else _topology(lines)
    told = {port.own.key: port for port in found}
    for port in found:
        if port.peer is None or _aggregation(port.peer.node):
            continue
        other = told.get(port.peer.key)
        if other is None or other.peer is None or other.peer.key != port.own.key:
            ends = f"{port.own.node} port {port.own.port} and {port.peer.node} port {port.peer.port}"
            raise UnreadableError(f"ibnetdiscover: cut short: of the link of {ends} it prints one end only")
    return [port for port in found if not _aggregation(port.own.node)]


def _aggregation(description: str) -> bool:
    """Return whether a node is the part of a switch that adds up (SHARP), which has no cable."""
    return description.endswith("Aggregation Node")


def _ports_report(lines: list[str]) -> list[SeenPort]:
    found = []
    for number, line in enumerate(lines, 1):
        match = _PORTS_LINE.fullmatch(line)
        if match is None:
            raise _strange("ibnetdiscover -p", number, line)
        kind, _, port, guid, width, speed, far, _, far_port, far_guid, name, far_name, alone = match.groups()
        own = Seen(kind, alone if far is None else name, int(guid, 16), int(port))
        peer = None if far is None else Seen(far, far_name, int(far_guid, 16), int(far_port))
        found.append(SeenPort(own, peer, width, speed))
    return found


def _topology(lines: list[str]) -> list[SeenPort]:
    found: list[SeenPort] = []
    # Links name switches by the GUID of the node.
    port_guids = {int(node, 16): int(port, 16) for node, port in _GUID.findall("\n".join(lines))}
    node: tuple[str, str, int, int] | None = None
    linked: set[int] = set()

    def close() -> None:
        if node is not None:
            kind, name, guid, ports = node
            alone = (Seen(kind, name, guid, port) for port in range(1, ports + 1) if port not in linked)
            found.extend(SeenPort(own, None) for own in alone)

    for number, line in enumerate(lines, 1):
        if header := _HEADER.fullmatch(line):
            close()
            guid = int(header[4], 16)
            node, linked = (_KINDS[header[1]], header[5], port_guids.get(guid, guid), int(header[2])), set()
        elif node and (match := _PORT.fullmatch(line.rstrip())):
            port, own_guid, letter, far_node, far_port, far_guid, far_name, width, speed = match.groups()
            linked.add(int(port))
            far = int(far_node, 16)
            peer_guid = int(far_guid, 16) if far_guid and letter != "S" else port_guids.get(far, far)
            own = Seen(node[0], node[1], int(own_guid, 16) if own_guid else node[2], int(port))
            found.append(SeenPort(own, Seen(_KINDS[letter], far_name, peer_guid, int(far_port)), width, speed))
        elif not (_BESIDE.fullmatch(line) or _GUID.match(line)):
            raise _strange("ibnetdiscover", number, line)
    close()
    if node is None:
        raise UnreadableError("ibnetdiscover: no node in its output")
    return found


_LINK = re.compile(
    r'\s*0x([0-9a-f]+) "\s*(.*?)\s*"\s+\d+\s+(\d+)\[ *\d*\] ==\( *'
    r"(?:(\d+X|undefined \(\d+\)|\?+) +(\S+ Gbps(?: \(FDR10\))?|undefined \(\d+\)|\?+) +)?(\w+)/ *(\w+)\)"
    r'(?: \(HOQ:.*?\))?==> +(?:0x([0-9a-f]+) +\d+ +(\d+)\[ *\d*\] "(.*)" \(.*\)|'
    r'\[ *\] "" \( *\)|"Port not available")\s*'
)


def parse_iblinkinfo(text: str) -> dict[PortKey, LinkState]:
    """Return state, width, speed and peer of every port of ``iblinkinfo -l``. Raises UnreadableError."""
    found = {}
    for number, line in enumerate(_lines(text, "iblinkinfo"), 1):
        match = _LINK.fullmatch(line)
        if match is None:
            raise _strange("iblinkinfo -l", number, line)
        guid, _, port, width, speed, state, physical, far_guid, far_port, _ = match.groups()
        lanes = int(width[:-1]) if width and width.endswith("X") else None
        name = None if speed is None else "FDR10" if "FDR10" in speed else _SIGNALLING.get(speed.split(" ")[0])
        peer = (int(far_guid, 16), int(far_port)) if far_guid else None
        found[int(guid, 16), int(port)] = LinkState(f"{state}/{physical}", lanes, name, peer)
    return found


_NODE_LINE = re.compile(r'Errors for (?:0x[0-9a-f]+ )?"(.*)"')
_COUNTERS_LINE = re.compile(r"   GUID 0x([0-9a-f]+) port (\d+|ALL):((?: \[[^]]*\])+)")
_COUNTER = re.compile(r"\[(\w+) == (\d+)(?: \([^)]*\))?\]")
_CHECKED = re.compile(r"## Summary: (\d+) nodes checked, \d+ bad nodes found")
_SUMMARY = re.compile(r"(?:## .*|##  .*|\s*Link info: .*|)")
_THRESHOLD = re.compile(r"## Thresholds: *(.*)")
_FAILURES = re.compile(r"## +(\d+) PMA query failures")


def parse_ibqueryerrors(text: str) -> Errors:
    """Return the counters of ``ibqueryerrors --threshold-file /dev/null``, which are those above 0.

    Raises UnreadableError, also where it was told to hold back smaller counts.
    """
    lines = _lines(text, "ibqueryerrors")
    counters: dict[PortKey, dict[str, int]] = {}
    nodes, failures = None, 0
    for number, line in enumerate(lines, 1):
        if match := _COUNTERS_LINE.fullmatch(line.rstrip()):
            # "ALL" adds up the lines that follow it.
            if match[2] != "ALL":
                key = int(match[1], 16), int(match[2])
                counters[key] = {name: int(count) for name, count in _COUNTER.findall(match[3])}
        elif match := _CHECKED.fullmatch(line):
            nodes = int(match[1])
        elif match := _FAILURES.fullmatch(line):
            failures = int(match[1])
        elif match := _THRESHOLD.fullmatch(line):
            if match[1]:
                raise UnreadableError(f"ibqueryerrors: held back counts up to its thresholds {match[1]}, expected none")
        elif not (_NODE_LINE.fullmatch(line) or _SUMMARY.fullmatch(line)):
            raise _strange("ibqueryerrors", number, line)
    if nodes is None:
        raise UnreadableError("ibqueryerrors: cut short, its summary is missing")
    return Errors(counters, nodes, failures)


def _lines(text: str, tool: str) -> list[str]:
    if not text.strip():
        raise UnreadableError(f"{tool}: printed nothing")
    return text.rstrip("\n").split("\n")


def _strange(tool: str, number: int, line: str) -> UnreadableError:
    return UnreadableError(f'{tool}: line {number} is none of its lines, or was cut short: "{line.strip()[:100]}"')
