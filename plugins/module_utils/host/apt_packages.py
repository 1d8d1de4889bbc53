"""Declared packages by dpkg and apt: its files, its words, and what it says of the packages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .apt import Apt, checked, parse_available, sources_text
from .host import Host
from .packages import GOING, Declaration, Installed, PackageError, Plan, missing, text_of

# Packages that depend on each other in one exact version, of which apt alone would take the newest.
PARTS = "nvidia-* libnvidia-* libcuda1 libnv* libnccl* datacenter-gpu-manager* firmware-nvidia-* xserver-*-nvidia*"

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_VERSION = re.compile(r"(?:\d+:)?[0-9][A-Za-z0-9.+~-]*")


class AptPackages:
    """The package manager of Debian and Ubuntu, as ``PackageManager`` has it."""

    form = "a Debian package's name and its exact version"

    def __init__(self, host: Host, timeout_seconds: float) -> None:
        self.apt = Apt(host, timeout_seconds)

    def is_package(self, name: str, version: str) -> bool:
        """Return whether this may be a package's name and its version, which may be ""."""
        return bool(_NAME.fullmatch(name) and (not version or _VERSION.fullmatch(version)))

    def status(self) -> dict[str, Installed]:
        """Return all packages that dpkg knows."""
        return self.apt.status()

    def provided(self, names: Sequence[str]) -> set[str]:
        """Return those of the names that an installed package provides."""
        return self.apt.provided() & set(names)

    def files(self, declared: Declaration, going: Sequence[str] = ()) -> dict[str, str]:
        """Return the sources and the preferences."""
        sources = sources_text(declared.repositories, declared.owner) if declared.repositories else ""
        return {_sources(declared): sources, _preferences(declared): preferences_text(declared, going)}

    def declared_before(self, declared: Declaration) -> list[str]:
        """Return the packages that the preferences name, with those that should have gone already."""
        return re.findall(rf"^(?:Package: |{GOING})(\S+)$", text_of(_preferences(declared)), re.MULTILINE)

    def rehearse(self, declared: Declaration, planned: Plan) -> list[str]:
        """Return what apt would remove, on lists of its own; raises PackageError where it would fail."""
        if not planned.install and not declared.repositories:
            return []
        files = self.files(declared)
        with self.apt.private(files) as options:
            unread = "" if declared.stack else self.apt.fetch(options)
            if declared.repositories:
                self.apt.fetch_alone(files[_sources(declared)], options)
            wanted = {name: version for name, _there, version in planned.install if version}
            absent = missing(wanted, parse_available(self.apt.cache("madison", list(wanted), options)))
            if absent:
                raise PackageError(f"no repository has {'; '.join(absent)}; nothing was changed{_unread(unread)}")
            try:
                return self.apt.rehearse(_words(planned), [*_options(planned), *options]) if planned.install else []
            except PackageError as exc:
                raise PackageError(f"{exc}{_unread(unread)}") from exc

    def fetch(self, declared: Declaration, valid_seconds: float) -> str:
        """Fetch the lists of the declared repositories, and all others where those there are older than this."""
        if declared.repositories:
            self.apt.fetch_alone(self.files(declared)[_sources(declared)])
        return self.apt.fetch([]) if self.apt.lists_are_old(valid_seconds) else ""

    def install(self, planned: Plan) -> None:
        """Repair, install and remove, by one call of apt-get."""
        if planned.repair:
            self.apt.repair()
        checked(self.apt.install(_words(planned), _options(planned)), "apt-get install failed")

    def hold(self, names: Sequence[str]) -> None:
        """Keep packages at their version until somebody asks for another."""
        self.apt.hold(names)


def preferences_text(declared: Declaration, going: Sequence[str] = ()) -> str:
    """Return apt's preferences: the declared versions, and the versions that whatever they pull in has to have.

    1001 also goes back to an older version; ``declared_before`` reads the names again.
    """
    pins = sorted(declared.exact.items())
    if declared.stack:
        pins += [(PARTS, version) for version in (*sorted({version for _name, version in pins}), *declared.together)]
    stanzas = [f"Package: {names}\nPin: version {version}\nPin-Priority: 1001" for names, version in pins]
    text = "\n\n".join(["".join(f"{GOING}{name}\n" for name in going) + stanzas[0], *stanzas[1:]]) if stanzas else ""
    return f"# Written by Muster ({declared.owner}); edits are lost.\n{text}\n" if text else ""


def _sources(declared: Declaration) -> str:
    return f"/etc/apt/sources.list.d/{declared.stem}.sources"


def _preferences(declared: Declaration) -> str:
    return f"/etc/apt/preferences.d/{declared.stem}.pref"


def _words(planned: Plan) -> list[str]:
    installed: Mapping[str, str] = {name: version for name, _there, version in planned.install}
    broken = {name for name, _state in planned.repair} - set(installed) - set(planned.remove)
    words = [f"{name}={version}" if version else name for name, version in installed.items()]
    return words + [f"{name}-" for name in planned.remove] + sorted(broken)


def _options(planned: Plan) -> list[str]:
    # Who declares no version has no say in those that somebody else holds.
    exact = planned.remove or any(version for _name, _there, version in planned.install)
    options = ["--allow-downgrades", "--allow-change-held-packages"] if exact else []
    if planned.repair:
        options.append("--fix-broken")
    if any("again" in state for _name, state in planned.repair):
        options.append("--reinstall")
    return options


def _unread(failed: str) -> str:
    return f" (apt-get update: {failed})" if failed else ""
