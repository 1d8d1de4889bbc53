"""Text that switches print for people: tables under a ruled line, and configuration nested by indentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_state import OutputError

_RULE = re.compile(r"\s*-+(\s+-+)+\s*$")


def ruled_table(text: str, command: str) -> list[dict[str, str]]:
    """Return the rows of the first table whose header is underlined column by column, as SONiC prints all of them.

    Raises OutputError where there is none, or where a row ends before its last column begins.
    """
    lines = text.splitlines()
    at = next((index for index, line in enumerate(lines) if index and _RULE.match(line)), None)
    if at is None:
        raise OutputError(f"{command}: no table ({_first(text)})")
    spans = [match.span() for match in re.finditer(r"-+", lines[at])]
    names = [lines[at - 1][start:end].strip() for start, end in spans]
    rows = []
    for line in lines[at + 1 :]:
        if not line.strip() or _RULE.match(line) or line.startswith("---"):
            break
        if len(line) < spans[-1][0]:
            raise OutputError(f"{command}: cut short in the row {line.strip()!r}")
        rows.append({name: line[start:end].strip() for name, (start, end) in zip(names, spans, strict=True)})
    return rows


def headed_table(text: str, command: str, names: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the rows below a header of these column names, cells standing where the names do, as EOS prints them.

    A rule below the header and empty lines are skipped. Raises OutputError where there is no such header.
    """
    pattern = re.compile(r"\s*" + r"\s+".join(map(re.escape, names)) + r"\s*$")
    lines = text.splitlines()
    at = next((index for index, line in enumerate(lines) if pattern.match(line)), None)
    if at is None:
        raise OutputError(f"{command}: no table of {', '.join(names)} ({_first(text)})")
    starts: list[int] = []
    for name in names:
        starts.append(lines[at].index(name, starts[-1] + 1 if starts else 0))
    spans = list(zip(starts, [*starts[1:], None], strict=True))
    body = (line for line in lines[at + 1 :] if line.strip(" -"))
    return [{name: line[slice(*span)].strip() for name, span in zip(names, spans, strict=True)} for line in body]


def _first(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f"begins with {line[:60]!r}" if line else "prints nothing"


@dataclass(frozen=True)
class Line:
    """One line of a configuration with the lines below it."""

    text: str
    below: list[Line] = field(default_factory=list)

    def starting(self, prefix: str) -> Iterator[tuple[str, Line]]:
        """Yield each line below that begins with ``prefix`` and a space, as the rest of it and the line."""
        for line in self.below:
            if line.text.startswith(f"{prefix} "):
                yield line.text[len(prefix) + 1 :], line

    def has(self, text: str) -> bool:
        """Return whether a line below is exactly this."""
        return any(line.text == text for line in self.below)


def nested(text: str) -> Line:
    """Return a configuration as a tree; indentation nests, lines that begin with ``!`` are comments."""
    top = Line("")
    open_lines: list[tuple[int, Line]] = [(-1, top)]
    for raw in text.splitlines():
        stripped = raw.strip()
        if not stripped or stripped.startswith("!"):
            continue
        indent = len(raw) - len(raw.lstrip())
        while open_lines[-1][0] >= indent:
            open_lines.pop()
        line = Line(stripped)
        open_lines[-1][1].below.append(line)
        open_lines.append((indent, line))
    return top


def numbers(text: str) -> frozenset[int]:
    """Return the numbers that a text such as ``3``, ``3-4``, ``0,3-5`` or ``3 5`` names. Raises ValueError."""
    found: set[int] = set()
    for part in re.split(r"[,\s]+", text.strip()):
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1))
    return frozenset(found)
