"""``mstconfig -d ADDRESS -e query`` (or MFT's ``mlxconfig``): firmware settings of each rail's NIC. Needs root."""

from __future__ import annotations

from ..host import blocks
from ..host.host import Host, Output, Unreadable, require_success
from ..nic.declared_nics import rails_of
from ..nic.firmware_settings import TIMEOUT_SECONDS, Setting, parse_settings
from ..nic.nic_tools import CONFIG, tool_of
from ..words.expectations import Expectations, stated

NAME = "nic_config"


def collect(host: Host, expect: Expectations) -> Output:
    """Ask every rail's NIC once, if the class declares settings."""
    rails = rails_of(expect)
    if not rails or stated(expect.nic).firmware_settings is None:
        return blocks.listed({})
    try:
        tool = tool_of(host, CONFIG)
    except Unreadable as exc:
        return Output(rc=None, error=str(exc))
    return blocks.listed(
        {rail.name: host.run([tool, "-d", rail.address, "-e", "query"], TIMEOUT_SECONDS) for rail in rails}
    )


def parse(output: Output) -> dict[str, dict[str, Setting] | str]:
    """Return the settings by rail (``rail0``), or why they could not be read; raises Unreadable."""
    require_success(output)
    if not output.stdout.startswith("==> "):
        raise Unreadable(f"found {output.stdout[:60]!r}, expected one report for each rail")
    return {rail: _settings(each) for rail, each in blocks.split(output.stdout).items()}


def _settings(output: Output) -> dict[str, Setting] | str:
    try:
        if output.rc is None:
            raise Unreadable(output.error or "could not be run")
        require_success(output)
        return parse_settings(output.stdout)
    except Unreadable as exc:
        return str(exc)
