"""Directories of one user each, below directories that only root may write to: made before the user's job.

If users made their own, anybody could make another's first. Nothing is made or changed through a link, and a directory
that belongs to somebody else is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from ..words.errors import MusterError
from ..words.finding import INCOMPLETE, Finding

NAME = "user_directories"
ROOT = 0
PARENT_MODE, OWN_MODE = 0o755, 0o700


class DirectoryRefused(MusterError):
    """Something at the place of a directory that is not to be trusted."""


def make_all(parents: Iterable[str], uid: int) -> list[Finding]:
    """Make the user's directory below each parent and return a finding for each that could not be made."""
    findings = []
    for parent in parents:
        try:
            make(parent, uid)
        except (DirectoryRefused, OSError) as exc:
            why = f"{exc}: no job of uid {uid} can start here"
            findings.append(Finding(NAME, "host", INCOMPLETE, None, None, "", why, "investigate"))
    return findings


def make(parent: str, uid: int, root: int = ROOT) -> None:
    """Make ``parent``/user-UID, which only that user may enter, and ``parent`` too; raises DirectoryRefused or OSError.

    What is there already is kept, with its contents, if it belongs to the right user.
    """
    name = f"user-{uid}"
    with ExitStack() as opened:
        above = opened.enter_context(_directory(parent, None, (root,), PARENT_MODE))
        # Only root could have left one of root's here: it was stopped before it gave it away.
        own = opened.enter_context(_directory(name, above, (uid, root), OWN_MODE, parent))
        os.fchown(own, uid, -1)


@contextmanager
def _directory(name: str, above: int | None, owners: tuple[int, ...], mode: int, parent: str = "") -> Iterator[int]:
    """Give a descriptor of a directory with this mode, made if there is none, that belongs to one of ``owners``."""
    where = os.path.join(parent, name)  # noqa: PTH118 -- text for people
    with suppress(FileExistsError):
        os.mkdir(name, mode, dir_fd=above)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    except OSError as exc:
        raise DirectoryRefused(f"{where} is no directory, or a link: remove it") from exc
    try:
        found = os.fstat(descriptor)
        if found.st_uid not in owners:
            raise DirectoryRefused(f"{where} belongs to uid {found.st_uid}, expected {owners[0]}: remove it")
        if stat.S_IMODE(found.st_mode) != mode:
            os.fchmod(descriptor, mode)
        yield descriptor
    finally:
        os.close(descriptor)
