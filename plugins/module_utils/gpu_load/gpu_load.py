"""The load on one device: matrix products and a memory test, everything computed compared bit for bit.

Torch is handed in, so that importing this module costs nothing where there is none. The same code runs on a GPU and,
with small sizes, on the CPU.

Bit-identical repetitions need the same kernels in the same order: one stream, one process per GPU, a fixed cuBLAS
workspace (``CUBLAS_WORKSPACE_CONFIG``, without which cuBLAS may split a product differently from call to call), no
reduced-precision reduction, and one shape for all GPUs of the node. TF32 plays no part: no input is float32.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CUBLAS_WORKSPACE = ":4096:8"
KINDS = ("bf16", "fp8")
MASK = 2**32 - 1
# Random-looking bits cost the most power: products of constant matrices run cooler and faster.
FACTORS = (0x2C1B3C6D, 0x297A2D39)
SEEDS = {"a": 0x1D872B41, "b": 0x51ED2705}
# A tile agrees with the CPU when |got - want| <= RELATIVE |want| + ACCUMULATED (|A| |B|). The result is rounded to
# bfloat16, on a CPU without bfloat16 units more than once (up to 2**-8 of it seen); float32 accumulators lose about
# 2**-24 of the running sum at each of k steps; fp8 products are accumulated with 14 bits or so (use_fast_accum).
RELATIVE = 2.0**-7
ACCUMULATED = {"bf16": 2.0**-16, "fp8": 2.0**-10}
TILE = 8
_SIGNED = {"0x00": 0, "0xff": -1, "0x55": 0x5555555555555555, "0xaa": -0x5555555555555556}
# Constant patterns find stuck bits and shorts between neighbours, the address in its own data a wrong address line.
PATTERNS = (*_SIGNED, "address", "inverted address")
DISTINCT = 16


@dataclass(frozen=True)
class Sizes:
    """How large the work is. ``memory_bytes`` of None: all that is free, less ``headroom_bytes``."""

    shapes: tuple[tuple[int, int, int], ...]
    chunk_bytes: int
    memory_bytes: int | None
    headroom_bytes: int
    tune_seconds: float
    batch_seconds: float
    cycle_seconds: float


# 8192 x 8192 and larger reach the best rate on H100 (numbers of ml-engineering's maximum achievable matmul search); the
# long k makes the checksum of the result small beside the product: 2 % at 16384. The head-room holds the matrices, and
# what nic_load takes of a GPU's memory meanwhile: two ends for each rail, of up to two rails, with a CUDA context of
# half a GiB and buffers.
GPU_SIZES = Sizes(
    ((8192, 8192, 16384), (8192, 8192, 32768), (16384, 8192, 16384)), 2**28, None, 7 * 2**29, 1.0, 0.5, 20.0
)
CPU_SIZES = Sizes(((64, 64, 256), (64, 128, 128)), 2**18, 2**20, 0, 0.01, 0.05, 1.0)


class Device:
    """One device and the clock that waits for its work to be done."""

    def __init__(self, torch: Any, name: str) -> None:
        self.torch = torch
        self.cuda = name == "cuda"
        self.device = torch.device("cuda", 0) if self.cuda else torch.device("cpu")
        if self.cuda:
            torch.cuda.set_device(0)
            torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        else:
            torch.set_num_threads(1)

    def synchronize(self) -> float:
        """Wait until all work is done and return the time."""
        if self.cuda:
            self.torch.cuda.synchronize()
        return time.monotonic()

    def described(self) -> dict[str, Any]:
        """Return the device's name, memory and identity as torch sees them."""
        if not self.cuda:
            return {"name": "cpu"}
        properties = self.torch.cuda.get_device_properties(0)
        found: dict[str, Any] = {"name": properties.name, "multiprocessors": properties.multi_processor_count}
        uuid = getattr(properties, "uuid", None)
        if uuid is not None:
            found["uuid"] = f"GPU-{str(uuid).removeprefix('GPU-')}"
        return found

    def free_bytes(self) -> tuple[int, int]:
        """Return free and all memory of the GPU."""
        self.torch.cuda.empty_cache()
        free, total = self.torch.cuda.mem_get_info()
        return int(free), int(total)


def matrix_rows(torch: Any, device: Any, rows: range, columns: int, seed: int) -> Any:
    """Return rows of a matrix of float32 in [-1, 1) that depend on seed and position alone, on every device."""
    number = torch.arange(rows.start * columns, rows.stop * columns, dtype=torch.int64, device=device)
    number = (number + seed) & MASK
    # Factors below 2**31 keep the product inside 63 bits.
    for factor in FACTORS:
        number = ((number ^ (number >> 15)) * factor) & MASK
    number = (number ^ (number >> 16)) & 0xFFFF
    return (number.to(torch.float32) / 32768 - 1).view(len(rows), columns)


class Product:
    """C = A B on the device, with what its result must be."""

    def __init__(self, device: Device, kind: str, shape: Sequence[int]) -> None:
        torch = device.torch
        self.device, self.kind, self.shape = device, kind, tuple(shape)
        rows, columns, depth = self.shape
        self.dtype = torch.bfloat16 if kind == "bf16" else torch.float8_e4m3fn
        self.a = self._matrix(rows, depth, SEEDS["a"])
        self.b = self._matrix(columns, depth, SEEDS["b"]).t()
        self.one = torch.ones((), dtype=torch.float32, device=device.device)
        self.c = torch.empty((rows, columns), dtype=torch.bfloat16, device=device.device)
        # Odd factors: whatever changes a row's sum changes the checksum (modulo 2**64).
        self.weights = 2 * torch.arange(rows, dtype=torch.int64, device=device.device) * 0x9E3779B1 + 1
        self.flops = 2 * rows * columns * depth

    def _matrix(self, rows: int, columns: int, seed: int) -> Any:
        torch = self.device.torch
        result = torch.empty((rows, columns), dtype=self.dtype, device=self.device.device)
        step = max(1, 2**24 // columns)
        for start in range(0, rows, step):
            part = matrix_rows(torch, self.device.device, range(start, min(start + step, rows)), columns, seed)
            result[start : start + step].copy_(part.to(self.dtype))
        return result

    def multiply(self) -> None:
        """Start one product."""
        torch = self.device.torch
        if self.kind == "bf16":
            torch.mm(self.a, self.b, out=self.c)
            return
        result = torch._scaled_mm(  # torch's only way to an fp8 product
            self.a, self.b, scale_a=self.one, scale_b=self.one, out_dtype=torch.bfloat16, use_fast_accum=True
        )
        # Until 2.4 the largest value came along.
        self.c = result[0] if isinstance(result, tuple) else result

    def checksum(self) -> Any:
        """Return a number on the device that every bit of C decides."""
        return (self.c.view(self.device.torch.int64).sum(1) * self.weights).sum()

    def flip_bit(self) -> None:
        """Flip one bit of C: the lowest of an element's mantissa, the least that can go wrong."""
        self.c.view(self.device.torch.int16)[self.shape[0] // 3, self.shape[1] // 3] ^= 1

    def rate(self, seconds: float) -> float:
        """Return TFLOP/s of products that nobody checks, over about ``seconds``."""
        count, spent = 1, 0.0
        while True:
            begin = self.device.synchronize()
            for _ in range(count):
                self.multiply()
            spent = self.device.synchronize() - begin
            if spent >= seconds / 2:
                return self.flops * count / spent / 1e12
            count = min(count * 8, max(count + 1, int(count * seconds / max(spent, 1e-6))))

    def wrong_in_tiles(self) -> tuple[int, int, float]:
        """Return checked and wrong elements of C, and the largest error as a share of the tolerance."""
        torch = self.device.torch
        rows, columns, depth = self.shape
        cpu = torch.device("cpu")
        checked, wrong, worst = 0, 0, 0.0
        for row, column in ((0, 0), (rows // 2, columns // 4), (rows - TILE, columns - TILE)):
            # Inputs come from their formula, not from the device, whose copies may be what is wrong.
            a = matrix_rows(torch, cpu, range(row, row + TILE), depth, SEEDS["a"]).to(self.dtype).to(torch.float64)
            b = (
                matrix_rows(torch, cpu, range(column, column + TILE), depth, SEEDS["b"])
                .to(self.dtype)
                .to(torch.float64)
            )
            want = a @ b.t()
            allowed = RELATIVE * want.abs() + ACCUMULATED[self.kind] * (a.abs() @ b.abs().t())
            got = self.c[row : row + TILE, column : column + TILE].to(cpu).to(torch.float64)
            share = ((got - want).abs() / allowed).nan_to_num(nan=1e9, posinf=1e9)
            checked += TILE * TILE
            wrong += int((share > 1).sum())
            worst = max(worst, float(share.max()))
        return checked, wrong, worst


@dataclass
class Tally:
    """What one kind of product gave so far."""

    rates: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    checksums: Counter[str] = field(default_factory=Counter)
    repetitions: int = 0
    # So many take as long as one batch should.
    batch: int = 1
    checked: int = 0
    wrong: int = 0
    worst: float = 0.0


class Memory:
    """Device memory filled with patterns and read again."""

    def __init__(self, device: Device, sizes: Sizes) -> None:
        torch = device.torch
        self.device = device
        words = sizes.chunk_bytes // 8
        # One chunk's worth of numbers, by which each chunk gets its own addresses.
        self.ramp = torch.arange(words, dtype=torch.int64, device=device.device)
        self.chunks: list[Any] = []
        if sizes.memory_bytes is None:
            free, self.total_bytes = device.free_bytes()
            count = max(2, (free - sizes.headroom_bytes) // sizes.chunk_bytes)
        else:
            self.total_bytes = sizes.memory_bytes
            count = sizes.memory_bytes // sizes.chunk_bytes
        for _ in range(count):
            self.chunks.append(torch.empty(words, dtype=torch.int64, device=device.device))
        self.bytes = count * sizes.chunk_bytes
        self.moved_bytes, self.seconds, self.copy_gb_per_s = 0, 0.0, 0.0
        self.done: Counter[str] = Counter()
        self.wrong_words = 0
        self.first_wrong: list[dict[str, Any]] = []
        self.written = ""

    def write(self, pattern: str) -> None:
        """Write a pattern to all of it."""
        begin = self.device.synchronize()
        for number, chunk in enumerate(self.chunks):
            if pattern in _SIGNED:
                chunk.fill_(_SIGNED[pattern])
                continue
            self.device.torch.add(self.ramp, self._base(number), out=chunk)
            if pattern.startswith("inverted"):
                chunk.bitwise_not_()
        self.seconds += self.device.synchronize() - begin
        # Reading the ramp and inverting in place are traffic as well.
        self.moved_bytes += self.bytes * (1 if pattern in _SIGNED else 2 if pattern == "address" else 4)
        self.written = pattern

    def flip_bit(self) -> None:
        """Flip one bit of what was written."""
        self.chunks[-1][len(self.ramp) // 3] ^= 1 << 17

    def verify(self) -> None:
        """Read all of it and count the words that are not as they were written."""
        torch, pattern = self.device.torch, self.written
        begin = self.device.synchronize()
        bounds = []
        for chunk in self.chunks:
            if pattern.startswith("inverted"):
                chunk.bitwise_not_()
            if pattern not in _SIGNED:
                chunk.sub_(self.ramp)
            # Least and largest word in one pass: both as expected means that every word is.
            bounds.append(torch.stack(torch.aminmax(chunk)))
        found = torch.stack(bounds).tolist()
        self.seconds += self.device.synchronize() - begin
        self.moved_bytes += self.bytes * (1 if pattern in _SIGNED else 4 if pattern == "address" else 6)
        for number, (least, largest) in enumerate(found):
            expected = _SIGNED.get(pattern, self._base(number))
            if least != expected or largest != expected:
                self._note(pattern, number, expected)
        self.done[pattern] += 1

    def copy(self, seconds: float) -> None:
        """Measure a plain copy inside the device; the best counts (bytes read and bytes written)."""
        count, spent = 2, 0.0
        while spent < seconds / 2:
            count *= 2
            begin = self.device.synchronize()
            for number in range(count):
                self.chunks[(2 * number + 1) % len(self.chunks)].copy_(self.chunks[2 * number % len(self.chunks)])
            spent = self.device.synchronize() - begin
        moved = 2 * count * len(self.ramp) * 8
        self.copy_gb_per_s = max(self.copy_gb_per_s, moved / spent / 1e9)

    def _base(self, number: int) -> int:
        return number * len(self.ramp)

    def _note(self, pattern: str, number: int, expected: int) -> None:
        places = self.device.torch.nonzero(self.chunks[number] != expected).flatten()
        self.wrong_words += len(places)
        for place in places[: 4 - min(4, len(self.first_wrong))].tolist():
            word = int(self.chunks[number][place])
            self.first_wrong.append(
                {
                    "pattern": pattern,
                    "offset": (self._base(number) + place) * 8,
                    "wrong_bits": f"{(word ^ expected) & (2**64 - 1):016x}",
                }
            )


def tuned(device: Device, sizes: Sizes) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Return plain TFLOP/s of each kind and shape (``8192x8192x16384``), and why a kind cannot be run here."""
    rates: dict[str, dict[str, float]] = {}
    unsupported: dict[str, str] = {}
    for kind in KINDS:
        why = _unsupported(device, kind)
        if why:
            unsupported[kind] = why
            continue
        rates[kind] = {}
        for shape in sizes.shapes:
            product = Product(device, kind, shape)
            # The first product loads kernels and raises the clock.
            product.rate(sizes.tune_seconds / 2)
            rates[kind]["x".join(map(str, shape))] = round(product.rate(sizes.tune_seconds), 6)
    return rates, unsupported


def _unsupported(device: Device, kind: str) -> str:
    """Return why the device cannot multiply matrices of this kind, "" if it can."""
    if kind == "bf16":
        return ""
    torch = device.torch
    if not hasattr(torch, "float8_e4m3fn") or not hasattr(torch, "_scaled_mm"):
        return f"torch {torch.__version__} has no fp8"
    if device.cuda and torch.cuda.get_device_capability() < (8, 9):
        return "compute capability below 8.9 has no fp8"
    try:
        small = Product(device, kind, (64, 64, 64))
        small.multiply()
        device.synchronize()
    except (RuntimeError, NotImplementedError, ValueError) as exc:
        return f"{type(exc).__name__}: {exc}"[:200]
    return ""


class Load:
    """The whole load on one device from the common start to the end."""

    def __init__(self, device: Device, sizes: Sizes, shapes: Mapping[str, Sequence[int]], flip: str = "") -> None:
        self.device, self.sizes, self.flip = device, sizes, flip
        self.products = {kind: Product(device, kind, shape) for kind, shape in shapes.items()}
        for product in self.products.values():
            # Workspaces are taken before the rest of the memory is.
            product.multiply()
            product.multiply()
            product.checksum()
        self.tallies = {kind: Tally() for kind in self.products}
        self.memory = Memory(device, sizes)
        self.seconds = 0.0

    def run(self, seconds: float, report: Callable[[Mapping[str, Any]], None]) -> None:
        """Work for ``seconds``; memory holds a pattern while the products heat it, and is read afterwards."""
        begin = self.device.synchronize()
        end = begin + seconds
        interval = max(1.0, seconds / 60)
        reported = begin
        # At least one cycle for each pattern where there is time for it.
        length = min(self.sizes.cycle_seconds, max(seconds / len(PATTERNS), 2 * self.sizes.batch_seconds))
        cycle = 0
        while cycle < len(PATTERNS) or self.device.synchronize() < end:
            # Overwrites what was there.
            self.memory.copy(self.sizes.batch_seconds / 5)
            self.memory.write(PATTERNS[cycle % len(PATTERNS)])
            until = min(end, time.monotonic() + length)
            turn = 0
            while turn < len(self.products) or time.monotonic() < until:
                kind = list(self.products)[turn % len(self.products)]
                if time.monotonic() >= end and self.tallies[kind].plain:
                    break
                self._plain(kind, cycle)
                # A long stay with one kind, since switching costs what the clock needs to settle.
                stay = min(until, time.monotonic() + max(self.sizes.batch_seconds, length / len(self.products)))
                self._repeat(kind, stay)
                turn += 1
                if time.monotonic() - reported >= interval:
                    reported = time.monotonic()
                    report({"elapsed": round(reported - begin, 3), **self._progress()})
            if self.flip == "memory" and cycle == 1:
                self.memory.flip_bit()
            self.memory.verify()
            cycle += 1
        self.seconds = self.device.synchronize() - begin

    def _plain(self, kind: str, cycle: int) -> None:
        # Beside the checked products of the same cycle, at the same temperature and power.
        if len(self.tallies[kind].plain) <= cycle:
            self.tallies[kind].plain.append(self.products[kind].rate(self.sizes.batch_seconds))

    def _repeat(self, kind: str, until: float) -> None:
        """Repeat one product until then, each result with its checksum; at least one batch."""
        product, tally = self.products[kind], self.tallies[kind]
        while True:
            count = tally.batch
            begin = self.device.synchronize()
            sums = []
            for number in range(count):
                product.multiply()
                if self.flip == "result" and kind == "bf16" and tally.repetitions + number == 1:
                    product.flip_bit()
                sums.append(product.checksum())
            found = self.device.torch.stack(sums).tolist()
            now = self.device.synchronize()
            spent = max(now - begin, 1e-9)
            if spent >= self.sizes.batch_seconds / 2:
                tally.rates.append(product.flops * count / spent / 1e12)
            tally.repetitions += count
            # A broken GPU may give another result each time; what counts then is that they are many.
            for text in (f"{number & (2**64 - 1):016x}" for number in found):
                tally.checksums[text if text in tally.checksums or len(tally.checksums) < DISTINCT else "others"] += 1
            if now >= until and tally.rates:
                break
            tally.batch = max(1, min(4096, count * 8, int(count * self.sizes.batch_seconds / spent)))
        checked, wrong, worst = product.wrong_in_tiles()
        tally.checked += checked
        tally.wrong += wrong
        tally.worst = max(tally.worst, worst)

    def _progress(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            kind: {
                "tflops": _rounded(tally.rates[-1:]),
                "repetitions": tally.repetitions,
                "results": len(tally.checksums),
            }
            for kind, tally in self.tallies.items()
        }
        shown["wrong_words"] = self.memory.wrong_words
        if self.device.cuda:
            shown["allocated_mib"] = self.device.torch.cuda.memory_allocated() // 2**20
        return shown

    def result(self) -> dict[str, Any]:
        """Return all that was measured as plain JSON data."""
        memory = self.memory
        return {
            "seconds": round(self.seconds, 3),
            "products": {kind: self._product(kind) for kind in self.products},
            "memory": {
                "bytes": memory.bytes,
                "total_bytes": memory.total_bytes,
                "patterns": dict(memory.done),
                "wrong_words": memory.wrong_words,
                "first_wrong": memory.first_wrong,
                "test_gb_per_s": round(memory.moved_bytes / max(memory.seconds, 1e-9) / 1e9, 3),
                "copy_gb_per_s": round(memory.copy_gb_per_s, 3),
            },
        }

    def _product(self, kind: str) -> dict[str, Any]:
        tally = self.tallies[kind]
        return {
            "shape": "x".join(map(str, self.products[kind].shape)),
            "tflops": _rounded(tally.rates),
            "tflops_least": round(min(tally.rates), 6) if tally.rates else None,
            "best_plain_tflops": round(max(tally.plain), 6),
            "repetitions": tally.repetitions,
            "checksums": dict(tally.checksums),
            "tiles_checked": tally.checked,
            "tiles_wrong": tally.wrong,
            "tiles_worst": round(tally.worst, 6),
            "tolerance": f"{RELATIVE:g} |C| + {ACCUMULATED[kind]:g} |A| |B|",
        }


def _rounded(rates: Sequence[float]) -> float | None:
    """Return the median: a moment's hiccup is not the rate that is sustained."""
    return round(statistics.median(rates), 6) if rates else None
