"""What makers leave where an identifier should stand: it names no part, and many machines show the same."""

from __future__ import annotations

import re

# As they look without case, blanks and signs. Seen in SMBIOS tables of many makers, which boards' set-up tools filled
# in and nobody replaced; DMTF DSP0134 7.2.1 for UUIDs of all zeros and all ones. Inventories of many sites list them:
# osquery (kPlaceholderHardwareUUIDList in osquery/core/system.cpp) and GLPI (the invalid serials of src/Blacklist.php).
PLACEHOLDERS = frozenset(
    {
        # UUIDs: 03000200-0400-0500-0006-000700080009 of AMI's firmware, and the same with its bytes in the other order.
        "03000200040005000006000700080009",
        "00020003000400050006000700080009",
        # Bytes that count, in both orders, as osquery lists them, and numbers that count.
        "000102030405060708090a0b0c0d0e0f",
        "030201000504070608090a0b0c0d0e0f",
        "01234567891011121314151617181920",
        "10000000000080000040000000000000",
        "12345678123456789012345678901234",
        # The second as Insyde's firmware shows it, with its bytes in the other order.
        "123456781234567890abcddeefaabbcc",
        "785634123412785690abcddeefaabbcc",
        "deadbeefdeadbeefdeadbeefdeadbeef",
        "fefefefefefefefefefefefefefefefe",
        "notpresent",
        "notsettable",
        # Serial numbers.
        "tobefilledbyoem",
        "tobefilled",
        "tobesetbyoem",
        "filledbyoem",
        "fillbyoem",
        # As snd-soc drops it (dmi_blacklist in sound/soc/soc-core.c of Linux).
        "tbdbyoem",
        "type1tbdbyoem",
        "oem",
        "default",
        "defaultstring",
        "systemserialnumber",
        "baseboardserialnumber",
        "boardserialnumber",
        "chassisserialnumber",
        "motherboardserialnumber",
        # Of Insyde's firmware.
        "type2boardserialnumber",
        "type2boardassettag",
        "serialnumber",
        "serial",
        "na",
        "none",
        "null",
        "nullstring",
        "unknow",
        "unknown",
        "undefined",
        "unspecified",
        "empty",
        "invalid",
        "notavailable",
        "notapplicable",
        "notprovided",
        "notspecified",
        "notdefined",
        "notset",
        "noserialnumber",
        "noassettag",
        "assettag",
        "serialnumberxxxxxx",
        "eval",
        "iatpass",
        "tulipcomputers",
        "123456789000",
        "nodimm",
        "nomoduleinstalled",
        "badindex",
        "outofspec",
        "standard",
        # MAC addresses.
        "001122334455",
        "1234567890ab",
        "aabbccddeeff",
    }
)
# What follows what where somebody counted, in tens or sixteens, up or down.
_COUNTS = "01234567890", "9abcdef0"
_UP = frozenset(each[at : at + 2] for each in _COUNTS for at in range(len(each) - 1))
_DOWN = frozenset(pair[::-1] for pair in _UP)
# What stands before a number that was counted or never set: BSN12345678901234567 and MB-1234567890 on boards of ASUS,
# SYS-9876543210 and SN-12345 in GLPI's list, and 0x.
_BEFORE = re.compile(r"(?:bsn|mb|sn|sys)(?=[0-9]{4})|0x")
_SIGNS = re.compile(r"[^0-9a-z]")


def real(text: str | None) -> str | None:
    """Return an identifier in the form in which two are compared (lower case, no blanks or signs), None for none.

    >>> real("4C4C4544-0053-5210-8038-C8C04F583034")
    '4c4c4544005352108038c8c04f583034'
    >>> real("To be filled by O.E.M.")
    >>> real("SYS-9876543210")
    """
    bare = _SIGNS.sub("", (text or "").lower())
    return None if bare in PLACEHOLDERS or _made_up(bare) else bare


def _made_up(bare: str) -> bool:
    """Return whether somebody counted, or repeated one sign."""
    begin = _BEFORE.match(bare)
    digits = bare[begin.end() :] if begin else bare
    pairs = {digits[at : at + 2] for at in range(len(digits) - 1)}
    return len({*digits}) < 2 or pairs <= _UP or pairs <= _DOWN
