"""Action plugin admit: evidence into the ledger, states out of it, and the gate made to follow.

Order is what makes a kill harmless. Nodes are closed first, the ledger is committed next, nodes are opened last and
only from what was committed: wherever the process dies, the gate is open for no node that the ledger does not admit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.muster.cluster.plugins.module_utils import drain_reason
from ansible_collections.muster.cluster.plugins.module_utils.evidence import Evidence, EvidenceError
from ansible_collections.muster.cluster.plugins.module_utils.finding import PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.admission import (
    DECISIONS,
    HEALTH,
    NO_RULES,
    UNTESTED,
    Case,
    Health,
    Judgement,
    Policy,
    PolicyError,
    Trouble,
    judge,
    rules_of,
    stage_verdict,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.cases import (
    cases_of,
    compute_nodes,
    reclassified,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.gate import (
    closes_of,
    mass_close,
    only_closing,
    opened_in,
    still_open,
    unconfirmed,
    wanted_partitions,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import (
    Ledger,
    LedgerError,
    Transition,
    Writer,
    operator,
)

CREATE_HINT = "restore the ledger from its newest copy (docs/admission.md)"
# Runs a module of ours on the controller, given its name and arguments.
Execute = Callable[[str, dict[str, Any]], dict[str, Any]]


class GateError(Exception):
    """The controller could not be asked or did not do what it was asked; ``edit`` is what it did before."""

    def __init__(self, message: str, edit: GateEdit | None = None) -> None:
        super().__init__(message)
        self.edit = edit


@dataclass(frozen=True)
class GateInfo:
    """The gate as the controller has it: its file's header, who is open there and live, what Slurm says of nodes."""

    ledger_id: str | None
    generation: int
    partitions: Mapping[str, Sequence[str]]
    live_partitions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unreachable: frozenset[str] = frozenset()
    drains: Mapping[str, str] = field(default_factory=dict)
    state_lost: bool = False
    # State and reason of every node, as slurm_gate_info gives them.
    nodes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class GateEdit:
    """What one reconciliation changed, by partition."""

    changed: bool
    opened: Sequence[str] = ()
    closed: Sequence[str] = ()
    diff: Any = None
    resumed: Sequence[str] = ()
    jobs_ended: Sequence[str] = ()


class Gate(Protocol):
    """The controller's gate."""

    def read(self) -> GateInfo:
        """Return what the controller has; raises GateError."""

    def write(
        self,
        partitions: Sequence[Mapping[str, Any]],
        generation: int,
        drains: Mapping[str, str],
        resume: Mapping[str, Mapping[str, Any]],
    ) -> GateEdit:
        """Make file and controller list these nodes, and let those of ``resume`` back; raises GateError."""


@dataclass(frozen=True)
class Request:
    """What the play asks of one admission."""

    fleet: Mapping[str, Any]
    nodes: Sequence[str]
    evidence: Mapping[str, Any] = field(default_factory=dict)
    health: Mapping[str, Any] = field(default_factory=dict)
    stopped: Mapping[str, str] = field(default_factory=dict)
    unreachable: Sequence[str] = ()
    close_only: bool = False
    allow_mass_close: bool = False
    check: bool = False


@dataclass(frozen=True)
class Plan:
    """What one admission will record and render.

    ``opened`` is who is open now, ``stop`` why doubtful nodes are left as they are. ``partitions`` is None where the
    gate is left alone.
    """

    moves: dict[str, tuple[str, str, str]]
    opened: Mapping[str, Sequence[str]]
    partitions: list[dict[str, Any]] | None
    drains: dict[str, str]
    stop: str
    resume: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What one admission did; ``trouble`` says what kept the gate from following."""

    plan: Plan
    moves: Sequence[Transition]
    edits: Sequence[GateEdit]
    generation: int
    trouble: str


def admit(request: Request, gate: Gate, now: float, who: str) -> dict[str, Any]:
    """Judge the targeted nodes, record what changed and reconcile the gate; return the task's result.

    Raises LedgerError when the ledger cannot be trusted; nothing is changed then.
    """
    fleet = request.fleet
    ledger = Ledger.open(fleet["ledger"]["url"], fleet["ledger"]["id"], fleet["cluster"], read_only=request.check)
    if request.check:
        return _admit(request, ledger, gate, now, who)
    with ledger.locked():
        return _admit(request, ledger, gate, now, who)


def _admit(request: Request, ledger: Ledger, gate: Gate, now: float, who: str) -> dict[str, Any]:
    info, trouble = _read(gate)
    evidence, unread = parse_evidence(request.evidence)
    edits: list[GateEdit] = []
    with ledger.rehearsing() if request.check else ledger.writing() as writer:
        compare(ledger, writer.generation(), info)
        classes = {name: node["hardware_class"] for name, node in compute_nodes(request.fleet).items()}
        writer.declare(classes, now)
        for item in writer.add_evidence([each for items in evidence.values() for each in items], now):
            unread.setdefault(item.node, item.reason)
        writer.add_evidence(list(health_evidence(request).values()), now)
        quarantined = drained_by_health(request, writer, info)
        cases = cases_to_judge(request, writer, Found(evidence, unread, info, quarantined), now)
        policy = Policy.from_fleet(request.fleet["policy"])
        judgements = {name: judge(case, policy, now) for name, case in cases.items()}
        plan = plan_of(request, writer, judgements, info, quarantined)
        plan = replace(plan, resume=resumable(request, cases, evidence, now))
        renders = info is not None and plan.partitions is not None
        if info is not None and plan.partitions is not None and closes_of(plan.partitions, plan.opened):
            closing = only_closing(plan.partitions, plan.opened)
            trouble = _write(gate, replace(plan, partitions=closing), writer.generation(), edits) or trouble
        # A decision of the node's own check, by it and not by who runs this.
        decided = [
            move
            for name, reason in sorted(quarantined.items())
            if name in plan.moves and (move := writer.decide(name, "quarantined", reason, HEALTH, now)) is not None
        ]
        # What no gate is rendered from is counted when one is.
        rest = {name: move for name, move in plan.moves.items() if name not in quarantined}
        moves = [*decided, *writer.move(rest, who, now, compared=renders)]
        # A node that is no longer admitted follows the fleet file's class.
        writer.declare(classes, now)
        if info is not None:
            writer.keep_drains(plan.drains, now)
        generation = writer.generation()
    if info is not None and plan.partitions is not None and not trouble:
        trouble = _write(gate, plan, generation, edits)
    return _result(request, judgements, Outcome(plan, moves, edits, generation, trouble))


def compare(ledger: Ledger, generation: int, info: GateInfo | None) -> None:
    """Raise LedgerError if the gate was rendered from another ledger or from a newer copy of this one."""
    if info is None or info.ledger_id is None:
        return
    if info.ledger_id != ledger.id:
        raise LedgerError(
            f"the controller's gate was rendered from ledger {info.ledger_id}, the fleet file's ledger.id is "
            f"{ledger.id}; nothing was changed"
        )
    if info.generation > generation:
        raise LedgerError(
            f"ledger {ledger.id} is at generation {generation}, the controller's gate was rendered from generation "
            f"{info.generation}: this is an older copy; {CREATE_HINT}; nothing was changed"
        )


def parse_evidence(given: Mapping[str, Any]) -> tuple[dict[str, list[Evidence]], dict[str, str]]:
    """Return this run's preflights by node (one record or a list of them), and why a node's could not be read.

    What other stages found comes into the ledger by who watched them: a host's word about itself is not enough.
    """
    parsed: dict[str, list[Evidence]] = {}
    unread: dict[str, str] = {}
    for node, items in given.items():
        parsed[node] = []
        for item in items if isinstance(items, list | tuple) else [items]:
            try:
                evidence = Evidence.from_dict(item)
            except EvidenceError as exc:
                unread.setdefault(node, str(exc))
                continue
            if evidence.node != node:
                unread.setdefault(node, f"evidence {evidence.id}: belongs to node {evidence.node}")
                continue
            if evidence.stage != "preflight":
                unread.setdefault(node, f"evidence {evidence.id}: is {evidence.stage}, expected preflight")
                continue
            parsed[node].append(evidence)
    return parsed, unread


@dataclass(frozen=True)
class Found:
    """What this run has in hand to judge nodes by, besides the ledger."""

    evidence: Mapping[str, Sequence[Evidence]]
    unread: Mapping[str, str]
    info: GateInfo | None
    quarantined: Mapping[str, str]


def cases_to_judge(request: Request, writer: Writer, found: Found, now: float) -> dict[str, Case]:
    """Return the case of every targeted node."""
    preflights = {name: items[-1] if (items := found.evidence.get(name)) else None for name in request.nodes}
    troubles = {
        name: trouble
        for name in request.nodes
        if (trouble := _trouble(request, name, found.unread.get(name), preflights[name] is not None)) is not None
    }
    drained = {} if request.close_only or found.info is None else _health_drains(found.info)
    healths = {
        # Of a node under test it was found while the node was tested.
        name: Health.from_answer(request.health.get(name), drained.get(name, ""))
        for name in request.nodes
    }
    return {
        name: replace(
            case,
            health=healths[name],
            decision="quarantined" if name in found.quarantined else case.decision,
        )
        for name, case in cases_of(request.fleet, writer, preflights, now, troubles).items()
    }


def health_evidence(request: Request) -> dict[str, Evidence]:
    """Return by node the evidence of a health check that did not pass; what is none, or another's, is left out."""
    found = {}
    for name, answer in request.health.items():
        try:
            evidence = Evidence.from_dict(answer["evidence"])
        except (EvidenceError, KeyError, TypeError):
            continue
        if evidence.node == name and evidence.stage == HEALTH:
            found[name] = evidence
    return found


def _health_drains(info: GateInfo) -> dict[str, str]:
    """Return the reason of every drain by a health check that measured a fault."""
    return {
        name: str(node.get("reason", ""))
        for name, node in info.nodes.items()
        if "DRAIN" in str(node.get("state", "")).split("+") and drain_reason.fault_in(str(node.get("reason", "")))
    }


def drained_by_health(request: Request, writer: Writer, info: GateInfo | None) -> dict[str, str]:
    """Return the nodes in service, targeted or not, that their health check drained, and the reason to record."""
    if info is None:
        return {}
    states, reasons = writer.states(), {}
    for name, reason in _health_drains(info).items():
        fault = drain_reason.fault_in(reason)
        if fault is not None and name in compute_nodes(request.fleet) and states.get(name) == "admitted":
            reasons[name] = f"{fault.check} failed in service, evidence {fault.evidence_id or 'unknown'}"
    return reasons


def resumable(
    request: Request, cases: Mapping[str, Case], evidence: Mapping[str, Sequence[Evidence]], now: float
) -> dict[str, dict[str, Any]]:
    """Return the nodes that Slurm may let back, as slurm_gate takes them: those whose preflight of this run passed."""
    policy = Policy.from_fleet(request.fleet["policy"])
    return {
        name: {
            "boot_id": evidence[name][-1].boot_id,
            "began": evidence[name][-1].started,
            # A fault is given another chance before the tests, never behind them.
            "in_service": not request.close_only or case.admitted_since is not None,
            "healthy": case.health is not None and case.health.verdict == PASS,
        }
        for name, case in cases.items()
        if case.trouble is None
        and case.decision not in UNTESTED
        and evidence.get(name)
        and stage_verdict("preflight", case, policy, now).verdict == PASS
    }


def _trouble(request: Request, name: str, unread: str | None, examined: bool) -> Trouble | None:
    if name in request.unreachable:
        return Trouble("preflight", "reach", "unreachable in this run")
    if name in request.stopped:
        why = request.stopped[name] or "the reason is not known"
        return Trouble("preflight", "preflight", f"stopped in this run: {why}")
    if unread:
        return Trouble("preflight", "preflight", f"evidence of this run was not accepted: {unread}")
    return None if examined else Trouble("preflight", "preflight", "not examined in this run; the reason is not known")


def plan_of(
    request: Request,
    writer: Writer,
    judgements: Mapping[str, Judgement],
    info: GateInfo | None,
    quarantined: Mapping[str, str],
) -> Plan:
    """Return what to record and to render: new states, wanted partitions, drains, and the breaker's word."""
    rows = writer.nodes()
    before = {name: row.state for name, row in rows.items()}
    moves = {
        name: ("testing", "preflight", reason)
        for name, reason in reclassified(request.fleet, rows).items()
        if name not in judgements
    }
    moves |= {name: ("quarantined", HEALTH, reason) for name, reason in quarantined.items()}
    moves |= {
        name: (judgement.state, judgement.stage, judgement.reason)
        for name, judgement in judgements.items()
        if (before[name] == "admitted" and judgement.state != "admitted")
        # What an operator decided was recorded when it was decided, with the reason.
        or not (request.close_only or before[name] == judgement.state in DECISIONS)
    }
    states = {**before, **{name: move[0] for name, move in moves.items()}}
    classes = {name: node["hardware_class"] for name, node in compute_nodes(request.fleet).items()}
    partitions = request.fleet["scheduler"]["partitions"]
    wanted = wanted_partitions(states, partitions, classes)
    opened = _opened(partitions, info)
    if info is None:
        admitted_as = {name: rows[name].hardware_class for name in classes}
        opened = {each["name"]: each["nodes"] for each in wanted_partitions(before, partitions, admitted_as)}
    if request.close_only:
        wanted = only_closing(wanted, opened)
    confirmed = _confirmed(request, writer, judgements, info)
    confirmed |= {
        name for name in states if before[name] == "rejected" or (states[name] in DECISIONS and name not in quarantined)
    }
    confirmed |= _confirmed_by_health(request, writer, quarantined)
    limit = request.fleet["policy"]["close_limit_percent"]
    stop = "" if request.allow_mass_close else mass_close(wanted, opened, confirmed, limit)
    drains = _drains(writer.drains(), info)
    if not stop:
        return Plan(moves, opened, wanted, drains, "")
    return _stopped(Plan(moves, opened, wanted, drains, stop), wanted, unconfirmed(wanted, opened, confirmed))


def _stopped(plan: Plan, wanted: Sequence[Mapping[str, Any]], doubtful: set[str]) -> Plan:
    """Return the part of a plan that holds though the breaker stops it: what closes for a reason of its own."""
    kept: list[dict[str, Any]] | None = still_open(wanted, plan.opened, doubtful)
    left = set(doubtful)
    # A partition that the fleet file no longer has cannot be rendered, so its doubtful nodes keep the whole gate.
    stranded = [name for name, nodes in plan.opened.items() if name not in _names(wanted) and doubtful & set(nodes)]
    stop = plan.stop
    if stranded:
        stop += f"; {', '.join(stranded)} is not in the fleet file, so that no other node was closed either"
        left = {name for nodes in plan.opened.values() for name in nodes}
    if stranded or not closes_of(kept or (), plan.opened):
        kept = None
    moves = {name: move for name, move in plan.moves.items() if move[0] != "admitted" and name not in left}
    return replace(plan, moves=moves, partitions=kept, stop=stop)


def _opened(partitions: Sequence[Mapping[str, Any]], info: GateInfo | None) -> dict[str, list[str]]:
    """Return who is open by the file or by the running controller, which has partitions of others too."""
    if info is None:
        return {}
    ours = _names(partitions)
    return opened_in(info.partitions, {name: nodes for name, nodes in info.live_partitions.items() if name in ours})


def _names(partitions: Sequence[Mapping[str, Any]]) -> set[str]:
    return {partition["name"] for partition in partitions}


def _confirmed(
    request: Request, writer: Writer, judgements: Mapping[str, Judgement], info: GateInfo | None
) -> set[str]:
    """Return the nodes for whose closing there is a reason of their own: a measured fault, or Slurm lost them too.

    A fault counts if the node was admitted by the same expectations: a number mistyped in the fleet file makes all
    nodes of a class fail at once.
    """
    gone = info.unreachable if info is not None else frozenset()
    confirmed = {name for name in request.unreachable if name in gone}
    policy = Policy.from_fleet(request.fleet["policy"])
    rules = rules_of(request.fleet["classes"], policy)
    nodes = compute_nodes(request.fleet)
    for stage in policy.stages:
        faulty = [name for name, judgement in judgements.items() if stage in judgement.faults]
        if faulty:
            then = writer.admitted_under(stage, faulty)
            now = {name: rules.get(nodes[name]["hardware_class"], NO_RULES)[1].get(stage) for name in faulty}
            confirmed |= {name for name in faulty if name in then and then[name] == now[name]}
    return confirmed


def _confirmed_by_health(request: Request, writer: Writer, quarantined: Mapping[str, str]) -> set[str]:
    """Return the nodes whose health check judged by what they were admitted by, as for a stage's fault."""
    now = {name: item.expect_digest for name, item in health_evidence(request).items() if name in quarantined}
    # Both stages are judged by all that no stage has for its own.
    then = writer.admitted_under("preflight", now)
    return {name for name, digest in now.items() if then.get(name) == digest}


def _drains(known: dict[str, str], info: GateInfo | None) -> dict[str, str]:
    if info is None:
        return known
    # Slurm that lost its state has forgotten drains; one that kept it shows which were lifted.
    return {**known, **info.drains} if info.state_lost else dict(info.drains)


def _read(gate: Gate) -> tuple[GateInfo | None, str]:
    try:
        return gate.read(), ""
    except GateError as exc:
        return None, str(exc)


def _write(gate: Gate, plan: Plan, generation: int, edits: list[GateEdit]) -> str:
    try:
        edits.append(gate.write(plan.partitions or [], generation, plan.drains, plan.resume))
    except GateError as exc:
        if exc.edit is not None:
            edits.append(exc.edit)
        return str(exc)
    return ""


def _result(request: Request, judgements: Mapping[str, Judgement], outcome: Outcome) -> dict[str, Any]:
    edits = outcome.edits
    result: dict[str, Any] = {
        # Before the tests they are nobody's verdicts yet.
        "verdicts": [] if request.close_only else [judgements[name].to_dict() for name in request.nodes],
        "transitions": [vars(move) for move in outcome.moves],
        "opened": sorted({name for edit in edits for name in edit.opened}),
        "closed": sorted({name for edit in edits for name in edit.closed}),
        "resumed": sorted({name for edit in edits for name in edit.resumed}),
        "jobs_ended": sorted({job for edit in edits for job in edit.jobs_ended}, key=int),
        "generation": outcome.generation,
        "changed": bool(outcome.moves) or any(edit.changed for edit in edits),
        "diff": [edit.diff for edit in edits if edit.diff],
    }
    plan, trouble = outcome.plan, outcome.trouble
    if plan.stop:
        result |= {"failed": True, "msg": f"{plan.stop}; {trouble}" if trouble else plan.stop}
    elif trouble:
        names = ", ".join(each["name"] for each in request.fleet["scheduler"]["partitions"])
        result |= {
            "failed": True,
            "msg": f"the gate of partitions {names} is not reconciled: {trouble}; the ledger is up to date; "
            "run again when the controller answers",
        }
    return result


class ModuleGate:
    """The gate as the modules slurm_gate and slurm_gate_info on the controller."""

    def __init__(self, execute: Execute, fleet: Mapping[str, Any], unreachable: Sequence[str] = ()) -> None:
        self._execute = execute
        self._fleet = fleet
        self._unreachable = unreachable

    @classmethod
    def of_action(
        cls,
        action: ActionBase,
        fleet: Mapping[str, Any],
        task_vars: dict[str, Any] | None,
        unreachable: Sequence[str] = (),
    ) -> ModuleGate:
        """Return the gate on the host to which the action's task is delegated."""

        def execute(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            try:
                result = action._execute_module(
                    module_name=f"muster.cluster.{name}", module_args=arguments, task_vars=task_vars
                )
            except AnsibleConnectionFailure as exc:
                raise GateError(f"controller {fleet['controller']} is unreachable: {exc}") from exc
            return dict(result)

        return cls(execute, fleet, unreachable)

    def read(self) -> GateInfo:
        """Return what the controller has; raises GateError."""
        nodes = self._fleet["nodes"]
        probe = {name: nodes[name]["address"] for name in self._unreachable if name in nodes}
        result = self._execute("slurm_gate_info", {"probe": probe, **self._state()})
        if result.get("failed"):
            raise GateError(_complaint("slurm_gate_info", result))
        return GateInfo(
            ledger_id=result["ledger_id"],
            generation=result["generation"],
            partitions=result["partitions"],
            live_partitions=result["live_partitions"],
            unreachable=frozenset(result["silent_nodes"]),
            drains=result["drains"],
            state_lost=result["slurm_state_lost"],
            nodes=result["nodes"],
        )

    def _state(self) -> dict[str, str]:
        # What a standby would reopen nodes from, and where the mark of lost drains lies.
        return {"state_save_location": self._fleet["scheduler"]["state_directory"]}

    def write(
        self,
        partitions: Sequence[Mapping[str, Any]],
        generation: int,
        drains: Mapping[str, str],
        resume: Mapping[str, Mapping[str, Any]],
    ) -> GateEdit:
        """Make file and controller list these nodes, and let those of ``resume`` back; raises GateError."""
        arguments = {
            "partitions": [dict(partition) for partition in partitions],
            "ledger_id": self._fleet["ledger"]["id"],
            "generation": generation,
            "drains": dict(drains),
            "resume": {name: dict(examined) for name, examined in resume.items()},
            "leaving_jobs": self._fleet["scheduler"]["leaving_jobs"],
            **self._state(),
        }
        result = self._execute("slurm_gate", arguments)
        edit = GateEdit(
            changed=bool(result.get("changed")),
            opened=_named(result.get("opened")),
            closed=_named(result.get("closed")),
            diff=result.get("diff"),
            resumed=result.get("resumed") or [],
            jobs_ended=result.get("jobs_ended") or [],
        )
        if result.get("failed"):
            raise GateError(_complaint("slurm_gate", result), edit)
        return edit


def _complaint(name: str, result: Mapping[str, Any]) -> str:
    said = (result.get("module_stderr") or "").strip().splitlines()
    return ": ".join([name, str(result.get("msg", "no message")), *said[:1]])


def _named(nodes: Mapping[str, Sequence[str]] | None) -> list[str]:
    return sorted({name for of_partition in (nodes or {}).values() for name in of_partition})


class ActionModule(ActionBase):
    """Judge nodes and reconcile the gate; delegated to the controller, run once."""

    _supports_check_mode = True
    _supports_async = False
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the task's result."""
        super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(
            argument_spec={
                "fleet": {"type": "dict", "required": True},
                "nodes": {"type": "list", "elements": "str", "required": True},
                "evidence": {"type": "dict", "default": {}},
                "health": {"type": "dict", "default": {}},
                "stopped": {"type": "dict", "default": {}},
                "unreachable": {"type": "list", "elements": "str", "default": []},
                "close_only": {"type": "bool", "default": False},
                "allow_mass_close": {"type": "bool", "default": False},
            }
        )
        request = Request(**given, check=self._task.check_mode)
        gate = ModuleGate.of_action(self, request.fleet, task_vars, request.unreachable)
        try:
            return admit(request, gate, time.time(), operator())
        except (LedgerError, PolicyError) as exc:
            raise AnsibleActionFail(str(exc)) from None
