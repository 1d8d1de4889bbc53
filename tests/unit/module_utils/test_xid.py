"""Xid events: reading them, joining them, and what each asks for."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.judging.xid import CATALOGUE, events_in, judged, verdict_of
from ansible_collections.muster.cluster.plugins.module_utils.probes import kernel_log


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


def escalated(text, fabric_fault=False):
    return {(item.event.code, item.verdict, item.action) for item in judged(events(text), fabric_fault)}


def xid_line(seconds, code, text="x"):
    return f"[{seconds:.1f}] NVRM: Xid (PCI:0000:1b:00): {code}, {text}\n"


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (79, "rma"),
        (74, "rma"),
        (136, "rma"),
        (140, "rma"),
        (143, "rma"),
        (119, "reboot"),
        (120, "reboot"),
        (62, "investigate"),
        (48, "reset_gpu"),
        (46, "reset_gpu"),
    ],
)
def test_fault_that_comes_back_asks_for_more(first, again):
    (once,) = escalated(xid_line(10, first))
    assert once[1] == "fail"
    assert escalated(xid_line(10, first) + xid_line(14, first)) == {once}
    assert escalated(xid_line(10, first) + xid_line(16, first)) == {(first, "fail", again)}


@pytest.mark.parametrize("code", [8, 13, 31, 39, 80, 126, 139])
def test_application_fault_of_two_jobs_is_investigated(code):
    job = [f"pid={pid}, name=python" for pid in (17, 18)]
    once = xid_line(10, code, job[0]) + xid_line(100, code, job[0])
    assert escalated(once) == {(code, "pass", "restart_app")}
    assert escalated(once + xid_line(200, code, job[1])) == {(code, "fail", "investigate")}


def test_application_fault_that_goes_on_without_a_named_program_is_watched():
    flood = "".join(xid_line(10 + 60 * index, 13, "pid='<unknown>', name=<unknown>") for index in range(20))
    assert escalated(flood) == {(13, "pass", "investigate")}


@pytest.mark.parametrize("code", [11, 43, 45, 69, 94])
def test_what_only_a_program_causes_does_not_escalate(code):
    before = escalated(xid_line(10, code))
    assert escalated(xid_line(10, code) + xid_line(100, code, "pid=1")) == before


def test_double_bit_error_whose_row_could_not_be_remapped_is_rma():
    assert (48, "fail", "rma") in escalated(xid_line(10, 48) + xid_line(11, 64))


def test_nvlink_error_with_a_fatal_switch_error_is_rma():
    assert escalated(xid_line(10, 74), fabric_fault=True) == {(74, "fail", "rma")}


@pytest.mark.parametrize(("words", "action"), [("Node Reboot Required", "reboot"), ("GPU Reset Required", "reset_gpu")])
def test_the_drivers_own_word_gives_the_action(words, action):
    text = (
        xid_line(10, 119)
        + xid_line(11, 79)
        + xid_line(12, 154, f"GPU recovery action changed from 0x0 (None) to 0x2 ({words})")
    )
    assert {item[2] for item in escalated(text)} == {action}


def test_the_drivers_word_does_not_keep_a_part_that_has_to_go():
    text = (
        xid_line(10, 79) + xid_line(90, 79) + xid_line(91, 154, "changed from 0x0 (None) to 0x1 (GPU Reset Required)")
    )
    assert (79, "fail", "rma") in escalated(text)


def test_copies_without_time_do_not_escalate():
    assert escalated("NVRM: Xid (PCI:0000:1b:00): 79, x\n" * 2) == {(79, "fail", "reboot")}


def test_instance_of_a_divided_gpu_is_that_gpu():
    assert seen("[1.0] NVRM: Xid (PCI:0000:1b:00 GPU-I:05): 95, x\n") == [("0000:1b:00.0", 95, "fail", "reset_gpu")]


NON_FATAL = "RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x1 0x8)"


@pytest.mark.parametrize("code", [144, 145, 149, 150])
def test_nvlink_event_that_the_driver_calls_non_fatal_is_watched_and_a_fatal_one_fails(code):
    assert escalated(xid_line(10, code, NON_FATAL)) == {(code, "pass", "investigate")}
    assert escalated(xid_line(10, code, NON_FATAL) + xid_line(90, code, NON_FATAL)) == {(code, "pass", "investigate")}
    assert escalated(xid_line(10, code, NON_FATAL.replace("Nonfatal", "Fatal"))) == {(code, "fail", "reset_gpu")}
    assert escalated(xid_line(10, code)) == {(code, "fail", "reset_gpu")}


def test_fatal_event_right_after_one_that_is_not_is_not_one_more_of_it():
    both = xid_line(10, 149, NON_FATAL) + xid_line(11, 149, NON_FATAL.replace("Nonfatal", "Fatal"))
    assert (149, "fail", "reset_gpu") in escalated(both)


def test_non_fatal_is_a_word_of_nvlink_events_alone():
    assert escalated(xid_line(10, 79, "Nonfatal")) == {(79, "fail", "reboot")}


CAUSED = "pid=1, name=python, Ch 00000001 caused by previous Xid "


@pytest.mark.parametrize(
    ("cause", "verdict"),
    [
        (149, ("fail", "reset_gpu")),
        (79, ("fail", "reboot")),
        (13, ("pass", "restart_app")),
        (999, ("incomplete", "investigate")),
    ],
)
def test_cause_that_the_log_lost_counts_as_if_it_were_there(cause, verdict):
    assert escalated(xid_line(10, 45, f"{CAUSED}{cause}")) == {(45, *verdict)}


def test_cause_that_is_in_the_log_is_judged_by_itself():
    text = xid_line(10, 149, NON_FATAL) + xid_line(10, 45, f"{CAUSED}149")
    assert escalated(text) == {(149, "pass", "investigate"), (45, "pass", "restart_app")}


def test_clean_up_within_five_seconds_keeps_each_cause():
    text = xid_line(10, 45, "pid=1") + xid_line(11, 45, f"{CAUSED}13") + xid_line(12, 45, f"{CAUSED}149")
    assert (45, "fail", "reset_gpu") in escalated(text)
