"""Collectives that are slow on some nodes, or were late once: who is rejected or cleared, what is measured again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import Planner
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.groups_of_two import couples_of

from tests.fleets import collectives
from tests.isolation.campaign import plan_of
from tests.isolation.fleet import Fleet, Spec, expectations

# By round, phase and the names of a group: how many times as long its operation takes.
Late = Callable[[int, Mapping[str, Any], Sequence[str]], float]
MOST_ROUNDS = 8


def play(hosts: int, late: Late, seed: int = 1, **expect: Any) -> tuple[Conclusion, list[Round], Fleet]:
    """Play a campaign of sound hosts whose groups are late as told."""
    subject = Fleet(Spec.usual(hosts, "clean", 0.01, rails=2), seed)
    settings = Settings.of(collectives(expectations(subject.spec, **expect)), subject.places())
    planner, seen, rounds = Planner(subject.nodes, (), settings), [], []
    while isinstance(step := planner.next_round(seen), Round):
        assert len(rounds) < MOST_ROUNDS
        plan = plan_of(step)
        items = subject.run(plan)
        phases = {phase["name"]: phase for phase in plan["program"]["moves"] if phase["kind"] == "groups"}
        for item in items:
            for result in item["results"]:
                phase = phases.get(result["move"], {})
                for group in phase.get("groups", ()):
                    times = late(step.number, phase, [item["group"][at] for at in group])
                    result["ns"][group] *= times
                    result["ns_p99"][group] *= times
        seen += [(step.number, plan, item) for item in items]
        rounds.append(step)
    return step, rounds, subject


def rejected(conclusion: Conclusion) -> set[str]:
    return {node for node, owed in conclusion.findings.items() if any(each.verdict == FAIL for each in owed)}


def passed(conclusion: Conclusion) -> set[str]:
    return {node for node, owed in conclusion.findings.items() if all(each.verdict == PASS for each in owed)}


def slow(nodes: Sequence[str], collective: str, times: float = 1 / 0.9) -> Late:
    """Return that one collective takes longer in every group with one of these nodes."""
    return lambda _number, phase, group: times if phase["collective"] == collective and {*nodes} & {*group} else 1.0


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize("hosts", [8, 13, 33, 232])
def test_node_that_is_slow_in_any_collective_is_rejected_and_its_mates_are_cleared(hosts: int, collective: str) -> None:
    bad = Fleet(Spec.usual(hosts, "clean", 0.01), 1).nodes[hosts // 3]
    conclusion, rounds, subject = play(hosts, slow([bad], collective))
    assert rejected(conclusion) == {bad}
    assert passed(conclusion) == set(subject.nodes) - {bad}
    assert len(rounds) == 3
    (finding,) = (each for each in conclusion.findings[bad] if each.verdict == FAIL)
    assert f"{collective.replace('_', '-')} of 1 GiB reached" in finding.reason
    assert "groups like it; again in" in finding.reason


@pytest.mark.parametrize("share", [0.25, 0.33, 0.4])
def test_collective_that_is_slow_on_many_holds_all_of_them(share: float) -> None:
    names = Fleet(Spec.usual(232, "clean", 0.01), 1).nodes
    bad = np.random.default_rng(5).choice(names, size=round(share * 232), replace=False).tolist()
    conclusion, _rounds, _subject = play(232, slow(bad, "reduce_scatter"))
    assert not rejected(conclusion)
    assert not passed(conclusion) & set(bad)
    assert passed(conclusion) == set(names) - set(bad)


def test_collective_that_is_slow_on_everybody_is_told_by_its_floor_alone() -> None:
    for times, held in ((1 / 0.9, 0), (1 / 0.6, 32)):
        conclusion, _rounds, subject = play(
            32, slow(Fleet(Spec.usual(32, "clean", 0.01), 1).nodes, "all_gather", times)
        )
        assert not rejected(conclusion)
        assert len(passed(conclusion)) == len(subject.nodes) - held


@pytest.mark.parametrize(("level", "hosts"), [("all", 8), ("all", 32), ("racks", 32), ("pods", 232)])
def test_group_that_was_late_once_passes_the_second_time_and_a_remark_says_so(level: str, hosts: int) -> None:
    def late(number: int, phase: Mapping[str, Any], group: Sequence[str]) -> float:
        first = phase["name"] == f"{level}:all_reduce" and any(node.strip("h0") == "1" for node in group)
        return 2.0 if number == 2 and first else 1.0

    conclusion, rounds, subject = play(hosts, late)
    assert passed(conclusion) == set(subject.nodes)
    assert not conclusion.held
    assert len(rounds) == 3
    assert any("round 2: " in each and "not so when it was measured again" in each for each in conclusion.remarks)


def test_all_together_late_in_the_same_collective_twice_holds_everybody() -> None:
    conclusion, rounds, _subject = play(
        32, lambda _number, phase, _group: 2.0 if phase["name"] == "all:all_to_all" else 1.0
    )
    assert not rejected(conclusion)
    assert len(conclusion.held) == 32
    assert len(rounds) == 3


def test_all_together_late_in_one_collective_and_then_in_another_are_measured_a_third_time() -> None:
    order = {2: "all:all_to_all", 3: "all:all_gather"}
    conclusion, rounds, subject = play(
        32, lambda number, phase, _group: 2.0 if phase["name"] == order.get(number) else 1
    )
    assert passed(conclusion) == set(subject.nodes)
    assert len(rounds) == 4


def test_all_together_late_in_something_every_time_never_pass() -> None:
    names = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]

    def late(number: int, phase: Mapping[str, Any], _group: Sequence[str]) -> float:
        return 2.0 if phase["name"] == f"all:{names[number % 4]}" else 1.0

    conclusion, _rounds, _subject = play(32, late)
    assert not passed(conclusion)
    assert not rejected(conclusion)


def test_everything_late_in_one_round_holds_nobody() -> None:
    conclusion, _rounds, subject = play(32, lambda number, _phase, _group: 2.0 if number == 2 else 1.0)
    assert passed(conclusion) == set(subject.nodes)


@pytest.mark.parametrize("hosts", [32, 232])
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_one_operation_in_fifty_late_rejects_nobody_and_holds_nobody(hosts: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    conclusion, _rounds, subject = play(hosts, lambda *_: rng.uniform(1, 2) if rng.random() < 0.02 else 1.0, seed)
    assert not rejected(conclusion)
    assert passed(conclusion) == set(subject.nodes)


def test_slow_node_that_could_not_be_measured_again_never_passes() -> None:
    subject = Fleet(Spec.usual(32, "clean", 0.01, rails=2), 1)
    bad = subject.nodes[9]
    settings = Settings.of(collectives(expectations(subject.spec)), subject.places())
    planner, seen = Planner(subject.nodes, (), settings), []
    while isinstance(step := planner.next_round(seen), Round):
        plan = plan_of(step)
        (item,) = subject.run(plan)
        if step.number > 2:
            item.update(ok=False, started=False, error="no room", results=[])
        for result in item["results"]:
            phase = next(each for each in plan["program"]["moves"] if each["name"] == result["move"])
            for group in phase.get("groups", ()):
                if phase["collective"] == "all_gather" and bad in [item["group"][at] for at in group]:
                    result["ns"][group] *= 1.2
        seen.append((step.number, plan, item))
    assert not rejected(step)
    assert bad not in passed(step)
    assert "could not be measured again" in step.held[bad]


def test_fewer_nodes_than_a_cohort_have_no_groups_of_two_and_a_remark_says_so() -> None:
    conclusion, rounds, subject = play(7, lambda *_: 1.0)
    assert not [phase for step in rounds for phase in step.program["moves"] if phase["name"].startswith("twos")]
    assert passed(conclusion) == set(subject.nodes)
    assert any("7 nodes: fewer than 8 groups of two" in each for each in conclusion.remarks)


@pytest.mark.parametrize("count", [2, 3, 16, 17])
def test_everybody_is_in_a_group_of_two_far_from_itself(count: int) -> None:
    order = [f"n{at:02}" for at in range(count)]
    steps = couples_of(dict.fromkeys(order, 1), (), order)
    assert {node for step in steps for pair in step for node in pair} == set(order)
    assert len(steps) == 1 + count % 2
    for one, other in steps[0]:
        assert order.index(other) - order.index(one) == count // 2


def test_who_is_asked_is_with_another_proven_node_each_time_and_all_others_have_likes() -> None:
    order = [f"n{at:02}" for at in range(20)]
    asked = {"n03": 6, "n11": 6}
    steps = couples_of(asked, [node for node in order if node not in asked], order)
    assert len(steps) == 6
    for node in asked:
        mates = [next(other for pair in step if node in pair for other in pair if other != node) for step in steps]
        assert len(set(mates)) == 6
        assert not set(mates) & set(asked)
    assert all(len(step) == 10 and len({node for pair in step for node in pair}) == 20 for step in steps)
    assert all(set(one) != set(other) for one, other in pairwise(steps))


def test_nobody_to_ask_is_no_permutation() -> None:
    assert couples_of({}, ["a", "b"], ["a", "b"]) == []
    assert couples_of({"a": 1}, (), ["a"]) == []
