"""What becomes of all behind a boundary, such as the uplink of a rack: held, unless they are slow by themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.blame import (
    CLEARED,
    HELD,
    LEAST_CONFIRMED,
    Blame,
    blame_of,
    both,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import Facts, Reference
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import (
    BOUNDARY,
    NODE,
    PAIR,
    STRONG_SIGMAS,
    Channel,
    Suspect,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.slow_nodes import confirmed_nodes

# An uplink that carries too little is slow while all behind it exchange data, and fast when few are asked again. It
# slows nearly all of them; where nodes of both sides are slow by themselves it is fewer.
UNDER_LOAD = 0.75


def slow_boundaries(facts: Facts, reference: Reference, rejected: frozenset[str] = frozenset()) -> list[Blame]:
    """Return what becomes of the members behind a boundary: held, unless what was slow is fast, or they themselves.

    Where everybody on one of two sides is ``rejected`` for itself, nothing lies between.
    """
    found: list[Blame] = []
    for suspect in facts.suspects:
        if suspect.kind != BOUNDARY:
            continue
        channel = facts.channels[suspect.channel]
        between = np.zeros(len(facts.again.one), dtype=bool)
        between[facts.again.across(suspect.members, suspect.beyond)] = True
        within = facts.again.touching(suspect.members) & ~between
        late, again = (each[~np.isnan(each)] for each in (channel.again[between], channel.again[within]))
        if not suspect.declared and len(again) and float(np.median(again)) > channel.threshold:
            # They are slow with each other after all: it is the nodes.
            alone = suspect._replace(kind=NODE, strong=True, unit="", beyond=())
            each = {node: [alone._replace(members=(node,))] for node in suspect.members}
            found += confirmed_nodes(facts, reference, each)
            continue
        names = facts.names(suspect.behind)
        if suspect.beyond and any(rejected.issuperset(facts.names(side)) for side in (suspect.members, suspect.beyond)):
            found += [Blame(name, CLEARED, kind=BOUNDARY) for name in names if name not in rejected]
            found += _slow_beside(facts, suspect)
            continue
        enough, text = len(late) >= LEAST_CONFIRMED, "could not be measured again"
        if enough and float(np.median(late)) <= channel.threshold:
            if suspect.beyond or _slow_share(facts, suspect) < UNDER_LOAD:
                found += [Blame(name, CLEARED, kind=BOUNDARY) for name in names]
                found += _slow_beside(facts, suspect)
                continue
            text = "not again in the few exchanges that were measured later, so perhaps under load alone"
        elif enough:
            text = f"again in {len(late)} exchanges"
        values = channel.value[facts.sweep.exchanges.across(suspect.members, suspect.beyond)]
        said = f"{text}: suspect what lies between, no node is blamed"
        blame = blame_of(facts, suspect, HELD, values, said)
        found += [replace(blame, node=name) for name in dict.fromkeys(names) if name in facts.tested]
    return found


def _slow_share(facts: Facts, suspect: Suspect) -> float:
    """Return what part of the exchanges across a boundary the sweep showed slow for certain."""
    channel = facts.channels[suspect.channel]
    x = channel.x[facts.sweep.exchanges.across(suspect.members, suspect.beyond)]
    return float(np.mean(x[~np.isnan(x)] > _certain(channel)))


def _certain(channel: Channel) -> float:
    return max(channel.threshold, STRONG_SIGMAS * channel.sigma)


def _slow_beside(facts: Facts, suspect: Suspect) -> list[Blame]:
    """Hold both of each slow pair that a boundary explained which is none, but those of nodes slow by themselves."""
    channel, exchanges = facts.channels[suspect.channel], facts.sweep.exchanges
    rows = exchanges.across(suspect.members, suspect.beyond)
    alone = exchanges.touching([each.members[0] for each in facts.single])
    rows = rows[(channel.x[rows] > _certain(channel)) & ~alone[rows]]
    found: list[Blame] = []
    for row in np.unique(rows).tolist():
        pair = int(exchanges.one[row]), int(exchanges.other[row])
        again = channel.again[facts.measured_again.get(pair, [])]
        if len(again) >= LEAST_CONFIRMED and float(np.median(again)) <= channel.threshold:
            continue
        slow = suspect._replace(kind=PAIR, members=pair, beyond=(), unit="", slowdown=float(channel.x[row]))
        blame = blame_of(facts, slow, HELD, channel.value[[row]], "not measured again, so no node is blamed")
        found += both(facts, blame, facts.names(pair))
    return found


def perhaps_slow_inside(facts: Facts) -> set[int]:
    """Return who is held for a boundary of which nobody showed that those behind it are fast with each other.

    Of a sweep that was cut short no two hosts of a small rack need have met.
    """
    found: set[int] = set()
    for suspect in facts.suspects:
        if suspect.kind != BOUNDARY or suspect.beyond or found.issuperset(suspect.members):
            continue
        channel, inside = facts.channels[suspect.channel], np.zeros(len(facts.matrix.nodes), dtype=bool)
        inside[list(suspect.members)] = True
        x = np.concatenate(
            [
                values[rows[inside[each.one[rows]] & inside[each.other[rows]]]]
                for each, values in ((facts.sweep.exchanges, channel.x), (facts.again, channel.again))
                for rows in [np.concatenate([each.rows_of(node) for node in suspect.members])]
            ]
        )
        x = x[~np.isnan(x)]
        if not len(x) or float(np.median(x)) > channel.threshold:
            found.update(suspect.members)
    return found
