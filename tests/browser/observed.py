"""Rounds as a fleet's ledger has them, made up: what a walk over all nodes and groups along the topology would show.

Seeded, so that every test and every picture sees the same fleet. Faults are slow nodes, slow rails and slow pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy
from ansible_collections.muster.cluster.plugins.module_utils.collectives.pairing import pairs, rounds_of
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import StoredRound

SIZES = (65536, 268435456)
GROUP_SIZES = (8, 65536, 262144, 1048576, 16777216, 268435456, 1073741824)
START = 1763630000.0


@dataclass(frozen=True)
class Sick:
    """What is wrong: how many times as long it takes, by node, by (node, rail), by pair of nodes."""

    nodes: Mapping[str, float] = field(default_factory=dict)
    rails: Mapping[tuple[str, int], float] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], float] = field(default_factory=dict)


@dataclass(frozen=True)
class Site:
    """A fleet of ``nodes`` nodes: so many to a rack, so many to a pod."""

    nodes: int
    rack: int = 2
    pod: int = 384
    rails: int = 8

    @property
    def names(self) -> list[str]:
        return [f"gpu-{number:04}" for number in range(1, self.nodes + 1)]

    @property
    def places(self) -> dict[str, dict[str, Any]]:
        return {
            name: {
                "role": "compute",
                "hardware_class": "hgx_h100",
                "pod": f"pod-{index // self.pod + 1}",
                "rack": f"rack-{index // self.rack + 1:04}",
                "address": f"10.1.{index // 250}.{index % 250 + 1}",
                "rails": [],
            }
            for index, name in enumerate(self.names)
        }


def rounds(
    site: Site, permutations: int, sick: Sick | None = None, campaign: str = "c0ffee-1", seed: int = 7
) -> list[StoredRound]:
    """Return one round of permutations and one of groups, finished."""
    random = numpy.random.default_rng(seed)
    sick = sick or Sick()
    possible = rounds_of(site.nodes)
    shifts = [int(shift) for shift in numpy.linspace(0, possible - 1, min(permutations, possible))]
    return [_walk(site, shifts, sick, campaign, random), _together(site, sick, campaign, random)]


def _walk(site: Site, shifts: list[int], sick: Sick, campaign: str, random: Any) -> StoredRound:
    names = site.names
    factor = numpy.ones((site.nodes, site.rails))
    for name, slow in sick.nodes.items():
        factor[names.index(name)] *= slow
    for (name, rail), slow in sick.rails.items():
        factor[names.index(name), rail] *= slow
    together = {frozenset(names.index(name) for name in pair): slow for pair, slow in sick.pairs.items()}
    rack, pod = (numpy.arange(site.nodes) // each for each in (site.rack, site.pod))
    results = []
    for step, shift in enumerate(shifts):
        met = numpy.array(pairs(site.nodes, shift))
        one, other = met[:, 0], met[:, 1]
        hops = numpy.where(rack[one] == rack[other], 0, numpy.where(pod[one] == pod[other], 1, 2))
        slow = numpy.maximum(factor[one], factor[other])
        if together:
            slow = slow * numpy.array([together.get(frozenset(pair), 1.0) for pair in met.tolist()])[:, None]
        for size in SIZES:
            base = (6_000 + 2_000 * hops[:, None] + size / (48.0 - 0.4 * hops[:, None])) * slow
            times = numpy.zeros((site.nodes, site.rails), dtype=numpy.int64)
            late = numpy.zeros_like(times)
            for end in (one, other):
                noise = random.normal(1, 0.01, base.shape)
                times[end] = base * noise
                late[end] = base * noise * (1 + numpy.abs(random.normal(0.03, 0.02, base.shape)))
            rows: list[Any] = times.tolist()
            tails: list[Any] = late.tolist()
            for index in set(range(site.nodes)) - set(met.ravel().tolist()):
                rows[index] = tails[index] = None
            results.append({"move": "walk", "step": step, "bytes": size, "ns": rows, "ns_p99": tails, "wrong": {}})
    phase = {
        "name": "walk",
        "kind": "pairs",
        "collective": "sendrecv",
        "sizes": list(SIZES),
        "iterations": 20,
        "warmup": 3,
        "seconds": 30,
        "shifts": shifts,
    }
    return _stored(campaign, "walk", names, [phase], results)


def _together(site: Site, sick: Sick, campaign: str, random: Any) -> StoredRound:
    names = site.names
    factor = numpy.array([sick.nodes.get(name, 1.0) for name in names])
    phases, results = [], []
    sizes = [each for each in (2, 4, 8, site.pod) if each < site.nodes]
    for each in [*dict.fromkeys(sizes), site.nodes]:
        groups = [list(range(start, start + each)) for start in range(0, site.nodes - each + 1, each)]
        for collective in ("all_reduce", "all_gather"):
            phase = {
                "name": f"{collective}-{each}",
                "kind": "groups",
                "collective": collective,
                "sizes": list(GROUP_SIZES),
                "iterations": 20,
                "warmup": 5,
                "seconds": 30,
                "groups": groups,
            }
            phases.append(phase)
            results += [_collective(phase, size, site, factor, random) for size in GROUP_SIZES]
    return _stored(campaign, "groups", names, phases, results)


def _collective(phase: dict[str, Any], size: int, site: Site, factor: Any, random: Any) -> dict[str, Any]:
    each = len(phase["groups"][0])
    share = (each * site.rails - 1) / (each * site.rails) * (2 if phase["collective"] == "all_reduce" else 1)
    rows: list[Any] = [None] * site.nodes
    tails: list[Any] = [None] * site.nodes
    last: dict[str, int] = {}
    names = site.names
    for group in phase["groups"]:
        slow = factor[group].max()
        base = (14_000 + 3_000 * each**0.5 + share * size / 370) * slow
        weights = numpy.where(factor[group] > 1, 12.0, 1.0)
        counts = random.multinomial(phase["iterations"], weights / weights.sum())
        times = (base * random.normal(1, 0.008, (len(group), site.rails))).astype(numpy.int64)
        late = (times * (1.05 + numpy.abs(random.normal(0, 0.05, times.shape)))).astype(numpy.int64)
        for at, index in enumerate(group):
            rows[index], tails[index] = times[at].tolist(), late[at].tolist()
            if counts[at]:
                last[names[index]] = int(counts[at])
    return {"move": phase["name"], "step": 0, "bytes": size, "ns": rows, "ns_p99": tails, "wrong": {}, "last": last}


def _stored(campaign: str, kind: str, names: list[str], phases: list[Any], results: list[Any]) -> StoredRound:
    observation = {
        "group": names,
        "started": True,
        "ok": True,
        "error": "",
        "missing": [],
        "unavailable": {},
        "ranks": [],
        "results": results,
    }
    plan = {"kind": kind, "groups": [names], "program": {"moves": phases}}
    number, started, took = (1, START, 240) if kind == "walk" else (2, START + 260, 140)
    return StoredRound(campaign, number, plan, [observation], started, started + took)
