"""Fabric rounds on hosts with injected faults: the rail at fault is named, and nobody else is blamed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import (
    CARRIER_CHECK,
    rail_checks,
    required,
)
from ansible_collections.muster.cluster.plugins.module_utils.nic.declared_nics import rails_of
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.rail_counters import PRIORITY_COUNTERS
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.distances import Place
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.pairs import (
    GOOD,
    Circumstances,
    Outcome,
    Record,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.rail_judging import Limits, Pair
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.rail_rounds import (
    Plan,
    conclude_early,
    next_round,
)

from tests.placed import PLACED
from tests.typed import RAILS_FABRIC, typed

PRIORITIES = {"single": 3, "together": 3, "control": 6}
HGX = expectations_of("hgx_h100", PLACED, "test")
PORT = {
    **{"backend": "doca", "mtu_bytes": 9000, "lossless_priorities": [3], "cm_tos": 104, "traffic_class": None},
    "dscp_priority": [{"dscp": 26, "priority": 3}],
    **dict.fromkeys(("dcqcn", "cnp_dscp", "cnp_priority", "rings", "buffers")),
}
EXPECT = {
    **HGX,
    "nic": {**HGX["nic"], "rails": HGX["nic"]["rails"][:2]},
    "fabric": {**RAILS_FABRIC, "port": PORT},
}
RAILS = tuple(rails_of(typed(EXPECT)))
NAMES = tuple(rail.name for rail in RAILS)
SENT = 10**9


@dataclass
class Site:
    """Hosts two to a leaf, four to a pod. ``slow`` in Gb/s, ``late`` in us, by host and rail."""

    hosts: int = 8
    slow: dict[tuple[str, str], float] = field(default_factory=dict)
    late: dict[tuple[str, str], float] = field(default_factory=dict)
    lossy: set[tuple[str, str]] = field(default_factory=set)
    marked: dict[tuple[str, str], int] = field(default_factory=dict)
    unread: set[tuple[str, str]] = field(default_factory=set)
    looped: dict[tuple[str, str], float] = field(default_factory=dict)
    between: dict[frozenset[str], float] = field(default_factory=dict)
    missing: set[tuple[str, str]] = field(default_factory=set)
    crashed: set[str] = field(default_factory=set)
    gone: dict[str, str] = field(default_factory=dict)
    stray: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=lambda: dict(PRIORITIES))
    rounds: list[Round] = field(default_factory=list)

    def names(self) -> tuple[str, ...]:
        return tuple(f"n{number}" for number in range(1, self.hosts + 1))

    def plan(self, members: tuple[str, ...] | None = None) -> Plan:
        places = {
            name: Place(f"p{index // 4}", dict.fromkeys(NAMES, (f"leaf-{index // 2}", f"Ethernet{index % 2}")))
            for index, name in enumerate(self.names())
        }
        under_test = self.names() if members is None else members
        partners = tuple(name for name in self.names() if name not in under_test)
        return Plan(
            under_test, partners, places, RAILS, rail_checks(typed(EXPECT)), Limits.of(typed(EXPECT), self.priorities)
        )

    def observe(self, group: tuple[str, ...]) -> dict[str, Any]:
        gone = {node: self.gone[node] for node in group if node in self.gone}
        if gone:
            return {"group": list(group), "ok": False, "started": False, "error": "not started", "unavailable": gone}
        crashed = sorted(self.crashed & set(group))
        answers = [self.answer(node, group) for node in group if node not in self.crashed]
        error = f"no result from {', '.join(crashed)}" if crashed else ""
        return {"group": list(group), "ok": not crashed, "started": True, "error": error, "answers": answers}

    def answer(self, node: str, group: tuple[str, ...]) -> dict[str, Any]:
        if len(group) == 1:
            tests = [
                self.test("loopback", "ib_write_bw", rail, node, node, self.looped.get((node, rail), 390.0))
                for rail in NAMES
            ]
            return {"node": node, "tests": tests, "servers": [], "counters": {}}
        other = next(name for name in group if name != node)
        tests = []
        for rail in NAMES:
            speeds = [self.slow.get((name, rail), 392.0) for name in group] + [
                self.between.get(frozenset(group), 392.0)
            ]
            tests += [self.test(phase, "ib_write_bw", rail, node, other, min(speeds)) for phase in PRIORITIES]
            if node == group[1]:
                micros = max(self.late.get((name, rail), 2.2) for name in group)
                tests.append(self.test("single", "ib_write_lat", rail, node, other, micros))
        counters = {rail: {phase: self.grown(node, rail, phase) for phase in self.priorities} for rail in NAMES}
        return {"node": node, "tests": tests, "servers": [], "counters": counters}

    def test(self, *given: Any) -> dict[str, Any]:
        phase, tool, rail, client, server, value = given
        sent = SENT if tool == "ib_write_bw" else 2000
        told = {"phase": phase, "tool": tool, "rail": rail, "client": client, "server": server}
        if {(client, rail), (server, rail)} & self.missing:
            return {**told, "value": None, "bytes": 0, "error": "rail 1 has no RDMA device"}
        return {**told, "value": value, "bytes": sent, "error": ""}

    def grown(self, node: str, rail: str, phase: str) -> dict[str, Any]:
        priority = self.priorities[phase]
        seen = self.marked.get((node, rail), priority)
        grown = {f"tx_prio{priority}_bytes": SENT + 10**6, f"rx_prio{seen}_bytes": SENT + 10**6}
        grown.update(self.stray.get((node, rail), {}))
        if (node, rail) in self.lossy:
            grown["out_of_sequence"] = 7
        return {"grown": grown, "missing": list(PRIORITY_COUNTERS) if (node, rail) in self.unread else []}

    def conclude(self, members: tuple[str, ...] | None = None) -> Conclusion:
        plan, seen = self.plan(members), list[Pair]()
        for _ in range(30):
            step = next_round(plan, seen)
            if isinstance(step, Conclusion):
                return step
            used = [node for group in step.groups for node in group]
            assert len(used) == len(set(used)), "a node in two groups of one round"
            self.rounds.append(step)
            seen += [Pair.read(step.number, self.observe(group)) for group in step.groups]
        raise AssertionError("no conclusion")


def failed(conclusion: Conclusion) -> set[tuple[str, str, str]]:
    return {
        (node, each.check, each.subject)
        for node, findings in conclusion.findings.items()
        for each in findings
        if each.verdict == FAIL
    }


def verdicts(conclusion: Conclusion) -> dict[str, str]:
    return {node: worst(each.verdict for each in findings) for node, findings in conclusion.findings.items()}


def test_sound_hosts_pass_everything_that_is_owed_in_four_rounds() -> None:
    site = Site()
    conclusion = site.conclude()
    assert [step.kind for step in site.rounds] == ["loopback", "leaf", "pod", "across"]
    assert set(verdicts(conclusion).values()) == {PASS}
    for findings in conclusion.findings.values():
        # What links did is added by the stage.
        owed = [pair for pair in required("fabric", typed(EXPECT)) if pair[0] != CARRIER_CHECK]
        assert sorted((each.check, each.subject) for each in findings) == sorted(owed)
    assert conclusion.held == {}


RAIL = ("n3", "rail1")
FAULTS: list[tuple[str, Callable[[], Site]]] = [
    ("rail_bandwidth", lambda: Site(slow={RAIL: 200.0})),
    ("rail_latency", lambda: Site(late={RAIL: 30.0})),
    ("rail_counters", lambda: Site(lossy={RAIL})),
    ("rail_marking", lambda: Site(marked={RAIL: 0})),
    ("rail_loopback", lambda: Site(looped={RAIL: 120.0})),
]


@pytest.mark.parametrize(("check", "site_of"), FAULTS)
def test_rail_of_one_host_is_named_and_nobody_else_is_blamed(check: str, site_of: Callable[[], Site]) -> None:
    conclusion = site_of().conclude()
    assert failed(conclusion) == {("n3", check, "nic rail1")}
    assert {node for node, verdict in verdicts(conclusion).items() if verdict != PASS} == {"n3"}
    (finding,) = [each for each in conclusion.findings["n3"] if each.verdict == FAIL]
    cable = "" if check == "rail_loopback" else ", cable to leaf-1 Ethernet0:"
    assert finding.reason.startswith(f"{RAILS[1]}{cable}")


def test_rail_without_its_device_costs_nothing_but_that_rail() -> None:
    conclusion = Site(missing={RAIL}).conclude()
    found = {(node, each) for node, findings in conclusion.findings.items() for each in findings}
    bad = [(node, each) for node, each in found if each.verdict != PASS]
    assert {(node, each.subject) for node, each in bad} == {("n3", "nic rail1")}
    assert any("rail 1 has no RDMA device" in each.reason for _, each in bad if each.check == "rail_bandwidth")


def test_both_ends_of_a_pair_bad_are_both_convicted_by_others() -> None:
    conclusion = Site(slow={("n3", "rail0"): 200.0, ("n6", "rail0"): 210.0}).conclude()
    assert failed(conclusion) == {("n3", "rail_bandwidth", "nic rail0"), ("n6", "rail_bandwidth", "nic rail0")}


def test_whole_leaf_that_is_slow_is_held_and_nobody_is_blamed() -> None:
    conclusion = Site(slow={(node, "rail0"): 200.0 for node in ("n3", "n4")}).conclude()
    assert failed(conclusion) == set()
    assert sorted(conclusion.held) == ["n3", "n4"]
    assert "suspect the switch" in conclusion.held["n3"]
    assert {node for node, verdict in verdicts(conclusion).items() if verdict == PASS} == {
        *("n1", "n2", "n5", "n6", "n7", "n8")
    }


def test_slow_way_between_two_that_are_good_with_others_holds_them() -> None:
    site = Site(hosts=4, between={frozenset(("n1", "n3")): 150.0})
    conclusion = site.conclude()
    assert failed(conclusion) == set()
    assert sorted(conclusion.held) == ["n1", "n3"]


def test_one_bad_pair_alone_convicts_neither() -> None:
    conclusion = Site(hosts=2, slow={("n1", "rail0"): 200.0}).conclude()
    assert failed(conclusion) == set()
    assert sorted(conclusion.held) == ["n1", "n2"]


@pytest.mark.parametrize("site", [Site(crashed={"n3"}), Site(unread={RAIL}), Site(hosts=1)])
def test_what_crashed_or_was_not_read_or_had_no_partner_never_passes(site: Site) -> None:
    name = "n1" if site.hosts == 1 else "n3"
    conclusion = site.conclude()
    assert verdicts(conclusion)[name] != PASS
    others = {verdict for node, verdict in verdicts(conclusion).items() if node != name}
    assert others <= {PASS}


def test_node_that_was_never_observed_is_incomplete() -> None:
    conclusion = conclude_early(Site().plan(), [], "stopped")
    assert set(verdicts(conclusion).values()) == {INCOMPLETE}


def test_mended_node_is_proven_by_partners_in_service() -> None:
    site = Site()
    conclusion = site.conclude(("n3",))
    assert verdicts(conclusion) == {"n3": PASS}
    assert [step.kind for step in site.rounds] == ["loopback", "suspects", "distances", "distances"]
    plan = site.plan()
    assert {plan.farthest(*group) for step in site.rounds[1:] for group in step.groups} == {"leaf", "pod", "across"}


def test_node_left_over_by_disjoint_pairs_is_measured_at_every_distance() -> None:
    site = Site(hosts=7)
    assert set(verdicts(site.conclude()).values()) == {PASS}
    plan = site.plan()
    measured = {(node, plan.farthest(*group)) for step in site.rounds[1:] for group in step.groups for node in group}
    # Nobody else is at the leaf of n7.
    assert {f"n{number}" for number in range(1, 8)} == {node for node, distance in measured if distance == "across"}
    assert {distance for node, distance in measured if node == "n7"} == {"pod", "across"}


def test_distance_at_which_nobody_could_be_reached_is_not_passed_over() -> None:
    conclusion = Site(hosts=5, gone={"n5": "down*"}).conclude()
    assert verdicts(conclusion) == dict.fromkeys(("n1", "n2", "n3", "n4", "n5"), INCOMPLETE)
    assert "not measured across pods: n5 is down*" in conclusion.held["n1"]


def test_neighbour_out_of_reach_is_made_up_for_by_a_farther_one() -> None:
    conclusion = Site(gone={"n3": "allocated"}).conclude()
    assert {node for node, verdict in verdicts(conclusion).items() if verdict != PASS} == {"n3"}


def test_only_node_of_a_pod_that_is_bad_itself_costs_the_others_nothing() -> None:
    conclusion = Site(hosts=5, slow={("n5", "rail0"): 200.0}).conclude()
    assert failed(conclusion) == {("n5", "rail_bandwidth", "nic rail0")}
    assert {node for node, verdict in verdicts(conclusion).items() if verdict == PASS} == {"n1", "n2", "n3", "n4"}


def test_node_that_is_good_nearby_and_bad_with_everybody_afar_never_passes() -> None:
    afar = {frozenset(("n1", f"n{number}")): 150.0 for number in (5, 6, 7, 8)}
    conclusion = Site(between=afar).conclude()
    assert verdicts(conclusion)["n1"] != PASS
    assert failed(conclusion) <= {("n1", "rail_bandwidth", f"nic {rail}") for rail in NAMES}


@pytest.mark.parametrize("value", [400.1, 39165.0])
def test_figure_above_the_line_rate_is_none(value: float) -> None:
    site = Site(hosts=2, between={frozenset(("n1", "n2")): value}, slow=dict.fromkeys(rails("n1", "n2"), value))
    found = {each.verdict for each in site.conclude().findings["n1"] if each.check == "rail_bandwidth"}
    assert found == {INCOMPLETE}


def test_same_test_told_twice_is_no_other_test() -> None:
    site = Site(hosts=2)
    pair = Pair.read(2, site.observe(("n1", "n2")))
    tests: list[dict[str, Any]] = pair.answers["n1"]["tests"]  # type: ignore[assignment]
    (single,) = [test for test in tests if (test["phase"], test["rail"]) == ("single", "rail0")]
    tests[:] = [single if test["phase"] == "together" else test for test in tests]
    found = {each.subject: each for each in conclude_all(site, [pair]) if each.check == "rail_bandwidth"}
    assert found["nic rail0"].verdict == INCOMPLETE


def test_latency_that_is_told_is_the_worst_of_those_that_passed() -> None:
    outcomes = [
        Outcome(number, ("n1", other), GOOD, micros, 5.0, less_is_better=True)
        for number, (other, micros) in enumerate((("n2", 2.2), ("n3", 4.8), ("n4", 2.1)), 2)
    ]
    assert Record(("n1",), (), outcomes, Circumstances({}, {}, 12)).passes("n1").measured == 4.8


def rails(*nodes: str) -> list[tuple[str, str]]:
    return [(node, rail) for node in nodes for rail in NAMES]


@pytest.mark.parametrize("name", ["tx_prio0_bytes", "rx_prio5_bytes", "tx_prio4_pause"])
def test_undeclared_priority_that_carries_traffic_or_pauses_fails(name: str) -> None:
    conclusion = Site(stray={RAIL: {name: SENT // 50}}).conclude()
    assert failed(conclusion) == {("n3", "rail_marking", "nic rail1")}


@pytest.mark.parametrize("name", ["tx_prio0_bytes", "rx_prio3_pause"])
def test_a_few_bytes_of_others_and_pauses_of_a_lossless_priority_pass(name: str) -> None:
    assert set(verdicts(Site(stray={RAIL: {name: SENT // 200}}).conclude()).values()) == {PASS}


def test_control_may_have_the_priority_of_data_and_is_held_to_it() -> None:
    same = {"single": 3, "together": 3, "control": 3}
    assert set(verdicts(Site(priorities=same).conclude()).values()) == {PASS}
    assert failed(Site(priorities=same, marked={RAIL: 6}).conclude()) == {("n3", "rail_marking", "nic rail1")}


def test_fabric_of_best_effort_owes_no_marks_and_passes_none_unmeasured() -> None:
    port = {**PORT, "lossless_priorities": [], "dscp_priority": []}
    expect = {**EXPECT, "fabric": {**EXPECT["fabric"], "port": port}}
    assert "rail_marking" not in rail_checks(typed(expect))
    assert "rail_marking" in rail_checks(typed(EXPECT))
    conclusion = Site(priorities={}, hosts=2).conclude()
    marks = {each.verdict for each in conclusion.findings["n1"] if each.check == "rail_marking"}
    assert marks == {INCOMPLETE}


def test_class_that_limits_no_counter_owes_none() -> None:
    rdma = {**EXPECT["rdma"], "counters": dict.fromkeys(EXPECT["rdma"]["counters"])}
    assert "rail_counters" not in rail_checks(typed({**EXPECT, "rdma": rdma}))


def test_class_without_nics_or_fabric_owes_nothing() -> None:
    assert rail_checks(typed({**EXPECT, "nic": None})) == rail_checks(typed({**EXPECT, "fabric": None})) == ()


def test_rail_far_below_its_cohort_fails_above_the_floor() -> None:
    conclusion = Site(slow={RAIL: 384.01}).conclude()
    assert failed(conclusion) == {("n3", "rail_bandwidth", "nic rail1")}
    (finding,) = [each for each in conclusion.findings["n3"] if each.verdict == FAIL]
    assert "peers have a median of 392" in finding.reason


def test_few_peers_are_judged_by_the_floor_and_it_is_said() -> None:
    conclusion = Site(hosts=2, slow={("n1", "rail0"): 384.01}).conclude()
    found = {each.check: each for each in conclusion.findings["n1"] if each.subject == "nic rail0"}
    assert found["rail_bandwidth"].verdict == PASS
    assert "are no cohort" in found["rail_bandwidth"].reason


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(384.0, PASS), (383.99, INCOMPLETE), (0, INCOMPLETE), (float("nan"), INCOMPLETE), (None, INCOMPLETE)],
)
def test_floor_is_ninety_six_percent_of_the_line_rate(value: Any, verdict: str) -> None:
    site = Site(hosts=2, slow={("n1", "rail0"): value} if value is not None else {})
    seen = [Pair.read(2, site.observe(("n1", "n2")))]
    if value is None:
        answers: Mapping[str, Any] = seen[0].answers
        answers["n1"]["tests"][0]["error"] = "crashed"
    found = {each.check: each for each in conclude_all(site, seen) if each.subject == "nic rail0"}
    assert found["rail_bandwidth"].verdict == verdict


def conclude_all(site: Site, seen: list[Pair]) -> tuple[Any, ...]:
    loops = [Pair.read(1, site.observe((node,))) for node in site.names()]
    step = next_round(site.plan(), [*loops, *seen])
    assert isinstance(step, Conclusion)
    return step.findings["n1"]
