"""What a host's NVMe drives say of its class. Boot drives count too, as nothing tells them apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.formats.nvme import Drive
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Unreadable
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.one_value import one, whole
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.probe_values import ProbeValues

_DRIVES = "Non-Volatile memory controller"


def drive_facts(seen: ProbeValues) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the keys of section nvme, and by key why something could not be read; nvme is None without a drive."""
    try:
        drives = _all_drives(seen)
    except Unreadable as exc:
        return {}, {"nvme": str(exc)}
    if not drives:
        return {"nvme": None}, {}
    values: dict[str, Any] = {"nvme.count": len(drives), "nvme.addresses": [drive.address for drive in drives]}
    unseen = {}
    several = len({drive.model for drive in drives}) > 1
    compared: tuple[tuple[str, Callable[[Drive], Any]], ...] = (
        ("model", lambda drive: drive.model),
        ("firmware", lambda drive: drive.firmware),
        ("link_gt_per_second", lambda drive: drive.speed_gt_per_second and whole(drive.speed_gt_per_second)),
        ("link_width", lambda drive: drive.width),
    )
    for name, read in compared:
        found = {drive.address: read(drive) for drive in drives}
        try:
            values[f"nvme.{name}"] = one(f"{name} of drives", found)
        except Unreadable as exc:
            # No one value holds for drives of several models; a link that is slower than those of its kind is a fault.
            if several and None not in found.values():
                values[f"nvme.{name}"] = None
            else:
                unseen[f"nvme.{name}"] = str(exc)
    return values, unseen


def _all_drives(seen: ProbeValues) -> list[Drive]:
    try:
        return list(seen.value("nvme_sysfs"))
    except Unreadable as exc:
        devices = seen.value_or_none("lspci")
        if devices is None:
            raise Unreadable(f"{exc}, and lspci could not be read") from exc
        found = [device for device in devices.values() if device.kind == _DRIVES]
    links = [(device, device.link) for device in sorted(found, key=lambda device: device.address)]
    return [
        Drive(
            "", device.address, speed_gt_per_second=link.speed_gts if link else None, width=link.width if link else None
        )
        for device, link in links
    ]
