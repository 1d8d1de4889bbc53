"""Findings of every check for every node under test, by facts and blames; what was not measured is incomplete."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import MINI_CLUSTER_CHECK
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.below_floor import MOST_BELOW, BelowFloor
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.blame import (
    CLEARED,
    HELD,
    OPEN,
    REJECTED,
    Blame,
    by_node,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import Facts
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import Channel
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_programs import (
    CONFIDENCE,
    INTERMITTENT_SHARE,
    SHOWINGS,
    TWOS,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import (
    UNIT,
    Settings,
    size_text,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.grouping import Judged
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.judgement import Judgement
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.medians import medians_of
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.mini_cluster import MiniClusters

SUBJECT = "network"
# Checks that pairs answer; the others take groups.
PAIR_CHECKS = ("pair_bandwidth", "rail_bandwidth", "pair_latency", "data")
# Of the exchanges that others had, a node needs so many for its own to say anything.
ENOUGH = 0.5


def unjudged(settings: Settings, reason: str) -> tuple[Finding, ...]:
    """Return findings that say why nothing can be said."""
    return tuple(
        Finding(check, SUBJECT, INCOMPLETE, reason=reason, action="investigate") for check in settings.checks()
    )


def conclusion_of(judgement: Judgement, mini_clusters: MiniClusters, stopped: str = "") -> Conclusion:
    """Return a finding of each check for every node under test; ``stopped`` says why the campaign ends early."""
    facts = judgement.facts
    table = _Table(judgement, mini_clusters, stopped)
    checks = facts.settings.checks()
    findings = {node: tuple(table.finding(node, check) for check in checks) for node in facts.members}
    remarks = [*facts.sweep.remarks, *_coverage(facts), *_about_groups(judgement), *judgement.remarks]
    remarks += mini_clusters.remarks()
    return Conclusion(findings, table.held, dict(judgement.reference.doubted), tuple(dict.fromkeys(remarks)))


def _coverage(facts: Facts) -> list[str]:
    """Return in words how many pairs were measured, and by what few nodes are judged."""
    sweep, exchanges, remarks = facts.sweep, facts.sweep.exchanges, []
    members = len(facts.members)
    pairs = members * (members - 1) // 2
    if pairs:
        rows = exchanges.known & sweep.members[exchanges.one] & sweep.members[exchanges.other]
        met = int(rows.sum()) if not sweep.repeated else len(np.unique(exchanges.pairs[rows]))
        counts = exchanges.of_nodes(rows)
        counts = counts[sweep.members & (counts > 0)]
        each = int(np.median(counts)) if len(counts) else 0
        chance = 1 - (1 - INTERMITTENT_SHARE) ** each
        shown = f"{chance:.1%}" if chance < CONFIDENCE else f"at least {CONFIDENCE:.1%}"
        remarks.append(
            f"{met} of {pairs} pairs measured ({met / pairs:.1%}), {each} exchanges a node: a fault that shows in "
            f"{INTERMITTENT_SHARE:.0%} of them is met with {shown} confidence"
            + (f", {SHOWINGS} times if there are enough" if each < SHOWINGS / INTERMITTENT_SHARE else "")
        )
    enough = facts.settings.cohort.peers
    if 0 < sweep.peers < enough:
        what = "the class floors and the adopted baseline" if facts.settings.baseline else "the class floors alone"
        remarks.append(f"{sweep.peers} nodes are too few for a cohort (from {enough}): judged by {what}")
    return [*remarks, *facts.settings.far_floors]


def _about_groups(judgement: Judgement) -> list[str]:
    """Return in words what groups missed once and not again, and by what collectives are judged where few are alike."""
    facts, remarks = judgement.facts, []
    for group in facts.groups:
        if group.last or not any(part.bad for part in group.parts):
            continue
        its = [each for each in facts.groups if each.last and each.level == group.level]
        later = [each for each in its if not set(group.nodes).isdisjoint(each.nodes)]
        once = [part for part in group.parts if part.bad and not any(part.operation in each.open for each in later)]
        if once and not any(each.bad for each in later):
            told = replace(group, parts=tuple(once)).text
            remarks.append(f"round {group.number}: {told}; not so when it was measured again")
    cleared = {blame.node for blame in judgement.blames if blame.verdict == CLEARED and blame.kind == TWOS}
    if cleared:
        remarks.append(f"{len(cleared)} nodes were in a slow group of two, and not slow in others")
    unlike = len(facts.of_two.unlike) if facts.of_two.planned else len(facts.members)
    if unlike and any(group.level == "all" for group in facts.groups):
        enough = facts.settings.cohort.peers
        said = f"fewer than {enough} groups of two could be held against each other"
        remarks.append(f"{unlike} nodes: {said}, so the class' limits alone judge their collectives")
    return remarks


@dataclass(frozen=True)
class _Median:
    """A node's median in one channel; ``share``: what part it is of what the channel expects."""

    channel: Channel
    value: float
    expected: float
    share: float
    reached: bool

    def finding(self, said: str) -> Finding:
        """Return that it passes, or that it does not though nothing confirms it bad."""
        values = float(f"{self.value:.4g}"), float(f"{self.expected:.4g}"), self.channel.unit
        if self.reached:
            return Finding(self.channel.check, SUBJECT, PASS, *values, said)
        said += ", and not so slow with trusted nodes that it is to blame"
        return Finding(self.channel.check, SUBJECT, INCOMPLETE, *values, said, "investigate")


class _Table:
    """Everybody's findings, check by check."""

    def __init__(self, judgement: Judgement, mini_clusters: MiniClusters, stopped: str) -> None:
        self.facts, self.judgement, self.stopped = judgement.facts, judgement, stopped
        self.mini_clusters = mini_clusters
        self.group_findings: dict[tuple[int, str], Finding] = {}
        matrix, sweep = self.facts.matrix, self.facts.sweep.exchanges
        self.matrix, self.index = matrix, matrix.index
        whole = sweep.known
        for halt in matrix.halts:
            if halt.started and not halt.suspects and not halt.unavailable:
                # It failed by nobody's known doing: what it measured may implicate, and proves nobody.
                theirs = np.isin(sweep.one, [self.index[node] for node in halt.group])
                whole = whole & ~((sweep.number == halt.number) & theirs)
        counts = sweep.of_nodes(whole)
        others = counts[counts > 0]
        self.counts: list[int] = counts.tolist()
        self.usual = float(np.median(others)) if len(others) else 0.0
        # The last word of all groups of all is the latest that covers a node.
        self.together: dict[str, Judged] = {}
        for group in self.facts.groups:
            if group.level == "all":
                self.together.update(dict.fromkeys(group.nodes, group))
        of_two = self.facts.of_two
        lacking = {node: of_two.owed(node, self.facts.owed_of_two) for node in self.facts.members if of_two.planned}
        self.not_of_two = {node: operations[0] for node, operations in lacking.items() if operations}
        # The worst verdict first; a node that is blamed for anything answers for no group's slowness besides.
        self.blamed = {verdict: by_node(judgement.blames, verdict) for verdict in (REJECTED, HELD, OPEN)}
        self.checked: dict[tuple[str, str], list[Blame]] = {}
        for verdict, blames in self.blamed.items():
            for blame in (each for mine in blames.values() for each in mine):
                kept = self.checked.setdefault((blame.node, blame.check), [])
                kept += [blame] if not kept or kept[0].verdict == verdict else []
        self.known = {*judgement.reference.good, *(blame.node for blame in judgement.blames)}
        senders = {name for name, mine in self.blamed[REJECTED].items() if any(each.check == "data" for each in mine)}
        self.received_wrong: dict[str, str] = {}
        for wrong in matrix.wrong:
            if wrong.sender not in senders:
                self.received_wrong.setdefault(wrong.receiver, wrong.where)
        sound = self._sound()
        self.medians, self.below_floor = _Medians(self.facts, sound), BelowFloor(self.facts, sound)
        self.held = self._held()

    def _sound(self) -> Any:
        """Return by node whether nothing speaks against it."""
        blamed = {node for mine in self.blamed.values() for node in mine}
        blamed |= {*self.facts.hung, *self.judgement.reference.doubted}
        return np.array([node not in blamed for node in self.matrix.nodes], dtype=bool)

    def _held(self) -> dict[str, str]:
        """Return why nodes are held, each by the first of its reasons."""
        held: dict[str, str] = {}
        for verdict in (HELD, OPEN):
            for node, blames in self.blamed[verdict].items():
                if node not in self.blamed[REJECTED]:
                    held.setdefault(node, blames[0].reason)
        for node, found in self.together.items():
            if (found.bad or found.doubtful) and not self._unsettled(node) and node in self.facts.tested:
                held.setdefault(node, self._slow_together(found))
        if not self.stopped:
            for node, why in self.mini_clusters.held().items():
                if not self._unsettled(node):
                    held.setdefault(node, why)
        return held

    def _slow_together(self, group: Judged) -> str:
        if group.doubtful:
            return f"{group.text}; it was not measured again, so no node is blamed"
        said = f"{group.text}, although all of them passed in pairs"
        return f"{said}: suspect the fabric, no node is blamed"

    def finding(self, node: str, check: str) -> Finding:
        """Return one check's finding about one node."""
        mine = self.checked.get((node, check))
        if mine:
            return _of(mine, FAIL if mine[0].verdict == REJECTED else INCOMPLETE)
        if self.stopped:
            return self._incomplete(check, self.stopped, "none")
        if node in self.matrix.unavailable:
            return self._incomplete(check, f"not available in Slurm: {self.matrix.unavailable[node]}")
        if node in self.matrix.unreadable:
            return self._incomplete(check, f"cannot be read: {self.matrix.unreadable[node]}")
        if check in PAIR_CHECKS:
            return self._pair(node, check)
        unsettled = self._unsettled(node)
        if unsettled:
            return self._incomplete(check, f"not reached: {unsettled}", "none")
        if check == "straggler":
            return self._straggler(node)
        if check == "train":
            return self._train(node)
        if check == MINI_CLUSTER_CHECK:
            return self.mini_clusters.finding(node)
        if node in self.not_of_two:
            _check, collective, size = self.not_of_two[node]
            what = f"{collective.replace('_', '-')} of {size_text(size)}"
            return self._incomplete(check, f"{what} was not measured in a group of two")
        return self._group(self.together.get(node), check)

    def _unsettled(self, node: str) -> str:
        """Return for what the node is rejected, held or still open, empty if for nothing."""
        for verdict, blames in self.blamed.items():
            if node in blames:
                return f"{'not settled' if verdict == OPEN else verdict} for {blames[node][0].check}"
        return ""

    def _incomplete(self, check: str, reason: str, action: str = "investigate") -> Finding:
        return Finding(check, SUBJECT, INCOMPLETE, reason=reason, action=action)

    def _pair(self, node: str, check: str) -> Finding:
        count = self.counts[self.index[node]]
        if count < max(1, ENOUGH * self.usual):
            said = f"{count} exchanges were measured, others had {self.usual:.0f}"
            halts = [halt.error for halt in self.matrix.halts if node in halt.group]
            return self._incomplete(check, f"{said}; {halts[-1]}" if halts else said)
        if node not in self.known:
            return self._incomplete(check, "no node that it was measured with is proven")
        if check == "data":
            if node in self.received_wrong:
                return self._incomplete(check, f"received wrong data in {self.received_wrong[node]}")
            return Finding(check, SUBJECT, PASS, 0, 0, "exchanges", f"data was right in {count} exchanges")
        worst = self.medians.worst(self.index[node], check)
        if worst is None:
            unsettled = self._unsettled(node)
            if unsettled:
                return self._incomplete(check, f"cannot be distinguished from what it is {unsettled}", "none")
            return self._incomplete(check, "there is nothing to judge it by: too few peers and no class floor")
        said = f"{_where(worst.channel)}: median of {count} exchanges"
        below = self.below_floor.of(self.index[node], check)
        if below and worst.reached:
            told = f"{_where(below.channel)}: {below}"
            if below.share > MOST_BELOW:
                share, text = float(f"{below.share:.3g}"), f"{told}, although the median reaches it"
                return Finding(check, SUBJECT, INCOMPLETE, share, MOST_BELOW, "share", text, "investigate")
            said += f"; {told}"
        return worst.finding(said)

    def _group(self, group: Judged | None, check: str) -> Finding:
        """Return what all members of a group are told of it."""
        key = id(group), check
        if key not in self.group_findings:
            self.group_findings[key] = self._group_finding(group, check)
        return self.group_findings[key]

    def _group_finding(self, group: Judged | None, check: str) -> Finding:
        if group is None or not group.whole:
            return self._incomplete(check, "the group of all that passed was not measured")
        worst = group.worst(check)
        if group.bad or group.doubtful:
            said = self._slow_together(group)
            if worst is None:
                return self._incomplete(check, said)
            return Finding(check, SUBJECT, INCOMPLETE, worst.measured, worst.expected, worst.unit, said, "investigate")
        if worst is None or worst.expected is None:
            return self._incomplete(check, f"the hardware class has no limit for {len(group.nodes)} nodes")
        said = f"{len(group.nodes)} nodes together: {worst.text}"
        return Finding(check, SUBJECT, PASS, worst.measured, worst.expected, worst.unit, said)

    def _straggler(self, node: str) -> Finding:
        group = self.together.get(node)
        if self.facts.settings.straggler is None or group is None or not group.whole:
            return self._incomplete("straggler", "the group of all that passed was not measured")
        worst = self.medians.worst(self.index[node], "straggler")
        if worst is None:
            return self._incomplete("straggler", "no exchange shows the spread of its times")
        return worst.finding("median over its exchanges")

    def _train(self, node: str) -> Finding:
        steps = [each for each in self.matrix.groups if each.kind == "train" and node in each.nodes]
        if not steps:
            return self._incomplete("train", "the training step was not measured")
        last = steps[-1]
        broken = self.matrix.broken(last.number, node)
        if broken:
            return self._incomplete("train", f"its job failed: {broken}")
        wrong = [each for each in self.matrix.wrong if each.where == last.phase]
        if wrong:
            receivers = ", ".join(sorted({each.receiver for each in wrong})[:4])
            return self._incomplete("train", f"the training step gave wrong results on {receivers}")
        said = f"{len(last.nodes)} nodes, {last.iterations} steps"
        return Finding("train", SUBJECT, PASS, float(f"{last.seconds:.4g}"), None, "s", said)


class _Medians:
    """By channel every node's median over its exchanges with sound nodes, both sides sound."""

    def __init__(self, facts: Facts, sound: Any) -> None:
        self.facts = facts
        one, other = (
            np.concatenate([getattr(facts.sweep.exchanges, side), getattr(facts.again, side)])
            for side in ("one", "other")
        )
        rows = np.flatnonzero(sound[one] & sound[other])
        nodes = np.concatenate([one[rows], other[rows]])
        count = len(sound)
        order = np.argsort(nodes.astype(np.int16) if count < 2**15 else nodes, kind="stable")
        met = np.bincount(nodes, minlength=count)
        # A row of places for each node: those of its exchanges among all, then that of a NaN behind them.
        self.met, self.rows = met, np.arange(count)
        self.places = np.full((count, max(1, int(met.max(initial=0)))), len(one))
        column = np.arange(len(nodes)) - np.repeat(np.cumsum(met) - met, met)
        self.places[nodes[order], column] = np.concatenate([rows, rows])[order]
        self.values = [self._by_node(channel.value, channel.again_value) for channel in facts.channels]
        self.least: dict[str, tuple[list[float], list[int]]] = {}
        self.slowdowns: dict[int, Any] = {}

    def _by_node(self, swept: Any, again: Any) -> Any:
        values = np.concatenate([swept, again, np.full(1, np.nan, swept.dtype)])
        table = values.take(self.places)
        if not np.isfinite(values[:-1].sum()):
            return medians_of(table.astype(np.float64))
        # Nothing but what fills up the rows is NaN, and is sorted behind.
        table.sort(axis=1)
        low = table[self.rows, np.maximum(self.met - 1, 0) // 2].astype(np.float64)
        return (low + table[self.rows, np.minimum(self.met // 2, table.shape[1] - 1)]) / 2

    def worst(self, node: int, check: str) -> _Median | None:
        """Return the median of a node that is worst against what should be, of all that a check is about."""
        if check not in self.least:
            self.least[check] = self._least(check)
        shares, channels = self.least[check]
        share, at = shares[node], channels[node]
        if share == math.inf:
            return None
        if share >= 1:
            return _Median(
                self.facts.channels[at], float(self.values[at][node]), self.facts.channels[at].expected, share, True
            )
        found = [
            self._median(node, at, float(self.values[at][node]))
            for at, channel in enumerate(self.facts.channels)
            if channel.check == check and not math.isnan(self.values[at][node])
        ]
        return min(found, key=lambda each: (each.reached, each.share))

    def _least(self, check: str) -> tuple[list[float], list[int]]:
        """Return by node the least part that it reached of what should be, and in which channel; infinite of none."""
        about = [at for at, channel in enumerate(self.facts.channels) if channel.check == check]
        shares = np.full((len(about) + 1, len(self.places)), math.inf)
        for row, at in enumerate(about):
            channel, values = self.facts.channels[at], self.values[at]
            share = values / channel.expected if channel.unit == UNIT else channel.expected / values
            shares[row] = np.where(np.isnan(share), math.inf, share)
        least = shares.argmin(axis=0)
        return shares.min(axis=0).tolist(), np.array([*about, 0])[least].tolist()

    def _median(self, node: int, at: int, value: float) -> _Median:
        """Return a node's median beside what should be: for its own distances, and as far apart as sound nodes are."""
        channel = self.facts.channels[at]
        rate = channel.unit == UNIT
        share = value / channel.expected if rate else channel.expected / value
        if share >= 1:
            return _Median(channel, value, channel.expected, share, True)
        if at not in self.slowdowns:
            self.slowdowns[at] = self._by_node(channel.x, channel.again)
        slowdown, least = float(self.slowdowns[at][node]), self.facts.least_slowdown(at)
        factor = (1 - least) / (1 - slowdown)
        return _Median(channel, value, value * factor if rate else value / factor, share, slowdown <= least)


def _where(channel: Channel) -> str:
    return ("" if channel.rail is None else f"rail {channel.rail}, ") + size_text(channel.size)


def _of(blames: Sequence[Blame], verdict: str) -> Finding:
    worst = min(blames, key=lambda blame: (blame.action == "investigate", blame.measured is None))
    reasons = "; ".join(dict.fromkeys(blame.reason for blame in blames[:3]))
    reasons += f"; and {len(blames) - 3} more" if len(blames) > 3 else ""
    action = worst.action if verdict == FAIL else "investigate"
    return Finding(worst.check, SUBJECT, verdict, worst.measured, worst.expected, worst.unit, reasons, action)
