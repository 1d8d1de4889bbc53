"""The systems that a host may have, and what each calls the packages and units that the roles name.

Roles name packages and units as Debian does. What another system calls otherwise is in this one table; a name that is
not in it is the same there.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..words.errors import MusterError
from .host import Host, Unreadable

APT, DNF = "apt", "dnf"
FILES = ("/etc/os-release", "/usr/lib/os-release")


class UnknownSystem(MusterError):
    """A system that is in no row of the table; says which was found and which are expected."""


@dataclass(frozen=True)
class System:
    """One row: os-release's ``ID``, the name for people, the releases, and what the roles need to know of the system.

    ``packages`` and ``units`` have the names that are not Debian's, by Debian's. ``roles`` are those that configure
    such a host; None for all. ``network`` sets up the rails' interfaces, and ``boot_loader`` is how the kernel's
    parameters are declared. ``time_sources`` is a file of chrony's for servers alone, empty where they are in
    ``/etc/chrony.conf``. Members of the group ``administrators`` may use sudo. ``environments_python`` is the Python of
    environments, which comes with the package python3-venv.
    """

    id: str
    name: str
    releases: tuple[str, ...]
    manager: str = APT
    packages: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    roles: frozenset[str] | None = None
    network: str = "networkd"
    boot_loader: str = "grub"
    time_sources: str = "/etc/chrony/sources.d/muster.sources"
    administrators: str = "sudo"
    environments_python: str = "/usr/bin/python3"

    def knows(self, role: str) -> bool:
        """Return whether a role may configure a host of this system."""
        return self.roles is None or role in self.roles

    def packages_of(self, names: Iterable[str]) -> list[str]:
        """Return the system's names of packages, each once; what follows a ``=`` is a version and stays."""
        split = (name.partition("=") for name in names)
        return list(dict.fromkeys(self.packages.get(name, name) + equals + version for name, equals, version in split))

    def unit_of(self, name: str) -> str:
        """Return the system's name of a unit, with or without ``.service`` as it was given."""
        stem, dot, kind = name.partition(".")
        return f"{self.units.get(stem, stem)}{dot}{kind}" if kind in ("", "service") else name


# BaseOS and AppStream of release 9 have all of them but lldpd, which may have to come from EPEL. NVIDIA lists those of
# RDMA ("RHEL 9.5 Driver Documentation", Important Packages). libibverbs brings the providers, mlx5 among them.
_EL9_PACKAGES = {
    # A file, not a package: curl and curl-minimal have it, and exclude each other.
    "curl": "/usr/bin/curl",
    "ibverbs-providers": "libibverbs",
    "ibverbs-utils": "libibverbs-utils",
    "iproute2": "iproute",
    # /etc/protocols, which every installation has.
    "netbase": "setup",
    "nfs-common": "nfs-utils",
    "nfs-kernel-server": "nfs-utils",
    "procps": "procps-ng",
    # From release 9.4 on. Its own Python is 3.9, and PyTorch 2.9 asks for 3.10 (Requires-Python of its wheels).
    "python3-venv": "python3.12",
}
_EL9_UNITS = {"chrony": "chronyd", "ssh": "sshd"}
# Those of Slurm and OpenSM know Debian's packages and files only. An entry point of such a role that knows more is
# named with it.
_EL9_ROLES = frozenset(
    {
        *("host_base", "rdma", "gpu_stack", "boot", "roce", "infiniband", "nccl", "checkpoint_storage", "burn_in"),
        "slurm/hooks",
    }
)


def _el9(identity: str, name: str) -> System:
    return System(
        identity,
        name,
        ("9",),
        DNF,
        _EL9_PACKAGES,
        _EL9_UNITS,
        _EL9_ROLES,
        network="networkmanager",
        boot_loader="grubby",
        time_sources="",
        administrators="wheel",
        environments_python="/usr/bin/python3.12",
    )


SYSTEMS = (
    System("debian", "Debian", ("12", "13")),
    System("ubuntu", "Ubuntu", ("22.04", "24.04")),
    _el9("rhel", "Red Hat Enterprise Linux"),
    _el9("rocky", "Rocky Linux"),
    _el9("almalinux", "AlmaLinux"),
)

# Fields of a row that roles read in muster_system.
_FOR_ROLES = ("network", "boot_loader", "time_sources", "administrators")
# What a site can do where a role does not know its system.
_INSTEAD = {"slurm": "; for a Slurm of the site declare scheduler.managed: false"}


def expected(role: str = "") -> str:
    """Return the systems that a role knows, in words; all of them without a role."""
    return ", ".join(
        f"{system.name} {release}"
        for system in SYSTEMS
        if not role or system.knows(role)
        for release in system.releases
    )


def system_of(identity: str, release: str, name: str = "") -> System:
    """Return the row of a system by os-release's ``ID`` and ``VERSION_ID``; raises UnknownSystem.

    A release of the table stands for its updates too: ``9`` for ``9.4``.
    """
    for system in SYSTEMS:
        if system.id == identity and any(release == each or release.startswith(f"{each}.") for each in system.releases):
            return system
    raise UnknownSystem(f"system: found {_in_words(identity, release, name)}, expected one of {expected()}")


def refusal(said: Mapping[str, str], roles: Iterable[str]) -> str:
    """Return why roles may not configure a host, empty if all may; ``said`` is what ``read_release`` returns."""
    try:
        system = system_of(said["id"], said["release"], said["name"])
    except UnknownSystem as exc:
        return str(exc)
    found = _in_words(said["id"], said["release"], said["name"])
    return "; ".join(
        f"role {role} does not know {found}, expected one of {expected(role)}{_INSTEAD.get(role, '')}"
        for role in roles
        if not system.knows(role)
    )


def description(said: Mapping[str, str]) -> dict[str, str]:
    """Return ``said`` with what roles have to know of its system, which is empty for one that is in no row."""
    try:
        system = system_of(said["id"], said["release"], said["name"])
    except UnknownSystem:
        return {**said, **dict.fromkeys(_FOR_ROLES, "")}
    return {**said, **{name: getattr(system, name) for name in _FOR_ROLES}}


def parse_release(text: str) -> dict[str, str]:
    """Return os-release's assignments, which are of shell syntax (os-release(5)); a line that is none says nothing."""
    fields = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and not key.startswith("#"):
            try:
                fields[key] = "".join(shlex.split(value))
            except ValueError:
                continue
    return fields


def read_release(here: Host) -> dict[str, str]:
    """Return ``id``, ``release`` and ``name`` of the host's system; raises Unreadable."""
    path = next(iter(here.paths(*FILES)), FILES[0])
    output = here.read(path)
    if output.rc != 0:
        raise Unreadable(output.error)
    fields = parse_release(output.stdout)
    return {"id": fields.get("ID", ""), "release": fields.get("VERSION_ID", ""), "name": fields.get("NAME", "")}


def system_here(here: Host) -> System:
    """Return the row of the host's system; raises UnknownSystem and Unreadable."""
    said = read_release(here)
    return system_of(said["id"], said["release"], said["name"])


def _in_words(identity: str, release: str, name: str) -> str:
    return f"{name or identity or 'a system without a name'} {release or 'without a version'}"
