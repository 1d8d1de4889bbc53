"""The cohort of burn-ins: what stands out is named and blamed on what it shares, and nothing else is."""

from __future__ import annotations

import json
import math
import random
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS, STRESSES
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import stated
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.burn_in_cohort import BurnedIn, cohort_findings

from tests.unit.plugin_utils.burnt_fleets import EXPECT, GPUS, MEMORIES, RAILS, BurntFleet

HEALTHY = Path(__file__).parents[2] / "healthy"


def judged(fleet: BurntFleet) -> dict[str, tuple[Finding, ...]]:
    return cohort_findings(EXPECT, fleet.nodes)


def briefly(found: dict[str, tuple[Finding, ...]]) -> dict[str, list[tuple[str, str, str]]]:
    return {node: [(each.check, each.subject, each.verdict) for each in findings] for node, findings in found.items()}


def test_sound_fleet_has_no_finding() -> None:
    assert judged(BurntFleet(4, 8, celsius=2, percent=1)) == {}


@pytest.mark.parametrize(("celsius", "fails"), [(9.9, False), (10.1, True)])
def test_gpu_hotter_than_the_same_slot_elsewhere_fails(celsius: float, fails: bool) -> None:
    fleet = BurntFleet(4, 8)
    fleet.warm("n2-3", GPUS[5:6], celsius)
    found = judged(fleet)
    assert briefly(found) == ({"n2-3": [("gpu_heat", GPUS[5], "fail")]} if fails else {})
    for finding in found.get("n2-3", ()):
        assert isinstance(finding.measured, float) and isinstance(finding.expected, float)
        assert (finding.measured > finding.expected, finding.unit, finding.action) == (True, "C", "reseat")
        assert "31 other nodes" in finding.reason and "above the inlet" in finding.reason


def test_slot_that_is_hot_across_a_rack_is_the_air_and_no_gpu() -> None:
    fleet = BurntFleet(4, 8)
    for node in ("n1-0", "n1-2", "n1-3", "n1-7"):
        fleet.warm(node, GPUS[2:3], 15)
        fleet.measures[node]["gpu_telemetry"]["host"]["fan_rpm"] = 14000.0
    found = judged(fleet)
    assert briefly(found) == {node: [("gpu_heat", "host", "incomplete")] for node in ("n1-0", "n1-2", "n1-3", "n1-7")}
    reason = found["n1-0"][0].reason
    for said in ("rack r1", f"{GPUS[2]} on 4 of 8 nodes", "this is the air", "not the GPUs", "fans in the rack"):
        assert said in reason


@pytest.mark.parametrize(("many", "of", "air"), [(1, 2, False), (2, 5, False), (2, 4, True), (3, 5, True)])
def test_air_is_to_blame_from_half_of_a_rack_on(many: int, of: int, air: bool) -> None:
    fleet = BurntFleet(6, of)
    for node in range(many):
        fleet.warm(f"n1-{node}", GPUS[:1], 15)
    subject, verdict = ("host", "incomplete") if air else (GPUS[0], "fail")
    assert briefly(judged(fleet)) == {f"n1-{node}": [("gpu_heat", subject, verdict)] for node in range(many)}


def test_what_nodes_measure_is_what_is_compared() -> None:
    values = {
        name: STRESSES[name].parse(Output((HEALTHY / f"{name}.json").read_text(encoding="utf-8")))
        for name in ("gpu_telemetry", "nic_load")
    }
    told = json.dumps({name: vars(CHECKS[name])["measures"](values, EXPECT) for name in values})
    nodes = {f"n{number}": BurnedIn(None, json.loads(told)) for number in range(5)}
    assert cohort_findings(EXPECT, nodes) == {}
    sick = nodes["n0"].measures
    for part in GPUS:
        sick["gpu_telemetry"][part]["celsius"] += 20
    for rates in sick["nic_load"].values():
        rates.update({memory: rate * 0.8 for memory, rate in rates.items()})
    found = cohort_findings(EXPECT, nodes)["n0"]
    assert {(each.check, each.subject) for each in found} == {("gpu_heat", "host"), ("nic_load_spread", "host")}
    reasons = " ".join(each.reason for each in found)
    assert all(memory in reasons for memory in ("NUMA node 0", "NUMA node 1", "GPU memory"))


def test_without_racks_every_hot_gpu_fails() -> None:
    fleet = BurntFleet(4, 8)
    for node in range(8):
        fleet.warm(f"n1-{node}", GPUS[2:3], 15)
    nodes = {name: replace(node, rack=None) for name, node in fleet.nodes.items()}
    found = briefly(cohort_findings(EXPECT, nodes))
    assert found == {f"n1-{node}": [("gpu_heat", GPUS[2], "fail")] for node in range(8)}


def test_node_whose_gpus_are_hot_is_blamed_as_a_host_and_its_fans_are_told() -> None:
    fleet = BurntFleet(4, 8)
    fleet.warm("n0-0", GPUS[:4], 13)
    fleet.measures["n0-0"]["gpu_telemetry"]["host"]["fan_rpm"] = 4000.0
    fleet.measures["n0-0"]["gpu_telemetry"]["host"]["outlet_celsius"] += 12
    found = judged(fleet)
    assert briefly(found) == {"n0-0": [("gpu_heat", "host", "fail")]}
    reason = found["n0-0"][0].reason
    assert "4 of 8 GPUs" in reason and "fans of the node 4000 rpm, of all nodes 90" in reason
    assert "rise from inlet to outlet" in reason and "not the GPUs" in reason


def test_warm_aisle_is_taken_off_where_inlets_are_told() -> None:
    fleet = BurntFleet(4, 8)
    for node, rack in fleet.rack.items():
        if rack == "r3":
            fleet.warm(node, GPUS, 30)
            fleet.measures[node]["gpu_telemetry"]["host"]["inlet_celsius"] += 30
    assert judged(fleet) == {}
    for measures in fleet.measures.values():
        del measures["gpu_telemetry"]["host"]
    # Whoever knows no inlet sees that the rack is warm, and blames no GPU for it.
    found = briefly(judged(fleet))
    assert found == {f"n3-{node}": [("gpu_heat", "host", "incomplete")] for node in range(8)}


def test_node_that_tells_no_inlet_is_compared_by_its_temperatures() -> None:
    fleet = BurntFleet(1, 8)
    del fleet.measures["n0-1"]["gpu_telemetry"]["host"]
    assert judged(fleet) == {}
    fleet.warm("n0-1", GPUS[:1], 15)
    found = judged(fleet)
    assert briefly(found) == {"n0-1": [("gpu_heat", GPUS[0], "fail")]}
    assert "above the inlet" not in found["n0-1"][0].reason


def test_warmer_room_that_no_inlet_tells_blames_no_single_gpu() -> None:
    fleet = BurntFleet(4, 8)
    heats = [measures["gpu_telemetry"] for measures in fleet.measures.values()]
    usual = {part: statistics.median(heat[part]["celsius"] for heat in heats) for part in GPUS}
    fleet.measures["n2-3"]["gpu_telemetry"] = {part: {"watts": 690.0, "celsius": usual[part] + 8} for part in GPUS}
    fleet.warm("n2-3", GPUS[4:5], 4)
    assert judged(fleet) == {}
    # Beyond what all its GPUs have in common it is the GPU.
    fleet.warm("n2-3", GPUS[4:5], 8)
    assert briefly(judged(fleet)) == {"n2-3": [("gpu_heat", GPUS[4], "fail")]}


@pytest.mark.parametrize(("watts", "fails"), [(690.0, True), (600.0, False)])
def test_gpus_are_compared_at_equal_power(watts: float, fails: bool) -> None:
    fleet = BurntFleet(2, 8)
    fleet.warm("n1-1", GPUS[:1], 30)
    fleet.measures["n1-1"]["gpu_telemetry"][GPUS[0]]["watts"] = watts
    assert (judged(fleet) != {}) == fails
    # Four others that draw as little are enough.
    for node in range(4):
        fleet.measures[f"n0-{node}"]["gpu_telemetry"][GPUS[0]]["watts"] = watts * 1.04
    assert briefly(judged(fleet)) == {"n1-1": [("gpu_heat", GPUS[0], "fail")]}


@pytest.mark.parametrize(("nodes", "fails"), [(1, False), (4, False), (5, True)])
def test_fewer_than_four_others_say_nothing(nodes: int, fails: bool) -> None:
    fleet = BurntFleet(1, nodes)
    fleet.warm("n0-0", GPUS[:1], 30)
    fleet.slow("n0-0", RAILS[:1], MEMORIES, 40)
    subjects = [each.subject for each in judged(fleet).get("n0-0", ())]
    assert subjects == ([GPUS[0], RAILS[0]] if fails else [])


def test_what_was_not_measured_says_nothing() -> None:
    fleet = BurntFleet(2, 8)
    nodes = {**fleet.nodes, "n0-0": BurnedIn("r0", {}), "n0-1": BurnedIn("r0", {"nic_load": {RAILS[0]: {}}})}
    assert cohort_findings(EXPECT, nodes) == {}
    # Only a temperature, only a power, parts of other names and quantities that nobody asks for.
    more = {GPUS[0]: {"watts": 690.0}, GPUS[1]: {"celsius": 190.0}, "gpu X": {"celsius": -1.0, "watts": -1.0}}
    odd = {"gpu_telemetry": {**more, "host": {"humidity": -3.0}}, "nic_load": {"nic other": {"gpu": -1.0}}, "xid": 3}
    assert cohort_findings(EXPECT, {**nodes, "n0-2": BurnedIn("r0", odd)}) == {}


@pytest.mark.parametrize(
    ("measures", "check"),
    [
        ({"gpu_telemetry": {GPUS[0]: {"watts": 690.0, "celsius": -3.0}}}, "gpu_heat"),
        ({"gpu_telemetry": {GPUS[0]: {"watts": 690.0, "celsius": 201}}}, "gpu_heat"),
        ({"gpu_telemetry": {GPUS[0]: {"watts": 0, "celsius": 50.0}}}, "gpu_heat"),
        ({"gpu_telemetry": {GPUS[0]: {"watts": 690.0, "celsius": math.nan}}}, "gpu_heat"),
        ({"gpu_telemetry": {GPUS[0]: {"watts": math.inf, "celsius": 50.0}}}, "gpu_heat"),
        ({"gpu_telemetry": {GPUS[0]: {"watts": True, "celsius": 50.0}}}, "gpu_heat"),
        ({"gpu_telemetry": {GPUS[0]: {"watts": 10**400, "celsius": 50.0}}}, "gpu_heat"),
        ({"gpu_telemetry": {GPUS[0]: {"watts": "690", "celsius": 50.0}}}, "gpu_heat"),
        ({"gpu_telemetry": {GPUS[0]: [690.0, 50.0]}}, "gpu_heat"),
        ({"gpu_telemetry": {"host": {"inlet_celsius": -40.0}}}, "gpu_heat"),
        ({"gpu_telemetry": {"host": {"inlet_celsius": 0}}}, "gpu_heat"),
        ({"gpu_telemetry": []}, "gpu_heat"),
        ({"nic_load": {RAILS[0]: {"numa 0": -1.0}}}, "nic_load_spread"),
        ({"nic_load": {RAILS[0]: {"numa 0": None}}}, "nic_load_spread"),
        ({"nic_load": "fast"}, "nic_load_spread"),
    ],
)
def test_nonsense_leaves_that_node_out_and_incomplete(measures: dict[str, Any], check: str) -> None:
    fleet = BurntFleet(2, 8)
    found = cohort_findings(EXPECT, {**fleet.nodes, "n0-0": BurnedIn("r0", measures)})
    assert briefly(found) == {"n0-0": [(check, "host", "incomplete")]}


def test_measures_that_are_no_mapping_are_nonsense_to_both() -> None:
    found = cohort_findings(EXPECT, {**BurntFleet(2, 8).nodes, "n0-0": BurnedIn("r0", [1, 2])})
    assert [each.check for each in found["n0-0"]] == ["gpu_heat", "nic_load_spread"]


@pytest.mark.parametrize(("percent", "fails"), [(4.9, False), (5.1, True)])
def test_rail_slower_than_the_same_rail_elsewhere_fails(percent: float, fails: bool) -> None:
    fleet = BurntFleet(4, 8)
    fleet.slow("n2-3", RAILS[6:7], MEMORIES, percent)
    found = judged(fleet)
    assert briefly(found) == ({"n2-3": [("nic_load_spread", RAILS[6], "fail")]} if fails else {})
    for finding in found.get("n2-3", ()):
        assert (finding.unit, finding.action) == ("Gb/s", "reseat")
        for said in ("memory of NUMA node 1", "GPU memory", "looped back inside the NIC", "never optics or cable"):
            assert said in finding.reason


def test_rail_that_is_slow_with_one_memory_is_looked_at() -> None:
    fleet = BurntFleet(4, 8)
    fleet.slow("n2-3", RAILS[6:7], ["gpu"], 20)
    found = judged(fleet)["n2-3"]
    assert [(each.subject, each.action) for each in found] == [(RAILS[6], "investigate")]
    assert "NUMA node" not in found[0].reason


def test_several_rails_that_are_slow_with_one_memory_are_that_memory() -> None:
    fleet = BurntFleet(4, 8)
    fleet.slow("n2-3", RAILS[4:], ["numa 0"], 20)
    fleet.slow("n2-3", RAILS[:1], MEMORIES, 20)
    found = judged(fleet)
    assert briefly(found) == {
        "n2-3": [("nic_load_spread", "host", "fail"), ("nic_load_spread", RAILS[0], "fail")],
    }
    assert "4 of 8 NICs are slow with memory of NUMA node 0" in found["n2-3"][0].reason
    assert f"{RAILS[4]} " in found["n2-3"][0].reason and f"{RAILS[0]} " not in found["n2-3"][0].reason


def test_half_of_the_rails_with_every_memory_share_what_is_wrong() -> None:
    fleet = BurntFleet(4, 8)
    fleet.slow("n2-3", RAILS[:4], MEMORIES, 20)
    assert [each.subject for each in judged(fleet)["n2-3"]] == ["host"] * 3


def test_a_third_that_is_faulty_shifts_no_median() -> None:
    fleet = BurntFleet(3, 9)
    bad = [f"n{rack}-{node}" for rack in range(3) for node in range(3)]
    for node in bad:
        fleet.warm(node, GPUS[1:2], 40)
        fleet.slow(node, RAILS[3:4], MEMORIES, 60)
    assert briefly(judged(fleet)) == {
        node: [("gpu_heat", GPUS[1], "fail"), ("nic_load_spread", RAILS[3], "fail")] for node in bad
    }


def likes(fleet: BurntFleet, node: str, part: str) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return what nodes told of heat, who drew as much, and who of these told an inlet."""
    heats = {name: measures["gpu_telemetry"] for name, measures in fleet.measures.items()}
    watts = heats[node][part]["watts"]
    near = [name for name in heats if name != node and abs(heats[name][part]["watts"] - watts) <= 0.05 * watts]
    return heats, near, [name for name in near if "host" in heats[name]]


def by_inlet(fleet: BurntFleet, node: str, part: str) -> bool:
    heats, _, told = likes(fleet, node, part)
    return "host" in heats[node] and len(told) >= 4


def beside_others(fleet: BurntFleet, node: str, part: str) -> float | None:
    """Return how far a GPU is above the median of its likes, reckoned the long way; None where these are too few."""
    heats, near, told = likes(fleet, node, part)
    if by_inlet(fleet, node, part):
        above = {name: heats[name][part]["celsius"] - heats[name]["host"]["inlet_celsius"] for name in (node, *told)}
    elif len(near) >= 4:
        above = {name: heats[name][part]["celsius"] for name in (node, *near)}
    else:
        return None
    return above.pop(node) - statistics.median(above.values())


@pytest.mark.parametrize("seed", range(20))
def test_hot_gpus_are_those_that_are_found_the_long_way(seed: int) -> None:
    draw, fleet = random.Random(seed), BurntFleet(1, 5 + 3 * seed, seed, celsius=9)
    for measures in fleet.measures.values():
        for part in GPUS:
            measures["gpu_telemetry"][part]["watts"] = draw.gauss(650, 60)
        if draw.random() < 0.2:
            del measures["gpu_telemetry"]["host"]
    nodes = {name: replace(node, rack=None) for name, node in fleet.nodes.items()}
    found = cohort_findings(EXPECT, nodes)
    for node in nodes:
        above = {part: far for part in GPUS if (far := beside_others(fleet, node, part)) is not None}
        hot = [part for part, far in above.items() if far > 10]
        together = len(hot) > 1 and 2 * len(hot) >= len(above)
        if 2 * len(hot) < len(above):
            room = max(0, statistics.median(above.values()))
            hot = [part for part in hot if by_inlet(fleet, node, part) or above[part] - room > 10]
        assert [each.subject for each in found.get(node, ())] == (["host"] if together else hot)


def test_class_that_limits_nothing_compares_nothing() -> None:
    fleet = BurntFleet(1, 8)
    fleet.warm("n0-0", GPUS[:1], 60)
    fleet.slow("n0-0", RAILS, MEMORIES, 60)
    silent = replace(EXPECT, telemetry=replace(stated(EXPECT.telemetry), slot_spread_celsius=None), nic_load=None)
    assert cohort_findings(silent, fleet.nodes) == {}
    assert cohort_findings(replace(silent, telemetry=None), fleet.nodes) == {}


@pytest.mark.parametrize("seed", range(200))
def test_what_is_wrong_in_a_drawn_fleet_is_found_and_nothing_else_is(seed: int) -> None:
    draw = random.Random(seed)
    racks, each = draw.randint(4, 6), draw.randint(4, 8)
    fleet = BurntFleet(racks, each, seed, celsius=2, percent=1)
    left = list(fleet.rack)
    draw.shuffle(left)
    wanted: dict[str, set[tuple[str, str]]] = {}
    if draw.random() < 0.5:
        part, rack = draw.choice(GPUS), f"r{draw.randrange(racks)}"
        for node in [node for node, its in fleet.rack.items() if its == rack]:
            fleet.warm(node, [part], 25)
            left.remove(node)
            wanted[node] = {("host", "incomplete")}
    # One of a kind in each rack at most: two of four nodes with the same hot slot would be the air.
    spare = list({fleet.rack[node]: node for node in left}.values())
    if draw.random() < 0.7:
        node, part = spare.pop(), draw.choice(GPUS)
        fleet.warm(node, [part], 25)
        wanted[node] = {(part, "fail")}
    if draw.random() < 0.7:
        node = spare.pop()
        fleet.warm(node, GPUS, 25)
        wanted[node] = {("host", "fail")}
    if draw.random() < 0.7:
        node, rail = draw.choice([node for node in fleet.rack if node not in wanted]), draw.choice(RAILS)
        fleet.slow(node, [rail], MEMORIES, 12)
        wanted[node] = {(rail, "fail")}
    if draw.random() < 0.5:
        node, memory = draw.choice([node for node in fleet.rack if node not in wanted]), draw.choice(MEMORIES)
        fleet.slow(node, draw.sample(RAILS, 4), [memory], 12)
        wanted[node] = {("host", "fail")}
    found = judged(fleet)
    assert {node: {(each.subject, each.verdict) for each in findings} for node, findings in found.items()} == wanted
