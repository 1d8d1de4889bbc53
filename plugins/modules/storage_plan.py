#!/usr/bin/python
"""Documentation of the action plugin of the same name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_plan
short_description: Plan how often a job saves checkpoints and how fast storage has to be
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - From the size of the declared model's checkpoint, the time that a save takes and the rate of failures it tells, for
    1,024 to 131,072 GPUs, how often to save, what share of all time failures cost then, and how fast storage has to
    write for the share that is wanted.
  - The time of a save is what stage C(storage) measured on the nodes, else the declared target. The rate of failures is
    the fleet's own where its ledger tells at least ten faults in service, else the declared one, else 6.5 in 1,000
    node-days.
  - Prints a table with its formulas and sources, and writes a JSON file.
  - Never reports a change, and writes nothing in check mode.
options:
  fleet:
    description:
      - The fleet, as the inventory gives it in C(muster_fleet). It has to declare C(storage.checkpoint).
      - A ledger that was not created yet is no error; the plan has no history then.
    type: dict
    required: true
  restart_seconds:
    description: What a failure costs besides the work that is repeated, in seconds.
    type: float
    default: 300.0
  wanted_loss_percent:
    description: The share of all time that saving and repeating may cost, in percent; above 0 and below 50.
    type: float
    default: 5.0
  blocking_seconds:
    description:
      - How long one save stops the job, in seconds, where it copies the state and writes it behind the job.
      - Without it the job waits until all is written.
    type: float
  failures_per_1000_node_days:
    description:
      - Failures that end a job, in 1,000 days of one node, to plan with instead of what ledger and declaration tell.
    type: float
  dest:
    description: The file that the plan is written to, as JSON.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Plan the checkpoints
  muster.cluster.storage_plan:
    fleet: "{{ muster_fleet }}"
    dest: build/storage_plan/plan.json
"""

RETURN = r"""
plan:
  description: The plan, as it is in the file but for C(cluster) and C(formulas).
  returned: success
  type: dict
  contains:
    job:
      description: What was planned for, with the sources of save time and failure rate.
      type: dict
    target_gb_per_s:
      description: What all nodes together have to write at for the declared target, in GB/s.
      type: float
    rows:
      description: One for each number of GPUs, with times in seconds and losses in percent of all time.
      type: list
      elements: dict
  sample:
    job: {checkpoint_bytes: 980000000000.0, gpus_per_node: 8, target_seconds: 60.0}
    target_gb_per_s: 20.4
    rows:
      - gpus: 16384
        nodes: 2048
        failure_seconds: 6490.4
        young_seconds: 882.5
        interval_seconds: 843.0
        loss_percent: 13.0
        loss_with_restart_percent: 16.9
        wanted_save_seconds: 8.4
        wanted_gb_per_s: 145.9
        declared_loss_percent: null
plan_file:
  description: Path of the file; in check mode the one that would have been written.
  returned: success
  type: str
  sample: /srv/cluster/build/storage_plan/plan.json
"""
