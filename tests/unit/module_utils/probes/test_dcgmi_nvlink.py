"""What each NVLink has counted, from one run of dcgmi for each GPU."""

import json
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import dcgmi_nvlink
from ansible_collections.muster.cluster.plugins.module_utils.probes.dcgmi_nvlink import COUNTERS, LinkErrors

from tests.fake_host import FakeHost
from tests.typed import typed

HEALTHY = (Path(__file__).parents[3] / "healthy" / "dcgmi_nvlink.txt").read_text()
LISTING = """==> dcgmi discovery -l <==
1 GPU found.
| GPU ID | Device |
| 0 | Name: x |
| | PCI Bus ID: 00000000:60:00.0 |
"""


def parse(text, heading="==> dcgmi nvlink -e -g 0 -j <=="):
    return dcgmi_nvlink.parse(Output(f"{LISTING}\n{heading}\n{text}"))["0000:60:00.0"]


def test_healthy_host():
    found = dcgmi_nvlink.parse(Output(HEALTHY))
    assert len(found) == 8
    assert found["0000:8c:00.0"] == LinkErrors({link: dict.fromkeys(COUNTERS, 0) for link in range(18)})


def test_recorded_counters(recorded):
    found = parse(recorded("dcgmi/nvlink-errors-json-crc.json"))
    assert (found.trouble, sorted(found.links), found.links[0]["CRC Data Error"]) == ("", [0, 1], 12)
    clean = parse(recorded("dcgmi/nvlink-errors-json-pass.json"))
    assert {count for link in clean.links.values() for count in link.values()} == {0}


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("7", 7),
        (7, 7),
        ("N/A", None),
        ("-1", None),
        ("", None),
        (None, None),
        (True, None),
        ("9223372036854775794", None),
    ],
)
def test_counter_that_is_no_count_is_none(value, count):
    body = {"Link 3": {"children": {"Replay Error": {"value": value}}}}
    found = parse("Warning: something\n" + json.dumps({"body": body, "header": ["NVLINK Error Counts", "GPU 0"]}))
    assert found.links == {3: {**dict.fromkeys(COUNTERS), "Replay Error": count}}


@pytest.mark.parametrize(
    ("text", "heading", "said"),
    [
        ("", "==> dcgmi nvlink -e -g 0 -j <==", "not JSON"),
        ('{"body": ', "==> dcgmi nvlink -e -g 0 -j <==", "not JSON"),
        ("[]", "==> dcgmi nvlink -e -g 0 -j <==", "not JSON"),
        ('{"body": {}, "header": ["GPU 1"]}', "==> dcgmi nvlink -e -g 0 -j <==", "no counters of GPU 0"),
        ('{"header": ["GPU 0"]}', "==> dcgmi nvlink -e -g 0 -j <==", "no counters of GPU 0"),
        ("", "==> dcgmi nvlink -e -g 0 -j <== (exit status 255: Bad parameter)", "exit status 255: Bad parameter"),
        ("", "==> dcgmi nvlink -e -g 0 -j <== (no answer within 30 s)", "no answer"),
    ],
)
def test_gpu_of_which_nothing_was_read(text, heading, said):
    found = parse(text, heading)
    assert found.links == {} and said in found.trouble


@pytest.mark.parametrize(
    "text", ["", HEALTHY.replace("8 GPUs found", "9 GPUs found"), HEALTHY.replace("discovery -l <==", "x <==")]
)
def test_gpus_that_cannot_be_told_are_unreadable(text):
    with pytest.raises(Unreadable, match="dcgmi discovery"):
        dcgmi_nvlink.parse(Output(text))


@pytest.mark.parametrize(("change", "asked"), [({}, 2), ({"dcgm": None}, 0), ({"gpu": None}, 0)])
def test_every_gpu_of_the_class_is_asked(expect, change, asked):
    host = FakeHost(answer=Output(""))
    dcgmi_nvlink.collect(host, typed({**expect, **change}))
    assert [argv[4] for argv in host.runs[1:]] == [str(gpu) for gpu in range(asked)]
    assert len(host.runs) == (asked + 1 if asked else 0)
