"""nvidia-smi's table for people, and the one line that it prints where it has no table.

It leaves out what decides (pending repairs, row remapping, NVLink, the fabric's state), so that it never passes a GPU;
what it does tell is believed. Texts: NVIDIA's documentation of nvidia-smi and of NVML's return codes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_findings import fault, unread

NAME = "nvidia-smi"
_CHECK = "gpu_table"

_TABLE = re.compile(r"^\| NVIDIA-SMI \d", re.MULTILINE)
_ALONE = re.compile(
    r"^(?:Unable to determine the device handle for (?:gpu|GPU)\s?(?P<gpu>[\w:.]*).*|No devices were found.*"
    r"|NVIDIA-SMI has failed because.*|Failed to initialize NVML: .*|.*\bGPU is lost\b.*)$",
    re.MULTILINE,
)
_WARNING = re.compile(r"^WARNING: (info\s?ROM is corrupted at gpu \S+)", re.MULTILINE | re.IGNORECASE)
_GPU = re.compile(
    r"^\|\s+(?P<index>\d+|N/A)\s+(?P<name>[^|]*?)\s*\|\s+(?P<address>[0-9A-Fa-f]{4,8}:\S+)\s+[^|]*\|\s+(?P<ecc>[^|]*?)\s*\|\n"
    r"(?P<second>\|.*\|)\n(?P<third>\|.*\|)?",
    re.MULTILINE,
)
_LEAVES_OUT = "no fault seen; the table leaves out what decides, nvidia-smi -q tells it"


def recognises(text: str) -> bool:
    """Return whether this is nvidia-smi's table, or what it says in its place."""
    return bool(_TABLE.search(text) or _ALONE.search(text) or _GPU.search(text))


def findings(text: str, expect: Expectations | None) -> list[Finding]:
    """Return a finding for each GPU, and what the host is told to lack."""
    faults = [
        fault(_CHECK, f"gpu {match['gpu'].rstrip(':')}" if match["gpu"] else "host", match[0].strip()[:160])
        for match in _ALONE.finditer(text)
    ]
    faults += [fault(_CHECK, match[1].split(" at ")[-1], match[1]) for match in _WARNING.finditer(text)]
    whole, gpus = _TABLE.search(text), list(_GPU.finditer(text))
    if not whole and not gpus:
        return faults
    found = [*faults, *(finding for gpu in gpus for finding in _gpu(gpu))]
    count = len({gpu["address"] for gpu in gpus})
    wanted = expect.gpu.count if expect and expect.gpu else None
    if whole and wanted is not None and count < wanted and _complete(text):
        found.append(fault(_CHECK, "host", "GPUs are missing", count, wanted))
    if not whole or not _complete(text):
        found.append(unread(_CHECK, "host", "the table is cut short"))
    return found or [unread(_CHECK, "host", "the table names no GPU")]


def _complete(text: str) -> bool:
    """Return whether the table of GPUs ends: processes, or an end of file after a line, follow it."""
    return "Processes:" in text or text.rstrip().endswith("+")


def _gpu(gpu: re.Match[str]) -> Iterator[Finding]:
    subject = f"gpu {gpu['address']}"
    row = gpu[0]
    said = sorted(set(re.findall(r"ERR!|Unknown Error|GPU is lost|requires reset", row, re.IGNORECASE)))
    if said:
        yield fault(_CHECK, subject, f"the table shows {', '.join(said)}: the driver cannot read the GPU", said[0])
    ecc = gpu["ecc"].strip()
    if ecc.isdigit() and int(ecc):
        yield fault(_CHECK, subject, "uncorrectable ECC errors since the driver was loaded", int(ecc), 0)
    if not said and not (ecc.isdigit() and int(ecc)):
        yield unread(_CHECK, subject, _LEAVES_OUT)
