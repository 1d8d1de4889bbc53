"""The table of rules: which version of each came to which verdicts, case by case, and what is wrong with it now."""

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
ABOUT = "Written by tests/rules: of each rule its version, and by digests of what it was asked that of what it said."

Table = Mapping[str, Mapping[str, Any]]


def known() -> dict[str, dict[str, Any]]:
    """Return the table: by rule its version, and by digests of inputs those of the verdicts on them."""
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
        row, now = table.get(rule, {}), said.get(rule, Said())
        if row.get(column, {}) == now.cases and row.get("version") == versions[rule]:
            continue
        if changed := unversioned(row, column, now, versions[rule]):
            what = f"{len(changed)} of {len(now.cases)} outputs, as of {changed[0]!r}"
            why = f"comes to other verdicts on {what}, and is version {versions[rule]} as before"
            found.append(f"{rule}: {why}: raise {place_of(rule)}, then {WRITE}")
        else:
            found.append(f"{rule}: its version or its test outputs are new; {WRITE}")
    return found


def unversioned(row: Mapping[str, Any], column: str, now: Said, version: int) -> list[str]:
    """Return the names of the cases of which a rule says something else without a new version.

    What came or went beside them changes nothing: each case that was there before and is there now is compared.
    """
    if row.get("version") != version:
        return []
    before = row.get(column, {})
    return [name for asked, name in now.names.items() if before.get(asked, now.cases[asked]) != now.cases[asked]]


def written(table: Table, said: Mapping[str, Mapping[str, Said]], versions: Mapping[str, int]) -> str:
    """Return the table's text for what was said, by column; a column that nobody could ask stays as it is."""
    rows: dict[str, dict[str, Any]] = {}
    for rule in sorted(versions):
        rows[rule] = {"version": versions[rule]}
        for column in (OWN, RECORDED):
            if column in said:
                cases = said[column][rule].cases if rule in said[column] else {}
            else:
                cases = table.get(rule, {}).get(column, {})
            rows[rule] |= {column: dict(sorted(cases.items()))} if cases else {}
    # PyYAML puts the lines of one mapping below its rule, yamllint wants them below its bracket.
    head = f"---\n# {ABOUT}\n# yamllint disable rule:indentation\n"
    return head + yaml.safe_dump(rows, default_flow_style=None, sort_keys=False, width=118)
