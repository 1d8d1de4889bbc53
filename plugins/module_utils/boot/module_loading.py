"""Kernel modules that a host needs, loaded now or after the reboot for which RDMA modules wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..host.host import Host, Unreadable
from ..nic.kernel_modules import absent, load
from ..probes import rdma_modules


@dataclass(frozen=True)
class Loading:
    """Names that were loaded, or would be, why each of the others is not there, and for which reboot these may wait."""

    loaded: list[str]
    failed: list[str]
    waiting: list[str]

    @property
    def warnings(self) -> list[str]:
        """What to tell of modules that wait for the reboot."""
        waiting = "; ".join(self.waiting)
        return [f"reboot pending for RDMA modules: {waiting}. Until then {why}" for why in self.failed]


def load_absent(host: Host, names: Sequence[str], check: bool) -> Loading:
    """Load what is neither loaded nor built in; ``check`` only says what that is."""
    wanted = absent(host, names)
    tried = {} if check else {name: load(host, name) for name in wanted}
    failed = [why for why in tried.values() if why]
    waiting: list[str] = []
    try:
        waiting = rdma_modules.waiting(host) if failed else []
    except Unreadable as exc:
        failed.append(str(exc))
    return Loading([name for name in wanted if not tried.get(name)], failed, waiting)
