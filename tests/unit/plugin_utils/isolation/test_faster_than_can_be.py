"""Fleets of which some tell times that cannot be, and one whose uplink is slow under load alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import Planner
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings

from tests.fleets import collectives
from tests.isolation.campaign import became_of, plan_of
from tests.isolation.faults import HELD, PASSED, REJECTED, Slow
from tests.isolation.fleet import Fleet, Spec, expectations

MOST_ROUNDS = 8


class Hasty(Fleet):
    """A fleet of which ``who`` tell times, in phases of a kind, that are so many times too small."""

    def __init__(self, spec: Spec, who: tuple[int, ...], kind: str, times: float, slow: float = 0.0) -> None:
        self.who, self.kind, self.times = who, kind, times
        named = Spec.layout(spec).names(list(who))
        super().__init__(spec, 0, [Slow(named, slow, expect=HELD)] if slow else [])

    def run(self, plan: Mapping[str, Any]) -> list[dict[str, Any]]:
        items = super().run(plan)
        kinds = {phase["name"]: phase["kind"] for phase in plan["program"]["moves"]}
        for item in items:
            at = [item["group"].index(self.nodes[each]) for each in self.who if self.nodes[each] in item["group"]]
            for result in item["results"]:
                for key in ("ns", "ns_p99") if kinds[result["move"]] == self.kind else ():
                    result[key][at] = np.maximum(1, np.rint(result[key][at] / self.times))
        return items


class Loaded(Fleet):
    """A fleet of which the uplink of a rack carries the exchanges of three in four of its hosts at a time."""

    rack_of_it = 2

    def _times(self, column: int, meets: Any, shown: Any) -> Any:
        times = super()._times(column, meets, shown)
        across = (self.rack[meets.a] == self.rack_of_it) != (self.rack[meets.b] == self.rack_of_it)
        load = np.bincount(meets.step[across], minlength=meets.steps) / (0.75 * (self.rack == self.rack_of_it).sum())
        for side in (meets.one, meets.other):
            times[meets.step[across], side[across]] *= np.maximum(1, load)[meets.step[across], None]
        return times


def spec(hosts: int, rack: int, rails: int = 2) -> Spec:
    return Spec(hosts, "named below", 0.01, rails=rails, rack=rack)


def played(fleet: Fleet) -> tuple[dict[str, str], Conclusion]:
    planner = Planner(fleet.nodes, (), Settings.of(collectives(expectations(fleet.spec)), fleet.places()))
    seen: list[Any] = []
    while not isinstance(step := planner.next_round(seen), Conclusion):
        assert step.number <= MOST_ROUNDS
        plan = plan_of(step)
        seen += [(step.number, plan, item) for item in fleet.run(plan)]
    return became_of(step), step


@pytest.mark.parametrize(
    ("fleet", "said"),
    [
        pytest.param(Hasty(spec(9, 4), (0, 2, 4, 6), "pairs", 1e6, 0.2), "a pair reached", id="4 of 9 in pairs"),
        pytest.param(Hasty(spec(32, 4), (3, 9), "pairs", 1e6), "a pair reached", id="2 of 32 in pairs"),
        pytest.param(Hasty(spec(32, 4), (3,), "pairs", 1e6), "clock", id="1 of 32 in pairs"),
        pytest.param(Hasty(spec(5, 0), (1, 3), "pairs", 1e6), "which no hardware carries", id="2 of 5 in pairs"),
        pytest.param(Hasty(spec(32, 4, 8), (3,), "inside", 1e9), "more than 3 times", id="a nanosecond inside"),
        pytest.param(Hasty(spec(32, 4, 8), (3, 7), "inside", 10), "more than 3 times", id="ten times inside"),
    ],
)
def test_who_tells_times_that_cannot_be_is_held_and_everybody_else_passes(fleet: Hasty, said: str) -> None:
    became, step = played(fleet)
    hasty = {fleet.nodes[each] for each in fleet.who}
    assert {node for node, its in became.items() if its == HELD} == hasty
    assert {node for node, its in became.items() if its == PASSED} == set(fleet.nodes) - hasty
    for node in hasty:
        assert any(said in finding.reason for finding in step.findings[node])


def test_four_of_nine_that_are_fast_a_hundred_times_do_not_pass() -> None:
    fleet = Hasty(spec(9, 4), (0, 2, 4, 6), "pairs", 100, 0.2)
    became, _step = played(fleet)
    assert PASSED not in {became[fleet.nodes[each]] for each in fleet.who}
    assert REJECTED not in {became[fleet.nodes[each]] for each in (1, 3, 5, 7, 8)}


def test_pairs_that_all_took_a_nanosecond_admit_nobody() -> None:
    became, step = played(Hasty(spec(9, 4), tuple(range(9)), "pairs", 1e9))
    assert set(became.values()) == {HELD}
    assert all(any("which no hardware carries" in each.reason for each in its) for its in step.findings.values())


def test_only_the_rack_whose_uplink_is_slow_under_load_is_held() -> None:
    fleet = Loaded(spec(64, 8), 0, [])
    became, step = played(fleet)
    behind = {node for at, node in enumerate(fleet.nodes) if fleet.rack[at] == Loaded.rack_of_it}
    assert {node for node, its in became.items() if its == HELD} == behind
    assert {node for node, its in became.items() if its == PASSED} == set(fleet.nodes) - behind
    assert all(any("under load alone" in each.reason for each in step.findings[node]) for node in behind)
