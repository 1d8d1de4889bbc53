"""Exact package versions on Debian and Ubuntu: what has to be done to have them, and the doing of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .apt import Apt, AptError, Installed, checked, parse_available

SOURCES = "/etc/apt/sources.list.d/muster-gpu-stack.sources"
PREFERENCES = "/etc/apt/preferences.d/muster-gpu-stack.pref"
# Packages that depend on each other in one exact version, of which apt alone would take the newest.
PARTS = "nvidia-* libnvidia-* libcuda1 libnv* libnccl* datacenter-gpu-manager* firmware-nvidia-* xserver-*-nvidia*"
# What starts with a driver of its own version alone.
OF_THE_DRIVER = ("nvidia-fabricmanager", "nvidia-imex")

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_VERSION = re.compile(r"(?:\d+:)?[0-9][A-Za-z0-9.+~-]*")


@dataclass(frozen=True)
class Plan:
    """What brings a host to the declared versions. ``install`` is (name, version there or "", wanted version)."""

    repair: tuple[tuple[str, str], ...] = ()
    install: tuple[tuple[str, str, str], ...] = ()
    remove: tuple[str, ...] = ()
    hold: tuple[str, ...] = ()

    @property
    def disruptive(self) -> bool:
        """Whether software that jobs may be using changes."""
        return bool(self.repair or self.install or self.remove)

    def steps(self) -> list[str]:
        """Return one line for each step."""
        return [
            *(f"repair {name}, which is {state}" for name, state in self.repair),
            *(f"remove {name}" for name in self.remove),
            *(f"install {name} {new}" + (f" in place of {old}" if old else "") for name, old, new in self.install),
            *(f"hold {name}" for name in self.hold),
        ]


def upstream(version: str) -> str:
    """Return a Debian version without epoch and revision: ``1:4.2.3-1`` gives ``4.2.3``."""
    return version.rpartition(":")[2].partition("-")[0]


def check_declaration(driver: str, packages: Mapping[str, str]) -> None:
    """Raise AptError unless the packages are ones, one of them is the driver's, and what needs it goes with it."""
    for name, version in packages.items():
        if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
            raise AptError(f"package {name!r} {version!r}: expected a Debian package's name and its exact version")
        if name.startswith(OF_THE_DRIVER) and upstream(version) != driver:
            raise AptError(f"{name} is declared as {version}, the driver as {driver}: it starts with the same only")
    if not any(
        upstream(version) == driver and not name.startswith(OF_THE_DRIVER) for name, version in packages.items()
    ):
        raise AptError(f"none of the packages {', '.join(packages) or '(none)'} is the driver {driver}")


def preferences_text(driver: str, packages: Mapping[str, str]) -> str:
    """Return apt's preferences: the declared versions, and the same versions for what these packages pull in.

    1001 also goes back to an older version; ``declared_before`` reads the names again.
    """
    versions = [*sorted(set(packages.values())), f"{driver}-*"]
    pins = [*sorted(packages.items()), *((PARTS, version) for version in versions)]
    stanzas = [f"Package: {names}\nPin: version {version}\nPin-Priority: 1001" for names, version in pins]
    return "# Written by Muster (gpu_stack); edits are lost.\n" + "\n\n".join(stanzas) + "\n"


def declared_before(preferences: str) -> list[str]:
    """Return the packages that an earlier declaration named."""
    return re.findall(r"^Package: (\S+)$", preferences, re.MULTILINE)


def plan(wanted: Mapping[str, str], before: Iterable[str], status: Mapping[str, Installed]) -> Plan:
    """Return what has to be done; ``before`` are packages declared earlier, which go when they no longer are."""
    there = {name: package.version for name, package in status.items() if package.state != "config-files"}
    there = {name: version for name, version in there.items() if status[name].state != "not-installed"}
    return Plan(
        repair=tuple((name, _state(package)) for name, package in sorted(status.items()) if package.broken),
        install=tuple(
            (name, there.get(name, ""), version)
            for name, version in sorted(wanted.items())
            if there.get(name) != version
        ),
        remove=tuple(sorted(name for name in set(before) - set(wanted) if name in there)),
        hold=tuple(sorted(name for name in wanted if name not in there or not status[name].held)),
    )


def missing(wanted: Mapping[str, str], available: Mapping[str, Sequence[str]]) -> list[str]:
    """Return one line for each package that no repository has in the wanted version."""
    return [
        f"{name}: wanted {version}, available {', '.join(available.get(name, ())[:6]) or 'none'}"
        for name, version in sorted(wanted.items())
        if version not in available.get(name, ())
    ]


class ExactPackages:
    """A stack of packages in exactly the declared versions. Every method raises AptError."""

    def __init__(self, apt: Apt, driver: str, wanted: Mapping[str, str], files: Mapping[str, str]) -> None:
        check_declaration(driver, wanted)
        self.apt = apt
        self.wanted = wanted
        self.files = files

    def plan(self, preferences: str) -> Plan:
        """Return what has to be done; ``preferences`` are apt's as an earlier declaration left them."""
        return plan(self.wanted, declared_before(preferences), self.apt.status())

    def rehearse(self, planned: Plan) -> list[str]:
        """Return what apt would remove besides; raises AptError if a version is not to be had or fits nothing else."""
        with self.apt.private({path: self.files[path] for path in (SOURCES, PREFERENCES)}) as options:
            self.apt.fetch_alone(self.files[SOURCES], options)
            versions = {name: version for name, _there, version in planned.install}
            absent = missing(versions, parse_available(self.apt.cache("madison", list(versions), options)))
            if absent:
                raise AptError(f"no repository has {'; '.join(absent)}; nothing was changed")
            removed = self.apt.rehearse(_words(planned), [*_options(planned), *options]) if versions else []
        return [name for name in removed if name not in planned.remove]

    def install(self, planned: Plan) -> None:
        """Repair, install, remove and hold, and see that it came to that."""
        if planned.repair:
            self.apt.repair()
        if planned.disruptive:
            checked(self.apt.install(_words(planned), _options(planned)), "apt-get install failed")
        # A new version comes without the hold of the old one.
        self.apt.hold(plan(self.wanted, (), self.apt.status()).hold)
        left = plan(self.wanted, (), self.apt.status())
        if left.disruptive or left.hold:
            raise AptError(f"after all steps there was still to do: {'; '.join(left.steps())}")


def _words(planned: Plan) -> list[str]:
    installed = {name: version for name, _there, version in planned.install}
    broken = {name for name, _state in planned.repair} - set(installed) - set(planned.remove)
    words = [f"{name}={version}" for name, version in installed.items()]
    return words + [f"{name}-" for name in planned.remove] + sorted(broken)


def _options(planned: Plan) -> list[str]:
    options = ["--allow-downgrades", "--allow-change-held-packages"]
    if planned.repair:
        options.append("--fix-broken")
    if any("again" in state for _name, state in planned.repair):
        options.append("--reinstall")
    return options


def _state(package: Installed) -> str:
    return f"{package.state}, to be installed again" if package.reinstall else package.state
