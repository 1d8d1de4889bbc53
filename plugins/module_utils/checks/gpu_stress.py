"""Does every GPU compute fast and right, as before, as its neighbours and as the CPU, and does its memory keep data?"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..gpu_load.gpu_load import KINDS, PATTERNS
from ..stress.gpu_stress import Load, Loads
from ..words.expectations import Expectations, GpuStress, gpu_subjects, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding, Value

NAME = "gpu_stress"
RULES = 3
PROBES = ("gpu_stress",)
# Fewer do not make a median that one of them could stand out from.
_COHORT = 3


def subjects(expect: Expectations) -> list[str]:
    """Return every GPU of the class, unless the class says that none is loaded."""
    return [] if expect.gpu_stress is None else list(gpu_subjects(expect).values())


def decide(values: Mapping[str, Any], expect: Expectations) -> list[Finding]:
    """Judge each GPU by the worst that its load showed: wrong bits, then what is missing, then slowness."""
    loads: Loads = values["gpu_stress"]
    return [_judged(part, address, loads, expect) for address, part in gpu_subjects(expect).items()]


def _judged(part: str, address: str, loads: Loads, expect: Expectations) -> Finding:
    own = stated(expect.gpu_stress)
    load = loads.gpus.get(address)
    if load is None:
        why = loads.missing.get(address, "it was not asked for")
        return Finding(NAME, part, INCOMPLETE, "no result", "a result", "", f"{part}: {why}", "investigate")
    order = (FAIL, INCOMPLETE)
    found = [
        *_wrong(part, address, loads),
        *_unfinished(part, load, loads, own),
        *_slow(part, address, loads, own),
    ]
    if found:
        worst = min(found, key=lambda finding: order.index(finding.verdict))
        others = [item.reason for item in found if item is not worst]
        return worst if not others else _with_reason(worst, "; ".join([worst.reason, *others])[:900])
    rate = load.products["bf16"].tflops
    return Finding(
        NAME, part, PASS, _shown(rate), own.bf16_floor_tflops, "TFLOP/s bf16", _summary(load, own, loads.torch)
    )


def _with_reason(finding: Finding, reason: str) -> Finding:
    return Finding(**{**finding.to_dict(), "reason": reason})


def _wrong(part: str, address: str, loads: Loads) -> Iterator[Finding]:
    """Yield what the GPU computed or kept wrong."""
    load = loads.gpus[address]
    for kind, product in load.products.items():
        wrong = sum(product.checksums.values()) - product.checksums.get(product.result, 0)
        if wrong:
            why = f"{part}: {kind}: {wrong} of {product.repetitions} repetitions of one product gave another result"
            yield Finding(NAME, part, FAIL, wrong, 0, "wrong results", why, "rma")
        if product.tiles_wrong:
            # What every GPU of the node gets wrong alike is the software's doing until shown otherwise.
            alike = len(loads.gpus) > 1 and all(
                kind in other.products and other.products[kind].tiles_wrong for other in loads.gpus.values()
            )
            why = (
                f"{part}: {kind}: {product.tiles_wrong} of {product.tiles_checked} sampled elements differ from the CPU"
            )
            action = "investigate" if alike else "rma"
            yield Finding(NAME, part, FAIL, product.tiles_wrong, 0, "wrong elements", why, action)
        yield from _odd_one_out(part, address, kind, loads)
    if not load.memory.wrong_words and load.memory.first_wrong not in ("null", "[]"):
        why = f"{part}: no wrong word is counted, and the first are {load.memory.first_wrong}"
        yield Finding(NAME, part, INCOMPLETE, None, 0, "wrong words", why, "investigate")
    if load.memory.wrong_words:
        why = f"{part}: memory lost {load.memory.wrong_words} words; the first: {load.memory.first_wrong}"
        yield Finding(NAME, part, FAIL, load.memory.wrong_words, 0, "wrong words", why, "rma")


def _odd_one_out(part: str, address: str, kind: str, loads: Loads) -> Iterator[Finding]:
    """Yield a finding when the GPU's result is not that of most GPUs of the node, or no result is."""
    told = {gpu: load.products[kind].result for gpu, load in loads.gpus.items() if kind in load.products}
    results = {gpu: result for gpu, result in told.items() if result}
    votes = Counter(results.values())
    if len(votes) < 2:
        return
    result, count = votes.most_common(1)[0]
    if 2 * count <= len(results):
        said = ", ".join(f"{gpu} {found}" for gpu, found in sorted(results.items()))
        why = f"{part}: {kind}: the GPUs of the node disagree and no result has a majority: {said}"
        yield Finding(NAME, part, INCOMPLETE, len(votes), 1, "different results", why, "investigate")
    elif results.get(address, result) != result:
        why = f"{part}: {kind}: result {results[address]}, {count} of the node's {len(results)} GPUs have {result}"
        yield Finding(NAME, part, FAIL, results[address], result, "checksum", why, "rma")


def _floors(own: GpuStress) -> dict[str, float | None]:
    """Return the floor of each kind of product that the class asks for."""
    fp8 = {"fp8": own.fp8_floor_tflops} if own.fp8 else {}
    return {"bf16": own.bf16_floor_tflops, **fp8}


def _unfinished(part: str, load: Load, loads: Loads, own: GpuStress) -> Iterator[Finding]:
    """Yield what was not measured, or not for long enough."""

    def lacking(measured: Value, expected: Value, unit: str, why: str) -> Finding:
        return Finding(NAME, part, INCOMPLETE, measured, expected, unit, f"{part}: {why}", "investigate")

    if loads.device != own.device:
        yield lacking(loads.device, own.device, "device", f"ran on {loads.device}, expected {own.device}")
    # Clocks are read at the ends of batches: a hundredth is theirs.
    if load.seconds < 0.99 * loads.seconds:
        yield lacking(load.seconds, loads.seconds, "s", f"load lasted {load.seconds:g} of {loads.seconds:g} s")
    for kind in KINDS:
        if kind not in _floors(own):
            continue
        product = load.products.get(kind)
        if product is None:
            why = load.unsupported.get(kind, "no result")
            yield lacking("not run", "run", "", f"{kind}: {why}, and the class expects it")
        elif product.tflops is None or not product.repetitions or not product.tiles_checked:
            yield lacking(product.repetitions, 1, "repetitions", f"{kind}: too few repetitions to tell a rate")
        elif sum(product.checksums.values()) != product.repetitions:
            told = sum(product.checksums.values())
            yield lacking(
                told, product.repetitions, "results", f"{kind}: {told} of {product.repetitions} results reported"
            )
    memory = load.memory
    share = 100 * memory.bytes / memory.total_bytes if memory.total_bytes else 0
    if share < own.memory_percent:
        yield lacking(round(share, 1), own.memory_percent, "% of memory", f"tested {share:.1f} % of its memory")
    undone = [pattern for pattern in PATTERNS if not memory.patterns.get(pattern)]
    if undone:
        yield lacking(len(PATTERNS) - len(undone), len(PATTERNS), "patterns", f"memory without {', '.join(undone)}")


@dataclass(frozen=True)
class _Rate:
    """How fast one GPU did one thing, the class' floor, and how fast all of the node's GPUs did it."""

    said: str
    unit: str
    value: float
    floor: float | None
    all: Sequence[float | None]


def _slow(part: str, address: str, loads: Loads, own: GpuStress) -> Iterator[Finding]:
    """Yield what is below the class' floor, or below the other GPUs of the node."""
    load, floors, everyone = loads.gpus[address], _floors(own), loads.gpus.values()
    for kind, product in load.products.items():
        if kind not in floors or product.tflops is None:
            continue
        unit = f"TFLOP/s {kind}"
        rates = [other.products[kind].tflops for other in everyone if kind in other.products]
        rate = _Rate(f"{product.tflops:.4g} {unit}", unit, product.tflops, floors[kind], rates)
        yield from _below_floor(part, rate)
        yield from _below_others(part, rate, own)
    copy, copies = load.memory.copy_gb_per_s, [other.memory.copy_gb_per_s for other in everyone]
    said = f"memory copies {copy:.4g} GB/s"
    rate = _Rate(said, "GB/s of memory", copy, own.memory_copy_floor_gb_per_s, copies)
    yield from _below_others(part, rate, own) if rate.floor is None else _below_floor(part, rate)


def _below_floor(part: str, rate: _Rate) -> Iterator[Finding]:
    if rate.floor is not None and rate.value < rate.floor:
        why = f"{part}: {rate.said}, class floor {rate.floor:g}"
        yield Finding(NAME, part, FAIL, _shown(rate.value), rate.floor, rate.unit, why, "investigate")


def _below_others(part: str, rate: _Rate, own: GpuStress) -> Iterator[Finding]:
    """Yield that a GPU is slower than those of its node, or that only they could tell and are too few."""
    # A GPU at nothing is none to compare with.
    known = [each for each in rate.all if each]
    if own.spread_percent is None:
        return
    if rate.floor is None and not rate.value:
        yield Finding(NAME, part, FAIL, 0, None, rate.unit, f"{part}: {rate.said}", "investigate")
        return
    if len(known) < _COHORT:
        if rate.floor is None:
            why = f"{part}: {rate.said}, no class floor is known and {len(known)} GPUs are too few to compare"
            yield Finding(NAME, part, INCOMPLETE, _shown(rate.value), None, rate.unit, why, "investigate")
        return
    middle = statistics.median(known)
    least = middle * (1 - own.spread_percent / 100)
    if rate.value < least:
        why = (
            f"{part}: {rate.said}, spread across the node's GPUs: "
            f"median {middle:.4g}, at most {own.spread_percent:g} % below allowed"
        )
        yield Finding(NAME, part, FAIL, _shown(rate.value), _shown(least), rate.unit, why, "investigate")


def _summary(load: Load, own: GpuStress, torch: str) -> str:
    memory = load.memory
    said = [
        f"{kind} {product.tflops:.4g} TFLOP/s ({100 * product.tflops / product.best_plain_tflops:.0f} % of the best "
        f"unchecked), {product.repetitions} equal results"
        for kind, product in load.products.items()
        if product.tflops is not None and product.best_plain_tflops
    ]
    share = 100 * memory.bytes / memory.total_bytes
    said.append(
        f"{share:.1f} % of memory sound at {memory.test_gb_per_s:.4g} GB/s, copy {memory.copy_gb_per_s:.4g} GB/s"
    )
    said += [f"{kind} not supported: {why}" for kind, why in load.unsupported.items()]
    floors = {**_floors(own), "memory copy": own.memory_copy_floor_gb_per_s}
    if unknown := [kind for kind, floor in floors.items() if floor is None]:
        said.append(f"no class floor for {', '.join(unknown)}: compared with the node's other GPUs alone")
    said += [f"torch {torch}"] if torch else []
    return "; ".join(said)


def _shown(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.6g}")
