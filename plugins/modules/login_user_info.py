#!/usr/bin/python
"""Module login_user_info: as whom Ansible logs in to a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: login_user_info
short_description: Ask a host who logs in
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Reads name, number and groups of the user as whom the module runs, as a login would get them now. Run by sudo, it
    reads those of the user who called sudo.
  - With C(ansible_become) as false that is the user as whom Ansible logs in. Role P(muster.cluster.slurm#role) asks for
    it before it restricts ssh, so that the operator is not locked out.
options: {}
attributes:
  check_mode: {support: full, description: Reads only.}
"""

EXAMPLES = r"""
- name: Ask who logs in
  muster.cluster.login_user_info:
  vars:
    # The keyword would not do: what an inventory says of ansible_become comes before it.
    ansible_become: false
  register: login
"""

RETURN = r"""
name: {description: Name of the user., returned: success, type: str, sample: ops}
uid: {description: Number of the user., returned: success, type: int, sample: 2003}
groups:
  description: Names of all groups of the user, sorted.
  returned: success
  type: list
  elements: str
  sample: [ops, sudo]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.host.login_user import LoginUser, LoginUserError


def main() -> None:
    """Say who this is."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    try:
        module.exit_json(changed=False, **LoginUser.here().to_dict())
    except LoginUserError as exc:
        module.fail_json(msg=str(exc))


if __name__ == "__main__":
    main()
