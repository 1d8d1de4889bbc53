"""Reading what a site declares: YAML whose every fault is named by file, key, what was found and what was expected."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import (
    Converted,
    ReadError,
    Text,
    one_of,
    read,
    read_as,
    shown,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.node_names import PatternError, expand

T = TypeVar("T")


class FleetError(MusterError, ValueError):
    """A declaration that cannot be used, said in one line: ``FILE: KEY: found FOUND, expected EXPECTED``."""

    def __init__(self, file: str, key: str, found: str, expected: str) -> None:
        self.file, self.key, self.found, self.expected = file, key, found, expected
        super().__init__(f"{file}: {key + ': ' if key else ''}found {found}, expected {expected}")


class _Loader(yaml.CSafeLoader):
    """YAML in which a key given twice is an error; the last one would win without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                problem = f"key {shown(key)} twice in one mapping"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            if isinstance(key, Hashable):
                seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: str | Path, file: str | None = None) -> Any:
    """Return the data of one YAML file; ``file`` is its name in errors. Raises FleetError."""
    file = file or str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "bytes that are not UTF-8"
        raise FleetError(file, "", str(reason), "a readable YAML file") from exc
    try:
        data = yaml.load(text, _Loader)
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(exc, "problem", None)
        raise FleetError(file, where, f"text that is not YAML{f' ({problem})' if problem else ''}", "YAML") from exc
    if data is None:
        raise FleetError(file, "", "an empty file", "a mapping")
    return data


@contextmanager
def faults_of(file: str, key: str = "") -> Iterator[None]:
    """Say every ReadError of what is done below ``key`` of a file as FleetError."""
    try:
        yield
    except ReadError as exc:
        whole = exc.under(key, file)
        raise FleetError(whole.file, whole.path, whole.found, whole.expected) from None


def declared(kind: type[T], data: Any, file: str, key: str = "") -> T:
    """Return ``data``, which stands at ``key`` of a file, as the dataclass ``kind``. Raises FleetError."""
    with faults_of(file, key):
        return read(kind, data)


def filled(data: Any, defaults: Mapping[str, Any]) -> Any:
    """Return a mapping with defaults for what it leaves out or says null to; anything else as it is."""
    if not isinstance(data, Mapping):
        return data
    return {**defaults, **{key: value for key, value in data.items() if value is not None}}


def choice(path: str, value: Any, allowed: Collection[str]) -> str:
    """Return one of the allowed texts; raises ReadError."""
    if not isinstance(value, str) or value not in allowed:
        raise ReadError(path, shown(value), one_of(allowed))
    return value


class Pattern(NamedTuple):
    """A pattern such as ``gpu-[01-16]`` as it is written, and the names that it stands for."""

    text: str
    names: tuple[str, ...]


def _pattern(expected: str, fits: Callable[[str], Any]) -> Callable[[Any], Pattern]:
    def read_pattern(data: Any) -> Pattern:
        text: str = read_as(Text, data)
        try:
            names = expand(text)
        except PatternError as exc:
            raise ReadError("", exc.found, exc.expected) from exc
        if not (fits(names[0]) and fits(names[-1])):
            raise ReadError("", shown(text), expected)
        return Pattern(text, tuple(names))

    return read_pattern


def names(expected: str, fits: Callable[[str], Any]) -> Converted:
    """Return what reads a pattern as ``Pattern``, once ``fits`` takes the first and the last of its names."""
    return Converted("text", _pattern(expected, fits))


def name_pattern(expected: str, fits: Callable[[str], Any]) -> Converted:
    """Return what reads a pattern as ``names`` does, and keeps it as it is written."""
    return Converted("text", lambda data: _pattern(expected, fits)(data).text)


def internet(parse: Callable[[str], object], expected: str) -> Converted:
    """Return what reads a text that ``parse``, a function of ``ipaddress``, takes."""

    def read_address(data: Any) -> str:
        text: str = read_as(Text, data)
        try:
            parse(text)
        except ValueError as exc:
            raise ReadError("", shown(text), expected) from exc
        return text

    return Converted("text", read_address)


def each_once(path: str, values: Iterable[object], what: str = "each one once", key: str = "") -> None:
    """Raise ReadError for the first value of a list, or of ``key`` of its entries, that was there before."""
    seen: list[object] = []
    for index, value in enumerate(values):
        if value in seen:
            raise ReadError(f"{path}[{index}]{key}", f"{shown(value)} again", what)
        seen.append(value)
