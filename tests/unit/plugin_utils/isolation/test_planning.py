"""Campaigns played to their end: nobody good is blamed, nobody bad passes, the rounds are bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, combinations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.judging import BAD, GOOD, VOID, Outcome
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.planning import (
    BLIND_ROUNDS,
    Circumstances,
    Conclusion,
    Record,
    Round,
    across_racks,
)

SIZE = 8 * 2**20
MOST_ROUNDS = 24
ROUNDS_AT_MOST = 12
FLOOR = 0.1

Fault = Callable[[frozenset[str]], str]


def outcome(number: int, group: tuple[str, ...], fault: str) -> tuple[Outcome, dict[str, str]]:
    """Return what a group showed and who was gone: ``fault`` is good, slow, hang, wrong, or gone:NODE."""
    if fault.startswith("gone:"):
        return Outcome(number, group, VOID, reason=f"not started: {fault[5:]} is down"), {fault[5:]: "down"}
    if fault == "hang":
        return Outcome(number, group, BAD, expected=FLOOR, reason="not finished after 60 s, cancelled"), {}
    if fault == "wrong":
        return Outcome(number, group, BAD, None, FLOOR, SIZE, f"rank 0 on {group[0]}: 5 wrong elements", ran=True), {}
    verdict, speed = (BAD, 0.024) if fault == "slow" else (GOOD, 0.5)
    return Outcome(number, group, verdict, speed, FLOOR, SIZE, ran=True), {}


def next_step(
    members: Iterable[str],
    partners: Iterable[str],
    seen: list[tuple[Outcome, dict[str, str]]],
    most: int = MOST_ROUNDS,
    stopped: str = "",
) -> Round | Conclusion:
    gone = {node: why for _outcome, away in seen for node, why in away.items()}
    record = Record(members, partners, [each for each, _away in seen], Circumstances(gone, {}, most))
    if stopped:
        return record.conclusion(stopped=stopped)
    return record.next_pairs() or record.next_together() or record.conclusion()


def campaign(
    members: Iterable[str], partners: Iterable[str], fault: Fault, most: int = MOST_ROUNDS
) -> tuple[Conclusion, list[Round]]:
    """Play a campaign to its end and check every round on the way."""
    members, partners = list(members), list(partners)
    seen: list[tuple[Outcome, dict[str, str]]] = []
    rounds: list[Round] = []
    while len(rounds) <= 2 * most:
        step = next_step(members, partners, seen, most)
        # Whoever goes on from the record comes to the same next step.
        assert step == next_step(list(reversed(members)), partners, list(seen), most)
        if isinstance(step, Conclusion):
            assert sorted(step.findings) == sorted(members)
            assert all(
                [each.check for each in owed] == ["pair_bandwidth", "group_bandwidth"]
                for owed in step.findings.values()
            )
            return step, rounds
        used = list(chain.from_iterable(step.groups))
        assert len(used) == len(set(used)), "groups of one round overlap"
        assert set(used) <= {*members, *partners}
        rounds.append(step)
        assert step.number == len(rounds)
        seen += [outcome(step.number, group, fault(frozenset(group))) for group in step.groups]
    raise AssertionError(f"no conclusion after {len(rounds)} rounds")


def rejected(conclusion: Conclusion) -> set[str]:
    return {node for node, owed in conclusion.findings.items() if any(each.verdict == FAIL for each in owed)}


def admitted(conclusion: Conclusion) -> set[str]:
    return {node for node, owed in conclusion.findings.items() if all(each.verdict == PASS for each in owed)}


def pair_finding(conclusion: Conclusion, node: str) -> Finding:
    return conclusion.findings[node][0]


def nodes(count: int, letter: str = "n") -> list[str]:
    return [f"{letter}{number}" for number in range(1, count + 1)]


def subsets(names: list[str]) -> Iterable[set[str]]:
    return (set(some) for some in chain.from_iterable(combinations(names, k) for k in range(len(names) + 1)))


@pytest.mark.parametrize("kind", ["slow", "hang", "wrong"])
@pytest.mark.parametrize("spares", [0, 1, 2])
@pytest.mark.parametrize("count", range(1, 7))
def test_every_subset_of_bad_nodes_is_found_and_nobody_else(count: int, spares: int, kind: str) -> None:
    members, partners = nodes(count), nodes(spares, "p")
    for bad in subsets(members):
        conclusion, rounds = campaign(members, partners, lambda group, bad=bad: kind if group & bad else "good")
        case = f"bad {sorted(bad)}, {spares} partners"
        assert rejected(conclusion) <= bad, f"good node blamed: {case}"
        assert not admitted(conclusion) & bad, f"bad node passed: {case}"
        assert len(rounds) <= ROUNDS_AT_MOST, case
        good = set(members) - bad
        if spares > 1 or len(good) >= 2 or (spares and (good or kind != "hang")):
            # Enough good nodes to prove one another, or a number against a node in service: everybody is settled.
            assert rejected(conclusion) == bad, case
            assert admitted(conclusion) == good, case
            assert not conclusion.held, case
        else:
            assert not rejected(conclusion), case
            assert not admitted(conclusion), case
        assert not conclusion.doubted, case


@pytest.mark.parametrize("kind", ["slow", "hang", "wrong"])
@pytest.mark.parametrize("spares", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("count", range(1, 7))
def test_cause_common_to_all_blames_nobody(count: int, spares: int, kind: str) -> None:
    conclusion, rounds = campaign(nodes(count), nodes(spares, "p"), lambda group: kind)
    assert not admitted(conclusion)
    assert not conclusion.doubted
    assert len(rounds) <= ROUNDS_AT_MOST
    if spares == 1 and kind != "hang":
        # Not to be told from bad nodes, and a number against a node in service counts.
        assert rejected(conclusion) == set(nodes(count))
    else:
        assert not rejected(conclusion)
        assert spares == 0 or sorted(conclusion.held) == nodes(count)


@pytest.mark.parametrize("kind", ["slow", "hang", "wrong"])
@pytest.mark.parametrize("spares", [2, 3])
@pytest.mark.parametrize("count", range(1, 6))
def test_partners_that_went_bad_get_no_good_node_blamed(count: int, spares: int, kind: str) -> None:
    members, partners = nodes(count), nodes(spares, "p")
    for bad in subsets([*members, *partners]):
        conclusion, rounds = campaign(members, partners, lambda group, bad=bad: kind if group & bad else "good")
        case = f"bad {sorted(bad)}, {spares} partners"
        assert rejected(conclusion) <= bad, f"good node blamed: {case}"
        assert not admitted(conclusion) & bad, f"bad node passed: {case}"
        assert set(conclusion.doubted) <= bad, f"good partner doubted: {case}"
        assert len(rounds) <= ROUNDS_AT_MOST, case


def test_rerun_of_a_slow_node_proves_its_partners_before_it_is_rejected() -> None:
    conclusion, rounds = campaign(
        ["gpu-04"], ["gpu-01", "gpu-02"], lambda group: "slow" if "gpu-04" in group else "good"
    )
    assert [(each.kind, each.groups) for each in rounds] == [
        ("suspects", (("gpu-01", "gpu-04"),)),
        ("suspects", (("gpu-02", "gpu-04"),)),
        ("control", (("gpu-01", "gpu-02"),)),
    ]
    assert pair_finding(conclusion, "gpu-04").reason == (
        "all-reduce of 8 MiB with gpu-01 (proven) reached 0.024 GB/s; as bad with gpu-02"
    )


def test_control_pair_runs_beside_a_suspect_where_it_can() -> None:
    _, rounds = campaign(["n1"], nodes(3, "p"), lambda group: "slow" if "n1" in group else "good")
    assert [(each.kind, each.groups) for each in rounds] == [
        ("suspects", (("n1", "p1"),)),
        ("suspects", (("n1", "p2"), ("p1", "p3"))),
    ]


def test_no_control_pair_where_no_conviction_depends_on_it() -> None:
    _, rounds = campaign(["n1"], nodes(3, "p"), lambda group: "good")
    assert [each.groups for each in rounds] == [(("n1", "p1"),)]
    _, rounds = campaign(nodes(4), nodes(3, "p"), lambda group: "slow" if "n4" in group else "good")
    assert "control" not in [each.kind for each in rounds]


def test_bad_control_pair_is_named_in_what_holds_the_node() -> None:
    conclusion, rounds = campaign(["n1"], nodes(2, "p"), lambda group: "hang")
    assert [each.kind for each in rounds] == ["suspects", "suspects", "control"]
    assert "the control pair of admitted nodes (p1 and p2) was bad as well: not finished" in conclusion.held["n1"]
    assert pair_finding(conclusion, "n1").verdict == INCOMPLETE


def test_one_partner_convicts_by_a_number_and_not_by_a_failure() -> None:
    for kind, verdict in (("slow", FAIL), ("wrong", FAIL), ("hang", INCOMPLETE)):
        conclusion, _ = campaign(["n1"], ["p1"], lambda group, kind=kind: kind)
        assert pair_finding(conclusion, "n1").verdict == verdict, kind
    assert "no control pair of admitted nodes" in conclusion.held["n1"]


def test_control_pair_that_cannot_run_leaves_the_node_held() -> None:
    fault: Fault = lambda group: "hang" if "n1" in group else "gone:p2"  # noqa: E731
    conclusion, rounds = campaign(["n1"], nodes(2, "p"), fault)
    assert [each.kind for each in rounds] == ["suspects", "suspects", "control"]
    assert list(conclusion.held) == ["n1"]


@pytest.mark.parametrize("spares", [0, 1, 2])
@pytest.mark.parametrize("count", range(2, 7))
def test_a_fault_of_one_pair_blames_nobody(count: int, spares: int) -> None:
    members, partners = nodes(count), nodes(spares, "p")
    for pair in map(frozenset, combinations([*members, *partners], 2)):
        conclusion, rounds = campaign(members, partners, lambda group, pair=pair: "slow" if pair <= group else "good")
        assert not rejected(conclusion), f"blamed for the pair {sorted(pair)}"
        assert len(rounds) <= ROUNDS_AT_MOST
        if any(pair == frozenset(group) for each in rounds for group in each.groups):
            assert not admitted(conclusion) & pair, f"pair {sorted(pair)} was seen to be slow and passed"


@pytest.mark.parametrize("count", range(1, 7))
def test_nodes_that_are_gone_are_incomplete_and_others_unaffected(count: int) -> None:
    members = nodes(count)
    for gone in subsets(members):
        conclusion, rounds = campaign(
            members, [], lambda group, gone=gone: f"gone:{min(group & gone)}" if group & gone else "good"
        )
        left = set(members) - gone
        assert not rejected(conclusion)
        assert admitted(conclusion) == (left if len(left) > 1 else set())
        assert len(rounds) <= ROUNDS_AT_MOST
        for node in gone & {name for each in rounds for group in each.groups for name in group}:
            assert pair_finding(conclusion, node).verdict == INCOMPLETE


def test_demo_slow_node_of_three_is_named_with_number_and_partner() -> None:
    conclusion, rounds = campaign(
        ["gpu-01", "gpu-02", "gpu-04"], [], lambda group: "slow" if "gpu-04" in group else "good"
    )
    finding = pair_finding(conclusion, "gpu-04")
    assert (finding.verdict, finding.measured, finding.expected, finding.unit) == (FAIL, 0.024, 0.1, "GB/s")
    assert (finding.subject, finding.action) == ("network", "investigate")
    assert finding.reason == "all-reduce of 8 MiB with gpu-01 (proven) reached 0.024 GB/s; as bad with gpu-02"
    assert admitted(conclusion) == {"gpu-01", "gpu-02"}
    # The two that passed as a pair are "all that passed together" already.
    assert len(rounds) == 3


def test_suspects_take_partners_that_passed_before_those_in_service() -> None:
    fault: Fault = lambda group: "slow" if "n1" in group else "good"  # noqa: E731
    _, rounds = campaign(nodes(4), nodes(2, "p"), fault)
    assert rounds[1].kind == "suspects"
    assert not {"p1", "p2"} & set(chain.from_iterable(rounds[1].groups))


def test_all_that_passed_run_together() -> None:
    conclusion, rounds = campaign(nodes(5), [], lambda group: "good")
    assert rounds[-1].kind == "together"
    assert rounds[-1].groups == (tuple(nodes(5)),)
    assert admitted(conclusion) == set(nodes(5))
    assert conclusion.findings["n1"][1].reason == "5 nodes together: all-reduce of 8 MiB reached 0.5 GB/s"


def test_group_that_fails_although_all_pairs_passed_is_held() -> None:
    conclusion, _ = campaign(nodes(4), [], lambda group: "slow" if len(group) > 2 else "good")
    assert not rejected(conclusion)
    assert not admitted(conclusion)
    assert sorted(conclusion.held) == nodes(4)
    assert "nobody is blamed" in conclusion.held["n1"]


def test_two_nodes_with_a_bad_pair_and_no_partner_are_held() -> None:
    conclusion, rounds = campaign(nodes(2), [], lambda group: "slow")
    assert len(rounds) == 1
    assert sorted(conclusion.held) == nodes(2)
    assert {pair_finding(conclusion, node).verdict for node in nodes(2)} == {INCOMPLETE}


def test_everything_bad_in_a_large_cohort_ends_after_a_few_rounds() -> None:
    conclusion, rounds = campaign(nodes(40), [], lambda group: "hang")
    assert len(rounds) == BLIND_ROUNDS
    assert not rejected(conclusion)
    assert len(conclusion.held) == 40


def test_one_node_without_any_partner_is_incomplete() -> None:
    conclusion, rounds = campaign(["n1"], [], lambda group: "good")
    assert not rounds
    assert pair_finding(conclusion, "n1").reason == "no proven partner was available to measure it with"


def test_partner_busy_with_a_users_job_is_not_waited_for() -> None:
    conclusion, rounds = campaign(["n1"], ["p1"], lambda group: "gone:p1")
    assert len(rounds) == 1
    assert pair_finding(conclusion, "n1").verdict == INCOMPLETE
    assert pair_finding(conclusion, "n1").reason == "not started: p1 is down"


def test_one_node_that_is_good_with_a_partner_passes_by_that_pair() -> None:
    conclusion, rounds = campaign(["n1"], ["p1"], lambda group: "good")
    assert len(rounds) == 1
    assert admitted(conclusion) == {"n1"}
    assert conclusion.findings["n1"][1].reason.startswith("2 nodes together with p1")


def test_bad_partner_in_service_is_doubted_and_blames_nobody() -> None:
    conclusion, _ = campaign(["n1"], nodes(3, "p"), lambda group: "slow" if "p1" in group else "good")
    assert admitted(conclusion) == {"n1"}
    assert list(conclusion.doubted) == ["p1"]
    assert "p1" not in conclusion.findings


def test_partners_never_get_a_finding() -> None:
    conclusion, _ = campaign(["n1"], ["p1"], lambda group: "slow")
    assert list(conclusion.findings) == ["n1"]


def test_round_limit_leaves_the_rest_incomplete() -> None:
    conclusion, rounds = campaign(nodes(6), [], lambda group: "slow" if "n1" in group else "good", 1)
    assert [each.kind for each in rounds] == ["pairs", "together"]
    assert not rejected(conclusion)
    assert admitted(conclusion) == {"n2", "n3", "n5", "n6"}


def test_campaign_that_has_to_stop_passes_nobody() -> None:
    conclusion = next_step(["n1", "n2"], [], [outcome(1, ("n1", "n2"), "good")], stopped="srun was not found")
    assert isinstance(conclusion, Conclusion)
    assert not admitted(conclusion)
    assert {each.reason for owed in conclusion.findings.values() for each in owed} == {"srun was not found"}


def test_pairs_cross_racks_and_the_odd_one_waits() -> None:
    racks = {"a1": "r1", "a2": "r1", "b1": "r2", "b2": "r2", "c1": "r3"}
    pairs = across_racks(sorted(racks), racks)
    assert len(pairs) == 2
    assert all(racks[one] != racks[other] for one, other in pairs)
    assert across_racks(["n1"], {}) == []
