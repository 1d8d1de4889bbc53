"""Documentation that the modules share which run a round of tests through Slurm."""

from __future__ import annotations


class ModuleDocFragment:
    """See ``module_utils/rounds/round_module.py`` for the arguments."""

    DOCUMENTATION = r"""
notes:
  - Runs on a host that can submit Slurm jobs, as root. The jobs run as an unprivileged user, each with its nodes to
    itself.
  - What a group does never fails the module, it is an observation. The module fails only where Slurm itself does not
    answer.
  - Jobs of the same campaign that an interrupted run left behind are cancelled first; jobs past their deadline are
    cancelled too.
options:
  campaign:
    description: Identity of the campaign; part of every job name.
    type: str
    required: true
  number:
    description: Number of the round within the campaign.
    type: int
    required: true
  environment:
    description: Variables that the tests get, beyond a plain PATH.
    type: dict
    default: {}
  gpus_per_node:
    description: GPUs that Slurm hands out on each node, all of which the jobs ask for; 0 where it knows of none.
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
  executable:
    description: Path of the muster program on the nodes.
    type: str
    default: /usr/libexec/muster/muster
  start_seconds:
    description: How long a job may wait until Slurm starts it, and nodes until their slurmd answers.
    type: int
    default: 30
"""
