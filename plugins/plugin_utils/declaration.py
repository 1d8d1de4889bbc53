"""Reading what a site declares: YAML whose every fault is named by file, key, what was found and what was expected."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from ansible_collections.muster.cluster.plugins.module_utils.expectations import shown
from ansible_collections.muster.cluster.plugins.plugin_utils.node_names import PatternError, expand

T = TypeVar("T")
_REQUIRED: Any = object()


class FleetError(ValueError):
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


def one_of(allowed: Collection[str]) -> str:
    """Return ``one of a, b``, or what to say when there is nothing to choose from."""
    return f"one of {', '.join(allowed)}" if allowed else "none, as nothing is declared to choose from"


class Section:
    """One mapping of a declaration, known by where it stands, from which typed values are taken.

    Keys outside ``keys`` are an error at once, with the nearest known one. ``keys=None`` takes any text key.
    """

    def __init__(self, data: Any, file: str, key: str, keys: Collection[str] | None) -> None:
        self.file, self.key = file, key
        if not isinstance(data, Mapping):
            raise FleetError(file, key, shown(data), "a mapping")
        self.data = data
        for name in data:
            if not isinstance(name, str):
                raise FleetError(file, key, f"key {shown(name)}", "a text key")
            if keys is not None and name not in keys:
                near = difflib.get_close_matches(name, keys, 1)
                hint = f"{one_of(keys)} (did you mean {near[0]}?)" if near else one_of(keys)
                raise FleetError(file, key, f"unknown key {shown(name)}", hint)

    def path(self, key: str) -> str:
        """Return the key path of one of this section's keys."""
        return f"{self.key}.{key}" if self.key else key

    def error(self, key: str, expected: str, found: str | None = None) -> FleetError:
        """Return the error about one key; what was found is its value unless said otherwise."""
        return FleetError(self.file, self.path(key), found or shown(self.data.get(key)), expected)

    def __contains__(self, key: str) -> bool:
        return self.data.get(key) is not None

    def _take(self, key: str, kinds: tuple[type, ...], expected: str, default: Any) -> Any:
        value = self.data.get(key)
        if value is None and default is not _REQUIRED:
            return default
        # bool is an int to Python, not to an operator.
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self.error(key, expected)
        return value

    def text(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a text that is not empty."""
        value = self._take(key, (str,), "text", default)
        if value == "":
            raise self.error(key, "text that is not empty")
        return value

    def choice(self, key: str, allowed: Collection[str], default: Any = _REQUIRED) -> Any:
        """Return one of the allowed texts."""
        value = self._take(key, (str,), one_of(allowed), default)
        if value is not default and value not in allowed:
            raise self.error(key, one_of(allowed))
        return value

    def names(self, key: str, check: Callable[[str], Any], expected: str) -> list[str]:
        """Return the names that a pattern stands for, once ``check`` takes the first and the last of them."""
        pattern: str = self.text(key)
        try:
            names = expand(pattern)
        except PatternError as exc:
            raise self.error(key, exc.expected, exc.found) from exc
        if not (check(names[0]) and check(names[-1])):
            raise self.error(key, expected)
        return names

    def number(self, key: str, least: float, default: Any = _REQUIRED, whole: bool = False) -> Any:
        """Return a number of at least ``least``."""
        expected = f"a {'whole ' if whole else ''}number of at least {least:g}"
        value = self._take(key, (int,) if whole else (int, float), expected, default)
        if value is not default and not value >= least:
            raise self.error(key, expected)
        return value

    def flag(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return true or false."""
        return self._take(key, (bool,), "true or false", default)

    def texts(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a tuple of texts."""
        values = self._take(key, (list, tuple), "a list of texts", default)
        if values is default:
            return default
        for index, value in enumerate(values):
            if not isinstance(value, str) or not value:
                raise self.error(f"{key}[{index}]", "text", shown(value))
        return tuple(values)

    def section(self, key: str, keys: Collection[str] | None, required: bool = False) -> Section:
        """Return a nested mapping, an empty one if the key is absent and not required."""
        value = self.data.get(key)
        return Section({} if value is None and not required else value, self.file, self.path(key), keys)

    def sections(self, key: str, keys: Collection[str], required: bool = False) -> Iterator[Section]:
        """Return the mappings of a list; one that is required is not empty."""
        values: Sequence[Any] = self._take(key, (list, tuple), "a list", _REQUIRED if required else ())
        if required and not values:
            raise self.error(key, "at least one entry", "an empty list")
        return (Section(value, self.file, f"{self.path(key)}[{n}]", keys) for n, value in enumerate(values))
