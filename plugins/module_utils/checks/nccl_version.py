"""Is every installed NCCL new enough for the variables that the fabric needs?

An older one reads ``/etc/nccl.conf`` and passes over what it does not know: clear-to-send messages then wait behind
data, and nothing says so. Programs that bring their own NCCL are seen by the acceptance stage, in its log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..finding import FAIL, INCOMPLETE, PASS, Finding
from ..nccl_version import numbers_of, older
from ..probes.nccl import Nccl

NAME = "nccl_version"
PROBES: tuple[str, ...] = ("nccl",)
SUBJECT = "nccl"


def subjects(expect: Mapping[str, Any]) -> Sequence[str]:
    """Return the one part where the fabric asks for a version and collectives use NCCL."""
    asked = expect["fabric"] is not None and expect["fabric"]["nccl_least"] is not None
    return [SUBJECT] if asked and expect["collective"]["backend"] == "nccl" else []


def decide(values: Mapping[str, Any], expect: Mapping[str, Any]) -> Sequence[Finding]:
    """Compare each installed library with the least version."""
    if not subjects(expect):
        return []
    nccl: Nccl = values["nccl"]
    least = expect["fabric"]["nccl_least"]
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


def _none_installed(expect: Mapping[str, Any], least: str) -> Finding:
    packages = [package["name"] for package in (expect["gpu_stack"] or {"packages": ()})["packages"]]
    if declared := [name for name in packages if name.startswith("libnccl")]:
        why = f"no libnccl.so is found, though the class declares {', '.join(declared)}"
        return Finding(NAME, SUBJECT, INCOMPLETE, "none", least, "", why, "investigate")
    why = "no NCCL is installed but what programs bring; acceptance reads the version of its own"
    return Finding(NAME, SUBJECT, PASS, "none", least, "", why)
