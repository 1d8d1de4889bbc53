"""Campaigns in which something hangs: who does it is rejected, who waited for it passes, within few steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import Planner
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import Halt, matrix_of, phases_of

from tests.fleets import collectives
from tests.isolation.campaign import became_of, plan_of
from tests.isolation.faults import ABSENT, ARRIVED, GROUPS, HELD, INSIDE, PASSED, REJECTED, WALK, Fault, Hangs
from tests.isolation.fleet import Fleet, Spec, expectations

Change = Callable[[Round, dict[str, Any]], None]
Before = Callable[[Round, Fleet], None]
MOST_ROUNDS = 8


def fleet_of(hosts: int, *faults: Fault, spares: int = 0, **shape: Any) -> Fleet:
    return Fleet(Spec.usual(hosts, "clean", 0.01, spares=spares, **shape), 1, faults)


def campaign(
    fleet: Fleet, change: Change | None = None, before: Before | None = None
) -> tuple[Conclusion, dict[str, str], list[Round]]:
    """Play a campaign: ``before`` a round something happens to the fleet, ``change`` spoils what it shows."""
    hosts = fleet.spec.hosts
    settings = Settings.of(collectives(expectations(fleet.spec)), fleet.places())
    planner = Planner(fleet.nodes[:hosts], fleet.nodes[hosts:], settings)
    seen: list[tuple[int, Mapping[str, Any], Mapping[str, Any]]] = []
    rounds: list[Round] = []
    while len(rounds) < MOST_ROUNDS:
        step = planner.next_round(seen)
        if isinstance(step, Conclusion):
            # A record gives the same, however often it was asked meanwhile.
            again = Planner(fleet.nodes[:hosts], fleet.nodes[hosts:], settings).next_round(seen)
            assert isinstance(again, Conclusion)
            assert became_of(again) == became_of(step)
            return step, became_of(step), rounds
        if before is not None:
            before(step, fleet)
        plan = plan_of(step)
        nodes = [node for job in plan["groups"] for node in job]
        assert len(set(nodes)) == len(nodes)
        assert all(phases_of(plan, job) for job in plan["groups"])
        for item in fleet.run(plan):
            if change is not None:
                change(step, item)
            seen.append((step.number, plan, item))
        rounds.append(step)
    raise AssertionError(f"no conclusion after {[each.kind for each in rounds]}")


def but(fleet: Fleet, *nodes: str) -> set[str]:
    return set(fleet.nodes[: fleet.spec.hosts]) - set(nodes)


def passed(became: Mapping[str, str]) -> set[str]:
    return {node for node, its in became.items() if its == PASSED}


def asked(rounds: Sequence[Round]) -> list[tuple[str, ...]]:
    """Return the jobs that ran beside what everybody else did, or in rounds of their own."""
    return [job for each in rounds for job in (each.groups if each.kind == "suspects" else each.groups[1:])]


@pytest.mark.parametrize("spares", [0, 1, 2, 5])
@pytest.mark.parametrize(
    ("where", "shows"), [(WALK, ABSENT), (WALK, ARRIVED), (INSIDE, ABSENT), (INSIDE, ARRIVED), (GROUPS, ABSENT)]
)
@pytest.mark.parametrize(("hosts", "after"), [(8, 0), (8, 11), (32, 0), (32, 30), (232, 100)])
def test_who_hangs_is_rejected_and_everybody_else_passes(
    hosts: int, after: int, where: str, shows: str, spares: int
) -> None:
    if hosts == 232 and (spares, shows) not in {(0, ARRIVED), (2, ARRIVED), (0, ABSENT)}:
        pytest.skip("some of the large fleets tell as much")
    number = "1".zfill(len(str(hosts)))
    bad = f"h{number}"
    fleet = fleet_of(hosts, Hangs((bad,), 0 if where in {INSIDE, GROUPS} else after, where, shows), spares=spares)
    conclusion, became, rounds = campaign(fleet)
    assert became[bad] == REJECTED
    assert passed(became) == but(fleet, bad)
    assert not conclusion.held
    # Without anybody in service the first permutation leaves nobody who is proven, and no group goes on without it.
    assert len(rounds) <= (3 if spares or (after and where != GROUPS) else 4), [each.kind for each in rounds]


@pytest.mark.parametrize("spares", [0, 4])
def test_hang_in_pairs_is_settled_beside_the_rest_of_the_sweep(spares: int) -> None:
    fleet = fleet_of(32, Hangs(("h05",), 9, WALK, ARRIVED), spares=spares)
    conclusion, became, rounds = campaign(fleet)
    assert [each.kind for each in rounds][:2] == ["walk", "rest"]
    assert len(rounds[1].groups) == 3
    served = set(fleet.nodes[32:])
    assert all((job[1] in served) == bool(spares) for job in asked(rounds))
    (reason,) = {each.reason for each in conclusion.findings["h05"] if each.verdict == "fail"}
    assert reason.startswith("hangs or crashes: it and ")
    assert "both arrived and neither continued" in reason
    assert "; again with " in reason
    assert passed(became) == but(fleet, "h05")


def test_node_that_hangs_inside_itself_needs_nobody_to_tell() -> None:
    _conclusion, _became, rounds = campaign(fleet_of(8, Hangs(("h3",), 0, INSIDE, ARRIVED)))
    assert asked(rounds) == [("h3",)]
    assert rounds[1].groups[0] == ("h1", "h2", "h4", "h5", "h6", "h7", "h8")


@pytest.mark.parametrize(("shows", "where"), [(ABSENT, WALK), (ARRIVED, WALK), (ARRIVED, INSIDE), (ABSENT, GROUPS)])
@pytest.mark.parametrize("spares", [0, 3])
def test_hang_that_does_not_come_again_is_held(shows: str, where: str, spares: int) -> None:
    def later(step: Round, fleet: Fleet) -> None:
        if step.number > (2 if where == GROUPS else 1):
            # Whatever it was is over.
            fleet._stops.clear()

    fleet = fleet_of(32, Hangs(("h07",), 0 if where != WALK else 20, where, shows), spares=spares)
    conclusion, became, _rounds = campaign(fleet, before=later)
    assert REJECTED not in became.values()
    assert became["h07"] == HELD
    assert len(conclusion.held) == (2 if (shows, where) == (ARRIVED, WALK) else 1)
    assert "no node is blamed" in conclusion.held["h07"]
    assert set(conclusion.held).isdisjoint(passed(became))


@pytest.mark.parametrize(("one", "other", "after"), [("h03", "h20", 12), ("h14", "h19", 31)])
@pytest.mark.parametrize("shows", [ABSENT, ARRIVED])
def test_two_that_hang_at_once_are_both_rejected(one: str, other: str, after: int, shows: str) -> None:
    # The last two meet each other in that very permutation: neither kept anybody else waiting.
    fleet = fleet_of(32, Hangs((one, other), after, WALK, shows), spares=6)
    _conclusion, became, rounds = campaign(fleet)
    assert {node for node, its in became.items() if its == REJECTED} == {one, other}
    assert passed(became) == but(fleet, one, other)
    assert len(rounds) <= 4


@pytest.mark.parametrize("shows", [ABSENT, ARRIVED])
def test_partner_that_hangs_itself_convicts_nobody_alone(shows: str) -> None:
    fleet = fleet_of(32, Hangs(("h07",), 20, WALK, ARRIVED), spares=1)
    fleet.add(Hangs((fleet.nodes[32],), 0, WALK, shows))
    _conclusion, became, _rounds = campaign(fleet)
    assert {node for node, its in became.items() if its == REJECTED} <= {"h07"}
    assert became["h07"] != PASSED


def test_partner_that_slurm_loses_is_replaced() -> None:
    fleet = fleet_of(32, Hangs(("h07",), 20, WALK, ABSENT), spares=3)

    def lost(step: Round, item: dict[str, Any]) -> None:
        if step.number == 2 and len(item["group"]) == 2:
            gone = item["group"][1]
            item.update(started=False, ok=False, error=f"{gone} is down", unavailable={gone: "down"}, results=[])
            item.pop("reached", None)

    _conclusion, became, rounds = campaign(fleet, change=lost)
    first, second = asked(rounds)
    assert first[0] == second[0] == "h07"
    assert first[1] != second[1]
    assert became["h07"] == REJECTED
    assert passed(became) == but(fleet, "h07")
    assert len(rounds) == 3


def test_everything_that_crashes_convicts_nobody_however_many_are_in_service() -> None:
    def crashed(step: Round, item: dict[str, Any]) -> None:
        ranks = [{"node": node, "rank": at, "error": "no module named torch"} for at, node in enumerate(item["group"])]
        item.update(ok=False, error="rank 0 failed", results=[], ranks=ranks)

    _conclusion, became, _rounds = campaign(fleet_of(8, spares=4), change=crashed)
    assert set(became.values()) == {HELD}


@pytest.mark.parametrize(("idle", "who"), [([], "member"), (["h11"], "h11"), (["h09", "h11"], "h09")])
def test_nodes_that_users_are_on_are_not_asked_where_anybody_else_is_there(idle: list[str], who: str) -> None:
    fleet = fleet_of(8, Hangs(("h3",), 20, WALK, ABSENT), spares=3)
    fleet.nodes[8:] = ["h09", "h10", "h11"]
    fleet.index.update({"h09": 8, "h10": 9, "h11": 10})

    def told(step: Round, item: dict[str, Any]) -> None:
        item["idle"] = idle

    _conclusion, became, rounds = campaign(fleet, change=told)
    ((_suspect, other),) = asked(rounds)
    assert other == who or (who == "member" and other in but(fleet, "h3"))
    assert became["h3"] == REJECTED
    assert len(rounds) == 3


def test_nodes_in_service_are_taken_in_the_order_in_which_they_are_given() -> None:
    fleet = fleet_of(8, Hangs(("h3",), 20, WALK, ABSENT), spares=3)
    # The spare stands before those that users may want, whatever it is called.
    fleet.nodes[8:] = [fleet.nodes[9], fleet.nodes[8], fleet.nodes[10]]
    fleet.index = {node: at for at, node in enumerate(fleet.nodes)}
    _conclusion, became, rounds = campaign(fleet)
    assert asked(rounds) == [("h3", fleet.nodes[8])]
    assert became["h3"] == REJECTED


def test_busy_node_in_service_is_waited_for_where_nobody_else_is_proven() -> None:
    fleet = fleet_of(2, Hangs(("h1",), 0, WALK, ABSENT), spares=2, rack=0)

    def told(step: Round, item: dict[str, Any]) -> None:
        item["idle"] = []

    _conclusion, became, rounds = campaign(fleet, change=told)
    waits = [each for each in rounds if each.kind == "suspects"]
    assert waits
    assert became["h1"] != PASSED


# What one observation says.


def halt_of(moves: Sequence[Mapping[str, Any]], group: Sequence[str], **told: Any) -> Halt:
    plan = {"kind": "walk", "groups": [list(group)], "program": {"moves": list(moves)}}
    item = {"group": list(group), "started": True, "ok": False, "error": "stopped", "missing": [], **told}
    (halt,) = matrix_of(group, [(1, plan, item)], (64,), 2).halts
    return halt


INSIDE_PHASE = {"name": "inside", "kind": "inside", "collective": "all_reduce", "sizes": [64]}
PAIRS = {"name": "walk", "kind": "pairs", "collective": "sendrecv", "sizes": [64]}
NAMES = ("a", "b", "c", "d")


def test_who_stands_still_inside_is_named_unless_everybody_does() -> None:
    one = {"b": ["inside", 0, "arrived"]}
    halt = halt_of([INSIDE_PHASE], NAMES, reached=one)
    assert (set(halt.suspects), halt.inside) == ({"b"}, {"b"})
    assert halt_of([INSIDE_PHASE], ("b",), reached=one).inside == {"b"}
    halt = halt_of([INSIDE_PHASE], NAMES, reached={node: ["inside", 0, "arrived"] for node in NAMES})
    assert (halt.suspects, halt.inside) == ({}, frozenset())


def test_who_waits_in_a_later_permutation_is_no_witness() -> None:
    moves = [{**PAIRS, "pairs": [[[0, 1], [2, 3]], [[0, 2]]]}]
    reached = {"a": ["walk", 0, "arrived"], "b": ["walk", 0, "absent"], "c": ["walk", 1, "arrived"]}
    halt = halt_of(moves, NAMES, reached=reached)
    assert (set(halt.suspects), halt.partners) == ({"b"}, {"b": "a"})


def test_group_of_two_that_hangs_names_both_and_a_larger_one_who_did_not_come() -> None:
    moves = [{**PAIRS, "name": "twos", "kind": "groups", "collective": "all_to_all", "groups": [[0, 2], [1, 3]]}]
    both = {node: ["twos", 0, "arrived"] for node in ("a", "c")}
    assert set(halt_of(moves, NAMES, reached=both).suspects) == {"a", "c"}
    moves = [{**moves[0], "groups": [[0, 1, 2, 3]]}]
    everybody = {node: ["twos", 0, "arrived"] for node in NAMES}
    assert not halt_of(moves, NAMES, reached=everybody).suspects
    halt = halt_of(moves, NAMES, reached={**everybody, "c": ["twos", 0, "absent"]})
    assert set(halt.suspects) == {"c"}
    assert halt.partners["c"] in {"a", "b", "d"}


def test_phase_without_jobs_is_for_all_of_them() -> None:
    moves = [{"name": "walk", "jobs": [0]}, {"name": "hung", "jobs": [1, 2]}, {"name": "all"}]
    plan = {"groups": [["a", "b"], ["c"], ["d"]], "program": {"moves": moves}}
    names = {node: [phase["name"] for phase in phases_of(plan, job)] for job in plan["groups"] for node in job}
    assert names == {"a": ["walk", "all"], "b": ["walk", "all"], "c": ["hung", "all"], "d": ["hung", "all"]}
    assert phases_of({"groups": [["a"]], "program": {"moves": moves[2:]}}, ["elsewhere"]) == moves[2:]
