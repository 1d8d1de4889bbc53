"""``/sys/class/infiniband``: RDMA devices, their ports, PCIe links and error counters.

Format: Linux' Documentation/ABI/stable/sysfs-class-infiniband; the RDMA core writes ``state`` as ``4: ACTIVE``,
``phys_state`` as ``5: LinkUp``, ``rate`` as ``400 Gb/sec (4X NDR)``, and ``N/A (no PMA)`` for a counter that the port
does not have. What ``ibstat`` and ``ibstatus`` (infiniband-diags) print is understood as well, so that saved outputs
can be judged; they tell nothing of the PCIe link and the counters, ``ibstat`` nothing of the lanes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..host import blocks
from ..host.host import Host, Output, Unreadable, require_success
from ..nic.declared_nics import INTERFACE_COUNTERS
from ..words.expectations import Expectations

NAME = "infiniband"

_BASE = "/sys/class/infiniband/*"
# What changes while a link is in use; nic_counters reads these before and after load.
COUNTER_FILES = (
    f"{_BASE}/ports/*/counters/*",
    f"{_BASE}/device/net/*/carrier_changes",
    f"{_BASE}/device/net/*/statistics/rx_crc_errors",
)
_FILES = (
    f"{_BASE}/fw_ver",
    f"{_BASE}/node_guid",
    f"{_BASE}/hca_type",
    f"{_BASE}/board_id",
    f"{_BASE}/ports/*/state",
    f"{_BASE}/ports/*/phys_state",
    f"{_BASE}/ports/*/rate",
    f"{_BASE}/ports/*/link_layer",
    f"{_BASE}/ports/*/hw_counters/*",
    f"{_BASE}/device/current_link_speed",
    f"{_BASE}/device/current_link_width",
    f"{_BASE}/device/max_link_speed",
    f"{_BASE}/device/max_link_width",
    *COUNTER_FILES,
)
_STATES = {"nop", "down", "init", "armed", "active", "active_defer"}
# infiniband-diags call the same states otherwise.
_STATE_WORDS = {"initialize": "init", "initializing": "init", "active": "active", "down": "down", "armed": "armed"}
_PHYS_STATES = {
    "sleep",
    "polling",
    "disabled",
    "portconfigurationtraining",
    "linkup",
    "linkerrorrecovery",
    "phy test",
    # ibstat's word for it.
    "phytest",
    "no state change",
}
# What ibstat and ibstatus print of a device or a port.
_FIELDS = {
    *("ca type", "number of ports", "firmware version", "hardware version", "node guid", "system image guid"),
    *("state", "physical state", "rate", "base lid", "lmc", "sm lid", "capability mask", "port guid", "link layer"),
    *("default gid", "phys state", "link_layer"),
}
_FAILED = re.compile(r"ib(?:panic|error|warn): |\bfailed\b|no such|cannot|can't|\busage:", re.IGNORECASE)
_RATE = re.compile(r"([0-9]{1,5}(?:\.[0-9])?) Gb/sec \(([0-9]{1,2})X(?: ?([A-Z0-9]+))?\)")
_NUMBER = re.compile(r"[0-9]{1,20}")
# ".../0000:0c:00.0/infiniband/mlx5_0/ports/1/rate" or "mlx5_0/ports/1/rate".
_DEVICE = re.compile(r"(?:.*/infiniband/)?([A-Za-z][\w.-]*)/(.+)")


@dataclass(frozen=True)
class Port:
    """One port; a field that was not given, or not in a known form, is None.

    ``state`` and ``phys_state`` are lower case (``active``, ``linkup``), ``lanes`` is 4 for ``4X``, ``lane_speed`` the
    InfiniBand name of a lane's speed (``NDR``). A counter that the port does not have is not in ``counters``.
    """

    number: str
    state: str | None = None
    phys_state: str | None = None
    rate_gbps: float | None = None
    lanes: int | None = None
    lane_speed: str | None = None
    link_layer: str | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    hw_counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Device:
    """One RDMA device, which ``guid`` tells from all others.

    ``model`` is the chip's code (``MT4129`` is a ConnectX-7), ``board`` its PSID.

    ``pcie_gt_per_s`` and ``pcie_width`` are those of the link as it runs, the ``_max`` ones what the device could do.
    ``interfaces`` are the counters of its network interfaces by name.
    """

    name: str
    ports: tuple[Port, ...] = ()
    firmware: str | None = None
    model: str | None = None
    board: str | None = None
    pcie_gt_per_s: float | None = None
    pcie_width: int | None = None
    pcie_max_gt_per_s: float | None = None
    pcie_max_width: int | None = None
    interfaces: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    guid: str | None = None


def collect(host: Host, expect: Expectations) -> Output:
    """Read the files of every RDMA device once."""
    return blocks.read_files(host, *_FILES)


def parse(output: Output) -> dict[str, Device]:
    """Return the devices by name; raises Unreadable when there are none, or the text was cut off."""
    text = output.stdout
    require_success(output)
    if not text.strip():
        raise Unreadable("no RDMA device, expected some: is the NIC's driver loaded (/sys/class/infiniband)?")
    # Of a last line that was cut off only the link layer can be told: it is one of two words.
    if not text.endswith("\n") and not re.search(r"\n\s*[Ll]ink[ _]layer:[^\n]*$", text):
        raise Unreadable("the last line has no end, expected a whole output")
    if re.search(r"^CA '", text, re.MULTILINE):
        devices = _of_ibstat(text)
    elif re.search(r"^Infiniband device '", text, re.MULTILINE):
        devices = _of_ibstatus(text)
    else:
        devices = _of_files({name: block.stdout for name, block in blocks.split(text).items() if block.rc == 0})
    if not devices:
        raise Unreadable(f"begins with {text[:60]!r}, expected files of /sys/class/infiniband, ibstat or ibstatus")
    return devices


def _of_files(files: Mapping[str, str]) -> dict[str, Device]:
    values: dict[str, dict[str, str]] = {}
    for path, text in files.items():
        match = _DEVICE.fullmatch(path)
        if not match:
            continue
        device = values.setdefault(match.group(1), {})
        device[match.group(2)] = text.strip()
    # A directory besides the devices (a file of another subsystem in a saved tree) has none of a device's files.
    return {name: _device(name, of) for name, of in values.items() if any(key.startswith("ports/") for key in of)}


def _device(name: str, values: Mapping[str, str]) -> Device:
    numbers = sorted({key.split("/")[1] for key in values if key.startswith("ports/")})
    return Device(
        name=name,
        ports=tuple(_port(number, values) for number in numbers),
        firmware=_line(values.get("fw_ver")),
        guid=_line(values.get("node_guid")),
        model=_line(values.get("hca_type")),
        board=_line(values.get("board_id")),
        pcie_gt_per_s=transfer_rate(values.get("device/current_link_speed")),
        pcie_width=_width(values.get("device/current_link_width")),
        pcie_max_gt_per_s=transfer_rate(values.get("device/max_link_speed")),
        pcie_max_width=_count(values.get("device/max_link_width")),
        interfaces=_interfaces(values),
    )


def _port(number: str, values: Mapping[str, str]) -> Port:
    own = {key.split("/", 2)[2]: text for key, text in values.items() if key.startswith(f"ports/{number}/")}
    rate, lanes, lane_speed = _rate(own.get("rate"))
    return Port(
        number=number,
        state=_state(own.get("state")),
        phys_state=_phys_state(own.get("phys_state")),
        rate_gbps=rate,
        lanes=lanes,
        lane_speed=lane_speed,
        link_layer=_link_layer(own.get("link_layer")),
        counters=_counters(own, "counters/"),
        hw_counters=_counters(own, "hw_counters/"),
    )


def _width(text: str | None) -> int | None:
    """Return the lanes of a link; a device that does not answer reads as all ones: the kernel prints 63 or 255."""
    lanes = _count(text)
    return lanes if lanes in (1, 2, 4, 8, 12, 16, 32) else None


def _counters(values: Mapping[str, str], prefix: str) -> dict[str, int]:
    found = {key[len(prefix) :]: _count(text) for key, text in values.items() if key.startswith(prefix)}
    return {name: count for name, count in found.items() if count is not None}


def _interfaces(values: Mapping[str, str]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for key, text in values.items():
        match = re.fullmatch(r"device/net/([^/]+)/(?:statistics/)?(\w+)", key)
        count = _count(text)
        if match and match.group(2) in INTERFACE_COUNTERS:
            counters = found.setdefault(match.group(1), {})
            if count is not None:
                counters[match.group(2)] = count
    return found


def _of_ibstat(text: str) -> dict[str, Device]:
    """Return the devices of ``ibstat``: ``CA 'mlx5_0'``, its fields, ``Port 1:``, the port's fields."""
    devices: dict[str, Device] = {}
    for name, chunk in _chunks(text, re.compile(r"CA '([^']+)'")):
        parts = re.split(r"^\s*Port ([0-9]+):[ \t]*$", chunk, flags=re.MULTILINE)
        own = _fields(parts[0])
        for index, number in enumerate(parts[1::2]):
            _once(f"Port {number}", [f"Port {known}" for known in parts[1::2][:index]])
        ports = tuple(
            Port(
                number=number,
                state=_state(values.get("State")),
                phys_state=_phys_state(values.get("Physical state")),
                rate_gbps=_float(values.get("Rate")),
                link_layer=_link_layer(values.get("Link layer")),
            )
            for number, values in zip(parts[1::2], map(_fields, parts[2::2]))
        )
        _once(name, devices)
        devices[name] = Device(name, ports, own.get("Firmware version"), own.get("CA type"), guid=own.get("Node GUID"))
    return devices


def _of_ibstatus(text: str) -> dict[str, Device]:
    """Return the devices of ``ibstatus``: one paragraph for each port."""
    devices: dict[str, Device] = {}
    for heading, chunk in _chunks(text, re.compile(r"Infiniband device ('[^']+' port [0-9]+) status:")):
        name, _, number = heading[1:].partition("' port ")
        values = _fields(chunk)
        rate, lanes, lane_speed = _rate(values.get("rate"))
        port = Port(
            number=number,
            state=_state(values.get("state")),
            phys_state=_phys_state(values.get("phys state")),
            rate_gbps=rate,
            lanes=lanes,
            lane_speed=lane_speed,
            link_layer=_link_layer(values.get("link_layer")),
        )
        ports = devices[name].ports if name in devices else ()
        _once(number, [known.number for known in ports])
        devices[name] = Device(name, (*ports, port))
    return devices


def _chunks(text: str, heading: re.Pattern[str]) -> list[tuple[str, str]]:
    """Return what the heading names, and the text up to the next one."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        match = heading.fullmatch(line.strip())
        if match:
            found.append((match.group(1), []))
        elif found:
            found[-1][1].append(line)
        elif _FAILED.search(line):
            raise Unreadable(f"the tool failed: {line.strip()[:120]!r}")
    return [(name, "\n".join(lines)) for name, lines in found]


def _fields(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.strip().partition(":")
        # What is neither indented nor known by name the tool says of itself ("ibpanic: ... failed").
        if line.strip() and key.lower() not in _FIELDS and (line[0] not in " \t" or _FAILED.search(line)):
            raise Unreadable(f"line {line.strip()[:120]!r} is no field: the tool failed, or its list is not whole")
        if colon:
            # Two devices ran together: the line between them is lost.
            _once(key, found)
            found[key] = value.strip()
    return found


def _once(key: str, known: Any) -> None:
    if key in known:
        raise Unreadable(f"{key!r} stands twice, expected once for each device and port")


def _line(text: str | None) -> str | None:
    return text if text and "\n" not in text and text.upper() != "N/A" else None


def _state(text: str | None) -> str | None:
    word = (text or "").rpartition(":")[2].strip().lower()
    word = _STATE_WORDS.get(word, word)
    return word if word in _STATES else None


def _phys_state(text: str | None) -> str | None:
    word = (text or "").rpartition(":")[2].strip().lower()
    return word if word in _PHYS_STATES else None


def _link_layer(text: str | None) -> str | None:
    return text if text in ("Ethernet", "InfiniBand") else None


def _rate(text: str | None) -> tuple[float | None, int | None, str | None]:
    match = _RATE.fullmatch(text or "")
    return (float(match.group(1)), int(match.group(2)), match.group(3)) if match else (None, None, None)


def _float(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"[0-9]{1,5}(\.[0-9]+)?", text) else None


def _count(text: str | None) -> int | None:
    return int(text) if text and _NUMBER.fullmatch(text) else None


def transfer_rate(text: str | None) -> float | None:
    """Return the GT/s of ``32.0 GT/s PCIe`` (``16 GT/s`` up to Linux 5.x), None for any other text."""
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)?", (text or "").strip())
    return float(match.group(1)) if match else None
