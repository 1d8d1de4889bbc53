"""``make contracts-page``: ask all real programs, and write what was seen and the page that shows it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.contracts import systems, table
from tests.contracts.trial import faults

SEEN = Path(__file__).with_name("seen.json")
PAGE = Path(__file__).parents[2] / "docs/maintaining/real_tools.md"
_BEGIN = """# Real tools

Every argument vector that Muster gives to a program was given to the real one. `make contracts-all` does it again, in
systems unpacked from the distributions' own packages. Each form is run and must not be refused, and must be refused
with nonsense in the place of any of its words: a program that never looked at a word would prove nothing. What it
prints goes through Muster's own parsers. Slurm's programs are asked in a running cluster of their version and have to
succeed; `nvidia-smi` is the real one over the lab's library with eight GPUs. `make contracts` has more: every fault
that the lab gives a GPU, as each nvidia-smi prints it and as Muster judges it, what it prints held against what real
H100s printed, a slurmd with `AutoDetect=nvml`, and a slurmctld of each release with a slurmd and a login host of each
other one. Without the hardware that is as far as it goes: that a program does what it is told is for the lab and for
real nodes to show.

The table is `tests/contracts/tools.yml`. This page is written by `make contracts-page`, which needs root, a Debian
machine and 1.5 GB of packages. A unit test fails on a program or an argument vector that the table lacks:
`tests/contracts/places.py` reads from the source which programs are started, and what unit tests start is held against
the forms. Of tasks, units and scripts of roles the programs are known so, their words
by whoever wrote the table; what files and standard input hold (rules of nft, SQL) is not asked.

"""
_UNVERIFIED = """
## Not tried

No distribution has these, so no real one was asked. Their formats come from recorded outputs and vendors'
documentation.

| program | why |
|---|---|
"""
_UNREAD = """
## Words that prove nothing

At these a program does not look before it gives up for want of hardware, a service or an ordinary user; or, as
pam-auth-update, it takes any word, and Muster looks at what became of it.

| program | words |
|---|---|
"""
_ELSEWHERE = """
## Tried elsewhere, or nowhere

| form | where |
|---|---|
"""


def seen() -> dict[str, Any]:
    """Return what the last run saw: of each program its patterns and its package's version by system."""
    return json.loads(SEEN.read_text(encoding="utf-8"))


def ask_all() -> dict[str, Any]:
    """Ask every program of every system; raises SystemExit with what is wrong."""
    real = [tool for tool in table.read().values() if not tool.unverified]
    found: dict[str, Any] = {tool.name: {"patterns": list(tool.patterns), "versions": {}} for tool in real}
    wrong: list[str] = []
    for suite in systems.suites():
        system = systems.system(suite)
        asked = [tool for tool in real if tool.packages[suite]]
        for name, faulty in faults(system, asked).items():
            wrong += [f"{system.name}: {each}" for each in faulty]
            found[name]["versions"][suite] = system.versions[table.read()[name].packages[suite]]
    if wrong:
        sys.exit("\n".join(wrong))
    return found


def render(told: Mapping[str, Any]) -> str:
    """Return the page."""
    tools, suites = table.read(), systems.suites()
    real = [name for name in sorted(tools) if not tools[name].unverified]
    forms = sum(len(tools[name].forms) for name in real)
    lines = [
        f"{len(real)} programs in {forms} forms were tried, {len(tools) - len(real)} were not.\n",
        f"| program | forms | {' | '.join(suites.values())} |",
        f"|---|---|{'---|' * len(suites)}",
    ]
    for name in real:
        versions = [str(told[name]["versions"].get(suite, "-")) for suite in suites]
        lines.append(f"| `{name}` | {len(tools[name].forms)} | {' | '.join(versions)} |")
    unverified = [f"| `{name}` | {tool.unverified} |" for name, tool in sorted(tools.items()) if tool.unverified]
    unread = [
        f"| `{name}` | {', '.join(f'`{word}`' for word in tool.unread)} |"
        for name, tool in sorted(tools.items())
        if tool.unread
    ]
    elsewhere = [f"| `{pattern}` | {where} |" for tool in tools.values() for pattern, where in tool.elsewhere.items()]
    parts = [(_UNVERIFIED, unverified), (_UNREAD, unread), (_ELSEWHERE, elsewhere)]
    return "\n".join([_BEGIN + lines[0], *lines[1:], *(head + "\n".join(rows) for head, rows in parts), ""])


def main() -> None:
    """Ask, and write."""
    if why := systems.lacking():
        sys.exit(why)
    told = ask_all()
    SEEN.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(render(told), encoding="utf-8")


if __name__ == "__main__":
    main()
