"""Is the host's system one that the roles know? os-release(5)."""

from __future__ import annotations

import shlex

from ..host.host import Host, Unreadable

# ID, the name for people, and the releases whose packages the roles know; docs/provision.md: what is tested on each.
SYSTEMS = (("debian", "Debian", ("12", "13")), ("ubuntu", "Ubuntu", ("22.04", "24.04")))
FILES = ("/etc/os-release", "/usr/lib/os-release")


def lacks(here: Host) -> list[str]:
    """Return that another system is expected; raises Unreadable. ``here`` is the host itself, under no other root."""
    path = next(iter(here.paths(*FILES)), FILES[0])
    output = here.read(path)
    if output.rc != 0:
        raise Unreadable(output.error)
    fields = _fields(output.stdout)
    name, release = fields.get("ID", ""), fields.get("VERSION_ID", "")
    if any(name == known and release in releases for known, _, releases in SYSTEMS):
        return []
    found = " ".join((fields.get("NAME") or name or "a system without a name", release or "without a version"))
    expected = ", ".join(f"{name} {release}" for _, name, releases in SYSTEMS for release in releases)
    return [f"system: found {found}, expected one of {expected}"]


def _fields(text: str) -> dict[str, str]:
    """Return the assignments of shell syntax; a line that is none says nothing."""
    fields = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and not key.startswith("#"):
            try:
                fields[key] = "".join(shlex.split(value))
            except ValueError:
                continue
    return fields
