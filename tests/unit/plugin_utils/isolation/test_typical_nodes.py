"""What is usual is told by the better half: many slow nodes are held however many pairs they slow down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import Planner
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import Exchanges
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.typical_nodes import Met, sets_apart

from tests.fleets import collectives
from tests.isolation.campaign import plan_of
from tests.isolation.faults import Fault, Slow
from tests.isolation.fleet import Fleet, Spec, expectations

LARGE = 268435456


def concluded(spec: Spec, faults: Sequence[Fault], seed: int = 1, **settings: object) -> tuple[Conclusion, int]:
    """Return the conclusion about a fleet, and after how many steps."""
    fleet = Fleet(spec, seed, faults)
    asked = replace(Settings.of(collectives(expectations(spec)), fleet.places()), **settings)
    planner, seen, steps = Planner(fleet.nodes, (), asked), [], 0
    while not isinstance(step := planner.next_round(seen), Conclusion):
        steps += 1
        plan = plan_of(step)
        seen += [(step.number, plan, item) for item in fleet.run(plan)]
    return step, steps


def names(spec: Spec) -> tuple[str, ...]:
    return spec.layout().nodes


def passed(conclusion: Conclusion) -> set[str]:
    return {node for node, owed in conclusion.findings.items() if all(each.verdict == PASS for each in owed)}


def rejected(conclusion: Conclusion) -> set[str]:
    return {node for node, owed in conclusion.findings.items() if any(each.verdict == FAIL for each in owed)}


def chosen(spec: Spec, share: float, seed: int = 3) -> tuple[str, ...]:
    some = np.random.default_rng(seed).choice(spec.hosts, round(spec.hosts * share), replace=False)
    return tuple(names(spec)[each] for each in sorted(some.tolist()))


def wide(hosts: int, **other: int) -> Spec:
    """Return a fleet whose floors let everybody pass that is not slower than its peers."""
    return replace(Spec.usual(hosts, "clean", 0.01, **other), floors=0.5)


@pytest.mark.parametrize("hosts", [8, 32, 232])
@pytest.mark.parametrize("share", [0.3, 0.4, 0.49])
def test_up_to_half_of_all_that_are_slow_are_held_whatever_the_floors(hosts: int, share: float) -> None:
    spec = wide(hosts)
    slow = chosen(spec, min(share, (hosts - 1) // 2 / hosts))
    conclusion, steps = concluded(spec, [Slow(slow, 0.1)])
    assert (set(conclusion.held), rejected(conclusion)) == (set(slow), set())
    assert passed(conclusion) == set(names(spec)) - set(slow)
    assert steps == 2


@pytest.mark.parametrize("where", ["racks", "pods"])
def test_slow_racks_and_pods_are_slow_nodes_and_nothing_lies_before_the_others(where: str) -> None:
    spec = wide(232)
    layout = spec.layout()
    # Two of four pods, of which the last is smaller: 104 nodes.
    slow = layout.names(np.isin(layout.pod, (1, 3)) if where == "pods" else layout.rack < 14)
    conclusion, steps = concluded(spec, [Slow(slow, 0.1)])
    assert (set(conclusion.held), rejected(conclusion), steps) == (set(slow), set(), 2)


@pytest.mark.parametrize("same", [True, False])
def test_rail_that_is_slow_in_many_nodes_is_seen(same: bool) -> None:
    spec = wide(32)
    slow = chosen(spec, 0.45)
    faults = [Slow((node,), 0.1, rails=(3 if same else at % 8,)) for at, node in enumerate(slow)]
    conclusion, _steps = concluded(spec, faults)
    assert (set(conclusion.held), rejected(conclusion)) == (set(slow), set())


def test_two_rails_of_which_each_is_slow_in_many_nodes() -> None:
    spec = wide(32, rails=2)
    first, second = chosen(spec, 0.4, 1), chosen(spec, 0.4, 2)
    conclusion, _steps = concluded(spec, [Slow(first, 0.1, rails=(0,)), Slow(second, 0.1, rails=(1,))])
    assert {*first, *second} <= set(conclusion.held)
    assert not rejected(conclusion)


def test_rail_that_is_slow_everywhere_is_the_fabric() -> None:
    spec = wide(32)
    conclusion, _steps = concluded(spec, [Slow(names(spec), 0.1, rails=(3,))])
    assert set(conclusion.held) == set(names(spec))
    assert "rail 3 is 10% slower than the others with all nodes" in conclusion.held["h01"]


def test_small_messages_that_are_slow_in_many_nodes() -> None:
    spec = wide(32)
    slow = chosen(spec, 0.45)
    conclusion, _steps = concluded(spec, [Slow(slow, 0.1, bytes=(65536,))])
    assert (set(conclusion.held), rejected(conclusion)) == (set(slow), set())


@pytest.mark.parametrize("share", [0.5, 0.6])
def test_two_kinds_of_hardware_want_two_classes(share: float) -> None:
    spec = wide(232)
    slow = chosen(spec, share)
    conclusion, _steps = concluded(spec, [Slow(slow, 0.08)])
    assert set(slow) <= set(conclusion.held)
    assert not rejected(conclusion)
    assert "hardware of two kinds wants two classes" in conclusion.held[slow[0]]


@pytest.mark.parametrize("hosts", [32, 232])
@pytest.mark.parametrize("unit", ["rack", "pod"])
def test_two_units_that_are_slow_with_each_other_hold_everybody(hosts: int, unit: str) -> None:
    spec = wide(hosts, **({"rack": hosts // 2, "pod": 0} if unit == "rack" else {"rack": 2, "pod": hosts // 4}))
    conclusion, steps = concluded(spec, [Slow(names(spec)[: hosts // 2], 0.2, to=names(spec)[hosts // 2 :])])
    assert set(conclusion.held) == set(names(spec))
    assert {f"20% slower between {unit}s" in why for why in conclusion.held.values()} == {True}
    assert steps <= 2


def test_pod_that_is_slow_with_itself_too_is_no_boundary() -> None:
    spec = wide(32, rack=4, pod=4)
    slow = names(spec)[:16]
    conclusion, _steps = concluded(spec, [Slow(slow, 0.1)])
    assert (set(conclusion.held), rejected(conclusion)) == (set(slow), set())
    assert not [why for why in conclusion.held.values() if "between" in why]


@pytest.mark.parametrize("rack", [0, 4])
def test_two_halves_that_nothing_declares_hold_everybody_and_name_both(rack: int) -> None:
    spec = wide(232, rack=rack, pod=0)
    conclusion, _steps = concluded(spec, [Slow(names(spec)[:116], 0.2, to=names(spec)[116:])])
    assert set(conclusion.held) == set(names(spec))
    said = "h001, h002 and 114 more on one side and h117, h118 and 114 more on the other"
    assert any(said in why for why in conclusion.held.values())


def test_three_sets_are_racks_that_somebody_has_to_declare() -> None:
    spec = wide(30, rack=0)
    parts = [names(spec)[at : at + 10] for at in range(0, 30, 10)]
    faults = [Slow(parts[at], 0.2, to=parts[(at + 1) % 3]) for at in range(3)]
    conclusion, _steps = concluded(spec, faults)
    assert passed(conclusion) == set(names(spec))
    assert any("declare their racks or pods" in said for said in conclusion.remarks)


def test_racks_of_a_short_sweep_whose_hosts_never_met_count_as_slow_nodes() -> None:
    spec = wide(928, rack=2, pod=232, rails=1)
    layout = spec.layout()
    slow = layout.names(layout.rack % 2 == 0)
    conclusion, _steps = concluded(spec, [Slow(slow, 0.2)], budget_minutes=12.0)
    assert (set(conclusion.held), rejected(conclusion)) == (set(slow), set())


def test_floor_far_from_what_a_rail_carries_is_told() -> None:
    told = "class lab: the floor of sendrecv is 20 GB/s, a rail of 400 Gb/s carries 50"
    conclusion, _steps = concluded(wide(8), [], far_floors=(told,))
    assert told in conclusion.remarks


def exchanges(count: int) -> Exchanges:
    """Return an exchange of each with each."""
    one, other = np.triu_indices(count, 1)
    shape = np.zeros((len(one), 1))
    nobody = np.zeros(0, dtype=np.int64)
    columns = {"gb": np.ones((len(one), 1, 1)), "p99": shape, "ratio": shape, "lead": shape}
    return Exchanges(count, one, other, number=one, step=one, **columns, unmeasured=(nobody, nobody))


@pytest.mark.parametrize(("slow", "typical"), [(0, 20), (1, 19), (9, 11), (10, 10), (11, 20)])
def test_better_half_tells_what_is_usual(slow: int, typical: int) -> None:
    each = exchanges(20)
    speeds = np.where(each.touching(range(slow)), 0.9, 1.0)
    found = Met(each, np.full(len(speeds), 2)).typical(speeds, 0.05)
    # Of 20 nodes eleven slow ones are the many.
    assert found.sum() == typical
    assert found[slow:].all()


def test_exchanges_that_are_missing_make_nobody_slow() -> None:
    each = exchanges(20)
    speeds = np.ones(len(each.one))
    speeds[each.touching([3]) & (each.one + each.other < 18)] = np.nan
    assert Met(each, np.full(len(speeds), 2)).typical(speeds, 0.05).all()


def test_sets_are_told_from_nodes_that_lie_between_them() -> None:
    each = exchanges(30)
    side = np.arange(30) // 15
    apart = np.where(side[each.one] == side[each.other], 1.0, 0.8)
    everybody = np.ones(len(apart), dtype=bool)
    found = sets_apart(each, everybody, apart, 0.05)
    assert [np.flatnonzero(one).tolist() for one in found] == [list(range(15)), list(range(15, 30))]
    # Who is fast with either side shows that something lies between the two.
    apart[each.touching(range(10, 15))] = 1.0
    assert sets_apart(each, everybody, apart, 0.05) == []
