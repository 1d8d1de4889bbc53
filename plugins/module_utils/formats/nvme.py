"""NVMe drives of a host: which of them a class means, and what each is called in findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..words.expectations import Expectations, Nvme


@dataclass(frozen=True)
class Drive:
    """One NVMe controller on PCIe; a field that could not be read is None.

    ``controller`` is the kernel's name (``nvme0``), ``namespace`` that of its first block device (``nvme0n1``).
    """

    controller: str
    address: str
    model: str | None = None
    serial: str | None = None
    firmware: str | None = None
    state: str | None = None
    speed_gt_per_second: float | None = None
    width: int | None = None
    namespace: str | None = None


@dataclass(frozen=True)
class DrivesWanted:
    """The drives that make one array: as many, at these addresses (or of this model), on this NUMA node (None: all)."""

    count: int
    addresses: Sequence[str] | None
    model: str | None
    numa_node: int | None


def nvme_subjects(expect: Expectations) -> list[str]:
    """Return the names of the class's drives: by PCI address where declared, else ``nvme 1`` to ``nvme N``."""
    return [] if expect.nvme is None else _names(expect.nvme)


def _names(wanted: Nvme | DrivesWanted) -> list[str]:
    return [f"nvme {name}" for name in wanted.addresses or range(1, wanted.count + 1)]


def assigned(drives: Sequence[Drive], wanted: Nvme | DrivesWanted | None) -> dict[str, Drive]:
    """Return the drive of each part of the class that was found.

    Without declared addresses the drives of the declared model (without one: all) count in the order of their PCI
    addresses, so that a boot drive of another model does not stand in for a missing data drive.
    """
    if wanted is None:
        return {}
    if wanted.addresses:
        found = {drive.address: drive for drive in drives}
        return {f"nvme {address}": found[address] for address in wanted.addresses if address in found}
    return dict(zip(_names(wanted), candidates(drives, wanted)))


def candidates(drives: Sequence[Drive], wanted: Nvme | DrivesWanted) -> list[Drive]:
    """Return the drives that count where the class declares no addresses, in the order of their PCI addresses."""
    return sorted(
        (drive for drive in drives if wanted.model is None or drive.model == wanted.model),
        key=lambda drive: drive.address,
    )
