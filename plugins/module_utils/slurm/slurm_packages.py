"""Slurm's packages of one declared release: which are missing, and which release may follow on which."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..host.apt import Apt, said
from ..host.host import Host
from ..host.packages import Installed, PackageError
from .slurm_releases import RELEASES, pair_fault, served

SOURCES = "/etc/apt/sources.list.d/muster-slurm.sources"
PREFERENCES = "/etc/apt/preferences.d/muster-slurm.pref"

# What SchedMD's own packages (debian/ in Slurm's source since 23.11) call Debian's; theirs hold the plugins already.
SCHEDMD = {
    "slurmctld": "slurm-smd-slurmctld",
    "slurmd": "slurm-smd-slurmd",
    "slurmdbd": "slurm-smd-slurmdbd",
    "slurmrestd": "slurm-smd-slurmrestd",
    "slurm-client": "slurm-smd-client",
    "slurm-wlm-jwt-plugin": "slurm-smd",
    "slurm-wlm-nvml-plugin": "slurm-smd",
    "libpam-slurm": "slurm-smd-libpam-slurm-adopt",
    "libpam-slurm-adopt": "slurm-smd-libpam-slurm-adopt",
}

# Where Slurm looks for plugins, by Debian's packages and by SchedMD's.
PLUGIN_PLACES = ("usr/lib/*/slurm-wlm", "usr/lib/*/slurm")
# What only a Slurm says that was built without NVML (src/interfaces/gpu.c, 20.11 to 26.05): beside it gpu_nvml.so alone
# finds nothing.
_WITHOUT_NVML = b"configured to autodetect nvml functionality, but"

_FIXING = ("--fix-broken",)
_RELEASE = re.compile(r"(?:\d+:)?(\d\d\.\d\d)(?=[.~+-]|$)")
# Debian calls it slurm-wlm, SchedMD slurm.
_SAID = re.compile(r"slurm(?:-wlm)? (\d\d\.\d\d)(?:[.-]\S*)?")


@dataclass(frozen=True)
class Wanted:
    """What is declared: packages by Debian's names, the release of Slurm's own, apt's files of a repository.

    ``controller`` is the release of the slurmctld that has to serve it, "" on hosts of Slurm's own services.
    """

    packages: tuple[str, ...]
    version: str
    files: Mapping[str, str]
    upgrade: bool = False
    controller: str = ""


@dataclass(frozen=True)
class Plan:
    """``install`` is (name, version there or ""); ``files`` are those of apt's that differ."""

    install: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The packages to install."""
        return [name for name, _there in self.install]


def is_slurm(name: str) -> bool:
    """Return whether a package follows Slurm's release."""
    return name in SCHEDMD or name in SCHEDMD.values()


def release_of(version: str) -> str:
    """Return the release in a package's version: ``22.05.8-4+deb12u3`` gives ``22.05``. Raises PackageError."""
    match = _RELEASE.match(version)
    if not match:
        raise PackageError(f"version {version!r}, expected Slurm's such as 22.05.8-4")
    return match.group(1)


def check_step(there: str, wanted: str) -> None:
    """Raise PackageError unless Slurm can go from one release to the other in one step, keeping its state."""
    for release in (there, wanted):
        if release not in RELEASES:
            raise PackageError(f"Slurm {release}, expected one of {', '.join(RELEASES)}")
    if RELEASES.index(wanted) < RELEASES.index(there):
        raise PackageError(f"Slurm {there} is installed, declared is {wanted}: an older one cannot read its state")
    oldest = served(wanted)[0]
    if there not in served(wanted):
        raise PackageError(
            f"Slurm {there} is installed, declared is {wanted}, which reads the state of {oldest} at the earliest: "
            f"upgrade to {oldest} first"
        )


def said_release(text: str) -> str:
    """Return the release in what ``slurmctld -V`` says: ``slurm-wlm 22.05.8`` gives ``22.05``. Raises PackageError."""
    match = _SAID.fullmatch(text.strip())
    if not match:
        raise PackageError(
            f"slurmctld -V on the primary controller: found {text!r}, expected slurm 24.11.5 or the like"
        )
    return match.group(1)


def check_served(controller: str, wanted: str) -> None:
    """Raise PackageError unless a slurmctld serves the release that another host is to get."""
    if fault := pair_fault(controller, wanted):
        raise PackageError(
            f"the primary controller has Slurm {controller}: {fault}; nothing was changed. playbooks/slurm_upgrade.yml "
            "upgrades the controllers before all others; slurm_version in the fleet file gives a host another release"
        )


def preferences_text(version: str) -> str:
    """Return apt's preferences: of all releases that the repositories have, the declared one.

    990 is above every repository's own priority and below 1001, by which apt would also go back to an older version.
    """
    packages = "slurm* libslurm* libpam-slurm* libnss-slurm libpmi*"
    pins = [f"Package: {packages}\nPin: version {each}\nPin-Priority: 990" for each in (f"{version}.*", f"{version}-*")]
    return "# Written by Muster (slurm); edits are lost.\n" + "\n\n".join(pins) + "\n"


def names_of(packages: Sequence[str], known: Mapping[str, object]) -> tuple[str, ...]:
    """Return the packages' names, SchedMD's where ``known`` has that and not Debian's; each once."""
    found = []
    for name in packages:
        other = SCHEDMD.get(name, name)
        found.append(other if name not in known and other in known else name)
    return tuple(dict.fromkeys(found))


def plan(wanted: Wanted, status: Mapping[str, Installed], present: Mapping[str, str]) -> Plan:
    """Return what has to be done; ``present`` are apt's files as they are. Raises PackageError for a refused step."""
    there = {name: package for name, package in status.items() if package.there}
    names = names_of(wanted.packages, there)
    install = []
    for name in names:
        if name not in there or there[name].broken:
            install.append((name, there[name].version if name in there else ""))
        elif is_slurm(name) and release_of(there[name].version) != wanted.version:
            release = release_of(there[name].version)
            check_step(release, wanted.version)
            if not wanted.upgrade:
                kept = wanted.controller and not pair_fault(wanted.controller, release)
                raise PackageError(
                    f"{name} {there[name].version} is installed, declared is Slurm {wanted.version}: "
                    "playbooks/slurm_upgrade.yml goes from one to the other in the order that Slurm needs"
                    + (f'; a host that keeps its release declares slurm_version: "{release}"' if kept else "")
                )
            install.append((name, there[name].version))
    return Plan(tuple(install), tuple(path for path in wanted.files if present.get(path) != wanted.files[path]))


def parse_policy(text: str) -> dict[str, str]:
    """Return the candidate by package from ``apt-cache policy``, without those that have none."""
    found, name = {}, ""
    for line in text.splitlines():
        if line and not line.startswith(" "):
            name = line.rstrip(":")
        elif (value := line.strip().partition("Candidate: ")[2]) and value != "(none)":
            found[name] = value
    return found


def fitting(version: str, candidates: Mapping[str, str]) -> dict[str, str]:
    """Return the candidates that are of the declared release, and those that have releases of their own."""
    return {name: each for name, each in candidates.items() if not is_slurm(name) or release_of(each) == version}


def absent(names: Sequence[str], version: str, candidates: Mapping[str, str]) -> list[str]:
    """Return one word for each package that is not to be had in the declared release."""
    there = fitting(version, candidates)
    return [
        f"{name} (there is {candidates[name]})" if name in candidates else name
        for name in names_of(names, there)
        if name not in there
    ]


def gpu_plugin_fault(kind: str, root: Path) -> str:
    """Return why the Slurm below ``root`` cannot find GPUs by ``AutoDetect=kind``, nothing where it can.

    slurmd itself starts all the same: it logs a line and registers without GPUs, which makes the node invalid.
    """
    found = [each for place in PLUGIN_PLACES for each in root.glob(f"{place}/gpu_{kind}.so")]
    if not found:
        return f"Slurm as installed here has no plugin gpu_{kind}.so"
    core = found[0].with_name("libslurmfull.so")
    if kind == "nvml" and core.is_file() and _WITHOUT_NVML in core.read_bytes():
        return f"{core} was built without NVML, and does not use the plugin beside it"
    return ""


class Packages:
    """Installs what is declared. Every method raises PackageError."""

    def __init__(self, host: Host, wanted: Wanted, timeout_seconds: float, lists_valid_seconds: float) -> None:
        self.host = host
        self.apt = Apt(host, timeout_seconds)
        self.wanted = wanted
        self.lists_valid_seconds = lists_valid_seconds
        # A mirror that is away matters only if what it has is needed: then this is said too.
        self._not_fetched = ""

    def plan(self) -> Plan:
        """Return what has to be done."""
        present = {path: output.stdout for path in self.wanted.files if (output := self.host.read(path)).rc == 0}
        return plan(self.wanted, self.apt.status(), present)

    def rehearse(self, planned: Plan, simulate: bool) -> tuple[bool, tuple[str, ...]]:
        """Return whether lists have to be fetched, and the names to install; what is not to be had is an error.

        Works on lists of its own: nothing on the host is changed.
        """
        if not planned.files and not self.apt.lists_are_old(self.lists_valid_seconds):
            candidates = self._candidates(planned.names, [])
            if not absent(planned.names, self.wanted.version, candidates):
                return False, self._chosen(planned, candidates, simulate, [])
        with self.apt.private(self.wanted.files) as options:
            self._fetch(options)
            candidates = self._candidates(planned.names, options)
            lacking = absent(planned.names, self.wanted.version, candidates)
            if lacking:
                raise PackageError(
                    f"no repository has for Slurm {self.wanted.version}: {', '.join(lacking)}; nothing was changed"
                    f"{self._not_fetched}"
                )
            return True, self._chosen(planned, candidates, simulate, options)

    def install(self, names: Sequence[str], fetch: bool) -> None:
        """Install packages, with new lists if those there turn out to be outdated."""
        # What a run left that was killed in the middle; apt refuses everything else until it is done.
        self.apt.repair()
        if fetch:
            self._fetch([])
        done = self.apt.install(names, _FIXING)
        if done.rc != 0 and not fetch:
            self._fetch([])
            done = self.apt.install(names, _FIXING)
        if done.rc != 0:
            raise PackageError(f"apt-get install {' '.join(names)}: {said(done)}{self._not_fetched}")

    def _chosen(
        self, planned: Plan, candidates: Mapping[str, str], simulate: bool, options: Sequence[str]
    ) -> tuple[str, ...]:
        names = names_of(planned.names, fitting(self.wanted.version, candidates))
        if simulate:
            self.apt.rehearse(names, [*_FIXING, *options])
        return names

    def _candidates(self, names: Sequence[str], options: Sequence[str]) -> dict[str, str]:
        asked = list(dict.fromkeys([*names, *(SCHEDMD[name] for name in names if name in SCHEDMD)]))
        return parse_policy(self.apt.cache("policy", asked, options))

    def _fetch(self, options: Sequence[str]) -> None:
        failed = self.apt.fetch(options)
        self._not_fetched = f" (apt-get update: {failed})" if failed else ""
