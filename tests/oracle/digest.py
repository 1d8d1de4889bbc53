"""Content without prose, in one form, and its digest."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

# The last digits of a float depend on the order of sums, which a restructuring may change.
DIGITS = 9
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_COMMENT = re.compile(r"\s*(?:#|;|!|//)")
_PROSE_KEYS = ("Description=", "Documentation=")


def number(value: float) -> Any:
    """Return a float with the digits that count; a word for what JSON does not know."""
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 -- not a number
        return str(value)
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def numbers(text: str) -> list[str]:
    """Return the numbers in a text."""
    return _NUMBER.findall(text)


def value(given: Any) -> Any:
    """Return a finding's value: a number, one word (an identifier), or the numbers in a text of several words."""
    if isinstance(given, str) and re.search(r"\s", given):
        return ["numbers", *numbers(given)]
    return given


def findings(given: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return findings in one order."""
    kept = [{**each, "measured": value(each["measured"]), "expected": value(each["expected"])} for each in given]
    return sorted(kept, key=lambda each: json.dumps(each, sort_keys=True, default=str))


def text_of(name: str, content: str) -> Any:
    """Return a rendered file's content without comments: JSON as data, of Markdown its numbers and names alone."""
    if name.endswith(".md"):
        rows = [line for line in content.splitlines() if line.startswith("|")]
        return [*(numbers(row) for row in rows), re.findall(r"`[^`\n]+`", content)]
    lines = [line.rstrip() for line in content.splitlines() if line.strip() and not _COMMENT.match(line)]
    lines = [line for line in lines if not line.startswith(_PROSE_KEYS)]
    text = "\n".join(lines)
    if text.startswith(("{", "[{")):
        try:
            return json.loads(text)
        except ValueError:
            pass
    return lines


def canonical(content: Any) -> str:
    """Return content as text that does not depend on the order of keys, on paths or on the process."""
    return json.dumps(_rounded(content), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def shown(content: Any) -> str:
    """Return content as people compare it, a line for each item."""
    return json.dumps(_rounded(content), sort_keys=True, indent=1, ensure_ascii=True)


def sha(content: Any) -> str:
    """Return the first 16 digits of the SHA-256 of the canonical form."""
    return hashlib.sha256(canonical(content).encode()).hexdigest()[:16]


def _rounded(content: Any) -> Any:
    if isinstance(content, bool) or content is None or isinstance(content, (int, str)):
        return content
    if isinstance(content, float):
        return number(content)
    if isinstance(content, Mapping):
        return {str(key): _rounded(each) for key, each in content.items()}
    if isinstance(content, (list, tuple)):
        return [_rounded(each) for each in content]
    raise TypeError(f"{type(content).__name__} in the content of a case, expected JSON data")
