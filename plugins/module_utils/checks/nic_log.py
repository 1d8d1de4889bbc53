"""What does the kernel log say of the NICs: narrow PCIe links, flapping ports, firmware that stopped answering?

Formats: the kernel's drivers/net/ethernet/mellanox/mlx5/core (health.c, cmd.c, events.c, pci_irq.c, en_main.c). That a
ConnectX-7 reports too little slot power (27 W) is known and harmless on its own. Owed on the host; a NIC of which the
log tells something has a finding of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ..judging.log_faults import HOST, Fault, faults_in, findings_of, nic_part, rule
from ..probes.kernel_log import Message
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nic_log"
RULES = 2
PROBES: tuple[str, ...] = ("kernel_log",)
# Which rail a line is about that names an interface or an RDMA device alone; without it the part is called so.
OPTIONAL_PROBES: tuple[str, ...] = ("rail_names",)

_DAY_SECONDS = 86400.0
_DEVICE = r"mlx5_core(?: (?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]))?(?: [^\s:]+)?: .*?"
_WORDS = ("mlx5", "NETDEV WATCHDOG")
_RULES = (
    rule(_DEVICE + r"(?P<rate>[\d.]+ Gb/s) available PCIe bandwidth, limited by (?P<link>.+? link)",
         "PCIe link limited to {rate} by {link}", FAIL, "reseat"),
    rule(_DEVICE + r"insufficient power on the PCIe slot", "slot reports little power (known, harmless)", PASS, "none"),
    rule(_DEVICE + r"Port module event\[error\]: module (?P<module>\d+), (?P<why>.+)",
         "module {module}: {why}", FAIL, "reseat"),
    rule(_DEVICE + r"High Temperature", "module too hot", FAIL, "reseat"),
    rule(_DEVICE + r"(?:Fatal error|device's health compromised|health_try_recover|health recovery flow aborted)",
         "firmware or device failed", FAIL, "reboot"),
    rule(_DEVICE + r"(?:PCI slot \d+ is unavailable|PCI channel offline|pci_err_detected|error_sw_reset)",
         "lost its PCIe link", FAIL, "reboot"),
    rule(_DEVICE + r"(?:\(0x[0-9a-f]+\) timeout|[Cc]ommand .*time(?:d )?out|wait_func.*timeout)",
         "firmware does not answer a command", FAIL, "reboot"),
    rule(_DEVICE + r"TX timeout", "transmission stalled", FAIL, "investigate"),
    rule(r"NETDEV WATCHDOG: (?P<port>\S+) \((?P<driver>[^)]+)\):? transmit queue",
         "transmission of {port} stalled", FAIL, "investigate"),
    rule(_DEVICE + r"(?P<command>[A-Z_]+)\(0x[0-9a-f]+\) op_mod\(0x[0-9a-f]+\) failed",
         "firmware command {command} failed", INCOMPLETE, "investigate"),
)  # fmt: skip
_DOWN = re.compile(
    r"(?:mlx5_core (?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F:]+\.[0-7]) )?(?P<port>[^\s:()]+): "
    r"(?:(?:NIC )?Link (?:is )?[Dd]own|Lost carrier)",
    re.ASCII,
)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return [HOST]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for the host and one for each NIC of which the log tells something."""
    messages = values["kernel_log"]
    part_of = partial(nic_part, expect=expect, names=values.get("rail_names"))
    faults = faults_in(messages, _RULES, _WORDS, part_of)
    return findings_of(NAME, faults + _flaps(messages, part_of, expect.kernel_log.link_flaps_per_day), [HOST])


def _flaps(messages: Sequence[Message], part_of: Callable[[str], str], limit: float) -> list[Fault]:
    """Return the ports whose link went down too often within any 24 hours."""
    downs: dict[str, list[float | None]] = {}
    for message in messages:
        match = _DOWN.search(message.text) if "own" in message.text or "carrier" in message.text else None
        if match:
            downs.setdefault(part_of(match.group("address") or match.group("port")), []).append(message.seconds)
    faults = []
    for part, times in downs.items():
        most = _most_within_a_day(times)
        what = f"link went down {most} times within 24 h, class limit {limit:g}"
        faults.append(Fault(part, what, *((FAIL, "reseat") if most >= limit else (PASS, "none"))))
    return faults


def _most_within_a_day(times: Sequence[float | None]) -> int:
    known = sorted(time for time in times if time is not None)
    most = max((sum(0 <= other - first < _DAY_SECONDS for other in known) for first in known), default=0)
    # A line without a time may lie in any day.
    return most + len(times) - len(known)
