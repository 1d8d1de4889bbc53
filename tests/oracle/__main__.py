"""The oracle by hand: what a case holds, and writing what an area concludes now.

    PYTHONPATH=collections:. python -m tests.oracle --show AREA CASE
    PYTHONPATH=collections:. python -m tests.oracle --write AREA

The exit status of neither option is 1 if any area concludes something else than what is written down.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator

from . import digest
from .areas import AREAS, ROOT
from .demo import case_of
from .written import Case, differences, known, lines, write

VERDICTS = ROOT / "build/demo/verdicts.json"


def demo() -> Iterator[Case]:
    """How the demo ended that ran last."""
    yield case_of(json.loads(VERDICTS.read_text(encoding="utf-8")))


def main() -> int:
    """Show, write or compare."""
    areas = {**AREAS, "demo": demo}
    parser = argparse.ArgumentParser(prog="oracle", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--show", nargs=2, metavar=("AREA", "CASE"), help="print the content of one case")
    parser.add_argument("--write", metavar="AREA", choices=areas, help="write down what an area concludes now")
    options = parser.parse_args()
    if options.show:
        area, name = options.show
        found = [case for case in areas[area]() if case.name == name]
        for case in found:
            print(digest.shown(case.content))
        return int(not found)
    if options.write:
        return int(not write(options.write, list(areas[options.write]())))
    wrong = 0
    for area in AREAS:
        began = time.process_time()
        cases = list(AREAS[area]())
        found = differences(area, known(area), lines(cases))
        wrong += len(found)
        print(f"{area}: {len(cases)} cases, {len(found)} differ, {time.process_time() - began:.1f} s")
        for text in found:
            print(f"  {text}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
