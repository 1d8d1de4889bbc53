"""``muster health``: the checks that are cheap and cannot hang, and the heartbeat that they leave.

Everything that touches the host happens in a child process, which is given up at a deadline: a file of sysfs or a disk
that never answers costs the answer, not the caller.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..checks import boot_preflight
from ..host.evidence_store import STATE_DIRECTORY, EvidenceStore
from ..host.host import LocalHost, Output, Unreadable
from ..host.whole_files import PRIVATE, replace_file
from ..probes import boot_id, heartbeat, kernel_ring, nvml, preflights
from ..probes.heartbeat import Heartbeat
from ..slurm import drain_reason
from ..words.deviation import Deviation, parted
from ..words.evidence import Evidence, expect_digest_of
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, VERDICTS, Finding, worst

STAGE = "health"
EXIT_STATUS = {PASS: 0, FAIL: 1, INCOMPLETE: 2}
# The whole is over after 10 s at the latest, the drain in Slurm included (health_drain.py).
MEASURE_SECONDS = 5.0
FILE_SECONDS = 1.0
# How long counts are compared with the same earlier ones.
COUNTERS_SECONDS = 86400.0
# A clock may be set back a little; a heartbeat of the future is no answer.
CLOCK_SECONDS = 5.0
_ROOM_BYTES = 65536


class HealthHost(LocalHost):
    """This host; what Muster keeps itself lies in the state directory, whatever the root of the tools is."""

    def __init__(self, tool_path: str, root: str, state_directory: str) -> None:
        super().__init__(tool_path, root)
        self.state_directory = state_directory.rstrip("/")

    def read(self, path: str) -> Output:
        """Return a file's text."""
        if path.startswith(STATE_DIRECTORY + "/"):
            return LocalHost().read(self.state_directory + path[len(STATE_DIRECTORY) :])
        return super().read(path)

    def paths(self, *patterns: str) -> list[str]:
        """Return what the patterns name, each under the name by which ``read`` knows it."""
        own = [pattern for pattern in patterns if pattern.startswith(STATE_DIRECTORY + "/")]
        found = LocalHost().paths(*(self.state_directory + pattern[len(STATE_DIRECTORY) :] for pattern in own))
        mine = [STATE_DIRECTORY + path[len(self.state_directory) :] for path in found]
        return sorted({*mine, *super().paths(*(pattern for pattern in patterns if pattern not in own))})


def run(expect_path: str, settings_path: str, state_directory: str, node: str) -> int:
    """Examine the host once, leave the heartbeat, print what did not pass, and return the exit status."""
    started = time.monotonic()
    beat = take(expect_path, settings_path, state_directory, node)
    report(beat, evidence_of(beat, state_directory), seconds=round(time.monotonic() - started, 3))
    return EXIT_STATUS[beat.verdict]


def take(expect_path: str, settings_path: str, state_directory: str, node: str, serving: bool = False) -> Heartbeat:
    """Examine the host once, leave heartbeat and evidence, and return the heartbeat; never raises, never waits long.

    ``serving`` says that Slurm runs the check, which is what tells a node in service from one nobody looks after.
    """
    why = "no answer"
    answer = within(MEASURE_SECONDS, lambda: _measured(expect_path, settings_path, state_directory, time.time()))
    in_time = answer is not None
    if not in_time:
        why = f"no answer within {MEASURE_SECONDS:g} s, or none at all"
        answer = within(FILE_SECONDS, lambda: _silent(why, state_directory, time.time()).to_json())
    beat = _parsed(answer) or _nothing(why, time.time())
    judged_by = within(FILE_SECONDS, _judged_by) if in_time and beat.verdict != PASS else None

    def evidence(beat: Heartbeat) -> Evidence:
        return _evidence(beat, expect_path, node, json.loads(judged_by or "{}"))

    kept = within(FILE_SECONDS, lambda: _kept(beat, state_directory, serving, evidence).to_json())
    told = _parsed(kept)
    if told is not None:
        return told
    finding = _finding(f"the heartbeat could not be written to {state_directory}/health.json")
    beat = replace(beat, verdict=worst([beat.verdict, INCOMPLETE]), findings=(*beat.findings, finding))
    return replace(beat, evidence_id=new_id(), drain="") if beat.verdict != PASS else beat


def leave(state_directory: str, beat: Heartbeat) -> bool:
    """Replace the heartbeat and return whether that worked."""
    path = Path(state_directory) / "health.json"
    return within(FILE_SECONDS, lambda: _written(path, beat)) is not None


def evidence_of(beat: Heartbeat, state_directory: str) -> Mapping[str, Any] | None:
    """Return the kept evidence of a run that did not pass, None where there is none or it cannot be read."""
    if beat.verdict == PASS or not beat.evidence_id:
        return None
    text = within(FILE_SECONDS, lambda: json.dumps(EvidenceStore(state_directory).read(STAGE, beat.evidence_id)))
    return json.loads(text) if text else None


def report(beat: Heartbeat, evidence: Mapping[str, Any] | None, **more: Any) -> None:
    """Print verdict, what did not pass, and the evidence of it, as one line of JSON.

    What was waived is among it: the control machine knows the waivers of today.
    """
    _print(beat.verdict, (*beat.findings, *beat.waived), evidence=evidence, boot_id=beat.boot_id, **more)


def reason_of(beat: Heartbeat) -> str:
    """Return the reason with which a node that did not pass is drained, nothing for one that passed.

    A measured fault comes first; a boot without a preflight that passed is told from what could not be measured.
    """
    if beat.verdict == PASS:
        return ""
    faults = [item for item in beat.findings if item.verdict == FAIL and item.check != boot_preflight.NAME]
    if faults:
        return drain_reason.fault_reason(faults[0].check, beat.evidence_id)
    if beat.boot_id and any(item.check == boot_preflight.NAME for item in beat.findings):
        return drain_reason.boot_reason(beat.boot_id)
    open_ones = [item.check for item in beat.findings if item.verdict != PASS] or [STAGE]
    return drain_reason.incomplete_reason(open_ones[0], beat.evidence_id)


def status(state_directory: str, max_age_seconds: float) -> int:
    """Judge the last heartbeat, print the verdict, and return the exit status."""
    answer = within(FILE_SECONDS, lambda: _read(state_directory))
    if answer is None:
        _print(INCOMPLETE, [_finding(f"the heartbeat in {state_directory} could not be read")])
        return EXIT_STATUS[INCOMPLETE]
    data = json.loads(answer)
    verdict, findings = judge_heartbeat(Output(**data["heartbeat"]), data["boot_id"], data["now"], max_age_seconds)
    _print(verdict, findings)
    return EXIT_STATUS[verdict]


def judge_heartbeat(output: Output, boot: str, now: float, max_age_seconds: float) -> tuple[str, list[Finding]]:
    """Return the verdict of a heartbeat at ``now`` on the boot ``boot``, and the findings behind it.

    One that is missing, unreadable, too old, of the future or of another boot is ``incomplete``, whatever it says.
    """
    if output.rc != 0 or output.error:
        return INCOMPLETE, [_finding(f"no heartbeat: {output.error or output.stderr}")]
    try:
        beat = heartbeat.parse(output)
    except Unreadable as exc:
        return INCOMPLETE, [_finding(str(exc))]
    if beat is None:
        return INCOMPLETE, [_finding("the heartbeat is empty")]
    age = now - beat.time
    if not boot or beat.boot_id != boot:
        why = f"the heartbeat is of boot {beat.boot_id or 'unknown'}, this is {boot or 'unknown'}"
    elif not age <= max_age_seconds:
        why = f"the heartbeat is {age:.0f} s old, at most {max_age_seconds:g} s allowed"
    elif age < -CLOCK_SECONDS:
        why = f"the heartbeat is {-age:.0f} s in the future"
    else:
        return beat.verdict, list(beat.findings)
    return INCOMPLETE, [_finding(why)]


def within(seconds: float, work: Callable[[], str]) -> str | None:
    """Return what ``work`` returns, run in a child process; None if it raised or took longer.

    The child is killed then, and not waited for: one that is stuck in the kernel dies when the kernel lets it.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            os.setsid()
            data = work().encode()
            while data:
                data = data[os.write(writer, data) :]
            status = 0
        except Exception as exc:  # noqa: BLE001 -- whatever it is, the parent has to hear of it as no answer
            os.write(2, f"muster: health: {type(exc).__name__}: {exc}\n".encode())
        finally:
            os._exit(status)
    os.close(writer)
    try:
        text, whole = _received(reader, time.monotonic() + seconds)
    finally:
        os.close(reader)
    return text if _ended(child, whole) else None


def _received(reader: int, deadline: float) -> tuple[str, bool]:
    chunks: list[bytes] = []
    while select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = os.read(reader, _ROOM_BYTES)
        if not chunk:
            return b"".join(chunks).decode(), True
        chunks.append(chunk)
    return "", False


def _ended(child: int, whole: bool) -> bool:
    """Return whether the child ended well; one that did not answer in time is killed, with all that it started."""
    if whole:
        return os.waitpid(child, 0)[1] == 0
    for kill, target in ((os.killpg, child), (os.kill, child)):
        try:
            kill(target, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    os.waitpid(child, os.WNOHANG)
    return False


def _measured(expect_path: str, settings_path: str, state_directory: str, now: float) -> str:
    """Return the new heartbeat as text."""
    from ..words.expectations import read_expectations  # noqa: PLC0415 -- start-up budget of --status
    from .hook_settings import read_waivers  # noqa: PLC0415
    from .leftover_processes import left_from_before  # noqa: PLC0415

    try:
        expect = read_expectations(json.loads(Path(expect_path).read_text(encoding="utf-8")))
    except (OSError, ValueError) as exc:
        return _silent(f"expectations in {expect_path}: {exc}", state_directory, now).to_json()
    host = HealthHost(expect.tools.path, expect.tools.root, state_directory)
    beat = examine(host, expect, now, read_waivers(settings_path))
    if left := left_from_before(state_directory):
        beat = replace(beat, verdict=worst([beat.verdict, INCOMPLETE]), findings=(*beat.findings, *left))
    return beat.to_json()


def examine(host: LocalHost, expect: Expectations, now: float, waivers: Sequence[Deviation] = ()) -> Heartbeat:
    """Read the host once and return the heartbeat of this run."""
    from ..examination.examine import collect  # noqa: PLC0415 -- as above
    from ..examination.registry import PROBES, judge_stage, probes_of  # noqa: PLC0415

    outputs = collect(host, [PROBES[name] for name in probes_of(STAGE)], expect)
    last = _last(outputs)
    if last is not None:
        # What was judged before stays judged: its failures are in the last heartbeat.
        outputs["kernel_log"] = kernel_ring.since(outputs["kernel_ring"], last.log_seconds)
    if waivers:
        outputs["preflights"] = preflights.accepting(
            outputs["preflights"], lambda finding: any(each.accepts(finding, now) for each in waivers)
        )
    result = judge_stage(STAGE, outputs, expect, loaded=in_use(outputs))
    # What was waived is kept beside: it counts again on the day after the last.
    findings, waived = parted(
        _with_earlier([item for item in result.findings if item.verdict != PASS], last), waivers, now
    )
    ring = result.values.get("kernel_ring") or ()
    counters: Mapping[str, int] = result.values.get("error_counters") or {}
    lost = any(item.check == "log_continuity" for item in findings)
    beat = Heartbeat(
        time=now,
        boot_id=result.values.get("boot_id") or "",
        verdict=worst([PASS, *(item.verdict for item in findings)]) if result.findings else INCOMPLETE,
        findings=tuple(findings),
        counters=counters,
        counters_time=now,
        log_seconds=max([message.seconds or 0.0 for message in ring] or [last.log_seconds if last else 0.0]),
        log_lost=lost,
        root=getattr(host, "root", "/"),
        waived=tuple(waived),
    )
    if last is not None and last.counters and 0 <= now - last.counters_time < COUNTERS_SECONDS:
        return replace(beat, counters=last.counters, counters_time=last.counters_time)
    return beat


def in_use(outputs: Mapping[str, Output]) -> bool:
    """Return whether somebody works on the GPUs, so that the checks of an idle host are left for later."""
    try:
        return bool(nvml.parse(outputs["nvml"]).busy)
    except Unreadable:
        return False


def _last(outputs: Mapping[str, Output]) -> Heartbeat | None:
    """Return the last run of this boot, None if there is none."""
    try:
        last = heartbeat.parse(outputs["heartbeat"])
        boot = boot_id.parse(outputs["boot_id"])
    except Unreadable:
        return None
    return last if last is not None and last.boot_id == boot else None


def _with_earlier(findings: Sequence[Finding], last: Heartbeat | None) -> list[Finding]:
    """Return the findings and what the log said before: a GPU that failed is no better for being silent since.

    Until the next boot, that is: burn-in, which looks at the whole log of the boot, does not forget either.
    """
    from ..examination.registry import CHECKS, STAGE_CHECKS  # noqa: PLC0415 -- as above

    if last is None:
        return list(findings)
    logs = {name for name in STAGE_CHECKS[STAGE] if "kernel_log" in CHECKS[name].PROBES}
    earlier = [item for item in (*last.findings, *last.waived) if item.check in logs and _lasts(item)]
    now = {(item.check, item.subject): VERDICTS.index(item.verdict) for item in findings}
    worse = [
        item for item in earlier if VERDICTS.index(item.verdict) < now.get((item.check, item.subject), len(VERDICTS))
    ]
    replaced = {(item.check, item.subject) for item in worse}
    return [item for item in findings if (item.check, item.subject) not in replaced] + worse


def _lasts(item: Finding) -> bool:
    """Return whether a finding tells of something seen: what names no measurement was not read, and may be later."""
    return item.verdict == FAIL or (item.verdict == INCOMPLETE and item.measured is not None)


def _kept(beat: Heartbeat, state_directory: str, serving: bool, evidence: Callable[[Heartbeat], Evidence]) -> Heartbeat:
    """Write evidence, where there is any that is new, and the heartbeat; return the heartbeat as it was written."""
    try:
        last = heartbeat.parse(LocalHost().read(f"{state_directory}/health.json"))
    except Unreadable:
        last = None
    beat = replace(beat, service_time=beat.time if serving else last.service_time if last else 0.0)
    if beat.verdict == PASS:
        # What was drained has still to be given back.
        beat = replace(beat, evidence_id="", drain=last.drain if last else "")
    elif last is not None and last.evidence_id and last.boot_id == beat.boot_id and _same(last, beat):
        beat = replace(beat, evidence_id=last.evidence_id)
    else:
        beat = replace(beat, evidence_id=new_id())
        EvidenceStore(state_directory).write(evidence(beat))
    if beat.verdict != PASS:
        beat = replace(beat, drain=reason_of(beat))
    _written(Path(state_directory) / "health.json", beat)
    return beat


def new_id() -> str:
    """Return an id for evidence."""
    import uuid  # noqa: PLC0415 -- start-up budget: a node that passes needs none

    return str(uuid.uuid4())


def _same(last: Heartbeat, beat: Heartbeat) -> bool:
    """Return whether the same parts fail in the same way, so that the evidence of it is there already."""
    then, now = ({(item.check, item.subject, item.verdict) for item in each.findings} for each in (last, beat))
    return then == now


def _evidence(beat: Heartbeat, expect_path: str, node: str, judged_by: Mapping[str, Any]) -> Evidence:
    try:
        digest = expect_digest_of(STAGE, json.loads(Path(expect_path).read_text(encoding="utf-8")))
    except (OSError, ValueError, AttributeError):
        digest = ""
    return Evidence(
        id=beat.evidence_id,
        node=node,
        stage=STAGE,
        started=beat.time,
        finished=time.time(),
        boot_id=beat.boot_id,
        fingerprint={},
        expect_digest=digest,
        findings=beat.findings,
        # Which machine it was, the boot id ties to a preflight that read all of it.
        identity={"hostname": os.uname().nodename},
        **judged_by,
    )


def _judged_by() -> str:
    """Return rules and program of the evidence; to read them takes as long as to keep it."""
    from ..examination.rules import rules_of  # noqa: PLC0415 -- start-up budget: a node that passes needs neither
    from ..host.own_program import program_digest  # noqa: PLC0415

    return json.dumps({"rules": rules_of(STAGE), "program": program_digest()})


def _parsed(text: str | None) -> Heartbeat | None:
    try:
        return heartbeat.parse(Output(text)) if text else None
    except Unreadable:
        return None


def _silent(reason: str, state_directory: str, now: float) -> Heartbeat:
    """Return the heartbeat of a run that measured nothing: it knows what the last one knew."""
    try:
        last = heartbeat.parse(LocalHost().read(f"{state_directory}/health.json"))
    except Unreadable:
        last = None
    if last is None:
        return _nothing(reason, now)
    findings = (*(item for item in last.findings if _lasts(item)), _finding(reason))
    return replace(last, time=now, verdict=worst(item.verdict for item in findings), findings=findings)


def _nothing(reason: str, now: float) -> Heartbeat:
    return Heartbeat(time=now, boot_id="", verdict=INCOMPLETE, findings=(_finding(reason),))


def _finding(reason: str) -> Finding:
    return Finding(STAGE, "host", INCOMPLETE, None, None, "", reason, "investigate")


def _written(path: Path, beat: Heartbeat) -> str:
    replace_file(path, beat.to_json(), PRIVATE)
    return "written"


def _read(state_directory: str) -> str:
    output = LocalHost().read(f"{state_directory.rstrip('/')}/health.json")
    root = "/"
    try:
        beat = heartbeat.parse(output) if output.rc == 0 else None
        root = beat.root if beat else root
        boot = boot_id.parse(LocalHost(root=root).read(boot_id.PATH))
    except Unreadable:
        boot = ""
    return json.dumps({"heartbeat": output.__dict__, "boot_id": boot, "now": time.time()})


def _print(verdict: str, findings: Sequence[Finding], **more: Any) -> None:
    print(json.dumps({"verdict": verdict, "findings": [item.to_dict() for item in findings], **more}, sort_keys=True))
