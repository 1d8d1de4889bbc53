"""A simulated fleet: its hidden truth, and what its rounds show of it in the format of collective_round.

An exchange takes as long as the slowest thing in its way. Noise is multiplicative on every rank's median; a part of its
variance is common to all ranks of an exchange, as what they share (hosts, switches) makes it, the rest is each rank's
own. A few measurements take up to twice as long. What is not in the faults is not in the observations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import permutation_pairs, phases_of

from .faults import (
    ABSENT,
    EITHER,
    GROUPS,
    HELD,
    INSIDE,
    NAMED,
    REJECTED,
    WALK,
    Clock,
    Dead,
    Fault,
    Hangs,
    Layout,
    Slow,
    Tails,
    WrongData,
    expectation_by_node,
)

# The first of the named faults, of which many tests have one fleet each; all of them are in faults.NAMED.
FAULTS = tuple(NAMED)[:13]
SIZES = (65536, 268435456)
GROUP_SIZES = (8, 2**20, 2**30)
PAIRS = "sendrecv"
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
# Nanoseconds of an exchange within a rack: 64 KiB in 18 us, 256 MiB at 46 GB/s; what a longer way adds.
NANOSECONDS = {65536: 18_000.0, 268435456: 268435456 / 46.0}
WAY = {65536: (1.0, 1.08, 1.2), 268435456: (1.0, 1.005, 1.01)}
GROUP_GB = 380.0
# What is as slow as the smaller size of pairs.
SMALL_GROUP = 2**20


@dataclass(frozen=True)
class Spec:
    """What kind of fleet: ``rack`` hosts to a rack (0: none declared), ``pod`` racks to a pod, ``effect`` as a part.

    ``floors`` are what a class asks of pairs, as a part of what is usual, and a tenth less of groups. Of the noise's
    variance ``common`` is that of an exchange; the share ``tail`` of all values is up to ``tail_to`` times as long, and
    so are both sides of the share ``small_tail`` of the exchanges of small messages.
    So many ``spares`` are in service already, sound and idle: partners of those under test.
    """

    hosts: int
    fault: str
    noise: float
    rails: int = 8
    rack: int = 0
    pod: int = 0
    effect: float | None = None
    floors: float = 0.8
    common: float = 0.5
    tail: float = 1e-4
    tail_to: float = 2.0
    small_tail: float = 0.0
    spares: int = 0

    @classmethod
    def usual(cls, hosts: int, fault: str, noise: float, **other: Any) -> Spec:
        """Return a fleet of the usual shape: racks of 4 hosts, of 16 in pods of 8 racks where there are many."""
        rack, pod = (2, 0) if hosts <= 8 else (4, 0) if hosts <= 64 else (8, 8) if hosts <= 512 else (16, 8)
        if fault == "two_pods":
            pod = math.ceil(math.ceil(hosts / rack) / 2)
        if fault == "hang_spares":
            other = {"spares": 4, **other}
        return cls(hosts, fault, noise, **{"rack": rack, "pod": pod, **other})

    def layout(self, spares: bool = False) -> Layout:
        """Return who the hosts under test are and where, with spares behind them."""
        width, at = len(str(self.hosts)), np.arange(self.hosts + self.spares * spares)
        rack = at // self.rack if self.rack else np.zeros(len(at), dtype=int)
        pod = rack // self.pod if self.rack and self.pod else np.zeros(len(at), dtype=int)
        nodes = tuple(f"h{number:0{width}}" for number in range(1, len(at) + 1))
        return Layout(nodes, rack, pod, self.rails, self.effect)

    def places(self) -> dict[str, dict[str, str | None]]:
        """Return where the fleet file says that each node is."""
        layout = self.layout(spares=True)
        return {
            node: {
                "rack": f"r{layout.rack[at]:03}" if self.rack else None,
                "pod": f"p{layout.pod[at]:02}" if self.rack and self.pod else None,
            }
            for at, node in enumerate(layout.nodes)
        }


@dataclass
class Truth:
    """What is wrong with whom: names of nodes by what should become of them; ``either``: rejected or held."""

    fault: str
    bad: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    either: list[str] = field(default_factory=list)


def expectations(spec: Spec, **other: Any) -> dict[str, Any]:
    """Return a class' ``collective`` section that fits such fleets: floors at a part of what is usual."""
    floors = [
        {
            "collective": "sendrecv",
            "nodes_min": 2,
            "size_bytes": size,
            "busbw_gb_per_s": spec.floors * size / NANOSECONDS[size] / WAY[size][2],
        }
        for size in SIZES
    ]
    groups = round(spec.floors - 0.1, 6)
    floors += [
        {"collective": each, "nodes_min": nodes, "size_bytes": 2**30, "busbw_gb_per_s": groups * GROUP_GB}
        for each in COLLECTIVES
        for nodes in (1, 2)
    ]
    return {
        "driver": "torch",
        "backend": "nccl",
        "ranks_per_node": spec.rails,
        "step_seconds": 180,
        "pairs": {"sizes_bytes": list(SIZES), "iterations": 20, "warmup": 3, "seconds": 1},
        "groups": {"collectives": list(COLLECTIVES), "sizes_bytes": list(GROUP_SIZES), "iterations": 20, "warmup": 5},
        "train": None,
        "floors": floors,
        "latency": [],
        "cohort": {"peers": 8, "margin": 0.05, "smallest": 0.10},
        "hold": {"nodes": 2, "share": 0.2},
        "straggler": None,
        "budget_minutes": None,
        **other,
    }


@dataclass(frozen=True)
class Meets:
    """Who meets whom in a phase: by exchange the permutation, both positions and both hosts; ``met`` by permutation and
    position whom, -1 for nobody.
    """

    steps: int
    step: Any
    one: Any
    other: Any
    a: Any
    b: Any
    met: Any

    @classmethod
    def of(cls, phase: Mapping[str, Any], at: Any) -> Meets:
        """Return the exchanges of a phase between the hosts of a job."""
        if "shifts" in phase:
            step, one, other = permutation_pairs(len(at), phase["shifts"])
        else:
            flat = [(k, a, b) for k, pairs in enumerate(phase["pairs"]) for a, b in pairs]
            step, one, other = np.array(flat, dtype=int).reshape(-1, 3).T
        steps = len(phase["shifts"] if "shifts" in phase else phase["pairs"])
        met = np.full((steps, len(at)), -1)
        met[step, one], met[step, other] = other, one
        return cls(steps, step, one, other, at[one], at[other], met)


@dataclass(frozen=True)
class Condition:
    """A slowness that is not simply a node's speed: positions of whose, to whom (None: everybody)."""

    who: Any
    to: Any
    fault: Slow
    columns: tuple[int, ...]

    def applies(self, operation: str, column: int) -> bool:
        """Return whether an operation can show it."""
        asked = operation in self.fault.operations or (not self.fault.operations and operation != INSIDE)
        return asked and column in self.columns

    def between(self, a: Any, b: Any) -> Any:
        """Return which exchanges of these positions it lies in."""
        if self.to is None:
            return self.who[a] | self.who[b]
        return (self.who[a] & self.to[b]) | (self.to[a] & self.who[b])

    def slowed(self, speed: Any, shown: Any) -> None:
        """Slow down the rails of the exchanges that show it."""
        rails = list(self.fault.rails) or slice(None)
        rows = np.flatnonzero(shown)
        speed[rows[:, None] if self.fault.rails else rows, rails] *= 1 - self.fault.by


@dataclass
class Stop:
    """A position that stops for good once it did ``left`` exchanges more; ``lost``: Slurm says so from then on."""

    at: int
    left: int
    where: str
    shows: str
    lost: bool = False


class Fleet:
    """Hosts with faults that only ``truth`` tells; ``run`` gives what a round shows.

    Without ``faults`` the specification names them. ``speed`` of a node's rail at each size is a part of what it should
    be.
    """

    def __init__(self, spec: Spec, seed: int, faults: Sequence[Fault] | None = None) -> None:
        self.spec, layout = spec, spec.layout(spares=True)
        kind = list(NAMED).index(spec.fault) if spec.fault in NAMED else len(NAMED)
        self.rng = np.random.default_rng([seed, spec.hosts, kind, round(spec.noise * 1e5)])
        self.nodes = list(layout.nodes)
        self.index = {node: at for at, node in enumerate(self.nodes)}
        self.rack, self.pod = layout.rack, layout.pod
        self.speed = np.ones((len(SIZES), len(self.nodes), spec.rails))
        self.clock = np.ones(len(self.nodes), dtype=np.float32)
        self.faults: list[Fault] = []
        self._conditions: list[Condition] = []
        self._stops: list[Stop] = []
        self._down: set[int] = set()
        self._wrong: list[tuple[int, WrongData]] = []
        self._tails: list[Tails] = []
        self.add(*(NAMED[spec.fault](spec.layout(), self.rng) if faults is None else faults))

    def add(self, *faults: Fault) -> None:
        """Break it further."""
        for fault in faults:
            self.faults.append(fault)
            if isinstance(fault, Tails):
                self._tails.append(fault)
                continue
            at = [self.index[node] for node in fault.who]
            if isinstance(fault, Slow):
                self._slow(fault, at)
            elif isinstance(fault, Hangs):
                self._stops += [Stop(each, fault.after, fault.where, fault.shows) for each in at]
            elif isinstance(fault, Dead):
                self._down |= set(at) if fault.after is None else set()
                self._stops += [Stop(each, fault.after or 0, WALK, ABSENT, True) for each in at]
            elif isinstance(fault, WrongData):
                self._wrong += [(each, fault) for each in at]
            elif isinstance(fault, Clock):
                self.clock[at] *= np.float32(fault.runs)

    def _slow(self, fault: Slow, at: list[int]) -> None:
        columns = tuple(column for column, size in enumerate(SIZES) if not fault.bytes or size in fault.bytes)
        rails = fault.rails or range(self.spec.rails)
        if not fault.to and fault.when == 1 and not fault.operations:
            self.speed[np.ix_(columns, at, rails)] *= 1 - fault.by
            return
        who, to = (np.zeros(len(self.nodes), dtype=bool) for _each in range(2))
        who[at] = True
        to[[self.index[node] for node in fault.to]] = True
        self._conditions.append(Condition(who, to if fault.to else None, fault, columns))

    @property
    def truth(self) -> Truth:
        """Return who has something, by what should become of them."""
        truth, dead = (
            Truth(self.spec.fault),
            {node for each in self.faults if isinstance(each, Dead) for node in each.who},
        )
        lists = {REJECTED: truth.bad, HELD: truth.held, EITHER: truth.either}
        expected = expectation_by_node(self.faults)
        for node in sorted(expected, key=lambda node: self.index.get(node, 0)):
            (truth.gone if node in dead else lists[expected[node]]).append(node)
        return truth

    def places(self) -> dict[str, dict[str, str | None]]:
        """Return where the fleet file says that each node is."""
        return self.spec.places()

    def run(self, plan: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return one observation for each job of the round, arrays for lists of numbers."""
        return [self._job(list(group), phases_of(plan, group)) for group in plan["groups"]]

    def _job(self, group: list[str], phases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        at = np.array([self.index[node] for node in group])
        item: dict[str, Any] = {"group": group, "started": True, "ok": True, "error": "", "missing": []}
        item.update(unavailable={}, ranks=[], results=[])
        if down := [self.nodes[each] for each in at.tolist() if each in self._down]:
            return {
                **item,
                "started": False,
                "ok": False,
                "error": f"not started: {', '.join(down)} is down",
                "unavailable": dict.fromkeys(down, "down"),
            }
        for phase in phases:
            if phase["kind"] == "pairs":
                halted = self._pairs(item, group, at, phase)
            elif phase["kind"] == "groups":
                halted = self._groups(item, group, at, phase)
            else:
                self._inside(item, group, phase)
                halted = phase["kind"] == "inside" and self._halted_inside(item, group, at, phase)
            if halted:
                break
        return item

    def _noise(self, *shape: int) -> Any:
        noise = np.exp(self.spec.noise * self.rng.standard_normal(shape, dtype=np.float32))
        return noise

    def _pairs(self, item: dict[str, Any], group: list[str], at: Any, phase: Mapping[str, Any]) -> bool:
        meets = Meets.of(phase, at)
        stops = self._stopping(at, meets.met)
        stands = self._stands(stops, meets.met)
        unfinished = np.arange(meets.steps)[:, None] >= stands[None, :]
        shown = [
            self._shown(each, meets) if each.applies(PAIRS, each.columns[0]) else None for each in self._conditions
        ]
        for column, size in enumerate(SIZES):
            if size not in phase["sizes"]:
                continue
            times = self._times(column, meets, shown)
            times[unfinished] = np.nan
            slowest = np.rint(times * np.float32(1.1))
            for k in range(int(stands.max())):
                item["results"].append(
                    {"move": phase["name"], "step": k, "bytes": size, "ns": times[k], "ns_p99": slowest[k], "wrong": {}}
                )
        for node, fault in self._wrong:
            wrong = ((meets.a == node) | (meets.b == node)) & (self.rng.random(len(meets.a)) < fault.when)
            if wrong.any():
                self._spoil(item, group, phase["name"], meets, (node, fault, wrong))
        if not stops:
            return False
        self._halt(item, group, stands, stops, phase)
        return True

    def _shown(self, condition: Condition, meets: Meets) -> Any:
        """Return which exchanges show a condition; None: none of this kind."""
        if not condition.applies(PAIRS, condition.columns[0]):
            return None
        lies = condition.between(meets.a, meets.b)
        if condition.fault.when < 1:
            lies &= self.rng.random(len(lies)) < condition.fault.when
        return lies

    def _times(self, column: int, meets: Meets, shown: Sequence[Any]) -> Any:
        """Return nanoseconds by permutation, position and rail; NaN for who sits out."""
        a, b, size, rails, spec = meets.a, meets.b, SIZES[column], self.spec.rails, self.spec
        way = np.where(self.rack[a] == self.rack[b], 0, np.where(self.pod[a] == self.pod[b], 1, 2))
        if not spec.rack:
            way = np.full(len(a), 1)
        speed = np.minimum(self.speed[column, a], self.speed[column, b])
        for condition, rows in zip(self._conditions, shown, strict=True):
            if rows is not None and column in condition.columns:
                condition.slowed(speed, rows)
        base = (NANOSECONDS[size] * np.array(WAY[size])[way])[:, None] / speed
        small = [Tails(spec.small_tail, spec.tail_to)] if spec.small_tail and column == 0 else []
        for tails in [*self._tails, *small]:
            late = self.rng.random(len(a)) < tails.share
            base[late] *= self.rng.uniform(1.2, tails.up_to, int(late.sum()))[:, None]
        common = np.float32(math.sqrt(spec.common) * spec.noise) * self.rng.standard_normal(len(a), dtype=np.float32)
        share = np.float32(math.sqrt(1 - spec.common) * spec.noise)
        times = np.full((meets.steps, meets.met.shape[1], rails), np.nan, dtype=np.float32)
        skewed = bool((self.clock != 1).any())
        for side, host in ((meets.one, a), (meets.other, b)):
            own = share * self.rng.standard_normal((len(a), rails), dtype=np.float32)
            values = base * np.exp(common[:, None] + own)
            late = self.rng.poisson(spec.tail * values.size)
            values.reshape(-1)[self.rng.integers(values.size, size=late)] *= self.rng.uniform(1.2, spec.tail_to, late)
            if skewed:
                values *= self.clock[host][:, None]
            times[meets.step, side] = np.rint(values)
        return times

    def _spoil(
        self, item: dict[str, Any], group: list[str], name: str, meets: Meets, what: tuple[int, Any, Any]
    ) -> None:
        node, fault, wrong = what
        ranks = list(fault.rails or range(self.spec.rails))
        receiver = np.where(meets.a == node, meets.other, meets.one)
        received = {int(meets.step[each]): group[receiver[each]] for each in np.flatnonzero(wrong)}
        for result in item["results"]:
            if result["move"] == name and result["step"] in received:
                result["wrong"] = {**result["wrong"], received[result["step"]]: ranks}

    def _stopping(self, at: Any, met: Any) -> dict[int, tuple[int, Stop]]:
        """Return by position in the job at which permutation it stops for good by itself."""
        found: dict[int, tuple[int, Stop]] = {}
        for stop in self._stops:
            where = np.flatnonzero(at == stop.at)
            if stop.where != WALK or not len(where):
                continue
            busy = np.flatnonzero(met[:, where[0]] >= 0)
            if len(busy) > stop.left:
                found[int(where[0])] = int(busy[stop.left]), stop
            else:
                stop.left -= len(busy)
        return found

    def _stands(self, stops: Mapping[int, tuple[int, Stop]], met: Any) -> Any:
        """Return by position the permutation that it does not finish: whoever meets somebody who waits, waits too."""
        stands = np.full(met.shape[1], len(met))
        for position, (step, _stop) in stops.items():
            stands[position] = step
        for step in range(min((step for step, _stop in stops.values()), default=len(met)), len(met)):
            partner = met[step]
            stands[(partner >= 0) & (stands[partner] <= step) & (stands > step)] = step
        for position, (step, stop) in stops.items():
            # One that waits for another who stopped before it has not come to its own end.
            own = stands[position] == step
            stop.left = 0 if own else stop.left - int((met[: stands[position], position] >= 0).sum())
        return stands

    def _halt(
        self,
        item: dict[str, Any],
        group: list[str],
        stands: Any,
        stops: Mapping[int, tuple[int, Stop]],
        phase: Mapping[str, Any],
    ) -> None:
        guilty = {position: stop for position, (step, stop) in stops.items() if stands[position] == step}
        first = min(int(stands[position]) for position in guilty)
        item["reached"] = {
            node: [phase["name"], int(stand), "arrived"] for node, stand in zip(group, stands, strict=True)
        }
        for position, stop in guilty.items():
            item["reached"][group[position]][2] = stop.shows
        self._ended(item, phase, first, {group[position]: stop for position, stop in guilty.items()})

    def _ended(self, item: dict[str, Any], phase: Mapping[str, Any], step: int, guilty: Mapping[str, Stop]) -> None:
        """Say that a job was ended, and what Slurm says of those that it lost."""
        item.update(ok=False, error=f"not finished after {phase['seconds']} s in {phase['name']} {step}, cancelled")
        if lost := {node: stop for node, stop in guilty.items() if stop.lost}:
            item["missing"] = list(lost)
            item["unavailable"] = dict.fromkeys(lost, "not responding")
            self._down |= {stop.at for stop in lost.values()}

    def _groups(self, item: dict[str, Any], group: list[str], at: Any, phase: Mapping[str, Any]) -> bool:
        guilty = self._stopping_in_groups(at, phase)
        # Groups of as many hosts at once; those in which somebody stopped have no times.
        running = [each for each in phase["groups"] if not guilty.keys() & set(each)]
        for size in phase["sizes"]:
            ns = np.full((len(group), self.spec.rails), np.nan)
            wrong: dict[str, list[int]] = {}
            for count, alike in itertools.groupby(running, key=len):
                members = np.array(list(alike))
                ranks = count * self.spec.rails
                factor = 2 * (ranks - 1) / ranks if phase["collective"] == "all_reduce" else (ranks - 1) / ranks
                took = 30_000.0 + factor * size / GROUP_GB / self._ring(at[members], size, phase["collective"])
                for tails in self._tails:
                    late = self.rng.random(len(took)) < tails.share
                    took[late] *= self.rng.uniform(1.2, tails.up_to, int(late.sum()))
                values = took.astype(np.float32)[:, None, None] * self._noise(*members.shape, self.spec.rails)
                ns[members] = np.rint(values * self.clock[at[members]][:, :, None])
            for members in running if self._wrong else ():
                for node, fault in self._wrong:
                    if node in at[members] and self.rng.random() < fault.when:
                        wrong |= {group[each]: list(range(self.spec.rails)) for each in members}
            result = {
                "move": phase["name"],
                "step": 0,
                "bytes": size,
                "ns": ns,
                "ns_p99": np.rint(1.1 * ns),
                "wrong": wrong,
            }
            item["results"].append(result)
        if guilty:
            waiting = {each for members in phase["groups"] if guilty.keys() & set(members) for each in members}
            item["reached"] = {group[each]: [phase["name"], 0, "arrived"] for each in sorted(waiting)}
            for position, stop in guilty.items():
                item["reached"][group[position]][2] = stop.shows
            self._ended(item, phase, 0, {group[position]: stop for position, stop in guilty.items()})
        return bool(guilty)

    def _stopping_in_groups(self, at: Any, phase: Mapping[str, Any]) -> dict[int, Stop]:
        """Return by position who stops in a group's operation: whose exchanges, or operations, are used up."""
        used = {each for members in phase["groups"] for each in members}
        found: dict[int, Stop] = {}
        for stop in self._stops:
            where = used.intersection(np.flatnonzero(at == stop.at).tolist())
            if stop.where == INSIDE or not where:
                continue
            if stop.left == 0:
                found[where.pop()] = stop
            elif stop.where == GROUPS:
                stop.left -= 1
        return found

    def _ring(self, hosts: Any, size: int, collective: str) -> Any:
        """Return how fast rings over the hosts of each row, in this order, are: as fast as their slowest link."""
        column = 0 if size <= SMALL_GROUP else 1
        speed = self.speed[column, hosts].min(axis=(1, 2))
        for condition in self._conditions:
            if not condition.applies(collective, column):
                continue
            shown = condition.between(hosts, np.roll(hosts, -1, axis=1)).any(axis=1)
            if condition.fault.when < 1:
                some = np.flatnonzero(shown)
                shown[some] = self.rng.random(len(some)) < condition.fault.when
            speed[shown] *= 1 - condition.fault.by
        return speed

    def _inside(self, item: dict[str, Any], group: list[str], phase: Mapping[str, Any]) -> None:
        at, ranks = np.array([self.index[node] for node in group]), self.spec.rails
        for size in phase["sizes"]:
            took = np.full(len(group), 20_000.0 + 2 * (ranks - 1) / max(ranks, 1) * size / GROUP_GB)
            for condition in self._conditions:
                if condition.applies(INSIDE, 0 if size <= SMALL_GROUP else 1):
                    late = condition.who[at] & (self.rng.random(len(at)) < condition.fault.when)
                    took[late] /= 1 - condition.fault.by
            ns = np.rint(took.astype(np.float32)[:, None] * self._noise(len(group), ranks) * self.clock[at][:, None])
            item["results"].append(
                {"move": phase["name"], "step": 0, "bytes": size, "ns": ns, "ns_p99": np.rint(1.1 * ns), "wrong": {}}
            )

    def _halted_inside(self, item: dict[str, Any], group: list[str], at: Any, phase: Mapping[str, Any]) -> bool:
        """Say who stopped inside itself, if anybody: all others wait to begin the next phase, which tells of nobody."""
        hung = {
            int(np.flatnonzero(at == stop.at)[0]): stop
            for stop in self._stops
            if stop.where == INSIDE and stop.at in at
        }
        if not hung:
            return False
        for result in item["results"]:
            if result["move"] == phase["name"]:
                result["ns"][list(hung)] = result["ns_p99"][list(hung)] = np.nan
        item["reached"] = {group[each]: [phase["name"], 0, stop.shows] for each, stop in hung.items()}
        self._ended(item, phase, 0, {group[each]: stop for each, stop in hung.items()})
        return True


def as_json(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an observation as the module writes it: whole nanoseconds in lists, null for who took no part."""

    def listed(values: Any) -> list[Any]:
        return [None if np.isnan(row).all() else [int(value) for value in row] for row in values]

    results = [{**each, "ns": listed(each["ns"]), "ns_p99": listed(each["ns_p99"])} for each in item["results"]]
    return {**item, "results": results}


def revealed(fleet: Fleet) -> dict[str, Any]:
    """Return the truth."""
    return asdict(fleet.truth)
