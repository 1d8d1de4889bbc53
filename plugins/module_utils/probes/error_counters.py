"""Counters in sysfs that only grow when something is wrong: links that went down, memory errors.

Formats: Linux' Documentation/ABI/stable/sysfs-class-infiniband (``link_downed``) and
Documentation/ABI/testing/sysfs-devices-edac (``ce_count``, ``ue_count`` of each memory controller).
"""

from __future__ import annotations

import re

from ..host import blocks
from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "error_counters"

_FILES = (
    "/sys/bus/pci/devices/*/infiniband/*/ports/*/counters/link_downed",
    "/sys/devices/system/edac/mc/mc*/ce_count",
    "/sys/devices/system/edac/mc/mc*/ue_count",
)
_PORT = re.compile(r".*/([^/]+)/infiniband/[^/]+/ports/([^/]+)/counters/(link_downed)")
_CONTROLLER = re.compile(r".*/edac/mc/(mc\d+)/([cu]e_count)")


def collect(host: Host, expect: Expectations) -> Output:
    """Read all of them."""
    return blocks.read_files(host, *_FILES)


def parse(output: Output) -> dict[str, int]:
    """Return the counts by name (``link_downed 0000:1a:00.0 port 1``, ``ce_count mc0``); raises Unreadable.

    They are kept and compared later: a NIC goes by its PCI address, as the name of its device may change. A counter
    that could not be read is not in it, so that one that was there before is missed.
    """
    require_success(output)
    # The list says that a host has none; no list says nothing.
    if not blocks.is_listed(output.stdout):
        raise Unreadable(f"begins with {output.stdout[:60]!r}, expected a list of files")
    files = blocks.split(output.stdout)
    counts = {}
    for path, block in files.items():
        port, controller = _PORT.fullmatch(path), _CONTROLLER.fullmatch(path)
        text = block.stdout.strip()
        if block.rc != 0 or not re.fullmatch(r"[0-9]{1,20}", text):
            continue
        if port:
            counts[f"{port.group(3)} {port.group(1)} port {port.group(2)}"] = int(text)
        elif controller:
            counts[f"{controller.group(2)} {controller.group(1)}"] = int(text)
    return counts
