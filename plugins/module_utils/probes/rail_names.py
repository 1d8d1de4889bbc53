"""What the system calls each rail: RDMA devices and network interfaces of sysfs by PCI address."""

from __future__ import annotations

from ..host.host import Host, Output
from ..host.rail_names import Names, collect_names, parse_names
from ..words.expectations import Expectations

NAME = "rail_names"


def collect(host: Host, expect: Expectations) -> Output:
    """List the devices once."""
    return collect_names(host)


def parse(output: Output) -> Names:
    """Return the names by PCI address; raises Unreadable."""
    return parse_names(output)
