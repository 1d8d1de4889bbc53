#!/usr/bin/python
"""Module gpu_packages: the GPU software of a host in exactly the declared versions."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_packages
short_description: Install a GPU software stack in exact versions
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Installs packages in exactly the declared versions on Debian and Ubuntu, from the declared repositories, and keeps
    these versions by apt preferences and a hold. Packages of an earlier declaration that are missing here are removed.
  - Before any change it checks that every version is available and rehearses the whole installation, with its own
    package lists. An interrupted installation is repaired.
  - Contacts no repository if everything is as declared.
  - Returns whether the kernel still runs another driver, which only a reboot changes.
attributes:
  check_mode: {support: full, description: Rehearses everything and changes nothing.}
  diff_mode: {support: full, description: Shows packages and apt's files before and after.}
options:
  driver: {description: "The driver's version, such as V(570.86.15).", type: str, required: true}
  packages:
    description: Packages to install, including the driver, whose version fabric manager and IMEX must have.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the package., type: str, required: true}
      version: {description: "Its full version, as C(apt-cache madison) prints it.", type: str, required: true}
  repositories:
    description: Repositories of the packages.
    type: list
    elements: dict
    required: true
    suboptions:
      url: {description: Address of a mirror or of NVIDIA's repository., type: str, required: true}
      suite: {description: "Suite; V(/) for a repository without suites, such as NVIDIA's.", type: str, default: /}
      components: {description: Components of the suite., type: list, elements: str, default: []}
      signing_key: {description: ASCII-armored public key of the repository., type: str, required: true}
  files:
    description:
      - Text of configuration files by absolute path, written before a package starts the unit that reads them.
    type: dict
    default: {}
  root: {description: "Prefix of C(/proc) and C(/sys).", type: path, default: /}
  timeout_seconds:
    description: Time limit of one installation, in which DKMS builds kernel modules.
    type: float
    default: 3600
"""

EXAMPLES = r"""
- name: Install the driver and its fabric manager
  muster.cluster.gpu_packages:
    driver: 570.86.15
    packages:
      - {name: nvidia-open-570, version: 570.86.15-0ubuntu1}
      - {name: nvidia-fabricmanager-570, version: 570.86.15-1}
    repositories:
      - url: https://mirror.example.com/cuda/ubuntu2404
        signing_key: "{{ lookup('ansible.builtin.file', 'cuda.asc') }}"
"""

RETURN = r"""
steps:
  description: Steps that were done, or would be.
  returned: always
  type: list
  elements: str
  sample: [install nvidia-open-570 570.86.15-0ubuntu1 in place of 565.57.01-0ubuntu1]
disruptive: {description: Whether what jobs may use changes., returned: always, type: bool, sample: true}
reboot:
  description: Why the host needs a reboot; empty if it does not.
  returned: always
  type: str
  sample: driver 565.57.01 is loaded, declared is 570.86.15
"""

import os
import re
from collections.abc import Mapping

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.apt import (
    REPOSITORY,
    Apt,
    AptError,
    differences,
    listing,
    sources_text,
    text_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.exact_packages import (
    PREFERENCES,
    SOURCES,
    ExactPackages,
    Plan,
    preferences_text,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Host, LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.host.systemd import Systemd
from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import replace_file

BURN_IN = "muster-burn-in.service"
LOADED = "/proc/driver/nvidia/version"
PACKAGE = {"name": {"type": "str", "required": True}, "version": {"type": "str", "required": True}}
ARGUMENTS = {
    "driver": {"type": "str", "required": True},
    "packages": {"type": "list", "elements": "dict", "options": PACKAGE, "required": True},
    "repositories": {"type": "list", "elements": "dict", "options": REPOSITORY, "required": True},
    "files": {"type": "dict", "default": {}},
    "root": {"type": "path", "default": "/"},
    "timeout_seconds": {"type": "float", "default": 3600},
}


def loaded_driver(text: str) -> str:
    """Return the version in ``/proc/driver/nvidia/version``; raises AptError."""
    match = re.search(r"^NVRM version: .*?\s(\d{3,}\.\d+(?:\.\d+)*)(?:\s|$)", text, re.MULTILINE)
    if not match:
        raise AptError(f"{LOADED}: {text[:80]!r}, expected 'NVRM version: ... 570.86.15 ...'")
    return match.group(1)


def why_reboot(host: Host, driver: str) -> str:
    """Return why the declared driver takes a reboot to run, empty where it runs or nothing is loaded yet."""
    if host.paths("/sys/module/nouveau"):
        return f"kernel module nouveau is loaded, declared is driver {driver}"
    if not host.paths(LOADED):
        return ""
    output = host.read(LOADED)
    if output.rc != 0:
        raise AptError(output.error)
    loaded = loaded_driver(output.stdout)
    return "" if loaded == driver else f"driver {loaded} is loaded, declared is {driver}"


def leave_burn_in_alone(host: Host) -> None:
    """Raise AptError while a burn-in is at work: a change or a reboot beneath it would be found a fault of the host."""
    if Systemd(host).is_active(BURN_IN):
        raise AptError(f"{BURN_IN} is at work on this host: wait for its end, or stop it with 'muster burn-in stop'")


def check_files(files: Mapping[object, object]) -> None:
    """Raise AptError unless these are texts by absolute path, none of them apt's own."""
    for path, text in files.items():
        if not isinstance(path, str) or not path.startswith("/") or path in (SOURCES, PREFERENCES):
            raise AptError(f"files: found {path!r}, expected an absolute path, other than {SOURCES} and {PREFERENCES}")
        if not isinstance(text, str):
            raise AptError(f"files: {path}: found {text!r}, expected a text")


def shown(planned: Plan) -> list[dict[str, str]]:
    """Return the packages before and after, as a diff shows them."""
    if not planned.steps():
        return []
    before = [f"{name} {old}" for name, old, _new in planned.install if old]
    before += [*planned.remove, *(f"{name} ({state})" for name, state in planned.repair)]
    after = [f"{name} {new}" for name, _old, new in planned.install]
    after += [f"{name} (installed)" for name, _state in planned.repair] + [f"{name} (held)" for name in planned.hold]
    return [listing(before, after)]


def main() -> None:
    """Install the stack."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    os.environ.update(DEBIAN_FRONTEND="noninteractive", NEEDRESTART_MODE="l")
    wanted = {package["name"]: package["version"] for package in params["packages"]}
    host, removed = LocalHost(root=params["root"]), []
    try:
        check_files(params["files"])
        files = {
            SOURCES: sources_text(params["repositories"]),
            PREFERENCES: preferences_text(params["driver"], wanted),
            **params["files"],
        }
        apt = Apt(host, params["timeout_seconds"])
        packages = ExactPackages(apt, params["driver"], wanted, files)
        planned = packages.plan(text_of(PREFERENCES))
        differ = differences(files)
        # Whatever reads a changed file of these is restarted.
        disruptive = planned.disruptive or any(each["after_header"] in params["files"] for each in differ)
        if disruptive or why_reboot(host, params["driver"]):
            leave_burn_in_alone(host)
        asked = bool(planned.install) or any(each["after_header"] == SOURCES for each in differ)
        if asked:
            removed = packages.rehearse(planned)
        if not module.check_mode:
            for each in differ:
                replace_file(each["after_header"], each["after"], 0o644)
            if asked:
                apt.fetch_alone(files[SOURCES])
            packages.install(planned)
        reboot = why_reboot(host, params["driver"])
    except (AptError, OSError) as exc:
        module.fail_json(msg=str(exc), steps=[], disruptive=False, reboot="")
    steps = planned.steps()
    steps += [f"remove {name}, which apt removes with it" for name in removed]
    steps += [f"write {each['after_header']}" for each in differ]
    module.exit_json(
        changed=bool(steps), steps=steps, disruptive=disruptive, reboot=reboot, diff=[*shown(planned), *differ]
    )


if __name__ == "__main__":
    main()
