"""``/sys/class/infiniband``: the ports' states alone, four files a port, which ask no firmware."""

from __future__ import annotations

from ..host import blocks
from ..host.host import Host, Output
from ..words.expectations import Expectations
from .infiniband import Device
from .infiniband import parse as parse_infiniband

NAME = "infiniband_ports"

_FILES = tuple(f"/sys/class/infiniband/*/ports/*/{name}" for name in ("state", "phys_state", "rate", "link_layer"))


def collect(host: Host, expect: Expectations) -> Output:
    """Read the files of every port once."""
    return blocks.read_files(host, *_FILES)


def parse(output: Output) -> dict[str, Device]:
    """Return the devices by name, as ``infiniband`` does; raises Unreadable."""
    return parse_infiniband(output)
