"""Lookup slurm_site: what the site's own Slurm is held against."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_site
author: The Muster developers (@muster-cluster)
version_added: 0.1.0
short_description: What a fleet needs of a Slurm that the site sets up itself
description:
  - Returns the options of M(muster.cluster.slurm_site_info) that follow from the fleet. Those are all but
    C(pmix) and C(uid).
options:
  _terms:
    description: The fleet, C(muster_fleet). One term.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show how many GPUs Slurm has to hand out on each node
  ansible.builtin.debug:
    msg: "{{ lookup('muster.cluster.slurm_site', muster_fleet).nodes }}"
"""

RETURN = r"""
_raw:
  description: The options.
  type: list
  elements: dict
  sample:
    - nodes: {gpu-01: 8}
      partitions: {batch: {}}
      release: "22.05"
      state_directory: /var/lib/slurm/slurmctld
      controllers: 1
      hooks: [health, prolog, epilog]
"""

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.slurm.site_slurm_files import site_needs_of
from ansible_collections.muster.cluster.plugins.plugin_utils.slurm.slurm_files import cluster_of


class LookupModule(LookupBase):
    """What one fleet needs of the site's own Slurm."""

    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return the options; raises AnsibleLookupError."""
        if len(terms) != 1 or not isinstance(terms[0], Mapping) or kwargs:
            raise AnsibleLookupError("slurm_site: expected one term, the fleet (muster_fleet), and no options")
        try:
            return [site_needs_of(cluster_of(Fleet.from_variables(terms[0])))]
        except MusterError as exc:
            raise AnsibleLookupError(f"slurm_site: {exc}") from exc
