#!/usr/bin/python
"""Documentation of the action plugin of the same name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_plan
short_description: Plan how often a job saves checkpoints and how fast storage has to be
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Computes, for 1,024 to 131,072 GPUs, how often to save, the share of all time that failures cost, and how fast
    storage has to write for the wanted share. Inputs are the size of the declared model's checkpoint, the time of a
    save and the failure rate.
  - The time of a save is that measured in stage C(storage), else the declared target. The failure rate is that of the
    fleet if its ledger has at least ten faults in service, else the declared one, else 6.5 in 1,000 node-days.
  - Prints a table with its formulas and sources, and writes a JSON file.
  - Never reports a change, and writes nothing in check mode.
options:
  fleet:
    description:
      - The fleet, as the inventory gives it in C(muster_fleet). It must declare C(storage.checkpoint).
      - A missing ledger is no error; the plan then has no history.
    type: dict
    required: true
  restart_seconds:
    description: Cost of a failure besides the repeated work, in seconds.
    type: float
    default: 300.0
  wanted_loss_percent:
    description: Percentage of all time that saves and repeated work may cost; above 0 and below 50.
    type: float
    default: 5.0
  blocking_seconds:
    description:
      - Time in seconds for which an asynchronous save stops the job.
      - Without it the job waits until everything is written.
    type: float
  failures_per_1000_node_days:
    description:
      - Failures that end a job, in 1,000 node-days, instead of those of ledger and declaration.
    type: float
  dest:
    description: JSON file of the plan.
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
  description: The plan as in the file, without C(cluster) and C(formulas).
  returned: success
  type: dict
  contains:
    job:
      description: Inputs of the plan, with the sources of save time and failure rate.
      type: dict
    target_gb_per_s:
      description: Rate at which all nodes together must write for the declared target, in GB/s.
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
