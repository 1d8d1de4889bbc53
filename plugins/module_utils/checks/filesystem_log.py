"""Did a local file system or the disk below it err since boot?

Formats: the kernel's fs/ext4/{super,inode}.c, fs/jbd2/journal.c, fs/xfs, fs/btrfs, block/blk-core.c, drivers/md,
drivers/ata/libata, drivers/scsi.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.log_faults import HOST, faults_in, findings_of, rule
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "filesystem_log"
RULES = 3
PROBES: tuple[str, ...] = ("kernel_log",)

_WORDS = (
    *("EXT4-fs", "EXT3-fs", "XFS", "BTRFS", "error", "JBD2", "md/", "ata", "read-only", "Aborting journal"),
    *("Sense Key", "offline", "fault_state", "in FAULT state"),
)
_RULES = (
    rule(r"EXT[34]-fs(?: \((?P<device>[^)]+)\))?:? .*[Rr]emounting filesystem read-only", "{device} is read-only now",
         FAIL, "investigate"),
    rule(r"EXT[34]-fs error \(device (?P<device>[^)]+)\)", "file system error on {device}", FAIL, "investigate"),
    rule(r"EXT[34]-fs \((?P<device>[^)]+)\): .*(?:previous I/O error|Delayed block allocation failed"
         r"|potential data loss|Data will be lost|I/O error while writing)", "write error on {device}",
         FAIL, "investigate"),
    # What ext4 keeps on the disk of errors before this boot, and tells when it mounts and once a day.
    rule(r"EXT[34]-fs \((?P<device>[^)]+)\): .*(?:error count since last fsck|mounting fs with errors)",
         "file system on {device} has had errors and was not repaired", FAIL, "investigate"),
    rule(r"Aborting journal on device (?P<device>[^\s.]+)", "journal on {device} was given up", FAIL, "investigate"),
    rule(r"EXT[34]-fs warning \(device (?P<device>[^)]+)\)", "file system warning on {device}", PASS, "investigate"),
    rule(r"JBD2: .*(?:[Dd]etected IO errors|I/O error|Error -\d+ detected)", "journal could not be written",
         FAIL, "investigate"),
    rule(r"XFS \((?P<device>[^)]+)\): .*(?:[Cc]orruption|[Ss]hutting down|has been shut down|log I/O error"
         r"|metadata I/O error|Internal error|CRC error|writeback error|Failing async write|force_shutdown"
         r"|recovery failed)", "file system error on {device}", FAIL, "investigate"),
    rule(r"BTRFS:? (?:error|critical) \(device (?P<device>[^)]+?)(?:: state \w+)?\)", "file system error on {device}",
         FAIL, "investigate"),
    rule(r"BTRFS \w+ \(device (?P<device>[^)]+)\): (?:bdev .* errs: (?!wr 0, rd 0, flush 0, corrupt 0, gen 0)"
         r"|forced readonly)", "file system error on {device}", FAIL, "investigate"),
    rule(r"(?:(?:I/O|timeout|protection|recoverable transport|critical (?:medium|target)) error)"
         r", dev (?P<device>(?!nvme|loop|sr|fd)[\w-]+)", "I/O error on {device}", FAIL, "replace"),
    rule(r"Buffer I/O error on (?:dev(?:ice)? )?(?P<device>(?!nvme|loop|sr|fd|dev(?:ice)? )[\w-]+)",
         "I/O error on {device}", FAIL, "replace"),
    rule(r"\bsd \d[\d:]*: (?:\[sd\w+\] )?Device offlined", "a drive was taken out of use", FAIL, "replace"),
    # A virtual disc of the BMC's that was taken away says so too.
    rule(r"\bsd \d[\d:]*: (?:\[sd\w+\] )?rejecting I/O to offline device", "a drive is out of use",
         INCOMPLETE, "investigate"),
    rule(r"\b(?P<controller>mpt\dsas_cm\d+|megaraid_sas [\w:.]+|megasas): .*(?:fault_state\(|FW in FAULT state)",
         "{controller}: its firmware failed", FAIL, "investigate"),
    rule(r"\[(?P<device>sd\w+)\].* Sense Key : (?:Medium|Hardware) Error", "I/O error on {device}", FAIL, "replace"),
    rule(r"md/raid\d*:(?P<array>\w+): .*\bactive with (?P<there>\d+) out of (?!(?P=there)\b)(?P<all>\d+)",
         "{array} runs with {there} of {all} drives", FAIL, "replace"),
    rule(r"md/raid\d*:(?P<array>\w+): .*(?:too few disks|not enough operational|cannot start dirty degraded"
         r"|no operational|[Ff]ailed to run)", "{array} cannot run", FAIL, "replace"),
    rule(r"md/\w+:(?P<array>md\w+): Disk failure on (?P<device>[^,\s]+)", "{device} was dropped from {array}",
         FAIL, "replace"),
    rule(r"\b(?P<device>ata\d+(?:\.\d+)?): (?:failed command|.*SError|hard resetting link.*failed|disabled)",
         "command failed on {device}", FAIL, "replace"),
)  # fmt: skip


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return [HOST]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for the host."""
    return findings_of(NAME, faults_in(values["kernel_log"], _RULES, _WORDS), [HOST])
