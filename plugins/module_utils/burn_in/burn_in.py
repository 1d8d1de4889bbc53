"""Burn-in on the node: examine and stress it for as long as the plan says, with or without the control machine.

All that happened is on disk after every examination and every step, so that an interruption keeps what is done.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..examination.examine import Examination, latest_measures
from ..examination.registry import examine, judge_stress
from ..examination.rules import rules_of
from ..host.host import Host, LocalHost, Output, Unreadable
from ..host.own_program import program_digest
from ..host.raw_outputs import digests_of
from ..judging.fingerprint import DEPENDS, fingerprint_of
from ..judging.identity import identity_of
from ..probes import boot_id, chrony
from ..slurm.node_jobs import jobs_here, listed
from ..slurm.scontrol_output import NodeJob, SlurmGateError
from ..words.deviation import parted
from ..words.evidence import Evidence, EvidenceError
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, VERDICTS, Finding, merged
from .burn_in_load import Load, StoppableHost
from .burn_in_plan import REBOOTS, Plan, Step
from .burn_in_record import FINISHED, REBOOT_LIMIT_SECONDS, REBOOTING, RUNNING, STAGE, Record, cut_off

# Systemd's own start and stop of a unit asks for no more than this to end one tool run and write the record.
STOP_SECONDS = 30.0
# A stress ends by itself when its time is up; one that does not is killed this much later.
GRACE_SECONDS = 300.0
_POLL_SECONDS = 1.0
# How long systemd may take to bring the host down for a planned reboot.
_SHUTDOWN_SECONDS = 600.0
_SYNC_SECONDS = 300.0
# How long a host may take after a boot until its services (driver, fabric manager) have started, and until its clock is
# steered. Whatever has become of them by then, the examination that follows judges.
_BOOTED = ("systemctl", "is-system-running", "--wait")
_BOOTED_SECONDS = 600.0
_CLOCK_SECONDS = 300.0
_CLOCK_POLL_SECONDS = 10.0
# What could not be measured is asked for again this much later, before it counts. A tool that goes on not to answer is
# no accident, however well it answers in between.
AGAIN_SECONDS = 30.0
AGAIN_AT_MOST = 3
FIRST_FAILED = "first_failed"
# How long a controller may be away, as for a restart, before a burn-in ends for want of its answer.
SLURM_SECONDS = 300.0
_SLURM_POLL_SECONDS = 10.0
# More load heats the air of the neighbours too.
_TOO_WARM = "inlet_temperature"
# The xid check judges these errors itself, and better: it names GPU, error and remedy.
_LASTING = tuple(name for name in DEPENDS[STAGE] if name != "gpu_errors")


class Stopped(BaseException):
    """SIGTERM came; no ``except Exception`` on the way may keep it."""


@dataclass(frozen=True)
class Clock:
    """Time as the run sees it; a test brings its own."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Environment:
    """All that a run touches: where it writes, what it examines, time, systemd, Slurm; a test brings its own.

    ``another`` gives each stress a host of its own, so that one can be ended alone. ``jobs`` returns Slurm's jobs on
    this node, and raises SlurmGateError where Slurm does not say.
    """

    record: Record
    host: Host
    another: Callable[[], StoppableHost]
    version: str
    clock: Clock
    notify: Callable[[str], None]
    going_down: Callable[[], bool]
    jobs: Callable[[], Sequence[NodeJob]]


def run_finding(duration_seconds: float, elapsed: float, ended: str, verdict: str = INCOMPLETE) -> Finding:
    """Return the run's finding about itself: ``pass`` only when the whole duration was spent, uninterrupted."""
    if not ended and elapsed >= duration_seconds:
        return Finding(STAGE, "host", PASS, int(elapsed), duration_seconds, "s")
    why = ended or "not finished"
    return Finding(STAGE, "host", verdict, int(elapsed), duration_seconds, "s", why, "investigate")


def run(plan: Plan, environment: Environment, evidence: Evidence | None = None, next_step: int = 0) -> Evidence | None:
    """Carry the plan out and return the evidence; the caller holds the lock.

    ``evidence`` and ``next_step`` are those of a run that goes on after a planned reboot. On SIGTERM (``Stopped``) the
    run ends as ``incomplete``, unless the whole system is going down: then it stays open (None), and the next boot
    finds it as what it is, a planned reboot or one in mid burn-in.
    """
    return _Run(plan, environment, evidence, next_step).to_its_end()


class _Ended(Exception):
    """The run ends before the plan does; the text says why."""


class _Run:
    """One boot's share of a run."""

    def __init__(self, plan: Plan, environment: Environment, evidence: Evidence | None, next_step: int) -> None:
        self.plan, self.environment = plan, environment
        self.rebooted = evidence is not None
        self.evidence = evidence or _begun(plan, environment)
        self.next_step = next_step
        self.doing = "examine"
        self.before = float(self.evidence.detail["elapsed_seconds"])
        self.began = environment.clock.monotonic()
        self.step_began: float | None = None
        self.last: Examination | None = None
        # What the last examination beside the step's load was given; none: there was no such examination.
        self.beside: Mapping[str, Output] = {}

    @property
    def elapsed(self) -> float:
        return self.before + self.environment.clock.monotonic() - self.began

    def to_its_end(self) -> Evidence | None:
        environment = self.environment
        ended = ""
        try:
            # Before the first examination, which takes its time: whoever asks meets a run.
            self._keep(RUNNING)
            environment.notify("READY=1")
            self._steps()
        except _Ended as exc:
            ended = str(exc)
        except OSError as exc:
            # A full or dying disk, most likely: what is known is worth another try.
            ended = f"the record could not be written: {exc}"
        except Stopped:
            if environment.going_down():
                return None
            # SIGTERM comes at any point; what counts is what was last written.
            self.evidence = _last(environment.record, self.evidence)
            ended = "stopped by SIGTERM"
        elapsed = self.elapsed
        finding = run_finding(self.plan.duration_seconds, elapsed, ended)
        self.evidence = _finished(self.evidence, finding, environment.clock.wall(), elapsed)
        self._keep(FINISHED)
        environment.notify(f"STATUS=finished after {elapsed:.0f} s: {_counts(self.evidence.findings)}")
        return self.evidence

    def _steps(self) -> None:
        if self.rebooted:
            self._await_boot()
        self._examine()
        while self.next_step < len(self.plan.steps):
            step = self.plan.steps[self.next_step]
            self.doing = step.name
            if step.run or step.reboot:
                self._require_no_jobs(step)
            self.step_began = self.environment.clock.monotonic()
            if step.reboot:
                self._reboot(step)
            else:
                self._work(step, self.step_began)
            self.next_step += 1
            self.doing, self.step_began = "examine", None
            self._examine()

    def _require_no_jobs(self, step: Step) -> None:
        """Raise _Ended where Slurm runs jobs on this node, or does not say: one may have started since the run did."""
        clock, what = self.environment.clock, f"no {step.name} was started"
        give_up = clock.monotonic() + SLURM_SECONDS
        while True:
            try:
                jobs = self.environment.jobs()
                break
            except SlurmGateError as exc:
                if clock.monotonic() >= give_up:
                    raise _Ended(f"{what}: it is not known whether jobs run on this node: {exc}") from exc
            clock.sleep(_SLURM_POLL_SECONDS)
        if jobs:
            raise _Ended(f"{what}: {listed(jobs)} on this node")

    def _work(self, step: Step, began: float) -> None:
        """Let the step's stresses run side by side, examining meanwhile, and judge what they measured."""
        clock = self.environment.clock
        self.beside = {}
        load = Load(step, self.plan.expect, self.environment.another)
        end = began + step.seconds
        deadline = end + step.limit_seconds + (GRACE_SECONDS if step.run else 0)
        following = began + self.plan.interval_seconds
        try:
            while load.running or clock.monotonic() < end:
                if load.running and clock.monotonic() >= deadline:
                    break
                until = min(following, end) if clock.monotonic() < end else following
                pause = until - clock.monotonic()
                clock.sleep(max(0.0, min(pause, _POLL_SECONDS) if load.running else pause))
                if clock.monotonic() >= following and clock.monotonic() < deadline:
                    following = clock.monotonic() + self.plan.interval_seconds
                    if load.running and step.exclusive:
                        self._keep(RUNNING)
                    elif load.running or clock.monotonic() < end:
                        self._examine(loaded=load.running)
        finally:
            outputs = load.stop()
        self._take_in(step, outputs)
        if load.running:
            raise _Ended(f"{', '.join(load.alive)} could not be killed: the host cannot be examined beside it")

    def _await_boot(self) -> None:
        """Wait until the boot after a planned reboot is over; raises _Ended if the host took too long to come back."""
        clock, host = self.environment.clock, self.environment.host
        began = clock.monotonic()
        host.run(_BOOTED, _BOOTED_SECONDS)
        deadline = clock.monotonic() + _CLOCK_SECONDS
        while not _steered(host, self.plan.expect) and clock.monotonic() < deadline:
            clock.sleep(_CLOCK_POLL_SECONDS)
        # Asked only now: the clock that the host booted with may be hours off.
        away = clock.wall() - float(self.evidence.detail["rebooting_since"]) - (clock.monotonic() - began)
        if away > REBOOT_LIMIT_SECONDS:
            limit = f"{REBOOT_LIMIT_SECONDS:g} s"
            raise _Ended(f"the host came back {away:.0f} s after a planned reboot, expected within {limit}")

    def _take_in(self, step: Step, outputs: Mapping[str, Output]) -> None:
        """Judge what the step's stresses measured."""
        expect = self.plan.expect
        known = self.last.outputs if self.last else {}
        beside = {**self.beside, **outputs}
        examinations = [judge_stress(name, {**known, **outputs}, expect, beside) for name in outputs]
        measures = self.evidence.detail.get("measures", {})
        for each in examinations:
            measures = latest_measures(measures, each.measures)
        self.evidence = replace(self.evidence, detail={**self.evidence.detail, "measures": measures})
        place = f"step_{self.next_step + 1}"
        self._add([finding for each in examinations for finding in each.findings], {place: outputs})

    def _examine(self, *, loaded: bool = False) -> None:
        """Examine the host; what could not be measured is asked for once more before it counts."""
        news, changes = self._asked(loaded)
        times = self.evidence.detail["asked_again"]
        doubtful = [item for item in news if item.verdict == INCOMPLETE and times.get(item.check, 0) < AGAIN_AT_MOST]
        hung: set[str] = set()
        pause = min(AGAIN_SECONDS, self.plan.interval_seconds)
        if doubtful:
            hung = self._hung()
            self.environment.clock.sleep(pause)
            more = {item.check: times.get(item.check, 0) + 1 for item in doubtful}
            detail = {**self.evidence.detail, "asked_again": {**times, **more}}
            self.evidence = replace(self.evidence, detail=detail)
            lasting = [item for item in news if item.verdict != PASS and item not in doubtful]
            more_news, more_changes = self._asked(loaded)
            hung &= self._hung()
            # What was seen, a part exchanged or a fault, is not unseen by a second look.
            news, changes = list(merged(lasting, more_news)), [*changes, *more_changes]
        assert self.last is not None
        if not self.evidence.fingerprint:
            values, expect = self.last.values, self.plan.expect
            identity = identity_of(values, expect)
            self.evidence = replace(self.evidence, fingerprint=fingerprint_of(values, expect), identity=identity)
        if loaded:
            self.beside = self.last.outputs
        # The last beside each load is kept as well as the last of the idle host: they answer different questions.
        place = f"loaded_{self.next_step + 1}" if loaded else "last"
        outputs = {place: self.last.outputs}
        failed = any(finding.verdict == FAIL for finding in news)
        if failed and not self.environment.record.store.path(STAGE, self.plan.id).with_name(FIRST_FAILED).exists():
            outputs[FIRST_FAILED] = self.last.outputs
        self._add([*news, *changes], outputs)
        if hung and self.plan.stop_on_fail:
            # It stays incomplete, and every examination would wait for the tool again.
            when = f"after {self.elapsed:.0f} of {self.plan.duration_seconds:g} s"
            names = ", ".join(sorted(hung))
            raise _Ended(f"stopped {when}: {names} gave no answer, and none {pause:g} s later")

    def _hung(self) -> set[str]:
        """Return the probes whose tools gave no answer in the last examination."""
        return {name for name, output in self.last.outputs.items() if output.timed_out} if self.last else set()

    def _asked(self, loaded: bool) -> tuple[Sequence[Finding], list[Finding]]:
        """Return what one examination found, and what has changed since the first."""
        plan, evidence = self.plan, self.evidence
        self.last = examine(STAGE, self.environment.host, plan.expect, loaded=loaded)
        self.evidence = replace(
            evidence, detail={**evidence.detail, "examinations": evidence.detail["examinations"] + 1}
        )
        now = fingerprint_of(self.last.values, plan.expect)
        return self.last.findings, _changes(evidence.fingerprint or now, now)

    def _add(self, news: Sequence[Finding], outputs: Mapping[str, Mapping[str, Output]]) -> None:
        """Take findings into the evidence, keep it and the outputs; raises _Ended at a failure that ends the run."""
        plan, clock, detail = self.plan, self.environment.clock, self.evidence.detail
        failed = [finding for finding in news if finding.verdict == FAIL]
        at = {"at": clock.wall(), "examination": detail["examinations"]}
        first = {f"{finding.check} {finding.subject}": at for finding in failed}
        elapsed = self.elapsed
        # The first failed examination is kept for people: nobody judges again what has failed.
        raw = {
            name: digest
            for place, each in outputs.items()
            if place != FIRST_FAILED
            for name, digest in digests_of(each, place).items()
        }
        self.evidence = replace(
            self.evidence,
            findings=(
                *merged(_without_run(self.evidence.findings), news),
                run_finding(plan.duration_seconds, elapsed, "still running"),
            ),
            detail={**detail, "elapsed_seconds": elapsed, "first_failed": {**first, **detail["first_failed"]}},
            raw={**self.evidence.raw, **raw},
        )
        self._keep(RUNNING)
        # After the verdict, which is small and must not be lost to a full disk.
        for place, each in outputs.items():
            self.environment.record.store.write_raw(self.evidence, place, each)
        counts = _counts(self.evidence.findings)
        number = f"step {min(self.next_step + 1, len(plan.steps))} of {len(plan.steps)}"
        self.environment.notify(f"STATUS={number} ({self.doing}), {elapsed:.0f} s so far: {counts}")
        counting, _accepted = parted(failed, plan.waivers, clock.wall())
        when = f"after {elapsed:.0f} of {plan.duration_seconds:g} s"
        if warm := next((finding for finding in counting if finding.check == _TOO_WARM), None):
            raise _Ended(f"stopped {when}: {warm.reason}")
        if plan.stop_on_fail and counting:
            raise _Ended(f"stopped at the first failure {when}")

    def _reboot(self, step: Step) -> None:
        """Reboot as planned: the unit that starts at boot goes on with the step after this one."""
        since = {"elapsed_seconds": self.elapsed, "rebooting_since": self.environment.clock.wall()}
        self.evidence = replace(self.evidence, detail={**self.evidence.detail, **since})
        self._keep(REBOOTING)
        self.environment.notify(f"STATUS=planned {step.name}")
        if step.reboot == "power_cycle":
            # Nobody else writes back what is still in memory.
            self.environment.host.run(("sync",), _SYNC_SECONDS)
        done = self.environment.host.run(REBOOTS[step.reboot], _SHUTDOWN_SECONDS)
        if done.rc == 0:
            # SIGTERM, or the end of power, comes in the middle of this.
            self.environment.clock.sleep(_SHUTDOWN_SECONDS)
        why = done.error or done.stderr.strip()[:200] or f"still up {_SHUTDOWN_SECONDS:g} s later"
        raise _Ended(f"planned {step.name} did not happen: {why}")

    def _keep(self, status: str) -> None:
        """Write evidence, then state: who reads ``finished`` there finds the finished evidence."""
        plan, clock = self.plan, self.environment.clock
        self.environment.record.store.write(self.evidence)
        left = self.plan.steps[self.next_step :]
        spent = 0.0 if self.step_began is None else clock.monotonic() - self.step_began
        self.environment.record.write_state(
            {
                **_state(plan.id, plan.node, plan.profile, self.evidence, status),
                "duration_seconds": plan.duration_seconds,
                "interval_seconds": plan.interval_seconds,
                "steps": [step.to_dict() for step in plan.steps],
                "next_step": self.next_step + (status == REBOOTING),
                "reboots_left": sum(bool(step.reboot) for step in left),
                "doing": self.doing,
                # At most: a stress with a length of its own may end before its limit.
                "left_seconds": max(0.0, sum(step.seconds + step.limit_seconds for step in left) - spent),
                "kept": clock.wall(),
                "kept_monotonic": clock.monotonic(),
                # Where boot ids are read when the run has to be settled.
                "root": plan.expect.tools.root,
            }
        )


def settle(record: Record, boot_id_of: Callable[[str], str], now: float, *, at_boot: bool = False) -> bool:
    """Finish the record of a run that was cut off and return whether there was one. The caller holds the lock.

    ``boot_id_of`` returns the boot id, "" if unreadable, as it stands under a root directory. ``at_boot`` says that the
    caller is the one who would have gone on after a planned reboot, and cannot.
    """
    state = record.state()
    # Whoever holds the lock knows that no run lives.
    if not (cut_off(state, False, now) or (at_boot and state["status"] == REBOOTING)):
        return False
    now_booted = boot_id_of(str(state.get("root", "/")))
    evidence = record.evidence_of(state)
    if evidence.finished is not None:
        # Cut off between the end of the run and the state that tells of it.
        _write_settled(record, state, evidence)
        return True
    before, elapsed = str(state.get("boot_id", "")), float(evidence.detail.get("elapsed_seconds", 0))
    duration = float(state["duration_seconds"])
    if state["status"] == REBOOTING:
        finding = run_finding(duration, elapsed, "burn-in did not go on after a planned reboot")
    elif not now_booted or not before:
        finding = run_finding(duration, elapsed, "burn-in ended early, boot id unreadable: reboot or not is unknown")
    elif now_booted != before:
        why = f"unplanned reboot during burn-in: boot id {before}, now {now_booted}"
        finding = run_finding(duration, elapsed, why, FAIL)
    else:
        finding = run_finding(duration, elapsed, "burn-in process ended early")
    evidence = _finished(evidence, finding, now, elapsed)
    record.store.write(evidence)
    _write_settled(record, state, evidence)
    return True


def _write_settled(record: Record, state: Mapping[str, Any], evidence: Evidence) -> None:
    ended = _state(evidence.id, evidence.node, str(state.get("profile", "")), evidence, FINISHED)
    record.write_state({**state, **ended, "left_seconds": 0.0})


def _steered(host: Host, expect: Expectations) -> bool:
    """Return whether the clock follows a source by now."""
    try:
        return chrony.parse(chrony.collect(host, expect)).synchronised
    except Unreadable:
        return False


def resumable(record: Record, plan: Plan, boot: str) -> tuple[Evidence, int] | None:
    """Return evidence and next step of this plan's run if the host was rebooted as it planned, None if not."""
    state = record.state()
    if state.get("id") != plan.id or state.get("status") != REBOOTING or boot in ("", state.get("boot_id")):
        return None
    try:
        evidence = Evidence.from_dict(record.store.read(STAGE, plan.id))
    except (OSError, ValueError, EvidenceError):
        return None
    if evidence.finished is not None or evidence.expect_digest != plan.expect_digest:
        return None
    boots = [*evidence.detail.get("boots", []), boot]
    return replace(evidence, boot_id=boot, detail={**evidence.detail, "boots": boots}), int(state["next_step"])


def _begun(plan: Plan, environment: Environment) -> Evidence:
    boot = environment.host.read(boot_id.PATH).stdout.strip()
    return Evidence(
        id=plan.id,
        node=plan.node,
        stage=STAGE,
        started=environment.clock.wall(),
        finished=None,
        boot_id=boot,
        fingerprint={},
        expect_digest=plan.expect_digest,
        findings=(run_finding(plan.duration_seconds, 0, "still running"),),
        detail={
            "profile": plan.profile,
            "duration_seconds": plan.duration_seconds,
            "interval_seconds": plan.interval_seconds,
            "stop_on_fail": plan.stop_on_fail,
            "steps": [step.to_dict() for step in plan.steps],
            "boots": [boot],
            # Time is what the monotonic clock measured, never rounded up: policy compares it with the profile's.
            "elapsed_seconds": 0,
            "examinations": 0,
            # How often a check's parts had to be asked a second time to be measured.
            "asked_again": {},
            "first_failed": {},
            # What checks measured at each part, by the last step that ran their load.
            "measures": {},
        },
        muster_version=environment.version,
        rules=rules_of(STAGE, [name for step in plan.steps for name in step.run]),
        program=program_digest(),
    )


def _changes(before: Mapping[str, str | None], now: Mapping[str, str | None]) -> list[Finding]:
    """Return a finding when the host is no longer the one that the run began with.

    A component that could not be read is no change: the fingerprint check says so, and may be asked again.
    """
    changed = [name for name in _LASTING if None not in (now[name], before[name]) and now[name] != before[name]]
    if not changed:
        return []
    why = "; ".join(f"{name} was {before[name]}, is {now[name]}" for name in changed)
    reason = f"changed during burn-in: {why}"[:600]
    unit = "changed components"
    return [Finding("fingerprint", "host", INCOMPLETE, len(changed), 0, unit, reason, "investigate")]


def _state(run_id: str, node: str, profile: str, evidence: Evidence, status: str) -> dict[str, Any]:
    """Return the part of state.json that the evidence tells."""
    # A run that goes on is no incomplete part; one that a reboot ended has failed.
    counted = evidence.findings if status == FINISHED else _without_run(evidence.findings)
    verdicts = [finding.verdict for finding in counted]
    return {
        "id": run_id,
        "status": status,
        "node": node,
        "profile": profile,
        "expect_digest": evidence.expect_digest,
        "boot_id": evidence.boot_id,
        "started": evidence.started,
        "elapsed_seconds": evidence.detail["elapsed_seconds"],
        "examinations": evidence.detail["examinations"],
        "failed": verdicts.count(FAIL),
        "incomplete": verdicts.count(INCOMPLETE),
    }


def _last(record: Record, evidence: Evidence) -> Evidence:
    """Return the run's evidence as it was last written."""
    try:
        return Evidence.from_dict(record.store.read(STAGE, evidence.id))
    except (OSError, ValueError, EvidenceError):
        return evidence


def _finished(evidence: Evidence, finding: Finding, now: float, elapsed: float) -> Evidence:
    return replace(
        evidence,
        finished=now,
        findings=(*_without_run(evidence.findings), finding),
        detail={**evidence.detail, "elapsed_seconds": elapsed},
    )


def _without_run(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.check != STAGE)


def _counts(findings: Sequence[Finding]) -> str:
    verdicts = [finding.verdict for finding in _without_run(findings)]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS)


def notify_systemd(text: str) -> None:
    """Tell systemd (sd_notify); without it, print the line."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        if text.startswith("STATUS="):
            print(text[len("STATUS=") :], flush=True)
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link, contextlib.suppress(OSError):
        link.sendto(text.encode(), "\0" + address[1:] if address.startswith("@") else address)


def system_going_down() -> bool:
    """Return whether systemd is stopping the whole system, and not only this service."""
    try:
        asked = subprocess.run(
            ["systemctl", "is-system-running"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.stdout.strip() == "stopping"


def boot_id_under(root: str) -> str:
    """Return this host's boot id, "" if it cannot be read."""
    return LocalHost(root=root).read(boot_id.PATH).stdout.strip()


def run_plan_file(path: str, state_directory: str, version: str) -> int:
    """Carry out the plan in a file, once, and return the exit status.

    A run that was cut off before is settled first; one that rebooted the host as planned goes on.
    """
    record = Record(state_directory)
    with record.locked() as mine:
        if not mine:
            print("burn-in: another run is under way")
            return 1
        try:
            plan = Plan.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except (OSError, ValueError) as exc:
            print(f"burn-in: {path}: {exc}")
            return 2
        tools = plan.expect.tools
        resumed = resumable(record, plan, boot_id_under(tools.root))
        if resumed is None:
            settle(record, boot_id_under, time.time(), at_boot=True)
            if record.state().get("id") == plan.id:
                # The plan of an earlier boot; the unit starts at boot only to settle it.
                notify_systemd("READY=1")
                return 0
        signal.signal(signal.SIGTERM, _stop)
        host = LocalHost(tools.path, tools.root)
        environment = Environment(
            record,
            host,
            lambda: LocalHost(tools.path, tools.root),
            version,
            Clock(),
            notify_systemd,
            system_going_down,
            # Jobs are processes of this very host, whatever the root of the tools is.
            lambda: jobs_here(LocalHost(tools.path), plan.node),
        )
        run(plan, environment, *(resumed or ()))
    return 0


def _stop(_signal: int, _frame: Any) -> None:
    # A second one must not cut off the writing of the record.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped
