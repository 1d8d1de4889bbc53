"""Tests of tools whose answer proves nothing, by the versions of the tool: they fail sound parts, or pass any part.

Whoever judges such an answer takes it for not measured: a known failure is no pass, a known pass is none either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class KnownBad:
    """One test that these versions of a tool fail or pass without cause, and where that is written.

    ``says`` is a pattern of what the test prints then: a failure that says something else is one. Where it is "", the
    test passes without having tested, whatever it prints. ``wrong`` goes on from the test's name, and ``fixed`` is the
    first version that does not do it.
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
    KnownBad(
        tool="dcgmi",
        versions=("3.1.3",),
        test="pcie",
        # DCGM_FR_NVLINK_DOWN_MSG in dcgm_errors.h; whether links are down that the class has is for gpu_nvlink to say.
        says=r"NvLink link \d+ is currently down",
        wrong="takes NVLinks that the GPU does not use for links that are down",
        fixed="3.1.6",
        source="DCGM release notes 3.1.6",
    ),
    KnownBad(
        tool="nvbandwidth",
        versions=("0.1", "0.2", "0.3"),
        test="data",
        says="",
        wrong="are not compared after a copy",
        fixed="0.4",
        source="NVIDIA/nvbandwidth pull request 7",
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
        if same and known.says and all(re.search(known.says, text) for text in texts):
            return (
                f"known of {tool} {version}: {test} {known.wrong} ({known.source}); "
                f"install {known.fixed} or another version of which this is not known"
            )
    return ""


def known_pass(tool: str, version: str | None, test: str) -> str:
    """Return why a pass of ``test`` proves nothing and what to do, "" if nothing is known against it."""
    for known in KNOWN_BAD:
        if (known.tool, known.test, known.says) == (tool, test, "") and version in known.versions:
            return f"known of {tool} {version}: {test} {known.wrong} ({known.source}); install {known.fixed} or later"
    return ""
