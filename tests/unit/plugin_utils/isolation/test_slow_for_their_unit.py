"""Fleets of which a rack is slow now and then because of what lies before it: its nodes are held, not rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import Planner
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings

from tests.fleets import collectives
from tests.isolation.campaign import became_of, plan_of
from tests.isolation.faults import HELD, PASSED, REJECTED, Fault, Slow
from tests.isolation.fleet import Fleet, Spec, expectations

Places = Mapping[str, Mapping[str, "str | None"]]


def concluded(spec: Spec, seed: int, faults: Sequence[Fault], places: Places | None = None) -> Conclusion:
    """Return what a campaign of a fleet comes to; ``places`` are declared in place of the fleet's own."""
    fleet = Fleet(spec, seed, faults)
    planner = Planner(fleet.nodes, (), Settings.of(collectives(expectations(spec)), places or fleet.places()))
    seen: list[tuple[int, Any, Any]] = []
    while not isinstance(step := planner.next_round(seen), Conclusion):
        plan = plan_of(step)
        seen += [(step.number, plan, item) for item in fleet.run(plan)]
    return step


def became(conclusion: Conclusion, verdict: str) -> list[str]:
    return sorted(node for node, its in became_of(conclusion).items() if its == verdict)


def names(numbers: range, width: int = 2) -> list[str]:
    return [f"h{number:0{width}}" for number in numbers]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("hosts", "rack", "when", "rails"),
    [
        pytest.param(64, 8, 0.3, (), id="all rails of a rack of eight"),
        pytest.param(64, 8, 0.3, (5,), id="one rail of a rack of eight"),
        pytest.param(32, 4, 0.5, (), id="half of the exchanges of a rack of four"),
        pytest.param(32, 2, 0.4, (), id="a rack of two"),
    ],
)
def test_rack_that_is_slow_now_and_then_with_all_outside_alone_is_held(
    hosts: int, rack: int, when: float, rails: tuple[int, ...], seed: int
) -> None:
    mine, others = names(range(1, rack + 1)), names(range(rack + 1, hosts + 1))
    slow = Slow(tuple(mine), 0.3, rails=rails, to=tuple(others), when=when, expect=HELD)
    conclusion = concluded(Spec(hosts, "named below", 0.01, rack=rack), seed, [slow])
    assert became(conclusion, HELD) == mine
    assert became(conclusion, PASSED) == others
    reasons = [each.reason for node in mine for each in conclusion.findings[node] if each.verdict != "pass"]
    assert any("so are most of rack r000, and seldom with each other" in each for each in reasons)


@pytest.mark.parametrize("seed", [0, 1])
def test_rack_whose_nodes_are_slow_now_and_then_with_each_other_as_well_is_rejected(seed: int) -> None:
    mine = names(range(1, 9))
    conclusion = concluded(Spec(64, "named below", 0.01, rack=8), seed, [Slow(tuple(mine), 0.2, when=0.5)])
    assert became(conclusion, REJECTED) == mine


@pytest.mark.parametrize("seed", [1, 2])
def test_node_in_a_rack_of_its_own_is_not_rejected_for_what_lies_between_racks(seed: int) -> None:
    every, alone = names(range(1, 101), 3), names(range(93, 101), 3)
    between = [Slow((node,), 0.33, to=tuple(x for x in every if x != node), when=0.1) for node in alone]
    places = {node: {"rack": node if node in alone else "large", "pod": None} for node in every}
    conclusion = concluded(Spec(100, "named below", 0.01, rails=2), seed, between, places)
    assert became(conclusion, REJECTED) == []
