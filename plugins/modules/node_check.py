#!/usr/bin/python
"""Examine a node once."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_check
short_description: Examine a node and return the evidence
version_added: 0.1.0
author: The Muster developers
description:
  - Runs C(muster examine) on the node and returns what it found. A sick node is an answer, not a failure.
  - The answer has to carry the id that this run of the module made, this node, stage and expectations; evidence of
    anything else, such as an older run, fails the task.
  - Gathering evidence changes nothing on the host, so the result is never C(changed). Raw outputs are kept on the node
    under C(/var/lib/muster/evidence), except in check mode, which leaves no trace.
options:
  node:
    description: The node's name in the fleet.
    type: str
    required: true
  expect:
    description: What the node's hardware class must have, C(muster_expect).
    type: dict
    required: true
  stage:
    description: Whose checks to run.
    type: str
    choices: [preflight, burn_in]
    default: preflight
  tool:
    description: The program on the node, as the role C(burn_in) installs it.
    type: path
    default: /usr/libexec/muster/muster
attributes:
  check_mode:
    description: Examines, and keeps nothing on the node.
    support: full
"""

EXAMPLES = r"""
- name: Examine the node
  muster.cluster.node_check:
    node: "{{ inventory_hostname }}"
    expect: "{{ muster_expect }}"
  register: preflight
"""

RETURN = r"""
evidence:
  description: The evidence, as the ledger takes it; null in check mode where the program is not installed yet.
  returned: success
  type: dict
  sample: {format: 1, id: 0f6e2f6c-0b55-4f0e-9d2d-bf5d4a3f9f0e, node: gpu-01, stage: preflight, findings: []}
verdict:
  description: The worst verdict of all findings.
  returned: success
  type: str
  sample: pass
findings:
  description: The findings that are not C(pass).
  returned: success
  type: list
  elements: dict
  sample: [{check: memory, subject: host, verdict: fail, measured: 1031000, expected: 2063000, unit: MiB,
            reason: less than declared by over 5 %, action: reseat}]
seconds:
  description: How long the examination took on the node.
  returned: success
  type: float
  sample: 0.9
"""

import json
import time
import uuid
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.answer import evidence_in
from ansible_collections.muster.cluster.plugins.module_utils.evidence import EvidenceError, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.finding import INCOMPLETE, PASS, worst


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "expect": {"type": "dict", "required": True},
            "stage": {"type": "str", "choices": ["preflight", "burn_in"], "default": "preflight"},
            "tool": {"type": "path", "default": "/usr/libexec/muster/muster"},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    asked = {"id": str(uuid.uuid4()), "node": wanted["node"], "stage": wanted["stage"]}
    argv = [wanted["tool"], "examine", *(word for key, value in asked.items() for word in (f"--{key}", value))]
    began = time.monotonic()
    if not Path(wanted["tool"]).is_file():
        if module.check_mode:
            module.exit_json(changed=False, evidence=None, verdict=INCOMPLETE, findings=[], seconds=0.0)
        module.fail_json(msg=f"{wanted['tool']} is not there; the role muster.cluster.burn_in installs it")
    rc, stdout, stderr = module.run_command(
        argv + ["--no-store"] * module.check_mode, data=json.dumps(wanted["expect"]), environ_update={"LC_ALL": "C"}
    )
    if rc != 0:
        module.fail_json(msg=f"{wanted['tool']} examine: exit status {rc}: {stderr.strip()[-1000:]}", rc=rc)
    try:
        digest = expect_digest_of(wanted["stage"], wanted["expect"])
        evidence = evidence_in(json.loads(stdout), **asked, expect_digest=digest)
    except (ValueError, EvidenceError) as exc:
        module.fail_json(msg=f"{wanted['tool']} examine: {exc}; printed {stdout[:200]!r}")
    module.exit_json(
        changed=False,
        evidence=evidence.to_dict(),
        verdict=worst(finding.verdict for finding in evidence.findings),
        findings=[finding.to_dict() for finding in evidence.findings if finding.verdict != PASS],
        seconds=round(time.monotonic() - began, 3),
    )


if __name__ == "__main__":
    main()
