"""Reading declared data: a JSON or YAML mapping becomes a dataclass by the type hints of its fields."""

from __future__ import annotations

import difflib
import functools
import json
import re
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import MusterError

T = TypeVar("T")
_UNIONS = (Union, getattr(types, "UnionType", Union))


class ReadError(MusterError, ValueError):
    """Data that is not as declared, said in one line: ``FILE: KEY: found FOUND, expected EXPECTED``.

    ``path`` is the key path (``gpu.parts[1].slot``), relative to what the function that raised it was given.
    """

    def __init__(self, path: str, found: str, expected: str, file: str = "") -> None:
        self.path, self.found, self.expected, self.file = path, found, expected, file
        where = "".join(f"{part}: " for part in (file, path) if part)
        super().__init__(f"{where}found {found}, expected {expected}")

    def under(self, parent: str, file: str = "") -> ReadError:
        """Return the same error of the same class as it reads from the outside: below ``parent``, in ``file``."""
        return type(self)(joined(parent, self.path), self.found, self.expected, file or self.file)


class Rule(NamedTuple):
    """What ``Annotated`` adds to a type: a test of the value that was read, and what errors say is expected.

    ``{}`` in ``expected`` stands for the type in words: ``{} of at least 1`` is ``a whole number of at least 1``. With
    ``of_value`` the words are for a value that does not fit; what is missing or of another type keeps its own.
    """

    expected: str
    fits: Callable[[Any], bool]
    of_value: bool = False


class Converted(NamedTuple):
    """What ``Annotated`` takes for a type that the reader does not know: a function from the data to the value.

    The function raises ReadError with a path relative to its argument.
    """

    expected: str
    convert: Callable[[Any], Any]


def at_least(least: float) -> Rule:
    """Return the rule of a number that is not below ``least``."""
    return Rule(f"{{}} of at least {least:g}", lambda value: bool(value >= least))


def above(limit: float) -> Rule:
    """Return the rule of a number greater than ``limit``."""
    return Rule(f"{{}} above {limit:g}", lambda value: bool(value > limit))


def between(least: float, most: float) -> Rule:
    """Return the rule of a number from ``least`` to ``most``, both included."""
    return Rule(f"{{}} from {least:g} to {most:g}", lambda value: bool(least <= value <= most))


def matching(pattern: str, expected: str) -> Rule:
    """Return the rule of a text that the regular expression describes as a whole."""
    compiled = re.compile(pattern, re.ASCII)
    return Rule(expected, lambda value: compiled.fullmatch(value) is not None)


Text = Annotated[str, Rule("text", bool)]
Path = Annotated[str, matching(r"(?s)/.*", "an absolute path")]
Count = Annotated[int, at_least(0)]
Positive = Annotated[int, at_least(1)]
Number = Annotated[float, at_least(0)]
AboveZero = Annotated[float, above(0)]


def read(kind: type[T], data: Any, path: str = "", file: str = "", extra: bool = False) -> T:
    """Return ``data`` as an object of the dataclass ``kind``; raises ReadError with the path below ``path``.

    A field's name is its key, less an underscore at the end (``class_``). Every key has to be known, and there unless
    its field has a default; null stands for the default too where the field takes no null. ``extra`` passes over keys
    that are not known, as a program says more than its reader needs. What a dataclass raises as ReadError from
    ``__post_init__`` has a path relative to itself. Lists become tuples, numbers stay as they are: true is no number,
    neither are NaN and infinity.
    """
    hint: Any = kind
    try:
        value: T = _reader(hint, extra).read(data)
    except ReadError as exc:
        raise exc.under(path, file) from None
    return value


def read_as(hint: Any, data: Any, path: str = "", file: str = "") -> Any:
    """Return ``data`` as what any hint of a field says, such as ``tuple[Count, ...]``; raises ReadError."""
    try:
        return _reader(hint).read(data)
    except ReadError as exc:
        raise exc.under(path, file) from None


def plain(value: Any) -> Any:
    """Return the JSON data from which ``read`` gives an equal value."""
    if is_dataclass(value):
        return {each.name.rstrip("_"): plain(getattr(value, each.name)) for each in fields(value) if each.init}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def shown(value: Any) -> str:
    """Return a value as an error names it."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    return json.dumps(value, ensure_ascii=False, default=str)


def joined(parent: str, path: str) -> str:
    """Return the path of a key below a parent: ``gpu`` and ``parts[1]`` are ``gpu.parts[1]``."""
    return f"{parent}.{path}" if parent and path and path[0] != "[" else parent + path


def one_of(allowed: Iterable[object]) -> str:
    """Return ``one of a, b`` as errors say it, or that there is nothing to choose from."""
    names = ", ".join(map(str, allowed))
    return f"one of {names}" if names else "none, as nothing is declared to choose from"


def check_keys(data: Any, known: Collection[str] | None) -> None:
    """Raise ReadError unless ``data`` is a mapping whose keys are texts and, where given, among the known ones."""
    if not isinstance(data, Mapping):
        raise ReadError("", shown(data), "a mapping")
    for key in data:
        if not isinstance(key, str):
            raise ReadError("", f"key {shown(key)}", "a text key")
        if known is not None and key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ReadError("", f"unknown key {shown(key)}", (one_of(known) if known else "no keys") + hint)


class _Reader(NamedTuple):
    """How one hint is read, and what errors call it."""

    expected: str
    read: Callable[[Any], Any]
    nullable: bool = False


@functools.cache
def _reader(hint: Any, extra: bool = False) -> _Reader:
    below = functools.partial(_reader, extra=extra)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        known = not any(isinstance(marker, Converted) for marker in arguments[1:])
        return _annotated(below(arguments[0] if known else Any), arguments[1:])
    if origin in _UNIONS:
        return _union([below(each) for each in arguments])
    if origin is Literal:
        return _scalar(
            one_of(arguments),
            lambda value: any(
                value == each and isinstance(value, bool) == isinstance(each, bool) for each in arguments
            ),
        )
    if isinstance(origin, type) and issubclass(origin, Mapping):
        closed = get_args(arguments[0]) if get_origin(arguments[0]) is Literal else ()
        return _mapping(closed, below(str if closed else arguments[0]).read, below(arguments[1]).read)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        length = None if origin is not tuple or arguments[-1] is ... else len(arguments)
        return _list([below(each).read for each in arguments if each is not ...], length)
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass(hint, extra)
    if hint in _SCALARS:
        return _scalar(*_SCALARS[hint])
    raise TypeError(f"{hint!r} is no type that declared data can have")


def _is_number(value: Any, kinds: tuple[type, ...]) -> bool:
    # A bool is an int to Python, not to an operator; NaN compares as neither below nor above a limit.
    number = isinstance(value, kinds) and not isinstance(value, bool)
    return number and -sys.float_info.max <= value <= sys.float_info.max


_SCALARS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ("text", lambda value: isinstance(value, str)),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: _is_number(value, (int,))),
    float: ("a number", lambda value: _is_number(value, (int, float))),
    type(None): ("null", lambda value: value is None),
    Any: ("a value", lambda _value: True),
}


def _scalar(expected: str, fits: Callable[[Any], bool]) -> _Reader:
    def read_scalar(value: Any) -> Any:
        if not fits(value):
            raise ReadError("", shown(value), expected)
        return value

    return _Reader(expected, read_scalar)


def _annotated(inner: _Reader, markers: Iterable[Any]) -> _Reader:
    for marker in markers:
        if isinstance(marker, Converted):
            inner = _Reader(*marker)
        elif isinstance(marker, Rule):
            inner = _ruled(inner, marker)
    return inner


def _ruled(inner: _Reader, rule: Rule) -> _Reader:
    expected = rule.expected.replace("{}", inner.expected)
    read_inner = inner.read if rule.of_value else _worded(inner, expected)

    def read_ruled(data: Any) -> Any:
        value = read_inner(data)
        if not rule.fits(value):
            raise ReadError("", shown(data), expected)
        return value

    return _Reader(inner.expected if rule.of_value else expected, read_ruled)


def _worded(inner: _Reader, expected: str) -> Callable[[Any], Any]:
    """Return the reader's function, with other words for data that is of another type altogether."""

    def read_worded(data: Any) -> Any:
        try:
            return inner.read(data)
        except ReadError as exc:
            whole = not exc.path and exc.expected == inner.expected
            raise (ReadError("", exc.found, expected) if whole else exc) from None

    return read_worded


def _union(readers: Sequence[_Reader]) -> _Reader:
    some = [each for each in readers if each.expected != "null"]
    nullable = len(some) < len(readers)
    expected = " or ".join(each.expected for each in some) + (", or null" if nullable else "")
    only = _worded(some[0], expected) if len(some) == 1 else None

    def read_union(data: Any) -> Any:
        if data is None and nullable:
            return None
        if only:
            return only(data)
        for each in some:
            try:
                return each.read(data)
            except ReadError:
                continue
        raise ReadError("", shown(data), expected)

    return _Reader(expected, read_union, nullable)


def _item(at: str, read_item: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read_item(value)
    except ReadError as exc:
        raise exc.under(at) from None


def _list(items: Sequence[Callable[[Any], Any]], length: int | None) -> _Reader:
    expected = "a list" if length is None else f"a list of {length}"

    def read_list(data: Any) -> tuple[Any, ...]:
        if not isinstance(data, (list, tuple)) or length not in (None, len(data)):
            raise ReadError("", shown(data), expected)
        readers = list(items) * (len(data) if length is None else 1)
        return tuple(_item(f"[{index}]", readers[index], value) for index, value in enumerate(data))

    return _Reader(expected, read_list)


def _mapping(closed: tuple[str, ...], read_key: Callable[[Any], Any], read_item: Callable[[Any], Any]) -> _Reader:
    """Return the reader of a mapping; with ``closed``, the keys of a ``Literal``, it has exactly those."""

    def read_mapping(data: Any) -> dict[str, Any]:
        check_keys(data, closed or None)
        for key in closed:
            if key not in data:
                raise ReadError(key, "nothing", "a value")
        for key in data:
            try:
                read_key(key)
            except ReadError as exc:
                raise ReadError("", f"key {exc.found}", exc.expected) from None
        return {key: _item(key, read_item, value) for key, value in data.items()}

    return _Reader("a mapping", read_mapping)


def _dataclass(kind: Any, extra: bool) -> _Reader:
    hints = get_type_hints(kind, include_extras=True)
    readers: dict[str, tuple[str, _Reader, bool]] = {}
    for each in fields(kind):
        if each.init:
            has_default = each.default is not MISSING or each.default_factory is not MISSING
            readers[each.name.rstrip("_")] = (each.name, _reader(hints[each.name], extra), has_default)

    def read_dataclass(data: Any) -> Any:
        check_keys(data, None if extra else readers)
        values = {}
        for key, (name, reader, optional) in readers.items():
            if key not in data and not optional:
                raise ReadError(key, "nothing", reader.expected)
            value = data.get(key)
            if value is not None or (key in data and (reader.nullable or not optional)):
                values[name] = _item(key, reader.read, value)
        return kind(**values)

    return _Reader("a mapping", read_dataclass)
