"""JSON that our own programs printed, read value by value: another type than they write makes it unreadable."""

from __future__ import annotations

import math
from typing import Any

from .host import Unreadable


class Reader:
    """Takes values of the right kind from a JSON mapping; raises Unreadable naming the place."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, dict):
            raise Unreadable(f"{where} is {type(data).__name__}, expected a mapping")
        self.data, self.where = data, where

    def text(self, key: str) -> str:
        """Return a text."""
        value = self.data.get(key)
        if not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value

    def number(self, key: str) -> float:
        """Return a finite number of at least 0."""
        value = self.data.get(key)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
            raise self._wrong(key, "a number of at least 0")
        return float(value)

    def count(self, key: str) -> int:
        """Return a whole number of at least 0."""
        value = self.data.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong(key, "a whole number of at least 0")
        return value

    def counts(self, key: str, length: int) -> tuple[int, ...]:
        """Return so many whole numbers of at least 0."""
        values = self.data.get(key)
        if not isinstance(values, list) or len(values) != length:
            raise self._wrong(key, f"{length} whole numbers")
        whole = Reader({str(index): value for index, value in enumerate(values)}, f"{self.where}: {key}")
        return tuple(whole.count(str(index)) for index in range(length))

    def inner(self, key: str) -> Reader:
        """Return the reader of the mapping under ``key``."""
        return Reader(self.data.get(key), f"{self.where}: {key}")

    def _wrong(self, key: str, expected: str) -> Unreadable:
        return Unreadable(f"{self.where}: {key} is {self.data.get(key)!r:.60}, expected {expected}")
