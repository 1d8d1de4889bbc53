"""Declared packages on a host: what has to be done to have them, by the host's own manager, and the doing of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .apt_packages import AptPackages
from .dnf_packages import DnfPackages
from .host import Host, LocalHost, Unreadable
from .packages import Declaration, PackageError, PackageManager, Plan, differences, plan
from .systems import APT, UnknownSystem, system_here
from .whole_files import replace_file

# What starts with a driver of its own version alone. The RPM of the fabric manager has another name up to 570.
OF_THE_DRIVER = ("nvidia-fabricmanager", "nvidia-fabric-manager", "nvidia-imex")


def manager_of(host: Host, timeout_seconds: float) -> PackageManager:
    """Return the manager of this host's system; raises PackageError for a system that is in no row of the table."""
    try:
        system = system_here(LocalHost())
    except (UnknownSystem, Unreadable) as exc:
        raise PackageError(str(exc)) from exc
    return AptPackages(host, timeout_seconds) if system.manager == APT else DnfPackages(host, timeout_seconds)


def upstream(version: str) -> str:
    """Return a package's version without epoch and revision: ``1:4.2.3-1`` and ``4.2.3-1.el9`` give ``4.2.3``."""
    return version.rpartition(":")[2].partition("-")[0]


def check_driver(driver: str, packages: Mapping[str, str]) -> None:
    """Raise PackageError unless one of the packages is the driver's, and what needs it goes with it."""
    for name, version in packages.items():
        if name.startswith(OF_THE_DRIVER) and upstream(version) != driver:
            raise PackageError(f"{name} is declared as {version}, the driver as {driver}: it starts with the same only")
    if not any(
        upstream(version) == driver and not name.startswith(OF_THE_DRIVER) for name, version in packages.items()
    ):
        raise PackageError(f"none of the packages {', '.join(packages) or '(none)'} is the driver {driver}")


class DeclaredPackages:
    """The packages of one declaration on one host. Every method raises PackageError."""

    def __init__(self, manager: PackageManager, declared: Declaration) -> None:
        for name, version in declared.packages.items():
            if not manager.is_package(name, version) or (declared.stack and not version):
                raise PackageError(f"package {name!r} {version!r}: expected {manager.form}")
        self.manager = manager
        self.declared = declared
        self.files = self._files()

    def plan(self) -> Plan:
        """Return what has to be done."""
        status = self.manager.status()
        virtual = [name for name, version in self.declared.packages.items() if not version and name not in status]
        provided = self.manager.provided(virtual) if virtual else ()
        return plan(self.declared, self.manager.declared_before(self.declared), status, provided)

    def differences(self) -> list[dict[str, str]]:
        """Return the manager's files that are not as they should be, as a module shows them."""
        return differences(self.files)

    def rehearse(self, planned: Plan) -> list[str]:
        """Return what the plan would remove besides; nothing changes."""
        removed = self.manager.rehearse(self.declared, planned)
        return [name for name in removed if name not in planned.remove]

    def write(self) -> None:
        """Write the manager's files, and remove those that are not to be there."""
        for each in self.differences():
            if each["after"]:
                replace_file(each["after_header"], each["after"], 0o644)
            else:
                Path(each["after_header"]).unlink()

    def install(self, planned: Plan) -> None:
        """Repair, install, remove and hold, and see that it came to that."""
        if planned.disruptive:
            self.manager.install(planned)
            # They name what is to go until it has gone.
            self.files = self._files()
            self.write()
        # A new version comes without the hold of the old one.
        self.manager.hold(self.plan().hold)
        left = self.plan()
        if left.disruptive or left.hold:
            raise PackageError(f"after all steps there was still to do: {'; '.join(left.steps())}")

    def _files(self) -> dict[str, str]:
        before = set(self.manager.declared_before(self.declared)) - set(self.declared.packages)
        if not (self.declared.stack and before):
            return self.manager.files(self.declared)
        there = [name for name, package in self.manager.status().items() if package.there]
        return self.manager.files(self.declared, sorted(before.intersection(there)))
