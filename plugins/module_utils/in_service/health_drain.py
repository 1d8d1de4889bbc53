"""``muster health --drain``: the health check as Slurm runs it, which drains its node by itself.

Slurm is asked only where there is something to do: a node that passes, and was not drained before, costs the controller
nothing. A drain is not repeated while it stands; what a person wrote is never written over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from ..host.host import TOOL_PATH, Host, LocalHost
from ..probes.heartbeat import Heartbeat
from ..slurm import drain_reason
from ..slurm.scontrol_output import NodeState, SlurmGateError, parse_nodes
from ..words.finding import INCOMPLETE, PASS, Finding, worst
from . import leftover_processes
from .health import EXIT_STATUS, FILE_SECONDS, evidence_of, leave, report, take, within
from .hook_settings import read_hook_settings

# A controller that is well answers in 20 ms; what hangs must leave room for the wrapper's own word (files/health).
SCONTROL_SECONDS = 1.0
# To end what an epilog could not end, on the few nodes where there is something: asked, it is a moment.
LEFTOVER_SECONDS = 3.0
# To look for strays, a moment, and to end those of one user; before the wrapper's limit (8 s) whatever went before.
STRAY_SECONDS = 3.0
STRAY_ONE_SECONDS = 2.0
OVER_SECONDS = 7.5
# Left where the node was drained, by this program or by its wrapper, until it is given back.
MARK = "health_drain"

DRAIN = "drain"
LIFT = "lift"


def run(expect_path: str, settings_path: str, state_directory: str, node: str, host: Host | None = None) -> int:
    """Examine the host, bring its drain in Slurm in line, print what did not pass, and return the exit status."""
    started = time.monotonic()
    host = host or LocalHost(os.environ.get("PATH") or TOOL_PATH)
    if leftover_processes.remembered(state_directory):
        _end_remembered(host, settings_path, state_directory, node)
    beat = take(expect_path, settings_path, state_directory, node, serving=True)
    marked = Path(state_directory) / MARK
    told, trouble = "", ""
    if beat.verdict != PASS or beat.drain or marked.exists():
        if beat.verdict != PASS:
            # Of its own, as an examination at the same time may replace the heartbeat.
            within(FILE_SECONDS, lambda: mark(state_directory))
        told, trouble = drain_or_lift(host, node, beat.drain if beat.verdict != PASS else "")
    if trouble:
        finding = Finding("drain", "host", INCOMPLETE, None, None, "", trouble, "investigate")
        beat = _with(beat, finding)
        leave(state_directory, beat)
    elif beat.verdict == PASS and (beat.drain or marked.exists()):
        _forget(beat, state_directory, marked)
    seconds = round(time.monotonic() - started, 3)
    report(beat, evidence_of(beat, state_directory), slurm=told, seconds=seconds)
    _end_strays(host, settings_path, state_directory, node, started + OVER_SECONDS - time.monotonic())
    return EXIT_STATUS[beat.verdict]


def drain_or_lift(host: Host, node: str, reason: str) -> tuple[str, str]:
    """Drain the node with ``reason``, without one give it back; return what was done, and why it could not be done."""
    try:
        nodes = parse_nodes(_scontrol(host, "show", "node", node, "--oneliner"))
        if node not in nodes:
            return "", f"slurmctld knows no node {node}"
        if not nodes[node].readable:
            return "", f"scontrol show node {node}: {nodes[node].reason}"
        step = step_of(nodes[node], reason)
        if step == DRAIN:
            _scontrol(host, "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}")
        elif step == LIFT:
            _scontrol(host, "update", f"NodeName={node}", "State=RESUME")
    except SlurmGateError as exc:
        return "", str(exc)
    return step, ""


def step_of(node: NodeState, reason: str) -> str:
    """Return what has to be done: ``drain``, ``lift``, or nothing.

    ``reason`` is that of the drain that is wanted, nothing for a node that passed. A node that is kept off jobs stays
    as it is, unless what keeps it off is weaker than a measured fault and not a person's word.
    """
    waiting = node.drained_by_muster and drain_reason.waits(node.reason)
    if not reason:
        return LIFT if waiting else ""
    if not node.kept_off:
        return DRAIN
    fault = drain_reason.fault_in(reason) is not None
    if node.drained:
        loaded = node.drained_by_muster and node.reason == drain_reason.BURN_IN
        weaker = waiting or loaded or node.reason in drain_reason.HOOK_FAILED
        return DRAIN if fault and weaker else ""
    # Down because it was silent: it is back in service with its next word.
    return DRAIN if node.reason == drain_reason.SILENT else ""


def _with(beat: Heartbeat, finding: Finding) -> Heartbeat:
    return replace(beat, verdict=worst([beat.verdict, INCOMPLETE]), findings=(*beat.findings, finding))


def mark(state_directory: str) -> str:
    """Leave the mark of a node that is drained; raises OSError."""
    (Path(state_directory) / MARK).touch(mode=0o600)
    return "left"


def _end_remembered(host: Host, settings_path: str, state_directory: str, node: str) -> None:
    def work() -> str:
        operators = _operators(settings_path)
        leftover_processes.end_remembered(host, node, state_directory, operators, LEFTOVER_SECONDS)
        return "done"

    within(LEFTOVER_SECONDS, work)


def _end_strays(host: Host, settings_path: str, state_directory: str, node: str, left_seconds: float) -> None:
    def work() -> str:
        operators = _operators(settings_path)
        leftover_processes.end_strays(host, node, state_directory, operators, STRAY_ONE_SECONDS)
        return "done"

    if left_seconds > 0:
        within(min(STRAY_SECONDS, left_seconds), work)


def _operators(settings_path: str) -> Callable[[], Collection[str]]:
    return lambda: read_hook_settings(settings_path).operator_groups


def _forget(beat: Heartbeat, state_directory: str, marked: Path) -> None:
    if leave(state_directory, replace(beat, drain="")):
        try:
            marked.unlink(missing_ok=True)
        except OSError:
            # It costs a question to Slurm each time, no more.
            return


def _scontrol(host: Host, *arguments: str) -> str:
    output = host.run(["scontrol", *arguments], SCONTROL_SECONDS)
    if output.rc == 0 and not output.error:
        return output.stdout
    raise SlurmGateError(f"scontrol {' '.join(arguments)}: {_said(output.error, output.stderr, output.stdout)}")


def _said(*texts: str) -> str:
    return next((text.strip().splitlines()[0] for text in texts if text.strip()), "no message")
