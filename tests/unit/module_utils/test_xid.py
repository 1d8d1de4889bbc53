"""Xid events: reading them, joining them, and what each asks for."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import kernel_log
from ansible_collections.muster.cluster.plugins.module_utils.xid import CATALOGUE, events_in, verdict_of


def events(text):
    return events_in(kernel_log.messages_in(Output("[0.0] Linux version 6.1\n" + text.rstrip("\n") + "\n")))


def seen(text):
    return [(event.address, event.code, *verdict_of(event)) for event in events(text)]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("xid63-row-remap-marked-a100.log", {("0000:10:1c.0", 63, "fail", "reset_gpu")}),
        ("xid74-nvlink-fatal-h100-registers.log", {("0003:00:00.0", 74, "fail", "reset_gpu")}),
        ("xid79-with-sxid20034-h100-nvswitch.log", {("0000:91:00.0", 79, "fail", "reboot")}),
        ("nvrm-fallen-off-bus-no-xid-b200.log", {("0000:18:00.0", 79, "fail", "reboot")}),
        (
            "dmesg-iso-xid13-xid43-and-oom.log",
            {("0000:38:00.0", 13, "pass", "restart_app"), ("0000:38:00.0", 43, "pass", "restart_app")},
        ),
        (
            "dmesg-xid48-63-94-h100-contained-ecc.log",
            {("0000:19:00.0", code, "fail", "reset_gpu") for code in (48, 63, 94)},
        ),
        ("nhc-xid119-gsp-timeout.log", {("0002:00:00.0", 119, "fail", "reset_gpu")}),
        ("dmesg-boot-xe9680-h100-mlx5.log", set()),
        ("kmsg-raw-format-nvswitch-open.log", set()),
        ("sxid11004-acl-wrong-partition.log", set()),
    ],
)
def test_recorded_logs(recorded, file, expected):
    assert set(seen(recorded(f"kernel/{file}"))) == expected


def test_recorded_public_threads(recorded):
    found = [event.code for event in events(recorded("kernel/xid-lines-from-public-threads.log"))]
    assert found == [13, 31, 43, 48, 48, 74, 79, 79, 119]


def test_recorded_recovery_actions(recorded):
    found = seen(recorded("kernel/xid149-154-nvlink5-burst-gb200.log"))
    assert {item[1:] for item in found} == {(149, "fail", "reset_gpu"), (154, "fail", "reset_gpu")}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("NVRM: Xid (PCI:0000:1b:00): 45, pid=1", ("0000:1b:00.0", 45, "pass", "restart_app")),
        ("NVRM: Xid (0000:1b:00): 54, power", ("0000:1b:00.0", 54, "fail", "reseat")),
        ("NVRM: Xid (PCI:0000:1b:00): 79", ("0000:1b:00.0", 79, "fail", "reboot")),
        ("NVRM: Xid (PCI:0000:1b:00): 141, fast path", ("0000:1b:00.0", 141, "pass", "none")),
        ("NVRM: Xid (PCI:0000:1b:00): 999, new", ("0000:1b:00.0", 999, "incomplete", "investigate")),
        ("NVRM: Xid (PCI:00", (None, None, "incomplete", "investigate")),
        ("NVRM: Xid (PCI:ERR!): 79, gone", (None, None, "incomplete", "investigate")),
        ("NVRM: GPU has fallen off the bus.", (None, 79, "fail", "reboot")),
        (
            "NVRM: Xid (PCI:0000:1b:00): 154, recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
            ("0000:1b:00.0", 154, "fail", "reboot"),
        ),
        (
            "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
            ("0000:1b:00.0", 154, "pass", "none"),
        ),
        ("NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery", ("0000:1b:00.0", 154, "incomplete", "investigate")),
    ],
)
def test_one_line(line, expected):
    assert seen(f"[5.0] {line}\n") == [expected]


@pytest.mark.parametrize(("gap", "times"), [(0.0, [2]), (5.0, [2]), (5.01, [1, 1])])
def test_identical_events_within_five_seconds_are_one(gap, times):
    line = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."
    assert [event.times for event in events(f"[100.0] {line}\n[{100 + gap}] {line}\n")] == times


def test_other_gpu_or_code_is_another_event():
    text = "".join(
        f"[1.0] NVRM: Xid (PCI:0000:{bus}:00): {code}, x\n" for bus, code in (("1b", 48), ("ab", 48), ("1b", 63))
    )
    assert len(events(text)) == 3


def test_events_without_time_are_never_joined():
    line = "NVRM: Xid (PCI:0000:1b:00): 79, x\n"
    assert len(events(line * 2)) == 2


def test_catalogue_knows_every_row_of_its_source():
    assert {79, 48, 63, 64, 74, 94, 95, 119, 131, 149, 154, 172} <= set(CATALOGUE)
    assert len(CATALOGUE) > 90
