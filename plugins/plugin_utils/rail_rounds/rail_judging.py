"""What one pair's fabric tests say about each of its rails, and what a node's loopback says about its own."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.rail_test.fabric_test import (
    CONTROL,
    LOOPBACK,
    SINGLE,
    TOGETHER,
)
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.perftest import BANDWIDTH, LATENCY
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.rail_counters import PRIORITIES
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, Rail, stated
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.observation import Observation
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.pairs import BAD, GOOD, VOID, Outcome

# A median over fewer says nothing about the one that differs: floors alone are judged then.
LEAST_PEERS = 8
# Of the bytes that a client wrote, as much must show in the counters of the declared priority.
MARKED = 0.9
_PHASES = {BANDWIDTH: (SINGLE, TOGETHER), LATENCY: (SINGLE,)}


@dataclass(frozen=True)
class Limits:
    """What a rail of the class must reach; ``priorities`` by phase, none where nothing is marked."""

    line_gbps: float
    bandwidth_gbps: float
    loopback_gbps: float
    latency_us: Mapping[str, float]
    deviations: float
    percent: float
    stray_percent: float
    counters: Mapping[str, int]
    priorities: Mapping[str, int]
    lossless: tuple[int, ...]

    @classmethod
    def of(cls, expect: Expectations, priorities: Mapping[str, int]) -> Limits:
        """Return the limits of a class' expectations."""
        rdma, speed = stated(expect.rdma), stated(expect.nic).speed_gbps
        port = stated(expect.fabric).port
        return cls(
            line_gbps=speed,
            bandwidth_gbps=speed * rdma.bandwidth_percent / 100,
            loopback_gbps=speed * rdma.loopback_percent / 100,
            latency_us=dict(vars(rdma.latency_us)),
            deviations=rdma.cohort.deviations,
            percent=rdma.cohort.percent,
            stray_percent=rdma.stray_percent,
            counters={name: limit for name, limit in rdma.counters.items() if limit is not None},
            priorities=priorities,
            lossless=port.lossless_priorities if port else (),
        )


@dataclass(frozen=True)
class Pair(Observation):
    """What two nodes did together in one round; ``error`` is about the test as a whole."""

    def values(self, rail: Rail, tool: str) -> tuple[list[float], str]:
        """Return what all tests of a rail with one tool measured, and the first thing that went wrong."""
        wanted = [(rail.name, phase, tool) for phase in _PHASES[tool]]
        expected = len(wanted) * (2 if tool == BANDWIDTH else 1)
        mine = [
            test
            for node in self.group
            for test in self.answers.get(node, {}).get("tests", ())
            if (test["rail"], test["phase"], test["tool"]) in wanted
            if test["client"] == node and {node, test["server"]} == set(self.group)
        ]
        wrong = next((f"{test['client']} to {test['server']}: {test['error']}" for test in mine if test["error"]), "")
        values = [test["value"] for test in mine if not test["error"] and is_figure(test["value"])]
        if not wrong and {len(values), len({(test["phase"], test["client"]) for test in mine})} != {expected}:
            wrong = f"{len(values)} figures of {tool}, expected {expected}"
        return values, self.error or wrong

    def grown(self, node: str, rail: Rail, phase: str) -> Mapping[str, Any] | None:
        """Return the growth of a rail's counters in one phase, None if it was not read."""
        found: Mapping[str, Any] | None = self.answers.get(node, {}).get("counters", {}).get(rail.name, {}).get(phase)
        return found


def is_figure(value: Any) -> bool:
    """Return whether a value is a finite number above 0."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


@dataclass(frozen=True)
class Cohort:
    """The middle of what all rails measured, and how far one may lie from it; no ``median`` where they are too few."""

    peers: int
    median: float | None
    margin: float

    @classmethod
    def of(cls, values: Sequence[float], limits: Limits) -> Cohort:
        """Return the cohort of these values, one for each rail of each pair."""
        if len(values) < LEAST_PEERS:
            return cls(len(values), None, 0)
        median = statistics.median(values)
        deviation = statistics.median(abs(value - median) for value in values)
        return cls(len(values), median, max(limits.deviations * deviation, median * limits.percent / 100))

    def far(self, value: float, unit: str, *, above: bool = False) -> str:
        """Return how far the value lies on the bad side of its peers, empty where it does not."""
        if self.median is None or (value - self.median if above else self.median - value) <= self.margin:
            return ""
        return f"its {self.peers} peers have a median of {self.median:.4g} {unit}"

    def said(self) -> str:
        """Return what a reader has to know of how it was judged."""
        return "" if self.median is not None else f"by the limit alone, {self.peers} peers are no cohort"


def speeds(pair: Pair, rail: Rail, limits: Limits) -> tuple[list[float], str]:
    """Return what all bandwidth tests of a rail measured, and what is wrong with it."""
    values, wrong = pair.values(rail, BANDWIDTH)
    if not wrong and max(values) > limits.line_gbps:
        wrong = f"{max(values):.5g} Gb/s, which is more than the line's {limits.line_gbps:g}"
    return values, wrong


def bandwidth(pair: Pair, rail: Rail, limits: Limits, cohort: Cohort) -> Outcome:
    """Judge a rail's least bandwidth of all its tests between the two nodes."""
    values, wrong = speeds(pair, rail, limits)
    if wrong or not pair.started or pair.unavailable:
        return _unmeasured(pair, wrong, limits.bandwidth_gbps)
    return _judged(pair, min(values), limits.bandwidth_gbps, cohort)


def latency(pair: Pair, rail: Rail, distance: str, limits: Limits, cohort: Cohort) -> Outcome:
    """Judge a rail's latency by the distance between the two nodes."""
    values, wrong = pair.values(rail, LATENCY)
    if wrong or not pair.started or pair.unavailable:
        return _unmeasured(pair, wrong, limits.latency_us[distance])
    return _judged(pair, max(values), limits.latency_us[distance], cohort, above=True)


def _judged(pair: Pair, value: float, limit: float, cohort: Cohort, *, above: bool = False) -> Outcome:
    unit = "us" if above else "Gb/s"
    far = cohort.far(value, unit, above=above)
    bad = (value > limit if above else value < limit) or bool(far)
    said = f"{value:.4g} {unit}" + (f", {far}" if far else "")
    verdict = BAD if bad else GOOD
    return Outcome(pair.number, pair.group, verdict, value, limit, reason=said, less_is_better=above)


def _unmeasured(pair: Pair, wrong: str, limit: float) -> Outcome:
    if not pair.started or pair.unavailable:
        return _void(pair)
    return Outcome(pair.number, pair.group, BAD, expected=limit, reason=wrong)


def _void(pair: Pair) -> Outcome:
    gone = ", ".join(f"{node}: {why}" for node, why in pair.unavailable.items())
    return Outcome(pair.number, pair.group, VOID, reason=pair.error or gone or "did not run")


def counters(pair: Pair, rail: Rail, limits: Limits) -> tuple[Outcome, dict[str, str]]:
    """Judge what a rail's error counters did on both nodes; also return on which one some could not be read."""
    if not pair.started or pair.unavailable:
        return _void(pair), {}
    if pair.error:
        return Outcome(pair.number, pair.group, BAD, expected=0, reason=pair.error), {}
    worst: tuple[int, int, str] | None = None
    unread: dict[str, str] = {}
    for node in pair.group:
        for phase in _phases(limits):
            grown = pair.grown(node, rail, phase)
            missing = list(limits.counters) if grown is None else [n for n in limits.counters if n in grown["missing"]]
            if missing or grown is None:
                unread[node] = f"counters of {rail} could not be read: {', '.join(missing[:4])}"
                continue
            for name, limit in limits.counters.items():
                count = int(grown["grown"].get(name, 0))
                if count > limit and (worst is None or count > worst[0]):
                    worst = (count, limit, f"{name} of {node} grew by {count} ({phase})")
    if worst:
        count, limit, said = worst
        return Outcome(pair.number, pair.group, BAD, count, limit, reason=said, less_is_better=True), unread
    if unread:
        return Outcome(pair.number, pair.group, VOID, reason="; ".join(unread.values())), unread
    return Outcome(pair.number, pair.group, GOOD, 0, 0, reason="no error counted"), unread


def marking(pair: Pair, rail: Rail, limits: Limits) -> tuple[Outcome, dict[str, str]]:
    """Judge whether the tests' bytes went and came with the declared priorities; see ``counters`` for the rest."""
    if not pair.started or pair.unavailable:
        return _void(pair), {}
    if pair.error:
        return Outcome(pair.number, pair.group, BAD, reason=pair.error), {}
    if not limits.priorities:
        return Outcome(pair.number, pair.group, VOID, reason="no priorities are declared to be judged by"), {}
    unread: dict[str, str] = {}
    for phase, priority in limits.priorities.items():
        sent = {node: _sent(pair, node, rail, phase) for node in pair.group}
        for node, other in zip(pair.group, reversed(pair.group), strict=True):
            grown = pair.grown(node, rail, phase)
            names = [f"{way}_prio{each}_bytes" for way in ("rx", "tx") for each in PRIORITIES]
            if grown is None or any(name in grown["missing"] for name in names):
                unread[node] = f"bytes by priority of {rail} could not be read"
                continue
            if not sent[node] or not sent[other]:
                why = f"nothing was sent over {rail} to be marked ({phase})"
                return Outcome(pair.number, pair.group, BAD, reason=why), unread
            wrong = _wrong_mark(grown["grown"], priority, {"tx": sent[node], "rx": sent[other]}, limits)
            if wrong:
                found = f"{node} {wrong[2]} ({phase}, declared priority {priority})"
                return Outcome(pair.number, pair.group, BAD, wrong[0], wrong[1], reason=found), unread
    if unread:
        return Outcome(pair.number, pair.group, VOID, reason="; ".join(unread.values())), unread
    declared = ", ".join(str(each) for each in sorted(set(limits.priorities.values())))
    return Outcome(pair.number, pair.group, GOOD, reason=f"bytes in the declared priorities {declared} alone"), {}


def _wrong_mark(
    grown: Mapping[str, int], priority: int, sent: Mapping[str, int], limits: Limits
) -> tuple[int, int, str] | None:
    """Return what was counted, what was expected, and the two in words."""
    for way, word in (("tx", "sent"), ("rx", "received")):
        least = int(MARKED * sent[way])
        count = grown.get(f"{way}_prio{priority}_bytes", 0)
        if count < least:
            elsewhere = [
                f"{grown[name]} with priority {other}"
                for other in PRIORITIES
                if other != priority and (name := f"{way}_prio{other}_bytes") in grown
            ]
            return (
                count,
                least,
                f"{word} {count} B of {sent[way]} with it" + (f", {', '.join(elsewhere)}" if elsewhere else ""),
            )
        stray = int(max(sent.values()) * limits.stray_percent / 100)
        for other in PRIORITIES:
            if other != priority and grown.get(f"{way}_prio{other}_bytes", 0) > stray:
                count = grown[f"{way}_prio{other}_bytes"]
                return count, stray, f"{word} {count} B with priority {other} too"
            if other not in limits.lossless and grown.get(f"{way}_prio{other}_pause", 0):
                count = grown[f"{way}_prio{other}_pause"]
                return count, 0, f"{word} {count} pause frames of priority {other}, which is not lossless"
    return None


def _sent(pair: Pair, node: str, rail: Rail, phase: str) -> int:
    """Return how many bytes a node wrote as a client in a phase, 0 if any of its tests failed."""
    wanted = (rail.name, phase, node)
    mine = [
        test
        for test in pair.answers.get(node, {}).get("tests", ())
        if (test["rail"], test["phase"], test["client"]) == wanted
    ]
    return 0 if any(test["error"] for test in mine) else sum(int(test["bytes"]) for test in mine)


def _phases(limits: Limits) -> Iterable[str]:
    return (SINGLE, TOGETHER, CONTROL) if limits.priorities else (SINGLE, TOGETHER)


def loopback(answer: Mapping[str, Any] | None, rail: Rail) -> tuple[float | None, str]:
    """Return what a rail reached looped back in its own host, or what went wrong."""
    wanted = (rail.name, LOOPBACK)
    mine = [test for test in (answer or {}).get("tests", ()) if (test["rail"], test["phase"]) == wanted]
    if len(mine) != 1:
        return None, "not measured"
    if mine[0]["error"] or not is_figure(mine[0]["value"]):
        return None, str(mine[0]["error"] or "no figure")
    return float(mine[0]["value"]), ""
