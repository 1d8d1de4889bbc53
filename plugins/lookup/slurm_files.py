"""Lookup slurm_files: Slurm's files of a fleet's controllers."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_files
author: The Muster developers (@muster-cluster)
version_added: 0.1.0
short_description: Slurm's files of a fleet's controllers
description:
  - Returns slurm.conf, cgroup.conf and, where the fleet has something to say in them, gres.conf, topology.conf and
    plugstack.conf. They are the same on every controller; all other hosts fetch them from there.
  - C(slurm.conf) ends with C(Include muster_partitions.conf), the file of M(muster.cluster.slurm_gate), which is not
    among them.
  - Where the fleet has C(scheduler.managed) false, C(slurm.conf) has only the lines that the site's own needs, and
    C(muster_partitions.conf) is what that file has to be at first.
  - A file that is not returned does not belong into the controllers' configuration.
  - A declaration that Slurm cannot follow, such as a key that the declared release lacks, is an error.
options:
  _terms:
    description: The fleet, C(muster_fleet). One term.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what slurm.conf will say
  ansible.builtin.debug:
    msg: "{{ (lookup('muster.cluster.slurm_files', muster_fleet) | first).content }}"
"""

RETURN = r"""
_raw:
  description: One list of the files, each with C(name), its name in /etc/slurm, and C(content).
  type: list
  elements: list
  sample:
    - - {name: slurm.conf, content: "ClusterName=east\n..."}
      - {name: cgroup.conf, content: "ConstrainCores=yes\n..."}
"""

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.slurm.site_slurm_files import site_files_of
from ansible_collections.muster.cluster.plugins.plugin_utils.slurm.slurm_files import (
    check_processors,
    cluster_of,
    files_of,
)


class LookupModule(LookupBase):
    """Slurm's files of one fleet."""

    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[list[dict[str, str]]]:
        """Return one list of files; raises AnsibleLookupError."""
        if len(terms) != 1 or not isinstance(terms[0], Mapping) or kwargs:
            raise AnsibleLookupError("slurm_files: expected one term, the fleet (muster_fleet), and no options")
        try:
            cluster = cluster_of(Fleet.from_variables(terms[0]))
            if cluster.scheduler.managed:
                check_processors(cluster)
            files = files_of(cluster) if cluster.scheduler.managed else site_files_of(cluster)
        except MusterError as exc:
            raise AnsibleLookupError(f"slurm_files: {exc}") from exc
        return [[{"name": name, "content": content} for name, content in files.items()]]
