"""From a node's evidence to its state: pure, without clock, host or database, so that anyone can compute it again.

The evidence of a stage that came last decides it, by the ledger's order and never by the host's clock. If it cannot be
used, no older one takes its place: a part that dropped out during a test changes the fingerprint, and the pass from
before the fault must not come back with the part.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_plan import (
    shortfall,
    steps_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import required
from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import outdated
from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import (
    CLOSING,
    COMPONENTS,
    DEPENDS,
)
from ansible_collections.muster.cluster.plugins.module_utils.judging.identity import (
    Machine,
    claims_of,
    hardware_identifiers,
    misnamed,
    same_machine,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding, worst
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError, plain
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_policy import (
    Policy as Policy,  # noqa: PLC0414 - handed on to those who judge by it
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_policy import (
    PolicyError as PolicyError,  # noqa: PLC0414 - as above
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_policy import Waiver
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import (
    CLOCK_SKEW_SECONDS,
    DECISIONS,
    Doubt,
    Record,
)

Requirements = tuple[Mapping[str, Sequence[tuple[str, str]]], Mapping[str, str]]
# Those of a node without a hardware class: nothing passes it.
NO_REQUIREMENTS: Requirements = ({}, {})
STATES = ("new", "testing", "held", "rejected", "admitted", *DECISIONS)
# Nodes on which nothing is tested but what every run reads.
UNTESTED = ("quarantined", "retired")
# A maker may give many machines the same number of one kind; two kinds that agree are no accident.
LEAST_IDENTIFIERS = 2
# Slurm counts a boot back from the uptime when slurmd registers.
BOOT_SECONDS = 120.0
# Why a node is admitted; what was waived stands behind it.
PASSED = "every required check passed"
# Waivers that a reason names.
_NAMED = 5
# Stages whose conclusions have one version for all that they ask.
ROUNDS = ("fabric", "storage", "acceptance")
# What is asked behind all stages of a policy: the check that Slurm runs on nodes in service.
HEALTH = "health"
# What Slurm itself found of a node when its daemon registered.
REGISTRATION = "slurm_registration"


@dataclass(frozen=True)
class Trouble:
    """Why a node could not be examined in this run: ``stage`` it stopped in, ``check`` (``reach`` or the stage)."""

    stage: str
    check: str
    reason: str


@dataclass(frozen=True)
class Health:
    """What a node's health check said when the node was examined, as a module or Slurm handed it over.

    ``findings`` are those that did not pass. ``service_age`` tells how many seconds ago Slurm ran the check last, None
    for never; ``drained`` is the reason with which it drained the node, where it did.
    """

    verdict: str
    findings: tuple[Finding, ...] = ()
    service_age: float | None = None
    drained: str = ""

    @classmethod
    def from_answer(cls, data: Any, drained: str = "") -> Health:
        """Return what ``node_check`` gave; what cannot be read is incomplete."""
        try:
            age = data["service_age_seconds"]
            findings = tuple(Finding.from_dict(each) for each in data["findings"])
            verdict = str(data["verdict"])
        except (KeyError, TypeError, ValueError) as exc:
            why = "no health-check result in this run" if not data else f"its health-check result: {exc!r}"
            return cls(INCOMPLETE, (_stage_finding(HEALTH, why),), None, drained)
        return cls(verdict, findings, age if _is_number(age) else None, drained)


@dataclass(frozen=True)
class Case:
    """All that is known of one node when it is judged.

    ``required`` lists by stage the (check, subject) pairs of its hardware class; ``fingerprint`` is that of this run's
    preflight, None if there was none, and of that stage ``records`` holds this run's alone; ``admitted_since`` is set
    for a node that is in service, whose evidence had to be fresh when it was admitted. ``health`` is what the health
    check said in this run. ``doubts`` are those that no later evidence has answered.

    ``identity`` is what this run's preflight says of the machine, ``others`` are the names of the fleet's other nodes.
    ``claimed`` says which serial number of the machine another node claims too. ``slurm_booted`` is when the node
    booted that Slurm runs under this name, in seconds since the epoch; None where Slurm does not say.
    ``slurm_refused`` is what Slurm says of a node that has registered with less than is declared. ``drawn`` is the
    evidence that was to be judged on the control machine too, and has not been. ``compared`` is what its burn-in shows
    beside those of other nodes; ``judged`` is the last row of the ledger's evidence by which its state was judged.
    """

    node: str
    required: Mapping[str, Sequence[tuple[str, str]]]
    records: Sequence[Record]
    fingerprint: Mapping[str, str | None] | None
    expect_digests: Mapping[str, str]
    decision: str | None = None
    trouble: Trouble | None = None
    admitted_since: float | None = None
    health: Health | None = None
    doubts: Sequence[Doubt] = ()
    identity: Mapping[str, str | None] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    claimed: str = ""
    slurm_booted: float | None = None
    slurm_refused: str = ""
    drawn: frozenset[str] = frozenset()
    compared: Sequence[Finding] = ()
    judged: int = 0

    @property
    def in_service(self) -> bool:
        """Whether users may be on the node: only what shows a fault, or another machine, closes it."""
        return self.admitted_since is not None


@dataclass(frozen=True)
class Waived:
    """A finding that did not pass, and the waiver by which it counts as if it did."""

    finding: Finding
    waiver: Waiver

    @property
    def text(self) -> str:
        """What was accepted, by whom and until when."""
        found = self.finding
        return f"{found.check} {found.subject}: {found.verdict}, waived by {self.waiver.who} until {self.waiver.until}"

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as it was measured, and who accepted it, why and until when."""
        waiver = {"reason": self.waiver.reason, "who": self.waiver.who, "until": self.waiver.until}
        return {"finding": self.finding.to_dict(), "waiver": waiver}


@dataclass(frozen=True)
class StageVerdict:
    """What one stage's evidence says; ``usable`` is False where it says nothing about the node as it is now."""

    stage: str
    verdict: str
    findings: tuple[Finding, ...]
    usable: bool
    held: str = ""
    # Of which the findings are, "" where they are of none.
    evidence: str = ""
    # What did not pass and counts as passed by a waiver.
    waived: tuple[Waived, ...] = ()
    # Why a node in service, which this does not close, has to pass the stage again.
    due: str = ""


@dataclass(frozen=True)
class Judgement:
    """A node's state, the stage that decides it, and the findings up to that stage.

    ``faults`` are the stages that failed, ``evidence`` the ids of the records whose findings are among these.
    ``waived`` is what was accepted by a waiver, ``due`` says by stage why a node in service has to pass it again.
    """

    node: str
    state: str
    stage: str
    findings: tuple[Finding, ...]
    reason: str = field(default="")
    faults: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    waived: tuple[Waived, ...] = ()
    due: Mapping[str, str] = field(default_factory=dict)

    def without_passes(self) -> Judgement:
        """Return the judgement without the findings that passed, which are nearly all of them."""
        return replace(self, findings=tuple(finding for finding in self.findings if finding.verdict != PASS))

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as playbooks hand it on: what passed is in the ledger, under the ids in ``evidence``."""
        findings = [finding.to_dict() for finding in self.without_passes().findings]
        return {
            "node": self.node,
            "state": self.state,
            "stage": self.stage,
            "findings": findings,
            "evidence": list(self.evidence),
            "waived": [each.to_dict() for each in self.waived],
            "due": [{"stage": stage, "reason": reason} for stage, reason in self.due.items()],
        }


def judge(case: Case, policy: Policy, now: float) -> Judgement:
    """Return the node's state. Only a pass on every required pair of every stage gives ``admitted``."""
    verdicts = [stage_verdict(stage, case, policy, now) for stage in policy.stages]
    health = health_verdict(case, policy, now)
    waived = tuple(each for verdict in (*verdicts, *([health] if health else [])) for each in verdict.waived)
    due = {verdict.stage: verdict.due for verdict in verdicts if verdict.due}
    judgement = _judged(case, policy, verdicts, health)
    return replace(judgement, waived=waived, due=due if judgement.state == "admitted" else {})


def _judged(case: Case, policy: Policy, verdicts: Sequence[StageVerdict], health: StageVerdict | None) -> Judgement:
    """Return the judgement by the stages; ``health`` stands behind them all, as it says less of a part than they do."""
    everything = tuple(finding for verdict in verdicts for finding in verdict.findings)
    read = _evidence_of(verdicts)
    failed = [verdict for verdict in verdicts if verdict.verdict == FAIL]
    faults = tuple(verdict.stage for verdict in failed)
    if case.decision is not None:
        if case.decision not in DECISIONS:
            raise PolicyError(f"node {case.node}: decision {case.decision!r}, expected one of {', '.join(DECISIONS)}")
        told = health.findings if health is not None and health.verdict == FAIL else ()
        reason = f"an operator's decision: {case.decision}"
        return Judgement(case.node, case.decision, "", (*everything, *told), reason, faults, read)
    if case.trouble is None and case.fingerprint is None and not case.records:
        return Judgement(case.node, "new", policy.stages[0], (), "never examined")
    trouble = case.trouble
    if trouble is None and case.fingerprint is None:
        trouble = Trouble("preflight", "preflight", "not examined in this run")
    if trouble is not None:
        cause = _stage_finding(trouble.check, trouble.reason)
        measured = tuple(finding for finding in everything if finding.verdict == FAIL)
        return Judgement(case.node, "testing", trouble.stage, (cause, *measured), text_of(trouble.stage, cause), faults)
    open_stages = [verdict for verdict in verdicts if verdict.verdict != PASS]
    if not open_stages and health is not None and health.verdict != PASS:
        state = "rejected" if health.verdict == FAIL else "testing"
        findings = (*everything, *health.findings)
        return Judgement(case.node, state, HEALTH, findings, _worst_text(health), faults, read)
    if not open_stages:
        accepted = [each for verdict in (*verdicts, *([health] if health else [])) for each in verdict.waived]
        reason = "; ".join([PASSED, *(each.text for each in accepted[:_NAMED])])
        return Judgement(case.node, "admitted", policy.stages[-1], everything, reason, evidence=read)
    # A measured fault says more than what could not be measured before it, and of the two that look at the same host
    # burn-in says more than preflight: it names the part.
    decides = failed[0] if failed else open_stages[0]
    if faults[:2] == ("preflight", "burn_in"):
        decides = failed[1]
    so_far = verdicts[: verdicts.index(decides) + 1]
    findings = tuple(finding for verdict in so_far for finding in verdict.findings)
    state = "rejected" if decides.verdict == FAIL else "held" if decides.held else "testing"
    return Judgement(case.node, state, decides.stage, findings, _worst_text(decides), faults, _evidence_of(so_far))


def _evidence_of(verdicts: Sequence[StageVerdict]) -> tuple[str, ...]:
    return tuple(verdict.evidence for verdict in verdicts if verdict.evidence)


def health_verdict(case: Case, policy: Policy, now: float) -> StageVerdict | None:
    """Judge what the node's health check said, None where the site runs none.

    Of a node in service it must have run by itself, no longer ago than the policy says, as soon as it had the time to.
    """
    limit = policy.heartbeat_seconds
    if limit is None:
        return None
    health = case.health or Health.from_answer(None)
    waived = tuple(waived_of(case.node, health.findings, policy, now))
    accepted = {each.finding for each in waived}
    findings = [each for each in health.findings if each not in accepted]
    said = health.verdict if health.verdict in (PASS, FAIL) else INCOMPLETE
    # A node that does not know of a waiver yet says no more than its findings.
    told = PASS if waived and said == worst(each.verdict for each in health.findings) else said
    if told != PASS and not findings:
        findings.append(_stage_finding(HEALTH, f"its health check reported {health.verdict} without a reason"))
    if health.drained:
        why = f"its health check drained it: {health.drained}"
        findings.append(Finding(HEALTH, "host", FAIL, reason=why, action="investigate"))
    if case.admitted_since is not None and now - case.admitted_since > limit:
        age = health.service_age
        if age is None or not -CLOCK_SKEW_SECONDS <= age <= limit:
            when = "never" if age is None else f"last {age:.0f} s ago"
            why = f"Slurm ran its health check {when}, policy.heartbeat_seconds is {limit:g}"
            findings.append(_stage_finding("heartbeat", why))
    verdict = worst([told, *(each.verdict for each in findings)])
    return StageVerdict(HEALTH, verdict, tuple(findings), True, waived=waived)


def due_stages(case: Case, policy: Policy, now: float) -> tuple[str, ...]:
    """Return the stages that have still to be passed: preflight in any case, none that is still valid.

    With ``retest: false`` a stage that was measured and did not pass waits for an operator instead.
    """
    if case.decision in UNTESTED:
        return policy.stages[:1]
    verdicts = [stage_verdict(stage, case, policy, now) for stage in policy.stages[1:]]
    return (
        policy.stages[0],
        *(each.stage for each in verdicts if each.due or (each.verdict != PASS and (policy.retest or not each.usable))),
    )


def ready_for(stage: str, case: Case, policy: Policy, now: float) -> bool:
    """Return whether every stage before ``stage`` has been passed and is still valid.

    Burn-in waits for this run's preflight, not for its pass: it runs the same checks and more, and it is burn-in that
    names the GPU for want of which preflight could not even say who the host is.
    """
    if case.trouble is not None or stage not in policy.stages:
        return False
    before = policy.stages[: policy.stages.index(stage)]
    if before and case.fingerprint is None:
        return False
    if stage == "burn_in":
        before = before[1:]
    return all(stage_verdict(each, case, policy, now).verdict == PASS for each in before)


def runnable_stages(case: Case, policy: Policy, now: float) -> tuple[str, ...]:
    """Return the stages that are due and whose turn it is."""
    return tuple(stage for stage in due_stages(case, policy, now) if ready_for(stage, case, policy, now))


def stage_verdict(stage: str, case: Case, policy: Policy, now: float) -> StageVerdict:
    """Judge one stage of one node by the evidence of it that came last."""
    record, why = _decisive(stage, case, now)
    if record is None:
        return StageVerdict(stage, INCOMPLETE, (_stage_finding(stage, why),), False)
    evidence = record.evidence
    standing = _standing(evidence, case, policy, now)
    if standing.void:
        return StageVerdict(stage, INCOMPLETE, (_stage_finding(stage, standing.void),), False)
    doubts, owed, refused = list(standing.doubts), list(standing.due), list[Finding]()
    changed = outdated(evidence.rules, stage, (check for check, _part in case.required.get(stage, ())))
    anew = []
    if changed:
        anew.append(f"evidence {evidence.id}: judged by other rules than those of today: {', '.join(changed)}")
    if evidence.id in case.drawn:
        anew.append(f"evidence {evidence.id}: drawn to be judged on the control machine too, and was not")
    # A fault that it found stays one until the stage has been judged anew.
    if anew and not case.in_service and not evidence.faulty:
        return StageVerdict(stage, INCOMPLETE, tuple(_stage_finding(stage, text) for text in anew), False)
    owed += anew
    if stage == policy.stages[0]:
        wrong, unproven = identity_of_case(case)
        # Of a node in service only what shows another machine closes it.
        (owed if case.in_service else wrong).extend(unproven)
        doubts += [Finding("identity", "host", INCOMPLETE, reason=text, action="investigate") for text in wrong]
        if case.slurm_refused:
            refused.append(Finding(REGISTRATION, "host", FAIL, reason=case.slurm_refused, action="investigate"))
    measured, apart = _without_owed(evidence, case)
    owed += apart
    if stage == "burn_in":
        beside, apart = _beside_others(record, case, policy, now)
        measured += beside
        owed += apart
    # Of what the evidence says itself: nobody waives what it does not say, or that it is not of this machine.
    waived = tuple(waived_of(case.node, measured, policy, now))
    accepted = {each.finding for each in waived}
    findings = [each for each in measured if each not in accepted]
    findings += [*doubts, *refused, *_missing(stage, record, case, changed)]
    if stage == "burn_in" and (short := _too_short(evidence, policy)):
        findings.append(_stage_finding(stage, short))
    held = evidence.detail.get("held")
    if held:
        findings.append(_stage_finding(stage, f"held: {held}"))
    owed += [f"{each.source} doubts it: {each.reason}" for each in case.doubts if each.stage == stage]
    if not case.in_service:
        # What a node in service owes keeps others out.
        findings += [_stage_finding(stage, text) for text in owed]
        owed = []
    # A verdict outside the vocabulary is no pass either.
    verdicts = [each.verdict if each.verdict in (PASS, FAIL) else INCOMPLETE for each in findings]
    verdict = worst([*verdicts, *([PASS] if waived else [])])
    # A fault found on a host whose parts could not be read, and cannot be now, is a fault of that host.
    usable = not doubts or (verdict == FAIL and _same(evidence, case))
    return StageVerdict(stage, verdict, tuple(findings), usable, str(held or ""), evidence.id, waived, "; ".join(owed))


def fault_counts(evidence: Evidence, policy: Policy, now: float) -> bool:
    """Return whether a record has a measured fault that nobody waived."""
    faults = [finding for finding in evidence.findings if finding.verdict == FAIL]
    return len(list(waived_of(evidence.node, faults, policy, now))) < len(faults)


def waived_of(node: str, findings: Iterable[Finding], policy: Policy, now: float) -> Iterator[Waived]:
    """Yield the findings that did not pass and that the policy accepts on this node today."""
    for finding in findings:
        if finding.verdict != PASS and (waiver := policy.waiver_for(node, finding, now)) is not None:
            yield Waived(finding, waiver)


def requirements_of(classes: Mapping[str, Expectations], policy: Policy) -> dict[str, Requirements]:
    """Return by hardware class what each stage requires, and the digest of what it is judged by."""
    return {
        name: (
            {stage: _required(stage, expect, policy) for stage in policy.stages},
            {stage: expect_digest_of(stage, data) for stage in policy.stages},
        )
        for name, expect in classes.items()
        for data in (plain(expect),)
    }


def _required(stage: str, expect: Expectations, policy: Policy) -> Sequence[tuple[str, str]]:
    stresses = [name for step in policy.burn_in_steps for name in step.run] if stage == "burn_in" else ()
    try:
        return required(stage, expect, stresses)
    except ValueError:
        # A stage that requires nothing is incomplete, so one class that cannot be read stops no other.
        return ()


def text_of(stage: str, finding: Finding) -> str:
    """Return a finding as one line."""
    what = finding.reason or f"measured {finding.measured}, expected {finding.expected} {finding.unit}".rstrip()
    head = f"{stage}: " if finding.check == stage else f"{stage}: {finding.check} {finding.subject}: "
    return head + what


def _decisive(stage: str, case: Case, now: float) -> tuple[Record | None, str]:
    records = sorted((each for each in case.records if each.evidence.stage == stage), key=lambda each: each.order)
    if not records:
        return None, "no evidence"
    contents: dict[str, Evidence] = {}
    for record in records:
        if contents.setdefault(record.evidence.id, record.evidence) != record.evidence:
            return None, f"evidence {record.evidence.id}: two records have this id"
    last = records[-1]
    if wrong := _malformed(last, case.node, now):
        return None, f"evidence {last.evidence.id}: {wrong}"
    return last, ""


def _malformed(record: Record, node: str, now: float) -> str:
    evidence = record.evidence
    finished = evidence.started if evidence.finished is None else evidence.finished
    if evidence.node != node:
        return f"belongs to node {evidence.node}"
    if not _is_number(evidence.started) or not _is_number(finished):
        return "its times are not numbers"
    if finished < evidence.started:
        return "finished before it started"
    ahead = max(evidence.started, finished) - min(now, record.imported)
    if ahead > CLOCK_SKEW_SECONDS:
        return f"its times are {ahead:.0f} s in the future; check the host's clock"
    return ""


@dataclass(frozen=True)
class Standing:
    """What evidence says about the node as it is now: nothing (``void`` says why), or with what left open.

    ``due`` is what a node in service has to prove again for, without being closed.
    """

    void: str = ""
    due: tuple[str, ...] = ()
    doubts: tuple[Finding, ...] = ()


def _standing(evidence: Evidence, case: Case, policy: Policy, now: float) -> Standing:
    name = f"evidence {evidence.id}"
    if evidence.finished is None:
        return Standing(f"{name}: has not finished")
    if evidence.expect_digest != case.expect_digests.get(evidence.stage):
        return Standing(f"{name}: judged by other expectations than the hardware class has now")
    # Freshness is asked at admission; a node in service does not fall out of it by the calendar.
    at = case.admitted_since if case.admitted_since is not None and evidence.stage != "preflight" else now
    age, limit = (at - evidence.finished) / 3600, policy.fresh_limit(evidence.stage)
    if age > limit:
        return Standing(f"{name}: {age:.1f} h old, policy.fresh_hours is {limit:g}")
    if case.fingerprint is None:
        return Standing(f"{name}: nothing to compare it with, the node was not examined in this run")
    same = same_machine(Machine(evidence.identity, evidence.fingerprint), Machine(case.identity, case.fingerprint))
    if same.same is False:
        return Standing(f"{name}: taken on another machine: {same.text}")
    due = []
    if same.same is None:
        text = f"{name}: not shown to be of this machine: {same.text}"
        # A run that was cut off before it had read its host may still tell a fault.
        if not case.in_service and not evidence.faulty:
            return Standing(text)
        due.append(text)
    return _compared(evidence, case, due)


def _compared(evidence: Evidence, case: Case, due: list[str]) -> Standing:
    """Compare the components of the fingerprint on which the evidence rests; ``due`` is what is owed besides."""
    name, doubts = f"evidence {evidence.id}", []
    for component in DEPENDS.get(evidence.stage, COMPONENTS):
        current = (case.fingerprint or {}).get(component)
        then = _was(evidence, component, current)
        if then is not None and current is not None:
            if then != current:
                text = f"{name}: {component} was {then}, is {current}"
                # An error of a GPU is no other part, but a fault.
                if not case.in_service or component in CLOSING or (component == "gpu_errors" and current != "none"):
                    return Standing(text)
                due.append(text)
            continue
        text = f"{component} unreadable {'now' if current is None else f'in {name}'}"
        # A BMC that does not answer for once, or evidence from before a component was read, shows no other machine.
        if case.in_service and (component not in CLOSING or component not in evidence.fingerprint):
            due.append(text)
        else:
            doubts.append(Finding("fingerprint", component, INCOMPLETE, reason=text, action="investigate"))
    return Standing("", tuple(due), tuple(doubts))


def _without_owed(evidence: Evidence, case: Case) -> tuple[list[Finding], list[str]]:
    """Return the findings, and of a node in service apart what only has to be looked at again.

    That is what preflight could not read and no identity rests on, and what could not be judged on the control machine:
    after an upgrade another program has judged all nodes.
    """
    if not case.in_service:
        return list(evidence.findings), []
    known = all(evidence.fingerprint.get(name) is not None for name in CLOSING)
    owed = {"rejudged", *(["fingerprint"] if evidence.stage == "preflight" and known else [])}
    apart = [each for each in evidence.findings if each.check in owed and each.verdict == INCOMPLETE]
    return [each for each in evidence.findings if each not in apart], [each.reason for each in apart]


def _beside_others(record: Record, case: Case, policy: Policy, now: float) -> tuple[list[Finding], list[str]]:
    """Return what a burn-in shows beside those of other nodes, and of a node in service apart what has to be proven.

    A cohort moves, and no node may be closed because others were measured since. In a burn-in that was run since the
    node was judged it counts as what that burn-in found itself.
    """
    if not case.in_service or (record.order > case.judged and not record.evidence.judged_again):
        return list(case.compared), []
    accepted = {each.finding for each in waived_of(case.node, case.compared, policy, now)}
    return [], [text_of("burn_in", each) for each in case.compared if each not in accepted]


def identity_of_case(case: Case) -> tuple[list[str], list[str]]:
    """Return what shows that the machine that answered is not this node, and what keeps it from being shown to be."""
    wrong, unproven = list[str](), list[str]()
    kinds = hardware_identifiers(claims_of(case.identity, case.fingerprint or {}))
    if len(kinds) < LEAST_IDENTIFIERS:
        found = ", ".join(sorted(kinds)) or "none"
        unproven.append(f"identifiers of hardware: {found}; expected at least {LEAST_IDENTIFIERS} that are independent")
    named = misnamed(case.identity, case.node, case.others)
    if named is not None:
        (wrong if named.certain else unproven).append(named.text)
    booted, known = case.slurm_booted, _seconds(case.identity.get("boot_time"))
    if booted is not None and known is None:
        unproven.append("when the machine booted could not be read")
    elif booted is not None and known is not None and abs(booted - known) > BOOT_SECONDS:
        text = f"Slurm's node {case.node} booted {booted - known:+.0f} s from the machine that was examined"
        # A host that was rebooted is not known to Slurm as such before its daemon has registered.
        (unproven if case.in_service and booted < known else wrong).append(text)
    if case.claimed:
        unproven.append(case.claimed)
    return wrong, unproven


def _seconds(text: str | None) -> float | None:
    """Return a time that a node said, None where it is none."""
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None


def _same(evidence: Evidence, case: Case) -> bool:
    current = case.fingerprint or {}
    depends = DEPENDS.get(evidence.stage, COMPONENTS)
    return all(_was(evidence, name, current.get(name)) == current.get(name) for name in depends)


def _was(evidence: Evidence, component: str, current: str | None) -> str | None:
    """Return what a component was; evidence from before it was read had none, if there is none now by the class."""
    return evidence.fingerprint.get(component, "none" if current == "none" else None)


def _missing(stage: str, record: Record, case: Case, changed: Collection[str]) -> list[Finding]:
    """Return what the evidence does not say; ``changed`` are the rules by which it would be judged otherwise now."""
    required = case.required.get(stage, ())
    if not required:
        return [_stage_finding(stage, "the hardware class requires no check of this stage")]
    # A node in service was tested before there was this check, or by another version: it owes the stage. What stages in
    # rounds ask has the version of the stage.
    owed = {each for each in changed if case.in_service}
    owed |= {check for check, _part in required if stage in owed and stage in ROUNDS}
    given = {(finding.check, finding.subject) for finding in record.evidence.findings}
    return [
        Finding(check, subject, INCOMPLETE, reason="no finding in the evidence", action="investigate")
        for check, subject in required
        if (check, subject) not in given and check not in owed
    ]


def _too_short(evidence: Evidence, policy: Policy) -> str:
    """Return in what the run did less than the least profile of the policy, "" if in nothing."""
    asked = f"policy.burn_in_profile {policy.burn_in_profile}"
    try:
        done = steps_of(evidence.detail.get("steps"))
    except ReadError as exc:
        return f"the evidence does not say what was done: {exc}; {asked}"
    if less := shortfall(done, policy.burn_in_steps):
        return f"profile {evidence.detail.get('profile')} does less than {asked}: {less}"
    wanted = sum(step.seconds for step in policy.burn_in_steps)
    elapsed = evidence.detail.get("elapsed_seconds")
    if not _is_number(elapsed):
        return f"lasted {elapsed!r} s; {asked} asks {wanted:g} s"
    if not elapsed >= wanted:
        # Never rounded up to what was asked.
        return f"lasted {math.floor(elapsed * 10) / 10:g} s; {asked} asks {wanted:g} s"
    # Only finished evidence comes here. Two clocks have to agree: what the run counted, and its begin and end.
    span = (evidence.finished or evidence.started) - evidence.started
    if not span >= wanted:
        return f"{span:.0f} s lie between its begin and its end; {asked} asks {wanted:g} s"
    return ""


def _stage_finding(check: str, reason: str) -> Finding:
    return Finding(check, "host", INCOMPLETE, reason=reason, action="investigate" if check == "reach" else "none")


def _worst_text(verdict: StageVerdict) -> str:
    ranks = {verdict.verdict: 0}
    return text_of(verdict.stage, min(verdict.findings, key=lambda each: ranks.get(each.verdict, 1)))


def _is_number(value: Any) -> TypeGuard[float]:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False
