"""Does the PCIe link of every rail's NIC run at its generation and width?

A NIC does not slow its link down when idle, as a GPU does: a slower link is a fault whenever it is seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..host.rail_names import NamedRail
from ..judging.rail_devices import rail_devices
from ..nic.declared_nics import rail_subjects, subject_of
from ..probes.infiniband import Device
from ..words.expectations import Expectations, NicPcie, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nic_pcie"
RULES = 3
PROBES: tuple[str, ...] = ("infiniband", "rail_names")

# PCI Express base specification: GT/s of each generation.
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NIC parts of the rails."""
    return rail_subjects(expect)


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare each rail's link with the class."""
    return [_finding(rail, device, stated(expect.nic).pcie) for rail, device in rail_devices(values, expect)]


def _finding(rail: NamedRail, device: Device | str, wanted: NicPcie) -> Finding:
    subject = subject_of(rail)
    expected = f"Gen{wanted.generation} x{wanted.width}"
    if isinstance(device, str):
        return Finding(NAME, subject, INCOMPLETE, None, expected, "", device, "investigate")
    generation, width = GENERATIONS.get(device.pcie_gt_per_s or 0), device.pcie_width
    slower = generation is not None and generation < wanted.generation
    narrower = width is not None and width < wanted.width
    shown = f"Gen{generation or '?'} x{width if width is not None else '?'}"
    if slower or narrower:
        able = GENERATIONS.get(device.pcie_max_gt_per_s or 0)
        # A card that can do no more than this sits in the wrong slot or is the wrong card.
        limit = f"; the card can do Gen{able} x{device.pcie_max_width}" if able and device.pcie_max_width else ""
        why = f"{rail} PCIe link runs at {shown}, class link {expected}{limit}"
        return Finding(NAME, subject, FAIL, shown, expected, "", why, "reseat")
    if generation is None or width is None:
        why = f"PCIe link of {rail} could not be read"
        return Finding(NAME, subject, INCOMPLETE, None, expected, "", why, "investigate")
    return Finding(NAME, subject, PASS, shown, expected)
