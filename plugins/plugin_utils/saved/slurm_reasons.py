"""Slurm's word on nodes as people save it: scontrol, sinfo, slurmrestd, slurmctld's log; jobs that nodes lost.

States: scontrol(1) and sinfo(1), NODE STATE CODES; slurm.h for the REST names. A job's end tells of a node only where
it is NODE_FAIL or BOOT_FAIL (squeue(1), JOB STATE CODES).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import VERDICTS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_findings import fault, sound, unread, watch
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.text_sections import sections

NAME = "Slurm"
_CHECK = "slurm_node"

_SICK: tuple[str, ...] = (
    "down",
    "drain",
    "drained",
    "draining",
    "drng",
    "fail",
    "failing",
    "failg",
    "error",
    "inval",
    "not_responding",
)
_SICK += ("invalid_reg", "no_respond")
_SERVING = ("idle", "mixed", "mix", "allocated", "alloc", "completing", "comp", "reserved", "resv", "planned", "plnd")
_AWAY: tuple[str, ...] = (
    "maint",
    "reboot",
    "boot",
    "rebooting",
    "reboot_issued",
    "reboot_requested",
    "unknown",
    "unk",
    "future",
    "futr",
)
_AWAY += ("powered_down", "powering_down", "powering_up", "power_down", "power_up", "pow_up", "pow_dn", "blocked")
_FLAGS = ("cloud", "dynamic_norm", "dynamic_future", "undrain", "perfctrs", "npc", "external", "resume")
_STATE = re.compile(
    rf"(?:{'|'.join(sorted({*_SICK, *_SERVING, *_AWAY}, key=len, reverse=True))})(?:\+\w+)*[*~#!%$@^+-]?", re.IGNORECASE
)
_JOB_STATES = (
    *("PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED"),
    *("BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "COMPLETING", "CONFIGURING", "REQUEUED", "RESIZING", "REVOKED"),
)
_LOST = ("NODE_FAIL", "BOOT_FAIL")
_JOB_STATE = re.compile(rf"\b(?:{'|'.join(_JOB_STATES)})\b")

_BLOCK = re.compile(r"^NodeName=(\S+)", re.MULTILINE)
_JOB_BLOCK = re.compile(r"^JobId=(\S+).*?\bJobState=(\w+)", re.MULTILINE | re.DOTALL)
_CONTROLLER = re.compile(r"^.*\bslurmctld\b.*?:", re.MULTILINE)
# SlurmctldLogFile and SlurmdLogFile name no program: told by what only these say.
_LOG_FILE = re.compile(
    r"^\[\d{4}-\d\d-\d\dT[\d:.]+\] (?:\S+: +)*(?:Nodes? \S+ not resp|update_node: node |"
    r"drain_nodes: node |_slurm_rpc_|\w*_?node_config_validate|set_node_down|node \S+ (?:returned|state)|sched: |"
    r"slurmctld version |Registering slurmctld)",
    re.MULTILINE,
)
# A log's line begins with its time in brackets.
_DOCUMENT = re.compile(r"\s*(?:\{|\[(?!\d{4}-\d\d-))")
_DATE = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:[A-Z]{3,4} )?\d{4}")
_SILENT = re.compile(r"error: Nodes (\S+) not responding|[Nn]ode (\S+) not responding|[Nn]odes? (\S+) not resp\b")
_SET_DOWN = re.compile(
    r"(?:update_node: node|set_node_down\w*:|drain_nodes: node|[Nn]ode) (\S+) (?:reason set to: (.*)|state (?:set )?to "
    r"((?:DOWN|DRAIN|FAIL|INVAL)\w*.*)|.*\bset(?:ting)? (?:to )?(?:state )?(DOWN|DRAIN\w*)\b.*)"
)
_REASONS_HEAD = re.compile(r"^REASON +(?:[A-Z]+ +)*NODELIST[ \t]*$", re.MULTILINE)
_REASON_ROW = re.compile(
    r"^(.+?) {2,}(\S+) +(\d{4}-\d\d-\d\dT\S+|Unknown) +(?:\S+ +)?(\S+)\s*$|^(.{20}) (\S+) +(\S+) +(\S+)\s*$"
)
# With columns of one's own: the reason first, the nodes last.
_OWN_ROW = re.compile(r"^(\S.*?) {2,}(?:.* )?(\S+)\s*$")
# What srun, salloc, slurmstepd and slurmd say of a node that could not run a job or end one (Slurm's src/srun,
# src/slurmd).
_SAID_OF_NODE = re.compile(
    r"\b(?:Task launch for \S+ failed on node (?P<launched>[\w.-]+): [^\n]*"
    r"|Prolog (?:failure|hung) on node (?P<prolonged>[\w.-]+)"
    r"|Node failure on (?P<lost>[\w.,\[\]-]+)"
    r"|STEPD TERMINATED ON (?P<stuck>[\w.-]+) AT \S+ DUE TO JOB NOT ENDING WITH SIGNALS)"
)
_HARDWARE = re.compile(r"error: Node configuration differs from hardware: ([^\n]*)")
_DIFFERS = re.compile(r"\w+=(\d+):(\d+)\(hw\)")
# Where another command's output begins: a table's header, a node's paragraph, a job's.
_BEGINS = re.compile(
    r"^(?:(?P<head>REASON +(?:[A-Z]+ +)*NODELIST[ \t]*$"
    r"|(?=[^|\n]*\bSTATE\b)(?=[^|\n]*\b(?:NODELIST|HOSTNAMES)\b)[A-Z][A-Z_]+ )"
    r"|(?P<node>NodeName=)|(?P<job>JobId=))",
    re.MULTILINE,
)
_NODE_LINE = re.compile(r"^[A-Za-z][\w.,\[\]-]*\s*(?:[|,]|\s)\s*\S")
_NO_REASON = ("", "none", "n/a", "(null)", "unknown")


def recognises(text: str) -> bool:
    """Return whether this is Slurm's list of nodes or jobs, or its controller's log."""
    if _is_document(text):
        return bool(
            re.search(r'"(?:next_state_after_reboot|gres_drained|slurmd_version|job_state|nodes)"', text)
        ) and bool(
            re.search(
                r'"(?:Slurm|slurm|slurmd_start_time|gres_used|job_state|state_flags|next_state_after_reboot)"', text
            )
        )
    if any(mark.search(text) for mark in (_BLOCK, _JOB_BLOCK, _REASONS_HEAD, _SAID_OF_NODE, _HARDWARE)):
        return True
    if (_CONTROLLER.search(text) and "slurmctld:" in text) or _LOG_FILE.search(text):
        return True
    return bool(_tabled(text)) or _is_of_jobs(text)


def _is_document(text: str) -> bool:
    return bool(_DOCUMENT.match(text)) and not _LOG_FILE.search(text)


def findings(text: str, expect: Expectations | None) -> list[Finding]:
    """Return one finding for each node that is told, or for each that jobs were lost on."""
    found = [finding for part in _parts(text) for finding in _of_part(part)]
    return _one_each(found) or [unread(_CHECK, "host", "no node's state is told")]


def _parts(text: str) -> list[str]:
    """Return what each of Slurm's commands printed: several may be saved in one."""
    if _is_document(text):
        return [text]
    begins: list[int] = []
    kind = ""
    for match in _BEGINS.finditer(text):
        # Each node and job has a paragraph of its own; each header is another table's.
        if match.lastgroup == "head" or match.lastgroup != kind:
            begins.append(match.start())
        kind = str(match.lastgroup)
    begins = begins if begins[:1] == [0] else [0, *begins]
    parts = [text[begin:end] for begin, end in zip(begins, [*begins[1:], len(text)], strict=True)]
    return [part for part in parts if part.strip()]


def _of_part(text: str) -> list[Finding]:
    if _is_document(text):
        return list(_documented(text))
    found = list(_said(text))
    rest = "\n".join(line for line in text.split("\n") if not (_SAID_OF_NODE.search(line) or _HARDWARE.search(line)))
    return [*found, *_of_rest(rest)] if not found or recognises(rest) else found


def _of_rest(text: str) -> list[Finding]:
    found: list[Finding] = []
    if _BLOCK.search(text):
        found = list(_blocks(text))
    elif _REASONS_HEAD.search(text):
        found = list(_reasons(text))
    elif "slurmctld:" in text or _LOG_FILE.search(text):
        found = list(_logged(text))
    elif not _is_of_jobs(text):
        found = [_node(name, state, reason) for name, state, reason in _tabled(text)]
    if not found and (_is_of_jobs(text) or _JOB_BLOCK.search(text)):
        found = list(_jobs(text))
    return found


def _node(name: str, state: str, reason: str) -> Finding:
    """Return what a state such as ``IDLE+DRAIN`` or ``drained*`` says of a node."""
    words = [word for word in re.split(r"[+, ]", state.lower().rstrip("*~#!%$@^+-")) if word]
    why = "" if reason.strip().lower() in _NO_REASON else f": {reason.strip()}"
    silent = state.rstrip("~#!%$@^+-").endswith("*")
    if silent or any(word in _SICK for word in words):
        said = f"{state}{', slurmd does not answer' if silent else ''}{why}"
        return fault(_CHECK, name, said[:200], state, "in service")
    # Behind the state: powered off, on its way up or down, to be rebooted, in a reservation for maintenance.
    if any(word in _AWAY for word in words) or re.search(r"[~#!%$@^]", state):
        return unread(_CHECK, name, f"out of service: {state}{why}"[:200])
    if words and all(word in (*_SERVING, *_FLAGS) for word in words):
        # A node in service has no reason (scontrol update state=resume takes it away), or somebody left it for others.
        return watch(_CHECK, name, f"{state}{why}"[:200], state) if why else sound(_CHECK, name, state)
    return unread(_CHECK, name, f"state {state!r} is unknown")


def _one_each(found: Sequence[Finding]) -> list[Finding]:
    """Return the worst finding on each node: a node stands in the list of each of its partitions."""
    worst: dict[str, Finding] = {}
    for finding in found:
        known = worst.get(finding.subject)
        if known is None or VERDICTS.index(finding.verdict) < VERDICTS.index(known.verdict):
            worst[finding.subject] = finding
    return list(worst.values())


def _blocks(text: str) -> Iterator[Finding]:
    for mark, body in sections(_BLOCK, text):
        state = re.search(r"\bState=(\S+)", body)
        reason = re.search(r"\sReason=(.*?)\s*$", body, re.MULTILINE)
        if state is None:
            yield unread(_CHECK, mark[1], "cut short, no state")
        else:
            yield _node(mark[1], state[1], reason[1] if reason else "")


def _reasons(text: str) -> Iterator[Finding]:
    """Yield what ``sinfo -R`` lists: nodes that are down, drained or failing alone."""
    head = next(iter(_REASONS_HEAD.finditer(text)))
    for line in text[head.end() :].split("\n"):
        if match := (_REASON_ROW.match(line) if "TIMESTAMP" in head[0] else None):
            reason, name = (match[1], match[4]) if match[1] else (match[5], match[8])
            yield fault(_CHECK, name, f"out of service: {reason.strip()}", None, "in service")
        elif match := _OWN_ROW.match(line):
            reason, name = match.groups()
            yield fault(_CHECK, name, f"out of service: {reason.strip()}", None, "in service")
        elif line.strip():
            yield unread(_CHECK, "host", f"a row cannot be read: {line.strip()[:80]}")


def _said(text: str) -> Iterator[Finding]:
    for match in _SAID_OF_NODE.finditer(text):
        name = next(each for each in match.groups() if each)
        yield fault(_CHECK, name, "the processes of a job do not end" if match["stuck"] else match[0].strip()[:200])
    for match in _HARDWARE.finditer(text):
        few = any(int(has) < int(wanted) for wanted, has in _DIFFERS.findall(match[1]))
        said = f"its hardware is not what slurm.conf says: {match[1].strip()}"[:200]
        yield fault(_CHECK, "host", said) if few else unread(_CHECK, "host", said)


def _logged(text: str) -> Iterator[Finding]:
    for match in _SILENT.finditer(text):
        yield fault(_CHECK, next(each for each in match.groups() if each), "slurmd does not answer", "not responding")
    for match in _SET_DOWN.finditer(text):
        said = match[2] or match[3] or match[4]
        yield fault(_CHECK, match[1], f"taken out of service: {said}"[:200], said)
    if not (_SILENT.search(text) or _SET_DOWN.search(text)):
        yield unread(_CHECK, "host", "the controller's log names no node that went away")


def _tabled(text: str) -> list[tuple[str, str, str]]:
    """Return name, state and reason of each row of a table, with or without a header; nothing of another text."""
    lines = [line for line in text.split("\n") if line.strip()]
    # sinfo --long tells the time first.
    lines = lines[1:] if lines and _DATE.fullmatch(lines[0].strip()) else lines
    if not lines:
        return []
    if "|" in lines[0]:
        return _piped(lines)
    head = lines[0].split()
    if "STATE" in head and ("NODELIST" in head or "HOSTNAMES" in head):
        return _headed(lines)
    found = []
    for line in lines:
        words = line.split()
        prose = ":" in words or (words[1:] and words[1][0] == ":")
        states = [] if prose else [word for word in words[1:] if _STATE.fullmatch(word)]
        if len(states) != 1 or not re.fullmatch(r"[A-Za-z][\w.,\[\]-]*", words[0]) or _STATE.fullmatch(words[0]):
            return []
        found.append((words[0], states[0], ""))
    return found


def _headed(lines: Sequence[str]) -> list[tuple[str, str, str]]:
    names = lines[0].split()
    at = {name: names.index(name) for name in names}
    found = []
    for line in lines[1:]:
        words = line.split(None, len(names) - 1)
        if len(words) >= len(names) - ("REASON" in at):
            name = words[at["NODELIST"] if "NODELIST" in at else at["HOSTNAMES"]]
            reason = words[at["REASON"]] if "REASON" in at and len(words) > at["REASON"] else ""
            found.append((name, words[at["STATE"]], reason))
    return found


def _piped(lines: Sequence[str]) -> list[tuple[str, str, str]]:
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    head = cells[0]
    if "STATE" in head and {"NODELIST", "HOSTNAMES"} & set(head):
        name = head.index("HOSTNAMES" if "HOSTNAMES" in head else "NODELIST")
        # The long form of the state tells more, and stands behind the short one.
        state = max(index for index, each in enumerate(head) if each == "STATE")
        why = head.index("REASON") if "REASON" in head else None
        rows = [row for row in cells[1:] if len(row) > max(state, name)]
        return [(row[name], row[state], row[why] if why is not None else "") for row in rows]
    found = []
    for row in cells:
        states = [cell for cell in row[1:] if _STATE.fullmatch(cell) and cell != "Unknown"]
        if len(states) != 1 or not re.fullmatch(r"[A-Za-z][\w.,\[\]-]*", row[0]):
            return []
        found.append((row[0], states[0], row[1] if row[1] != states[0] and len(row) == 4 else ""))
    return found


def _is_of_jobs(text: str) -> bool:
    head = text.split("\n", 1)[0]
    if re.search(r"\bJobID\b", head, re.IGNORECASE) and re.search(r"\bState\b|\bST\b", head, re.IGNORECASE):
        return True
    lines = [line for line in text.split("\n") if line.strip()][:200]
    return bool(lines) and "|" in lines[0] and sum(bool(_JOB_STATE.search(line)) for line in lines) * 2 > len(lines)


def _jobs(text: str) -> Iterator[Finding]:
    lines = [line for line in text.split("\n") if line.strip()]
    head = [cell.strip("# ").lower() for cell in lines[0].split("|")]
    at = head.index("nodelist") if "nodelist" in head else None
    for line in lines:
        lost = next((state for state in _LOST if re.search(rf"(?:\A|[|\s=]){state}(?:[|\s]|\Z)", line)), None)
        cells = [cell.strip("# ") for cell in line.split("|")]
        if lost:
            name = cells[at] if at is not None and len(cells) == len(head) and cells[at] else "a node"
            yield fault("slurm_job", name, f"a job ended with {lost}: its node went away", lost)
    yield unread("slurm_job", "jobs", "how other jobs ended says nothing of a node")


def _documented(text: str) -> Iterator[Finding]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as exc:
        yield unread(_CHECK, "host", f"cut short or damaged JSON: {exc}")
        return
    jobs = [each for each in _dicts(data) if "job_state" in each]
    for node in _dicts(data):
        state = node.get("state")
        if state is None or "job_state" in node:
            continue
        name = node.get("name") or node.get("hostname")
        if not isinstance(name, str) or not ({"gres", "cpus", "boards", "slurmd_version"} & set(node)):
            continue
        words = [*(state if isinstance(state, list) else [state]), *(node.get("state_flags") or [])]
        drained = node.get("gres_drained")
        if isinstance(drained, str) and drained.strip().lower() not in _NO_REASON:
            yield fault(_CHECK, name, f"drained of {drained.strip()}"[:200], drained, "N/A")
        yield _node(name, "+".join(str(word) for word in words), str(node.get("reason") or ""))
    yield from _summaries(data)
    for job in jobs:
        states = job["job_state"] if isinstance(job["job_state"], list) else [job["job_state"]]
        if lost := [state for state in states if state in _LOST]:
            yield fault(
                "slurm_job", str(job.get("nodes") or "a node"), f"a job ended with {lost[0]}: its node went away"
            )
    if jobs:
        yield unread("slurm_job", "jobs", "how other jobs ended says nothing of a node")


def _summaries(data: Any) -> Iterator[Finding]:
    """Yield the rows of ``sinfo --json`` since 23.02, which gather nodes of one state."""
    rows = data.get("sinfo") if isinstance(data, dict) else None
    for row in rows if isinstance(rows, list) else ():
        nodes, node = row.get("nodes") or {}, row.get("node") or {}
        names = nodes.get("nodes") if isinstance(nodes, Mapping) else None
        state, reason = node.get("state") if isinstance(node, Mapping) else None, row.get("reason")
        if isinstance(names, list) and state:
            said = reason.get("description", "") if isinstance(reason, Mapping) else reason or ""
            for name in names:
                yield _node(str(name), "+".join(state if isinstance(state, list) else [state]), str(said))


def _dicts(data: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a document's lists, or the document itself."""
    if isinstance(data, Mapping):
        lists = [data[key] for key in ("nodes", "jobs") if isinstance(data.get(key), list)]
        yield from ([each for rows in lists for each in rows if isinstance(each, Mapping)] if lists else [data])
    elif isinstance(data, list):
        yield from (each for each in data if isinstance(each, Mapping))
