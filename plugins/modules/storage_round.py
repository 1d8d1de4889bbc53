#!/usr/bin/python
"""Run one round of a storage test through Slurm."""

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_round
short_description: Run one round of a storage test through Slurm
version_added: 0.1.0
description:
  - Starts one exclusive job on all nodes of the group and waits until it has ended or has reached its deadline.
  - Every rank writes a shard and brings it to the storage; once all have, every node reads another host's shards past
    its caches and compares checksums, makes small files, and PyTorch saves a sharded state and loads it by another
    number of ranks. A node that is lost or blocked does not hold up the others.
extends_documentation_fragment: muster.cluster.slurm_round
options:
  groups:
    description: Disjoint lists of node names, each of them a save; all meet at the first of a list.
    type: list
    elements: list
    required: true
  addresses:
    description: Address by node name. A node that is not listed must resolve by name.
    type: dict
    default: {}
  test:
    description: >-
      What to write, as C(muster storage) takes it: C(directory), C(ranks) of each node, C(shard_bytes), C(files),
      C(checkpoint_bytes), and C(python), the interpreter that has torch.
    type: dict
    required: true
  port:
    description: Port at which the first node of a group listens; PyTorch uses the next one.
    type: int
    required: true
  timeout_seconds:
    description: How long each step on the storage may take.
    type: int
    default: 120
  deadline_seconds:
    description: How long a group may take in all.
    type: int
    default: 600
author:
  - The Muster developers (@muster-cluster)
"""

EXAMPLES = r"""
- name: Save a checkpoint of two nodes
  muster.cluster.storage_round:
    campaign: 5f2a9c
    number: 1
    groups: [[gpu-01, gpu-02]]
    gpus_per_node: 8
    port: 27300
    addresses: {gpu-01: 10.0.0.1, gpu-02: 10.0.0.2}
    test:
      directory: /checkpoints/.muster/lab
      ranks: 8
      shard_bytes: 957031250
      files: 100
      checkpoint_bytes: 67108864
      python: /opt/muster/pytorch/bin/python3
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
      answers:
        - node: gpu-01
          phase: end
          error: ""
          code: ""
          blocked: []
          nodes: 2
          write: {bytes: 7717519360, seconds: 1.61, direct: true, blocking_seconds: 1.68}
          read: {of: gpu-02, bytes: 7717519360, seconds: 0.92, direct: true, wrong: 0, fault: "", wrong_parts: {}}
          own: null
          metadata: {operations: 2400, p99_ms: {create: 2.1, stat: 0.4, unlink: 1.7}, skew_seconds: 0.004, seconds: 0.4}
          checkpoint: {ranks: 2, loaded_by: 1, bytes: 67108864, blocking_seconds: 0.1, save_seconds: 0.5,
                       load_seconds: 0.2, error: ""}
          elapsed_seconds: 9.4
cancelled:
  description: Ids of jobs left behind by an earlier attempt.
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.rounds.round_module import arguments, run_job
from ansible_collections.muster.cluster.plugins.module_utils.rounds.storage_job import StorageCodec


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=arguments(
            timeout_seconds=120,
            deadline_seconds=600,
            addresses={"type": "dict", "default": {}},
            test={"type": "dict", "required": True},
        ),
        supports_check_mode=True,
    )
    given = module.params
    run_job(module, StorageCodec(given["executable"], given["test"], given["timeout_seconds"]), given["addresses"])


if __name__ == "__main__":
    main()
