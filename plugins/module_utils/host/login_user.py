"""Who logs in to this host: a user, and the groups that the host's directory gives that user."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from ..words.errors import MusterError


class LoginUserError(MusterError):
    """The directory does not know the user; says what is missing."""


@dataclass(frozen=True)
class LoginUser:
    """A user by name and number, with the names of all groups, sorted."""

    name: str
    uid: int
    groups: tuple[str, ...]

    @classmethod
    def here(cls) -> LoginUser:
        """Return the user of this process, or the one who became root for it by sudo; raises LoginUserError.

        The groups are those that a login would get now, as PAM's rules see them: those of the process are as old as
        its connection.
        """
        # ansible_become of the command line (-e) comes before what a task says.
        caller = os.environ.get("SUDO_UID", "")
        uid = int(caller) if caller.isdecimal() else os.getuid()
        try:
            entry = pwd.getpwuid(uid)
        except KeyError as exc:
            raise LoginUserError(f"the host's directory has no user with number {uid}, who has just logged in") from exc
        return cls(entry.pw_name, uid, _names(os.getgrouplist(entry.pw_name, entry.pw_gid)))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {**asdict(self), "groups": list(self.groups)}


def _names(gids: Iterable[int]) -> tuple[str, ...]:
    names = set()
    for gid in gids:
        try:
            names.add(grp.getgrgid(gid).gr_name)
        except KeyError:
            # No rule can name a group without a name.
            continue
    return tuple(sorted(names))
