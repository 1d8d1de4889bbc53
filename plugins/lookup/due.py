"""Lookup due: the nodes on which a stage has still to be passed and whose turn it is."""

from __future__ import annotations

DOCUMENTATION = r"""
name: due
author: The Muster developers (@muster-cluster)
version_added: 0.1.0
short_description: Nodes on which a stage has to run now
description:
  - Returns those of the given nodes on which the stage is due and whose turn it is. A stage is due when its evidence is
    missing, old, about other parts or other expectations, or not a pass; its turn comes when every stage before it has
    been passed and is still valid. Burn-in waits for this run's preflight, whatever that found.
  - Reads the ledger when the task runs, so it sees what an earlier task recorded.
options:
  _terms:
    description: Names of compute nodes.
    required: true
  stage:
    description: The stage, such as C(burn_in).
    type: str
    required: true
  evidence:
    description:
      - This run's preflight evidence by node, which says what parts each has now. Nothing is due on a node without, or
        whose preflight cannot be read.
    type: dict
    required: true
  collected:
    description:
      - Ids of evidence that this run has collected from nodes. A stage of which such evidence shows a fault, or says
        something about the node as it is now, is not due. It is this run's result, and what failed is tested again by
        the next run.
    type: list
    elements: str
    default: []
extends_documentation_fragment: muster.cluster.fleet
"""

EXAMPLES = r"""
- name: Burn in where it is due
  ansible.builtin.include_role:
    name: muster.cluster.burn_in
    tasks_from: run
  vars:
    burn_in_due: "{{ inventory_hostname in query('muster.cluster.due', inventory_hostname, stage='burn_in',
                                                 fleet=muster_fleet, evidence=preflights) }}"
"""

RETURN = r"""
_list:
  description: Names of nodes, in the order given.
  type: list
  elements: str
  sample: [gpu-01, gpu-04]
"""

import math
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, EvidenceError
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission import (
    StageVerdict,
    runnable_stages,
    stage_verdict,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.cases import cases_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger


def due(  # noqa: PLR0913, PLR0917 -- what a run knows of its nodes
    fleet: Fleet,
    stage: str,
    nodes: Sequence[str],
    evidence: Mapping[str, Any],
    now: float,
    collected: Collection[str] = (),
) -> list[str]:
    """Return the nodes on which the stage has to run; raises LedgerError or PolicyError."""
    policy = fleet.policy
    if stage not in policy.stages:
        return []
    preflights = {name: read for name in nodes if (read := _preflight(name, evidence.get(name))) is not None}
    ledger = Ledger.open(fleet.ledger.url, fleet.ledger.id, fleet.cluster, read_only=True)
    with ledger.reading() as reader:
        cases = cases_of(fleet, reader, preflights, now)
    found = [
        name
        for name in preflights
        if stage in runnable_stages(cases[name], policy, now)
        and not _has_result(stage_verdict(stage, cases[name], policy, now), collected)
    ]
    # Of those in service, nodes that still pass are proven again a ring at a time: users have the rest meanwhile.
    served = [name for name, case in cases.items() if case.in_service]
    passes = {name for name in served if stage_verdict(stage, cases[name], policy, now).verdict == PASS}
    again = [name for name in found if name in passes]
    later = set(again) - set(ring(fleet, again, served))
    return [name for name in found if name not in later]


def ring(fleet: Fleet, due_again: Sequence[str], in_service: Sequence[str]) -> list[str]:
    """Return who of the nodes in service is proven again now: of each class as many as may be bad before nobody is.

    That is ``collective.hold`` of the class: its share of the nodes in service, at least its number of nodes.
    """
    chosen: list[str] = []
    for name, expect in fleet.classes.items():
        nodes = [node for node in sorted(due_again) if fleet.compute[node].hardware_class == name]
        served = sum(fleet.compute[node].hardware_class == name for node in in_service)
        hold = expect.collective.hold
        chosen += nodes[: max(hold.nodes, math.ceil(hold.share * served))]
    return chosen


def _has_result(verdict: StageVerdict, collected: Collection[str]) -> bool:
    """Return whether the stage's evidence came in this run, and says something about the node as it is now.

    A fault does so in any case. A run that a reboot cut off before it had read its host is not usable otherwise, and to
    repeat it at once would hide the reboot.
    """
    return verdict.evidence in collected and (verdict.usable or verdict.verdict == FAIL) and not verdict.due


def _preflight(node: str, given: Any) -> Evidence | None:
    """Return the node's preflight, None where it gave none that can be read: admission says why."""
    try:
        evidence = Evidence.from_dict(given)
    except EvidenceError:
        return None
    return evidence if evidence.node == node and evidence.stage == "preflight" else None


class LookupModule(LookupBase):
    """Nodes on which a stage is due."""

    def run(self, terms: Sequence[Any], variables: Any = None, **kwargs: Any) -> list[str]:
        """Return the nodes' names; raises AnsibleLookupError."""
        self.set_options(var_options=variables, direct=kwargs)
        fleet, stage, evidence, collected = map(self.get_option, ("fleet", "stage", "evidence", "collected"))
        nodes = [str(term) for term in terms]
        try:
            return due(Fleet.from_variables(fleet), stage, nodes, evidence, time.time(), collected)
        except MusterError as exc:
            raise AnsibleLookupError(f"due: {exc}") from exc
