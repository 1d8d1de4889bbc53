"""Campaigns against simulated fleets, played to their end: what is bad is found, nobody else is blamed."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives.pairing import partner
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import (
    conclude_early,
    next_round,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import phases_of
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.round_summary import details, round_summary

from tests.fleets import collectives
from tests.isolation.campaign import plan_of
from tests.isolation.faults import Slow
from tests.isolation.fleet import FAULTS, Fleet, Spec, as_json, expectations

Seen = list[tuple[int, Mapping[str, Any], Mapping[str, Any]]]
Change = Callable[[Round, dict[str, Any]], None]
MOST_ROUNDS = 8


def campaign(
    fleet: Fleet,
    members: Sequence[str] | None = None,
    partners: Sequence[str] = (),
    change: Change | None = None,
    listed: bool = False,
    **expect: Any,
) -> tuple[Conclusion, list[Round], Seen, Settings]:
    """Play a campaign; ``change`` spoils an observation, ``listed`` sends it through JSON."""
    members = list(fleet.nodes if members is None else members)
    settings = Settings.of(collectives(expectations(fleet.spec, **expect)), fleet.places())
    seen: Seen = []
    rounds: list[Round] = []
    while len(rounds) < MOST_ROUNDS:
        step = next_round(members, partners, seen, settings)
        if isinstance(step, Conclusion):
            assert sorted(step.findings) == sorted(members)
            assert all(tuple(each.check for each in owed) == settings.checks() for owed in step.findings.values())
            assert all(each.reason for owed in step.findings.values() for each in owed)
            assert not [each for owed in step.findings.values() for each in owed if reads_as_a_fail(each)]
            return step, rounds, seen, settings
        assert step.number == len(rounds) + 1
        # What nodes are given is plain data, and every job's positions exist.
        plan = json.loads(json.dumps(plan_of(step)))
        assert {node for job in plan["groups"] for node in job} <= {*members, *partners}
        check_program(step)
        for item in fleet.run(plan):
            given = json.loads(json.dumps(as_json(item))) if listed or change else item
            if change is not None:
                change(step, given)
            seen.append((step.number, plan, given))
        rounds.append(step)
    raise AssertionError(f"no conclusion after {len(rounds)} rounds: {[each.kind for each in rounds]}")


def reads_as_a_fail(finding: Finding) -> bool:
    if finding.verdict != PASS or finding.measured is None or finding.expected is None:
        return False
    measured, expected = float(finding.measured), float(finding.expected)
    return measured < expected if finding.unit == "GB/s" else measured > expected


def check_program(step: Round) -> None:
    names = [phase["name"] for phase in step.program["moves"]]
    assert len(set(names)) == len(names)
    for job in step.groups:
        assert phases_of(plan_of(step), job)
        for phase in phases_of(plan_of(step), job):
            for disjoint in phase.get("pairs") or ([phase["groups"]] if "groups" in phase else []):
                used = [position for each in disjoint for position in each]
                assert used
                assert len(set(used)) == len(used)
                assert all(0 <= position < len(job) for position in used)
            shifts = len(job) - 1 if len(job) % 2 == 0 else len(job)
            assert all(0 <= shift < shifts for shift in phase.get("shifts", ()))


def rejected(conclusion: Conclusion) -> set[str]:
    return {node for node, owed in conclusion.findings.items() if any(each.verdict == FAIL for each in owed)}


def passed(conclusion: Conclusion) -> set[str]:
    return {node for node, owed in conclusion.findings.items() if all(each.verdict == PASS for each in owed)}


def verdicts(conclusion: Conclusion, node: str) -> dict[str, tuple[str, str]]:
    return {each.check: (each.verdict, each.reason) for each in conclusion.findings[node]}


def fleet(hosts: int, fault: str = "clean", noise: float = 0.01, seed: int = 1, **shape: Any) -> Fleet:
    return Fleet(Spec.usual(hosts, fault, noise, **shape), seed)


def slow_between(subject: Fleet, outside: Any, beyond: Any) -> None:
    """Make exchanges slow between some nodes and others, masks both."""
    names = [tuple(node for node, its in zip(subject.nodes, side, strict=True) if its) for side in (outside, beyond)]
    subject.add(Slow(names[0], 0.2, to=names[1]))


# Few hosts are judged by the class floors, which a tenth does not break.
SMALL = {"rails": 1, "effect": 0.6}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("hosts", [4, 8, 32, 232])
def test_every_fault_is_found_and_nobody_else_is_blamed(hosts: int, fault: str, seed: int) -> None:
    if hosts == 232 and seed > 1:
        pytest.skip("one of the large fleets tells as much")
    shape = SMALL if hosts == 4 else {}
    subject = fleet(hosts, fault, seed=seed, **shape)
    conclusion, rounds, _seen, _settings = campaign(subject)
    truth = subject.truth
    bad, held, gone = set(truth.bad), set(truth.held), set(truth.gone)
    assert rejected(conclusion) == bad, truth
    assert not (bad | held | gone) & passed(conclusion), truth
    assert held <= set(conclusion.held), truth
    if hosts > 8 or fault not in ("five_slow_10", "slow_boundary", "two_racks"):
        assert passed(conclusion) == set(subject.nodes) - bad - held - gone
    if fault == "clean":
        assert len(rounds) == 2
        assert not conclusion.held
    if fault in ("one_slow_10", "five_slow_10"):
        assert len(rounds) <= 3
    for node in gone:
        assert any(each.verdict == INCOMPLETE for each in conclusion.findings[node])
        assert "not available in Slurm" in conclusion.findings[node][0].reason


@pytest.mark.parametrize(("hosts", "seed"), [(hosts, seed) for hosts in (2, 3, 5, 6, 7) for seed in (1, 2, 3)])
@pytest.mark.parametrize("fault", ["clean", "one_slow_10", "one_pair", "hang", "dead", "wrong_data", "fifth_slow"])
def test_few_hosts_of_any_number_blame_nobody_sound(hosts: int, fault: str, seed: int) -> None:
    subject = fleet(hosts, fault, 0.03, seed, **SMALL)
    conclusion, _rounds, _seen, _settings = campaign(subject)
    truth = subject.truth
    assert rejected(conclusion) <= set(truth.bad), truth
    assert not {*truth.bad, *truth.held, *truth.gone} & passed(conclusion), truth
    if fault == "clean":
        assert passed(conclusion) == set(subject.nodes)
    if hosts > 3 and fault in ("one_slow_10", "wrong_data"):
        assert rejected(conclusion) == set(truth.bad)


@pytest.mark.parametrize(("rails", "rack", "pod"), [(1, 0, 0), (2, 2, 0), (4, 16, 0), (8, 7, 3), (2, 1, 0)])
@pytest.mark.parametrize("fault", [each for each in FAULTS if each not in ("slow_boundary", "two_racks", "dead")])
def test_other_shapes_of_fleet(fault: str, rails: int, rack: int, pod: int) -> None:
    subject = fleet(48, fault, 0.01, 3, rails=rails, rack=rack, pod=pod)
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert rejected(conclusion) == set(subject.truth.bad)
    assert set(conclusion.held) == set(subject.truth.held)


@pytest.mark.parametrize(
    ("hosts", "rack", "pod"), [(32, 16, 0), (48, 16, 0), (48, 8, 2), (24, 2, 0), (40, 0, 0), (96, 8, 4)]
)
@pytest.mark.parametrize("seed", range(1, 5))
def test_slow_boundary_is_never_reported_as_bad_nodes(hosts: int, rack: int, pod: int, seed: int) -> None:
    subject = fleet(hosts, "slow_boundary", 0.01, seed, rack=rack, pod=pod)
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert not rejected(conclusion)
    assert set(subject.truth.held) <= set(conclusion.held)
    assert "within" in conclusion.held[subject.truth.held[0]]


@pytest.mark.parametrize(
    ("hosts", "rack", "pod"), [(12, 4, 0), (48, 16, 0), (40, 16, 0), (64, 8, 2), (24, 2, 0), (96, 4, 4)]
)
@pytest.mark.parametrize("seed", range(1, 4))
def test_two_racks_that_are_slow_with_each_other_hold_these_two_alone(
    hosts: int, rack: int, pod: int, seed: int
) -> None:
    subject = fleet(hosts, "two_racks", 0.01, seed, rack=rack, pod=pod)
    conclusion, rounds, _seen, _settings = campaign(subject)
    assert not rejected(conclusion)
    assert set(conclusion.held) == set(subject.truth.held)
    assert passed(conclusion) == set(subject.nodes) - set(subject.truth.held)
    assert len(rounds) == 2
    why = conclusion.held[subject.truth.held[0]]
    units = {
        name for node in subject.truth.held if (name := subject.places()[node]["pod" if "pods" in why else "rack"])
    }
    assert f"s {' and '.join(sorted(units))} are " in why
    assert f"exchanges with each other and not with others; again in {12 if rack == 2 else 24} exchanges" in why


@pytest.mark.parametrize(
    ("hosts", "one", "other"), [(232, 40, 40), (64, 8, 24), (48, 16, 16), (32, 10, 16), (12, 4, 4)]
)
def test_two_sides_that_nothing_declared_tells_hold_their_members(hosts: int, one: int, other: int) -> None:
    subject = fleet(hosts, rack=0)
    at = np.arange(hosts)
    slow_between(subject, at < one, (at >= one) & (at < one + other))
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert not rejected(conclusion)
    assert set(conclusion.held) == set(subject.nodes[: one + other])
    assert passed(conclusion) == set(subject.nodes[one + other :])
    first, second = subject.nodes[0], subject.nodes[one]
    assert f"{first}, {subject.nodes[1]} and {one - 2} more on one side and {second}, " in conclusion.held[first]


def test_noise_within_an_undeclared_boundary_takes_nobody_out_of_it() -> None:
    # Of this fleet h04 was slower than half of the threshold once of twice with each of its neighbours.
    subject = fleet(32, "clean", 0.03, 5011, rack=0)
    at = np.arange(32)
    slow_between(subject, at < 4, at >= 4)
    subject.speed[:, 8, 3] = 0.8
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert rejected(conclusion) == {"h09"}
    assert set(conclusion.held) == {"h01", "h02", "h03", "h04"}


class FastOnce(Fleet):
    """A fleet of which two slow nodes are fast with each other when they meet first."""

    met = 0

    def _times(self, column: int, meets: Any, now_and_then: Any) -> Any:
        times = super()._times(column, meets, now_and_then)
        both = (meets.a == 5) & (meets.b == 9) | (meets.a == 9) & (meets.b == 5)
        self.met += int(both.any())
        for side in (meets.one, meets.other):
            times[meets.step[both], side[both]] *= 0.8 if self.met <= 2 else 1
        return times


def test_two_slow_nodes_that_were_fast_with_each_other_once_are_rejected() -> None:
    subject = FastOnce(Spec.usual(64, "clean", 0.01), 1)
    subject.speed[:, [5, 9]] = 0.8
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert rejected(conclusion) == {"h06", "h10"}
    assert not conclusion.held


def test_slow_node_behind_an_undeclared_boundary_takes_nobody_of_its_side_with_it() -> None:
    subject = fleet(32, rack=0)
    at = np.arange(32)
    slow_between(subject, at < 4, at >= 4)
    subject.speed[0, 2] = subject.speed[:, 10] = 0.8
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert rejected(conclusion) == {"h03", "h11"}
    assert set(conclusion.held) == {"h01", "h02", "h04"}
    assert passed(conclusion) == set(subject.nodes) - {"h01", "h02", "h03", "h04", "h11"}


def test_slow_node_beside_a_boundary_between_half_of_all_is_rejected() -> None:
    subject = fleet(16, rack=4)
    slow_between(subject, subject.rack == 1, subject.rack == 3)
    subject.speed[:, 9] = 0.9
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert rejected(conclusion) == {"h10"}
    assert set(conclusion.held) == {"h05", "h06", "h07", "h08", "h13", "h14", "h15", "h16"}


@pytest.mark.parametrize(("hosts", "seed"), [(16, 502), (16, 511), (12, 515), (12, 661)])
def test_node_that_is_slow_now_and_then_with_few_partners_is_found(hosts: int, seed: int) -> None:
    subject = fleet(hosts, "intermittent_30", 0.01, seed)
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert rejected(conclusion) == set(subject.truth.bad)
    assert not conclusion.held


def test_noise_that_shows_once_again_rejects_nobody() -> None:
    conclusion, _rounds, _seen, _settings = campaign(fleet(8, "clean", 0.03, 80052))
    assert not rejected(conclusion)


@pytest.mark.parametrize("hosts", [64, 232])
def test_nodes_that_are_slow_now_and_then_are_no_two_sides(hosts: int) -> None:
    subject = fleet(hosts, "intermittent_30", rack=0)
    subject.add(*(Slow((subject.nodes[each],), 0.2, when=0.3) for each in (3, 30, 50)))
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert len(subject.truth.bad) == 4
    assert rejected(conclusion) == set(subject.truth.bad)
    assert not conclusion.held


def test_two_racks_without_a_third_are_held_as_the_fabric() -> None:
    subject = fleet(32, "two_racks", rack=16)
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert not rejected(conclusion)
    assert set(conclusion.held) == set(subject.nodes)
    assert "slower between racks r000 and r001 than within them" in conclusion.held["h01"]


def test_slow_node_in_one_of_two_racks_is_rejected_beside_them() -> None:
    subject = fleet(64, "two_racks", rack=8)
    sound = next(at for at, node in enumerate(subject.nodes) if node not in subject.truth.held)
    within = subject.index[subject.truth.held[0]]
    subject.speed[:, [sound, within]] = 0.7
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert rejected(conclusion) == {subject.nodes[sound], subject.nodes[within]}
    assert set(conclusion.held) >= set(subject.truth.held) - rejected(conclusion)
    assert passed(conclusion) == set(subject.nodes) - set(subject.truth.held) - rejected(conclusion)


def test_two_slow_of_four_are_held_and_one_is_rejected() -> None:
    two, _rounds, _seen, _settings = campaign(fleet(4, "fifth_slow", **SMALL))
    assert not rejected(two)
    assert len(two.held) == 2
    assert all("more than 20%" in why for why in two.held.values())
    assert any("too few for a cohort" in remark for remark in two.remarks)
    subject = fleet(4, "one_slow_10", **SMALL)
    one, _rounds, _seen, _settings = campaign(subject)
    (bad,) = subject.truth.bad
    finding = next(each for each in one.findings[bad] if each.verdict == FAIL)
    assert (finding.check, finding.unit) == ("pair_bandwidth", "GB/s")
    assert finding.measured is not None
    assert finding.expected is not None
    assert float(finding.measured) < float(finding.expected)
    assert "the class' limit" in finding.reason


def test_one_slow_pair_of_four_holds_just_the_two() -> None:
    subject = fleet(4, "one_pair", **SMALL)
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert set(conclusion.held) == set(subject.truth.held)
    assert passed(conclusion) == set(subject.nodes) - set(subject.truth.held)


def test_hanging_host_is_rejected_by_two_that_are_proven() -> None:
    subject = fleet(8, "hang")
    conclusion, rounds, _seen, _settings = campaign(subject)
    (bad,) = subject.truth.bad
    assert [each.kind for each in rounds] == ["walk", "rest", "confirm"]
    assert "hangs or crashes: it never reached walk" in verdicts(conclusion, bad)["pair_bandwidth"][1]
    assert [bad in job for job in rounds[1].groups] == [False, True]
    assert passed(conclusion) == set(subject.nodes) - {bad}


def test_slow_rail_is_told_from_its_node_and_asks_to_be_reseated() -> None:
    subject = fleet(32, "one_rail")
    conclusion, _rounds, _seen, _settings = campaign(subject)
    (bad,) = subject.truth.bad
    assert {check: verdict for check, (verdict, _why) in verdicts(conclusion, bad).items() if verdict == FAIL} == {
        "rail_bandwidth": FAIL
    }
    assert next(each for each in conclusion.findings[bad] if each.verdict == FAIL).action == "reseat"


def test_small_messages_alone_fail_latency_alone() -> None:
    subject = fleet(32, "small_messages")
    conclusion, _rounds, _seen, _settings = campaign(subject)
    failed = [each for each in conclusion.findings[subject.truth.bad[0]] if each.verdict == FAIL]
    assert [(each.check, each.unit) for each in failed] == [("pair_latency", "us")]


@pytest.mark.parametrize("fault", ["one_slow_10", "hang", "dead", "wrong_data", "intermittent_30"])
def test_json_gives_the_same_conclusion_as_arrays(fault: str) -> None:
    arrays, one, _seen, _settings = campaign(fleet(8, fault))
    text, other, _seen, _settings = campaign(fleet(8, fault), listed=True)
    assert one == other
    assert arrays == text


@pytest.mark.parametrize("fault", ["clean", "hang", "one_pair", "five_slow_10"])
def test_who_goes_on_from_the_record_comes_to_the_same_next_step(fault: str) -> None:
    subject = fleet(32, fault)
    conclusion, rounds, seen, settings = campaign(subject)
    for step in rounds:
        before = [each for each in seen if each[0] < step.number]
        assert next_round(list(reversed(subject.nodes)), (), list(reversed(before)), settings) == step
    assert next_round(subject.nodes, (), seen, settings) == conclusion


def nothing(step: Round, item: dict[str, Any]) -> None:
    item.clear()
    item["group"] = list(step.groups[0])


def each_result(change: Callable[[dict[str, Any]], None]) -> Change:
    def changed(step: Round, item: dict[str, Any]) -> None:
        for result in item["results"]:
            change(result)

    return changed


def number(value: Any) -> Change:
    return each_result(lambda result: result.update(ns=[[value] * len(row) if row else row for row in result["ns"]]))


GARBLED: dict[str, Change] = {
    "nothing": nothing,
    "no results": lambda step, item: item.update(results=[]),
    "results null": lambda step, item: item.update(results=None),
    "no ns": each_result(lambda result: result.pop("ns")),
    "no p99": each_result(lambda result: result.pop("ns_p99")),
    "no wrong": each_result(lambda result: result.pop("wrong")),
    "wrong is a number": each_result(lambda result: result.update(wrong=0)),
    "wrong of a stranger": each_result(lambda result: result.update(wrong={"nobody": [0]})),
    "a row less": each_result(lambda result: result["ns"].pop()),
    "a rail less": each_result(lambda result: result.update(ns=[row[:-1] for row in result["ns"]])),
    "NaN": number(math.nan),
    "infinite": number(math.inf),
    "negative": number(-5),
    "zero": number(0),
    "text": number("fast"),
    "true": number(True),
    "null": each_result(lambda result: result.update(ns=[None] * len(result["ns"]))),
    "another move": each_result(lambda result: result.update(move="dance")),
    "step text": each_result(lambda result: result.update(step="first")),
    "no bytes": each_result(lambda result: result.pop("bytes")),
    "other group": lambda step, item: item.update(group=["x1", "x2"]),
    "no group": lambda step, item: item.pop("group"),
    "ok is text": lambda step, item: item.update(ok="yes"),
    "not started": lambda step, item: item.update(started=False, ok=False),
    "everything missing": lambda step, item: item.update(ok=False, results=[], missing=list(item["group"])),
    "reached garbled": lambda step, item: item.update(
        ok=False, results=[], reached={"h1": 5, "h2": ["walk", 999, "arrived"]}
    ),
    "unavailable is a list": lambda step, item: item.update(unavailable=["h1"]),
}


@pytest.mark.parametrize("what", GARBLED)
def test_garbled_observations_pass_nobody_and_blame_nobody(what: str) -> None:
    conclusion, _rounds, _seen, _settings = campaign(fleet(8, rails=2), change=GARBLED[what])
    assert not passed(conclusion)
    assert not rejected(conclusion)


@pytest.mark.parametrize("key", ["ns", "ns_p99"])
@pytest.mark.parametrize("value", [None, [-1, 5], [math.nan, 5], [5], "x"])
def test_one_garbled_row_keeps_its_node_from_passing(key: str, value: Any) -> None:
    def change(step: Round, item: dict[str, Any]) -> None:
        if step.kind == "walk":
            item["results"][5][key][2] = value

    subject = fleet(8, rails=2)
    conclusion, _rounds, _seen, _settings = campaign(subject, change=change)
    assert passed(conclusion) == set(subject.nodes) - {"h3"}
    assert not rejected(conclusion)


def test_campaign_that_has_to_stop_passes_nobody() -> None:
    subject = fleet(8)
    _conclusion, _rounds, seen, settings = campaign(subject)
    stopped = conclude_early(subject.nodes, (), seen[:1], settings, "budget used up")
    assert not passed(stopped)
    assert {each.reason for owed in stopped.findings.values() for each in owed} == {"budget used up"}


def test_who_is_convicted_stays_so_when_the_campaign_has_to_stop() -> None:
    subject = fleet(32, "one_slow_10")
    _conclusion, _rounds, seen, settings = campaign(subject)
    assert rejected(conclude_early(subject.nodes, (), seen, settings, "stopped")) == set(subject.truth.bad)


@pytest.mark.parametrize(
    ("most", "bad"),
    [
        (None, False),
        # The simulated groups reach 380 GB/s at the most.
        (400.0, False),
        (300.0, True),
    ],
)
def test_group_that_is_faster_than_its_links_passes_nobody(most: float | None, bad: bool) -> None:
    subject = fleet(8)
    collective = collectives(expectations(subject.spec))
    settings = replace(Settings.of(collective, subject.places()), most_gb_per_s=most)
    seen: Seen = []
    while isinstance(step := next_round(subject.nodes, (), seen, settings), Round):
        assert step.number <= MOST_ROUNDS
        plan = json.loads(json.dumps(plan_of(step)))
        seen += [(step.number, plan, item) for item in subject.run(plan)]
    assert passed(step) == (set() if bad else set(subject.nodes))
    assert not rejected(step)
    if bad:
        said = (
            r"round 1: inside of 1 GiB reached 3\d\d(\.\d)? GB/s, which NVLinks and PCIe do not carry \(300 at most\)"
        )
        findings = [each for owed in step.findings.values() for each in owed]
        assert all(re.fullmatch(f"cannot be read: {said}", each.reason) for each in findings)
        number, plan, item = seen[0]
        assert re.search(f"; 8 nodes cannot be read, h1: {said}$", round_summary(number, plan, [item], settings))


def test_settings_that_cannot_be_judged_by_run_nothing() -> None:
    subject = fleet(4)
    settings = Settings.of(collectives(expectations(subject.spec, floors=[])), {})
    conclusion = next_round(subject.nodes, (), (), settings)
    assert isinstance(conclusion, Conclusion)
    assert not passed(conclusion)
    assert "no sendrecv floor" in conclusion.findings["h1"][0].reason


class RailBoundary(Fleet):
    """A rack of which one rail is slow to everybody outside, as an uplink of that rail's switch makes it."""

    def _times(self, column: int, meets: Any, now_and_then: Any) -> Any:
        times = super()._times(column, meets, now_and_then)
        slow = (self.rack[meets.a] == 2) ^ (self.rack[meets.b] == 2)
        for side in (meets.one, meets.other):
            times[meets.step[slow], side[slow], 3] *= 1.25
        return times


class RailBetween(Fleet):
    """Two racks of which one rail is slow with each other."""

    def _times(self, column: int, meets: Any, now_and_then: Any) -> Any:
        times = super()._times(column, meets, now_and_then)
        racks = np.sort([self.rack[meets.a], self.rack[meets.b]], axis=0)
        slow = (racks[0] == 2) & (racks[1] == 5)
        for side in (meets.one, meets.other):
            times[meets.step[slow], side[slow], 3] *= 1.25
        return times


class RailPlane(Fleet):
    """A fleet of which one rail is slow with everybody."""

    def _times(self, column: int, meets: Any, now_and_then: Any) -> Any:
        times = super()._times(column, meets, now_and_then)
        times[..., 2] *= 1.25
        return times


def test_slow_boundary_of_one_rail_holds_its_rack() -> None:
    conclusion, _rounds, _seen, _settings = campaign(RailBoundary(Spec.usual(32, "clean", 0.01), 1))
    assert not rejected(conclusion)
    assert sorted(conclusion.held) == ["h09", "h10", "h11", "h12"]
    assert conclusion.held["h09"].startswith("rail 3: rack r002 is")


def test_rail_that_is_slow_between_two_racks_holds_them() -> None:
    subject = RailBetween(Spec.usual(32, "clean", 0.01), 1)
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert not rejected(conclusion)
    assert set(conclusion.held) == {
        node for node, rack in zip(subject.nodes, subject.rack, strict=True) if rack in (2, 5)
    }
    assert conclusion.held["h09"].startswith("rail 3: racks r002 and r005 are")


def test_rail_that_is_slow_with_everybody_speaks_against_the_fabric() -> None:
    conclusion, _rounds, _seen, _settings = campaign(RailPlane(Spec.usual(32, "clean", 0.01), 1))
    assert not rejected(conclusion)
    assert len(conclusion.held) == 32
    assert "rail 2 is 20% slower than the others" in conclusion.held["h01"]


@pytest.mark.parametrize(("slow", "found"), [(0.07, True), (0.045, False), (0.03, False)])
def test_practical_margin_from_both_sides(slow: float, found: bool) -> None:
    subject = fleet(64)
    subject.speed[:, 3, :] = 1 - slow
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert rejected(conclusion) == ({"h04"} if found else set())
    assert not conclusion.held


def test_nodes_that_differ_by_themselves_are_no_outliers() -> None:
    subject = fleet(64)
    subject.speed *= np.random.default_rng(1).normal(1, 0.02, (1, 64, 1))
    conclusion, rounds, _seen, _settings = campaign(subject)
    assert passed(conclusion) == set(subject.nodes)
    assert len(rounds) <= 3


# Partners: who is tested alone or together with bad ones only.


def slow_hosts(count: int, *slow: int) -> Fleet:
    subject = fleet(count, "clean", 0.01, 1, rails=1)
    for each in slow:
        subject.speed[:, each] = 0.3
    return subject


@pytest.mark.parametrize(
    ("slow", "rejects", "holds", "doubts"),
    [
        ((), set(), set(), set()),
        ((0,), {"h1"}, set(), set()),
        ((1,), set(), set(), {"h2"}),
        ((0, 1, 2), set(), {"h1"}, set()),
    ],
)
def test_one_node_with_two_in_service(
    slow: tuple[int, ...], rejects: set[str], holds: set[str], doubts: set[str]
) -> None:
    conclusion, _rounds, _seen, _settings = campaign(slow_hosts(3, *slow), ["h1"], ["h2", "h3"])
    assert rejected(conclusion) == rejects
    assert set(conclusion.held) == holds
    assert set(conclusion.doubted) == doubts
    assert passed(conclusion) == (set() if rejects or holds else {"h1"})


def test_two_nodes_that_are_slow_together_are_settled_by_those_in_service() -> None:
    conclusion, rounds, _seen, _settings = campaign(slow_hosts(4, 0), ["h1", "h2"], ["h3", "h4"])
    assert rejected(conclusion) == {"h1"}
    assert passed(conclusion) == {"h2"}
    assert len(rounds) <= 3


def test_two_nodes_that_are_slow_together_without_anybody_else_are_held() -> None:
    conclusion, _rounds, _seen, _settings = campaign(slow_hosts(2, 0))
    assert not rejected(conclusion)
    assert set(conclusion.held) == {"h1", "h2"}
    assert "no node is blamed" in conclusion.held["h1"]


def test_one_node_without_any_partner_is_incomplete() -> None:
    conclusion, rounds, _seen, _settings = campaign(slow_hosts(1), ["h1"])
    assert not rounds
    assert not passed(conclusion)
    assert not rejected(conclusion)


def test_everything_slow_holds_everybody() -> None:
    conclusion, _rounds, _seen, _settings = campaign(slow_hosts(12, *range(12)))
    assert not rejected(conclusion)
    assert len(conclusion.held) == 12


def test_a_walk_that_crashes_without_a_word_is_taken_apart() -> None:
    def change(step: Round, item: dict[str, Any]) -> None:
        if step.kind in ("walk", "rest") or "h3" in item["group"]:
            item.update(ok=False, error="srun: error: exited with 1", results=[])

    subject = fleet(8, rails=1)
    conclusion, rounds, _seen, _settings = campaign(subject, change=change)
    assert rounds[1].kind == "apart"
    assert all(len(job) == 2 for job in rounds[1].groups)
    assert not rejected(conclusion) - {"h3"}
    assert "h3" not in passed(conclusion)


def test_everything_crashing_blames_nobody() -> None:
    def change(step: Round, item: dict[str, Any]) -> None:
        ranks = [
            {"node": node, "rank": rank, "error": "no module named torch"} for rank, node in enumerate(item["group"])
        ]
        item.update(ok=False, error="rank 0 failed", results=[], ranks=ranks)

    conclusion, rounds, _seen, _settings = campaign(fleet(8, rails=1), change=change)
    assert not rejected(conclusion)
    assert not passed(conclusion)
    assert len(rounds) <= 4


def ended(item: dict[str, Any], silent: Sequence[str], lost: Mapping[str, str]) -> None:
    """Have a job end as srun tells it once Slurm has lost nodes of it: ``silent`` are those that gave no answer."""
    error = f"no result from {', '.join(silent)}; srun ended with 143"
    item.update(ok=False, error=error, missing=list(silent), unavailable=dict(lost))
    if set(silent) == set(item["group"]):
        item.update(results=[])


@pytest.mark.parametrize("lost_in", [1, 2])
def test_node_that_slurm_lost_costs_itself_alone_though_all_were_ended_with_it(lost_in: int) -> None:
    def change(step: Round, item: dict[str, Any]) -> None:
        if step.number >= lost_in and "h3" in item["group"]:
            ended(item, item["group"], {"h3": "down*"})

    conclusion, rounds, _seen, _settings = campaign(fleet(4, **SMALL), change=change)
    assert rounds[lost_in - 1].groups == (("h1", "h2", "h3", "h4"),)
    assert rounds[lost_in].groups == (("h1", "h2", "h4"),)
    assert passed(conclusion) == {"h1", "h2", "h4"}
    assert not rejected(conclusion)
    assert not conclusion.held
    assert "not available in Slurm: down*" in verdicts(conclusion, "h3")["pair_bandwidth"][1]
    assert not [remark for remark in conclusion.remarks if "bad" in remark]


def test_sweep_that_nobody_answered_is_taken_apart() -> None:
    def change(step: Round, item: dict[str, Any]) -> None:
        if len(item["group"]) > 2 and "h3" in item["group"]:
            ended(item, item["group"], {})
        elif "h3" in item["group"]:
            ended(item, ["h3"], {"h3": "idle*"})

    conclusion, rounds, _seen, _settings = campaign(fleet(8, rails=1), change=change)
    assert [each.kind for each in rounds[:3]] == ["walk", "apart", "walk"]
    assert passed(conclusion) == {"h1", "h2", "h4", "h5", "h6", "h7", "h8"}
    assert not rejected(conclusion)


def test_silent_node_beside_a_lost_one_is_asked_again_and_suspected_once_it_is_silent_by_itself() -> None:
    def change(step: Round, item: dict[str, Any]) -> None:
        if "h3" in item["group"]:
            ended(item, ["h3", "h5"], {"h3": "down*"})
            for result in item["results"]:
                for key in ("ns", "ns_p99"):
                    result[key][2] = result[key][4] = None
        elif "h5" in item["group"]:
            ended(item, ["h5"], {})
            item["results"] = []

    conclusion, rounds, _seen, _settings = campaign(fleet(8, rails=1), change=change)
    assert "h5" in rounds[1].groups[0]
    assert "h3" not in rounds[1].groups[0]
    assert all("h5" not in job for each in rounds[2:] for job in each.groups if len(job) > 2)
    assert passed(conclusion) == {"h1", "h2", "h4", "h6", "h7", "h8"}


@pytest.mark.parametrize("kinds", [("groups", "confirm"), ("walk", "rest", "apart")])
def test_step_that_measured_everything_and_crashed_passes_nobody(kinds: tuple[str, ...]) -> None:
    def change(step: Round, item: dict[str, Any]) -> None:
        if step.kind in kinds:
            item.update(ok=False, error="srun ended with 139")

    conclusion, _rounds, _seen, _settings = campaign(fleet(8, rails=1), change=change)
    assert not passed(conclusion)
    assert not rejected(conclusion)


# Groups, stragglers, latency, training.


def of_kind(kind: str, change: Callable[[dict[str, Any], list[str]], None]) -> Change:
    def changed(step: Round, item: dict[str, Any]) -> None:
        kinds = {phase["name"]: phase["kind"] for phase in step.program["moves"]}
        for result in item["results"]:
            if kinds[result["move"]] == kind:
                change(result, item["group"])

    return changed


def slower(result: dict[str, Any], nodes: Sequence[str], group: Sequence[str], by: float) -> None:
    for index, node in enumerate(group):
        if node in nodes and result["ns"][index] is not None:
            for key in ("ns", "ns_p99"):
                result[key][index] = [int(value * by) for value in result[key][index]]


def test_all_together_slow_although_pairs_passed_holds_all() -> None:
    def change(result: dict[str, Any], group: list[str]) -> None:
        if result["move"].startswith("all:") and result["bytes"] == 2**30:
            slower(result, group, group, 2)

    conclusion, _rounds, _seen, _settings = campaign(fleet(8, rails=2), change=of_kind("groups", change))
    assert not rejected(conclusion)
    assert len(conclusion.held) == 8
    assert "suspect the fabric" in conclusion.held["h1"]


def test_slow_rack_holds_its_members_and_the_rest_runs_again_without_it() -> None:
    rack = ["h05", "h06", "h07", "h08"]

    def change(result: dict[str, Any], group: list[str]) -> None:
        there = {node for node, row in zip(group, result["ns"], strict=True) if row is not None}
        if result["bytes"] == 2**30 and not result["move"].startswith("twos") and set(rack) <= there:
            slower(result, rack if result["move"].startswith("racks") else group, group, 2)

    subject = fleet(32, rails=2)
    conclusion, rounds, _seen, _settings = campaign(subject, change=of_kind("groups", change))
    assert not rejected(conclusion)
    assert set(conclusion.held) == set(rack)
    assert passed(conclusion) == set(subject.nodes) - set(rack)
    assert len(rounds) == 3


def test_noise_inside_sound_nodes_rejects_none_of_them() -> None:
    subject = fleet(32, "two_racks", 0.03, 70030)
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert not rejected(conclusion)
    assert set(conclusion.held) == set(subject.truth.held)


@pytest.mark.parametrize("witness", [0, 1])
def test_node_that_was_slow_inside_once_vouches_for_others(witness: int) -> None:
    first, _rounds, _seen, _settings = campaign(fleet(8, "hang", rails=4))
    subject = fleet(8, "hang", rails=4)
    (bad,) = subject.truth.bad
    waited = verdicts(first, bad)["pair_bandwidth"][1].rsplit("again with ", 1)[1].split(", ")[witness]

    def change(step: Round, item: dict[str, Any]) -> None:
        for result in item["results"]:
            if step.number == 1 and result["move"] == "inside":
                slower(result, [waited], item["group"], 1.2)

    conclusion, _rounds, _seen, _settings = campaign(subject, change=change)
    assert rejected(conclusion) == {bad}
    assert passed(conclusion) == set(subject.nodes) - {bad}


def test_slow_inside_a_node_is_rejected_once_it_is_slow_again() -> None:
    def change(result: dict[str, Any], group: list[str]) -> None:
        slower(result, ["h2"], group, 2)

    conclusion, _rounds, _seen, _settings = campaign(fleet(8, rails=4), change=of_kind("inside", change))
    assert rejected(conclusion) == {"h2"}
    assert "inside the node" in verdicts(conclusion, "h2")["group_bandwidth"][1]


def test_straggler_by_its_pairs_and_by_being_last() -> None:
    limits = {"p99_over_p50": 1.5, "last_share": 0.5}

    def tail(result: dict[str, Any], group: list[str]) -> None:
        index = group.index("h2") if "h2" in group else None
        if index is not None and result["ns"][index] is not None:
            result["ns_p99"][index] = [2 * value for value in result["ns"][index]]

    by_pairs, _rounds, _seen, _settings = campaign(fleet(8, rails=1), change=of_kind("pairs", tail), straggler=limits)
    assert rejected(by_pairs) == {"h2"}
    assert verdicts(by_pairs, "h2")["straggler"][0] == FAIL

    def last(result: dict[str, Any], group: list[str]) -> None:
        result["last"] = {"h2": 15, "h3": 5}
        result["ns_p99"] = [row and [2 * value for value in row] for row in result["ns"]]

    by_groups, _rounds, _seen, _settings = campaign(fleet(8, rails=1), change=of_kind("groups", last), straggler=limits)
    assert rejected(by_groups) == {"h2"}
    clean, _rounds, _seen, _settings = campaign(fleet(8, rails=1), straggler=limits)
    assert len(passed(clean)) == 8


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_straggler_at_the_limit_passes_only_by_a_number_that_does(seed: int) -> None:
    chance = np.random.default_rng(seed)

    def tail(result: dict[str, Any], group: list[str]) -> None:
        index = group.index("h2") if "h2" in group else None
        if index is not None and result["ns"][index] is not None:
            result["ns_p99"][index] = [value * float(chance.normal(1.5, 0.1)) for value in result["ns"][index]]

    limits = {"p99_over_p50": 1.5, "last_share": 0.5}
    conclusion, _rounds, _seen, _settings = campaign(fleet(4, rails=1), change=of_kind("pairs", tail), straggler=limits)
    (finding,) = (each for each in conclusion.findings["h2"] if each.check == "straggler")
    assert (finding.verdict == PASS) == (float(finding.measured or 0) <= 1.5)


@pytest.mark.parametrize("seed", [70000, 70045])
def test_node_that_was_slow_with_some_more_often_than_not_is_no_pair_of_each(seed: int) -> None:
    subject = fleet(8, "intermittent_30", 0.005, seed)
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert rejected(conclusion) == set(subject.truth.bad)
    assert not conclusion.held


def test_rail_below_the_floor_that_was_not_so_again_does_not_pass() -> None:
    subject = fleet(4, "one_rail", 0.03, 0, rails=4)
    conclusion, _rounds, _seen, _settings = campaign(subject)
    (bad,) = subject.truth.bad
    (finding,) = (each for each in conclusion.findings[bad] if each.check == "rail_bandwidth")
    assert finding.verdict == INCOMPLETE
    assert (finding.measured, finding.expected) == (36.34, 36.44)
    assert passed(conclusion) == set(subject.nodes) - {bad}


@pytest.mark.parametrize(
    ("slow", "where", "passes", "share"),
    [
        ((3, 10, 20, 31, 42), "walk", True, "5 of 69"),
        ((3, 10, 20, 31, 42), "walk confirm", False, "8 of 69"),
        ((3, 10, 20, 31), "walk confirm", True, "4 of 45"),
    ],
)
def test_share_of_exchanges_below_the_floor_keeps_a_node_from_passing(
    slow: tuple[int, ...], where: str, passes: bool, share: str
) -> None:
    # Above a tenth it is measured again, and all its exchanges count.
    def change(result: dict[str, Any], group: list[str]) -> None:
        if result["step"] in slow and result["bytes"] == 2**28 and result["move"] in where:
            slower(result, ["h3"], group, 2)

    conclusion, _rounds, _seen, _settings = campaign(fleet(4, **SMALL), change=of_kind("pairs", change))
    (found,) = [each for each in conclusion.findings["h3"] if each.check == "pair_bandwidth"]
    assert not rejected(conclusion)
    assert {"h1", "h2", "h4"} <= passed(conclusion)
    assert f"{share} exchanges below the class' floor of 36.44 GB/s" in found.reason
    if passes:
        assert found.verdict == PASS
    else:
        assert (found.verdict, found.measured, found.expected, found.unit) == (INCOMPLETE, 0.116, 0.1, "share")


def test_share_below_the_floor_of_two_with_each_other_keeps_both_from_passing() -> None:
    def change(result: dict[str, Any], group: list[str]) -> None:
        if partner(4, result["step"] % 3, 0) == 1 and result["step"] > 25 and result["bytes"] == 2**28:
            slower(result, ["h1", "h2"], group, 2)

    conclusion, _rounds, _seen, _settings = campaign(fleet(4, **SMALL), change=of_kind("pairs", change))
    assert not rejected(conclusion)
    assert passed(conclusion) == {"h3", "h4"}
    assert "9 of 77 exchanges below" in verdicts(conclusion, "h2")["pair_bandwidth"][1]


@pytest.mark.parametrize(
    ("size", "rails", "check", "said"),
    [
        # It is measured again, and all its exchanges count.
        (2**28, slice(1, 2), "rail_bandwidth", "rail 1, 256 MiB: 8 of 69 exchanges "),
        (65536, slice(4), "pair_latency", "64 KiB: 8 of 69 exchanges "),
    ],
)
def test_share_below_the_floor_counts_by_rail_and_by_size(size: int, rails: slice, check: str, said: str) -> None:
    def change(result: dict[str, Any], group: list[str]) -> None:
        if result["step"] in (3, 10, 20, 31, 42) and result["bytes"] == size:
            for key in ("ns", "ns_p99"):
                row = result[key][group.index("h3")]
                row[rails] = [2 * value for value in row[rails]]

    conclusion, _rounds, _seen, _settings = campaign(fleet(4, rails=4, effect=0.6), change=of_kind("pairs", change))
    verdict, reason = verdicts(conclusion, "h3")[check]
    assert verdict == INCOMPLETE
    assert reason.startswith(said)
    assert verdicts(conclusion, "h3")["pair_bandwidth"][0] == PASS
    assert {"h1", "h2", "h4"} <= passed(conclusion)


def test_size_that_only_a_ceiling_judges_is_judged() -> None:
    subject = fleet(4, rails=1)
    floors = [each for each in expectations(subject.spec)["floors"] if each["size_bytes"] != 65536]
    ceilings = [{"collective": "sendrecv", "nodes_min": 2, "size_bytes": 65536, "microseconds": 50.0}]
    without, _rounds, _seen, _settings = campaign(subject, floors=floors)
    assert "pairs at 64 KiB are not judged: too few peers, and no limit of the class" in without.remarks
    conclusion, _rounds, _seen, _settings = campaign(fleet(4, rails=1), floors=floors, latency=ceilings)
    assert passed(conclusion) == set(subject.nodes)
    assert not any("not judged" in remark for remark in conclusion.remarks)


def test_latency_ceilings_of_pairs_and_groups() -> None:
    pairs = [{"collective": "sendrecv", "nodes_min": 2, "size_bytes": 65536, "microseconds": 15.0}]
    conclusion, _rounds, _seen, _settings = campaign(fleet(8, rails=1), latency=pairs)
    assert not rejected(conclusion)
    assert len(conclusion.held) == 8
    groups = [{"collective": "all_reduce", "nodes_min": 2, "size_bytes": 8, "microseconds": 100.0}]
    conclusion, _rounds, _seen, _settings = campaign(fleet(8, rails=1), latency=groups)
    assert len(passed(conclusion)) == 8
    groups[0]["microseconds"] = 10.0
    conclusion, _rounds, _seen, _settings = campaign(fleet(8, rails=1), latency=groups)
    assert not passed(conclusion)
    assert not rejected(conclusion)
    assert "us (99 %)" in verdicts(conclusion, "h1")["group_latency"][1]


def test_training_step_runs_with_nobody_suspected_in_it() -> None:
    def add(step: Round, item: dict[str, Any]) -> None:
        for phase in step.program["moves"]:
            if phase["kind"] == "train":
                count = len(item["group"])
                rows = [[5_000_000] * 2 for _ in range(count)]
                item["results"].append(
                    {"move": "train", "step": 0, "bytes": 4096, "ns": rows, "ns_p99": rows, "wrong": {}}
                )
                assert "h" in item["group"][0]

    train = {"hidden": 64, "layers": 2, "steps": 10}
    subject = fleet(16, "one_slow_10", rails=2)
    conclusion, rounds, _seen, _settings = campaign(subject, change=add, train=train)
    trained = [each for each in rounds if any(phase["kind"] == "train" for phase in each.program["moves"])]
    assert len(trained) == 1
    assert not set(subject.truth.bad) & set(trained[0].groups[0])
    assert len(rounds) <= 3
    assert passed(conclusion) == set(subject.nodes) - set(subject.truth.bad)
    without, _rounds, _seen, _settings = campaign(fleet(16, rails=2), train=train)
    assert not passed(without)


def test_wrong_data_between_one_pair_alone_holds_the_two() -> None:
    def change(result: dict[str, Any], group: list[str]) -> None:
        two = {"h2", "h5"} & set(group)
        rows = [result["ns"][group.index(node)] for node in two]
        if len(two) == 2 and all(rows) and _meet(result, group):
            result["wrong"] = {"h5": [0]}

    subject = fleet(8, rails=1)
    pairs: dict[tuple[str, int], set[frozenset[str]]] = {}

    def _meet(result: dict[str, Any], group: list[str]) -> bool:
        return frozenset(("h2", "h5")) in pairs[result["move"], result["step"]]

    def noted(step: Round, item: dict[str, Any]) -> None:
        from tests.isolation.fleet import permutation_pairs  # noqa: PLC0415 -- shared with the simulator

        for phase in step.program["moves"]:
            if "shifts" in phase:
                for at, one, other in zip(*permutation_pairs(len(item["group"]), phase["shifts"]), strict=True):
                    pairs.setdefault((phase["name"], int(at)), set()).add(
                        frozenset((item["group"][one], item["group"][other]))
                    )
            for at, step_pairs in enumerate(phase.get("pairs", ())):
                pairs[phase["name"], at] = {frozenset((item["group"][a], item["group"][b])) for a, b in step_pairs}
        of_kind("pairs", change)(step, item)

    conclusion, _rounds, _seen, _settings = campaign(subject, change=noted)
    assert not rejected(conclusion)
    assert set(conclusion.held) == {"h2", "h5"}
    assert "wrong data" in verdicts(conclusion, "h2")["data"][1]


# Budget, remarks, telling.


def test_budget_chooses_permutations_and_states_the_coverage() -> None:
    subject = fleet(64)
    conclusion, rounds, _seen, _settings = campaign(subject, budget_minutes=9.5)
    (walk,) = [phase for phase in rounds[0].program["moves"] if phase["name"] == "walk"]
    assert len(walk["shifts"]) == 21
    assert any("672 of 2016 pairs measured (33.3%)" in remark for remark in conclusion.remarks)
    assert len(passed(conclusion)) == 64


def test_round_is_told_in_one_line() -> None:
    _conclusion, rounds, seen, settings = campaign(fleet(8, "hang"))
    lines = [
        round_summary(
            step.number, plan_of(step), [item for number, _plan, item in seen if number == step.number], settings
        )
        for step in rounds
    ]
    assert all("\n" not in line for line in lines)
    assert "256 MiB: median 45" in lines[0]
    assert "suspected: h" in lines[0]
    assert "all: " in lines[2]


def test_details_keep_each_nodes_slowest_exchange() -> None:
    subject = fleet(8, "one_slow_10")
    _conclusion, rounds, seen, settings = campaign(subject)
    kept = details(subject.nodes, seen, settings)
    json.dumps(kept)
    (bad,) = subject.truth.bad
    assert [each["kind"] for each in kept[bad]["rounds"]] == [each.kind for each in rounds]
    sound = next(node for node in subject.nodes if node != bad)
    assert kept[sound]["pairs"]["268435456"]["with"] == bad
    assert kept[sound]["groups"][-1]["level"] == "all"


def test_observations_are_not_changed_by_planning() -> None:
    subject = fleet(4, rails=1)
    settings = Settings.of(collectives(expectations(subject.spec)), subject.places())
    step = next_round(subject.nodes, (), (), settings)
    assert isinstance(step, Round)
    items = [as_json(item) for item in subject.run(plan_of(step))]
    before = copy.deepcopy(items)
    next_round(subject.nodes, (), [(1, plan_of(step), item) for item in items], settings)
    assert items == before


@pytest.mark.parametrize("seed", [104, 115, 118])
def test_many_slow_ones_are_held_though_noise_hides_some_of_them_once(seed: int) -> None:
    subject = fleet(8, "fifth_slow", 0.03, seed)
    conclusion, _rounds, _seen, _settings = campaign(subject)
    assert not rejected(conclusion)
    assert set(subject.truth.held) <= set(conclusion.held)
