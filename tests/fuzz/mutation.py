"""Ways in which a tool's output goes wrong between the tool and its reader; none of them makes a sick value healthy.

Each takes a place in the text (``at``, where the fault stands) near which it works every second time: a mutation far
from the fault tells little of it. Single digits are never taken away, since nobody can see that 10 was printed where 0
stands; a text that ends within a number can be seen.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output

# What tools print where they cannot or will not tell a value.
UNKNOWN = (
    *(
        "N/A",
        "[N/A]",
        "ERR!",
        "[Unknown Error]",
        "Unknown",
        "Not Supported",
        "[Insufficient Permissions]",
        "GPU is lost",
    ),
    *("", "-", "?", "nan", "inf", "-1", "null", "\x00", "\ufffd", "(null)", "n/a"),
)
# What no tool prints and a parser must survive: int() takes digits of all scripts, and refuses some that are "digits".
_ODD = ("9" * 5000, "1e999", "²", "٣", "0x", "1_000", "١٢", "[" * 3000, "{", '"', "<", "&", "\x1b[0m", "-0", "+5")
_VALUE = re.compile(r"(?<=[:=>|,])([ \t]*)([^<>,|\s][^<>,|\n]*?)(?=[ \t]*(?:$|<|,|\|))", re.MULTILINE)
# The text of a file of one value stands alone on its line.
_ALONE = re.compile(r"(?<=<==\n)([ \t]*)([^\n]+)$", re.MULTILINE)
_MEMBER = re.compile(r'"[^"\n]*"\s*:\s*("[^"\n]*"|-?\d[\d.eE+-]*|true|false|null|\[\]|\{\})(\s*,)?')
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
_NEW = (
    *("        New Field                         : 7", "<new_field>7</new_field>", "# 7", "new_field=7", "\t", "{}"),
    *("WARNING: infoROM is corrupted at gpu 0000:00:00.0", "==> new <==", "sh: warning: setlocale: no such locale"),
)
_FOREIGN = (
    *(("Not Active", "Nicht aktiv"), ("Active", "aktiv"), ("Enabled", "Activé"), ("Disabled", "Désactivé")),
    *(("Yes", "Ja"), ("No", "Nein"), ("true", "wahr"), ("none", "keine"), ("ok", "gut"), ("up", "auf"), ("Pass", "OK")),
    *(("degrees", "Grad"), ("GB", "Go"), ("MiB", "Mio"), ("kB", "ko"), ("Size", "Größe"), ("Total", "Gesamt")),
    *((" C", " °C"), (" C", " F"), ("GT/s", "Gt/s"), ("MHz", "МГц"), (" W", " Вт"), ("Status", "Estado")),
)
_HEADING = re.compile(r"^==> .+? <==(?: \(.*\))?$", re.MULTILINE)
_NEAR = 400


def truncated(rng: random.Random, text: str, at: int) -> str:
    """Cut off at any character."""
    return text[: _place(rng, len(text), at)]


def lines_lost(rng: random.Random, text: str, at: int) -> str:
    """Without one to five lines, or without a stretch of any length."""
    lines = text.splitlines(keepends=True)
    near = text.count("\n", 0, at)
    for _ in range(min(len(lines), rng.randint(1, 5))):
        del lines[_place(rng, len(lines) - 1, near, 3)]
    if lines and rng.random() < 0.2:
        first = _place(rng, len(lines) - 1, near, 10)
        del lines[first : first + rng.choice((2, 5, 10, 30, 100, 300))]
    return "".join(lines)


def lines_reordered(rng: random.Random, text: str, at: int) -> str:
    """With fields in another order: a stretch of named values that stand side by side at the same depth."""
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    middle = first = _place(rng, len(lines) - 1, text.count("\n", 0, at), 3)
    depth = _depth(lines[middle])
    last = middle
    while first and _depth(lines[first - 1]) == depth:
        first -= 1
    while last + 1 < len(lines) and _depth(lines[last + 1]) == depth:
        last += 1
    if depth is None:
        return text
    lines[first : last + 1] = rng.sample(lines[first : last + 1], last + 1 - first)
    return "".join(lines)


def line_doubled(rng: random.Random, text: str, at: int) -> str:
    """With one line twice."""
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    chosen = _place(rng, len(lines) - 1, text.count("\n", 0, at), 3)
    lines.insert(chosen, lines[chosen])
    return "".join(lines)


def value_unknown(rng: random.Random, text: str, at: int) -> str:
    """With one to three values that the tool could not tell."""
    return _replaced(rng, text, at, UNKNOWN)


def value_odd(rng: random.Random, text: str, at: int) -> str:
    """With one to three values that no tool prints."""
    return _replaced(rng, text, at, _ODD)


def line_added(rng: random.Random, text: str, at: int) -> str:
    """With a field that we do not know, or a warning between the lines."""
    lines = text.splitlines(keepends=True)
    # A heading of its own parts a block from what follows; it is no line of a log.
    new = rng.choice([line for line in _NEW if "==>" in text or "==>" not in line])
    lines.insert(_place(rng, len(lines), text.count("\n", 0, at), 3), new + "\n")
    return "".join(lines)


def other_locale(rng: random.Random, text: str, _at: int) -> str:
    """With decimal commas or grouped digits, as under another LC_NUMERIC."""
    if rng.random() < 0.5:
        return re.sub(r"(?<=\d)\.(?=\d)", ",", text)
    mark = rng.choice((".", ",", "'", "\u00a0", " "))
    return re.sub(r"(?<![\w.:])[0-9]{4,18}(?![\w.:])", lambda match: f"{int(match.group()):,}".replace(",", mark), text)


def translated(rng: random.Random, text: str, _at: int) -> str:
    """With some words and units in another language."""
    for word, foreign in rng.sample(_FOREIGN, 3):
        text = re.sub(rf"(?<![A-Za-z]){re.escape(word)}\b", foreign, text)
    return text


def garbled(rng: random.Random, text: str, at: int) -> str:
    """With bytes that are no text."""
    for _ in range(rng.randint(1, 20)):
        place = _place(rng, len(text), at)
        text = text[:place] + rng.choice("\ufffd\x00\x1b") + text[place + 1 :]
    return text


def blanks(rng: random.Random, text: str, _at: int) -> str:
    """With other line ends or empty lines."""
    return text.replace("\n", rng.choice(("\r\n", "\n\n", " \n")))


def nothing(rng: random.Random, _text: str, _at: int) -> str:
    """Empty, or not text at all."""
    empty = (
        "",
        "\n",
        "\x00" * 64,
        "\ufffd" * 64,
        "{}",
        "[]",
        "null",
        "0",
        "<a/>",
        "[" * 5000,
        '{"a":' * 5000,
        "{}\n{}\n",
    )
    return rng.choice(empty)


def member_lost(rng: random.Random, text: str, at: int) -> str:
    """JSON with one member that is gone, or that the tool could not tell; any other text as with a line lost."""
    start = max(0, _place(rng, len(text), at, 40) - _NEAR)
    members = list(_MEMBER.finditer(text, start, start + 2 * _NEAR))
    if not members:
        return lines_lost(rng, text, at)
    chosen = rng.choice(members)
    if rng.random() < 0.3:
        return text[: chosen.start()] + text[chosen.end() :]
    value = rng.choice(("null", '"N/A"', '""', "[]", "{}", '"nan"', "NaN", "Infinity", "-1", "true", '"ERR!"'))
    return text[: chosen.start(1)] + value + text[chosen.end(1) :]


def branch_lost(rng: random.Random, text: str, at: int) -> str:
    """JSON without one of its branches, however large; any other text with a member lost."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return member_lost(rng, text, at)
    places = [place for place in _places(document) if isinstance(place[0][place[1]], (dict, list))]
    if not places:
        return member_lost(rng, text, at)
    holder, key = rng.choice(places)
    if rng.random() < 0.5:
        del holder[key]
    else:
        holder[key] = rng.choice((None, "N/A", "", [], {}))
    return json.dumps(document, indent=1) + "\n"


def block_lost(rng: random.Random, text: str, at: int) -> str:
    """Without one of the outputs that stand under headings."""
    blocks = _blocks(text)
    if not blocks:
        return lines_lost(rng, text, at)
    first, _body, last = _nearest(rng, blocks, at)
    return text[:first] + text[last:]


def block_failed(rng: random.Random, text: str, at: int) -> str:
    """With one of the outputs that stand under headings empty, cut off or ended with an error, as the heading says."""
    blocks = _blocks(text)
    if not blocks:
        return text[: _place(rng, len(text), at)]
    first, body, last = _nearest(rng, blocks, at)
    heading = text[first:body].rstrip("\n").split(" (")[0]
    why = rng.choice(("exit status 1: ", "exit status -9: ", "no answer within 10 s", "Input/output error", "", ""))
    kept = text[body:last] if why and rng.random() < 0.5 else ""
    return text[:first] + heading + (f" ({why})" if why else "") + "\n" + kept + text[last:]


def blocks_reordered(rng: random.Random, text: str, at: int) -> str:
    """With the outputs that stand under headings in another order."""
    blocks = _blocks(text)
    if len(blocks) < 2:
        return lines_reordered(rng, text, at)
    parts = [text[first:last].rstrip("\n") + "\n\n" for first, _body, last in blocks]
    whole = text[: blocks[0][0]] + "".join(rng.sample(parts, len(parts)))[:-1]
    # A last line that was cut off stays one.
    return whole if text.endswith("\n") else whole.rstrip("\n")


Mutation = Callable[[random.Random, str, int], str]
ALL: tuple[Mutation, ...] = (
    *(truncated, lines_lost, lines_reordered, line_added, line_doubled, value_unknown, member_lost, branch_lost),
    *(other_locale, translated, garbled, blanks, nothing, block_lost, block_failed, blocks_reordered),
)
# After these a value may be another one, so that they tell only of errors in the parsers.
ODD: tuple[Mutation, ...] = (*ALL, value_odd, value_odd)


def mutated(rng: random.Random, text: str, allowed: tuple[Mutation, ...] = ALL, at: int = 0) -> tuple[str, str]:
    """Return the text after one to three mutations, and their names."""
    names = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        mutation = rng.choice(allowed)
        text = mutation(rng, text, at)
        names.append(mutation.__name__)
    return text, " ".join(names)


def ended(rng: random.Random, text: str) -> tuple[Output, str]:
    """Return the text as a tool's output, one of twenty with an end that says it is not to be trusted."""
    if rng.random() < 0.05:
        status = rng.choice((1, 2, 255, -9, -11))
        return Output(text, rng.choice(("", "error: out of memory\n", "Killed\n")), status), f" exit status {status}"
    if rng.random() < 0.01:
        return Output(text, rc=None, timed_out=True, error="no answer within 10 s"), " timed out"
    # Tools warn on stderr while all is well.
    return Output(text, rng.choice(("", "warning: no terminal\n"))), ""


def _place(rng: random.Random, length: int, at: int, spread: int = 60) -> int:
    """Return a place in 0 to ``length``, every second time near ``at``."""
    if rng.random() < 0.5:
        return min(length, max(0, at + rng.randint(-spread, spread)))
    return rng.randrange(length + 1)


def _replaced(rng: random.Random, text: str, at: int, values: tuple[str, ...]) -> str:
    for _ in range(rng.randint(1, 3)):
        start = max(0, _place(rng, len(text), at, 20) - _NEAR // 2)
        found = [match for pattern in (_VALUE, _ALONE) for match in pattern.finditer(text, start, start + _NEAR)]
        if not found:
            continue
        chosen = min(found, key=lambda match: abs(match.start(2) - at)) if rng.random() < 0.3 else rng.choice(found)
        text = text[: chosen.start(2)] + rng.choice(values) + text[chosen.end(2) :]
    return text


def _depth(line: str) -> int | None:
    """Return how far a line is indented, None where it is no value with a name that may stand elsewhere."""
    name = line.strip()
    if not re.search(r"[A-Za-z]", name) or name.startswith(("==>", "</")) or name.endswith(("{", "[", ":")):
        return None
    if name.startswith("<") and "</" not in name:
        return None
    if not re.search(r"[:=<|]", name) or _NUMBER.fullmatch(name):
        return None
    return len(line) - len(line.lstrip())


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield value, key
            yield from _places(item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index
            yield from _places(item)


def _blocks(text: str) -> list[tuple[int, int, int]]:
    """Return where each heading begins, where it ends and where the next one begins."""
    headings = list(_HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    return [(heading.start(), heading.end() + 1, last) for heading, last in zip(headings, ends, strict=False)]


def _nearest(rng: random.Random, blocks: list[tuple[int, int, int]], at: int) -> tuple[int, int, int]:
    here = [block for block in blocks if block[0] <= at < block[2]]
    return here[0] if here and rng.random() < 0.5 else rng.choice(blocks)
