"""``muster gpu-telemetry`` on the node: each GPU's power, temperature, clocks, PCIe link and errors under load.

The program is ours (gpu_telemetry.py) and follows one ``nvidia-smi --query-gpu=... -lms 1000``; it keeps the samples in
files and prints a summary. Held against ``--query-gpu`` of drivers 570 to 590.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Optional

from ..gpu_load.gpu_telemetry_program import END_SECONDS, FORMAT, QUERY_SECONDS, REASONS
from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations, pci_address
from ..words.reader import Count, Number, ReadError, Rule, read

NAME = "gpu_telemetry"
RULES = 1
# Single answers of real GPUs are at hand, no loop.
PARTLY_UNVERIFIED = "nvidia-smi -lms"
PROGRAM = "/usr/libexec/muster/muster"
SPARE_SECONDS = 30.0
_LOST = re.compile(r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)")


@dataclass(frozen=True)
class Settings:
    """Whether a load on the GPUs runs in the same step, which is judged by what they reached; null: it does."""

    under_load: Optional[bool] = None  # noqa: UP045 -- read at run time, by Python 3.9 too


SETTINGS = Settings


@dataclass(frozen=True)
class Quantiles:
    """How a quantity was distributed over the samples that told it."""

    min: Number
    median: Number
    p95: Number
    max: Number

    def __post_init__(self) -> None:
        if not self.min <= self.median <= self.p95 <= self.max:
            raise ReadError("", ", ".join(f"{name} {value}" for name, value in vars(self).items()), "rising quantiles")


_REASONS, _BIT = frozenset(REASONS.values()), "0x[0-9a-f]{1,16}"


@dataclass(frozen=True)
class Gpu:
    """One GPU's samples. ``counters`` holds first, last and highest value, ``unknown`` the samples without a value.

    ``gap_seconds`` is the longest time without a sample, start and end counted. ``replays`` are those before and
    after; None: not told.
    """

    samples: Count
    gap_seconds: Number
    quantities: Mapping[str, Quantiles]
    counters: Mapping[str, tuple[Count, Count, Count]]
    unknown: Mapping[str, Count]
    reasons_seconds: Mapping[str, Number]
    replays: Optional[tuple[Count, Count]] = None  # noqa: UP045 -- read at run time, by Python 3.9 too

    def __post_init__(self) -> None:
        # A bit without a name of ours is told as a number.
        strange = [name for name in self.reasons_seconds if name not in _REASONS and not re.fullmatch(_BIT, name)]
        if strange:
            raise ReadError("", repr(strange[0]), "reasons of clocks that the program names")


@dataclass(frozen=True)
class _Summary:
    """What the program prints."""

    format: Annotated[int, Rule(str(FORMAT), FORMAT.__eq__)]
    seconds: Number
    under_load: bool
    notes: tuple[str, ...]
    gpus: Mapping[str, Gpu]
    replays: Mapping[str, tuple[Count, Count]]
    sick: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Telemetry:
    """The GPUs by PCI address, and what nvidia-smi said of those that it called lost, or in need of a reset.

    ``nameless`` says it of those whose addresses it did not tell.
    """

    seconds: float
    under_load: bool
    gpus: Mapping[str, Gpu]
    lost: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    nameless: tuple[str, ...] = ()


def collect(host: Host, expect: Expectations, seconds: float, settings: Settings) -> Output:
    """Record for ``seconds``; the samples go to the directory that the class names."""
    own = expect.telemetry
    if own is None:
        return Output(rc=None, error="gpu_telemetry: the class has no telemetry (null)")
    argv = [PROGRAM, "gpu-telemetry", f"--seconds={seconds:g}", f"--directory={own.directory}"]
    argv += [f"--files={own.files}", *(["--under-load"] if settings.under_load is not False else [])]
    return host.run(argv, seconds + 2 * QUERY_SECONDS + END_SECONDS + SPARE_SECONDS)


def parse(output: Output) -> Telemetry:
    """Return the summary; raises Unreadable."""
    if output.rc:
        tail = (output.stderr.strip().splitlines() or ["nothing said"])[-1]
        raise Unreadable(f"exit status {output.rc}: {tail[:200]}, expected 0")
    try:
        data = json.loads(output.stdout)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"{output.stdout[:60]!r}, expected one JSON object") from exc
    try:
        summary = read(_Summary, data, "summary", extra=True)
    except ReadError as exc:
        raise Unreadable(str(exc)) from exc
    gpus = {address: replace(gpu, replays=summary.replays.get(address)) for address, gpu in summary.gpus.items()}
    lost = {**_lost(summary.notes), **{name: row for name, row in summary.sick.items() if pci_address(name)}}
    nameless = tuple(row for name, row in summary.sick.items() if not pci_address(name))
    return Telemetry(summary.seconds, summary.under_load, gpus, lost, summary.notes, nameless)


def _lost(notes: tuple[str, ...]) -> dict[str, str]:
    """Return the GPUs that a line calls lost: "Unable to determine the device handle for GPU0000:8B:00.0: ..."."""
    found = {}
    for note in notes:
        match = _LOST.search(note) if "device handle" in note or "is lost" in note else None
        address = pci_address(match.group(1)) if match else None
        if address:
            found[address] = note
    return found
