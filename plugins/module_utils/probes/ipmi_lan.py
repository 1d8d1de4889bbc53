"""``ipmitool lan print``: the BMC's own network address (lib/ipmi_lanp.c of ipmitool 1.8).

Without a channel the tool takes the first one that is a LAN.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..formats.bmc import NOT_DECLARED, bmc_declared
from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "ipmi_lan"
# No output of a real BMC is at hand.
FORMAT_UNVERIFIED = True
ARGV = ("ipmitool", "lan", "print")
TIMEOUT_SECONDS = 20.0

_MAC = re.compile(r"^MAC Address +: ([0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}) *\n", re.MULTILINE)


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once."""
    if not bmc_declared(expect, "ipmitool"):
        return NOT_DECLARED
    output = host.run(ARGV, TIMEOUT_SECONDS)
    # Another line holds the SNMP community, which is a password.
    kept = [line for line in output.stdout.splitlines(keepends=True) if line.startswith("MAC Address ")]
    return replace(output, stdout="".join(kept))


def parse(output: Output) -> str | None:
    """Return the MAC address in lower case, None where no BMC is declared behind ipmitool; raises Unreadable."""
    if output.stdout == NOT_DECLARED.stdout:
        return None
    require_success(output)
    match = _MAC.search(output.stdout)
    if not match:
        raise Unreadable("no line 'MAC Address : xx:xx:xx:xx:xx:xx'")
    return match.group(1).lower()
