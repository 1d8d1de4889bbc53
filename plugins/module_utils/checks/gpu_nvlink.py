"""Does each GPU have all NVLinks of its class, each at its speed?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..judging.gpu_parts import addresses_of, unread
from ..probes.nvlink import Links
from ..words.expectations import Expectations, NvLink, gpu_subjects, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_nvlink"
RULES = 4
PROBES: tuple[str, ...] = ("nvlink",)
# Tells which of its GPUs is which by UUID; without it, the order does.
OPTIONAL_PROBES: tuple[str, ...] = ("nvidia_smi",)
# What the tool says beside links, of one that it could not ask.
_TROUBLE = re.compile(r"\b(?:fail\w*|unable|errors?|lost|unknown)\b", re.IGNORECASE)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of a class with NVLink."""
    return list(gpu_subjects(expect).values()) if expect.nvlink else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Count links and compare each one's speed with the class."""
    gpus: Sequence[Links] = values["nvlink"]
    addresses = addresses_of([gpu.index for gpu in gpus], values, expect, [gpu.uuid for gpu in gpus])
    listed = {address: gpu for address, gpu in zip(addresses, gpus) if address}
    judged = [
        _judged(subject, listed[address], stated(expect.nvlink))
        if address in listed
        else unread(NAME, subject, f"nvidia-smi nvlink lists {len(gpus)} GPUs, and none is known to be this one")
        for address, subject in gpu_subjects(expect).items()
    ]
    # A fault is one, whoever's it is.
    untold = [gpu for address, gpu in zip(addresses, gpus) if address is None]
    for gpu, finding in ((gpu, _judged("host", gpu, stated(expect.nvlink))) for gpu in untold):
        if finding.verdict == FAIL:
            why = f"GPU {gpu.index} of nvidia-smi, which is not known by its address: {finding.reason}"
            return [*judged, replace(finding, reason=why)]
    return judged


def _judged(subject: str, gpu: Links, wanted: NvLink) -> Finding:
    count, speed = wanted.links, wanted.link_gb_per_s
    down = [number for number, found in gpu.speeds.items() if found == 0]
    if down or "inactive" in gpu.said.lower():
        which = f"NVLinks {_numbers(down)} are down" if down else gpu.said
        up = sum(1 for found in gpu.speeds.values() if found)
        return Finding(NAME, subject, FAIL, up, count, "links up", f"{which}, class floor {count} up", "reset_gpu")
    slow = {number: found for number, found in gpu.speeds.items() if found is not None and found < speed}
    if slow:
        why = f"NVLinks {_numbers(slow)} run at {min(slow.values()):g} GB/s at the least, class floor {speed:g} GB/s"
        return Finding(NAME, subject, FAIL, min(slow.values()), speed, "GB/s", why, "reset_gpu")
    unknown = [number for number, found in gpu.speeds.items() if found is None]
    if unknown or (gpu.said and (not gpu.speeds or _TROUBLE.search(gpu.said))):
        why = f"the speed of NVLinks {_numbers(unknown)} could not be read" if unknown else gpu.said
        return unread(NAME, subject, why, count, "links up")
    if len(gpu.speeds) != count:
        why = f"{len(gpu.speeds)} NVLinks listed, the class has {count}"
        return Finding(NAME, subject, FAIL, len(gpu.speeds), count, "links up", why, "investigate")
    return Finding(NAME, subject, PASS, len(gpu.speeds), count, "links up")


def _numbers(links: Sequence[int] | Mapping[int, Any]) -> str:
    return ", ".join(str(number) for number in sorted(links))
