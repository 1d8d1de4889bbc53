"""A unit's state as ``systemctl show`` tells it, of one that does not exist too (``LoadState=not-found``)."""

from __future__ import annotations

from dataclasses import dataclass

from ..host.host import Output, Unreadable

PROPERTIES = ("LoadState", "ActiveState", "SubState", "Result", "ExecMainStatus")


@dataclass(frozen=True)
class UnitState:
    """The states in systemd's words."""

    load: str
    active: str
    sub: str
    result: str
    exit_status: str


def show(unit: str) -> tuple[str, ...]:
    """Return the command that asks for the state of a unit."""
    return ("systemctl", "show", unit, "--property=" + ",".join(PROPERTIES))


def parse_unit_state(output: Output) -> UnitState:
    """Return the state; raises Unreadable when systemd does not tell it."""
    if output.rc != 0:
        raise Unreadable(f"systemctl: {output.error or output.stderr or f'exit status {output.rc}'}")
    # A line without its end may have been cut off ("inactive" ends with "active", "activating" does not begin with it).
    lines = [line.rstrip() for line in output.stdout.split("\n")[:-1]]
    properties = dict(line.split("=", 1) for line in lines if "=" in line)
    missing = [name for name in PROPERTIES[:3] if not properties.get(name)]
    if missing:
        raise Unreadable(f"systemctl does not tell {', '.join(missing)}")
    return UnitState(*(properties.get(name, "") for name in PROPERTIES))
