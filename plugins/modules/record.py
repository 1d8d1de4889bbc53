#!/usr/bin/python
"""Documentation of the action ``record``, which does all of its work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: record
short_description: Record evidence in the ledger
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Appends the evidence of one stage from many hosts to the ledger, so that a run that is killed before admission loses
    nothing.
  - A host reports only about itself and the requested stage. Acceptance, which is measured between nodes, is recorded
    by M(muster.cluster.accept).
  - Evidence that the ledger already has changes nothing. Refused evidence is returned in RV(refused) with a warning.
    Its node lacks this evidence and is not admitted.
  - Needs no connection to the host. One task for many hosts is one transaction.

options:
  stage:
    description: Stage of the evidence; any other evidence is refused.
    type: str
    choices: [preflight, burn_in, health]
    required: true
  evidence:
    description:
      - Evidence by host, one record or a list of them. The last one of a list is the newest.
      - Evidence of another node is refused.
    type: dict
    required: true
extends_documentation_fragment: muster.cluster.fleet
attributes:
  check_mode:
    description: Returns what would be recorded.
    support: full
"""

EXAMPLES = r"""
- name: Record the burn-in
  muster.cluster.record:
    fleet: "{{ muster_fleet }}"
    stage: burn_in
    evidence: "{{ dict(finished | zip(finished | map('extract', hostvars, ['burn_in_result', 'evidence']))) }}"
  run_once: true
"""

RETURN = r"""
recorded:
  description: Ids that are now in the ledger.
  returned: success
  type: list
  elements: str
  sample: [0f6e2f6c-0b55-4f0e-9d2d-bf5d4a3f9f0e]
refused:
  description: Refused evidence with the reason. If the ledger cannot be written, one entry for each host.
  returned: always
  type: list
  elements: dict
  sample: [{node: gpu-02, id: 0f6e2f6c, reason: "evidence 0f6e2f6c: another record has this id already"}]
"""
