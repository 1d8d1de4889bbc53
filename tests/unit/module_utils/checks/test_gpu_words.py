"""What nvidia-smi says of a GPU in words, and what lspci says of a device that is not as it was: none of it passes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.judging.gpus_at_work import under_load
from ansible_collections.muster.cluster.plugins.module_utils.probes import lspci, nvidia_smi, nvlink
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import worst

from tests.typed import typed

TWO = ["00000000:1B:00.0", "00000000:AB:00.0"]
SECOND = "gpu SXM6 0000:ab:00.0"
CORRUPTED = "WARNING: infoROM is corrupted at gpu 0000:AB:00.0\n"


def said(check, expect, output):
    findings = CHECKS[check].decide({"nvidia_smi": nvidia_smi.parse(output)}, typed(expect))
    return {finding.subject: finding for finding in findings}


@pytest.mark.parametrize(
    "output",
    [
        lambda xml: Output(f"{xml}\n{CORRUPTED}"),
        lambda xml: Output(CORRUPTED + xml),
        lambda xml: Output(xml, CORRUPTED),
        lambda xml: Output(xml, CORRUPTED, 14),
    ],
)
def test_corrupted_inforom_fails_its_gpu_wherever_the_warning_stands(make_gpu_xml, expect, output):
    found = said("gpu_inventory", expect, output(make_gpu_xml(TWO)))
    assert (found[SECOND].verdict, found[SECOND].action) == ("fail", "rma")
    assert worst(one.verdict for name, one in found.items() if name != SECOND) == "pass"


def test_inforom_status_without_a_line_fails_the_host_and_another_warning_is_not_passed_over(make_gpu_xml, expect):
    xml = make_gpu_xml(TWO)
    assert said("gpu_inventory", expect, Output(xml, rc=14))["host"].verdict == "fail"
    other = said("gpu_inventory", expect, Output(xml, "WARNING: something is odd\n"))["host"]
    assert other.verdict == "incomplete" and "something is odd" in other.reason


def test_text_of_a_process_is_no_warning(make_gpu_xml, expect):
    process = f"<process_info><pid>1</pid><process_name>x\n{CORRUPTED}</process_name></process_info>"
    xml = make_gpu_xml(TWO).replace("<processes>", f"<processes>{process}", 1)
    assert worst(one.verdict for one in said("gpu_inventory", expect, Output(xml)).values()) == "pass"


@pytest.mark.parametrize("field", ["uuid", "serial"])
def test_two_gpus_with_one_identity_fail_both(make_gpu_xml, expect, field):
    report = nvidia_smi.parse(Output(make_gpu_xml(TWO)))
    first, second = report.gpus
    report = replace(report, gpus=(first, replace(second, **{field: getattr(first, field)})))
    findings = CHECKS["gpu_inventory"].decide({"nvidia_smi": report}, typed(expect))
    assert [finding.verdict for finding in findings] == ["fail", "fail"]
    # The GPUs of one board have one serial number.
    board = replace(report, gpus=tuple(replace(gpu, multi_gpu_board=True) for gpu in report.gpus))
    findings = CHECKS["gpu_inventory"].decide({"nvidia_smi": board}, typed(expect))
    assert {finding.verdict for finding in findings} == ({"pass"} if field == "serial" else {"fail"})


@pytest.mark.parametrize("flag", ["reset_required", "drain_and_reset_recommended"])
@pytest.mark.parametrize(("answer", "verdict"), [("Yes", "fail"), ("No", "pass"), ("Maybe", "incomplete")])
def test_reset_status_is_heard_beside_an_action_of_none(make_gpu_xml, expect, flag, answer, verdict):
    status = f"<gpu_reset_status><{flag}>{answer}</{flag}></gpu_reset_status>"
    xml = make_gpu_xml(TWO).replace("<gpu_recovery_action>", f"{status}<gpu_recovery_action>")
    assert {one.verdict for one in said("gpu_recovery", expect, Output(xml)).values()} == {verdict}


@pytest.mark.parametrize("words", ["Unknown Error", "[Unknown Error]", "ERR!", "Timeout"])
def test_sensor_that_says_an_error_fails_and_one_that_is_not_there_is_unread(make_gpu_xml, expect, words):
    xml = make_gpu_xml(TWO)
    assert said("gpu_power", expect, Output(xml.replace("32 C", words)))[SECOND].verdict == "fail"
    assert said("gpu_power", expect, Output(xml.replace("32 C", "N/A")))[SECOND].verdict == "incomplete"


def test_gpu_that_works_shows_load(make_gpu_xml):
    report = nvidia_smi.parse(Output(make_gpu_xml(TWO)))
    first, second = report.gpus
    assert not under_load(report)
    assert under_load(replace(report, gpus=(first, replace(second, utilisation_percent=97))))
    assert under_load(replace(report, gpus=(first, replace(second, power_watts=588.0))))


def test_class_without_ecc_asks_for_none_and_hears_what_the_driver_says_of_the_memory(make_gpu_xml, expect):
    expect["gpu"]["ecc"] = None
    report = nvidia_smi.parse(Output(make_gpu_xml(TWO)))

    def verdicts(check, **fields):
        changed = replace(report, gpus=tuple(replace(gpu, **fields) for gpu in report.gpus))
        return {finding.verdict for finding in CHECKS[check].decide({"nvidia_smi": changed}, typed(expect))}

    off = {"ecc": False, "ecc_pending": False, "volatile": nvidia_smi.Errors(), "aggregate": nvidia_smi.Errors()}
    assert verdicts("gpu_settings", **off) == verdicts("gpu_ecc", **off) == {"pass"}
    assert verdicts("gpu_settings") == {"fail"}
    assert verdicts("gpu_ecc", **off, memory_unrepairable=True) == {"fail"}
    assert verdicts("gpu_ecc", **off, not_understood=("unrepairable memory",)) == {"incomplete"}


DCGM = """+----------------------+
|  NvLink Link Status  |
+----------------------+
GPUs:
    gpuId 0:
        U U _ _
    gpuId 1:
        U D X _
NvSwitches:
    No NvSwitches found.

Key: Up=U, Down=D, Disabled=X, Not Supported=_
"""


def test_dcgmi_tells_links_that_are_down_and_no_speed():
    first, second = nvlink.parse(Output(DCGM))
    assert (first.speeds, second.speeds) == ({0: None, 1: None}, {0: None, 1: 0.0, 2: 0.0})
    for cut in ("Key: Up=U", "NvSwitches:"):
        with pytest.raises(nvlink.Unreadable):
            nvlink.parse(Output(DCGM[: DCGM.index(cut)]))


DEVICE = """0000:1b:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr+ NonFatalErr+ FatalErr+ UnsupReq+
\t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop+ FLReset-
\t\t\tMaxPayload 256 bytes, MaxReadReq 4096 bytes
\t\tDevSta:\tCorrErr- NonFatalErr- FatalErr- UnsupReq- AuxPwr- TransPend-
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 32GT/s (ok), Width x16 (ok)
\tCapabilities: [100 v2] Advanced Error Reporting
\t\tUESta:\tDLP- SDES- TLP- FCP- CmpltTO- CmpltAbrt- UnxCmplt- RxOF- MalfTLP- ECRC- UnsupReq- ACSViol-

"""
PORT = """0000:00:01.0 PCI bridge: Intel Corporation Device 352a (rev 04)
\tBus: primary=00, secondary=1b, subordinate=1b, sec-latency=0
\tCapabilities: [40] Express (v2) Root Port (Slot-), MSI 00
\t\tDevCtl:\tCorrErr+ NonFatalErr+ FatalErr+ UnsupReq+
\t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop+ FLReset-
\t\t\tMaxPayload 256 bytes, MaxReadReq 4096 bytes

"""


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        ("", "", ("pass", "none")),
        ("(rev a1)", "(rev ff) (prog-if ff)", ("fail", "reboot")),
        (DEVICE.partition("\n")[2], "\t!!! Unknown header type 7f\n\n", ("fail", "reboot")),
        ("DLP-", "DLP+", ("fail", "reseat")),
        ("SDES-", "SDES+", ("fail", "reseat")),
        ("MalfTLP-", "MalfTLP+", ("fail", "reseat")),
        ("FatalErr- UnsupReq- AuxPwr", "FatalErr+ UnsupReq- AuxPwr", ("fail", "reseat")),
        ("CmpltTO-", "CmpltTO+", ("pass", "investigate")),
        # Software that looks for devices causes them.
        ("UnsupReq- ACSViol", "UnsupReq+ ACSViol", ("pass", "none")),
        ("CorrErr- NonFatalErr-", "CorrErr+ NonFatalErr+", ("pass", "none")),
        ("MaxPayload 256 bytes, MaxReadReq", "MaxPayload 128 bytes, MaxReadReq", ("fail", "reseat")),
        ("MaxPayload 512 bytes", "MaxPayload 256 bytes", ("pass", "none")),
    ],
)
def test_gpu_that_fell_off_the_bus_erred_or_was_set_to_small_packets(expect, old, new, answer):
    assert old in DEVICE
    expect["gpu"].update(count=1, parts=[{"slot": "SXM1", "address": "0000:1b:00.0"}])
    devices = lspci.parse(Output(PORT + DEVICE.replace(old, new, 1) if old else PORT + DEVICE))
    finding = CHECKS["pcie_links"].decide({"lspci": devices}, typed(expect))[0]
    assert (finding.verdict, finding.action) == answer, finding.reason


def test_packets_of_a_port_that_is_set_to_small_ones_too_are_alike(expect):
    expect["gpu"].update(count=1, parts=[{"slot": "SXM1", "address": "0000:1b:00.0"}])
    text = (PORT + DEVICE).replace("MaxPayload 256 bytes, MaxReadReq", "MaxPayload 128 bytes, MaxReadReq")
    finding = CHECKS["pcie_links"].decide({"lspci": lspci.parse(Output(text))}, typed(expect))[0]
    assert finding.verdict == "pass"


def test_any_device_that_does_not_answer_fails_the_host(expect):
    gone = "0000:02:00.0 PCI bridge: Broadcom / LSI PEX890xx (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n\n"
    findings = CHECKS["pcie_links"].decide({"lspci": lspci.parse(Output(PORT + gone + DEVICE))}, typed(expect))
    answers = {finding.subject: finding for finding in findings}
    assert answers["pci 0000:02:00.0"].verdict == answers["host"].verdict == "fail"
    assert "does not answer" in answers["pci 0000:02:00.0"].reason
