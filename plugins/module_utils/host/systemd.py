"""Units of systemd, through systemctl (exit codes as in systemctl(1))."""

from __future__ import annotations

from collections.abc import Sequence

from ..words.errors import MusterError
from .host import Host, Output

QUERY_SECONDS = 30.0
# systemd's own limit of a unit's start or stop (DefaultTimeoutStartSec=90s), and what systemctl needs besides.
CHANGE_SECONDS = 120.0
# Words of ``is-active``.
ACTIVE, FAILED, INACTIVE = "active", "failed", "inactive"


class SystemdError(MusterError):
    """systemctl could not do what it was asked; says which command, and what it answered."""


class Systemd:
    """The units of a host. Methods that change something raise SystemdError."""

    def __init__(self, host: Host, seconds: float = CHANGE_SECONDS) -> None:
        self.host = host
        self.seconds = seconds

    def state(self, unit: str) -> str:
        """Return a unit's state such as ``active``, ``activating`` or ``failed``; empty where systemd does not answer.

        systemctl ends with 0 for an active unit, with 3 for another and with 4 for one that does not exist (which it
        calls ``inactive``), so that the word alone says which.
        """
        return self.host.run(["systemctl", "is-active", unit], QUERY_SECONDS).stdout.strip()

    def is_active(self, unit: str) -> bool:
        """Return whether a unit is active or reloading. One that is still starting is not."""
        return self.host.run(["systemctl", "is-active", "--quiet", unit], QUERY_SECONDS).rc == 0

    def enabled(self, unit: str) -> str:
        """Return whether a unit starts at boot, in systemctl's words: ``enabled``, ``disabled``, ``masked``...

        The exit status is 0 for what is enabled and 1 for most of the rest; empty where there is no such unit. Raises
        SystemdError where systemctl cannot be run.
        """
        command = ["systemctl", "is-enabled", unit]
        output = self.host.run(command, QUERY_SECONDS)
        if output.rc is None:
            raise SystemdError(f"{' '.join(command)}: {output.error}")
        return output.stdout.strip()

    def properties(self, unit: str, names: Sequence[str]) -> dict[str, str]:
        """Return properties by name; systemd answers for a unit that does not exist too. Empty without an answer."""
        shown = self.host.run(["systemctl", "show", f"--property={','.join(names)}", unit], QUERY_SECONDS).stdout
        return dict(line.partition("=")[::2] for line in shown.splitlines() if "=" in line)

    def start(self, *units: str) -> None:
        """Start units and wait until they are."""
        self.do("start", *units)

    def stop(self, *units: str) -> None:
        """Stop units and wait until they are; one that does not run is no error."""
        self.do("stop", *units)

    def restart(self, *units: str) -> None:
        """Stop units that run and start them all."""
        self.do("restart", *units)

    def reload_files(self) -> None:
        """Make systemd read its unit files again (daemon-reload)."""
        self.do("daemon-reload")

    def do(self, *words: str) -> None:
        """Run another verb of systemctl, such as ``enable``; anything but exit status 0 is an error."""
        output = self.host.run(["systemctl", *words], self.seconds)
        if output.rc != 0:
            raise SystemdError(f"systemctl {' '.join(words)}: {_said(output)}")


def _said(output: Output) -> str:
    lines = (output.error or output.stderr or output.stdout).strip().splitlines()
    return lines[0] if lines else "no message"
