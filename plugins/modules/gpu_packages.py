#!/usr/bin/python
"""Module gpu_packages: the GPU software of a host in exactly the declared versions."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_packages
short_description: Install a GPU software stack in exact versions
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Installs packages in exactly the declared versions, from the declared repositories. apt keeps them by preferences
    and a hold, dnf by its plugin versionlock. Packages of an earlier declaration that are missing here are removed.
  - Before any change it checks that every version is available and rehearses the whole installation, with its own
    package lists. An interrupted installation is repaired.
  - Contacts no repository if everything is as declared.
  - Returns whether the kernel still runs another driver, which only a reboot changes.
attributes:
  check_mode: {support: full, description: Rehearses everything and changes nothing.}
  diff_mode: {support: full, description: Shows packages and the package manager's files before and after.}
options:
  driver: {description: "The driver's version, such as V(570.86.15).", type: str, required: true}
  packages:
    description: Packages to install, including the driver, whose version fabric manager and IMEX must have.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the package., type: str, required: true}
      version:
        description:
          - Its full version, as C(apt-cache madison) prints it, such as V(570.86.15-0ubuntu1); for dnf with the
            release, and with the epoch unless that is 0, such as V(3:570.86.15-1.el9).
        type: str
        required: true
  repositories:
    description: Repositories of the packages.
    type: list
    elements: dict
    required: true
    suboptions:
      url: {description: Address of a mirror or of NVIDIA's repository., type: str, required: true}
      suite:
        description: Suite; V(/) for a repository without suites, such as NVIDIA's, and for every one of dnf.
        type: str
        default: /
      components: {description: Components of the suite; none for dnf., type: list, elements: str, default: []}
      signing_key: {description: ASCII-armored public key of the repository., type: str, required: true}
  files:
    description:
      - Text of configuration files by absolute path, written before a package starts the unit that reads them.
    type: dict
    default: {}
  kernel_modules:
    description:
      - Kernel modules that the units need, loaded before a package starts one. One that cannot be loaded is an error,
        or a warning while a reboot is pending for RDMA modules (see M(muster.cluster.kernel_modules)).
    type: list
    elements: str
    default: []
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

import math
import os
import re
from collections.abc import Mapping

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.boot.module_loading import load_absent
from ansible_collections.muster.cluster.plugins.module_utils.host.declared_packages import (
    DeclaredPackages,
    check_driver,
    manager_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Host, LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.host.packages import (
    REPOSITORY,
    Declaration,
    PackageError,
    differences,
    shown,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.running_burn_in import leave_burn_in_alone
from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import replace_file

LOADED = "/proc/driver/nvidia/version"
PACKAGE = {"name": {"type": "str", "required": True}, "version": {"type": "str", "required": True}}
ARGUMENTS = {
    "driver": {"type": "str", "required": True},
    "packages": {"type": "list", "elements": "dict", "options": PACKAGE, "required": True},
    "repositories": {"type": "list", "elements": "dict", "options": REPOSITORY, "required": True},
    "files": {"type": "dict", "default": {}},
    "kernel_modules": {"type": "list", "elements": "str", "default": []},
    "root": {"type": "path", "default": "/"},
    "timeout_seconds": {"type": "float", "default": 3600},
}


def loaded_driver(text: str) -> str:
    """Return the version in ``/proc/driver/nvidia/version``; raises PackageError."""
    match = re.search(r"^NVRM version: .*?\s(\d{3,}\.\d+(?:\.\d+)*)(?:\s|$)", text, re.MULTILINE)
    if not match:
        raise PackageError(f"{LOADED}: {text[:80]!r}, expected 'NVRM version: ... 570.86.15 ...'")
    return match.group(1)


def why_reboot(host: Host, driver: str) -> str:
    """Return why the declared driver takes a reboot to run, empty where it runs or nothing is loaded yet."""
    if host.paths("/sys/module/nouveau"):
        return f"kernel module nouveau is loaded, declared is driver {driver}"
    if not host.paths(LOADED):
        return ""
    output = host.read(LOADED)
    if output.rc != 0:
        raise PackageError(output.error)
    loaded = loaded_driver(output.stdout)
    return "" if loaded == driver else f"driver {loaded} is loaded, declared is {driver}"


def check_files(files: Mapping[object, object], own: Mapping[str, str]) -> None:
    """Raise PackageError unless these are texts by absolute path, none of them the package manager's ``own``."""
    for path, text in files.items():
        if not isinstance(path, str) or not path.startswith("/") or path in own:
            raise PackageError(f"files: found {path!r}, expected an absolute path, other than {', '.join(own)}")
        if not isinstance(text, str):
            raise PackageError(f"files: {path}: found {text!r}, expected a text")


def main() -> None:
    """Install the stack."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    os.environ.update(DEBIAN_FRONTEND="noninteractive", NEEDRESTART_MODE="l")
    wanted = {package["name"]: package["version"] for package in params["packages"]}
    driver, own_files = params["driver"], params["files"]
    host, removed = LocalHost(root=params["root"]), []
    try:
        declared = Declaration("gpu_stack", wanted, params["repositories"], stack=True, together=(f"{driver}-*",))
        packages = DeclaredPackages(manager_of(host, params["timeout_seconds"]), declared)
        check_driver(driver, wanted)
        check_files(own_files, packages.files)
        planned = packages.plan()
        changed_files, sources = differences(own_files), packages.differences()
        # Whatever reads a changed file of these is restarted.
        disruptive = planned.disruptive or bool(changed_files)
        if disruptive or why_reboot(host, driver):
            leave_burn_in_alone(host)
        if planned.install or sources:
            removed = packages.rehearse(planned)
        # Before the packages, which start the units, and before files, of which another run would not know that they
        # have changed. At every run: one that could not be loaded is not forgotten.
        loading = load_absent(host, params["kernel_modules"], module.check_mode)
        if loading.failed and not loading.waiting:
            raise PackageError("; ".join(loading.failed))
        if not module.check_mode:
            packages.write()
            for each in changed_files:
                replace_file(each["after_header"], each["after"], 0o644)
            if planned.install or sources:
                # Its own repositories alone: no other has these packages.
                packages.manager.fetch(declared, math.inf)
            packages.install(planned)
        reboot = why_reboot(host, driver)
    except (PackageError, OSError) as exc:
        module.fail_json(msg=str(exc), steps=[], disruptive=False, reboot="")
    steps = planned.steps()
    steps += [f"remove {name}, which goes with what is changed" for name in removed]
    files = [*sources, *changed_files]
    steps += [f"write {each['after_header']}" for each in files]
    steps += [f"load kernel module {name}" for name in loading.loaded]
    for text in loading.warnings:
        module.warn(text)
    module.exit_json(
        changed=bool(steps), steps=steps, disruptive=disruptive, reboot=reboot, diff=[*shown(planned), *files]
    )


if __name__ == "__main__":
    main()
