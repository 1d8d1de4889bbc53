"""Copies of a ledger, and their return: SQLite's own way for one file, pg_dump for PostgreSQL."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import put_in_place
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.database import keep_copy
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import (
    TABLES,
    Ledger,
    LedgerError,
    OutdatedLedgerError,
)
from sqlalchemy.engine import URL, make_url

SQLITE, POSTGRESQL = "ledger.sqlite", "ledger.dump"
_SECONDS = 3600.0


def file_name(url: str) -> str:
    """Return what the copy of a ledger is called."""
    return SQLITE if make_url(url).get_backend_name() == "sqlite" else POSTGRESQL


def save(url: str, ledger_id: str, cluster: str, path: str | Path) -> None:
    """Write a copy of a ledger as of one moment, while others write to it; raises LedgerError.

    It is there under its name only when all of it is written, readable by its owner alone.
    """
    # Names whatever is wrong with it before anything is copied.
    _require(url, ledger_id, cluster)
    parsed, staged = make_url(url), Path(f"{path}.unfinished")
    staged.unlink(missing_ok=True)
    staged.touch(mode=0o600)
    try:
        if parsed.get_backend_name() == "sqlite":
            keep_copy(str(parsed.database), staged)
        else:
            tables = [f"--table={name}" for name in TABLES.tables]
            _run(["pg_dump", "--format=custom", f"--file={staged}", *tables], parsed)
        put_in_place(staged, path)
    finally:
        staged.unlink(missing_ok=True)


def restore(url: str, ledger_id: str, cluster: str, path: str | Path, check: bool = False) -> bool:
    """Make a ledger from its copy and return whether it was missing; one that is there is left as it is.

    Raises LedgerError for a copy of another ledger, and for a ledger that is there and cannot be used.
    """
    try:
        _require(url, ledger_id, cluster)
    except LedgerError as exc:
        if not exc.absent:
            raise
    else:
        return False
    if not Path(path).is_file():
        raise LedgerError(f"copy {path}: no such file; the ledger was not restored")
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        _require(f"sqlite:///{Path(path).absolute()}", ledger_id, cluster)
        if not check:
            place = Path(str(parsed.database)).absolute()
            place.parent.mkdir(parents=True, exist_ok=True)
            staged = place.with_name(f"{place.name}.unfinished")
            staged.unlink(missing_ok=True)
            try:
                keep_copy(path, staged)
                put_in_place(staged, place)
            finally:
                staged.unlink(missing_ok=True)
    elif not check:
        _run(["pg_restore", "--single-transaction", "--no-owner", f"--dbname={parsed.database}", str(path)], parsed)
        _require(url, ledger_id, cluster)
    return True


def _require(url: str, ledger_id: str, cluster: str) -> None:
    """Raise LedgerError unless this is that ledger, in whichever schema."""
    with suppress(OutdatedLedgerError):
        Ledger.open(url, ledger_id, cluster, read_only=True)


def _run(command: list[str], url: URL) -> None:
    environment = {**os.environ, **_connection(url), "LC_ALL": "C"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise LedgerError(f"{command[0]}: {exc}") from exc
    if done.returncode:
        raise LedgerError(f"{command[0]}: {done.stderr.strip()[-500:]}")


def _connection(url: URL) -> Mapping[str, str]:
    """Return where the database is as libpq's variables: others can read a command's arguments."""
    given = {"PGHOST": url.host, "PGPORT": url.port, "PGUSER": url.username, "PGPASSWORD": url.password}
    given |= {"PGDATABASE": url.database}
    # Such as sslmode=require, or host=/run/postgresql.
    given |= {f"PG{key.upper()}": value for key, value in url.query.items() if isinstance(value, str)}
    return {key: str(value) for key, value in given.items() if value is not None}
