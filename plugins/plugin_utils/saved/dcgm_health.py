"""``dcgmi health -c``: what DCGM's watches have seen since somebody set them, as table or JSON.

It knows of nothing that happened before (``dcgmi health -s``), and of nothing that was not watched: it never passes a
GPU. Format: NVIDIA/DCGM, dcgmi/Health.cpp; results Healthy, Warning, Failure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_findings import fault, unread

NAME = "dcgmi health"
_CHECK = "dcgm_health"

_TABLE = re.compile(r"^\| (?:Health Monitor Report|Overall Health) +\|", re.MULTILINE)
_OVERALL = re.compile(r"^\| Overall Health +\| *(.*?) *\|", re.MULTILINE)
_ROW = re.compile(r"^\|([^|\n]*)\|([^|\n]*)\|", re.MULTILINE)
_JSON = re.compile(r'"Overall Health"\s*:')


def recognises(text: str) -> bool:
    """Return whether ``dcgmi health`` printed this."""
    return bool(_TABLE.search(text) or (text.lstrip()[:1] == "{" and _JSON.search(text)))


def findings(text: str, expect: Expectations | None) -> list[Finding]:
    """Return one finding for the host, with all that is said of its parts."""
    overall, said = _of_json(text) if text.lstrip()[:1] == "{" else _of_table(text)
    why = "; ".join(dict.fromkeys(said))[:600]
    if "failure" in overall.lower() or re.search(r"\bFailure\b", why):
        return [fault(_CHECK, "host", f"DCGM's watches report a failure: {why or overall}", overall, "Healthy")]
    if overall.lower() != "healthy":
        return [unread(_CHECK, "host", f"DCGM's watches say {overall or 'nothing of the whole'!r}: {why}")]
    return [unread(_CHECK, "host", "no fault seen; DCGM tells what it watches alone, since it watches")]


def _of_table(text: str) -> tuple[str, list[str]]:
    overall = _OVERALL.search(text)
    cells = [" ".join(f"{name.strip(' ->')} {value.strip()}".split()) for name, value in _ROW.findall(text)]
    skipped = ("Health Monitor Report", "Overall Health", "Errors")
    return (overall.group(1) if overall else ""), [cell for cell in cells if cell and not cell.startswith(skipped)]


def _of_json(text: str) -> tuple[str, list[str]]:
    try:
        body = json.loads(text)["body"]
        return str(body["Overall Health"]["value"]), list(_words(body, ""))
    except (ValueError, LookupError, TypeError, RecursionError):
        return "", ["the document cannot be read"]


def _words(node: Any, name: str) -> Iterator[str]:
    if not isinstance(node, dict):
        return
    if name and "value" in node:
        yield f"{name} {node['value']}"
    children = node.get("children") if name else node
    for child, value in (children or {}).items() if isinstance(children, dict) else ():
        if child != "Overall Health":
            yield from _words(value, child)
