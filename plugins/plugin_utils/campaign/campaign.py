"""A campaign: rounds over the nodes under test, each committed to the ledger, then evidence of what was concluded.

A round is in the ledger before the next is planned, and the plan is a pure function of the recorded rounds: a run that
was killed is taken up by the next one where the record ends. All evidence of a campaign is one transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import rules_of
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Cohort, Request, cohorts_of
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.stage import Seen
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import program_digest
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger, LedgerError, StoredRound
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import Doubt

# Stands for a round in the ledger once a campaign has its evidence.
CONCLUDED = "concluded"
# An interrupted campaign is taken up again for so long after its first round, chosen as less than it takes to find and
# mend something. Older ones begin anew: good pairs cost a round or two, blame for what was mended since costs trust.
RESUME_SECONDS = 15 * 60
# A round is not started in the last moments of the budget: torch alone takes seconds to load.
LEAST_ROUND_SECONDS = 20
# What a round may take beyond its collectives: waiting for Slurm, launch, cancelling.
SPARE_SECONDS = 120
# Findings of one node that are shown while it runs; the evidence has them all.
TOLD_FINDINGS = 3

RunRound = Callable[[dict[str, Any]], list[dict[str, Any]]]


class RoundError(MusterError):
    """The controller could not run a round; nothing is known about the nodes from it."""


class NothingToProve(MusterError):
    """The stage has nothing to measure of a cohort; says why."""


class Abandoned(MusterError):
    """The run that this process worked for has ended; the record is left to the next run."""


class Work(Protocol):
    """What a stage does in a campaign of one cohort. Pure: the same observations give the same answer."""

    @property
    def stage(self) -> str: ...

    def surroundings(self) -> Mapping[str, Any]:
        """Return what the observations depend on besides nodes and expectations."""

    def next_round(self, seen: Seen) -> Round | Conclusion:
        """Return the next round, or the conclusion once another would tell nothing more."""

    def conclude_early(self, seen: Seen, reason: str) -> Conclusion:
        """Return what is known when the campaign has to stop: nobody passes by it."""

    def arguments(self, step: Round, seconds: int) -> dict[str, Any]:
        """Return what the stage's module needs beyond campaign, number and groups."""

    def round_seconds(self, step: Round) -> int:
        """Return how long a round may take at the most."""

    def summary(self, number: int, plan: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> str:
        """Return a round's outcome in one line."""

    def proposal(self, seen: Seen, conclusion: Conclusion) -> dict[str, Any]:
        """Return what the ledger keeps beside a campaign's end, for people to decide about."""

    def details(self, seen: Seen) -> Mapping[str, Mapping[str, Any]]:
        """Return by node what its evidence keeps of the rounds."""


WorkOf = Callable[[Request, Cohort], Work]


@dataclass
class Campaign:
    """The rounds of one cohort: ``plan`` is what each was to do, by number."""

    id: str
    started: float
    rounds: list[StoredRound] = field(default_factory=list)

    def seen(self) -> list[tuple[int, Mapping[str, Any], Mapping[str, Any]]]:
        """Return what the finished rounds saw, group by group, with what each was to do."""
        return [
            (stored.number, stored.plan, item)
            for stored in self.rounds
            if stored.finished is not None
            for item in stored.observations or []
        ]

    def interrupted(self) -> Round | None:
        """Return the round that was begun and has no end, to be run again as it was planned."""
        last = self.rounds[-1] if self.rounds else None
        if last is None or last.finished is not None:
            return None
        groups = tuple(tuple(group) for group in last.plan["groups"])
        return Round(last.number, last.plan["kind"], groups, last.plan.get("program") or {})


@dataclass(frozen=True)
class Runtime:
    """How a campaign reaches the world: ``run_round`` raises RoundError, ``clock`` gives seconds since the epoch."""

    run_round: RunRound
    tell: Callable[[str], None]
    clock: Callable[[], float]


def prove(request: Request, work_of: WorkOf, runtime: Runtime) -> dict[str, Any]:
    """Bring every cohort's campaign to its conclusion and return the task's result; raises LedgerError."""
    fleet = request.fleet
    ledger = Ledger.open(fleet.ledger.url, fleet.ledger.id, fleet.cluster, read_only=request.check)
    if request.check:
        return _prove(request, work_of, ledger, runtime)
    # A killed playbook's worker lives on until its round ends: two must never run the same campaign.
    with ledger.locked(request.round_seconds + SPARE_SECONDS, work="proving"):
        return _prove(request, work_of, ledger, runtime)


def _prove(request: Request, work_of: WorkOf, ledger: Ledger, runtime: Runtime) -> dict[str, Any]:
    cohorts, skipped = cohorts_of(request)
    end = runtime.clock() + request.budget_seconds
    result: dict[str, Any] = {"changed": False, "campaigns": [], "evidence": {}, "skipped": skipped}
    for cohort in cohorts:
        try:
            _refuse_paths(request.environment)
            work = work_of(request, cohort)
        except NothingToProve as exc:
            skipped.update(dict.fromkeys(cohort.members, str(exc)))
            continue
        run = CampaignRun(request, cohort, work, ledger, runtime)
        summary, evidence = run.planned() if request.check else run.concluded(end)
        result["campaigns"].append(summary)
        result["evidence"].update({item.node: [item.to_dict()] for item in evidence})
    return result


def _refuse_paths(environment: Mapping[str, Any]) -> None:
    """Raise NothingToProve where jobs would take another PyTorch than the one that the nodes' fingerprint names."""
    told = [name for name in ("PYTHONPATH", "PYTHONHOME") if name in environment]
    if told:
        raise NothingToProve(f"environment: found {told[0]}, expected none: pytorch.python of the class has PyTorch")


def plan_of(step: Round) -> dict[str, Any]:
    """Return what the ledger keeps of a round before it is run."""
    plan: dict[str, Any] = {"kind": step.kind, "groups": [list(group) for group in step.groups]}
    return {**plan, "program": dict(step.program)} if step.program else plan


class CampaignRun:
    """One cohort's way from its first round, or from where an earlier run was interrupted, to evidence."""

    def __init__(self, request: Request, cohort: Cohort, work: Work, ledger: Ledger, runtime: Runtime) -> None:
        self.request = request
        self.cohort = cohort
        self.work = work
        self.stage = work.stage
        self.ledger = ledger
        self.run_round = runtime.run_round
        self.tell = runtime.tell
        self.clock = runtime.clock

    def planned(self) -> tuple[dict[str, Any], list[Evidence]]:
        """Return what would be done next, having done nothing."""
        campaign = self._campaign()
        step = campaign.interrupted() or self._next(campaign)
        plan = {"number": step.number, **plan_of(step)} if isinstance(step, Round) else None
        return {"class": self.cohort.hardware_class, "campaign": campaign.id, "next_round": plan}, []

    def concluded(self, end: float) -> tuple[dict[str, Any], list[Evidence]]:
        """Run rounds until the conclusion or ``end`` and record the evidence."""
        campaign = self._campaign()
        if campaign.rounds:
            self.tell(f"{self.stage} campaign {campaign.id} goes on after {len(campaign.seen())} observations")
        stopped = ""
        while True:
            step = campaign.interrupted() or self._next(campaign)
            if isinstance(step, Conclusion):
                break
            left = end - self.clock()
            if left < LEAST_ROUND_SECONDS:
                stopped = f"budget of {self.request.budget_seconds} s used up before round {step.number}"
            else:
                try:
                    self._measure(campaign, step, int(min(left, self.work.round_seconds(step))))
                except RoundError as exc:
                    stopped = f"round {step.number} could not be run: {exc}"
            if stopped:
                self.tell(f"{self.stage} {stopped}")
                step = self.work.conclude_early(campaign.seen(), stopped)
                break
        evidence = self._evidence(campaign, step, not stopped)
        proposal = {} if stopped else self.work.proposal(campaign.seen(), step)
        self._record(campaign, evidence, step.doubted, None if stopped else proposal)
        self._tell_conclusion(step)
        summary = {
            "class": self.cohort.hardware_class,
            "campaign": campaign.id,
            "concluded": not stopped,
            "rounds": len(campaign.rounds),
            "held": dict(step.held),
            "doubted": dict(step.doubted),
            "remarks": list(step.remarks),
            **proposal,
            "verdicts": {item.node: worst(finding.verdict for finding in item.findings) for item in evidence},
        }
        return summary, evidence

    def _record(
        self,
        campaign: Campaign,
        evidence: Sequence[Evidence],
        doubted: Mapping[str, str],
        proposal: Mapping[str, Any] | None,
    ) -> None:
        """Write the evidence and, with it or not at all, the doubts, the campaign's end and what it proposes."""
        now = self.clock()
        last = campaign.rounds[-1].number if campaign.rounds else 0
        with self.ledger.writing() as writer:
            states = writer.states()
            # A node in service that could not be measured again, for its jobs say, is no worse for it; it still owes.
            owed = {
                item.node: str(item.detail["held"]) or "not measured again"
                for item in evidence
                if states.get(item.node) == "admitted" and worst(each.verdict for each in item.findings) == INCOMPLETE
            }
            doubted = {**doubted, **owed}
            refused = writer.add_evidence([item for item in evidence if item.node not in owed], now)
            if refused:
                raise LedgerError("; ".join(each.reason for each in refused))
            writer.add_doubts([Doubt(node, self.stage, why, campaign.id) for node, why in doubted.items()], now)
            if proposal is not None:
                plan = {"kind": CONCLUDED, "groups": [], **proposal}
                writer.save_round(StoredRound(campaign.id, last + 1, plan, [], now, now))

    def _tell_conclusion(self, conclusion: Conclusion) -> None:
        for node, findings in conclusion.findings.items():
            failed = [finding for finding in findings if finding.verdict == FAIL]
            for finding in failed[:TOLD_FINDINGS]:
                wanted = "" if finding.expected is None else f" (expected {finding.expected} {finding.unit})"
                self.tell(f"{self.stage} rejects {node}: {finding.reason}{wanted}")
            if len(failed) > TOLD_FINDINGS:
                self.tell(f"{self.stage} rejects {node}: {len(failed) - TOLD_FINDINGS} more findings")
        for node, why in conclusion.held.items():
            self.tell(f"{self.stage} holds {node}: {why}")
        for node, why in conclusion.doubted.items():
            self.tell(f"{self.stage} doubts {node}, which is in service: {why}")
        for remark in conclusion.remarks:
            self.tell(f"{self.stage}: {remark}")

    def _campaign(self) -> Campaign:
        """Return the campaign that an earlier run left open for the very same nodes, else a new one."""
        identity, now = self.cohort.identity(self.stage, self.work.surroundings()), self.clock()
        with self.ledger.reading() as reader:
            plans = [each for each in reader.plans() if each.campaign.startswith(f"{identity}-")]
            if plans:
                last = plans[-1].campaign
                started = next(each.started for each in plans if each.campaign == last)
                if plans[-1].plan["kind"] != CONCLUDED and 0 <= now - started < RESUME_SECONDS:
                    return Campaign(last, started, reader.rounds(last))
        return Campaign(f"{identity}-{int(now * 1000):x}", now)

    def _next(self, campaign: Campaign) -> Round | Conclusion:
        return self.work.next_round(campaign.seen())

    def _measure(self, campaign: Campaign, step: Round, seconds: int) -> None:
        """Run one round and commit it; raises RoundError, which leaves the round open in the ledger."""
        begun = StoredRound(
            campaign.id,
            step.number,
            plan_of(step),
            None,
            self.clock(),
            None,
        )
        if campaign.interrupted() is None:
            with self.ledger.writing() as writer:
                writer.save_round(begun)
            campaign.rounds.append(begun)
        else:
            begun = campaign.rounds[-1]
        start = self.clock()
        seen = self.run_round(
            {
                "campaign": campaign.id,
                "number": step.number,
                "groups": [list(group) for group in step.groups],
                **self.work.arguments(step, seconds),
            }
        )
        answered = [tuple(item.get("group", ())) for item in seen]
        if answered != [tuple(group) for group in step.groups]:
            raise RoundError(f"observations are about {answered}, expected {list(step.groups)}")
        ended = StoredRound(begun.campaign, begun.number, begun.plan, seen, begun.started, self.clock())
        with self.ledger.writing() as writer:
            writer.save_round(ended)
        campaign.rounds[-1] = ended
        summary = self.work.summary(step.number, begun.plan, seen)
        self.tell(f"{self.stage} round {step.number} ({step.kind}, {self.clock() - start:.0f} s): {summary}")

    def _evidence(self, campaign: Campaign, conclusion: Conclusion, concluded: bool) -> list[Evidence]:
        finished = self.clock()
        details = self.work.details(campaign.seen())
        evidence = []
        for node in self.cohort.members:
            preflight = self.cohort.preflight[node]
            evidence.append(
                Evidence(
                    id=str(uuid.uuid4()),
                    node=node,
                    stage=self.stage,
                    started=campaign.started,
                    finished=max(finished, campaign.started),
                    boot_id=preflight.boot_id,
                    fingerprint=preflight.fingerprint,
                    expect_digest=expect_digest_of(self.stage, self.cohort.declared),
                    findings=conclusion.findings[node],
                    detail={
                        "campaign": campaign.id,
                        "concluded": concluded,
                        "held": conclusion.held.get(node, ""),
                        **details.get(node, {}),
                    },
                    muster_version=preflight.muster_version,
                    identity=preflight.identity,
                    rules=rules_of(self.stage),
                    program=program_digest(),
                )
            )
        return evidence


def led(run_round: RunRound, leader_lives: Callable[[], bool]) -> RunRound:
    """Return ``run_round`` as it is while its leader lives; raises Abandoned instead of starting or reporting after.

    What fails when a playbook is killed (its connections go with it) must not be recorded as trouble with a round.
    """

    def guarded(arguments: dict[str, Any]) -> list[dict[str, Any]]:
        if not leader_lives():
            raise Abandoned("the playbook that this worked for has ended")
        try:
            return run_round(arguments)
        except RoundError as exc:
            if leader_lives():
                raise
            raise Abandoned(f"the playbook that this worked for has ended: {exc}") from exc

    return guarded
