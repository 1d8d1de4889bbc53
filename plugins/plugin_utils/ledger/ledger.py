"""The ledger: what is known of every node, how it came to be known, and what was decided.

Evidence, decisions and transitions are only ever appended. Every change is one transaction, so a process killed at any
point leaves either all of it or nothing; SQLite's rollback journal is used rather than WAL, because a ledger may lie on
NFS and is then copied as the one file that it is.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.muster.cluster.plugins.module_utils.host.waiting import wait_until
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.database import (
    BUSY_SECONDS,
    JSON_OF_ROUNDS,
    LedgerError,
    engine_of,
    explained,
    file_locked,
    file_of,
    keep_copy,
    lock_key,
    operator,
    parsed_url,
    shown_url,
    sqlite_name,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.last_seen import remember
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger_reader import Reader
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger_writer import Writer, parts_of
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import (
    Mark,
    NodeRow,
    Progress,
    Refused,
    StoredRound,
    Transition,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.tables import META, SCHEMA, TABLES
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.upgrade import upgrade
from sqlalchemy import Engine, create_engine, func, insert, inspect, select
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool

# What the rest of Muster uses of this package.
__all__ = [
    "TABLES",
    "Ledger",
    "LedgerError",
    "Mark",
    "NodeRow",
    "OutdatedLedgerError",
    "Reader",
    "Refused",
    "StoredRound",
    "Transition",
    "Writer",
    "operator",
    "parts_of",
    "states",
]


class OutdatedLedgerError(LedgerError):
    """The ledger that was asked for, as an older Muster wrote it."""


CREATE_HINT = "a new ledger is made once, with playbooks/ledger_create.yml"


class Ledger:
    """The database of one cluster. ``generation`` counts the changes on which the gate depends."""

    def __init__(self, engine: Engine, url: URL, ledger_id: str, cluster: str) -> None:
        self._engine = engine
        self._url = url
        self.id = ledger_id
        self.cluster = cluster

    @classmethod
    def create(cls, url: str, ledger_id: str, cluster: str, now: float | None = None, generation: int = 0) -> Ledger:
        """Make a new ledger; raises LedgerError if there is one already, whosever it is.

        ``generation`` is more than 0 where a gate outlived the ledger before and has counted up to it.
        """
        parsed = parsed_url(url)
        if parsed.get_backend_name() == "sqlite":
            file_of(parsed).parent.mkdir(parents=True, exist_ok=True)
        engine = engine_of(parsed, create=True)
        with explained(url), engine.execution_options(muster_write=True).begin() as connection:
            tables = inspect(connection).get_table_names()
            if tables:
                raise LedgerError(
                    f"ledger {shown_url(url)}: already there (tables {', '.join(sorted(tables))}), not made anew"
                )
            TABLES.create_all(connection)
            created = time.time() if now is None else now
            row = {"ledger_id": ledger_id, "cluster": cluster, "schema_version": SCHEMA, "owed": 0}
            connection.execute(insert(META), {**row, "generation": generation, "created": created})
        # It knows nothing that could admit a node: it may begin again.
        remember(ledger_id, Progress(generation, 0))
        return cls(engine, parsed, ledger_id, cluster)

    @classmethod
    def open(cls, url: str, ledger_id: str, cluster: str | None = None, read_only: bool = False) -> Ledger:
        """Open the ledger that the fleet file names, never making one.

        Raises LedgerError when it is missing, empty, not a database, another ledger's or cluster's, or newer than this
        program, and OutdatedLedgerError when it is older. ``read_only`` keeps every statement from writing.
        """
        parsed = parsed_url(url)
        shown = shown_url(url)
        if parsed.get_backend_name() == "sqlite":
            path = file_of(parsed)
            if not path.exists():
                raise LedgerError(f"ledger {shown}: no such file; {CREATE_HINT}", absent=True)
            if not path.is_file():
                raise LedgerError(f"ledger {shown}: not a file")
            if path.stat().st_size == 0:
                raise LedgerError(
                    f"ledger {shown}: the file is empty; restore it from a copy ({CREATE_HINT})", absent=True
                )
        engine = engine_of(parsed, read_only=read_only)
        with explained(url), engine.begin() as connection:
            tables = set(inspect(connection).get_table_names())
            if META.name not in tables:
                what = f"holds tables {', '.join(sorted(tables))}" if tables else "holds no tables"
                raise LedgerError(f"ledger {shown}: {what}, expected Muster's; {CREATE_HINT}", absent=not tables)
            schemas = list(connection.execute(select(META.c.schema_version)).scalars())
            if len(schemas) != 1:
                raise LedgerError(f"ledger {shown}: {len(schemas)} rows in table meta, expected one")
            if schemas[0] > SCHEMA:
                raise LedgerError(f"ledger {shown}: schema {schemas[0]} is newer than this Muster's, expected {SCHEMA}")
            meta = connection.execute(select(META)).one()
        if meta.ledger_id != ledger_id:
            raise LedgerError(f"ledger {shown}: its id is {meta.ledger_id}, the fleet file's ledger.id is {ledger_id}")
        if cluster is not None and meta.cluster != cluster:
            raise LedgerError(
                f"ledger {shown}: belongs to cluster {meta.cluster}, the fleet file's cluster is {cluster}"
            )
        if meta.schema_version < SCHEMA:
            raise OutdatedLedgerError(
                f"ledger {shown}: schema {meta.schema_version} is older than this Muster's, expected {SCHEMA}; "
                "playbooks/guard.yml keeps a copy and upgrades it"
            )
        return cls(engine, parsed, ledger_id, meta.cluster)

    @classmethod
    def upgrade(cls, url: str, ledger_id: str, cluster: str | None = None) -> bool:
        """Bring a ledger that an older Muster wrote to the present schema and return whether it had to be.

        A copy of SQLite's file is kept beside it. Raises LedgerError as ``open`` does.
        """
        try:
            cls.open(url, ledger_id, cluster, read_only=True)
        except OutdatedLedgerError:
            pass
        else:
            return False
        parsed = parsed_url(url)
        with explained(url), engine_of(parsed).execution_options(muster_write=True).begin() as connection:
            # Another run may have done it meanwhile.
            schema = int(connection.execute(select(META.c.schema_version)).scalar_one())
            if schema == SCHEMA:
                return False
            if parsed.get_backend_name() == "sqlite":
                keep_copy(file_of(parsed), Path(f"{file_of(parsed)}.schema{schema}"))
            upgrade(connection, schema)
        return True

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Give a consistent view of the ledger."""
        engine = self._engine
        if self._url.get_backend_name() == "postgresql":
            # There each statement of a plain transaction sees what was committed before it.
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        with explained(self._url), engine.begin() as connection:
            yield Reader(connection)

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Give one transaction; another writer waits up to a minute, and what is raised inside undoes all of it."""
        with (
            explained(self._url),
            self._engine.execution_options(muster_write=True).begin() as connection,
        ):
            yield Writer(connection)

    @contextmanager
    def rehearsing(self) -> Iterator[Rehearsal]:
        """Give what reads and writes as the ledger does and leaves no trace, to tell what a real run would do."""
        if self._url.get_backend_name() == "sqlite":
            with explained(self._url):
                memory = sqlite3.connect(":memory:", isolation_level=None)
                with closing(sqlite3.connect(sqlite_name(self._url), uri=True, timeout=BUSY_SECONDS)) as source:
                    source.backup(memory)
                engine = create_engine("sqlite://", creator=lambda: memory, poolclass=StaticPool, **JSON_OF_ROUNDS)
        else:
            engine = engine_of(self._url)
        with explained(self._url), engine.connect() as connection:
            yield Rehearsal(Writer(connection))
            connection.rollback()

    @contextmanager
    def locked(self, wait_seconds: float = BUSY_SECONDS, work: str = "admitting") -> Iterator[None]:
        """Hold the ledger against another run that does the same ``work``, for longer than a transaction.

        Dies with the process. Raises LedgerError naming the holder after ``wait_seconds``.
        """
        if self._url.get_backend_name() == "sqlite":
            suffix = "lock" if work == "admitting" else f"{work}.lock"
            with file_locked(Path(f"{file_of(self._url)}.{suffix}"), wait_seconds, work):
                yield
            return
        with explained(self._url), self._engine.connect() as connection:
            # Bound to this transaction, for which a pooler (pgbouncer) keeps one connection, and gone with it.
            take = select(func.pg_try_advisory_xact_lock(lock_key(self.id, work)))
            if not wait_until(lambda: bool(connection.execute(take).scalar_one()), wait_seconds, 0.5):
                raise LedgerError(f"ledger {shown_url(self._url)}: another run is {work} nodes; try again later")
            yield

    @contextmanager
    def rehearsed(self, check: bool) -> Iterator[Ledger | Rehearsal]:
        """Give the ledger itself, or in check mode a rehearsal of it."""
        if not check:
            yield self
            return
        with self.rehearsing() as rehearsal:
            yield rehearsal


@dataclass(frozen=True)
class Rehearsal:
    """A ledger whose transactions are all one that is never committed."""

    writer: Writer

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Give a view of the ledger and of what was written to the rehearsal."""
        yield self.writer

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Give a transaction that nobody else sees."""
        yield self.writer


def states(url: str, ledger_id: str) -> dict[str, str]:
    """Return the state of every node in the ledger, nothing at all if there is no usable ledger.

    For the inventory's groups, which are for people: what acts on the ledger opens it and stops if it cannot.
    """
    try:
        with Ledger.open(url, ledger_id, read_only=True).reading() as reader:
            return reader.states()
    except LedgerError:
        return {}
