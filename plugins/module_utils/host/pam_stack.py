"""PAM's rules of a service: which files bring a module into its sessions, and how Debian takes one out again.

``/etc/pam.d/common-*`` are pam-auth-update's, which keeps what an administrator has disabled over upgrades of packages.
It changes nothing any more in a file whose list of modules was edited by hand. A profile that is not in its file
``seen`` is a new one, which it enables when it runs for the next package.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..words.errors import MusterError
from .host import Host
from .whole_files import replace_file

DIRECTORY = "/etc/pam.d"
PROFILES = "/usr/share/pam-configs"
SEEN = "/var/lib/pam/seen"
UPDATE_SECONDS = 60.0
# type, control (one word, or several in brackets), module or file: pam.d(5).
_RULE = re.compile(r"-?(?P<kind>\w+)\s+(?P<control>\[[^\]]*\]|\S+)\s+(?P<what>\S+)")


@dataclass(frozen=True)
class Profile:
    """A profile of pam-auth-update, the module that it brings, and the service whose sessions must not run that."""

    name: str
    module: str
    service: str


class PamError(MusterError):
    """A module that cannot be taken out of a service's sessions."""


def files_with(module: str, service: str, kind: str = "session", directory: str = DIRECTORY) -> list[str]:
    """Return the files that bring ``module`` into the rules of one kind of a service, as PAM reads them.

    Raises OSError for a file that cannot be read.
    """
    found: list[str] = []
    seen: set[str] = set()
    waiting = [service]
    while waiting:
        path = Path(directory, waiting.pop())
        if str(path) in seen or not path.exists():
            continue
        seen.add(str(path))
        for what, included in _rules(path.read_text(encoding="utf-8", errors="replace"), kind):
            if included:
                waiting.append(what)
            elif Path(what).name == module and str(path) not in found:
                found.append(str(path))
    return sorted(found)


def disable(host: Host, profile: Profile, check: bool, root: str = "") -> bool:
    """Take a profile's module out of a service's sessions; return whether that changes anything.

    Raises PamError, which says what to edit, where the module comes from a file that pam-auth-update does not write,
    and OSError. ``root`` is put before every path.
    """
    directory = f"{root}{DIRECTORY}"
    found = files_with(profile.module, profile.service, directory=directory)
    brings = f"brings {profile.module} into the sessions of {profile.service}"
    if others := [path for path in found if not Path(path).name.startswith("common-")]:
        raise PamError(f"{others[0]} {brings}: remove it from there")
    if found and not check:
        _update(host, "--disable", profile.name)
        # pam-auth-update 1.4.0, of Ubuntu 22.04, does not know --disable and ignores it.
        if files_with(profile.module, profile.service, directory=directory):
            _update(host, "--remove", profile.name)
    # Not only after --remove, which makes the profile a new one: a run may have been killed right after it.
    was_new = _keep_as_seen(profile.name, check, root)
    if not check and (left := files_with(profile.module, profile.service, directory=directory)):
        raise PamError(
            f"{left[0]} still {brings}: pam-auth-update changes no file that was edited by hand; remove the line"
        )
    return bool(found) or was_new


def _update(host: Host, option: str, name: str) -> None:
    argv = ["env", "DEBIAN_FRONTEND=noninteractive", "pam-auth-update", option, name]
    output = host.run(argv, UPDATE_SECONDS)
    if output.rc != 0:
        said = output.error or output.stderr.strip() or f"exit status {output.rc}"
        raise PamError(f"{shlex.join(argv[2:])}: {said}")


def _keep_as_seen(name: str, check: bool, root: str) -> bool:
    """Write a profile that is there to ``seen``; return whether it was missing in it."""
    seen = Path(f"{root}{SEEN}")
    if not (seen.exists() and Path(f"{root}{PROFILES}", name).exists()):
        return False
    lines = seen.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    if name in lines:
        return False
    if not check:
        replace_file(seen, "".join(f"{line}\n" for line in [*lines, name]))
    return True


def _rules(text: str, kind: str) -> Iterator[tuple[str, bool]]:
    """Yield the modules of the rules of one kind, and the files that are included; the second value tells which."""
    for line in text.replace("\\\n", " ").splitlines():
        words = line.partition("#")[0].split()
        if len(words) > 1 and words[0] == "@include":
            yield words[1], True
        elif (rule := _RULE.match(" ".join(words))) and rule["kind"] == kind:
            yield rule["what"], rule["control"] in ("include", "substack")
