"""Copies of Slurm's state and their return: whole, of one moment, and nothing lost on the way."""

import getpass
import gzip
import tarfile

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.slurm import slurm_archive
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_archive import (
    ArchiveError,
    check_database,
    check_state,
    restore_database,
    restore_state,
    save_database,
    save_state,
    state_files,
)

ME = getpass.getuser()


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(slurm_archive, "_PAUSE_SECONDS", 0.001)


@pytest.fixture
def state(tmp_path):
    place = tmp_path / "slurmctld"
    (place / "hash.1" / "job.11").mkdir(parents=True)
    (place / "hash.1" / "job.11" / "script").write_text("#!/bin/sh\n")
    for name in ("job_state", "node_state", "node_state.old", "part_state", "muster_gate", "job_state.new"):
        (place / name).write_text(f"{name} of then")
    return place


def names(place):
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


def test_state_comes_back_on_a_fresh_host(tmp_path, state):
    save_state(state, tmp_path / "a.tar.gz")
    assert (tmp_path / "a.tar.gz").stat().st_mode & 0o777 == 0o600
    assert restore_state(tmp_path / "fresh", tmp_path / "a.tar.gz", ME) is None
    assert names(tmp_path / "fresh") == ["hash.1/job.11/script", "job_state", "node_state", "node_state.old"]


def test_gate_mark_and_open_partitions_do_not_come_back(tmp_path, state):
    with tarfile.open(str(tmp_path / "old.tar.gz"), "w:gz") as archive:
        for name in ("job_state", "part_state", "muster_gate"):
            archive.add(str(state / name), name)
    restore_state(tmp_path / "fresh", tmp_path / "old.tar.gz", ME)
    assert names(tmp_path / "fresh") == ["job_state"]


def test_gate_file_that_two_controllers_share_is_the_ledgers(tmp_path, state):
    (state / "muster_partitions.conf").write_text("open then")
    save_state(state, tmp_path / "a.tar.gz")
    (state / "muster_partitions.conf").write_text("closed now")
    kept = restore_state(state, tmp_path / "a.tar.gz", ME)
    assert (state / "muster_partitions.conf").read_text() == "closed now"
    assert not (kept / "muster_partitions.conf").exists()
    restore_state(tmp_path / "fresh", tmp_path / "a.tar.gz", ME)
    assert not (tmp_path / "fresh" / "muster_partitions.conf").exists()


def test_what_is_replaced_is_kept_each_time(tmp_path, state):
    save_state(state, tmp_path / "a.tar.gz")
    (state / "job_state").write_text("job_state of now")
    kept = restore_state(state, tmp_path / "a.tar.gz", ME)
    assert (kept / "job_state").read_text() == "job_state of now" and (kept / "muster_gate").exists()
    assert (state / "job_state").read_text() == "job_state of then"
    assert not (state / "part_state").exists() and not (state / "muster_gate").exists()
    again = restore_state(state, tmp_path / "a.tar.gz", ME)
    assert again != kept and (kept / "job_state").read_text() == "job_state of now"


def test_restore_that_was_killed_is_done_again(tmp_path, state):
    save_state(state, tmp_path / "a.tar.gz")
    (state / ".muster-restore").mkdir()
    (state / ".muster-restore" / "half").write_text("half")
    restore_state(state, tmp_path / "a.tar.gz", ME)
    assert not (state / ".muster-restore").exists() and (state / "job_state").read_text() == "job_state of then"


def test_state_that_never_rests_is_an_error(state, monkeypatch):
    stamps = iter(range(1000))
    monkeypatch.setattr(slurm_archive, "_stamps", lambda place: {"job_state": (next(stamps), 1)})
    with pytest.raises(ArchiveError, match="was written to at each of 20 tries"):
        state_files(state)


def test_state_that_rests_at_last_is_copied(state, monkeypatch):
    stamps = iter([1, 2, 3, 3])
    monkeypatch.setattr(slurm_archive, "_stamps", lambda place: {"job_state": (next(stamps), 1)})
    assert list(state_files(state)) == ["job_state"]


def test_directory_that_is_not_slurms_is_an_error(tmp_path):
    with pytest.raises(ArchiveError, match="no such directory"):
        save_state(tmp_path / "absent", tmp_path / "a")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArchiveError, match="holds no state"):
        save_state(tmp_path / "empty", tmp_path / "a")
    assert not (tmp_path / "a").exists() and not list(tmp_path.glob(".a*"))


def test_archive_that_is_cut_off_is_refused_before_anything_is_moved(tmp_path, state):
    save_state(state, tmp_path / "a.tar.gz")
    data = (tmp_path / "a.tar.gz").read_bytes()
    for length in (0, 10, len(data) // 2, len(data) - 9):
        (tmp_path / "cut.tar.gz").write_bytes(data[:length])
        before = names(state)
        with pytest.raises(ArchiveError):
            restore_state(state, tmp_path / "cut.tar.gz", ME)
        assert names(state) == before


@pytest.mark.parametrize("name", ["../job_state", "/etc/passwd", "hash.1/../../x"])
def test_archive_that_reaches_elsewhere_is_refused(tmp_path, state, name):
    with tarfile.open(str(tmp_path / "bad.tar.gz"), "w:gz") as archive:
        archive.add(str(state / "job_state"), "job_state")
        archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(ArchiveError, match="is no file of slurmctld's state"):
        check_state(tmp_path / "bad.tar.gz")


@pytest.fixture
def mariadb(tmp_path, monkeypatch):
    """Programs that stand in for MariaDB's: a database is a file."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "db").write_text("INSERT now;\n-- Dump completed on 2026-11-22\n")
    broken = f"[ ! -e {tmp_path}/broken ] || {{ echo 'mysqldump: Got error: 2013' >&2; exit 3; }}"
    (programs / "mariadb-dump").write_text(f"#!/bin/sh\n{broken}\ncat {tmp_path}/db\n")
    cases = f"*schemata*) echo slurm_acct_db;; *DROP*) : >{tmp_path}/db;; *) cat >{tmp_path}/db;;"
    (programs / "mariadb").write_text(f'#!/bin/sh\ncase "$*" in {cases} esac\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return tmp_path


def test_database_comes_back_and_what_was_there_is_kept(mariadb):
    save_database("slurm_acct_db", mariadb / "dump.sql.gz", 10)
    then = (mariadb / "db").read_text()
    (mariadb / "db").write_text("INSERT later;\n-- Dump completed\n")
    kept = restore_database("slurm_acct_db", mariadb / "dump.sql.gz", mariadb / "keep", 10)
    assert (mariadb / "db").read_text() == then
    assert gzip.decompress(kept.read_bytes()).startswith(b"INSERT later") and kept.stat().st_mode & 0o777 == 0o600


def test_dump_that_ends_early_is_no_dump(mariadb):
    (mariadb / "db").write_text("INSERT now;\n")
    with pytest.raises(ArchiveError, match="ended before its end"):
        save_database("slurm_acct_db", mariadb / "dump.sql.gz", 10)
    (mariadb / "broken").touch()
    with pytest.raises(ArchiveError, match="Got error: 2013"):
        save_database("slurm_acct_db", mariadb / "dump.sql.gz", 10)
    assert not (mariadb / "dump.sql.gz").exists()


def test_half_a_dump_replaces_nothing(mariadb):
    then = (mariadb / "db").read_text()
    (mariadb / "half.sql.gz").write_bytes(gzip.compress(b"INSERT"))
    with pytest.raises(ArchiveError, match="no whole dump"):
        restore_database("slurm_acct_db", mariadb / "half.sql.gz", mariadb / "keep", 10)
    save_database("slurm_acct_db", mariadb / "dump.sql.gz", 10)
    (mariadb / "cut.sql.gz").write_bytes((mariadb / "dump.sql.gz").read_bytes()[:-6])
    with pytest.raises(ArchiveError, match="no whole dump"):
        check_database(mariadb / "cut.sql.gz")
    assert (mariadb / "db").read_text() == then
