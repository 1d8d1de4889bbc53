"""Which drivers run what was built for a release of CUDA."""

from __future__ import annotations

import re

# "Minor Version Compatibility" of NVIDIA's CUDA Toolkit Release Notes, Linux on x86-64 and arm64-sbsa: whatever was
# built for any release of one major version runs from this driver on.
LEAST_DRIVERS = {"11": "450.80.02", "12": "525.60.13", "13": "580.65.06"}


def driver_lacking(cuda: str, driver: str) -> str:
    """Return why a driver (``570.86.15``) cannot run what was built for a CUDA (``12.8``); "" where it can.

    What is not known is refused as well: a later CUDA than those of the table, a version that is none.
    """
    major, found = _numbers(cuda)[:1], _numbers(driver)
    if not major or not found:
        return f"CUDA {cuda or 'of no version'} and driver {driver or 'of no version'}: expected versions such as 12.8"
    if str(major[0]) not in LEAST_DRIVERS:
        return (
            f"no driver is known to run CUDA {cuda}, expected one of {', '.join(f'{each}.x' for each in LEAST_DRIVERS)}"
        )
    least = LEAST_DRIVERS[str(major[0])]
    # Who declares a branch alone (580) gets a driver of it: only the numbers that are there are compared.
    if found < _numbers(least)[: len(found)]:
        return f"CUDA {cuda} needs driver {least} or later, found {driver}"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
