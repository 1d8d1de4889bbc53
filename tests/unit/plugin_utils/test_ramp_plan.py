"""Which burn-ins start and when: by rack, feed and site, within a budget, beside what others draw already."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger
from ansible_collections.muster.cluster.plugins.plugin_utils.ramp.power_drawn import (
    give_back,
    longest_seconds,
    plan_ramp,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ramp.ramp_plan import (
    Drawing,
    Turn,
    planned,
    waiting_lines,
)

from tests.fleets import LEDGER_ID, small_fleet, variables_of

NOW = 2_000_000_000.0
PROFILE = {"burn_in_profile": "p", "burn_in_profiles": {"p": {"steps": [{"seconds": 60}], "interval_seconds": 5}}}


def fleet_with(count: int = 8, feeds: Any = None, racks: int = 2, **ramp: Any) -> Fleet:
    """Nodes of 10 kW, so many in each rack."""
    block = {
        "name": f"gpu-[0001-{count:04}]",
        "hardware_class": "hgx_h100",
        "address": "10.1.16.1",
        "racks": {"name": f"r[001-{count // racks:03}]", "nodes_each": racks},
        **({"feeds": feeds} if feeds else {}),
    }
    return small_fleet(
        count,
        nodes=[block],
        policy={**PROFILE, "burn_in": ramp},
        hardware_classes={"hgx_h100": {"power": {"kilowatts": 10}}},
    )


TWO_FEEDS = {"name": "[1-2]", "nodes_each": 4}


def moments(turns: dict[str, Turn]) -> dict[str, float]:
    return {name[-1]: turn.after_seconds for name, turn in turns.items() if not turn.waits}


def test_one_rack_of_each_feed_starts_after_the_other_and_its_nodes_evenly_within() -> None:
    fleet = fleet_with(feeds=TWO_FEEDS, ramp_seconds=10)
    turns = planned(fleet, list(fleet.compute), Drawing())
    assert moments(turns) == {"1": 0, "5": 0, "2": 5, "6": 5, "3": 10, "7": 10, "4": 15, "8": 15}
    assert list(moments(turns)) == ["1", "5", "2", "6", "3", "7", "4", "8"]
    assert {turn.starting for turn in turns.values()} == {4} and waiting_lines(turns) == []


def test_without_feeds_the_whole_fleet_is_one_and_without_a_ramp_all_start_at_once() -> None:
    fleet = fleet_with(ramp_seconds=10)
    turns = planned(fleet, list(fleet.compute), Drawing())
    assert max(moments(turns).values()) == 35 and turns["gpu-0001"].feed == "the fleet"
    fleet = fleet_with(ramp_seconds=0)
    assert set(moments(planned(fleet, list(fleet.compute), Drawing())).values()) == {0}


@pytest.mark.parametrize(
    ("kilowatts", "starting", "why"),
    [
        ({"rack": 10}, "1357", "rack r001: 10 of 10 kW are in use by 1 nodes, and gpu-0002 draws 10 kW"),
        ({"feed": 25}, "1256", "feed 1: 20 of 25 kW are in use by 2 nodes, and gpu-0003 draws 10 kW"),
        ({"site": 50}, "12563", "the site: 50 of 50 kW are in use by 5 nodes, and gpu-0004 draws 10 kW"),
        ({"rack": 20, "feed": 20, "site": 10}, "1", "the site: 10 of 10 kW are in use by 1 nodes"),
    ],
)
def test_no_more_start_than_the_budget_feeds_and_the_rest_says_why_it_waits(
    kilowatts: dict[str, float], starting: str, why: str
) -> None:
    fleet = fleet_with(feeds=TWO_FEEDS, kilowatts=kilowatts)
    turns = planned(fleet, list(fleet.compute), Drawing())
    assert sorted(moments(turns)) == sorted(starting)
    assert any(turn.waits.startswith(why) for turn in turns.values()), turns
    assert list(turns) == sorted(turns, key=lambda name: bool(turns[name].waits))
    assert waiting_lines(turns)[0].startswith("burn-in of ") and " of feed " in waiting_lines(turns)[0]


def test_what_others_draw_counts_and_what_a_node_draws_itself_is_counted_once() -> None:
    fleet = fleet_with(feeds=TWO_FEEDS, kilowatts={"feed": 30})
    due = ["gpu-0001", "gpu-0002", "gpu-0003"]
    others = Drawing(shares={"gpu-0004", "gone"})
    assert sorted(moments(planned(fleet, due, others))) == ["1", "2"]
    # Run 1 has planned the third: it starts within its own share, whatever has begun since.
    assert sorted(moments(planned(fleet, due, Drawing(shares={"gpu-0003", "gpu-0004"})))) == ["1", "3"]


def test_run_under_way_comes_first_and_is_never_held_back() -> None:
    fleet = fleet_with(feeds=TWO_FEEDS, kilowatts={"feed": 10})
    drawing = Drawing(running={"gpu-0003": NOW, "gpu-0004": NOW}, alarms={"feed 1": "too warm"})
    turns = planned(fleet, ["gpu-0001", "gpu-0003", "gpu-0004"], drawing)
    assert list(turns) == ["gpu-0003", "gpu-0004", "gpu-0001"]
    assert [turn.running for turn in turns.values()] == [True, True, False]
    # Where it turns out that it was cut off, the alarm holds for it as for all others.
    assert turns["gpu-0001"].waits == turns["gpu-0003"].waits == "feed 1: too warm"


@pytest.mark.parametrize("site", [None, 95, 200])
@pytest.mark.parametrize("rack", [None, 15, 40])
@pytest.mark.parametrize("step", [0, 2.5])
def test_every_due_node_starts_or_waits_with_a_reason_and_no_budget_is_exceeded(
    site: float | None, rack: float | None, step: float
) -> None:
    limits = {"rack": rack, "feed": 60, "site": site}
    fleet = fleet_with(32, {"name": "[1-4]", "nodes_each": 8}, 4, kilowatts=limits, ramp_seconds=step)
    due = list(fleet.compute)[5:]
    drawing = Drawing(shares=list(fleet.compute)[:7])
    turns = planned(fleet, due, drawing)
    assert sorted(turns) == sorted(due)
    before = [fleet.compute[name] for name in drawing.shares]
    after = [fleet.compute[name] for name in {*drawing.shares, *(name for name in turns if not turns[name].waits)}]
    for limit, key in ((rack, "rack"), (60, "feed"), (site, "cluster")):
        drew, draw = (Counter(getattr(node, key, "") for node in nodes) for nodes in (before, after))
        for place, count in draw.items():
            # What drew before may exceed a budget that was lowered meanwhile.
            assert limit is None or count * 10 <= limit or count == drew[place]
    started = [turn.after_seconds for turn in turns.values() if not turn.waits]
    assert started == sorted(started)


def test_large_fleet_is_planned_at_once() -> None:
    fleet = fleet_with(3072, {"name": "feed-[01-48]", "nodes_each": 64}, 4, kilowatts={"site": 20_000})
    began = time.monotonic()
    turns = planned(fleet, list(fleet.compute), Drawing())
    assert time.monotonic() - began < 2
    assert sum(not turn.waits for turn in turns.values()) == 2000


@pytest.fixture
def site(tmp_path: Path) -> Any:
    """A fleet of four racks on two feeds, a feed for one rack, with its ledger."""
    url = f"sqlite:///{tmp_path}/ledger.sqlite"
    fleet = Fleet.from_variables(variables_of(fleet_with(feeds=TWO_FEEDS, kilowatts={"feed": 20}), url))
    Ledger.create(url, LEDGER_ID, fleet.cluster, NOW)
    return fleet


def ledger_of(fleet: Fleet) -> Ledger:
    return Ledger.open(fleet.ledger.url, LEDGER_ID, fleet.cluster)


RACK_1, RACK_2 = ["gpu-0001", "gpu-0002"], ["gpu-0003", "gpu-0004"]


def run_of(node: str, finished: float | None = None, *findings: Finding, started: float = NOW) -> Evidence:
    detail = {"steps": [{"seconds": 60}]}
    return Evidence(f"run-{node}", node, "burn_in", started, finished, "b", {}, "d", tuple(findings), detail=detail)


def starting(fleet: Fleet, due: list[str], now: float, **brought: Evidence) -> list[str]:
    given = {node: [evidence.to_dict()] for node, evidence in brought.items()}
    return [name for name, turn in plan_ramp(fleet, due, given, now).items() if not turn.waits]


def test_rack_that_another_run_has_started_a_moment_ago_counts_though_it_said_nothing_yet(site: Fleet) -> None:
    assert starting(site, RACK_1, NOW) == RACK_1
    assert starting(site, RACK_2, NOW + 1) == []
    # Again the same rack: its own share.
    assert starting(site, RACK_1, NOW + 2) == RACK_1
    # A lost node does not block its feed for ever.
    assert starting(site, RACK_2, NOW + 2 + longest_seconds([{"seconds": 60}]) + 100) == RACK_2


def test_check_mode_plans_and_gives_nobody_a_share(site: Fleet) -> None:
    turns = plan_ramp(site, RACK_1, {}, NOW, check=True)
    assert [turn.waits for turn in turns.values()] == ["", ""]
    assert starting(site, RACK_2, NOW + 1) == RACK_2


def test_share_ends_with_the_evidence_of_the_run_or_when_it_is_given_back(site: Fleet) -> None:
    assert starting(site, RACK_1, NOW) == RACK_1
    give_back(site, ["gpu-0001"])
    assert starting(site, RACK_2, NOW + 1) == ["gpu-0003"]
    with ledger_of(site).writing() as writer:
        # What an earlier run has left, imported late, ends nothing.
        writer.add_evidence([replace(run_of("gpu-0002", NOW - 4000, started=NOW - 5000), id="old")], NOW + 2)
    assert starting(site, RACK_2, NOW + 3) == ["gpu-0003"]
    with ledger_of(site).writing() as writer:
        writer.add_evidence([run_of("gpu-0002", NOW + 60)], NOW + 61)
    assert starting(site, RACK_2, NOW + 62) == RACK_2


def test_unfinished_run_in_the_ledger_counts_until_its_plan_must_have_ended(site: Fleet) -> None:
    with ledger_of(site).writing() as writer:
        writer.add_evidence([run_of("gpu-0001")], NOW)
    assert starting(site, RACK_2, NOW + 60) == ["gpu-0003"]
    give_back(site, ["gpu-0003"])
    assert starting(site, RACK_2, NOW + 10_000) == RACK_2


@pytest.mark.parametrize("seconds", ["x", [1], 1e300, 10**400, -1e9, None])
def test_node_that_lies_about_its_plan_or_its_clock_holds_its_own_power_for_a_month_at_most(
    site: Fleet, seconds: Any
) -> None:
    lies = replace(run_of("gpu-0001", started=NOW + 1e9), detail={"steps": [{"seconds": seconds}, None]})
    with ledger_of(site).writing() as writer:
        writer.add_evidence([lies], NOW)
    assert starting(site, RACK_2, NOW + 60) == ["gpu-0003"]
    give_back(site, ["gpu-0003"])
    assert starting(site, RACK_2, NOW + 31 * 86400) == RACK_2


def test_run_that_was_under_way_when_it_got_its_share_ends_it_too(site: Fleet) -> None:
    early = NOW - 3000
    assert starting(site, ["gpu-0001"], NOW, **{"gpu-0001": run_of("gpu-0001", started=early)}) == ["gpu-0001"]
    with ledger_of(site).writing() as writer:
        writer.add_evidence([run_of("gpu-0001", NOW + 10, started=early)], NOW + 11)
    assert starting(site, RACK_2, NOW + 12) == RACK_2


WARM = Finding("inlet_temperature", "host", "fail", 41, 35, "C", "Inlet Temp above the class limit", "investigate")


@pytest.mark.parametrize(
    ("evidence", "later", "held"),
    [
        (run_of("gpu-0001", None, WARM), 0, True),
        (run_of("gpu-0001", NOW - 60, WARM), 0, True),
        # It ended at the warm inlet an hour ago.
        (run_of("gpu-0001", NOW - 3600, WARM), 0, False),
        (run_of("gpu-0001", None, replace(WARM, verdict="incomplete")), 0, False),
        (run_of("gpu-0001", None, WARM), 1000, False),
    ],
)
def test_feed_whose_inlet_was_too_warm_within_a_quarter_of_an_hour_does_not_start(
    site: Fleet, evidence: Evidence, later: float, held: bool
) -> None:
    with ledger_of(site).writing() as writer:
        writer.add_evidence([evidence], NOW)
    turns = plan_ramp(site, ["gpu-0004", "gpu-0005"], {}, NOW + later)
    why = "feed 1: inlet of gpu-0001: Inlet Temp above the class limit"
    assert [turn.waits for turn in turns.values()] == (["", why] if held else ["", ""])
    assert list(turns) == (["gpu-0005", "gpu-0004"] if held else ["gpu-0004", "gpu-0005"])


def test_inlet_that_this_run_has_read_counts(site: Fleet) -> None:
    assert starting(site, ["gpu-0003"], NOW, **{"gpu-0001": run_of("gpu-0001", None, WARM)}) == []
    # Nobody speaks for another node.
    assert starting(site, ["gpu-0003"], NOW, **{"gpu-0005": run_of("gpu-0001", None, WARM)}) == ["gpu-0003"]
