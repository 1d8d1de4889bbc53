"""NVIDIA's tools for its NICs: each is one program under two names, of package mstflint and of NVIDIA's MFT.

What they are asked here is the same in mstflint 4.17 (Ubuntu 22.04), 4.21 (Debian 12) and 4.31 (Debian 13), run without
a device. ``mstlink`` of 4.16 (Debian 11) knows no ``--rx_fec_histogram``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..host.host import Host, Unreadable

# Either makes the other unnecessary. Where a host has both, links are read with MFT's, which is the newer one: it comes
# with the NICs' driver, and what it tells of a link grows. Settings are the same in both.
LINK = ("mlxlink", "mstlink")
CONFIG = ("mstconfig", "mlxconfig")
# A version is told without the device: as long as a busy host may take to start a program.
TIMEOUT_SECONDS = 30.0


def tool_of(host: Host, tools: Sequence[str]) -> str:
    """Return the first of the tools that this host has; raises Unreadable, with what was missing, if it has none."""
    missing = []
    for tool in tools:
        output = host.run([tool, "--version"], TIMEOUT_SECONDS)
        if output.rc is not None:
            return tool
        missing.append(output.error)
    raise Unreadable(f"{'; '.join(missing)}: package mstflint has one, NVIDIA's MFT the other")
