"""Is every GPU of the class on the PCIe bus at its full width, and does the driver have it? Asks no GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.gpu_sysfs import GpuNode
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "gpu_present"
RULES = 1
PROBES: tuple[str, ...] = ("gpu_sysfs",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of the class."""
    return list(gpu_subjects(expect).values())


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for each part."""
    nodes: Mapping[str, GpuNode] = values["gpu_sysfs"]
    subjects_by_address = gpu_subjects(expect)
    return [
        _finding(subject, nodes.get(at), stated(expect.gpu).pcie_width) for at, subject in subjects_by_address.items()
    ]


def _finding(subject: str, node: GpuNode | None, width: int | None) -> Finding:
    if node is None or (node.answers is None and node.width is None):
        return Finding(NAME, subject, FAIL, "absent", "present", "", "not on the PCIe bus", "reboot")
    if node.answers is False:
        return Finding(NAME, subject, FAIL, "lost", "present", "", "does not answer on the PCIe bus", "reboot")
    if node.excluded:
        return Finding(NAME, subject, FAIL, "excluded", "present", "", "the driver leaves it out", "investigate")
    if not node.driven:
        return Finding(NAME, subject, FAIL, "no driver", "present", "", "the driver does not have it", "reboot")
    if node.answers is None or node.excluded is None:
        return Finding(NAME, subject, INCOMPLETE, None, "present", "", "not all files could be read", "investigate")
    if width is None:
        return Finding(NAME, subject, PASS, "present", "present")
    if node.width is None:
        return Finding(NAME, subject, INCOMPLETE, None, width, "lanes", "link width unreadable", "investigate")
    # Speed is not judged: an idle GPU slows its link down.
    if node.width != width:
        return Finding(NAME, subject, FAIL, node.width, width, "lanes", "another link width than the class", "reseat")
    return Finding(NAME, subject, PASS, node.width, width, "lanes")
