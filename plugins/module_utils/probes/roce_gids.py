"""The GID tables of the rails' RoCE ports alone: files of sysfs, which ask no firmware."""

from __future__ import annotations

from collections.abc import Mapping

from ..host import blocks
from ..host.host import Host, Output
from ..nic.declared_nics import roce_ports
from ..roce.decide import BACKENDS
from ..roce.port import collect as collect_port
from ..words.expectations import Expectations
from .roce_port import parse as parse_port

NAME = "roce_gids"


def collect(host: Host, expect: Expectations) -> Output:
    """Read where every rail's port lies, and its GIDs in use."""
    outputs: dict[str, Output] = {}
    for port in roce_ports(expect).values():
        outputs.update(collect_port(host, port, BACKENDS[port.backend], frozenset()))
    return blocks.listed(outputs)


def parse(output: Output) -> Mapping[str, Output]:
    """Return the files by path, as ``roce_port`` does; raises Unreadable."""
    return parse_port(output)
