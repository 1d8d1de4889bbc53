"""Which nodes save together next, and what is concluded about every node.

Pure: the same observations always give the same answer. First all nodes under test at once, as a job would; then those
that were bad, or could not be measured by another one's fault, together with nodes that were good. A node is at fault
where it was bad in both and others were good; wrong data that a third node saw needs no second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import STORAGE_CHECKS
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import (
    WITNESSES,
    confirmed,
    reference_nodes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round
from ansible_collections.muster.cluster.plugins.plugin_utils.save_rounds.save_judging import (
    BAD,
    DATA,
    GOOD,
    HELD,
    LEAST_PEERS,
    TARGET,
    UNITS,
    VOID,
    WRITE,
    Limits,
    Outcome,
    Save,
    judge,
    target,
)

SUBJECT = "storage"
# How often a node is measured: once with all, and again, where that left something open, until it can be confirmed.
TRIES = WITNESSES
# Saves take minutes; what is not settled in so many is left to people.
MAX_ROUNDS = 5


@dataclass(frozen=True)
class Plan:
    """Nodes under test, nodes in service that may save with them, and what is asked."""

    members: tuple[str, ...]
    partners: tuple[str, ...]
    limits: Limits


class Campaign:
    """What the saves have shown so far, and what follows from it."""

    def __init__(self, plan: Plan, saves: Sequence[Save]) -> None:
        self.plan = plan
        self.saves = list(saves)
        self.number = max((save.number for save in saves), default=0)
        self.unavailable: dict[str, str] = {}
        self.tried: dict[str, int] = {}
        self.outcomes: dict[tuple[str, str], list[Outcome]] = {}
        for save in self.saves:
            self.unavailable.update(save.unavailable)
            for node, checks in judge(save, plan.limits).items():
                self.tried[node] = self.tried.get(node, 0) + save.started
                for check, outcome in checks.items():
                    self.outcomes.setdefault((node, check), []).append(outcome)

    def next_round(self) -> Round | None:
        """Return the next save, None where another would tell no more."""
        number = self.number + 1
        pending = [node for node in self.plan.members if self._pending(node)]
        if not pending or number > MAX_ROUNDS:
            return None
        known_good = [node for node in (*self.plan.members, *self.plan.partners) if self._was_good(node)]
        fresh = [node for node in self.plan.partners if node not in self.unavailable and not self.tried.get(node)]
        # Enough good ones that a fault is that of fewer, and a median says something.
        wanted = max(LEAST_PEERS - len(pending), len(pending) + 1 if any(self.tried.values()) else 0)
        references = reference_nodes(known_good, fresh)[: max(0, wanted)]
        kind = "again" if any(self.tried.values()) else "together"
        # All meet at the first, which should be one that was good.
        return Round(number, kind, ((*references, *(node for node in pending if node not in references)),))

    def _pending(self, node: str) -> bool:
        if node in self.unavailable or self.tried.get(node, 0) >= TRIES:
            return False
        last = [self._of(node, check)[-1:] for check in STORAGE_CHECKS if check != TARGET]
        if not any(last):
            return True
        if any(each.verdict == BAD for each in self._of(node, DATA)):
            return False
        return any(each[0].verdict in (BAD, VOID) for each in last if each)

    def _of(self, node: str, check: str) -> list[Outcome]:
        return self.outcomes.get((node, check), [])

    def _was_good(self, node: str) -> bool:
        if node in self.unavailable or self._pending(node) or self._question(node):
            return False
        return any(each.verdict == GOOD for each in self._of(node, WRITE)) and not self._at_fault(node)

    def _at_fault(self, node: str) -> list[str]:
        """Return the checks by which a node is at fault."""
        return [check for check in STORAGE_CHECKS if check != TARGET and self._confirms(node, check)]

    def _confirms(self, node: str, check: str) -> bool:
        verdicts = [each.verdict for each in self._of(node, check)]
        if check == DATA:
            return BAD in verdicts
        return confirmed(verdicts.count(BAD), verdicts.count(GOOD))

    def _question(self, node: str) -> Outcome | None:
        """Return what this node or another is to blame for, where no third could tell which."""
        outcomes = (each for check in STORAGE_CHECKS for each in self._of(node, check))
        return next((each for each in outcomes if each.verdict == HELD), None)

    def conclusion(self, stopped: str = "") -> Conclusion:
        """Return a finding of each check for every node under test."""
        held: dict[str, str] = {}
        findings: dict[str, tuple[Finding, ...]] = {}
        for node in self.plan.members:
            found = [self._finding(node, check, stopped) for check in STORAGE_CHECKS if check != TARGET]
            reached = self._target(node, stopped)
            findings[node] = (*found, reached)
            blamed = any(each.verdict == FAIL for each in found)
            if (question := self._question(node)) and not blamed:
                held[node] = question.reason
            elif reached.measured is not None and reached.verdict != PASS and not stopped and not blamed:
                held[node] = reached.reason
        doubted: dict[str, str] = {}
        for node in self.plan.partners:
            if checks := self._at_fault(node):
                doubted[node] = "; ".join(self._of(node, check)[-1].reason for check in checks)
            elif question := self._question(node):
                doubted[node] = question.reason
        return Conclusion(findings, held, doubted)

    def _finding(self, node: str, check: str, stopped: str) -> Finding:
        outcomes = self._of(node, check)
        if self._confirms(node, check):
            worst = next(each for each in reversed(outcomes) if each.verdict == BAD)
            again = "" if check == DATA else "; as bad when it was measured again with good ones"
            return _finding(check, FAIL, worst, worst.reason + again, "investigate")
        question = next((each for each in outcomes if each.verdict == HELD), None)
        if question:
            return _finding(check, INCOMPLETE, question, question.reason, "investigate")
        if stopped:
            return _finding(check, INCOMPLETE, None, stopped)
        good = [each for each in outcomes if each.verdict == GOOD]
        if good:
            first = "" if outcomes[0].verdict == GOOD else f" (at first: {outcomes[0].reason})"
            return _finding(check, PASS, good[-1], good[-1].reason + first)
        if node in self.unavailable:
            return _finding(check, INCOMPLETE, None, self.unavailable[node], "investigate")
        if not outcomes:
            return _finding(check, INCOMPLETE, None, "not measured", "investigate")
        last = outcomes[-1]
        unproven = "; nobody is proven to be at fault" if last.verdict == BAD else ""
        return _finding(check, INCOMPLETE, last, last.reason + unproven, "investigate")

    def _target(self, node: str, stopped: str) -> Finding:
        """Judge by the largest save in which the node wrote something."""
        if stopped:
            return _finding(TARGET, INCOMPLETE, None, stopped)
        guilty = [each for each in (*self.plan.members, *self.plan.partners) if self._at_fault(each)]
        saves = sorted((save for save in self.saves if node in save.group), key=lambda save: -len(save.group))
        for save in saves:
            outcome = target(save, self.plan.limits, guilty)
            if outcome is not None:
                verdict = PASS if outcome.verdict == GOOD else INCOMPLETE
                return _finding(TARGET, verdict, outcome, outcome.reason)
        return _finding(TARGET, INCOMPLETE, None, "no save that could be measured")


def _finding(check: str, verdict: str, outcome: Outcome | None, reason: str, action: str = "none") -> Finding:
    measured = outcome.measured if outcome else None
    expected = outcome.expected if outcome else None
    rounded = [None if value is None else float(f"{value:.5g}") for value in (measured, expected)]
    return Finding(check, SUBJECT, verdict, rounded[0], rounded[1], UNITS[check], reason, action)


def next_round(plan: Plan, saves: Sequence[Save]) -> Round | Conclusion:
    """Return the next round, or the conclusion once another would tell nothing more."""
    campaign = Campaign(plan, saves)
    return campaign.next_round() or campaign.conclusion()


def conclude_early(plan: Plan, saves: Sequence[Save], reason: str) -> Conclusion:
    """Return what is known when the campaign has to stop: nobody passes, who is at fault already stays so."""
    return Campaign(plan, saves).conclusion(stopped=reason)
