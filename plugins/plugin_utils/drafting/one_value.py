"""The one value that all parts of a host have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host.host import Unreadable


def whole(number: float) -> float:
    """Return a number as an integer where it is one: 400.0 as 400."""
    return int(number) if float(number).is_integer() else number


def one(what: str, values: Mapping[str, Any]) -> Any:
    """Return the value that all parts have; raises Unreadable where there are several, or a part's is None."""
    unread = [part for part, value in values.items() if value is None]
    if unread or not values:
        raise Unreadable(f"{what} could not be read of {', '.join(unread[:8]) or 'any part'}")
    found: dict[Any, list[str]] = {}
    for part, value in values.items():
        found.setdefault(value, []).append(part)
    if len(found) > 1:
        parts = "; ".join(f"{value} at {', '.join(at[:4])}" for value, at in found.items())
        raise Unreadable(f"{what} differs on one host: {parts}")
    return next(iter(found))
