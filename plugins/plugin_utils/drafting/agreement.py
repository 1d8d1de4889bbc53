"""What several hosts say together: what they agree in, where they differ, and what not all of them tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Facts = tuple[Mapping[str, Any], Mapping[str, str]]
_SHOWN = 4


@dataclass(frozen=True)
class Agreement:
    """Values by key that hold for all hosts; what differs by key and host; why a key could not be read."""

    values: Mapping[str, Any]
    differences: Mapping[str, Mapping[str, Any]]
    unseen: Mapping[str, str]


def agreed(facts: Mapping[str, Facts], memory_tolerance_percent: float) -> Agreement:
    """Return what the hosts' facts (values, and why others could not be read) come to; nothing is averaged.

    Of two values that are limits by their nature one holds for all hosts, though they differ: the largest memory, if
    the others lie within the tolerance, and the smallest number of sensors, as a class asks for so many at least.
    """
    values: dict[str, Any] = {}
    differences: dict[str, dict[str, Any]] = {}
    unseen: dict[str, str] = {}
    for key in dict.fromkeys(key for each, why in facts.values() for key in (*each, *why)):
        seen = {host: each[key] for host, (each, _) in facts.items() if key in each}
        without = {host: why.get(key, "not told") for host, (_, why) in facts.items() if key in why or host not in seen}
        if without:
            unseen[key] = _reasons(without, len(facts))
        if not seen:
            continue
        if all(value == next(iter(seen.values())) for value in seen.values()):
            values[key] = next(iter(seen.values()))
            continue
        differences[key] = seen
        if key == "memory.mib":
            largest = max(seen.values())
            if (largest - min(seen.values())) * 100 <= largest * memory_tolerance_percent:
                values[key] = largest
        elif key == "bmc.sensors.count":
            values[key] = min(seen.values())
    return Agreement(values, differences, unseen)


def _reasons(reasons: Mapping[str, str], hosts: int) -> str:
    """Return the reasons, each with the hosts it is true of unless that is all of them."""
    by_reason: dict[str, list[str]] = {}
    for host, why in reasons.items():
        by_reason.setdefault(why, []).append(host)
    if len(by_reason) == 1 and len(reasons) == hosts:
        return next(iter(by_reason))
    return "; ".join(f"{', '.join(at[:_SHOWN])}{_more(at)}: {why}" for why, at in by_reason.items())


def _more(hosts: list[str]) -> str:
    return f" and {len(hosts) - _SHOWN} more" if len(hosts) > _SHOWN else ""
