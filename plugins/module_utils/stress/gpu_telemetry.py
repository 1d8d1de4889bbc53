"""``muster gpu-telemetry`` on the node: each GPU's power, temperature, clocks, PCIe link and errors under load.

The program is ours (gpu_telemetry.py) and follows one ``nvidia-smi --query-gpu=... -lms 1000``; it keeps the samples in
files and prints a summary. Held against ``--query-gpu`` of drivers 570 to 590.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

from ..gpu_load.gpu_telemetry_program import COUNTERS, END_SECONDS, FORMAT, QUANTITIES, QUERY_SECONDS
from ..host.host import Host, Output, Unreadable
from ..host.typed_json import Reader
from ..words.expectations import Expectations, pci_address

NAME = "gpu_telemetry"
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

    least: float
    median: float
    p95: float
    largest: float


@dataclass(frozen=True)
class Gpu:
    """One GPU's samples. ``counters`` holds first, last and highest value, ``unknown`` the samples without a value.

    ``gap_seconds`` is the longest time without a sample, start and end counted.
    """

    samples: int
    gap_seconds: float
    quantities: Mapping[str, Quantiles]
    counters: Mapping[str, tuple[int, int, int]]
    unknown: Mapping[str, int]
    reasons_seconds: Mapping[str, float]
    # Before and after; None: not told.
    replays: tuple[int, int] | None


@dataclass(frozen=True)
class Telemetry:
    """The GPUs by PCI address, and those that nvidia-smi called lost."""

    seconds: float
    under_load: bool
    gpus: Mapping[str, Gpu]
    lost: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


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
    summary = Reader(data, "summary")
    if summary.count("format") != FORMAT:
        raise Unreadable(f"format is {summary.data['format']!r}, expected {FORMAT}")
    under_load, notes = summary.data.get("under_load"), summary.data.get("notes")
    if not isinstance(under_load, bool):
        raise Unreadable(f"under_load is {under_load!r}, expected true or false")
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise Unreadable(f"notes are {notes!r}, expected a list of texts")
    gpus, replays = summary.inner("gpus"), summary.inner("replays")
    return Telemetry(
        summary.number("seconds"),
        under_load,
        {gpu: _gpu(gpus.inner(gpu), replays.counts(gpu, 2) if gpu in replays.data else None) for gpu in gpus.data},
        _lost(notes),
        tuple(notes),
    )


def _gpu(reader: Reader, replays: tuple[int, ...] | None) -> Gpu:
    quantities, counters = reader.inner("quantities"), reader.inner("counters")
    unknown, reasons = reader.inner("unknown"), reader.inner("reasons_seconds")
    return Gpu(
        reader.count("samples"),
        reader.number("gap_seconds"),
        {name: _quantiles(quantities.inner(name)) for name in QUANTITIES if name in quantities.data},
        {name: _three(counters.counts(name, 3)) for name in COUNTERS if name in counters.data},
        {name: unknown.count(name) for name in unknown.data},
        {name: reasons.number(name) for name in reasons.data},
        None if replays is None else (replays[0], replays[1]),
    )


def _three(values: tuple[int, ...]) -> tuple[int, int, int]:
    return values[0], values[1], values[2]


def _quantiles(reader: Reader) -> Quantiles:
    found = Quantiles(*(reader.number(name) for name in ("min", "median", "p95", "max")))
    if not found.least <= found.median <= found.p95 <= found.largest:
        raise Unreadable(f"{reader.where} is {reader.data!r}, expected rising quantiles")
    return found


def _lost(notes: list[str]) -> dict[str, str]:
    """Return the GPUs that a line calls lost: "Unable to determine the device handle for GPU0000:8B:00.0: ..."."""
    found = {}
    for note in notes:
        match = _LOST.search(note) if "device handle" in note or "is lost" in note else None
        address = pci_address(match.group(1)) if match else None
        if address:
            found[address] = note
    return found
