"""Directories that belong to one user alone, below one where everybody may write: nobody else can move or fill them."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from ..words.errors import MusterError


class ForeignError(MusterError):
    """A directory that somebody else made, or can move or fill; says which, whose it is and what was expected."""


def require_own(directory: str, make: bool = False) -> None:
    """Require a directory that is this process' user's alone; ``make`` makes it, with what is missing on the way.

    From the first directory on in which everybody may write (the root of a storage tier), all has to be this user's.
    Raises ForeignError, and OSError.
    """
    goal, place, shared = Path(directory), Path("/"), False
    for name in goal.parts[1:]:
        place /= name
        if make and not os.path.lexists(place):
            place.mkdir(mode=0o700)
        own = shared or place == goal
        status = place.lstat() if own else place.stat()
        if own and (why := fault_of(str(place), status.st_uid, status.st_mode, os.geteuid())):
            raise ForeignError(why)
        if status.st_mode & stat.S_IWOTH:
            shared = True
            if place == goal or not status.st_mode & stat.S_ISVTX:
                found, expected = f"{stat.S_IMODE(status.st_mode):04o}", "0700" if place == goal else "1777"
                raise ForeignError(f"{place} has mode {found}, expected {expected}: any user can move what is in it")


def fault_of(place: str, uid: int, mode: int, expected: int) -> str:
    """Return why something is no real directory of user ``expected``, "" if it is one."""
    if uid == expected and stat.S_ISDIR(mode):
        return ""
    what = "belongs to" if stat.S_ISDIR(mode) else "is a link of" if stat.S_ISLNK(mode) else "is a file of"
    return f"{place} {what} {_user(uid)}, expected a directory of {_user(expected)}; look who made it, and remove it"


def _user(uid: int) -> str:
    """Return a user as people know it: ``muster (994)``."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return f"user {uid}"
