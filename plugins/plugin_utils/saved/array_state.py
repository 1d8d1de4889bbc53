"""Drive arrays as ``mdadm --detail`` and /proc/mdstat tell them: degraded, stopped, with failed members, rebuilding.

Formats: mdadm's Detail.c and the kernel's drivers/md/md.c (md_seq_show); states: mdadm(8), md(4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_findings import fault, sound, unread, watch
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.text_sections import sections

NAME = "mdadm"
_CHECK = "array"

_DETAIL = re.compile(r"^(/dev/\S+):[ \t]*\n(?=\s*(?:Version|Creation Time|Raid Level|Container) :)", re.MULTILINE)
_QUERY = re.compile(r"^(/dev/\S+): \S+ ?\S* (?:raid\d+|linear) \d+ devices?, \d+ spares?\.", re.MULTILINE)
_PERSONALITIES = re.compile(r"^Personalities :", re.MULTILINE)
_ARRAY = re.compile(r"^(md[\w/-]*) : (.*)$", re.MULTILINE)
_FIELD = re.compile(r"^\s*([A-Z][\w /-]*?) : (.*?)\s*$", re.MULTILINE)
_MEMBER = re.compile(r"^\s*(?:\d+|-)\s+\d+\s+\d+\s+(?:\d+|-)\s+(.*?)\s*$", re.MULTILINE)
_COUNT = re.compile(r"\[(\d+)/(\d+)\] \[([U_]+)\]")
_AT_WORK = re.compile(r"\b(recovery|resync|reshape|check)\b ?= ?([\d.]+%|\w+)")
# What mdadm adds to "clean" and "active" while an array is whole.
_WORK_WORDS = ("resyncing", "reshaping", "recovering", "checking")
_GOOD_WORDS = {"clean", "active", "active-idle", "read-auto", "readonly", "write-pending", *_WORK_WORDS}


def recognises(text: str) -> bool:
    """Return whether mdadm or the kernel's md driver printed this."""
    return bool(_DETAIL.search(text) or _PERSONALITIES.search(text) or _QUERY.search(text))


def findings(text: str, expect: Expectations | None) -> list[Finding]:
    """Return a finding for each array."""
    found = [*_details(text), *_mdstat(text)]
    found += [
        unread(_CHECK, match[1], "mdadm --query tells no state, --detail does") for match in _QUERY.finditer(text)
    ]
    return found or [unread(_CHECK, "host", "no array is told")]


def _details(text: str) -> Iterator[Finding]:
    for mark, body in sections(_DETAIL, text):
        yield _detail(mark[1], body)


def _detail(name: str, text: str) -> Finding:
    fields = dict(_FIELD.findall(text))
    members = _MEMBER.findall(text)
    state = fields.get("State", "")
    words = [word.strip() for word in state.split(",") if word.strip()]
    faults = [word for word in words if word.lower() not in _GOOD_WORDS]
    bad = [member for member in members if re.match(r"(?:.* )?(?:faulty|removed)\b", member)]
    failed = fields.get("Failed Devices", "0")
    faults += [f"member {' '.join(member.split())}" for member in bad]
    if failed.isdigit() and int(failed) and not bad:
        faults.append(f"{failed} failed devices")
    if "Container" in fields.get("Raid Level", "") and "inactive" in faults:
        faults.remove("inactive")
    if faults:
        return fault(
            _CHECK, name, f"{', '.join(faults)}: a drive failed or is missing", state or None, "clean or active"
        )
    if not words:
        return unread(_CHECK, name, "cut short, no line State")
    if not members:
        return unread(_CHECK, name, "cut short, no member is told")
    active, wanted = fields.get("Active Devices", ""), fields.get("Raid Devices", "")
    if active.isdigit() and wanted.isdigit() and int(active) < int(wanted):
        return fault(_CHECK, name, f"{active} of {wanted} devices are active", state, "all active")
    if work := [word for word in words if word.lower() in _WORK_WORDS]:
        progress = next((f", {value}" for key, value in fields.items() if key.endswith("Status")), "")
        return watch(_CHECK, name, f"{', '.join(work)}{progress}", state)
    return sound(_CHECK, name, state)


def _mdstat(text: str) -> Iterator[Finding]:
    if not _PERSONALITIES.search(text):
        return
    arrays = list(sections(_ARRAY, text))
    for array, body in arrays:
        yield _array(array[1], array[2], body.split("\nunused devices", maxsplit=1)[0])
    if "unused devices:" not in text:
        yield unread(_CHECK, "host", "/proc/mdstat is cut short, its last line is missing")
    elif not arrays:
        yield unread(_CHECK, "host", "/proc/mdstat names no array; whether there must be one a class says")


def _array(name: str, head: str, body: str) -> Finding:
    failed = re.findall(r"(\S+?)\[\d+\]\(F\)", head)
    count = _COUNT.search(body)
    if head.startswith("inactive"):
        # The container of a BIOS' own format holds arrays and is never active itself (mdadm(8), CONTAINER).
        if re.search(r"super external:(?!/)", body) and not failed:
            return sound(_CHECK, name, "container")
        return fault(_CHECK, name, "inactive: not assembled or stopped by the kernel", "inactive", "active")
    if head.startswith("broken"):
        # md_seq_show since 5.4: a member of an array without redundancy went away.
        return fault(_CHECK, name, "broken: a member went away, and with it what lay on it", "broken", "active")
    if not head.startswith("active"):
        return unread(_CHECK, name, f"state {head.split(' ', maxsplit=1)[0]!r} is unknown")
    if count and (int(count[2]) < int(count[1]) or "_" in count[3]):
        gone = f", failed: {', '.join(failed)}" if failed else ""
        work = _AT_WORK.search(body)
        gone += f"; {work[1]} {work[2]}" if work else ""
        return fault(_CHECK, name, f"degraded, {count[2]} of {count[1]} members{gone}", count[3], "all U")
    if count is None and (failed or not body.strip()):
        # Arrays without redundancy tell no count.
        said = f"failed: {', '.join(failed)}" if failed else "cut short"
        return fault(_CHECK, name, said) if failed else unread(_CHECK, name, said)
    if failed:
        return watch(
            _CHECK, name, f"whole, but {', '.join(failed)} failed and is still in it", count[3] if count else None
        )
    if head.startswith("active (read-only)"):
        return watch(_CHECK, name, "read-only: nothing can be written to it", "read-only")
    if (work := _AT_WORK.search(body)) and work[1] != "check":
        return watch(_CHECK, name, f"{work[1]} {work[2]}", count[3] if count else None)
    return sound(_CHECK, name, count[3] if count else "active")
