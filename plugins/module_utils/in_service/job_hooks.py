"""``muster prolog`` and ``muster epilog``: what Slurm asks of a host before a job starts and after it ended.

Neither asks Slurm anything, as slurmctld waits for them; only the epilog does where something of the user is left. As
with ``muster health``, what touches the host happens in a child process that is given up at a deadline; no answer is no
pass.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..examination.examine import collect
from ..examination.registry import CHECKS, PROBES, STAGE_CHECKS, judge_stage, probes_of
from ..examination.rules import rules_of
from ..host.evidence_store import EvidenceStore
from ..host.host import TOOL_PATH, Host, LocalHost, Output, Unreadable
from ..host.own_program import program_digest
from ..host.whole_files import replace_file
from ..probes import boot_id, error_counters, heartbeat, kernel_ring
from ..probes.heartbeat import Heartbeat
from ..slurm import drain_reason
from ..words.deviation import Deviation, parted
from ..words.evidence import Evidence, expect_digest_of
from ..words.expectations import Expectations, read_expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding
from ..words.reader import plain
from . import health_drain, round_ports
from .health import HealthHost, in_use, new_id, within
from .hook_settings import read_hook_settings, read_waivers
from .leftover_processes import MUSTER, Job, end_leftovers, note_user, remember
from .user_directories import make_all

# Each takes a fraction of a second. A host that is only busy must not lose a job for it, nor be drained until a person
# comes: this is the limit of one that hangs. The wrappers (roles/slurm/files/hooks) kill it 5 s later.
SECONDS = {"prolog": 20.0, "epilog": 20.0}


def run(  # noqa: PLR0913, PLR0917 -- where everything lies
    hook: str, expect_path: str, settings_path: str, state_directory: str, run_directory: str, node: str
) -> int:
    """Run one hook for the job of the environment, print what did not pass, and return the exit status."""
    number, uid = os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_JOB_UID", "")
    if not number.isdecimal() or not uid.isdecimal():
        print(f"muster {hook}: SLURM_JOB_ID is {number!r}, SLURM_JOB_UID {uid!r}, expected numbers")
        return 1
    job = Job(number, int(uid), node)
    kept = Path(run_directory) / "jobs" / f"{number}.json"
    # Processes and Slurm are those of this very host, whatever the root of the tools is.
    here = LocalHost(os.environ.get("PATH") or TOOL_PATH)

    def work() -> str:
        try:
            expect = read_expectations(json.loads(Path(expect_path).read_text(encoding="utf-8")))
            host = HealthHost(expect.tools.path, expect.tools.root, state_directory)
        except (OSError, ValueError) as exc:
            return _answer([_finding(hook, f"expectations in {expect_path}: {exc}")], hook, "")
        left: Sequence[Finding] = ()
        if hook == "prolog":
            findings, boot = before_job(host, expect, kept, read_waivers(settings_path))
            ports = round_ports.before_job(here, Path(run_directory), os.environ)
            findings = [*_directories(settings_path, job), *findings, *ports]
        else:
            findings, boot = after_job(host, expect, kept, read_waivers(settings_path))
            ports = round_ports.after_job(here, Path(run_directory), os.environ)
            left = end_leftovers(here, job, lambda: read_hook_settings(settings_path).operator_groups)
            if os.environ.get("SLURM_JOB_USER") != MUSTER:
                # A state directory that cannot be written fails the health check.
                with suppress(OSError):
                    note_user(state_directory, job)
            findings = [*left, *findings, *ports]
        if not findings:
            return _answer(findings, hook, boot)
        evidence_id = _keep(findings, {"hook": hook, "job": number}, node, boot, expect, EvidenceStore(state_directory))
        drain = ""
        if left and _remembered(state_directory, job) and len(findings) == len(left):
            # What else was found is more than the health check waits for.
            faulty = any(each.verdict == FAIL for each in left)
            reason_of = drain_reason.fault_reason if faulty else drain_reason.incomplete_reason
            drain = reason_of(left[0].check, evidence_id)
        return _answer(findings, hook, boot, drain)

    answer = within(SECONDS[hook], work)
    if answer is None:
        print(f"muster {hook}: no answer within {SECONDS[hook]:g} s, or none at all")
        return 1
    said = json.loads(answer)
    if said["drain"]:
        # By a reason that the health check knows. Without one, or without success, Slurm drains by the exit status.
        _done, said["trouble"] = health_drain.drain_or_lift(here, node, said["drain"])
    if said["findings"]:
        print(json.dumps(said))
    return 1 if said["findings"] else 0


def before_job(
    host: Host, expect: Expectations, kept: Path, waivers: Sequence[Deviation] = ()
) -> tuple[list[Finding], str]:
    """Look at the host before a job, keep what the epilog compares with, and return what did not pass and the boot.

    The log is judged from where the last health run ended; what that run found stands.
    """
    outputs = collect(
        host, [PROBES[name] for name in (*probes_of("prolog"), "boot_id", "heartbeat", "error_counters")], expect
    )
    last, boot = _last(outputs)
    findings = _judged("prolog", outputs, expect, last)
    asked = set(STAGE_CHECKS["prolog"]) - _log_checks()
    earlier = (*last.findings, *last.waived) if last else ()
    findings += [item for item in earlier if item.verdict == FAIL and item.check not in asked]
    ring = _messages(outputs)
    now = Heartbeat(
        time=time.time(),
        boot_id=boot,
        verdict=PASS,
        counters=_counters(outputs),
        counters_time=time.time(),
        log_seconds=max([item.seconds or 0.0 for item in ring] or [0.0]),
    )
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(kept, now.to_json())
    return parted(_once(findings), waivers, now.time)[0], boot


def after_job(
    host: Host, expect: Expectations, kept: Path, waivers: Sequence[Deviation] = ()
) -> tuple[list[Finding], str]:
    """Look at what the job did to the host and return what did not pass, and the boot.

    What grew is counted since the prolog; without its record, since the last health run.
    """
    outputs = collect(host, [PROBES[name] for name in probes_of("epilog")], expect)
    last, boot = _last(outputs)
    with suppress(OSError, Unreadable):
        outputs["heartbeat"] = Output(kept.read_text(encoding="utf-8"))
        last = heartbeat.parse(outputs["heartbeat"])
    findings = _judged("epilog", outputs, expect, last if last and last.boot_id == boot else None)
    with suppress(OSError):
        kept.unlink(missing_ok=True)
    return parted(_once(findings), waivers, time.time())[0], boot


def _directories(settings_path: str, job: Job) -> list[Finding]:
    if not Path(settings_path).exists():
        # Of a role that knew none.
        return []
    try:
        return make_all(read_hook_settings(settings_path).user_directories, job.uid)
    except Unreadable as exc:
        return [_finding("prolog", str(exc))]


def _remembered(state_directory: str, job: Job) -> bool:
    """Have the health check try again; return whether it will: if not, it must not lift the drain."""
    try:
        remember(state_directory, job)
        health_drain.mark(state_directory)
    except OSError:
        return False
    return True


def _judged(hook: str, outputs: dict[str, Output], expect: Expectations, last: Heartbeat | None) -> list[Finding]:
    if last is not None and "kernel_ring" in outputs:
        outputs["kernel_log"] = kernel_ring.since(outputs["kernel_ring"], last.log_seconds)
    result = judge_stage(hook, outputs, expect, loaded="nvml" in outputs and in_use(outputs))
    if not result.findings:
        return [_finding(hook, "nothing was judged")]
    return [item for item in result.findings if item.verdict != PASS]


def _log_checks() -> set[str]:
    return {name for name in STAGE_CHECKS["prolog"] if "kernel_log" in CHECKS[name].PROBES}


def _last(outputs: Mapping[str, Output]) -> tuple[Heartbeat | None, str]:
    """Return the last run of this boot, None if there is none, and the boot."""
    try:
        boot = boot_id.parse(outputs["boot_id"])
    except Unreadable:
        return None, ""
    try:
        last = heartbeat.parse(outputs["heartbeat"])
    except Unreadable:
        return None, boot
    return (last if last is not None and last.boot_id == boot else None), boot


def _messages(outputs: Mapping[str, Output]) -> Sequence[Any]:
    try:
        return kernel_ring.parse(outputs["kernel_ring"])
    except Unreadable:
        return ()


def _counters(outputs: Mapping[str, Output]) -> Mapping[str, int]:
    try:
        return error_counters.parse(outputs["error_counters"])
    except Unreadable:
        return {}


def _once(findings: Iterable[Finding]) -> list[Finding]:
    seen: dict[tuple[str, str], Finding] = {}
    for item in findings:
        seen.setdefault((item.check, item.subject), item)
    return list(seen.values())


def _keep(  # noqa: PLR0913, PLR0917 -- one record's fields
    findings: Sequence[Finding],
    detail: Mapping[str, str],
    node: str,
    boot: str,
    expect: Expectations,
    store: EvidenceStore,
) -> str:
    now = time.time()
    evidence = Evidence(
        id=new_id(),
        node=node,
        stage="health",
        started=now,
        finished=now,
        boot_id=boot,
        fingerprint={},
        expect_digest=expect_digest_of("health", plain(expect)),
        findings=tuple(findings),
        detail=detail,
        identity={"hostname": os.uname().nodename},
        rules=rules_of(detail["hook"]),
        program=program_digest(),
    )
    with suppress(OSError):
        store.write(evidence)
    return evidence.id


def _answer(findings: Iterable[Finding], hook: str, boot: str, drain: str = "") -> str:
    told = [item.to_dict() for item in findings]
    return json.dumps({"hook": hook, "boot_id": boot, "findings": told, "drain": drain})


def _finding(hook: str, reason: str) -> Finding:
    return Finding(hook, "host", INCOMPLETE, None, None, "", reason, "investigate")
