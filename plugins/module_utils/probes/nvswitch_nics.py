"""Which NICs of the host manage its NVSwitches, by their vital product data in sysfs. Needs root.

A line for each NIC: its PCI address and ``SW_MNG``, ``none`` or ``unread``; how many there are ends the list.
"""

from __future__ import annotations

import re

from ..host.host import Host, Output, Unreadable, require_success
from ..host.nvswitch_nics import managers
from ..words.expectations import Expectations, pci_address

NAME = "nvswitch_nics"
# That the VPD of such a NIC holds it is known from NVIDIA's start script; no VPD of one was at hand.
PARTLY_UNVERIFIED = "the VPD of a NIC that manages NVSwitches"

_WORDS = {True: "SW_MNG", False: "none", None: "unread"}
_MEANINGS = {word: manages for manages, word in _WORDS.items()}
_END = re.compile(r"([0-9]{1,4}) in all")


def collect(host: Host, expect: Expectations) -> Output:
    """Read the VPD of every NIC, of which the one fact is kept."""
    found = managers(host)
    lines = [f"{address} {_WORDS[manages]}\n" for address, manages in found.items()]
    return Output("".join(lines) + f"{len(found)} in all\n")


def parse(output: Output) -> dict[str, bool | None]:
    """Return of each NIC by its PCI address whether it manages NVSwitches; None: unread. Raises Unreadable."""
    require_success(output)
    *lines, end = output.stdout.splitlines() or [""]
    found: dict[str, bool | None] = {}
    for line in lines:
        address, _, word = line.partition(" ")
        if pci_address(address) != address or word not in _MEANINGS:
            raise Unreadable(f"line is {line[:100]!r}, expected a PCI address and {', '.join(_MEANINGS)}")
        found[address] = _MEANINGS[word]
    match = _END.fullmatch(end)
    if not match or not output.stdout.endswith("\n") or not int(match.group(1)) == len(lines) == len(found):
        raise Unreadable(f"{len(found)} NICs, and {end[:60]!r} at the end, expected as many as it says")
    return found
