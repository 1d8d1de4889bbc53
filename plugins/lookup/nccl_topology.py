"""Lookup of a topology file for NCCL, checked."""

from __future__ import annotations

DOCUMENTATION = """
name: nccl_topology
short_description: Content of a topology file for NCCL, checked
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Returns the content of a file of the control machine that describes a host's PCI topology to NCCL
    (C(NCCL_TOPO_FILE)).
  - Fails unless it is XML whose root is C(system), as NCCL ignores others without a word.
options:
  _terms:
    description: Absolute path of the file. One term.
    type: list
    elements: path
    required: true
"""

EXAMPLES = """
- name: Install the topology
  ansible.builtin.copy:
    content: "{{ lookup('muster.cluster.nccl_topology', '/srv/muster/ndv5-topo.xml') }}"
    dest: /etc/nccl_topo.xml
    mode: "0644"
"""

RETURN = """
_raw:
  description: Content of the file.
  type: list
  elements: str
  sample: ['<system version="1"><cpu numaid="0"/></system>']
"""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    """Gives the text of the file."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """Return a list of that one text."""
        if len(terms) != 1 or not isinstance(terms[0], str) or not terms[0].startswith("/") or kwargs:
            raise AnsibleLookupError("nccl_topology: expected one term, the absolute path of a file, and no options")
        try:
            text = Path(terms[0]).read_text(encoding="utf-8")
            root = ElementTree.fromstring(text).tag
        except (OSError, ValueError, ElementTree.ParseError) as exc:
            raise AnsibleLookupError(f"{terms[0]}: {exc}, expected NCCL's topology as XML") from exc
        if root != "system":
            raise AnsibleLookupError(f"{terms[0]}: found root element {root}, expected system")
        return [text]
