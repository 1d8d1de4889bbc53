"""``nvbandwidth -j -t TESTCASE ...``: copies between host and GPUs and between GPUs, verified and timed.

Formats (NVIDIA/nvbandwidth, output.cpp and json_output.cpp from 0.4 to 0.8, and recorded outputs): JSON with a matrix
of texts for each test case, or a table under ``Running NAME.``. One row is the host, with a column for each GPU; a
square matrix has a row and a column for each GPU, and ``N/A`` (``0.00`` in older versions) on its diagonal. A copy of
wrong data ends the program with an assertion that names the comparison; no bandwidth is printed then.

nvbandwidth names the GPUs with their PCI addresses from 0.5 on, as CUDA counts them. CUDA is told to count by PCI
address, as nvidia-smi does, which is asked too for versions that give no address.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..host import blocks
from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations, NoSettings, pci_address, stated

NAME = "nvbandwidth"
RULES = 1
SETTINGS = NoSettings
# Every other copy takes its share of the bandwidth.
EXCLUSIVE = True
# Without CUDA_DEVICE_ORDER the fastest GPU comes first, and CUDA_VISIBLE_DEVICES would leave GPUs out.
ENVIRONMENT = ("env", "-u", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER=PCI_BUS_ID")
LISTING = ("nvidia-smi", "--query-gpu=index,pci.bus_id", "--format=csv,noheader")
LISTING_SECONDS = 60.0

_CORRUPT = re.compile(r"Invalid value when checking the pattern|h_errorFlag == 0|memcmpPattern")
# What CUDA calls an error of the hardware (CUresult in cuda.h); any other one ends the program too.
_HARDWARE = re.compile(r"\bCUDA_ERROR_(?:ECC_UNCORRECTABLE|NVLINK_UNCORRECTABLE|HARDWARE_STACK_ERROR|CONTAINED)\b")
_STOPPED = re.compile(r"\b(?:CUDA|NVML)_ERROR_\w+|terminate called.*")
_VERSION = re.compile(r'(?:^nvbandwidth Version: |"version" ?: ?")v?([0-9]+(?:\.[0-9]+)+)', re.MULTILINE)
_RUNNING = re.compile(r"Running (\w+)\.?")
# "0: NVIDIA H100 80GB HBM3 (00000000:0b:00): (host)" in JSON, "Device 0: NVIDIA ... (00000000:0b:00)" in the table.
_DEVICE = re.compile(r"(?:Device )?(\d{1,3}): .*\(([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)\).*")
_MOST_GPUS = 64

Matrix = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Bandwidths:
    """What one run measured, in GB/s: a matrix by test case, whose cells are None where no number was printed.

    ``troubles`` says what became of a test case without a matrix. ``corrupt`` is the message of a copy that did not
    arrive as it was sent, or that an error of the hardware ended, or "". ``addresses`` are the GPUs' PCI addresses in
    the order of the matrices, or empty where they are unknown.
    """

    matrices: Mapping[str, Matrix]
    troubles: Mapping[str, str]
    corrupt: str
    addresses: Sequence[str]
    # Such as 0.8; None where the tool does not say.
    version: str | None = None


def collect(host: Host, expect: Expectations, seconds: float, settings: NoSettings) -> Output:
    """Run the test cases of the class once, for ``seconds`` at most."""
    command = ("nvbandwidth", "-j", "-t", *(floor.testcase for floor in stated(expect.nvbandwidth).floors))
    return blocks.joined(
        {
            " ".join(LISTING): host.run(LISTING, LISTING_SECONDS),
            " ".join(command): host.run((*ENVIRONMENT, *command), seconds),
        }
    )


def parse(output: Output) -> Bandwidths:
    """Return what was measured; raises Unreadable."""
    parts = blocks.split(output.stdout)
    run = next((part for name, part in parts.items() if name.startswith("nvbandwidth ")), None)
    if run is None:
        raise Unreadable("no output of nvbandwidth")
    if run.rc is None:
        raise Unreadable(run.error)
    listed = _listed(parts.get(" ".join(LISTING)))
    if any(fault.search(run.stdout + run.stderr) for fault in (_CORRUPT, _HARDWARE)):
        return Bandwidths({}, {}, _corruption(run.stdout), listed)
    start = re.search(r"^\s*\{", run.stdout, re.MULTILINE)
    if run.rc != 0 and not start:
        said = " ".join((run.stderr or run.stdout).split())
        raise Unreadable(f"exit status {run.rc}: {said[:300] or 'no message'}")
    found = _json(run.stdout[start.start() :]) if start else _table(run.stdout)
    if run.rc != 0:
        raise Unreadable(f"exit status {run.rc} after a whole report")
    named = found.addresses
    # Two counts of the GPUs that disagree name none of them for sure.
    addresses = named if named and (not listed or set(named) == set(listed)) else [] if named else listed
    return Bandwidths(found.matrices, found.troubles, "", addresses, _version(run.stdout))


def _version(text: str) -> str | None:
    """Return the version, which the table heads with and the JSON ends with."""
    match = _VERSION.search(text)
    return match.group(1) if match else None


def _listed(listing: Output | None) -> Sequence[str]:
    """Return the GPUs' addresses by nvidia-smi's index, or nothing if they are not all told."""
    rows = [line.split(",") for line in (listing.stdout if listing and listing.rc == 0 else "").splitlines() if line]
    addresses = [pci_address(row[1]) if len(row) == 2 else None for row in rows]
    whole = [address for address in addresses if address]
    in_order = [row[0].strip() for row in rows] == [str(index) for index in range(len(rows))]
    # Counted by PCI address as CUDA is told to.
    return whole if len(whole) == len(rows) and in_order and whole == sorted(set(whole)) else []


def _corruption(text: str) -> str:
    running = [match.group(1) for match in map(_RUNNING.match, text.splitlines()) if match]
    line = next((line for line in text.splitlines() if _CORRUPT.search(line) or _HARDWARE.search(line)), "")
    return f"{running[-1] + ': ' if running else ''}{' '.join(line.split())[:200]}"


def _json(text: str) -> Bandwidths:
    try:
        root, end = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"not JSON: {exc}; begins with {text.strip()[:60]!r}") from exc
    body = root.get("nvbandwidth") if isinstance(root, dict) else None
    if not isinstance(body, dict):
        raise Unreadable("no key 'nvbandwidth'")
    after = _STOPPED.search(text.lstrip()[end:])
    if after:
        raise Unreadable(f"nvbandwidth stopped at {after.group()}")
    if body.get("error"):
        raise Unreadable(f"nvbandwidth reports an error: {' '.join(str(body['error']).split())[:300]}")
    cases = body.get("testcases")
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise Unreadable("no list of testcases")
    matrices: dict[str, Matrix] = {}
    troubles: dict[str, str] = {}
    for case in cases:
        name, status, matrix = str(case.get("name")), str(case.get("status")), case.get("bandwidth_matrix")
        if status != "Passed" or case.get("error"):
            troubles[name] = f"{status} {case.get('error') or ''}".strip()
        elif not isinstance(matrix, list) or not all(isinstance(row, list) for row in matrix):
            troubles[name] = "no bandwidth_matrix"
        else:
            matrices[name] = tuple(tuple(_number(cell) for cell in row) for row in matrix)
    devices = body.get("GPU Device list")
    return Bandwidths(matrices, troubles, "", _named(map(str, devices) if isinstance(devices, list) else ()))


def _table(text: str) -> Bandwidths:
    matrices: dict[str, Matrix] = {}
    name, columns = "", 0
    rows: list[tuple[Any, ...]] = []
    lines = text.splitlines()
    for line in [*lines, ""]:
        running = _RUNNING.fullmatch(line.strip())
        words = line.split()
        if columns and words and words[0] == str(len(rows)) and len(words) == columns + 1:
            rows.append(tuple(_number(word) for word in words[1:]))
            continue
        if name and rows:
            matrices[name] = tuple(rows)
            name = ""
        columns, rows = 0, []
        if running:
            name = running.group(1)
        elif name and words == [str(index) for index in range(len(words))]:
            columns = len(words) if len(words) <= _MOST_GPUS else 0
    stopped = _STOPPED.search(text)
    if stopped:
        # A test case of which the table says nothing is one that nobody asked for, or the one that failed.
        raise Unreadable(f"nvbandwidth stopped at {stopped.group()}")
    if not matrices:
        raise Unreadable(f"no matrix of bandwidths; begins with {text.strip()[:60]!r}")
    return Bandwidths(matrices, {}, "", _named(lines))


def _named(lines: Any) -> Sequence[str]:
    """Return the addresses in the order of the devices' numbers, or nothing unless every number has one."""
    found: dict[int, str] = {}
    for line in lines:
        match = _DEVICE.fullmatch(line.strip())
        address = pci_address(match.group(2)) if match else None
        if match and address:
            found[int(match.group(1))] = address
    whole = sorted(found) == list(range(len(found))) and len(set(found.values())) == len(found)
    return [found[number] for number in sorted(found)] if whole else []


def _number(cell: Any) -> float | None:
    """Return a bandwidth, or None for ``N/A``, ``nan`` and whatever else is no amount."""
    try:
        value = float(cell) if not isinstance(cell, bool) else math.nan
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) and value >= 0 else None
