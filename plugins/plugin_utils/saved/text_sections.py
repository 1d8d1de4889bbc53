"""A text in parts, each of which begins with a mark."""

from __future__ import annotations

import re
from collections.abc import Iterator


def sections(mark: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each mark with what stands between it and the next one, or the end of the text."""
    before: re.Match[str] | None = None
    for found in mark.finditer(text):
        if before:
            yield before, text[before.end() : found.start()]
        before = found
    if before:
        yield before, text[before.end() :]
