"""A hardware class as good hosts show it: what describes them, on top of the shipped class that they are nearest to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.checks.gpu_affinity import CONNECTIONS
from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import Collected
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Airflow, Bmc, Dimms, Firmware
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.agreement import agreed
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.base_class import has_gpus, nearest_class
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.draft_error import DraftError
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.facts import facts_of
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.notes import notes_on
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.part_places import Places, places_of
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.probe_values import ProbeValues
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.same_kind import check_same_kind
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of, shipped_values
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.shipped_comparison import weaker_values

# Sections whose numbers are limits of what a load or a round of several hosts measures.
_MEASURED = (
    *("rdma", "gpu_stress", "telemetry", "dcgm", "nvbandwidth", "nvme_read", "memory_bandwidth", "memory_latency"),
    *("nic_load", "storage", "collective"),
)
# What a section that the base leaves null is begun with where hosts show it, as a class states it whole or not at all.
_BEGUN: Mapping[str, Mapping[str, Any]] = {
    "firmware": {each.name: None for each in fields(Firmware)},
    "memory.dimms": {each.name: None for each in fields(Dimms)},
    "bmc": {each.name: None for each in fields(Bmc)},
    "bmc.sensors": {"required": []},
    "bmc.power_supplies": {},
    "bmc.inlet": {},
    "bmc.airflow": {each.name: None for each in fields(Airflow)},
}


@dataclass(frozen=True)
class DraftedClass:
    """What a site declares of a kind of host under ``hardware_classes``: ``{"extends": extends, **values}``.

    ``values`` are nested as there, and only what differs from the class ``extends``. ``differences`` are what hosts do
    not agree in, by dotted key and host, and ``chosen`` the value of those that ``values`` has all the same: for the
    others the base's holds. ``unseen`` says by key why no host tells it, ``unread`` why not all that the others do.
    ``notes`` are what a good host need not have, such as an empty slot. ``weaker`` tells in what the class asks less
    than the base. ``floors`` are the sections of the base whose limits nothing here has measured. ``link_layer`` and
    ``speed_gbps`` (Gb/s) are those of the rails, None where they were not seen.
    """

    extends: str
    values: dict[str, Any]
    differences: dict[str, dict[str, Any]]
    chosen: dict[str, Any]
    unseen: dict[str, str]
    unread: dict[str, str]
    notes: tuple[str, ...]
    weaker: tuple[str, ...]
    floors: tuple[str, ...]
    link_layer: str | None
    speed_gbps: float | None


def draft_class(
    hosts: Sequence[Collected], extends: str | None = None, rails: Sequence[str] | None = None
) -> DraftedClass:
    """Return the class that good hosts of one kind show.

    ``extends`` names the shipped class to begin with, ``rails`` the PCI addresses of the rails' NICs in the order of
    the rails; without them both are told from what was collected. Raises DraftError where that is not possible, or the
    hosts are not of one kind.
    """
    if not hosts:
        raise DraftError("no host was collected, expected one at least")
    names = [collected.host for collected in hosts]
    if len(set(names)) != len(names):
        raise DraftError(f"two archives of one host among {', '.join(sorted(names))}, expected one of each")
    seen = [ProbeValues(collected) for collected in hosts]
    places = {each.host: places_of(each, rails) for each in seen}
    facts = {each.host: facts_of(each, places[each.host]) for each in seen}
    check_same_kind(places, {host: values for host, (values, _) in facts.items()})
    here = places[names[0]]
    model = next((values["gpu.model"] for values, _ in facts.values() if "gpu.model" in values), None)
    extends = nearest_class(model, here, hosts[0].root, extends)
    base = shipped_values(extends)
    agreement = agreed(facts, base["memory"]["tolerance_percent"])
    values, unseen = dict(agreement.values), dict(agreement.unseen)
    values |= _placed(here, base)
    _follow(values, base)
    _settle_bmc(values, unseen, base)
    _settle_connection(values, base["affinity"])
    if not here.rails:
        unseen = {key: why for key, why in unseen.items() if not key.startswith("nic.")}
    drafted = _nested(values, base)
    try:
        whole = expectations_of("drafted", {"drafted": {"extends": extends, **drafted}}, "the drafted class")
    except FleetError as exc:
        raise DraftError(f"hosts show what no class may say: {exc}") from exc
    return DraftedClass(
        extends,
        drafted,
        {key: dict(by_host) for key, by_host in agreement.differences.items()},
        {key: agreement.values[key] for key in agreement.differences if key in agreement.values},
        unseen,
        dict(agreement.unread),
        notes_on(seen),
        tuple(weaker_values(base, whole)),
        tuple(name for name in _MEASURED if base[name] is not None and drafted.get(name, base[name]) is not None),
        values.get("nic.link_layer"),
        values.get("nic.speed_gbps"),
    )


def _placed(places: Places, base: Mapping[str, Any]) -> dict[str, Any]:
    """Return where parts lie, with the base's slots where it has its GPUs at the same addresses."""
    gpus = {gpu.address: gpu for gpu in places.gpus}
    parts = [{"slot": f"GPU{number}", "address": address} for number, address in enumerate(gpus)]
    if has_gpus(dict(base), places):
        parts = base["gpu"]["parts"]
    near = [
        {"slot": part["slot"], "numa_node": gpus[part["address"]].numa_node, "rail": gpus[part["address"]].rail}
        for part in parts
    ]
    values: dict[str, Any] = {
        "gpu.parts": parts,
        # Null: no exact place is asked for.
        "affinity.parts": None if any(part["numa_node"] is None for part in near) else near,
    }
    if not places.rails:
        return {**values, "nic": None, "rdma": None, "affinity.nic_connection": None}
    return {**values, "nic.rails": [{"rail": number, "address": at} for number, at in enumerate(places.rails)]}


def _follow(values: dict[str, Any], base: Mapping[str, Any]) -> None:
    """Add what other sections say of the same number of parts."""
    if "numa.nodes" in values:
        values |= {f"{section}.nodes": values["numa.nodes"] for section in ("memory_bandwidth", "memory_latency")}
    if base["collective"]["ranks_per_node"] == base["gpu"]["count"]:
        values["collective.ranks_per_node"] = values["gpu.count"]


def _settle_connection(values: dict[str, Any], affinity: Mapping[str, Any] | None) -> None:
    """Take out how far NICs lie from GPUs where the base's limit allows it: it stays the limit."""
    limit, found = (affinity or {}).get("nic_connection"), values.get("affinity.nic_connection")
    if limit and found and CONNECTIONS.index(found) <= CONNECTIONS.index(limit):
        del values["affinity.nic_connection"]


def _settle_bmc(values: dict[str, Any], unseen: dict[str, str], base: Mapping[str, Any]) -> None:
    """Take out what is no section of a BMC by itself: an inlet without limit, an outlet without inlet, a version."""
    inlet = base["bmc"] and base["bmc"]["inlet"]
    limit = values.pop("bmc.inlet.limit_celsius", None)
    if "bmc.inlet.sensor" in values and not inlet:
        if limit is None:
            name = values.pop("bmc.inlet.sensor")
            unseen["bmc.inlet"] = f"the BMC tells no limit of {name}: declare sensor and limit_celsius"
        else:
            values["bmc.inlet.limit_celsius"] = limit
    if "bmc.airflow.outlet" in values and "bmc.inlet.sensor" not in values and not inlet:
        name = values.pop("bmc.airflow.outlet")
        unseen["bmc.airflow.outlet"] = f"{name} is held against the inlet: declare it with bmc.inlet"
    whole = "bmc.redfish" in values or values.get("bmc.interface") == "ipmitool"
    if base["bmc"] is None and not whole:
        for key in [key for key in values if key.startswith("bmc.")]:
            del values[key]
        values.pop("firmware.bmc_version", None)


def _nested(values: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Return what differs from the base as nested sections, in the order of the base."""
    drafted: dict[str, Any] = {}
    for key, value in values.items():
        *sections, name = key.split(".")
        if any(".".join(sections[: depth + 1]) in values for depth in range(len(sections))):
            # The section as a whole is null.
            continue
        _put(drafted, base, sections, name, value)
    return {section: drafted[section] for section in base if section in drafted}


def _put(drafted: dict[str, Any], base: Mapping[str, Any], sections: Sequence[str], name: str, value: Any) -> None:
    at, own = base, drafted
    path: list[tuple[dict[str, Any], str, dict[str, Any]]] = []
    for depth, section in enumerate(sections):
        inner = own.get(section)
        of_base = at.get(section) if at else None
        if inner is None:
            whole = ".".join(sections[: depth + 1])
            if of_base is None and whole not in _BEGUN:
                # The base has nothing to judge it by.
                return
            inner = {} if of_base is not None else dict(_BEGUN[whole])
        path.append((own, section, inner))
        at, own = of_base or {}, inner
    if name in at and at[name] == value:
        return
    for parent, section, inner in path:
        parent[section] = inner
    own[name] = value
