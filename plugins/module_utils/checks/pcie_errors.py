"""Did a PCIe link err since boot (AER, DPC, firmware records), or train below what its ends can do?

Formats: the kernel's drivers/pci/pcie/{aer,dpc,err}.c and drivers/pci/pci.c; since 6.10 "Correctable" and
"Uncorrectable" stand for "Corrected" and "Uncorrected". Owed on the host; a device that errs has a finding of its own.
What a port's driver says at error level and is not among these is a remark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..judging.hardware_error import hardware_errors_in
from ..judging.log_faults import HOST, Fault, faults_in, findings_of, pci_part, remarks_in, rule
from ..probes.kernel_log import Message
from ..words.expectations import Expectations
from ..words.finding import FAIL, PASS, Finding

NAME = "pcie_errors"
RULES = 3
PROBES: tuple[str, ...] = ("kernel_log",)

_ADDRESS = r"(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_CORRECTED = "corrected PCIe error"
_LIMITED = "PCIe link limited to "
_WORDS = (
    *("PCIe", "AER", "DPC", "pciehp", "D3cold", "config space inaccessible", "BAR ", "retraining", "Link Active"),
    *("; giving up", "DMAR: ", "AMD-Vi: ", "aer_uncor", "header type 7f", "power state"),
)
_DRIVER = re.compile(r"(?:pcieport|pciehp|pcie_\w+)\b")
_RULES = (
    rule(_ADDRESS + r": .*\[io\b.*(?:no space|can't assign|failed to assign)", "no I/O ports (no device needs them)",
         PASS, "none"),
    rule(_ADDRESS + r": .*(?:no space for|can't assign|failed to assign) \[io\b", "no I/O ports (no device needs them)",
         PASS, "none"),
    # The kernel tries again with other windows, and does not say at the end which it could not give.
    rule(_ADDRESS + r": BAR [0-5]\b.*(?:failed to|can't) assign", "no room for a memory window at the first try",
         PASS, "investigate"),
    rule(_ADDRESS + r": not ready \d+ms after .*; giving up", "did not come back from a reset", FAIL, "reboot"),
    # The IOMMU's two drivers (drivers/iommu/intel/dmar.c, drivers/iommu/amd/iommu.c): whether device or driver asked
    # for what it must not, nobody can say.
    rule(r"DMAR: \[|AMD-Vi: Event logged", "IOMMU refused a device's access to memory", PASS, "investigate"),
    rule(r"AMD-Vi: Completion-Wait loop timed out", "IOMMU waits in vain for a device", PASS, "investigate"),
    rule(_ADDRESS + r": (?:broken device, retraining|Data Link Layer Link Active not set|retraining failed)",
         "link had to be trained again", PASS, "investigate"),
    rule(_ADDRESS + r": (?:AER: )?PCIe Bus Error: severity=Correct", _CORRECTED, PASS, "none"),
    rule(
        _ADDRESS + r": (?:AER: )?PCIe Bus Error: severity=Uncorrect\w+ \((?P<kind>[\w-]+)\), type=(?P<layer>[^,]+)",
        "uncorrected PCIe error ({kind}, {layer})", FAIL, "reseat",
    ),
    rule(_ADDRESS + r": (?:AER: )?PCIe Bus Error: severity=Uncorrect", "uncorrected PCIe error", FAIL, "reseat"),
    rule(
        r"AER: (?:Multiple )?Uncorrect\w+ \((?P<kind>[\w-]+)\) error (?:message )?received(?: from|:) " + _ADDRESS,
        "uncorrected PCIe error ({kind})", FAIL, "reseat",
    ),
    rule(_ADDRESS + r": AER: (?:Multiple )?Uncorrect", "uncorrected PCIe error below this port", FAIL, "reseat"),
    rule(_ADDRESS + r": DPC: (?:containment event|unmasked uncorrectable|RP PIO)", "link cut (DPC)", FAIL, "reseat"),
    # How an error that the firmware reported is told by the device (cper_print_aer in aer.c), uncorrected ones alone.
    rule(_ADDRESS + r": (?:AER: )?aer_uncor_severity: ", "uncorrected PCIe error", FAIL, "reseat"),
    rule(_ADDRESS + r": AER: .*(?:recovery failed|reset failed|can't recover|link has been reset \(-)", "not recovered",
         FAIL, "reboot"),
    # Before 4.19 the port service stands in the driver's place: "pciehp 0000:02:05.0:pcie24: slot(6): Link Down event".
    rule(_ADDRESS + r":(?: pciehp|pcie\d+): [Ss]lot\((?P<slot>[^)]*)\): Link Down", "link of slot {slot} went down",
         FAIL, "reseat"),
    rule(_ADDRESS + r":(?: pciehp|pcie\d+): [Ss]lot\((?P<slot>[^)]*)\): Card not present",
         "device of slot {slot} went away", FAIL, "reseat"),
    rule(
        # What a device that is gone reads as: all ones (drivers/pci/{pci,probe}.c).
        _ADDRESS + r": .*(?:config space inaccessible|device inaccessible|unknown header type 7f"
        r"|[Rr]efused to change power state(?:, currently in D3| \(currently D3| from D3\w* to D0))",
        "does not answer on the bus", FAIL, "reboot",
    ),
    rule(
        _ADDRESS + r": (?P<rate>[\d.]+ Gb/s) available PCIe bandwidth, limited by (?P<link>.+? link) at "
        r"(?P<where>\S+) \(capable of (?P<able>[\d.]+ Gb/s)",
        _LIMITED + "{rate} of {able} by {link} at {where}", FAIL, "investigate",
    ),
)  # fmt: skip


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return [HOST]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for the host and one for each device of which the log tells something."""
    messages = values["kernel_log"]
    part_of = partial(pci_part, expect=expect)
    faults = [_known_only(fault) for fault in faults_in(messages, _RULES, _WORDS, part_of)]
    faults += _from_firmware(messages, expect) + remarks_in(messages, _DRIVER, _RULES, part_of)
    return findings_of(NAME, _over_limit(faults, expect.kernel_log.pcie_corrected_errors), [HOST])


def _known_only(fault: Fault) -> Fault:
    """Return the fault; that a device which the class does not name sits on a slow link may be by design."""
    if fault.what.startswith(_LIMITED) and fault.part.startswith("pci "):
        return Fault(fault.part, fault.what, PASS, "investigate", fault.stamp)
    return fault


def _from_firmware(messages: Sequence[Message], expect: Expectations) -> list[Fault]:
    faults = []
    for record in hardware_errors_in(messages):
        if "pcie" not in record.fields.get("section", "").lower():
            continue
        address = record.fields.get("address")
        part = pci_part(address, expect) if address else HOST
        if record.corrected:
            faults.append(Fault(part, _CORRECTED, PASS, "none", record.stamp))
        else:
            faults.append(
                Fault(part, f"{record.severity} PCIe error reported by firmware", FAIL, "reseat", record.stamp)
            )
    return faults


def _over_limit(faults: Sequence[Fault], limit: float) -> list[Fault]:
    """Return the faults; too many corrected errors of one device are one more."""
    counts: dict[str, int] = {}
    for fault in faults:
        counts[fault.part] = counts.get(fault.part, 0) + (fault.what == _CORRECTED)
    over = [
        Fault(part, f"{count} corrected PCIe errors, class limit {limit:g}", FAIL, "reseat")
        for part, count in counts.items()
        if count > limit
    ]
    return [*over, *faults]
