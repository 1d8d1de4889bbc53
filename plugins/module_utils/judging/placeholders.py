"""What makers leave where an identifier should stand: it names no part, and many machines show the same."""

from __future__ import annotations

import re

# As they look without case, blanks and signs. Seen in SMBIOS tables of many makers, which boards' set-up tools filled
# in and nobody replaced; DMTF DSP0134 7.2.1 for UUIDs of all zeros and all ones.
PLACEHOLDERS = frozenset(
    {
        # UUIDs: 03000200-0400-0500-0006-000700080009 of AMI's firmware, and the same with its bytes in the other order.
        "03000200040005000006000700080009",
        "00020003000400050006000700080009",
        "000102030405060708090a0b0c0d0e0f",
        "12345678123456789012345678901234",
        "123456781234567890abcddeefaabbcc",
        "deadbeefdeadbeefdeadbeefdeadbeef",
        "fefefefefefefefefefefefefefefefe",
        "notpresent",
        "notsettable",
        # Serial numbers.
        "tobefilledbyoem",
        "oem",
        "default",
        "defaultstring",
        "systemserialnumber",
        "baseboardserialnumber",
        "boardserialnumber",
        "chassisserialnumber",
        "motherboardserialnumber",
        "serialnumber",
        "serial",
        "na",
        "none",
        "null",
        "unknown",
        "undefined",
        "unspecified",
        "empty",
        "invalid",
        "notavailable",
        "notapplicable",
        "notprovided",
        "notspecified",
        "nodimm",
        "nomoduleinstalled",
        "badindex",
        "outofspec",
        "standard",
        # MAC addresses.
        "001122334455",
        "1234567890ab",
        "123456789abc",
        "aabbccddeeff",
    }
)
_COUNTED = ("0123456789" * 4, "0123456789abcdef" * 2)
_SIGNS = re.compile(r"[^0-9a-z]")


def real(text: str | None) -> str | None:
    """Return an identifier in the form in which two are compared (lower case, no blanks or signs), None for none.

    >>> real("4C4C4544-0053-5210-8038-C8C04F583034")
    '4c4c4544005352108038c8c04f583034'
    >>> real("To be filled by O.E.M.")
    """
    bare = _SIGNS.sub("", (text or "").lower())
    made_up = bare in PLACEHOLDERS or len(set(bare)) < 2 or any(bare in each for each in _COUNTED)
    return None if made_up else bare
