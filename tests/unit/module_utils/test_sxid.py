"""SXid events of NVSwitches."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.judging.sxid import GROUPS, switch_events_in, verdict_of
from ansible_collections.muster.cluster.plugins.module_utils.probes import kernel_log


def events(text):
    return switch_events_in(kernel_log.messages_in(Output(text if text.endswith("\n") else text + "\n")))


def line(code, text, seconds=1.0):
    return f"[{seconds:.6f}] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): {code}, {text}\n"


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (20034, "Fatal, Link 48 LTSSM Fault Up", ("fail", "reset_gpu")),
        (20034, "Non-fatal, Link 48 LTSSM Fault Up", ("fail", "reset_gpu")),
        (12028, "Non-fatal, Link 32 egress non-posted PRIV error (First)", ("pass", "none")),
        (12028, "Nonfatal, Link 32 egress non-posted PRIV error (First)", ("pass", "none")),
        (12028, "Fatal, Link 32 egress non-posted PRIV error (First)", ("fail", "reset_gpu")),
        (12028, "Severity 1 Engine instance 32 Sub-engine instance 00", ("fail", "reset_gpu")),
        (23017, "Fatal, x", ("fail", "reset_gpu")),
        (11004, "Non-fatal, Link 36 ingress invalid ACL (First)", ("fail", "investigate")),
        (10004, "Temperature 105.0C is above the threshold", ("fail", "investigate")),
        (10005, "Temperature is back", ("pass", "none")),
        (99999, "Non-fatal, Link 1 new", ("incomplete", "investigate")),
        (99999, "Fatal, Link 1 new", ("fail", "reset_gpu")),
    ],
)
def test_one_line(code, text, expected):
    (event,) = events(line(code, text))
    assert (event.switch, event.address, verdict_of(event)) == ("nvswitch1", "0000:06:00.0", expected)


def test_lines_of_one_event_are_one():
    text = (
        line(20034, "Fatal, Link 48 LTSSM Fault Up")
        + line(20034, "Severity 1 Engine instance 48 Sub-engine instance 00", 1.2)
        + line(20034, "Data {0x10000000, 0x10000000}", 1.3)
    )
    (event,) = events(text)
    assert (event.link, event.fatal, event.times) == (48, True, 1)


def test_links_are_told_apart_and_the_same_one_later_is_another_event():
    text = (
        line(12028, "Non-fatal, Link 1 x") + line(12028, "Non-fatal, Link 2 x") + line(12028, "Non-fatal, Link 1 x", 60)
    )
    assert [event.link for event in events(text)] == [1, 2, 1]


def test_fatal_that_comes_back_is_rma():
    (event,) = events(line(20034, "Fatal, Link 48 LTSSM Fault Up"))
    assert verdict_of(event, again=True) == ("fail", "rma")


@pytest.mark.parametrize("text", ["nvidia-nvswitch1: SXid (PCI:00", "nvidia-nvswitch: SXid gone"])
def test_unreadable_line_is_incomplete(text):
    (event,) = events(text)
    assert event.code is None and verdict_of(event) == ("incomplete", "investigate")


def test_groups_hold_what_their_source_does():
    assert len(GROUPS) == 1 + 24 + 41 + 22 + 2
    assert GROUPS[20034] == "fatal to a link" and GROUPS[23009] == "fatal" and GROUPS[24002] == "non-fatal"


def test_recorded_switch_errors(recorded):
    found = events(recorded("kernel/xid79-with-sxid20034-h100-nvswitch.log"))
    assert {(event.switch, event.link) for event in found} == {
        ("nvswitch1", 48),
        ("nvswitch0", 63),
        ("nvswitch0", 62),
        ("nvswitch2", 60),
        ("nvswitch2", 37),
    }
    assert {verdict_of(event) for event in found} == {("fail", "reset_gpu")}


def test_recorded_wrong_partition_is_no_rma(recorded):
    found = events(recorded("kernel/sxid11004-acl-wrong-partition.log"))
    assert [event.link for event in found] == [36, 42, 40, 58]
    assert {verdict_of(event) for event in found} == {("fail", "investigate")}
