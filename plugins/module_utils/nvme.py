"""NVMe drives of a host: which of them a class means, and what each is called in findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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


def nvme_subjects(expect: Mapping[str, Any]) -> list[str]:
    """Return the names of the class's drives: by PCI address where declared, else ``nvme 1`` to ``nvme N``."""
    wanted = expect["nvme"]
    if wanted is None:
        return []
    names = wanted["addresses"] or range(1, wanted["count"] + 1)
    return [f"nvme {name}" for name in names]


def assigned(drives: Sequence[Drive], expect: Mapping[str, Any]) -> dict[str, Drive]:
    """Return the drive of each part of the class that was found.

    Without declared addresses the drives of the declared model (without one: all) count in the order of their PCI
    addresses, so that a boot drive of another model does not stand in for a missing data drive.
    """
    wanted = expect["nvme"]
    if wanted is None:
        return {}
    if wanted["addresses"]:
        found = {drive.address: drive for drive in drives}
        return {f"nvme {address}": found[address] for address in wanted["addresses"] if address in found}
    return dict(zip(nvme_subjects(expect), candidates(drives, wanted)))


def candidates(drives: Sequence[Drive], wanted: Mapping[str, Any]) -> list[Drive]:
    """Return the drives that count where the class declares no addresses, in the order of their PCI addresses."""
    return sorted(
        (drive for drive in drives if wanted["model"] is None or drive.model == wanted["model"]),
        key=lambda drive: drive.address,
    )
