"""``dcgmi nvlink -e -g GPU -j`` for each GPU: how many errors each NVLink has counted since the driver was loaded.

Format (NVIDIA/DCGM, dcgmi/Nvlink.cpp, and two recorded outputs cut down to two links): ``body`` has "Link N", whose
``children`` are the counters, each with a ``value`` as text; ``header`` names the GPU as dcgmi counts them. A counter
that could not be read is left out, with a line of warning before the document; DCGM's blank values begin at 2**63 - 16.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..formats.dcgm import addresses_of
from ..host import blocks
from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations, stated

NAME = "dcgmi_nvlink"
DISCOVERY = ("dcgmi", "discovery", "-l")
TIMEOUT_SECONDS = 30.0
COUNTERS = ("CRC Data Error", "CRC FLIT Error", "Recovery Error", "Replay Error")

_COMMAND = re.compile(r"dcgmi nvlink -e -g (\d{1,3}) -j")
_BLANK = 0x7FFFFFFFFFFFFFF0


@dataclass(frozen=True)
class LinkErrors:
    """Each link's counters by name, None where one could not be read; ``trouble`` says why there are none at all."""

    links: Mapping[int, Mapping[str, int | None]]
    trouble: str = ""


def collect(host: Host, expect: Expectations) -> Output:
    """Ask for every GPU of the class, as dcgmi counts them; for none where the class reads no such counters."""
    wanted = expect.gpu and expect.dcgm and expect.dcgm.nvlink_errors is not None
    gpus = range(stated(expect.gpu).count if wanted else 0)
    commands = [("dcgmi", "nvlink", "-e", "-g", str(gpu), "-j") for gpu in gpus]
    runs = (DISCOVERY, *commands) if commands else ()
    return blocks.joined({" ".join(argv): host.run(argv, TIMEOUT_SECONDS) for argv in runs})


def parse(output: Output) -> dict[str, LinkErrors]:
    """Return the errors of each GPU by its PCI address; raises Unreadable."""
    parts = blocks.split(output.stdout)
    listing = parts.pop(" ".join(DISCOVERY), None)
    if listing is None or listing.rc != 0:
        said = (listing.error or f"exit status {listing.rc}: {listing.stderr[:200]}") if listing else "not run"
        raise Unreadable(f"dcgmi discovery: {said}")
    addresses = addresses_of(listing.stdout)
    found = {}
    for command, part in parts.items():
        match = _COMMAND.fullmatch(command)
        if match and int(match.group(1)) in addresses:
            found[addresses[int(match.group(1))]] = _errors(int(match.group(1)), part)
    return found


def _errors(gpu: int, part: Output) -> LinkErrors:
    if part.rc != 0:
        return LinkErrors({}, part.error or f"exit status {part.rc}: {(part.stderr or part.stdout).strip()[:200]}")
    start = re.search(r"^\s*\{", part.stdout, re.MULTILINE)
    try:
        root, _ = json.JSONDecoder().raw_decode(part.stdout[start.start() :].lstrip() if start else "")
    except (ValueError, RecursionError) as exc:
        return LinkErrors({}, f"not JSON: {exc}")
    body, header = (root.get("body"), root.get("header")) if isinstance(root, dict) else (None, None)
    if not isinstance(body, dict) or not isinstance(header, list) or f"GPU {gpu}" not in header:
        return LinkErrors({}, f"no counters of GPU {gpu}: {str(header)[:100]}")
    links = {}
    for name, link in body.items():
        match = re.fullmatch(r"Link ([0-9]{1,3})", name)
        children = link.get("children") if isinstance(link, dict) else None
        if match and isinstance(children, dict):
            links[int(match.group(1))] = {counter: _count(children.get(counter)) for counter in COUNTERS}
    return LinkErrors(links)


def _count(entry: Any) -> int | None:
    value = entry.get("value") if isinstance(entry, dict) else None
    text = str(value) if not isinstance(value, bool) else ""
    count = int(text) if re.fullmatch(r"[0-9]{1,19}", text) else _BLANK
    return count if count < _BLANK else None
