"""Memory errors that the kernel has counted since its start, by memory controller and by DIMM.

Files: Linux, Documentation/ABI/testing/sysfs-devices-edac. A driver that knows ranks alone calls its entries
``rank*`` instead of ``dimm*``; the counts of one DIMM exist since Linux 4.10.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..host import blocks
from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "edac"
# No output of a real machine was at hand.
FORMAT_UNVERIFIED = True
_MC = "/sys/devices/system/edac/mc/mc*/"
PATHS = (
    *(f"{_MC}{name}" for name in ("ce_count", "ue_count")),
    *(f"{_MC}{part}/dimm_{name}" for part in ("dimm*", "rank*") for name in ("label", "ce_count", "ue_count")),
)

_PATH = re.compile(r".*/(mc\d+)/(?:((?:dimm|rank)\d+)/dimm_)?(ce_count|ue_count|label)", re.ASCII)


@dataclass(frozen=True)
class Counts:
    """Errors of one controller or DIMM, None where the count cannot be read; ``label`` as EDAC names it."""

    label: str
    correctable: int | None
    uncorrectable: int | None


@dataclass(frozen=True)
class Edac:
    """What a controller counts is more than its DIMMs show where the hardware cannot tell which one it was."""

    controllers: tuple[Counts, ...]
    dimms: tuple[Counts, ...]


def collect(host: Host, expect: Expectations) -> Output:
    """Read the counters of every controller and DIMM."""
    return blocks.read_files(host, *PATHS)


def parse(output: Output) -> Edac:
    """Return the counters; raises Unreadable (no controller: the driver of this platform is not loaded)."""
    controllers: dict[str, dict[str, str]] = {}
    dimms: dict[str, dict[str, str]] = {}
    for path, file in blocks.split(output.stdout).items():
        match = _PATH.fullmatch(path)
        if not match:
            continue
        controller, dimm, name = match.groups()
        group = dimms.setdefault(f"{controller}/{dimm}", {}) if dimm else controllers.setdefault(controller, {})
        group[name] = file.stdout.strip() if file.rc == 0 else ""
    if not controllers:
        raise Unreadable(f"no memory controller under {_MC}, expected one that the EDAC driver registered")
    return Edac(_counts(controllers), _counts(dimms))


def _counts(groups: Mapping[str, Mapping[str, str]]) -> tuple[Counts, ...]:
    return tuple(
        Counts(" ".join(group.get("label", "").split()) or name, _number(group, "ce_count"), _number(group, "ue_count"))
        for name, group in groups.items()
    )


def _number(group: Mapping[str, str], name: str) -> int | None:
    text = group.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None
