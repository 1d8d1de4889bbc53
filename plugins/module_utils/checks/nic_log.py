"""What does the kernel log say of the NICs: narrow PCIe links, flapping ports, firmware that stopped answering?

Formats: the kernel's drivers/net/ethernet/mellanox/mlx5/core (health.c, main.c, cmd.c, events.c, en_main.c),
drivers/infiniband/hw/mlx5/main.c (``mlx5_5: Port: 1 Link DOWN``), drivers/net/bonding/bond_main.c, net/core/dev.c
(``hw csum failure``), drivers/net/ethernet/intel (``Detected Tx Unit Hang``); in a syslog file, carriers as
systemd-networkd tells them. That a ConnectX-7 reports too little slot power (27 W) is known and harmless on its own.
Owed on the host; a NIC of which the log tells something has a finding of its own. A line at error level that is not
among these is a remark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ..judging.log_faults import HOST, Fault, faults_in, findings_of, nic_part, remarks_in, rule
from ..probes.kernel_log import Message
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nic_log"
RULES = 4
PROBES: tuple[str, ...] = ("kernel_log",)
# Which rail a line is about that names an interface or an RDMA device alone; without it the part is called so.
OPTIONAL_PROBES: tuple[str, ...] = ("rail_names",)

_DAY_SECONDS = 86400.0
_DEVICE = r"mlx5_core(?: (?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]))?(?: [^\s:]+)?: .*?"
_WORDS = ("mlx5", "NETDEV WATCHDOG", "hw csum failure", "Unit Hang", " failed with error")
_DRIVER = re.compile(
    r"(?:mlx[45]\w*|infiniband|ib_\w+|ib\d+|rdma\w*|bnxt_\w+|bnx2x|ice|i40e|ixgbe|igb|igc|e1000e|irdma|tg3|be2net"
    r"|qede|ionic\w*|cxi_\w+|efa|ena)\b"
)
# Drivers of Ethernet and RDMA devices, as drivers/base/dd.c names them where their start fails.
_NETWORK = r"\b(?:mlx\d_[\w.]+|bnxt_en|bnx2x|ice|i40e|ixgbe|igb|igc|e1000e|tg3|be2net|qede|ionic|efa|ena)"
# health.c's dump of the health buffer: what it found wrong, then registers and versions.
_DUMPED = (
    r"print_health_info:.*: (?:assert_|fw_ver|raw fw_ver|time |hw_id|rfr 0|severity |irisc_index|ext_synd|synd 0x0\b)"
)
_RULES = (
    rule(_DEVICE + r"(?P<rate>[\d.]+ Gb/s) available PCIe bandwidth, limited by (?P<link>.+? link)",
         "PCIe link limited to {rate} by {link}", FAIL, "reseat"),
    rule(_DEVICE + r"insufficient power on the PCIe slot", "slot reports little power (known, harmless)", PASS, "none"),
    rule(_DEVICE + r"Port module event\[error\]: module (?P<module>\d+), (?P<why>.+)",
         "module {module}: {why}", FAIL, "reseat"),
    rule(_DEVICE + r"Health issue observed, (?P<why>.+?), severity\([0-3]\)", "firmware reports: {why}",
         FAIL, "reboot"),
    rule(_DEVICE + r"Health issue observed, (?P<why>.+?), severity\((?P<level>\d+)\)",
         "firmware reports: {why} (its severity {level})", PASS, "investigate"),
    rule(_DEVICE + r"Health issue observed", "firmware reports a fault", FAIL, "reboot"),
    rule(_DEVICE + _DUMPED, "registers of a health report", PASS, "none"),
    rule(_DEVICE + r"rfr [1-9]", "firmware asks for a reset", FAIL, "reboot"),
    rule(_DEVICE + r"synd 0x[0-9a-f]+: (?P<why>.+)", "firmware reports: {why}", FAIL, "reboot"),
    rule(_DEVICE + r"[Hh]igh [Tt]emp(?:e)?rature", "chip or module too hot", FAIL, "reseat"),
    rule(_NETWORK + r": probe of (?P<port>\S+) failed with error", "driver could not start it", FAIL, "reboot"),
    rule(_NETWORK + r" (?P<address>\S+): probe with driver \S+ failed with error", "driver could not start it",
         FAIL, "reboot"),
    rule(_DEVICE + r"(?:(?:mlx5_(?:load|init|attach|function)\w*|init_one|probe_one|set_hca_ctrl|\w*hca_cap\w*"
         r"|(?:enable|init|query) hca|mlx5_cmd_init)\b.* failed"
         r"|(?:[Ff]ailed|Cannot|[Ee]rror) .*aborting|initializing state, aborting"
         r"|firmware version: 65535\.65535\.65535)", "driver could not start it", FAIL, "reboot"),
    rule(_DEVICE + r"(?:handling bad device|FW fatal|fatal reported|NIC IFC still|NIC SW is already"
         r"|crdump: [Ff]ailed|Couldn't recover|Failed to recover|reset (?:flow )?(?:failed|aborted))",
         "firmware or device failed", FAIL, "reboot"),
    rule(r"(?P<port>[^\s:()]+): hw csum failure", "NIC and kernel disagree on a checksum", PASS, "investigate"),
    rule(r"hw csum failure", "NIC and kernel disagree on a checksum", PASS, "investigate"),
    rule(r"(?P<port>[^\s:()]+)(?: \([^)]*\))?: (?:NETDEV WATCHDOG: .*transmit queue"
         r"|Detected (?:Hardware|Tx) Unit Hang)", "transmission stalled", FAIL, "investigate"),
    rule(_DEVICE + r"(?:Fatal error|device's health compromised|health_try_recover|health recovery flow aborted)",
         "firmware or device failed", FAIL, "reboot"),
    rule(_DEVICE + r"(?:PCI slot (?:\d+ )?is unavailable|PCI channel offline|pci_err_detected|error_sw_reset)",
         "lost its PCIe link", FAIL, "reboot"),
    rule(_DEVICE + r"(?:\(0x[0-9a-f]+\) timeout|[Cc]ommand .*time(?:d )?out|wait_func.*timeout)",
         "firmware does not answer a command", FAIL, "reboot"),
    rule(_DEVICE + r"TX timeout", "transmission stalled", FAIL, "investigate"),
    rule(r"NETDEV WATCHDOG: (?P<port>\S+) \((?P<driver>[^)]+)\):? transmit queue",
         "transmission of {port} stalled", FAIL, "investigate"),
    # devlink's reporters of fatal errors are named when they cannot be set up: no error of the device.
    rule(_DEVICE + r"(?!.*reporter, err)(?:(?<![Nn]on-)\b[Ff]atal\b|\b[Cc]atastrophic\b)", "firmware or device failed",
         FAIL, "reboot"),
    rule(_DEVICE + r"Recovered \d+ eqes on EQ", "an interrupt was lost", PASS, "investigate"),
    rule(_DEVICE + r"(?P<command>[A-Z0-9_]+)\(0x[0-9a-f]+\) op_mod\(0x[0-9a-f]+\) failed",
         "firmware command {command} failed", INCOMPLETE, "investigate"),
)  # fmt: skip
_REPORT = re.compile(r"mlx5_core ([0-9a-fA-F:.]+).*: (Health issue observed|synd 0x)", re.ASCII)
# What a container or a virtual machine brings up and down as it likes is no NIC.
_VIRTUAL = r"(?!(?:lo|veth|docker|br-|virbr|cali|cni|flannel|vxlan|tap|tun|lxc|vnet|dummy|bond)[^\s:]*:)"
_CHANGE = re.compile(
    r"(?:mlx5_core (?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F:]+\.[0-7]) )?(?<!\S)" + _VIRTUAL + r"(?P<port>[^\s:()]+): "
    r"(?P<what>(?:NIC )?Link (?:is )?(?=down|up)|Port: \d+ Link (?=DOWN|ACTIVE)|(?=lost|gained) ?)"
    r"(?P<to>down|up|active|lost carrier|gained carrier)",
    re.ASCII | re.IGNORECASE,
)
# drivers/net/bonding/bond_main.c.
_BOND = re.compile(
    r"(?<!\S)(?P<bond>[\w.-]+?)(?: \(unregistering\))?: (?:\(slave \S+\): )?(?:(?P<without>now running without any "
    r"active)|(?:first )?active interface up|making interface |(?:link status definitely up|Releasing|Released)\b)"
)
# The driver, its RDMA side and the network's service each tell of one change, within this time.
_ONE_CHANGE_SECONDS = 1.0
# Our own: a link that goes down this often within a minute and stays down did not lose its cable once.
_FLAPS_AT_THE_END, _MINUTE_SECONDS = 3, 60.0


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return [HOST]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for the host and one for each NIC of which the log tells something."""
    messages = values["kernel_log"]
    part_of = partial(nic_part, expect=expect, names=values.get("rail_names"))
    faults = faults_in(_reported_once(messages), _RULES, _WORDS, part_of)
    faults += remarks_in(messages, _DRIVER, _RULES, part_of)
    flaps = _flaps(messages, part_of, expect.kernel_log.link_flaps_per_day)
    return findings_of(NAME, [*faults, *flaps, *_bonds(messages)], [HOST])


def _reported_once(messages: Sequence[Message]) -> list[Message]:
    """Return the messages; what a health report said first, with its severity, it does not say again at its end."""
    told: set[str] = set()
    kept = []
    for message in messages:
        if "mlx5" in message.text and (match := _REPORT.search(message.text)):
            device, what = match.groups()
            if what.startswith("Health"):
                told.add(device)
            elif device in told:
                continue
        kept.append(message)
    return kept


def _flaps(messages: Sequence[Message], part_of: Callable[[str], str], limit: float) -> list[Fault]:
    """Return the ports whose link went down too often within any 24 hours, or that flap at the end of the log."""
    downs: dict[str, list[float | None]] = {}
    latest: dict[str, tuple[str, float | None]] = {}
    is_up: dict[str, bool] = {}
    for message in messages:
        text = message.text
        match = _CHANGE.search(text) if "ink" in text or "arrier" in text else None
        if not match:
            continue
        part = part_of(match["address"] or match["port"])
        is_up[part] = match["to"].lower() in ("up", "active", "gained carrier")
        if is_up[part]:
            continue
        source, now = f"{match['port']} {match['what'].lower()}", message.seconds
        other, before = latest.get(part, (source, None))
        latest[part] = (source, now)
        if other == source or (now is not None and before is not None and abs(now - before) >= _ONE_CHANGE_SECONDS):
            downs.setdefault(part, []).append(now)
    faults = []
    for part, times in downs.items():
        most, quick = _most_within(times, _DAY_SECONDS), _most_within(times[-_FLAPS_AT_THE_END:], _MINUTE_SECONDS)
        what = f"link went down {most} times within 24 h, class limit {limit:g}"
        faults.append(Fault(part, what, *((FAIL, "reseat") if most >= limit else (PASS, "none"))))
        if most < limit and quick >= _FLAPS_AT_THE_END and not is_up[part]:
            faults.append(Fault(part, f"link went down {quick} times within a minute and stayed down", FAIL, "reseat"))
    return faults


def _bonds(messages: Sequence[Message]) -> list[Fault]:
    """Return the bonds that had no working link for a time, or have none where the log ends."""
    since: dict[str, str] = {}
    faults = []
    for message in messages:
        text = message.text
        match = _BOND.search(text) if "active" in text or "slave" in text else None
        if match and match["without"]:
            since.setdefault(match["bond"], message.stamp)
        elif match and match["bond"] in since:
            what = f"{match['bond']} had no working link for a time"
            faults.append(Fault(HOST, what, PASS, "investigate", since.pop(match["bond"])))
    what = "has no working link where the log ends"
    return faults + [Fault(HOST, f"{bond} {what}", INCOMPLETE, "investigate", at) for bond, at in since.items()]


def _most_within(times: Sequence[float | None], seconds: float) -> int:
    known = sorted(time for time in times if time is not None)
    most = max((sum(0 <= other - first < seconds for other in known) for first in known), default=0)
    # A line without a time may lie within any time.
    return most + len(times) - len(known)
