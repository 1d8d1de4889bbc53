"""Arista EOS: what is asked of a switch and what its answers mean.

Formats: JSON of interfaces, LLDP as recorded on switches; the watchdog's counters as Meta's test code reads them; the
tables of PFC, trust and QoS maps as the EOS manual prints them (format unverified).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.switches.printed_tables import (
    Line,
    headed_table,
    nested,
    numbers,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_state import (
    ADDRESSES_AND_PORTS,
    QUEUE_PAIR,
    Answers,
    Ecn,
    Neighbour,
    OutputError,
    PortState,
    SwitchState,
    Unknown,
    need,
    read_or_unknown,
)

COMMANDS = {
    "config": "show running-config",
    "interfaces": "show interfaces | json",
    "lldp": "show lldp neighbors detail | json",
    "maps": "show qos maps",
    "pfc": "show priority-flow-control",
    "trust": "show qos interfaces trust",
    "watchdog": "show priority-flow-control counters watchdog | json",
}
PORT_COMMANDS: dict[str, str] = {}
# Sent first where commands have to be typed into a shell.
PREPARE = ("terminal length 0", "terminal width 32767")

_UNITS = {"bytes": 1, "kbytes": 1000, "mbytes": 1000_000}
_ECN = re.compile(r"random-detect ecn minimum-threshold (\d+) (\S+) maximum-threshold (\d+) (\S+)")
_PROFILE = "load-balance sand profile"
_ROCE_UDP_PORT = "4791"
# Bytes of the UDP payload that hold the base transport header's destination queue pair (InfiniBand specification 9.2).
_QUEUE_PAIR_BYTES = frozenset({5, 6, 7})
_DSCP_ROW = re.compile(r"\s*(\d)\s*:\s+((?:\d+\s*)+)$")


def read(answers: Answers, ports: Iterable[str]) -> SwitchState:
    """Return the state of a switch as its answers tell it."""
    config = read_or_unknown(lambda: _config(answers.text("config")), COMMANDS["config"])
    parsed: dict[str, Any] = {
        "interfaces": read_or_unknown(lambda: answers.data("interfaces")["interfaces"], COMMANDS["interfaces"]),
        "lldp": read_or_unknown(lambda: answers.data("lldp")["lldpNeighbors"], COMMANDS["lldp"]),
        "watchdog": read_or_unknown(lambda: answers.data("watchdog")["interfaces"], COMMANDS["watchdog"]),
        "pfc": read_or_unknown(lambda: _pfc(answers.text("pfc")), COMMANDS["pfc"]),
        "trust": read_or_unknown(lambda: _trust(answers.text("trust")), COMMANDS["trust"]),
        "maps": read_or_unknown(lambda: _classes(answers.text("maps")), COMMANDS["maps"]),
    }
    interfaces = dict(need(config).starting("interface")) if isinstance(config, Line) else {}
    return SwitchState(
        ecmp=read_or_unknown(lambda: _ecmp(need(config)), COMMANDS["config"]),
        ports={port: _port(port, config, interfaces.get(port, Line("")), parsed) for port in ports},
    )


def _port(port: str, config: Line | Unknown, own: Line, parsed: Mapping[str, Any]) -> PortState:
    def of(name: str, reading: Any) -> Any:
        return read_or_unknown(lambda: reading(need(parsed[name])), COMMANDS[name])

    def configured(reading: Any) -> Any:
        return read_or_unknown(lambda: reading(need(config)), COMMANDS["config"])

    return PortState(
        exists=of("interfaces", lambda known: port in known),
        mtu_bytes=of("interfaces", lambda known: int(known[port]["mtu"])),
        pfc=of("pfc", lambda known: known[port]),
        watchdog=configured(lambda top: _watchdog(top, own)),
        trust_dscp=of("trust", lambda known: known[port] == "DSCP"),
        classes=parsed["maps"],
        ecn=configured(lambda top: _ecn(top, own)),
        headroom=Unknown("EOS sets headroom aside by itself, and no command here shows it"),
        addresses=configured(lambda top: _addresses(own)),
        neighbours=of("lldp", lambda known: _neighbours(known.get(port))),
        errors=of("interfaces", lambda known: _counted(known[port], "totalInErrors", "totalOutErrors", "fcsErrors")),
        discards=of("interfaces", lambda known: _counted(known[port], "inDiscards", "outDiscards")),
        storms=of("watchdog", lambda known: sum(_stuck(known.get(port)))),
    )


def _config(text: str) -> Line:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[-1].strip() != "end":
        raise OutputError(f'{COMMANDS["config"]}: cut short, as its last line is not "end"')
    return nested(text)


def _full_name(port: str) -> str:
    return re.sub(r"^Et(?=\d)", "Ethernet", port)


def _pfc(text: str) -> dict[str, frozenset[int]]:
    names = ("Port", "Enabled", "Priorities", "Active", "Note")
    found = {}
    for row in headed_table(text, COMMANDS["pfc"], names):
        if row["Enabled"] not in ("Yes", "No") or row["Active"] not in ("Yes", "No"):
            raise OutputError(f"{COMMANDS['pfc']}: cut short or unexpected row of {row['Port']!r}")
        active = row["Enabled"] == row["Active"] == "Yes" and row["Priorities"]
        found[_full_name(row["Port"])] = numbers(row["Priorities"]) if active else frozenset()
    return found


def _trust(text: str) -> dict[str, str]:
    rows = re.findall(r"^(Et\S+)\s+(UNTRUSTED|COS|DSCP)\s+\S+\s*$", text, re.MULTILINE)
    if not rows:
        raise OutputError(f"{COMMANDS['trust']}: no port with its trust mode")
    return {_full_name(port): mode for port, mode in rows}


def _classes(text: str) -> dict[int, str]:
    """Return the traffic class of each DSCP, from the table of tens (down) and units (across)."""
    title = re.search(r"^\s*dscp\s*-?\s*tc map.*$", text, re.MULTILINE | re.IGNORECASE)
    found = {}
    for line in text[title.end() :].splitlines() if title else ():
        if row := _DSCP_ROW.match(line):
            for unit, value in enumerate(row[2].split()):
                found[int(row[1]) * 10 + unit] = value
        elif found:
            break
    if set(found) != set(range(64)):
        raise OutputError(f"{COMMANDS['maps']}: {len(found)} of 64 code points in the map from DSCP to traffic class")
    return found


def _places(top: Line, own: Line) -> Iterator[Line]:
    """Yield where a port's QoS is configured: its service profile, then the port itself, which goes before it."""
    profiles = dict(top.starting("qos profile"))
    for name, _ in own.starting("service-profile"):
        if name not in profiles:
            raise OutputError(f"{COMMANDS['config']}: service-profile {name} is not there")
        yield profiles[name]
    yield own


def _watchdog(top: Line, own: Line) -> bool:
    words = "priority-flow-control pause watchdog"
    on = any(float(seconds) > 0 for seconds, _ in top.starting(f"{words} default timeout"))
    for place in _places(top, own):
        for rest, _ in place.starting(f"{words} port timer timeout"):
            on = float(rest.split()[0]) > 0
        if place.has(f"no {words}"):
            on = False
    return on


def _ecn(top: Line, own: Line) -> dict[int, Ecn]:
    found = {}
    for place in _places(top, own):
        for kind in ("tx-queue", "uc-tx-queue"):
            for queue, lines in place.starting(kind):
                for line in lines.below:
                    if mark := _ECN.match(line.text):
                        if unknown := {mark[2], mark[4]} - set(_UNITS):
                            raise OutputError(f"queue {queue} marks by {', '.join(sorted(unknown))}, not by bytes")
                        low, high = (int(mark[at]) * _UNITS[mark[at + 1]] for at in (1, 3))
                        found[int(queue)] = Ecn(low, high)
    return found


def _addresses(own: Line) -> frozenset[str]:
    # A port that switches has no use for its addresses.
    if not own.has("no switchport"):
        return frozenset()
    return frozenset(rest.split()[0] for kind in ("ip", "ipv6") for rest, _ in own.starting(f"{kind} address"))


def _neighbours(entry: Any) -> tuple[Neighbour, ...]:
    found = []
    for heard in entry["lldpNeighborInfo"] if entry else ():
        port = heard["neighborInterfaceInfo"]
        names = (port.get("interfaceId_v2") or port.get("interfaceId"), port.get("interfaceDescription"))
        found.append(Neighbour(heard.get("systemName", ""), tuple(name.strip('"') for name in names if name)))
    return tuple(found)


def _counted(interface: Mapping[str, Any], *names: str) -> dict[str, int]:
    counters = interface["interfaceCounters"]
    flat = {**counters, **counters["inputErrorsDetail"]}
    return {name: int(flat[name]) for name in names}


def _stuck(entry: Any) -> Iterator[int]:
    # A port is listed once its watchdog has acted for the first time.
    for queue in entry["txQueues"].values() if entry else ():
        yield int(queue["stuckCount"])


def _ecmp(top: Line) -> frozenset[str]:
    """Return what is hashed: by default addresses and ports; with a profile of its own also bytes of RoCE's header."""
    fields = set(ADDRESSES_AND_PORTS)
    active = {name for name, _ in top.starting(f"port-channel {_PROFILE}")}
    profiles = [each for _, policies in top.starting("load-balance") for each in policies.starting(_PROFILE)]
    for name, profile in profiles:
        for udp_port, udp in profile.starting("fields udp dst-port"):
            taken = [numbers(each) for each, _ in udp.starting("payload bytes")]
            if name in active and udp_port == _ROCE_UDP_PORT and any(each >= _QUEUE_PAIR_BYTES for each in taken):
                fields.add(QUEUE_PAIR)
    return frozenset(fields)
