"""One admission: evidence into the ledger, states out of it, and the gate made to follow.

Order is what makes a kill harmless. Evidence is recorded first; nodes are closed next; then the states are recorded,
and nodes are opened last, only from what was recorded. Wherever the process dies, the gate is open for no node that the
ledger does not admit.

The controller is asked between transactions, never within one, since an edit of the gate may take minutes. A lock keeps
other admissions and decisions out. Evidence that was recorded while nodes were judged is noticed before states are
recorded, and the nodes are judged again. A closing takes a generation of its own, so that the gate refuses what another
admission decided before, even if the lock failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ansible_collections.muster.cluster.plugins.module_utils.judging.identity import cloned
from ansible_collections.muster.cluster.plugins.module_utils.slurm.user_reach import reached_by_users
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import plain
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission import (
    HEALTH,
    PASSED,
    UNTESTED,
    Case,
    Health,
    Judgement,
    due_stages,
    fault_counts,
    judge,
    stage_verdict,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission_plan import (
    Plan,
    Situation,
    drained_by_health,
    faulty_by_stage,
    health_drains,
    opened_by,
    plan_of,
    refused_registrations,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission_request import (
    Handed,
    Request,
    trouble_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.cases import (
    cases_of,
    compared_burn_ins,
    require_compute,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.controller_gate import (
    ControllerError,
    Gate,
    GateEdit,
    GateInfo,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.gate import NODES_AT_LEAST
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.gate_ledger import require_match
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.last_seen import remember
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import (
    Ledger,
    LedgerError,
    Mark,
    Reader,
    Transition,
    Writer,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import DECISIONS, AdmittedBy

# Slurm's partition of Muster's own user.
TEST_PARTITION = "acceptance"
# Each is the whole judgement again, which needs another run that records evidence of the same nodes at that very time.
ATTEMPTS = 5
# Nodes whose evidence is read in one transaction and held in memory at a time; a writer waits for readers.
NODES_AT_ONCE = 256
EXAMINED_ELSEWHERE = "another run examined the node while this one judged it"


class Book(Protocol):
    """The ledger, or a rehearsal of it."""

    def reading(self) -> AbstractContextManager[Reader]: ...

    def writing(self) -> AbstractContextManager[Writer]: ...


@dataclass(frozen=True)
class Run:
    """One run of the task: ``now`` is in seconds since the epoch, ``who`` is recorded with what it changes."""

    request: Request
    handed: Handed
    book: Book
    gate: Gate
    now: float
    who: str


@dataclass(frozen=True)
class Outcome:
    """What one admission did; ``trouble`` says what kept the gate from following.

    ``reached`` says where users reach nodes that are not admitted all the same, in places that are not the gate's.
    """

    plan: Plan
    judgements: Mapping[str, Judgement]
    moves: Sequence[Transition]
    generation: int
    trouble: str
    edits: Sequence[GateEdit] = field(default_factory=tuple)
    reached: tuple[str, ...] = ()
    # Identities that were copied from one host to another.
    copied: tuple[str, ...] = ()


def admit(request: Request, gate: Gate, now: float, who: str) -> dict[str, Any]:
    """Judge the targeted nodes, record what changed and reconcile the gate; return the task's result.

    Raises PolicyError for a node that is none; nothing is changed then. Raises LedgerError when the ledger cannot be
    trusted or is locked: then nodes on which this run measured a fault are closed all the same, and nothing else.
    """
    require_compute(request.fleet, request.nodes)
    handed = Handed.of(request)
    try:
        return _result(request, _admitted_with_ledger(request, handed, gate, now, who))
    except LedgerError as exc:
        said = "" if request.check else _closed_without_ledger(request, handed, gate, now)
        raise LedgerError(f"{exc}{said}", exc.absent) from exc


def _admitted_with_ledger(request: Request, handed: Handed, gate: Gate, now: float, who: str) -> Outcome:
    fleet = request.fleet
    ledger = Ledger.open(fleet.ledger.url, fleet.ledger.id, fleet.cluster, read_only=request.check)
    if request.check:
        with ledger.rehearsing() as rehearsal:
            return _admitted(Run(request, handed, rehearsal, gate, now, who))
    with ledger.locked():
        outcome = _admitted(Run(request, handed, ledger, gate, now, who))
        with ledger.reading() as reader:
            remember(ledger.id, reader.progress())
    return outcome


def _closed_without_ledger(request: Request, handed: Handed, gate: Gate, now: float) -> str:
    """Close the nodes on which this run measured a fault, and return what to say of it."""
    faulty = faulty_in_this_run(request, handed, now)
    if not faulty:
        return ""
    info, _ = _asked(gate)
    opened = opened_by(request.fleet.scheduler.partitions, info)
    # Who is open is not known where the gate does not say it: at least these are meant.
    among = {node for nodes in opened.values() for node in nodes} or {*request.nodes}
    most = request.fleet.policy.close_limit_percent * len(among) / 100
    if len(faulty) >= NODES_AT_LEAST and len(faulty) > most and not request.allow_mass_close:
        # One number mistyped in the fleet file gives all nodes a fault, and only the ledger could tell.
        return f"; {len(faulty)} nodes with a fault stay as they are, which are more than policy.close_limit_percent"
    try:
        closed = gate.close(faulty).closed
    except ControllerError as exc:
        return f"; closing {', '.join(faulty)}, which have a fault: {exc}"
    return f"; closed for a fault that this run measured: {', '.join(closed) or 'none that was open'}"


def _admitted(run: Run) -> Outcome:
    edits: list[GateEdit] = []
    for _ in range(ATTEMPTS):
        step = _attempt(run, edits)
        if isinstance(step, Outcome):
            return replace(step, edits=edits)
        run = step
    raise LedgerError(
        f"other runs recorded evidence of these nodes while they were judged, {ATTEMPTS} times; no state was recorded "
        "and no node was opened; run again"
    )


def _attempt(run: Run, edits: list[GateEdit]) -> Outcome | Run:
    """Admit once; where the ledger has moved on since evidence was recorded, return the run that has to judge again.

    No state is recorded and no node opened then.
    """
    info, trouble = _asked(run.gate)
    handed, mark = _keep_evidence(run, info)
    with run.book.reading() as reader:
        rows, drains, faults = reader.nodes(), reader.drains(), _known_faults(run, reader)
    quarantined = drained_by_health(run.request.fleet, rows, info)
    judgements, resume = _judged(run, handed, info, quarantined)
    admitted_by = _admitted_by(run, judgements, quarantined, faults)
    situation = Situation(run.request, handed, info, rows, drains, quarantined, judgements, admitted_by, faults)
    plan = replace(plan_of(situation), resume=resume)
    closing = plan.closing() if info is not None else None
    if closing is not None:
        reserved = _reserved(run, mark)
        if isinstance(reserved, Run):
            return reserved
        mark = reserved
        trouble = _edited(run.gate, closing, mark.generation, edits) or trouble
    elif info is None and not run.request.check:
        # What cannot be read must not keep them open.
        trouble = _closed_unread(run.gate, _known_bad(situation, plan), trouble, edits)
    recorded = _recorded(run, mark, situation, plan)
    if isinstance(recorded, Run):
        return recorded
    moves, generation = recorded
    if info is not None and plan.partitions is not None and not trouble:
        trouble = _edited(run.gate, plan, generation, edits)
    told = {name: items[-1].identity for name, items in handed.preflights.items() if items}
    more: dict[str, Any] = {"reached": _reached(situation, plan), "copied": tuple(cloned(told))}
    return Outcome(plan, judgements, moves, generation, trouble, **more)


def _known_bad(situation: Situation, plan: Plan) -> list[str]:
    """Return the nodes that no user may be on, whatever the controller says: by the ledger, and by this run."""
    states = {name: row.state for name, row in situation.rows.items()}
    states |= {name: move[0] for name, move in plan.moves.items()}
    return [
        name
        for name, state in states.items()
        if state in ("rejected", *DECISIONS) or (name in plan.moves and name not in situation.request.fleet.compute)
    ]


def _closed_unread(gate: Gate, names: Sequence[str], trouble: str, edits: list[GateEdit]) -> str:
    """Close these nodes although the gate could not be read, and return what there is to say."""
    if not names:
        return trouble
    try:
        edits.append(gate.close(names))
    except ControllerError as exc:
        edits += [exc.edit] if exc.edit else []
        return trouble if str(exc) == trouble else f"{trouble}; {exc}"
    return trouble


def _reached(situation: Situation, plan: Plan) -> tuple[str, ...]:
    """Return where users reach nodes that are not admitted, besides the gate."""
    if situation.info is None:
        return ()
    fleet = situation.request.fleet
    states = {name: row.state for name, row in situation.rows.items()}
    states |= {name: move[0] for name, move in plan.moves.items()}
    admitted = [name for name in fleet.compute if states.get(name) == "admitted"]
    managed = [partition.name for partition in fleet.scheduler.partitions]
    # Other hosts are none of ours to judge, nor are nodes that were retired before they left the fleet file.
    ours = {*fleet.compute, *(name for name, row in situation.rows.items() if row.state != "retired")}
    found = replace(
        situation.info,
        live_partitions={name: sorted(ours & {*nodes}) for name, nodes in situation.info.live_partitions.items()},
        reservations={
            name: replace(each, nodes=tuple(node for node in each.nodes if node in ours))
            for name, each in situation.info.reservations.items()
        },
    )
    return tuple(reached_by_users(found, admitted, TEST_PARTITION, managed, fleet.scheduler.staff_partitions))


def _again(run: Run, writer: Writer, mark: Mark) -> Run | None:
    """Return None where the ledger is as it was, else the run that has to judge again.

    A node that another run examined meanwhile passes nothing by this run's older word. One in service, on which the
    other run found no fault, is not closed because somebody looked at it twice.
    """
    if not writer.moved_on(mark, run.request.nodes):
        return None
    rows, policy = writer.nodes(), run.request.fleet.policy
    examined = [
        name
        for name, stages in writer.stages_since(mark).items()
        if "preflight" in stages
        if rows[name].state != "admitted"
        or ((newest := writer.newest(name, "preflight")) and fault_counts(newest, policy, run.now))
    ]
    unread = {**run.handed.unread, **dict.fromkeys(examined, EXAMINED_ELSEWHERE)}
    return replace(run, handed=replace(run.handed, unread=unread))


def _asked(gate: Gate) -> tuple[GateInfo | None, str]:
    try:
        return gate.read(), ""
    except ControllerError as exc:
        return None, str(exc)


def _edited(gate: Gate, plan: Plan, generation: int, edits: list[GateEdit]) -> str:
    """Have the gate follow the plan and return what kept it from doing so."""
    try:
        edits.append(gate.write(plan.partitions or [], generation, plan.drains, plan.resume))
    except ControllerError as exc:
        if exc.edit is not None:
            edits.append(exc.edit)
        return str(exc)
    return ""


def _classes(run: Run) -> dict[str, str | None]:
    return {name: node.hardware_class for name, node in run.request.fleet.compute.items()}


def _keep_evidence(run: Run, info: GateInfo | None) -> tuple[Handed, Mark]:
    """Record this run's evidence; return it with what the ledger refused, and how far the ledger has come with it.

    Raises LedgerError, with nothing recorded, where the gate was rendered from another ledger or a newer copy.
    """
    given = [each for items in run.handed.preflights.values() for each in items]
    unread = dict(run.handed.unread)
    with run.book.writing() as writer:
        require_match(run.request.fleet.ledger.id, writer.progress(), info, run.request.trust_ledger)
        writer.declare(_classes(run), run.now)
        for item in writer.add_evidence(given, run.now):
            unread.setdefault(item.node, item.reason)
        writer.add_evidence(list(run.handed.health.values()), run.now)
        return replace(run.handed, unread=unread), writer.mark()


def _judged(
    run: Run, handed: Handed, info: GateInfo | None, quarantined: Mapping[str, str]
) -> tuple[dict[str, Judgement], dict[str, dict[str, Any]]]:
    """Return the judgements of the targeted nodes, without what passed, and whom Slurm may let back."""
    judgements, resume = {}, {}
    for cases in _cases(run, handed, info, quarantined):
        for name, case in cases.items():
            judgements[name] = judge(case, run.request.fleet.policy, run.now).without_passes()
            if _resumable(run, case, handed):
                resume[name] = _examined(run, case, handed)
    return judgements, resume


def _cases(
    run: Run, handed: Handed, info: GateInfo | None, quarantined: Mapping[str, str]
) -> Iterator[dict[str, Case]]:
    """Yield the cases of the targeted nodes, some at a time: all their evidence at once is large."""
    request = run.request
    # Of a node under test it was found while the node was tested.
    drained = {} if request.close_only else health_drains(info)
    slurm = {} if info is None else info.nodes
    booted = {name: float(node["boot_time"]) for name, node in slurm.items() if node.get("boot_time")}
    refused = refused_registrations(info)
    with run.book.reading() as reader:
        compared = compared_burn_ins(request.fleet, reader)
    for start in range(0, len(request.nodes), NODES_AT_ONCE):
        names = request.nodes[start : start + NODES_AT_ONCE]
        preflights = {name: handed.preflight(name) for name in names}
        troubles = {
            name: trouble
            for name in names
            if (trouble := trouble_of(request, name, handed.unread.get(name), preflights[name], run.now)) is not None
        }
        with run.book.reading() as reader:
            cases = cases_of(request.fleet, reader, preflights, run.now, troubles, booted, compared)
        yield {
            name: replace(
                case,
                health=Health.from_answer(request.health.get(name), drained.get(name, "")),
                slurm_refused=refused.get(name, ""),
                decision="quarantined" if name in quarantined else case.decision,
            )
            for name, case in cases.items()
        }


def _resumable(run: Run, case: Case, handed: Handed) -> bool:
    """Return whether Slurm may let the node back: its preflight of this run passed."""
    return (
        case.trouble is None
        and case.decision not in UNTESTED
        and handed.preflight(case.node) is not None
        and stage_verdict("preflight", case, run.request.fleet.policy, run.now).verdict == PASS
    )


def _examined(run: Run, case: Case, handed: Handed) -> dict[str, Any]:
    """Return what slurm_gate is told of a node that Slurm may let back."""
    preflight = handed.preflights[case.node][-1]
    return {
        "boot_id": preflight.boot_id,
        "began": preflight.started,
        # A fault is given another chance before the tests, never behind them.
        "in_service": not run.request.close_only or case.admitted_since is not None,
        "healthy": case.health is not None and case.health.verdict == PASS,
        "burned_in": "burn_in" not in due_stages(case, run.request.fleet.policy, run.now),
    }


def _known_faults(run: Run, reader: Reader) -> dict[str, Evidence]:
    """Return the faults in the ledger of nodes in service that this run does not judge and no other has judged."""
    policy = run.request.fleet.policy
    stages = {*policy.stages, *([] if policy.heartbeat_seconds is None else [HEALTH])}
    # What was waived when a node was admitted counts when the waiver has ended, or was withdrawn.
    waived = [name for name, row in reader.nodes().items() if row.state == "admitted" and row.reason != PASSED]
    known = [each for name in waived for stage in policy.stages if (each := reader.newest(name, stage)) is not None]
    found: dict[str, Evidence] = {}
    for each in (*reader.unjudged_faults(), *known):
        if each.stage in stages and each.node not in run.request.nodes and fault_counts(each, policy, run.now):
            found.setdefault(each.node, each)
    return found


def faulty_in_this_run(request: Request, handed: Handed, now: float) -> list[str]:
    """Return the nodes whose preflight of this run, or health check, measured a fault that nobody waived."""
    policy = request.fleet.policy
    records = {name: [*handed.preflights.get(name, ()), handed.health.get(name)] for name in request.nodes}
    return [name for name, found in records.items() if any(each and fault_counts(each, policy, now) for each in found)]


def _admitted_by(
    run: Run, judgements: Mapping[str, Judgement], quarantined: Mapping[str, str], faults: Mapping[str, Evidence]
) -> dict[str, dict[str, AdmittedBy]]:
    """Return, by stage, by what nodes with a fault of that stage were admitted."""
    asked = faulty_by_stage(judgements, run.request.fleet.policy.stages)
    for name, evidence in faults.items():
        asked.setdefault(evidence.stage, []).append(name)
    checked = [name for name in run.handed.health if name in quarantined]
    with run.book.reading() as reader:
        found = {stage: reader.admitted_under(stage, names) for stage, names in asked.items()}
        # Both stages are judged by all that no stage has for its own.
        return {**found, HEALTH: reader.admitted_under("preflight", checked)} if checked else found


def _reserved(run: Run, mark: Mark) -> Mark | Run:
    """Take a generation for a closing and return the mark with it."""
    with run.book.writing() as writer:
        return _again(run, writer, mark) or replace(mark, generation=writer.advance())


def _recorded(run: Run, mark: Mark, situation: Situation, plan: Plan) -> tuple[list[Transition], int] | Run:
    """Record the plan's states and return the transitions and the generation."""
    info, quarantined = situation.info, situation.quarantined
    with run.book.writing() as writer:
        if (again := _again(run, writer, mark)) is not None:
            return again
        # A decision of the node's own check, by it and not by who runs this.
        decided = [
            move
            for name, reason in sorted(quarantined.items())
            if name in plan.moves and (move := writer.decide(name, "quarantined", reason, HEALTH, run.now)) is not None
        ]
        # What no gate is rendered from is counted when one is.
        renders = info is not None and plan.partitions is not None
        rest = {name: move for name, move in plan.moves.items() if name not in quarantined}
        policies = _kept_policies(run, writer, [name for name in rest if name in run.request.fleet.compute])
        authority: dict[str, Any] = {"policies": policies, "approval": run.request.approval}
        moves = [*decided, *writer.move(rest, run.who, run.now, compared=renders, **authority)]
        writer.judged(_settled(situation, plan), mark.evidence)
        # A node that is no longer admitted follows the fleet file's class.
        writer.declare(_classes(run), run.now)
        if info is not None:
            writer.keep_drains(plan.drains, run.now)
        return moves, writer.generation()


def _settled(situation: Situation, plan: Plan) -> list[str]:
    """Return the nodes of which the ledger has what was judged now.

    Not those that the breaker left as they were: their faults have still to be judged.
    """
    same = [name for name, each in situation.judgements.items() if situation.rows[name].state == each.state]
    return sorted({*same, *plan.moves})


def _kept_policies(run: Run, writer: Writer, names: Sequence[str]) -> dict[str, str]:
    """Keep what these nodes were judged by, policy and limits, and return its digest by node."""
    fleet = run.request.fleet
    classes = {name: fleet.compute[name].hardware_class for name in names}
    policy = fleet.policy.to_dict()
    digests: dict[str | None, str] = {}
    for name in set(classes.values()):
        expect = fleet.classes.get(name or "")
        content = {
            "policy": policy,
            "class": name,
            "expect": None if expect is None else plain(expect),
            "weaker": list(fleet.weaker.get(name or "", ())),
        }
        digests[name] = writer.keep_policy(content, run.now)
    return {name: digests[hardware_class] for name, hardware_class in classes.items()}


def _verdict(request: Request, judgement: Judgement) -> dict[str, Any]:
    hardware_class = request.fleet.compute[judgement.node].hardware_class or ""
    return {**judgement.to_dict(), "weaker": list(request.fleet.weaker.get(hardware_class, ()))}


def _result(request: Request, outcome: Outcome) -> dict[str, Any]:
    edits, judgements = outcome.edits, outcome.judgements
    result: dict[str, Any] = {
        # Before the tests they are nobody's verdicts yet.
        "verdicts": [] if request.close_only else [_verdict(request, judgements[name]) for name in request.nodes],
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
    if warnings := [*outcome.copied, *(outcome.reached if request.close_only else ())]:
        result["warnings"] = warnings
    wrong: list[str] = [plan.stop, trouble] if plan.stop else []
    if trouble and not plan.stop:
        names = ", ".join(each.name for each in request.fleet.scheduler.partitions)
        wrong = [
            f"the gate of partitions {names} is not reconciled: {trouble}; the ledger is up to date; "
            "run again when the controller answers"
        ]
    if not request.close_only:
        wrong += outcome.reached
    if any(wrong):
        result |= {"failed": True, "msg": "; ".join(filter(None, wrong))}
    return result
