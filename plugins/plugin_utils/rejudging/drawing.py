"""Drawing lots: the evidence of a few nodes is judged on the control machine too, in every run.

Lots are drawn after the digests of the raw outputs have arrived, by a seed that no node can know; what a node sends
then has to fit digests that it gave before. The ledger keeps seed, candidates and outcome, so that a draw can be
repeated. Whoever did not agree is drawn again in every run until it does.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.examination.rejudge import STAGES
from ansible_collections.muster.cluster.plugins.module_utils.host.raw_outputs import RawError, places_in
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, EvidenceError, digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import program_digest, version_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import AGREES, Draw
from ansible_collections.muster.cluster.plugins.plugin_utils.rejudging.judged_here import judged_here, may_be_drawn

# What actions use of this module; the stages are those of which raw output is kept.
__all__ = ["STAGES", "Handed", "draw", "drawn", "rejudge"]

# Nodes drawn in a run, beside those that did not agree before. A program that lies everywhere is found in the first
# run, one that lies on one of 232 nodes within 80 runs with a chance of one half.
DRAWN = 2


@dataclass(frozen=True)
class Handed:
    """What a play hands over: the evidence of one stage as each node gave it."""

    fleet: Fleet
    stage: str
    evidence: Mapping[str, Any]

    def of(self, node: str) -> Evidence:
        """Return a node's evidence; raises EvidenceError for what is none, or another's."""
        evidence = Evidence.from_dict(self.evidence.get(node))
        if (evidence.node, evidence.stage) != (node, self.stage):
            raise EvidenceError(f"evidence {evidence.id}: of {evidence.node}, {evidence.stage}, expected {self.stage}")
        return evidence


def drawn(seed: str, candidates: Collection[str], unsettled: Collection[str]) -> list[str]:
    """Return who is drawn: of the candidates the unsettled ones, and DRAWN others; the same seed draws the same."""
    again = sorted({*candidates} & {*unsettled})
    others = sorted({*candidates} - {*again})
    return [*again, *sorted(random.Random(seed).sample(others, min(DRAWN, len(others))))]


def draw(handed: Handed, seed: str, now: float, check: bool = False) -> dict[str, Any]:
    """Draw, record who was drawn, and return the task's result: by node which raw outputs are to be fetched.

    In check mode nobody is drawn, since nothing of what a node examines then is kept. Raises LedgerError.
    """
    fleet = handed.fleet
    result: dict[str, Any] = {"seed": seed, "drawn": []}

    def waived(node: str) -> Callable[[Finding], bool]:
        return lambda finding: fleet.policy.waiver_for(node, finding, now) is not None

    told = handed.evidence.items()
    names = [node for node, record in told if node in fleet.compute and may_be_drawn(record, waived(node))]
    if check or not names:
        return result
    ledger = Ledger.open(fleet.ledger.url, fleet.ledger.id, fleet.cluster)
    with ledger.writing() as writer:
        chosen: dict[str, Evidence] = {}
        for node in drawn(seed, names, writer.unsettled(handed.stage)):
            try:
                chosen[node] = handed.of(node)
            except EvidenceError:
                # Admission does not take it either.
                continue
        # The digests are in the ledger before anybody is asked for what they are of.
        writer.add_evidence(list(chosen.values()), now)
        among = digest_of(sorted(names))
        writer.add_draws([Draw(handed.stage, node, each.id, seed, among, now) for node, each in chosen.items()])
    result["drawn"] = [
        {"node": node, "stage": each.stage, "id": each.original, "places": _places(each)}
        for node, each in chosen.items()
    ]
    return result


def _places(evidence: Evidence) -> list[str]:
    try:
        return sorted(places_in(evidence.raw))
    except RawError:
        # What is fetched is judged, and this with it.
        return []


def _with(finding: Finding, evidence: Evidence) -> Evidence:
    """Return a record that stands for the one that a node gave, with what was found here."""
    return replace(
        evidence,
        id=str(uuid.uuid4()),
        findings=(*evidence.findings, finding),
        detail={**evidence.detail, "judged_again": {"of": evidence.original, "from": {}}},
        program=program_digest(),
        muster_version=version_of(),
    )


def rejudge(handed: Handed, lots: Mapping[str, Any], fetched: Sequence[Any], now: float) -> dict[str, Any]:
    """Judge what the drawn nodes sent, record what came of it, and return the task's result.

    ``lots`` is the result of ``draw``, ``fetched`` those of the task that asked the nodes, each with its
    ``item``. ``evidence`` of the result has, by node that did not agree, the records to judge it by: its own, and one
    with finding ``rejudged``; None where the ledger did not take that, so that nobody passes by the first. Raises
    LedgerError.
    """
    fleet = handed.fleet
    answers = {each["item"]["node"]: each for each in fetched if isinstance(each, Mapping) and "item" in each}
    outcomes: dict[str, str] = {}
    records: dict[str, list[Evidence]] = {}
    for node in (str(each["node"]) for each in lots["drawn"]):
        evidence = handed.of(node)
        expect = fleet.classes.get(fleet.compute[node].hardware_class or "")
        finding = judged_here(evidence, answers.get(node), expect, program_digest())
        outcomes[node] = AGREES if finding is None else f"{finding.verdict}: {finding.reason}"
        if finding is not None:
            records[node] = [evidence, _with(finding, evidence)]
    if not outcomes:
        return {"outcomes": {}, "evidence": {}}
    ledger = Ledger.open(fleet.ledger.url, fleet.ledger.id, fleet.cluster)
    with ledger.writing() as writer:
        refused = writer.add_evidence([each for both in records.values() for each in both], now)
        writer.end_draws(str(lots["seed"]), outcomes)
    lost = {each.node for each in refused}
    return {
        "outcomes": outcomes,
        "evidence": {
            node: None if node in lost else [each.to_dict() for each in both] for node, both in records.items()
        },
        "warnings": [f"{node}: {outcome}" for node, outcome in outcomes.items() if outcome != AGREES],
    }
