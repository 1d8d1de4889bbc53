"""What Secure Boot and the kernel's lockdown keep root from doing: unsigned modules, writes to PCI registers.

The kernel's lockdown and its modes: kernel_lockdown(7); distributions turn on ``integrity`` under Secure Boot. The
variable: UEFI specification, Globally Defined Variables; efivarfs puts four bytes of attributes before its one byte
(Linux, Documentation/filesystems/efivarfs.rst).
"""

from __future__ import annotations

import re

from .host import Host, Unreadable

LOCKDOWN = "/sys/kernel/security/lockdown"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def lockdown(host: Host) -> str:
    """Return ``integrity`` or ``confidentiality``, "" where the kernel is not locked down; raises Unreadable."""
    if not host.paths(LOCKDOWN):
        return ""
    output = host.read(LOCKDOWN)
    match = re.search(r"\[(none|integrity|confidentiality)\]", output.stdout)
    if not match:
        raise Unreadable(f"{LOCKDOWN}: found {output.error or repr(output.stdout.strip()[:60])}, expected one mode")
    return "" if match.group(1) == "none" else match.group(1)


def secure_boot(host: Host) -> bool:
    """Return whether the host was booted with Secure Boot; raises Unreadable."""
    if not host.paths(SECURE_BOOT):
        return False
    output = host.read(SECURE_BOOT)
    if len(output.stdout) != 5 or output.stdout[-1] not in "\0\1":
        found = output.error or f"{len(output.stdout)} bytes"
        raise Unreadable(f"{SECURE_BOOT}: found {found}, expected five bytes that end in 0 or 1")
    return output.stdout[-1] == "\1"
