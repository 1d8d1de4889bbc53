"""Loads judged: wrong bits, the odd one out, what was not measured, floors and spread."""

import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import gpu_stress as check
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.stress import gpu_stress as stress
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.placed import PLACED
from tests.typed import typed

HEALTHY = (Path(__file__).resolve().parents[3] / "healthy" / "gpu_stress.jsonl").read_text(encoding="utf-8")
HGX = expectations_of("hgx_h100", PLACED, "test")
BAD, OTHER = "0000:8b:00.0", "0000:05:00.0"
PART = "gpu SXM5 0000:8b:00.0"


@pytest.fixture
def loads():
    return stress.parse(Output(HEALTHY))


def changed(loads, gpu=BAD, memory=None, product=None, kind="bf16", **load):
    """Return the loads with one GPU's changed."""
    one = loads.gpus[gpu]
    products = dict(one.products)
    if product:
        products[kind] = replace(products[kind], **product)
    one = replace(one, products=products, memory=replace(one.memory, **(memory or {})), **load)
    return replace(loads, gpus={**loads.gpus, gpu: one})


def judged(loads, expect=HGX):
    findings = check.decide({"gpu_stress": loads}, typed(expect))
    assert [finding.subject for finding in findings] == check.subjects(typed(expect))
    return {finding.subject: finding for finding in findings}


def alone(loads, expect=HGX):
    """Return the finding on the changed GPU; the others pass."""
    found = judged(loads, expect)
    one = found.pop(PART)
    assert {finding.verdict for finding in found.values()} == {"pass"}, found
    return one


def test_healthy_node_passes_and_says_what_was_measured(loads):
    found = judged(loads)
    assert {finding.verdict for finding in found.values()} == {"pass"}
    assert found[PART].measured == 728.0 and found[PART].expected == 620
    assert "94.7 % of memory" in found[PART].reason and "99 % of the best unchecked" in found[PART].reason


@pytest.mark.parametrize(
    ("change", "measured", "unit", "action"),
    [
        ({"product": {"checksums": {"8a3c5d7e9f1b2c4d": 98447, "ffff": 1}}}, 1, "wrong results", "rma"),
        ({"product": {"tiles_wrong": 1}}, 1, "wrong elements", "rma"),
        ({"memory": {"wrong_words": 3}}, 3, "wrong words", "rma"),
        ({"product": {"checksums": {"ffff": 98448}}}, "ffff", "checksum", "rma"),
        ({"product": {"checksums": {"ffff": 180249}}, "kind": "fp8"}, "ffff", "checksum", "rma"),
    ],
)
def test_wrong_bits_fail_the_gpu_alone(loads, change, measured, unit, action):
    finding = alone(changed(loads, **change))
    assert (finding.verdict, finding.measured, finding.unit, finding.action) == ("fail", measured, unit, action)


def test_wrong_bits_outweigh_what_is_unfinished_and_all_is_told(loads):
    finding = alone(changed(loads, seconds=10.0, memory={"wrong_words": 3}))
    assert (finding.verdict, finding.unit) == ("fail", "wrong words")
    assert "load lasted 10 of 600 s" in finding.reason


def test_without_a_majority_nobody_passes(loads):
    for gpu in list(loads.gpus)[:4]:
        loads = changed(loads, gpu, product={"checksums": {"ffff": loads.gpus[gpu].products["bf16"].repetitions}})
    found = judged(loads)
    assert {finding.verdict for finding in found.values()} == {"incomplete"}
    assert "no result has a majority" in found[PART].reason


def test_majority_of_five_names_three(loads):
    odd = list(loads.gpus)[:3]
    for gpu in odd:
        loads = changed(loads, gpu, product={"checksums": {"ffff": loads.gpus[gpu].products["bf16"].repetitions}})
    failed = {subject.split()[2] for subject, finding in judged(loads).items() if finding.verdict == "fail"}
    assert failed == set(odd)


def test_what_all_gpus_get_wrong_is_not_blamed_on_each(loads):
    for gpu in loads.gpus:
        loads = changed(loads, gpu, product={"tiles_wrong": 5})
    assert {(found.verdict, found.action) for found in judged(loads).values()} == {("fail", "investigate")}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seconds": 593.9}, "load lasted 593.9 of 600 s"),
        ({"product": {"tflops": None}}, "too few repetitions"),
        ({"product": {"tiles_checked": 0}}, "too few repetitions"),
        ({"product": {"repetitions": 0, "checksums": {}}}, "too few repetitions"),
        ({"product": {"repetitions": 98449}}, "98448 of 98449 results reported"),
        ({"memory": {"bytes": 76515744153}}, "tested 90.0 % of its memory"),
        ({"memory": {"total_bytes": 0}}, "tested 0.0 % of its memory"),
        ({"memory": {"patterns": {"0x00": 1}}}, "memory without 0xff, 0x55, 0xaa, address, inverted address"),
        ({"products": {}}, "bf16: no result, and the class expects it"),
    ],
)
def test_what_was_not_measured_is_incomplete(loads, change, reason):
    if "products" in change:
        loads = replace(loads, gpus={**loads.gpus, BAD: replace(loads.gpus[BAD], products={})})
        change = {}
    found = judged(changed(loads, **change))[PART]
    assert found.verdict == "incomplete"
    assert reason in found.reason


def test_run_of_the_whole_time_and_memory_share_at_the_boundary_pass(loads):
    assert alone(changed(loads, seconds=594.0, memory={"bytes": 76515744154})).verdict == "pass"


def test_missing_gpu_is_incomplete_with_the_reason(loads):
    gpus = {gpu: load for gpu, load in loads.gpus.items() if gpu != BAD}
    finding = alone(replace(loads, gpus=gpus, missing={BAD: "ended by signal 9"}))
    assert (finding.verdict, finding.measured) == ("incomplete", "no result")
    assert "ended by signal 9" in finding.reason


def test_other_device_than_the_class_names_is_incomplete(loads):
    assert {found.verdict for found in judged(replace(loads, device="cpu")).values()} == {"incomplete"}


def test_fp8_that_cannot_be_run_is_incomplete_unless_the_class_expects_none(loads):
    products = {"bf16": loads.gpus[BAD].products["bf16"]}
    one = replace(loads.gpus[BAD], products=products, unsupported={"fp8": "compute capability below 8.9 has no fp8"})
    loads = replace(loads, gpus={**loads.gpus, BAD: one})
    finding = alone(loads)
    assert finding.verdict == "incomplete" and "compute capability below 8.9" in finding.reason
    expect = {**HGX, "gpu_stress": {**HGX["gpu_stress"], "fp8": False}}
    finding = alone(loads, expect)
    assert finding.verdict == "pass" and "fp8 not supported: compute capability" in finding.reason


@pytest.mark.parametrize(
    ("change", "floor", "verdict", "words"),
    [
        ({"product": {"tflops": 620.0}}, {"spread_percent": None}, "pass", ""),
        ({"product": {"tflops": 619.9}}, {"spread_percent": None}, "fail", "class floor 620"),
        ({"product": {"tflops": 1199.0}, "kind": "fp8"}, {"spread_percent": None}, "fail", "class floor 1200"),
        ({"memory": {"copy_gb_per_s": 2399.0}}, {}, "fail", "class floor 2400"),
        ({"memory": {"copy_gb_per_s": 2400.0}}, {}, "pass", ""),
        # The median of 724 to 731, the changed one the least of them: 726.5, less 4 %.
        ({"product": {"tflops": 697.45}}, {"bf16_floor_tflops": 1}, "pass", ""),
        ({"product": {"tflops": 697.43}}, {"bf16_floor_tflops": 1}, "fail", "spread across the node's GPUs"),
    ],
)
def test_floor_and_spread_on_both_sides(loads, change, floor, verdict, words):
    expect = {**HGX, "gpu_stress": {**HGX["gpu_stress"], **floor}}
    finding = alone(changed(loads, **change), expect)
    assert finding.verdict == verdict and words in finding.reason


UNKNOWN = {"bf16_floor_tflops": None, "fp8_floor_tflops": None, "memory_copy_floor_gb_per_s": None}
FLOORLESS = {**HGX, "gpu_stress": {**HGX["gpu_stress"], **UNKNOWN}}


def test_gpus_without_a_class_floor_are_compared_with_each_other_and_it_is_said(loads):
    finding = alone(loads, FLOORLESS)
    assert (finding.verdict, finding.expected) == ("pass", None)
    assert "no class floor for bf16, fp8, memory copy: compared with the node's other GPUs alone" in finding.reason
    assert "no class floor" not in alone(loads).reason


@pytest.mark.parametrize(
    ("change", "verdict", "words"),
    [
        ({"product": {"tflops": 697.45}}, "pass", ""),
        ({"product": {"tflops": 697.43}}, "fail", "697.4 TFLOP/s bf16, spread across the node's GPUs: median 726.5"),
        ({"product": {"tflops": 1.0}, "kind": "fp8"}, "fail", "1 TFLOP/s fp8, spread across the node's GPUs"),
        ({"memory": {"copy_gb_per_s": 1.0}}, "fail", "memory copies 1 GB/s, spread across the node's GPUs"),
        ({"memory": {"wrong_words": 3}}, "fail", "memory lost 3 words"),
        ({"product": {"tflops": None}}, "incomplete", "too few repetitions"),
    ],
)
def test_gpu_that_stands_apart_is_found_without_a_class_floor(loads, change, verdict, words):
    finding = alone(changed(loads, **change), FLOORLESS)
    assert finding.verdict == verdict and words in finding.reason


def test_copies_on_both_sides_of_the_spread_without_a_class_floor(loads):
    copies = [load.memory.copy_gb_per_s for load in loads.gpus.values()]
    least = statistics.median([*sorted(copies)[1:], 0]) * 0.96
    for copy, verdict in ((least + 0.01, "pass"), (least - 0.01, "fail")):
        slowest = min(loads.gpus, key=lambda gpu: loads.gpus[gpu].memory.copy_gb_per_s)
        found = judged(changed(loads, slowest, memory={"copy_gb_per_s": copy}), FLOORLESS)
        assert [each.verdict for subject, each in found.items() if slowest in subject] == [verdict]


@pytest.mark.parametrize("change", [{"product": {"tflops": 0}}, {"memory": {"copy_gb_per_s": 0}}])
def test_nothing_at_all_is_no_rate_to_compare_with(loads, change):
    nothing = loads
    for gpu in loads.gpus:
        nothing = changed(nothing, gpu, **change)
    assert {each.verdict for each in judged(nothing, FLOORLESS).values()} == {"fail"}


@pytest.mark.parametrize(("count", "verdict"), [(3, "pass"), (2, "incomplete")])
def test_too_few_gpus_to_compare_do_not_pass_without_a_class_floor(loads, count, verdict):
    some = dict(list(loads.gpus.items())[:count])
    parts = [part for part in HGX["gpu"]["parts"] if part["address"] in some]
    expect = {**FLOORLESS, "gpu": {**HGX["gpu"], "count": count, "parts": parts}, "affinity": None}
    found = judged(replace(loads, gpus=some), expect)
    assert {finding.verdict for finding in found.values()} == {verdict}
    if verdict == "incomplete":
        assert all("2 GPUs are too few to compare" in finding.reason for finding in found.values())


@pytest.mark.parametrize("floor", UNKNOWN)
def test_class_with_neither_floor_nor_spread_is_refused(floor):
    own = {**HGX["gpu_stress"], "spread_percent": None}
    typed({**HGX, "gpu_stress": {**own, "fp8": False, "fp8_floor_tflops": None}})
    with pytest.raises(ReadError, match="spread_percent: found nothing, expected a number where a floor is null"):
        typed({**HGX, "gpu_stress": {**own, floor: None}})


def test_class_that_loads_no_gpu_owes_nothing():
    assert check.subjects(typed({**HGX, "gpu_stress": None})) == []
    assert check.subjects(typed({**HGX, "gpu": None})) == []
