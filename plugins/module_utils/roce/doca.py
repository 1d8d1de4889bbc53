"""Backend ``doca``: ports of the vendor's driver (DOCA-OFED) by mlnx_qos, cma_roce_tos and the driver's own sysfs.

Formats: mlnx_qos and cma_roce_tos of mlnx-tools. ``traffic_class`` is empty while unset, ``Global tclass=106`` once
set, one line for each rule by address after it; -1 unsets it (mlx5_ib of the vendor's driver).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Callable

from ..host.host import Unreadable
from . import files
from .port import RDMA, Backend, Command, Place, Source, Step, Write

_ECN = "/sys/class/net/{interface}/ecn"
_TRAFFIC_CLASS = f"{RDMA}/{{device}}/tc/1/traffic_class"
_DCBX = {"OS controlled": "host", "Firmware controlled": "firmware"}


def _qos(texts: Mapping[str, str]) -> Mapping[str, Any]:
    text = files.only(texts)
    mode = _field(text, r"^DCBX mode: (.+)$")
    if mode not in _DCBX:
        raise Unreadable(f"DCBX mode is {mode!r}, expected one of {', '.join(_DCBX)}")
    return {
        "dcbx": _DCBX[mode],
        "trust": _field(text, r"^Priority trust state: (\w+)\s*$"),
        "dscp_priority": _dscp_priority(text),
        "lossless_priorities": [index for index, enabled in enumerate(_row(text, "enabled")) if enabled],
    }


def _buffers(texts: Mapping[str, str]) -> Mapping[str, Any]:
    text = files.only(texts)
    sizes = _field(text, r"^Receive buffer size \(bytes\): ((?:\d+,){8})")
    return {
        "buffers": {
            "sizes_bytes": [int(size) for size in sizes.rstrip(",").split(",")],
            "of_priority": _row(text, "buffer"),
        }
    }


def _field(text: str, pattern: str) -> str:
    found = re.findall(pattern, text, re.MULTILINE)
    if len(found) != 1:
        raise Unreadable(f"{len(found)} lines like {pattern!r}, expected one")
    return str(found[0]).strip()


def _row(text: str, name: str) -> list[int]:
    values = _field(text, rf"^\s+{name}\s+((?:\d+\s+){{7}}\d+)\s*$").split()
    return [int(value) for value in values]


def _dscp_priority(text: str) -> dict[int, int]:
    """Return the map that is printed while DSCPs are trusted, several lines for one priority where it has many."""
    found: dict[int, int] = {}
    for priority, dscps in re.findall(r"^\s+prio:([0-7]) dscp:((?:\d\d,)+)\s*$", text, re.MULTILINE):
        for dscp in map(int, dscps.rstrip(",").split(",")):
            if found.setdefault(dscp, int(priority)) != int(priority):
                raise Unreadable(f"DSCP {dscp} has priorities {found[dscp]} and {priority}, expected one")
    return found


def _enabled(texts: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the priorities on which each point of DCQCN is enabled; all sixteen files have to be there."""
    found: dict[str, list[int]] = {"notification": [], "reaction": []}
    names = {"roce_np": "notification", "roce_rp": "reaction"}
    for path, text in texts.items():
        point, _, priority = path.split("/")[-3:]
        if files.number(text):
            found[names[point]].append(int(priority))
    if len(texts) != 16:
        raise Unreadable(f"{len(texts)} files, expected those of 8 priorities for each of two points")
    return {"dcqcn": {name: sorted(priorities) for name, priorities in found.items()}}


def _traffic_class(texts: Mapping[str, str]) -> Mapping[str, Any]:
    (text,) = texts.values()
    match = re.fullmatch(r"Global tclass=(\d{1,3})\n", text)
    # Rules by address override as the global value does: whatever else stands there is not "unset".
    return {"traffic_class": int(match.group(1)) if match else (text.strip() or None)}


def _mlnx_qos(*words: str) -> tuple[str, ...]:
    return ("mlnx_qos", "-i", *words)


def _each_dscp(place: Place, value: Mapping[int, int]) -> list[Step]:
    pairs = [f"set,{dscp},{priority}" for dscp, priority in sorted(value.items())]
    return [Command(_mlnx_qos(place.interface, *(word for pair in pairs for word in ("--dscp2prio", pair))))]


def _pfc(place: Place, value: list[int]) -> list[Step]:
    mask = ",".join(str(int(priority in value)) for priority in range(8))
    return [Command(_mlnx_qos(place.interface, "--pfc", mask))]


def _set_buffers(place: Place, value: Mapping[str, Any]) -> list[Step]:
    sizes, of_priority = (",".join(map(str, value[key])) for key in ("sizes_bytes", "of_priority"))
    return [Command(_mlnx_qos(place.interface, "--prio2buffer", of_priority, "--buffer_size", sizes))]


def _enable(place: Place, value: Mapping[str, list[int]]) -> list[Step]:
    base = _ECN.format(interface=place.interface)
    return [
        Write(f"{base}/{point}/enable/{priority}", str(int(priority in value[name])))
        for point, name in (("roce_np", "notification"), ("roce_rp", "reaction"))
        for priority in range(8)
    ]


def _set_traffic_class(place: Place, value: int | None) -> list[Step]:
    return [Write(_TRAFFIC_CLASS.format(device=place.device), str(-1 if value is None else value))]


_SOURCES: tuple[Source, ...] = (
    *files.SOURCES,
    Source(("dcbx", "trust", "dscp_priority", "lossless_priorities"), _mlnx_qos("{interface}"), _qos),
    Source(("buffers",), _mlnx_qos("{interface}"), _buffers),
    Source(("dcqcn",), (f"{_ECN}/roce_[nr]p/enable/[0-7]",), _enabled),
    files.of_file("cnp_dscp", f"{_ECN}/roce_np/cnp_dscp"),
    files.of_file("cnp_priority", f"{_ECN}/roce_np/cnp_802p_prio"),
    Source(("cm_tos",), ("cma_roce_tos", "-d", "{device}"), lambda texts: {"cm_tos": files.number(files.only(texts))}),
    Source(("traffic_class",), (_TRAFFIC_CLASS,), _traffic_class, {"traffic_class": None}),
)
_STEPS: dict[str, Callable[[Place, Any], list[Step]]] = {
    "dcbx": lambda place, value: [Command(_mlnx_qos(place.interface, "--dcbx", "os"))],
    "trust": lambda place, value: [Command(_mlnx_qos(place.interface, "--trust", value))],
    "dscp_priority": _each_dscp,
    "lossless_priorities": _pfc,
    **files.STEPS,
    "buffers": _set_buffers,
    "dcqcn": _enable,
    "cnp_dscp": lambda place, value: [Write(f"{_ECN.format(interface=place.interface)}/roce_np/cnp_dscp", str(value))],
    "cnp_priority": lambda place, value: [
        Write(f"{_ECN.format(interface=place.interface)}/roce_np/cnp_802p_prio", str(value))
    ],
    "cm_tos": lambda place, value: [Command(("cma_roce_tos", "-d", place.device, "-t", str(value)))],
    "traffic_class": _set_traffic_class,
}
_ABILITIES = {
    **files.ABILITIES,
    "dcbx": "mlnx_qos --dcbx os",
    "trust": "mlnx_qos --trust",
    "dscp_priority": "mlnx_qos --dscp2prio",
    "lossless_priorities": "mlnx_qos --pfc",
    "buffers": "mlnx_qos --prio2buffer --buffer_size",
    "dcqcn": "/sys/class/net/INTERFACE/ecn/roce_np and roce_rp/enable/PRIORITY",
    "cnp_dscp": "/sys/class/net/INTERFACE/ecn/roce_np/cnp_dscp",
    "cnp_priority": "/sys/class/net/INTERFACE/ecn/roce_np/cnp_802p_prio",
    "cm_tos": "cma_roce_tos",
    "traffic_class": "/sys/class/infiniband/DEVICE/tc/1/traffic_class",
}
BACKEND = Backend("doca", _ABILITIES, _SOURCES, _STEPS)
