"""Where GPUs and rails lie on the test host whose outputs are in ``tests/healthy``, and how many cores it has.

The shipped class of the board leaves these to the vendor of the host, so that a fleet has to declare them. They hold
for every class that extends it and has none of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Boards whose hosts the test host is laid out like; a tray of another kind has its GPUs where it has them.
BOARDS = ("hgx_h100", "hgx_b200")

_GPUS = ("0b", "05", "0c", "04", "8b", "85", "8c", "84")
_NICS = ("1a", "3c", "4d", "5e", "9c", "bc", "cc", "dc")

_HOST: dict[str, Any] = {
    "gpu": {
        "parts": [{"slot": f"SXM{slot}", "address": f"0000:{bus}:00.0"} for slot, bus in enumerate(_GPUS, 1)],
    },
    "nic": {"rails": [{"rail": rail, "address": f"0000:{bus}:00.0"} for rail, bus in enumerate(_NICS)]},
    "cpu": {"cores": 96},
}
_TRAY_NICS = ("0000:03:00.0", "0002:03:00.0", "0010:03:00.0", "0012:03:00.0")

# As `hardware_classes` of a fleet file has it.
PLACED: dict[str, dict[str, Any]] = {
    **dict.fromkeys(BOARDS, _HOST),
    "gb200_nvl72": {"nic": {"rails": [{"rail": rail, "address": at} for rail, at in enumerate(_TRAY_NICS)]}},
}


def placed(classes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a fleet's ``hardware_classes`` with the board's places where they do not say others."""
    # Of the other boards only those that it names: what it says of the HGX H100 reaches them too.
    named = [name for name in PLACED if name == "hgx_h100" or name in classes]
    return {**classes, **{name: laid(PLACED[name], classes.get(name) or {}) for name in named}}


def laid(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with the values of ``over``, mapping by mapping."""
    both = [key for key, value in over.items() if isinstance(value, Mapping) and isinstance(base.get(key), Mapping)]
    return {**base, **over, **{key: laid(base[key], over[key]) for key in both}}
