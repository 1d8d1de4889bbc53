"""The RoCE ports of the rails: what role ``roce`` sets, read by the same code (``roce/port.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Callable

from ..host import blocks
from ..host.host import Host, Output, Unreadable, require_success
from ..host.rail_names import collect_names, parse_names
from ..nic.declared_nics import roce_ports
from ..roce.decide import BACKENDS, wanted
from ..roce.port import RAIL_NAMES, PortError, place_of
from ..roce.port import collect as collect_port
from ..roce.settings import PortSettings
from ..words.expectations import Expectations

NAME = "roce_port"
# Of dcb nobody has recorded an output on a NIC that has it.
PARTLY_UNVERIFIED = "dcb"


def collect(host: Host, expect: Expectations) -> Output:
    """Read every rail's port; nothing where the class' fabric is no RoCE."""
    return collect_settings(host, expect, lambda port: frozenset(wanted(port)))


def collect_settings(host: Host, expect: Expectations, names_of: Callable[[PortSettings], frozenset[str]]) -> Output:
    """Read where the rails' ports are, their GIDs in use, and each port's settings of the names it is asked for."""
    ports = roce_ports(expect).values()
    outputs = {RAIL_NAMES: collect_names(host)} if ports else {}
    for port in ports:
        # A port that is not there has no outputs; by the names the checks see that, too.
        with suppress(PortError):
            place = place_of(port, outputs)
            outputs.update(collect_port(host, place, BACKENDS[port.backend], names_of(port)))
    return blocks.listed(outputs)


def parse(output: Output) -> Mapping[str, Output]:
    """Return the outputs by command or path, which ``roce/port.py`` makes a port's state of; raises Unreadable."""
    require_success(output)
    if not blocks.is_listed(output.stdout):
        raise Unreadable(f"begins with {output.stdout[:60]!r}, expected a list of outputs")
    outputs = blocks.split(output.stdout)
    if outputs:
        # Without them no port could be told from one that is not there.
        parse_names(outputs.get(RAIL_NAMES, Output(rc=1, stderr=f"no {RAIL_NAMES} among the outputs")))
    return outputs
