"""Is every installed NCCL new enough for the variables that the fabric needs?

An older one reads ``/etc/nccl.conf`` and passes over what it does not know: clear-to-send messages then wait behind
data, and nothing says so. Programs that bring their own NCCL are seen by the acceptance stage, in its log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..nccl.nccl_version import numbers_of, older
from ..probes.nccl import Nccl
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nccl_version"
RULES = 1
PROBES: tuple[str, ...] = ("nccl",)
SUBJECT = "nccl"


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the one part where the fabric asks for a version and collectives use NCCL."""
    asked = expect.fabric is not None and expect.fabric.nccl_least is not None
    return [SUBJECT] if asked and expect.collective.backend == "nccl" else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare each installed library with the least version."""
    if not subjects(expect):
        return []
    nccl: Nccl = values["nccl"]
    least = stated(stated(expect.fabric).nccl_least)
    if nccl.library == "none":
        return [_none_installed(expect, least)]
    versions = nccl.library.split("+")
    if old := [each for each in versions if numbers_of(each) and older(each, least)]:
        why = f"NCCL {', '.join(old)} does not know NCCL_IB_FIFO_TC, which the fabric's QoS needs from {least} on"
        return [Finding(NAME, SUBJECT, FAIL, nccl.library, least, "", why, "investigate")]
    if unclear := [each for each in versions if not numbers_of(each)]:
        why = f"the version of libnccl.so.{unclear[0]} is not in its name"
        return [Finding(NAME, SUBJECT, INCOMPLETE, nccl.library, least, "", why, "investigate")]
    return [Finding(NAME, SUBJECT, PASS, nccl.library, least)]


def _none_installed(expect: Expectations, least: str) -> Finding:
    packages = expect.gpu_stack.packages if expect.gpu_stack else ()
    if declared := [package.name for package in packages if package.name.startswith("libnccl")]:
        why = f"no libnccl.so is found, though the class declares {', '.join(declared)}"
        return Finding(NAME, SUBJECT, INCOMPLETE, "none", least, "", why, "investigate")
    why = "no NCCL is installed but what programs bring; acceptance reads the version of its own"
    return Finding(NAME, SUBJECT, PASS, "none", least, "", why)
