"""Backend ``inbox``: ports of the distribution's driver by iproute2's ``dcb``, and configfs of rdma_cm.

The upstream mlx5 driver has no switch for DCQCN and no device-wide traffic class; Soft-RoCE on an interface without DCB
has MTU and ToS alone. Formats: dcb(8) with ``-j`` of iproute2 6.1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Callable

from ..host.host import Unreadable
from . import files
from .port import CONFIGFS, RDMA, Backend, Command, Place, Source, Step, Write

_TOS = f"{CONFIGFS}/{{device}}/ports/1/default_roce_tos"


def _answer(texts: Mapping[str, str]) -> Mapping[str, Any]:
    text = files.only(texts)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"not JSON: {exc}") from exc
    if not isinstance(data, dict):
        raise Unreadable("found no mapping, expected one")
    return data


def _eight(data: Mapping[str, Any], key: str) -> list[int]:
    values = data.get(key)
    if not isinstance(values, list) or len(values) != 8 or not all(isinstance(value, int) for value in values):
        raise Unreadable(f"{key} is {str(values)[:60]}, expected eight values")
    return [int(value) for value in values]


def _dcbx(texts: Mapping[str, str]) -> Mapping[str, Any]:
    return {"dcbx": "host" if _answer(texts).get("host") is True else "firmware"}


def _app(texts: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the DSCPs with a priority of their own; the driver trusts DSCPs as soon as there is one."""
    pairs = _answer(texts).get("dscp_prio", [])
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(value, int) for value in pair) for pair in pairs
    ):
        raise Unreadable(f"dscp_prio is {str(pairs)[:60]}, expected pairs of DSCP and priority")
    found: dict[int, int] = {}
    for dscp, priority in pairs:
        if found.setdefault(dscp, priority) != priority:
            raise Unreadable(f"DSCP {dscp} has priorities {found[dscp]} and {priority}, expected one")
    return {"trust": "dscp" if found else "pcp", "dscp_priority": found}


def _pfc(texts: Mapping[str, str]) -> Mapping[str, Any]:
    enabled = _eight(_answer(texts), "prio_pfc")
    return {"lossless_priorities": [priority for priority, value in enumerate(enabled) if value]}


def _buffers(texts: Mapping[str, str]) -> Mapping[str, Any]:
    data = _answer(texts)
    return {"buffers": {"sizes_bytes": _eight(data, "buffer_size"), "of_priority": _eight(data, "prio_buffer")}}


def _dcb(*words: str) -> Command:
    return Command(("dcb", *words))


def _each_dscp(place: Place, value: Mapping[int, int]) -> list[Step]:
    pairs = [f"{dscp}:{priority}" for dscp, priority in sorted(value.items())]
    return [_dcb("app", "replace", "dev", place.interface, "dscp-prio", *pairs)]


def _set_pfc(place: Place, value: list[int]) -> list[Step]:
    mask = [f"{priority}:{'on' if priority in value else 'off'}" for priority in range(8)]
    return [_dcb("pfc", "set", "dev", place.interface, "prio-pfc", *mask)]


def _set_buffers(place: Place, value: Mapping[str, Any]) -> list[Step]:
    of_priority, sizes = (
        [f"{index}:{number}" for index, number in enumerate(value[key])] for key in ("of_priority", "sizes_bytes")
    )
    return [_dcb("buffer", "set", "dev", place.interface, "prio-buffer", *of_priority, "buffer-size", *sizes)]


def _show(what: str) -> tuple[str, ...]:
    return ("dcb", "-j", what, "show", "dev", "{interface}")


_SOURCES: tuple[Source, ...] = (
    *files.SOURCES,
    Source(("dcbx",), _show("dcbx"), _dcbx),
    Source(("trust", "dscp_priority"), _show("app"), _app),
    Source(("lossless_priorities",), _show("pfc"), _pfc),
    Source(("buffers",), _show("buffer"), _buffers),
    files.of_file("cm_tos", _TOS),
    # The vendor's driver under the distribution's tools: set there, it overrides all the same.
    Source(
        ("traffic_class",),
        (f"{RDMA}/{{device}}/tc/1/traffic_class",),
        lambda texts: {"traffic_class": "".join(texts.values()).strip() or None},
        {"traffic_class": None},
    ),
)
_STEPS: dict[str, Callable[[Place, Any], list[Step]]] = {
    "dcbx": lambda place, value: [_dcb("dcbx", "set", "dev", place.interface, "host", "ieee")],
    "dscp_priority": _each_dscp,
    "lossless_priorities": _set_pfc,
    **files.STEPS,
    "buffers": _set_buffers,
    "cm_tos": lambda place, value: [Write(_TOS.format(device=place.device), str(value))],
}
_ABILITIES = {
    **files.ABILITIES,
    "dcbx": "dcb dcbx set dev INTERFACE host ieee",
    "trust": "the first entry of dcb app",
    "dscp_priority": "dcb app replace dev INTERFACE dscp-prio",
    "lossless_priorities": "dcb pfc set dev INTERFACE prio-pfc",
    "buffers": "dcb buffer set dev INTERFACE prio-buffer buffer-size",
    "cm_tos": "/sys/kernel/config/rdma_cm/DEVICE/ports/1/default_roce_tos",
}
BACKEND = Backend("inbox", _ABILITIES, _SOURCES, _STEPS)
