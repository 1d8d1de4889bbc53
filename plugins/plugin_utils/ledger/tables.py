"""The tables of a ledger."""

from __future__ import annotations

from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from sqlalchemy import JSON, Column, Double, Index, Integer, MetaData, String, Table, UniqueConstraint
from sqlalchemy.types import TypeDecorator

SCHEMA = 3


class UnreadableColumnError(MusterError, ValueError):
    """A column that holds other data than was written; says which, what was found and what was expected."""


class Data(TypeDecorator[Any]):
    """JSON in the column of this name; what is none raises UnreadableColumnError when it is read."""

    impl = JSON
    cache_ok = True

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(**options)
        self.name = name

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        """Return what reads a value."""
        read = super().result_processor(dialect, coltype)

        def checked(value: Any) -> Any:
            try:
                return value if read is None else read(value)
            except ValueError as exc:
                raise UnreadableColumnError(f"{self.name} is {value!r:.60}, expected JSON ({exc})") from exc

        return checked


TABLES = MetaData()
META = Table(
    "meta",
    TABLES,
    Column("ledger_id", String, primary_key=True),
    Column("cluster", String, nullable=False),
    Column("schema_version", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    # Transitions were recorded while the gate's generation could not be compared: they are not counted until it can be,
    # or else an older copy of the ledger could overtake the gate unseen.
    Column("owed", Integer, nullable=False),
    Column("created", Double, nullable=False),
)
NODE = Table(
    "node",
    TABLES,
    Column("name", String, primary_key=True),
    Column("hardware_class", String),
    Column("state", String, nullable=False),
    Column("stage", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("since", Double, nullable=False),
    # The last row of evidence that its state was judged by: what came later has not been judged yet.
    Column("judged", Integer, nullable=False, server_default="0"),
    # When its last preflight came into the ledger: parts that were seen then are what is in it.
    Column("examined", Double, nullable=False, server_default="0"),
    # Digest of the policy by which it came into its state.
    Column("policy", String, nullable=False, server_default=""),
)
# Where a part was: a row for each stay in one place, the newest is where it is now.
PART = Table(
    "part",
    TABLES,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("kind", String, nullable=False),
    Column("serial", String, nullable=False),
    Column("node", String, nullable=False, index=True),
    Column("slot", String, nullable=False),
    Column("first_seen", Double, nullable=False),
    Column("last_seen", Double, nullable=False),
    Index("part_serial", "serial", "kind", "seq"),
)
EVIDENCE = Table(
    "evidence",
    TABLES,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("id", String, nullable=False, unique=True),
    Column("node", String, nullable=False),
    Column("stage", String, nullable=False),
    Column("started", Double, nullable=False),
    Column("finished", Double),
    Column("boot_id", String, nullable=False),
    Column("fingerprint", Data("evidence.fingerprint"), nullable=False),
    Column("expect_digest", String, nullable=False),
    Column("findings", Data("evidence.findings"), nullable=False),
    Column("detail", Data("evidence.detail"), nullable=False),
    Column("raw", Data("evidence.raw"), nullable=False),
    Column("muster_version", String, nullable=False),
    Column("identity", Data("evidence.identity"), nullable=False, server_default="{}"),
    Column("rules", Data("evidence.rules"), nullable=False, server_default="{}"),
    Column("program", String, nullable=False, server_default=""),
    Column("imported", Double, nullable=False),
    Column("digest", String, nullable=False),
    Index("evidence_newest", "stage", "node", "seq"),
    Index("evidence_imported", "imported"),
)
DECISION = Table(
    "decision",
    TABLES,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("node", String, nullable=False, index=True),
    Column("decision", String, nullable=False),
    Column("who", String, nullable=False),
    Column("at", Double, nullable=False),
    Column("reason", String, nullable=False),
)
TRANSITION = Table(
    "transition",
    TABLES,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("node", String, nullable=False, index=True),
    Column("from_state", String, nullable=False),
    Column("to_state", String, nullable=False),
    Column("at", Double, nullable=False),
    Column("cause", String, nullable=False),
    Column("who", String, nullable=False),
    # Digest of the policy by which it was judged, and the switch or decision that allowed it, "" where none was needed.
    Column("policy", String, nullable=False, server_default=""),
    Column("approval", String, nullable=False, server_default=""),
)
# Policies by which nodes were judged, whole, by the digests that nodes and transitions name.
POLICY = Table(
    "policy",
    TABLES,
    Column("digest", String, primary_key=True),
    Column("content", Data("policy.content"), nullable=False),
    Column("first_used", Double, nullable=False),
)
# What speaks against a node in service without being proof: a stage to be proven again. ``evidence`` is the last row of
# evidence then; evidence of the stage that came later answers the doubt.
DOUBT = Table(
    "doubt",
    TABLES,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("node", String, nullable=False, index=True),
    Column("stage", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("source", String, nullable=False),
    Column("at", Double, nullable=False),
    Column("evidence", Integer, nullable=False),
)
# The numbers that one record of evidence measured, by "check/subject": a few hundred bytes a record, kept longer than
# the record itself.
SERIES = Table(
    "series",
    TABLES,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("node", String, nullable=False),
    Column("stage", String, nullable=False),
    Column("at", Double, nullable=False),
    Column("numbers", Data("series.numbers"), nullable=False),
    Index("series_node", "node", "at"),
)
# Who was drawn to have evidence judged on the control machine too, and what came of it: null until that is known.
DRAW = Table(
    "draw",
    TABLES,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("stage", String, nullable=False),
    Column("node", String, nullable=False),
    Column("evidence", String, nullable=False),
    Column("seed", String, nullable=False),
    Column("among", String, nullable=False),
    Column("at", Double, nullable=False),
    Column("outcome", String),
    Index("draw_last", "stage", "node", "seq"),
)
# Nodes for which a burn-in was planned within a power budget, written down before it starts: another run counts what
# they draw until evidence of it has finished, or ``until``, by when it must have. Seconds since the epoch.
BURN_IN_SHARE = Table(
    "burn_in_share",
    TABLES,
    Column("node", String, primary_key=True),
    Column("since", Double, nullable=False),
    Column("until", Double, nullable=False),
)
DRAIN = Table(
    "drain",
    TABLES,
    Column("node", String, primary_key=True),
    Column("reason", String, nullable=False),
    Column("seen", Double, nullable=False),
)
ROUND = Table(
    "round",
    TABLES,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("campaign", String, nullable=False),
    Column("number", Integer, nullable=False),
    Column("plan", Data("round.plan"), nullable=False),
    Column("observations", Data("round.observations", none_as_null=True)),
    Column("started", Double, nullable=False),
    Column("finished", Double),
    UniqueConstraint("campaign", "number"),
)
