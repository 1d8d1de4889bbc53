#!/usr/bin/python
"""Module slurm_preflight: what a host of Slurm must have before anything is installed on it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_preflight
short_description: Check that the declared addresses of Slurm's hosts resolve
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Looks up every declared address that is not a number, as slurmctld waits for each that does not resolve at every
    start.
  - On a controller, also checks that C(slurm.conf) names it, and that it serves its files to the other hosts.
  - Fails with all that is wrong; changes nothing.
attributes:
  check_mode: {support: full, description: Reads only.}
  diff_mode: {support: none, description: Changes nothing.}
options:
  slurm_conf:
    description: The C(slurm.conf) that this controller is to have; none on another host.
    type: str
  addresses: {description: Further addresses to look up., type: list, elements: str, default: []}
"""

EXAMPLES = r"""
- name: Check that the controller can be found
  muster.cluster.slurm_preflight:
    addresses: [ctl.example.com]
"""

RETURN = r"""
addresses: {description: How many addresses were looked at., returned: success, type: int, sample: 5}
"""

import ipaddress
import socket

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_conf import (
    ConfigurationError,
    addresses_of,
    own_name,
    values_of,
)

ARGUMENTS = {
    "slurm_conf": {"type": "str"},
    "addresses": {"type": "list", "elements": "str", "default": []},
}


def resolves(address: str) -> bool:
    """Return whether this host finds the address."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        try:
            socket.getaddrinfo(address, None)
        except OSError:
            return False
    return True


def main() -> None:
    """Check."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    text, wrong = module.params["slurm_conf"], []
    addresses = list(module.params["addresses"])
    if text is not None:
        try:
            own_name(text, socket.gethostname())
            addresses += addresses_of(text)
        except ConfigurationError as exc:
            wrong.append(str(exc))
        if not any("enable_configless" in value for value in values_of(text, "SlurmctldParameters")):
            wrong.append("SlurmctldParameters lacks enable_configless, by which other hosts get their configuration")
    lost = [address for address in dict.fromkeys(addresses) if not resolves(address)]
    if lost:
        wrong.append(f"{', '.join(lost[:10])}: does not resolve on this host, expected an address or a known name")
    if wrong:
        module.fail_json(msg="; ".join(wrong))
    module.exit_json(changed=False, addresses=len(set(addresses)))


if __name__ == "__main__":
    main()
