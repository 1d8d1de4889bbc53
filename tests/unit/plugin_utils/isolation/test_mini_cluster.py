"""Campaigns of a fleet whose policy asks for mini-clusters: who passes by them, and who does not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import read_program
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import MINI_CLUSTER_CHECK
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import LatencyProfile, latency_rows
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import (
    conclude_early,
    next_round,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.round_summary import round_summary
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import StoredRound
from ansible_collections.muster.cluster.plugins.plugin_utils.report.measured import measured

from tests.fleets import collectives
from tests.isolation.campaign import plan_of
from tests.isolation.fleet import Fleet, Spec, as_json, expectations

Seen = list[tuple[int, Mapping[str, Any], Mapping[str, Any]]]
# What one group of a phase shows at one size; gives the microseconds of its p99, None for what the fleet showed.
Times = Callable[[Round, Sequence[str], int], float | None]
Change = Callable[[Round, dict[str, Any]], None]

SIZES = (65536, 1048576)
PROFILE = LatencyProfile("mini_cluster", "all_reduce", SIZES, {16: 60.0, 32: 60.0})


def is_mini_cluster(name: str) -> bool:
    return name.startswith("mini_cluster:")


def timed(times: Times) -> Change:
    """Return the change that gives mini-clusters these times."""

    def change(step: Round, item: dict[str, Any]) -> None:
        phases = {phase["name"]: phase for phase in step.program["moves"]}
        for result in item["results"]:
            for positions in phases[result["move"]]["groups"] if is_mini_cluster(result["move"]) else ():
                took = times(step, [item["group"][index] for index in positions], result["bytes"])
                for index in positions if took is not None else ():
                    result["ns_p99"][index] = [round(took * 1000)] * len(result["ns"][index])

    return change


def play(
    subject: Fleet,
    profile: LatencyProfile | None = PROFILE,
    change: Change = lambda step, item: None,
    members: Sequence[str] | None = None,
    partners: Sequence[str] = (),
    **expect: Any,
) -> tuple[Conclusion, list[Round], Seen, Settings]:
    names = list(subject.nodes if members is None else members)
    settings = Settings.of(collectives(expectations(subject.spec, **expect)), subject.places(), None, profile)
    seen: Seen = []
    rounds: list[Round] = []
    while len(rounds) < 8:
        step = next_round(names, partners, seen, settings)
        if isinstance(step, Conclusion):
            assert all(tuple(each.check for each in owed) == settings.checks() for owed in step.findings.values())
            return step, rounds, seen, settings
        plan = json.loads(json.dumps(plan_of(step)))
        for group in step.groups:
            read_program(plan["program"], len(group))
        for item in subject.run(plan):
            given = json.loads(json.dumps(as_json(item)))
            change(step, given)
            seen.append((step.number, plan, given))
        rounds.append(step)
    raise AssertionError(f"no conclusion after {[each.kind for each in rounds]}")


def fleet(hosts: int, **shape: Any) -> Fleet:
    return Fleet(Spec.usual(hosts, "clean", 0.01, **shape), 1)


def passed(conclusion: Conclusion) -> set[str]:
    return {node for node, owed in conclusion.findings.items() if all(each.verdict == PASS for each in owed)}


def nobody_is_rejected(conclusion: Conclusion) -> bool:
    return all(each.verdict != FAIL for owed in conclusion.findings.values() for each in owed)


def finding(conclusion: Conclusion, node: str) -> Finding:
    return next(each for each in conclusion.findings[node] if each.check == MINI_CLUSTER_CHECK)


def mini_clusters(step: Round) -> dict[str, list[list[str]]]:
    (job,) = step.groups
    return {
        phase["name"]: [[job[index] for index in group] for group in phase["groups"]]
        for phase in step.program["moves"]
        if is_mini_cluster(phase["name"])
    }


@pytest.mark.parametrize("hosts", [4, 8, 11, 32])
def test_healthy_fleet_is_measured_beside_its_groups_and_passes(hosts: int) -> None:
    subject = fleet(hosts)
    conclusion, rounds, _seen, _settings = play(subject)
    assert [step.kind for step in rounds] == ["walk", "groups"]
    asked = mini_clusters(rounds[1])
    for gpus in (16, 32):
        groups = [group for name, found in asked.items() if f":{gpus}:" in name for group in found]
        assert {node for group in groups for node in group} == set(subject.nodes)
        assert {len(group) for group in groups} == {gpus // 8}
    assert passed(conclusion) == set(subject.nodes)
    found = finding(conclusion, subject.nodes[0])
    assert (found.expected, found.unit) == (60.0, "us") and 30 < float(found.measured or 0) < 60
    assert "mini-clusters of 16, 32 GPUs" in found.reason


def test_without_a_profile_there_is_no_move_and_no_finding_more() -> None:
    conclusion, rounds, _seen, settings = play(fleet(8), None)
    assert not any(mini_clusters(step) for step in rounds)
    assert MINI_CLUSTER_CHECK not in settings.checks() and len(passed(conclusion)) == 8
    with_profile = play(fleet(8))[1]
    for step, other in zip(rounds, with_profile, strict=True):
        kept = [phase for phase in other.program["moves"] if not is_mini_cluster(phase["name"])]
        assert (step.kind, step.groups, step.program["moves"]) == (other.kind, other.groups, kept)


# As seconds and back 50.3 us are a little more.
@pytest.mark.parametrize(
    ("limit", "microseconds", "passes"), [(60.0, 60.0, True), (60.0, 60.001, False), (50.3, 50.3, True)]
)
@pytest.mark.parametrize("size", SIZES)
def test_limit_from_both_sides_at_any_size(limit: float, microseconds: float, passes: bool, size: int) -> None:
    def times(step: Round, group: Sequence[str], at: int) -> float | None:
        return microseconds if at == size and len(group) == 4 else None

    profile = LatencyProfile("mini_cluster", "all_reduce", SIZES, {16: limit, 32: limit})
    conclusion, _rounds, _seen, _settings = play(fleet(8), profile, timed(times))
    assert passed(conclusion) == (set(conclusion.findings) if passes else set())
    if not passes:
        assert len(conclusion.held) == 8 and nobody_is_rejected(conclusion)
        assert "in 32 GPUs with " in conclusion.held["h1"] and "no node is blamed" in conclusion.held["h1"]


def test_group_that_is_slow_once_is_asked_again_and_passes() -> None:
    def times(step: Round, group: Sequence[str], at: int) -> float | None:
        return 90 if step.kind == "groups" and list(group) == ["h1", "h2"] else None

    conclusion, rounds, _seen, _settings = play(fleet(8), change=timed(times))
    assert [step.kind for step in rounds] == ["walk", "groups", "mini_clusters"]
    again, *apart = mini_clusters(rounds[2]).values()
    assert again == [["h1", "h2"]]
    assert [sorted({"h1", "h2"} & set(group)) for found in apart for group in found] == [["h1"], ["h2"]]
    assert len(passed(conclusion)) == 8


def test_nodes_that_are_slow_together_alone_are_both_held() -> None:
    def times(step: Round, group: Sequence[str], at: int) -> float | None:
        return 90 if list(group) == ["h1", "h2"] else None

    conclusion, _rounds, _seen, _settings = play(fleet(8), change=timed(times))
    assert passed(conclusion) == set(conclusion.findings) - {"h1", "h2"}
    assert set(conclusion.held) == {"h1", "h2"} and nobody_is_rejected(conclusion)
    assert "suspect what they share" in conclusion.held["h1"]


@pytest.mark.parametrize("hosts", [8, 32])
def test_one_slow_node_is_told_from_its_neighbours_and_held(hosts: int) -> None:
    subject = fleet(hosts)
    slow = subject.nodes[2]

    def times(step: Round, group: Sequence[str], at: int) -> float | None:
        return 75 if slow in group else None

    conclusion, rounds, _seen, _settings = play(subject, change=timed(times))
    assert passed(conclusion) == set(subject.nodes) - {slow}
    assert set(conclusion.held) == {slow} and nobody_is_rejected(conclusion)
    assert "suspect this node" in conclusion.held[slow]
    found = finding(conclusion, slow)
    assert (found.verdict, found.measured, found.expected) == (INCOMPLETE, 75.0, 60.0)
    assert len(rounds) == 3


def test_suspect_is_asked_with_others_than_it_was_slow_with() -> None:
    def times(step: Round, group: Sequence[str], at: int) -> float | None:
        return 90 if list(group) == ["h1", "h2"] else None

    _conclusion, rounds, _seen, _settings = play(
        fleet(3), LatencyProfile("chat", "all_reduce", SIZES, {16: 60.0}), timed(times)
    )
    # Whoever is left over of three runs with one of the others, who has kept the limit then.
    (both, left) = mini_clusters(rounds[1]).values()
    assert both == [["h1", "h2"]] and len(left) == 1 and "h3" in left[0]
    (again, apart) = mini_clusters(rounds[2]).values()
    (suspect,) = {"h1", "h2"} - {*left[0]}
    assert again == both and apart == [[suspect, "h3"]]


def test_node_that_is_last_in_mini_clusters_is_no_straggler() -> None:
    def change(step: Round, item: dict[str, Any]) -> None:
        for result in item["results"]:
            if result["move"].startswith("mini_cluster:32:"):
                result["last"] = {"h1": 150, "h8": 150}
                result["ns_p99"] = [[50_000] * 8 for _ in result["ns"]]
                result["ns"] = [[20_000] * 8 for _ in result["ns"]]

    limits = {"p99_over_p50": 1.5, "last_share": 0.5}
    conclusion, _rounds, _seen, _settings = play(fleet(8), change=change, straggler=limits)
    assert len(passed(conclusion)) == 8


def test_group_of_which_one_tail_cannot_be_read_says_nothing_of_its_latency() -> None:
    def change(step: Round, item: dict[str, Any]) -> None:
        for result in item["results"]:
            if result["move"] == "all:all_reduce" and result["bytes"] == 8:
                result["ns_p99"][0] = [math.nan] * 8

    limits = [{"collective": "all_reduce", "nodes_min": 2, "size_bytes": 8, "microseconds": 100.0}]
    conclusion, _rounds, _seen, _settings = play(fleet(8), None, change, latency=limits)
    assert not passed(conclusion)


def test_where_all_groups_are_slow_nobody_is_blamed() -> None:
    conclusion, rounds, _seen, _settings = play(fleet(8), change=timed(lambda step, group, at: 80))
    assert not passed(conclusion) and nobody_is_rejected(conclusion) and len(conclusion.held) == 8
    assert len(rounds) == 3


def test_group_without_room_for_others_is_held_as_a_whole() -> None:
    conclusion, _rounds, _seen, _settings = play(
        fleet(4), change=timed(lambda step, group, at: 80 if len(group) == 4 else None)
    )
    assert not passed(conclusion) and len(conclusion.held) == 4


def spoiled(where: Callable[[Round], bool], spoil: Callable[[dict[str, Any], dict[str, Any]], None]) -> Change:
    """Return the change that spoils what mini-clusters of 16 GPUs showed in some rounds: item and result."""

    def change(step: Round, item: dict[str, Any]) -> None:
        for result in list(item["results"]):
            if result["move"].startswith("mini_cluster:16:") and where(step):
                spoil(item, result)

    return change


def every(step: Round) -> bool:
    return True


def first(step: Round) -> bool:
    return step.kind == "groups"


def forget(item: dict[str, Any], result: dict[str, Any]) -> None:
    item["results"].remove(result)


def nothing_of_h1(item: dict[str, Any], result: dict[str, Any]) -> None:
    at = item["group"].index("h1") if "h1" in item["group"] else None
    if at is not None:
        result["ns"][at] = result["ns_p99"][at] = None


def no_tail_of_h1(item: dict[str, Any], result: dict[str, Any]) -> None:
    if "h1" in item["group"]:
        result["ns_p99"][item["group"].index("h1")] = None


def garbled_tail_of_h1(item: dict[str, Any], result: dict[str, Any]) -> None:
    if "h1" in item["group"]:
        result["ns_p99"][item["group"].index("h1")] = [math.nan] * 8


def wrong_of_h1(item: dict[str, Any], result: dict[str, Any]) -> None:
    if "h1" in item["group"]:
        result["wrong"] = {"h1": [0]}


@pytest.mark.parametrize("spoil", [nothing_of_h1, no_tail_of_h1, garbled_tail_of_h1, wrong_of_h1])
def test_group_that_did_not_finish_or_gave_wrong_data_passes_nobody_in_it(spoil: Any) -> None:
    conclusion, rounds, _seen, _settings = play(fleet(8), change=spoiled(every, spoil))
    mate = next(group for group in mini_clusters(rounds[1])["mini_cluster:16:1"] if "h1" in group)[1]
    assert "h1" not in passed(conclusion)
    assert nobody_is_rejected(conclusion)
    # Its neighbour was asked with another one or not at all, and never passes by the group with h1.
    assert finding(conclusion, mate).verdict == INCOMPLETE or "h1" not in finding(conclusion, mate).reason
    assert passed(conclusion) >= set(conclusion.findings) - {"h1", mate}


@pytest.mark.parametrize("where", [every, first])
def test_measurement_that_is_missing_is_no_pass(where: Any) -> None:
    conclusion, _rounds, _seen, _settings = play(fleet(8), change=spoiled(where, forget))
    assert not passed(conclusion)


def test_step_that_measured_everything_and_crashed_passes_nobody() -> None:
    def change(step: Round, item: dict[str, Any]) -> None:
        if any(is_mini_cluster(phase["name"]) for phase in step.program["moves"]):
            item.update(ok=False, error="srun ended with 139")

    conclusion, _rounds, _seen, _settings = play(fleet(8), change=change)
    assert not passed(conclusion) and nobody_is_rejected(conclusion)
    assert "srun ended with 139" in finding(conclusion, "h1").reason


def test_node_on_which_a_mini_cluster_hangs_keeps_nobody_else_from_passing() -> None:
    def change(step: Round, item: dict[str, Any]) -> None:
        names = [phase["name"] for phase in step.program["moves"]]
        at = next((name for name in names if is_mini_cluster(name)), "hung")
        if "h3" not in item["group"] or step.kind == "walk":
            return
        before = names[: names.index(at)]
        item["results"] = [result for result in item["results"] if result["move"] in before]
        item["reached"] = {node: [at, 0, "absent" if node == "h3" else "arrived"] for node in item["group"]}
        item.update(ok=False, error=f"not finished in {at}, cancelled")

    conclusion, rounds, _seen, _settings = play(fleet(8), change=change)
    assert "h3" in rounds[1].groups[0] and [job[0] for job in rounds[2].groups] == ["h3"]
    assert passed(conclusion) == set(conclusion.findings) - {"h3"}
    (reason,) = (each.reason for each in conclusion.findings["h3"] if each.verdict == "fail")
    assert "it never reached mini_cluster:16:1" in reason and "; again with h1, h4" in reason


def test_second_try_that_crashed_clears_nobody() -> None:
    def times(step: Round, group: Sequence[str], at: int) -> float | None:
        return 90 if step.kind == "groups" and list(group) == ["h1", "h2"] else None

    def change(step: Round, item: dict[str, Any]) -> None:
        timed(times)(step, item)
        if step.kind == "mini_clusters":
            item.update(ok=False, error="srun ended with 139")

    conclusion, _rounds, _seen, _settings = play(fleet(8), change=change)
    assert passed(conclusion) == set(conclusion.findings) - {"h1", "h2"}


def test_too_few_nodes_for_a_mini_cluster_pass_nobody_and_say_so() -> None:
    conclusion, rounds, _seen, _settings = play(fleet(3))
    assert not passed(conclusion) and not conclusion.held
    assert "not measured in a mini-cluster of 32 GPUs, as that takes 4 nodes" in finding(conclusion, "h1").reason
    assert any("mini-clusters of 32 GPUs take 4 nodes and were not measured" in each for each in conclusion.remarks)
    assert not any("mini-clusters of 16" in each for each in conclusion.remarks)
    assert [step.kind for step in rounds] == ["walk", "groups"]


@pytest.mark.parametrize(("slow", "passes"), [((), True), (("h1",), False), (("h2",), True)])
def test_one_node_is_measured_with_nodes_in_service(slow: Sequence[str], passes: bool) -> None:
    def times(step: Round, group: Sequence[str], at: int) -> float | None:
        return 90 if {*slow} & {*group} else None

    subject = fleet(8)
    conclusion, rounds, _seen, _settings = play(
        subject, change=timed(times), members=["h1"], partners=subject.nodes[1:]
    )
    assert passed(conclusion) == ({"h1"} if passes else set())
    assert nobody_is_rejected(conclusion)
    last = rounds[-1]
    assert last.kind == "mini_clusters" and "h1" in last.groups[0]
    assert set(conclusion.held) == (set() if passes else {"h1"})


def test_nodes_in_service_that_are_busy_leave_the_node_incomplete() -> None:
    def change(step: Round, item: dict[str, Any]) -> None:
        if step.kind == "mini_clusters":
            busy = {node: "allocated" for node in item["group"] if node != "h1"}
            item.update(ok=False, started=False, error="not started", unavailable=busy, results=[])

    subject = fleet(8)
    conclusion, rounds, _seen, _settings = play(subject, change=change, members=["h1"], partners=subject.nodes[1:])
    assert not passed(conclusion) and nobody_is_rejected(conclusion)
    assert len(rounds) <= 4 and "not measured in a mini-cluster" in finding(conclusion, "h1").reason


# What would let a node through that nobody measured.


def test_profile_that_is_named_and_not_measured_is_asked_for() -> None:
    subject = fleet(8)
    _conclusion, _rounds, seen, settings = play(subject, None)
    asking = Settings.of(collectives(expectations(subject.spec)), subject.places(), None, PROFILE)
    step = next_round(subject.nodes, (), seen, asking)
    assert isinstance(step, Round) and step.kind == "mini_clusters"
    assert settings.mini_clusters is None
    stopped = conclude_early(subject.nodes, (), seen, asking, "budget used up")
    assert not passed(stopped) and finding(stopped, "h1").reason == "budget used up"


def other_collective(phase: dict[str, Any]) -> None:
    phase["collective"] = "all_gather"


def other_ranks(phase: dict[str, Any]) -> None:
    phase["groups"] = [[0, 1, 2], [3, 4, 5], [6, 7]][: 2 if ":16:" in phase["name"] else 3]


def other_name(phase: dict[str, Any]) -> None:
    phase["name"] = phase["name"].replace("mini_cluster", "racks")


@pytest.mark.parametrize("spoil", [other_collective, other_ranks, other_name])
def test_what_was_measured_of_something_else_is_no_pass(spoil: Callable[[dict[str, Any]], None]) -> None:
    subject = fleet(8)
    _conclusion, _rounds, seen, settings = play(subject)
    other: Seen = json.loads(json.dumps(seen))
    for _number, plan, item in other:
        for phase in plan["program"]["moves"]:
            name = phase["name"]
            if is_mini_cluster(name):
                spoil(phase)
                for result in item["results"]:
                    result["move"] = phase["name"] if result["move"] == name else result["move"]
    step = next_round(subject.nodes, (), other, settings)
    if isinstance(step, Conclusion):
        assert not passed(step)
    else:
        assert step.kind == "mini_clusters"


def test_other_profile_is_not_passed_by_what_was_measured_for_the_last_one() -> None:
    subject = fleet(8)
    _conclusion, _rounds, seen, _settings = play(subject)
    for other in (
        LatencyProfile("mini_cluster", "all_reduce", (*SIZES, 262144), PROFILE.limits),
        LatencyProfile("mini_cluster", "all_reduce", SIZES, {**PROFILE.limits, 64: 60.0}),
        LatencyProfile("mini_cluster", "all_reduce", SIZES, {16: 10.0}),
    ):
        asking = Settings.of(collectives(expectations(subject.spec)), subject.places(), None, other)
        assert not isinstance(next_round(subject.nodes, (), seen, asking), Conclusion)
        assert not passed(conclude_early(subject.nodes, (), seen, asking, "stopped"))


def test_name_of_a_profile_is_no_name_of_a_group() -> None:
    named = LatencyProfile("all:all_reduce", "all_reduce", SIZES, {16: 60.0})
    conclusion, rounds, _seen, _settings = play(fleet(8), named, timed(lambda step, group, at: 90))
    assert mini_clusters(rounds[1])
    assert {each.verdict for each in conclusion.findings["h1"] if each.check != MINI_CLUSTER_CHECK} == {PASS}


def test_round_tells_its_slowest_mini_cluster() -> None:
    def times(step: Round, group: Sequence[str], at: int) -> float | None:
        return 59.5 if list(group) == ["h3", "h4"] else None

    _conclusion, rounds, seen, settings = play(fleet(8), change=timed(times))
    line = round_summary(2, plan_of(rounds[1]), [item for number, _plan, item in seen if number == 2], settings)
    assert "4 mini-clusters of 16 GPUs: slowest h3+h4 59.5 us (99 %) at 64 KiB" in line
    assert "2 mini-clusters of 32 GPUs: " in line


def test_report_counts_what_admits() -> None:
    def times(step: Round, group: Sequence[str], at: int) -> float | None:
        return 90 if step.kind == "groups" and list(group) == ["h1", "h2"] else None

    _conclusion, rounds, seen, _settings = play(fleet(8), change=timed(times))
    stored = [StoredRound("c", number, plan, [item], 1.0, 2.0) for number, plan, item in seen]
    rows = latency_rows(measured(stored).groups, PROFILE)
    asked = [mini_clusters(step) for step in rounds]
    for row in rows:
        groups = [found for each in asked for name, found in each.items() if f":{row.gpus}:" in name]
        assert row.groups == sum(len(found) for found in groups) > 0
        assert row.said == (f"not in 1 of {row.groups}" if row.gpus == 16 else "yes")
