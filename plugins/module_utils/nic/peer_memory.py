"""How NICs reach GPU memory: by the kernel's DMA-BUF, or by NVIDIA's module ``nvidia_peermem``."""

from __future__ import annotations

import re

from ..host.host import Host

DMABUF, PEERMEM, NONE = "dmabuf", "nvidia_peermem", "none"
# Linux 5.12 let RDMA devices register DMA-BUF memory (ib_umem_dmabuf_get).
DMABUF_KERNEL = (5, 12)
TIMEOUT_SECONDS = 30.0


def why_not(host: Host, method: str, driver_to_come: bool) -> str:
    """Return why the host cannot do what is declared, empty where it can.

    ``driver_to_come`` says that a host without NVIDIA's driver is to get it yet (check mode): then its module is not
    asked for.
    """
    if method == NONE:
        return ""
    if method == DMABUF:
        output = host.run(["uname", "-r"], TIMEOUT_SECONDS)
        match = re.match(r"(\d{1,3})\.(\d{1,3})", output.stdout) if output.rc == 0 else None
        if not match:
            return f"the kernel's release could not be read: {output.error or output.stdout.strip()[:60]!r}"
        if (int(match.group(1)), int(match.group(2))) < DMABUF_KERNEL:
            return f"DMA-BUF needs Linux {'.'.join(map(str, DMABUF_KERNEL))} or later, found {output.stdout.strip()}"
        return ""
    if _has_module(host, PEERMEM) or (driver_to_come and not _has_module(host, "nvidia")):
        return ""
    return f"kernel module {PEERMEM} is not there: it comes with NVIDIA's driver"


def _has_module(host: Host, name: str) -> bool:
    return host.run(["modinfo", "-n", name], TIMEOUT_SECONDS).rc == 0
