"""NVMe drives against the class."""

from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import nvme, nvme_smart
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import nvme_sysfs, smartctl

from tests.typed import typed

HEALTHY = Path(__file__).resolve().parents[3] / "healthy"
DRIVES = nvme_sysfs.parse(Output((HEALTHY / "nvme_sysfs.txt").read_text()))
REPORT = smartctl.parse(Output((HEALTHY / "smartctl.txt").read_text()))["nvme 1"]


def inventory(expect, drives=DRIVES):
    return {finding.subject: finding for finding in nvme.decide({"nvme_sysfs": drives}, typed(expect))}


def test_eight_drives_pass(expect):
    found = inventory(expect)
    assert list(found) == list(nvme.subjects(typed(expect))) and {item.verdict for item in found.values()} == {"pass"}


def test_missing_drive_is_named_by_its_declared_address(expect):
    expect["nvme"]["addresses"] = [drive.address for drive in DRIVES]
    found = inventory(expect, DRIVES[:2] + DRIVES[3:])
    missing = found.pop("nvme 0000:3a:00.0")
    assert (missing.verdict, missing.measured, missing.action) == ("fail", "absent", "reseat")
    assert {item.verdict for item in found.values()} == {"pass"}


def test_missing_drive_without_addresses_fails_and_says_where_the_others_are(expect):
    missing = inventory(expect, DRIVES[1:])["nvme 8"]
    assert missing.verdict == "fail" and "7 of 8" in missing.reason and "0000:1b:00.0" in missing.reason
    assert "declare nvme.addresses" in missing.reason


def test_drive_of_another_model_leaves_one_missing_and_is_named(expect):
    expect["nvme"]["model"] = DRIVES[0].model
    found = inventory(expect, (replace(DRIVES[0], model="OTHER"), *DRIVES[1:]))
    assert found["nvme 8"].verdict == "fail" and "OTHER" in found["nvme 8"].reason


def test_one_drive_too_many_fails(expect):
    extra = replace(DRIVES[0], address="0000:fe:00.0", controller="nvme9")
    assert inventory(expect, (*DRIVES, extra))["nvme 0000:fe:00.0"].verdict == "fail"


@pytest.mark.parametrize(
    ("change", "verdict", "action"),
    [
        ({"width": 4}, "pass", "none"),
        ({"width": 3}, "fail", "reseat"),
        ({"width": 8}, "pass", "none"),
        ({"width": None}, "incomplete", "investigate"),
        ({"speed_gt_per_second": 15.9}, "fail", "reseat"),
        ({"speed_gt_per_second": 32.0}, "pass", "none"),
        ({"speed_gt_per_second": None}, "incomplete", "investigate"),
        ({"state": "dead"}, "fail", "replace"),
        ({"state": None}, "incomplete", "investigate"),
        ({"serial": None}, "incomplete", "investigate"),
        ({"firmware": None}, "pass", "none"),
    ],
)
def test_one_drive(expect, change, verdict, action):
    found = inventory(expect, (replace(DRIVES[0], **change), *DRIVES[1:]))["nvme 1"]
    assert (found.verdict, found.action) == (verdict, action)


@pytest.mark.parametrize(("firmware", "verdict"), [("GDC7302Q", "pass"), ("GDC7301Q", "fail"), (None, "incomplete")])
def test_declared_firmware(expect, firmware, verdict):
    expect["nvme"].update(firmware="GDC7302Q", addresses=[drive.address for drive in DRIVES])
    drives = (replace(DRIVES[0], firmware=firmware), *DRIVES[1:])
    assert inventory(expect, drives)["nvme 0000:1a:00.0"].verdict == verdict


@pytest.mark.parametrize(
    ("change", "verdict", "action"),
    [
        ({}, "pass", "none"),
        ({"critical_warning": 1}, "fail", "replace"),
        ({"critical_warning": 2}, "fail", "investigate"),
        ({"critical_warning": 64}, "fail", "replace"),
        ({"critical_warning": None}, "incomplete", "investigate"),
        ({"passed": False}, "fail", "replace"),
        ({"passed": None}, "incomplete", "investigate"),
        ({"exit_status": 8}, "fail", "replace"),
        ({"exit_status": 128}, "fail", "replace"),
        # Old entries in the error log, a log that could not be read: watch.
        ({"exit_status": 64}, "pass", "investigate"),
        ({"exit_status": 4}, "pass", "investigate"),
        ({"critical_comp_time": 1}, "fail", "replace"),
        ({"critical_comp_time": None}, "incomplete", "investigate"),
        ({"warning_temp_time": 5}, "pass", "investigate"),
        ({"media_errors": 1}, "fail", "replace"),
        ({"media_errors": None}, "incomplete", "investigate"),
        ({"available_spare": 10}, "pass", "none"),
        ({"available_spare": 9}, "fail", "replace"),
        ({"available_spare": None}, "incomplete", "investigate"),
        ({"available_spare": 255}, "fail", "investigate"),
        ({"percentage_used": 80}, "pass", "none"),
        ({"percentage_used": 81}, "fail", "replace"),
        ({"temperature_celsius": 80}, "pass", "none"),
        ({"temperature_celsius": 81}, "fail", "investigate"),
        ({"temperature_celsius": 0}, "incomplete", "investigate"),
        ({"power_cycles": 0}, "fail", "investigate"),
        ({"power_cycles": 0, "power_on_hours": 0}, "pass", "none"),
        ({"data_units_read": 0}, "fail", "investigate"),
        ({"data_units_read": 0, "host_reads": 0}, "pass", "none"),
        ({"data_units_written": 0}, "fail", "investigate"),
    ],
)
def test_health_report(expect, change, verdict, action):
    expect["nvme"]["count"] = 1
    (finding,) = nvme_smart.decide({"smartctl": {"nvme 1": replace(REPORT, **change)}}, typed(expect))
    assert (finding.verdict, finding.action) == (verdict, action), finding.reason


def test_unread_drive_is_incomplete_with_the_tools_words(expect):
    expect["nvme"]["count"] = 1
    (finding,) = nvme_smart.decide({"smartctl": {"nvme 1": "exit status 2: Permission denied"}}, typed(expect))
    assert (finding.verdict, finding.reason) == ("incomplete", "exit status 2: Permission denied")


def test_class_without_drives_owes_nothing(expect):
    expect["nvme"] = None
    assert list(nvme.subjects(typed(expect))) == list(nvme_smart.subjects(typed(expect))) == []
