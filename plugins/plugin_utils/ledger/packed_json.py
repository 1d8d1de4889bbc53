"""JSON of rounds with the times that nodes observed as arrays: a tenth of the memory that lists of them take."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

# Where a result of an observation has its times: by node a row of whole nanoseconds, null for who took no part.
TIMES = ("ns", "ns_p99")
# What the ranks of an observation say alike, tens of thousands of them: kept once.
ALIKE = ("versions", "transport")


def read_json(text: str | bytes) -> Any:
    """Return what a JSON text says, times of observations as arrays; raises ValueError."""
    known: dict[str, Any] = {}

    def packed(found: dict[str, Any]) -> dict[str, Any]:
        if "move" in found:
            for key in TIMES:
                if isinstance(rows := found.get(key), list):
                    found[key] = _array(rows)
        elif "rank" in found:
            for key in ALIKE:
                if key in found:
                    found[key] = known.setdefault(repr(found[key]), found[key])
        return found

    return json.loads(text, object_hook=packed)


def written_json(value: Any) -> str:
    """Return a JSON text of which ``read_json`` makes this value, without the blanks, of which a round has millions."""
    return json.dumps(value, default=_listed, separators=(",", ":"))


def _array(rows: list[Any]) -> Any:
    """Return rows of as many whole numbers above 0 as an array, NaN for null; the very rows if they are not."""
    there = [row for row in rows if isinstance(row, list)]
    if not there or len(there) + rows.count(None) != len(rows) or len(set(map(len, there))) > 1:
        return rows
    # True is an int by Python's isinstance, and no time.
    if set(map(type, chain.from_iterable(there))) != {int}:
        return rows
    # Most programs that open a ledger read no rounds.
    import numpy as np  # noqa: PLC0415

    values: Any = np.array(there)
    # Beyond that NaN's floats are not exact.
    if values.dtype != np.int64 or values.min() <= 0 or values.max() >= 2**53:
        return rows
    if len(there) == len(rows):
        return values.astype(np.int32) if values.max() < 2**31 else values
    whole: Any = np.full((len(rows), values.shape[1]), np.nan)
    whole[[row is not None for row in rows]] = values
    return whole


def _listed(values: Any) -> Any:
    """Return what an array was packed from."""
    import numpy as np  # noqa: PLC0415

    if not isinstance(values, np.ndarray):
        raise TypeError(f"Object of type {type(values).__name__} is not JSON serializable")
    if values.dtype.kind == "i":
        return values.tolist()
    gone: Any = np.isnan(values).all(axis=1)
    return [
        None if nothing else [int(value) for value in row] for row, nothing in zip(values.tolist(), gone, strict=True)
    ]
