"""From the meaning of a field to cases: values out of range, in other units, not told, lost, doubled, written oddly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from .field_meaning import ANY, HEALTHY, NOT_FAIL, NOT_PASS, SICK, UNTOLD, Case, Field, Parts, Told

# What a tool prints where it was not told a value, by the probe; others say nothing, or null in JSON.
_SMI = ("N/A", "[N/A]", "Not Supported", "[Not Supported]", "[Insufficient Permissions]", "")
NOT_TOLD: dict[str, tuple[str, ...]] = {
    "nvidia_smi": (*_SMI, "Requested functionality has been deprecated"),
    "topology": ("N/A", ""),
    "dmidecode": ("Not Specified", "Unknown", "Not Provided", "To Be Filled By O.E.M.", "Default string", ""),
    "dmidecode_memory": ("Unknown", "Not Specified", "<OUT OF SPEC>", ""),
    "ipmi_sdr": ("No Reading", "Not Readable", "Disabled", ""),
    "mlxlink": ("N/A", ""),
    "chrony": ("", "-"),
}
_ELSEWHERE = ("",)
# What nobody expects of this tool, though others print it: it may be called unread or wrong, never healthy.
FOREIGN = ("N/A", "[N/A]", "n/a", "NA", "Not Supported", "Not Available", "Permission denied", "-", "--", "---", "?")
# What tools print where the part itself does not answer: it may be called sick, never healthy.
NO_ANSWER = ("ERR!", "[Unknown Error]", "Unknown Error", "GPU is lost", "[GPU is lost]", "Unknown", "nan", "inf")
# A unit, and how many of it are one of another.
_UNITS: dict[str, tuple[tuple[str, Callable[[float], float]], ...]] = {
    "W": (("mW", lambda v: v * 1e3), ("kW", lambda v: v / 1e3)),
    "C": (("F", lambda v: v * 9 / 5 + 32), ("K", lambda v: v + 273.15)),
    "degrees C": (("degrees F", lambda v: v * 9 / 5 + 32), ("degrees K", lambda v: v + 273.15)),
    "MiB": (("KiB", lambda v: v * 1024), ("GiB", lambda v: v / 1024), ("MB", lambda v: v * 1.048576)),
    "kB": (("MB", lambda v: v / 1024), ("B", lambda v: v * 1024), ("GB", lambda v: v / 1024**2)),
    "GB": (("MB", lambda v: v * 1024), ("TB", lambda v: v / 1024)),
    "GB/s": (("MB/s", lambda v: v * 1e3), ("Gb/s", lambda v: v * 8), ("GiB/s", lambda v: v / 1.073741824)),
    "Gb/sec": (("Mb/sec", lambda v: v * 1e3), ("GB/sec", lambda v: v / 8)),
    "MHz": (("GHz", lambda v: v / 1e3), ("kHz", lambda v: v * 1e3)),
    "GT/s": (("MT/s", lambda v: v * 1e3),),
    "MT/s": (("GT/s", lambda v: v / 1e3),),
    "MB per sec": (("GB per sec", lambda v: v / 1e3),),
}
_QUANTITY = re.compile(r"(-?\d+(?:\.\d+)?)( ?)([A-Za-z][A-Za-z/ ]*)?(.*)", re.DOTALL)
_WORD = re.compile(r"[A-Z][a-z]+(?: [A-Z]?[a-z]+)*|[a-z]{2,}")
# The words that states are written in, as tools under other languages write them.
_FOREIGN = {
    "enabled": ("Aktiviert", "Activé", "有効"),
    "disabled": ("Deaktiviert", "Désactivé", "無効"),
    "active": ("Aktiv", "Actif", "アクティブ"),
    "yes": ("Ja", "Oui", "はい"),
    "no": ("Nein", "Non", "いいえ"),
    "pass": ("Bestanden", "Réussi", "合格"),
    "up": ("auf", "actif"),
    "ok": ("gut", "normal fr"),
}


def of_field(field: Field) -> Iterator[Case]:
    """Yield every case of one field, on the first part, the one in the middle and the last one."""
    text = field.text()
    for number, place in enumerate(field.places()):
        first, last = place
        for what, new, allowed in (*_sick(field), *_healthy(field, text[first:last]), *_untold(field)):
            changed = text[:first] + _fitting(text, first, new, field) + text[last:]
            name = f"{field.name} #{number}: {what}"
            yield Case(name, field.probe, field.checks, changed, allowed, field.variant)
        for what, changed, allowed in _lost(field, text, place):
            name = f"{field.name} #{number}: {what}"
            yield Case(name, field.probe, field.checks, changed, allowed, field.variant)


_Change = tuple[str, str, frozenset[str]]


def _sick(field: Field) -> Iterator[_Change]:
    for new in field.sick:
        yield f"sick {new!r}", new, SICK
        for how, written in _otherwise(field, new):
            yield f"sick {new!r}, {how}: {written!r}", written, NOT_PASS
        for how, written in _in_other_units(new):
            yield f"sick {new!r} {how}: {written!r}", written, NOT_PASS
    for new in field.wrong:
        yield f"impossible {new!r}", new, NOT_PASS


def _healthy(field: Field, value: str) -> Iterator[_Change]:
    for new in field.good:
        yield f"healthy {new!r}", new, HEALTHY
    for new in field.odd:
        yield f"odd {new!r}", new, NOT_FAIL
    for how, written in _otherwise(field, value):
        yield f"healthy {value!r}, {how}: {written!r}", written, ANY if field.listed else NOT_FAIL
    for how, written in _in_other_units(value):
        yield f"healthy {value!r} {how}: {written!r}", written, NOT_FAIL
    for written in _FOREIGN.get(value.lower(), ()):
        yield f"{value!r} in another language: {written!r}", written, NOT_PASS if field.owed else ANY


def _nothing_told(field: Field) -> frozenset[str]:
    return NOT_FAIL if not field.owed else NOT_PASS if field.word or field.listed else UNTOLD


def _untold(field: Field) -> Iterator[_Change]:
    own = NOT_TOLD.get(field.probe, ("null", "") if field.json else _ELSEWHERE)
    for new in own:
        yield f"not told {new!r}", new, _nothing_told(field)
    for new in FOREIGN:
        if new not in own:
            yield f"told in another tool's way {new!r}", new, NOT_PASS if field.owed else ANY
    for new in NO_ANSWER:
        yield f"no answer {new!r}", new, NOT_PASS if field.owed or field.device else ANY


def _lost(field: Field, text: str, place: tuple[int, int]) -> Iterator[_Change]:
    """Yield the output without the line of the field, and without the field itself where ``whole`` says what it is."""
    first, last = place
    untold = field.lost or _nothing_told(field)
    line, end = text.rfind("\n", 0, first) + 1, text.find("\n", last) + 1 or len(text)
    if text.count("\n") > 2:
        yield "line lost", text[:line] + text[end:], untold
    for match in re.finditer(field.whole, text, re.MULTILINE) if field.whole else ():
        before, behind = text[: match.start()], text[match.end() :]
        if match.start() <= first and last <= match.end():
            yield "field lost", before + behind, untold
            yield "field twice", before + match.group() * 2 + behind, NOT_FAIL
            for new in field.sick[:2]:
                sick = text[match.start() : first] + _fitting(text, first, new, field) + text[last : match.end()]
                yield f"sick after healthy {new!r}", before + match.group() + sick + behind, NOT_PASS
                yield f"sick first {new!r}", before + sick + match.group() + behind, NOT_PASS


def of_parts(parts: Parts) -> Iterator[Case]:
    """Yield an output that lost a part, that has one twice, and that ends in the middle of one."""
    text = parts.text()
    for number, (first, last) in enumerate(parts.places()):
        name = f"{parts.probe} part #{number} of {parts.part[:40]!r}"

        def case(what: str, changed: str, name: str = name) -> Case:
            return Case(f"{name}: {what}", parts.probe, parts.checks, changed, NOT_PASS, parts.variant)

        part = text[first:last]
        yield case("lost", text[:first] + text[last:])
        yield case("ends in its middle", text[: first + len(part) // 2])
        yield case("all before it lost", text[last:])
        if parts.twice:
            yield case("twice", text[:last] + part + text[last:])
            yield case("in place of another", _in_place_of_another(text, parts, part))


def _in_place_of_another(text: str, parts: Parts, part: str) -> str:
    """Return the output with the part in another one's place: as many as there must be, one of them twice."""
    for match in re.finditer(parts.part, text, re.MULTILINE):
        if match.group() != part:
            return text[: match.start()] + part + text[match.end() :]
    return text + part


def of_told(told: Told) -> Iterator[Case]:
    """Yield the one case of what was told."""
    name = f"{told.probe}: {told.why} ({told.old[:30]!r} {told.new[-90:]!r})"
    yield Case(name, told.probe, told.checks, told.text(), told.allowed, told.variant)


def written_oddly(text: str) -> Iterator[tuple[str, str]]:
    """Yield how people and terminals change an output without changing what it says."""
    yield "with other line ends", text.replace("\n", "\r\n")
    yield "with blank lines behind", text + "\n\n\n"
    yield "without its last line end", text.rstrip("\n")
    yield "with blanks at the line ends", re.sub(r"(?<=\S)$", "  ", text, flags=re.MULTILINE)


def _fitting(text: str, first: int, new: str, field: Field) -> str:
    """Return the value as it can stand there: a word that stands for a bare JSON value needs its quotes."""
    bare = field.json and text[first - 1] not in '"' and not re.fullmatch(r"-?\d+(\.\d+)?|true|false|null", new)
    return f'"{new}"' if bare else new


def _otherwise(field: Field, value: str) -> Iterator[tuple[str, str]]:
    """Yield a value as other writers spell it; a name has one spelling, and so has a bare number in JSON."""
    number = _QUANTITY.fullmatch(value)
    if number and not field.word and not field.json:
        digits, blank, unit, rest = number.groups()
        whole, _point, decimals = digits.partition(".")
        if decimals and "." not in rest:
            yield "decimal comma", value.replace(".", ",", 1)
        if len(whole.lstrip("-")) > 3 and not decimals:
            for mark in (",", ".", "'", " ", "\u202f"):
                yield f"grouped by {mark!r}", f"{int(whole):,}".replace(",", mark) + f"{blank}{unit or ''}{rest}"
        if unit and not rest and blank:
            yield "without the blank", f"{digits}{unit}"
            yield "without its unit", digits
    elif not number and not field.word and _WORD.fullmatch(value):
        for how, written in (("capitals", value.upper()), ("small letters", value.lower())):
            if written != value:
                yield how, written


def _in_other_units(value: str) -> Iterator[tuple[str, str]]:
    """Yield the same quantity in other units."""
    number = _QUANTITY.fullmatch(value)
    if not number or not number[3] or number[4]:
        return
    for unit, of in _UNITS.get(number[3].strip(), ()):
        yield f"in {unit}", f"{of(float(number[1])):.10g} {unit}"
