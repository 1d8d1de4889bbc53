"""What a real program makes of the argument vectors that the table has of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.contracts.systems import Answer, System
from tests.contracts.table import Tool, shown

# Exit statuses of env, timeout and the shell for a program that is not there or cannot be started.
_NOT_STARTED = (126, 127)
# What any program may say of words that are known and do not fit together.
_INCOMPLETE = re.compile(r"requires an argument|missing (argument|operand)|extra operand|ambiguous option", re.I)
# As long as a program that does not end by itself is watched: a word it does not know it tells at once.
_WATCHED_SECONDS = 2


@dataclass(frozen=True)
class Trial:
    """One argument vector for the real program; ``garbled`` is the word that nonsense stands for, "" for none."""

    tool: Tool
    argv: list[str]
    garbled: str

    def fault(self, answer: Answer) -> str:
        """Return what is wrong with the answer, "" for nothing."""
        said = f"{shown(self.argv)}: {answer.rc}: {' '.join(answer.text.split())[:200]}"
        refused = re.search(self.tool.refused, answer.text)
        if answer.rc is None or answer.rc < 0:
            return f"not run: {said}"
        if not self.garbled:
            succeeded = answer.rc == 0 or re.search(self.tool.excused, answer.text)
            failed = not succeeded if self.tool.cluster else answer.rc in _NOT_STARTED
            return f"refused: {said}" if refused or failed or _INCOMPLETE.search(answer.text) else ""
        if refused or self.garbled in self.tool.unread:
            return ""
        return f"never looked at {self.garbled}: {said}"


def trials(tool: Tool) -> list[Trial]:
    """Return what a program is asked: each form, and each with nonsense in the place of one of its fixed words.

    A word is looked at when the program refuses the nonsense; otherwise nothing is proven by its not being refused.
    """
    found = []
    for form in tool.forms:
        asked = [("", form.given), *form.garbled]
        watched = ["timeout", str(_WATCHED_SECONDS)] if set(tool.endless) & set(form.words) else []
        found += [Trial(tool, [*watched, *argv], word) for word, argv in asked]
    return found


def faults(system: System, tools: Sequence[Tool]) -> dict[str, list[str]]:
    """Return what is wrong with each tool, a line each; what a Slurm has to run for is asked in one cluster."""
    found: dict[str, list[str]] = {tool.name: [] for tool in tools}
    for in_cluster in (False, True):
        asked = [trial for tool in tools if tool.cluster == in_cluster for trial in trials(tool)]
        answers = system.answers([(trial.argv, trial.tool.user) for trial in asked], in_cluster) if asked else []
        for trial, answer in zip(asked, answers, strict=True):
            found[trial.tool.name] += filter(None, [trial.fault(answer)])
    return found
