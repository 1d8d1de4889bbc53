"""What several hosts say together: what they agree in, where they differ, and what not all of them tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.shortened import shortened

Facts = tuple[Mapping[str, Any], Mapping[str, str]]
_SHOWN = 4
# What a class asks for at least.
_LEAST = ("memory.mib", "bmc.sensors.count", "bmc.airflow.fans")


@dataclass(frozen=True)
class Agreement:
    """Values by key that hold for all hosts, and what differs by key and host.

    ``unseen`` says by key why no host tells it, ``unread`` why not all do that the others do.
    """

    values: Mapping[str, Any]
    differences: Mapping[str, Mapping[str, Any]]
    unseen: Mapping[str, str]
    unread: Mapping[str, str]


def agreed(facts: Mapping[str, Facts], memory_tolerance_percent: float) -> Agreement:
    """Return what the hosts' facts (values, and why others could not be read) come to; nothing is averaged.

    Of what a class asks for at least the largest holds for all hosts: memory, if the others lie within the tolerance,
    and the numbers of sensors and of fans that turn, as those that a host lacks are to be found.
    """
    values: dict[str, Any] = {}
    differences: dict[str, dict[str, Any]] = {}
    unseen: dict[str, str] = {}
    unread: dict[str, str] = {}
    for key in dict.fromkeys(key for each, why in facts.values() for key in (*each, *why)):
        seen = {host: each[key] for host, (each, _) in facts.items() if key in each}
        without = {host: why.get(key, "not told") for host, (_, why) in facts.items() if key in why or host not in seen}
        if without:
            (unread if seen else unseen)[key] = _reasons(without, len(facts))
        if not seen:
            continue
        if all(value == next(iter(seen.values())) for value in seen.values()):
            values[key] = next(iter(seen.values()))
            continue
        differences[key] = seen
        if key in _LEAST:
            largest = max(seen.values())
            if key != "memory.mib" or (largest - min(seen.values())) * 100 <= largest * memory_tolerance_percent:
                values[key] = largest
    return Agreement(values, differences, unseen, unread)


def _reasons(reasons: Mapping[str, str], hosts: int) -> str:
    """Return the reasons, each with the hosts it is true of unless that is all of them."""
    by_reason: dict[str, list[str]] = {}
    for host, why in reasons.items():
        by_reason.setdefault(why, []).append(host)
    if len(by_reason) == 1 and len(reasons) == hosts:
        return next(iter(by_reason))
    return "; ".join(f"{shortened(at, _SHOWN)}: {why}" for why, at in by_reason.items())
