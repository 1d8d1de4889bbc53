"""Each pass by itself, on facts made by hand: what it blames, and what it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation import (
    blame,
    broken_nodes,
    judgement,
    slow_boundaries,
    slow_groups,
    slow_nodes,
    slow_pairs,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.blame import CLEARED, HELD, OPEN, REJECTED, Blame
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import (
    CONFIRM,
    Facts,
    Reference,
    in_common,
    reference_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import (
    BOUNDARY,
    NODE,
    PAIR,
    Channel,
    Suspect,
    Sweep,
    Topology,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import (
    Exchanges,
    GroupResult,
    Halt,
    Matrix,
    Wrong,
)

from tests.fleets import collectives
from tests.isolation.fleet import Spec, expectations

NAMES = tuple(f"n{number}" for number in range(8))
SIZE = 268435456
Pairs = Sequence[tuple[int, int]]
EVERYBODY = tuple(combinations(range(8), 2))
NO_PAIRS: Pairs = ()


def exchanges(pairs: Pairs, number: int) -> Exchanges:
    one, other = (np.array([pair[side] for pair in pairs], dtype=np.int64) for side in range(2))
    count, rows = len(NAMES), len(pairs)
    nothing = np.zeros(0, dtype=np.int64)
    columns = (np.full(rows, number), np.zeros(rows, np.int64), np.ones((rows, 1, 1), np.float32))
    return Exchanges(count, one, other, *columns, *(np.ones((rows, 1)) for _each in range(3)), (nothing, nothing))


def made(
    suspects: Sequence[Suspect] = (), again: Pairs = NO_PAIRS, slow: Mapping[int, float] | None = None, **other: Any
) -> Facts:
    """Return facts of eight nodes that all met; ``slow`` says by how much a node is, in the sweep and again."""
    settings = Settings.of(collectives(expectations(Spec.usual(8, "clean", 0.01, rails=1))))
    by_node = np.zeros(len(NAMES))
    for node, slowdown in (slow or {}).items():
        by_node[node] = slowdown
    swept, late = exchanges(EVERYBODY, 1), exchanges(again, 2)
    x, x_again = (np.maximum(by_node[each.one], by_node[each.other]) for each in (swept, late))
    values = (46 * (1 - x), x_again * 0 + 46 * (1 - x_again))
    channel = Channel(
        *("pair_bandwidth", SIZE, None, False, "GB/s", x, values[0], 0.01, 0.05, 43.7),
        again=x_again,
        again_value=values[1],
    )
    members = np.ones(len(NAMES), dtype=bool)
    sweep = Sweep(swept, Topology.of(NAMES, {}), settings, members, np.full(len(x), 2), len(NAMES), (channel,))
    matrix = Matrix(NAMES, (SIZE,), 1, swept, [], [], [], {}, {})
    plans = {
        1: {"kind": "walk", "groups": [list(NAMES)]},
        2: {"kind": "confirm", "groups": [list(NAMES)], "program": {"moves": [{"name": "confirm"}]}},
    }
    facts = Facts(settings, NAMES, (), plans, matrix, sweep, late, (channel,), tuple(suspects))
    return replace(facts, **other)


def node(number: int) -> Suspect:
    return Suspect(NODE, (number,), 0, 0.2, 1.0, 7)


def verdicts(found: Sequence[Blame]) -> dict[str, str]:
    return {each.node: each.verdict for each in found}


SLOW_AGAIN = [(0, other) for other in (2, 3, 4, 5)]


def test_node_that_is_slow_again_with_proven_ones_is_rejected_and_says_how_often() -> None:
    facts = made([node(0)], SLOW_AGAIN, {0: 0.2})
    (found,) = slow_nodes.slow_nodes(facts, reference_of(facts))
    assert (found.node, found.verdict, found.check) == ("n0", REJECTED, "pair_bandwidth")
    assert "again in 4 of 4 with 4 trusted nodes" in found.reason
    assert (found.measured, found.expected) == (36.8, 43.7)


@pytest.mark.parametrize("again", [NO_PAIRS, SLOW_AGAIN[:2], [(0, 2)] * 4])
def test_node_that_was_hardly_measured_again_or_with_one_alone_is_open(again: Pairs) -> None:
    facts = made([node(0)], again, {0: 0.2})
    assert verdicts(slow_nodes.slow_nodes(facts, reference_of(facts))) == {"n0": OPEN}


def test_node_that_was_not_slow_again_is_cleared_if_the_sweep_was_not_certain() -> None:
    facts = made([node(0)], SLOW_AGAIN)
    assert verdicts(slow_nodes.slow_nodes(facts, reference_of(facts))) == {"n0": CLEARED}


def test_node_in_service_gets_no_blame() -> None:
    facts = made([node(0)], SLOW_AGAIN, {0: 0.2}, members=NAMES[1:], partners=NAMES[:1])
    facts.sweep.members[0] = False
    assert slow_nodes.slow_nodes(facts, reference_of(facts)) == []
    assert reference_of(facts).doubted == {"n0": "slow with nodes that are not with others"}


def test_confirmed_by_nodes_in_service_that_are_good_with_nobody_is_held() -> None:
    facts = made([node(0)], SLOW_AGAIN, dict.fromkeys(range(8), 0.2))
    chosen = np.ones(8, dtype=bool)
    chosen[0] = False
    reference = Reference(frozenset(), NAMES[2:6], chosen, {})
    assert verdicts(slow_nodes.slow_nodes(facts, reference)) == {"n0": HELD}


def test_members_behind_a_boundary_are_held_and_cleared_once_it_is_fast() -> None:
    boundary = Suspect(BOUNDARY, (0, 1), 0, 0.2, 1.0, 12, unit="rack r1")
    again = [(0, 4), (1, 5), (0, 6)]
    facts = made([boundary], again, {0: 0.2, 1: 0.2})
    found = slow_boundaries.slow_boundaries(facts, reference_of(facts))
    assert verdicts(found) == {"n0": HELD, "n1": HELD}
    assert "rack r1 is 20.0% worse than 8 peers" in found[0].reason
    facts = made([boundary], again)
    assert verdicts(slow_boundaries.slow_boundaries(facts, reference_of(facts))) == {"n0": CLEARED, "n1": CLEARED}


def test_both_of_a_pair_are_held_if_neither_is_slow_with_others() -> None:
    facts = made([Suspect(PAIR, (0, 1), 0, 0.2, 1.0, 1)], [(0, 1)] * 4)
    channel = replace(facts.channels[0], again=np.full(4, 0.2), again_value=np.full(4, 36.8))
    facts = replace(facts, channels=(channel,))
    assert verdicts(slow_pairs.slow_pairs(facts)) == {"n0": HELD, "n1": HELD}
    slow_node = made([Suspect(PAIR, (0, 1), 0, 0.2, 1.0, 1)], [(0, 1)] * 4, {0: 0.2})
    assert verdicts(slow_pairs.slow_pairs(slow_node)) == {"n0": CLEARED, "n1": CLEARED}


def test_pair_whose_later_exchanges_cannot_be_read_was_not_sound_in_them() -> None:
    facts = made([Suspect(PAIR, (0, 1), 0, 0.2, 1.0, 1, True)], [(0, 1)] * 4)
    unread = np.full(4, np.nan)
    facts = replace(facts, channels=(replace(facts.channels[0], again=unread, again_value=unread),))
    assert verdicts(slow_pairs.slow_pairs(facts)) == {"n0": OPEN, "n1": OPEN}


@pytest.mark.parametrize(("strong", "found"), [(True, {"n0": OPEN, "n1": OPEN}), (False, {})])
def test_pair_that_was_not_measured_again_is_open_if_noise_does_not_make_it(
    strong: bool, found: dict[str, str]
) -> None:
    facts = made([Suspect(PAIR, (0, 1), 0, 0.2, 1.0, 1, strong)])
    assert verdicts(slow_pairs.slow_pairs(facts)) == found
    assert slow_pairs.weak_pairs(facts) == ["1 pairs were slow once, as noise makes them, and not measured again"]


def with_wrong(*pairs: tuple[str, str]) -> Facts:
    facts = made()
    wrong = [Wrong(1, receiver, sender, (0,), "walk") for receiver, sender in pairs]
    return replace(facts, matrix=replace(facts.matrix, wrong=wrong))


def test_wrong_data_again_with_several_proven_rejects_their_common_node() -> None:
    facts = with_wrong(("n1", "n0"), ("n2", "n0"))
    assert in_common(facts.wrong) == (["n0"], [])
    all_three = {"n0": HELD, "n1": HELD, "n2": HELD}
    assert verdicts(broken_nodes.wrong_data(facts, reference_of(facts), frozenset())) == all_three
    facts = replace(facts, plans={1: {"kind": CONFIRM, "groups": []}})
    assert verdicts(broken_nodes.wrong_data(facts, reference_of(facts), frozenset())) == {"n0": REJECTED}
    nobody = replace(reference_of(facts), good=frozenset(), nodes=())
    assert verdicts(broken_nodes.wrong_data(facts, nobody, frozenset())) == all_three


@pytest.mark.parametrize(("senders", "becomes"), [(4, REJECTED), (3, HELD)])
def test_wrong_data_with_more_than_half_of_all_nodes_is_of_who_received_it(senders: int, becomes: str) -> None:
    # Seen in the sweep alone: a job that wrong data ends is not asked again.
    facts = with_wrong(*(("n0", f"n{number}") for number in range(1, senders + 1)))
    found = verdicts(broken_nodes.wrong_data(facts, reference_of(facts), frozenset()))
    assert found["n0"] == becomes
    assert len(found) == (1 if becomes == REJECTED else senders + 1)


def test_wrong_data_between_two_alone_holds_both_but_who_is_rejected_anyway() -> None:
    facts = with_wrong(("n1", "n0"))
    reference = reference_of(facts)
    assert verdicts(broken_nodes.wrong_data(facts, reference, frozenset())) == {"n0": HELD, "n1": HELD}
    assert verdicts(broken_nodes.wrong_data(facts, reference, frozenset({"n0"}))) == {"n0": REJECTED, "n1": HELD}


def inside(seconds: float, *numbers: int) -> list[GroupResult]:
    return [
        GroupResult(number, "inside", "inside", "all_reduce", 2**30, ("n0",), seconds, seconds, (1.0,), {}, 20)
        for number in numbers
    ]


@pytest.mark.parametrize(("numbers", "verdict"), [((1,), OPEN), ((1, 2), REJECTED)])
def test_slow_inside_is_rejected_the_second_time(numbers: tuple[int, ...], verdict: str) -> None:
    facts = made()
    facts = replace(facts, matrix=replace(facts.matrix, groups=inside(1.0, *numbers)))
    assert verdicts(slow_groups.bad_inside(facts)) == {"n0": verdict}
    assert facts.ask_inside == {"n0"}


def test_wrong_data_inside_a_node_rejects_it_at_once() -> None:
    facts = made()
    facts = replace(facts, matrix=replace(facts.matrix, wrong=[Wrong(1, "n3", None, (0,), "inside")]))
    assert verdicts(slow_groups.bad_inside(facts)) == {"n3": REJECTED}


def halts(*groups: tuple[int, tuple[str, ...], Mapping[str, str]]) -> list[Halt]:
    return [
        Halt(number, group, True, "stopped", {"n0": "it never came"}, {}, "walk", 0, waiting)
        for number, group, waiting in groups
    ]


@pytest.mark.parametrize(("last", "verdict"), [("groups", OPEN), ("tried", HELD), ("once", HELD), ("again", REJECTED)])
def test_hang_rejects_only_after_it_hung_again_with_proven_ones(last: str, verdict: str) -> None:
    facts = made()
    plans = {**facts.plans, 3: {"kind": "groups" if last == "groups" else "suspects", "groups": [["n0", "n2"]]}}
    # The first time it kept n1 waiting; where it did so again, n2.
    waiting = {"n0": "n1"} if last != "once" else {}
    stopped = halts((1, NAMES, waiting), *([(3, ("n0", "n2"), {})] if last in ("once", "again") else []))
    facts = replace(facts, plans=plans, matrix=replace(facts.matrix, halts=stopped))
    assert verdicts(broken_nodes.hung_nodes(facts, reference_of(facts))) == {"n0": verdict}


def many(count: int) -> list[Blame]:
    return [Blame(name, REJECTED, "pair_bandwidth", "slow") for name in NAMES[:count]]


def test_share_of_bad_nodes_holds_from_the_class_share_on() -> None:
    facts = made()
    # A fifth of eight: one may be bad, two are too many.
    assert judgement.bad_share(facts, many(1)) == (1, 8, False)
    assert judgement.bad_share(facts, many(2)) == (2, 8, True)
    held = blame.held_instead([Blame("n0", HELD, "data", "first"), *many(2)], "too many")
    assert [(each.node, each.verdict, each.reason) for each in held] == [
        ("n0", HELD, "first"),
        ("n0", HELD, "slow; too many"),
        ("n1", HELD, "slow; too many"),
    ]


def test_held_nodes_count_as_bad_only_where_they_were_slow_by_themselves() -> None:
    pairs = [Blame(name, HELD, kind=PAIR) for name in NAMES[:4]]
    assert judgement.bad_share(made(), pairs) == (0, 8, False)
    assert judgement.bad_share(made([node(each) for each in range(4)]), pairs) == (4, 8, True)


def test_bad_nodes_are_a_part_of_all_that_were_measured_or_are_bad() -> None:
    facts = made()
    # Three hang before anything is measured: they are three of three, not of nobody.
    nothing = replace(facts.sweep, exchanges=exchanges(NO_PAIRS, 1), peers=0, channels=())
    unmeasured = replace(facts, sweep=nothing, again=exchanges(NO_PAIRS, 2), channels=())
    assert judgement.bad_share(unmeasured, many(3)) == (3, 3, True)


def test_suspect_fabric_holds_every_member_and_rejects_nobody() -> None:
    facts = made()
    facts = replace(facts, sweep=replace(facts.sweep, fabric=("rail 2 is slow",)))
    found = judgement.held_for_fabric(facts, many(1))
    assert {each.node for each in found} == set(NAMES)
    assert {each.verdict for each in found} == {HELD}
    assert found[-1].reason == "slow; the fabric as a whole is suspect"
    assert [each.node for each in judgement.held_for_fabric(facts, [])] == list(NAMES)


@pytest.mark.parametrize(("rounds", "verdict"), [((2,), OPEN), ((2, 3), HELD)])
def test_slow_rack_holds_its_members_the_second_time(rounds: Sequence[int], verdict: str) -> None:
    facts = made()
    about = ("racks:all_reduce", "groups", "all_reduce", 2**30, NAMES[:3], 1.0, 1.0, (1.0,) * 3, {}, 20)
    slow = [GroupResult(number, *about) for number in rounds]
    facts = replace(facts, matrix=replace(facts.matrix, groups=slow))
    found = slow_groups.slow_groups(facts, frozenset())
    assert verdicts(found) == dict.fromkeys(NAMES[:3], verdict)
    assert ("suspect what they share" in found[0].reason) == (verdict == HELD)
    # One of them who is slow explains it once, and answers for himself the second time.
    alone = {} if verdict == OPEN else {"n0": HELD, "n2": HELD}
    assert verdicts(slow_groups.slow_groups(facts, frozenset({"n1"}))) == alone


def test_nothing_suspected_blames_nobody() -> None:
    assert judgement.judged(made()).blames == ()
