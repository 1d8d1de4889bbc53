"""What ``dcgmi diag`` says in any of its formats: the result of each test on each GPU, as dcgmi counts them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..host.host import Unreadable
from ..words.expectations import pci_address

PASS, FAIL, SKIP, UNKNOWN = "pass", "fail", "skip", "unknown"
# The one name under which DCGM 4 runs what DCGM 2 and 3 list as Deployment tests.
SOFTWARE = "software"

# DCGM_DIAG_RESULT_WARN is "passed with warnings" in dcgm_structs.h, but the JSON of DCGM 3 and 4 writes it as Fail.
_STATUSES = {"pass": PASS, "fail": FAIL, "warn": FAIL, "skip": SKIP, "not run": SKIP}
_NAMES = {"gpu_memory": "memory", "eud_test": "eud", "cpu_eud_test": "cpu_eud", "pulse": "pulse_test"}
_LISTED = re.compile(r"\b([0-9]{1,4}) GPUs? found")


@dataclass(frozen=True)
class Trouble:
    """An error that a test reports: its text, and DCGM's severity (dcgmErrorSeverity_t) where the format has it."""

    text: str
    severity: int | None = None


@dataclass(frozen=True)
class Result:
    """The status of one test on one GPU, counted as DCGM counts, or on the host as a whole (``gpu`` None).

    ``name`` is how the output spells the test, ``test`` the name that all versions have in common.
    """

    test: str
    name: str
    gpu: int | None
    status: str
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True)
class Report:
    """All results of one run; one that is not ``complete`` proves a failure and no pass (a table without its end)."""

    results: tuple[Result, ...]
    complete: bool
    version: str | None = None


def addresses_of(text: str) -> dict[int, str]:
    """Return the PCI address of each GPU by dcgmi's number, from ``dcgmi discovery -l``; raises Unreadable."""
    found: dict[int, str] = {}
    number: int | None = None
    at_gpus = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and cells[0].endswith(" ID"):
            at_gpus, number = cells[0] == "GPU ID", None
        elif at_gpus and line.startswith("|") and len(cells) == 2:
            number = int(cells[0]) if re.fullmatch(r"[0-9]{1,4}", cells[0]) else number
            name, _, value = cells[1].partition(": ")
            address = pci_address(value) if name == "PCI Bus ID" else None
            if address and number is not None:
                if number in found or address in found.values():
                    raise Unreadable(f"dcgmi discovery lists GPU {number} or {address} twice")
                found[number] = address
    listed = _LISTED.search(text)
    if not listed or int(listed.group(1)) != len(found):
        said = f"{listed.group(1)} GPUs found" if listed else "no count of GPUs"
        raise Unreadable(f"dcgmi discovery says {said} and gives {len(found)} PCI addresses, expected as many")
    return found


def status_of(text: Any) -> str:
    """Return one of pass, fail, skip, unknown."""
    return _STATUSES.get(str(text).strip().lower(), UNKNOWN)


def test_of(name: str, category: str) -> str:
    """Return the name that all versions of DCGM have in common: "GPU Memory" and "memory" are ``memory``."""
    if category.lower() == "deployment":
        return SOFTWARE
    plain = re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")
    return _NAMES.get(plain, plain)


def gpus_named(text: str) -> tuple[int, ...]:
    """Return the GPUs that a message names, as DCGM counts them: ``GPU 3 has uncorrectable memory errors``."""
    return tuple(dict.fromkeys(int(number) for number in re.findall(r"\bGPU ?([0-9]{1,4})\b", text)))


def one_line(text: str) -> str:
    """Return the text on one line."""
    return " ".join(text.split())[:400]
