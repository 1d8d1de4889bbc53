"""What saved outputs say: each judged by its tool's checks, alike findings in one line, worst first.

Without a class nothing passes: faults that an output tells by itself are named, the rest is ``incomplete``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import fault_of, judge, parsed
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import (
    CHECKS,
    PROBES,
    STRESSES,
    parsers,
)
from ansible_collections.muster.cluster.plugins.module_utils.examination.rejudge import SavedError, checks_of
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.judging.gpus_at_work import under_load
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import (
    ACTIONS,
    FAIL,
    INCOMPLETE,
    PASS,
    VERDICTS,
    Finding,
)

from .recognised import DISCOVERY, NOWHERE, Tool, list_of_gpus, output_of, tool_of, tools_of
from .saved_findings import UNHELD, speaks
from .saved_text import Piece, pieces_of
from .told_expectations import ASKED, CERTAIN, DOUBTFUL, excerpt_of, names_of, told, with_parts

# So few lines of no tool, before a tool's first line, belong to it: a date, a note, an empty comment.
_PREFACE = 3
# What tells parts before the checks are asked: small outputs that are parsed twice.
_TELLING = (
    *("nvidia_smi", "nvlink", "mlxlink", "infiniband", "rail_names", "smartctl", "dcgm_diag", "nvbandwidth", "lspci"),
    *("ipmi_sdr", "ipmi_sel", "redfish", "dcgmi_nvlink"),
)
_NOT_ASKED = "the class asks nothing of it"
_ADDRESS = re.compile(rf" ?\(?\b{NOWHERE}:[0-9a-f]{{2}}:00\.0\b\)?")


@dataclass(frozen=True)
class Saved:
    """What was saved: ``name`` as people call the file, ``place`` what it belongs to (its directory, itself).

    ``probe`` is given where the user says which probe's tool printed it, ``outputs`` where they are kept by probe,
    ``error`` where it cannot be read, or not beyond ``text``.
    """

    name: str
    place: str
    text: str = ""
    probe: str = ""
    host: str = ""
    error: str = ""
    outputs: Mapping[str, Output] = field(default_factory=dict)


@dataclass(frozen=True)
class Told:
    """A finding with the file, the tool and the host that it is about."""

    file: str
    tool: str
    host: str
    finding: Finding

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {"file": self.file, "tool": self.tool, "host": self.host, **self.finding.to_dict()}


@dataclass(frozen=True)
class _Entry:
    """One piece of a file, and the tool that printed it."""

    saved: Saved
    tool: Tool
    piece: Piece

    @property
    def probe(self) -> str:
        return self.tool.probe or DISCOVERY


@dataclass(eq=False)
class _Capture:
    """The outputs of one host at one time, by probe."""

    host: str
    tools: dict[str, Tool] = field(default_factory=dict)
    pieces: dict[str, list[Piece]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=dict)

    def takes(self, entry: _Entry) -> bool:
        """Whether the entry can be of the same time: it is the first of its probe, or a further part's in its file."""
        if entry.probe not in self.files:
            return True
        part = entry.tool.each_part and not entry.piece.text.startswith("==> ")
        return part and self.files[entry.probe] == entry.saved.name


def judged(saved: Sequence[Saved], expect: Expectations | None, checks: Sequence[str] = ()) -> list[Told]:
    """Return all findings, worst first; raises SavedError for a name that is no check."""
    for name in checks:
        if name not in CHECKS:
            raise SavedError(f"found check {name!r}, expected one of {', '.join(CHECKS)}")
    found: list[Told] = []
    entries: list[_Entry] = []
    captures: list[_Capture] = []
    for each in saved:
        if each.error:
            found.append(Told(each.name, "", each.host, _incomplete("saved", each.error)))
        if each.outputs:
            captures.append(_Capture(each.host, files=dict.fromkeys(each.outputs, each.name), outputs=each.outputs))
        elif each.text or not each.error:
            found += _sorted_in(each, entries, expect)
    captures += _together_by_host(entries)
    asked: set[str] = set()
    for capture in captures:
        told_of, names = _of_capture(capture, expect, checks)
        found += told_of
        asked |= names
    found += [
        Told("", "", "", _incomplete(name, "nothing that this check reads is among the outputs"))
        for name in checks
        if name not in asked
    ]
    order = {each.name: at for at, each in enumerate(saved)}
    return sorted(found, key=lambda each: (*_weight(each.finding), order.get(each.file, 0)))


def _sorted_in(saved: Saved, entries: list[_Entry], expect: Expectations | None) -> list[Told]:
    """Add a file's pieces to the entries, and return what is said of those that no probe reads."""
    found: list[Told] = []
    pieces = [Piece(saved.text)] if saved.probe else pieces_of(saved.text)
    if not saved.text.strip():
        found.append(Told(saved.name, "", "", _incomplete("saved", "the file is empty")))
    unknown: list[Piece] = []
    before: Piece | None = None
    for part in pieces:
        piece = part
        tools = [_named(saved.probe, piece.text)] if saved.probe else tools_of(piece.text)
        if tools and not saved.probe and before and _introduces(before, piece):
            unknown.pop()
            piece = replace(piece, text=before.text + piece.text)
        before = None if tools else piece
        if not tools:
            unknown.append(piece)
        # Where two tools' texts stand in one, each is asked: neither passes for the other's silence.
        for tool in tools:
            found += _asked(saved, tool, piece, entries, expect)
    if unknown:
        first = unknown[0].text.strip().split("\n")[0].strip()[:80]
        more = f", and {len(unknown) - 1} more parts of the file" if len(unknown) > 1 else ""
        why = f"no tool recognised: begins with {first!r}{more}"
        found.append(Told(saved.name, "", unknown[0].host, _incomplete("saved", why)))
    return found


def _asked(
    saved: Saved, tool: Tool, piece: Piece, entries: list[_Entry], expect: Expectations | None
) -> Iterable[Told]:
    """Return what is said at once of a tool's text, and add it to the entries if a probe reads it."""
    if tool.findings:
        return [Told(saved.name, tool.name, piece.host, each) for each in _read(tool, piece, expect)]
    # A paste without a last line's end is as common as a text without it; only a class lets anything pass.
    whole = piece if expect or piece.text.endswith("\n") else replace(piece, text=piece.text + "\n")
    why = parsed(Output(whole.text), PROBES["nvidia_smi"])[1] if tool.probe == "nvidia_smi" and not expect else ""
    # What it says of the GPUs that it describes counts all the same.
    entries.append(_Entry(saved, tool, replace(whole, text=excerpt_of(whole.text)) if why else whole))
    return [Told(saved.name, tool.name, piece.host, _incomplete("saved", why))] if why else []


def _introduces(note: Piece, piece: Piece) -> bool:
    """Return whether the first is no more than a few lines before what the same command printed."""
    same = (note.host, note.command) == (piece.host, piece.command)
    return same and len(note.text.rstrip("\n").split("\n")) <= _PREFACE


def _named(probe: str, text: str) -> Tool:
    """Return how the texts of a probe that the user names are kept."""
    if probe not in PROBES and probe not in STRESSES:
        raise SavedError(f"found probe {probe!r}, expected one of {', '.join([*PROBES, *STRESSES])}")
    known = tool_of(text)
    return known if known and known.probe == probe else Tool(probe, lambda _: True, probe)


def _read(tool: Tool, piece: Piece, expect: Expectations | None) -> list[Finding]:
    assert tool.findings is not None
    try:
        text = f"{piece.command}\n{piece.text}" if tool.with_command else piece.text
        found = tool.findings(text, expect)
    except Exception as exc:  # noqa: BLE001 -- a parser's fault must cost a verdict, not all other files
        found = [_incomplete("saved", f"{tool.name} could not be read: {fault_of(exc)}")]
    found = found or [_incomplete("saved", f"{tool.name}: nothing to judge")]
    return found if expect else [_alone(each) for each in found]


def _together_by_host(entries: Sequence[_Entry]) -> list[_Capture]:
    """Return captures: what files of one directory hold of one host is one, as far as no probe stands twice in it."""
    of_place: dict[tuple[str, str], Counter[str]] = {}
    for probe, _, *where in {(each.probe, each.saved.name, each.saved.place, each.piece.host) for each in entries}:
        of_place.setdefault((where[0], where[1]), Counter())[probe] += 1
    captures: dict[tuple[str, str], list[_Capture]] = {}
    for each in entries:
        host, file = each.piece.host, each.saved.name
        # A directory of unnamed hosts' outputs of the same tool is no one host's.
        alone = not host and max(of_place[each.saved.place, host].values()) > 1
        known = captures.setdefault((file if alone else each.saved.place, host), [])
        capture = next((capture for capture in known if capture.takes(each)), None)
        if capture is None:
            capture = _Capture(host)
            known.append(capture)
        capture.tools.setdefault(each.probe, each.tool)
        capture.pieces.setdefault(each.probe, []).append(each.piece)
        capture.files.setdefault(each.probe, file)
    return [capture for every in captures.values() for capture in every]


def _of_capture(capture: _Capture, expect: Expectations | None, checks: Sequence[str]) -> tuple[list[Told], set[str]]:
    """Return what the checks say of one capture, and which were asked."""
    outputs = _outputs(capture, anonymous=expect is None)
    found: list[Told] = []
    if not outputs:
        why = "a list of GPUs, which says nothing by itself"
        return [Told(capture.files[DISCOVERY], "dcgmi discovery", capture.host, _incomplete("saved", why))], set()
    names = parsers(outputs)
    values = {name: parsed(outputs[name], names[name])[0] for name in outputs if name in _TELLING}
    if values.get("infiniband") and "rail_names" not in outputs:
        outputs["rail_names"] = Output(names_of(values["infiniband"]))
        names = parsers(outputs)
        values["rail_names"] = parsed(outputs["rail_names"], names["rail_names"])[0]
    against = told(values) if expect is None else with_parts(expect, values) if capture.pieces else expect
    answerable = checks_of(outputs)
    wanted = [name for name in checks or answerable if name in answerable]
    left = [] if expect else [name for name in wanted if name not in ASKED or not _can_say(name, values)]
    report = values.get("nvidia_smi")
    busy = [name for name in wanted if getattr(CHECKS[name], "IDLE_ONLY", False)] if _works(report) else []
    asked = [CHECKS[name] for name in wanted if name not in (*left, *busy)]
    needed = {*outputs, *(probe for check in asked for probe in check.PROBES)}
    examination = judge(outputs, parsers(needed), asked, against)
    if busy:
        why = f"taken under load, so that these were not asked: {', '.join(busy)}"
        about = Finding("saved", "host", PASS if expect else INCOMPLETE, reason=why)
        found.append(Told(capture.files["nvidia_smi"], _tool(capture, "nvidia_smi"), capture.host, about))
    for finding in examination.findings:
        if expect is None and (NOWHERE in finding.subject and finding.verdict == INCOMPLETE):
            continue
        probe = _probe_of(finding.check, capture)
        told_of = replace(finding, subject=_ADDRESS.sub("", finding.subject), reason=_ADDRESS.sub("", finding.reason))
        found.append(Told(capture.files[probe], _tool(capture, probe), capture.host, told_of))
    found += _unread(capture, examination.values, outputs, found)
    found += _unasked(capture, found) if expect and not checks else []
    return (found if expect else _without_class(found, capture)), {*wanted}


def _can_say(check: str, values: Mapping[str, Any]) -> bool:
    """Return whether an output has what the check judges: ibstat and ibstatus count no errors."""
    devices = values.get("infiniband") or {}
    return check != "nic_errors" or any(port.counters for each in devices.values() for port in each.ports)


def _works(report: Any) -> bool:
    return report is not None and under_load(report)


def _outputs(capture: _Capture, *, anonymous: bool) -> dict[str, Output]:
    """Return the outputs by probe; the list of GPUs goes to what it names GPUs for.

    ``anonymous`` makes up a list for counters of GPUs whose places nobody tells.
    """
    lists = capture.pieces.get(DISCOVERY, [])
    if anonymous and not lists and "dcgmi_nvlink" in capture.pieces:
        lists = [Piece(list_of_gpus(capture.pieces["dcgmi_nvlink"]))]
    found = dict(capture.outputs)
    for probe, pieces in capture.pieces.items():
        if probe != DISCOVERY:
            beside = lists if probe in ("dcgm_diag", "dcgmi_nvlink") else []
            found[probe] = output_of(capture.tools[probe], [*beside, *pieces] if capture.tools[probe].kept else pieces)
    return found


def _tool(capture: _Capture, probe: str) -> str:
    tool = capture.tools.get(probe)
    return tool.name if tool else probe


def _probe_of(check: str, capture: _Capture) -> str:
    """Return the probe by whose file a check's finding is named."""
    return next((probe for probe in _read_by(check) if probe in capture.files), next(iter(capture.files)))


def _unread(
    capture: _Capture, values: Mapping[str, Any], outputs: Mapping[str, Output], found: Iterable[Told]
) -> list[Told]:
    """Return a finding on each output that cannot be read, unless a check says so."""
    said = " ".join(each.finding.reason for each in found)
    unread = []
    for probe in capture.pieces:
        if probe == DISCOVERY or values.get(probe) is not None:
            continue
        why = parsed(outputs[probe], parsers([probe])[probe])[1]
        if why and why not in said:
            unread.append(Told(capture.files[probe], _tool(capture, probe), capture.host, _incomplete("saved", why)))
    return unread


def _unasked(capture: _Capture, found: Sequence[Told]) -> list[Told]:
    """Return a finding on each output that no check with a part of this class reads: its silence is no pass."""
    read = {name for each in found if each.finding.check in CHECKS for name in _read_by(each.finding.check)}
    return [
        Told(capture.files[probe], _tool(capture, probe), capture.host, _incomplete("saved", _NOT_ASKED, "none"))
        for probe in capture.pieces
        if probe != DISCOVERY
        and probe not in read
        and not any(each.file == capture.files[probe] and each.finding.check == "saved" for each in found)
    ]


def _read_by(check: str) -> tuple[str, ...]:
    module = CHECKS[check]
    return (*module.PROBES, *getattr(module, "OPTIONAL_PROBES", ()))


def _without_class(found: Sequence[Told], capture: _Capture) -> list[Told]:
    """Return what is said where no class is named: faults, remarks, and that the rest is no pass."""
    kept = [replace(each, finding=_alone(each.finding)) for each in found if speaks(each.finding)]
    for file in dict.fromkeys(capture.files.values()):
        if not any(each.file == file for each in kept):
            probe = next(name for name, of in capture.files.items() if of == file)
            name = DISCOVERY if probe == DISCOVERY else _tool(capture, probe)
            kept.append(Told(file, name, capture.host, _incomplete("saved", f"{name}: {UNHELD}", "none")))
    return kept


def _alone(finding: Finding) -> Finding:
    """Return a finding as it stands without a class: no pass, and no fault of what a class may want."""
    if finding.verdict == PASS:
        return replace(finding, verdict=INCOMPLETE, reason=finding.reason or UNHELD)
    if finding.verdict == FAIL and _doubtful(finding):
        why = f"{finding.reason}: a fault unless it is wanted, which a class says"
        return replace(finding, verdict=INCOMPLETE, reason=why, action="investigate")
    return finding


def _doubtful(finding: Finding) -> bool:
    if finding.check == "nic_link":
        # An unused port is down as well, and a port for storage may speak another language.
        return str(finding.measured).startswith("down") or finding.measured in ("Ethernet", "InfiniBand")
    if finding.check == "gpu_power":
        # Heat and a sensor that errs are faults; a limit of its power may be set on purpose.
        return finding.unit == "W"
    return finding.check in DOUBTFUL and finding.measured not in CERTAIN


def _incomplete(check: str, why: str, action: str = "investigate") -> Finding:
    return Finding(check, "host", INCOMPLETE, reason=why, action=action)


def _weight(finding: Finding) -> tuple[int, int]:
    return VERDICTS.index(finding.verdict), ACTIONS.index(finding.action)
