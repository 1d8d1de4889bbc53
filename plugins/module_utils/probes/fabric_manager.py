"""The service that sets up the NVSwitch fabric: its state as systemd tells it, and its version.

``systemctl show`` answers for a unit that does not exist as well (``LoadState=not-found``). ``nv-fabricmanager
--version`` prints ``Fabric Manager version is : 535.161.08`` (also quoted so in other projects' tests).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..host import blocks
from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "fabric_manager"
# No output of a real host is at hand.
FORMAT_UNVERIFIED = True
PROPERTIES = ("LoadState", "ActiveState", "SubState", "Result", "ExecMainStatus")
ARGV = ("systemctl", "show", "nvidia-fabricmanager.service", "--property=" + ",".join(PROPERTIES))
VERSION_ARGV = ("nv-fabricmanager", "--version")
TIMEOUT_SECONDS = 20.0

_VERSION = re.compile(r"^\s*Fabric Manager version is\s*:\s*(\d+(?:\.\d+)+)\s*\n", re.MULTILINE)


@dataclass(frozen=True)
class FabricManager:
    """The unit's states in systemd's words, and the version of the installed program (None: could not be read)."""

    load: str
    active: str
    sub: str
    result: str
    exit_status: str
    version: str | None


def collect(host: Host, expect: Expectations) -> Output:
    """Ask systemd for the unit and the program for its version."""
    return blocks.joined(
        {"service": host.run(ARGV, TIMEOUT_SECONDS), "version": host.run(VERSION_ARGV, TIMEOUT_SECONDS)}
    )


def parse(output: Output) -> FabricManager:
    """Return the service's state; raises Unreadable when systemd does not tell it."""
    found = blocks.split(output.stdout)
    service = found.get("service", Output(rc=None, error="no answer"))
    if service.rc != 0:
        raise Unreadable(f"systemctl: {service.error or service.stderr or f'exit status {service.rc}'}")
    # A line without its end may have been cut off ("inactive" ends with "active", "activating" does not begin with it).
    lines = service.stdout.split("\n")[:-1]
    properties = dict(line.split("=", 1) for line in lines if "=" in line)
    missing = [name for name in PROPERTIES[:3] if not properties.get(name)]
    if missing:
        raise Unreadable(f"systemctl does not tell {', '.join(missing)}")
    version = found.get("version", Output(rc=None))
    match = _VERSION.search(version.stdout) if version.rc == 0 else None
    return FabricManager(
        load=properties["LoadState"],
        active=properties["ActiveState"],
        sub=properties["SubState"],
        result=properties.get("Result", ""),
        exit_status=properties.get("ExecMainStatus", ""),
        version=match.group(1) if match else None,
    )
