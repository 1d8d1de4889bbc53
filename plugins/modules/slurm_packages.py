#!/usr/bin/python
"""Module slurm_packages: Slurm of the declared release, from the distribution or a site's repository."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_packages
short_description: Install the packages of one Slurm release
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Installs packages on Debian and Ubuntu and holds Slurm at the declared release. Missing users and directories of
    Slurm are created first.
  - Before any change it checks that the declared addresses resolve on this host and that the packages of that release
    are available. slurmctld waits at every start for each address that does not resolve.
  - Another installed release is an error, because the daemons of Slurm must be upgraded in order. With O(upgrade) it is
    replaced by a newer release that can read its state.
  - Contacts no repository if everything is installed.
attributes:
  check_mode: {support: full, description: Rehearses the installation and changes nothing.}
  diff_mode: {support: full, description: Shows packages and apt's files before and after.}
options:
  packages:
    description: Debian's package names. SchedMD's packages replace them if only these are available.
    type: list
    elements: str
    required: true
  version: {description: "Slurm's release, such as V(22.05).", type: str, required: true}
  repository:
    description: Repository of this release. If omitted, the repositories of the host are used.
    type: dict
    suboptions:
      url: {description: Address of the repository., type: str, required: true}
      suite: {description: "Suite; V(/) for a repository without suites.", type: str, default: /}
      components: {description: Components of the suite., type: list, elements: str, default: []}
      signing_key: {description: ASCII-armored public key of the repository., type: str, required: true}
  addresses: {description: Addresses that must resolve on this host., type: list, elements: str, default: []}
  slurm_conf:
    description:
      - The C(slurm.conf) of a controller, which must name this host and let it serve its files. Its addresses must
        resolve too.
    type: str
  users:
    description: System users to create, by name, with their uid or none.
    type: dict
    default: {}
  directories:
    description: Directories to create, by path, with their owner.
    type: dict
    default: {}
  controller_says:
    description:
      - What C(slurmctld -V) says on the primary controller, whose slurmctld must be able to serve O(version). Otherwise
        the module fails before any change. Omitted on controllers and the database, and if the controller has no
        slurmctld yet.
    type: str
  upgrade: {description: Whether an older release may be upgraded., type: bool, default: false}
  units:
    description:
      - Daemons that packages must not start, as they need a configuration first. They are stopped while their release
        is replaced.
    type: list
    elements: str
    default: []
  gpu_plugin:
    description:
      - Plugin of slurmd that finds the GPUs. Slurm has to have been built with it.
    type: str
    choices: [nvml, nvidia, nrt]
  lists_valid_seconds:
    description: Package lists older than this are fetched again before a package is looked for.
    type: float
    default: 86400
  timeout_seconds: {description: Time limit of the installation., type: float, default: 1800}
"""

EXAMPLES = r"""
- name: Install a controller
  muster.cluster.slurm_packages:
    packages: [munge, slurmctld, slurm-client]
    version: "22.05"
    addresses: [ctl.example.com]
    users: {slurm: 64030}

- name: Install a node beside a controller of a later release
  muster.cluster.slurm_packages:
    packages: [munge, slurmd]
    version: "23.11"
    controller_says: slurm-wlm 24.11.5
"""

RETURN = r"""
steps:
  description: Steps that were done, or would be.
  returned: always
  type: list
  elements: str
  sample: [install slurmctld]
"""

import grp
import os
import pwd
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.apt import said, sources_text
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Host, LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.host.packages import (
    REPOSITORY,
    PackageError,
    differences,
    listing,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.systemd import Systemd, SystemdError
from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import replace_file
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_packages import (
    PREFERENCES,
    SOURCES,
    Packages,
    Wanted,
    check_served,
    gpu_plugin_fault,
    preferences_text,
    said_release,
)
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_preflight import preflight_faults
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_releases import RELEASES

# slurmctld saves all of its state when it is stopped.
STOP_SECONDS = 300.0
ARGUMENTS = {
    "packages": {"type": "list", "elements": "str", "required": True},
    "version": {"type": "str", "required": True},
    "repository": {"type": "dict", "options": REPOSITORY},
    "addresses": {"type": "list", "elements": "str", "default": []},
    "slurm_conf": {"type": "str"},
    "users": {"type": "dict", "default": {}},
    "directories": {"type": "dict", "default": {}},
    "controller_says": {"type": "str"},
    "upgrade": {"type": "bool", "default": False},
    "units": {"type": "list", "elements": "str", "default": []},
    "gpu_plugin": {"type": "str", "choices": ["nvml", "nvidia", "nrt"]},
    "lists_valid_seconds": {"type": "float", "default": 86400},
    "timeout_seconds": {"type": "float", "default": 1800},
}


def wanted_of(params: dict[str, Any]) -> Wanted:
    """Return what a module's parameters declare; raises PackageError."""
    version = params["version"]
    if version not in RELEASES:
        raise PackageError(f"Slurm {version} is declared, expected one of {', '.join(RELEASES)}")
    controller = "" if params["controller_says"] is None else said_release(params["controller_says"])
    if controller:
        check_served(controller, version)
    files = {}
    if params["repository"]:
        files = {SOURCES: sources_text([params["repository"]], "slurm"), PREFERENCES: preferences_text(version)}
    return Wanted(tuple(params["packages"]), version, files, params["upgrade"], controller)


def missing_users(users: dict[str, Any]) -> dict[str, int | None]:
    """Return the users that are not there; raises PackageError for a number that somebody else has."""
    found = {}
    for name, number in users.items():
        try:
            pwd.getpwnam(name)
            continue
        except KeyError:
            pass
        found[name] = None if number is None else int(number)
        for database, kind in ((pwd.getpwuid, "user"), (grp.getgrgid, "group")):
            try:
                owner = None if number is None else database(int(number))[0]
            except KeyError:
                continue
            if owner is not None:
                raise PackageError(
                    f"user {name} is to have number {number}, which {kind} {owner} has; nothing was changed"
                )
    return found


def require_gpu_plugin(kind: str) -> None:
    """Raise PackageError unless the installed Slurm finds GPUs by this plugin."""
    if fault := gpu_plugin_fault(kind, Path("/")):
        raise PackageError(
            f"gpu_plugin is {kind}: {fault}; expected a Slurm built with it, or GPUs by their device files"
        )


def make_users(host: Host, users: dict[str, int | None]) -> None:
    """Make system users, each with a group of its own."""
    for name, number in users.items():
        numbered = [] if number is None else ["--uid", str(number)]
        # Under 1000 is what useradd calls a system user's; Debian's own slurm is 64030 all the same.
        command = ["useradd", "--system", *numbered, "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
        done = host.run([*command, "--shell", "/usr/sbin/nologin", name], 60)
        if done.rc != 0:
            raise PackageError(f"useradd {name}: {said(done)}")


def make_directories(directories: dict[str, str]) -> None:
    """Make directories of users, readable for all."""
    for path, owner in directories.items():
        Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        Path(path).mkdir(mode=0o755)
        user = pwd.getpwnam(owner)
        os.chown(path, user.pw_uid, user.pw_gid)


def held(units: list[str]) -> list[str]:
    """Return the units that a run which was killed has left unable to start."""
    return [unit for unit in units if _masked(Path(f"/run/systemd/system/{unit}.service"))]


def _masked(path: Path) -> bool:
    return path.is_symlink() and str(path.readlink()) == "/dev/null"


def hold(host: Host, units: list[str], stop: bool) -> None:
    """Keep packages from starting units; those that run are stopped if ``stop``."""
    systemd = Systemd(host, STOP_SECONDS)
    if units and stop:
        # Before they are masked: a masked unit has no KillMode=process, and its stop would kill the running jobs.
        systemd.do("stop", *units)
    if units:
        systemd.do("mask", "--runtime", *units)


def unhold(host: Host, units: list[str]) -> None:
    """Let units start again."""
    if units:
        Systemd(host, STOP_SECONDS).do("unmask", "--runtime", *units)


def main() -> None:
    """Install the packages."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params, host, diff = module.params, LocalHost(), []
    # A daemon is restarted when its configuration is there, not by whoever looks for outdated libraries.
    os.environ.update(DEBIAN_FRONTEND="noninteractive", NEEDRESTART_MODE="l")
    stuck = held(params["units"])
    try:
        # First of all: whatever this run may fail at, their host may be at work.
        if not module.check_mode:
            unhold(host, stuck)
        if faults := preflight_faults(params["slurm_conf"], params["addresses"]):
            raise PackageError("; ".join(faults))
        wanted = wanted_of(params)
        packages = Packages(host, wanted, params["timeout_seconds"], params["lists_valid_seconds"])
        planned = packages.plan()
        users = missing_users(params["users"])
        directories = {path: owner for path, owner in params["directories"].items() if not Path(path).is_dir()}
        diff = differences({path: wanted.files[path] for path in planned.files})
        fetch = False
        names: tuple[str, ...] = ()
        if planned.install or planned.files:
            fetch, names = packages.rehearse(planned, simulate=module.check_mode)
        if not module.check_mode:
            make_users(host, users)
            for path in planned.files:
                replace_file(path, wanted.files[path], 0o644)
            if names:
                # Without its configuration a new slurmd looks for a cluster in DNS, and apt waits for it (Debian 13).
                replaced = any(version for _name, version in planned.install)
                units = [unit for unit in params["units"] if replaced or not Systemd(host).is_active(unit)]
                try:
                    hold(host, units, stop=replaced)
                    packages.install(names, fetch)
                finally:
                    unhold(host, units)
                left = packages.plan().names
                if left:
                    raise PackageError(f"after apt-get install these were still to be installed: {', '.join(left)}")
            # What a package brings is the package's.
            make_directories({path: owner for path, owner in directories.items() if not Path(path).is_dir()})
        # Packages that are not there yet cannot be looked into.
        if params["gpu_plugin"] and not (module.check_mode and names):
            require_gpu_plugin(params["gpu_plugin"])
    except (PackageError, SystemdError, OSError, KeyError) as exc:
        module.fail_json(msg=str(exc), steps=[])
    there = dict(planned.install)
    steps = [f"let {unit} start again" for unit in stuck]
    steps += [f"make user {name}" for name in users]
    steps += [f"write {path}" for path in planned.files]
    steps += [f"install {name}" + (f" in place of {there[name]}" if there.get(name) else "") for name in names]
    steps += [f"make {path}" for path in directories]
    if names:
        before = [f"{name} {version}" for name, version in planned.install if version]
        diff.append(listing(before, planned.names))
    module.exit_json(changed=bool(steps), steps=steps, diff=diff)


if __name__ == "__main__":
    main()
