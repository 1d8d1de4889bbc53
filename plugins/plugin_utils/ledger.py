"""The ledger: what is known of every node, how it came to be known, and what was decided.

Evidence, decisions and transitions are only ever appended. Every change is one transaction, so a process killed at any
point leaves either all of it or nothing; SQLite's rollback journal is used rather than WAL, because a ledger may lie on
NFS and is then copied as the one file that it is.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import platform
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

from ansible_collections.muster.cluster.plugins.module_utils.evidence import (
    FORMAT,
    Evidence,
    EvidenceError,
    digest_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.admission import DECISIONS, Record
from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Double,
    Engine,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool, StaticPool
from sqlalchemy.types import TypeDecorator

SCHEMA = 1
BUSY_SECONDS = 60.0
# SQLite before 3.32 takes no more than 999 variables in one statement.
NAMES_PER_QUERY = 900
CREATE_HINT = "a new ledger is made once, with playbooks/ledger_create.yml"


class LedgerError(Exception):
    """A ledger that cannot be used; the text names it, says what was found and what was expected.

    ``absent`` is True where there is none, and making one would overwrite nothing.
    """

    def __init__(self, message: str, absent: bool = False) -> None:
        super().__init__(message)
        self.absent = absent


class GarbledError(ValueError):
    """A column that holds other data than was written; says which, what was found and what was expected."""


class Data(TypeDecorator[Any]):
    """JSON in the column of this name; what is none raises GarbledError when it is read."""

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
                raise GarbledError(f"{self.name} is {value!r:.60}, expected JSON ({exc})") from exc

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


@dataclass(frozen=True)
class NodeRow:
    """A node as the last admission left it; ``since`` is when it came into its state, seconds since the epoch."""

    name: str
    hardware_class: str | None
    state: str
    stage: str
    reason: str
    since: float


@dataclass(frozen=True)
class Transition:
    """One change of a node's state, and why."""

    node: str
    from_state: str
    to_state: str
    cause: str


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
        parsed = _parsed(url)
        if parsed.get_backend_name() == "sqlite":
            _path(parsed).parent.mkdir(parents=True, exist_ok=True)
        engine = _engine(parsed, create=True)
        with _explained(url), engine.execution_options(muster_write=True).begin() as connection:
            tables = inspect(connection).get_table_names()
            if tables:
                raise LedgerError(
                    f"ledger {_shown(url)}: already there (tables {', '.join(sorted(tables))}), not made anew"
                )
            TABLES.create_all(connection)
            created = time.time() if now is None else now
            row = {"ledger_id": ledger_id, "cluster": cluster, "schema_version": SCHEMA, "owed": 0}
            connection.execute(insert(META), {**row, "generation": generation, "created": created})
        return cls(engine, parsed, ledger_id, cluster)

    @classmethod
    def open(cls, url: str, ledger_id: str, cluster: str | None = None, read_only: bool = False) -> Ledger:
        """Open the ledger that the fleet file names, never making one.

        Raises LedgerError when it is missing, empty, not a database, another ledger's or cluster's, or newer than this
        program. ``read_only`` keeps every statement from writing.
        """
        parsed = _parsed(url)
        shown = _shown(url)
        if parsed.get_backend_name() == "sqlite":
            path = _path(parsed)
            if not path.exists():
                raise LedgerError(f"ledger {shown}: no such file; {CREATE_HINT}", absent=True)
            if not path.is_file():
                raise LedgerError(f"ledger {shown}: not a file")
            if path.stat().st_size == 0:
                raise LedgerError(
                    f"ledger {shown}: the file is empty; restore it from a copy ({CREATE_HINT})", absent=True
                )
        engine = _engine(parsed, read_only=read_only)
        with _explained(url), engine.begin() as connection:
            tables = set(inspect(connection).get_table_names())
            if META.name not in tables:
                what = f"holds tables {', '.join(sorted(tables))}" if tables else "holds no tables"
                raise LedgerError(f"ledger {shown}: {what}, expected Muster's; {CREATE_HINT}", absent=not tables)
            schemas = list(connection.execute(select(META.c.schema_version)).scalars())
            if len(schemas) != 1:
                raise LedgerError(f"ledger {shown}: {len(schemas)} rows in table meta, expected one")
            if schemas[0] != SCHEMA:
                age = "newer" if schemas[0] > SCHEMA else "older"
                raise LedgerError(f"ledger {shown}: schema {schemas[0]} is {age} than this Muster's, expected {SCHEMA}")
            meta = connection.execute(select(META)).one()
        if meta.ledger_id != ledger_id:
            raise LedgerError(f"ledger {shown}: its id is {meta.ledger_id}, the fleet file's ledger.id is {ledger_id}")
        if cluster is not None and meta.cluster != cluster:
            raise LedgerError(
                f"ledger {shown}: belongs to cluster {meta.cluster}, the fleet file's cluster is {cluster}"
            )
        return cls(engine, parsed, ledger_id, meta.cluster)

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Give a consistent view of the ledger."""
        engine = self._engine
        if self._url.get_backend_name() == "postgresql":
            # There each statement of a plain transaction sees what was committed before it.
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        with _explained(self._url), engine.begin() as connection:
            yield Reader(connection)

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Give one transaction; another writer waits up to a minute, and what is raised inside undoes all of it."""
        with (
            _explained(self._url),
            self._engine.execution_options(muster_write=True).begin() as connection,
        ):
            yield Writer(connection)

    @contextmanager
    def rehearsing(self) -> Iterator[Writer]:
        """Give a transaction that leaves no trace, to tell what a real one would do."""
        if self._url.get_backend_name() == "sqlite":
            with _explained(self._url):
                memory = sqlite3.connect(":memory:", isolation_level=None)
                with closing(sqlite3.connect(_sqlite_name(self._url), uri=True, timeout=BUSY_SECONDS)) as source:
                    source.backup(memory)
                engine = create_engine("sqlite://", creator=lambda: memory, poolclass=StaticPool)
        else:
            engine = _engine(self._url)
        with _explained(self._url), engine.connect() as connection:
            yield Writer(connection)
            connection.rollback()

    @contextmanager
    def locked(self, wait_seconds: float = BUSY_SECONDS, work: str = "admitting") -> Iterator[None]:
        """Hold the ledger against another run that does the same ``work``, for longer than a transaction.

        Dies with the process. Raises LedgerError naming the holder after ``wait_seconds``.
        """
        if self._url.get_backend_name() == "sqlite":
            suffix = "lock" if work == "admitting" else f"{work}.lock"
            with _file_locked(Path(f"{_path(self._url)}.{suffix}"), wait_seconds, work):
                yield
            return
        with _explained(self._url), self._engine.connect() as connection:
            deadline = time.monotonic() + wait_seconds
            take = select(func.pg_try_advisory_lock(_lock_key(self.id, work)))
            while not connection.execute(take).scalar_one():
                if time.monotonic() >= deadline:
                    raise LedgerError(f"ledger {_shown(self._url)}: another run is {work} nodes; try again later")
                time.sleep(0.5)
            yield


class Reader:
    """Questions put to the ledger within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def generation(self) -> int:
        """Return how many changes the gate has to follow."""
        return int(self._connection.execute(select(META.c.generation)).scalar_one())

    def nodes(self) -> dict[str, NodeRow]:
        """Return every node that was ever judged."""
        return {row.name: NodeRow(**row._mapping) for row in self._connection.execute(select(NODE))}

    def states(self) -> dict[str, str]:
        """Return the state of every node that was ever judged."""
        return {row.name: row.state for row in self._connection.execute(select(NODE.c.name, NODE.c.state))}

    def decisions(self) -> dict[str, str]:
        """Return the operators' standing decisions; a released node has none."""
        last = select(func.max(DECISION.c.seq)).group_by(DECISION.c.node)
        rows = self._connection.execute(select(DECISION.c.node, DECISION.c.decision).where(DECISION.c.seq.in_(last)))
        return {row.node: row.decision for row in rows if row.decision != "none"}

    def drains(self) -> dict[str, str]:
        """Return the reason of every manual drain, by node."""
        return {row.node: row.reason for row in self._connection.execute(select(DRAIN))}

    def transitions(self) -> list[Transition]:
        """Return every transition, oldest first."""
        return [move for _, move in self.history()]

    def history(self) -> list[tuple[float, Transition]]:
        """Return every transition with its time, seconds since the epoch, in the order in which they were recorded."""
        columns = (TRANSITION.c.node, TRANSITION.c.from_state, TRANSITION.c.to_state, TRANSITION.c.cause)
        rows = self._connection.execute(select(TRANSITION.c.at, *columns).order_by(TRANSITION.c.seq))
        return [(at, Transition(*move)) for at, *move in rows]

    def parts(self, node: str) -> list[dict[str, Any]]:
        """Return the parts last seen in a node."""
        rows = self._connection.execute(select(PART).where(PART.c.node == node).order_by(PART.c.kind, PART.c.slot))
        return [dict(row._mapping) for row in rows]

    def records(self, stages: Iterable[str], nodes: Iterable[str]) -> dict[str, list[Record]]:
        """Return, by node, the evidence that decides each stage: the last imported.

        A record that can no longer be read stands as one that never finished; no older one takes its place. One query
        per stage however many nodes there are.
        """
        wanted = set(nodes)
        found: dict[str, list[Record]] = {name: [] for name in wanted}
        for stage in stages:
            for row in self._newest(stage, wanted):
                if row.node in wanted:
                    found[row.node].append(Record(_evidence_of(row), row.imported, row.seq))
        return found

    def _newest(self, stage: str, wanted: set[str]) -> Iterator[Any]:
        newest = select(func.max(EVIDENCE.c.seq)).where(EVIDENCE.c.stage == stage).group_by(EVIDENCE.c.node)
        if len(wanted) <= NAMES_PER_QUERY:
            newest = newest.where(EVIDENCE.c.node.in_(sorted(wanted)))
        yield from self._connection.execute(select(EVIDENCE).where(EVIDENCE.c.seq.in_(newest)).order_by(EVIDENCE.c.seq))

    def admitted_under(self, stage: str, nodes: Iterable[str]) -> dict[str, str]:
        """Return, by node that is admitted, the digest of what the stage was judged by when the node was admitted."""
        wanted = set(nodes)
        then = (
            select(func.max(EVIDENCE.c.seq))
            .join(NODE, NODE.c.name == EVIDENCE.c.node)
            .where(EVIDENCE.c.stage == stage, NODE.c.state == "admitted", EVIDENCE.c.imported <= NODE.c.since)
            .group_by(EVIDENCE.c.node)
        )
        if len(wanted) <= NAMES_PER_QUERY:
            then = then.where(EVIDENCE.c.node.in_(sorted(wanted)))
        query = select(EVIDENCE.c.node, EVIDENCE.c.expect_digest).where(EVIDENCE.c.seq.in_(then))
        return {row.node: row.expect_digest for row in self._connection.execute(query) if row.node in wanted}

    def known(self, stage: str, node: str) -> list[str]:
        """Return the ids of a node's finished evidence of one stage, oldest first."""
        rows = select(EVIDENCE.c.id).where(
            EVIDENCE.c.node == node, EVIDENCE.c.stage == stage, EVIDENCE.c.finished.is_not(None)
        )
        return list(self._connection.execute(rows.order_by(EVIDENCE.c.seq)).scalars())

    def rounds(self, campaign: str | None = None) -> list[StoredRound]:
        """Return the rounds of one campaign, or of all, in the order in which they were started."""
        return list(self.each_round(campaign))

    def each_round(self, campaign: str | None = None) -> Iterator[StoredRound]:
        """Yield the same, read one by one: what thousands of nodes observed in one of them is large enough."""
        query = select(ROUND.c.seq).order_by(ROUND.c.seq)
        if campaign is not None:
            query = query.where(ROUND.c.campaign == campaign)
        columns = [ROUND.c[name] for name in StoredRound.__dataclass_fields__]
        for seq in list(self._connection.execute(query).scalars()):
            row = self._connection.execute(select(*columns).where(ROUND.c.seq == seq)).one()
            yield _round_of(row._asdict())

    def plans(self) -> list[StoredRound]:
        """Return the rounds of all campaigns, oldest first, without what they observed, which is large."""
        names = [name for name in StoredRound.__dataclass_fields__ if name != "observations"]
        query = select(*(ROUND.c[name] for name in names)).order_by(ROUND.c.seq)
        return [_round_of({**row._asdict(), "observations": None}) for row in self._connection.execute(query)]


class Writer(Reader):
    """Changes to the ledger; all of one transaction's or none."""

    def declare(self, classes: Mapping[str, str | None], now: float) -> None:
        """Enter nodes the ledger does not know as ``new`` and follow the fleet file's hardware classes.

        An admitted node keeps the class it was admitted as until it is moved.
        """
        known = self.nodes()
        fresh = [name for name in sorted(classes) if name not in known]
        if fresh:
            row = {"state": "new", "stage": "", "reason": "", "since": now}
            self._connection.execute(
                insert(NODE), [{"name": name, "hardware_class": classes[name], **row} for name in fresh]
            )
        moved = [
            name
            for name in classes
            if name in known and known[name].state != "admitted" and known[name].hardware_class != classes[name]
        ]
        if moved:
            self._connection.execute(
                update(NODE).where(NODE.c.name == bindparam("b_name")).values(hardware_class=bindparam("b_class")),
                [{"b_name": name, "b_class": classes[name]} for name in moved],
            )

    def add_evidence(self, evidence: Sequence[Evidence], now: float) -> list[Refused]:
        """Append evidence in the order given and return what was refused.

        The same record again changes nothing. A record that had not finished makes way for its continuation, which is
        the newest then; a finished one with the same id and another content is refused, and what the ledger has stays.
        """
        stored = self._stored({item.id for item in evidence})
        refused: list[Refused] = []
        rows: dict[str, dict[str, Any]] = {}
        continued: list[str] = []
        for item in evidence:
            try:
                row = _row_of(item, now)
            except (ValueError, OverflowError, TypeError, RecursionError) as exc:
                refused.append(Refused(item.node, item.id, f"evidence {item.id!r}: cannot be stored: {exc}"))
                continue
            old = rows.get(item.id) or stored.get(item.id)
            if old is None:
                rows[item.id] = row
            elif old["digest"] == row["digest"]:
                continue
            elif old["finished"] is None and all(old[key] == row[key] for key in ("node", "stage", "started")):
                if item.id not in rows:
                    continued.append(item.id)
                rows.pop(item.id, None)
                rows[item.id] = row
            else:
                refused.append(Refused(item.node, item.id, f"evidence {item.id}: another record has this id already"))
        for start in range(0, len(continued), NAMES_PER_QUERY):
            part = continued[start : start + NAMES_PER_QUERY]
            self._connection.execute(delete(EVIDENCE).where(EVIDENCE.c.id.in_(part)))
        if rows:
            self._connection.execute(insert(EVIDENCE), list(rows.values()))
        self._see_parts(evidence, {item.id for item in refused}, now)
        return refused

    def _stored(self, ids: set[str]) -> dict[str, dict[str, Any]]:
        columns = [EVIDENCE.c[key] for key in ("id", "digest", "finished", "node", "stage", "started")]
        found: dict[str, dict[str, Any]] = {}
        names = sorted(ids)
        for start in range(0, len(names), NAMES_PER_QUERY):
            query = select(*columns).where(EVIDENCE.c.id.in_(names[start : start + NAMES_PER_QUERY]))
            found |= {row.id: dict(row._mapping) for row in self._connection.execute(query)}
        return found

    def _see_parts(self, evidence: Sequence[Evidence], refused: set[str], now: float) -> None:
        seen: dict[tuple[str, str], dict[str, Any]] = {}
        for item in evidence:
            if item.id not in refused and item.stage == "preflight":
                for kind, slot, serial in parts_of(item):
                    seen[kind, serial] = {"kind": kind, "serial": serial, "node": item.node, "slot": slot}
        if not seen:
            return
        known = {(row.kind, row.serial) for row in self._connection.execute(select(PART.c.kind, PART.c.serial))}
        fresh = [{**row, "first_seen": now, "last_seen": now} for key, row in seen.items() if key not in known]
        if fresh:
            self._connection.execute(insert(PART), fresh)
        again = [
            {
                "b_kind": row["kind"],
                "b_serial": row["serial"],
                "node": row["node"],
                "slot": row["slot"],
                "last_seen": now,
            }
            for key, row in seen.items()
            if key in known
        ]
        if again:
            self._connection.execute(
                update(PART)
                .where(PART.c.kind == bindparam("b_kind"), PART.c.serial == bindparam("b_serial"))
                .values(node=bindparam("node"), slot=bindparam("slot"), last_seen=bindparam("last_seen")),
                again,
            )

    def decide(self, node: str, decision: str, reason: str, who: str, now: float) -> Transition | None:
        """Record an operator's decision (``none`` releases) and return the transition it makes, if any.

        Raises LedgerError for a decision outside the vocabulary and for a node the ledger does not know.
        """
        if decision not in (*DECISIONS, "none"):
            raise LedgerError(f"decision {decision!r}, expected one of {', '.join((*DECISIONS, 'none'))}")
        row = self.nodes().get(node)
        if row is None:
            raise LedgerError(f"node {node} is not in the ledger")
        standing = self.decisions().get(node, "none")
        if standing == decision:
            return None
        values = {"node": node, "decision": decision, "who": who, "at": now, "reason": reason}
        self._connection.execute(insert(DECISION), values)
        # What the evidence says of a released node is for the next run to find out.
        state = "testing" if decision == "none" else decision
        cause = f"{who}: {decision if decision != 'none' else 'released'}: {reason}"
        self.move({node: (state, "", cause)}, who, now, compared=False)
        return Transition(node, row.state, state, cause)

    def move(
        self, verdicts: Mapping[str, tuple[str, str, str]], who: str, now: float, compared: bool
    ) -> list[Transition]:
        """Record states as (state, stage, reason) by node and return the transitions.

        ``compared`` says that the gate's generation was seen to be no newer than this ledger's; changes made without
        are counted by the next call that has it.
        """
        known = self.nodes()
        moves: list[Transition] = []
        changed: list[dict[str, Any]] = []
        for name, (state, stage, told) in sorted(verdicts.items()):
            old, reason = known[name], _storable(told)
            if state != old.state:
                moves.append(Transition(name, old.state, state, reason))
            if (state, stage, reason) != (old.state, old.stage, old.reason):
                since = now if state != old.state else old.since
                changed.append({"b_name": name, "state": state, "stage": stage, "reason": reason, "since": since})
        if changed:
            columns = ("state", "stage", "reason", "since")
            statement = update(NODE).where(NODE.c.name == bindparam("b_name"))
            self._connection.execute(statement.values({key: bindparam(key) for key in columns}), changed)
        if moves:
            rows = [{**vars(move), "at": now, "who": who} for move in moves]
            self._connection.execute(insert(TRANSITION), rows)
        owed = bool(self._connection.execute(select(META.c.owed)).scalar_one())
        if compared and (moves or owed):
            self._connection.execute(update(META).values(generation=META.c.generation + 1, owed=0))
        elif moves:
            self._connection.execute(update(META).values(owed=1))
        return moves

    def keep_drains(self, drains: Mapping[str, str], now: float) -> bool:
        """Make the ledger's manual drains those given and return whether that changed anything."""
        known = self.drains()
        if known == dict(drains):
            return False
        gone = sorted(name for name in known if known[name] != drains.get(name))
        for start in range(0, len(gone), NAMES_PER_QUERY):
            self._connection.execute(delete(DRAIN).where(DRAIN.c.node.in_(gone[start : start + NAMES_PER_QUERY])))
        rows = [
            {"node": name, "reason": reason, "seen": now}
            for name, reason in sorted(drains.items())
            if known.get(name) != reason
        ]
        if rows:
            self._connection.execute(insert(DRAIN), rows)
        return True

    def save_round(self, stored: StoredRound) -> None:
        """Record a round when it starts, and again with its observations when it ends.

        Raises LedgerError when it has ended already, or has another plan.
        """
        where = (ROUND.c.campaign == stored.campaign) & (ROUND.c.number == stored.number)
        old = self._connection.execute(select(ROUND).where(where)).one_or_none()
        if old is None:
            self._connection.execute(insert(ROUND), vars(stored))
            return
        if old.finished is not None or old.plan != stored.plan:
            what = "has ended" if old.finished is not None else "has another plan"
            raise LedgerError(f"round {stored.number} of campaign {stored.campaign} {what} already")
        self._connection.execute(
            update(ROUND).where(where).values(observations=stored.observations, finished=stored.finished)
        )


def states(url: str, ledger_id: str) -> dict[str, str]:
    """Return the state of every node in the ledger, nothing at all if there is no usable ledger.

    For the inventory's groups, which are for people: what acts on the ledger opens it and stops if it cannot.
    """
    try:
        with Ledger.open(url, ledger_id, read_only=True).reading() as reader:
            return reader.states()
    except LedgerError:
        return {}


def parts_of(evidence: Evidence) -> list[tuple[str, str, str]]:
    """Return (kind, slot, serial) of each part in the fingerprint (``0000:1b:00.0=1650222000123,...`` for GPUs)."""
    serials = evidence.fingerprint.get("gpu_serials")
    pairs = [pair.partition("=") for pair in serials.split(",")] if isinstance(serials, str) else []
    return [("gpu", address, serial) for address, _, serial in pairs if address and serial]


def operator() -> str:
    """Return who runs this process, as the ledger records it."""
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{platform.node()}"


def _row_of(evidence: Evidence, now: float) -> dict[str, Any]:
    """Return a row of the evidence table; raises ValueError or OverflowError for what no database takes."""
    data = evidence.to_dict()
    digest = digest_of({key: value for key, value in data.items() if key != "format"})
    # A host may have written NaN, half a surrogate pair, or a time beyond any clock.
    json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
    if any("\0" in data[key] for key in ("id", "node", "boot_id", "expect_digest", "muster_version")):
        raise ValueError("text with a NUL character")
    times = {key: None if data[key] is None else float(data[key]) for key in ("started", "finished")}
    row = {**data, **times, "imported": now, "digest": digest}
    del row["format"]
    return row


def _round_of(row: Mapping[str, Any]) -> StoredRound:
    """Return a round; raises GarbledError where its columns hold other data than a plan and observations."""
    for column, kind, wanted in (("plan", dict, "a mapping"), ("observations", list, "a list")):
        if not isinstance(row[column], kind) and (column == "plan" or row[column] is not None):
            found = type(row[column]).__name__
            where = f"round {row['number']} of campaign {row['campaign']}"
            raise GarbledError(f"{where}: round.{column} is {found}, expected {wanted}")
    return StoredRound(**row)


def _evidence_of(row: Any) -> Evidence:
    from_columns = {key: value for key, value in row._mapping.items() if key not in ("seq", "imported", "digest")}
    try:
        return Evidence.from_dict({"format": FORMAT, **from_columns})
    except EvidenceError:
        return Evidence(row.id, row.node, row.stage, row.started, None, row.boot_id, {}, row.expect_digest)


def _storable(text: str) -> str:
    # What stopped a node may quote whatever its tools printed.
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as exc:
        raise LedgerError(f"ledger.url {url!r}: not a database URL such as sqlite:///ledger.sqlite") from exc
    backend = parsed.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise LedgerError(f"ledger.url: database {backend}, expected sqlite or postgresql")
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise LedgerError(f"ledger.url {url!r}: names no file, expected sqlite:///PATH")
    return parsed


def _path(url: URL) -> Path:
    return Path(str(url.database)).absolute()


def _shown(url: str | URL) -> str:
    return make_url(url).render_as_string(hide_password=True)


def _sqlite_name(url: URL, mode: str = "rw") -> str:
    return f"file:{quote(str(_path(url)))}?mode={mode}"


def _engine(url: URL, create: bool = False, read_only: bool = False) -> Engine:
    if url.get_backend_name() == "sqlite":
        # SQLite makes a file for whoever opens one that is missing, unless it is told not to.
        name = _sqlite_name(url, "rwc" if create else "rw")

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(name, uri=True, timeout=BUSY_SECONDS, isolation_level=None)

        # Ansible forks a process per task: a connection must never be shared with one.
        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
    else:
        try:
            engine = create_engine(url, poolclass=NullPool)
        except (ModuleNotFoundError, NoSuchModuleError) as exc:
            raise LedgerError(f"ledger {_shown(url)}: {exc}; install muster-cluster[postgresql]") from exc

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("muster_write", False)
        if connection.dialect.name == "sqlite":
            # Taking the lock at the start is what lets a second writer wait instead of fail half way.
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
            if read_only:
                connection.exec_driver_sql("PRAGMA query_only = ON")
        elif read_only:
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        elif writes:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _lock_key(str(url), "write")})

    return engine


def _lock_key(name: str, purpose: str) -> int:
    # PostgreSQL's advisory locks are named by a signed 64-bit number.
    return int(digest_of([name, purpose])[:15], 16)


@contextmanager
def _explained(url: str | URL) -> Iterator[None]:
    """Turn a database's error into one that names the ledger."""
    try:
        yield
    except DBAPIError as exc:
        _fail(url, str(exc.orig), exc)
    except SQLAlchemyError as exc:
        _fail(url, str(exc), exc)
    except GarbledError as exc:
        _fail(url, f"{exc}; restore it from a copy", exc)


def _fail(url: str | URL, why: str, cause: Exception) -> NoReturn:
    if "file is not a database" in why or "malformed" in why:
        why = f"{why}; restore it from a copy"
    elif "database is locked" in why:
        why = f"another run has been writing to it for {BUSY_SECONDS:g} s; try again"
    raise LedgerError(f"ledger {_shown(url)}: {why}") from cause


@contextmanager
def _file_locked(path: Path, wait_seconds: float, work: str) -> Iterator[None]:
    # The file stays: removing it would let two processes lock two files of the same name.
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as exc:
        raise LedgerError(f"lock {path}: {exc.strerror}") from exc
    with file:
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    file.seek(0)
                    holder = file.read(200).strip() or "unknown"
                    raise LedgerError(
                        f"lock {path}: another run is {work} nodes ({holder}); waited {wait_seconds:g} s"
                    ) from None
                time.sleep(0.2)
        file.truncate(0)
        file.write(f"{operator()} process {os.getpid()}\n")
        file.flush()
        yield
