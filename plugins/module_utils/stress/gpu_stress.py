"""``muster gpu-stress`` on the node: what every GPU computed under a load of its own, as JSON lines.

The program is ours (gpu_stress.py), so the format is as well. A field of another type than it writes, a GPU told twice
or a missing summary makes the output unreadable; a GPU without an ``end`` line is missing, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Optional, TypeVar

from ..gpu_load.gpu_stress_program import END_SECONDS, FORMAT, START_SECONDS
from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations, NoSettings
from ..words.reader import Converted, Count, Number, ReadError, Rule, read

T = TypeVar("T")

NAME = "gpu_stress"
RULES = 2
SETTINGS = NoSettings
PROGRAM = "/usr/libexec/muster/muster"
# Imports, nvidia-smi, ending what hangs.
SPARE_SECONDS = 180.0
EVENTS = ("start", "ready", "progress", "end", "summary")


_Shown = Annotated[str, Converted("a value", lambda data: json.dumps(data, sort_keys=True)[:300])]


@dataclass(frozen=True)
class Product:
    """What one kind of matrix product gave on one GPU; rates in TFLOP/s.

    ``checksums`` counts each result that came out, which is one on a sound GPU. ``tflops`` of None: no rate came about.
    """

    shape: str
    tflops: Optional[Number]  # noqa: UP045 -- read at run time, by Python 3.9 too
    best_plain_tflops: Number
    repetitions: Count
    checksums: Mapping[str, Count]
    tiles_checked: Count
    tiles_wrong: Count

    @property
    def result(self) -> str:
        """The result that came out most often."""
        return max(sorted(self.checksums), key=lambda name: self.checksums[name], default="")


@dataclass(frozen=True)
class Memory:
    """What the memory test of one GPU gave, of whose ``total_bytes`` it tested ``bytes``.

    Rates in GB/s, bytes read and written counted.
    """

    bytes: Count
    total_bytes: Count
    patterns: Mapping[str, Count]
    wrong_words: Count
    test_gb_per_s: Number
    copy_gb_per_s: Number
    first_wrong: _Shown = "null"


@dataclass(frozen=True)
class Load:
    """What one GPU gave from the common start to its end. ``unsupported`` says why a kind of product was not run."""

    gpu: str
    seconds: Number
    products: Mapping[str, Product]
    unsupported: Mapping[str, str]
    memory: Memory


@dataclass(frozen=True)
class _Summary:
    """The last line: which GPUs were asked for, and why one gave no end."""

    format: Annotated[int, Rule(str(FORMAT), FORMAT.__eq__)]
    device: str
    seconds: Number
    gpus: tuple[str, ...]
    missing: Mapping[str, str]
    # Outputs of earlier programs do not have it here.
    torch: str = ""


@dataclass(frozen=True)
class Loads:
    """The loads by GPU (PCI address), why those that gave none are missing, and the PyTorch that ran them."""

    device: str
    seconds: float
    gpus: Mapping[str, Load] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    torch: str = ""


def collect(host: Host, expect: Expectations, seconds: float, settings: NoSettings) -> Output:
    """Run the program under the class' Python on the GPUs that the class names."""
    del settings
    own = expect.gpu_stress
    if own is None or expect.gpu is None:
        return Output(rc=None, error="gpu_stress: the class has no GPUs to load (gpu or gpu_stress is null)")
    gpus = ",".join(part.address for part in expect.gpu.parts)
    argv = [expect.pytorch.python, PROGRAM, "gpu-stress", f"--device={own.device}", f"--gpus={gpus}"]
    return host.run([*argv, f"--seconds={seconds:g}"], seconds + START_SECONDS + END_SECONDS + SPARE_SECONDS)


def parse(output: Output) -> Loads:
    """Return each GPU's load; raises Unreadable."""
    if output.rc:
        tail = (output.stderr.strip().splitlines() or ["nothing said"])[-1]
        raise Unreadable(f"exit status {output.rc}: {tail[:200]}, expected 0")
    summary: _Summary | None = None
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
            summary = _read(_Summary, news, "summary")
        elif event == "end":
            load = _read(Load, news, f"line {number}")
            if load.gpu in gpus:
                raise Unreadable(f"line {number} tells GPU {load.gpu} again, expected each one once")
            gpus[load.gpu] = load
    if summary is None:
        raise Unreadable("no summary line, expected one at the end")
    asked, missing = summary.gpus, summary.missing
    if set(asked) != {*gpus, *missing} or set(gpus) & set(missing):
        raise Unreadable(f"asked for GPUs {', '.join(asked)}, expected each one's end or the reason for its absence")
    return Loads(summary.device, summary.seconds, gpus, missing, summary.torch)


def _read(kind: type[T], data: Any, where: str) -> T:
    try:
        return read(kind, data, where, extra=True)
    except ReadError as exc:
        raise Unreadable(str(exc)) from exc
