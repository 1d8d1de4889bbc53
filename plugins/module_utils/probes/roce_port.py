"""The RoCE ports of the rails: what role ``roce`` sets, read by the same code (``roce/port.py``)."""

from __future__ import annotations

from collections.abc import Mapping

from ..host import blocks
from ..host.host import Host, Output, Unreadable, require_success
from ..nic.declared_nics import roce_ports
from ..roce.decide import BACKENDS, wanted
from ..roce.port import collect as collect_port
from ..words.expectations import Expectations

NAME = "roce_port"
# Of dcb nobody has recorded an output on a NIC that has it.
PARTLY_UNVERIFIED = "dcb"


def collect(host: Host, expect: Expectations) -> Output:
    """Read every rail's port; nothing where the class' fabric is no RoCE."""
    outputs: dict[str, Output] = {}
    for port in roce_ports(expect).values():
        outputs.update(collect_port(host, port, BACKENDS[port.backend], frozenset(wanted(port))))
    return blocks.listed(outputs)


def parse(output: Output) -> Mapping[str, Output]:
    """Return the outputs by command or path, which ``roce/port.py`` makes a port's state of; raises Unreadable."""
    require_success(output)
    if not blocks.is_listed(output.stdout):
        raise Unreadable(f"begins with {output.stdout[:60]!r}, expected a list of outputs")
    return blocks.split(output.stdout)
