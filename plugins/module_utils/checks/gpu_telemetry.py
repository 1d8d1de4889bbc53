"""Does every GPU run as cool, as fast and as undisturbed as its class and its neighbours while it is loaded?

A GPU at its power limit reports the software power cap, which is what a full load looks like. Clocks lowered for heat
or by the board's power brake are not. The PCIe link of an idle GPU may rest at a low generation: what counts is that
the class' generation was reached.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..stress.gpu_telemetry import Gpu, Telemetry
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding, Value

NAME = "gpu_telemetry"
RULES = 2
PROBES = ("gpu_telemetry",)
THROTTLING = {
    "hw_slowdown": "hardware slowdown",
    "hw_thermal_slowdown": "hardware thermal slowdown",
    "hw_power_brake_slowdown": "power brake",
    "sw_thermal_slowdown": "software thermal slowdown",
}
# Fewer do not make a median that one of them could stand out from.
_COHORT = 3
# nvidia-smi rests a second after each round, which itself takes up to a second on eight busy GPUs.
_SAMPLES = 0.5


def subjects(expect: Expectations) -> list[str]:
    """Return every GPU of the class, unless the class says that there is no telemetry."""
    return [] if expect.telemetry is None else list(gpu_subjects(expect).values())


def decide(values: Mapping[str, Any], expect: Expectations) -> list[Finding]:
    """Judge each GPU by the worst that its samples show."""
    telemetry: Telemetry = values["gpu_telemetry"]
    parts = gpu_subjects(expect)
    unseen = [address for address in parts if address not in telemetry.gpus and address not in telemetry.lost]
    # Which of them a row without an address is of is known where there are no more of them than such rows.
    if len(unseen) <= len(telemetry.nameless):
        telemetry = replace(telemetry, lost={**telemetry.lost, **dict(zip(unseen, telemetry.nameless))})
    findings = [_judged(_Case(part, address, telemetry, expect)) for address, part in parts.items()]
    if rest := telemetry.nameless[len(unseen) :]:
        why = f"nvidia-smi lost a GPU during the test and did not say which: {rest[0]}"
        findings.append(Finding(NAME, "host", FAIL, "lost", "none", "", why, "investigate"))
    return findings


class _Case:
    """One GPU, its samples and what they are held against."""

    def __init__(self, part: str, address: str, telemetry: Telemetry, expect: Expectations) -> None:
        self.part, self.address, self.telemetry = part, address, telemetry
        self.own, self.gpu = stated(expect.telemetry), stated(expect.gpu)

    def fails(self, measured: Value, expected: Value, unit: str, why: str, action: str = "investigate") -> Finding:
        """Return a failure of this GPU."""
        return Finding(NAME, self.part, FAIL, measured, expected, unit, f"{self.part}: {why}", action)

    def lacks(self, measured: Value, expected: Value, unit: str, why: str) -> Finding:
        """Return that this GPU could not be judged."""
        return Finding(NAME, self.part, INCOMPLETE, measured, expected, unit, f"{self.part}: {why}", "investigate")


def _judged(case: _Case) -> Finding:
    if case.address in case.telemetry.lost:
        note = case.telemetry.lost[case.address]
        if "lost" not in note and "reset" in note:
            return case.fails("reset required", "none", "", f"it has to be reset: {note}", "reset_gpu")
        return case.fails("lost", "present", "", f"nvidia-smi lost it during the test: {note}", "reboot")
    gpu = case.telemetry.gpus.get(case.address)
    if gpu is None or not gpu.samples:
        said = f": {case.telemetry.notes[0]}" if case.telemetry.notes else ""
        return case.lacks(0, round(case.telemetry.seconds), "samples", f"nvidia-smi gave no sample of it{said}")
    found = [*_faults(case, gpu), *_heat(case, gpu), *_spread(case, gpu), *_unread(case, gpu), *_alone(case)]
    found.sort(key=lambda finding: finding.verdict != FAIL)
    if not found:
        return Finding(
            NAME, case.part, PASS, gpu.samples, round(case.telemetry.seconds), "samples", _summary(case.telemetry, gpu)
        )
    first = found[0].to_dict()
    return Finding(**{**first, "reason": "; ".join(finding.reason for finding in found)[:900]})


def _faults(case: _Case, gpu: Gpu) -> Iterator[Finding]:
    """Yield throttling, errors, and what the link and the load did not reach."""
    own = case.own
    longest = own.throttle_seconds
    for name, words in THROTTLING.items():
        seconds = gpu.reasons_seconds.get(name, 0)
        if seconds > longest:
            yield case.fails(seconds, longest, f"s of {words}", f"{words} for {seconds:g} s, class limit {longest:g} s")
    for kind, most, action in (
        ("uncorrected", own.ecc_uncorrected, "reset_gpu"),
        ("corrected", own.ecc_corrected, "investigate"),
    ):
        if f"ecc_{kind}" in gpu.counters:
            first, _, highest = gpu.counters[f"ecc_{kind}"]
            if highest - first > most:
                why = f"{highest - first} {kind} ECC errors during the test, class limit {most}"
                yield case.fails(highest - first, most, f"{kind} ECC errors", why, action)
    if gpu.replays is not None and gpu.replays[1] >= gpu.replays[0]:
        # A short run is not measured by the minute: one replay in ten seconds is no rate.
        rate = (gpu.replays[1] - gpu.replays[0]) / max(1.0, case.telemetry.seconds / 60)
        limit = own.pcie_replays_per_minute
        if rate > limit:
            why = f"{rate:.3g} PCIe replays per minute, class limit {limit:g}"
            yield case.fails(round(rate, 2), limit, "replays per minute", why, "reseat")
    width, wanted = gpu.quantities.get("pcie_width"), case.gpu.pcie_width
    if width and wanted is not None and width.min < wanted:
        why = f"PCIe width {width.min:g} during the test, class floor {wanted}"
        yield case.fails(width.min, wanted, "lanes", why, "reseat")
    if not case.telemetry.under_load:
        return
    generation, wanted = gpu.quantities.get("pcie_generation"), case.gpu.pcie_generation
    if generation and wanted is not None and generation.max < wanted:
        why = f"PCIe generation {generation.max:g} at most under load, class floor {wanted}"
        yield case.fails(generation.max, wanted, "PCIe generation", why, "reseat")
    power, allowed = gpu.quantities.get("power_watts"), gpu.quantities.get("power_limit_watts")
    if power and allowed and own.power_percent is not None:
        floor = own.power_percent / 100 * allowed.median
        if power.p95 < floor:
            why = (
                f"drew {power.p95:g} W under load (95th percentile), class floor {own.power_percent:g} % of the "
                f"enforced {allowed.median:g} W"
            )
            yield case.fails(power.p95, round(floor, 1), "W", why)


def _heat(case: _Case, gpu: Gpu) -> Iterator[Finding]:
    """Yield what was hotter than the class allows."""
    for name, limit, words in (
        ("temperature_celsius", case.own.temperature_celsius, "GPU"),
        ("memory_temperature_celsius", case.own.memory_temperature_celsius, "memory"),
    ):
        found = gpu.quantities.get(name)
        if found and limit is not None and found.max > limit:
            why = f"{words} temperature {found.max:g} C, class limit {limit:g} C"
            yield case.fails(found.max, limit, "C", why)


def _spread(case: _Case, gpu: Gpu) -> Iterator[Finding]:
    """Yield how this GPU stands apart from the other GPUs of the node."""
    gpus = case.telemetry.gpus.values()
    margin = case.own.temperature_spread_celsius
    temperatures = [
        other.quantities["temperature_celsius"].p95 for other in gpus if _knows(other, "temperature_celsius")
    ]
    if margin is not None and len(temperatures) >= _COHORT and _knows(gpu, "temperature_celsius"):
        own, middle = gpu.quantities["temperature_celsius"].p95, statistics.median(temperatures)
        if own > middle + margin:
            why = f"{own:g} C, spread across the node's GPUs: median {middle:g} C, at most {margin:g} C above allowed"
            yield case.fails(own, middle + margin, "C", why)
    for name, percent, words, unit in (
        ("power_watts", case.own.power_spread_percent, "power", "W"),
        ("sm_clock_mhz", case.own.clock_spread_percent, "SM clock", "MHz"),
    ):
        medians = [other.quantities[name].median for other in gpus if _knows(other, name)]
        # Idle GPUs differ by what they did last.
        if percent is None or not case.telemetry.under_load or len(medians) < _COHORT or not _knows(gpu, name):
            continue
        own, middle = gpu.quantities[name].median, statistics.median(medians)
        floor = middle * (1 - percent / 100)
        if own < floor:
            why = (
                f"{words} {own:g} {unit}, spread across the node's GPUs: median {middle:g} {unit}, "
                f"at most {percent:g} % below allowed"
            )
            yield case.fails(own, round(floor, 1), unit, why)


def _alone(case: _Case) -> Iterator[Finding]:
    """Yield what no class limit is known for, where the GPUs are too few to compare."""
    limits = {"temperature_celsius": case.own.temperature_celsius}
    if case.telemetry.under_load:
        limits["power_watts"] = case.own.power_percent
    for name, limit in limits.items():
        count = sum(_knows(other, name) for other in case.telemetry.gpus.values())
        if limit is None and count < _COHORT:
            why = f"no class limit of {name} is known, and {count} GPUs are too few to compare"
            yield case.lacks(count, _COHORT, "GPUs", why)


def _knows(gpu: Gpu, name: str) -> bool:
    return name in gpu.quantities


def _unread(case: _Case, gpu: Gpu) -> Iterator[Finding]:
    """Yield what was not reported, or not often enough, to call this GPU sound."""
    longest = case.own.gap_seconds
    if gpu.gap_seconds > longest:
        why = f"no sample for {gpu.gap_seconds:g} s, class limit {longest:g} s"
        yield case.lacks(gpu.gap_seconds, longest, "s", why)
    least = max(1.0, _SAMPLES * case.telemetry.seconds - longest)
    if gpu.samples < least:
        why = f"{gpu.samples} samples in {case.telemetry.seconds:g} s, at least {least:.0f} are needed"
        yield case.lacks(gpu.samples, round(least), "samples", why)
    needed = [
        "power_watts",
        "power_limit_watts",
        "temperature_celsius",
        "sm_clock_mhz",
        *(["pcie_generation"] if case.gpu.pcie_generation is not None else []),
        *(["pcie_width"] if case.gpu.pcie_width is not None else []),
    ]
    if case.own.memory_temperature_celsius is not None:
        needed.append("memory_temperature_celsius")
    for name in [*needed, "ecc_corrected", "ecc_uncorrected", "reasons"]:
        known = name == "reasons" or name in gpu.quantities or name in gpu.counters
        unknown = gpu.unknown.get(name, 0)
        if not known or unknown >= gpu.samples:
            yield case.lacks("not told", "told", "", f"{name} was not reported")
        elif unknown > longest:
            yield case.lacks(unknown, longest, "samples", f"{name} was not reported in {unknown} samples")
    for name, (first, last, highest) in gpu.counters.items():
        if last < first or last < highest:
            yield case.lacks(last, highest, "errors", f"{name} went back from {highest} to {last}: was the GPU reset?")
    if gpu.replays is None or gpu.replays[1] < gpu.replays[0]:
        told = "were not told" if gpu.replays is None else f"went back from {gpu.replays[0]} to {gpu.replays[1]}"
        yield case.lacks("not told", "told", "", f"PCIe replays {told}")


def _summary(telemetry: Telemetry, gpu: Gpu) -> str:
    power, heat, clock = (gpu.quantities[name] for name in ("power_watts", "temperature_celsius", "sm_clock_mhz"))
    cap = gpu.reasons_seconds.get("sw_power_cap", 0)
    return (
        f"{power.median:g} W (95th percentile {power.p95:g} W), at most {heat.max:g} C, "
        f"SM clock {clock.median:g} MHz, power cap for {cap:g} s of {telemetry.seconds:g} s"
    )
