#!/usr/bin/python
"""Documentation of the action ``record``, which does all of its work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: record
short_description: Put evidence into the ledger
version_added: 0.1.0
author: The Muster developers
description:
  - Appends the evidence that hosts gave of one stage to the ledger at once, so that a run that dies before admission
    loses none of it.
  - A host's word is taken about itself and about the stage it was asked for. Acceptance, which is measured between
    nodes, is recorded by M(muster.cluster.accept).
  - Evidence that the ledger has already changes nothing. What cannot be imported is returned in RV(refused) and
    warned of; its node then lacks it, which admits nobody.
  - Needs no connection to the host. One task for many hosts is one transaction.

options:
  fleet:
    description: The fleet, C(muster_fleet).
    type: dict
    required: true
  stage:
    description: The stage of which the evidence is; any other is refused.
    type: str
    choices: [preflight, burn_in, fabric, storage, health]
    required: true
  evidence:
    description: Evidence by host, one record each; one that names another node is refused.
    type: dict
    required: true
attributes:
  check_mode:
    description: Returns what would be recorded.
    support: full
"""

EXAMPLES = r"""
- name: Record burn-in
  muster.cluster.record:
    fleet: "{{ muster_fleet }}"
    stage: burn_in
    evidence: "{{ dict(finished | zip(finished | map('extract', hostvars, ['burn_in_result', 'evidence']))) }}"
  run_once: true
"""

RETURN = r"""
recorded:
  description: Ids that are in the ledger now.
  returned: success
  type: list
  elements: str
  sample: [0f6e2f6c-0b55-4f0e-9d2d-bf5d4a3f9f0e]
refused:
  description: What was not imported, and why.
  returned: success
  type: list
  elements: dict
  sample: [{node: gpu-02, id: 0f6e2f6c, reason: "evidence 0f6e2f6c: another record has this id already"}]
"""
