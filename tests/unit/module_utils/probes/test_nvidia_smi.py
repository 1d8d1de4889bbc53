"""nvidia-smi -q -x."""

import re

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import nvidia_smi

TWO = ["00000000:1B:00.0", "00000000:AB:00.0"]


def test_recorded_eight_h100(recorded):
    report = nvidia_smi.parse(Output(recorded("nvidia-smi/qx-h100x8-570.86.15.xml")))
    assert report.driver == "570.86.15"
    assert [gpu.address for gpu in report.gpus][:3] == ["0000:04:00.0", "0000:05:00.0", "0000:0b:00.0"]
    assert {(gpu.model, gpu.memory_mib, gpu.vbios) for gpu in report.gpus} == {
        ("NVIDIA H100 80GB HBM3", 81559, "96.00.A5.00.01")
    }
    assert [gpu.module_id for gpu in report.gpus] == list("42138657")
    assert report.gpus[0].serial == "1652923034028"


def test_recorded_older_layout(recorded):
    (gpu,) = nvidia_smi.parse(Output(recorded("nvidia-smi/qx-a10g.xml"))).gpus
    assert (gpu.address, gpu.memory_mib, gpu.module_id) == ("0000:00:1e.0", 23028, "0")


def test_recorded_list_shorter_than_its_own_count_is_unreadable(recorded):
    with pytest.raises(Unreadable, match="says 4 of attached GPUs and describes 1"):
        nvidia_smi.parse(Output(recorded("nvidia-smi/qx-a100-sxm4-v12.xml")))


@pytest.mark.parametrize("missing", ["N/A", "ERR!", "[Unknown Error]", "", "GPU requires reset"])
def test_field_that_could_not_be_read_is_none(make_gpu_xml, missing):
    report = nvidia_smi.parse(Output(make_gpu_xml(TWO, model=missing, memory=missing, serial=missing)))
    assert {(gpu.model, gpu.memory_mib, gpu.serial) for gpu in report.gpus} == {(None, None, None)}


@pytest.mark.parametrize(
    "change",
    [
        lambda xml: "",
        lambda xml: "No devices were found\n",
        lambda xml: xml.replace("nvidia_smi_log>", "log>"),
        lambda xml: xml.replace("<attached_gpus>2</attached_gpus>", ""),
        lambda xml: xml.replace("<attached_gpus>2", "<attached_gpus>8"),
        lambda xml: xml.replace("00000000:1B:00.0", "00000000:AB:00.0"),
        lambda xml: xml.replace("00000000:1B:00.0", "ERR!"),
    ],
)
def test_wrong_report_is_unreadable(make_gpu_xml, change):
    with pytest.raises(Unreadable):
        nvidia_smi.parse(Output(change(make_gpu_xml(TWO))))


def test_truncated_anywhere_is_unreadable(make_gpu_xml):
    xml = make_gpu_xml(TWO)
    # Before, inside and behind each tag and each text: what is cut inside a token reads alike wherever it is cut.
    tokens = [token.span() for token in re.finditer(r"<[^>]*>|[^<]+", xml)]
    for length in sorted({cut for start, end in tokens for cut in (start, (start + end) // 2, end)} - {len(xml)}):
        with pytest.raises(Unreadable):
            nvidia_smi.parse(Output(xml[:length]))


def test_failed_tool_is_unreadable_whatever_it_printed(make_gpu_xml):
    with pytest.raises(Unreadable, match="exit status 9"):
        nvidia_smi.parse(Output(make_gpu_xml(TWO), "NVIDIA-SMI has failed", 9))


@pytest.mark.parametrize(
    "gpu",
    [
        "GPU 0000:AB:00.0: GPU is lost.  Reboot the system to recover this GPU",
        "GPU0000:AB:00.0: GPU is lost. Reboot the system to recover this GPU",
        "GPU0000:AB:00.0: Unknown Error",
        "GPU1: 0000:AB:00.0: Unknown Error",
        "gpu 00000000:AB:00.0: GPU requires reset",
    ],
)
def test_lost_gpu_is_named(gpu):
    report = nvidia_smi.parse(Output("", f"Unable to determine the device handle for {gpu}\n", 15))
    assert report.lost == ("0000:ab:00.0",) and report.gpus == ()
