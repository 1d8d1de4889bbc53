"""What is known of nodes, put together from fleet, ledger and this run's preflight: the input of every judgement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission import (
    NO_REQUIREMENTS,
    Case,
    Policy,
    PolicyError,
    Trouble,
    fault_counts,
    requirements_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.burn_in_cohort import (
    BurnedIn,
    cohort_findings,
    compares,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import NodeRow, Reader
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import Record

# Within which anything that began after a preflight of this run has come into the ledger.
RECENT_SECONDS = 4 * 3600.0


def require_compute(fleet: Fleet, names: Iterable[str]) -> None:
    """Raise PolicyError where one of the names is no compute node of the fleet."""
    if strangers := sorted(set(names) - set(fleet.compute)):
        raise PolicyError(f"nodes: {', '.join(strangers)}, expected compute nodes of the fleet")


def cases_of(  # noqa: PLR0913, PLR0917 -- all that a case is made of
    fleet: Fleet,
    reader: Reader,
    preflights: Mapping[str, Evidence | None],
    now: float,
    troubles: Mapping[str, Trouble] | None = None,
    booted: Mapping[str, float] | None = None,
    compared: Mapping[str, Sequence[Finding]] | None = None,
) -> dict[str, Case]:
    """Return by node all that judging it needs, with one query a stage however many nodes there are.

    ``preflights`` is this run's preflight evidence by node, in the ledger or not yet; a node with None has no
    fingerprint and passes nothing. It decides that stage, unless the ledger has one that began later: of two runs the
    one that looked last knows the node, and a fault that either saw counts. A node in service that the fleet file
    now gives another hardware class has to be proven anew as that. ``booted`` is when Slurm has each node booted, in
    seconds since the epoch; ``compared`` is what ``compared_burn_ins`` gave where it was asked before. Raises
    PolicyError for a name that is no compute node of the fleet.
    """
    require_compute(fleet, preflights)
    records = reader.records(fleet.policy.stages, preflights)
    rows, decisions, doubts = reader.nodes(), reader.decisions(), reader.doubts()
    served = {name for name, row in rows.items() if row.state == "admitted"}
    claims, names = claimed(reader.shared_parts(), fleet.compute, served), frozenset(fleet.compute)
    rules = requirements_of(fleet.classes, fleet.policy)
    moved, drawn = reclassified(fleet, rows), reader.drawn_and_not_judged()
    beside = compared_burn_ins(fleet, reader) if compared is None else compared
    cases = {}
    for name, preflight in _decisive(fleet.policy, preflights, reader, now).items():
        required, digests = rules.get(fleet.compute[name].hardware_class or "", NO_REQUIREMENTS)
        row = rows.get(name)
        trouble = (troubles or {}).get(name)
        if trouble is None and name in moved:
            trouble = Trouble("preflight", "preflight", moved[name])
        cases[name] = Case(
            node=name,
            required=required,
            records=records[name] if preflight is None else _with_this_run(records[name], preflight, now),
            fingerprint=preflight.fingerprint if preflight else None,
            expect_digests=digests,
            decision=decisions.get(name),
            trouble=trouble,
            admitted_since=row.since if row is not None and row.state == "admitted" else None,
            doubts=tuple(each for each in doubts if each.node == name),
            identity=preflight.identity if preflight else {},
            others=names - {name},
            claimed=claims.get(name, ""),
            slurm_booted=(booted or {}).get(name),
            drawn=drawn,
            compared=beside.get(name, ()),
            judged=row.judged if row is not None else 0,
        )
    return cases


def compared_burn_ins(fleet: Fleet, reader: Reader) -> dict[str, tuple[Finding, ...]]:
    """Return by node how its newest burn-in looks beside those of all nodes of its class, in this run or not.

    One query reads what they measured, none where no class compares it. Only numbers that were judged by what the class
    expects now are comparable: it says how the parts are loaded.
    """
    classes = {name: expect for name, expect in fleet.classes.items() if compares(expect)}
    if "burn_in" not in fleet.policy.stages or not classes:
        return {}
    rules = requirements_of(classes, fleet.policy)
    cohorts: dict[str, dict[str, BurnedIn]] = {name: {} for name in classes}
    for each in reader.measured("burn_in"):
        node = fleet.compute.get(each.node)
        name = node.hardware_class if node is not None else None
        if node is not None and name in cohorts and each.expect_digest == rules[name][1]["burn_in"]:
            cohorts[name][each.node] = BurnedIn(node.rack, each.measures)
    return {
        node: findings
        for name, nodes in cohorts.items()
        for node, findings in cohort_findings(classes[name], nodes).items()
    }


def claimed(
    shared: Iterable[tuple[str, str, str]], compute: Collection[str], served: Collection[str]
) -> dict[str, str]:
    """Return, by node, which parts of it another node of the fleet claims too; ``shared`` is (kind, serial, node).

    The node that comes first is no newcomer, and nobody's later word keeps it out; in service (``served``) it is told
    of all the same.
    """
    nodes_of: dict[tuple[str, str], list[str]] = {}
    for kind, serial, node in shared:
        if node in compute:
            nodes_of.setdefault((kind, serial), []).append(node)
    texts: dict[str, list[str]] = {}
    for (kind, serial), nodes in sorted(nodes_of.items()):
        told = [node for number, node in enumerate(nodes) if number or node in served]
        for node in told if len(nodes) > 1 else ():
            others = ", ".join(sorted({*nodes} - {node}))
            texts.setdefault(node, []).append(f"{kind.replace('_', ' ')} {serial} is claimed by {others} too")
    return {node: "; ".join(found[:3]) for node, found in texts.items()}


def reclassified(fleet: Fleet, rows: Mapping[str, NodeRow]) -> dict[str, str]:
    """Return the admitted nodes that the fleet file no longer gives the class they were admitted as, and the reason."""
    return {
        name: f"hardware class was {rows[name].hardware_class}, is {node.hardware_class}"
        for name, node in fleet.compute.items()
        if name in rows and rows[name].state == "admitted" and rows[name].hardware_class != node.hardware_class
    }


def _decisive(
    policy: Policy, given: Mapping[str, Evidence | None], reader: Reader, now: float
) -> dict[str, Evidence | None]:
    """Return by node this run's preflight, or the ledger's where that began later and this run's found no fault."""
    sound = {
        name: preflight.started
        for name, preflight in given.items()
        if preflight is not None and not fault_counts(preflight, policy, now)
    }
    return {**given, **reader.began_later("preflight", sound, now - RECENT_SECONDS)}


def _with_this_run(records: Sequence[Record], preflight: Evidence, now: float) -> list[Record]:
    """Return the records with this run's preflight for the only one of its stage, beside any that has its id."""
    stored = [each for each in records if each.evidence.id == preflight.id]
    others = [each for each in records if each.evidence.stage != "preflight" and each not in stored]
    if any(each.evidence == preflight for each in stored):
        return [*others, *stored]
    return [*others, *stored, Record(preflight, now, max((each.order for each in records), default=0) + 1)]
