#!/usr/bin/python
"""Examine a node once."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_check
short_description: Examine a node and return the evidence
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Runs C(muster examine) on the node and returns its evidence. A sick node is a result, not a failure.
  - The evidence must contain the id that this run created, this node, stage and expectations. Any other evidence, such
    as that of an older run, fails the task.
  - Brings along the evidence of burn-in that the ledger does not have, whether burn-in is due or not. A run that was
    interrupted is closed first, except in check mode.
  - Collecting evidence does not change the host, so the result is never C(changed). Raw outputs are kept on the node
    under C(/var/lib/muster/evidence), except in check mode, which leaves no trace.
options:
  node:
    description: The node's name in the fleet.
    type: str
    required: true
  expect:
    description: Expectations of the node's hardware class, C(muster_expect).
    type: dict
    required: true
  stage:
    description: Stage whose checks run.
    type: str
    choices: [preflight, burn_in]
    default: preflight
  health:
    description:
      - Also run the node's health check, C(muster health), after the examination, with C(/etc/muster/expect.json). In
        check mode its last result is judged instead.
    type: bool
    default: false
  known:
    description:
      - Ids of the node's burn-in evidence that the ledger has. What came before the last of them is not fetched.
    type: list
    elements: str
    default: []
  judge_again:
    description:
      - Id of evidence of the node's burn-in whose kept outputs are judged again by the present checks. It is returned
        in RV(judged_again); where it cannot be made, a warning says why.
    type: str
    default: ""
  tool:
    description: Path of the node program, which role C(burn_in) installs.
    type: path
    default: /usr/libexec/muster/muster
attributes:
  check_mode:
    description: Examines, and writes nothing on the node.
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
  description: The evidence, as the ledger takes it; null in check mode if the program is not installed yet.
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
health:
  description:
    - Result of the health check; null if it did not run. No answer, or one about another node or boot, is
      C(incomplete). C(service_age_seconds) is the age of the last run by Slurm; null for never.
  returned: success
  type: dict
  sample: {verdict: pass, findings: [], evidence: null, service_age_seconds: 120.5}
burn_in:
  description: Evidence of burn-in that came after O(known), oldest first; that of a run under way has not finished.
  returned: success
  type: list
  elements: dict
  sample: []
judged_again:
  description:
    - Burn-in evidence that the present checks make of kept outputs; null if none was asked for, or if outputs are
      missing, cut off or altered.
  returned: success
  type: dict
  sample: {format: 2, id: 5f1d3ab0-2f0e-5b7a-9f0c-6a4d6c1f8f11, node: gpu-01, stage: burn_in, findings: []}
seconds:
  description: Duration of the examination on the node.
  returned: success
  type: float
  sample: 0.9
"""

import json
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import heartbeat
from ansible_collections.muster.cluster.plugins.module_utils.words.answer import evidence_in
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import (
    Evidence,
    EvidenceError,
    expect_digest_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding, worst

BURN_IN = "burn_in"
# Exit status of muster health by verdict.
EXIT_STATUS = {PASS: 0, FAIL: 1, INCOMPLETE: 2}
# In check mode nothing new can be measured; what was said last stands.
ANY_AGE_SECONDS = 1e9


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "expect": {"type": "dict", "required": True},
            "stage": {"type": "str", "choices": ["preflight", "burn_in"], "default": "preflight"},
            "health": {"type": "bool", "default": False},
            "known": {"type": "list", "elements": "str", "default": []},
            "judge_again": {"type": "str", "default": ""},
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
            nothing: dict[str, Any] = {"evidence": None, "health": None, "judged_again": None}
            module.exit_json(changed=False, **nothing, verdict=INCOMPLETE, findings=[], burn_in=[], seconds=0.0)
        module.fail_json(msg=f"{wanted['tool']} is not there; the role muster.cluster.burn_in installs it")
    rc, stdout, stderr = module.run_command(
        argv + ["--no-store"] * module.check_mode, data=json.dumps(wanted["expect"]), environ_update={"LC_ALL": "C"}
    )
    if rc != 0:
        module.fail_json(msg=f"{wanted['tool']} examine: exit status {rc}: {stderr.strip()[-1000:]}", rc=rc)
    if stderr.strip():
        # Such as a disk on which the raw outputs could not be kept.
        module.warn(stderr.strip()[-1000:])
    try:
        digest = expect_digest_of(wanted["stage"], wanted["expect"])
        evidence = evidence_in(json.loads(stdout), **asked, expect_digest=digest)
    except (ValueError, EvidenceError) as exc:
        module.fail_json(msg=f"{wanted['tool']} examine: {exc}; printed {stdout[:200]!r}")
    module.exit_json(
        changed=False,
        evidence=evidence.to_dict(),
        health=_health(module, evidence) if wanted["health"] else None,
        judged_again=_judged_again(module) if wanted["judge_again"] else None,
        verdict=worst(finding.verdict for finding in evidence.findings),
        findings=[finding.to_dict() for finding in evidence.findings if finding.verdict != PASS],
        burn_in=_burn_in(module),
        seconds=round(time.monotonic() - began, 3),
    )


def _burn_in(module: AnsibleModule) -> list[dict[str, Any]]:
    """Return the evidence of burn-in that nobody has collected; fails where it cannot be read."""
    wanted = module.params
    argv = [wanted["tool"], "burn-in", "status" if module.check_mode else "settle", "--uncollected", wanted["node"]]
    argv += [word for known in wanted["known"] for word in ("--known", known)]
    rc, stdout, stderr = module.run_command(argv, environ_update={"LC_ALL": "C"})
    try:
        found = json.loads(stdout)["uncollected"]
        brought = [evidence_in(each, node=wanted["node"], stage="burn_in").to_dict() for each in found]
    except (ValueError, KeyError, TypeError) as exc:
        said = (stderr or stdout).strip()[-500:]
        module.fail_json(msg=f"{' '.join(argv[:3])}: exit status {rc}: {said or exc}", rc=rc)
    return brought


def _health(module: AnsibleModule, preflight: Evidence) -> dict[str, Any]:
    """Return what the health check says; never fails, since no answer is one."""
    tool, node = module.params["tool"], module.params["node"]
    beat, age = LocalHost().read(heartbeat.PATH), None
    with suppress(Unreadable):
        last = heartbeat.parse(beat)
        age = time.time() - last.service_time if last is not None and last.service_time else None
    words = ["--status", "--max-age", str(ANY_AGE_SECONDS)] if module.check_mode else ["--node", node]
    rc, stdout, stderr = module.run_command([tool, "health", *words], environ_update={"LC_ALL": "C"})
    return {**health_in(rc, stdout, stderr, preflight, module.check_mode), "service_age_seconds": age}


def health_in(rc: int, stdout: str, stderr: str, preflight: Evidence, check: bool) -> dict[str, Any]:
    """Return verdict, findings and evidence of a health check's answer; what is none is incomplete."""
    try:
        said = json.loads(stdout)
        verdict, evidence = said["verdict"], said.get("evidence")
        findings = [Finding.from_dict(each) for each in said["findings"]]
        if EXIT_STATUS.get(verdict) != rc or (verdict == PASS and findings):
            raise ValueError(f"exit status {rc}, verdict {verdict!r} with {len(findings)} findings")
        if not check and said["boot_id"] != preflight.boot_id and verdict == PASS:
            raise ValueError(f"boot {said['boot_id']!r}, expected {preflight.boot_id!r}")
        if evidence is not None:
            evidence = evidence_in(evidence, node=preflight.node, stage="health").to_dict()
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        why = f"muster health: exit status {rc}: {exc!r}; printed {(stdout or stderr)[:200]!r}"
        finding = Finding("health", "host", INCOMPLETE, None, None, "", why, "investigate")
        return {"verdict": INCOMPLETE, "findings": [finding.to_dict()], "evidence": None}
    return {"verdict": verdict, "findings": [each.to_dict() for each in findings], "evidence": evidence}


def _judged_again(module: AnsibleModule) -> dict[str, Any] | None:
    """Return the burn-in evidence that was asked for, judged again; without it the burn-in is owed again."""
    tool, asked = module.params["tool"], module.params["judge_again"]
    rc, stdout, stderr = module.run_command(
        [tool, "judge-again", "--stage", BURN_IN, "--id", asked],
        data=json.dumps(module.params["expect"]),
        environ_update={"LC_ALL": "C"},
    )
    try:
        evidence = evidence_in(json.loads(stdout), node=module.params["node"], stage=BURN_IN)
        if evidence.detail["judged_again"]["of"] != asked:
            raise EvidenceError(f"made of {evidence.detail['judged_again']['of']!r}, expected {asked!r}")
    except (ValueError, KeyError, TypeError) as exc:
        module.warn(f"burn-in {asked} was not judged again: exit status {rc}: {stderr.strip()[-500:] or exc}")
        return None
    return evidence.to_dict()


if __name__ == "__main__":
    main()
