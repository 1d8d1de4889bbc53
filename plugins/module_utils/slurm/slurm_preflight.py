"""What a host of Slurm must have before anything is installed on it."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

from .slurm_conf import ConfigurationError, addresses_of, own_name, values_of

SHOWN = 10


def preflight_faults(slurm_conf: str | None, addresses: Sequence[str]) -> list[str]:
    """Return why Slurm cannot work on this host; nothing is changed.

    slurmctld waits at every start for each declared address that does not resolve. A controller has a ``slurm_conf``:
    this must name it, and let it serve its files to the other hosts.
    """
    wrong, wanted = [], list(addresses)
    if slurm_conf is not None:
        try:
            own_name(slurm_conf, socket.gethostname())
            wanted += addresses_of(slurm_conf)
        except ConfigurationError as exc:
            wrong.append(str(exc))
        if not any("enable_configless" in value for value in values_of(slurm_conf, "SlurmctldParameters")):
            wrong.append("SlurmctldParameters lacks enable_configless, by which other hosts get their configuration")
    lost = [address for address in dict.fromkeys(wanted) if not resolves(address)]
    if lost:
        wrong.append(f"{', '.join(lost[:SHOWN])}: does not resolve on this host, expected an address or a known name")
    return wrong


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
