"""Bringing the firmware settings of a node's NICs to what is declared, one NIC after the other.

A setting is written for the next boot of the device; what is in force changes with a reset. Nothing here flashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..host.host import Host, Unreadable, require_success
from ..words.errors import MusterError
from ..words.expectations import Rail
from .firmware_settings import (
    TIMEOUT_SECONDS,
    Change,
    Setting,
    argument_of,
    changes,
    hidden,
    parse_firmware,
    parse_settings,
    pending,
    read_only,
    unlocking,
    unreadable,
)

# A reset takes the link down and trains it again.
RESET_SECONDS = 300.0
# Programs that query firmware and reset a device, by the one that configures it.
_QUERY = {"mstconfig": "mstflint", "mlxconfig": "flint"}
_RESET = {"mstconfig": "mstfwreset", "mlxconfig": "mlxfwreset"}


class NicError(MusterError):
    """A NIC that cannot be read or set, or does not keep what it was set to; the text names rail, found, expected."""


@dataclass
class Report:
    """What was set on one NIC, what still waits for a reset, and the firmware that runs and that starts next."""

    changes: list[Change] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    firmware: str = ""
    next_firmware: str = ""
    reset: bool = False


class Device:
    """One rail's NIC as the tools show it; each look asks the device again. Raises NicError."""

    def __init__(self, host: Host, tool: str, rail: Rail) -> None:
        self.host, self.tool, self.rail = host, tool, rail

    def settings(self, wanted: Mapping[str, str]) -> dict[str, Setting]:
        """Return the settings, once each declared one that is shown is one value, and unknown ones may yet appear.

        A declared one that is otherwise must be one that can be set.
        """
        text = self._run(self.tool, "-e", "query")
        try:
            settings = parse_settings(text)
        except Unreadable as exc:
            raise NicError(f"{self.rail}: {self.tool}: {exc}") from exc
        if why := unreadable(settings, wanted) or read_only(settings, wanted):
            raise NicError(f"{self.rail}: {'; '.join(why)}")
        if (unknown := hidden(settings, wanted)) and not unlocking(settings, wanted):
            raise NicError(f"{self.rail} has no setting {', '.join(unknown)}")
        return settings

    def firmware(self) -> tuple[str, str]:
        """Return the versions that run and that start next."""
        tool = _QUERY[self.tool]
        text = self._run(tool, "query")
        try:
            return parse_firmware(text)
        except Unreadable as exc:
            raise NicError(f"{self.rail}: {tool}: {exc}") from exc

    def set(self, todo: Sequence[Change]) -> None:
        """Set values for the next boot."""
        self._run(self.tool, "-y", "set", *(f"{change.key}={argument_of(change.wanted)}" for change in todo))

    def reset(self) -> None:
        """Load what waits for the next boot; the device's links go down meanwhile."""
        self._run(_RESET[self.tool], "-y", "reset", seconds=RESET_SECONDS)

    def _run(self, tool: str, *words: str, seconds: float = TIMEOUT_SECONDS) -> str:
        output = self.host.run([tool, "-d", self.rail.address, *words], seconds)
        try:
            if output.rc is None:
                raise Unreadable(output.error)
            require_success(output)
        except Unreadable as exc:
            raise NicError(f"{self.rail}: {tool} {' '.join(words)}: {exc}") from exc
        return output.stdout


def reconcile(device: Device, wanted: Mapping[str, str], check: bool, allow_reset: bool, report: Report) -> None:
    """Set what differs for the next boot and read it back; reset the device where that is allowed and waited for.

    ``report`` is filled as things are done, so that it is true of a device that fails half way. Raises NicError for a
    key the device does not know, a value that is none, and one that did not stay.
    """
    settings = device.settings(wanted)
    # What another setting unlocks can be set once that one is: a second look, and a second round.
    for _ in range(2):
        todo = [change for change in changes(settings, wanted) if change not in report.changes]
        if todo and not check:
            device.set(todo)
        report.changes += todo
        if check:
            break
        if todo:
            settings = device.settings(wanted)
    if ignored := [] if check else changes(settings, wanted):
        told = "; ".join(f"{change.key} is {change.held}, expected {change.wanted}" for change in ignored)
        raise NicError(f"{device.rail}: after it was set, {told}: the device ignores it")
    _look(device, report, settings, wanted)
    if report.pending and allow_reset and not check:
        device.reset()
        report.reset = True
        _look(device, report, device.settings(wanted), wanted)


def _look(device: Device, report: Report, settings: Mapping[str, Setting], wanted: Mapping[str, str]) -> None:
    report.firmware, report.next_firmware = device.firmware()
    waiting = [*pending(settings, wanted), *(f"{key} is not shown yet" for key in hidden(settings, wanted))]
    if report.firmware != report.next_firmware:
        waiting.append(f"firmware is {report.firmware}, {report.next_firmware} from the next boot on")
    report.pending = [f"{device.rail}: {why}" for why in waiting]
