"""Parameters of the kernel: words of its command line, compared as the kernel takes them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..words.expectations import Expectations

# Blanks inside of double quotes belong to the value.
_WORD = re.compile(r'(?:[^\s"]|"[^"]*")+')
# What neither grub's scripts nor its own shell (where ; ends a command) take for anything else.
PLAIN = re.compile(r"[A-Za-z0-9_.,:=@/+-]+", re.ASCII)


def words_of(line: str) -> tuple[str, ...]:
    """Return the words of a command line in order, without quotes."""
    return tuple(word.replace('"', "") for word in _WORD.findall(line))


def setting(wanted: str, words: Sequence[str]) -> list[str]:
    """Return the words that set the same parameter as ``wanted``, as they stand."""
    # What follows "--" is for init.
    own = words[: list(words).index("--")] if "--" in words else words
    return [word for word in own if _name(word) == _name(wanted)]


def given(wanted: str, words: Sequence[str]) -> bool:
    """Return whether one of the words gives ``wanted``: its value is one of theirs, a name alone has any value."""
    _, sign, value = wanted.partition("=")
    return any(not sign or value in (word.partition("=")[2], *word.partition("=")[2].split(",")) for word in words)


def missing(required: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return the required parameters that the command line does not give; the last one of a name holds."""
    return [wanted for wanted in required if not given(wanted, setting(wanted, words)[-1:])]


def declared_parameters(expect: Expectations) -> list[str]:
    """Return the words that a class wants at the boot loader: what it requires, and its huge pages.

    A size that a required word reserves already is left to that word.
    """
    line = expect.kernel and expect.kernel.command_line
    words = list(line.required) if line else []
    pages = expect.memory.hugepages
    if pages and pages.transparent and not setting("transparent_hugepage", words):
        words.append(f"transparent_hugepage={pages.transparent}")
    if pages and not setting("hugepages", words):
        for item in pages.reserved:
            words += [f"hugepagesz={item.size_kib}K", f"hugepages={item.count}"]
    return words


def _name(word: str) -> str:
    # The kernel takes "-" and "_" in a parameter's name for the same.
    return word.partition("=")[0].replace("-", "_")
