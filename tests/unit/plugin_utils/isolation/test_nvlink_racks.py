"""Racks that are one NVLink domain: who is in another, in none, or alone; and campaigns between two such racks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import read_program
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import required
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import Campaign, Planner
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_stage import WAITING
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.baseline import proposed
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import reference_of
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import PAIR, Suspect
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_programs import pairs_phase
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.nvlink_racks import (
    NvLinkRacks,
    rack_mates,
    rails_gb_per_s,
    with_racks,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.retests import Retest, is_answered, retests_of

from tests.fleets import collectives
from tests.isolation.campaign import plan_of
from tests.isolation.faults import Hangs
from tests.isolation.fleet import Fleet, Spec, expectations
from tests.placed import PLACED
from tests.typed import typed

ONE = "9c6f5af3-53bf-49b5-a436-b66766c413c3/1"
OTHER = "2a7e1b8e-64f1-4f1d-b1f2-0d4f6f1f9a10/1"
CLIQUE = f"{ONE.partition('/')[0]}/2"
NONE = "00000000-0000-0000-0000-000000000000/0"
MOST_ROUNDS = 8
TRAYS = [f"t{number}" for number in range(1, 5)]


def racks(**domains: str | None) -> NvLinkRacks:
    return NvLinkRacks({**dict.fromkeys(TRAYS, "r1"), "u1": "r2"}, domains)


def verdict(node: str, **domains: str | None) -> tuple[str, str]:
    found = racks(**domains).finding(node)
    assert (found.check, found.subject) == ("nvlink_rack", "network")
    assert found.action == ("none" if found.verdict == PASS else "investigate")
    assert found.measured == (None if domains.get(node) == "none" else domains.get(node))
    return found.verdict, found.reason


def test_nodes_of_a_rack_in_one_domain_pass() -> None:
    said = f"4 of 4 nodes of rack r1 are in NVLink domain {ONE}"
    assert verdict("t1", **dict.fromkeys(TRAYS, ONE)) == (PASS, said)
    # Another rack's domain is its own.
    assert verdict("t1", **dict.fromkeys(TRAYS, ONE), u1=OTHER)[0] == PASS


@pytest.mark.parametrize("own", [OTHER, CLIQUE])
def test_node_in_another_domain_than_most_fails_and_costs_the_others_nothing(own: str) -> None:
    domains = {**dict.fromkeys(TRAYS, ONE), "t4": own}
    said = f"3 of 4 nodes of rack r1 are in NVLink domain {ONE}"
    assert verdict("t4", **domains) == (FAIL, f"{said}, this one in {own}")
    assert verdict("t1", **domains) == (PASS, said)


def test_majority_is_more_than_half_of_those_heard_of() -> None:
    three = {"t1": ONE, "t2": ONE, "t3": OTHER}
    assert [verdict(node, **three)[0] for node in three] == [PASS, PASS, FAIL]
    split = {**three, "t4": OTHER}
    why = f"rack r1 has no NVLink domain that most of its nodes are in: 2 in {OTHER}, 2 in {ONE}"
    assert {verdict(node, **split) for node in split} == {(INCOMPLETE, why)}


def test_node_of_which_too_little_is_known_is_incomplete() -> None:
    alone = "no other of the 4 nodes of rack r1 is known to be in an NVLink domain"
    assert verdict("t1", t1=ONE, t2=None) == (INCOMPLETE, alone)
    assert verdict("t1", t1=ONE, t2=NONE, u1=ONE) == (INCOMPLETE, alone)
    assert verdict("t2", t1=ONE, t2=None, t3=ONE) == (INCOMPLETE, "the node's NVLink domain could not be read")
    assert verdict("t2", t1=ONE, t3=ONE)[0] == INCOMPLETE
    # Evidence from when the class had no domain.
    assert verdict("t1", t1=ONE, t2="none") == (INCOMPLETE, alone)
    assert verdict("t2", t1=ONE, t2="none", t3=ONE)[0] == INCOMPLETE
    assert verdict("x", x=ONE) == (INCOMPLETE, "the fleet file declares no rack of the node")


def test_domain_that_is_none_fails_by_itself_and_tells_nothing_of_others() -> None:
    mixed = {"t1": ONE, "t2": ONE, "t3": NONE, "t4": f"{ONE},{OTHER}"}
    assert verdict("t3", **mixed) == (FAIL, "the node's GPUs have joined no NVLink domain")
    assert verdict("t4", **mixed) == (FAIL, f"the node's GPUs are in several NVLink domains: {ONE},{OTHER}")
    assert verdict("t1", **mixed) == (PASS, f"2 of 4 nodes of rack r1 are in NVLink domain {ONE}")
    assert verdict("t1", **dict.fromkeys(TRAYS, NONE))[0] == FAIL


def test_who_cannot_be_told_right_from_wrong_is_held_unless_rejected() -> None:
    good, bad = Finding("data", "network", PASS), Finding("data", "network", FAIL)
    conclusion = Conclusion({"t1": (good,), "t2": (bad,), "t3": (good,)}, {"t3": "slow"})
    met = dict.fromkeys(TRAYS, (1, 0))
    found = with_racks(conclusion, racks(t1=ONE, t2=OTHER, t3=None), met)
    assert [[each.check for each in owed] for owed in found.findings.values()] == [["data", "nvlink_rack"]] * 3
    assert found.held == {"t1": found.findings["t1"][1].reason, "t3": "slow"}
    sound = with_racks(Conclusion({"t1": (good,)}), racks(t1=ONE, t2=ONE), met)
    assert sound.held == {}


def test_node_that_met_nobody_of_its_rack_is_held() -> None:
    good, known = Finding("data", "network", PASS), racks(t1=ONE, t2=ONE, t3=OTHER)
    conclusion = Conclusion(dict.fromkeys(("t1", "t2", "t3"), (good,)))
    found = with_racks(conclusion, known, {"t2": (1, 0)})
    why = (
        "exchanged data with no other node of its rack, so nothing shows that it uses NVLink; "
        f"2 of 4 nodes of rack r1 are in NVLink domain {ONE}"
    )
    (_good, own) = found.findings["t1"]
    assert (own.verdict, own.reason, own.action) == (INCOMPLETE, why, "investigate")
    assert found.held == {"t1": why}
    assert [found.findings[node][1].verdict for node in ("t2", "t3")] == [PASS, FAIL]


def test_acceptance_owes_it_of_classes_with_a_domain() -> None:
    data = expectations_of("hgx_h100", PLACED, "test")
    domain = {"hosts": 18, "imex": None}
    nvlink = {**data["nvlink"], "fabric_manager": False, "fabric_manager_log": None, "domain": domain}
    for expect, owed in ((data, False), ({**data, "nvlink": nvlink}, True), ({**data, "nvlink": None}, False)):
        assert (("nvlink_rack", "network") in required("acceptance", typed(expect))) is owed


class NvLinkFleet(Fleet):
    """Hosts that are several times as fast inside their rack as between racks."""

    FASTER = 8

    def __init__(self, spec: Spec, slow_nvlink: str = "", effect: float = 0.2) -> None:
        super().__init__(spec, 1)
        self.slow_nvlink, self.effect = self.index.get(slow_nvlink, -1), effect

    def _times(self, column: int, meets: Any, now_and_then: Any) -> Any:
        times = super()._times(column, meets, now_and_then)
        same = self.rack[meets.a] == self.rack[meets.b]
        slow = (meets.a == self.slow_nvlink) | (meets.b == self.slow_nvlink)
        factor = np.where(slow, 1 / (1 - self.effect), 1.0)[same] / self.FASTER
        for side in (meets.one, meets.other):
            times[meets.step[same], side[same]] *= factor[:, None]
        return times


def played(
    fleet: Fleet,
    members: Sequence[str] = (),
    partners: Sequence[str] = (),
    busy: Sequence[str] = (),
    away: str = "",
    **other: Any,
) -> tuple[Conclusion, list[Any], Settings]:
    """Play a campaign; partners that are ``busy`` have to be waited for, and those that are ``away`` never come."""
    settings = Settings.of(collectives(expectations(fleet.spec)), fleet.places())
    settings = replace(settings, **{"nvlink_racks": True, **other})
    planner, seen = Planner(members or fleet.nodes, partners, settings), []
    while not isinstance(step := planner.next_round(seen), Conclusion):
        assert step.number <= MOST_ROUNDS
        plan = plan_of(step)
        read_program(plan["program"], len(plan["groups"][0]))
        lacking = {away, *(() if step.kind in WAITING else busy)}
        gone = {node: "MIXED" for node in plan["groups"][0] if node in lacking}
        none = {"group": plan["groups"][0], "started": False, "ok": False, "error": "busy", "unavailable": gone}
        seen += [(step.number, plan, item) for item in ([none] if gone else fleet.run(plan))]
    return step, seen, settings


def rounds(seen: Sequence[tuple[int, Any, Any]]) -> int:
    return len({number for number, _plan, _item in seen})


def passed(conclusion: Conclusion) -> set[str]:
    return {node for node, owed in conclusion.findings.items() if all(each.verdict == PASS for each in owed)}


def rejected(conclusion: Conclusion) -> set[str]:
    return {node for node, owed in conclusion.findings.items() if any(each.verdict == FAIL for each in owed)}


# Two racks of NVIDIA's GB200 NVL72: 18 trays with 4 GPUs each.
SPEC = Spec(36, "clean", 0.01, rails=4, rack=18)


@pytest.mark.parametrize("spec", [SPEC, replace(SPEC, hosts=18), replace(SPEC, hosts=54), replace(SPEC, hosts=20)])
def test_sound_racks_are_admitted_whole(spec: Spec) -> None:
    conclusion, _seen, _settings = played(NvLinkFleet(spec))
    assert (rejected(conclusion), dict(conclusion.held)) == (set(), {})
    assert len(passed(conclusion)) == spec.hosts


def test_two_racks_faster_inside_are_slow_between_by_any_other_class() -> None:
    conclusion, _seen, _settings = played(NvLinkFleet(SPEC), nvlink_racks=False)
    assert passed(conclusion) == set()
    assert any("slower between racks" in why for why in conclusion.held.values())


@pytest.mark.parametrize("hosts", [18, 36])
def test_tray_that_is_slow_over_nvlink_alone_is_found(hosts: int) -> None:
    fleet = NvLinkFleet(replace(SPEC, hosts=hosts), "h07")
    conclusion, _seen, _settings = played(fleet)
    assert (rejected(conclusion), passed(conclusion)) == ({"h07"}, {*fleet.nodes} - {"h07"})


@pytest.mark.parametrize("hosts", [18, 36])
def test_tray_that_is_slow_everywhere_is_found(hosts: int) -> None:
    fleet = NvLinkFleet(Spec(hosts, "one_slow_10", 0.01, rails=4, rack=18))
    conclusion, _seen, _settings = played(fleet)
    assert (rejected(conclusion), passed(conclusion)) == ({*fleet.truth.bad}, {*fleet.nodes} - {*fleet.truth.bad})


@pytest.mark.parametrize(("hosts", "speed"), [(18, 8 * 46), (36, 45.54)])
def test_baseline_is_of_pairs_between_racks_where_there_are_several(hosts: int, speed: float) -> None:
    conclusion, seen, settings = played(NvLinkFleet(replace(SPEC, hosts=hosts)))
    found = proposed(("gb200_nvl72", "ib", ""), passed(conclusion), seen, settings)
    assert found is not None
    (figure,) = [each for each in found.figures if (each.collective, each.size_bytes) == ("sendrecv", 268435456)]
    assert figure.median == pytest.approx(speed, rel=0.02)


class RailFleet(NvLinkFleet):
    """Hosts of which some reach their rack over rails alone."""

    def __init__(self, spec: Spec, *off: int) -> None:
        super().__init__(spec)
        self.off = off or range(spec.hosts)

    def _times(self, column: int, meets: Any, now_and_then: Any) -> Any:
        times = super()._times(column, meets, now_and_then)
        rails = (self.rack[meets.a] == self.rack[meets.b]) & (np.isin(meets.a, self.off) | np.isin(meets.b, self.off))
        for side in (meets.one, meets.other):
            times[meets.step[rails], side[rails]] *= self.FASTER
        return times


def held_against_rails(fleet: Fleet, *elsewhere: int, **other: Any) -> tuple[set[str], set[str], set[str]]:
    """Return who passed, who failed and who is held; nodes ``elsewhere`` say that they are in another domain."""
    conclusion, seen, settings = played(fleet, **other)
    assert rounds(seen) == 2 or other.get("busy")
    return told_by_rails(fleet, conclusion, seen, settings, *elsewhere)


def told_by_rails(
    fleet: Fleet,
    conclusion: Conclusion,
    seen: list[Any],
    settings: Settings,
    *elsewhere: int,
    rails: float | None = 50,
) -> tuple[set[str], set[str], set[str]]:
    domains = {node: ONE if number not in elsewhere else OTHER for number, node in enumerate(fleet.nodes)}
    placed = {node: str(place["rack"]) for node, place in fleet.places().items()}
    known = NvLinkRacks(placed, {node: f"{placed[node]}{domain}" for node, domain in domains.items()})
    found = with_racks(conclusion, known, rack_mates(known, seen, settings, rails))
    by_verdict = {node: owed[-1].verdict for node, owed in found.findings.items()}
    passing, failing, open_ = ({n for n, v in by_verdict.items() if v == each} for each in (PASS, FAIL, INCOMPLETE))
    assert open_ <= {*found.held} | rejected(conclusion)
    return passing, failing, open_


@pytest.mark.parametrize("spec", [SPEC, replace(SPEC, hosts=18), replace(SPEC, hosts=6, rack=3)])
def test_racks_no_faster_inside_than_their_rails_are_not_admitted(spec: Spec) -> None:
    assert passed(played(RailFleet(spec))[0]) != set()
    assert held_against_rails(RailFleet(spec)) == (set(), {*RailFleet(spec).nodes}, set())


@pytest.mark.parametrize("hosts", [4, 6, 8, 18, 36])
def test_node_no_faster_with_its_rack_than_its_rails_is_told_from_the_others(hosts: int) -> None:
    fleet = RailFleet(replace(SPEC, hosts=hosts, rack=hosts // 2 if hosts < 18 else 18), 0)
    bad, mate, nodes = fleet.nodes[0], fleet.nodes[1], {*fleet.nodes}
    # A rack of two tells of neither.
    wanted = (nodes - {bad}, {bad}, set()) if hosts > 4 else (nodes - {bad, mate}, set(), {bad, mate})
    assert held_against_rails(fleet) == wanted


def test_node_of_another_domain_is_no_fault_of_its_rack() -> None:
    fleet = RailFleet(replace(SPEC, hosts=6, rack=3), 0, 1)
    passing, failing, _open = held_against_rails(fleet, 0)
    assert failing >= {fleet.nodes[0]}
    assert fleet.nodes[2] not in failing
    assert passing >= {*fleet.nodes[3:]}
    assert held_against_rails(NvLinkFleet(replace(SPEC, hosts=36))) == ({*NvLinkFleet(SPEC).nodes}, set(), set())


# NVIDIA's 36 racks; with so many minutes only some of the permutations.
LARGE = {"budget_minutes": 10.5}


@pytest.mark.parametrize("hosts", [36 * 18, 36 * 18 - 1, 8 * 18 + 5, 707])
def test_large_fleets_whose_sweep_is_cut_short_meet_their_rack(hosts: int) -> None:
    fleet = RailFleet(replace(SPEC, hosts=hosts), 0, 1, 20)
    bad = {fleet.nodes[each] for each in (0, 1, 20)}
    conclusion, seen, settings = played(fleet, **LARGE)
    shifts = seen[0][1]["program"]["moves"][1]["shifts"]
    assert len(shifts) < hosts - 2
    assert rounds(seen) == 2
    assert told_by_rails(fleet, conclusion, seen, settings) == ({*fleet.nodes} - bad, bad, set())
    assert passed(conclusion) >= {*fleet.nodes} - bad


def test_whole_sweep_of_many_racks_has_no_permutation_of_racks_alone() -> None:
    _conclusion, seen, _settings = played(NvLinkFleet(replace(SPEC, hosts=144)))
    assert [phase["name"] for phase in seen[0][1]["program"]["moves"]] == ["inside", "walk"]


@pytest.mark.parametrize("node", [0, 17, 30, 53])
@pytest.mark.parametrize("sound", [True, False])
def test_single_tray_is_tested_again_with_its_rack(node: int, sound: bool) -> None:
    fleet = NvLinkFleet(replace(SPEC, hosts=54)) if sound else RailFleet(replace(SPEC, hosts=54), node)
    name, others = fleet.nodes[node], [each for at, each in enumerate(fleet.nodes) if at != node]
    wanted = ({name}, set(), set()) if sound else (set(), {name}, set())
    assert held_against_rails(fleet, members=[name], partners=others) == wanted


def test_trays_of_several_racks_are_tested_again_each_with_its_rack() -> None:
    fleet = RailFleet(replace(SPEC, hosts=72), 40)
    again = [fleet.nodes[at] for at in (3, 20, 21, 40, 71)]
    others = [node for node in fleet.nodes if node not in again]
    wanted = {*again} - {fleet.nodes[40]}, {fleet.nodes[40]}, set()
    assert held_against_rails(fleet, members=again, partners=others) == wanted


def test_one_mate_of_two_that_is_off_nvlink_costs_a_sound_tray_nothing() -> None:
    fleet = RailFleet(SPEC, 18)
    name, others = fleet.nodes[20], [fleet.nodes[at] for at in (0, 1, 18, 19)]
    assert held_against_rails(fleet, members=[name], partners=others) == ({name}, set(), set())


def test_tray_whose_rack_is_not_there_is_held_and_one_mate_is_enough() -> None:
    fleet, partners = NvLinkFleet(SPEC), ["h01", "h02", "h03"]
    conclusion, seen, settings = played(fleet, ["h20"], partners)
    assert (passed(conclusion), rounds(seen)) == ({"h20"}, 2)
    assert told_by_rails(fleet, conclusion, seen, settings) == (set(), set(), {"h20"})
    assert held_against_rails(fleet, members=["h20"], partners=[*partners, "h36"]) == ({"h20"}, set(), set())


@pytest.mark.parametrize("mate", [False, True])
def test_tray_of_unknown_rails_is_judged_by_whom_it_met_and_not_by_its_speed(mate: bool) -> None:
    fleet = RailFleet(SPEC)
    conclusion, seen, settings = played(fleet, ["h20"], ["h01", "h02", "h03", *(["h36"] if mate else [])])
    wanted = ({"h20"}, set(), set()) if mate else (set(), set(), {"h20"})
    assert told_by_rails(fleet, conclusion, seen, settings, rails=None) == wanted
    everybody = {*fleet.nodes}
    assert told_by_rails(fleet, *played(fleet), rails=None) == (everybody, set(), set())


def test_round_of_racks_alone_measures_no_suspect() -> None:
    fleet = NvLinkFleet(replace(SPEC, hosts=54))
    _conclusion, seen, settings = played(fleet, ["h20"], [node for node in fleet.nodes if node != "h20"])
    planner = Planner(["h20"], fleet.nodes, settings)
    facts = planner.facts(seen)
    assert [plan["kind"] for plan in facts.plans.values()] == ["walk", "confirm"]
    retest = Retest("h20", None, 8)
    assert facts.confirming_jobs == []
    # Rounds of racks are none of those that measured it in vain.
    unmeasured = replace(facts, again=planner.facts([]).again)
    twice = replace(unmeasured, plans={**facts.plans, 3: facts.plans[2]})
    assert not is_answered(twice, retest)
    confirming = {**facts.plans[2], "program": {"moves": [pairs_phase([[(0, 1)]], settings, "confirm")]}}
    assert is_answered(replace(unmeasured, plans={**facts.plans, 3: confirming, 4: confirming}), retest)


def test_weak_pair_that_comes_up_after_a_round_of_racks_is_measured_again() -> None:
    fleet = NvLinkFleet(replace(SPEC, hosts=54))
    _conclusion, seen, settings = played(fleet, ["h20"], [node for node in fleet.nodes if node != "h20"])
    planner = Planner(["h20"], fleet.nodes, settings)
    facts = planner.facts(seen)
    assert Campaign(facts, planner.order).next_round() is None
    pair = facts.matrix.index["h20"], facts.matrix.index["h01"]
    facts = replace(facts, suspects=(Suspect(PAIR, tuple(sorted(pair)), 0, 0.1, 1.0, 1, strong=False),))
    assert [each.weak for each in retests_of(facts, reference_of(facts))] == [True]
    step = Campaign(facts, planner.order).next_round()
    assert step is not None
    assert [phase["name"] for phase in step.program["moves"]] == ["confirm"]
    # It is asked once.
    plans = {**facts.plans, step.number: plan_of(step)}
    assert Campaign(replace(facts, plans=plans), planner.order).next_round() is None


def test_mates_that_users_are_on_are_waited_for() -> None:
    fleet, busy = NvLinkFleet(SPEC), ["h19", "h21", "h22", "h23"]
    conclusion, seen, settings = played(fleet, ["h20"], ["h01", "h02", *busy], busy)
    assert [plan["kind"] for _number, plan, _item in seen] == ["walk", "confirm"]
    assert told_by_rails(fleet, conclusion, seen, settings) == ({"h20"}, set(), set())


@pytest.mark.parametrize(("mates", "wanted"), [(["h21"], set()), (["h21", "h22", "h23"], {"h20"})])
def test_mate_that_never_comes_ends_no_later_than_another_that_does(mates: list[str], wanted: set[str]) -> None:
    fleet = NvLinkFleet(SPEC)
    conclusion, seen, settings = played(fleet, ["h20"], ["h01", "h02", *mates], away="h21")
    assert rounds(seen) == 3
    assert told_by_rails(fleet, conclusion, seen, settings) == (wanted, set(), {"h20"} - wanted)


class TrainingFleet(NvLinkFleet):
    """Hosts that train as well."""

    def _inside(self, item: dict[str, Any], group: list[str], phase: Any) -> None:
        super()._inside(item, group, phase)
        if phase["kind"] == "train":
            rows = [[5_000_000] * self.spec.rails for _each in group]
            item["results"].append({"move": "train", "step": 0, "bytes": 4096, "ns": rows, "ns_p99": rows, "wrong": {}})


def test_trays_of_several_racks_train_without_their_mates() -> None:
    fleet = TrainingFleet(SPEC)
    settings = Settings.of(collectives(expectations(SPEC, train={"hidden": 64, "layers": 2, "steps": 3})))
    conclusion, seen, _settings = played(fleet, ["h01", "h20"], fleet.nodes[1:], train=settings.train)
    trained = [plan["groups"] for _number, plan, _item in seen if plan["program"]["moves"][-1]["kind"] == "train"]
    assert (trained, rounds(seen)) == ([[["h01", "h20"]]], 3)
    assert conclusion.held == {}


@pytest.mark.parametrize("hung", [0, 7])
@pytest.mark.parametrize("patience", [0, 30, 36, 45])
def test_rack_is_met_although_the_sweep_hung(hung: int, patience: int) -> None:
    fleet = NvLinkFleet(replace(SPEC, hosts=144))
    fleet.add(Hangs((fleet.nodes[hung],), patience))
    conclusion, seen, settings = played(fleet, budget_minutes=10)
    assert rounds(seen) <= 4
    passing, failing, open_ = told_by_rails(fleet, conclusion, seen, settings)
    assert passing >= {*fleet.nodes} - {fleet.nodes[hung]}
    assert passed(conclusion) == {*fleet.nodes} - {fleet.nodes[hung]}
    assert (failing, open_ - {fleet.nodes[hung]}) == (set(), set())


def test_tray_whose_mates_under_test_hang_is_tested_with_those_in_service() -> None:
    fleet = NvLinkFleet(SPEC)
    fleet.add(Hangs(("h20",)))
    partners = [node for node in fleet.nodes if node not in ("h20", "h21", "h01")]
    conclusion, seen, settings = played(fleet, ["h01", "h20", "h21"], partners)
    passing, _failing, _open = told_by_rails(fleet, conclusion, seen, settings)
    assert {"h01", "h21"} <= passing & passed(conclusion)
    assert "h20" not in passed(conclusion)


def test_rails_carry_their_share_for_each_rank() -> None:
    data = expectations_of("hgx_h100", PLACED, "test")
    assert rails_gb_per_s(typed(data)) == 50
    gloo = {**data["collective"], "backend": "gloo"}
    assert rails_gb_per_s(typed({**data, "collective": gloo})) is None


def test_without_rounds_nothing_is_said_of_rails() -> None:
    _conclusion, _seen, settings = played(NvLinkFleet(replace(SPEC, hosts=4, rack=2)))
    assert rack_mates(racks(t1=ONE), [], settings, 50) == {}
