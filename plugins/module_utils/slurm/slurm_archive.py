"""Copies of what Slurm must not lose, and their return: the controller's state directory, slurmdbd's database."""

from __future__ import annotations

import gzip
import io
import os
import pwd
import shutil
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path, PurePosixPath

from ..host.whole_files import replacing
from ..words.errors import MusterError
from .gate_file import GATE_FILE
from .user_gate import MARKER

# slurmctld writes its files one after the other, some seconds apart at most; they have to be of one moment.
_TRIES = 20
_PAUSE_SECONDS = 0.5
_COMPLETE = b"-- Dump completed"
_STAGED = ".muster-restore"
_KEPT = ".before-restore"
_CHUNK = 1 << 20
# What must not come back: the gate's mark, so that drains newer than the archive are restored from the ledger, and open
# partitions, which are the gate file's to say.
_LEFT_OUT = (MARKER, "part_state", "part_state.old")
# The gate's file, which two controllers share there: it follows the ledger, not the copy, and stays as it is.
_STAYS = Path(GATE_FILE).name


class ArchiveError(MusterError):
    """What cannot be saved or restored, and what that left behind."""


def state_files(directory: str | Path) -> dict[str, bytes]:
    """Return the files of slurmctld's state as they were at one moment; raises ArchiveError.

    Files that are being written (``.new``) and locks are left out.
    """
    place = Path(directory)
    for _try in range(_TRIES):
        try:
            before = _stamps(place)
            files = {name: (place / name).read_bytes() for name in before}
            if _stamps(place) == before:
                if "job_state" not in files and "node_state" not in files:
                    raise ArchiveError(f"{place} holds no state of slurmctld, expected node_state or job_state in it")
                return files
        except FileNotFoundError:
            if not place.is_dir():
                raise ArchiveError(f"{place}: no such directory, expected Slurm's StateSaveLocation") from None
        time.sleep(_PAUSE_SECONDS)
    raise ArchiveError(f"{place} was written to at each of {_TRIES} tries to copy it; try again")


def save_state(directory: str | Path, path: str | Path) -> int:
    """Write an archive of slurmctld's state and of its jobs' scripts, while it runs; return the number of files."""
    place, files = Path(directory), state_files(directory)
    with replacing(path, 0o600) as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o600
            entry.mtime = int(time.time())
            archive.addfile(entry, io.BytesIO(data))
        count = len(files)
        for folder in sorted(place.glob("hash.*")):
            for each in sorted(path for path in folder.rglob("*") if path.is_file()):
                try:
                    archive.add(str(each), str(each.relative_to(place)), recursive=False)
                    count += 1
                except FileNotFoundError:
                    # The script of a job that ended meanwhile.
                    continue
    return count


def check_state(path: str | Path) -> None:
    """Raise ArchiveError unless the archive is whole and holds only files below one directory."""
    try:
        # To the end, where the checksum is: tar has seen enough before.
        with gzip.open(str(path)) as packed:
            while packed.read(_CHUNK):
                pass
        with tarfile.open(str(path), "r:gz") as archive:
            names = []
            for entry in archive:
                parts = PurePosixPath(entry.name)
                if not entry.isfile() or parts.is_absolute() or ".." in parts.parts:
                    raise ArchiveError(f"{path}: {entry.name!r} is no file of slurmctld's state")
                names.append(entry.name)
    except (OSError, EOFError, tarfile.TarError) as exc:
        raise ArchiveError(f"{path} is no whole archive: {exc}") from exc
    if "job_state" not in names and "node_state" not in names:
        raise ArchiveError(f"{path} holds neither job_state nor node_state")


def restore_state(directory: str | Path, path: str | Path, owner: str) -> Path | None:
    """Put an archive's files into the state directory; return where what was there lies now.

    The directory itself stays, as it may be a mount. A run that was killed is done again from the start.
    """
    check_state(path)
    place, user = Path(directory), pwd.getpwnam(owner)
    place.mkdir(mode=0o755, parents=True, exist_ok=True)
    os.chown(place, user.pw_uid, user.pw_gid)
    staged = place / _STAGED
    if staged.exists():
        shutil.rmtree(staged)
    staged.mkdir(mode=0o700)
    with tarfile.open(str(path), "r:gz") as archive:
        for entry in archive:
            source = archive.extractfile(entry)
            if source is None or entry.name in (*_LEFT_OUT, _STAYS):
                continue
            target = staged / entry.name
            for folder in reversed(target.relative_to(staged).parents[:-1]):
                (staged / folder).mkdir(mode=0o700, exist_ok=True)
                os.chown(staged / folder, user.pw_uid, user.pw_gid)
            with target.open("wb") as file:
                shutil.copyfileobj(source, file, _CHUNK)
                os.fchmod(file.fileno(), entry.mode & 0o700 | 0o600)
                os.fchown(file.fileno(), user.pw_uid, user.pw_gid)
                os.fsync(file.fileno())
    kept = _moved(place)
    for each in sorted(staged.iterdir()):
        each.rename(place / each.name)
    staged.rmdir()
    return kept


def _moved(place: Path) -> Path | None:
    there = [each for each in place.iterdir() if not each.name.startswith((_STAGED, _KEPT, _STAYS))]
    if not there:
        return None
    number = 1
    while (kept := place / f"{_KEPT}.{number}").exists():
        number += 1
    kept.mkdir(mode=0o700)
    for each in there:
        each.rename(kept / each.name)
    return kept


def save_database(name: str, path: str | Path, timeout_seconds: float) -> None:
    """Write a dump of a database of this host's MariaDB as of one moment, while slurmdbd runs; raises ArchiveError."""
    command = ["mariadb-dump", "--no-defaults", "--user=root", "--single-transaction", "--quick", "--databases", name]
    with replacing(path, 0o600) as file, gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1) as packed:
        last = _piped(command, packed, timeout_seconds)
        if _COMPLETE not in last:
            raise ArchiveError(f"mariadb-dump {name}: ended before its end")


def _piped(command: list[str], packed: gzip.GzipFile, timeout_seconds: float) -> bytes:
    """Write what a command prints, and return the last of it; raises ArchiveError where it fails."""
    deadline, last = time.monotonic() + timeout_seconds, b""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        try:
            assert process.stdout is not None
            while chunk := process.stdout.read(_CHUNK):
                packed.write(chunk)
                last = (last + chunk)[-200:]
                if time.monotonic() > deadline:
                    raise ArchiveError(f"{command[0]}: not done within {timeout_seconds:g} s")
            process.wait(60)
        finally:
            process.kill()
            process.wait()
        errors.seek(0)
        if process.returncode:
            raise ArchiveError(f"{command[0]}: {errors.read().decode(errors='replace').strip()}")
    return last


def check_database(path: str | Path) -> None:
    """Raise ArchiveError unless the dump is whole."""
    last = b""
    try:
        with gzip.open(str(path)) as packed:
            while chunk := packed.read(_CHUNK):
                last = (last + chunk)[-200:]
    except (OSError, EOFError) as exc:
        raise ArchiveError(f"{path} is no whole dump: {exc}") from exc
    if _COMPLETE not in last:
        raise ArchiveError(f"{path} is no whole dump: its last line is {last[-60:]!r}")


def restore_database(name: str, path: str | Path, keep: str | Path, timeout_seconds: float) -> Path | None:
    """Replace a database by a dump of it; return where a dump of what was there lies now. Raises ArchiveError."""
    check_database(path)
    kept = None
    if name in _asked("SELECT schema_name FROM information_schema.schemata", 60).split():
        number = 1
        while (place := Path(keep) / f"{name}.before-restore.{number}.sql.gz").exists():
            number += 1
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        save_database(name, place, timeout_seconds)
        kept = place
    _asked(f"DROP DATABASE IF EXISTS `{name}`", timeout_seconds)
    command = ["mariadb", "--no-defaults", "--user=root"]
    with gzip.open(str(path)) as packed, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors)
        assert process.stdin is not None
        try:
            shutil.copyfileobj(packed, process.stdin, _CHUNK)
            process.stdin.close()
        except BrokenPipeError:
            # What it had to say follows.
            pass
        process.wait(timeout_seconds)
        errors.seek(0)
        if process.returncode:
            raise ArchiveError(f"mariadb took only a part of {path}: {errors.read().decode(errors='replace').strip()}")
    return kept


def _asked(sql: str, timeout_seconds: float) -> str:
    command = ["mariadb", "--no-defaults", "--user=root", "--batch", "--skip-column-names", f"--execute={sql}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise ArchiveError(f"mariadb: {exc}") from exc
    if done.returncode:
        raise ArchiveError(f"mariadb: {done.stderr.strip()}")
    return done.stdout


def _stamps(place: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for each in place.iterdir():
        if each.is_file() and not each.name.endswith((".new", ".lock")) and each.name not in (*_LEFT_OUT, _STAYS):
            status = each.stat()
            found[each.name] = (status.st_mtime_ns, status.st_size)
    return found
