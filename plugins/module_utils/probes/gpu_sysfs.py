"""What sysfs and ``/proc/driver/nvidia`` tell of the class's GPUs, without asking a GPU for anything that may wait.

Formats: Linux' Documentation/ABI/testing/sysfs-bus-pci (``current_link_width`` ``16``, ``current_link_speed``
``32.0 GT/s PCIe``), and the driver's ``information`` (``GPU UUID: 	 GPU-...``, ``GPU Excluded:	 No``). A device that no
longer answers gives all ones: vendor 0xffff, width 63.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..host import blocks
from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations, gpu_subjects, pci_address

NAME = "gpu_sysfs"
# The kernel's files are documented; no file of the driver's is at hand.
PARTLY_UNVERIFIED = "/proc/driver/nvidia/gpus/*/information"

_DEVICES = "/sys/bus/pci/devices"
_DRIVER = "/proc/driver/nvidia/gpus"
_FILES = ("vendor", "current_link_width", "current_link_speed")
_PATH = re.compile(rf"(?:{_DEVICES}|{_DRIVER})/([^/]+)/(\w+)")
_DEAD_WIDTH = 63


@dataclass(frozen=True)
class GpuNode:
    """One GPU. ``answers`` is whether its configuration space reads as more than all ones; what was not read is None.

    ``driven`` is whether the driver lists it, ``excluded`` whether the driver was told to leave it alone.
    """

    answers: bool | None = None
    width: int | None = None
    speed: str | None = None
    driven: bool = False
    excluded: bool | None = None


def collect(host: Host, expect: Expectations) -> Output:
    """Read four small files of each GPU of the class."""
    paths = []
    for address in gpu_subjects(expect):
        paths += [f"{_DEVICES}/{address}/{name}" for name in _FILES]
        paths.append(f"{_DRIVER}/{address}/information")
    # One that is not there says so: no text at all would be no answer.
    return blocks.joined({path: host.read(path) for path in paths})


def parse(output: Output) -> dict[str, GpuNode]:
    """Return what is known of each GPU by PCI address; one that is not there is not in it. Raises Unreadable."""
    require_success(output)
    files = {path: block for path, block in blocks.split(output.stdout).items() if _PATH.fullmatch(path)}
    if not files:
        raise Unreadable(f"begins with {output.stdout[:60]!r}, expected files below {_DEVICES}")
    texts: dict[str, dict[str, str]] = {}
    for path, block in files.items():
        match = _PATH.fullmatch(path)
        address = pci_address(match.group(1)) if match else None
        if match and address and block.rc == 0:
            texts.setdefault(address, {})[match.group(2)] = block.stdout
    return {address: _node(of) for address, of in texts.items()}


def _node(texts: Mapping[str, str]) -> GpuNode:
    vendor = re.fullmatch(r"0x([0-9a-f]{4})\s*", texts.get("vendor", ""))
    width = re.fullmatch(r"([0-9]{1,3})\s*", texts.get("current_link_width", ""))
    lanes = int(width.group(1)) if width else None
    information = texts.get("information", "")
    excluded = re.search(r"^GPU Excluded:\s*(Yes|No)\s*$", information, re.MULTILINE)
    dead = lanes == _DEAD_WIDTH or (vendor is not None and vendor.group(1) == "ffff")
    return GpuNode(
        answers=False if dead else True if vendor else None,
        width=None if lanes == _DEAD_WIDTH else lanes,
        speed=texts.get("current_link_speed", "").strip() or None,
        driven=bool(re.search(r"^GPU UUID:\s*GPU-[0-9a-f]", information, re.MULTILINE)),
        excluded=excluded.group(1) == "Yes" if excluded else None,
    )
