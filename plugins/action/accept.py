"""Action plugin accept: walks acceptance rounds, commits each to the ledger, and leaves evidence of what was concluded.

A round is in the ledger before the next is planned, and the plan is a pure function of the recorded rounds: a run that
was killed is taken up by the next one where the record ends. All evidence of a campaign is one transaction.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.module_utils.common.text.converters import to_text
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.evidence import (
    Evidence,
    EvidenceError,
    digest_of,
    expect_digest_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.finding import FAIL, INCOMPLETE, worst
from ansible_collections.muster.cluster.plugins.module_utils.fingerprint import DEPENDS
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.judging import (
    BAD,
    GOOD,
    Observation,
    Outcome,
    Settings,
    SettingsError,
    judge,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.planning import (
    Conclusion,
    Round,
    conclude_early,
    next_round,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import Ledger, LedgerError, StoredRound

STAGE = "acceptance"
# Stands for a round in the ledger once a campaign has its evidence.
CONCLUDED = "concluded"
# An interrupted campaign is taken up again for so long after its first round, chosen as less than it takes to find and
# mend something. Older ones begin anew: good pairs cost a round or two, blame for what was mended since costs trust.
RESUME_SECONDS = 15 * 60
# A round is not started in the last moments of the budget: torch alone takes seconds to load.
LEAST_ROUND_SECONDS = 20
# What a round may take beyond its collectives: waiting for Slurm, launch, cancelling.
SPARE_SECONDS = 120
# More groups than this are told by number, the bad ones by name.
TOLD_GROUPS = 8


RunRound = Callable[[dict[str, Any]], list[dict[str, Any]]]


class RoundError(Exception):
    """The controller could not run a round; nothing is known about the nodes from it."""


class Abandoned(Exception):
    """The run that this process worked for has ended; the record is left to the next run."""


@dataclass(frozen=True)
class Request:
    """What the play asks for. ``evidence`` holds this run's preflight evidence by node."""

    fleet: Mapping[str, Any]
    nodes: Sequence[str]
    partners: Sequence[str] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    port: int = 29400
    budget_seconds: int = 3600
    round_seconds: int = 300
    check: bool = False


@dataclass(frozen=True)
class Cohort:
    """Nodes of one hardware class on one fabric, with what their evidence will carry."""

    hardware_class: str
    members: tuple[str, ...]
    partners: tuple[str, ...]
    preflight: Mapping[str, Evidence]
    expect: Mapping[str, Any]

    def identity(self, surroundings: Mapping[str, Any]) -> str:
        """Return the digest of everything that the campaign's observations depend on."""
        nodes = {
            name: [
                self.preflight[name].boot_id,
                {key: self.preflight[name].fingerprint.get(key) for key in DEPENDS[STAGE]},
            ]
            for name in self.members
        }
        expect = expect_digest_of(STAGE, self.expect)
        return digest_of({"nodes": nodes, "expect": expect, "surroundings": surroundings})[:12]


@dataclass
class Campaign:
    """The rounds of one cohort: ``plan`` is what each was to do, by number."""

    id: str
    started: float
    rounds: list[StoredRound] = field(default_factory=list)

    def observations(self) -> list[Observation]:
        """Return what the finished rounds saw."""
        return [
            Observation.from_dict(stored.number, item)
            for stored in self.rounds
            if stored.finished is not None
            for item in stored.observations or []
        ]

    def interrupted(self) -> Round | None:
        """Return the round that was begun and has no end, to be run again as it was planned."""
        last = self.rounds[-1] if self.rounds else None
        if last is None or last.finished is not None:
            return None
        return Round(last.number, last.plan["kind"], tuple(tuple(group) for group in last.plan["groups"]))


@dataclass(frozen=True)
class Means:
    """How a campaign reaches the world: ``run_round`` raises RoundError, ``clock`` gives seconds since the epoch."""

    run_round: RunRound
    tell: Callable[[str], None]
    clock: Callable[[], float]


def accept(request: Request, means: Means) -> dict[str, Any]:
    """Bring every cohort's campaign to its conclusion and return the task's result; raises LedgerError."""
    fleet = request.fleet
    ledger = Ledger.open(fleet["ledger"]["url"], fleet["ledger"]["id"], fleet["cluster"], read_only=request.check)
    if request.check:
        return _accept(request, ledger, means)
    # A killed playbook's worker lives on until its round ends: two must never walk the same campaign.
    with ledger.locked(request.round_seconds + SPARE_SECONDS, work="proving"):
        return _accept(request, ledger, means)


def _accept(request: Request, ledger: Ledger, means: Means) -> dict[str, Any]:
    cohorts, skipped = cohorts_of(request)
    end = means.clock() + request.budget_seconds
    result: dict[str, Any] = {"changed": False, "campaigns": [], "evidence": {}, "skipped": skipped}
    for cohort in cohorts:
        walk = Walk(request, cohort, ledger, means)
        summary, evidence = walk.planned() if request.check else walk.concluded(end)
        result["campaigns"].append(summary)
        result["evidence"].update({item.node: [item.to_dict()] for item in evidence})
    return result


def cohorts_of(request: Request) -> tuple[list[Cohort], dict[str, str]]:
    """Return the nodes by hardware class, and why a node is in no cohort."""
    known = request.fleet["nodes"]
    skipped: dict[str, str] = {}
    preflight: dict[str, Evidence] = {}
    for name in request.nodes:
        if known.get(name, {}).get("role") != "compute":
            skipped[name] = "not a compute node of the fleet"
            continue
        found, why = _preflight(name, request.evidence.get(name))
        if found is None:
            skipped[name] = why
        else:
            preflight[name] = found
    cohorts = []
    for hardware_class in sorted({known[name]["hardware_class"] for name in preflight}):
        members = sorted(name for name in preflight if known[name]["hardware_class"] == hardware_class)
        partners = sorted(
            name
            for name in set(request.partners) - set(request.nodes)
            if known.get(name, {}).get("hardware_class") == hardware_class
        )
        expect = request.fleet["classes"][hardware_class]
        mine = {name: preflight[name] for name in members}
        cohorts.append(Cohort(hardware_class, tuple(members), tuple(partners), mine, expect))
    return cohorts, skipped


def _preflight(name: str, given: Any) -> tuple[Evidence | None, str]:
    items = given if isinstance(given, Sequence) and not isinstance(given, str) else [given] if given else []
    found = []
    for item in items:
        try:
            evidence = Evidence.from_dict(item)
        except EvidenceError as exc:
            return None, str(exc)
        if evidence.node == name and evidence.stage == "preflight":
            found.append(evidence)
    if not found:
        return None, "no preflight evidence of this run: nothing to tie a measurement to"
    return max(found, key=lambda evidence: evidence.started), ""


class Walk:
    """One cohort's way from its first round, or from where an earlier run was interrupted, to evidence."""

    def __init__(self, request: Request, cohort: Cohort, ledger: Ledger, means: Means) -> None:
        self.request = request
        self.cohort = cohort
        self.ledger = ledger
        self.run_round = means.run_round
        self.tell = means.tell
        self.clock = means.clock
        self.fault = ""
        self.interface = request.fleet.get("fabric", {}).get("socket_interface")
        self.environment = {str(key): str(value) for key, value in request.environment.items()}
        racks = {name: node.get("rack") for name, node in request.fleet["nodes"].items()}
        try:
            self.settings = Settings.from_expect(cohort.expect.get("collective"), racks)
        except SettingsError as exc:
            self.fault = f"hardware class {cohort.hardware_class}: {exc}"
            self.settings = Settings(1, (), 1, (), racks)

    def planned(self) -> tuple[dict[str, Any], list[Evidence]]:
        """Return what would be done next, having done nothing."""
        campaign = self._campaign()
        step = campaign.interrupted() or self._next(campaign)
        plan = {"number": step.number, "kind": step.kind, "groups": step.groups} if isinstance(step, Round) else None
        return {"class": self.cohort.hardware_class, "campaign": campaign.id, "next_round": plan}, []

    def concluded(self, end: float) -> tuple[dict[str, Any], list[Evidence]]:
        """Run rounds until the conclusion or ``end`` and record the evidence."""
        campaign = self._campaign()
        if campaign.rounds:
            self.tell(f"acceptance campaign {campaign.id} goes on after {len(campaign.observations())} observations")
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
                    self._measure(campaign, step, int(min(left, self.request.round_seconds)))
                except RoundError as exc:
                    stopped = f"round {step.number} could not be run: {exc}"
            if stopped:
                self.tell(f"acceptance {stopped}")
                step = self._early(campaign, stopped)
                break
        evidence = self._evidence(campaign, step, not stopped)
        self._record(campaign, evidence, not stopped)
        self._tell_conclusion(step)
        summary = {
            "class": self.cohort.hardware_class,
            "campaign": campaign.id,
            "concluded": not stopped,
            "rounds": len(campaign.rounds),
            "held": dict(step.held),
            "doubted": dict(step.doubted),
            "verdicts": {item.node: worst(finding.verdict for finding in item.findings) for item in evidence},
        }
        return summary, evidence

    def _record(self, campaign: Campaign, evidence: Sequence[Evidence], concluded: bool) -> None:
        """Write the evidence and, with it or not at all, that the campaign has ended."""
        now = self.clock()
        last = campaign.rounds[-1].number if campaign.rounds else 0
        with self.ledger.writing() as writer:
            refused = writer.add_evidence(evidence, now)
            if refused:
                raise LedgerError("; ".join(each.reason for each in refused))
            if concluded:
                writer.save_round(StoredRound(campaign.id, last + 1, {"kind": CONCLUDED, "groups": []}, [], now, now))

    def _tell_conclusion(self, conclusion: Conclusion) -> None:
        for node, findings in conclusion.findings.items():
            for finding in findings:
                if finding.verdict == FAIL:
                    self.tell(f"acceptance rejects {node}: {finding.reason} (floor {finding.expected} {finding.unit})")
        for node, why in conclusion.held.items():
            self.tell(f"acceptance holds {node}: {why}")
        for node, why in conclusion.doubted.items():
            self.tell(f"acceptance doubts {node}, which is in service: {why}")

    def _campaign(self) -> Campaign:
        """Return the campaign that an earlier run left open for the very same nodes, else a new one."""
        surroundings = {"environment": self.environment, "socket_interface": self.interface}
        identity, now = self.cohort.identity(surroundings), self.clock()
        with self.ledger.reading() as reader:
            stored = [each for each in reader.rounds() if each.campaign.startswith(f"{identity}-")]
        if stored:
            rounds = [each for each in stored if each.campaign == stored[-1].campaign]
            ended = rounds[-1].plan["kind"] == CONCLUDED
            if not ended and 0 <= now - rounds[0].started < RESUME_SECONDS:
                return Campaign(rounds[0].campaign, rounds[0].started, rounds)
        return Campaign(f"{identity}-{int(now * 1000):x}", now)

    def _next(self, campaign: Campaign) -> Round | Conclusion:
        if self.fault:
            return self._early(campaign, self.fault)
        return next_round(self.cohort.members, self.cohort.partners, campaign.observations(), self.settings)

    def _early(self, campaign: Campaign, reason: str) -> Conclusion:
        return conclude_early(self.cohort.members, self.cohort.partners, campaign.observations(), self.settings, reason)

    def _measure(self, campaign: Campaign, step: Round, seconds: int) -> None:
        """Run one round and commit it; raises RoundError, which leaves the round open in the ledger."""
        begun = StoredRound(
            campaign.id,
            step.number,
            {"kind": step.kind, "groups": [list(group) for group in step.groups]},
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
        seen = self.run_round(self._arguments(campaign, step, seconds))
        answered = [tuple(item.get("group", ())) for item in seen]
        if answered != [tuple(group) for group in step.groups]:
            raise RoundError(f"observations are about {answered}, expected {list(step.groups)}")
        ended = StoredRound(begun.campaign, begun.number, begun.plan, seen, begun.started, self.clock())
        with self.ledger.writing() as writer:
            writer.save_round(ended)
        campaign.rounds[-1] = ended
        outcomes = [judge(Observation.from_dict(step.number, item), self.settings) for item in seen]
        self.tell(f"acceptance round {step.number} ({step.kind}, {self.clock() - start:.0f} s): {told(outcomes)}")

    def _arguments(self, campaign: Campaign, step: Round, seconds: int) -> dict[str, Any]:
        fleet, collective = self.request.fleet, self.cohort.expect["collective"]
        environment = dict(self.environment)
        if collective["backend"] == "gloo" and self.interface:
            environment.setdefault("GLOO_SOCKET_IFNAME", self.interface)
        used = {node for group in step.groups for node in group}
        return {
            "campaign": campaign.id,
            "number": step.number,
            "groups": [list(group) for group in step.groups],
            "addresses": {node: fleet["nodes"][node]["address"] for node in sorted(used)},
            "collective": dict(collective),
            "environment": environment,
            "port": self.request.port + 100 * (step.number % 10),
            "deadline_seconds": seconds,
            "timeout_seconds": max(10, seconds // 3),
        }

    def _evidence(self, campaign: Campaign, conclusion: Conclusion, concluded: bool) -> list[Evidence]:
        finished = self.clock()
        observations = campaign.observations()
        outcomes = [judge(observation, self.settings) for observation in observations]
        versions = versions_of(observations)
        evidence = []
        for node in self.cohort.members:
            preflight = self.cohort.preflight[node]
            mine = [outcome for outcome in outcomes if node in outcome.group]
            evidence.append(
                Evidence(
                    id=str(uuid.uuid4()),
                    node=node,
                    stage=STAGE,
                    started=campaign.started,
                    finished=max(finished, campaign.started),
                    boot_id=preflight.boot_id,
                    fingerprint=preflight.fingerprint,
                    expect_digest=expect_digest_of(STAGE, self.cohort.expect),
                    findings=conclusion.findings[node],
                    detail={
                        "campaign": campaign.id,
                        "concluded": concluded,
                        "held": conclusion.held.get(node, ""),
                        "rounds": [_round_detail(outcome) for outcome in mine],
                        "versions": versions.get(node, {}),
                    },
                    muster_version=preflight.muster_version,
                )
            )
        return evidence


def versions_of(observations: Sequence[Observation]) -> dict[str, dict[str, list[str]]]:
    """Return, by node and library, the versions that its ranks reported; more than one is worth a look."""
    found: dict[str, dict[str, set[str]]] = {}
    for observation in observations:
        for rank in observation.ranks:
            for library, version in (rank.get("versions") or {}).items():
                found.setdefault(rank["node"], {}).setdefault(library, set()).add(version)
    return {node: {library: sorted(seen) for library, seen in sorted(used.items())} for node, used in found.items()}


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


def told(outcomes: Sequence[Outcome]) -> str:
    """Return a round in one line: every group of a few, of many only those that are not good."""
    shown = outcomes if len(outcomes) <= TOLD_GROUPS else [each for each in outcomes if each.verdict != GOOD]
    parts = [_told(outcome) for outcome in shown[: 2 * TOLD_GROUPS]]
    if len(parts) < len(outcomes):
        good = sum(outcome.verdict == GOOD for outcome in outcomes)
        parts.append(f"{good} of {len(outcomes)} groups good")
    return "; ".join(parts)


def _told(outcome: Outcome) -> str:
    names = "+".join(outcome.group) if len(outcome.group) <= TOLD_GROUPS else f"{len(outcome.group)} nodes"
    if outcome.measured is None:
        return f"{names} {'failed' if outcome.verdict == BAD else INCOMPLETE}: {outcome.reason[:200]}"
    if outcome.verdict == GOOD:
        return f"{names} {outcome.measured:.3g} GB/s"
    return f"{names} slow {outcome.measured:.3g} of {outcome.expected:g} GB/s"


def _round_detail(outcome: Outcome) -> dict[str, Any]:
    return {
        "number": outcome.number,
        "group": list(outcome.group),
        "verdict": outcome.verdict,
        "measured": outcome.measured,
        "expected": outcome.expected,
        "size_bytes": outcome.size_bytes,
        "reason": outcome.reason,
    }


class ActionModule(ActionBase):
    """Run acceptance from the host that the task is delegated to."""

    _supports_check_mode = True
    _supports_async = False
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the task's result; a node that did not pass does not fail the task."""
        super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(
            argument_spec={
                "fleet": {"type": "dict", "required": True},
                "nodes": {"type": "list", "elements": "str", "required": True},
                "partners": {"type": "list", "elements": "str", "default": []},
                "evidence": {"type": "dict", "required": True},
                "environment": {"type": "dict", "default": {}},
                "port": {"type": "int", "default": 29400},
                "budget_seconds": {"type": "int", "default": 3600},
                "round_seconds": {"type": "int", "default": 300},
            }
        )
        request = Request(**given, check=self._task.check_mode)

        # This runs in a worker of its own, which a kill of the playbook does not reach.
        parent = os.getppid()
        run_round = led(lambda arguments: self._run_round(arguments, task_vars or {}), lambda: os.getppid() == parent)
        try:
            return accept(request, Means(run_round, Display().display, time.time))
        except (LedgerError, Abandoned) as exc:
            raise AnsibleActionFail(str(exc)) from exc
        except KeyError as exc:
            raise AnsibleActionFail(f"fleet lacks {exc}, expected the variable muster_fleet") from exc

    def _run_round(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            result = self._execute_module(
                module_name="muster.cluster.collective_round", module_args=arguments, task_vars=task_vars
            )
        except AnsibleConnectionFailure as exc:
            raise RoundError(f"controller not reachable: {to_text(exc)}") from exc
        if result.get("failed") or result.get("unreachable") or not isinstance(result.get("observations"), list):
            said = ["no observations", result.get("msg"), result.get("exception"), result.get("module_stderr")]
            raise RoundError(": ".join(to_text(text).strip() for text in said if text)[:1000])
        observations: list[dict[str, Any]] = result["observations"]
        return observations
