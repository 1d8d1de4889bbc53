"""The demo's verdicts as far as they are the same in each run: what a node owes, what failed, what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .written import Case, differences, known, lines

CASE = "verdicts"


def case_of(verdicts: Sequence[Mapping[str, Any]]) -> Case:
    """Return the case of a parsed ``verdicts.json``.

    Kept are each node's state and stage, the checks and parts of its findings, and what failed. What became of the rest
    of a rejected node's findings depends on how far a load or a round had come; which check of a stage that measures
    saw the fault first, on the network of the moment.
    """
    content = {entry["node"]: _about(entry) for entry in verdicts}
    told = [f"{node} {about['state']} in {about['stage'] or 'none'}" for node, about in sorted(content.items())]
    return Case(CASE, content, "; ".join(told))


def _about(entry: Mapping[str, Any]) -> dict[str, Any]:
    found = entry["findings"]
    examined = entry["stage"] == "burn_in"
    keys = ("check", "subject", "action") if examined else ("subject",)
    return {
        "state": entry["state"],
        "stage": entry["stage"],
        "owed": sorted({(each["check"], each["subject"]) for each in found}),
        "failed": sorted({tuple(each[key] for key in keys) for each in found if each["verdict"] == "fail"}),
        "passed": entry["state"] == "admitted" and all(each["verdict"] == "pass" for each in found),
    }


def changes(verdicts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return in what the demo ended otherwise than it is written down."""
    return differences("demo", known("demo"), lines([case_of(verdicts)]))
