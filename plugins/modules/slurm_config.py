#!/usr/bin/python
"""Module slurm_config: a controller's configuration, tried before it is live and swapped in as a whole."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_config
short_description: Test Slurm's configuration, replace it as a whole, and restore it if it fails
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Runs on a Slurm controller. A second slurmctld is started with the new files, in its own network and process
    namespaces and with its own state directory. If it does not start or reports an error, the task fails with its
    message, and nothing is changed.
  - Then all files are replaced, and slurmctld rereads them, or restarts if a changed key needs it. Running jobs
    continue. If slurmctld does not answer with the new files, the old files are restored, it is started with them, and
    the task fails. The files before the last replacement are in C(/var/lib/muster/slurm/previous).
  - The next run reverts an interrupted replacement and begins again.
  - A file of an earlier run that is not in O(files) is removed.
  - The file of user partitions is written once, closed, and belongs to M(muster.cluster.slurm_gate) from then on. With
    O(gate_path) it is in a directory that two controllers share, with a link to it.
  - A node that is no longer declared is closed in that file. It is an error if jobs run on such a node, or if more than
    a fifth of all nodes are removed at once, unless O(accept_removal) is set.
  - It is an error if Slurm's state directory is empty on a controller that had a configuration, unless
    O(accept_empty_state) is set.
attributes:
  check_mode: {support: full, description: Tests the files and changes nothing.}
  diff_mode: {support: full, description: Shows the files before and after.}
options:
  files:
    description: The files, C(slurm.conf) among them; from the lookup P(muster.cluster.slurm_files#lookup).
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name in O(directory)., type: str, required: true}
      content: {description: Content., type: str, required: true}
  partitions:
    description: User partitions. They are written once, without nodes.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the partition., type: str, required: true}
      default: {description: Whether this is the default partition of jobs., type: bool, default: false}
      hardware_classes: {description: Ignored; allows to pass a fleet's partition as it is., type: list, elements: str}
      parameters: {description: Additional C(slurm.conf) keys of the partition., type: dict, default: {}}
  state_directory: {description: Slurm's C(StateSaveLocation)., type: path, default: /var/lib/slurm/slurmctld}
  state:
    description: V(tried) only tests the files; with two controllers, before either is changed.
    type: str
    choices: [tried, swapped]
    default: swapped
  gate_path:
    description: Real path of the file of user partitions.
    type: path
    default: /etc/slurm/muster_partitions.conf
  accept_removal: {description: Whether nodes with jobs or many nodes may be removed., type: bool, default: false}
  accept_empty_state: {description: Whether slurmctld may start without saved state., type: bool, default: false}
  directory: {description: Directory of Slurm's configuration., type: path, default: /etc/slurm}
  work_directory:
    description: Directory of journal and previous files.
    type: path
    default: /var/lib/muster/slurm
  trial_seconds: {description: Time limit of the trial., type: float, default: 60}
  start_seconds: {description: Time until slurmctld must answer., type: float, default: 120}
seealso:
  - module: muster.cluster.slurm_gate
"""

EXAMPLES = r"""
- name: Swap in the configuration
  muster.cluster.slurm_config:
    files: "{{ lookup('muster.cluster.slurm_files', muster_fleet) }}"
    partitions: "{{ muster_fleet.scheduler.partitions }}"
    state_directory: "{{ muster_fleet.scheduler.state_directory }}"
"""

RETURN = r"""
files:
  description: Names of the files that differed.
  returned: always
  type: list
  elements: str
  sample: [slurm.conf]
restarted: {description: Whether slurmctld was restarted., returned: always, type: bool, sample: false}
reconfigured: {description: Whether Slurm reread its files., returned: always, type: bool, sample: true}
started: {description: Whether slurmctld was down and was started., returned: always, type: bool, sample: false}
undone: {description: Whether an interrupted swap was undone first., returned: always, type: bool, sample: false}
closed:
  description: Nodes that were open to users and are no longer declared.
  returned: always
  type: list
  elements: str
  sample: []
gate: {description: Whether the file of user partitions was written., returned: always, type: bool, sample: false}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.slurm.configuration_swap import Places
from ansible_collections.muster.cluster.plugins.module_utils.slurm.gate_file import GATE_FILE, Partition
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import SlurmGateError
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_conf import ConfigurationError
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_configuration import Configuration, Wanted
from ansible_collections.muster.cluster.plugins.module_utils.slurm.user_gate import STATE_SAVE_LOCATION

PARTITION = {
    "name": {"type": "str", "required": True},
    "default": {"type": "bool", "default": False},
    "hardware_classes": {"type": "list", "elements": "str"},
    "parameters": {"type": "dict", "default": {}},
}
FILE = {"name": {"type": "str", "required": True}, "content": {"type": "str", "required": True}}
ARGUMENTS = {
    "files": {"type": "list", "elements": "dict", "options": FILE, "required": True},
    "partitions": {"type": "list", "elements": "dict", "options": PARTITION, "required": True},
    "state_directory": {"type": "path", "default": STATE_SAVE_LOCATION},
    "state": {"type": "str", "choices": ["tried", "swapped"], "default": "swapped"},
    "gate_path": {"type": "path", "default": GATE_FILE},
    "accept_removal": {"type": "bool", "default": False},
    "accept_empty_state": {"type": "bool", "default": False},
    "directory": {"type": "path", "default": "/etc/slurm"},
    "work_directory": {"type": "path", "default": "/var/lib/muster/slurm"},
    "trial_seconds": {"type": "float", "default": 60},
    "start_seconds": {"type": "float", "default": 120},
}


def main() -> None:
    """Try or swap."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    files = {each["name"]: each["content"] for each in params["files"]}
    for name in files:
        if "/" in name or name.startswith("."):
            module.fail_json(msg=f"file {name!r}: expected a name in {params['directory']}")
    if "slurm.conf" not in files:
        module.fail_json(msg=f"files: {', '.join(files) or 'none'}, expected slurm.conf among them")
    places = Places(
        params["directory"],
        params["work_directory"],
        trial_seconds=params["trial_seconds"],
        start_seconds=params["start_seconds"],
    )
    try:
        wanted = Wanted(
            files,
            tuple(Partition.from_params(each) for each in params["partitions"]),
            params["state_directory"],
            params["gate_path"],
            params["accept_removal"],
            params["accept_empty_state"],
        )
        configuration = Configuration(LocalHost(), places, wanted)
        if params["state"] == "tried":
            configuration.try_out()
            module.exit_json(changed=False)
        module.exit_json(**configuration.apply(module.check_mode).to_dict())
    except SlurmGateError as exc:
        module.fail_json(msg=str(exc))
    except ConfigurationError as exc:
        module.fail_json(msg=str(exc), **exc.result)


if __name__ == "__main__":
    main()
