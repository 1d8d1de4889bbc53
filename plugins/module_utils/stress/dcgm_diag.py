"""``dcgmi diag -r LEVEL -j``: NVIDIA's own active tests, by GPU.

The levels last seconds (1), 2 to 10 minutes (2), 10 to 15 minutes (3) and 45 minutes to 2 hours (4). After a failure
the exit status is DCGM's error as a byte (226 for DCGM_ST_NVVS_ERROR, -30) and the report is whole all the same.
``dcgmi discovery -l`` is asked too, since dcgmi counts GPUs in an order of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..formats.dcgm import Report, addresses_of
from ..formats.dcgm_json import json_report
from ..formats.dcgm_table import table_report
from ..host import blocks
from ..host.host import Host, Output, Unreadable
from ..words.expectations import DiagLevel, Expectations

NAME = "dcgm_diag"
RULES = 1
# The diagnostic needs the GPUs to itself, and takes what others read from them for load.
EXCLUSIVE = True
DISCOVERY = ("dcgmi", "discovery", "-l")
DISCOVERY_SECONDS = 60.0
# What dcgmi may take to stop the diagnostic in the host engine once it is told to.
STOP_SECONDS = 60.0

_COMMAND = re.compile(r"dcgmi diag -r ([1-4]) -j")
# coreutils' timeout says so when it had to end its command.
_TIMED_OUT = (124, 137)


@dataclass(frozen=True)
class Settings:
    """What a step sets: the level of the diagnostic."""

    level: DiagLevel


SETTINGS = Settings


@dataclass(frozen=True)
class Diagnosis:
    """One run of the diagnostic.

    ``addresses`` has each GPU's PCI address by dcgmi's number, or is None where ``unmapped`` says why they are unknown.
    """

    level: int
    report: Report
    addresses: Mapping[int, str] | None
    unmapped: str
    exit_status: int


def collect(host: Host, expect: Expectations, seconds: float, settings: Settings) -> Output:
    """Run the diagnostic of ``settings.level`` for ``seconds`` at most."""
    command = ("dcgmi", "diag", "-r", str(settings.level), "-j")
    # Killing dcgmi would leave the diagnostic running in the host engine; on SIGTERM it stops it.
    limit = ("timeout", f"--kill-after={STOP_SECONDS:g}", f"{seconds:g}")
    return blocks.joined(
        {
            " ".join(DISCOVERY): host.run(DISCOVERY, DISCOVERY_SECONDS),
            " ".join(command): host.run((*limit, *command), seconds + STOP_SECONDS + 10),
        }
    )


def parse(output: Output) -> Diagnosis:
    """Return what the diagnostic found; raises Unreadable."""
    parts = blocks.split(output.stdout)
    command = next((name for name in parts if _COMMAND.fullmatch(name)), None)
    match = _COMMAND.fullmatch(command or "")
    if command is None or match is None:
        raise Unreadable("no output of 'dcgmi diag -r LEVEL -j'")
    run = parts[command]
    if run.rc is None:
        raise Unreadable(run.error)
    if run.rc in _TIMED_OUT:
        raise Unreadable("the diagnostic was stopped at its time limit")
    if not run.stdout.strip():
        raise Unreadable(f"exit status {run.rc} and no output: {run.stderr.strip()[:200] or 'no message'}")
    addresses, unmapped = _addresses(parts.get(" ".join(DISCOVERY)))
    # Warnings of dcgmi's own may stand before the document; older releases know no -j for some failures.
    document = re.search(r"^\s*\{", run.stdout, re.MULTILINE)
    if document:
        report = json_report(run.stdout[document.start() :])
    else:
        report = table_report(run.stdout, sorted(addresses) if addresses is not None else None)
    return Diagnosis(int(match.group(1)), report, addresses, unmapped, run.rc)


def _addresses(listing: Output | None) -> tuple[Mapping[int, str] | None, str]:
    if listing is None or listing.rc != 0:
        said = (listing.error or f"exit status {listing.rc}: {listing.stderr[:200]}") if listing else "not run"
        return None, f"dcgmi discovery: {said}"
    try:
        return addresses_of(listing.stdout), ""
    except Unreadable as exc:
        return None, str(exc)
