"""What gpu-burn printed: wrong results and its verdict on each GPU.

It compares a GPU's results with each other on a part of its memory, and says nothing of links, heat or repairs: its OK
is not enough to pass a GPU. Texts: gpu-burn's gpu_burn-drv.cpp.
"""

from __future__ import annotations

import re

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_findings import fault, unread

NAME = "gpu-burn"
_CHECK = "gpu_burn"

_START = re.compile(r"^Burning for \d+ seconds\.|\bproc'd: -?\d+ \(\d+ Gflop/s\)", re.MULTILINE)
_TESTED = re.compile(r"^Tested (\d+) GPUs:", re.MULTILINE)
_VERDICT = re.compile(r"^\s+GPU (\d+): (OK|FAULTY)\s*$", re.MULTILINE)
# One number for each GPU: "errors: 0 - 12  (WARNING!)- -5  (DIED!)"; a count that ran over is below zero.
_ERRORS = re.compile(r"\berrors: (-?\d[^\n]*?)\s+temps:")
_DEAD = re.compile(
    r"^(?:Couldn't init a GPU test.*|Failure during compute: .*| +what\(\): +Error .*|No clients are alive!.*)$",
    re.MULTILINE,
)


def recognises(text: str) -> bool:
    """Return whether gpu-burn printed this."""
    return bool(_START.search(text) or (_TESTED.search(text) and _VERDICT.search(text)))


def findings(text: str, expect: Expectations | None) -> list[Finding]:
    """Return a finding for each GPU, and one for a run that did not reach its end."""
    wrong: dict[int, str] = {}
    for line in _ERRORS.findall(text):
        for gpu, said in enumerate(line.split("- ")):
            if "DIED" in said:
                wrong[gpu] = "the test of the GPU died"
            elif int((re.findall(r"\d+", said) or ["0"])[0]):
                wrong.setdefault(gpu, "wrong results")
    found = [fault(_CHECK, f"gpu {gpu}", why) for gpu, why in sorted(wrong.items())]
    found += [fault(_CHECK, "host", match[0].strip()) for match in _DEAD.finditer(text)]
    verdicts = {int(gpu): said for gpu, said in _VERDICT.findall(text)}
    for gpu, said in verdicts.items():
        if said == "FAULTY" and gpu not in wrong:
            found.append(fault(_CHECK, f"gpu {gpu}", "gpu-burn calls it FAULTY"))
        elif gpu not in wrong:
            found.append(unread(_CHECK, f"gpu {gpu}", "no fault seen; gpu-burn tests a part of what a GPU must do"))
    tested = _TESTED.search(text)
    if not tested or int(tested[1]) != len(verdicts):
        found.append(unread(_CHECK, "host", "the report ends before its verdict on every GPU"))
    wanted = expect.gpu.count if expect and expect.gpu else None
    if tested and wanted is not None and int(tested[1]) != wanted:
        found.append(fault(_CHECK, "host", "other GPUs were tested than the host must have", int(tested[1]), wanted))
    return found
