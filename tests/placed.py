"""Where GPUs and rails lie on the test host whose outputs are in ``tests/healthy``, and how many cores it has.

The shipped class of the board leaves these to the vendor of the host, so that a fleet has to declare them. They hold
for every class that extends it and has none of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_GPUS = ("0b", "05", "0c", "04", "8b", "85", "8c", "84")
_NICS = ("1a", "3c", "4d", "5e", "9c", "bc", "cc", "dc")

# As `hardware_classes` of a fleet file has it.
PLACED: dict[str, dict[str, Any]] = {
    "hgx_h100": {
        "gpu": {
            "parts": [{"slot": f"SXM{slot}", "address": f"0000:{bus}:00.0"} for slot, bus in enumerate(_GPUS, 1)],
        },
        "nic": {"rails": [{"rail": rail, "address": f"0000:{bus}:00.0"} for rail, bus in enumerate(_NICS)]},
        "cpu": {"cores": 96},
    }
}


def placed(classes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a fleet's ``hardware_classes`` with the board's places where they do not say others."""
    return {**classes, "hgx_h100": laid(PLACED["hgx_h100"], classes.get("hgx_h100") or {})}


def laid(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with the values of ``over``, mapping by mapping."""
    both = [key for key, value in over.items() if isinstance(value, Mapping) and isinstance(base.get(key), Mapping)]
    return {**base, **over, **{key: laid(base[key], over[key]) for key in both}}
