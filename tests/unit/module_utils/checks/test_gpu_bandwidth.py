"""The verdict on bandwidths: floors, spread, and whose fault a slow pair is."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import gpu_bandwidth
from ansible_collections.muster.cluster.plugins.module_utils.stress.nvbandwidth import Bandwidths
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import gpu_subjects

from tests.typed import typed

H2D, D2H, PEER = "host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_to_device_memcpy_read_ce"
COUNT = 4
ADDRESSES = [f"0000:{bus:02x}:00.0" for bus in (0x04, 0x05, 0x0B, 0x0C)]


@pytest.fixture
def four(expect):
    """Return a class with four GPUs, declared the other way round than they are counted."""
    parts = [{"slot": f"SXM{slot}", "address": address} for slot, address in enumerate(reversed(ADDRESSES), 1)]
    expect["gpu"] = {**expect["gpu"], "count": COUNT, "parts": parts}
    return expect


def peers(slow=(), value=396.0):
    """Return a square matrix; ``slow`` has the value of single cells."""
    cells = dict(slow)
    return tuple(
        tuple(None if row == column else cells.get((row, column), value) for column in range(COUNT))
        for row in range(COUNT)
    )


def run(h2d=(55.4,) * COUNT, d2h=(55.1,) * COUNT, peer=None, addresses=ADDRESSES, **more):
    matrices = {H2D: (tuple(h2d),), D2H: (tuple(d2h),), PEER: peer or peers()}
    return Bandwidths(**{"matrices": matrices, "troubles": {}, "corrupt": "", "addresses": addresses, **more})


def decide(expect, values):
    findings = gpu_bandwidth.decide({"nvbandwidth": values}, typed(expect))
    by_subject = {finding.subject: finding for finding in findings}
    assert len(by_subject) == len(findings)
    return [by_subject[gpu_subjects(typed(expect))[address]] for address in ADDRESSES] + [by_subject["host"]]


def verdicts(findings):
    return [finding.verdict for finding in findings]


def test_healthy_node(four):
    findings = decide(four, run())
    assert verdicts(findings) == ["pass"] * 5
    assert findings[0].reason == f"{H2D} 55.4 GB/s, {D2H} 55.1 GB/s, {PEER} 396.0 GB/s"


@pytest.mark.parametrize(("value", "verdict"), [(48.0, "pass"), (47.99, "fail")])
@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_floor_to_the_host(four, direction, value, verdict):
    findings = decide(four, run(**{direction: (value, 48.1, 48.1, 48.1)}))
    assert verdicts(findings) == [verdict, "pass", "pass", "pass", "pass"]
    if verdict == "fail":
        assert (findings[0].measured, findings[0].expected, findings[0].action) == (value, 48, "reseat")
        assert "class floor" in findings[0].reason


def test_all_of_them_slow_is_not_the_gpus(four):
    findings = decide(four, run(h2d=(26.0,) * COUNT))
    assert verdicts(findings) == ["fail"] * 4 + ["pass"]
    assert {finding.action for finding in findings[:4]} == {"investigate"}


@pytest.mark.parametrize(("value", "verdict"), [(57.0, "pass"), (56.99, "fail")])
def test_spread_across_the_nodes_gpus(four, value, verdict):
    findings = decide(four, run(h2d=(60.0, value, 60.0, 60.0)))
    assert verdicts(findings) == ["pass", verdict, "pass", "pass", "pass"]
    if verdict == "fail":
        assert "spread across the node's GPUs" in findings[1].reason
        assert findings[1].action == "investigate"


@pytest.mark.parametrize(("value", "verdict"), [(335.0, "pass"), (334.99, "fail")])
def test_floor_between_gpus(four, value, verdict):
    findings = decide(four, run(peer=peers({(0, 1): value}, value=340.0)))
    # Either of the two may be the cause.
    assert verdicts(findings) == [verdict, verdict, "pass", "pass", "pass"]
    if verdict == "fail":
        assert ADDRESSES[1] in findings[0].reason and ADDRESSES[0] in findings[1].reason


def test_gpu_that_all_slow_pairs_share_is_the_one(four):
    slow = {(2, other): 120.0 for other in (0, 1, 3)} | {(other, 2): 120.0 for other in (0, 1, 3)}
    findings = decide(four, run(peer=peers(slow)))
    assert verdicts(findings) == ["pass", "pass", "fail", "pass", "pass"]
    assert (findings[2].measured, findings[2].action) == (120.0, "investigate")
    assert findings[0].reason.endswith(f"{PEER} 396.0 GB/s")


def test_every_pair_slow_is_everybodys(four):
    findings = decide(four, run(peer=peers(value=100.0)))
    assert verdicts(findings) == ["fail"] * 4 + ["pass"]


def test_two_gpus_alone(expect):
    address = [part["address"] for part in expect["gpu"]["parts"]]
    matrices = {H2D: ((55.4, 55.4),), D2H: ((55.1, 50.0),), PEER: ((None, 100.0), (396.0, None))}
    findings = gpu_bandwidth.decide({"nvbandwidth": Bandwidths(matrices, {}, "", address)}, typed(expect))
    assert [finding.verdict for finding in findings] == ["pass", "fail", "fail"]
    assert {finding.measured for finding in findings[1:]} == {100.0}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"h2d": (None, 55.4, 55.4, 55.4)}, ["incomplete", "pass", "pass", "pass", "pass"]),
        ({"h2d": (1e20, 55.4, 55.4, 55.4)}, ["incomplete", "pass", "pass", "pass", "pass"]),
        ({"peer": peers({(0, 1): None})}, ["incomplete", "incomplete", "pass", "pass", "pass"]),
        ({"h2d": (55.4,) * 3}, ["incomplete"] * 4 + ["pass"]),
        ({"peer": peers()[:3]}, ["incomplete"] * 4 + ["pass"]),
        ({"peer": ((396.0,) * 4,)}, ["incomplete"] * 4 + ["pass"]),
        ({"addresses": []}, ["incomplete"] * 4 + ["pass"]),
        ({"matrices": {}}, ["incomplete"] * 5),
        ({"matrices": {H2D: ((55.4,) * 4,), D2H: ((55.1,) * 4,)}, "troubles": {PEER: "Waived"}}, ["incomplete"] * 5),
        ({"matrices": {H2D: (), D2H: (), PEER: ()}}, ["incomplete"] * 4 + ["pass"]),
    ],
)
def test_what_was_not_measured_is_incomplete(four, values, expected):
    findings = decide(four, run(**values))
    assert verdicts(findings) == expected
    assert all(finding.reason for finding in findings if finding.verdict == "incomplete")


def test_waived_test_case_is_named(four):
    values = run(matrices={H2D: ((55.4,) * 4,), D2H: ((55.1,) * 4,)}, troubles={PEER: "Waived"})
    assert f"{PEER}: Waived" in decide(four, values)[4].reason


def test_gpu_that_was_not_used_is_incomplete(four):
    other = ["0000:99:00.0", *ADDRESSES[1:]]
    findings = decide(four, run(addresses=other))
    assert verdicts(findings) == ["incomplete", "pass", "pass", "pass", "pass"]
    assert "used no GPU at 0000:04:00.0" in findings[0].reason


def test_both_ways_at_once_is_not_one_way(four):
    both = "host_to_device_bidirectional_memcpy_ce"
    values = run(matrices={both: ((60.0,) * 4,), D2H: ((55.1,) * 4,), PEER: peers()})
    assert verdicts(decide(four, values)) == ["incomplete"] * 5
    four["nvbandwidth"]["floors"] = [{"testcase": both, "gb_per_s": 40}]
    assert verdicts(decide(four, values)) == ["pass"] * 5


def test_wrong_data_fail_the_host_and_pass_nobody(four):
    findings = decide(four, run(matrices={}, corrupt=f"{PEER}: Invalid value"))
    assert verdicts(findings) == ["incomplete"] * 4 + ["fail"]
    assert (findings[4].action, findings[4].measured) == ("investigate", "wrong data")


@pytest.mark.parametrize(("why", "verdict"), [("Failed", "incomplete"), ("Error x", "incomplete"), ("Waived", "pass")])
def test_test_case_that_nobody_asked_for_and_that_failed_is_no_pass(four, why, verdict):
    values = run(matrices={H2D: ((55.1,) * 4,), D2H: ((55.1,) * 4,), PEER: peers()}, troubles={"all_to_host": why})
    findings = decide(four, values)
    assert (findings[-1].subject, findings[-1].verdict) == ("host", verdict)


def test_error_of_the_hardware_fails_the_host_and_passes_nobody(four):
    findings = decide(four, run(matrices={}, corrupt=f"{PEER}: [CUDA_ERROR_ECC_UNCORRECTABLE] x"))
    assert verdicts(findings) == ["incomplete"] * 4 + ["fail"]
    assert findings[4].measured == "a fault of the hardware"


def test_class_without_floors_passes_nobody(four):
    four["nvbandwidth"]["floors"] = []
    findings = gpu_bandwidth.decide({"nvbandwidth": run()}, typed(four))
    assert [(finding.subject, finding.verdict) for finding in findings] == [("host", "incomplete")]


@pytest.mark.parametrize("without", ["nvbandwidth", "gpu"])
def test_class_without_nvbandwidth_or_gpus_owes_nothing(four, without):
    assert gpu_bandwidth.subjects(typed(four))[-1] == "host"
    four[without] = None
    assert list(gpu_bandwidth.subjects(typed(four))) == []


@pytest.fixture
def floorless(four):
    """Return the class without any floor."""
    floors = [{**floor, "gb_per_s": None} for floor in four["nvbandwidth"]["floors"]]
    four["nvbandwidth"] = {**four["nvbandwidth"], "floors": floors}
    return four


def test_gpus_without_a_class_floor_are_compared_with_each_other_and_it_is_said(floorless):
    findings = decide(floorless, run())
    assert verdicts(findings) == ["pass"] * 5
    assert f"{PEER}, no class floor, 396.0 GB/s" in findings[0].reason


@pytest.mark.parametrize(("value", "verdict"), [(52.63, "pass"), (52.62, "fail")])
def test_slow_to_the_host_without_a_class_floor(floorless, value, verdict):
    # 5 % below the median of 55.4.
    findings = decide(floorless, run(h2d=(value, 55.4, 55.4, 55.4)))
    assert verdicts(findings) == [verdict, "pass", "pass", "pass", "pass"]
    if verdict == "fail":
        assert "over 5 % below the 55.4 GB/s that is usual here" in findings[0].reason
        assert findings[0].expected == pytest.approx(52.63)


@pytest.mark.parametrize(("value", "verdict"), [(376.2, "pass"), (376.1, "fail")])
def test_gpu_slow_with_all_others_is_found_without_a_class_floor(floorless, value, verdict):
    slow = {pair: value for other in (0, 1, 3) for pair in ((2, other), (other, 2))}
    findings = decide(floorless, run(peer=peers(slow)))
    assert verdicts(findings) == ["pass", "pass", verdict, "pass", "pass"]


def test_one_slow_pair_is_found_without_a_class_floor(floorless):
    findings = decide(floorless, run(peer=peers({(0, 1): 200.0})))
    assert verdicts(findings) == ["fail", "fail", "pass", "pass", "pass"]


def test_number_that_cannot_be_is_no_measurement_without_a_class_floor(floorless):
    findings = decide(floorless, run(h2d=(5540.0, 55.4, 55.4, 55.4)))
    assert verdicts(findings) == ["incomplete", "pass", "pass", "pass", "pass"]


@pytest.mark.parametrize("none", [{"h2d": (55.4, 55.4, None, None)}, {"peer": peers(value=None)}])
def test_too_few_to_compare_do_not_pass_without_a_class_floor(floorless, none):
    findings = decide(floorless, run(**none))
    assert verdicts(findings) == ["incomplete"] * 4 + ["pass"]
    assert "too few GPUs were measured to compare them" in findings[0].reason


@pytest.mark.parametrize("none", [{"h2d": (0.0, 0.0, 0.0, 0.0)}, {"peer": peers(value=0.0)}])
def test_nothing_at_all_is_no_speed_to_compare_with(floorless, none):
    assert verdicts(decide(floorless, run(**none))) == ["incomplete"] * 4 + ["pass"]


def test_gpu_at_nothing_does_not_pass_without_a_class_floor(floorless):
    findings = decide(floorless, run(h2d=(0.0, 55.4, 55.4, 55.4)))
    assert verdicts(findings) == ["fail", "pass", "pass", "pass", "pass"]
