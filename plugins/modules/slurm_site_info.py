#!/usr/bin/python
"""Module slurm_site_info: all that a Slurm which the site sets up itself lacks for Muster, in one list."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_site_info
short_description: Check that the site's own Slurm has what Muster needs
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Runs on each Slurm controller of a fleet with C(scheduler.managed) false, and changes nothing. Fails with everything
    that Slurm lacks in one list.
  - Asks for the release, settings that would undo the gate, Muster's programs among the hooks, partition C(acceptance),
    user partitions that are in the gate's file alone, Muster's account where accounts are enforced, PMIx where a class
    needs it, and the number of user C(muster).
  - What is lacking for single nodes is returned by node, and does not fail. A node has to be known, to have all GPUs of
    its class, to run a release that slurmctld serves, and to be in C(acceptance).
  - What cannot be read is lacking.
attributes:
  check_mode: {support: full, description: Reads only.}
options:
  nodes:
    description: Number of GPUs that Slurm has to hand out, by compute node; 0 where it knows of none.
    type: dict
    required: true
  partitions: {description: "Parameters of each user partition, by its name.", type: dict, required: true}
  release: {description: "Slurm's release, such as V(22.05).", type: str, required: true}
  state_directory: {description: C(StateSaveLocation) of slurmctld., type: path, required: true}
  controllers: {description: How many controllers there are., type: int, required: true}
  hooks:
    description: Which of Muster's programs Slurm has to run on nodes.
    type: list
    elements: str
    choices: [health, prolog, epilog]
    required: true
  pmix: {description: Whether programs are started by C(srun --mpi=pmix)., type: bool, required: true}
  uid: {description: Number of user C(muster)., type: int, required: true}
  timeout_seconds: {description: Time limit of one C(scontrol)., type: float, default: 60}
seealso:
  - plugin: muster.cluster.slurm_site
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Check the site's Slurm
  muster.cluster.slurm_site_info: "{{ lookup('muster.cluster.slurm_site', muster_fleet) | combine({'uid': 990}) }}"
  register: muster_site_slurm
"""

RETURN = r"""
lacking:
  description: What Slurm lacks for all nodes.
  returned: always
  type: list
  elements: str
  sample: ["EnforcePartLimits: is ANY, expected NO: a job waits for nodes that are closed now"]
nodes:
  description: What it lacks for single nodes, by their names.
  returned: always
  type: dict
  sample: {gpu-07: [partition acceptance does not list the node]}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.slurm.site_slurm import Wanted
from ansible_collections.muster.cluster.plugins.module_utils.slurm.site_survey import muster_uid, survey
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_controller import TIMES

ARGUMENTS = {
    "nodes": {"type": "dict", "required": True},
    "partitions": {"type": "dict", "required": True},
    "release": {"type": "str", "required": True},
    "state_directory": {"type": "path", "required": True},
    "controllers": {"type": "int", "required": True},
    "hooks": {"type": "list", "elements": "str", "choices": ["health", "prolog", "epilog"], "required": True},
    "pmix": {"type": "bool", "required": True},
    "uid": {"type": "int", "required": True},
    "timeout_seconds": {"type": "float", "default": 60},
}


def main() -> None:
    """Look, and fail where something is lacking for all nodes."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = dict(module.params)
    seconds = params.pop("timeout_seconds")
    params["nodes"] = {name: int(gpus) for name, gpus in params["nodes"].items()}
    found = survey(LocalHost(environment=TIMES), Wanted(**params), muster_uid(), seconds)
    result = {"lacking": list(found.lacking), "nodes": dict(found.nodes)}
    if found.lacking:
        module.fail_json(msg="; ".join(found.lacking), **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
