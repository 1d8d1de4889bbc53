"""PCIe settings of a node that every reboot undoes: the NICs' reads and ordering, access control, interrupts.

``lspci`` is what is read (before, and again afterwards), ``setpci`` writes. Register layouts: PCI Express base
specification, Device Control (offset 8 of the capability) and ACS Control (offset 6 of the extended capability).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ..host.host import Host, Unreadable
from ..host.machine import Machine
from ..host.secure_boot import lockdown
from ..host.systemd import Systemd, SystemdError
from ..probes import lspci
from ..words.errors import MusterError
from ..words.expectations import READ_REQUEST_BYTES, PciAddress, Rail, ReadRequestBytes
from ..words.reader import Path, Text, plain, read

TIMEOUT_SECONDS = 30.0
BALANCER = "irqbalance.service"


class PcieError(MusterError):
    """A device that cannot be read or set, or that does not keep what it was set to."""


@dataclass(frozen=True)
class Settings:
    """What is wanted; null is not declared.

    On the bridges above the addresses of ``acs_off_above`` access control is turned off. With ``local_interrupts`` the
    interrupts of the NICs go to the CPUs next to them, and irqbalance is masked, which would move them.
    """

    rails: tuple[Rail, ...]
    # Read at run time, by Python 3.9 too.
    max_read_request_bytes: Optional[ReadRequestBytes]  # noqa: UP045
    relaxed_ordering: Optional[bool]  # noqa: UP045
    acs_off_above: tuple[PciAddress, ...]
    local_interrupts: bool
    tool_path: Text
    root: Path

    @classmethod
    def from_dict(cls, data: Any) -> Settings:
        """Return the settings in ``data``; raises ReadError."""
        return read(cls, data)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Return the settings of ``/etc/muster/pcie.json``; raises ReadError or ValueError."""
        return cls.from_dict(json.loads(text))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data that ``from_dict`` reads back."""
        data: dict[str, Any] = plain(self)
        return data


@dataclass(frozen=True)
class Interrupt:
    """One interrupt of a rail's NIC: the CPUs that it may go to, and those next to the NIC."""

    rail: Rail
    number: str
    allowed: str
    local: str


@dataclass(frozen=True)
class Seen:
    """What a node is set to."""

    devices: Mapping[str, lspci.Device]
    interrupts: tuple[Interrupt, ...]
    balancer: bool


@dataclass(frozen=True)
class Step:
    """One change: what it is, and the command, or the file and its text."""

    what: str
    argv: tuple[str, ...] = ()
    file: tuple[str, str] = ("", "")


def cpus_of(text: str) -> frozenset[int]:
    """Return the CPUs of a list such as ``0-47,96``; raises PcieError."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, to, last = part.partition("-")
        last = last if to else first
        if not (first.isdecimal() and last.isdecimal()) or int(last) < int(first):
            raise PcieError(f"found {text.strip()[:60]!r}, expected a list of CPUs such as 0-47,96-143")
        cpus |= set(range(int(first), int(last) + 1))
    return frozenset(cpus)


def look(host: Host, settings: Settings) -> Seen:
    """Return what the node is set to; raises PcieError for what cannot be read."""
    try:
        devices = lspci.parse(lspci.collect(host))
    except Unreadable as exc:
        raise PcieError(f"lspci: {exc}") from exc
    if gone := [str(rail) for rail in settings.rails if rail.address not in devices]:
        raise PcieError(f"lspci lists no device at the address of {', '.join(gone)}")
    if not settings.local_interrupts:
        return Seen(devices, (), False)
    found = [each for rail in settings.rails for each in _interrupts(host, rail)]
    return Seen(devices, tuple(found), _balancer_may_run(host))


def plan(seen: Seen, settings: Settings) -> list[Step]:
    """Return what has to change, in order; raises PcieError for a device that is not there or cannot be judged."""
    steps = [step for rail in settings.rails for step in _control(seen, settings, rail)]
    steps += _access_control(seen, settings.acs_off_above)
    if seen.balancer:
        steps.append(Step(f"mask {BALANCER}", ("systemctl", "mask", "--now", BALANCER)))
    for each in seen.interrupts:
        if cpus_of(each.allowed) != cpus_of(each.local):
            what = f"{each.rail}: interrupt {each.number} to CPUs {each.local} in place of {each.allowed}"
            steps.append(Step(what, file=(f"/proc/irq/{each.number}/smp_affinity_list", each.local)))
    return steps


def apply(host: Machine, settings: Settings, check: bool = False) -> list[Step]:
    """Bring the node to its settings, read them back, and return what was changed (with ``check``: would be).

    Raises PcieError for what cannot be read or set, and for a device that does not keep what it was set to.
    """
    steps = plan(look(host, settings), settings)
    if check or not steps:
        return steps
    for step in steps:
        if why := _taken(host, step):
            raise PcieError(f"{step.what}: {why}{_cause(host, [step])}")
    if left := plan(look(host, settings), settings):
        what = "; ".join(step.what for step in left)
        raise PcieError(f"after it was set there was still to do: {what}{_cause(host, left)}")
    return steps


def refusal(host: Host) -> str:
    """Return why the kernel refuses what ``setpci`` writes, with the ways out; "" where it does not."""
    try:
        mode = lockdown(host)
    except Unreadable as exc:
        return f"whether the kernel refuses writes to PCIe registers cannot be told ({exc})"
    if not mode:
        return ""
    return (
        f"the kernel's lockdown ({mode}, which Secure Boot turns on) refuses writes to PCIe registers: set it in the "
        "host's firmware, declare null in pcie of the class, or switch Secure Boot off"
    )


def _cause(host: Host, steps: Sequence[Step]) -> str:
    why = refusal(host) if any(step.argv[:1] == ("setpci",) for step in steps) else ""
    return f"; {why}" if why else ""


def _taken(host: Machine, step: Step) -> str:
    """Take a step; return what is said against it."""
    if not step.argv:
        return host.write(*step.file)
    output = host.run(step.argv, TIMEOUT_SECONDS)
    return "" if output.rc == 0 else output.error or output.stderr.strip() or f"exit status {output.rc}"


def _control(seen: Seen, settings: Settings, rail: Rail) -> list[Step]:
    """Return the changes of a NIC's Device Control register: bits 14 to 12 (read size) and 4 (relaxed ordering)."""
    size, relaxed = settings.max_read_request_bytes, settings.relaxed_ordering
    if size is None and relaxed is None:
        return []
    device = seen.devices[rail.address]
    if device.max_read_request_bytes is None or device.relaxed_ordering is None:
        raise PcieError(f"{rail}: lspci does not show the Device Control register")
    steps = []
    if size is not None and size != device.max_read_request_bytes:
        what = f"{rail}: reads of {size} B in place of {device.max_read_request_bytes} B"
        steps.append(_setpci(what, rail.address, f"CAP_EXP+8.w={READ_REQUEST_BYTES.index(size) << 12:04x}:7000"))
    if relaxed is not None and relaxed != device.relaxed_ordering:
        what = f"{rail}: relaxed ordering {'on' if relaxed else 'off'}"
        steps.append(_setpci(what, rail.address, f"CAP_EXP+8.w={relaxed << 4:04x}:0010"))
    return steps


def _access_control(seen: Seen, addresses: Sequence[str]) -> list[Step]:
    steps: dict[str, Step] = {}
    for address in addresses:
        if address not in seen.devices:
            # Nothing reaches a device that is not there; burn-in names it, which an error here would keep from running.
            continue
        bridges = lspci.above(address, seen.devices)
        if not bridges or not all(bridge.readable for bridge in bridges):
            raise PcieError(f"the bridges above {address} are not all listed, or not readable")
        for bridge in bridges:
            if bridge.acs:
                what = f"bridge {bridge.address}: access control off ({', '.join(bridge.acs)} on)"
                steps[bridge.address] = _setpci(what, bridge.address, "ECAP_ACS+6.w=0000:007f")
    return list(steps.values())


def _setpci(what: str, address: str, register: str) -> Step:
    return Step(what, ("setpci", "-s", address, register))


def _interrupts(host: Host, rail: Rail) -> list[Interrupt]:
    place = f"/sys/bus/pci/devices/{rail.address}"
    local = _text(host, f"{place}/local_cpulist")
    cpus_of(local)
    numbers = [path.rpartition("/")[2] for path in host.paths(f"{place}/msi_irqs/*")]
    # An interrupt that nothing has asked for yet has no such file.
    files = {number: f"/proc/irq/{number}/smp_affinity_list" for number in sorted(numbers, key=int)}
    found = [Interrupt(rail, number, _text(host, path), local) for number, path in files.items() if host.paths(path)]
    if not found:
        raise PcieError(f"{rail}: no interrupts in {place}/msi_irqs; is its driver loaded?")
    return found


def _text(host: Host, path: str) -> str:
    output = host.read(path)
    if output.rc != 0 or not output.stdout.strip():
        raise PcieError(output.error or f"{path} is empty")
    return output.stdout.strip()


def _balancer_may_run(host: Host) -> bool:
    try:
        state = Systemd(host).enabled(BALANCER)
    except SystemdError as exc:
        raise PcieError(f"whether {BALANCER} is there cannot be told: {exc}") from exc
    # A unit that is not there has no state, or "not-found" (systemd 253 and later).
    return state not in ("", "not-found", "masked")
