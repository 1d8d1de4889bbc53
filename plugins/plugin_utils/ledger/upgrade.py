"""Ledgers that an older Muster wrote, brought to the present tables with everything that is recorded in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.tables import (
    BURN_IN_SHARE,
    DOUBT,
    DRAW,
    EVIDENCE,
    META,
    NODE,
    PART,
    POLICY,
    SCHEMA,
    SERIES,
    TRANSITION,
)
from sqlalchemy import Connection, Table, text, update
from sqlalchemy.schema import CreateColumn


def upgrade(connection: Connection, schema: int) -> None:
    """Bring the ledger from an older schema to the present one, within the connection's transaction."""
    for step in range(schema, SCHEMA):
        _STEPS[step](connection)
    connection.execute(update(META).values(schema_version=SCHEMA))


def _to_2(connection: Connection) -> None:
    """Add identity, rules and policies; parts had one place each, the history begins with it."""
    _add(connection, EVIDENCE, "identity", "rules", "program")
    _add(connection, NODE, "judged", "examined", "policy")
    _add(connection, TRANSITION, "policy", "approval")
    connection.execute(
        text(
            "UPDATE node SET judged = (SELECT COALESCE(MAX(seq), 0) FROM evidence "
            "WHERE evidence.node = node.name AND evidence.imported <= node.since)"
        )
    )
    connection.execute(text("ALTER TABLE part RENAME TO part_1"))
    # Indexes keep their names when their table is renamed.
    connection.execute(text("DROP INDEX ix_part_node"))
    connection.execute(text("CREATE INDEX evidence_imported ON evidence (imported)"))
    for table in (PART, POLICY, DOUBT, SERIES, DRAW):
        table.create(connection)
    columns = "kind, serial, node, slot, first_seen, last_seen"
    connection.execute(
        text(f"INSERT INTO part ({columns}) SELECT {columns} FROM part_1 ORDER BY first_seen, kind, serial")
    )
    connection.execute(text("DROP TABLE part_1"))


def _to_3(connection: Connection) -> None:
    """Add the shares of a power budget; nobody has one."""
    BURN_IN_SHARE.create(connection)


def _add(connection: Connection, table: Table, *names: str) -> None:
    for name in names:
        column = CreateColumn(table.c[name]).compile(dialect=connection.dialect)
        connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {column}"))


_STEPS: Mapping[int, Callable[[Connection], None]] = {1: _to_2, 2: _to_3}
