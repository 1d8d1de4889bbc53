"""``muster gpu-stress`` on the node: what every GPU computed under a load of its own, as JSON lines.

The program is ours (gpu_stress.py), so the format is as well. A field of another type than it writes, a GPU told twice
or a missing summary makes the output unreadable; a GPU without an ``end`` line is missing, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..gpu_load.gpu_stress_program import END_SECONDS, FORMAT, START_SECONDS
from ..host.host import Host, Output, Unreadable
from ..host.typed_json import Reader
from ..words.expectations import Expectations, NoSettings

NAME = "gpu_stress"
SETTINGS = NoSettings
PROGRAM = "/usr/libexec/muster/muster"
# Imports, nvidia-smi, ending what hangs.
SPARE_SECONDS = 180.0
EVENTS = ("start", "ready", "progress", "end", "summary")


@dataclass(frozen=True)
class Product:
    """What one kind of matrix product gave on one GPU; rates in TFLOP/s.

    ``checksums`` counts each result that came out, which is one on a sound GPU. ``tflops`` of None: no rate came about.
    """

    shape: str
    tflops: float | None
    best_plain_tflops: float
    repetitions: int
    checksums: Mapping[str, int]
    tiles_checked: int
    tiles_wrong: int

    @property
    def result(self) -> str:
        """The result that came out most often."""
        return max(sorted(self.checksums), key=lambda name: self.checksums[name], default="")


@dataclass(frozen=True)
class Memory:
    """What the memory test of one GPU gave; rates in GB/s, bytes read and written counted."""

    tested_bytes: int
    total_bytes: int
    patterns: Mapping[str, int]
    wrong_words: int
    first_wrong: str
    test_gb_per_s: float
    copy_gb_per_s: float


@dataclass(frozen=True)
class Load:
    """What one GPU gave from the common start to its end. ``unsupported`` says why a kind of product was not run."""

    seconds: float
    products: Mapping[str, Product]
    unsupported: Mapping[str, str]
    memory: Memory


@dataclass(frozen=True)
class Loads:
    """The loads by GPU (PCI address), and why those that gave none are missing."""

    device: str
    seconds: float
    gpus: Mapping[str, Load] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


def collect(host: Host, expect: Expectations, seconds: float, settings: NoSettings) -> Output:
    """Run the program under the class' Python on the GPUs that the class names."""
    del settings
    own = expect.gpu_stress
    if own is None or expect.gpu is None:
        return Output(rc=None, error="gpu_stress: the class has no GPUs to load (gpu or gpu_stress is null)")
    gpus = ",".join(part.address for part in expect.gpu.parts)
    argv = [own.python, PROGRAM, "gpu-stress", f"--device={own.device}", f"--gpus={gpus}"]
    if own.python_path:
        argv = ["env", f"PYTHONPATH={own.python_path}", *argv]
    return host.run([*argv, f"--seconds={seconds:g}"], seconds + START_SECONDS + END_SECONDS + SPARE_SECONDS)


def parse(output: Output) -> Loads:
    """Return each GPU's load; raises Unreadable."""
    if output.rc:
        tail = (output.stderr.strip().splitlines() or ["nothing said"])[-1]
        raise Unreadable(f"exit status {output.rc}: {tail[:200]}, expected 0")
    summary: Mapping[str, Any] | None = None
    gpus: dict[str, Load] = {}
    for number, line in enumerate(output.stdout.splitlines(), 1):
        try:
            news = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise Unreadable(f"line {number} is {line[:60]!r}, expected JSON") from exc
        event = news.get("event") if isinstance(news, dict) else None
        if event not in EVENTS:
            raise Unreadable(f"line {number} has event {event!r}, expected one of {', '.join(EVENTS)}")
        if summary is not None:
            raise Unreadable(f"line {number} stands after the summary, expected the summary last")
        if event == "summary":
            summary = news
        elif event == "end":
            reader = Reader(news, f"line {number}")
            gpu = reader.text("gpu")
            if gpu in gpus:
                raise Unreadable(f"line {number} tells GPU {gpu} again, expected each one once")
            gpus[gpu] = _load(reader)
    if summary is None:
        raise Unreadable("no summary line, expected one at the end")
    return _loads(Reader(summary, "summary"), gpus)


def _loads(summary: Reader, gpus: Mapping[str, Load]) -> Loads:
    if summary.count("format") != FORMAT:
        raise Unreadable(f"format is {summary.data['format']!r}, expected {FORMAT}")
    missing = summary.inner("missing")
    asked = summary.data.get("gpus")
    if not isinstance(asked, list) or set(asked) != {*gpus, *missing.data} or set(gpus) & set(missing.data):
        raise Unreadable(f"asked for GPUs {asked!r}, expected each one's end or the reason for its absence")
    return Loads(
        summary.text("device"), summary.number("seconds"), gpus, {gpu: missing.text(gpu) for gpu in missing.data}
    )


def _load(reader: Reader) -> Load:
    products, memory, unsupported = (reader.inner(name) for name in ("products", "memory", "unsupported"))
    return Load(
        reader.number("seconds"),
        {kind: _product(products.inner(kind)) for kind in products.data},
        {kind: unsupported.text(kind) for kind in unsupported.data},
        Memory(
            memory.count("bytes"),
            memory.count("total_bytes"),
            _counts(memory.inner("patterns")),
            memory.count("wrong_words"),
            json.dumps(memory.data.get("first_wrong"), sort_keys=True)[:300],
            memory.number("test_gb_per_s"),
            memory.number("copy_gb_per_s"),
        ),
    )


def _product(reader: Reader) -> Product:
    return Product(
        reader.text("shape"),
        None if reader.data.get("tflops", 0) is None else reader.number("tflops"),
        reader.number("best_plain_tflops"),
        reader.count("repetitions"),
        _counts(reader.inner("checksums")),
        reader.count("tiles_checked"),
        reader.count("tiles_wrong"),
    )


def _counts(reader: Reader) -> dict[str, int]:
    return {name: reader.count(name) for name in reader.data}
