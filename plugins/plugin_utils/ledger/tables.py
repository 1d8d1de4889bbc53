"""The tables of a ledger."""

from __future__ import annotations

from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from sqlalchemy import JSON, Column, Double, Index, Integer, MetaData, String, Table, UniqueConstraint
from sqlalchemy.types import TypeDecorator

SCHEMA = 1


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
)
PART = Table(
    "part",
    TABLES,
    Column("kind", String, primary_key=True),
    Column("serial", String, primary_key=True),
    Column("node", String, nullable=False, index=True),
    Column("slot", String, nullable=False),
    Column("first_seen", Double, nullable=False),
    Column("last_seen", Double, nullable=False),
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
    Column("imported", Double, nullable=False),
    Column("digest", String, nullable=False),
    Index("evidence_newest", "stage", "node", "seq"),
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
