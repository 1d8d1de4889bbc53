"""The database behind a ledger: where it is, how it is opened and locked, what its errors mean."""

from __future__ import annotations

import fcntl
import getpass
import os
import platform
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

from ansible_collections.muster.cluster.plugins.module_utils.host.waiting import retry
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import digest_of
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.packed_json import read_json, written_json
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.tables import UnreadableColumnError
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

BUSY_SECONDS = 60.0
# What rounds observed is read and written as arrays.
JSON_OF_ROUNDS: Mapping[str, Any] = {"json_deserializer": read_json, "json_serializer": written_json}


class LedgerError(MusterError):
    """A ledger that cannot be used; the text names it, says what was found and what was expected.

    ``absent`` is True where there is none, and making one would overwrite nothing.
    """

    def __init__(self, message: str, absent: bool = False) -> None:
        super().__init__(message)
        self.absent = absent


def operator() -> str:
    """Return who runs this process, as the ledger records it."""
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{platform.node()}"


def parsed_url(url: str) -> URL:
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


def file_of(url: URL) -> Path:
    return Path(str(url.database)).absolute()


def shown_url(url: str | URL) -> str:
    return make_url(url).render_as_string(hide_password=True)


def sqlite_name(url: URL, mode: str = "rw") -> str:
    return f"file:{quote(str(file_of(url)))}?mode={mode}"


def engine_of(url: URL, create: bool = False, read_only: bool = False) -> Engine:
    if url.get_backend_name() == "sqlite":
        # SQLite makes a file for whoever opens one that is missing, unless it is told not to.
        name = sqlite_name(url, "rwc" if create else "rw")

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(name, uri=True, timeout=BUSY_SECONDS, isolation_level=None)

        # Ansible forks a process per task: a connection must never be shared with one.
        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, **JSON_OF_ROUNDS)
    else:
        try:
            engine = create_engine(url, poolclass=NullPool, **JSON_OF_ROUNDS)
        except (ModuleNotFoundError, NoSuchModuleError) as exc:
            raise LedgerError(f"ledger {shown_url(url)}: {exc}; install muster-cluster[postgresql]") from exc

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
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": lock_key(str(url), "write")})

    return engine


def keep_copy(source: str | Path, target: Path) -> None:
    """Copy SQLite's file as of one moment, while others write to it; raises LedgerError for a damaged one."""
    try:
        with (
            closing(sqlite3.connect(f"{Path(source).absolute().as_uri()}?mode=ro", uri=True, timeout=60)) as original,
            closing(sqlite3.connect(target)) as copy,
        ):
            original.backup(copy)
            found = copy.execute("PRAGMA integrity_check").fetchone()[0]
    except sqlite3.Error as exc:
        raise LedgerError(f"ledger {source} cannot be copied: {exc}") from exc
    if found != "ok":
        raise LedgerError(f"ledger {source} is damaged ({found}); its copy was not kept")


def lock_key(name: str, purpose: str) -> int:
    # PostgreSQL's advisory locks are named by a signed 64-bit number.
    return int(digest_of([name, purpose])[:15], 16)


@contextmanager
def explained(url: str | URL) -> Iterator[None]:
    """Turn a database's error into one that names the ledger."""
    try:
        yield
    except DBAPIError as exc:
        _fail(url, str(exc.orig), exc)
    except SQLAlchemyError as exc:
        _fail(url, str(exc), exc)
    except UnreadableColumnError as exc:
        _fail(url, f"{exc}; restore it from a copy", exc)


def _fail(url: str | URL, why: str, cause: Exception) -> NoReturn:
    if "file is not a database" in why or "malformed" in why:
        why = f"{why}; restore it from a copy"
    elif "database is locked" in why:
        why = f"another run has been writing to it for {BUSY_SECONDS:g} s; try again"
    raise LedgerError(f"ledger {shown_url(url)}: {why}") from cause


@contextmanager
def file_locked(path: Path, wait_seconds: float, work: str) -> Iterator[None]:
    # The file stays: removing it would let two processes lock two files of the same name.
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as exc:
        raise LedgerError(f"lock {path}: {exc.strerror}") from exc
    with file:
        try:
            retry(lambda: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB), BlockingIOError, wait_seconds, 0.2)
        except BlockingIOError:
            file.seek(0)
            holder = file.read(200).strip() or "unknown"
            raise LedgerError(
                f"lock {path}: another run is {work} nodes ({holder}); waited {wait_seconds:g} s"
            ) from None
        file.truncate(0)
        file.write(f"{operator()} process {os.getpid()}\n")
        file.flush()
        yield
