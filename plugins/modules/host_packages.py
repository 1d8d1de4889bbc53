#!/usr/bin/python
"""Module host_packages: packages of a host, from its distribution or a repository of the site."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_packages
short_description: Install packages by the host's own package manager
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Installs what is missing by apt or dnf, without what a package only recommends. Packages have Debian's names; where
    another system calls one otherwise, its name is used.
  - A package with a version is installed in exactly this version, older or newer, and an ordinary upgrade keeps it. One
    without a version is left as it is.
  - Versions that somebody else holds by apt change only for a package with a version.
  - Contacts no repository if everything is there. Otherwise an interrupted installation of dpkg or rpm is repaired
    first.
options:
  owner:
    description: Who declares the packages. The files of repositories and versions have this name, with dashes.
    type: str
    required: true
  packages:
    description: Names of packages, each with C(=VERSION) for exactly this version.
    type: list
    elements: str
    required: true
  repositories:
    description: Repositories of the packages besides those of the host. Files of an earlier list are removed.
    type: list
    elements: dict
    default: []
    suboptions:
      url: {description: Address of the repository., type: str, required: true}
      suite:
        description: Suite; V(/) for a repository without suites, and for every one of dnf.
        type: str
        default: /
      components: {description: Components of the suite; none for dnf., type: list, elements: str, default: []}
      signing_key: {description: ASCII-armored public key of the repository., type: str, required: true}
  lists_valid_seconds:
    description: apt's lists older than this are fetched before something is installed.
    type: float
    default: 86400
  timeout_seconds: {description: Time limit of the installation., type: float, default: 1800}
attributes:
  check_mode:
    support: full
    description: Rehearses the installation with package lists of its own and changes nothing.
  diff_mode: {support: full, description: Shows packages and the package manager's files before and after.}
"""

EXAMPLES = r"""
- name: Install the tools of a test
  muster.cluster.host_packages:
    owner: host_base
    packages: [chrony, stress-ng]

- name: Install one version from a mirror of the site
  muster.cluster.host_packages:
    owner: rdma
    packages: [mstflint=4.34.0-1]
    repositories:
      - url: https://mirror.example.com/doca
        signing_key: "{{ lookup('ansible.builtin.file', 'doca.asc') }}"
"""

RETURN = r"""
steps:
  description: Steps that were done, or would be.
  returned: always
  type: list
  elements: str
  sample: [install stress-ng]
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.declared_packages import DeclaredPackages, manager_of
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.host.packages import (
    REPOSITORY,
    Declaration,
    PackageError,
    Plan,
    shown,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.systems import UnknownSystem, system_here

ARGUMENTS = {
    "owner": {"type": "str", "required": True},
    "packages": {"type": "list", "elements": "str", "required": True},
    "repositories": {"type": "list", "elements": "dict", "options": REPOSITORY, "default": []},
    "lists_valid_seconds": {"type": "float", "default": 86400},
    "timeout_seconds": {"type": "float", "default": 1800},
}


def install(packages: DeclaredPackages, planned: Plan, valid_seconds: float) -> None:
    """Install, with new lists where those there turn out to be outdated; raises PackageError."""
    unread = packages.manager.fetch(packages.declared, valid_seconds)
    try:
        packages.install(planned)
    except PackageError as first:
        # Images are shipped with lists, or without them, whose age says nothing.
        try:
            unread = packages.manager.fetch(packages.declared, 0)
            packages.install(planned)
        except PackageError as exc:
            more = [str(first)] if str(first) != str(exc) else []
            more += [f"lists of packages: {unread}"] if unread else []
            raise PackageError("; ".join([str(exc), *more])) from exc


def main() -> None:
    """Install the packages."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params, host, removed = module.params, LocalHost(), []
    os.environ.update(DEBIAN_FRONTEND="noninteractive", NEEDRESTART_MODE="l")
    try:
        names = system_here(host).packages_of(params["packages"])
        wanted = {name: version for name, _equals, version in (each.partition("=") for each in names)}
        declared = Declaration(params["owner"], wanted, params["repositories"])
        packages = DeclaredPackages(manager_of(host, params["timeout_seconds"]), declared)
        planned, files = packages.plan(), packages.differences()
        if module.check_mode and (planned.install or files):
            removed = packages.rehearse(planned)
        if not module.check_mode:
            packages.write()
            if planned.disruptive:
                install(packages, planned, params["lists_valid_seconds"])
    except (PackageError, UnknownSystem, Unreadable, OSError) as exc:
        module.fail_json(msg=str(exc), steps=[])
    steps = [*planned.steps(), *(f"remove {name}, which goes with what is changed" for name in removed)]
    steps += [f"{'write' if each['after'] else 'remove'} {each['after_header']}" for each in files]
    module.exit_json(changed=bool(steps), steps=steps, diff=[*shown(planned), *files])


if __name__ == "__main__":
    main()
