"""Replacing whole files: a reader, or a power cut, meets the old file or the new one and nothing between."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

# Of what a node keeps of itself: the kernel's log is in there, and who runs a job on the node need not know it.
PRIVATE = 0o600


def replace_file(
    path: str | Path,
    content: str | bytes,
    mode: int | None = None,
    owner: tuple[int, int] | None = None,
) -> None:
    """Replace a file, or make it and its directories; arguments and errors as for ``replacing``.

    Text is written as UTF-8; what could not be decoded when it was read (``surrogateescape``) is written as it was.
    """
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with replacing(path, mode, owner) as file:
        file.write(data)


@contextmanager
def replacing(path: str | Path, mode: int | None = None, owner: tuple[int, int] | None = None) -> Iterator[BinaryIO]:
    """Give a file to write to that takes the place of ``path`` when the block ends, and is removed when it raises.

    It has its permissions and its owner (user and group number) from the first moment. Without ``mode`` and ``owner``
    it keeps those of the file that it replaces; a new file gets what the umask allows. A process that is not root
    cannot keep another user's file that user's: it becomes its own. A symbolic link is replaced, not followed. Raises
    OSError.
    """
    place = Path(path)
    before = _regular(place)
    if mode is None and before:
        mode = stat.S_IMODE(before.st_mode)
    # ".new": what copies Slurm's state leaves such files out.
    staged = place.with_name(f".{place.name}.{os.urandom(4).hex()}.new")
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if owner is not None:
                os.fchown(descriptor, *owner)
            elif before:
                with suppress(PermissionError):
                    os.fchown(descriptor, before.st_uid, before.st_gid)
            if mode is not None:
                # After the change of owner, which takes away set-user-id bits.
                os.fchmod(descriptor, mode)
            yield file
            file.flush()
            os.fsync(descriptor)
        staged.replace(place)
    except BaseException as exc:
        staged.unlink(missing_ok=True)
        if isinstance(exc, OSError) and exc.filename is None:
            # A full disk is met in writing, which knows no name.
            exc.filename = str(place)
        raise
    sync_directory(place.parent)


@contextmanager
def new_file(path: str | Path, mode: int) -> Iterator[BinaryIO]:
    """Give a file to write to that was not there, and is removed when the block raises; it is never another's.

    It has its permissions, less the umask, from the first moment. Raises FileExistsError, also for a symbolic link that
    leads nowhere, and OSError.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        Path(path).unlink()
        raise


def private_directory(path: str | Path) -> Path:
    """Make a directory that its owner alone may enter, or close one that others may enter; raises OSError."""
    place = Path(path)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if place.stat().st_mode & 0o077:
        place.chmod(0o700)
    return place


def put_in_place(staged: str | Path, path: str | Path) -> None:
    """Give a file that another program has written its name; raises OSError."""
    descriptor = os.open(staged, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    Path(staged).replace(path)
    sync_directory(Path(path).parent)


def replace_link(path: str | Path, target: str | Path) -> None:
    """Make ``path`` a symbolic link to ``target``, whatever it was before; raises OSError."""
    place = Path(path)
    staged = place.with_name(f".{place.name}.{os.urandom(4).hex()}.new")
    staged.symlink_to(target)
    try:
        staged.replace(place)
    except OSError:
        staged.unlink()
        raise
    sync_directory(place.parent)


def sync_directory(path: str | Path) -> None:
    """Have a directory's entries survive a power cut: a file that was renamed does not by itself."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _regular(place: Path) -> os.stat_result | None:
    try:
        status = place.lstat()
    except FileNotFoundError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None
