"""The program that this process runs: which bytes judged."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path


@functools.cache
def program_digest() -> str:
    """Return the SHA-256 of the archive that this process was started from, "" where it runs from a checkout.

    A process that lives for hours asks at its start: the file may be replaced meanwhile.
    """
    archive = getattr(__spec__.loader, "archive", None) if __spec__ else None
    return hashlib.sha256(Path(archive).read_bytes()).hexdigest() if archive else ""
