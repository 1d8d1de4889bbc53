"""The versions of rules by hand: what is wrong with the table, or the table written anew.

    PYTHONPATH=collections:. python -m tests.rules [--write [--keep-versions]]

A rule that says something else of the same outputs is refused until its version is raised: evidence that the version
before judged is judged again, or owed again. ``--keep-versions`` takes it all the same, where no evidence of that
version can exist because it was never released.
"""

from __future__ import annotations

import argparse
import sys

from tests.recorded.judged import RECORDED as PLACE

from . import judged
from .table import FILE, OWN, RECORDED, faults, known, place_of, unversioned, written


def main() -> int:
    """Print or write; the exit status is 1 where a rule lacks a new version, or the table is not up to date."""
    parser = argparse.ArgumentParser(prog="rules", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--write", action="store_true", help="write the table")
    parser.add_argument("--keep-versions", action="store_true", help="though rules changed that have no new version")
    options = parser.parse_args()
    table, versions = known(), judged.versions()
    said = {OWN: judged.own(), **({RECORDED: judged.recorded(PLACE)} if PLACE.is_dir() else {})}
    if not options.write:
        found = [text for column, each in said.items() for text in faults(table, column, each, versions)]
        print("\n".join(found) or f"{len(versions)} rules, each as it was")
        return int(bool(found))
    refused = {
        rule
        for column, each in said.items()
        for rule, what in each.items()
        if unversioned(table.get(rule, {}), column, what, versions[rule])
    }
    if refused and not options.keep_versions:
        print("\n".join(f"{rule} changed without a new version: raise {place_of(rule)}" for rule in sorted(refused)))
        return 1
    FILE.write_text(written(table, said, versions), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
