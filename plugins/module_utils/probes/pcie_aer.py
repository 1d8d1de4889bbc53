"""PCIe errors that Linux has counted on the class's GPUs, NICs and drives since each was found on the bus.

Files: Linux, Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats (4.19 and later, devices with the AER
capability): one ``KIND COUNT`` in a line, last ``TOTAL_ERR_COR COUNT`` (``TOTAL_ERR_NONFATAL``, ``TOTAL_ERR_FATAL``).
The kernel's log is limited in its rate, these counts are not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..host import blocks
from ..host.host import Host, Output, Unreadable
from ..nic.declared_nics import rails_of
from ..words.expectations import Expectations, gpu_subjects

NAME = "pcie_aer"
# Format by the kernel's own documentation; no file of a real machine was at hand.
FORMAT_UNVERIFIED = True
SEVERITIES = {"correctable": "TOTAL_ERR_COR", "nonfatal": "TOTAL_ERR_NONFATAL", "fatal": "TOTAL_ERR_FATAL"}

_PATH = re.compile(r"/sys/(?:bus/pci/devices/([^/]+)|class/nvme/(nvme\d+)/device)/aer_dev_(\w+)", re.ASCII)
_COUNT = re.compile(r"(\w+) (\d+)", re.ASCII)


@dataclass(frozen=True)
class Errors:
    """How many errors of one severity (None: could not be read), and the kinds that were counted."""

    count: int | None
    kinds: tuple[str, ...] = ()


def collect(host: Host, expect: Expectations) -> Output:
    """Read three small files of each GPU and rail of the class, and of each NVMe drive that is there."""
    addresses = [*gpu_subjects(expect), *(rail.address for rail in rails_of(expect))]
    paths = [f"/sys/bus/pci/devices/{address}/aer_dev_{severity}" for address in addresses for severity in SEVERITIES]
    paths += host.paths(*(f"/sys/class/nvme/nvme*/device/aer_dev_{severity}" for severity in SEVERITIES))
    # One that is not there says so: no text at all would be no answer.
    return blocks.joined({path: host.read(path) for path in paths})


def parse(output: Output) -> dict[str, dict[str, Errors]]:
    """Return the errors by device (``0000:0b:00.0``, ``nvme0``) and severity; raises Unreadable."""
    files = blocks.split(output.stdout)
    found: dict[str, dict[str, Errors]] = {}
    for path, file in files.items():
        match = _PATH.fullmatch(path)
        if not match or match.group(3) not in SEVERITIES:
            continue
        # What does not end with its line may have been cut off within a number.
        cut = not output.stdout.endswith("\n") and path == list(files)[-1]
        errors = Errors(None) if file.rc != 0 or cut else _errors(file.stdout, SEVERITIES[match.group(3)])
        found.setdefault(match.group(1) or match.group(2), {})[match.group(3)] = errors
    if not found:
        raise Unreadable(f"begins with {output.stdout[:60]!r}, expected files called aer_dev_correctable and so on")
    return found


def _errors(text: str, total: str) -> Errors:
    counts: dict[str, int] = {}
    for line in text.splitlines():
        match = _COUNT.fullmatch(line.rstrip())
        # A kind that comes twice is that of another file.
        if not match or match.group(1) in counts or match.group(1).startswith("TOTAL") != (match.group(1) == total):
            return Errors(None)
        counts[match.group(1)] = int(match.group(2))
    if total not in counts:
        return Errors(None)
    return Errors(max(counts.values()), tuple(f"{kind} {n}" for kind, n in counts.items() if n and kind != total))
