#!/usr/bin/python
"""Start a node's burn-in, or attach to the one that is there."""

from __future__ import annotations

DOCUMENTATION = r"""
module: burn_in_job
short_description: Start burn-in on a node, or attach to a running one
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Starts C(muster-burn-in.service) with a plan, unless a run is active (with any plan; its evidence contains it) or
    the ledger does not yet have the evidence of a completed run. Then that run is returned.
  - The evidence of a completed run may be unreadable, or belong to another node (on a host made from a disk image).
    Such evidence could never be collected. Then RV(discarded) states the reason, a new run starts, and the old files
    stay.
  - An active run for another node name fails the task, because somebody else may be waiting for it.
  - A run that was interrupted, by a reboot or by the end of its process, is closed first and returned as completed.
  - Before a run starts, a node that serves Slurm is drained, and its jobs get O(jobs_wait_seconds) to end. If jobs
    remain, or Slurm does not say, the task fails and nothing is started. The node stays drained until a burn-in has
    passed. An existing drain is not changed, whoever set it.
  - Before a run starts, the inlet is read where the class has C(bmc.inlet). If it is above the limit, nothing is
    started, and RV(waits) says why. One that cannot be read is left to the burn-in, whose verdict is then incomplete.
  - The task is an action plugin, which waits on the control machine until the node's turn has come, see O(turn).
  - Collecting evidence does not change the host. The result is C(changed) if the node was drained. Check mode starts
    and drains nothing.
  - C(muster.cluster.burn_in_wait) waits for the end and fetches the evidence.
options:
  node:
    description: The node's name in the fleet.
    type: str
    required: true
  profile:
    description: Name of the burn-in profile. The policy compares it.
    type: str
    required: true
  steps:
    description:
      - "Steps in order. Each step is C(seconds) with or without C(run) (stresses side by side, each with its
        settings), C(run) with C(limit_seconds) for what has a length of its own, or C(reboot) (C(warm),
        C(power_cycle))."
    type: list
    elements: dict
    required: true
  interval_seconds:
    description: Time from one examination to the next during a step.
    type: float
    required: true
  allow_reboot:
    description: Whether planned reboots are allowed. If false, a plan with reboots is refused.
    type: bool
    default: false
  stop_on_fail:
    description: End at the first failed finding, because more hours do not help a failed node.
    type: bool
    default: true
  waivers:
    description:
      - Failed findings that do not end it, each with C(check), C(subject) and the last day C(until), as the lookup
        P(muster.cluster.waivers#lookup) gives them.
    type: list
    elements: dict
    default: []
  expect:
    description: Expectations of the node's hardware class, C(muster_expect).
    type: dict
    required: true
  known:
    description: Ids of the node's burn-in evidence that the ledger already has.
    type: list
    elements: str
    default: []
  jobs_wait_seconds:
    description: How long to wait for Slurm's jobs on the node to end; 0 checks once.
    type: float
    default: 0
  may_start:
    description: Whether a run may be started. If false and one is wanted, RV(waits) says so.
    type: bool
    default: true
  turn:
    description:
      - The node's turn, as M(muster.cluster.burn_in_ramp) gives it. The node starts so many seconds after the first
        host of the batch, and not at all if the ramp has stopped. Without it the node starts at once. A run that is
        under way is attached to without a wait.
    type: dict
    default: {}
  alarm:
    description:
      - Command and arguments on the control machine, asked every 5 seconds at most while hosts start. If its exit
        status is not 0, or it gives no answer within 10 seconds, no further host starts.
    type: list
    elements: str
    default: []
  tool:
    description: Path of the node program, which role C(burn_in) installs.
    type: path
    default: /usr/libexec/muster/muster
attributes:
  check_mode:
    description: Returns the state, and starts and drains nothing.
    support: full
"""

EXAMPLES = r"""
- name: Start burn-in
  muster.cluster.burn_in_job:
    node: "{{ inventory_hostname }}"
    profile: soak
    steps:
      - {limit_seconds: 1800, run: {dcgm_diag: {level: 2}}}
      - {seconds: 7200, run: {gpu_stress: {}, cpu_stress: {}}}
    interval_seconds: 300
    expect: "{{ muster_expect }}"
"""

RETURN = r"""
id:
  description: Id of the run and of its evidence; empty if there was no run.
  returned: success
  type: str
  sample: 0f6e2f6c-0b55-4f0e-9d2d-bf5d4a3f9f0e
status:
  description: C(running), C(finished), or in check mode C(none) or C(interrupted).
  returned: success
  type: str
  sample: running
started_now:
  description: Whether this task started it.
  returned: success
  type: bool
  sample: true
waits:
  description: Why a run that is wanted was not started; empty if it was, or if none is wanted.
  returned: success
  type: str
  sample: "feed feed-a: inlet of gpu-01: Inlet Temp above the class limit"
jobs:
  description: Slurm's jobs on the node in check mode, where nothing waits for them.
  returned: success
  type: list
  elements: str
  sample: ["1234"]
discarded:
  description: Why a completed run was discarded without being collected; empty if none was.
  returned: success
  type: str
  sample: "run 0f6e2f6c: evidence of something else: node is 'gpu-02', expected 'gpu-01'"
plan_differs:
  description: Differences between the returned run and the arguments. Admission judges the run as it is.
  returned: success
  type: list
  elements: str
  sample: [profile]
"""

import json
import time
import uuid
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import TOOL_PATH, LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import replace_file
from ansible_collections.muster.cluster.plugins.module_utils.slurm.drain_reason import BURN_IN
from ansible_collections.muster.cluster.plugins.module_utils.slurm.node_jobs import keep_jobs_off, listed
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import NodeJob, SlurmGateError
from ansible_collections.muster.cluster.plugins.module_utils.words.answer import evidence_in
from ansible_collections.muster.cluster.plugins.module_utils.words.deviation import Deviation, parted
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import EvidenceError, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, Finding
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import read

UNIT = "muster-burn-in.service"
PLAN = "/etc/muster/burn_in.json"
INLET = "inlet_temperature"
# What a failure also says where nothing has been started.
NOT_STARTED = {"started_now": False, "status": "none"}
PLAN_KEYS = ("node", "profile", "steps", "interval_seconds", "stop_on_fail", "allow_reboot", "expect")


def must_start(status: dict[str, Any], known: list[str], discarded: str = "") -> bool:
    """Return whether a new run is wanted: none is under way, and none waits to be collected."""
    if status["status"] in ("running", "interrupted"):
        return False
    return status["status"] == "none" or status["id"] in known or bool(discarded)


def why_discarded(status: dict[str, Any], known: list[str], node: str) -> str:
    """Return why what the last run left can never be collected, "" if it can or has been.

    The same questions as those of C(burn_in_wait), which does not take what fails here.
    """
    if status["status"] == "none":
        return str(status.get("message", ""))
    if status["status"] != "finished" or status["id"] in known:
        return ""
    where = f"run {status['id']}"
    if status.get("evidence") is None:
        return f"{where}: {status.get('message', 'evidence is missing')}"
    try:
        evidence_in(status["evidence"], id=status["id"], node=node, stage="burn_in")
    except EvidenceError as exc:
        return f"{where}: {exc}"
    return ""


def why_refused(plan: dict[str, Any]) -> str:
    """Return why the node would refuse the plan's reboots, "" if it would not: known before anything starts."""
    reboots = [str(step["reboot"]) for step in plan["steps"] if step.get("reboot")]
    if not reboots:
        return ""
    asked = f"profile {plan['profile']} has a planned {reboots[0]} reboot"
    if not plan["allow_reboot"]:
        return f"burn_in_allow_reboot is false, expected true: {asked}; nothing was started"
    if "power_cycle" in reboots and not plan["expect"].get("bmc"):
        asked = f"profile {plan['profile']} has a planned power_cycle reboot"
        return f"hardware class {plan['expect'].get('class')} declares no bmc: {asked}; nothing was started"
    return ""


def differences(status: dict[str, Any], plan: dict[str, Any]) -> list[str]:
    """Return in what a run differs from the plan that was asked for."""
    if status["status"] == "none":
        return []
    wanted = {**plan, "expect_digest": expect_digest_of("burn_in", plan["expect"])}
    return [
        key.replace("_digest", "")
        for key in ("profile", "steps", "interval_seconds", "expect_digest")
        if status.get(key) != wanted[key]
    ]


def ask(module: AnsibleModule, action: str) -> dict[str, Any]:
    """Return what ``muster burn-in`` says about the node's run."""
    argv = [module.params["tool"], "burn-in", action, "--evidence"]
    rc, stdout, stderr = module.run_command(argv, environ_update={"LC_ALL": "C"})
    try:
        status = json.loads(stdout)
        status["status"]
    except (ValueError, KeyError, TypeError):
        module.fail_json(msg=f"{' '.join(argv)}: exit status {rc}: {(stderr or stdout).strip()[-500:]}", rc=rc)
    return dict(status)


def start(module: AnsibleModule, plan: dict[str, Any]) -> None:
    """Hand the plan to the unit; comes back when the run has begun."""
    try:
        replace_file(Path(PLAN), json.dumps(plan, indent=1, sort_keys=True) + "\n")
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename}: {exc.strerror}; nothing was started")
    rc, _stdout, stderr = module.run_command(["systemctl", "start", UNIT])
    if rc != 0:
        _rc, log, _stderr = module.run_command(["journalctl", "-u", UNIT, "-n", "5", "-o", "cat", "--no-pager"])
        module.fail_json(msg=f"{UNIT} did not start: {stderr.strip()}; its last words: {log.strip()[-1000:]}", rc=rc)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "profile": {"type": "str", "required": True},
            "steps": {"type": "list", "elements": "dict", "required": True},
            "interval_seconds": {"type": "float", "required": True},
            "stop_on_fail": {"type": "bool", "default": True},
            "allow_reboot": {"type": "bool", "default": False},
            "waivers": {"type": "list", "elements": "dict", "default": []},
            "expect": {"type": "dict", "required": True},
            "known": {"type": "list", "elements": "str", "default": []},
            "jobs_wait_seconds": {"type": "float", "default": 0},
            "may_start": {"type": "bool", "default": True},
            # For the action plugin alone.
            "turn": {"type": "dict", "default": {}},
            "alarm": {"type": "list", "elements": "str", "default": []},
            "tool": {"type": "path", "default": "/usr/libexec/muster/muster"},
        },
        supports_check_mode=True,
    )
    plan = {key: module.params[key] for key in PLAN_KEYS}
    if module.params["waivers"]:
        plan["waivers"] = module.params["waivers"]
    if not Path(module.params["tool"]).is_file():
        if module.check_mode:
            nothing = {"id": "", "status": "none", "waits": "", "jobs": [], "discarded": "", "plan_differs": []}
            module.exit_json(changed=False, started_now=False, **nothing)
        module.fail_json(msg=f"{module.params['tool']} is not there; the role muster.cluster.burn_in installs it")
    status = ask(module, "status" if module.check_mode else "settle")
    if status["status"] == "running" and status.get("node") != plan["node"]:
        module.fail_json(
            msg=f"burn-in {status['id']} is under way for node {status.get('node')!r}, expected {plan['node']!r}; "
            f"let it end, or end it with '{module.params['tool']} burn-in stop'"
        )
    discarded = why_discarded(status, module.params["known"], plan["node"])
    wanted = must_start(status, module.params["known"], discarded)
    if wanted and (refused := why_refused(plan)):
        module.fail_json(msg=refused, **NOT_STARTED)
    waits = _why_not_now(module) if wanted and not module.check_mode else ""
    started_now = wanted and not waits and not module.check_mode
    drained, jobs = _without_jobs(module) if wanted and not waits else (False, [])
    if started_now:
        start(module, {**plan, "id": str(uuid.uuid4())})
        status = ask(module, "status")
    module.exit_json(
        changed=drained,
        id=status.get("id", ""),
        status=status["status"],
        started_now=started_now,
        waits=waits,
        jobs=[job.id for job in jobs],
        discarded=discarded,
        plan_differs=differences(status, plan),
    )


def _why_not_now(module: AnsibleModule) -> str:
    """Return why a run that is wanted is not started, "" if it is: nobody allows it, or the air is too warm."""
    if not module.params["may_start"]:
        return "no run is under way"
    expect = module.params["expect"]
    if not (expect.get("bmc") or {}).get("inlet"):
        return ""
    node = module.params["node"]
    argv = [module.params["tool"], "examine", "--stage", "burn_in", "--check", INLET, "--node", node]
    rc, stdout, stderr = module.run_command(argv, data=json.dumps(expect), environ_update={"LC_ALL": "C"})
    try:
        findings = json.loads(stdout)
        # The class declares the inlet: no finding is no answer.
        findings[0]["verdict"]
        failed = [finding for finding in map(Finding.from_dict, findings) if finding.verdict == FAIL]
    except (ValueError, LookupError, TypeError):
        why = f"{' '.join(argv)}: exit status {rc}: {(stderr or stdout).strip()[-500:]}"
        module.fail_json(msg=why, **NOT_STARTED)
    waivers = [read(Deviation, each) for each in module.params["waivers"]]
    warm, _accepted = parted(failed, waivers, time.time())
    return "; ".join(f"inlet of {node} at {finding.measured} C: {finding.reason}" for finding in warm)


def _without_jobs(module: AnsibleModule) -> tuple[bool, list[NodeJob]]:
    """Return whether the node was drained, and in check mode its jobs; fails where jobs are left."""
    node, wait_seconds = module.params["node"], module.params["jobs_wait_seconds"]
    host = LocalHost(module.params["expect"].get("tools", {}).get("path", TOOL_PATH))
    try:
        drained, jobs = keep_jobs_off(host, node, BURN_IN, wait_seconds, module.check_mode)
    except SlurmGateError as exc:
        why = f"burn-in was not started, as it is not known whether jobs run on {node}: {exc}"
        module.fail_json(msg=why, **NOT_STARTED)
    if jobs and not module.check_mode:
        left = f"{listed(jobs)} still on {node} after {wait_seconds:g} s"
        why = f"burn-in was not started: {left}; the node is drained, and the next run goes on from here"
        module.fail_json(changed=drained, msg=why, **NOT_STARTED)
    return drained, jobs


if __name__ == "__main__":
    main()
