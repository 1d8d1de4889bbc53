"""Lustre by its own word: health_check, recovery_status, imports, devices, ``lfs df``, ``lfs check``, lnetctl.

Formats and states: Lustre's manual (monitoring, recovery), lctl(8), lfs-df(1), lfs-check(1), lnetctl(8),
obdclass/lprocfs_status.c (import states) and obdclass/obd_config.c (letters of ``lctl dl``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_findings import fault, sound, unread, watch
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.text_sections import sections

NAME = "Lustre"
_CHECK = "lustre"

_HEALTH = re.compile(r"^health_check=[ \t]*\n?((?:.*unhealthy.*\n)*.*)", re.MULTILINE)
_OWN_HEALTH = re.compile(r"\A\s*((?:device \S+ reported unhealthy\n)*(?:NOT HEALTHY|LBUG)|healthy)\s*\Z")
_DEVICE = re.compile(r"device (\S+) reported unhealthy")
_RECOVERY = re.compile(r"^(\S+)\.recovery_status=\s*(?:status: (\S+))?", re.MULTILINE)
_CLIENTS = re.compile(r"^completed_clients: (\d+)/(\d+)", re.MULTILINE)
_LISTED = re.compile(
    r"^ *\d+ (UP|IN|AT|ST|SP|DN|--) (?:mg[cs]|lov|lmv|osc|mdc|osp|mdt|mdd|ost|obdfilter|qmt|qsd|lwp|lod|osd-\w+|mds)"
    r" (\S+) \S+ \d+",
    re.MULTILINE,
)
_DF_HEAD = re.compile(r"^UUID +(?:1K-blocks|bytes|Inodes) +Used|^UUID +\S+ +I?Used +", re.MULTILINE)
_DF_SICK = re.compile(
    r"^(\S+?)(?:_UUID)? *: (inactive device|Input/output error|Resource temporarily unavailable|"
    r"Cannot send after transport endpoint shutdown|No such device|Invalid argument|Connection \w+.*)",
    re.MULTILINE,
)
_DF_ROW = re.compile(r"^(\S+)_UUID +\S+ +\S+ +\S+ +(\d+)% +\S+\[(?:OST|MDT):\d+\]?[ \t]*([A-Za-z]*)", re.MULTILINE)
# Letters behind a target (lustre_user.h, OS_STATFS_*): nothing can be written to it; it works with less than it has.
_UNWRITABLE = {"R": "read-only", "S": "out of space", "I": "out of inodes"}
_REDUCED = {"D": "degraded", "N": "takes no new files"}
_SUMMARY = re.compile(r"^filesystem[_ ]summary:", re.MULTILINE)
_CHECKED = re.compile(
    r"^(\S+-(?:OST|MDT)\w{4}-\w+-\w+|MGC\S+)[: ]+(active\.|inactive\.|check error: .*)$", re.MULTILINE
)
# What lfs says on standard error of one that it could not ask.
_UNASKED = re.compile(r"^(?:lfs|error|check)\b.{0,80}?([\w.]{1,64}-(?:OST|MDT)[0-9a-f]{4}\S*?)['\" :].*$", re.MULTILINE)
_IMPORT = re.compile(r"^import:[ \t]*\n(?:[ \t][^\n]*(?:\n|\Z))*", re.MULTILINE)
# ``lctl get_param *.*.state``: where a client's import stands, and stood (lprocfs_status.c).
_STATE = re.compile(r"^(\S+?)\.state=[ \t]*\ncurrent_state: (\w+)", re.MULTILINE)
_IMPORT_FIELD = re.compile(r"^\s+(name|target|state): (\S+)", re.MULTILINE)
# lctl(8), lustre/include/lustre_import.h: connected, and not connected because nothing was asked for a while.
_CONNECTED = ("FULL", "IDLE")
_NETS = re.compile(r"^net:\s*\n\s+- net type:", re.MULTILINE)
_NID = re.compile(r"^\s+- nid: (\S+)", re.MULTILINE)
_STATISTICS = re.compile(r"^statistics:\s*\n\s+msgs_alloc:", re.MULTILINE)
# A network interface starts with it (LNet health, "health value").
_FULL_HEALTH = 1000


def recognises(text: str) -> bool:
    """Return whether Lustre's programs printed this."""
    patterns = (_HEALTH, _OWN_HEALTH, _RECOVERY, _DF_SICK, _DF_ROW, _CHECKED, _STATE, _NETS, _STATISTICS)
    said = any(pattern.search(text) for pattern in patterns)
    return said or bool(_LISTED.search(text) or (_IMPORT.search(text) and "connect_flags" in text))


def findings(text: str, expect: Expectations | None) -> list[Finding]:
    """Return a finding for each target, device and network interface that is told."""
    readers: tuple[Callable[[str], Iterator[Finding]], ...] = (
        *(_health, _recovery, _listed, _df, _checked, _states, _imports, _networks, _statistics),
    )
    found = [finding for reader in readers for finding in reader(text)]
    return found or [unread(_CHECK, "file system", "nothing of it tells health")]


def _health(text: str) -> Iterator[Finding]:
    for match in [*_HEALTH.finditer(text), *_OWN_HEALTH.finditer(text)]:
        said = match[1].strip()
        devices = _DEVICE.findall(said)
        for device in devices:
            yield fault(_CHECK, device, "Lustre reports it unhealthy", "unhealthy", "healthy")
        if said == "healthy":
            yield sound(_CHECK, "health_check", said)
        elif not devices:
            last = said.splitlines()[-1] if said else ""
            sick = last in ("NOT HEALTHY", "LBUG")
            reason = f"health_check is {last!r}"
            yield (
                fault(_CHECK, "health_check", reason, last, "healthy")
                if sick
                else unread(_CHECK, "health_check", reason)
            )


def _recovery(text: str) -> Iterator[Finding]:
    for mark, body in sections(_RECOVERY, text):
        target, status = mark[1].partition(".")[2] or mark[1], mark[2] or ""
        clients = _CLIENTS.search(body)
        if status in ("RECOVERING", "WAITING", "WAITING_FOR_CLIENTS"):
            yield fault(_CHECK, target, f"recovery goes on, {status}: clients wait for it", status, "COMPLETE")
        elif status == "COMPLETE" and clients and int(clients[1]) < int(clients[2]):
            lost = int(clients[2]) - int(clients[1])
            yield watch(_CHECK, target, f"{lost} of {clients[2]} clients were evicted during recovery", status)
        elif status in ("COMPLETE", "INACTIVE"):
            # INACTIVE: no recovery was needed.
            yield sound(_CHECK, target, status)
        else:
            yield unread(_CHECK, target, f"recovery status is {status!r}")


def _listed(text: str) -> Iterator[Finding]:
    for state, name in _LISTED.findall(text):
        yield (
            sound(_CHECK, name, state)
            if state == "UP"
            else fault(_CHECK, name, f"lctl dl shows it as {state}: not set up or inactive", state, "UP")
        )


def _df(text: str) -> Iterator[Finding]:
    sick = _DF_SICK.findall(text)
    rows = _DF_ROW.findall(text)
    for name, said in sick:
        yield fault(_CHECK, name, f"{said}: what lies on it cannot be read", said, "a size")
    if not (sick or rows):
        return
    for name, percent, letters in rows:
        worse = [said for letter, said in _UNWRITABLE.items() if letter in letters]
        reduced = [said for letter, said in _REDUCED.items() if letter in letters]
        if int(percent) >= 100 or worse:
            yield fault(_CHECK, name, ", ".join(worse) or "full", f"{percent}%")
        elif reduced:
            yield watch(_CHECK, name, ", ".join(reduced), f"{percent}%")
        else:
            yield sound(_CHECK, name, f"{percent}%")
    if not _SUMMARY.search(text):
        yield unread(_CHECK, "file system", "lfs df is cut short, its summary is missing")


def _checked(text: str) -> Iterator[Finding]:
    for name, said in _CHECKED.findall(text):
        good = said == "active."
        yield sound(_CHECK, name, "active") if good else fault(_CHECK, name, f"lfs check: {said}", said, "active")
    for line in _UNASKED.finditer(text) if _CHECKED.search(text) else ():
        yield fault(_CHECK, line[1], f"it did not answer: {line[0].strip()[:160]}", None, "active")


def _states(text: str) -> Iterator[Finding]:
    for name, state in _STATE.findall(text):
        good = state in _CONNECTED
        reason = f"the client is not connected to it: {state}"
        yield sound(_CHECK, name, state) if good else fault(_CHECK, name, reason, state, "FULL")


def _imports(text: str) -> Iterator[Finding]:
    for block in _IMPORT.findall(text):
        fields = dict(_IMPORT_FIELD.findall(block))
        name, state = (
            str(fields.get("target") or fields.get("name") or "a target").removesuffix("_UUID"),
            fields.get("state", ""),
        )
        if state in _CONNECTED:
            yield sound(_CHECK, name, state)
        elif state:
            yield fault(_CHECK, name, f"the client is not connected to it: {state}", state, "FULL")
        else:
            yield unread(_CHECK, name, "its import is cut short, no state")


def _networks(text: str) -> Iterator[Finding]:
    if not _NETS.search(text):
        return
    for mark, body in sections(_NID, text):
        status = re.search(r"^\s+status: (\S+)", body, re.MULTILINE)
        health = re.search(r"^\s+health value: (-?\d+)", body, re.MULTILINE)
        fatal = re.search(r"^\s+fatal_error: (\d+)", body, re.MULTILINE)
        if (status and status[1] != "up") or (fatal and int(fatal[1])):
            said = f"status {status[1] if status else 'not told'}, fatal_error {fatal[1] if fatal else 'not told'}"
            yield fault(_CHECK, mark[1], f"LNet's interface: {said}", said, "status up")
        elif status is None:
            yield unread(_CHECK, mark[1], "cut short, no status")
        elif health and int(health[1]) < _FULL_HEALTH:
            yield watch(_CHECK, mark[1], f"health value {health[1]} of {_FULL_HEALTH}: sends over it failed", health[1])
        else:
            yield sound(_CHECK, mark[1], "up")


def _statistics(text: str) -> Iterator[Finding]:
    if not _STATISTICS.search(text):
        return
    counts = {name: int(count) for name, count in re.findall(r"^\s+(\w+): (\d+)\s*$", text, re.MULTILINE)}
    if "errors" not in counts:
        yield unread(_CHECK, "lnet", "cut short, no count of errors")
    elif bad := {name: count for name, count in counts.items() if count and re.search("error|timeout", name)}:
        said = ", ".join(f"{name} {count}" for name, count in bad.items())
        yield watch(_CHECK, "lnet", f"{said} since start", said)
    else:
        yield sound(_CHECK, "lnet", "errors 0")
