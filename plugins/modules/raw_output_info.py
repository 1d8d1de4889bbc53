#!/usr/bin/python
"""Raw outputs that a node keeps beside evidence."""

from __future__ import annotations

DOCUMENTATION = r"""
module: raw_output_info
short_description: Return the raw outputs that a node keeps beside evidence
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Reads what the tools of an examination printed, as the node keeps it under C(/var/lib/muster/evidence), and returns
    it in one packed text. M(muster.cluster.rejudge) judges it on the control machine.
  - Fails where an output cannot be read, or where all together have more than 64 MiB.
options:
  stage:
    description: Stage of the evidence.
    type: str
    choices: [preflight, burn_in]
    required: true
  id:
    description: Id of the evidence.
    type: str
    required: true
  places:
    description: Directories beside the evidence, such as V(raw).
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    description: Only reads.
    support: full
"""

EXAMPLES = r"""
- name: Read the raw outputs of a preflight
  muster.cluster.raw_output_info:
    stage: preflight
    id: "{{ muster_preflight.evidence.id }}"
    places: [raw]
"""

RETURN = r"""
outputs:
  description: "Outputs by directory and probe: JSON, compressed (zlib), as Base64."
  returned: success
  type: str
  sample: eJyrVipKLFeyqlbKSS0qUbKqrlWqBQBCGQYm
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.evidence_store import EvidenceStore, valid_id
from ansible_collections.muster.cluster.plugins.module_utils.host.raw_outputs import RawError, pack, places_in

STAGES = ["preflight", "burn_in"]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "stage": {"type": "str", "choices": STAGES, "required": True},
            "id": {"type": "str", "required": True},
            "places": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    stage, evidence_id, places = (module.params[key] for key in ("stage", "id", "places"))
    if not valid_id(evidence_id):
        module.fail_json(msg=f"id is {evidence_id!r}, expected letters, digits, '-', '_' and '.'")
    try:
        # A name of a probe, so that each is the name of a directory here.
        places_in(f"{place}/probe" for place in places)
        outputs = pack(EvidenceStore().read_raw(stage, evidence_id, places))
    except RawError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, outputs=outputs)


if __name__ == "__main__":
    main()
