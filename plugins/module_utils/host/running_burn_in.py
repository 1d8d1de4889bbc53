"""A burn-in that is at work on this host, under which nothing may change."""

from __future__ import annotations

from .host import Host
from .packages import PackageError
from .systemd import Systemd

BURN_IN = "muster-burn-in.service"


def leave_burn_in_alone(host: Host) -> None:
    """Raise PackageError while a burn-in is at work: a change or a reboot beneath it would be a fault of the host."""
    if Systemd(host).is_active(BURN_IN):
        raise PackageError(
            f"{BURN_IN} is at work on this host: wait for its end, or stop it with 'muster burn-in stop'"
        )
