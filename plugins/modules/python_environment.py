#!/usr/bin/python
"""Module python_environment: a Python environment of exactly the wheels of a lock."""

from __future__ import annotations

DOCUMENTATION = r"""
module: python_environment
short_description: Make a Python environment of exactly the wheels of a lock
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Makes an environment in C(PATH-KEY) by C(venv) and its pip, and has the link O(path) lead to it. C(KEY) follows from
    the lock and the Python. Another lock makes another environment, and the link changes at once.
  - pip asks the declared mirror alone, whatever its configuration on the host says, and takes wheels alone, each with a
    hash of the lock.
  - An environment that was not finished, that lacks a file of pip's records or has one in another size, or to which
    something was installed, is made anew.
  - The environment that was in use before stays, as something may still run from it. Older ones that this module made
    are removed.
  - Fails while a burn-in is at work, if something has to change.
attributes:
  check_mode: {support: full, description: Says what it would do. Asks no mirror.}
  diff_mode: {support: full, description: Shows the pinned versions before and after.}
options:
  path: {description: Link to the environment in use., type: path, required: true}
  requirements:
    description: Text of the lock. Every requirement is C(NAME==VERSION) with C(--hash=sha256:...).
    type: str
    required: true
  index: {description: Address of a simple index (PEP 503). Either this or O(find_links)., type: str}
  find_links: {description: "Address of a page or directory that links to all wheels, in place of O(index).", type: str}
  python:
    description: Python to make the environment of. Its default is the one that the package python3-venv goes with.
    type: path
  timeout_seconds: {description: Time limit of pip's run., type: float, default: 3600}
"""

EXAMPLES = r"""
- name: Make the environment of PyTorch
  muster.cluster.python_environment:
    path: /opt/muster/pytorch
    requirements: "{{ lookup('ansible.builtin.file', 'pytorch.txt') }}"
    find_links: https://mirror.example.com/wheels/
"""

RETURN = r"""
steps:
  description: Steps that were done, or would be.
  returned: always
  type: list
  elements: str
  sample: ["make /opt/muster/pytorch-0123456789ab: it is not there", /opt/muster/pytorch leads to pytorch-0123456789ab]
"""

import os
from contextlib import nullcontext
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.host.packages import PackageError
from ansible_collections.muster.cluster.plugins.module_utils.host.pinned_environment import (
    PinnedEnvironment,
    PinnedEnvironmentError,
    WheelSource,
    alone_in,
    fault,
    in_use,
    make,
    older,
    pinned_in,
    python_version,
    read_lock,
    remove,
    use,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.running_burn_in import leave_burn_in_alone
from ansible_collections.muster.cluster.plugins.module_utils.host.systems import UnknownSystem, system_here

ARGUMENTS = {
    "path": {"type": "path", "required": True},
    "requirements": {"type": "str", "required": True},
    "index": {"type": "str"},
    "find_links": {"type": "str"},
    "python": {"type": "path"},
    "timeout_seconds": {"type": "float", "default": 3600},
}


def bring(declared: PinnedEnvironment, source: WheelSource, timeout_seconds: float, check: bool) -> list[str]:
    """Make the environment and bring it into use; return what was done, or would be."""
    why, before = fault(declared), in_use(declared.link)
    switched = before != declared.place.name
    unwanted = older(declared) if switched else []
    steps = [f"make {declared.place}: {why}"] if why else []
    steps += [f"{declared.link} leads to {declared.place.name}"] if switched else []
    steps += [f"remove {place}" for place in unwanted]
    if steps:
        leave_burn_in_alone(LocalHost())
    if steps and not check:
        if why:
            make(declared, source, timeout_seconds)
        if switched:
            use(declared)
        for place in unwanted:
            remove(place)
    return steps


def main() -> None:
    """Make the environment."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        required_one_of=[("index", "find_links")],
        mutually_exclusive=[("index", "find_links")],
        supports_check_mode=True,
    )
    params, check, link = module.params, module.check_mode, Path(module.params["path"])
    # Who runs from it need not be who made it.
    os.umask(0o022)
    try:
        pins = read_lock(params["requirements"])
        source = WheelSource(params["index"] or params["find_links"], find_links=params["index"] is None)
        # Refused before anything is made.
        _ = source.options
        before = pinned_in(link)
        python = params["python"] or system_here(LocalHost()).environments_python
        if check and not os.path.lexists(python):
            # The package that brings it is not installed yet either.
            steps = [f"make an environment of {python}, which is not there yet"]
        else:
            declared = PinnedEnvironment(link, pins, python, python_version(LocalHost(), python))
            with nullcontext() if check else alone_in(link.parent):
                steps = bring(declared, source, params["timeout_seconds"], check)
    except (PinnedEnvironmentError, PackageError, UnknownSystem, Unreadable, OSError) as exc:
        module.fail_json(msg=str(exc), steps=[])
    after = [f"{pin.name}=={pin.version}" for pin in pins]
    diff = {
        "before_header": str(link),
        "after_header": str(link),
        "before": "".join(f"{line}\n" for line in before),
        "after": "".join(f"{line}\n" for line in after),
    }
    module.exit_json(changed=bool(steps), steps=steps, diff=diff if steps else {})


if __name__ == "__main__":
    main()
