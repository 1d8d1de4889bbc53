"""Checks: both sides of every boundary."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import (
    clock,
    cpu,
    disk,
    fingerprint,
    gpu_inventory,
    memory,
    xid,
)
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import kernel_log, nvidia_smi
from ansible_collections.muster.cluster.plugins.module_utils.probes.chrony import Tracking
from ansible_collections.muster.cluster.plugins.module_utils.probes.lscpu import Cpu
from ansible_collections.muster.cluster.plugins.module_utils.probes.meminfo import Memory

from tests.typed import typed

FIRST, SECOND = "gpu SXM1 0000:1b:00.0", "gpu SXM6 0000:ab:00.0"
GIB = 1024**3


def by_subject(findings):
    assert len({finding.subject for finding in findings}) == len(findings)
    return {finding.subject: finding for finding in findings}


@pytest.mark.parametrize(
    ("sockets", "cores", "verdict"),
    [(2, 96, "pass"), (2, 95, "fail"), (2, 97, "fail"), (1, 96, "fail"), (3, 96, "fail")],
)
def test_cpu(expect, sockets, cores, verdict):
    (finding,) = cpu.decide({"lscpu": Cpu(sockets, cores, None, architecture="x86_64")}, typed(expect))
    assert finding.verdict == verdict


@pytest.mark.parametrize(
    ("mib", "verdict", "action"),
    [(949, "fail", "reseat"), (950, "pass", "none"), (1050, "pass", "none"), (1051, "fail", "investigate")],
)
def test_memory(expect, mib, verdict, action):
    (finding,) = memory.decide({"meminfo": Memory(mib, 0)}, typed(expect))
    assert (finding.verdict, finding.action, finding.measured, finding.expected) == (verdict, action, mib, 1000)


@pytest.mark.parametrize(
    ("synchronised", "offset", "verdict"),
    [(True, 100.0, "pass"), (True, 100.001, "fail"), (False, 0.0, "fail")],
)
def test_clock(expect, synchronised, offset, verdict):
    (finding,) = clock.decide({"chrony": Tracking(synchronised, "ntp", offset)}, typed(expect))
    assert finding.verdict == verdict


@pytest.mark.parametrize(
    ("free", "verdict", "measured"),
    [
        ({"/": 5 * GIB}, "pass", 5.0),
        ({"/": 5 * GIB - 1}, "fail", 4.99),
        ({"/": 90 * GIB, "/var": 1 * GIB}, "fail", 1.0),
        ({"/home": 90 * GIB}, "incomplete", None),
    ],
)
def test_disk(expect, free, verdict, measured):
    (finding,) = disk.decide({"disk_free": free}, typed(expect))
    assert (finding.subject, finding.verdict, finding.measured) == ("disk /var", verdict, measured)


def inventory(text, expect, rc=0):
    output = Output(text, rc=rc) if rc == 0 else Output("", text, rc)
    return by_subject(gpu_inventory.decide({"nvidia_smi": nvidia_smi.parse(output)}, typed(expect)))


def test_all_gpus_there(make_gpu_xml, expect):
    found = inventory(make_gpu_xml(["00000000:1B:00.0", "00000000:AB:00.0"]), expect)
    assert {subject: finding.verdict for subject, finding in found.items()} == {FIRST: "pass", SECOND: "pass"}


def test_missing_gpu_is_named_by_slot_and_address(make_gpu_xml, expect):
    found = inventory(make_gpu_xml(["00000000:1B:00.0"]), expect)
    assert found[FIRST].verdict == "pass"
    missing = found[SECOND]
    assert (missing.verdict, missing.measured, missing.action) == ("fail", "absent", "reboot")
    assert "SXM6" in missing.reason and "0000:ab:00.0" in missing.reason and "1 of 2" in missing.reason


def test_no_gpu_at_all(make_gpu_xml, expect):
    assert {finding.verdict for finding in inventory(make_gpu_xml([]), expect).values()} == {"fail"}


def test_unexpected_gpu_fails(make_gpu_xml, expect):
    found = inventory(make_gpu_xml(["00000000:1B:00.0", "00000000:AB:00.0", "00000000:CD:00.0"]), expect)
    assert found["gpu 0000:cd:00.0"].verdict == "fail"


@pytest.mark.parametrize(
    ("change", "verdict", "action"),
    [
        ({"memory": "81558 MiB"}, "fail", "investigate"),
        ({"memory": "81560 MiB"}, "fail", "investigate"),
        ({"memory": "N/A"}, "incomplete", "investigate"),
        ({"model": "NVIDIA H100 PCIe"}, "fail", "replace"),
        ({"model": "ERR!"}, "incomplete", "investigate"),
    ],
)
def test_wrong_gpu(make_gpu_xml, expect, change, verdict, action):
    found = inventory(make_gpu_xml(["00000000:1B:00.0", "00000000:AB:00.0"], **change), expect)
    assert {(finding.verdict, finding.action) for finding in found.values()} == {(verdict, action)}


def test_lost_gpu_fails_and_the_others_are_incomplete(expect):
    text = "Unable to determine the device handle for GPU 0000:AB:00.0: GPU is lost.  Reboot the system"
    found = inventory(text, expect, rc=15)
    assert (found[SECOND].verdict, found[SECOND].action) == ("fail", "reboot")
    assert found[FIRST].verdict == "incomplete"


def test_recorded_eight_gpus_fit_their_class(recorded, expect):
    buses = ("04", "05", "0b", "0c", "84", "85", "8b", "8c")
    parts = [{"slot": f"SXM{slot}", "address": f"0000:{bus}:00.0"} for slot, bus in enumerate(buses)]
    expect["gpu"] = {**expect["gpu"], "count": 8, "parts": parts}
    found = inventory(recorded("nvidia-smi/qx-h100x8-570.86.15.xml"), expect)
    assert [finding.verdict for finding in found.values()] == ["pass"] * 8


def xids(text, expect):
    return by_subject(
        xid.decide({"kernel_log": kernel_log.parse(Output("[0.0] Linux version 6.1\n" + text))}, typed(expect))
    )


def test_silent_log_passes_every_part(expect):
    assert {subject: finding.verdict for subject, finding in xids("", expect).items()} == {
        FIRST: "pass",
        SECOND: "pass",
        "host": "pass",
    }


def test_xid_79_blames_its_gpu_alone(expect):
    found = xids("[9.0] NVRM: Xid (PCI:0000:ab:00): 79, GPU has fallen off the bus.\n", expect)
    assert (found[SECOND].verdict, found[SECOND].measured, found[SECOND].action) == ("fail", "Xid 79", "reboot")
    assert found[FIRST].verdict == found["host"].verdict == "pass"


def test_worst_event_decides_and_all_are_named(expect):
    found = xids("[8.0] NVRM: Xid (PCI:0000:ab:00): 13, x\n[9.0] NVRM: Xid (PCI:0000:ab:00): 48, DBE\n", expect)
    assert (found[SECOND].measured, found[SECOND].action) == ("Xid 48", "reset_gpu")
    assert "Xid 13" in found[SECOND].reason and "Xid 48" in found[SECOND].reason


def test_xid_of_a_foreign_address_goes_to_the_host(expect):
    found = xids("[9.0] NVRM: Xid (PCI:0000:cd:00): 79, x\n", expect)
    assert found["host"].verdict == "fail" and "0000:cd:00.0" in found["host"].reason
    assert found[FIRST].verdict == "pass"


def test_unreadable_xid_line_is_incomplete(expect):
    assert xids("[9.0] NVRM: Xid (PCI:00\n", expect)["host"].verdict == "incomplete"


def test_fingerprint_names_what_is_unread(expect):
    (finding,) = fingerprint.decide({"uname": "6.1"}, typed(expect))
    assert finding.verdict == "incomplete" and "gpu_serials" in finding.reason and "kernel" not in finding.reason


@pytest.mark.parametrize("check", sorted(CHECKS))
def test_class_without_gpus_owes_no_gpu_findings(expect, check):
    expect["gpu"] = None
    assert not [subject for subject in CHECKS[check].subjects(typed(expect)) if subject.startswith("gpu")]
