"""Parser of a host's LLDP neighbours, as ``lldpctl -f json`` or ``json0`` prints them (lldpd's lldpcli(8))."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.live_fabric import UnreadableError


class Neighbour(NamedTuple):
    """What the far end of a cable says of itself: system name, and the names of its port, most exact first."""

    system: str
    ports: tuple[str, ...]


def parse_lldp(text: str) -> dict[str, list[Neighbour]]:
    """Return the neighbours of each local interface; most have one. Raises UnreadableError.

    Without a system name the chassis' id stands for it. A port goes by its id (``Ethernet17/1``) or, where that is an
    alias as on SONiC, by its description.
    """
    try:
        data = json.loads(text)
    except ValueError as exc:
        raise UnreadableError(f"lldpctl: no JSON: {exc}") from exc
    found: dict[str, list[Neighbour]] = {}
    for name, entry in _interfaces(data):
        if entry.get("via", "LLDP") == "LLDP":
            found.setdefault(name, []).append(_neighbour(name, entry))
    return found


def _interfaces(data: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Return (interface, entry) pairs; json names an interface by its key, json0 by a field, one alone has no list."""
    tops = data.get("lldp") if isinstance(data, Mapping) else None
    if not isinstance(tops, (Mapping, list)):
        raise UnreadableError("lldpctl: no object lldp in its JSON")
    found: list[tuple[str, Mapping[str, Any]]] = []
    for top in _listed(tops):
        for item in _listed(top.get("interface", []) if isinstance(top, Mapping) else None):
            if not isinstance(item, Mapping):
                raise UnreadableError("lldpctl: an interface that is no object")
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
    ports = tuple(name for name in (_value(port.get("id")), _value(port.get("descr"))) if name)
    if not system or not ports:
        raise UnreadableError(f"lldpctl: {interface}: a neighbour without {'port' if system else 'name'}")
    return Neighbour(system, ports)


def _listed(value: Any) -> list[Any]:
    if value is None:
        raise UnreadableError("lldpctl: interfaces are missing in its JSON")
    return list(value) if isinstance(value, list) else [value]


def _first(value: Any) -> Mapping[str, Any]:
    chosen = value[0] if isinstance(value, list) and value else value
    return chosen if isinstance(chosen, Mapping) else {}


def _value(value: Any) -> str:
    """Return a leaf: plain, an object with its value, or a list of one."""
    chosen = value[0] if isinstance(value, list) and value else value
    chosen = chosen.get("value") if isinstance(chosen, Mapping) else chosen
    return chosen if isinstance(chosen, str) else ""
