"""``lspci -D -vv``: PCI devices with their link and, on bridges, access control.

Two ``v`` are the least that print LnkCap, LnkSta and ACSCtl (pciutils, ls-caps.c and ls-ecaps.c); one more, or no
domain in the address, is understood as well. ``(ok)`` behind a speed or width came with pciutils 3.6 and went with 3.8.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations, pci_address

NAME = "lspci"
ARGV = ("lspci", "-D", "-vv")
# Vital product data of a NIC is read byte by byte.
TIMEOUT_SECONDS = 60.0

# A device's lines are indented; lspci puts nothing else at the margin but the bytes that -x asks for.
_DEVICES = re.compile(r"(?<=\n)(?=\S)(?![0-9a-f]{2,3}:(?: [0-9a-f]{2}){16}$)", re.MULTILINE)
# What a device has once: twice is two devices of which a line between them got lost.
_ONCE = ("Control: I/O", "DevCtl:", "Kernel driver in use:")
_HEADER = re.compile(r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (.+?): (.+)")
_LINK_CAP = re.compile(r"^\s+LnkCap:\s.*?Speed ([\d.]+)GT/s.*?, Width x(\d+)", re.MULTILINE | re.ASCII)
_LINK = re.compile(r"^\s+LnkSta:\s+Speed ([\d.]+)GT/s.*?, Width x(\d+)", re.MULTILINE | re.ASCII)
_NODE = re.compile(r"^\s+NUMA node: (\d{1,4})$", re.MULTILINE | re.ASCII)
_BUS = re.compile(r"^\s+Bus: primary=\w+, secondary=(\w+), subordinate=(\w+)", re.MULTILINE | re.ASCII)
_PORT = re.compile(r"^\s+Capabilities: \[\w+\] Express(?: \(v\d\))? ([\w -]+?)(?: \(|,|$)", re.MULTILINE | re.ASCII)
_CONTROL = re.compile(
    r"^\s+DevCtl:.*\n\s+.*?RlxdOrd([+-]).*\n\s+MaxPayload (\d+) bytes, MaxReadReq (\d+) bytes$", re.MULTILINE | re.ASCII
)
_PAYLOAD = re.compile(r"^\s+DevCap:\s+MaxPayload (\d+) bytes", re.MULTILINE | re.ASCII)
# What the device has logged since Linux cleared it (pci_aer_clear_status and pcie_clear_device_status, at boot and
# after each error that it handled), as pciutils writes it: "DLP-" is no error, "DLP+" one.
_LOGGED = re.compile(r"^\s+(DevSta|UESta):\s*(.*)$", re.MULTILINE | re.ASCII)
# All ones is what a bus reads of a device that does not answer: revision ff, header type 7f (lspci.c of pciutils).
_SILENT = re.compile(r"\(rev ff\)|^\s+!!! Unknown header type", re.MULTILINE)
_ACS = re.compile(r"^\s+ACSCtl:\s+(SrcValid[+-](?: \w+[+-])* DirectTrans[+-])\s*$", re.MULTILINE | re.ASCII)


@dataclass(frozen=True)
class Link:
    """Speed in GT/s of one lane, and the number of lanes."""

    speed_gts: float
    width: int

    def __str__(self) -> str:
        return f"{self.speed_gts:g} GT/s x{self.width}"


@dataclass(frozen=True)
class Device:
    """One PCI function.

    ``port`` is its place in PCI Express (``Endpoint``, ``Root Port``; "" for none). ``capable`` is what its own end of
    the link can do, ``link`` what was negotiated: None where it has none or lspci cannot say. ``buses`` are first and
    last bus below a bridge. ``max_read_request_bytes`` and ``relaxed_ordering`` are what the device is set to; None is
    what lspci does not show. ``acs`` names the access controls that are on; None is a device without that capability.
    ``readable`` is false where the capabilities are not there to be read, or not all of them. ``numa_node`` is None on
    a host that has one node only, or does not say where the device lies.
    """

    address: str
    kind: str
    name: str
    port: str
    capable: Link | None
    link: Link | None
    buses: tuple[int, int] | None
    acs: tuple[str, ...] | None
    readable: bool
    max_read_request_bytes: int | None = None
    relaxed_ordering: bool | None = None
    numa_node: int | None = None
    # The largest packet that the device is set to, and what it can do.
    payload_bytes: int | None = None
    payload_capable_bytes: int | None = None
    # The uncorrected errors that it has logged, as lspci names them: FatalErr, DLP.
    errors: tuple[str, ...] = ()
    # Listed, but it does not answer: it fell off the bus.
    silent: bool = False


def collect(host: Host, expect: Expectations | None = None) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> dict[str, Device]:
    """Return the devices by address (``0000:1b:00.0``) in the tool's order; raises Unreadable."""
    require_success(output)
    devices: dict[str, Device] = {}
    for block in _DEVICES.split(output.stdout.lstrip("\n")):
        header, _, text = block.partition("\n")
        match = _HEADER.fullmatch(header.rstrip())
        if not match or any(text.count(once) > 1 for once in _ONCE):
            raise Unreadable(f"found {header[:60]!r}, expected a device such as '0000:1b:00.0 3D controller: NVIDIA'")
        device = _device(match, text)
        if device.address in devices:
            raise Unreadable(f"{device.address} is listed twice")
        devices[device.address] = device
    return devices


def above(address: str, devices: Mapping[str, Device]) -> list[Device]:
    """Return the bridges from a device up to its root port; empty unless the list has all of them."""
    domain, bus = address.split(":")[:2]
    secondary = {(bridge.address.split(":")[0], bridge.buses[0]): bridge for bridge in devices.values() if bridge.buses}
    path: list[Device] = []
    bridge = secondary.get((domain, int(bus, 16)))
    while bridge and bridge not in path:
        path.append(bridge)
        bridge = secondary.get((domain, int(bridge.address.split(":")[1], 16)))
    return path if path and path[-1].port == "Root Port" else []


def _device(match: re.Match[str], text: str) -> Device:
    short, kind, name = match.groups()
    address = pci_address(short if short.count(":") > 1 else f"0000:{short}")
    assert address is not None
    bus = _BUS.search(text)
    buses = (int(bus.group(1), 16), int(bus.group(2), 16)) if bus and _is_hex(*bus.groups()) else None
    acs, port, control = _ACS.search(text), _PORT.search(text), _CONTROL.search(text)
    node, payload = _NODE.search(text), _PAYLOAD.search(text)
    return Device(
        address,
        re.sub(r" \[[0-9a-f]{4}\]$", "", kind),
        re.sub(r" \((?:rev|prog-if) .*", "", name),
        port.group(1) if port else "",
        _link(_LINK_CAP.search(text)),
        _link(_LINK.search(text)),
        buses,
        tuple(word[:-1] for word in acs.group(1).split() if word.endswith("+")) if acs else None,
        "Capabilities: [" in text
        # What all but root see.
        and "access denied" not in text
        and bool(acs) == any(word in text for word in ("Access Control Services", "ACSCap:", "ACSCtl:"))
        and bool(control) == ("DevCtl:" in text)
        # An empty line ends every device: what was cut short may have had more to say.
        and text.endswith("\n\n"),
        int(control.group(3)) if control else None,
        control.group(1) == "+" if control else None,
        int(node.group(1)) if node else None,
        int(control.group(2)) if control else None,
        int(payload.group(1)) if payload else None,
        tuple(word[:-1] for line in _LOGGED.finditer(text) for word in line.group(2).split() if word.endswith("+")),
        bool(_SILENT.search(f"{name}\n{text}")),
    )


def _is_hex(*words: str) -> bool:
    return all(re.fullmatch(r"[0-9a-f]{2}", word) for word in words)


def _link(match: re.Match[str] | None) -> Link | None:
    if not match or match.group(1).count(".") > 1 or match.group(1).strip(".") == "":
        return None
    return Link(float(match.group(1)), int(match.group(2)))
