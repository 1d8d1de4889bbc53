"""Does every rail move data to and from each memory of its node as fast as the class says, and as the other rails?

The traffic turns round inside the NIC: it proves PCIe, DMA and power, never optics or cable, and every finding says so.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..nic.declared_nics import rail_subjects, rails_of, subject_of
from ..rail_test.nic_load_program import GPU, memory_of
from ..stress.nic_load import NicLoads, RailLoad, loads_gpus
from ..words.expectations import Expectations, Rail, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nic_load"
RULES = 2
PROBES: tuple[str, ...] = ("nic_load",)
PROVES = "looped back inside the NIC: proves PCIe, DMA and power, never optics or cable"
NEAR, FAR = "near", "far"
UNIT = "Gb/s"
# Fewer do not make a median that one of them could stand out from.
_COHORT = 3
# What perftest says where the device gave up, not the tool: a completion with an error (NOTIFY_COMP_ERROR_SEND in its
# perftest_resources.h), or queue pairs of one device that do not reach each other.
_DEVICE_ERROR = re.compile(r"Completion with error|Failed status|Failed to modify QP|Unable to Connect the HCA")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the parts of the rails; none where the class does not load them, or the fleet declares no RDMA fabric."""
    if None in (expect.nic, expect.nic_load, expect.rdma, expect.fabric):
        return []
    return rail_subjects(expect)


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge each rail by the worst that any memory showed."""
    loads: NicLoads = values["nic_load"]
    return [_judged(rail, loads, expect) for rail in rails_of(expect)]


def measures(values: Mapping[str, Any], expect: Expectations) -> dict[str, dict[str, float]]:
    """Return by part and memory (``numa 0``, ``gpu``) the median in Gb/s, of what was measured."""
    loads: NicLoads = values["nic_load"]
    told = {subject_of(rail): loads.rails.get(rail.name) for rail in rails_of(expect)}
    return {
        part: {memory: rate.median for memory, rate in load.rates.items()}
        for part, load in told.items()
        if load is not None and load.rates
    }


def kind_of(load: RailLoad, memory: str) -> str:
    """Return what memory of one rail is compared with that of another: ``gpu``, ``near``, or ``far`` with its distance.

    Where the system does not tell the rail's NUMA node it is the memory itself.
    """
    if memory == GPU or load.numa_node is None:
        return memory
    return NEAR if memory == memory_of(load.numa_node) else f"{FAR} {load.distances.get(memory, '')}".rstrip()


@dataclass(frozen=True)
class _Fault:
    verdict: str
    why: str
    measured: float | str | None = None
    expected: float | None = None


def _judged(rail: Rail, loads: NicLoads, expect: Expectations) -> Finding:
    part, load = subject_of(rail), loads.rails.get(rail.name)
    if load is None or load.missing:
        why = load.missing if load else "the program tells nothing of this rail"
        return _finding(part, INCOMPLETE, None, None, why)
    faults, told, judged = [*_too_few_nodes(loads, expect), *_too_short(loads)], list[str](), False
    for memory in _owed(loads, expect):
        faults += _unmeasured(load, memory, expect)
        if memory not in load.rates:
            continue
        rate = load.rates[memory].median
        limits = list(_limits(load, memory, loads, expect))
        said = f"{_said(load, memory)} {rate:.4g} {UNIT}"
        told.append(said if limits else f"{said} (not judged: no class floor, fewer than {_COHORT} rails)")
        judged = judged or bool(limits)
        # What is below the class' floor need not be told to be below the others too.
        faults += [_Fault(FAIL, f"{said}, {why}", rate, least) for least, why in limits if rate < least][:1]
    if not judged and not faults:
        faults.append(_Fault(INCOMPLETE, f"nothing to compare: {'; '.join(told)}"))
    if faults:
        # The worst first, and of equals the first.
        worst, *others = sorted(faults, key=lambda fault: (FAIL, INCOMPLETE).index(fault.verdict))
        why = "; ".join([worst.why, *(fault.why for fault in others)])
        return _finding(part, worst.verdict, worst.measured, worst.expected, f"{load.device}: {why}")
    slowest = min(load.rates[memory].median for memory in _owed(loads, expect))
    failed = sum(load.failed.values())
    told += [f"{failed} of {loads.rounds} rounds gave no rate"] if failed else []
    return _finding(part, PASS, slowest, None, f"{load.device}: {'; '.join(told)}")


def _too_few_nodes(loads: NicLoads, expect: Expectations) -> Iterator[_Fault]:
    declared = expect.numa.nodes if expect.numa else len(loads.numa)
    if len(loads.numa) != declared:
        why = f"{len(loads.numa)} NUMA nodes have CPUs and memory, the class has {declared}"
        yield _Fault(INCOMPLETE, why)


def _too_short(loads: NicLoads) -> Iterator[_Fault]:
    if loads.lasted < 0.99 * loads.seconds:
        yield _Fault(INCOMPLETE, f"the load lasted {loads.lasted:g} of {loads.seconds:g} s")


def _owed(loads: NicLoads, expect: Expectations) -> list[str]:
    return [*map(memory_of, loads.numa), *([GPU] if loads_gpus(expect) else [])]


def _said(load: RailLoad, memory: str) -> str:
    kind = kind_of(load, memory)
    return memory if kind == memory else f"{memory} ({kind})"


def _unmeasured(load: RailLoad, memory: str, expect: Expectations) -> Iterator[_Fault]:
    """Yield that the device gave up, that too few rounds gave a rate, or that a rate is none that a rail can have."""
    texts, failed = load.errors.get(memory, ()), load.failed.get(memory, 0)
    said, rate = _said(load, memory), load.rates.get(memory)
    if device_error := next((text for text in texts if _DEVICE_ERROR.search(text)), ""):
        yield _Fault(FAIL, f"{said}: {device_error}", "error")
    elif rate is None:
        yield _Fault(INCOMPLETE, f"{said}: {'; '.join(texts) or 'no rate'}")
    elif failed >= rate.count:
        # Single rounds fail on a busy host, as when perftest cannot calibrate its clock and reports 0.
        why = f"{failed} of {failed + rate.count} rounds gave no rate: {'; '.join(texts)}"
        yield _Fault(INCOMPLETE, f"{said}: {why}")
    if rate is not None and rate.max > _most(expect):
        why = f"{said} {rate.max:.4g} {UNIT} is more than a rail carries"
        yield _Fault(INCOMPLETE, why, rate.max, _most(expect))


def _most(expect: Expectations) -> float:
    """Return what no rail can carry, in Gb/s: PCIe links are chosen for little more than the port's speed."""
    return 2 * stated(expect.nic).speed_gbps


def _limits(load: RailLoad, memory: str, loads: NicLoads, expect: Expectations) -> Iterator[tuple[float, str]]:
    """Yield what a rail must reach with one memory at the least, and by what: the class, the node's other rails."""
    own, kind = stated(expect.nic_load), kind_of(load, memory)
    floors = {NEAR: own.near_floor_percent, FAR: own.far_floor_percent, GPU: own.gpu_floor_percent}
    percent = floors.get(kind.split()[0])
    if load.numa_node is None and memory == _fastest(load):
        # Which memory is near is not told: the one that it writes to best does as well as that.
        percent = own.near_floor_percent
    if percent is not None:
        floor = stated(expect.nic).speed_gbps * percent / 100
        yield floor, f"class floor {floor:g} ({percent:g} % of the line rate)"
    rates = [
        rate.median
        for rail in rails_of(expect)
        if (other := loads.rails.get(rail.name)) is not None
        for name, rate in other.rates.items()
        if kind_of(other, name) == kind and rate.max <= _most(expect)
    ]
    if len(rates) >= _COHORT:
        middle = statistics.median(rates)
        why = f"median of {len(rates)} on this node {middle:.4g}, at most {own.spread_percent:g} % below allowed"
        yield middle * (1 - own.spread_percent / 100), why


def _fastest(load: RailLoad) -> str | None:
    """Return the NUMA node whose memory gave a rail its best rate."""
    host = {memory: rate.median for memory, rate in load.rates.items() if memory != GPU}
    return max(host, key=host.__getitem__) if host else None


def _finding(part: str, verdict: str, measured: float | str | None, expected: float | None, why: str) -> Finding:
    action = "none" if verdict == PASS else "investigate"
    reason = f"{why[:800]}; {PROVES}"
    return Finding(NAME, part, verdict, _shown(measured), _shown(expected), UNIT, reason, action)


def _shown(number: float | str | None) -> float | str | None:
    return float(f"{number:.6g}") if isinstance(number, (int, float)) else number
