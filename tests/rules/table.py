"""The table of rules: which version of each came to which verdicts, and what is wrong with it now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from .judged import Said

FILE = Path(__file__).with_name("rules.yml")
# Of what lies in the checkout, and of what real machines printed, which not everybody has.
OWN, RECORDED = "own", "recorded"
WRITE = "PYTHONPATH=collections:. python -m tests.rules --write"

Table = Mapping[str, Mapping[str, Any]]


def known() -> dict[str, dict[str, Any]]:
    """Return the table: by rule its version, and digests of verdicts and of inputs."""
    return yaml.safe_load(FILE.read_text(encoding="utf-8")) or {} if FILE.exists() else {}


def place_of(rule: str) -> str:
    """Return where a rule's version stands."""
    if rule.startswith("load "):
        return f"RULES in plugins/module_utils/stress/{rule[5:]}.py"
    if rule in ("burn_in", "fabric", "storage", "acceptance"):
        return f"STAGE_RULES[{rule!r}] in plugins/module_utils/examination/rules.py"
    return f"RULES in plugins/module_utils/checks/{rule}.py"


def faults(table: Table, column: str, said: Mapping[str, Said], versions: Mapping[str, int]) -> list[str]:
    """Return what keeps a column of the table from being that of the present rules, rule by rule, and what to do."""
    found = []
    for rule in sorted({*said, *(name for name in table if column in table[name])}):
        if rule not in versions:
            found.append(f"{rule}: there is no such rule any more; {WRITE}")
            continue
        row, digests = table.get(rule, {}), said[rule].digests() if rule in said else None
        if row.get(column) == digests and row.get("version") == versions[rule]:
            continue
        if unversioned(row, column, digests, versions[rule]):
            why = f"comes to other verdicts on the same outputs, and is version {versions[rule]} as before"
            found.append(f"{rule}: {why}: raise {place_of(rule)}, then {WRITE}")
        else:
            found.append(f"{rule}: its version or its test outputs are new; {WRITE}")
    return found


def unversioned(row: Mapping[str, Any], column: str, digests: list[str] | None, version: int) -> bool:
    """Return whether a rule says something else of the same outputs without a new version."""
    before = row.get(column)
    if before is None or digests is None or row.get("version") != version:
        return False
    return bool(before[1] == digests[1] and before[0] != digests[0])


def written(table: Table, said: Mapping[str, Mapping[str, Said]], versions: Mapping[str, int]) -> str:
    """Return the table's text for what was said, by column; a column that nobody could ask stays as it is."""
    lines = ["---", "# Written by tests/rules: of each rule its version, and digests of what it says of which outputs."]
    for rule in sorted(versions):
        row: dict[str, Any] = {"version": versions[rule]}
        for column in (OWN, RECORDED):
            if column in said:
                digests = said[column][rule].digests() if rule in said[column] else None
            else:
                digests = table.get(rule, {}).get(column)
            row |= {column: digests} if digests else {}
        lines.append(f"{rule}: {yaml.safe_dump(row, default_flow_style=True, sort_keys=False, width=200).strip()}")
    return "\n".join(lines) + "\n"
