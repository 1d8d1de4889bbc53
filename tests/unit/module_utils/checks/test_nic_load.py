"""Rails judged by what they reach inside their NICs: floors, the node's other rails, what was not measured."""

from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import nic_load as check
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import judge_stress
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.nic_load_program import memory_of
from ansible_collections.muster.cluster.plugins.module_utils.stress import nic_load as stress
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.placed import PLACED
from tests.typed import RAILS_FABRIC, typed

HEALTHY = (Path(__file__).resolve().parents[3] / "healthy" / "nic_load.json").read_text(encoding="utf-8")
HGX = {**expectations_of("hgx_h100", PLACED, "test"), "fabric": RAILS_FABRIC}
PART = "nic rail5"

# Limits that show each rule by itself.
SHIPPED, HGX = HGX, {**HGX, "nic_load": {**HGX["nic_load"], "near_floor_percent": 50, "spread_percent": 5}}


@pytest.fixture
def loads():
    return stress.parse(Output(HEALTHY))


def changed(loads, rail="rail5", **load):
    """Return the loads with one rail's changed."""
    return replace(loads, rails={**loads.rails, rail: replace(loads.rails[rail], **load)})


def with_median(loads, memory, value, rail="rail5"):
    one = loads.rails[rail]
    rate = replace(one.rates[memory], min=value, median=value, max=value)
    return changed(loads, rail, rates={**one.rates, memory: rate})


def without(loads, memory, rail="rail5"):
    rates = {name: rate for name, rate in loads.rails[rail].rates.items() if name != memory}
    return changed(loads, rail, rates=rates)


def with_class(**own):
    return {**HGX, "nic_load": {**HGX["nic_load"], **own}}


def judged(loads, expect=HGX):
    findings = check.decide({"nic_load": loads}, typed(expect))
    assert [finding.subject for finding in findings] == check.subjects(typed(expect))
    assert all(finding.reason.endswith(check.PROVES) for finding in findings)
    return {finding.subject: finding for finding in findings}


def alone(loads, expect=HGX):
    """Return the finding on the changed rail; the others pass."""
    found = judged(loads, expect)
    one = found.pop(PART)
    assert {finding.verdict for finding in found.values()} == {"pass"}, found
    return one


def test_healthy_node_passes_and_says_what_it_does_not_prove(loads):
    finding = alone(loads)
    assert (finding.verdict, finding.measured, finding.unit) == ("pass", 331.48, "Gb/s")
    assert finding.reason == (
        "mlx5_5: numa 0 (far 21) 331.5 Gb/s; numa 1 (near) 366.5 Gb/s; gpu 378.5 Gb/s; "
        "looped back inside the NIC: proves PCIe, DMA and power, never optics or cable"
    )


@pytest.mark.parametrize(
    ("memory", "rate", "said"),
    [
        ("numa 1", 199.0, "mlx5_5: numa 1 (near) 199 Gb/s, class floor 200 (50 % of the line rate)"),
        ("gpu", 199.0, "mlx5_5: gpu 199 Gb/s, class floor 200 (50 % of the line rate)"),
        ("numa 1", 340.0, "mlx5_5: numa 1 (near) 340 Gb/s, median of 8 on this node 365.6, at most 5 % below allowed"),
        (
            "numa 0",
            310.0,
            "mlx5_5: numa 0 (far 21) 310 Gb/s, median of 8 on this node 330.6, at most 5 % below",
        ),
        ("gpu", 350.0, "mlx5_5: gpu 350 Gb/s, median of 8 on this node 377.6, at most 5 % below allowed"),
    ],
)
def test_slow_rail_fails_alone_and_names_the_memory(loads, memory, rate, said):
    finding = alone(with_median(loads, memory, rate))
    assert (finding.verdict, finding.measured, finding.action) == ("fail", rate, "investigate")
    assert finding.reason.startswith(said)


def test_boundaries_of_floor_and_spread(loads):
    few = replace(loads, rails={name: loads.rails[name] for name in ("rail4", "rail5")})
    expect = {**HGX, "nic": {**HGX["nic"], "rails": HGX["nic"]["rails"][4:6]}}
    assert judged(with_median(few, "gpu", 200.0), expect)[PART].verdict == "pass"
    assert judged(with_median(few, "gpu", 199.99), expect)[PART].verdict == "fail"
    even = loads
    for rail in loads.rails:
        even = with_median(even, "gpu", 380.0, rail)
    assert alone(with_median(even, "gpu", 361.0)).verdict == "pass"
    assert alone(with_median(even, "gpu", 360.9)).verdict == "fail"


def test_rails_that_share_the_uplink_of_a_switch_pass_as_shipped(loads):
    for rail in loads.rails:
        loads = with_median(loads, memory_of(loads.rails[rail].numa_node), 215.0, rail)
    assert {finding.verdict for finding in judged(loads, SHIPPED).values()} == {"pass"}
    assert alone(with_median(loads, "numa 1", 171.0), SHIPPED).verdict == "fail"


def test_two_rails_are_no_cohort_and_the_memory_of_which_nothing_is_known_is_only_told(loads):
    few = replace(loads, rails={name: loads.rails[name] for name in ("rail4", "rail5")})
    expect = {**HGX, "nic": {**HGX["nic"], "rails": HGX["nic"]["rails"][4:6]}}
    finding = judged(with_median(few, "numa 0", 9.0), expect)[PART]
    assert finding.verdict == "pass"
    assert "numa 0 (far 21) 9 Gb/s (not judged: no class floor, fewer than 3 rails)" in finding.reason
    nothing = {**expect, "nic_load": {**HGX["nic_load"], "near_floor_percent": None, "gpu_floor_percent": None}}
    finding = judged(few, nothing)[PART]
    assert finding.verdict == "incomplete"
    assert finding.reason.startswith("mlx5_5: nothing to compare: numa 0")


def test_declared_floor_of_far_memory_is_held(loads):
    finding = alone(with_median(loads, "numa 0", 323.0), with_class(far_floor_percent=81))
    assert finding.reason.startswith("mlx5_5: numa 0 (far 21) 323 Gb/s, class floor 324")


def test_memories_at_another_distance_are_not_compared(loads):
    # Half of a socket away and a socket away, as with sub-NUMA clustering.
    for rail in ("rail0", "rail1", "rail2", "rail3"):
        loads = changed(loads, rail, distances={"numa 0": 10, "numa 1": 12})
        loads = with_median(loads, "numa 1", 364.0, rail)
    assert {finding.verdict for finding in judged(loads).values()} == {"pass"}


def test_rails_whose_place_is_not_told_are_compared_by_the_memory_itself(loads):
    for rail in loads.rails:
        loads = changed(loads, rail, numa_node=None, distances={})
        loads = with_median(with_median(loads, "numa 0", 366.0, rail), "numa 1", 331.0, rail)
    assert alone(loads).verdict == "pass"
    finding = alone(with_median(loads, "numa 1", 300.0))
    assert (finding.verdict, finding.expected) == ("fail", 314.45)
    # One of the memories is near: all rails are not slow with all of them.
    for rail in loads.rails:
        loads = with_median(with_median(loads, "numa 0", 199.0, rail), "numa 1", 180.0, rail)
    assert {(finding.verdict, finding.measured) for finding in judged(loads).values()} == {("fail", 199.0)}


def test_load_that_ended_early_is_incomplete(loads):
    assert {finding.verdict for finding in judged(replace(loads, lasted=0.98 * loads.seconds)).values()} == {
        "incomplete"
    }


@pytest.mark.parametrize("memory", ["numa 0", "numa 1", "gpu"])
def test_memory_without_a_rate_never_passes(loads, memory):
    finding = alone(without(loads, memory))
    assert finding.verdict == "incomplete" and "no rate" in finding.reason


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("ib_write_bw ended with 1: Completion with error at client Failed status 12: wr_id 0 syndrom 0x81", "fail"),
        ("server: ib_write_bw ended with 1: Failed to modify QP 201 to RTR", "fail"),
        ("numactl: No such file or directory", "incomplete"),
        ("ib_write_bw did not end in time, killed", "incomplete"),
        ("port 18605 is taken by another program", "incomplete"),
        ("ib_write_bw: 0 rows of figures, expected one of 5 columns", "incomplete"),
        ("ib_write_bw ended with 1: Port number 1 state is Down", "incomplete"),
    ],
)
def test_what_the_device_says_fails_and_what_kept_the_tool_from_it_is_incomplete(loads, text, verdict):
    finding = alone(changed(without(loads, "gpu"), failed={"gpu": 7}, errors={"gpu": ("another", text)}))
    assert (finding.verdict, text in finding.reason) == (verdict, True)


def test_single_rounds_without_a_rate_are_told_and_more_are_incomplete(loads):
    finding = alone(changed(loads, failed={"gpu": 6}, errors={"gpu": ("ib_write_bw did not listen in time",)}))
    assert finding.verdict == "pass" and "6 of 21 rounds gave no rate" in finding.reason
    finding = alone(changed(loads, failed={"gpu": 7}, errors={"gpu": ("ib_write_bw did not listen in time",)}))
    assert finding.verdict == "incomplete" and "7 of 14 rounds gave no rate" in finding.reason
    error = "Completion with error at client"
    assert alone(changed(loads, failed={"gpu": 1}, errors={"gpu": (error,)})).verdict == "fail"


def test_rate_that_no_rail_carries_is_incomplete_and_compares_with_nobody(loads):
    assert alone(with_median(loads, "gpu", 800.0)).verdict == "pass"
    finding = alone(with_median(loads, "gpu", 800.1))
    assert (finding.verdict, finding.measured, finding.expected) == ("incomplete", 800.1, 800)


def test_fail_outweighs_what_is_incomplete_and_all_is_told(loads):
    finding = alone(with_median(without(loads, "gpu"), "numa 1", 100.0))
    assert finding.verdict == "fail" and "gpu: no rate" in finding.reason


def test_rail_that_was_not_loaded_is_incomplete(loads):
    finding = alone(changed(loads, rates={}, missing="rail 5 has no RDMA device at 0000:bc:00.0"))
    assert (finding.verdict, finding.reason.startswith("rail 5 has no RDMA device")) == ("incomplete", True)
    others = {name: load for name, load in loads.rails.items() if name != "rail5"}
    assert alone(replace(loads, rails=others)).verdict == "incomplete"


def test_numa_node_that_is_missing_is_incomplete_on_every_rail(loads):
    found = judged(replace(loads, numa=(0,)))
    assert {finding.verdict for finding in found.values()} == {"incomplete"}
    assert "1 NUMA nodes have CPUs and memory, the class has 2" in found[PART].reason
    free = judged(loads, {**HGX, "numa": None})
    assert {finding.verdict for finding in free.values()} == {"pass"}


def test_program_that_was_killed_leaves_every_rail_incomplete():
    given = {"nic_load": Output(rc=None, timed_out=True, error="nic_load did not end in its time and was killed")}
    found = judge_stress("nic_load", given, typed(HGX)).findings
    assert [(finding.subject, finding.verdict) for finding in found] == [
        (f"nic rail{rail}", "incomplete") for rail in range(8)
    ]


@pytest.mark.parametrize("name", ["nic", "nic_load", "rdma", "fabric"])
def test_class_that_loads_no_rails_owes_nothing(name):
    expect = {**HGX, "affinity": None, name: None}
    assert check.subjects(typed(expect)) == []


def test_measures_are_the_medians_by_rail_and_memory(loads):
    found = check.measures({"nic_load": changed(loads, rates={}, missing="gone")}, typed(HGX))
    assert set(found) == {f"nic rail{rail}" for rail in range(8)} - {PART}
    assert found["nic rail4"] == {"numa 0": 332.22, "numa 1": 367.22, "gpu": 379.22}
