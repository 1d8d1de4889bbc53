"""The service that sets up the NVSwitch fabric: its state as systemd tells it, and its version.

``nv-fabricmanager --version`` of 580.178.04 prints ``Fabric Manager version is : 580.178.04``, without a GPU too;
535.161.08 did alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..formats.unit_state import UnitState, parse_unit_state, show
from ..host import blocks
from ..host.host import Host, Output
from ..words.expectations import Expectations

NAME = "fabric_manager"
# The program was run, its service on a real host was not.
PARTLY_UNVERIFIED = "the service's states on a host with NVSwitches"
ARGV = show("nvidia-fabricmanager.service")
VERSION_ARGV = ("nv-fabricmanager", "--version")
TIMEOUT_SECONDS = 20.0

_VERSION = re.compile(r"^\s*Fabric Manager version is\s*:\s*(\d+(?:\.\d+)+)\s*\n", re.MULTILINE)


@dataclass(frozen=True)
class FabricManager(UnitState):
    """The unit's state, and the version of the installed program (None: could not be read)."""

    version: str | None


def collect(host: Host, expect: Expectations) -> Output:
    """Ask systemd for the unit and the program for its version."""
    return blocks.joined(
        {"service": host.run(ARGV, TIMEOUT_SECONDS), "version": host.run(VERSION_ARGV, TIMEOUT_SECONDS)}
    )


def parse(output: Output) -> FabricManager:
    """Return the service's state; raises Unreadable when systemd does not tell it."""
    found = blocks.split(output.stdout)
    service = parse_unit_state(found.get("service", Output(rc=None, error="no answer")))
    version = found.get("version", Output(rc=None))
    match = _VERSION.search(version.stdout) if version.rc == 0 else None
    return FabricManager(**vars(service), version=match.group(1) if match else None)
