"""Burn-in on the node: examine it again and again for as long as the plan says, with or without the control machine.

All that happened is on disk after every examination. A run holds a lock while it lives, so that a record that says
``running`` under a free lock is one that was cut off: by a reboot if the boot id differs, else by the process's end.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .evidence import Evidence, EvidenceError, expect_digest_of
from .evidence_store import EvidenceStore, valid_id, write_atomically
from .expectations import ExpectationError, check_expectations
from .finding import FAIL, INCOMPLETE, PASS, VERDICTS, Finding
from .fingerprint import DEPENDS, fingerprint_of
from .host import Host, LocalHost
from .probes import boot_id
from .registry import examine

STAGE = "burn_in"
# Systemd's own start and stop of a unit asks for no more than this to end one tool run and write the record.
STOP_SECONDS = 30.0
# Time is what the monotonic clock measured, never rounded up: policy compares it with the profile's.
_NOTHING_YET: Mapping[str, Any] = {"elapsed_seconds": 0, "examinations": 0, "first_failed": {}}
# The xid check judges these errors itself, and better: it names GPU, error and remedy.
_LASTING = tuple(name for name in DEPENDS[STAGE] if name != "gpu_errors")


class PlanError(ValueError):
    """A plan that cannot be run: names the key, what was found and what was expected."""


class Stopped(BaseException):
    """SIGTERM came; no ``except Exception`` on the way may keep it."""


@dataclass(frozen=True)
class Plan:
    """What to do: examine ``node`` every ``interval_seconds`` until ``duration_seconds`` have passed.

    ``id`` becomes the evidence's id: a plan is run once. With ``stop_on_fail`` the first failure ends the run, since a
    failed node gains nothing from more hours.
    """

    id: str
    node: str
    profile: str
    duration_seconds: float
    interval_seconds: float
    expect: Mapping[str, Any]
    stop_on_fail: bool = True

    @classmethod
    def from_dict(cls, data: Any) -> Plan:
        """Return the plan in ``data``; raises PlanError."""
        if not isinstance(data, Mapping):
            raise PlanError(f"plan is {type(data).__name__}, expected a mapping")
        unknown = sorted(set(data) - set(cls.__dataclass_fields__))
        if unknown:
            raise PlanError(f"plan: unknown key {', '.join(unknown)}, expected {', '.join(cls.__dataclass_fields__)}")
        for key in ("id", "node", "profile"):
            if not isinstance(data.get(key), str) or not data[key]:
                raise PlanError(f"plan: {key} is {data.get(key)!r}, expected a text")
        if not valid_id(data["id"]):
            raise PlanError(f"plan: id is {data['id']!r}, expected letters, digits, '-', '_' and '.'")
        for key, least in (("duration_seconds", 0), ("interval_seconds", 0.1)):
            value = data.get(key)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value < math.inf:
                raise PlanError(f"plan: {key} is {value!r}, expected a number of at least {least:g}")
        if not isinstance(data.get("stop_on_fail", True), bool):
            raise PlanError(f"plan: stop_on_fail is {data['stop_on_fail']!r}, expected true or false")
        try:
            check_expectations(data.get("expect"))
        except ExpectationError as exc:
            raise PlanError(f"plan: expect: {exc}") from exc
        return cls(**data)


@dataclass(frozen=True)
class Clock:
    """Time as the run sees it; a test brings its own."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Record:
    """The node's burn-in directory: ``state.json`` (what is going on), the lock, and the evidence."""

    def __init__(self, state_directory: str) -> None:
        self.directory = Path(state_directory) / STAGE
        self.store = EvidenceStore(state_directory)

    def state(self) -> dict[str, Any]:
        """Return state.json; ``{"status": "none"}`` where there is none, with a message where it cannot be read."""
        path = self.directory / "state.json"
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"status": "none"}
        except (OSError, ValueError) as exc:
            return {"status": "none", "message": f"{path}: {exc}"}
        if not _is_state(state):
            return {"status": "none", "message": f"{path}: not the state of a burn-in"}
        return dict(state)

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Replace state.json."""
        write_atomically(self.directory / "state.json", json.dumps(state, indent=1, sort_keys=True) + "\n")

    def alive(self) -> bool:
        """Return whether a run holds the lock."""
        try:
            with (self.directory / "lock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def holder(self) -> int | None:
        """Return the process id of the run that holds the lock, None where none does."""
        if not self.alive():
            return None
        try:
            return int((self.directory / "lock").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    @contextlib.contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the lock, with our process id in it; yields False, at once, where another process has it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("a", encoding="ascii") as file:
            for attempt in range(10):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    # Someone who asks whether a run is alive holds it for a moment.
                    if attempt == 9:
                        yield False
                        return
                    time.sleep(0.05)
                else:
                    break
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield True


def _is_state(state: Any) -> bool:
    """Return whether ``_keep`` can have written it: one that nobody can go on with must not stop the next run."""
    if not isinstance(state, Mapping) or state.get("status") not in ("running", "finished"):
        return False
    numbers = [state.get(key) for key in ("duration_seconds", "interval_seconds", "started", "elapsed_seconds")]
    return (
        isinstance(state.get("id"), str)
        and valid_id(state["id"])
        and all(isinstance(number, (int, float)) and math.isfinite(number) for number in numbers)
    )


def merged(before: Sequence[Finding], now: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the worst finding on each (check, part): of equally bad ones the first, of passes the last."""
    best: dict[tuple[str, str], Finding] = {(finding.check, finding.subject): finding for finding in before}
    for finding in now:
        key = (finding.check, finding.subject)
        known = best.get(key)
        if known is None or VERDICTS.index(finding.verdict) <= VERDICTS.index(known.verdict) - (known.verdict != PASS):
            best[key] = finding
    return tuple(best.values())


def run_finding(plan: Plan, elapsed: float, ended: str, verdict: str = INCOMPLETE) -> Finding:
    """Return the run's finding about itself: ``pass`` only when the whole duration was spent, uninterrupted."""
    if not ended and elapsed >= plan.duration_seconds:
        return Finding(STAGE, "host", PASS, int(elapsed), plan.duration_seconds, "s")
    why = ended or "not finished"
    return Finding(STAGE, "host", verdict, int(elapsed), plan.duration_seconds, "s", why, "investigate")


@dataclass(frozen=True)
class Surroundings:
    """All that a run touches: where it writes, what it examines, time, systemd; a test brings its own."""

    record: Record
    host: Host
    version: str
    clock: Clock
    notify: Callable[[str], None]
    going_down: Callable[[], bool]


def run(plan: Plan, around: Surroundings) -> Evidence:
    """Run the plan to its end and return the evidence. The caller holds the lock.

    On SIGTERM (``Stopped``) the run ends as ``incomplete``, unless the whole system is going down: then it stays
    open, and the next boot finds it as what it is, a reboot in mid burn-in.
    """
    record, host, clock, notify = around.record, around.host, around.clock, around.notify
    began = clock.monotonic()
    boot = host.read(boot_id.PATH).stdout.strip()
    evidence = Evidence(
        id=plan.id,
        node=plan.node,
        stage=STAGE,
        started=clock.wall(),
        finished=None,
        boot_id=boot,
        fingerprint={},
        expect_digest=expect_digest_of(STAGE, plan.expect),
        findings=(run_finding(plan, 0, ""),),
        detail={**_detail(plan), **_NOTHING_YET},
        muster_version=around.version,
    )
    ended = ""
    try:
        # Before the first examination, which takes its time: whoever asks meets a run.
        _keep(record, plan, evidence, began)
        notify("READY=1")
        ended, evidence = _examinations(plan, around, evidence, began)
    except Stopped:
        evidence = _last(record, evidence)
        if around.going_down():
            return evidence
        ended = "stopped by SIGTERM"
    elapsed = clock.monotonic() - began
    evidence = _finished(evidence, run_finding(plan, elapsed, ended), clock.wall(), elapsed)
    _keep(record, plan, evidence)
    notify(f"STATUS=finished after {elapsed:.0f} s: {_counts(evidence.findings)}")
    return evidence


def _examinations(plan: Plan, around: Surroundings, evidence: Evidence, began: float) -> tuple[str, Evidence]:
    """Examine until the plan's end and return why it ended early ("" if it did not) and the evidence."""
    record, clock = around.record, around.clock
    count = 0
    first_failed: dict[str, Any] = {}
    while True:
        # Taken before the examination: the last one starts when the whole duration has been spent.
        elapsed = clock.monotonic() - began
        examination = examine(STAGE, around.host, plan.expect)
        count += 1
        fingerprint = fingerprint_of(examination.values, plan.expect)
        news = [*examination.findings, *_changes(evidence if count > 1 else None, fingerprint)]
        failed = [finding for finding in news if finding.verdict == FAIL]
        if failed and not first_failed:
            record.store.write_raw(evidence, "first_failed", examination.outputs)
        for finding in failed:
            first_failed.setdefault(f"{finding.check} {finding.subject}", {"at": clock.wall(), "examination": count})
        evidence = replace(
            evidence,
            fingerprint=fingerprint if count == 1 else evidence.fingerprint,
            findings=(*merged(_without_run(evidence.findings), news), run_finding(plan, elapsed, "still running")),
            detail={
                **evidence.detail,
                "elapsed_seconds": elapsed,
                "examinations": count,
                "first_failed": first_failed,
            },
            raw=examination.raw,
        )
        record.store.write_raw(evidence, "last", examination.outputs)
        _keep(record, plan, evidence, began)
        left = max(0.0, plan.duration_seconds - elapsed)
        share = 100 if not plan.duration_seconds else int(100 - 100 * left / plan.duration_seconds)
        around.notify(
            f"STATUS={share} % of {plan.duration_seconds:g} s, {left:.0f} s left: {_counts(evidence.findings)}"
        )
        if failed and plan.stop_on_fail:
            return f"stopped at the first failure after {elapsed:.0f} of {plan.duration_seconds:g} s", evidence
        if elapsed >= plan.duration_seconds:
            return "", evidence
        end, following = began + plan.duration_seconds, began + elapsed + plan.interval_seconds
        clock.sleep(max(0.0, min(end, following) - clock.monotonic()))


def _changes(evidence: Evidence | None, fingerprint: Mapping[str, str | None]) -> list[Finding]:
    """Return a finding when the host is no longer the one that the run began with."""
    if evidence is None:
        return []
    changed = [name for name in _LASTING if fingerprint[name] != evidence.fingerprint[name]]
    why = "; ".join(f"{name} was {evidence.fingerprint[name]}, is {fingerprint[name]}" for name in changed)
    if not changed:
        return []
    return [
        Finding(
            "fingerprint",
            "host",
            INCOMPLETE,
            len(changed),
            0,
            "changed components",
            f"changed during burn-in: {why}"[:600],
            "investigate",
        )
    ]


def settle(record: Record, boot_id_of: Callable[[str], str], now: float) -> bool:
    """Finish the record of a run that was cut off and return whether there was one. The caller holds the lock.

    ``boot_id_of`` returns the boot id, "" if unreadable, as it stands under a root directory.
    """
    state = record.state()
    if state.get("status") != "running":
        return False
    now_booted = boot_id_of(str(state.get("root", "/")))
    plan, evidence = _interrupted(record, state)
    before, elapsed = str(state.get("boot_id", "")), float(evidence.detail.get("elapsed_seconds", 0))
    if not now_booted or not before:
        finding = run_finding(plan, elapsed, "burn-in ended early, boot id unreadable: reboot or not is unknown")
    elif now_booted != before:
        why = f"unplanned reboot during burn-in: boot id {before}, now {now_booted}"
        finding = run_finding(plan, elapsed, why, FAIL)
    else:
        finding = run_finding(plan, elapsed, "burn-in process ended early")
    _keep(record, plan, _finished(evidence, finding, now, elapsed))
    return True


def _interrupted(record: Record, state: Mapping[str, Any]) -> tuple[Plan, Evidence]:
    """Return plan and evidence of a run that was cut off, as far as they are on disk."""
    # Expectations are in the evidence as a digest; nothing more is judged by them.
    duration, interval = float(state.get("duration_seconds", 0)), float(state.get("interval_seconds", 0))
    plan = Plan(str(state["id"]), str(state.get("node", "")), str(state.get("profile", "")), duration, interval, {})
    try:
        return plan, Evidence.from_dict(record.store.read(STAGE, plan.id))
    except (OSError, ValueError, EvidenceError):
        return plan, Evidence(
            id=plan.id,
            node=plan.node,
            stage=STAGE,
            started=float(state.get("started", 0)),
            finished=None,
            boot_id=str(state.get("boot_id", "")),
            fingerprint={},
            expect_digest=str(state.get("expect_digest", "")),
            detail={**_detail(plan), **_NOTHING_YET},
        )


def status(record: Record, now: float, *, with_evidence: bool = False) -> dict[str, Any]:
    """Return what is going on: ``status`` is none, running, interrupted (to be settled), or finished.

    ``now`` is the monotonic clock's time: the wall clock of a new host may be set while the run goes on.
    """
    state = record.state()
    if state["status"] == "none":
        return state
    if state["status"] == "running" and not record.alive():
        # Read again: it may have finished between the two looks.
        state = record.state()
        if state["status"] == "running":
            state["status"] = "interrupted"
    duration = float(state["duration_seconds"])
    began = state.get("began_monotonic")
    elapsed = float(state["elapsed_seconds"])
    if state["status"] == "running" and isinstance(began, (int, float)):
        elapsed = now - began
    state["eta_seconds"] = max(0.0, round(duration - elapsed, 1)) if state["status"] == "running" else 0
    state["percent"] = 100 if duration <= 0 or state["status"] == "finished" else min(99, int(100 * elapsed / duration))
    state["evidence_path"] = str(record.store.path(STAGE, state["id"]))
    if with_evidence:
        try:
            state["evidence"] = record.store.read(STAGE, state["id"])
        except (OSError, ValueError) as exc:
            state["evidence"] = None
            state["message"] = f"evidence cannot be read: {exc}"
    return state


def _keep(record: Record, plan: Plan, evidence: Evidence, began: float | None = None) -> None:
    """Write evidence, then state: who reads ``finished`` there finds the finished evidence.

    ``began`` is the start of a run that goes on, on the clock that all processes of one boot share.
    """
    record.store.write(evidence)
    # A run that goes on is no incomplete part; one that a reboot ended has failed.
    going_on = evidence.finished is None
    counted = _without_run(evidence.findings) if going_on else evidence.findings
    verdicts = [finding.verdict for finding in counted]
    record.write_state(
        {
            "id": plan.id,
            "status": "running" if going_on else "finished",
            "node": plan.node,
            "profile": plan.profile,
            "duration_seconds": plan.duration_seconds,
            "interval_seconds": plan.interval_seconds,
            "expect_digest": evidence.expect_digest,
            "boot_id": evidence.boot_id,
            # Where boot ids are read when the run has to be settled.
            "root": plan.expect["tools"]["root"] if plan.expect else "/",
            "started": evidence.started,
            "began_monotonic": began,
            "elapsed_seconds": evidence.detail["elapsed_seconds"],
            "examinations": evidence.detail["examinations"],
            "failed": verdicts.count(FAIL),
            "incomplete": verdicts.count(INCOMPLETE),
        }
    )


def _last(record: Record, evidence: Evidence) -> Evidence:
    """Return the run's evidence as it was last written: SIGTERM comes at any point."""
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


def _without_run(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.check != STAGE)


def _detail(plan: Plan) -> dict[str, Any]:
    return {
        "profile": plan.profile,
        "duration_seconds": plan.duration_seconds,
        "interval_seconds": plan.interval_seconds,
        "stop_on_fail": plan.stop_on_fail,
    }


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
    """Run the plan in a file once and return the exit status; a run that was cut off before is settled first."""
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
        host = LocalHost(plan.expect["tools"]["path"], plan.expect["tools"]["root"])
        settle(record, boot_id_under, time.time())
        if record.state().get("id") == plan.id:
            # The plan of an earlier boot; the unit starts at boot only to settle it.
            notify_systemd("READY=1")
            return 0
        signal.signal(signal.SIGTERM, _stop)
        run(plan, Surroundings(record, host, version, Clock(), notify_systemd, system_going_down))
    return 0


def _stop(_signal: int, _frame: Any) -> None:
    # A second one must not cut off the writing of the record.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped
