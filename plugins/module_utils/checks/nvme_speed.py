"""Does every NVMe drive read as fast as the class says, and as its peers in the host?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from ..formats.nvme import nvme_subjects
from ..stress.nvme_read import IO_ERROR, Answer, Reads
from ..words.expectations import Expectations, NvmeRead, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nvme_speed"
RULES = 2
PROBES: tuple[str, ...] = ("nvme_read",)

# A median of fewer drives is not one.
_PEERS = 3


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the drives of the class, or the directory that stands for them."""
    own = expect.nvme_read
    if own is None:
        return []
    return [f"nvme {own.file.directory}"] if own.file else nvme_subjects(expect)


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare each drive with the class floor where one is declared, and with the median of the host's drives."""
    answers: Mapping[str, Answer] = values["nvme_read"]
    own = stated(expect.nvme_read)
    measured = [answer.iops for answer in answers.values() if isinstance(answer, Reads)]
    middle = median(measured) if len(measured) >= _PEERS else None
    return [_judged(part, answers[part], own, middle) for part in subjects(expect) if part in answers]


def _judged(part: str, answer: Answer, own: NvmeRead, middle: float | None) -> Finding:
    floor = own.kiops
    if isinstance(answer, str):
        # What cannot be read at all is a fault of the drive only if the drive said so.
        fault = answer.startswith(IO_ERROR) and not answer.startswith(f"{IO_ERROR} none")
        verdict, action = (FAIL, "replace") if fault and "Input/output error" in answer else (INCOMPLETE, "investigate")
        return Finding(NAME, part, verdict, None, floor, "kIOPS", answer, action)
    kiops = round(answer.iops / 1000, 3)
    margin = own.margin_percent
    if floor is not None and answer.iops / 1000 < floor * (100 - margin) / 100:
        why = f"random reads more than {margin:g} % below the class floor"
        return Finding(NAME, part, FAIL, kiops, floor, "kIOPS", why, "replace")
    if middle is not None and answer.iops < middle * (100 - margin) / 100:
        why = (
            f"random reads more than {margin:g} % below the median of the host's own drives, {middle / 1000:.1f} kIOPS"
        )
        return Finding(NAME, part, FAIL, kiops, floor, "kIOPS", why, "replace")
    if floor is None and middle is None:
        why = f"no class floor, and fewer than {_PEERS} drives were measured to compare"
        return Finding(NAME, part, INCOMPLETE, kiops, None, "kIOPS", why, "investigate")
    return Finding(NAME, part, PASS, kiops, floor, "kIOPS")
