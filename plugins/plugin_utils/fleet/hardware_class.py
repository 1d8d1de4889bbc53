"""Hardware classes: what a kind of node must have and reach, as data with units and sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import one_of, read, shown
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.dcgm_packages import check_packages
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError, faults_of, read_yaml

HARDWARE = Path(__file__).parent / "hardware"
# Sections that no class states, as they follow from the rest of the fleet file.
DERIVED = ("fabric", "mounts", "checkpoint", "mini_clusters")
_WRAPPED = {"value", "unit", "source"}
# What the class of a board leaves to the vendor of the host, by section: the key, and what it has to say.
_PLACES = {
    "gpu": ("parts", "slot and PCI address of each GPU"),
    "nic": ("rails", "number and PCI address of each rail"),
}


def shipped_classes() -> tuple[str, ...]:
    """Return the names of the classes that come with Muster."""
    return tuple(sorted(path.stem for path in HARDWARE.glob("*.yml")))


def expectations_of(name: str, overrides: Mapping[str, Any], file: str) -> dict[str, Any]:
    """Return the expectations of class ``name`` as plain data that ``read`` takes.

    ``overrides`` is the ``hardware_classes`` section of the fleet file ``file``: it changes single values of a shipped
    class, or makes a class of its own that ``extends`` another. Raises FleetError naming the file the fault is in.
    """
    data = _resolved(name, overrides, file, ())
    place = file if name in overrides else str(HARDWARE / f"{name}.yml")
    key = f"hardware_classes.{name}" if name in overrides else ""
    for derived in DERIVED:
        if derived in data:
            where = f"{key}.{derived}" if key else derived
            raise FleetError(place, where, shown(data[derived]), "none, it follows from the fleet")
    _check_places(name, data, file)
    whole = {"class": name, **dict.fromkeys(DERIVED), **data}
    with faults_of(place, key):
        check_packages(read(Expectations, whole))
    return whole


def shipped_values(name: str) -> dict[str, Any]:
    """Return what a shipped class says, as plain data; that of a board has None for the places it leaves open."""
    return _resolved(name, {}, name, ())


def placed_classes() -> tuple[str, ...]:
    """Return the shipped classes of real hosts that say where GPUs and rails lie."""
    return tuple(
        name
        for name in shipped_classes()
        # A root of its own stands in for the files of a real host.
        if (data := shipped_values(name))["tools"]["root"] == "/" and not _open_places(data)
    )


def _open_places(data: Mapping[str, Any]) -> list[str]:
    """Return the sections of a class that declare their parts as None."""
    return [
        section
        for section, (key, _) in _PLACES.items()
        if isinstance(data.get(section), Mapping) and data[section].get(key, "") is None
    ]


def _check_places(name: str, data: Mapping[str, Any], file: str) -> None:
    for section in _open_places(data):
        key, what = _PLACES[section]
        *most, last = placed_classes()
        theirs = f"{', '.join(most)} and {last} have theirs; docs/fleet.md says how to read them"
        expected = f"{what}: they differ between host vendors ({theirs})"
        raise FleetError(file, f"hardware_classes.{name}.{section}.{key}", "nothing", expected)


def base_of(name: str, overrides: Mapping[str, Any]) -> str | None:
    """Return the shipped class that a class is, or comes from, None where it comes from none."""
    through: set[str] = set()
    while name not in shipped_classes():
        through.add(name)
        name = str((overrides.get(name) or {}).get("extends"))
        if name in through or name not in {*shipped_classes(), *overrides}:
            return None
    return name


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
        sources.append(_shipped(HARDWARE / f"{name}.yml"))
    if name in overrides:
        own, key = overrides[name], f"hardware_classes.{name}"
        if shipped and isinstance(own, Mapping) and "extends" in own:
            raise FleetError(file, f"{key}.extends", shown(own["extends"]), "none, as this class comes with Muster")
        sources.append(_Source(own, file, key, strict=False))
    return sources


@cache
def _shipped(path: Path) -> _Source:
    return _Source(read_yaml(path), str(path), "", strict=True)


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
