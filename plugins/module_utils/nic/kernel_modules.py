"""Kernel modules that RDMA needs: which of them are not there, and why one could not be loaded."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..host.host import Host, Unreadable
from ..host.secure_boot import lockdown
from .peer_memory import PEERMEM

# Loading may wait for firmware and devices.
TIMEOUT_SECONDS = 120.0

_BUILT_IN = "(builtin)"
# Linux, kernel/module/signing.c: EKEYREJECTED and ENOKEY; EPERM where the kernel is locked down.
_UNTRUSTED = re.compile(r"Key was rejected by service|Required key not available")
_FORBIDDEN = "Operation not permitted"


def absent(host: Host, names: Sequence[str]) -> list[str]:
    """Return the names that are neither loaded nor built into the kernel."""
    return [name for name in names if not _is_loaded(host, name) and not _is_built_in(host, name)]


def load(host: Host, name: str) -> str:
    """Load a module and return why it is not there then, with what to do; empty if it is."""
    output = host.run(("modprobe", name), TIMEOUT_SECONDS)
    if output.rc == 0:
        # "install NAME /bin/true" in modprobe.d ends well too.
        said = "modprobe ended well and loaded nothing: does a file in /etc/modprobe.d forbid it?"
        return f"{name} cannot be loaded: {said}" if absent(host, [name]) else ""
    said = output.error or " ".join(output.stderr.split())[:300] or f"modprobe: exit status {output.rc}"
    return ". ".join(part for part in (f"{name} cannot be loaded: {said}", _advice(host, name, said)) if part)


def _is_loaded(host: Host, name: str) -> bool:
    # The kernel has underscores in all names; modprobe takes dashes too.
    return bool(host.paths(f"/sys/module/{name.replace('-', '_')}"))


def _is_built_in(host: Host, name: str) -> bool:
    # sysfs does not list a built-in module that has neither parameters nor a version.
    output = host.run(("modinfo", "-n", name), TIMEOUT_SECONDS)
    return output.rc == 0 and output.stdout.strip() == _BUILT_IN


def _is_locked(host: Host) -> bool:
    try:
        return bool(lockdown(host))
    except Unreadable:
        return False


def _advice(host: Host, name: str, said: str) -> str:
    if _UNTRUSTED.search(said) or (_FORBIDDEN in said and _is_locked(host)):
        return (
            "Under Secure Boot the kernel takes no module whose signature it does not know: enrol the signer's key "
            "(MOK), or install signed packages"
        )
    if name.replace("-", "_") != PEERMEM:
        return ""
    # NVIDIA's open-gpu-kernel-modules, kernel-open/nvidia-peermem: built without ib_register_peer_memory_client of the
    # RDMA stack, the module is on disk, and its start ends with EINVAL.
    return (
        "It is built with NVIDIA's driver, from the RDMA stack that is there then: build the driver again (dkms) after "
        "DOCA-OFED is installed, or declare peer memory dmabuf"
    )
