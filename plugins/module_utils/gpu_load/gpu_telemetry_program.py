"""``muster gpu-telemetry``: what every GPU tells of itself once a second, kept as JSON lines and summed up.

One ``nvidia-smi`` runs for the whole time and prints a line per GPU and second. Each goes to a file at once, so that an
interruption keeps it; standard output gets one JSON object at the end, whose size does not grow with the time.

``clocks_throttle_reasons`` is called ``clocks_event_reasons`` since driver 535, which takes both names. The PCIe replay
counter is no field of ``--query-gpu``: ``nvidia-smi -q -x`` is asked before and afterwards.

A GPU that is lost on the way goes on having its row, with ``[GPU is lost]`` in most cells (nvidia-smi 535 to 580 on a
stand-in for NVML): such a row is no sample, and names the GPU.
"""

from __future__ import annotations

import argparse
import calendar
import json
import os
import re
import select
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ..host.whole_files import private_directory
from ..words.expectations import pci_address

FORMAT = 1
INTERVAL_SECONDS = 1.0
QUERY_SECONDS = 60.0
END_SECONDS = 5.0
# A driver that answers nobody is not asked for ever.
RESTARTS = 10
NOTES = 20
FILE_BYTES = 16 * 2**20
# Field of --query-gpu by the name it has here.
QUANTITIES = {
    "power_watts": "power.draw",
    "power_limit_watts": "enforced.power.limit",
    "temperature_celsius": "temperature.gpu",
    "memory_temperature_celsius": "temperature.memory",
    "sm_clock_mhz": "clocks.sm",
    "memory_clock_mhz": "clocks.mem",
    "utilization_percent": "utilization.gpu",
    "memory_utilization_percent": "utilization.memory",
    "pcie_generation": "pcie.link.gen.current",
    "pcie_width": "pcie.link.width.current",
}
COUNTERS = {
    "ecc_corrected": "ecc.errors.corrected.volatile.total",
    "ecc_uncorrected": "ecc.errors.uncorrected.volatile.total",
}
FIELDS = (
    "timestamp",
    "index",
    "pci.bus_id",
    *QUANTITIES.values(),
    *COUNTERS.values(),
    "clocks_throttle_reasons.active",
)
# nvml.h: nvmlClocksThrottleReason*.
REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clocks_setting",
}
# What a cell of a GPU says that is lost, and of one that has to be reset.
SICK = ("[GPU is lost]", "[GPU requires reset]")
_TIMESTAMP = re.compile(r"(\d{4})/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,6})?")


@dataclass(frozen=True)
class Sample:
    """One line of one GPU: ``at`` in seconds since 1970; what it does not tell is None."""

    at: float
    gpu: str
    quantities: Mapping[str, float | None]
    counters: Mapping[str, float | None]
    reasons: int | None


@dataclass
class Sick:
    """The GPUs whose rows say that they are lost, or have to be reset: the first such row of each, by its address.

    A row may not tell even that: then by its index, as ``GPU 5``, unless another row of the same nvidia-smi told both.
    To the next one another GPU may have that index.
    """

    rows: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def take(self, line: str) -> bool:
        """Return whether the line is such a row, which no sample is to be made of."""
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(FIELDS):
            return False
        told = dict(zip(FIELDS, cells))
        index, address = told["index"], pci_address(told["pci.bus_id"])
        if address is not None:
            self.places[index] = address
        sick = any(words in cells for words in SICK)
        if sick:
            self.rows.setdefault(f"GPU {index}" if address is None else address, line.strip()[:200])
        return sick

    def start_over(self, number: int) -> None:
        """Begin with the rows of another nvidia-smi, the ``number``-th after the first."""
        known = self.named()
        self.rows = {name if pci_address(name) else f"{name} (before start {number})": known[name] for name in known}
        self.places = {}

    def named(self) -> dict[str, str]:
        """Return the rows, by address where any row told it."""
        return {self.places.get(name.partition("GPU ")[2], name): row for name, row in self.rows.items()}


@dataclass
class Digest:
    """The samples of one GPU, summed up as they come: whole numbers are counted, so that quantiles need no list."""

    samples: int = 0
    first: float = 0.0
    last: float = 0.0
    gap: float = 0.0
    seen: dict[str, Counter[int]] = field(default_factory=lambda: {name: Counter() for name in QUANTITIES})
    counters: dict[str, list[float]] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, sample: Sample, began: float) -> None:
        """Take one sample."""
        self.gap = max(self.gap, abs(sample.at - (self.last if self.samples else began)))
        self.first = self.first if self.samples else sample.at
        self.last = sample.at
        self.samples += 1
        for name, value in sample.quantities.items():
            if value is None:
                self.unknown[name] += 1
            else:
                self.seen[name][round(value)] += 1
        for name, value in sample.counters.items():
            if value is None:
                self.unknown[name] += 1
            else:
                # Its smallest growth and a step back both show in first, last and highest.
                first, _, highest = self.counters.get(name, [value, value, value])
                self.counters[name] = [first, value, max(highest, value)]
        if sample.reasons is None:
            self.unknown["reasons"] += 1
            return
        for bit in range(sample.reasons.bit_length()):
            if sample.reasons >> bit & 1:
                self.reasons[REASONS.get(1 << bit, f"0x{1 << bit:x}")] += 1

    def summary(self, finished: float) -> dict[str, Any]:
        """Return plain JSON data; the gap counts up to ``finished``."""
        return {
            "samples": self.samples,
            "first": round(self.first, 3),
            "last": round(self.last, 3),
            "gap_seconds": round(max(self.gap, finished - self.last), 3),
            "quantities": {name: _quantiles(counts) for name, counts in self.seen.items() if counts},
            "counters": {name: [int(value) for value in values] for name, values in self.counters.items()},
            "unknown": dict(self.unknown),
            "reasons_seconds": {name: round(count * INTERVAL_SECONDS, 3) for name, count in self.reasons.items()},
        }


def _quantiles(counts: Mapping[int, int]) -> dict[str, int]:
    values, total = sorted(counts), sum(counts.values())

    def at(share: float) -> int:
        passed = 0
        for value in values:
            passed += counts[value]
            if passed >= share * total:
                return value
        return values[-1]

    return {"min": values[0], "median": at(0.5), "p95": at(0.95), "max": values[-1]}


def sample_of(line: str) -> Sample | None:
    """Return what one line tells, None for a line that is no whole sample."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(FIELDS):
        return None
    told = dict(zip(FIELDS, cells))
    at, gpu = _time_of(told["timestamp"]), pci_address(told["pci.bus_id"])
    if at is None or gpu is None:
        return None
    reasons = told["clocks_throttle_reasons.active"]
    return Sample(
        at,
        gpu,
        {name: _number_of(told[key]) for name, key in QUANTITIES.items()},
        {name: _number_of(told[key]) for name, key in COUNTERS.items()},
        int(reasons, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", reasons) else None,
    )


def _time_of(text: str) -> float | None:
    match = _TIMESTAMP.fullmatch(text)
    if not match:
        return None
    *whole, fraction = match.groups()
    year, month, day, hour, minute, second = (int(number) for number in whole)
    if not (year > 1969 and 0 < month < 13 and 0 < day < 32 and hour < 24 and minute < 60 and second < 61):
        return None
    return calendar.timegm((year, month, day, hour, minute, second)) + float(f"0.{fraction or 0}")


def _number_of(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


class Files:
    """The JSON lines of a run, the newest files of all runs kept. A full disk stops no telemetry."""

    def __init__(self, directory: str, keep: int, file_bytes: int = FILE_BYTES) -> None:
        self.directory, self.keep, self.file_bytes = Path(directory), keep, file_bytes
        self.trouble = ""
        self.written: list[str] = []
        self._file: Any = None
        self._size = 0

    def add(self, sample: Sample) -> None:
        """Write one sample; what goes wrong is kept in ``trouble``."""
        values = [sample.at, sample.gpu, *sample.quantities.values(), *sample.counters.values(), sample.reasons]
        line = json.dumps(values, separators=(",", ":")) + "\n"
        try:
            if self._file is None or self._size + len(line) > self.file_bytes:
                self._next(sample.at)
            self._file.write(line)
            self._file.flush()
            self._size += len(line)
        except OSError as exc:
            self.trouble = f"{self.directory}: {exc.strerror or exc}"

    def close(self) -> None:
        """Close the file that is open."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _next(self, at: float) -> None:
        self.close()
        private_directory(self.directory)
        name = time.strftime("gpu-%Y%m%dT%H%M%S", time.gmtime(at))
        number = 0
        while (self.directory / f"{name}-{number:02d}.jsonl").exists():
            number += 1
        path = self.directory / f"{name}-{number:02d}.jsonl"
        for old in sorted(self.directory.glob("gpu-*.jsonl"))[: -(self.keep - 1) or None]:
            old.unlink()
        self._file = path.open("w", encoding="ascii")
        self.written.append(path.name)
        # The first line names what stands in the others.
        header = json.dumps(["at", "gpu", *QUANTITIES, *COUNTERS, "reasons"]) + "\n"
        self._file.write(header)
        self._size = len(header)


def main(arguments: Sequence[str] | None = None, _version: str = "") -> int:
    """Record for as long as asked, print the summary and return 0; 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="muster gpu-telemetry", description="Record what GPUs tell once a second.")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--directory", required=True, help="where the JSON lines go")
    parser.add_argument("--files", type=int, required=True, help="how many files are kept there")
    parser.add_argument("--under-load", action="store_true", help="a load runs meanwhile: it is judged what it reached")
    options = parser.parse_args(arguments)
    if not 0 < options.seconds < 1e7 or options.files < 1:
        parser.error("--seconds is more than 0 and --files at least 1")
    files = Files(options.directory, options.files)
    summary = record(options.seconds, files)
    print(json.dumps({**summary, "under_load": options.under_load}, sort_keys=True))
    return 0


def record(seconds: float, files: Files) -> dict[str, Any]:
    """Follow nvidia-smi for ``seconds`` and return the summary."""
    digests: dict[str, Digest] = {}
    notes: list[str] = []
    sick = Sick()
    before, why_before = replays()
    began, deadline = time.time(), time.monotonic() + seconds
    restarts = 0

    def take(line: str) -> None:
        if sick.take(line):
            return
        sample = sample_of(line)
        if sample is None:
            # Nothing but samples is expected; a GPU that gives no handle is told in a line of its own.
            note = line.strip()[:200]
            if note and note not in notes and len(notes) < NOTES:
                notes.append(note)
            return
        digests.setdefault(sample.gpu, Digest()).add(sample, began)
        files.add(sample)

    while True:
        follow(deadline, take)
        if time.monotonic() >= deadline or restarts == RESTARTS:
            break
        # It ends by itself when a GPU is lost: the others go on.
        restarts += 1
        sick.start_over(restarts)
        time.sleep(max(0.0, min(INTERVAL_SECONDS, deadline - time.monotonic())))
    # What is given up early is not told of from then on.
    finished = max(time.time(), began + seconds)
    files.close()
    after, why_after = replays()
    return {
        "format": FORMAT,
        "seconds": seconds,
        "began": round(began, 3),
        "finished": round(finished, 3),
        "gpus": {gpu: digest.summary(finished) for gpu, digest in sorted(digests.items())},
        "replays": {gpu: [count, after[gpu]] for gpu, count in before.items() if gpu in after},
        "replays_unread": why_before or why_after,
        "restarts": restarts,
        "notes": notes,
        "sick": sick.named(),
        "files": files.written[-NOTES:],
        "files_trouble": files.trouble,
    }


def follow(deadline: float, take: Callable[[str], None]) -> None:
    """Hand over each line that one nvidia-smi prints until the deadline or its end."""
    argv = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        process = subprocess.Popen(
            [*argv, "-lms", f"{INTERVAL_SECONDS * 1000:.0f}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Its timestamps are local time, in which an hour a year comes twice.
            env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
        )
    except OSError as exc:
        take(f"nvidia-smi: {exc.strerror or exc}")
        return
    try:
        assert process.stdout is not None
        for line in _lines(process.stdout.fileno(), deadline):
            take(line)
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def _lines(descriptor: int, deadline: float) -> Iterator[str]:
    rest = b""
    while True:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        data = os.read(descriptor, 65536) if ready else b""
        *lines, rest = (rest + data).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in lines)
        # A line without end is no sample; it must not grow for ever either.
        rest = rest[-65536:]
        if not data or time.monotonic() >= deadline:
            return


def replays() -> tuple[dict[str, int], str]:
    """Return each GPU's PCIe replays since its last reset, and why there are none ("" if there are)."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "-q", "-x"],
            capture_output=True,
            text=True,
            check=False,
            timeout=QUERY_SECONDS,
            errors="replace",
        )
        root = ElementTree.fromstring(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ElementTree.ParseError) as exc:
        return {}, f"nvidia-smi -q -x: {exc}"[:200]
    found: dict[str, int] = {}
    for gpu in root.iter("gpu"):
        address = pci_address(gpu.get("id", ""))
        count = (gpu.findtext("pci/replay_counter") or "").strip()
        if address and re.fullmatch(r"\d{1,12}", count):
            found[address] = int(count)
    return found, "" if found else "nvidia-smi -q -x tells no replay counter"
