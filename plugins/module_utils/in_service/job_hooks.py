"""``muster prolog`` and ``muster epilog``: what Slurm asks of a host before a job starts and after it ended.

Neither asks Slurm anything: slurmctld waits for them. As with ``muster health``, what touches the host happens in a
child process that is given up at a deadline; no answer is no pass.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..examination.examine import collect
from ..examination.registry import CHECKS, PROBES, STAGE_CHECKS, judge_stage, probes_of
from ..host.evidence_store import EvidenceStore
from ..host.host import Host, LocalHost, Output, Unreadable
from ..host.waiting import wait_until
from ..host.whole_files import replace_file
from ..probes import boot_id, error_counters, heartbeat, kernel_ring
from ..probes.heartbeat import Heartbeat
from ..words.evidence import Evidence, expect_digest_of
from ..words.expectations import Expectations, read_expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding
from ..words.reader import plain
from . import round_ports
from .health import HealthHost, in_use, new_id, within

# Each takes a fraction of a second. A host that is only busy must not lose a job for it, nor be drained until a person
# comes: this is the limit of one that hangs. The wrappers (roles/slurm/files/hooks) kill it 5 s later.
SECONDS = {"prolog": 20.0, "epilog": 20.0}
# What a killed process may take to be gone; one that stays is stuck in the kernel.
GONE_SECONDS = 2.0
# Of people; whoever has a lower number is a service of the host, of which only what names the job is ended.
PEOPLE_FROM_UID = 1000
_STEP = re.compile(r"slurmstepd: \[(\d+)\.")


@dataclass(frozen=True)
class Process:
    """A process: its user, its parent, its name, and the Slurm job that its environment names."""

    pid: int
    uid: int
    parent: int
    name: str
    job: str = ""


def run(hook: str, expect_path: str, state_directory: str, run_directory: str, node: str) -> int:
    """Run one hook for the job of the environment, print what did not pass, and return the exit status."""
    job, uid = os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_JOB_UID", "")
    if not job.isdecimal() or not uid.isdecimal():
        print(f"muster {hook}: SLURM_JOB_ID is {job!r}, SLURM_JOB_UID {uid!r}, expected numbers")
        return 1
    kept = Path(run_directory) / "jobs" / f"{job}.json"

    def work() -> str:
        try:
            expect = read_expectations(json.loads(Path(expect_path).read_text(encoding="utf-8")))
            host = HealthHost(expect.tools.path, expect.tools.root, state_directory)
        except (OSError, ValueError) as exc:
            return _answer([_finding(hook, f"expectations in {expect_path}: {exc}")], hook, "")
        if hook == "prolog":
            findings, boot = before_job(host, expect, kept)
            findings += round_ports.before_job(LocalHost(), Path(run_directory), os.environ)
        else:
            # Processes are those of this very host, whatever the root of the tools is.
            findings, boot = after_job(host, expect, kept)
            findings = [*end_leftovers(LocalHost(), job, int(uid)), *findings]
            findings += round_ports.after_job(LocalHost(), Path(run_directory), os.environ)
        if findings:
            _keep(findings, {"hook": hook, "job": job}, node, boot, expect, EvidenceStore(state_directory))
        return _answer(findings, hook, boot)

    answer = within(SECONDS[hook], work)
    if answer is None:
        print(f"muster {hook}: no answer within {SECONDS[hook]:g} s, or none at all")
        return 1
    said = json.loads(answer)
    if said["findings"]:
        print(answer)
    return 1 if said["findings"] else 0


def before_job(host: Host, expect: Expectations, kept: Path) -> tuple[list[Finding], str]:
    """Look at the host before a job, keep what the epilog compares with, and return what did not pass and the boot.

    The log is judged from where the last health run ended; what that run found stands.
    """
    outputs = collect(
        host, [PROBES[name] for name in (*probes_of("prolog"), "boot_id", "heartbeat", "error_counters")], expect
    )
    last, boot = _last(outputs)
    findings = _judged("prolog", outputs, expect, last)
    asked = set(STAGE_CHECKS["prolog"]) - _log_checks()
    findings += [item for item in (last.findings if last else ()) if item.verdict == FAIL and item.check not in asked]
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
    return _once(findings), boot


def after_job(host: Host, expect: Expectations, kept: Path) -> tuple[list[Finding], str]:
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
    return _once(findings), boot


def end_leftovers(
    host: Host, job: str, uid: int, kill: Callable[[int, int], None] = os.kill, wait_seconds: float = GONE_SECONDS
) -> list[Finding]:
    """Kill what a job left behind and return a finding for what could not be killed."""
    ours = {process.pid: process for process in leftovers(processes(host), jobs_alive(host), job, uid)}
    for pid in ours:
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)
    if wait_until(lambda: not any(_there(host, pid) for pid in ours), wait_seconds, 0.05):
        return []
    left = [pid for pid in ours if _there(host, pid)]
    if not left:
        return []
    names = ", ".join(f"{ours[pid].name} ({pid})" for pid in left[:5])
    why = f"{len(left)} processes of job {job} cannot be killed: {names}"
    return [Finding("leftover_processes", "host", FAIL, len(left), 0, "processes", why, "reboot")]


def leftovers(found: Iterable[Process], alive: Collection[str], job: str, uid: int) -> list[Process]:
    """Return the processes of a user that belong to a job that is over.

    Those whose environment names this job, or one that no longer runs here; and, if no other job of the user is here,
    those that a program left to init: logins hang on sshd, and end by themselves.
    """
    mine = [process for process in found if process.uid == uid]
    others = {process.job for process in mine} & set(alive) - {job}
    over = [process for process in mine if process.job and (process.job == job or process.job not in alive)]
    if uid < PEOPLE_FROM_UID:
        return [process for process in over if process.job == job]
    orphans = [process for process in mine if not process.job and process.parent == 1 and process.name != "systemd"]
    return over if others else over + orphans


def processes(host: Host) -> list[Process]:
    """Return the processes of the host; one that ends meanwhile is none."""
    found = []
    for path in host.paths("/proc/[0-9]*/status"):
        status = host.read(path).stdout
        keys = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        try:
            pid, uid, parent = int(keys["Pid"]), int(keys["Uid"].split()[0]), int(keys["PPid"])
        except (KeyError, ValueError, IndexError):
            continue
        job = ""
        if uid:
            environment = host.read(f"/proc/{pid}/environ").stdout.split("\0")
            job = next((word.partition("=")[2] for word in environment if word.startswith("SLURM_JOB_ID=")), "")
        if not keys.get("State", "").strip().startswith("Z"):
            found.append(Process(pid, uid, parent, keys.get("Name", "").strip(), job if job.isdecimal() else ""))
    return found


def jobs_alive(host: Host) -> set[str]:
    """Return the jobs of which a step runs here, by the titles of Slurm's step daemons."""
    titles = (host.read(path).stdout for path in host.paths("/proc/[0-9]*/cmdline"))
    return {match.group(1) for title in titles if (match := _STEP.match(title))}


def _there(host: Host, pid: int) -> bool:
    status = host.read(f"/proc/{pid}/status")
    return status.rc == 0 and not re.search(r"(?m)^State:\s*[ZX]", status.stdout)


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
) -> None:
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
    )
    with suppress(OSError):
        store.write(evidence)


def _answer(findings: Iterable[Finding], hook: str, boot: str) -> str:
    return json.dumps({"hook": hook, "boot_id": boot, "findings": [item.to_dict() for item in findings]})


def _finding(hook: str, reason: str) -> Finding:
    return Finding(hook, "host", INCOMPLETE, None, None, "", reason, "investigate")
