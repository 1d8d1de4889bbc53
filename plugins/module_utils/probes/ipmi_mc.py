"""``ipmitool mc info``: the BMC's firmware revision (lib/ipmi_mc.c of ipmitool 1.8)."""

from __future__ import annotations

import re

from ..formats.bmc import NOT_DECLARED, bmc_declared
from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "ipmi_mc"
# No output of a real BMC is at hand.
FORMAT_UNVERIFIED = True
ARGV = ("ipmitool", "mc", "info")
TIMEOUT_SECONDS = 20.0


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS) if bmc_declared(expect, "ipmitool") else NOT_DECLARED


def parse(output: Output) -> str | None:
    """Return the revision as printed (``1.28``), None where no BMC is declared behind ipmitool; raises Unreadable."""
    if output.stdout == NOT_DECLARED.stdout:
        return None
    require_success(output)
    found = re.findall(r"^Firmware Revision +: (\S+) *\n", output.stdout, re.MULTILINE)
    if len(found) != 1:
        raise Unreadable(f"{len(found)} lines 'Firmware Revision : N', expected one")
    return str(found[0])
