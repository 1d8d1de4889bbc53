#!/usr/bin/python
"""Documentation of the action ``burn_in_wait``, which does all of its work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: burn_in_wait
short_description: Wait for a node's burn-in and fetch its evidence
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Polls the node at growing intervals of 1 to 60 seconds, until its burn-in has ended or the time is over.
  - Prints one line for all hosts of the batch, at most every five seconds.
  - A run that was interrupted, by a reboot or by the end of its process, is closed and counts as completed.
  - Evidence of another host, as on a node made from a disk image, fails the task. M(muster.cluster.burn_in_job) then
    starts a new run.
  - A node whose burn-in has passed is resumed in Slurm, if M(muster.cluster.burn_in_job) drained it. The result is
    C(changed) then.
  - A node is unreachable after three failed attempts in a row.
options:
  wait_seconds:
    description:
      - Maximum wait, counted from the start of the first host of the batch; V(0) checks once.
      - The run on the node continues. Run the playbook again to attach to it.
    type: float
    default: 0
  tool:
    description: Path of the node program, which role C(burn_in) installs.
    type: path
    default: /usr/libexec/muster/muster
attributes:
  check_mode:
    description: Reads the state and closes nothing.
    support: full
"""

EXAMPLES = r"""
- name: Wait for burn-in
  muster.cluster.burn_in_wait:
    wait_seconds: 3600
  register: burn_in
"""

RETURN = r"""
status:
  description: C(running), C(finished), C(none) if there was no run; in check mode also C(interrupted).
  returned: success
  type: str
  sample: finished
id:
  description: Id of the run and of its evidence.
  returned: success
  type: str
  sample: 0f6e2f6c-0b55-4f0e-9d2d-bf5d4a3f9f0e
evidence:
  description: The evidence, as the ledger takes it; null until burn-in has ended.
  returned: success
  type: dict
  sample: {format: 1, id: 0f6e2f6c-0b55-4f0e-9d2d-bf5d4a3f9f0e, node: gpu-01, stage: burn_in, findings: []}
evidence_path:
  description: Path of the evidence on the node, with the raw outputs beside it.
  returned: success
  type: str
  sample: /var/lib/muster/evidence/burn_in/0f6e2f6c-0b55-4f0e-9d2d-bf5d4a3f9f0e/evidence.json
percent:
  description: Elapsed share of the duration.
  returned: success
  type: int
  sample: 100
eta_seconds:
  description: Remaining time.
  returned: success
  type: float
  sample: 0
"""
