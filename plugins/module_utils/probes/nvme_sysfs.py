"""``/sys/class/nvme``: every NVMe controller with its identity, PCIe link and state.

Attributes as the Linux kernel documents and prints them: ``model``, ``serial``, ``firmware_rev``, ``address``,
``transport`` and ``state`` of drivers/nvme/host/sysfs.c, ``current_link_speed`` ("32.0 GT/s PCIe", before Linux 5.8
"8 GT/s") and ``current_link_width`` of drivers/pci/pci-sysfs.c. With native multipath a namespace's path below its
controller is called nvme0c0n1 and its block device nvme0n1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..formats.nvme import Drive
from ..host.blocks import read_files, split
from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations, pci_address

NAME = "nvme_sysfs"
_CLASS = "/sys/class/nvme"
_ATTRIBUTES = ("address", "firmware_rev", "model", "serial", "state", "transport")
_LINK = ("current_link_speed", "current_link_width")
NO_DRIVE = "no NVMe controller\n"

_PATH = re.compile(r"/sys/class/nvme/(nvme\d+)/(.+)", re.ASCII)
_NAMESPACE = re.compile(r"nvme(\d+)(?:c\d+)?n(\d+)/size", re.ASCII)
_SPEED = re.compile(r"(\d+(?:\.\d+)?) GT/s(?: PCIe)?", re.ASCII)


def collect(host: Host, expect: Expectations | None = None) -> Output:
    """Read the files once."""
    output = read_files(
        host,
        *(f"{_CLASS}/nvme*/{name}" for name in _ATTRIBUTES),
        *(f"{_CLASS}/nvme*/device/{name}" for name in _LINK),
        f"{_CLASS}/nvme*/nvme*n*/size",
    )
    return output if output.stdout else Output(NO_DRIVE)


def parse(output: Output) -> tuple[Drive, ...]:
    """Return the drives in the order of their PCI addresses; those reached over a network are left out.

    Raises Unreadable.
    """
    if output.stdout == NO_DRIVE:
        return ()
    if not output.stdout.startswith("==> "):
        raise Unreadable(f"begins with {output.stdout[:40]!r}, expected files of {_CLASS}")
    controllers: dict[str, dict[str, str]] = {}
    for path, file in split(output.stdout).items():
        match = _PATH.fullmatch(path)
        if not match:
            raise Unreadable(f"a file {path[:60]!r}, expected files of {_CLASS}")
        fields = controllers.setdefault(match.group(1), {})
        # A file that was not read, or not to its end, says nothing.
        if file.rc == 0 and file.stdout.endswith("\n"):
            fields[match.group(2)] = file.stdout.strip()
    if not controllers:
        raise Unreadable(f"no file of {_CLASS}")
    drives = [_drive(name, fields) for name, fields in controllers.items() if fields.get("transport", "pcie") == "pcie"]
    return tuple(sorted(drives, key=lambda drive: drive.address))


def _drive(name: str, fields: Mapping[str, str]) -> Drive:
    address = pci_address(fields.get("address", ""))
    if address is None:
        raise Unreadable(f"{name}: address is {fields.get('address')!r}, expected a PCI address")
    speed = _SPEED.fullmatch(fields.get("device/current_link_speed", ""))
    width = fields.get("device/current_link_width", "")
    return Drive(
        name,
        address,
        fields.get("model") or None,
        fields.get("serial") or None,
        fields.get("firmware_rev") or None,
        fields.get("state") or None,
        float(speed.group(1)) if speed else None,
        # 0 and 255 are what a link that is down or a device that is gone shows.
        int(width) if width.isascii() and width.isdigit() and 0 < int(width) <= 32 else None,
        _namespace(fields),
    )


def _namespace(fields: Mapping[str, str]) -> str | None:
    """Return the block device with the lowest number that has a size."""
    sizes = ((_NAMESPACE.fullmatch(path), text) for path, text in fields.items())
    names = sorted(
        (int(match.group(2)), f"nvme{match.group(1)}n{match.group(2)}")
        for match, text in sizes
        if match and text.isascii() and text.isdigit() and int(text) > 0
    )
    return names[0][1] if names else None
