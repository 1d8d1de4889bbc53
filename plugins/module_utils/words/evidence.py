"""What one stage found on one node: the record that admission judges."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import MusterError
from .finding import FAIL, Finding

FORMAT = 2
# What is in records of format 1, which programs wrote until November 2026: of no known machine, by no known rules.
_SINCE_2: dict[str, Any] = {"identity": {}, "rules": {}, "program": ""}
# A node has some 500 findings at most; what says more was not written by a stage.
MOST_FINDINGS = 5000
STAGES = ("preflight", "burn_in", "fabric", "storage", "acceptance", "health")
# Sections of a class' expectations by which one stage alone is judged; the others are judged by all the rest. A new
# floor for collectives must not send every node back to days of burn-in.
_OWN_SECTIONS = {
    "fabric": ("fabric", "rdma"),
    "storage": ("storage", "mounts", "checkpoint"),
    "acceptance": ("collective", "mini_clusters"),
}
# Sections of the others by which they are judged too: over which rails of which fabric traffic had to go.
_SHARED_SECTIONS = {"fabric": ("nic",), "acceptance": ("fabric", "nic")}
# Sections of other stages by which the rest are judged besides: a mount more must not void a burn-in.
_BESIDES = {"preflight": ("mounts",), "health": ("mounts",)}
# Sections that say something only where they are declared: a fleet without them keeps the evidence that it has.
_IF_DECLARED = ("mini_clusters",)
# What provisioning installs: the fingerprint tells whether it became another, for the stages that depend on it.
# And what only planning counts.
_NOT_JUDGED = ("gpu_stack", "power")


# Evidence is a few levels deep; a record nested for its own sake must not exhaust whoever reads it.
_DEPTH = 20
_SCALARS = frozenset({int, float, bool, type(None)})


class EvidenceError(MusterError, ValueError):
    """A record that is not evidence: says which field, what was found and what was expected."""


@dataclass(frozen=True)
class Evidence:
    """Findings of one stage on one node, with all that is needed to judge them later and elsewhere.

    ``started`` and ``finished`` are seconds since the epoch (UTC); ``finished`` is None while the stage runs and
    stays None if it was interrupted. ``fingerprint`` maps a component to its value, None where it could not be
    read. ``expect_digest`` is the digest of the expectations the findings were judged by: other expectations make
    other evidence. ``detail`` carries what only one stage knows (burn-in: profile, duration_seconds; acceptance:
    rounds). ``raw`` maps a probe to the SHA-256 of its kept output.

    ``identity`` maps an identifier of the machine to its value, None where it could not be read. ``rules`` is the
    version of each check that judged. ``program`` is the digest of the program that did.
    """

    id: str
    node: str
    stage: str
    started: float
    finished: float | None
    boot_id: str
    fingerprint: Mapping[str, str | None]
    expect_digest: str
    findings: tuple[Finding, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, str] = field(default_factory=dict)
    muster_version: str = ""
    identity: Mapping[str, str | None] = field(default_factory=dict)
    rules: Mapping[str, int] = field(default_factory=dict)
    program: str = ""

    @property
    def faulty(self) -> bool:
        """Whether a fault was measured, whatever else was."""
        return any(finding.verdict == FAIL for finding in self.findings)

    @property
    def judged_again(self) -> bool:
        """Whether it was made of the raw outputs of another record."""
        return "judged_again" in self.detail

    @property
    def original(self) -> str:
        """The id of the record beside which its raw outputs lie: its own, unless they were judged again."""
        return original_of(self.id, self.detail)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data that ``from_dict`` reads back."""
        return {
            "format": FORMAT,
            "id": self.id,
            "node": self.node,
            "stage": self.stage,
            "started": self.started,
            "finished": self.finished,
            "boot_id": self.boot_id,
            "fingerprint": dict(self.fingerprint),
            "expect_digest": self.expect_digest,
            "findings": [finding.to_dict() for finding in self.findings],
            "detail": dict(self.detail),
            "raw": dict(self.raw),
            "muster_version": self.muster_version,
            "identity": dict(self.identity),
            "rules": dict(self.rules),
            "program": self.program,
        }

    @classmethod
    def from_dict(cls, data: Any) -> Evidence:
        """Return the evidence in ``data``; raises EvidenceError naming the field that is missing or wrong."""
        if not isinstance(data, Mapping):
            raise EvidenceError(f"evidence is {type(data).__name__}, expected a mapping")
        if data.get("format") == 1:
            data = {**_SINCE_2, **data}
        elif data.get("format") != FORMAT:
            raise EvidenceError(f"evidence: format is {data.get('format')!r}, expected {FORMAT}")
        for key, kind in _TYPES.items():
            if key not in data or not isinstance(data[key], kind) or isinstance(data[key], bool):
                found = type(data[key]).__name__ if key in data else "nothing"
                raise EvidenceError(f"evidence: {key} is {found}, expected {getattr(kind, '__name__', 'a number')}")
        if data["stage"] not in STAGES:
            raise EvidenceError(f"evidence: stage is {data['stage']!r}, expected one of {', '.join(STAGES)}")
        if len(data["findings"]) > MOST_FINDINGS:
            raise EvidenceError(f"evidence: {len(data['findings'])} findings, expected at most {MOST_FINDINGS}")
        _check_plain(data)
        _check_values(data)
        try:
            findings = tuple(Finding.from_dict(item) for item in data["findings"])
        except (ValueError, TypeError) as exc:
            raise EvidenceError(f"evidence {data['id']}: {exc}") from exc
        return cls(**{key: data[key] for key in _TYPES if key != "findings"}, findings=findings)


_TYPES: dict[str, Any] = {
    "id": str,
    "node": str,
    "stage": str,
    "started": (int, float),
    "finished": (int, float, type(None)),
    "boot_id": str,
    "fingerprint": Mapping,
    "expect_digest": str,
    "findings": list,
    "detail": Mapping,
    "raw": Mapping,
    "muster_version": str,
    "identity": Mapping,
    "rules": Mapping,
    "program": str,
}


def _check_values(data: Mapping[str, Any]) -> None:
    for field_name in ("fingerprint", "identity"):
        for key, value in data[field_name].items():
            if not isinstance(value, (str, type(None))) or "\0" in key + (value or ""):
                raise EvidenceError(f"evidence: {field_name} {key!r} is {value!r}, expected a text or nothing")
    for key, value in data["raw"].items():
        if not isinstance(value, str):
            raise EvidenceError(f"evidence: raw {key!r} is {type(value).__name__}, expected a digest")
    for key, value in data["rules"].items():
        if type(value) is not int:
            raise EvidenceError(f"evidence: rules {key!r} is {value!r}, expected a whole number")


def _check_plain(value: Any, where: str = "evidence", depth: int = 0) -> None:
    """Raise EvidenceError unless the value is JSON that every reader, database and terminal takes."""
    if isinstance(value, (dict, Mapping)):
        _check_depth(value, where, depth)
        for key, item in value.items():
            if not isinstance(key, str):
                raise EvidenceError(f"{where}: key {key!r} is {type(key).__name__}, expected a text")
            if not key.isascii():
                _check_text(key, where)
            # A node's evidence has thousands of these: a call for each takes most of the time of an admission.
            if type(item) in _SCALARS or (type(item) is str and item.isascii()):
                continue
            _check_plain(item, f"{where}: {key}" if depth == 0 else where, depth + 1)
    elif isinstance(value, (list, tuple)):
        _check_depth(value, where, depth)
        for item in value:
            _check_plain(item, where, depth + 1)
    elif isinstance(value, str):
        _check_text(value, where)
    elif not isinstance(value, (int, float, type(None))):
        raise EvidenceError(f"{where}: {type(value).__name__}, expected JSON")


def _check_depth(value: Any, where: str, depth: int) -> None:
    if depth > _DEPTH or (depth == _DEPTH and value):
        raise EvidenceError(f"{where}: nested more than {_DEPTH} deep")


def _check_text(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise EvidenceError(f"{where}: text that is not Unicode: {text[:50]!r}") from exc


def original_of(evidence_id: str, detail: Mapping[str, Any]) -> str:
    """Return the id of the record of whose raw outputs a record was made: its own, unless it was judged again."""
    again = detail.get("judged_again")
    of = again.get("of") if isinstance(again, Mapping) else None
    return of if isinstance(of, str) else evidence_id


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a JSON value in its canonical form (sorted keys, no blanks)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def expect_digest_of(stage: str, expect: Mapping[str, Any]) -> str:
    """Return the digest of what a stage is judged by: its own sections of the expectations, or what no stage owns."""
    own = (*_OWN_SECTIONS.get(stage, ()), *_SHARED_SECTIONS.get(stage, ()))
    taken = {*_NOT_JUDGED, *(section for sections in _OWN_SECTIONS.values() for section in sections)}
    taken -= {*_BESIDES.get(stage, ())}
    left_out = {key for key in _IF_DECLARED if expect.get(key) is None}
    judged = {key: value for key, value in expect.items() if (key in own if own else key not in taken)}
    return digest_of({key: value for key, value in judged.items() if key not in left_out})
