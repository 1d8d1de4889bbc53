"""A ledger's copy: whole, readable by its owner alone, and never in the place of a ledger that is there."""

import subprocess

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import ledger_copy
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger, LedgerError
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger_copy import file_name, restore, save

ID, OTHER, CLUSTER = "6f1d7a52-9b0e-4c58-8f3e-2d5c1b7a9e04", "11111111-9b0e-4c58-8f3e-2d5c1b7a9e04", "lab"


@pytest.fixture
def url(tmp_path):
    address = f"sqlite:///{tmp_path / 'live' / 'ledger.sqlite'}"
    ledger = Ledger.create(address, ID, CLUSTER, 1.0)
    with ledger.writing() as writer:
        writer.declare({"gpu-01": "lab_h100"}, 2.0)
        writer.keep_drains({"gpu-01": "alice looks at fan"}, 3.0)
    return address


def drains(url):
    with Ledger.open(url, ID, CLUSTER, read_only=True).reading() as reader:
        return reader.drains()


def test_ledger_comes_back_from_its_copy(tmp_path, url):
    copy = tmp_path / file_name(url)
    save(url, ID, CLUSTER, copy)
    assert copy.name == "ledger.sqlite" and copy.stat().st_mode & 0o777 == 0o600
    (tmp_path / "live" / "ledger.sqlite").unlink()
    assert restore(url, ID, CLUSTER, copy, check=True) and not (tmp_path / "live" / "ledger.sqlite").exists()
    assert restore(url, ID, CLUSTER, copy)
    assert drains(url) == {"gpu-01": "alice looks at fan"}
    assert not restore(url, ID, CLUSTER, copy)


def test_ledger_that_is_there_is_left_as_it_is(tmp_path, url):
    save(url, ID, CLUSTER, tmp_path / "copy")
    with Ledger.open(url, ID, CLUSTER).writing() as writer:
        writer.keep_drains({}, 4.0)
    assert not restore(url, ID, CLUSTER, tmp_path / "copy")
    assert drains(url) == {}


def test_copy_while_somebody_writes_is_of_one_moment(tmp_path, url):
    with Ledger.open(url, ID, CLUSTER).writing() as writer:
        writer.keep_drains({}, 4.0)
        save(url, ID, CLUSTER, tmp_path / "copy")
    assert drains(f"sqlite:///{tmp_path / 'copy'}") == {"gpu-01": "alice looks at fan"}


def test_copy_of_another_ledger_is_refused(tmp_path, url):
    save(url, ID, CLUSTER, tmp_path / "copy")
    missing = f"sqlite:///{tmp_path / 'missing.sqlite'}"
    with pytest.raises(LedgerError, match=f"its id is {ID}"):
        restore(missing, OTHER, CLUSTER, tmp_path / "copy")
    with pytest.raises(LedgerError, match="belongs to cluster lab"):
        restore(missing, ID, "other", tmp_path / "copy")
    assert not (tmp_path / "missing.sqlite").exists()


def test_what_is_no_ledger_is_neither_saved_nor_restored(tmp_path, url):
    missing = f"sqlite:///{tmp_path / 'missing.sqlite'}"
    with pytest.raises(LedgerError, match="no such file"):
        save(missing, ID, CLUSTER, tmp_path / "copy")
    with pytest.raises(LedgerError, match=r"copy .*: no such file"):
        restore(missing, ID, CLUSTER, tmp_path / "copy")
    (tmp_path / "copy").write_text("no database, but long enough to be looked at as if it were one " * 20)
    with pytest.raises(LedgerError, match="not a database"):
        restore(missing, ID, CLUSTER, tmp_path / "copy")
    (tmp_path / "live" / "ledger.sqlite").write_text("overwritten " * 100)
    with pytest.raises(LedgerError, match="not a database"):
        restore(url, ID, CLUSTER, tmp_path / "copy")


def test_damaged_ledger_leaves_no_copy(tmp_path, url, monkeypatch):
    path = tmp_path / "live" / "ledger.sqlite"
    data = bytearray(path.read_bytes())
    # Past the pages that say whose ledger it is.
    data[-4096:] = b"\xff" * 4096
    path.write_bytes(data)
    with pytest.raises(LedgerError):
        save(url, ID, CLUSTER, tmp_path / "copy")
    assert not (tmp_path / "copy").exists() and not list(tmp_path.glob("*.unfinished"))


def test_password_of_postgresql_is_no_argument(tmp_path, monkeypatch):
    seen = {}

    def run(command, **more):
        seen.update(command=command, environment=more["env"])
        return subprocess.CompletedProcess(command, 1, "", "pg_dump: error: connection failed")

    monkeypatch.setattr(ledger_copy.subprocess, "run", run)
    monkeypatch.setattr(ledger_copy.Ledger, "open", lambda *arguments, **more: None)
    url = "postgresql+psycopg://muster:hunter2@db.example:5433/ledger?sslmode=require"
    with pytest.raises(LedgerError, match="pg_dump: pg_dump: error: connection failed"):
        save(url, ID, CLUSTER, tmp_path / "ledger.dump")
    assert "hunter2" not in " ".join(seen["command"]) and seen["environment"]["PGPASSWORD"] == "hunter2"
    expected = {"PGHOST": "db.example", "PGPORT": "5433", "PGDATABASE": "ledger", "PGSSLMODE": "require"}
    assert expected.items() <= seen["environment"].items()
    assert file_name(url) == "ledger.dump" and not list(tmp_path.iterdir())
