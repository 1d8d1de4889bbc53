"""The archive of one host: what every probe printed, and a list of what was taken.

A gzip-compressed tar of ``manifest.json`` and, as ``host/raw_outputs.py`` writes them, ``raw/PROBE.txt`` of each probe
and ``raw/outputs.json``. Whoever reads one need not trust who made it: nothing is extracted, and what has another name,
is no regular file or is larger than an archive of ours can be ends the reading.
"""

from __future__ import annotations

import gzip
import json
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Annotated, Any, BinaryIO, cast

from ..examination.registry import PROBES
from ..host.evidence_store import valid_id
from ..host.host import Output
from ..host.raw_outputs import MOST_BYTES, RawError, read_outputs, write_outputs
from ..host.whole_files import PRIVATE
from ..words.errors import MusterError
from ..words.reader import ReadError, Rule, between, plain, read, shown

FORMAT = 1
SUFFIX = ".tar.gz"
MANIFEST = "manifest.json"
_RAW = "raw"
_OUTPUTS = f"{_RAW}/outputs.json"
# ``write_outputs`` counts characters, of up to four bytes each.
MOST_UNPACKED_BYTES = 4 * MOST_BYTES


class HostArchiveError(MusterError, ValueError):
    """An archive that cannot be read; says which file, what was found and what was expected."""


@dataclass(frozen=True)
class Taken:
    """One tool that was run or file that was read: for which probe, its size in bytes, and how much was masked.

    ``what`` is the command line or path. ``masked`` counts the values of secret-like keys that are not in the archive.
    """

    probe: str
    what: str
    size: int
    masked: int


@dataclass(frozen=True)
class Collected:
    """One host as ``muster collect`` saw it; ``outputs`` by probe, ``time`` in seconds since 1970 (UTC)."""

    host: str
    time: float
    outputs: Mapping[str, Output]
    taken: tuple[Taken, ...] = ()
    tool_path: str = ""
    root: str = "/"
    muster_version: str = ""


@dataclass(frozen=True)
class _Manifest:
    """The data of ``manifest.json``, without the number of its format."""

    host: Annotated[str, Rule("letters, digits, '-', '_' and '.'", valid_id)]
    time: Annotated[float, between(0, 1e11)]
    muster_version: str
    tool_path: str
    root: str
    taken: tuple[Taken, ...]


def write_archive(file: BinaryIO, collected: Collected) -> None:
    """Write the archive; what was collected alike gives the same bytes. Raises OSError."""
    seconds = int(collected.time)
    with tempfile.TemporaryDirectory() as place, gzip.GzipFile("", "wb", fileobj=file, mtime=seconds) as packed:
        directory = Path(place)
        write_outputs(directory / _RAW, collected.outputs)
        (directory / MANIFEST).write_text(_manifest_text(collected), encoding="utf-8")
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for path in sorted(each for each in directory.rglob("*") if each.is_file()):
                member = tarfile.TarInfo(path.relative_to(directory).as_posix())
                member.size, member.mtime, member.mode = path.stat().st_size, seconds, PRIVATE
                with path.open("rb") as content:
                    archive.addfile(member, content)


def read_archive(path: Path) -> Collected:
    """Return what ``write_archive`` was given; raises HostArchiveError for anything else."""
    try:
        with path.open("rb") as file:
            members = _members(path, file)
        return Collected(outputs=_outputs(path, members), **vars(_manifest(path, members)))
    except (tarfile.TarError, OSError, EOFError, zlib.error, RecursionError, RawError) as exc:
        raise HostArchiveError(f"{path}: found {exc}, expected an archive of muster collect") from exc


def _manifest_text(collected: Collected) -> str:
    names = (each.name for each in fields(_Manifest))
    data = {"format": FORMAT, **{name: plain(getattr(collected, name)) for name in names}}
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


class _Limited:
    """A stream that ends the reading when more comes out of it than an archive can hold."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path = path
        self._file = file
        self._left = MOST_UNPACKED_BYTES

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise HostArchiveError(f"{self._path}: found more, expected at most {MOST_UNPACKED_BYTES} bytes unpacked")
        return data


def _members(path: Path, file: IO[bytes]) -> dict[str, bytes]:
    """Return the files in the archive by name, once its whole stream was read and found undamaged."""
    expected = {MANIFEST, _OUTPUTS, *map(_text_of, PROBES)}
    members: dict[str, bytes] = {}
    with gzip.GzipFile(fileobj=file) as packed:
        stream = _Limited(path, cast("IO[bytes]", packed))
        with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as archive:
            for member in archive:
                if member.name not in expected or member.name in members:
                    raise HostArchiveError(
                        f"{path}: found {member.name[:100]!r}, expected outputs of probes, each once"
                    )
                content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
                if content is None:
                    raise HostArchiveError(f"{path}: {member.name}: found no regular file, expected one")
                members[member.name] = content.read()
        # The check sum stands at the end.
        while stream.read(65536):
            pass
    return members


def _manifest(path: Path, members: Mapping[str, bytes]) -> _Manifest:
    data = _mapping(path, members, MANIFEST)
    found = data.pop("format", None)
    if found != FORMAT:
        raise HostArchiveError(f"{path}: {MANIFEST}: format: found {shown(found)[:80]}, expected {FORMAT}")
    try:
        return read(_Manifest, data, file=f"{path}: {MANIFEST}")
    except ReadError as exc:
        raise HostArchiveError(str(exc)) from exc


def _outputs(path: Path, members: Mapping[str, bytes]) -> dict[str, Output]:
    # Its keys become paths: they have to be those of the files that are there.
    named = {_text_of(probe) for probe in _mapping(path, members, _OUTPUTS)}
    found = members.keys() - {MANIFEST, _OUTPUTS}
    if named != found:
        differing = ", ".join(sorted(named ^ found))[:200]
        raise HostArchiveError(f"{path}: {_OUTPUTS}: found other probes than files ({differing}), expected the same")
    with tempfile.TemporaryDirectory() as place:
        for name in (_OUTPUTS, *found):
            (Path(place) / Path(name).name).write_bytes(members[name])
        return read_outputs(Path(place))


def _mapping(path: Path, members: Mapping[str, bytes], name: str) -> dict[str, Any]:
    if name not in members:
        raise HostArchiveError(f"{path}: found no {name}, expected one")
    try:
        data = json.loads(members[name])
    except ValueError as exc:
        raise HostArchiveError(f"{path}: {name}: found no JSON ({exc}), expected it") from exc
    if not isinstance(data, dict):
        raise HostArchiveError(f"{path}: {name}: found {shown(data)[:80]}, expected a mapping")
    return data


def _text_of(probe: str) -> str:
    return f"{_RAW}/{probe}.txt"
