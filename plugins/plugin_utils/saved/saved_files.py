"""What lies in the places that people name: files, directories, standard input, archives of either kind."""

from __future__ import annotations

import sys
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import MANIFEST, read_archive
from ansible_collections.muster.cluster.plugins.module_utils.collecting.class_names import outputs_for
from ansible_collections.muster.cluster.plugins.module_utils.examination.rejudge import SavedError, saved_outputs
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations

from .saved_text import MOST_BYTES, DamagedTextError, text_of
from .saved_verdicts import Saved

STANDARD_INPUT = "-"
# What ``EvidenceStore.write_raw`` keeps beside the outputs of an examination.
_RAW_LIST = "outputs.json"


def saved_in(path: str, expect: Expectations | None, probe: str = "") -> list[Saved]:
    """Return all that was saved in one place; what cannot be read says so in its ``error``.

    Raises SavedError for a place that is not there, holds nothing, or is an archive or a directory beside ``probe``,
    and HostArchiveError for a damaged archive of ``muster collect``.
    """
    place = Path(path)
    if path == STANDARD_INPUT:
        return [_saved("standard input", path, sys.stdin.buffer.read(), probe)]
    if not place.exists():
        raise SavedError(f"{path}: found nothing, expected a file or a directory")
    archived = None if place.is_dir() else _members(place)
    if probe and (place.is_dir() or archived is not None):
        kind = "a directory" if place.is_dir() else "an archive"
        raise SavedError(f"{path}: {kind} and --probe, expected --probe with what one tool printed")
    if archived is not None:
        return _of_archive(path, archived, expect)
    if not place.is_dir():
        return [_read(place, path, path, probe)]
    if (place / _RAW_LIST).exists():
        # There NICs and drives are named as they were collected, which are others than those of a class.
        if place.resolve().with_name(MANIFEST).exists():
            raise SavedError(f"{path}: outputs of an unpacked archive, expected the archive itself")
        return [Saved(path, path, outputs=saved_outputs(path))]
    files = sorted(each for each in place.rglob("*") if each.is_file() and not each.name.startswith("."))
    if not files:
        raise SavedError(f"{path}: found no file, expected outputs of tools")
    return [_read(each, str(each), str(each.parent), "") for each in files]


def _read(file: Path, name: str, place: str, probe: str) -> Saved:
    try:
        return _saved(name, place, file.read_bytes(), probe)
    except OSError as exc:
        return Saved(name, place, error=f"cannot be read: {exc.strerror or exc}")


def _saved(name: str, place: str, data: bytes, probe: str) -> Saved:
    try:
        return Saved(name, place, text_of(data), probe)
    except DamagedTextError as exc:
        return Saved(name, place, exc.text, probe, error=str(exc))


def _members(path: Path) -> list[tuple[str, bytes]] | None:
    """Return the files of an archive, those of ``muster collect`` by their names alone; None for what is no archive."""
    try:
        if not tarfile.is_tarfile(path):
            return None
        with tarfile.open(path) as archive:
            return list(_contents(path, archive))
    except (tarfile.TarError, OSError, EOFError, zlib.error) as exc:
        raise SavedError(f"{path}: damaged archive: {exc}") from exc


def _contents(path: Path, archive: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    room = MOST_BYTES
    for member in archive:
        content = archive.extractfile(member) if member.isfile() else None
        if content is None:
            continue
        room -= member.size
        if room < 0:
            raise SavedError(f"{path}: unpacks to more than {MOST_BYTES} bytes")
        yield member.name, content.read()


def _of_archive(path: str, members: list[tuple[str, bytes]], expect: Expectations | None) -> list[Saved]:
    if any(Path(name).name == MANIFEST for name, _ in members):
        collected = read_archive(Path(path))
        outputs = outputs_for(collected, expect) if expect else collected.outputs
        return [Saved(path, path, host=collected.host, outputs=outputs)]
    if not members:
        raise SavedError(f"{path}: found no file, expected outputs of tools")
    return [_saved(f"{path}:{name}", f"{path}:{Path(name).parent}", data, "") for name, data in members]
