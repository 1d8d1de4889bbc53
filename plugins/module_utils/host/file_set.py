"""Files of a host and the units that read them: written together, and each unit runs on what is written.

Whether a unit must be restarted is read from the host, not remembered: it started before one of its files changed. The
next run therefore makes up for one that was killed between the two.
"""

from __future__ import annotations

import base64
import binascii
import glob
import os
import pwd
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..words.errors import MusterError
from .host import Host
from .systemd import Systemd
from .whole_files import replace_file

# What is-enabled says of units that start at boot, or that are started by something else and cannot be enabled.
ENABLED = ("enabled", "static", "alias", "generated", "indirect", "transient")
RUNNING = ("active", "reloading")
UNIT_DIRECTORY = "/etc/systemd/"
# Of a file that is made for a block of it.
NEW_MODE = 0o644
# When a unit of a state began to be in it, as systemd calls it.
BEGAN = {
    "active": "ActiveEnterTimestampMonotonic",
    "reloading": "ActiveEnterTimestampMonotonic",
    "activating": "InactiveExitTimestampMonotonic",
}
PROPERTIES = ("ActiveState", "UnitFileState", "NeedDaemonReload", *dict.fromkeys(BEGAN.values()))


class FileSetError(MusterError):
    """A file or unit that cannot be as it is declared."""


@dataclass(frozen=True)
class Block:
    """Lines inside a file that others own too, between two marker lines with ``name``.

    New ones are put below the last line that is ``after``; without one at the end of the file, which need not exist.
    """

    name: str
    after: str | None = None

    def put(self, text: str, content: str, path: str) -> str:
        """Return the file's text with ``content`` as the block, without it if that is empty; raises FileSetError."""
        begin, end = f"# BEGIN {self.name}", f"# END {self.name}"
        lines = text.splitlines()
        if lines.count(begin) != lines.count(end) or lines.count(begin) > 1:
            raise FileSetError(f"{path}: expected the lines {begin!r} and {end!r} once or not at all, found others")
        block = [begin, *content.splitlines(), end] if content else []
        if begin in lines:
            first, last = lines.index(begin), lines.index(end)
            if last < first:
                raise FileSetError(f"{path}: line {end!r} stands before {begin!r}")
            lines[first : last + 1] = block
        elif block:
            below = self._place(lines, path)
            lines[below:below] = block
        return text if lines == text.splitlines() else "".join(f"{line}\n" for line in lines)

    def _place(self, lines: Sequence[str], path: str) -> int:
        """Return the number of lines above a new block."""
        if self.after is None:
            return len(lines)
        places = [number for number, line in enumerate(lines, 1) if line.rstrip() == self.after]
        if not places:
            raise FileSetError(f"{path}: no line {self.after!r}, below which {self.name!r} belongs")
        return places[-1]


@dataclass(frozen=True)
class FileWanted:
    """One file: all of its content, or a ``block`` of it. ``owner`` also stands for the owner's own group.

    Without ``owner`` a new file belongs to the user of the task. A secret shows in no difference. The ``content`` of
    one that does not exist yet is None, which only check mode accepts.
    """

    path: str
    content: bytes | None
    mode: int | None = 0o644
    owner: str | None = None
    block: Block | None = None
    secret: bool = False


@dataclass(frozen=True)
class UnitWanted:
    """One unit, and the ``files`` that it reads when it starts.

    ``started``: enabled and running; ``enabled``: started by something else; ``as_is``: neither. With ``reload`` it is
    reloaded instead of restarted, if it runs and one of its files was written.
    """

    name: str
    files: tuple[str, ...] = ()
    state: Literal["started", "enabled", "as_is"] = "started"
    reload: bool = False


@dataclass
class Applied:
    """What was done, or would be: paths and units by what happened to them."""

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    enabled: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)
    reloaded: list[str] = field(default_factory=list)
    diff: list[dict[str, str]] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything was done."""
        return any((self.written, self.removed, self.enabled, self.started, self.restarted, self.reloaded))


@dataclass(frozen=True)
class _Found:
    """A file as it is; without ``content`` there is none, or something that is no file."""

    content: bytes | None = None
    mode: int | None = None
    owner: str | None = None

    @property
    def text(self) -> str:
        return (self.content or b"").decode("utf-8", "replace")


def decoded(path: str, content: str) -> bytes:
    """Return a secret's bytes from Base64; raises FileSetError, which does not show the content."""
    try:
        return base64.b64decode("".join(content.split()), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise FileSetError(f"the content for {path} is not Base64; nothing was written") from exc


@dataclass(frozen=True)
class FileSet:
    """Files and units of a host; files that the glob patterns ``absent`` match and ``files`` lacks are removed."""

    files: tuple[FileWanted, ...] = ()
    absent: tuple[str, ...] = ()
    units: tuple[UnitWanted, ...] = ()

    def apply(self, host: Host, check: bool = False, done: Applied | None = None) -> Applied:
        """Write what differs, remove what is absent, and see to the units.

        All files are read before the first is written. Raises FileSetError, SystemdError or OSError; ``done`` then
        holds what was done before.
        """
        done = Applied() if done is None else done
        for file, found, content in [(file, *_wanted_content(file, check)) for file in self.files]:
            mode = found.mode if file.mode is None else file.mode
            if (found.content, found.mode, found.owner) == (content, mode, file.owner or found.owner):
                continue
            if not check and content is not None:
                _make_directories(file.path)
                replace_file(file.path, content, NEW_MODE if mode is None else mode, _ids(file.owner))
            done.written.append(file.path)
            done.diff.append(_difference(file, found, content, mode))
        declared = {file.path for file in self.files}
        for path in sorted({path for pattern in self.absent for path in glob.glob(pattern)} - declared):  # noqa: PTH207 -- text
            found = _found(path)
            if not check:
                Path(path).unlink()
            done.removed.append(path)
            done.diff.append(_difference(FileWanted(path, None), found, b"", None))
        _run_units(Systemd(host), self.units, done, check)
        return done


def outdated(properties: Mapping[str, str], files: Iterable[str]) -> bool:
    """Return whether a unit runs, or is starting, since before one of the files changed; ``properties`` are systemd's.

    A time in the future is none of this boot's: the clock was set back since.
    """
    began = BEGAN.get(properties.get("ActiveState", ""))
    if began is None:
        return False
    now = time.time()
    running = time.clock_gettime(time.CLOCK_MONOTONIC) - int(properties[began]) / 1e6
    return any(now - running < Path(path).stat().st_mtime <= now for path in files if Path(path).exists())


def _run_units(systemd: Systemd, units: Sequence[UnitWanted], done: Applied, check: bool) -> None:
    touched = {*done.written, *done.removed}
    if units and not check and any(path.startswith(UNIT_DIRECTORY) for path in touched):
        systemd.reload_files()
    for unit in units:
        properties = systemd.properties(unit.name, PROPERTIES)
        if properties.get("NeedDaemonReload") == "yes" and not check:
            systemd.reload_files()
        for verb, named in _steps(unit, properties, bool(touched.intersection(unit.files)), done, check):
            if not check:
                systemd.do(verb, unit.name)
            named.append(unit.name)


def _steps(
    unit: UnitWanted, properties: Mapping[str, str], written: bool, done: Applied, check: bool
) -> Iterator[tuple[str, list[str]]]:
    """Yield systemctl's verbs for a unit, each with the list of ``done`` in which it counts."""
    runs = properties.get("ActiveState") in RUNNING
    if unit.state != "as_is" and properties.get("UnitFileState") not in ENABLED:
        yield "enable", done.enabled
    if unit.state == "started" and not runs:
        # One that is starting as it was declared before would be waited for, and end as it did before.
        yield "restart" if outdated(properties, unit.files) else "start", done.started
    elif unit.reload:
        if runs and written:
            yield "reload", done.reloaded
    # In check mode a file that would be written does not have its new time yet.
    elif runs and (outdated(properties, unit.files) or (check and written)):
        yield "restart", done.restarted


def _wanted_content(file: FileWanted, check: bool) -> tuple[_Found, bytes | None]:
    found = _found(file.path)
    if file.block is None:
        if file.content is None and not check:
            raise FileSetError(f"no content is given for {file.path}")
        return found, file.content
    content = (file.content or b"").decode("utf-8")
    if found.content is None and (not content or file.block.after is not None or os.path.lexists(file.path)):
        if content:
            raise FileSetError(f"{file.path}: no such file, expected one to put {file.block.name!r} into")
        return found, None
    text = file.block.put((found.content or b"").decode("utf-8", "surrogateescape"), content, file.path)
    return found, text.encode("utf-8", "surrogateescape")


def _found(path: str) -> _Found:
    place = Path(path)
    if not place.is_file() or place.is_symlink():
        return _Found()
    status = place.stat()
    try:
        owner = pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        owner = str(status.st_uid)
    return _Found(place.read_bytes(), status.st_mode & 0o7777, owner)


def _ids(owner: str | None) -> tuple[int, int] | None:
    if owner is None:
        return None
    try:
        user = pwd.getpwnam(owner)
    except KeyError as exc:
        raise FileSetError(f"there is no user {owner}") from exc
    return user.pw_uid, user.pw_gid


def _make_directories(path: str) -> None:
    # Whatever the umask of the task: what reads the files may run as a user of its own, and have a place there too.
    for place in reversed(Path(path).parents):
        if not place.exists():
            place.mkdir()
            place.chmod(0o755)


def _difference(file: FileWanted, found: _Found, content: bytes | None, mode: int | None) -> dict[str, str]:
    before, after = ("absent" if each is None else f"{each:04o}" for each in (found.mode, mode))
    shown = {"before_header": f"{file.path} ({before})", "after_header": f"{file.path} ({after})"}
    if file.secret:
        return {**shown, "before": "", "after": ""}
    return {**shown, "before": found.text, "after": (content or b"").decode("utf-8", "replace")}
