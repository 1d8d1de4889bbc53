"""NCCL's versions, compared, and what needs which."""

from __future__ import annotations

import re

# The first that sends clear-to-send messages with a class of their own (NCCL_IB_FIFO_TC), as NCCL's release notes say.
FIFO_TC = "2.22.3"


def numbers_of(version: str) -> tuple[int, int, int] | None:
    """Return the three numbers of ``2.22.3``, ``2.22.3+cuda12.6`` or ``2.22.3-1+cuda12.6``; None for anything else."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)(?:[-+~].*)?$", version)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def older(version: str, least: str) -> bool:
    """Return whether a version is older than another; one that cannot be read is."""
    found, wanted = numbers_of(version), numbers_of(least)
    return found is None or wanted is None or found < wanted
