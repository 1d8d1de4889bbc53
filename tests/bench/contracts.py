"""Counts the forms of argument vectors that real programs take, and those that no real program was given."""

from __future__ import annotations

import sys

from tests.contracts import page, systems, table
from tests.figures import Figures, file_of, write_figures


def main() -> int:
    """Ask the real programs of every system and write it down; 1 where that is not possible here."""
    file = file_of(__doc__)
    if why := systems.lacking():
        print(why)
        return 1
    tools = table.read()
    asked = page.ask_all()
    taken = sum(len(tools[name].forms) for name in asked)
    unverified = sum(len(tool.forms) or 1 for tool in tools.values() if tool.unverified)
    names = ", ".join(systems.suites().values())
    figures: Figures = {
        "argv_contracts": {"value": taken, "unit": f"forms of argument vectors that the real programs took ({names})"},
        "argv_unverified": {"value": unverified, "unit": "forms for programs that no distribution has"},
    }
    write_figures(figures, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
