"""Steps of a page for maintainers, as a program follows them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# "New file `PATH`:" or "In `PATH`, after `LINE`:", then a block of code.
_STEP = re.compile(
    r"^(?:New file `(?P<new>[^`]+)`|In `(?P<old>[^`]+)`, after `(?P<after>[^`]+)`):\n\n```\w+\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
# A row of a table: a file, and the command that writes it.
_WRITTEN = re.compile(r"^\| `(?P<path>[\w/]+\.[a-z]+)` \| `(?P<command>[^`]*python [^`]+)` \|$", re.MULTILINE)


@dataclass(frozen=True)
class Edit:
    """A file that is written by hand: a new one, or ``text`` behind the line ``after`` of one that is there."""

    path: str
    text: str
    after: str | None = None

    def apply(self, tree: Path) -> None:
        """Change a tree as the page says; raises ValueError where the page does not fit it."""
        file = tree / self.path
        if self.after is None:
            if file.exists():
                raise ValueError(f"{self.path} is there already, expected a new file")
            file.write_text(self.text, encoding="utf-8")
            return
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        places = [number for number, line in enumerate(lines) if line.rstrip("\n") == self.after]
        if len(places) != 1:
            raise ValueError(f"{self.path} has {len(places)} lines {self.after!r}, expected one")
        lines.insert(places[0] + 1, self.text)
        file.write_text("".join(lines), encoding="utf-8")


def edits(page: str) -> list[Edit]:
    """Return what a page says is written by hand, in its order."""
    return [Edit(step["new"] or step["old"], step["text"], step["after"]) for step in _STEP.finditer(page)]


def written(page: str) -> dict[str, str]:
    """Return the files that commands write, each with its command."""
    return {row["path"]: row["command"] for row in _WRITTEN.finditer(page)}
