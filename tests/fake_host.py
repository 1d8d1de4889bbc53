"""The one host of the tests that is not real: every answer is given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate

from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output

from tests.contracts.table import refuse_unknown


class FakeHost:
    """Plays back ``outputs`` by whole command, tool or path, which may be changed between runs.

    ``answer`` is that of every command which is not among them; without it such a command is a KeyError. A command that
    no real program was ever given (tests/contracts) is none that Muster may run.
    """

    def __init__(self, outputs: Mapping[str, Output] | None = None, answer: Output | None = None) -> None:
        self.outputs = dict(outputs or {})
        self.answer = answer
        self.runs: list[tuple[str, ...]] = []
        # The time limit of each run, in seconds.
        self.limits: list[float] = []
        # The keys of ``outputs`` that were played back.
        self.asked: set[str] = set()

    @property
    def commands(self) -> list[str]:
        """What was run, each as one line."""
        return [" ".join(argv) for argv in self.runs]

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        assert timeout_seconds > 0
        refuse_unknown(argv)
        self.runs.append(tuple(argv))
        self.limits.append(timeout_seconds)
        command = " ".join(argv)
        key = command if command in self.outputs else argv[0]
        if self.answer is not None and key not in self.outputs:
            return self.answer
        return self._output(key)

    def read(self, path: str) -> Output:
        return self._output(path)

    def paths(self, *patterns: str) -> list[str]:
        """Return the paths of ``outputs`` that the patterns name."""
        # As in a shell, * names no / of a path; without a pattern nothing is named.
        named = re.compile("|".join(translate(each).replace(".*", "[^/]*") for each in patterns) or "(?!)")
        return sorted(filter(named.match, self.outputs))

    def _output(self, key: str) -> Output:
        self.asked.add(key)
        return self.outputs[key]
