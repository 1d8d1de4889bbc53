"""Hardware classes: what a kind of node must have and reach, as data with units and sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.declaration import (
    FleetError,
    Section,
    one_of,
    read_yaml,
    shown,
)

HARDWARE = Path(__file__).parent / "hardware"
_WRAPPED = {"value", "unit", "source"}
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]")

_TEXT = "text"
_PATH = "an absolute path"
_PCI = "a PCI address such as 0000:1b:00.0"
_COUNT = "a whole number of at least 0"
_POSITIVE = "a whole number of at least 1"
_NUMBER = "a number of at least 0"
_BACKEND = "one of gloo, nccl"

# Every class has all of these; the leaf says what kind of value stands there. A class without GPUs says ``gpu: null``.
EXPECTATIONS: dict[str, Any] = {
    "gpu": {"model": _TEXT, "count": _POSITIVE, "memory_mib": _POSITIVE, "parts": [{"slot": _TEXT, "address": _PCI}]},
    "nic": {"count": _COUNT, "speed_gbps": _POSITIVE},
    "cpu": {"sockets": _POSITIVE, "cores": _POSITIVE},
    "memory": {"mib": _POSITIVE, "tolerance_percent": _NUMBER},
    "clock": {"offset_ms": _NUMBER},
    "disk": {"paths": [{"path": _PATH, "free_gib": _NUMBER}]},
    "kernel_log": {},
    "tools": {"path": _TEXT, "root": _PATH},
    "collective": {
        "backend": _BACKEND,
        "ranks_per_node": _POSITIVE,
        "python": _PATH,
        "sizes_bytes": [_POSITIVE],
        "iterations": _POSITIVE,
        "warmup": _COUNT,
        "floors": [
            {"collective": _TEXT, "nodes_min": _POSITIVE, "size_bytes": _POSITIVE, "busbw_gb_per_s": _NUMBER},
        ],
    },
}


def shipped_classes() -> tuple[str, ...]:
    """Return the names of the classes that come with Muster."""
    return tuple(sorted(path.stem for path in HARDWARE.glob("*.yml")))


def expectations_of(name: str, overrides: Mapping[str, Any], file: str) -> dict[str, Any]:
    """Return the plain expectations of class ``name``.

    ``overrides`` is the ``hardware_classes`` section of the fleet file ``file``: it changes single values of a shipped
    class, or makes a class of its own that ``extends`` another. Raises FleetError naming the file the fault is in.
    """
    data = _resolved(name, overrides, file, ())
    place = file if name in overrides else str(HARDWARE / f"{name}.yml")
    key = f"hardware_classes.{name}" if name in overrides else ""
    return checked_expectations({"class": name, **data}, place, key)


def checked_expectations(data: Any, file: str, key: str) -> dict[str, Any]:
    """Return plain expectations as they are, once every value has its kind and they agree with each other.

    Raises FleetError.
    """
    _check(data, {"class": _TEXT, **EXPECTATIONS}, file, key)
    at = f"{key}." if key else ""
    parts = data["gpu"]["parts"] if data["gpu"] else ()
    if data["gpu"] and len(parts) != data["gpu"]["count"]:
        raise FleetError(file, f"{at}gpu.parts", f"{len(parts)} parts", f"{data['gpu']['count']}, as gpu.count says")
    for field in ("slot", "address"):
        values = [part[field] for part in parts]
        for index, value in enumerate(values):
            if value in values[:index]:
                raise FleetError(file, f"{at}gpu.parts[{index}].{field}", f"{shown(value)} again", "each one once")
    for index, floor in enumerate(data["collective"]["floors"]):
        if floor["size_bytes"] not in data["collective"]["sizes_bytes"]:
            where = f"{at}collective.floors[{index}].size_bytes"
            raise FleetError(file, where, shown(floor["size_bytes"]), "one of collective.sizes_bytes")
    return dict(data)


@dataclass(frozen=True)
class _Source:
    """Where one class is written: a file that comes with Muster, or a site's fleet file."""

    data: Any
    file: str
    key: str
    strict: bool


def _sources(name: str, overrides: Mapping[str, Any], file: str) -> list[_Source]:
    sources = []
    shipped = name in shipped_classes()
    if shipped:
        path = HARDWARE / f"{name}.yml"
        sources.append(_Source(read_yaml(path), str(path), "", strict=True))
    if name in overrides:
        own, key = overrides[name], f"hardware_classes.{name}"
        if shipped and isinstance(own, Mapping) and "extends" in own:
            raise FleetError(file, f"{key}.extends", shown(own["extends"]), "none, as this class comes with Muster")
        sources.append(_Source(own, file, key, strict=False))
    return sources


def _resolved(name: str, overrides: Mapping[str, Any], file: str, through: tuple[str, ...]) -> dict[str, Any]:
    """Return the merged data of a class: what it extends, what comes with Muster, what the site overrides."""
    if name in through:
        raise FleetError(file, f"hardware_classes.{name}.extends", " -> ".join((*through, name)), "no circle")
    data: dict[str, Any] = {}
    for source in _sources(name, overrides, file):
        if not isinstance(source.data, Mapping):
            raise FleetError(source.file, source.key, shown(source.data), "a mapping")
        base = source.data.get("extends")
        if base is not None:
            known = sorted({*shipped_classes(), *overrides})
            if base not in known:
                where = f"{source.key}.extends" if source.key else "extends"
                raise FleetError(source.file, where, shown(base), one_of(known))
            data = _resolved(base, overrides, file, (*through, name))
        own = {key: value for key, value in source.data.items() if key != "extends"}
        data = _merged(data, plain(own, source.file, source.key, source.strict))
    return data


def plain(data: Any, file: str, key: str = "", strict: bool = True) -> Any:
    """Return data without units and sources.

    A number is ``{value, unit, source}``, or stands in a mapping with a ``source``; ``strict`` (what comes with Muster)
    refuses a bare one. Raises FleetError.
    """
    if isinstance(data, Mapping):
        if "value" in data:
            if set(data) - _WRAPPED or (strict and set(data) != _WRAPPED):
                raise FleetError(file, key, f"keys {', '.join(map(str, data))}", "value, unit and source")
            return plain(data["value"], file, key, strict=False)
        sourced = "source" in data
        return {
            name: plain(value, file, f"{key}.{name}" if key else str(name), strict and not sourced)
            for name, value in data.items()
            if not (sourced and name in ("unit", "source"))
        }
    if isinstance(data, list):
        return [plain(value, file, f"{key}[{index}]", strict) for index, value in enumerate(data)]
    if strict and isinstance(data, (int, float)) and not isinstance(data, bool):
        raise FleetError(file, key, f"bare number {data}", "{value, unit, source}")
    return data


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with the values of ``own``: mappings key by key, everything else replaced."""
    return {
        **base,
        **{
            name: _merged(base[name], value)
            if isinstance(value, Mapping) and isinstance(base.get(name), Mapping)
            else value
            for name, value in own.items()
        },
    }


def _check(data: Any, kind: Any, file: str, key: str) -> None:
    if isinstance(kind, dict):
        section = Section(data, file, key, kind)
        for name, inner in kind.items():
            if name not in section.data:
                raise section.error(name, "a value", "nothing")
            if name == "gpu" and section.data[name] is None:
                continue
            _check(section.data[name], inner, file, section.path(name))
    elif isinstance(kind, list):
        if not isinstance(data, list):
            raise FleetError(file, key, shown(data), "a list")
        for index, value in enumerate(data):
            _check(value, kind[0], file, f"{key}[{index}]")
    elif not _fits(data, kind):
        raise FleetError(file, key, shown(data), kind)


def _fits(value: Any, kind: str) -> bool:
    if kind in (_COUNT, _POSITIVE):
        return isinstance(value, int) and not isinstance(value, bool) and value >= (kind == _POSITIVE)
    if kind == _NUMBER:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    if not isinstance(value, str) or not value:
        return False
    if kind == _PATH:
        return value.startswith("/")
    if kind == _PCI:
        return _PCI_ADDRESS.fullmatch(value) is not None
    return kind != _BACKEND or value in ("gloo", "nccl")
