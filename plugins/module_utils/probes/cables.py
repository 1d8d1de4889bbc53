"""``mlxlink -d ADDRESS -m --json`` (or ``mstlink``): which cable or module each rail has, and no more.

What preflight reads in place of ``mlxlink``: no counters and no histogram, and all rails at once, as each adapter
answers for itself and takes its time.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ..host import blocks
from ..host.host import Host, Output, Unreadable
from ..nic.declared_nics import rails_of
from ..words.expectations import Expectations, Rail
from . import mlxlink
from .mlxlink import Links

NAME = "cables"


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once for each rail."""
    try:
        tool = mlxlink.tool_for(host, expect)
    except Unreadable as exc:
        return Output(rc=None, error=str(exc))
    rails = rails_of(expect)

    def asked(rail: Rail) -> Output:
        return host.run((tool, "-d", rail.address, "-m", "--json"), mlxlink.TIMEOUT_SECONDS)

    with ThreadPoolExecutor(len(rails)) as pool:
        return blocks.joined({rail.name: output for rail, output in zip(rails, pool.map(asked, rails))})


def parse(output: Output) -> Links:
    """Return the links by rail, without their counters; raises Unreadable."""
    return mlxlink.parse(output)
