"""Mini-clusters in a campaign: which groups measure the latency profile, and who passes by what they showed.

A group above the limit implicates all of its members and confirms none. It runs once more, and each of them that kept
the limit in no other group is asked with others that did, so that one slow member is told from its neighbours. Whoever
is left is held: nothing but a group has spoken against it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import MINI_CLUSTER_CHECK
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import confirmed, reference_nodes
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import (
    PHASE_PREFIX,
    Groups,
    LatencyProfile,
    disjoint_groups,
    latency_phases,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings, size_text
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import MINI_CLUSTER, GroupResult, Matrix

SUBJECT = "network"
# Of fewer than a hundred iterations the 99th percentile is the worst one.
ITERATIONS = 200
# What takes microseconds, so often at each size, takes no second; Ethernet between busy hosts a few.
SECONDS = 60
# Nobody is asked in more rounds than these, so that campaigns end.
MOST_ROUNDS = 2
# Suspects are asked with others in so many permutations: each group keeps its connections until the step ends.
MOST_APART = 8
ALONE = "again in another group, and all other nodes of both met it elsewhere: suspect this node"
TOGETHER = "which accuses all of the group: no node is blamed"
BETWEEN = "and not only once, although every node in it met it in another group: suspect what they share"
_NAMED = 4


@dataclass(frozen=True)
class Trial:
    """One group's try at one size of mini-cluster: its worst message size, p99 in microseconds."""

    nodes: tuple[str, ...]
    gpus: int
    size_bytes: int
    microseconds: float
    kept: bool


class MiniClusters:
    """What the finished rounds of a campaign showed of its members in mini-clusters, and what is still to be asked."""

    def __init__(
        self, members: Iterable[str], matrix: Matrix, plans: Mapping[int, Mapping[str, Any]], settings: Settings
    ) -> None:
        self.profile = settings.mini_clusters
        self.settings = settings
        self.members = set(members)
        self.matrix = matrix
        limits = self.profile.limits if self.profile else {}
        self.nodes_each = {gpus: gpus // settings.ranks_per_node for gpus in limits}
        self.trials: dict[int, list[Trial]] = {gpus: [] for gpus in limits}
        if self.profile is not None:
            for trial in _trials(matrix, self.profile, settings.ranks_per_node):
                self.trials[trial.gpus].append(trial)
        # By node the last group in which it kept the limit.
        self.kept = {
            gpus: {node: trial for trial in found if trial.kept for node in trial.nodes}
            for gpus, found in self.trials.items()
        }
        self.slow = {gpus: [trial for trial in found if not trial.kept] for gpus, found in self.trials.items()}
        self.asked, self.rounds = _asked(plans)
        self.blamed = {gpus: self._blamed(gpus) for gpus in limits}

    def phases(self, job: Sequence[str], nodes: Sequence[str]) -> list[dict[str, Any]]:
        """Return the phases by which a job has ``nodes``, which are in it, measured with one another."""
        wanted = {gpus: self._unasked(gpus, nodes, ()) for gpus in self.nodes_each}
        return self._moves(job, wanted)

    def next_round(
        self, order: Sequence[str], nodes: Sequence[str], partners: Sequence[str]
    ) -> tuple[list[str], list[dict[str, Any]]] | None:
        """Return a job, in the given order, and its phases, for what is open once ``nodes`` measured what they could.

        ``partners`` are nodes in service, which fill up groups that are too small. None if nothing is open.
        """
        wanted = {
            gpus: [*self._unasked(gpus, nodes, partners), *self._again(gpus, nodes, partners)]
            for gpus in self.nodes_each
        }
        used = {node for groups in wanted.values() for each in groups for group in each for node in group}
        job = [node for node in order if node in used]
        return (job, self._moves(job, wanted)) if job else None

    def _moves(self, job: Sequence[str], wanted: Mapping[int, Sequence[Groups]]) -> list[dict[str, Any]]:
        if self.profile is None:
            return []
        measured = {"iterations": ITERATIONS, "warmup": self.settings.groups.warmup, "seconds": SECONDS}
        return [{**phase, **measured} for phase in latency_phases(job, wanted, self.profile)]

    def _may_ask(self, gpus: int, node: str) -> bool:
        return node in self.members and self.asked[gpus, node] < MOST_ROUNDS

    def _unasked(self, gpus: int, nodes: Sequence[str], partners: Sequence[str]) -> list[Groups]:
        """Return permutations of groups of those that no group tells anything about yet, filled up with others."""
        tried = {node for trial in self.trials[gpus] for node in trial.nodes}
        asked = [node for node in nodes if node not in tried and self._may_ask(gpus, node)]
        if not asked:
            return []
        each, taken = self.nodes_each[gpus], {*asked, *self.blamed[gpus]}
        others = sorted((node for node in nodes if node not in taken), key=lambda node: node not in self.kept[gpus])
        fill = [*others, *self._nearest(asked[0], partners)][: -len(asked) % each]
        return list(disjoint_groups([*asked, *fill], self.settings.places, each))

    def _again(self, gpus: int, nodes: Sequence[str], partners: Sequence[str]) -> list[Groups]:
        """Return the groups that were above the limit once more, and each suspect with others that kept it."""
        times = Counter(frozenset(trial.nodes) for trial in self.slow[gpus])
        there = {*nodes, *partners}
        again = [
            trial.nodes
            for trial in self.slow[gpus]
            if times[frozenset(trial.nodes)] == 1
            and there.issuperset(trial.nodes)
            and any(self._may_ask(gpus, node) for node in trial.nodes)
        ]
        implicated = {node for trial in self.slow[gpus] for node in trial.nodes} - {*self.kept[gpus]}
        kept = (node for node in (*nodes, *partners) if node in self.kept[gpus])
        trusted = reference_nodes(kept, (node for node in partners if node not in implicated))
        asked = [node for node in nodes if node in implicated and self._may_ask(gpus, node)]
        return [*_disjoint(again), *self._apart(gpus, asked, trusted)]

    def _apart(self, gpus: int, asked: Sequence[str], trusted: Sequence[str]) -> list[Groups]:
        """Return permutations of groups of one suspect each, with others than it was above the limit with."""
        need = self.nodes_each[gpus] - 1
        found: list[list[tuple[str, ...]]] = []
        free: list[list[str]] = []
        mates: dict[str, set[str]] = {}
        for trial in self.slow[gpus]:
            for node in trial.nodes:
                mates.setdefault(node, set()).update(trial.nodes)
        for node in asked if need else ():
            for at in range(MOST_APART):
                here = free[at] if at < len(free) else list(trusted)
                with_whom = [other for other in here[: need + len(mates[node])] if other not in mates[node]][:need]
                if len(with_whom) < need:
                    if at == len(free):
                        break
                    continue
                if at == len(free):
                    free.append(here)
                    found.append([])
                found[at].append((node, *with_whom))
                free[at] = [other for other in here if other not in with_whom]
                break
        return [tuple(groups) for groups in found]

    def _nearest(self, node: str, others: Sequence[str]) -> list[str]:
        def distance(other: str) -> tuple[bool, bool]:
            mine, its = (self.settings.places.get(each) or {} for each in (node, other))
            return mine.get("rack") != its.get("rack"), mine.get("pod") != its.get("pod")

        return sorted(others, key=distance)

    def _blamed(self, gpus: int) -> dict[str, tuple[Trial, str]]:
        """Return who does not pass for a group above the limit, with that group and why.

        Who kept the limit in no group answers for all of its slow ones. The others are explained by the fewest nodes.
        """
        kept = self.kept[gpus]
        found: dict[str, tuple[Trial, str]] = {}
        witnesses: dict[str, dict[frozenset[str], Trial]] = {}
        for trial in self.slow[gpus]:
            new = [node for node in trial.nodes if node not in kept]
            for node in new:
                found.setdefault(node, (trial, TOGETHER))
            if len(new) == 1:
                witnesses.setdefault(new[0], {})[frozenset(trial.nodes)] = trial
        for node, trials in witnesses.items():
            # Above the limit once is noise for who kept it in another group.
            if confirmed(len(trials)):
                found[node] = (list(trials.values())[-1], ALONE)
        left = [trial for trial in self.slow[gpus] if not any(node in found for node in trial.nodes)]
        while left:
            counts = Counter(node for trial in left for node in trial.nodes)
            most = max(counts.values())
            if not confirmed(most):
                break
            named = {node for node, count in counts.items() if count == most}
            found.update({node: (trial, BETWEEN) for trial in left for node in trial.nodes if node in named})
            left = [trial for trial in left if not named.intersection(trial.nodes)]
        return found

    def finding(self, node: str) -> Finding:
        """Return whether the node kept the limits in mini-clusters of every size, by the worst of them."""
        profile = self.profile
        if profile is None:
            return _incomplete("no latency profile says what is asked")
        found = [self._finding(profile, node, gpus) for gpus in profile.limits]
        bad = [each for each in found if each.verdict != PASS]
        if bad:
            return next((each for each in bad if each.measured is not None), bad[0])
        worst = max(found, key=lambda each: float(each.measured or 0) / float(each.expected or 1))
        sizes = ", ".join(str(gpus) for gpus in profile.limits)
        return replace(worst, reason=f"mini-clusters of {sizes} GPUs, nearest to its limit: {worst.reason}")

    def _finding(self, profile: LatencyProfile, node: str, gpus: int) -> Finding:
        trial, why = self.blamed[gpus].get(node, (self.kept[gpus].get(node), ""))
        if trial is None:
            return _incomplete(f"not measured in a mini-cluster of {gpus} GPUs{self._why(gpus, node)}")
        others = [other for other in trial.nodes if other != node]
        named = ", ".join(others[:_NAMED]) + (f" and {len(others) - _NAMED} more" if len(others) > _NAMED else "")
        said = f"{profile.collective.replace('_', '-')} of {size_text(trial.size_bytes)} in {gpus} GPUs"
        said += f" with {named}" if named else ""
        known = float(f"{trial.microseconds:.4g}"), profile.limits[gpus], "us"
        if not why:
            return Finding(MINI_CLUSTER_CHECK, SUBJECT, PASS, *known, said)
        said += f": p99 above the limit, {why}"
        return Finding(MINI_CLUSTER_CHECK, SUBJECT, INCOMPLETE, *known, said, "investigate")

    def _why(self, gpus: int, node: str) -> str:
        halts = [halt for halt in self.matrix.halts if node in halt.group and halt.number in self.rounds]
        if halts:
            return f"; round {halts[-1].number}: {halts[-1].error}"
        if not self.asked[gpus, node]:
            return f", as that takes {self.nodes_each[gpus]} nodes"
        return ""

    def held(self) -> dict[str, str]:
        """Return why nodes are held for groups above the limit."""
        return {
            node: self.finding(node).reason
            for blamed in self.blamed.values()
            for node in blamed
            if node in self.members
        }

    def remarks(self) -> list[str]:
        """Return which sizes of mini-cluster nobody measured."""
        return [
            f"mini-clusters of {gpus} GPUs take {self.nodes_each[gpus]} nodes and were not measured, so no node passes"
            for gpus, found in self.trials.items()
            if not found
        ]


def parts_by_size(matrix: Matrix, ranks_per_node: int) -> list[str]:
    """Return by size of mini-cluster how many groups were measured, and the slowest of them."""
    by_size: dict[int, list[GroupResult]] = {}
    for result in matrix.groups:
        if result.kind == MINI_CLUSTER:
            by_size.setdefault(len(result.nodes) * ranks_per_node, []).append(result)
    parts = []
    for gpus, results in sorted(by_size.items()):
        worst = max(results, key=lambda each: each.p99)
        who = "+".join(worst.nodes[:_NAMED]) + ("+..." if len(worst.nodes) > _NAMED else "")
        groups = len({(each.phase, each.nodes) for each in results})
        parts.append(
            f"{groups} mini-clusters of {gpus} GPUs: slowest {who} {worst.p99 * 1e6:.4g} us (99 %) at "
            f"{size_text(worst.size_bytes)}"
        )
    return parts


def _trials(matrix: Matrix, profile: LatencyProfile, ranks_per_node: int) -> list[Trial]:
    """Return the tries of groups that have as many ranks as a mini-cluster of the profile.

    One that is above the limit at any message size is, whatever became of the others. One that kept it has done so at
    every size, with right data, in a job that came to its end or is known to have stopped for somebody.
    """
    found: dict[tuple[int, str, tuple[str, ...]], dict[int, float]] = {}
    for result in matrix.groups:
        if result.kind == MINI_CLUSTER and result.collective == profile.collective:
            times = found.setdefault((result.number, result.phase, result.nodes), {})
            # Measured in whole nanoseconds.
            times[result.size_bytes] = round(result.p99 * 1e6, 3)
    wrong = {(each.number, each.where, each.receiver) for each in matrix.wrong}
    trials = []
    for (number, phase, nodes), times in found.items():
        gpus = len(nodes) * ranks_per_node
        limit = profile.limits.get(gpus)
        known = {size: times[size] for size in profile.sizes_bytes if math.isfinite(times.get(size, math.nan))}
        if limit is None or not known:
            continue
        size = max(known, key=lambda each: known[each])
        trial = Trial(nodes, gpus, size, known[size], known[size] <= limit)
        whole = len(known) == len(profile.sizes_bytes) and not matrix.broken(number, nodes[0])
        right = not any((number, phase, node) in wrong for node in nodes)
        if not trial.kept or (whole and right):
            trials.append(trial)
    return trials


def _asked(plans: Mapping[int, Mapping[str, Any]]) -> tuple[Counter[tuple[int, str]], set[int]]:
    """Return in how many rounds each node was to be in a mini-cluster of so many GPUs, and which rounds those are."""
    asked: Counter[tuple[int, str]] = Counter()
    rounds: set[int] = set()
    for number, plan in plans.items():
        here = set()
        for phase in (plan.get("program") or {}).get("moves", ()):
            if str(phase.get("name")).startswith(PHASE_PREFIX):
                gpus = int(str(phase["name"]).split(":")[1])
                here |= {(gpus, plan["groups"][0][index]) for group in phase["groups"] for index in group}
                rounds.add(number)
        asked.update(here)
    return asked, rounds


def _disjoint(groups: Iterable[tuple[str, ...]]) -> list[Groups]:
    """Return permutations that together have all of these groups."""
    permutations: list[list[tuple[str, ...]]] = []
    busy: list[set[str]] = []
    for group in groups:
        at = next((index for index, nodes in enumerate(busy) if nodes.isdisjoint(group)), len(busy))
        if at == len(busy):
            permutations.append([])
            busy.append(set())
        permutations[at].append(group)
        busy[at].update(group)
    return [tuple(found) for found in permutations]


def _incomplete(reason: str) -> Finding:
    return Finding(MINI_CLUSTER_CHECK, SUBJECT, INCOMPLETE, reason=reason, action="investigate")
