"""Will the kernel take the modules that are built on the host? Under Secure Boot only with a trusted signature."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from ..host.host import Host
from ..host.secure_boot import lockdown, secure_boot
from ..words.expectations import Expectations

TIMEOUT_SECONDS = 10.0
# Packages that build the driver by DKMS, or pull in one that does, as NVIDIA's and the distributions' are called.
BUILT = ("nvidia-open*", "nvidia-driver*", "nvidia-dkms*", "*-dkms")
# Ubuntu's own builds of the driver, which its key signs.
SIGNED = "linux-modules-nvidia-*"
# Where DKMS keeps the certificate that it signs by: its own, Ubuntu's, or the one that a site configures.
CERTIFICATES = ("/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der")
CONFIGURATION = ("/etc/dkms/framework.conf", "/etc/dkms/framework.conf.d/*.conf")
_CONFIGURED = re.compile(r"^\s*mok_certificate=[\"']?([^\s\"'$]+)", re.MULTILINE)


def lacks(host: Host, here: Host, expect: Expectations, doca: bool, clients: Sequence[str] = ()) -> list[str]:
    """Return which modules would not load; raises Unreadable. ``doca`` says that DOCA-OFED is to be installed.

    ``here`` is the host itself, under no other root; ``clients`` are packages of storage clients that build modules.
    """
    built = _built(host, expect, doca) + [f"the modules of {name}" for name in clients]
    if not built or not (secure_boot(host) or lockdown(host)):
        return []
    why = _not_enrolled(here)
    return [f"Secure Boot: {' and '.join(built)} would not load, as {why}"] if why else []


def _built(host: Host, expect: Expectations, doca: bool) -> list[str]:
    """Return what is going to be built; a kernel that runs such a module already trusts who signed it."""
    names = [package.name for package in expect.gpu_stack.packages] if expect.gpu_stack else []
    drivers = [name for name in names if any(fnmatchcase(name, pattern) for pattern in BUILT)]
    if any(fnmatchcase(name, SIGNED) for name in names) or host.paths("/sys/module/nvidia/version"):
        drivers = []
    ofed = doca and not host.paths("/sys/module/mlx5_core/version")
    return [f"the modules of {', '.join(drivers)}"] * bool(drivers) + ["the modules of DOCA-OFED"] * ofed


def _not_enrolled(here: Host) -> str:
    """Return why the firmware does not trust DKMS's key, with the ways out; "" where it does."""
    ways = (
        "install dkms and mokutil and have its key enrolled (mokutil --import CERTIFICATE, reboot, confirm at the "
        "console), name signed packages, or switch Secure Boot off"
    )
    configured = [name for path in here.paths(*CONFIGURATION) for name in _CONFIGURED.findall(here.read(path).stdout)]
    certificates = here.paths(*CERTIFICATES, *configured)
    if not certificates:
        return f"DKMS has no key yet that signs them: {ways}"
    for certificate in certificates:
        output = here.run(["mokutil", "--test-key", certificate], TIMEOUT_SECONDS)
        if output.rc is None:
            return f"whether {certificate} is enrolled cannot be told ({output.error}): {ways}"
        # Its exit status is 1 for that.
        if "is already enrolled" in output.stdout:
            return ""
    return f"{', '.join(certificates)} is not enrolled: {ways}"
