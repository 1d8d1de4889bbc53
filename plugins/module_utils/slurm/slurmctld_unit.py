"""The slurmctld of this host as a unit of systemd: started, waited for, and what it said when it ended."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..host.host import Host
from ..host.systemd import ACTIVE, FAILED, INACTIVE, Systemd, SystemdError
from ..host.waiting import wait_until
from .configuration_swap import Places
from .slurm_conf import ConfigurationError
from .slurm_trial import complaints

# What a standby of 23.11 and later says, again and again, until the primary has run once: it answers nobody before.
_WAITS = "Waiting for heartbeat file to exist"


class SlurmctldUnit:
    """One controller's daemon; ``name`` is what slurm.conf calls the host, ``log`` its SlurmctldLogFile if it has one.

    Methods that change something raise ConfigurationError.
    """

    def __init__(self, host: Host, places: Places, name: str, log: str, poll_seconds: float) -> None:
        self.host = host
        self.systemd = Systemd(host, places.start_seconds)
        self.unit = places.unit
        self.name = name
        self.log = Path(log) if log else None
        self.start_seconds = places.start_seconds
        self.poll_seconds = poll_seconds

    def answers(self) -> bool:
        """Return whether this host's controller answers."""
        return is_up(self.host.run(["scontrol", "ping"], self.start_seconds).stdout, self.name)

    def runs(self) -> bool:
        """Return whether it answers, or is at work without answering."""
        return self.answers() or self.systemd.state(self.unit) == ACTIVE

    def start(self) -> None:
        """Start it anew and wait until it answers, or waits for the primary's first start as a standby."""
        log = self._log_size()
        try:
            self.systemd.reload_files()
            self.systemd.restart(self.unit)
            self._wait(lambda: self.answers() or _WAITS in self._logged(log))
        except (SystemdError, ConfigurationError) as exc:
            raise ConfigurationError(f"{exc}{self._words(log)}") from exc

    def stop(self) -> None:
        """Stop it, if systemd can."""
        with suppress(SystemdError):
            self.systemd.stop(self.unit)

    def wait(self) -> None:
        """Wait until it answers."""
        self._wait(self.answers)

    def _wait(self, there: Callable[[], bool]) -> None:
        def ready() -> bool:
            if self.systemd.state(self.unit) in (FAILED, INACTIVE):
                raise ConfigurationError(f"slurmctld on {self.name} ended")
            return there()

        if not wait_until(ready, self.start_seconds, self.poll_seconds):
            raise ConfigurationError(f"slurmctld on {self.name} does not answer after {self.start_seconds:g} s")

    def _log_size(self) -> int:
        with suppress(OSError):
            return self.log.stat().st_size if self.log else 0
        return 0

    def _logged(self, since: int) -> str:
        with suppress(OSError):
            if self.log:
                with self.log.open("rb") as file:
                    file.seek(since)
                    return file.read().decode("utf-8", errors="replace")
        return ""

    def _words(self, since: int) -> str:
        """Return what slurmctld or its unit said before it ended."""
        said = complaints(self._logged(since))
        if not said:
            # The unit's own words: the guard of the state directory speaks there.
            journal = self.host.run(["journalctl", "-u", self.unit, "-o", "cat", "-n", "20", "--no-pager"], 30)
            said = [line for line in journal.stdout.splitlines() if "slurmctld-state" in line or "fatal" in line]
        return f": {'; '.join(said[-2:])}" if said else ""


def is_up(ping: str, name: str) -> bool:
    """Return whether ``scontrol ping`` says that the controller of this name is there."""
    return re.search(rf"\bat {re.escape(name)} is UP\b", ping) is not None
