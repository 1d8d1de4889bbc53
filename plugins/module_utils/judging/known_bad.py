"""Tests of tools that are known to fail on sound parts, by the versions of the tool that do so.

A failure that is known proves nothing of the part: whoever judges it takes it for not measured, never for a pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class KnownBad:
    """One test that these versions of a tool fail without cause, and where that is written.

    ``says`` is a pattern of what the test prints then: a failure that says something else is one. ``wrong`` goes on
    from the test's name, and ``fixed`` is the first version that does not do it.
    """

    tool: str
    versions: tuple[str, ...]
    test: str
    says: str
    wrong: str
    fixed: str
    source: str


KNOWN_BAD = (
    KnownBad(
        tool="dcgmi",
        # Reported of both on H100; 4.4.2 does not always do it.
        versions=("4.4.2", "4.5.0"),
        test="nvbandwidth",
        # "The memory copy utilization for the GPU: 2 is greater than 10%. This may affect the results of ..."
        says=r"memory copy util\w+ for the GPU: ?\d+ is greater than 10%",
        wrong="takes the load of the test before it for load by others",
        fixed="4.5.1",
        source="NVIDIA/DCGM issue 272, DCGM release notes 4.5.1",
    ),
)


def known_bad(tool: str, version: str | None, test: str, said: Iterable[str]) -> str:
    """Return why a failure of ``test`` proves nothing and what to do, "" if it is not known or ``said`` says more.

    A failure without a word is a known one too: a test that ends for one GPU fails on all, and says why of that one.
    Of a tool without a version nothing is known.
    """
    texts = [text for text in said if text]
    for known in KNOWN_BAD:
        same = (known.tool, known.test) == (tool, test) and version in known.versions
        if same and all(re.search(known.says, text) for text in texts):
            return (
                f"known of {tool} {version}: {test} {known.wrong} ({known.source}); "
                f"install {known.fixed} or another version of which this is not known"
            )
    return ""
