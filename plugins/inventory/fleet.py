"""The declared fleet as an Ansible inventory."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet
short_description: The declared fleet as an inventory
description:
  - Reads one fleet file (C(*.fleet.yml)) and gives its hosts, the groups C(controller), C(database), C(login),
    C(subnet_manager), C(storage), C(compute), C(class_CLASS), C(pod_POD), C(rack_RACK) and C(state_STATE), and the
    variables that Muster's roles and plugins work with.
  - Everything is validated before a host is touched. An error names file, key, what was found and what was expected.
  - C(ansible_host) and C(muster_node) (role, class, place, rails) are set for each host, C(muster_fleet) for all of
    them, C(muster_expect), the expectations of the hardware class, for the group of each class. The large keys of
    C(muster_fleet) are templates that are filled in when they are used, so that what holds for a whole fleet is not
    written out once for each host.
  - C(ansible_become) is V(true) for the groups of roles, so that an ordinary user can log in to the hosts and use sudo,
    and never for localhost. Ansible leaves sudo out where C(ansible_user) is C(root). C(group_vars), also those of
    C(all), C(host_vars) and C(-e) override it.
  - With this inventory Muster's own playbooks refuse C(--start-at-task), and tags that would leave out tasks. What they
    leave out guards the fleet and judges the nodes, and a run without it could end with status 0.
  - Groups C(state_STATE) say what the ledger held when the inventory was read; a fleet without a ledger has none.
  - A pattern such as V(gpu-[0001-3072]) stands for many names. The hosts of a block get consecutive addresses, and fill
    pods and racks in order.
author: The Muster developers (@muster-cluster)
extends_documentation_fragment:
  - ansible.builtin.constructed
options:
  plugin:
    description: Says that this file is a fleet file.
    type: str
    required: true
    choices: [muster.cluster.fleet]
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  hosts:
    description:
      - Hosts that run no user jobs. One or two are controllers, of which the first leads and the second stands by; at
        most one is the database.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name or pattern.
        type: str
        required: true
      role:
        description: What the host is.
        type: str
        choices: [controller, database, login, subnet_manager, storage]
        required: true
      address:
        description: Address under which Ansible and Slurm reach it; of the first host where the name is a pattern.
        type: str
        required: true
      slurm_version:
        description:
          - As O(nodes[].slurm_version), for hosts of role V(login) alone.
        type: str
  nodes:
    description: Compute nodes, in blocks of like ones.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name or pattern.
        type: str
        required: true
      hardware_class:
        description: A class that comes with Muster, or one of O(hardware_classes).
        type: str
        required: true
      address:
        description: Address of the first node; the others follow it one by one.
        type: str
        required: true
      pods:
        description: C(name) is a name or pattern, C(nodes_each) how many nodes of the block are in each pod.
        type: dict
      racks:
        description: As O(nodes[].pods).
        type: dict
      rails:
        description:
          - How many there are, and at which PCI address each NIC lies, is C(nic.rails) of the class. What the system
            calls them is read on each host.
          - C(addresses) is the pattern of the first node's address on each rail, with prefix length; the other nodes
            follow it one by one, with a /31 link by link. C(gateways) are those of shared networks.
          - C(switches) (C(name), C(nodes_each), C(rails_each)) and C(ports) say where the cables go, node by node.
          - Where O(fabric) is plain Ethernet a block without this key has no rails.
        type: dict
      slurm_version:
        description:
          - Slurm's release on these nodes, as text, where it is not C(version) of O(scheduler). It must be one that a
            slurmctld of that release serves.
        type: str
  hardware_classes:
    description:
      - Overrides of single values of a class by its name, or classes of the site's own, which C(extends) another.
    type: dict
    default: {}
  fabric:
    description:
      - The network of collectives. C(kind) is V(roce), V(infiniband) or V(ethernet) (no RDMA); C(speed_gbps),
        C(socket_interface) (V(bond0), or a rail such as V(rail0)), C(mtu_bytes), C(routing) and C(nccl) may be given.
      - RoCE also has C(backend), C(dcqcn), C(qos) (C(data), C(control), C(cnp), each with C(dscp), C(priority),
        C(lossless)), C(ecn) (C(min_bytes) and C(max_bytes) of a queue that marks), C(buffers) and C(rings);
        InfiniBand has C(ipoib), C(partitions) and C(subnet_manager).
      - C(switches) lists blocks of switches with C(name), C(tier), C(system), C(address) and C(uplinks) (C(to),
        C(ports), C(at), C(groups)).
    type: dict
    required: true
  storage:
    description: Where jobs write. Without it nothing is mounted or checked, and there is no stage storage.
    type: dict
    default: {}
    suboptions:
      tiers:
        description:
          - File systems that every compute node has, each with C(name), C(kind), C(path), and where wanted
            C(parameters) (mount options, null takes a default out), C(write_ms) and C(free_percent) (limits of the
            health check).
          - C(local) is RAID0 and XFS over the NVMe drives of the class, with C(per_numa_node) one for each NUMA node at
            C(PATH/numaN).
          - C(nfs) has C(server) (a host of role C(storage), or the address of another server), C(export), C(protocol)
            (V(tcp) or V(rdma)), C(connections), and with VAST's client C(remoteports); with a server of the fleet also
            C(address) (on the network of storage), C(clients) (networks; the compute nodes by default) and C(drives)
            (PCI addresses of the drives below the export).
          - C(lustre) has C(source) and C(stripe_count), C(weka) has C(source) and C(net), C(beegfs) has C(management),
            C(authentication) and C(settings). These and C(nfs) may have C(client) (C(packages) and C(repository)).
            C(existing) has C(filesystem); somebody else mounts it, Muster verifies it.
        type: list
        elements: dict
      checkpoint:
        description:
          - What stage storage writes and judges, and what the plan starts from. C(tier) is the name of a shared one,
            C(model) has C(parameters), C(ranks) and C(bytes_per_parameter); C(target_seconds) is how long a save may
            take, C(interval_seconds) and C(failures_per_1000_node_days) are the plan's.
        type: dict
  scheduler:
    description:
      - C(partitions) lists the user partitions, each with C(name), C(default), C(hardware_classes) and C(parameters).
        C(managed) is false where the site sets up Slurm itself.
      - C(parameters) holds keys of slurm.conf, C(node_parameters) keys of NodeName lines by class, C(cgroup) keys of
        cgroup.conf; null takes a key out. C(ssh_access) is V(pam_slurm_adopt), V(pam_slurm) or V(open).
      - C(version) is Slurm's release (V(22.05) to V(25.11), as text) on controllers and database, and on all other
        hosts that have no C(slurm_version). C(repository) is a site's own packages (C(url), C(suite), C(components),
        C(signing_key)). C(state_directory) has to be declared where there are two controllers.
      - C(topology) is V(tree), V(block) or V(none), C(gres) V(explicit), V(nvml), V(nvidia), V(nrt) or V(none),
        C(leaving_jobs) V(finish) or V(end), C(hooks) which of C(health), C(prolog) and C(epilog) run.
        C(staff_partitions) names partitions of others that users cannot submit to; nodes that are not admitted may be
        in them.
      - C(accounting) has C(host), C(enforce), C(parameters) (keys of slurmdbd.conf) and C(accounts), each with C(name),
        C(parent), C(users) and C(limits); C(rest) has C(host) and C(port), C(containers) has C(packages) and C(plugin).
    type: dict
    required: true
  ledger:
    description:
      - C(url) says where the ledger is (V(sqlite:///PATH), relative to the fleet file's directory, or V(postgresql://HOST/NAME)),
        C(id) which one it must be (a UUID).
    type: dict
    required: true
  policy:
    description:
      - What admission asks for. C(stages), C(burn_in_profile), C(burn_in_profiles), C(fresh_hours),
        C(close_limit_percent), C(retest), C(heartbeat_seconds), C(latency_profile), C(latency_profiles); each has a
        default.
    type: dict
    default: {}
"""

EXAMPLES = r"""
# 3,072 hosts in 8 pods of 192 racks, eight rails each; ansible-inventory -i site.fleet.yml --graph
plugin: muster.cluster.fleet
cluster: east
hosts:
  - {name: east-ctl, role: controller, address: 10.1.0.10}
nodes:
  - name: gpu-[0001-3072]
    hardware_class: xe9680_h100
    address: 10.1.16.1
    pods: {name: "pod-[1-8]", nodes_each: 384}
    racks: {name: "rack-[0001-1536]", nodes_each: 2}
    rails: {addresses: "172.[16-23].0.1/16"}
hardware_classes:
  xe9680_h100:
    memory: {mib: 1915071}
fabric: {kind: roce, speed_gbps: 400, socket_interface: bond0}
scheduler:
  partitions:
    - {name: batch, default: true}
ledger:
  url: sqlite:////var/lib/muster/ledger.sqlite
  id: 3d0c5f9e-2f47-4e0c-9f0a-5b8a1c6d7e21
policy:
  close_limit_percent: 5
keyed_groups:
  - {key: pod, prefix: zone}
"""

import gc
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from ansible import context
from ansible.errors import AnsibleError
from ansible.plugins.inventory import BaseInventoryPlugin, Constructable
from ansible.template import trust_as_template
from ansible_collections.muster.cluster.plugins.plugin_utils.control.worker import end_workers_with_the_run
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet import fleet as fleets
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError, read_yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import states

# Keys of muster_fleet that are filled in when they are used.
_LARGE = ("nodes", "classes", "fabric", "scheduler", "policy")
_COLLECTION = "muster.cluster."
_PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"


class InventoryModule(BaseInventoryPlugin, Constructable):
    """Fills the inventory from one fleet file."""

    NAME = fleets.PLUGIN
    # The file's author is the operator, as with a YAML inventory; untrusted text would be listed as __ansible_unsafe.
    trusted_by_default = True

    def verify_file(self, path: str) -> bool:
        """Return whether the name is one of a fleet file; whether it can be read is for ``parse`` to say."""
        return str(path).endswith(fleets.SUFFIXES)

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Fill the inventory, or end the run with the one line that says what is wrong."""
        super().parse(inventory, loader, path, cache)
        # Every run of Muster's playbooks reads its fleet before it starts a worker.
        end_workers_with_the_run()
        file = fleets.display_path(str(path))
        if option := left_out_by(context.CLIARGS):
            self._end(
                f"{option} leaves out what guards the fleet and judges the nodes. Run the playbook from its start, or "
                "that of one step (provision, examine, burn_in, prove, admit): what is done already is not done again"
            )
        try:
            self._fill(str(path), file)
        except FleetError as exc:
            self._end(str(exc))
        except AnsibleError as exc:
            self._end(f"{file}: {exc}")

    def _end(self, why: str) -> NoReturn:
        # By default Ansible takes an inventory error for a warning, offers the file to its other plugins, which
        # complain in turn, and goes on without hosts. A run that does nothing must not look like one that passed.
        self.display.error(why)
        raise SystemExit(1)

    def _fill(self, path: str, file: str) -> None:
        data = read_yaml(path, file)
        fleet = fleets.Fleet.from_data(data, file)
        expressions = {key: _trusted(data[key]) for key in fleets.CONSTRUCTABLE if data.get(key) is not None}
        self.set_options(direct={**data, **expressions})
        self._add_hosts(fleet)
        self._add_variables(fleet, path)
        self._construct(fleet)
        # A run forks a worker for each task and host, whose garbage collection would go through all that was read here:
        # 0.2 s for 3,072 hosts (Python's manual, gc.freeze).
        gc.freeze()

    def _add_hosts(self, fleet: fleets.Fleet) -> None:
        states_now = states(fleet.ledger.url, fleet.ledger.id)
        groups: dict[str, list[str]] = defaultdict(list)
        for node in fleet.nodes:
            self.inventory.add_host(node.name)
            self.inventory.set_variable(node.name, "ansible_host", node.address)
            self.inventory.set_variable(node.name, "muster_node", fleet.node_variables()[node.name])
            groups[node.role].append(node.name)
            for kind, value in (
                ("class", node.hardware_class),
                ("pod", node.pod),
                ("rack", node.rack),
                ("state", states_now.get(node.name)),
            ):
                if value is not None:
                    groups[f"{kind}_{value}"].append(node.name)
        for name, members in groups.items():
            group = self.inventory.add_group(self._sanitize_group_name(name))
            for member in members:
                self.inventory.add_child(group, member)

    def _add_variables(self, fleet: fleets.Fleet, path: str) -> None:
        # Trusted by itself: ansible-core 2.19 keeps one source's word on trust for all that come after it.
        sections = {
            name: trust_as_template(
                f"{{{{ lookup('{fleets.PLUGIN}_section', {json.dumps(path)}, section='{name}') }}}}"
            )
            for name in _LARGE
        }
        variable = {**fleet.variables(), **sections}
        fleets.remember(path, fleet, variable)
        self.inventory.set_variable("all", "muster_fleet", variable)
        for name in {node.hardware_class for node in fleet.nodes if node.hardware_class}:
            group = self._sanitize_group_name(f"class_{name}")
            expect = trust_as_template(f"{{{{ muster_fleet.classes[{json.dumps(name)}] }}}}")
            self.inventory.set_variable(group, "muster_expect", expect)
        # Of the hosts' own groups: the variables of group all are also those of Ansible's implicit localhost.
        for role in {node.role for node in fleet.nodes}:
            self.inventory.set_variable(self._sanitize_group_name(role), "ansible_become", True)

    def _construct(self, fleet: fleets.Fleet) -> None:
        """Add composed variables and groups; a node's fields (``pod``, ``rails``) are variables in expressions."""
        compose, groups, keyed = (self.get_option(key) for key in ("compose", "groups", "keyed_groups"))
        if not (compose or groups or keyed):
            return
        strict = self.get_option("strict")
        for node in fleet.nodes:
            fields = {"inventory_hostname": node.name, "ansible_host": node.address, **node.to_dict()}
            self._set_composite_vars(compose, fields, node.name, strict=strict)
            self._add_host_to_composed_groups(groups, fields, node.name, strict=strict)
            self._add_host_to_keyed_groups(keyed, fields, node.name, strict=strict)


def _trusted(value: Any) -> Any:
    """Return the expressions of a fleet file as templates: its author is the operator who runs them."""
    if isinstance(value, Mapping):
        return {key: _trusted(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_trusted(inner) for inner in value]
    return trust_as_template(value) if isinstance(value, str) else value


def left_out_by(options: Mapping[str, Any]) -> str:
    """Return the option of the command line that leaves out tasks of Muster's own playbooks, empty if none does.

    Their tasks have no tags. An inventory is read before every run, and no option leaves that out.
    """
    if not any(_is_ours(playbook) for playbook in options.get("args") or ()):
        return ""
    untagged = {"all", "untagged"}
    if options.get("start_at_task"):
        return "--start-at-task"
    if not untagged & set(options.get("tags") or ["all"]):
        return "--tags"
    return "--skip-tags" if untagged & set(options.get("skip_tags") or ()) else ""


def _is_ours(playbook: str) -> bool:
    return playbook.startswith(_COLLECTION) or Path(playbook).resolve().parent == _PLAYBOOKS
