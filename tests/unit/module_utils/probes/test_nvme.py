"""What sysfs and smartctl say of NVMe drives."""

import json
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.formats.nvme import Drive, assigned, nvme_subjects
from ansible_collections.muster.cluster.plugins.module_utils.host.blocks import joined
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import nvme_sysfs, smartctl

from tests.typed import typed

HEALTHY = Path(__file__).resolve().parents[3] / "healthy"
SYSFS = (HEALTHY / "nvme_sysfs.txt").read_text()
SMART = (HEALTHY / "smartctl.txt").read_text()


def test_healthy_host_shows_eight_drives_in_pci_order():
    drives = nvme_sysfs.parse(Output(SYSFS))
    assert [drive.address for drive in drives] == sorted(drive.address for drive in drives)
    assert (len(drives), drives[0].controller, drives[0].namespace) == (8, "nvme0", "nvme0n1")
    assert (drives[0].speed_gt_per_second, drives[0].width, drives[0].state) == (16.0, 4, "live")


@pytest.mark.parametrize(
    ("old", "new", "field", "value"),
    [
        ("16.0 GT/s PCIe", "8 GT/s", "speed_gt_per_second", 8.0),
        ("16.0 GT/s PCIe", "Unknown", "speed_gt_per_second", None),
        ("width <==\n4", "width <==\n255", "width", None),
        ("width <==\n4", "width <==\n0", "width", None),
        ("model <==\n", "model <== (Input/output error)\n", "model", None),
        ("nvme0/nvme0n1/size", "nvme0/nvme0c0n1/size", "namespace", "nvme0n1"),
        ("size <==\n7501476528", "size <==\n0", "namespace", None),
    ],
)
def test_single_fields(old, new, field, value):
    assert getattr(nvme_sysfs.parse(Output(SYSFS.replace(old, new)))[0], field) == value


def test_drive_over_a_network_is_no_drive_of_the_host():
    text = SYSFS.replace("nvme0/transport <==\npcie", "nvme0/transport <==\ntcp")
    assert len(nvme_sysfs.parse(Output(text))) == 7


def test_host_without_drives_and_text_of_something_else():
    assert nvme_sysfs.parse(Output(nvme_sysfs.NO_DRIVE)) == ()
    for text in ("", "nonsense\n", "==> /etc/passwd <==\nroot\n", SYSFS.replace("0000:1a:00.0", "N/A")):
        with pytest.raises(Unreadable):
            nvme_sysfs.parse(Output(text))


def test_parts_by_address_or_by_number(expect):
    drives = nvme_sysfs.parse(Output(SYSFS))
    assert (
        list(assigned(drives, typed(expect).nvme))
        == nvme_subjects(typed(expect))
        == [f"nvme {number}" for number in range(1, 9)]
    )
    expect["nvme"].update(count=2, addresses=["0000:bb:00.0", "0000:cc:00.0"])
    assert nvme_subjects(typed(expect)) == ["nvme 0000:bb:00.0", "nvme 0000:cc:00.0"]
    assert {part: drive.controller for part, drive in assigned(drives, typed(expect).nvme).items()} == {
        "nvme 0000:bb:00.0": "nvme7"
    }
    expect["nvme"] = None
    assert nvme_subjects(typed(expect)) == [] and assigned(drives, typed(expect).nvme) == {}


def test_boot_drive_of_another_model_does_not_count(expect):
    expect["nvme"].update(count=2, model="DATA")
    drives = [Drive("nvme0", "0000:01:00.0", "BOOT"), Drive("nvme1", "0000:02:00.0", "DATA")]
    assert {part: drive.controller for part, drive in assigned(drives, typed(expect).nvme).items()} == {
        "nvme 1": "nvme1"
    }


def report(text, rc=0, stderr=""):
    return smartctl.parse(joined({"nvme 1": Output(text, stderr, rc)}))["nvme 1"]


def test_healthy_reports():
    reports = smartctl.parse(Output(SMART))
    assert list(reports) == [f"nvme {number}" for number in range(1, 9)]
    first = reports["nvme 1"]
    assert (first.exit_status, first.passed, first.critical_warning, first.temperature_celsius) == (0, True, 0, 38)


@pytest.mark.parametrize(
    "name",
    [
        "nvme/smartctl-INTEL_SSDPE2KX080T8_1.json",
        "nvme/smartctl-nvme-good.json",
        "nvme/smartctl-nvme-null-INTEL_SSDPF2KX038TZ-nvme4.json",
        "nvme/smartctl-nvme-zeroed-smart-data.json",
    ],
)
def test_recorded_report_is_read_in_full(recorded, name):
    text = recorded(name)
    read = report(text)
    log = json.loads(text)["nvme_smart_health_information_log"]
    assert (read.percentage_used, read.power_on_hours) == (log["percentage_used"], log["power_on_hours"])
    assert None not in vars(read).values()


def document(status=0, log=None):
    tool = {"exit_status": status, "messages": [{"string": "open failed: Permission denied", "severity": "error"}]}
    return json.dumps(
        {"smartctl": tool, "nvme_smart_health_information_log": log or {}, "smart_status": {"passed": True}}
    )


@pytest.mark.parametrize(
    ("text", "rc", "why"),
    [
        (document(2), 2, "exit status 2: open failed: Permission denied"),
        # The report is there, but smartctl says that it did not open the drive.
        (document(2, {"critical_warning": 0}), 2, "exit status 2: open"),
        (document(4), 4, "exit status 4: open"),
        (document(0), 0, "exit status 0"),
        (document(0, {"critical_warning": 0}), 137, "exit status 137, but 0"),
        ("", 127, "exit status 127, not JSON"),
        (document()[:50], 0, "not JSON"),
        ("[]", 0, "no smartctl.exit_status"),
        ("[" * 5000, 0, "not JSON"),
    ],
)
def test_drive_that_was_not_read_says_why(text, rc, why):
    assert why in report(text, rc)


def test_command_failure_beside_a_report_keeps_the_report():
    read = report(document(4, {"critical_warning": 0, "temperature": True, "media_errors": "N/A"}), 4)
    assert (read.exit_status, read.critical_warning, read.temperature_celsius, read.media_errors) == (4, 0, None, None)


def test_text_without_headings_is_unreadable():
    for text in ("", "{}", document()):
        with pytest.raises(Unreadable):
            smartctl.parse(Output(text))


def test_tool_that_hangs_on_one_drive_is_said_of_that_drive():
    output = joined({"nvme 1": Output(rc=None, timed_out=True, error="smartctl: no answer within 20 s")})
    assert smartctl.parse(output) == {"nvme 1": "smartctl: no answer within 20 s"}
