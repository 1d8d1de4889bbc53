"""Pairs played to their end: nobody good is blamed, nobody bad passes, the rounds are bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, combinations

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Round, across_racks
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.pairs import (
    BAD,
    BLIND_ROUNDS,
    GOOD,
    VOID,
    Circumstances,
    Outcome,
    Record,
)

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
        return Outcome(number, group, BAD, None, FLOOR, f"{group[0]}: 5 wrong elements"), {}
    verdict, speed = (BAD, 0.024) if fault == "slow" else (GOOD, 0.5)
    return Outcome(number, group, verdict, speed, FLOOR), {}


def record_of(
    members: Iterable[str],
    partners: Iterable[str],
    seen: list[tuple[Outcome, dict[str, str]]],
    most: int = MOST_ROUNDS,
) -> Record:
    gone = {node: why for _outcome, away in seen for node, why in away.items()}
    return Record(members, partners, [each for each, _away in seen], Circumstances(gone, {}, most))


def campaign(
    members: Iterable[str], partners: Iterable[str], fault: Fault, most: int = MOST_ROUNDS
) -> tuple[Record, list[Round]]:
    """Play pairs to their end and check every round on the way."""
    members, partners = list(members), list(partners)
    seen: list[tuple[Outcome, dict[str, str]]] = []
    rounds: list[Round] = []
    while len(rounds) <= most:
        record = record_of(members, partners, seen, most)
        step = record.next_pairs()
        # Whoever goes on from the record comes to the same next step.
        assert step == record_of(list(reversed(members)), partners, list(seen), most).next_pairs()
        if step is None:
            return record, rounds
        used = list(chain.from_iterable(step.groups))
        assert len(used) == len(set(used)), "groups of one round overlap"
        assert set(used) <= {*members, *partners}
        rounds.append(step)
        assert step.number == len(rounds)
        seen += [outcome(step.number, group, fault(frozenset(group))) for group in step.groups]
    raise AssertionError(f"no end after {len(rounds)} rounds")


def passing(record: Record) -> set[str]:
    """Return who passed, and was bad with nobody who passed as well."""
    good = record.passed - set(record.unavailable)
    return {node for node in record.members if node in good and not record.clash(node)}


def held(record: Record) -> set[str]:
    """Return who was bad with somebody, and is neither to blame nor known to be good."""
    unsettled = set(record.members) - record.confirmed - passing(record) - set(record.unavailable)
    return {node for node in unsettled if record.bad[node]}


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
        record, rounds = campaign(members, partners, lambda group, bad=bad: kind if group & bad else "good")
        case = f"bad {sorted(bad)}, {spares} partners"
        assert record.confirmed <= bad, f"good node blamed: {case}"
        assert not passing(record) & bad, f"bad node passed: {case}"
        assert len(rounds) <= ROUNDS_AT_MOST, case
        good = set(members) - bad
        if spares > 1 or len(good) >= 2 or (spares and good):
            # Enough good nodes to prove one another: everybody is settled.
            assert record.confirmed == bad, case
            assert passing(record) == good, case
            assert not held(record), case
        else:
            assert not record.confirmed, case
            assert not passing(record), case
        assert not record.doubted, case


@pytest.mark.parametrize("kind", ["slow", "hang", "wrong"])
@pytest.mark.parametrize("spares", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("count", range(1, 7))
def test_cause_common_to_all_blames_nobody(count: int, spares: int, kind: str) -> None:
    record, rounds = campaign(nodes(count), nodes(spares, "p"), lambda group: kind)
    assert not passing(record)
    assert not record.doubted
    assert len(rounds) <= ROUNDS_AT_MOST
    assert not record.confirmed
    assert spares == 0 or sorted(held(record)) == nodes(count)


@pytest.mark.parametrize("kind", ["slow", "hang", "wrong"])
@pytest.mark.parametrize("spares", [2, 3])
@pytest.mark.parametrize("count", range(1, 6))
def test_partners_that_went_bad_get_no_good_node_blamed(count: int, spares: int, kind: str) -> None:
    members, partners = nodes(count), nodes(spares, "p")
    for bad in subsets([*members, *partners]):
        record, rounds = campaign(members, partners, lambda group, bad=bad: kind if group & bad else "good")
        case = f"bad {sorted(bad)}, {spares} partners"
        assert record.confirmed <= bad, f"good node blamed: {case}"
        assert not passing(record) & bad, f"bad node passed: {case}"
        assert record.doubted <= bad, f"good partner doubted: {case}"
        assert len(rounds) <= ROUNDS_AT_MOST, case


def test_rerun_of_a_slow_node_proves_its_partners_before_it_is_rejected() -> None:
    record, rounds = campaign(["gpu-04"], ["gpu-01", "gpu-02"], lambda group: "slow" if "gpu-04" in group else "good")
    assert [(each.kind, each.groups) for each in rounds] == [
        ("suspects", (("gpu-01", "gpu-04"),)),
        ("suspects", (("gpu-02", "gpu-04"),)),
        ("control", (("gpu-01", "gpu-02"),)),
    ]
    assert record.confirmed == {"gpu-04"}
    witness = record.witness("gpu-04", record.trusted)
    assert (witness.group, witness.measured) == (("gpu-01", "gpu-04"), 0.024)


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


def test_bad_control_pair_holds_the_node() -> None:
    record, rounds = campaign(["n1"], nodes(2, "p"), lambda group: "hang")
    assert [each.kind for each in rounds] == ["suspects", "suspects", "control"]
    assert record.bad_control is not None
    assert (record.bad_control.group, held(record), record.confirmed) == (("p1", "p2"), {"n1"}, set())


def test_single_partner_convicts_nobody_alone_and_is_questioned_itself() -> None:
    for kind in ("slow", "wrong", "hang"):
        record, _ = campaign(["n1"], ["p1"], lambda group, kind=kind: kind)
        assert (record.confirmed, held(record), record.questioned) == (set(), {"n1"}, {"p1"}), kind
    record, _ = campaign(["n1"], ["p1"], lambda group: "good")
    assert record.questioned == set()


def test_control_pair_that_cannot_run_leaves_the_node_held() -> None:
    fault: Fault = lambda group: "hang" if "n1" in group else "gone:p2"  # noqa: E731
    record, rounds = campaign(["n1"], nodes(2, "p"), fault)
    assert [each.kind for each in rounds] == ["suspects", "suspects", "control"]
    assert sorted(held(record)) == ["n1"]


@pytest.mark.parametrize("spares", [0, 1, 2])
@pytest.mark.parametrize("count", range(2, 7))
def test_a_fault_of_one_pair_blames_nobody(count: int, spares: int) -> None:
    members, partners = nodes(count), nodes(spares, "p")
    for pair in map(frozenset, combinations([*members, *partners], 2)):
        record, rounds = campaign(members, partners, lambda group, pair=pair: "slow" if pair <= group else "good")
        assert not record.confirmed, f"blamed for the pair {sorted(pair)}"
        assert len(rounds) <= ROUNDS_AT_MOST
        if any(pair == frozenset(group) for each in rounds for group in each.groups):
            assert not passing(record) & pair, f"pair {sorted(pair)} was seen to be slow and passed"


@pytest.mark.parametrize("count", range(1, 7))
def test_nodes_that_are_gone_are_incomplete_and_others_unaffected(count: int) -> None:
    members = nodes(count)
    for gone in subsets(members):
        record, rounds = campaign(
            members, [], lambda group, gone=gone: f"gone:{min(group & gone)}" if group & gone else "good"
        )
        left = set(members) - gone
        assert not record.confirmed
        assert passing(record) == (left if len(left) > 1 else set())
        assert len(rounds) <= ROUNDS_AT_MOST
        for node in gone & {name for each in rounds for group in each.groups for name in group}:
            assert node not in passing(record)


def test_suspects_take_partners_that_passed_before_those_in_service() -> None:
    fault: Fault = lambda group: "slow" if "n1" in group else "good"  # noqa: E731
    _, rounds = campaign(nodes(4), nodes(2, "p"), fault)
    assert rounds[1].kind == "suspects"
    assert not {"p1", "p2"} & set(chain.from_iterable(rounds[1].groups))


def test_two_nodes_with_a_bad_pair_and_no_partner_are_held() -> None:
    record, rounds = campaign(nodes(2), [], lambda group: "slow")
    assert len(rounds) == 1
    assert sorted(held(record)) == nodes(2)
    assert not record.confirmed | passing(record)


def test_everything_bad_in_a_large_cohort_ends_after_a_few_rounds() -> None:
    record, rounds = campaign(nodes(40), [], lambda group: "hang")
    assert len(rounds) == BLIND_ROUNDS
    assert not record.confirmed
    assert len(held(record)) == 40


def test_one_node_without_any_partner_is_not_measured() -> None:
    record, rounds = campaign(["n1"], [], lambda group: "good")
    assert not rounds
    assert not record.confirmed | passing(record)


def test_partner_busy_with_a_users_job_is_not_waited_for() -> None:
    record, rounds = campaign(["n1"], ["p1"], lambda group: "gone:p1")
    assert len(rounds) == 1
    assert not record.confirmed | passing(record) | held(record)


def test_one_node_that_is_good_with_a_partner_passes_by_that_pair() -> None:
    record, rounds = campaign(["n1"], ["p1"], lambda group: "good")
    assert len(rounds) == 1
    assert passing(record) == {"n1"}
    assert record.passes("n1").group == ("n1", "p1")


def test_bad_partner_in_service_is_doubted_and_blames_nobody() -> None:
    record, _ = campaign(["n1"], nodes(3, "p"), lambda group: "slow" if "p1" in group else "good")
    assert passing(record) == {"n1"}
    assert sorted(record.doubted) == ["p1"]
    assert not record.confirmed


def test_partners_are_never_convicted() -> None:
    record, _ = campaign(["n1"], ["p1", "p2"], lambda group: "slow" if "p1" in group else "good")
    assert (record.confirmed, record.passed >= {"n1", "p2"}) == (set(), True)


def test_round_limit_leaves_the_rest_incomplete() -> None:
    record, rounds = campaign(nodes(6), [], lambda group: "slow" if "n1" in group else "good", 1)
    assert [each.kind for each in rounds] == ["pairs"]
    assert not record.confirmed
    assert passing(record) == {"n2", "n3", "n5", "n6"}


def test_pairs_cross_racks_and_the_odd_one_waits() -> None:
    racks = {"a1": "r1", "a2": "r1", "b1": "r2", "b2": "r2", "c1": "r3"}
    pairs = across_racks(sorted(racks), racks)
    assert len(pairs) == 2
    assert all(racks[one] != racks[other] for one, other in pairs)
    assert across_racks(["n1"], {}) == []
