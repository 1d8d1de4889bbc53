"""Prints our verdict beside the true one for every recorded file that a check covers, and which healthy ones fail."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.figures import write_figures

from .healthy_hosts import figures_of, in_words, tried_hosts, tried_outputs
from .judged import NOT_COVERED, RECORDED, ROWS, figures, judged, unlisted, unverified_formats


def main() -> int:
    """Print the table; the exit status is 1 if a file is judged wrongly or stands in no table."""
    parser = argparse.ArgumentParser(prog="recorded", description=__doc__)
    parser.add_argument("recorded", nargs="?", type=Path, default=RECORDED, help="where the recorded outputs lie")
    parser.add_argument("--bench", type=Path, help="the file for the figures of the bench")
    options = parser.parse_args()
    recorded = options.recorded
    if not recorded.is_dir():
        print(f"recorded: no recorded outputs at {recorded}, nothing to judge")
        if options.bench:
            names = [*figures([]), *figures_of([], [])]
            write_figures({name: {"value": None, "unit": "no recorded outputs"} for name in names}, options.bench)
        return 0
    rows = [row for row in sorted(ROWS, key=lambda row: row.file) if (recorded / row.file).exists()]
    results = [judged(row, recorded) for row in rows]
    width = max((len(row.file) for row in rows), default=0)
    print(f"{'file':{width}}  {'ours':10}  {'true':10}  why")
    for result in results:
        mark = "" if result.right else "WRONG  "
        note = "format unverified; " if result.unverified else ""
        why = result.row.why or result.said
        print(f"{result.row.file:{width}}  {result.verdict:10}  {result.row.verdict:10}  {mark}{note}{why[:120]}")
    print("\nnot covered:")
    for file, reason in sorted(NOT_COVERED.items()):
        if (recorded / file.rstrip("/")).exists():
            print(f"{file:{width}}  {reason}")
    missing = unlisted(recorded)
    for file in missing:
        print(f"{file:{width}}  NOT LISTED")
    print(f"\nformat unverified: {', '.join(unverified_formats())}")
    found = figures(results)
    counts = {name.removeprefix("recorded_").replace("_", " "): value for name, value in found.items()}
    print("\n" + ", ".join(f"{name} {value}" for name, value in counts.items()))
    hosts, outputs = tried_hosts(recorded), tried_outputs(recorded)
    print("", *in_words("hosts", hosts), *in_words("outputs", outputs), sep="\n")
    if options.bench:
        files = {name: {"value": value, "unit": "files"} for name, value in found.items()}
        write_figures({**files, **figures_of(hosts, outputs)}, options.bench)
    return int(bool(missing) or any(not result.right for result in results))


if __name__ == "__main__":
    sys.exit(main())
