"""Have the NVLinks of each GPU counted more errors than the class allows?

The counters start anew with the driver, so what they show happened since boot or reset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.dcgmi_nvlink import LinkErrors
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "gpu_nvlink_errors"
RULES = 1
PROBES: tuple[str, ...] = ("dcgmi_nvlink",)
UNIT = "errors of all links"


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts; none where the class has no NVLink, or reads no counters of DCGM."""
    wanted = expect.nvlink and expect.dcgm and expect.dcgm.nvlink_errors is not None
    return list(gpu_subjects(expect).values()) if wanted else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Add up the counters of each GPU."""
    report: Mapping[str, LinkErrors] = values["dcgmi_nvlink"]
    return [
        _judged(subject, report.get(address), stated(stated(expect.dcgm).nvlink_errors), stated(expect.nvlink).links)
        for address, subject in gpu_subjects(expect).items()
    ]


def _judged(subject: str, errors: LinkErrors | None, most: int, links: int) -> Finding:
    if errors is None or errors.trouble:
        why = f"no counters were read: {errors.trouble if errors else 'dcgmi lists no such GPU'}"
        return Finding(NAME, subject, INCOMPLETE, None, most, UNIT, why, "investigate")
    counted = {
        f"link {link} {counter}": count
        for link, counters in sorted(errors.links.items())
        for counter, count in counters.items()
    }
    total = sum(count or 0 for count in counted.values())
    if total > most:
        bad = ", ".join(f"{name} {count}" for name, count in counted.items() if count)
        # A link that went bad after training is trained anew by a reset; what comes back then is the hardware's.
        return Finding(NAME, subject, FAIL, total, most, UNIT, f"over the class limit: {bad}"[:500], "reset_gpu")
    unread = [name for name, count in counted.items() if count is None]
    absent = sorted(set(range(links)) - set(errors.links))
    if unread or absent:
        why = "; ".join([*(f"link {link} absent" for link in absent), *(f"{name} not read" for name in unread)])[:500]
        return Finding(NAME, subject, INCOMPLETE, total, most, UNIT, why, "investigate")
    return Finding(NAME, subject, PASS, total, most, UNIT)
