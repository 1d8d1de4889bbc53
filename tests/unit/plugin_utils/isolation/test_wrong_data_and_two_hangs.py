"""Fleets in which several nodes send wrong data, or hang and let others seem to: nobody sound is rejected for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import Planner
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings

from tests.fleets import collectives
from tests.isolation.campaign import became_of, plan_of
from tests.isolation.faults import ABSENT, ARRIVED, EITHER, PASSED, REJECTED, WALK, Hangs, WrongData
from tests.isolation.fleet import Fleet, Spec, expectations

MOST_ROUNDS = 12
RARELY = 0.02


class Misleading(Fleet):
    """A fleet in which what hangs says that it arrived, and whom it met seems ``absent``, or both are silent."""

    absent = True

    def run(self, plan: Mapping[str, Any]) -> list[dict[str, Any]]:
        items = super().run(plan)
        bad = {node for fault in self.faults if isinstance(fault, Hangs) for node in fault.who}
        for item in items:
            reached = item.get("reached") or {}
            for node in sorted(bad.intersection(reached)):
                if node not in reached:
                    continue
                place = reached[node]
                met = [other for other, its in reached.items() if its == place and other not in bad]
                if self.absent:
                    reached.update({other: [*place[:2], ABSENT] for other in met})
                elif met:
                    item["missing"] = sorted({*item["missing"], node, *met})
                    for silent in (node, *met):
                        del reached[silent]
        return items


def played(fleet: Fleet) -> tuple[dict[str, str], set[str]]:
    """Return what became of everybody, and who of them sent wrong data that was seen."""
    members, partners = fleet.nodes[: fleet.spec.hosts], fleet.nodes[fleet.spec.hosts :]
    planner = Planner(members, partners, Settings.of(collectives(expectations(fleet.spec)), fleet.places()))
    seen: list[tuple[int, Mapping[str, Any], Mapping[str, Any]]] = []
    while not isinstance(step := planner.next_round(seen), Conclusion):
        assert step.number <= MOST_ROUNDS
        plan = plan_of(step)
        seen += [(step.number, plan, item) for item in fleet.run(plan)]
    return became_of(step), {each.sender for each in planner.facts(seen).matrix.wrong if each.sender}


def spec(hosts: int, **other: int) -> Spec:
    return Spec(hosts, "named below", 0.01, rack=4, **other)


def rejected(became: Mapping[str, str]) -> set[str]:
    return {node for node, its in became.items() if its == REJECTED}


TWELVE = tuple(f"h{number:03}" for number in range(4, 100, 8))


@pytest.mark.parametrize(
    ("hosts", "faults", "seed"),
    [
        *((100, [WrongData(TWELVE, RARELY, expect=EITHER)], seed) for seed in (16, 19, 24, 26, 28)),
        (4, [WrongData(("h2", "h4"), 0.03, expect=EITHER)], 0),
        (4, [WrongData(("h1", "h4"), 0.03, expect=EITHER)], 2),
    ],
)
def test_whose_wrong_data_was_seen_rarely_passes_no_more_than_it_blames_a_receiver(
    hosts: int, faults: Sequence[WrongData], seed: int
) -> None:
    became, senders = played(Fleet(spec(hosts, rails=2), seed, faults))
    assert senders
    assert rejected(became) <= {*faults[0].who}
    assert {node for node in senders if became[node] == PASSED} == set()


@pytest.mark.parametrize("hosts", [4, 8, 32, 100])
def test_several_that_send_wrong_data_often_are_rejected_and_nobody_is_held_with_them(hosts: int) -> None:
    nodes = Fleet(spec(hosts, rails=2), 0, []).nodes
    bad = {nodes[1], nodes[-1]} if hosts > 8 else {nodes[1]}
    became, _senders = played(Fleet(spec(hosts, rails=2), 0, [WrongData(tuple(sorted(bad)))]))
    assert rejected(became) == bad
    assert {node for node, its in became.items() if its == PASSED} == set(nodes) - bad


def test_one_that_sent_wrong_data_to_a_few_alone_is_rejected_without_more_of_it() -> None:
    found = {}
    for seed in range(6):
        became, _senders = played(Fleet(spec(100, rails=2), seed, [WrongData(("h005",), 0.06)]))
        found[seed] = rejected(became), {node for node, its in became.items() if its != PASSED}
    assert found == dict.fromkeys(found, ({"h005"}, {"h005"}))


@pytest.mark.parametrize("seed", [0, 1])
def test_nobody_is_rejected_for_a_sick_node_in_service_and_one_that_only_waits_for_it(seed: int) -> None:
    fleet = Misleading(spec(32, rails=2, spares=1), seed, [Hangs(("h05",), 3, WALK, ARRIVED)])
    fleet.add(Hangs((fleet.nodes[32],), 0, WALK, ARRIVED))
    fleet.absent = False
    became, _senders = played(fleet)
    assert rejected(became) <= {"h05"}
    assert became["h05"] != PASSED


@pytest.mark.parametrize(("after", "bad"), [(3, ("h05", "h06")), (32, ("h03", "h09"))])
def test_two_that_let_others_seem_absent_make_nobody_sound_rejected(after: int, bad: tuple[str, str]) -> None:
    fleet = Misleading(spec(64, rails=2), 1, [Hangs((each,), after, WALK, ARRIVED) for each in bad])
    became, _senders = played(fleet)
    assert rejected(became) <= set(bad)
    assert {node for node in bad if became[node] == PASSED} == set()
