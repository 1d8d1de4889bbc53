"""``lldpctl -f json``: the switch and port that each network interface hears of over LLDP.

Format: what lldpd's lldpcli(8) prints as ``json`` or ``json0``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "lldp"
ARGV = ("lldpctl", "-f", "json")
TIMEOUT_SECONDS = 30.0


class Neighbour(NamedTuple):
    """What the far end of a cable says of itself: system name, and the names of its port, most exact first.

    ``software`` is the system's description, "" where it gives none: ``SONiC Software Version: ...`` of a switch.
    """

    system: str
    ports: tuple[str, ...]
    software: str = ""


def collect(host: Host, expect: Expectations) -> Output:
    """Ask lldpd once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> dict[str, list[Neighbour]]:
    """Return the neighbours of each local interface; most have one. Raises Unreadable.

    Without a system name the chassis' id stands for it. A port goes by its id (``Ethernet17/1``) or, where that is an
    alias as on SONiC, by its description.
    """
    require_success(output)
    try:
        data = json.loads(output.stdout)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"no JSON: {exc}") from exc
    found: dict[str, list[Neighbour]] = {}
    for name, entry in _interfaces(data):
        if entry.get("via", "LLDP") == "LLDP":
            found.setdefault(name, []).append(_neighbour(name, entry))
    return found


def _interfaces(data: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Return (interface, entry) pairs; json names an interface by its key, json0 by a field, one alone has no list."""
    tops = data.get("lldp") if isinstance(data, Mapping) else None
    if not isinstance(tops, (Mapping, list)):
        raise Unreadable("no object lldp in its JSON")
    found: list[tuple[str, Mapping[str, Any]]] = []
    for top in _listed(tops):
        for item in _listed(top.get("interface", []) if isinstance(top, Mapping) else None):
            if not isinstance(item, Mapping):
                raise Unreadable("an interface that is no object")
            if isinstance(item.get("name"), str):
                found.append((item["name"], item))
            else:
                found += [(name, entry) for name, entry in item.items() if isinstance(entry, Mapping)]
    return found


def _neighbour(interface: str, entry: Mapping[str, Any]) -> Neighbour:
    chassis, port = _first(entry.get("chassis")), _first(entry.get("port"))
    # json keys the chassis by its system name where it has one.
    named = [(name, inner) for name, inner in chassis.items() if isinstance(inner, Mapping) and "id" in inner]
    system = named[0][0] if named else _value(chassis.get("name")) or _value(chassis.get("id"))
    software = _value((named[0][1] if named else chassis).get("descr"))
    ports = tuple(name for name in (_value(port.get("id")), _value(port.get("descr"))) if name)
    if not system or not ports:
        raise Unreadable(f"{interface}: a neighbour without {'port' if system else 'name'}")
    return Neighbour(system, ports, software)


def _listed(value: Any) -> list[Any]:
    if value is None:
        raise Unreadable("interfaces are missing in its JSON")
    return list(value) if isinstance(value, list) else [value]


def _first(value: Any) -> Mapping[str, Any]:
    chosen = value[0] if isinstance(value, list) and value else value
    return chosen if isinstance(chosen, Mapping) else {}


def _value(value: Any) -> str:
    """Return a leaf: plain, an object with its value, or a list of one."""
    chosen = value[0] if isinstance(value, list) and value else value
    chosen = chosen.get("value") if isinstance(chosen, Mapping) else chosen
    return chosen if isinstance(chosen, str) else ""
