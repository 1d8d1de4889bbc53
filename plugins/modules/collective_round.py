#!/usr/bin/python
"""Run one round of acceptance collectives through Slurm."""

from __future__ import annotations

DOCUMENTATION = r"""
module: collective_round
short_description: Run one round of acceptance collectives through Slurm
version_added: 0.1.0
description:
  - Runs on a host that can submit Slurm jobs, as root. Starts one exclusive job per group of nodes, all at the same
    time, as an unprivileged user, and waits until each has ended or has reached its deadline.
  - What a group does never fails the module, it is an observation. The module fails only where Slurm itself does not
    answer.
  - Jobs of the same campaign that an interrupted run left behind are cancelled first; jobs past their deadline are
    cancelled too.
options:
  campaign:
    description: Identity of the acceptance campaign; part of every job name.
    type: str
    required: true
  number:
    description: Number of the round within the campaign.
    type: int
    required: true
  groups:
    description: Disjoint lists of node names; each list is one collective.
    type: list
    elements: list
    required: true
  addresses:
    description: Address by node name, used for the rendezvous. A node that is not listed must resolve by name.
    type: dict
    default: {}
  collective:
    description: >-
      The hardware class' collective settings. Used here are C(backend), C(ranks_per_node), C(python), C(sizes_bytes),
      C(iterations) and C(warmup).
    type: dict
    required: true
  environment:
    description: Variables that the ranks get, beyond a plain PATH.
    type: dict
    default: {}
  port:
    description: Port on which the first group's rank 0 listens; each further group takes the next one, of a hundred.
    type: int
    required: true
  partition:
    description: Slurm partition that only the user may use.
    type: str
    default: acceptance
  user:
    description: User as whom the jobs run.
    type: str
    default: muster
  program:
    description: Path of the muster program on the nodes.
    type: str
    default: /usr/libexec/muster/muster
  start_seconds:
    description: How long a job may wait until Slurm starts it, and nodes until their slurmd answers.
    type: int
    default: 30
  timeout_seconds:
    description: How long ranks wait for each other, at the start and in each collective.
    type: int
    default: 60
  deadline_seconds:
    description: How long a rank may take in all.
    type: int
    default: 300
author:
  - The Muster developers (@muster-cluster)
"""

EXAMPLES = r"""
- name: Measure two pairs at the same time
  muster.cluster.collective_round:
    campaign: 5f2a9c
    number: 1
    groups: [[gpu-01, gpu-02], [gpu-03, gpu-04]]
    port: 29400
    collective:
      backend: gloo
      ranks_per_node: 1
      python: /usr/bin/python3
      sizes_bytes: [65536, 8388608]
      iterations: 10
      warmup: 3
    environment:
      GLOO_SOCKET_IFNAME: eth0
"""

RETURN = r"""
observations:
  description: One entry per group, in the order of I(groups).
  returned: always
  type: list
  elements: dict
  sample:
    - group: [gpu-01, gpu-02]
      ok: true
      started: true
      error: ""
      missing: []
      unavailable: {}
      ranks:
        - node: gpu-01
          rank: 0
          error: ""
          phase: end
          versions: {torch: 2.6.0+cpu}
          sizes: [{bytes: 8388608, seconds: [0.0163], correct: true, wrong: 0}]
cancelled:
  description: Ids of jobs left behind by an earlier attempt.
  returned: always
  type: list
  elements: str
  sample: []
"""

import pwd
import uuid

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.collective_job import Settings
from ansible_collections.muster.cluster.plugins.module_utils.slurm_round import (
    Job,
    Slurm,
    SlurmError,
    job_name,
    run_round,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "campaign": {"type": "str", "required": True},
            "number": {"type": "int", "required": True},
            "groups": {"type": "list", "elements": "list", "required": True},
            "addresses": {"type": "dict", "default": {}},
            "collective": {"type": "dict", "required": True},
            "environment": {"type": "dict", "default": {}},
            "port": {"type": "int", "required": True},
            "partition": {"type": "str", "default": "acceptance"},
            "user": {"type": "str", "default": "muster"},
            "program": {"type": "str", "default": "/usr/libexec/muster/muster"},
            "start_seconds": {"type": "int", "default": 30},
            "timeout_seconds": {"type": "int", "default": 60},
            "deadline_seconds": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        settings = Settings(
            partition=given["partition"],
            python=str(given["collective"]["python"]),
            program=given["program"],
            backend=str(given["collective"]["backend"]),
            ranks_per_node=int(given["collective"]["ranks_per_node"]),
            sizes=tuple(int(size) for size in given["collective"]["sizes_bytes"]),
            iterations=int(given["collective"]["iterations"]),
            warmup=int(given["collective"]["warmup"]),
            deadline_seconds=given["deadline_seconds"],
            timeout_seconds=given["timeout_seconds"],
        )
    except (KeyError, TypeError, ValueError) as exc:
        module.fail_json(msg=f"collective: {type(exc).__name__} {exc}, expected the class' collective settings")
    attempt = uuid.uuid4().hex[:8]
    jobs = [
        Job(
            name=job_name(given["campaign"], given["number"], index, attempt),
            group=tuple(group),
            addresses=given["addresses"],
            port=given["port"] + index % 100,
        )
        for index, group in enumerate(given["groups"])
    ]
    for tool in ("srun", "sinfo", "squeue", "scancel"):
        module.get_bin_path(tool, required=True)
    try:
        pwd.getpwnam(given["user"])
    except KeyError:
        module.fail_json(msg=f"user {given['user']} does not exist here; acceptance jobs run as that user")
    if module.check_mode:
        module.exit_json(changed=False, observations=[], cancelled=[])
    environment = {key: str(value) for key, value in given["environment"].items()}
    try:
        slurm = Slurm(given["user"], given["partition"], environment)
        cancelled = slurm.cancel(given["campaign"])
        observations = run_round(slurm, jobs, settings, given["start_seconds"])
    except SlurmError as exc:
        module.fail_json(msg=f"Slurm did not answer: {exc}")
    module.exit_json(changed=False, observations=observations, cancelled=cancelled)


if __name__ == "__main__":
    main()
