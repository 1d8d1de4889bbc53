"""A simulated fleet: its hidden truth, and what its rounds show of it in the format of collective_round.

An exchange takes as long as the slowest thing in its way. Noise is multiplicative on every rank's median; half of its
variance is common to all ranks of an exchange, as what they share (hosts, switches) makes it, half is each rank's own.
One measurement in ten thousand takes up to twice as long. What is not in the truth is not in the observations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import permutation_pairs

FAULTS = (
    *("clean", "one_slow_10", "five_slow_10", "dead", "hang", "wrong_data", "one_rail", "one_pair", "slow_boundary"),
    *("intermittent_30", "small_messages", "fifth_slow", "two_racks"),
)
SIZES = (65536, 268435456)
GROUP_SIZES = (8, 2**20, 2**30)
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
# Nanoseconds of an exchange within a rack: 64 KiB in 18 us, 256 MiB at 46 GB/s; what a longer way adds.
NANOSECONDS = {65536: 18_000.0, 268435456: 268435456 / 46.0}
WAY = {65536: (1.0, 1.08, 1.2), 268435456: (1.0, 1.005, 1.01)}
GROUP_GB = 380.0
TAIL = 1e-4
# What is not said in a fault's name is 20 % slow.
OTHER_SLOW = 0.2
WRONG_SHARE, INTERMITTENT_SHARE = 0.5, 0.3


@dataclass(frozen=True)
class Spec:
    """What kind of fleet: ``rack`` hosts to a rack (0: none declared), ``pod`` racks to a pod, ``effect`` as a part."""

    hosts: int
    fault: str
    noise: float
    rails: int = 8
    rack: int = 0
    pod: int = 0
    effect: float | None = None

    @classmethod
    def usual(cls, hosts: int, fault: str, noise: float, **other: Any) -> Spec:
        """Return a fleet of the usual shape: racks of 4 hosts, of 16 in pods of 8 racks where there are many."""
        rack, pod = (2, 0) if hosts <= 8 else (4, 0) if hosts <= 64 else (8, 8) if hosts <= 512 else (16, 8)
        return cls(hosts, fault, noise, **{"rack": rack, "pod": pod, **other})


@dataclass
class Truth:
    """What is wrong with whom: names of nodes by what should become of them."""

    fault: str
    bad: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


def expectations(spec: Spec, **other: Any) -> dict[str, Any]:
    """Return a class' ``collective`` section that fits such fleets: floors at 80 % of what is usual."""
    floors = [
        {
            "collective": "sendrecv",
            "nodes_min": 2,
            "size_bytes": size,
            "busbw_gb_per_s": 0.8 * size / NANOSECONDS[size] / WAY[size][2],
        }
        for size in SIZES
    ]
    floors += [
        {"collective": each, "nodes_min": nodes, "size_bytes": 2**30, "busbw_gb_per_s": 0.7 * GROUP_GB}
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


class Fleet:
    """Hosts with a fault that only ``truth`` tells; ``run`` gives what a round shows."""

    def __init__(self, spec: Spec, seed: int) -> None:
        self.spec = spec
        self.rng = np.random.default_rng([seed, spec.hosts, FAULTS.index(spec.fault), round(spec.noise * 1e5)])
        width = len(str(spec.hosts))
        self.nodes = [f"h{number:0{width}}" for number in range(1, spec.hosts + 1)]
        self.index = {node: at for at, node in enumerate(self.nodes)}
        at = np.arange(spec.hosts)
        self.rack = at // spec.rack if spec.rack else np.zeros(spec.hosts, dtype=int)
        self.pod = self.rack // spec.pod if spec.rack and spec.pod else np.zeros(spec.hosts, dtype=int)
        # Speed of a node's rail at each size, as a part of what it should be.
        self.speed = np.ones((len(SIZES), spec.hosts, spec.rails))
        self.truth = Truth(spec.fault)
        self.pair: tuple[int, int] | None = None
        # Exchanges between those outside and those beyond are slow.
        self.outside = self.beyond = np.zeros(spec.hosts, dtype=bool)
        self.sometimes = -1
        self.slow = OTHER_SLOW
        self.wrong = -1
        self.wrong_rail: int | None = None
        self.hung = -1
        self.dead = -1
        self.dead_from_start = False
        self.patience = 0
        self._break()

    def places(self) -> dict[str, dict[str, str | None]]:
        """Return where the fleet file says that each node is."""
        spec = self.spec
        return {
            node: {
                "rack": f"r{self.rack[at]:03}" if spec.rack else None,
                "pod": f"p{self.pod[at]:02}" if spec.rack and spec.pod else None,
            }
            for at, node in enumerate(self.nodes)
        }

    def _break(self) -> None:
        spec, rng, truth = self.spec, self.rng, self.truth
        fault = spec.fault
        if spec.effect is not None:
            self.slow = spec.effect
        several = {"five_slow_10": min(5, spec.hosts), "fifth_slow": round(0.22 * spec.hosts) + 1}.get(fault, 1)
        some = rng.choice(spec.hosts, size=several, replace=False)
        names = [self.nodes[each] for each in sorted(some)]
        first = int(some[0])
        ten = 0.1 if spec.effect is None else spec.effect
        if fault in ("one_slow_10", "five_slow_10", "fifth_slow"):
            self.speed[:, some] = 1 - (self.slow if fault == "fifth_slow" else ten)
            # More than a fifth of them: the fabric or the baseline is likelier to be at fault.
            many = several > max(1, 0.2 * spec.hosts)
            truth.bad, truth.held = ([], names) if many else (names, [])
        elif fault == "dead":
            self.dead, truth.gone = first, names
            self.dead_from_start, self.patience = bool(rng.random() < 0.5), int(rng.integers(0, 40))
        elif fault == "hang":
            self.hung, truth.bad, self.patience = first, names, int(rng.integers(0, 40))
        elif fault == "wrong_data":
            self.wrong, truth.bad = first, names
            self.wrong_rail = int(rng.integers(spec.rails)) if rng.random() < 0.5 else None
        elif fault in ("one_rail", "small_messages", "intermittent_30"):
            truth.bad = names
            self.sometimes = first if fault == "intermittent_30" else -1
            if fault == "one_rail":
                self.speed[:, first, rng.integers(spec.rails)] = 1 - self.slow
            elif fault == "small_messages":
                self.speed[0, first] = 1 - self.slow
        elif fault in ("slow_boundary", "two_racks"):
            self._divide(first)
        elif fault == "one_pair":
            one, other = sorted(rng.choice(spec.hosts, size=2, replace=False).tolist())
            self.pair, truth.held = (one, other), [self.nodes[one], self.nodes[other]]

    def _divide(self, first: int) -> None:
        """Make the rack or pod of a node slow towards all others, or towards one other; without racks some nodes that
        nothing tells apart.
        """
        pods = int(self.pod.max()) + 1
        unit = self.pod if pods > 2 and self.rng.random() < 0.5 else self.rack
        self.outside = unit == unit[first]
        if self.outside.all():
            self.outside = np.arange(self.spec.hosts) < self.spec.hosts // 4
        self.beyond = ~self.outside
        held = self.outside
        if self.spec.fault == "two_racks" and not (unit == unit[first]).all():
            self.beyond = unit == unit[self.rng.choice(np.flatnonzero(self.beyond))]
            held = self.outside | self.beyond
        # Of two neither can be told from the other.
        two = len(np.unique(unit)) == 2
        self.truth.held = [node for at, node in enumerate(self.nodes) if held[at] or two]

    def _crosses(self, a: Any, b: Any) -> Any:
        return (self.outside[a] & self.beyond[b]) | (self.beyond[a] & self.outside[b])

    def run(self, plan: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return one observation for each job of the round, arrays for lists of numbers."""
        return [self._job(list(group), plan["program"]["moves"]) for group in plan["groups"]]

    def _job(self, group: list[str], phases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        at = np.array([self.index[node] for node in group])
        item: dict[str, Any] = {"group": group, "started": True, "ok": True, "error": "", "missing": []}
        item.update(unavailable={}, ranks=[], results=[])
        if self.dead in at and self.dead_from_start:
            name = self.nodes[self.dead]
            return {
                **item,
                "started": False,
                "ok": False,
                "error": f"not started: {name} is down",
                "unavailable": {name: "down"},
            }
        for phase in phases:
            if phase["kind"] == "pairs":
                halted = self._pairs(item, group, at, phase)
            elif phase["kind"] == "groups":
                halted = self._groups(item, group, at, phase)
            else:
                halted = False
                self._inside(item, group, phase)
            if halted:
                break
        return item

    def _noise(self, *shape: int) -> Any:
        noise = np.exp(self.spec.noise * self.rng.standard_normal(shape, dtype=np.float32))
        return noise

    def _stops(self, at: Any, met: Any) -> int | None:
        """Return the permutation at which somebody in the job stops for good."""
        for each in (self.hung, self.dead):
            where = np.flatnonzero(at == each)
            if each < 0 or not len(where):
                continue
            busy = np.flatnonzero(met[:, where[0]] >= 0)
            if len(busy) <= self.patience:
                self.patience -= len(busy)
                continue
            return int(busy[self.patience])
        return None

    def _pairs(self, item: dict[str, Any], group: list[str], at: Any, phase: Mapping[str, Any]) -> bool:
        meets = Meets.of(phase, at)
        stop = self._stops(at, meets.met)
        stands = np.full(len(group), meets.steps) if stop is None else self._stands(at, meets.met, stop)
        unfinished = np.arange(meets.steps)[:, None] >= stands[None, :]
        now_and_then = self._involved(meets, self.sometimes, INTERMITTENT_SHARE)
        for column, size in enumerate(SIZES):
            if size not in phase["sizes"]:
                continue
            times = self._times(column, meets, now_and_then)
            times[unfinished] = np.nan
            slowest = np.rint(times * np.float32(1.1))
            for k in range(int(stands.max())):
                item["results"].append(
                    {"move": phase["name"], "step": k, "bytes": size, "ns": times[k], "ns_p99": slowest[k], "wrong": {}}
                )
        wrong = self._involved(meets, self.wrong, WRONG_SHARE)
        if wrong.any():
            self._spoil(item, group, phase["name"], meets, wrong)
        if stop is None:
            return False
        self._halt(item, group, stands, phase)
        return True

    def _involved(self, meets: Meets, node: int, share: float) -> Any:
        """Return in which exchanges the node shows its fault."""
        if node < 0:
            return np.zeros(len(meets.a), dtype=bool)
        return ((meets.a == node) | (meets.b == node)) & (self.rng.random(len(meets.a)) < share)

    def _times(self, column: int, meets: Meets, now_and_then: Any) -> Any:
        """Return nanoseconds by permutation, position and rail; NaN for who sits out."""
        a, b, size, rails = meets.a, meets.b, SIZES[column], self.spec.rails
        way = np.where(self.rack[a] == self.rack[b], 0, np.where(self.pod[a] == self.pod[b], 1, 2))
        if not self.spec.rack:
            way = np.full(len(a), 1)
        speed = np.minimum(self.speed[column, a], self.speed[column, b])
        speed[now_and_then] *= 1 - self.slow
        if self.pair is not None:
            speed[(np.minimum(a, b) == self.pair[0]) & (np.maximum(a, b) == self.pair[1])] *= 1 - self.slow
        speed[self._crosses(a, b)] *= 1 - self.slow
        base = (NANOSECONDS[size] * np.array(WAY[size])[way])[:, None] / speed
        share = np.float32(math.sqrt(0.5) * self.spec.noise)
        common = share * self.rng.standard_normal(len(a), dtype=np.float32)
        times = np.full((meets.steps, meets.met.shape[1], rails), np.nan, dtype=np.float32)
        for side in (meets.one, meets.other):
            own = share * self.rng.standard_normal((len(a), rails), dtype=np.float32)
            values = base * np.exp(common[:, None] + own)
            late = self.rng.poisson(TAIL * values.size)
            values.reshape(-1)[self.rng.integers(values.size, size=late)] *= self.rng.uniform(1.2, 2.0, late)
            times[meets.step, side] = np.rint(values)
        return times

    def _spoil(self, item: dict[str, Any], group: list[str], name: str, meets: Meets, wrong: Any) -> None:
        ranks = [self.wrong_rail] if self.wrong_rail is not None else list(range(self.spec.rails))
        receiver = np.where(meets.a == self.wrong, meets.other, meets.one)
        received = {int(meets.step[each]): group[receiver[each]] for each in np.flatnonzero(wrong)}
        for result in item["results"]:
            if result["move"] == name and result["step"] in received:
                result["wrong"] = {received[result["step"]]: ranks}

    def _stands(self, at: Any, met: Any, stop: int) -> Any:
        """Return by position the permutation that it does not finish: whoever meets somebody who waits, waits too."""
        stands = np.full(len(at), len(met))
        guilty = self.hung if self.hung in at else self.dead
        stands[int(np.flatnonzero(at == guilty)[0])] = stop
        for step in range(stop, len(met)):
            partner = met[step]
            stuck = (partner >= 0) & (stands[partner] <= step) & (stands > step)
            stands[stuck] = step
        return stands

    def _halt(self, item: dict[str, Any], group: list[str], stands: Any, phase: Mapping[str, Any]) -> None:
        name = self.nodes[self.hung if self.hung >= 0 else self.dead]
        guilty = self.index[name]
        self.patience = 0
        stop = int(stands[group.index(name)])
        item.update(ok=False, error=f"not finished after {phase['seconds']} s in {phase['name']} {stop}, cancelled")
        item["reached"] = {
            node: [phase["name"], int(stand), "arrived"] for node, stand in zip(group, stands, strict=True)
        }
        item["reached"][name] = [phase["name"], stop, "absent"]
        if guilty == self.dead:
            item["missing"] = [name]
            item["unavailable"] = {name: "not responding"}
            self.dead_from_start = True

    def _groups(self, item: dict[str, Any], group: list[str], at: Any, phase: Mapping[str, Any]) -> bool:
        for size in phase["sizes"]:
            ns = np.full((len(group), self.spec.rails), np.nan)
            wrong: dict[str, list[int]] = {}
            for members in phase["groups"]:
                hosts = at[members]
                ranks = len(members) * self.spec.rails
                factor = 2 * (ranks - 1) / ranks if phase["collective"] == "all_reduce" else (ranks - 1) / ranks
                took = 30_000.0 + factor * size / GROUP_GB / self._ring(hosts, size)
                ns[members] = np.rint(took * self._noise(len(members), self.spec.rails))
                if self.wrong in hosts and self.rng.random() < WRONG_SHARE:
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
        return False

    def _ring(self, hosts: Any, size: int) -> float:
        """Return how fast a ring over the hosts, in this order, is: as fast as its slowest link."""
        column = 0 if size <= 2**20 else 1
        speed = float(self.speed[column, hosts].min())
        if self.sometimes in hosts and self.rng.random() < INTERMITTENT_SHARE:
            speed *= 1 - self.slow
        after = np.roll(hosts, -1)
        if self._crosses(hosts, after).any():
            speed *= 1 - self.slow
        if self.pair is not None:
            edges = {(min(a, b), max(a, b)) for a, b in zip(hosts.tolist(), after.tolist(), strict=True)}
            speed *= 1 - self.slow if self.pair in edges else 1
        return speed

    def _inside(self, item: dict[str, Any], group: list[str], phase: Mapping[str, Any]) -> None:
        for size in phase["sizes"]:
            ranks = self.spec.rails
            took = 20_000.0 + 2 * (ranks - 1) / max(ranks, 1) * size / GROUP_GB
            ns = np.rint(took * self._noise(len(group), ranks))
            item["results"].append(
                {"move": phase["name"], "step": 0, "bytes": size, "ns": ns, "ns_p99": np.rint(1.1 * ns), "wrong": {}}
            )


def as_json(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an observation as the module writes it: whole nanoseconds in lists, null for who took no part."""

    def listed(values: Any) -> list[Any]:
        return [None if np.isnan(row).all() else [int(value) for value in row] for row in values]

    results = [{**each, "ns": listed(each["ns"]), "ns_p99": listed(each["ns_p99"])} for each in item["results"]]
    return {**item, "results": results}


def revealed(fleet: Fleet) -> dict[str, Any]:
    """Return the truth."""
    return asdict(fleet.truth)
