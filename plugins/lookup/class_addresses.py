"""Lookup of the places of GPUs and rails in the classes that come with Muster."""

from __future__ import annotations

DOCUMENTATION = """
name: class_addresses
short_description: PCI addresses of GPUs and rails in the shipped hardware classes
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Returns a mapping of class names. Classes of a board, whose places are the host vendor's choice, are left out.
options:
  _terms:
    description: None are taken.
    required: false
"""

EXAMPLES = """
- name: Show where the shipped classes have their GPUs
  ansible.builtin.debug:
    msg: "{{ lookup('muster.cluster.class_addresses') }}"
"""

RETURN = """
_raw:
  description: One mapping; C(gpus) and C(rails) of each class are PCI addresses.
  type: list
  elements: dict
  sample: [{dgx_h100: {gpus: ["0000:1b:00.0"], rails: ["0000:18:00.0"]}}]
"""

from functools import cache
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import (
    placed_classes,
    shipped_values,
)


@cache
def class_addresses() -> dict[str, dict[str, list[str]]]:
    """Return the addresses of each class that has them; asked once for all hosts."""
    classes = {name: shipped_values(name) for name in placed_classes()}
    return {
        name: {
            "gpus": [part["address"] for part in values["gpu"]["parts"]],
            "rails": [rail["address"] for rail in values["nic"]["rails"]],
        }
        for name, values in classes.items()
    }


class LookupModule(LookupBase):
    """Gives the places of the shipped classes."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return a list of that one mapping."""
        if terms or kwargs:
            raise AnsibleLookupError("class_addresses: expected no terms and no options")
        return [class_addresses()]
