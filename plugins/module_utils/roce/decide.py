"""What a port has to show, what is wrong with what it shows, and what has to be done about it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from ..words.reader import plain
from . import doca, files, inbox
from .port import Backend, PortState, Step
from .settings import PortSettings

BACKENDS: Mapping[str, Backend] = {each.name: each for each in (doca.BACKEND, inbox.BACKEND)}
# Set first, and the rest read anew: to hand a port over to the host, or to change its trust, resets others.
FIRST = ("dcbx", "trust")


def wanted(settings: PortSettings) -> dict[str, Any]:
    """Return the value of each setting that the port has to show."""
    values: dict[str, Any] = {
        "mtu_bytes": settings.mtu_bytes,
        "cm_tos": settings.cm_tos,
        "traffic_class": settings.traffic_class,
        **files.ARP,
        **files.RP_FILTER,
    }
    if settings.dscp_priority:
        values["dcbx"] = "host"
        values["trust"] = "dscp"
        values["dscp_priority"] = settings.priorities
        values["lossless_priorities"] = sorted(settings.lossless_priorities)
    if settings.dcqcn is not None:
        priorities = sorted(set(settings.priorities.values())) if settings.dcqcn else []
        values["dcqcn"] = {"notification": priorities, "reaction": priorities}
    for name in ("cnp_dscp", "cnp_priority", "rings", "buffers"):
        if getattr(settings, name) is not None:
            values[name] = plain(getattr(settings, name))
    return values


def unsupported(settings: PortSettings) -> list[str]:
    """Return each declared setting that the backend cannot do, as errors name it."""
    backend = BACKENDS[settings.backend]
    return [
        f"{settings}: backend {backend.name} cannot set {name} (declared: {shown(value)})"
        for name, value in wanted(settings).items()
        if name not in backend.abilities and value is not None
    ]


def differences(settings: PortSettings, state: PortState) -> dict[str, Any]:
    """Return the wanted value of each setting that the port shows otherwise, or does not show."""
    return {
        name: value
        for name, value in wanted(settings).items()
        if name in state.unread or not _agrees(name, value, state.values.get(name))
    }


def steps(settings: PortSettings, values: Mapping[str, Any], state: PortState) -> list[Step]:
    """Return what makes the port show these values."""
    backend = BACKENDS[settings.backend]
    return [step for name, how in backend.steps.items() if name in values for step in how(state.place, values[name])]


def problems(settings: PortSettings, state: PortState) -> list[str]:
    """Return what is wrong with the port's settings, one text for each; its GID is asked by ``missing_gid``."""
    found = []
    for name, value in differences(settings, state).items():
        if name in state.unread:
            found.append(f"{state.place}: {name} could not be read ({state.unread[name]}), expected {shown(value)}")
        else:
            found.append(f"{state.place}: {name} is {shown(_part(value, state.values[name]))}, expected {shown(value)}")
    return found


def missing_gid(settings: PortSettings, state: PortState) -> str:
    """Return what is wrong with the port's GIDs: "", or that none of RoCE v2 has an address of its interface.

    Without a declared address any of IPv4 will do.
    """
    interface = state.place.interface
    own = [gid.address for gid in state.values["gids"] if gid.interface == interface]
    if settings.ip is not None:
        address = str(ipaddress.ip_interface(settings.ip).ip)
        found, expected = address in own, address
    else:
        found, expected = any(":" not in each for each in own), "an IPv4 address"
    if found:
        return ""
    has = f"those of {', '.join(own)}" if own else "none"
    return f"{state.place}: no RoCE v2 GID of {expected}, found {has}"


def shown(value: Any) -> str:
    """Return a value as errors and differences name it."""
    if value is None:
        return "unset"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {shown(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "none"
    return str(value)


def _agrees(name: str, value: Any, found: Any) -> bool:
    return bool(_part(value, found) == value if name == "dscp_priority" else found == value)


def _part(value: Any, found: Any) -> Any:
    """Return of what a map shows only what was asked: DSCPs that nobody declared may go where they like."""
    if isinstance(value, Mapping) and isinstance(found, Mapping):
        return {key: found[key] for key in value if key in found}
    return found
