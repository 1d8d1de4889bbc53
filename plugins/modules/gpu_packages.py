#!/usr/bin/python
"""Module gpu_packages: the GPU software of a host in exactly the declared versions."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_packages
short_description: Install a GPU software stack in exact versions
version_added: 0.1.0
author: The Muster developers
description:
  - Brings packages to exactly the declared versions on Debian and Ubuntu, from the declared repositories, and keeps
    them there by apt's preferences and by a hold. What an earlier declaration named and this one does not is removed.
  - Before anything is changed, every wanted version is looked for and the whole installation is rehearsed, on package
    lists that are the module's own. An installation that stopped half way is repaired.
  - Where all is as declared, no repository is asked.
  - Tells whether the kernel runs another driver than the declared one, which takes a reboot to change.
attributes:
  check_mode: {support: full, description: Rehearses everything and changes nothing.}
  diff_mode: {support: full, description: Shows packages and apt's files before and after.}
options:
  driver: {description: "The driver's version, such as V(570.86.15).", type: str, required: true}
  packages:
    description: Packages to install, the driver's among them; a fabric manager has to be of the driver's version.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the package., type: str, required: true}
      version: {description: "Its whole version, as C(apt-cache madison) prints it.", type: str, required: true}
  repositories:
    description: Where the packages are.
    type: list
    elements: dict
    required: true
    suboptions:
      url: {description: Address of a mirror or of NVIDIA's repository., type: str, required: true}
      suite: {description: "Suite; V(/) is a repository without suites, as NVIDIA's are.", type: str, default: /}
      components: {description: Components of the suite., type: list, elements: str, default: []}
      signing_key: {description: ASCII-armored public key of the repository., type: str, required: true}
  drop_ins:
    description:
      - Text by unit of a drop-in C(muster.conf), there before a package starts its unit.
    type: dict
    default: {}
  root: {description: "What stands before C(/proc) and C(/sys).", type: path, default: /}
  timeout_seconds:
    description: Time limit of one installation. DKMS builds kernel modules meanwhile.
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
  description: What was done, or would be.
  returned: always
  type: list
  elements: str
  sample: [install nvidia-open-570 570.86.15-0ubuntu1 in place of 565.57.01-0ubuntu1]
disruptive: {description: Whether software that jobs may use changes., returned: always, type: bool, sample: true}
reboot:
  description: Why the host has to be rebooted, empty if it has not.
  returned: always
  type: str
  sample: driver 565.57.01 is loaded, declared is 570.86.15
"""

import os
import re
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.apt import (
    PREFERENCES,
    SOURCES,
    Apt,
    AptError,
    Plan,
    check_declaration,
    declared_before,
    plan,
    preferences_text,
    sources_text,
)
from ansible_collections.muster.cluster.plugins.module_utils.host import Host, LocalHost

BURN_IN = "muster-burn-in.service"
LOADED = "/proc/driver/nvidia/version"
REPOSITORY = {
    "url": {"type": "str", "required": True},
    "suite": {"type": "str", "default": "/"},
    "components": {"type": "list", "elements": "str", "default": []},
    "signing_key": {"type": "str", "required": True, "no_log": False},
}
PACKAGE = {"name": {"type": "str", "required": True}, "version": {"type": "str", "required": True}}
ARGUMENTS = {
    "driver": {"type": "str", "required": True},
    "packages": {"type": "list", "elements": "dict", "options": PACKAGE, "required": True},
    "repositories": {"type": "list", "elements": "dict", "options": REPOSITORY, "required": True},
    "drop_ins": {"type": "dict", "default": {}},
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
    if host.run(["systemctl", "is-active", "--quiet", BURN_IN], 30).rc == 0:
        raise AptError(f"{BURN_IN} is at work on this host: wait for its end, or stop it with 'muster burn-in stop'")


def text_of(path: str) -> str:
    """Return a file's text, nothing where there is none."""
    return Path(path).read_text(encoding="utf-8") if Path(path).exists() else ""


def put(path: str, text: str) -> None:
    """Replace a file as a whole."""
    staged = Path(f"{path}.muster-new")
    staged.parent.mkdir(mode=0o755, exist_ok=True)
    staged.write_text(text, encoding="utf-8")
    staged.chmod(0o644)
    staged.replace(path)


def reconcile(apt: Apt, driver: str, wanted: dict[str, str], files: dict[str, str], check: bool) -> tuple[Plan, list]:
    """Bring packages and apt's files to what is declared; return the plan and the files that differ."""
    check_declaration(driver, wanted)
    before = {path: text_of(path) for path in files}
    planned = plan(wanted, declared_before(before[PREFERENCES]), apt.status())
    differ = [path for path in files if before[path] != files[path]]
    if planned.disruptive:
        leave_burn_in_alone(apt.host)
    if planned.install or SOURCES in differ:
        apt.rehearse(files[SOURCES], files[PREFERENCES], planned)
    if not check:
        for path in differ:
            put(path, files[path])
        if planned.install or SOURCES in differ:
            apt.update()
        if planned.disruptive:
            apt.change(planned)
        # A new version comes without the hold of the old one.
        apt.hold(plan(wanted, (), apt.status()).hold)
        left = plan(wanted, (), apt.status())
        if left.disruptive or left.hold:
            raise AptError(f"after all steps there was still to do: {'; '.join(left.steps())}")
    diff = [
        {"before_header": path, "after_header": path, "before": before[path], "after": files[path]} for path in differ
    ]
    return planned, diff


def listing(planned: Plan) -> dict[str, str]:
    """Return the packages before and after, as a diff shows them."""
    before = [f"{name} {old}" for name, old, _new in planned.install if old] + [f"{name}" for name in planned.remove]
    before += [f"{name} ({state})" for name, state in planned.repair]
    after = [f"{name} {new}" for name, _old, new in planned.install] + [
        f"{name} (installed)" for name, _ in planned.repair
    ]
    after += [f"{name} (held)" for name in planned.hold]
    heads = {"before_header": "packages", "after_header": "packages"}
    return {**heads, "before": "".join(f"{line}\n" for line in before), "after": "".join(f"{line}\n" for line in after)}


def main() -> None:
    """Install the stack."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    os.environ.update(DEBIAN_FRONTEND="noninteractive", NEEDRESTART_MODE="l")
    wanted = {package["name"]: package["version"] for package in params["packages"]}
    host = LocalHost(root=params["root"])
    try:
        files = {
            SOURCES: sources_text(params["repositories"]),
            PREFERENCES: preferences_text(params["driver"], wanted),
            **{f"/etc/systemd/system/{unit}.d/muster.conf": text for unit, text in params["drop_ins"].items()},
        }
        apt = Apt(host, params["timeout_seconds"])
        if why_reboot(host, params["driver"]):
            leave_burn_in_alone(host)
        planned, diff = reconcile(apt, params["driver"], wanted, files, module.check_mode)
        reboot = why_reboot(host, params["driver"])
    except AptError as exc:
        module.fail_json(msg=str(exc), steps=[], disruptive=False, reboot="")
    steps = planned.steps()
    steps += [f"write {each['after_header']}" for each in diff]
    module.exit_json(
        changed=bool(steps),
        steps=steps,
        disruptive=planned.disruptive,
        reboot=reboot,
        diff=[*([listing(planned)] if planned.steps() else []), *diff],
    )


if __name__ == "__main__":
    main()
