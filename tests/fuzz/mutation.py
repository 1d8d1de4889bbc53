"""Ways in which a tool's output goes wrong between the tool and its reader; none of them makes a sick value healthy."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

# What tools print where they cannot or will not tell a value.
UNKNOWN = ("N/A", "[N/A]", "ERR!", "[Unknown Error]", "Unknown", "Not Supported", "", "-", "?", "nan", "\x00", "\ufffd")
_VALUE = re.compile(r"(?<=[:=>|,])([ \t]*)([^<>,|\s][^<>,|]*?)(?=[ \t]*(?:$|<|,|\|))")
_NEW = ("        New Field                         : 7", "<new_field>7</new_field>", "# 7", "new_field=7", "\t")


def truncated(rng: random.Random, text: str) -> str:
    """Cut off at any character."""
    return text[: rng.randrange(len(text) + 1)]


def lines_lost(rng: random.Random, text: str) -> str:
    """Without one to five lines."""
    lines = text.splitlines(keepends=True)
    for _ in range(min(len(lines), rng.randint(1, 5))):
        del lines[rng.randrange(len(lines))]
    return "".join(lines)


def lines_reordered(rng: random.Random, text: str) -> str:
    """With two lines or all of a stretch exchanged."""
    lines = text.splitlines(keepends=True)
    if len(lines) < 2:
        return text
    first, second = sorted(rng.sample(range(len(lines)), 2))
    if rng.random() < 0.5:
        lines[first], lines[second] = lines[second], lines[first]
    else:
        lines[first : second + 1] = rng.sample(lines[first : second + 1], second + 1 - first)
    return "".join(lines)


def value_unknown(rng: random.Random, text: str) -> str:
    """With one to three values that the tool could not tell."""
    for _ in range(rng.randint(1, 3)):
        values = list(_VALUE.finditer(text))
        if not values:
            return text
        chosen = rng.choice(values)
        text = text[: chosen.start(2)] + rng.choice(UNKNOWN) + text[chosen.end(2) :]
    return text


def line_added(rng: random.Random, text: str) -> str:
    """With a field that we do not know."""
    lines = text.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(_NEW) + "\n")
    return "".join(lines)


def other_locale(_rng: random.Random, text: str) -> str:
    """With decimal commas, as under another LC_NUMERIC."""
    return re.sub(r"(?<=\d)\.(?=\d)", ",", text)


def garbled(rng: random.Random, text: str) -> str:
    """With bytes that are no text."""
    characters = list(text)
    for _ in range(rng.randint(1, 20)):
        if characters:
            characters[rng.randrange(len(characters))] = rng.choice("\ufffd\x00\x1b")
    return "".join(characters)


def blanks(rng: random.Random, text: str) -> str:
    """With other line ends or empty lines."""
    return text.replace("\n", rng.choice(("\r\n", "\n\n", " \n")))


def nothing(rng: random.Random, _text: str) -> str:
    """Empty, or not text at all."""
    return rng.choice(("", "\n", "\x00" * 64, "\ufffd" * 64, "{}", "[]", "null", "<a/>"))


def member_lost(rng: random.Random, text: str) -> str:
    """JSON with one member or entry that is gone, or that the tool could not tell."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return lines_lost(rng, text)
    places = list(_places(document))
    if not places:
        return ""
    holder, key = rng.choice(places)
    if rng.random() < 0.5:
        del holder[key]
    else:
        holder[key] = rng.choice((None, "N/A", "", [], {}))
    return json.dumps(document, indent=1) + "\n"


def _places(value: Any) -> Any:
    if isinstance(value, dict):
        for key, item in value.items():
            yield value, key
            yield from _places(item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index
            yield from _places(item)


Mutation = Callable[[random.Random, str], str]
# Those after which a log still holds what it held: nothing is missed in a line that was never printed.
KEEPING: tuple[Mutation, ...] = (lines_reordered, line_added, blanks)
ALL: tuple[Mutation, ...] = (
    *KEEPING,
    *(truncated, lines_lost, value_unknown, other_locale, garbled, nothing, member_lost),
)


def mutated(rng: random.Random, text: str, allowed: tuple[Mutation, ...] = ALL) -> tuple[str, str]:
    """Return the text after one to three mutations, and their names."""
    names = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        mutation = rng.choice(allowed)
        text = mutation(rng, text)
        names.append(mutation.__name__)
    return text, " ".join(names)
