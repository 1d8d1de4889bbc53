"""Errors that NVLinks have counted, as ``nvidia-smi nvlink -e`` tells them: since the driver was loaded.

Up to Hopper: ``Link 3: Replay Errors: 0``, ``Recovery Errors``, ``CRC Errors``. From Blackwell on a dozen others, such
as ``Malformed packet Errors`` and ``Link recovery failed events``; a healthy link has zero in all of them but in what
was sent and what was corrected (``FEC Errors - 0`` counts words without any error). Link speeds are not told, so that
no GPU passes. Format: drivers 450 to 595.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_findings import fault, unread
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.text_sections import sections

NAME = "nvidia-smi nvlink -e"
_CHECK = "nvlink_errors"

_GPU = re.compile(r"^GPU (\d{1,4}): .*$", re.MULTILINE)
_COUNTER = re.compile(
    r"^[ \t]+Link (\d{1,3}): ([A-Z][A-Za-z -]*?(?:[Ee]rrors?|events|discards)): *(\S.*)$", re.MULTILINE
)
_KNOWN = re.compile(r"^[ \t]+Link \d{1,3}: (?:Replay Errors|Malformed packet Errors|Effective Errors):", re.MULTILINE)
# What a link may not have once: a recovery that failed, and packets that came broken.
_FATAL = ("Link recovery failed events", "Malformed packet Errors")
# Of all others so many in sum: Imbue's health checks warn at 5 (the same as nvlink_errors of the classes).
_MOST = 4
_OF_TRAFFIC = ("Tx discards", "Link recovery successful events", "Total link recovery events")


def recognises(text: str) -> bool:
    """Return whether nvidia-smi printed this."""
    return bool(_KNOWN.search(text))


def findings(text: str, expect: Expectations | None) -> list[Finding]:
    """Return a finding for each GPU; a text without its heading is of one that is not named."""
    parts = [(f"gpu {mark[1]}", body) for mark, body in sections(_GPU, text)] or [("gpu", text)]
    return [_judged(subject, body) for subject, body in parts]


def _judged(subject: str, text: str) -> Finding:
    counts: dict[str, int] = {}
    unknown: list[str] = []
    for link, counter, value in _COUNTER.findall(text):
        name = f"link {link} {counter}"
        # A counter that is named twice is of two GPUs: neither hides the other.
        if re.fullmatch(r"\d{1,20}", value.strip()):
            counts[name] = max(counts.get(name, 0), int(value))
        else:
            unknown.append(name)
    bad = {name: count for name, count in counts.items() if count and name.endswith(_FATAL)}
    others = {name: count for name, count in counts.items() if count and not name.endswith((*_FATAL, *_OF_TRAFFIC))}
    if sum(others.values()) > _MOST:
        bad |= others
    if bad:
        return fault(_CHECK, subject, f"its NVLinks have erred: {_named(bad)}", sum(bad.values()), _MOST)
    if unknown:
        return unread(_CHECK, subject, f"could not be read: {', '.join(unknown[:5])}")
    if not counts:
        return unread(_CHECK, subject, "no counter of its NVLinks is told")
    seen = {name: count for name, count in counts.items() if count}
    why = f"errors within the limit: {_named(seen)}" if seen else "no fault seen"
    return unread(_CHECK, subject, f"{why}; nvidia-smi nvlink -s tells whether all links are up")


def _named(counts: Mapping[str, int]) -> str:
    more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""
    return ", ".join(f"{name} {count}" for name, count in list(counts.items())[:5]) + more
