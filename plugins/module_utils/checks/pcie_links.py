"""Did GPUs, NICs and drives negotiate the PCIe link that they and the class promise?

Only the device's own end is judged: a switch port that can do more than the drive below it says "downgraded" by design.
Nor may a device have fallen off the bus, have logged an error that cost data or the link, or be set to smaller packets
(MaxPayload) than the port above it sends: Linux sets both alike (pci_configure_mps in drivers/pci/probe.c), and a reset
that nobody followed up leaves the device at 128 bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..probes.lspci import Device, Link, above
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "pcie_links"
RULES = 2
PROBES: tuple[str, ...] = ("lspci",)

# Of one lane, by PCIe generation (PCI-SIG).
_GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
# The speed to which an idle GPU slows its link; the generation is judged under load.
_IDLE_GTS = 2.5
_NICS = ("Ethernet controller", "Infiniband controller", "Network controller")
_GPUS = ("3D controller", "VGA compatible controller", "Display controller", "Processing accelerators")
_DRIVES = ("Non-Volatile memory controller",)
# PCIe 4.0: slower network controllers serve management, in whatever slot was left.
_FAST_NIC_GTS = 16.0
# Errors after which data or the link were lost, by lspci's names: of the data link protocol, surprise down, flow
# control, receiver overflow, malformed packet, checksum, internal. Fatal by default (PCIe base specification, table of
# error messages). The others happen while software looks for devices (UnsupReq), or cost one request.
_SEVERE = ("FatalErr", "DLP", "SDES", "FCP", "RxOF", "MalfTLP", "ECRC", "UncorrIntErr")
_OTHERS = ("TLP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "PoisonTLPBlocked", "TLPBlockedErr", "AtomicOpBlocked")
# What is expected of a device whose link the class does not declare.
_AS_CAN = "what the device can do"


def is_fast_nic(device: Device) -> bool:
    """Say whether a device is a network interface of its own (not a virtual function) that can do PCIe 4.0."""
    return _is_nic(device) and device.capable is not None and device.capable.speed_gts >= _FAST_NIC_GTS


def _is_nic(device: Device) -> bool:
    return device.kind in _NICS and "Virtual Function" not in device.name


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPUs, the other declared devices, and the host for what is not declared."""
    if expect.pcie is None:
        return []
    return [*_wanted(expect), "host"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare each declared device with the class; NICs and drives besides, with what they can do and their like."""
    devices: Mapping[str, Device] = values["lspci"]
    wanted = _wanted(expect)
    gpus = gpu_subjects(expect)
    findings = [
        _declared(subject, devices.get(address), link, devices, is_gpu=address in gpus)
        for subject, (address, link) in wanted.items()
    ]
    declared = {address for address, _ in wanted.values()} | set(gpus)
    others = [device for device in devices.values() if device.address not in declared and _is_judged(device)]
    # Whatever was there when the host started and does not answer now takes down what lies below it.
    others += [
        device
        for device in devices.values()
        if device.silent and device.address not in declared and device not in others
    ]
    return [*findings, *_undeclared(others, devices, expect)]


def _wanted(expect: Expectations) -> dict[str, tuple[str, Link]]:
    """Return address and link by subject."""
    wanted = {}
    generation, width = (expect.gpu.pcie_generation, expect.gpu.pcie_width) if expect.gpu else (None, None)
    if generation is not None and width is not None:
        for address, subject in gpu_subjects(expect).items():
            wanted[subject] = address, Link(_GTS[generation], width)
    for item in stated(expect.pcie).devices:
        wanted[item.name] = (item.address, Link(item.speed_gts, item.width))
    return wanted


def _declared(
    subject: str, device: Device | None, wanted: Link, devices: Mapping[str, Device], is_gpu: bool
) -> Finding:
    if device is None:
        why = f"no device at the address of {subject}"
        # NVIDIA's catalogue for a GPU off the bus (Xid 79): RESTART_BM.
        action = "reboot" if is_gpu else "reseat"
        return Finding(NAME, subject, FAIL, "absent", str(wanted), "", why, action)
    fault = _fault(device, devices)
    if fault:
        action = "reboot" if device.silent and is_gpu else "reseat"
        return Finding(NAME, subject, FAIL, fault[0], str(wanted), "", fault[1], action)
    if is_gpu and device.kind not in _GPUS:
        why = f"another device at the address of {subject}: {device.kind}, {device.name}"
        return Finding(NAME, subject, FAIL, device.kind, str(wanted), "", why, "reseat")
    link = device.link
    if link is None:
        why = f"lspci does not report the link of {device.address}"
        return Finding(NAME, subject, INCOMPLETE, None, str(wanted), "", why, "investigate")
    idle = is_gpu and link.speed_gts == _IDLE_GTS and wanted.speed_gts > _IDLE_GTS
    if link.width < wanted.width or (link.speed_gts < wanted.speed_gts and not idle):
        why = f"link of {device.address} below the class floor{_can(device)}"
        return Finding(NAME, subject, FAIL, str(link), str(wanted), "", why, "reseat")
    why = ""
    if idle:
        if device.capable is None or device.capable.speed_gts < wanted.speed_gts:
            why = f"link of {device.address} is idle, and what it can do is {device.capable or 'unknown'}"
            return Finding(NAME, subject, INCOMPLETE, str(link), str(wanted), "", why, "investigate")
        why = "width judged; an idle GPU slows its link, its speed is judged under load"
    watched = [error for error in device.errors if error in _OTHERS]
    if watched:
        why = "; ".join(filter(None, (why, f"{device.address} has logged {', '.join(watched)}: see the kernel log")))
    return Finding(NAME, subject, PASS, str(link), str(wanted), "", why, "investigate" if watched else "none")


def _fault(device: Device, devices: Mapping[str, Device]) -> tuple[str, str] | None:
    """Return what is wrong with a device besides its link, in short and as a reason."""
    if device.silent:
        return "no answer", f"{device.address} is listed and does not answer (all ones): it fell off the bus"
    severe = [error for error in device.errors if error in _SEVERE]
    if severe:
        named = ", ".join(severe)
        return named, f"{device.address} has logged PCIe errors that cost the link or data: {named}"
    path = above(device.address, devices)
    if path and path[0].payload_bytes and device.payload_bytes and device.payload_capable_bytes:
        least = min(path[0].payload_bytes, device.payload_capable_bytes)
        if device.payload_bytes < least:
            why = f"{device.address} is set to packets of {device.payload_bytes} bytes (MaxPayload)"
            why += f", the port {path[0].address} above it to {path[0].payload_bytes}: both must be alike"
            return f"MaxPayload {device.payload_bytes}", why
    return None


def _is_judged(device: Device) -> bool:
    if device.kind in _DRIVES:
        return True
    # A NIC whose ability cannot be read may be a fast one.
    return is_fast_nic(device) or (_is_nic(device) and not device.capable and not device.readable)


def _undeclared(others: Sequence[Device], devices: Mapping[str, Device], expect: Expectations) -> Iterator[Finding]:
    best: dict[str, Link] = {}
    like: dict[str, list[Device]] = defaultdict(list)
    for device in others:
        like[device.name].append(device)
    for name, group in like.items():
        links = [device.link for device in group if device.link]
        if links:
            best[name] = max(links, key=lambda link: link.speed_gts * link.width)
    faults = []
    unread = []
    for device in others:
        kind = "nvme" if device.kind in _DRIVES else "nic" if _is_nic(device) else "pci"
        subject = f"{kind} {device.address}"
        fault = _fault(device, devices)
        if fault:
            faults.append(Finding(NAME, subject, FAIL, fault[0], _AS_CAN, "", fault[1], "reseat"))
            continue
        if device.link is None or device.capable is None:
            unread.append(subject)
            continue
        for promised, what in (
            (device.capable, "below what it can do (if the slot is built like that, declare it under pcie.devices)"),
            (best[device.name], "spread across the host's devices of its kind"),
        ):
            if device.link.speed_gts < promised.speed_gts or device.link.width < promised.width:
                why = f"link of {device.name}: {what}, {promised}"
                faults.append(Finding(NAME, subject, FAIL, str(device.link), _AS_CAN, "", why, "reseat"))
                break
    yield from faults
    yield _host(others, faults, unread, devices, expect)


def _host(
    others: Sequence[Device],
    faults: Sequence[Finding],
    unread: Sequence[str],
    devices: Mapping[str, Device],
    expect: Expectations,
) -> Finding:
    if faults:
        why = f"see {', '.join(finding.subject for finding in faults)}"
        return Finding(NAME, "host", FAIL, f"{len(faults)} links with a fault", _AS_CAN, "", why, "reseat")
    # Two functions of one NIC are one NIC.
    nics = {address.rpartition(".")[0] for address, device in devices.items() if is_fast_nic(device)}
    if unread:
        why = f"lspci does not report the link of {', '.join(unread[:8])}{' and others' if len(unread) > 8 else ''}"
        return Finding(NAME, "host", INCOMPLETE, None, _AS_CAN, "", why, "investigate")
    if len(nics) < (count := _nic_count(expect)):
        why = f"links of {len(nics)} fast NICs seen, expected at least {count}"
        return Finding(NAME, "host", INCOMPLETE, None, _AS_CAN, "", why, "investigate")
    why = f"undeclared NICs and drives ({len(others)}): compared with what they can do and with each other alone"
    return Finding(NAME, "host", PASS, f"{len(others)} links", _AS_CAN, "", why if others else "")


def _nic_count(expect: Expectations) -> int:
    nic = expect.nic
    return 0 if nic is None else len(nic.rails)


def _can(device: Device) -> str:
    return f" (it can do {device.capable})" if device.capable else ""
