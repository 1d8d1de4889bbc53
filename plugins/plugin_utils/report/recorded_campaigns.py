"""Which recorded campaigns of acceptance are worth showing, read from the ledger one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import LatencyProfile
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import (
    Settings,
    places_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.round_summary import round_summary
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Reader, StoredRound
from ansible_collections.muster.cluster.plugins.plugin_utils.report.acceptance_shown import Recorded
from ansible_collections.muster.cluster.plugins.plugin_utils.report.measured import has_program, measured

STAGE = "acceptance"
# Nodes that were tested again one by one have campaigns of two or three; those of the whole fleet are what tells.
CAMPAIGNS_AT_MOST = 4

# What one round showed, in one line, by its plan and observations.
Summary = Callable[[StoredRound], str]


def campaigns_of(evidence: Mapping[str, Sequence[Evidence]], plans: Iterable[StoredRound]) -> list[str]:
    """Return the campaigns that the nodes' newest evidence of acceptance names, that of most nodes first.

    One that has rounds and no evidence yet comes after them if it is the newest of all: it is running, or stopped.
    """
    with_program = {stored.campaign: stored.started for stored in plans if has_program(stored)}
    counted = _named(evidence)
    found = [name for name in counted if name in with_program]
    found.sort(key=lambda name: (-counted[name], -with_program[name]))
    newest = max(with_program, key=lambda name: with_program[name], default=None)
    chosen = found[:CAMPAIGNS_AT_MOST]
    return [*chosen, newest] if newest is not None and newest not in found else chosen


def lost_campaigns(evidence: Mapping[str, Sequence[Evidence]], plans: Iterable[StoredRound]) -> tuple[str, ...]:
    """Return what has to be said of campaigns that evidence names and of which no round is recorded."""
    known = {stored.campaign for stored in plans}
    return tuple(
        f"Campaign {name}, which the acceptance evidence of {count:,} node{'' if count == 1 else 's'} names, has no "
        "rounds in the ledger, expected at least one: nothing of it can be shown."
        for name, count in sorted(_named(evidence).items())
        if name not in known
    )


def _named(evidence: Mapping[str, Sequence[Evidence]]) -> Counter[str]:
    """Return of how many nodes the newest evidence of acceptance names a campaign."""
    counted: Counter[str] = Counter()
    for records in evidence.values():
        mine = [record for record in records if record.stage == STAGE]
        if mine and (name := max(mine, key=lambda one: one.started).detail.get("campaign")):
            counted[str(name)] += 1
    return counted


def recorded_campaign(
    ledger: Reader,
    campaign: str,
    classes: Mapping[str, str | None],
    profile: LatencyProfile | None,
    summary_of: Summary,
) -> Recorded:
    """Return one campaign; ``classes`` is the hardware class by node."""
    rounds: list[StoredRound] = []
    said: dict[int, str] = {}

    def summarized() -> Iterator[StoredRound]:
        for stored in ledger.each_round(campaign):
            rounds.append(replace(stored, observations=None))
            if stored.finished is not None:
                said[stored.number] = summary_of(stored)
            yield stored

    found = measured(summarized())
    named = {node for stored in rounds for group in _groups(stored) for node in group}
    used = sorted({str(classes[node]) for node in named if classes.get(node)})
    return Recorded(campaign, ", ".join(used), tuple(rounds), found, said, profile)


def summary_by_classes(fleet: Fleet) -> Summary:
    """Return what puts a round as the operator saw it, by the expectations of its nodes' class.

    Of nodes that the fleet has no more the round's jobs speak for themselves.
    """
    places = places_of(fleet)
    known = {name: Settings.of(expect.collective, places) for name, expect in fleet.classes.items()}

    def summary_of(stored: StoredRound) -> str:
        first = next((node for group in _groups(stored) for node in group), "")
        node = fleet.hosts.get(first)
        settings = known.get(node.hardware_class or "") if node else None
        if settings is None or not has_program(stored):
            return plain_summary(stored)
        try:
            return round_summary(stored.number, stored.plan, stored.observations or (), settings)
        # A round may hold anything; it is not for its summary to keep the page from being written.
        except (TypeError, ValueError, KeyError, IndexError, AttributeError):
            return plain_summary(stored)

    return summary_of


def plain_summary(stored: StoredRound) -> str:
    """Return what a round's jobs said of themselves: how many went through, who was missing, what went wrong."""
    items = [item for item in stored.observations or () if isinstance(item, Mapping)]
    good = sum(item.get("ok") is True for item in items)
    parts = [f"{good} of {len(items)} job{'' if len(items) == 1 else 's'} went through"]
    stood = [(str(node), at) for item in items for node, at in _reached(item).items() if "absent" in at]
    if stood:
        parts.append("never came: " + ", ".join(node for node, _ in stood[:8]))
    errors = dict.fromkeys(str(item["error"])[:200] for item in items if item.get("error"))
    return "; ".join([*parts, *list(errors)[:4]])


def _groups(stored: StoredRound) -> Sequence[Sequence[str]]:
    groups = stored.plan.get("groups")
    return groups if isinstance(groups, list) else []


def _reached(item: Mapping[str, Any]) -> Mapping[str, Any]:
    reached = item.get("reached")
    if not isinstance(reached, Mapping):
        return {}
    return {node: at for node, at in reached.items() if isinstance(at, list)}
