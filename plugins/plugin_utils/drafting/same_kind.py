"""Whether hosts are of one kind, so that one class can be theirs: same GPUs, rails and drives at the same places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.draft_error import DraftError
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.part_places import Place, Places
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.shortened import shortened

_ADVICE = "leave out the host that is not good, or draft each kind by itself"
_SHOWN = 4


def check_same_kind(places: Mapping[str, Places], values: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise DraftError, naming each host and what it lacks, unless all have the same parts; both are by host."""
    faults = [
        *_lacking("GPU", {host: each.addresses for host, each in places.items()}),
        *_lacking("rail", {host: each.rails for host, each in places.items()}),
        *_lacking("NVMe drive", {host: _drives(each) for host, each in values.items() if _has_drives(each)}),
        *_unlike("gpu.model", {host: each["gpu.model"] for host, each in values.items() if "gpu.model" in each}),
    ]
    if not faults:
        # Only hosts with the same GPUs and rails can be compared place by place.
        faults = [*_unlike("order of rails", {host: ", ".join(each.rails) for host, each in places.items()})]
        for number, gpu in enumerate(next(iter(places.values())).gpus):
            found = {host: _beside(each.gpus[number]) for host, each in places.items()}
            faults += _unlike(f"place of GPU {gpu.address}", found)
    if faults:
        raise DraftError(f"{'; '.join(faults)}; {_ADVICE}")


def _has_drives(values: Mapping[str, Any]) -> bool:
    return "nvme.addresses" in values or "nvme" in values


def _drives(values: Mapping[str, Any]) -> Sequence[str]:
    return values.get("nvme.addresses", ())


def _beside(place: Place) -> str:
    node = "unknown" if place.numa_node is None else place.numa_node
    return f"NUMA node {node}, {'no rail' if place.rail is None else f'rail {place.rail}'}"


def _lacking(what: str, addresses: Mapping[str, Sequence[str]]) -> list[str]:
    faults = []
    for address in sorted({at for each in addresses.values() for at in each}):
        without = [host for host, each in addresses.items() if address not in each]
        if without:
            others = len(addresses) - len(without)
            have = f"{others} others have" if others > 1 else "one other has"
            who = f"{shortened(without, _SHOWN)} {'has' if len(without) == 1 else 'have'}"
            faults.append(f"{who} no {what} at {address}, which {have}")
    return faults


def _unlike(what: str, found: Mapping[str, Any]) -> list[str]:
    by_value: dict[Any, list[str]] = {}
    for host, value in found.items():
        by_value.setdefault(value, []).append(host)
    if len(by_value) < 2:
        return []
    return [f"{what} is " + ", ".join(f"{value} on {shortened(hosts, _SHOWN)}" for value, hosts in by_value.items())]
