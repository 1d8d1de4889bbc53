"""A drive's health report in text is judged as the JSON of smartctl is, and tells no more than it says."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import nvme_smart
from ansible_collections.muster.cluster.plugins.module_utils.host import blocks
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import smartctl
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.nvme_health_text import reports_in
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.told_expectations import told

SMARTCTL = """\
smartctl 7.4 2023-08-01 r5530 [x86_64-linux] (local build)

=== START OF INFORMATION SECTION ===
Serial Number:                      S1

=== START OF SMART DATA SECTION ===
SMART overall-health self-assessment test result: PASSED

SMART/Health Information (NVMe Log 0x02)
Critical Warning:                   0x00
Temperature:                        36 Celsius
Available Spare:                    100%
Available Spare Threshold:          10%
Percentage Used:                    1%
Data Units Read:                    1,234,567 [632 GB]
Data Units Written:                 2.345.678 [1,20 TB]
Host Read Commands:                 12,345,678
Host Write Commands:                23,456,789
Power Cycles:                       30
Power On Hours:                     4,321
Media and Data Integrity Errors:    0
Warning  Comp. Temperature Time:    0
Critical Comp. Temperature Time:    0
Temperature Sensor 1:               99 Celsius
"""
NVME_CLI = """\
Smart Log for NVME device:nvme0n1 namespace-id:ffffffff
critical_warning\t\t\t: 0
temperature\t\t\t\t: 36 \u00b0C (309 K)
available_spare\t\t\t\t: 100%
available_spare_threshold\t\t: 10%
percentage_used\t\t\t\t: 1%
Data Units Read\t\t\t\t: 1234567 (632.10 GB)
power_cycles\t\t\t\t: 30
power_on_hours\t\t\t\t: 4,321
media_errors\t\t\t\t: 0
Warning Temperature Time\t\t: 0
Critical Composite Temperature Time\t: 0
"""
JSON = {
    **{"critical_warning": 0, "temperature": 309, "avail_spare": 100, "spare_thresh": 10, "percent_used": 1},
    **{"media_errors": 0, "power_cycles": 30, "power_on_hours": 4321, "warning_temp_time": 0, "critical_comp_time": 0},
}


def verdicts(text):
    parts = {f"nvme {at + 1}": Output(each) for at, each in enumerate(reports_in(text))}
    reports = smartctl.parse(blocks.joined(parts))
    found = nvme_smart.decide({"smartctl": reports}, told({"smartctl": reports}))
    return [finding.verdict for finding in found if finding.subject in parts]


def test_text_of_smartctl_says_what_its_json_says():
    (report,) = map(json.loads, reports_in(SMARTCTL))
    log = report["nvme_smart_health_information_log"]
    assert (report["serial_number"], report["smart_status"]["passed"]) == ("S1", True)
    assert (log["temperature"], log["data_units_read"], log["data_units_written"]) == (36, 1234567, 2345678)
    assert verdicts(SMARTCTL) == ["pass"]


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("result: PASSED", "result: FAILED!", "fail"),
        ("0x00", "0x04", "fail"),
        ("Errors:    0", "Errors:    1,012", "fail"),
        ("Spare:                    100%", "Spare:                    5%", "fail"),
        ("Used:                    1%", "Used:                    104%", "fail"),
        ("Critical Comp. Temperature Time:    0", "Critical Comp. Temperature Time:    7", "fail"),
        ("36 Celsius", "-", "incomplete"),
        ("100%", "100", "incomplete"),
        ("Media and Data Integrity Errors:    0\n", "", "incomplete"),
        ("Power Cycles:                       30", "Power Cycles:  30\nPower Cycles:  31", "incomplete"),
        ("SMART overall-health self-assessment test result: PASSED\n", "", "incomplete"),
    ],
)
def test_fault_in_the_text_is_one_and_a_gap_passes_nothing(old, new, verdict):
    assert old in SMARTCTL
    assert verdicts(SMARTCTL.replace(old, new, 1)) == [verdict]


def test_number_that_was_cut_off_is_none():
    cut = SMARTCTL[: SMARTCTL.index("Warning  Comp")] + "Critical Comp. Temperature Time:    0"
    assert verdicts(cut) == ["incomplete"]


@pytest.mark.parametrize("text", [NVME_CLI, json.dumps(JSON)])
def test_log_of_nvme_cli_tells_faults_and_never_passes(text):
    assert verdicts(text) == ["incomplete"]
    assert verdicts(text.replace("100", "5")) == ["fail"]


def test_logs_of_several_drives_in_one_are_each_judged():
    sick = NVME_CLI.replace("critical_warning\t\t\t: 0", "critical_warning\t\t\t: 0x4")
    assert verdicts(NVME_CLI + sick) == ["incomplete", "fail"]


@pytest.mark.parametrize(("result", "verdict"), [("FAILED!", "fail"), ("PASSED", "incomplete")])
def test_drive_of_another_kind_fails_by_its_own_word_and_never_passes(result, verdict):
    text = f"smartctl 7.2 2020-12-30\n\nSMART overall-health self-assessment test result: {result}\nReallocated: 0\n"
    assert verdicts(text) == [verdict]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"critical_warning": {}, "avail_spare": "x"}', "smartctl 7.4\n"])
def test_what_is_no_report_passes_nothing(text):
    assert set(verdicts(text)) <= {"incomplete"}
