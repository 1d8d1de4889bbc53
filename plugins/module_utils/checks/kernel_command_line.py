"""Was the kernel started with the required parameters, and without the forbidden ones?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..finding import FAIL, PASS, Finding

NAME = "kernel_command_line"
PROBES: tuple[str, ...] = ("cmdline",)


def subjects(expect: Mapping[str, Any]) -> Sequence[str]:
    """Return the host, unless the class names no parameters."""
    line = expect["kernel"] and expect["kernel"]["command_line"]
    return ["host"] if line and (line["required"] or line["forbidden"]) else []


def decide(values: Mapping[str, Any], expect: Mapping[str, Any]) -> Sequence[Finding]:
    """Compare parameter by parameter.

    ``iommu=pt`` is given where the last ``iommu=`` has ``pt`` among its values; a name alone (``nosmt``) is given with
    any value. A forbidden one must not be given at any place.
    """
    words: Sequence[str] = values["cmdline"]
    line = expect["kernel"]["command_line"]
    missing = [wanted for wanted in line["required"] if not _given(wanted, _of(wanted, words)[-1:])]
    present = [unwanted for unwanted in line["forbidden"] if _given(unwanted, _of(unwanted, words))]
    if missing:
        why = f"required parameters of the kernel are missing: {', '.join(missing)}"
        if present:
            why += f"; forbidden ones are given: {', '.join(present)}"
        found = " ".join(word for wanted in missing for word in _of(wanted, words)) or "absent"
        return [Finding(NAME, "host", FAIL, found, " ".join(missing), "", why, "investigate")]
    if present:
        why = f"forbidden parameters of the kernel are given: {', '.join(present)}"
        return [Finding(NAME, "host", FAIL, " ".join(present), "absent", "", why, "investigate")]
    return [Finding(NAME, "host", PASS, " ".join(line["required"]) or "none forbidden", " ".join(line["required"]))]


def _name(word: str) -> str:
    # The kernel takes "-" and "_" in a parameter's name for the same.
    return word.partition("=")[0].replace("-", "_")


def _of(wanted: str, words: Sequence[str]) -> list[str]:
    """Return the words that set the parameter, as they stand."""
    # What follows "--" is for init.
    own = words[: list(words).index("--")] if "--" in words else words
    return [word for word in own if _name(word) == _name(wanted)]


def _given(wanted: str, words: Sequence[str]) -> bool:
    _, sign, value = wanted.partition("=")
    return any(not sign or value in (word.partition("=")[2], *word.partition("=")[2].split(",")) for word in words)
