"""Findings of every check for every node under test, from what is settled; what was not measured is incomplete."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.module_utils.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.module_utils.registry import MINI_CLUSTER_CHECK
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.rounds import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.grouping import Judged
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.judging import UNIT, Settings, size_text
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.mini_cluster import MiniClusters
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.schedule import (
    CONFIDENCE,
    INTERMITTENT_SHARE,
    SHOWINGS,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.settling import (
    Blame,
    Settled,
    least_slowdown,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.view import Channel

SUBJECT = "network"
# Checks that pairs answer; the others take groups.
PAIR_CHECKS = ("pair_bandwidth", "rail_bandwidth", "pair_latency", "data")
# Of the exchanges that others had, a node needs so many for its own to say anything.
ENOUGH = 0.5


def medians_of(table: Any) -> Any:
    """Return the median of each row, of what is no NaN in it; NaN where all is."""
    ordered = np.sort(table, axis=1)
    known = np.isfinite(table).sum(axis=1)
    rows = np.arange(len(table))
    low = ordered[rows, np.maximum(known - 1, 0) // 2]
    high = ordered[rows, np.minimum(known // 2, table.shape[1] - 1)]
    return np.where(known > 0, (low + high) / 2, np.nan)


def unjudged(settings: Settings, reason: str) -> tuple[Finding, ...]:
    """Return findings that say why nothing can be said."""
    return tuple(
        Finding(check, SUBJECT, INCOMPLETE, reason=reason, action="investigate") for check in settings.checks()
    )


def conclusion_of(settled: Settled, settings: Settings, stopped: str = "") -> Conclusion:
    """Return a finding of each check for every node under test; ``stopped`` says why the campaign ends early."""
    table = _Table(settled, settings, stopped)
    checks = settings.checks()
    findings = {node: tuple(table.finding(node, check) for check in checks) for node in settled.members}
    held = dict(table.held)
    remarks = [*_remarks(settled, settings), *table.mini_clusters.remarks()]
    return Conclusion(findings, held, dict(settled.doubted), tuple(dict.fromkeys(remarks)))


def _remarks(settled: Settled, settings: Settings) -> list[str]:
    view = settled.view
    remarks = list(view.remarks)
    members = len(settled.members)
    pairs = members * (members - 1) // 2
    rows = view.first & view.members[view.one] & view.members[view.other]
    rows &= ~np.isnan(view.matrix.gb).any(axis=(1, 2))
    met = len(np.unique(view.one[rows] * np.int64(len(view.matrix.nodes)) + view.other[rows]))
    if pairs:
        counts = np.bincount(view.one[rows], minlength=len(view.matrix.nodes))
        counts = counts + np.bincount(view.other[rows], minlength=len(view.matrix.nodes))
        counts = counts[view.members & (counts > 0)]
        each = int(np.median(counts)) if len(counts) else 0
        chance = 1 - (1 - INTERMITTENT_SHARE) ** each
        shown = f"{chance:.1%}" if chance < CONFIDENCE else f"at least {CONFIDENCE:.1%}"
        remarks.append(
            f"{met} of {pairs} pairs measured ({met / pairs:.1%}), {each} exchanges a node: a fault that shows in "
            f"{INTERMITTENT_SHARE:.0%} of them is met with {shown} confidence"
            + (f", {SHOWINGS} times if there are enough" if each < SHOWINGS / INTERMITTENT_SHARE else "")
        )
    if 0 < view.peers < settings.cohort.peers:
        what = "the class' floors and the adopted baseline" if settings.baseline else "the class' floors alone"
        remarks.append(f"{view.peers} nodes are too few for a cohort (from {settings.cohort.peers}): judged by {what}")
    return [*remarks, *settled.remarks]


@dataclass(frozen=True)
class _Median:
    """A node's median in one channel; ``share``: what part it is of what the channel expects."""

    channel: Channel
    value: float
    expected: float
    share: float
    reached: bool

    def finding(self, said: str) -> Finding:
        """Return that it passes, or that it does not though nothing convicts it."""
        told = float(f"{self.value:.4g}"), float(f"{self.expected:.4g}"), self.channel.unit
        if self.reached:
            return Finding(self.channel.check, SUBJECT, PASS, *told, said)
        said += ", and not so slow with trusted nodes that it is to blame"
        return Finding(self.channel.check, SUBJECT, INCOMPLETE, *told, said, "investigate")


class _Table:
    """Everybody's findings, check by check."""

    def __init__(self, settled: Settled, settings: Settings, stopped: str) -> None:
        self.settled, self.settings, self.stopped = settled, settings, stopped
        view = settled.view
        self.index = view.matrix.index()
        whole = view.first & ~np.isnan(view.matrix.gb).any(axis=(1, 2))
        for halt in view.matrix.halts:
            if halt.started and not halt.suspects and not halt.unavailable:
                # It failed by nobody's known doing: what it measured may accuse, and proves nobody.
                whole &= (view.matrix.number != halt.number) | ~np.isin(
                    view.one, [self.index[node] for node in halt.group]
                )
        size = len(view.matrix.nodes)
        self.counts = np.bincount(view.one[whole], minlength=size) + np.bincount(view.other[whole], minlength=size)
        others = self.counts[self.counts > 0]
        self.usual = float(np.median(others)) if len(others) else 0.0
        # The last word of all groups of all is the latest that covers a node.
        self.together: dict[str, Judged] = {}
        for group in settled.groups:
            if group.level == "all":
                self.together.update(dict.fromkeys(group.nodes, group))
        self.known = {*settled.good, *settled.cleared, *settled.rejected, *settled.held, *settled.open}
        senders = {name for name, blames in settled.rejected.items() if any(each.check == "data" for each in blames)}
        self.received_wrong: dict[str, str] = {}
        for wrong in view.matrix.wrong:
            if wrong.sender not in senders:
                self.received_wrong.setdefault(wrong.receiver, wrong.where)
        self.sound = self._sound_rows()
        self.values = [self._by_node(channel.value) for channel in view.channels]
        self.slowdowns: dict[int, tuple[Any, float]] = {}
        self.mini_clusters = MiniClusters(settled.members, view.matrix, settled.plans, settings)
        self.held = self._held()

    def _held(self) -> dict[str, str]:
        """Return why nodes are held, each by the first of its reasons."""
        settled = self.settled
        held: dict[str, str] = {}
        for blamed in (settled.held, settled.open):
            for node, blames in blamed.items():
                if node not in settled.rejected:
                    held.setdefault(node, blames[0].reason)
        for node, found in self.together.items():
            if found.bad and self._answers_for(node) and node in settled.members:
                held.setdefault(node, self._slow_together(found))
        if not self.stopped:
            for node, why in self.mini_clusters.held().items():
                if self._answers_for(node):
                    held.setdefault(node, why)
        return held

    def _sound_rows(self) -> tuple[Any, Any, tuple[int, int]]:
        """Return the exchanges of those that nothing speaks against, a place in a table by node for either side."""
        view, settled = self.settled.view, self.settled
        blamed = {*settled.rejected, *settled.held, *settled.open, *settled.hung, *settled.doubted}
        sound = np.array([node not in blamed for node in view.matrix.nodes], dtype=bool)
        rows = np.flatnonzero(sound[view.one] & sound[view.other])
        nodes = np.concatenate([view.one[rows], view.other[rows]])
        order = np.argsort(nodes, kind="stable")
        counts = np.bincount(nodes, minlength=len(view.matrix.nodes))
        width = max(1, int(counts.max(initial=0)))
        place = nodes[order] * width + np.arange(len(nodes)) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.concatenate([rows, rows])[order], place, (len(counts), width)

    def _by_node(self, values: Any) -> Any:
        """Return every node's median with those that nothing speaks against, NaN where there is none."""
        rows, place, shape = self.sound
        table = np.full(shape, np.nan)
        table.reshape(-1)[place] = values[rows]
        return medians_of(table)

    def _allowed(self, at: int) -> tuple[Any, float]:
        """Return by how much every node is worse than it should be in a channel, and how much it may be."""
        if at not in self.slowdowns:
            channel = self.settled.view.channels[at]
            self.slowdowns[at] = self._by_node(channel.x), least_slowdown(self.settled.view, at)
        return self.slowdowns[at]

    def _answers_for(self, node: str) -> bool:
        settled = self.settled
        return node not in settled.rejected and node not in settled.open and node not in settled.held

    def _slow_together(self, group: Judged) -> str:
        worst = group.worst()
        said = worst.text if worst else "nothing measured"
        return (
            f"{len(group.nodes)} nodes together: {said}, although all of them passed in pairs: "
            "suspect the fabric, nobody is blamed"
        )

    def finding(self, node: str, check: str) -> Finding:
        """Return one check's finding about one node."""
        settled = self.settled
        for verdict, blames in ((FAIL, settled.rejected), (INCOMPLETE, settled.held), (INCOMPLETE, settled.open)):
            mine = [blame for blame in blames.get(node, ()) if blame.check == check]
            if mine:
                return _of(mine, verdict)
        if self.stopped:
            return self._incomplete(check, self.stopped, "none")
        if node in settled.view.matrix.unavailable:
            return self._incomplete(check, f"not available in Slurm: {settled.view.matrix.unavailable[node]}")
        if node in settled.view.matrix.garbled:
            return self._incomplete(check, f"cannot be read: {settled.view.matrix.garbled[node]}")
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
        return self._group(node, check)

    def _unsettled(self, node: str) -> str:
        """Return for what the node is rejected, held or still open, empty if for nothing."""
        settled = self.settled
        for verdict, blames in (("rejected", settled.rejected), ("held", settled.held), ("not settled", settled.open)):
            if node in blames:
                return f"{verdict} for {blames[node][0].check}"
        return ""

    def _incomplete(self, check: str, reason: str, action: str = "investigate") -> Finding:
        return Finding(check, SUBJECT, INCOMPLETE, reason=reason, action=action)

    def _pair(self, node: str, check: str) -> Finding:
        count = int(self.counts[self.index[node]])
        if count < max(1, ENOUGH * self.usual):
            said = f"{count} exchanges were measured, others had {self.usual:.0f}"
            halts = [halt.error for halt in self.settled.view.matrix.halts if node in halt.group]
            return self._incomplete(check, f"{said}; {halts[-1]}" if halts else said)
        if node not in self.known:
            return self._incomplete(check, "nobody it was measured with is proven")
        if check == "data":
            if node in self.received_wrong:
                return self._incomplete(check, f"received wrong data in {self.received_wrong[node]}")
            return Finding(check, SUBJECT, PASS, 0, 0, "exchanges", f"data was right in {count} exchanges")
        worst = self._worst(node, check)
        if worst is None:
            unsettled = self._unsettled(node)
            if unsettled:
                return self._incomplete(check, f"not told apart from what it is {unsettled}", "none")
            return self._incomplete(check, "there is nothing to judge it by: no peers enough, no floor of the class")
        rail = "" if worst.channel.rail is None else f"rail {worst.channel.rail}, "
        return worst.finding(f"{rail}{size_text(worst.channel.size)}: median of {count} exchanges")

    def _worst(self, node: str, check: str) -> _Median | None:
        """Return the node's median that is worst against what should be, of all that a check is about."""
        found = []
        for at, channel in enumerate(self.settled.view.channels):
            value = float(self.values[at][self.index[node]]) if channel.check == check else math.nan
            if not math.isnan(value):
                found.append(self._median(node, at, value))
        return min(found, key=lambda each: (each.reached, each.share), default=None)

    def _median(self, node: str, at: int, value: float) -> _Median:
        """Return a node's median beside what should be: for its own distances, and as far apart as sound nodes are."""
        channel = self.settled.view.channels[at]
        rate = channel.unit == UNIT
        share = value / channel.expected if rate else channel.expected / value
        if share >= 1:
            return _Median(channel, value, channel.expected, share, True)
        slowdowns, least = self._allowed(at)
        slowdown = float(slowdowns[self.index[node]])
        factor = (1 - least) / (1 - slowdown)
        return _Median(channel, value, value * factor if rate else value / factor, share, slowdown <= least)

    def _group(self, node: str, check: str) -> Finding:
        group = self.together.get(node)
        if group is None or not group.whole:
            return self._incomplete(check, "the group of all that passed was not measured")
        if group.bad:
            worst = group.worst(check)
            said = self._slow_together(group)
            if worst is None:
                return self._incomplete(check, said)
            return Finding(check, SUBJECT, INCOMPLETE, worst.measured, worst.expected, worst.unit, said, "investigate")
        worst = group.worst(check)
        if worst is None or worst.expected is None:
            what = f"the hardware class has no limit for {len(group.nodes)} nodes"
            return self._incomplete(check, what)
        said = f"{len(group.nodes)} nodes together: {worst.text}"
        return Finding(check, SUBJECT, PASS, worst.measured, worst.expected, worst.unit, said)

    def _straggler(self, node: str) -> Finding:
        limit = self.settings.straggler
        group = self.together.get(node)
        if limit is None or group is None or not group.whole:
            return self._incomplete("straggler", "the group of all that passed was not measured")
        worst = self._worst(node, "straggler")
        if worst is None:
            return self._incomplete("straggler", "no exchange tells how its times are spread")
        return worst.finding("median over its exchanges")

    def _train(self, node: str) -> Finding:
        steps = [each for each in self.settled.view.matrix.groups if each.kind == "train" and node in each.nodes]
        if not steps:
            return self._incomplete("train", "the training step was not measured")
        last = steps[-1]
        broken = self.settled.view.matrix.broken(last.number, node)
        if broken:
            return self._incomplete("train", f"its job failed: {broken}")
        wrong = [each for each in self.settled.view.matrix.wrong if each.where == last.move]
        if wrong:
            receivers = ", ".join(sorted({each.receiver for each in wrong})[:4])
            return self._incomplete("train", f"the training step gave wrong results on {receivers}")
        said = f"{len(last.nodes)} nodes, {last.iterations} steps"
        return Finding("train", SUBJECT, PASS, float(f"{last.seconds:.4g}"), None, "s", said)


def _of(blames: Sequence[Blame], verdict: str) -> Finding:
    worst = min(blames, key=lambda blame: (blame.action == "investigate", blame.measured is None))
    reasons = "; ".join(dict.fromkeys(blame.reason for blame in blames[:3]))
    reasons += f"; and {len(blames) - 3} more" if len(blames) > 3 else ""
    action = worst.action if verdict == FAIL else "investigate"
    return Finding(worst.check, SUBJECT, verdict, worst.measured, worst.expected, worst.unit, reasons, action)
