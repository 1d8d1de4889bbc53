"""How NICs reach GPU memory: by the kernel's DMA-BUF, or by NVIDIA's module ``nvidia_peermem``."""

from __future__ import annotations

import re

from ..host.host import Host

DMABUF, PEERMEM, NONE = "dmabuf", "nvidia_peermem", "none"
# Linux 5.12 let RDMA devices register DMA-BUF memory (ib_umem_dmabuf_get).
DMABUF_KERNEL = (5, 12)
TIMEOUT_SECONDS = 30.0


def why_not(host: Host, method: str) -> str:
    """Return why the kernel cannot do what is declared, empty where it can.

    Nothing is asked for nvidia_peermem: its driver may be yet to come, and the file of a module that cannot be loaded
    looks like any other. Loading it tells.
    """
    if method != DMABUF:
        return ""
    output = host.run(["uname", "-r"], TIMEOUT_SECONDS)
    match = re.match(r"(\d{1,3})\.(\d{1,3})", output.stdout) if output.rc == 0 else None
    if not match:
        return f"the kernel's release could not be read: {output.error or output.stdout.strip()[:60]!r}"
    if (int(match.group(1)), int(match.group(2))) < DMABUF_KERNEL:
        return f"DMA-BUF needs Linux {'.'.join(map(str, DMABUF_KERNEL))} or later, found {output.stdout.strip()}"
    return ""
