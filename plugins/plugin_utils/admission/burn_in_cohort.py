"""What only the burn-ins of many nodes show: a GPU hotter than the same slot elsewhere, a rail slower than its likes.

Pure, from what the nodes of one hardware class measured last, so that every admission computes it again. Each number is
held against the median of the same part of the *other* nodes. A node that failed its burn-in is one of them all the
same: what it measured was measured, and a median does not follow the few that are faulty. If more than half of a cohort
is hot or slow, its median is so too, and nothing is seen here: that is left to the limits of the class.

What a node did not measure says nothing here. Its own burn-in is incomplete then.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import COHORT_CHECKS
from ansible_collections.muster.cluster.plugins.module_utils.nic.declared_nics import rail_subjects
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, gpu_subjects
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, Finding

HEAT, LOAD = COHORT_CHECKS
# Fewer others make no median from which one could stand out.
LEAST_OTHERS = 4
# GPUs whose medians of power are this near are at equal power: some 2 C on a GPU that is 40 C above its inlet.
EQUAL_POWER = 0.05
# What no sensor of a loaded host reads is no measurement: (least, most) by quantity. A sensor that is not there says 0.
_CELSIUS = (1.0, 200.0)
_SENSE = {
    "watts": (1.0, 100_000.0),
    "fan_rpm": (0.0, 1_000_000.0),
    "celsius": _CELSIUS,
    "inlet_celsius": _CELSIUS,
    "outlet_celsius": _CELSIUS,
}
_GBPS = (0.0, 100_000.0)
_LOOPED = "looped back inside the NIC: this is PCIe, DMA or power, never optics or cable"


class NonsenseError(MusterError, ValueError):
    """A number in a node's evidence that nothing can have measured; says which, what it is and what was expected."""


@dataclass(frozen=True)
class BurnedIn:
    """What a node's newest burn-in measured, as the node says it: by check, part and quantity."""

    rack: str | None
    measures: Any


class _Heat(NamedTuple):
    """One node: (watts, celsius) by GPU, and the air."""

    slots: Mapping[str, tuple[float, float]]
    inlet: float | None
    outlet: float | None
    fans: float | None


class _Air(NamedTuple):
    """Medians of fans (rpm) and of the rise from inlet to outlet (C), None where nobody tells."""

    fans: float | None
    rise: float | None

    @classmethod
    def of(cls, heats: Iterable[_Heat]) -> _Air:
        """Return those of some nodes."""
        known = list(heats)
        fans = [heat.fans for heat in known if heat.fans is not None]
        rises = [heat.outlet - heat.inlet for heat in known if heat.inlet is not None and heat.outlet is not None]
        return cls(*(statistics.median(each) if each else None for each in (fans, rises)))

    def beside(self, usual: _Air, where: str) -> str:
        """Return what the air tells beside that of all nodes, "" where it tells nothing."""
        said = ""
        if self.fans is not None and usual.fans is not None:
            said += f"; fans {where} {self.fans:.0f} rpm, of all nodes {usual.fans:.0f} rpm"
        if self.rise is not None and usual.rise is not None:
            said += f"; rise from inlet to outlet {where} {self.rise:.1f} C, of all nodes {usual.rise:.1f} C"
        return said


class _Compared(NamedTuple):
    """One number and the median of its ``others``; ``above`` says above what a temperature is."""

    value: float
    median: float
    others: int
    watts: float = 0.0
    above: str = ""


def cohort_findings(expect: Expectations, nodes: Mapping[str, BurnedIn]) -> dict[str, tuple[Finding, ...]]:
    """Return by node what does not fit the other nodes; ``nodes`` are those of one class, whose subjects they name.

    A node that fits, and one with too few others, has no finding.
    """
    found: dict[str, list[Finding]] = {}
    for name, finding in (*_heat_findings(expect, nodes), *_load_findings(expect, nodes)):
        found.setdefault(name, []).append(finding)
    return {name: tuple(findings) for name, findings in found.items()}


def compares(expect: Expectations) -> bool:
    """Return whether nodes of this class are compared at all."""
    heat = expect.telemetry is not None and expect.telemetry.slot_spread_celsius is not None
    return heat or expect.nic_load is not None


def _heat_findings(expect: Expectations, nodes: Mapping[str, BurnedIn]) -> Iterator[tuple[str, Finding]]:
    spread = expect.telemetry.slot_spread_celsius if expect.telemetry is not None else None
    if spread is None:
        return
    parts, heats = list(gpu_subjects(expect).values()), dict[str, _Heat]()
    for name, node in nodes.items():
        try:
            heats[name] = _heat_of(node, parts)
        except NonsenseError as exc:
            yield name, _nonsense(HEAT, exc)
    compared = _compared_slots(heats, parts)
    hot = {name: _hot_slots(slots, spread) for name, slots in compared.items()}
    racks = {name: nodes[name].rack for name in compared}
    warm, usual = _warm_slots(compared, hot, racks), _Air.of(heats.values())
    in_rack: dict[str | None, list[_Heat]] = {}
    for name, rack in racks.items():
        in_rack.setdefault(rack, []).append(heats[name])
    for name, slots in compared.items():
        air = [part for part in hot[name] if (racks[name], part) in warm]
        own = [part for part in hot[name] if part not in air]
        if air:
            rack = racks[name]
            counts = {part: warm[rack, part] for part in air}
            yield name, _of_the_rack(str(rack), counts, _Air.of(in_rack[rack]).beside(usual, "in the rack"))
        if len(own) > 1 and 2 * len(own) >= len(slots):
            air_told = _Air.of([heats[name]]).beside(usual, "of the node")
            if (inlet := heats[name].inlet) is not None:
                air_told += f"; its inlet reads {inlet:.1f} C"
            yield name, _of_the_node({part: slots[part] for part in own}, len(slots), spread, air_told)
        else:
            yield from ((name, _of_the_gpu(part, slots[part], spread)) for part in own)


def _heat_of(node: BurnedIn, parts: Sequence[str]) -> _Heat:
    told = _numbers(node, "gpu_telemetry", (*parts, "host"), _SENSE.get)
    air = told.pop("host", {})
    slots = {
        part: (each["watts"], each["celsius"]) for part, each in told.items() if {"watts", "celsius"} <= each.keys()
    }
    return _Heat(slots, air.get("inlet_celsius"), air.get("outlet_celsius"), air.get("fan_rpm"))


def _compared_slots(heats: Mapping[str, _Heat], parts: Iterable[str]) -> dict[str, dict[str, _Compared]]:
    """Return by node and GPU how hot it is beside the same slot of others: above the inlet, where enough tell that."""
    found: dict[str, dict[str, _Compared]] = {}
    for part in parts:
        there = [name for name, heat in heats.items() if part in heat.slots]
        told = [(name, inlet) for name in there if (inlet := heats[name].inlet) is not None]
        for above, group in (("", [(name, 0.0) for name in there]), (" above the inlet", told)):
            numbers = [(heats[name].slots[part][0], heats[name].slots[part][1] - inlet) for name, inlet in group]
            for (name, _inlet), (watts, value), beside in zip(group, numbers, _at_equal_power(numbers), strict=True):
                if beside is not None:
                    found.setdefault(name, {})[part] = _Compared(value, *beside, watts, above)
    return found


def _hot_slots(slots: Mapping[str, _Compared], spread: float) -> list[str]:
    """Return the hot GPUs of a node. Where no inlet is told, a few are hot only beyond what may be a warmer room."""
    over = {part: each.value - each.median for part, each in slots.items()}
    hot = [part for part, more in over.items() if more > spread]
    if 2 * len(hot) >= len(over):
        return hot
    room = max(0.0, statistics.median(over.values()))
    return [part for part in hot if slots[part].above or over[part] - room > spread]


def _at_equal_power(numbers: Sequence[tuple[float, float]]) -> list[tuple[float, int] | None]:
    """Return for each (watts, value) the median value of the others at equal power and how many these are.

    None where they are too few. A window moves over the numbers in the order of their power, so that thousands of nodes
    take no longer than their number.
    """
    order = sorted(range(len(numbers)), key=lambda index: numbers[index][0])
    found: list[tuple[float, int] | None] = [None] * len(numbers)
    window, first, last = list[float](), 0, 0
    for index in order:
        watts, value = numbers[index]
        while last < len(order) and numbers[order[last]][0] <= watts * (1 + EQUAL_POWER):
            insort(window, numbers[order[last]][1])
            last += 1
        while numbers[order[first]][0] < watts * (1 - EQUAL_POWER):
            del window[bisect_left(window, numbers[order[first]][1])]
            first += 1
        found[index] = _median_of_others(window, value)
    return found


def _median_of_others(ordered: Sequence[float], own: float) -> tuple[float, int] | None:
    """Return the median of sorted numbers without one that is ``own``, and how many they are."""
    others = len(ordered) - 1
    if others < LEAST_OTHERS:
        return None
    place = bisect_left(ordered, own)
    middle = [ordered[index + (index >= place)] for index in ((others - 1) // 2, others // 2)]
    return sum(middle) / 2, others


def _warm_slots(
    compared: Mapping[str, Mapping[str, _Compared]], hot: Mapping[str, Sequence[str]], racks: Mapping[str, str | None]
) -> dict[tuple[str | None, str], tuple[int, int]]:
    """Return the (rack, slot) that are hot on at least half of the rack's nodes, two or more: on how many of how many.

    The GPUs, heat sinks and fans of several nodes do not fail together; the air before them is one.
    """
    counts: dict[tuple[str | None, str], tuple[int, int]] = {}
    for name, slots in compared.items():
        for part in slots:
            many, of = counts.get((racks[name], part), (0, 0))
            counts[racks[name], part] = (many + (part in hot[name]), of + 1)
    return {key: (many, of) for key, (many, of) in counts.items() if key[0] is not None and many > 1 and 2 * many >= of}


def _of_the_rack(rack: str, counts: Mapping[str, tuple[int, int]], air_told: str) -> Finding:
    slots = ", ".join(f"{part} on {many} of {of} nodes" for part, (many, of) in counts.items())
    why = (
        f"rack {rack} is hot beside the same slots of other nodes at equal power: {slots}; this is the air (blanking "
        f"panels, containment, fans), not the GPUs{air_told}; burn in again when it is mended"
    )
    return Finding(HEAT, "host", INCOMPLETE, len(counts), 0, "hot slots", why, "investigate")


def _of_the_node(hot: Mapping[str, _Compared], of: int, spread: float, air_told: str) -> Finding:
    most = max(each.value - each.median for each in hot.values())
    # Where no inlet is told, it may be the room, which has become warmer since the others were burned in.
    inlet_told = all(each.above for each in hot.values())
    why = (
        f"{len(hot)} of {of} GPUs are hotter than the same slots of other nodes at equal power, by up to {most:.1f} C, "
        f"at most {spread:g} C allowed: {', '.join(hot)}; what they share is to blame (fans, air or coolant, inlet "
        f"sensor), not the GPUs{air_told}"
    )
    if not inlet_told:
        why += "; no inlet is told (bmc.inlet), so that it may be the room"
    verdict = FAIL if inlet_told else INCOMPLETE
    return Finding(HEAT, "host", verdict, len(hot), 0, "hot slots", why, "investigate")


def _of_the_gpu(part: str, found: _Compared, spread: float) -> Finding:
    # Nothing proves the GPU itself: what carries its heat away is looked at before it is replaced.
    why = (
        f"{part}: {found.value:.1f} C{found.above} at {found.watts:.0f} W; the same slot of {found.others} other nodes "
        f"at equal power: median {found.median:.1f} C, at most {spread:g} C above allowed; most GPUs of the node are "
        "not hot: look at its heat sink or cold plate"
    )
    return Finding(HEAT, part, FAIL, round(found.value, 1), round(found.median + spread, 1), "C", why, "reseat")


def _load_findings(expect: Expectations, nodes: Mapping[str, BurnedIn]) -> Iterator[tuple[str, Finding]]:
    if expect.nic_load is None:
        return
    spread = expect.nic_load.rail_spread_percent
    rates, ordered = dict[str, dict[tuple[str, str], float]](), dict[tuple[str, str], list[float]]()
    for name, node in nodes.items():
        try:
            told = _numbers(node, "nic_load", rail_subjects(expect), lambda _memory: _GBPS)
        except NonsenseError as exc:
            yield name, _nonsense(LOAD, exc)
            continue
        rates[name] = {(rail, memory): rate for rail, each in told.items() for memory, rate in each.items()}
        for key, rate in rates[name].items():
            ordered.setdefault(key, []).append(rate)
    for numbers in ordered.values():
        numbers.sort()
    for name, own in rates.items():
        beside = {key: _median_of_others(ordered[key], rate) for key, rate in own.items()}
        compared = {key: _Compared(own[key], *found) for key, found in beside.items() if found is not None}
        yield from ((name, finding) for finding in _slow(compared, spread))


def _slow(compared: Mapping[tuple[str, str], _Compared], spread: float) -> Iterator[Finding]:
    """Yield what is slow by (rail, memory): a rail with all memory by itself, several rails with one as that memory."""
    slow = [key for key, each in compared.items() if each.value < _floor(each, spread)]
    rails = {rail for rail, _memory in compared}
    whole = {rail for rail in rails if all(key in slow for key in compared if key[0] == rail)}
    if len(whole) > 1 and 2 * len(whole) >= len(rails):
        # NICs do not fail by the half: what they share does.
        whole = set()
    shared = [memory for rail, memory in slow if rail not in whole]
    for memory in dict.fromkeys(memory for memory in shared if shared.count(memory) > 1):
        keys = [key for key in slow if key[1] == memory and key[0] not in whole]
        yield _of_the_memory(memory, {key[0]: compared[key] for key in keys}, len(rails), spread)
    for rail in dict.fromkeys(rail for rail, _memory in slow):
        keys = [key for key in slow if key[0] == rail and (rail in whole or shared.count(key[1]) == 1)]
        if keys:
            yield _of_the_rail(rail, {key[1]: compared[key] for key in keys}, rail in whole, spread)


def _floor(found: _Compared, spread: float) -> float:
    return found.median * (1 - spread / 100)


def _of_the_memory(memory: str, rails: Mapping[str, _Compared], of: int, spread: float) -> Finding:
    worst = min(rails.values(), key=lambda each: each.value / each.median)
    suspects = "PCIe switches and IOMMU" if memory == "gpu" else "memory, link between sockets"
    why = (
        f"{len(rails)} of {of} NICs are slow with {_named(memory)}: {_rates(rails)}; at most {spread:g} % below the "
        f"median of other nodes allowed; they share that memory and the way to it ({suspects}); {_LOOPED}"
    )
    return Finding(LOAD, "host", FAIL, worst.value, round(_floor(worst, spread), 1), "Gb/s", why, "investigate")


def _of_the_rail(rail: str, memories: Mapping[str, _Compared], whole: bool, spread: float) -> Finding:
    worst = min(memories.values(), key=lambda each: each.value / each.median)
    rates = _rates({_named(memory): each for memory, each in memories.items()})
    why = (
        f"{rail}: slow with {rates}; at most {spread:g} % below the median of the same rail on {worst.others} other "
        f"nodes allowed; {_LOOPED}"
    )
    # With all memory it is the NIC or its slot, with some of it the way there.
    action = "reseat" if whole else "investigate"
    return Finding(LOAD, rail, FAIL, worst.value, round(_floor(worst, spread), 1), "Gb/s", why, action)


def _rates(found: Mapping[str, _Compared]) -> str:
    return ", ".join(f"{name} {each.value:.1f} Gb/s (median {each.median:.1f})" for name, each in sorted(found.items()))


def _named(memory: str) -> str:
    return "GPU memory" if memory == "gpu" else f"memory of NUMA node {memory.removeprefix('numa ')}"


def _numbers(
    node: BurnedIn, check: str, parts: Iterable[str], sense: Callable[[str], tuple[float, float] | None]
) -> dict[str, dict[str, float]]:
    """Return what a check measured of these parts, by quantity; raises NonsenseError.

    ``sense`` gives the least and the most that a quantity can be, None for one that is not asked for.
    """
    by_part = node.measures.get(check, {}) if isinstance(node.measures, Mapping) else None
    found: dict[str, dict[str, float]] = {}
    for part in parts:
        quantities = by_part.get(part, {}) if isinstance(by_part, Mapping) else None
        if not isinstance(quantities, Mapping):
            raise NonsenseError(f"{check} {part}: no mapping of quantities to numbers")
        for quantity, value in quantities.items():
            if (bounds := sense(quantity)) is None:
                continue
            # Also NaN, which lies between no two numbers.
            if type(value) not in {int, float} or not bounds[0] <= value <= bounds[1]:
                expected = f"{bounds[0]:g} to {bounds[1]:g}"
                raise NonsenseError(f"{check} {part}: {quantity!r:.40} is {value!r:.40}, expected {expected}")
            found.setdefault(part, {})[quantity] = float(value)
    return found


def _nonsense(check: str, exc: NonsenseError) -> Finding:
    why = f"what burn-in measured is compared with no other node: {exc}"
    return Finding(check, "host", INCOMPLETE, reason=why, action="investigate")
