"""Telemetry judged: both sides of every limit, and what was not reported."""

import copy
import json
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import gpu_telemetry as check
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import judge_stress
from ansible_collections.muster.cluster.plugins.module_utils.formats.bmc import Sensor
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes.ipmi_sdr import Sensors
from ansible_collections.muster.cluster.plugins.module_utils.stress import gpu_stress
from ansible_collections.muster.cluster.plugins.module_utils.stress import gpu_telemetry as stress
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.placed import PLACED
from tests.typed import typed

HEALTHY = json.loads(
    (Path(__file__).resolve().parents[3] / "healthy" / "gpu_telemetry.json").read_text(encoding="utf-8")
)
HGX = expectations_of("hgx_h100", PLACED, "test")
BAD = "0000:8b:00.0"
PART = "gpu SXM5 0000:8b:00.0"


def judged(expect=HGX, summary=None, **changes):
    """Return the findings when one GPU's summary is changed; ``power_watts__p95=1`` changes one quantile."""
    data = copy.deepcopy(summary or HEALTHY)
    gpu = data["gpus"][BAD]
    for name, value in changes.items():
        quantity, _, quantile = name.partition("__")
        if quantile:
            gpu["quantities"][quantity][quantile] = value
        elif quantity in gpu["quantities"]:
            gpu["quantities"][quantity] = {} if value is None else dict.fromkeys(("min", "median", "p95", "max"), value)
            if value is None:
                del gpu["quantities"][quantity]
        elif quantity in gpu["counters"]:
            gpu["counters"][quantity] = value
        elif quantity == "replays":
            data["replays"][BAD] = value
        else:
            gpu[quantity] = value
    findings = check.decide({"gpu_telemetry": stress.parse(Output(json.dumps(data)))}, typed(expect))
    assert [finding.subject for finding in findings] == check.subjects(typed(expect))
    return {finding.subject: finding for finding in findings}


def alone(**changes):
    """Return the finding on the changed GPU; the others pass."""
    found = judged(**changes)
    one = found.pop(PART)
    assert {finding.verdict for finding in found.values()} == {"pass"}, found
    return one


def test_healthy_node_passes_and_says_what_was_measured():
    found = judged()
    assert {finding.verdict for finding in found.values()} == {"pass"}
    assert "power cap for 538 s" in found[PART].reason
    assert found[PART].reason.startswith("696 W (95th percentile 699 W) of the enforced 700 W, ")


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({"reasons_seconds": {"sw_power_cap": 600.0}}, "pass", ""),
        ({"reasons_seconds": {"hw_slowdown": 5.0}}, "pass", ""),
        ({"reasons_seconds": {"hw_slowdown": 6.0}}, "fail", "hardware slowdown for 6 s, class limit 5 s"),
        ({"reasons_seconds": {"hw_thermal_slowdown": 6.0}}, "fail", "hardware thermal slowdown"),
        ({"reasons_seconds": {"sw_thermal_slowdown": 6.0}}, "fail", "software thermal slowdown"),
        ({"reasons_seconds": {"hw_power_brake_slowdown": 6.0}}, "fail", "power brake"),
        ({"ecc_uncorrected": [3, 3, 3]}, "pass", ""),
        ({"ecc_uncorrected": [0, 1, 1]}, "fail", "1 uncorrected ECC errors during the test, class limit 0"),
        ({"ecc_corrected": [5, 1005, 1005]}, "pass", ""),
        ({"ecc_corrected": [5, 1006, 1006]}, "fail", "1001 corrected ECC errors"),
        ({"ecc_corrected": [5, 0, 5]}, "incomplete", "went back from 5 to 0"),
        ({"ecc_uncorrected": [0, 0, 1]}, "fail", "1 uncorrected ECC errors"),
        ({"replays": [2, 82]}, "pass", ""),
        ({"replays": [2, 83]}, "fail", "8.1 PCIe replays per minute, class limit 8"),
        ({"replays": [2, 1]}, "incomplete", "PCIe replays went back from 2 to 1"),
        ({"pcie_width__min": 8}, "fail", "PCIe width 8 during the test, class floor 16"),
        ({"pcie_generation": 4}, "fail", "PCIe generation 4 at most under load, class floor 5"),
        ({"pcie_generation__min": 1}, "pass", ""),
        ({"power_watts": 628}, "pass", ""),
        (
            {"power_watts": 594, "power_watts__median": 594},
            "fail",
            "drew 594 W under load (95th percentile), class floor 85 %",
        ),
        ({"power_watts__median": 628}, "pass", ""),
        ({"power_watts__median": 627}, "fail", "power 627 W, spread across the node's GPUs: median 697 W"),
        ({"sm_clock_mhz": 1539}, "pass", ""),
        ({"sm_clock_mhz": 1538}, "fail", "SM clock 1538 MHz, spread across the node's GPUs: median 1710 MHz"),
        ({"temperature_celsius__max": 87}, "pass", ""),
        ({"temperature_celsius__max": 88}, "fail", "GPU temperature 88 C, class limit 87 C"),
        ({"memory_temperature_celsius__max": 96}, "fail", "memory temperature 96 C, class limit 95 C"),
        ({"temperature_celsius": 76}, "pass", ""),
        ({"temperature_celsius": 77}, "fail", "77 C, spread across the node's GPUs: median 64.5 C"),
        ({"gap_seconds": 10.0}, "pass", ""),
        ({"gap_seconds": 10.1}, "incomplete", "no sample for 10.1 s, class limit 10 s"),
        ({"samples": 290}, "pass", ""),
        ({"samples": 289}, "incomplete", "289 samples in 600 s, at least 290 are needed"),
        ({"samples": 0}, "incomplete", "gave no sample"),
        ({"power_watts": None}, "incomplete", "power_watts was not reported"),
        ({"power_limit_watts": None}, "incomplete", "power_limit_watts was not reported"),
        ({"temperature_celsius": None}, "incomplete", "temperature_celsius was not reported"),
        ({"memory_temperature_celsius": None}, "incomplete", "memory_temperature_celsius was not reported"),
        ({"sm_clock_mhz": None}, "incomplete", "sm_clock_mhz was not reported"),
        ({"pcie_generation": None}, "incomplete", "pcie_generation was not reported"),
        ({"pcie_width": None}, "incomplete", "pcie_width was not reported"),
        ({"counters": {}}, "incomplete", "ecc_corrected was not reported"),
        ({"unknown": {"reasons": 571}}, "incomplete", "reasons was not reported"),
        ({"unknown": {"power_watts": 10}}, "pass", ""),
        ({"unknown": {"power_watts": 11}}, "incomplete", "power_watts was not reported in 11 samples"),
    ],
)
def test_one_gpu(changes, verdict, words):
    finding = alone(**changes)
    assert finding.verdict == verdict, finding
    assert words in finding.reason


@pytest.mark.parametrize(("watts", "verdict"), [(595, "pass"), (594, "fail")])
def test_power_that_the_load_reaches(watts, verdict):
    expect = {**HGX, "telemetry": {**HGX["telemetry"], "power_spread_percent": None}}
    assert judged(expect=expect, power_watts=watts)[PART].verdict == verdict


LOW = {"power_watts": 500}
STRESS = Path(__file__).resolve().parents[3] / "healthy" / "gpu_stress.jsonl"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "no sign of why: no slowdown, lowered limit, time without work or narrow PCIe link, and no result of gpu"),
        (
            {"reasons_seconds": {"sw_thermal_slowdown": 60.0, "hw_thermal_slowdown": 90.0, "hw_slowdown": 91.0}},
            "why: hardware thermal slowdown for 90 of 600 s, hardware slowdown for 91 of 600 s, software thermal "
            "slowdown for 60 of 600 s",
        ),
        ({"reasons_seconds": {"hw_power_brake_slowdown": 90.0}}, "why: power brake for 90 of 600 s"),
        ({"reasons_seconds": {"sync_boost": 90.0}}, "why: sync boost, clocks as low as the slowest GPU's for 90 of"),
        ({"reasons_seconds": {"display_clocks_setting": 90.0}}, "why: clocks set for a display for 90 of 600 s"),
        ({"reasons_seconds": {"gpu_idle": 30.0}}, "no sign of why"),
        ({"reasons_seconds": {"gpu_idle": 31.0}}, "why: idle for 31 of 600 s"),
        ({"power_limit_watts": 600, "power_watts": 505}, "why: enforced power limit 600 W, class 700 W"),
        ({"sm_clock_mhz": 1200}, "why: SM clock 1200 MHz, the node's GPUs 1710 MHz"),
        ({"memory_clock_mhz": 1593}, "why: memory clock 1593 MHz, the node's GPUs 2619 MHz"),
        ({"utilization_percent__median": 94}, "why: in use for 94 % of the time"),
        ({"pcie_width__min": 8}, "why: PCIe width 8 of 16"),
        ({"pcie_generation": 3}, "why: PCIe generation 3 of 5"),
    ],
)
def test_power_that_was_not_reached_says_why(changes, why):
    for expect in (HGX, OPEN):
        finding = judged(expect=expect, **{**LOW, **changes})[PART]
        assert finding.verdict == "fail" and why in finding.reason


def loads(change):
    """Return what gpu_stress of the same step gave, changed by ``change(line of the GPU)`` (None: it is missing)."""
    lines = [json.loads(line) for line in STRESS.read_text(encoding="utf-8").splitlines()]
    if change is None:
        lines = [line for line in lines if not (line["event"] == "end" and line["gpu"] == BAD)]
        lines[-1]["missing"][BAD] = "ended by signal 9"
    else:
        for line in lines:
            if line["event"] == "end" and line["gpu"] == BAD:
                change(line)
    return gpu_stress.parse(Output("".join(json.dumps(line) + "\n" for line in lines)))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda line: None, "no sign of why: no slowdown, lowered limit, time without work or narrow PCIe link"),
        (lambda line: line.update(seconds=100.0), "why: gpu_stress lasted 100 of "),
        (
            lambda line: line["products"]["bf16"].update(tflops=500.0),
            "why: gpu_stress reached 500 TFLOP/s bf16, class ",
        ),
        (None, "why: gpu_stress gave no result of it (ended by signal 9)"),
    ],
)
def test_power_that_was_not_reached_is_explained_by_the_load_of_the_same_step(change, why):
    summary = copy.deepcopy(HEALTHY)
    summary["gpus"][BAD]["quantities"]["power_watts"] = dict.fromkeys(("min", "median", "p95", "max"), 500)
    values = {"gpu_telemetry": stress.parse(Output(json.dumps(summary))), "gpu_stress": loads(change)}
    found = {finding.subject: finding for finding in check.decide(values, typed(HGX))}
    assert found[PART].verdict == "fail" and why in found[PART].reason
    assert "no result of gpu_stress" not in found[PART].reason


def test_what_ran_beside_it_is_read_and_what_the_idle_host_said_is_not():
    expect = typed({**HGX, "bmc": expectations_of("lab_h100", {}, "test")["bmc"]})
    files = {"gpu_telemetry": "json", "gpu_stress": "jsonl", "ipmi_sdr": "txt"}
    outputs = {
        name: Output((STRESS.parent / f"{name}.{end}").read_text(encoding="utf-8")) for name, end in files.items()
    }
    beside, alone = (judge_stress("gpu_telemetry", outputs, expect, given) for given in (outputs, {}))
    assert {finding.verdict for finding in (*beside.findings, *alone.findings)} == {"pass"}
    assert beside.measures["gpu_telemetry"]["host"] == {
        **{"inlet_celsius": 23.0, "outlet_celsius": 39.0, "fan_rpm": 5040.0}
    }
    assert alone.measures["gpu_telemetry"].keys() == {finding.subject for finding in alone.findings}


def measured(summary=HEALTHY, expect=HGX, **values):
    return check.measures({"gpu_telemetry": stress.parse(Output(json.dumps(summary))), **values}, typed(expect))


def test_each_gpu_is_measured_under_load():
    found = measured()
    assert list(found) == check.subjects(typed(HGX))
    assert found[PART] == {"watts": 696, "celsius": 65, "memory_celsius": 74}


def test_gpu_that_is_lost_or_tells_half_is_not_measured_and_an_idle_one_neither():
    summary = copy.deepcopy(HEALTHY)
    del summary["gpus"][BAD]["quantities"]["temperature_celsius"]
    summary["notes"] = ["Unable to determine the device handle for GPU0000:8C:00.0: GPU is lost.  Reboot the system"]
    del summary["gpus"]["0000:04:00.0"]["quantities"]["memory_temperature_celsius"]
    found = measured(summary)
    assert len(found) == 6 and PART not in found and not any("8c:00.0" in part for part in found)
    assert next(each for part, each in found.items() if "04:00.0" in part).keys() == {"watts", "celsius"}
    assert measured({**HEALTHY, "under_load": False}) is None


AIR = [
    *(Sensor("Inlet Temp", "ok", 23.0, "C"), Sensor("Exhaust Temp", "ok", 41.0, "C")),
    *(Sensor("FAN1", "ok", 5000.0, "RPM"), Sensor("FAN2", "ok", 5200.0, "RPM"), Sensor("FAN3", "ok", 40.0, "percent")),
]


@pytest.mark.parametrize(
    ("sensors", "told"),
    [
        (AIR, {"inlet_celsius": 23.0, "outlet_celsius": 41.0, "fan_rpm": 5100.0}),
        (AIR[:1], {"inlet_celsius": 23.0}),
        ([Sensor("Exhaust Temp", "ok", 0.0, "C"), AIR[2]], {"fan_rpm": 5000.0}),
        ([], None),
    ],
)
def test_air_of_the_host_is_measured_where_its_bmc_tells_it(sensors, told):
    expect = {**HGX, "bmc": expectations_of("lab_h100", {}, "test")["bmc"]}
    assert measured(expect=expect, ipmi_sdr=Sensors(tuple(sensors), ())).get("host") == told
    assert "host" not in measured(expect=expect) and "host" not in measured(ipmi_sdr=Sensors(tuple(sensors), ()))


def test_failure_outweighs_what_is_unknown_and_both_are_told():
    finding = alone(gap_seconds=30.0, reasons_seconds={"hw_slowdown": 60.0})
    assert finding.verdict == "fail"
    assert "hardware slowdown" in finding.reason and "no sample for 30 s" in finding.reason


def test_gpu_without_samples_or_lost_under_way():
    summary = copy.deepcopy(HEALTHY)
    del summary["gpus"][BAD]
    findings = check.decide({"gpu_telemetry": stress.parse(Output(json.dumps(summary)))}, typed(HGX))
    found = {finding.subject: finding for finding in findings}
    assert (found[PART].verdict, found[PART].measured) == ("incomplete", 0)
    summary["notes"] = ["Unable to determine the device handle for GPU0000:8B:00.0: GPU is lost.  Reboot the system"]
    findings = check.decide({"gpu_telemetry": stress.parse(Output(json.dumps(summary)))}, typed(HGX))
    found = {finding.subject: finding for finding in findings}
    assert (found[PART].verdict, found[PART].action) == ("fail", "reboot")
    assert "GPU is lost" in found[PART].reason


ROW = "2026/07/14 08:12:53.353, 5, {}, [GPU is lost], 32.73, [GPU is lost]"


@pytest.mark.parametrize(
    ("row", "action"),
    [(ROW.format("00000000:8B:00.0"), "reboot"), ("5, 00000000:8B:00.0, [GPU requires reset], 700.00", "reset_gpu")],
)
def test_gpu_whose_row_says_it_fails_though_its_samples_are_sound(row, action):
    found = judged(summary={**copy.deepcopy(HEALTHY), "sick": {BAD: row}})
    assert (found[PART].verdict, found[PART].action) == ("fail", action) and row in found[PART].reason
    assert {finding.verdict for part, finding in found.items() if part != PART} == {"pass"}


@pytest.mark.parametrize(("unseen", "verdict"), [([BAD], "fail"), ([BAD, "0000:8c:00.0"], "incomplete")])
def test_lost_gpu_without_an_address_is_the_only_one_that_gave_no_sample(unseen, verdict):
    summary = {**copy.deepcopy(HEALTHY), "sick": {"GPU 6": ROW.format("[GPU is lost]")}}
    for address in unseen:
        del summary["gpus"][address]
    findings = check.decide({"gpu_telemetry": stress.parse(Output(json.dumps(summary)))}, typed(HGX))
    found = {finding.subject.split()[-1]: finding.verdict for finding in findings}
    assert {found.pop(address) for address in unseen} == {verdict} and set(found.values()) == {"pass"}


@pytest.mark.parametrize("unseen", [[], [BAD]])
def test_lost_gpu_fails_the_node_where_nobody_knows_which_it_is(unseen):
    sick = {"GPU 6": ROW.format("[GPU is lost]")}
    # One row of each that gave no sample names it, one is left.
    sick.update({f"GPU {number}": ROW for number, _ in enumerate(unseen)})
    summary = {**copy.deepcopy(HEALTHY), "sick": sick}
    for address in unseen:
        del summary["gpus"][address]
    findings = check.decide({"gpu_telemetry": stress.parse(Output(json.dumps(summary)))}, typed(HGX))
    failed = [finding.subject.split()[-1] for finding in findings if finding.verdict == "fail"]
    assert failed == [*unseen, "host"]


def test_replays_of_nobody_leave_everybody_incomplete():
    summary = {**copy.deepcopy(HEALTHY), "replays": {}}
    assert {finding.verdict for finding in judged(summary=summary).values()} == {"incomplete"}


def test_without_a_load_nothing_needs_to_be_reached():
    summary = {**copy.deepcopy(HEALTHY), "under_load": False}
    idle = {"power_watts": 70, "pcie_generation": 1, "sm_clock_mhz": 345}
    assert judged(summary=summary, **idle)[PART].verdict == "pass"
    assert judged(summary=summary, **idle, pcie_width=8)[PART].verdict == "fail"


def test_class_may_leave_limits_open():
    expect = {
        **HGX,
        "telemetry": {**HGX["telemetry"], "memory_temperature_celsius": None, "clock_spread_percent": None},
    }
    found = judged(expect=expect, memory_temperature_celsius=None, sm_clock_mhz=345)
    assert found[PART].verdict == "pass"


def test_class_without_telemetry_owes_nothing():
    assert check.subjects(typed({**HGX, "telemetry": None})) == []


UNKNOWN = {"power_percent": None, "temperature_celsius": None, "memory_temperature_celsius": None}
OPEN = {**HGX, "telemetry": {**HGX["telemetry"], **UNKNOWN}}


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({}, "pass", ""),
        ({"temperature_celsius__max": 101}, "pass", ""),
        ({"temperature_celsius": 77}, "fail", "77 C, spread across the node's GPUs"),
        ({"power_watts": 628}, "pass", ""),
        ({"power_watts__median": 627}, "fail", "power 627 W, spread across the node's GPUs"),
        ({"temperature_celsius": None}, "incomplete", "temperature_celsius was not reported"),
    ],
)
def test_gpus_without_class_limits_are_compared_with_each_other(changes, verdict, words):
    finding = judged(expect=OPEN, **changes)[PART]
    assert finding.verdict == verdict and words in finding.reason


@pytest.mark.parametrize(("count", "verdict"), [(3, "pass"), (2, "incomplete")])
def test_too_few_gpus_to_compare_do_not_pass_without_class_limits(count, verdict):
    summary = copy.deepcopy(HEALTHY)
    parts = [part for part in HGX["gpu"]["parts"] if part["address"] == BAD]
    parts += [part for part in HGX["gpu"]["parts"] if part not in parts][: count - 1]
    kept = [part["address"] for part in parts]
    summary["gpus"] = {gpu: value for gpu, value in summary["gpus"].items() if gpu in kept}
    expect = {**OPEN, "gpu": {**HGX["gpu"], "count": count, "parts": parts}, "affinity": None}
    found = judged(expect=expect, summary=summary)
    assert {finding.verdict for finding in found.values()} == {verdict}
    if verdict == "incomplete":
        assert "no class limit of power_watts is known, and 2 GPUs are too few to compare" in found[PART].reason


@pytest.mark.parametrize(
    ("limit", "spread"),
    [("power_percent", "power_spread_percent"), ("temperature_celsius", "temperature_spread_celsius")],
)
def test_class_with_neither_limit_nor_spread_is_refused(limit, spread):
    with pytest.raises(ReadError, match=f"{spread}: found nothing, expected a number where {limit} is null"):
        typed({**HGX, "telemetry": {**HGX["telemetry"], limit: None, spread: None}})
