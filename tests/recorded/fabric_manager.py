"""The fabric manager's logs: how each recorded one is judged."""

from __future__ import annotations

from collections.abc import Callable

from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output

from .row import Row


def _lines(word: str) -> Callable[[bytes], Output]:
    """Return what keeps the lines of a file that have the word."""
    return lambda data: Output("".join(line for line in data.decode().splitlines(True) if word in line))


def _row(file: str, verdict: str, why: str, word: str = "") -> Row:
    run = _lines(word) if word else None
    return Row(f"fabric-manager/{file}", "fabric_manager_log", ("fabric_manager_log",), verdict, {}, why, run)


ROWS = [
    _row("fabricmanager-h100-teams.log", "pass", "multicast teams, and one non-fatal 12028 to watch"),
    _row("nv-warn-nothing-to-do.log", "fail", "no NVSwitch is seen on an HGX; the journal, not the log itself"),
    _row("fm-error-lines.log", "fail", "fatal 20034, GPUs out of the fabric, a switch missing"),
    _row("fm-error-lines.log", "fail", "fatal SXid: reset", "20034"),
    _row("fm-error-lines.log", "pass", "non-fatal SXid: watch", "12028"),
    _row("fm-error-lines.log", "fail", "a GPU out of the fabric", "GPU handle"),
    _row("fm-error-lines.log", "fail", "an NVSwitch is missing", "topology"),
]

NOT_COVERED: dict[str, str] = {}
