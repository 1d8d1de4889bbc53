"""Can the RDMA software be installed that the fleet declares, and does the kernel have what it builds on?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..host.host import Host
from ..nic.peer_memory import why_not
from ..words.expectations import Expectations

DISTRIBUTION, DOCA = "distribution", "doca"


@dataclass(frozen=True)
class RdmaSoftware:
    """What is declared: the backend of the ports (empty on InfiniBand), and where which packages come from.

    ``packages`` is None where the inventory names none and the role's own hold. ``repository`` is the address of the
    mirror, empty unless its key is there too.
    """

    backend: str
    source: str
    packages: Sequence[str] | None
    repository: str

    @property
    def doca(self) -> bool:
        """Return whether DOCA-OFED is to be installed."""
        return self.source == DOCA and self.packages != []


def lacks(here: Host, expect: Expectations, declared: RdmaSoftware) -> list[str]:
    """Return what contradicts or is missing in the declaration, and what the kernel cannot do."""
    if expect.fabric is None:
        return []
    why = why_not(here, expect.fabric.peer_memory) if expect.gpu else ""
    return wrong_source(declared) + ([f"rdma_peer_memory {expect.fabric.peer_memory}: {why}"] if why else [])


def wrong_source(declared: RdmaSoftware) -> list[str]:
    """Return what contradicts the backend, and what is missing to install DOCA-OFED in one version."""
    backend, packages = declared.backend, declared.packages
    if packages == []:
        return []
    if declared.source == DISTRIBUTION:
        if backend != DOCA:
            return []
        why = "as fabric.backend is doca (or backend inbox; or rdma_packages [] if the image has DOCA-OFED)"
        return [f"rdma_source: distribution, expected doca, {why}"]
    whence = f" with fabric.backend {backend}" if backend else ""
    why = f"as rdma_source is doca{whence}"
    wrong = [] if declared.repository else [f"rdma_repository: nothing, expected url and signing_key, {why}"]
    loose = ["none declared"] if packages is None else [package for package in packages if "=" not in package]
    pinned = "expected NAME=VERSION of each, such as doca-ofed=3.1.0-091000"
    return wrong + ([f"rdma_packages: {', '.join(loose)}, {pinned}"] if loose else [])
