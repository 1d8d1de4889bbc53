"""Cumulus Linux with NVUE: what is asked of a switch and what its answers mean.

The configuration is the applied one with all defaults, in the tree that NVUE's documentation describes; the RoCE preset
is a short word for settings that only ``nv show qos roce`` shows. No output of a real switch was at hand: format
unverified.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.switches.printed_tables import numbers
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_state import (
    QUEUE_PAIR,
    Answers,
    Ecn,
    Neighbour,
    OutputError,
    PortState,
    SwitchState,
    need,
    read_or_unknown,
)

COMMANDS = {
    "config": "nv config show --all -o json",
    "interfaces": "nv show interface -o json",
    "lldp": "nv show interface lldp -o json",
    "roce": "nv show qos roce -o json",
}
# For each declared port, as NVUE shows the watchdog's counters only one by one.
PORT_COMMANDS = {"watchdog": "nv show interface {port} qos pfc-watchdog -o json"}
PREPARE: tuple[str, ...] = ()

_ON = ("on", "enable", "enabled", "yes")
_HASH_FIELDS = {
    "source-ip": "source address",
    "destination-ip": "destination address",
    "source-port": "source port",
    "destination-port": "destination port",
}
# Whether something beside NVUE turned it on cannot be told.
_NOT_SHOWN = {QUEUE_PAIR: f"NVUE has no hash field for the {QUEUE_PAIR}"}
_UNITS = {"B": 1, "BYTES": 1, "KB": 1024, "MB": 1024**2}
_RANGE = re.compile(r"(.*?)(\d+)-(\d+)")
Tree = Mapping[str, Any]


def read(answers: Answers, ports: Iterable[str]) -> SwitchState:
    """Return the state of a switch as its answers tell it."""
    parsed: dict[str, Any] = {
        "config": read_or_unknown(lambda: _config(answers.data("config")), COMMANDS["config"]),
        "interfaces": read_or_unknown(lambda: answers.data("interfaces"), COMMANDS["interfaces"]),
        "lldp": read_or_unknown(lambda: answers.data("lldp"), COMMANDS["lldp"]),
        "roce": read_or_unknown(lambda: answers.data("roce"), COMMANDS["roce"]),
    }
    parsed["qos"] = read_or_unknown(lambda: _Qos(need(parsed["config"]), parsed["roce"]), COMMANDS["config"])
    return SwitchState(
        ecmp=read_or_unknown(lambda: _ecmp(need(parsed["config"])), COMMANDS["config"]),
        ports={port: _port(port, parsed, answers) for port in ports},
        not_shown=_NOT_SHOWN,
    )


def _port(port: str, parsed: Tree, answers: Answers) -> PortState:
    def of(name: str, reading: Any) -> Any:
        return read_or_unknown(lambda: reading(need(parsed[name])), COMMANDS.get(name, COMMANDS["config"]))

    watchdog = f"watchdog {port}"
    return PortState(
        exists=of("interfaces", lambda known: port in known),
        mtu_bytes=of("interfaces", lambda known: int(known[port]["link"]["mtu"])),
        pfc=of("qos", lambda qos: qos.pfc(port)),
        watchdog=of("config", lambda config: _at(_interface(config, port), "qos.pfc-watchdog.state") in _ON),
        trust_dscp=of("qos", lambda qos: qos.trust_dscp(port)),
        classes=of("qos", lambda qos: qos.classes(port)),
        ecn=of("qos", lambda qos: qos.ecn(port)),
        headroom=of("qos", lambda qos: qos.headroom()),
        addresses=of("config", lambda config: frozenset(_at(_interface(config, port), "ip.address") or {})),
        neighbours=of("lldp", lambda known: _neighbours(known.get(port, {}))),
        errors=of("interfaces", lambda known: _counted(known[port], "in-errors", "out-errors")),
        discards=of("interfaces", lambda known: _counted(known[port], "in-drops", "out-drops")),
        storms=read_or_unknown(lambda: _deadlocks(answers.data(watchdog)), PORT_COMMANDS["watchdog"]),
    )


def _at(tree: Any, path: str) -> Any:
    """Return what stands in a tree at a dotted path, None where nothing does."""
    for key in path.split("."):
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def _config(data: Any) -> Tree:
    """Return the tree below ``set``: NVUE prints a list of a header and of it."""
    for part in data if isinstance(data, list) else [data]:
        if isinstance(part, Mapping) and "interface" in part.get("set", {}):
            tree: Tree = part["set"]
            return tree
    raise OutputError(f"{COMMANDS['config']}: nothing under set.interface")


def _names(key: str) -> Iterator[str]:
    """Yield the interfaces that a key such as ``swp1-4,swp6s0-3`` names."""
    for part in key.split(","):
        if match := _RANGE.fullmatch(part):
            yield from (f"{match[1]}{number}" for number in range(int(match[2]), int(match[3]) + 1))
        else:
            yield part


def _interface(config: Tree, port: str) -> dict[str, Any]:
    """Return what is configured on a port, under its own name and in ranges."""
    found: dict[str, Any] = {}
    for key, below in config["interface"].items():
        if port in _names(key):
            _lay(found, below)
    return found


def _lay(base: dict[str, Any], over: Tree) -> None:
    for key, value in over.items():
        if isinstance(value, Mapping):
            _lay(base.setdefault(key, {}), value)
        else:
            base[key] = value


class _Qos:
    """QoS as it is applied: of the profiles that ports are given, or of the RoCE preset where that is on."""

    def __init__(self, config: Tree, roce: Any) -> None:
        self.config, self.tree = config, config["qos"]
        preset = _at(self.tree, "roce.enable") in _ON or _at(self.tree, "roce.state") in _ON
        self.roce: Tree | None = need(roce) if preset else None

    def profile(self, kind: str, port: str) -> Tree:
        own = _at(_interface(self.config, port), f"qos.{kind}.profile")
        found: Tree = self.tree.get(kind, {}).get(own or "default-global", {})
        return found

    def pfc(self, port: str) -> frozenset[int]:
        if self.roce is not None:
            pfc = self.roce.get("pfc", {})
            both = pfc.get("rx-enabled") in _ON and pfc.get("tx-enabled") in _ON
            return numbers(str(pfc["pfc-priority"])) if both else frozenset()
        pfc = self.profile("pfc", port)
        if not pfc or pfc["rx"] not in _ON or pfc["tx"] not in _ON:
            return frozenset()
        return frozenset(map(int, pfc.get("switch-priority", {})))

    def trust_dscp(self, port: str) -> bool:
        if self.roce is not None:
            return "dscp" in self.roce["trust"]["trust-mode"].split(",")
        return self.profile("mapping", port).get("trust") in ("l3", "both")

    def _queue(self, priority: str) -> str:
        if self.roce is not None:
            classes = _rows(self.roce["tc-map"], "switch-prio", "traffic-class")
        else:
            rows = _at(self.tree, "egress-queue-mapping.default-global.switch-priority") or {}
            classes = {key: str(row["traffic-class"]) for key, row in rows.items()}
        # Unless it says otherwise, a switch priority has the queue of its own number.
        return classes.get(priority, priority)

    def classes(self, port: str) -> dict[int, str]:
        if self.roce is not None:
            pairs = _rows(self.roce["prio-map"], "dscp", "switch-prio")
        else:
            rows = self.profile("mapping", port).get("dscp", {})
            pairs = {key: str(row["switch-priority"]) for key, row in rows.items()}
        found = {}
        for dscp, priority in pairs.items():
            queue = self._queue(priority)
            found[int(dscp)] = priority if queue == priority else f"{priority} in queue {queue}"
        return found

    def ecn(self, port: str) -> dict[int, Ecn]:
        if self.roce is not None:
            control = self.roce["congestion-control"]
            if not control.get("congestion-mode", "").lower().startswith("ecn"):
                return {}
            mark = Ecn(_bytes(control["min-threshold"]), _bytes(control["max-threshold"]))
            return dict.fromkeys(numbers(str(control["enabled-tc"])), mark)
        rows = self.profile("congestion-control", port).get("traffic-class", {})
        return {
            number: Ecn(_bytes(row["min-threshold"]), _bytes(row["max-threshold"]))
            for key, row in rows.items()
            for number in numbers(key)
            if row.get("ecn") in _ON
        }

    def headroom(self) -> frozenset[int]:
        if self.roce is not None:
            lossless = [row for row in self.roce["pool-map"].values() if "lossy" not in row["name"]]
            texts = [str(row["switch-priorities"]) for row in lossless]
            return frozenset().union(*(numbers(text) for text in texts if text not in ("", "-")))
        pools = {name: row for name, row in self.tree.get("traffic-pool", {}).items() if "lossless" in name}
        return frozenset(int(each) for row in pools.values() for each in row.get("switch-priority", {}))


def _rows(table: Tree, key: str, value: str) -> dict[str, str]:
    """Return one column by another of a table whose cells may hold lists such as ``24,25,26``."""
    return {
        name: str(row[value])
        for row in table.values()
        for name in str(row[key]).split(",")
        if name not in ("", "-") and value in row
    }


def _bytes(value: Any) -> int:
    """Return a threshold: bytes as a number, or as ``146.48 KB`` by which the preset shows it. Raises ValueError."""
    if isinstance(value, int):
        return value
    number, _, unit = str(value).partition(" ")
    return round(float(number) * _UNITS[unit.upper() or "B"])


def _neighbours(entry: Tree) -> tuple[Neighbour, ...]:
    found = []
    for heard in (_at(entry, "lldp.neighbor") or {}).values():
        port = heard.get("port", {})
        names = tuple(port[key] for key in ("name", "description") if port.get(key))
        found.append(Neighbour(_at(heard, "chassis.system-name") or "", names))
    return tuple(found)


def _counted(interface: Tree, *names: str) -> dict[str, int]:
    return {name: int(interface["link"]["stats"][name]) for name in names}


def _deadlocks(data: Tree) -> int:
    return sum(int(row["deadlock-count"]) for row in data["status"].values())


def _ecmp(config: Tree) -> frozenset[str]:
    fields = _at(config, "system.forwarding.ecmp-hash")
    if not isinstance(fields, Mapping):
        raise OutputError(f"{COMMANDS['config']}: no system.forwarding.ecmp-hash")
    on = {name for name, state in fields.items() if state in _ON}
    return frozenset(_HASH_FIELDS.get(name, name) for name in on)
