"""``mstconfig -d ADDRESS -e query`` (or MFT's ``mlxconfig``): firmware settings of each rail's NIC. Needs root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import blocks
from ..examine import Unreadable, require_success
from ..host import Host, Output
from ..nic import rails_of
from ..nic_config import TIMEOUT_SECONDS, Setting, parse_settings, tool_of

NAME = "nic_config"


def collect(host: Host, expect: Mapping[str, Any]) -> Output:
    """Ask every rail's NIC once, if the class declares settings; a rail without a PCI address cannot be asked."""
    asked = [rail for rail in rails_of(expect) if rail["address"]]
    if not asked or expect["nic"]["firmware_settings"] is None:
        return blocks.listed({})
    tool = tool_of(host)
    argv = {rail["device"]: [tool, "-d", rail["address"], "-e", "query"] for rail in asked}
    return blocks.listed({device: host.run(words, TIMEOUT_SECONDS) for device, words in argv.items()})


def parse(output: Output) -> dict[str, dict[str, Setting] | str]:
    """Return each device's settings, or why they could not be read; raises Unreadable for an output without devices."""
    require_success(output)
    if not output.stdout.startswith("==> "):
        raise Unreadable(f"found {output.stdout[:60]!r}, expected one report for each device")
    return {device: _settings(each) for device, each in blocks.split(output.stdout).items()}


def _settings(output: Output) -> dict[str, Setting] | str:
    try:
        if output.rc is None:
            raise Unreadable(output.error or "could not be run")
        require_success(output)
        return parse_settings(output.stdout)
    except Unreadable as exc:
        return str(exc)
