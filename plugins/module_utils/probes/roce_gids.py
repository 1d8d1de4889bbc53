"""The GID tables of the rails' RoCE ports alone: files of sysfs, which ask no firmware."""

from __future__ import annotations

from collections.abc import Mapping

from ..host.host import Host, Output
from ..words.expectations import Expectations
from . import roce_port

NAME = "roce_gids"


def collect(host: Host, expect: Expectations) -> Output:
    """Read where every rail's port is, and its GIDs in use."""
    return roce_port.collect_settings(host, expect, lambda port: frozenset())


def parse(output: Output) -> Mapping[str, Output]:
    """Return the files by path, as ``roce_port`` does; raises Unreadable."""
    return roce_port.parse(output)
