"""perftest's reports as people save them: one or both ends, any columns and units, errors in their place.

Layouts and texts: linux-rdma/perftest src/perftest_parameters.h (headers) and src/perftest_resources.c (completions).
What the rails' own test prints is read by module_utils/rail_test/perftest.py, which knows what it asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_findings import UNHELD, fault, unread

NAME = "perftest"
_CHECK = "perftest"

_HEADER = re.compile(r"#bytes\s+#iterations\s+(?:BW peak|t_min|t_avg)\S*.*")
_TITLE = re.compile(r"\b(?:RDMA_(?:Write|Read)|Send|Atomic|Raw Ethernet)\b.* (?:BW|Latency)\b.* ?Test")
_BOTH_WAYS = re.compile(r"Bidirectional")
_ROW = re.compile(r"^\s*(\d+)\s+(\d+)((?:\s+(?:\d+(?:[.,]\d+)?(?:e[+-]?\d+)?|nan|-nan|inf|N/A))+)\s*$")
_UNIT = re.compile(r"BW average\s*\[(Gb|MB|MiB|GB)/sec\]")
# perftest's "MB" has 2**20 bytes (perftest_parameters.h: MBS).
_GBPS = {"Gb": 1.0, "MB": 8 * 2**20 / 1e9, "MiB": 8 * 2**20 / 1e9, "GB": 8.0}
# A loop inside a NIC is a little faster than its wire.
_BEYOND = 1.1
_ERROR = re.compile(
    r"^.*(?:Completion with error at (?:client|server)|Failed status \d+: wr_id|Couldn't connect to|"
    r"Unable to (?:Connect|init|open|find|create|write|read)\b|Failed to (?:modify|create|connect|exchange|post|"
    r"register|allocate|deal|complete|open|resolve)\b|Couldn't (?:allocate|get|post|create|read|request|connect)\b|"
    r"Did not detect devices|IB device \S+ not found|Port number \d+ state is (?!Active|ACTIVE)\w+|"
    r"link layer .* isn't|poll CQ failed|RDMA_CM_EVENT_(?:REJECTED|UNREACHABLE|ADDR_ERROR|ROUTE_ERROR|CONNECT_ERROR)"
    r"|Unexpected CM event|ethernet_read_keys|Data verification failed).*$",
    re.MULTILINE | re.IGNORECASE,
)
# What it says besides is not known; where it names a failure nobody knows what the figures are worth.
_COMPLAINT = re.compile(
    r"^.*\b(?:errors?|fail(?:s|ed|ure)?|mismatch|corrupt\w*|timed out|unable|couldn't|cannot|can't)\b.*$",
    re.MULTILINE | re.IGNORECASE,
)
# Errors that come before any title.
_ALONE = re.compile(
    r"^ ?(?:Completion with error at|Couldn't connect to \S+:\d+|Port number \d+ state is \w+$|IB device \S+ not found"
    r"|.*Unable to find the Infiniband/RoCE device)",
    re.MULTILINE,
)
_PAIRS = re.compile(r"Number of qps\s+: (\d+)")
_MTU = re.compile(r"Requested mtu is higher than active mtu.*", re.IGNORECASE)


@dataclass(frozen=True)
class _Figure:
    """The bandwidth in Gb/s, or the latency in microseconds, of one size."""

    size: int
    value: float
    unit: str


def recognises(text: str) -> bool:
    """Return whether perftest printed this."""
    return bool(_HEADER.search(text) or _TITLE.search(text) or _ALONE.search(text))


def findings(text: str, expect: Expectations | None) -> list[Finding]:
    """Return the errors that perftest names, and how fast the largest message went."""
    found = [fault(_CHECK, "rail", match.strip()[:160]) for match in dict.fromkeys(_ERROR.findall(text))]
    if (match := _MTU.search(text)) and expect and expect.nic and expect.nic.mtu_bytes:
        found.append(fault(_CHECK, "rail", match[0].strip()[:160], None, expect.nic.mtu_bytes))
    if not found and (complaint := _COMPLAINT.search(text)):
        found.append(unread(_CHECK, "rail", f"it says {complaint[0].strip()[:120]!r}"))
    told = [_of_report(part, expect) for part in _reports(text)]
    return [*found, *(told or [unread(_CHECK, "rail", "no row of figures")])]


def _reports(text: str) -> list[str]:
    """Return the reports that have rows: each test, and each end of it, has a title of its own."""
    begins = [0, *(match.start() for match in _TITLE.finditer(text))]
    parts = [text[begin:end] for begin, end in zip(begins, [*begins[1:], len(text)], strict=True)]
    return [part for part in parts if any(True for _ in _rows(part))]


def _of_report(text: str, expect: Expectations | None) -> Finding:
    figures, strange = list(_figures(text)), _strange(text)
    if strange or not figures:
        return unread(_CHECK, "rail", strange or "no row of figures")
    return _speed(text, figures, expect)


def _rows(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    header = ""
    for line in text.split("\n"):
        if match := _HEADER.search(line):
            header = match[0]
        elif header and (row := _ROW.match(line)):
            yield header, row


def _strange(text: str) -> str:
    """Return why figures cannot be told, empty if they can."""
    for header, row in _rows(text):
        words = row[3].split()
        if any(not re.fullmatch(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", word) for word in words):
            return f"figures {' '.join(words)}, expected numbers"
        if header.startswith("#bytes") and "BW average" in header and not _UNIT.search(header):
            return f"columns {header.strip()}, expected a unit of bandwidth that is known"
        if "BW average" in header and len(words) < 2:
            return "a row is cut short"
    return ""


def _figures(text: str) -> Iterator[_Figure]:
    for header, row in _rows(text):
        words = row[3].split()
        unit = _UNIT.search(header)
        try:
            if unit:
                # The peak stands before it, and is 0.00 where it was not measured.
                yield _Figure(int(row[1]), float(words[1]) * _GBPS[unit[1]], "Gb/s")
            elif "t_typical" in header:
                yield _Figure(int(row[1]), float(words[2]), "us")
            elif "t_avg" in header:
                yield _Figure(int(row[1]), float(words[0]), "us")
        except (ValueError, IndexError):
            return


def _speed(text: str, figures: list[_Figure], expect: Expectations | None) -> Finding:
    """Return the slowest report of the largest message against what the class wants of a rail."""
    largest = max(figure.size for figure in figures)
    unit = figures[-1].unit
    values = [figure.value for figure in figures if figure.size == largest and figure.unit == unit]
    value = round(min(values), 2)
    if value <= 0:
        return unread(_CHECK, "rail", f"{value:g} {unit} at {largest} bytes: nothing was moved")
    if unit != "Gb/s" or expect is None or expect.nic is None or expect.rdma is None:
        return Finding(_CHECK, "rail", "incomplete", value, None, unit, UNHELD)
    both = 2 if _BOTH_WAYS.search(text) else 1
    percent = expect.rdma.bandwidth_percent
    floor = round(float(expect.nic.speed_gbps) * float(percent) / 100 * both, 2)
    if value > float(expect.nic.speed_gbps) * both * _BEYOND:
        why = f"{value:g} Gb/s is more than a rail of {expect.nic.speed_gbps} Gb/s carries: it was not measured over it"
        return Finding(_CHECK, "rail", "incomplete", value, floor, unit, why)
    if value >= floor:
        return Finding(_CHECK, "rail", "pass", value, floor, unit)
    way = " both ways together" if both > 1 else ""
    reason = f"{value:g} Gb/s{way} at {largest} bytes is below {percent:g} % of a rail of {expect.nic.speed_gbps} Gb/s"
    pairs = _PAIRS.search(text)
    other = [f"messages of {largest} bytes"] if largest < expect.rdma.bandwidth_bytes else []
    other += [f"{pairs[1]} queue pairs"] if pairs and int(pairs[1]) < expect.rdma.queue_pairs else []
    # What a rail reaches however it is asked, looped back inside its host too.
    if other and (
        value >= floor * float(expect.rdma.loopback_percent) / float(percent) or largest < expect.rdma.bandwidth_bytes
    ):
        why = f"{reason}, with {' and '.join(other)}: measure it as the class does"
        return Finding(_CHECK, "rail", "incomplete", value, floor, unit, why)
    return Finding(_CHECK, "rail", "fail", value, floor, unit, reason, "investigate")
