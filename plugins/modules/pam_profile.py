#!/usr/bin/python
"""Module pam_profile: a PAM module that a service's sessions must not run."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pam_profile
short_description: Disable a profile of pam-auth-update
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Takes a PAM module out of the sessions of a service by disabling its profile, on Debian and Ubuntu. Upgrades of
    packages do not enable it again.
  - If the module comes from a file that pam-auth-update does not write, nothing is changed, and the error names the
    file. So it is if the file was edited by hand.
attributes:
  check_mode: {support: full, description: Shows whether the profile would be disabled.}
  diff_mode: {support: none, description: The profile is all there is to show.}
options:
  name: {description: Name of the profile in C(/usr/share/pam-configs)., type: str, required: true}
  module: {description: "PAM module of the profile, such as V(pam_systemd.so).", type: str, required: true}
  service: {description: "Service in C(/etc/pam.d), such as V(sshd).", type: str, required: true}
"""

EXAMPLES = r"""
- name: Keep ssh sessions in the cgroup of their job
  muster.cluster.pam_profile:
    name: systemd
    module: pam_systemd.so
    service: sshd
"""

RETURN = r"""
disabled: {description: Whether the profile was disabled., returned: success, type: bool, sample: true}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.host.pam_stack import PamError, Profile, disable

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "module": {"type": "str", "required": True},
    "service": {"type": "str", "required": True},
}


def main() -> None:
    """Disable the profile."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        changed = disable(LocalHost(), Profile(**module.params), module.check_mode)
    except (PamError, OSError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=changed, disabled=changed)


if __name__ == "__main__":
    main()
