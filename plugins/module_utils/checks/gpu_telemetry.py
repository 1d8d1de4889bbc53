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

from ..formats.bmc import fans_of, temperature_of
from ..stress.gpu_stress import Loads
from ..stress.gpu_telemetry import Gpu, Telemetry
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding, Value

NAME = "gpu_telemetry"
RULES = 4
PROBES = ("gpu_telemetry",)
# What ran beside it: the load that says how far it came, and the BMC, which says what air it had.
OPTIONAL_PROBES = ("gpu_stress", "ipmi_sdr", "redfish")
# The general hardware slowdown is told beside the two that say why.
THROTTLING = {
    "hw_thermal_slowdown": "hardware thermal slowdown",
    "hw_power_brake_slowdown": "power brake",
    "hw_slowdown": "hardware slowdown",
    "sw_thermal_slowdown": "software thermal slowdown",
}
# What lowers power and clocks without being judged by itself.
_ASIDE = {
    "sync_boost": "sync boost, clocks as low as the slowest GPU's",
    "applications_clocks_setting": "clocks set by a person or program",
    "display_clocks_setting": "clocks set for a display",
}
# A load leaves hardly a sample without work: 9 s of ten minutes were seen idle while it started, in use for 100 %.
_IDLE_SHARE, _BUSY_PERCENT = 0.05, 95
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
    loads: Loads | None = values.get("gpu_stress")
    findings = [_judged(_Case(part, address, telemetry, loads, expect)) for address, part in parts.items()]
    if rest := telemetry.nameless[len(unseen) :]:
        why = f"nvidia-smi lost a GPU during the test and did not say which: {rest[0]}"
        findings.append(Finding(NAME, "host", FAIL, "lost", "none", "", why, "investigate"))
    return findings


def measures(values: Mapping[str, Any], expect: Expectations) -> dict[str, dict[str, float]] | None:
    """Return what each GPU drew (W) and how hot it was (C) under load, and the host's air (C, RPM) beside it.

    None where no load ran: an idle GPU is not to be compared with loaded ones.
    """
    telemetry: Telemetry = values["gpu_telemetry"]
    if not telemetry.under_load:
        return None
    found: dict[str, dict[str, float]] = {}
    for address, part in gpu_subjects(expect).items():
        told = telemetry.gpus[address].quantities if address in telemetry.gpus else {}
        if address not in telemetry.lost and {"power_watts", "temperature_celsius"} <= told.keys():
            found[part] = {"watts": told["power_watts"].median, "celsius": told["temperature_celsius"].p95}
            if "memory_temperature_celsius" in told:
                found[part]["memory_celsius"] = told["memory_temperature_celsius"].p95
    air = _air(values, expect)
    return {**found, "host": air} if air else found


def _air(values: Mapping[str, Any], expect: Expectations) -> dict[str, float]:
    source, bmc = values.get("ipmi_sdr") or values.get("redfish"), expect.bmc
    if source is None or bmc is None:
        return {}
    named = {
        "inlet_celsius": bmc.inlet.sensor if bmc.inlet else None,
        "outlet_celsius": bmc.airflow.outlet if bmc.airflow else None,
    }
    told = {name: temperature_of(source.sensors, sensor) for name, sensor in named.items() if sensor}
    speeds = [fan.reading for fan in fans_of(source.sensors) if fan.unit == "RPM" and fan.reading is not None]
    if speeds:
        told["fan_rpm"] = statistics.median(speeds)
    return {name: value for name, value in told.items() if value is not None}


class _Case:
    """One GPU, its samples and what they are held against; ``loads`` is None where no GPU load is known of."""

    def __init__(
        self, part: str, address: str, telemetry: Telemetry, loads: Loads | None, expect: Expectations
    ) -> None:
        self.part, self.address, self.telemetry, self.loads = part, address, telemetry, loads
        self.own, self.gpu, self.stress = stated(expect.telemetry), stated(expect.gpu), expect.gpu_stress

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
                f"enforced {allowed.median:g} W; {_why_less(case, gpu)}"
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
            why += f"; {_why_less(case, gpu)}" if name == "power_watts" else ""
            yield case.fails(own, round(floor, 1), unit, why)


def _why_less(case: _Case, gpu: Gpu) -> str:
    """Return why a GPU drew less than it should, by what its samples and its load tell."""
    found = [*_held_back(case, gpu), *_not_loaded(case, gpu), *_poorly_fed(case, gpu)]
    if found:
        return f"why: {', '.join(found)}"
    told = "no slowdown, lowered limit, time without work or narrow PCIe link"
    return f"no sign of why: {told}{'' if case.loads else ', and no result of gpu_stress'}"


def _held_back(case: _Case, gpu: Gpu) -> Iterator[str]:
    """Yield what lowered clocks or power, most telling first."""
    for name, words in {**THROTTLING, **_ASIDE}.items():
        seconds = gpu.reasons_seconds.get(name, 0)
        if seconds > case.own.throttle_seconds:
            yield f"{words} for {seconds:g} of {case.telemetry.seconds:g} s"
    allowed, wanted = gpu.quantities.get("power_limit_watts"), case.gpu.power_limit_watts
    if allowed and wanted is not None and allowed.median < wanted:
        yield f"enforced power limit {allowed.median:g} W, class {wanted:g} W"
    for name, words in (("sm_clock_mhz", "SM clock"), ("memory_clock_mhz", "memory clock")):
        others = [other.quantities[name].median for other in case.telemetry.gpus.values() if _knows(other, name)]
        percent = case.own.clock_spread_percent
        if percent is None or len(others) < _COHORT or not _knows(gpu, name):
            continue
        own, middle = gpu.quantities[name].median, statistics.median(others)
        if own < middle * (1 - percent / 100):
            yield f"{words} {own:g} MHz, the node's GPUs {middle:g} MHz"


def _not_loaded(case: _Case, gpu: Gpu) -> Iterator[str]:
    """Yield how the load fell short."""
    idle = gpu.reasons_seconds.get("gpu_idle", 0)
    if idle > _IDLE_SHARE * case.telemetry.seconds:
        yield f"idle for {idle:g} of {case.telemetry.seconds:g} s"
    busy = gpu.quantities.get("utilization_percent")
    if busy and busy.median < _BUSY_PERCENT:
        yield f"in use for {busy.median:g} % of the time"
    if case.loads is None:
        return
    load = case.loads.gpus.get(case.address)
    if load is None:
        yield f"gpu_stress gave no result of it ({case.loads.missing.get(case.address, 'it was not asked for')})"
        return
    # Clocks are read at the ends of batches: a hundredth is theirs.
    if load.seconds < 0.99 * case.loads.seconds:
        yield f"gpu_stress lasted {load.seconds:g} of {case.loads.seconds:g} s"
    floors = {"bf16": case.stress.bf16_floor_tflops, "fp8": case.stress.fp8_floor_tflops} if case.stress else {}
    for kind, floor in floors.items():
        rate = load.products[kind].tflops if kind in load.products else None
        if floor is not None and rate is not None and rate < floor:
            yield f"gpu_stress reached {rate:g} TFLOP/s {kind}, class floor {floor:g}"


def _poorly_fed(case: _Case, gpu: Gpu) -> Iterator[str]:
    """Yield how its PCIe link fell short."""
    width, wanted = gpu.quantities.get("pcie_width"), case.gpu.pcie_width
    if width and wanted is not None and width.min < wanted:
        yield f"PCIe width {width.min:g} of {wanted}"
    generation, wanted = gpu.quantities.get("pcie_generation"), case.gpu.pcie_generation
    if generation and wanted is not None and generation.max < wanted:
        yield f"PCIe generation {generation.max:g} of {wanted}"


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
    limit = gpu.quantities["power_limit_watts"].median
    return (
        f"{power.median:g} W (95th percentile {power.p95:g} W) of the enforced {limit:g} W, at most {heat.max:g} C, "
        f"SM clock {clock.median:g} MHz, power cap for {cap:g} s of {telemetry.seconds:g} s"
    )
