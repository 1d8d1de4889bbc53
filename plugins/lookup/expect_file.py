"""Lookup of a node's expectations as a file."""

from __future__ import annotations

DOCUMENTATION = """
name: expect_file
short_description: Write what is expected of a node to a file and return its path
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Writes the expectations as JSON to a file C(expect.json) on the control machine and returns where it lies, so that
    one copy task can install it beside other files. C(muster health) judges by it.
  - The file is kept in C($XDG_CACHE_HOME/muster) or C(~/.cache/muster), in a directory named after its content.
options:
  _terms:
    description: The expectations, C(muster_expect). One term.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = """
- name: Install the expectations
  ansible.builtin.copy:
    src: "{{ lookup('muster.cluster.expect_file', muster_expect) }}"
    dest: /etc/muster/
    mode: "0644"
"""

RETURN = """
_raw:
  description: Path of the file, whose last part is C(expect.json).
  type: list
  elements: path
  sample: [/home/operator/.cache/muster/0a1b2c3d4e5f6071/expect.json]
"""

import json
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.lookup.zipapp import cache_directory, written


class LookupModule(LookupBase):
    """Gives the path of the file with the expectations."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """Return a list of that one path."""
        if len(terms) != 1 or not isinstance(terms[0], dict) or kwargs:
            raise AnsibleLookupError("expect_file: expected one term, a mapping of expectations, and no options")
        text = json.dumps(terms[0], indent=1, sort_keys=True) + "\n"
        try:
            return [str(written(text.encode(), cache_directory(), "expect.json", 0o644))]
        except OSError as exc:
            raise AnsibleLookupError(f"expect_file: {exc}") from exc
