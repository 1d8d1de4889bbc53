"""Was the kernel started with the required parameters, and without the forbidden ones?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..host.kernel_parameters import given, missing, setting
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "kernel_command_line"
RULES = 2
PROBES: tuple[str, ...] = ("cmdline",)
# Tells whether a reboot brings what is missing.
OPTIONAL_PROBES: tuple[str, ...] = ("boot_loader",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, unless the class names no parameters."""
    line = expect.kernel and expect.kernel.command_line
    return ["host"] if line and (line.required or line.forbidden) else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare parameter by parameter.

    ``iommu=pt`` is given where the last ``iommu=`` has ``pt`` among its values; a name alone (``nosmt``) is given with
    any value. A forbidden one must not be given at any place.
    """
    words: Sequence[str] = values["cmdline"]
    line = stated(expect.kernel).command_line
    lacking = missing(line.required, words)
    present = [unwanted for unwanted in line.forbidden if given(unwanted, setting(unwanted, words))]
    if lacking:
        why = f"required kernel parameters are missing: {', '.join(lacking)}"
        if present:
            why += f"; forbidden parameters are set: {', '.join(present)}"
        why, action = _at_boot_loader(why, lacking, values.get("boot_loader"))
        found = " ".join(word for wanted in lacking for word in setting(wanted, words)) or "absent"
        return [Finding(NAME, "host", FAIL, found, " ".join(lacking), "", why, action)]
    if present:
        why = f"forbidden kernel parameters are set: {', '.join(present)}"
        return [Finding(NAME, "host", FAIL, " ".join(present), "absent", "", why, "investigate")]
    return [Finding(NAME, "host", PASS, " ".join(line.required) or "none forbidden", " ".join(line.required))]


def _at_boot_loader(why: str, lacking: Sequence[str], kernels: Sequence[Sequence[str]] | None) -> tuple[str, str]:
    """Return the reason and what to do: where the boot loader has what is missing, a reboot brings it."""
    if kernels is None:
        return f"{why} (the boot loader's configuration could not be read)", "investigate"
    if any(missing(lacking, words) for words in kernels):
        return f"{why}; not declared at the boot loader either", "investigate"
    return f"{why}; declared at the boot loader, reboot pending", "reboot"
