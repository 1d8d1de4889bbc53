"""What a ledger gives back: evidence as it was imported, nodes, changes of state, rounds of campaigns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence

# What an operator may decide; it stands above all evidence until it is released.
DECISIONS = ("quarantined", "spare", "retired")
# Hosts keep time to well under a second (the clock check); this also covers the control machine's own error.
CLOCK_SKEW_SECONDS = 300.0


@dataclass(frozen=True)
class Record:
    """Evidence as the ledger holds it: ``imported`` by the control machine's clock, ``order`` in which it came."""

    evidence: Evidence
    imported: float
    order: int


@dataclass(frozen=True)
class NodeRow:
    """A node as the last admission left it; ``since`` is when it came into its state, seconds since the epoch.

    ``judged`` is the last row of evidence that its state was judged by, ``policy`` the digest of the policy.
    ``examined`` is when its last preflight was recorded.
    """

    name: str
    hardware_class: str | None
    state: str
    stage: str
    reason: str
    since: float
    judged: int = 0
    examined: float = 0.0
    policy: str = ""


@dataclass(frozen=True)
class Stay:
    """A part in one place: when it was seen there first and last, seconds since the epoch."""

    seq: int
    kind: str
    serial: str
    node: str
    slot: str
    first_seen: float
    last_seen: float


@dataclass(frozen=True)
class Transition:
    """One change of a node's state, and why: by whom, judged by which policy (its digest), and what allowed it.

    ``approval`` is the operator's decision or switch without which it would not have come, "" where none was needed.
    """

    node: str
    from_state: str
    to_state: str
    cause: str
    who: str = ""
    policy: str = ""
    approval: str = ""


@dataclass(frozen=True)
class Doubt:
    """What speaks against a node in service without being proof: ``stage`` has to be proven again.

    ``source`` names who doubts, such as a campaign.
    """

    node: str
    stage: str
    reason: str
    source: str


@dataclass(frozen=True)
class AdmittedBy:
    """Against which expectations, and by which rules, a stage was judged by which a node was admitted."""

    expect_digest: str
    rules: Mapping[str, int]


@dataclass(frozen=True)
class JudgedBy:
    """By which rules, and against which expectations, a node's evidence was judged.

    ``original`` is the id of the record beside which the node keeps the raw outputs.
    """

    node: str
    original: str
    rules: Mapping[str, int]
    expect_digest: str


@dataclass(frozen=True)
class Measured:
    """What a node says that its evidence measured, whatever that is, and the digest of what it was judged by."""

    node: str
    expect_digest: str
    measures: Any


# What came of a drawing: raw outputs and findings say the same. Every other text says what does not.
AGREES = "agrees"


@dataclass(frozen=True)
class Draw:
    """A node that was drawn to have evidence judged on the control machine too.

    ``seed`` gives the draw again: it chose from the nodes whose names, sorted, have the digest ``among``. ``outcome``
    is None until it is known.
    """

    stage: str
    node: str
    evidence: str
    seed: str
    among: str
    at: float
    outcome: str | None = None


@dataclass(frozen=True)
class Refused:
    """Evidence that was not imported, and why."""

    node: str
    id: str
    reason: str


@dataclass(frozen=True)
class StoredRound:
    """A round of a campaign; ``observations`` and ``finished`` are None while it runs or if it was interrupted."""

    campaign: str
    number: int
    plan: dict[str, Any]
    observations: list[Any] | None
    started: float
    finished: float | None


class Progress(NamedTuple):
    """How far the decisions of a ledger had come; a copy of which either is less is older.

    The generation counts what the gate has to follow, the last transition also what was decided without a gate.
    """

    generation: int
    transition: int


@dataclass(frozen=True)
class Mark:
    """How far a ledger had come: its generation, and the last rows of what is only appended.

    ``digest`` is that of the last row of evidence: a record that had not finished gives its number to its continuation.
    """

    generation: int
    evidence: int
    digest: str
    decision: int
    transition: int
