"""Slurm's releases in their order, and which of them go together."""

from __future__ import annotations

# A daemon serves the daemons, commands and state of the two releases before its own, from 24.11 on of three:
# "Compatibility window" in SchedMD's upgrade guide, https://slurm.schedmd.com/upgrades.html
RELEASES: tuple[str, ...] = ("20.11", "21.08", "22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11")
THREE_BEFORE_FROM = "24.11"


def served(release: str) -> tuple[str, ...]:
    """Return the releases, oldest first, that a daemon of ``release`` serves: its own, and those before in the window.

    Raises ValueError where ``release`` is none of RELEASES.
    """
    at = RELEASES.index(release)
    before = 3 if at >= RELEASES.index(THREE_BEFORE_FROM) else 2
    return RELEASES[max(at - before, 0) : at + 1]


def pair_fault(controller: str, other: str) -> str:
    """Return why a slurmctld does not serve a node or user commands of another release, "" where it does.

    ``pair_fault("24.11", "22.05")``: Slurm 22.05 is older than a slurmctld of 24.11 serves, expected 23.02 to 24.11.
    """
    for release in (controller, other):
        if release not in RELEASES:
            return f"Slurm {release} is unknown here, expected one of {', '.join(RELEASES)}"
    window = served(controller)
    if other in window:
        return ""
    age = "newer" if RELEASES.index(other) > RELEASES.index(controller) else "older"
    return f"Slurm {other} is {age} than a slurmctld of {controller} serves, expected {window[0]} to {window[-1]}"
