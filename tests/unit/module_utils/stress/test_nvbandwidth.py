"""Running nvbandwidth, and reading its JSON and tables."""

import json
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.stress import nvbandwidth
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import NoSettings

from tests.fake_host import FakeHost
from tests.typed import typed

HEALTHY = (Path(__file__).parents[3] / "healthy" / "nvbandwidth.txt").read_text()
LISTING, _, REST = HEALTHY.partition("\n\n==> nvbandwidth ")
HEADING, _, REPORT = REST.partition("\n")
TABLE = """\
nvbandwidth Version: v0.4
Built from Git version:

NOTE: This tool reports current measured bandwidth on your system.

CUDA Runtime Version: 12020
Driver Version: 535.129.03

{devices}
Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     55.42     55.37

SUM host_to_device_memcpy_ce 110.79

Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A    395.96
 1    396.02       N/A

SUM device_to_device_memcpy_read_ce 791.98
"""
DEVICES = "Device 0: NVIDIA H100 80GB HBM3 (00000000:{}:00)\nDevice 1: NVIDIA H100 80GB HBM3 (00000000:{}:00)\n"


def parse(text, rc=0, listing=LISTING):
    return nvbandwidth.parse(
        Output(f"{listing}\n\n==> nvbandwidth {HEADING}{f' (exit status {rc}: )' * bool(rc)}\n{text}")
    )


def listing_of(*rows):
    return "==> nvidia-smi --query-gpu=index,pci.bus_id --format=csv,noheader <==\n" + "\n".join(rows)


def test_only_what_the_class_judges_is_run_and_gpus_are_counted_by_address(expect):
    host = FakeHost(answer=Output(""))
    nvbandwidth.collect(host, typed(expect), 300, NoSettings())
    assert (host.commands[1], host.limits[1]) == (
        "env -u CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER=PCI_BUS_ID nvbandwidth -j -t host_to_device_memcpy_ce"
        " device_to_host_memcpy_ce device_to_device_memcpy_read_ce",
        300,
    )


def test_healthy_run():
    run = nvbandwidth.parse(Output(HEALTHY))
    assert list(run.matrices) == [
        "host_to_device_memcpy_ce",
        "device_to_host_memcpy_ce",
        "device_to_device_memcpy_read_ce",
    ]
    assert run.matrices["host_to_device_memcpy_ce"] == ((55.4, 55.41, 55.42, 55.43, 55.44, 55.45, 55.46, 55.47),)
    peer = run.matrices["device_to_device_memcpy_read_ce"]
    assert (len(peer), peer[0][0], peer[0][1]) == (8, None, 396.0)
    assert (run.addresses[0], run.addresses[7], run.corrupt, run.troubles) == ("0000:04:00.0", "0000:8c:00.0", "", {})
    assert parse(REPORT) == run


def test_recorded_json_of_one_gpu(recorded):
    run = parse(recorded("other/nvbandwidth-json-single-gpu-gen3.json"), listing=listing_of("0, 00000000:60:00.0"))
    assert run.matrices["host_to_device_memcpy_ce"] == ((12.3964,),)
    assert run.troubles["device_to_device_memcpy_read_ce"] == "Waived"
    assert run.addresses == ["0000:60:00.0"]


@pytest.mark.parametrize(
    ("name", "testcase", "first"),
    [
        ("h2d-ce-8gpu-gen4.txt", "host_to_device_memcpy_ce", 26.03),
        ("h2d-bidir-8gpu-gen4.txt", "host_to_device_bidirectional_memcpy_ce", 18.56),
    ],
)
def test_recorded_table(recorded, name, testcase, first):
    run = parse(recorded(f"nvbandwidth/{name}"))
    (matrix,) = run.matrices.values()
    assert (list(run.matrices), len(matrix), len(matrix[0]), matrix[0][0]) == ([testcase], 1, 8, first)


def test_recorded_wrong_data_is_no_unreadable_output(recorded):
    run = parse(recorded("nvbandwidth/pattern-mismatch-assert.txt"), rc=1)
    assert run.corrupt.startswith("device_to_device_memcpy_read_ce: Invalid value when checking the pattern")
    assert run.matrices == {}


def test_wrong_data_in_json():
    said = "Invalid value when checking the pattern at <0x7f>: Current offset [ 4/8]"
    assert said[:20] in parse('{"nvbandwidth": {"error": "' + said + '"}}', rc=1).corrupt


@pytest.mark.parametrize("form", ["{table}{error}", '{{"nvbandwidth": {{"error": "{error}"}}}}'])
def test_error_of_the_hardware_is_a_fault_and_no_unreadable_output(form):
    error = "[CUDA_ERROR_ECC_UNCORRECTABLE] uncorrectable ECC error encountered in expression cuCtxSynchronize()"
    assert "ECC_UNCORRECTABLE" in parse(form.format(table=TABLE.format(devices=""), error=error), rc=1).corrupt


def test_document_before_an_error_is_no_whole_one():
    text = '{"nvbandwidth": {"testcases": []}}\nterminate called after throwing an instance of \'std::runtime_error\'\n'
    with pytest.raises(Unreadable, match="terminate called"):
        parse(text)


def test_table_before_an_error_is_no_whole_one():
    text = TABLE.format(devices="") + "[CUDA_ERROR_LAUNCH_FAILED] unspecified launch failure in expression x\n"
    with pytest.raises(Unreadable, match="CUDA_ERROR_LAUNCH_FAILED"):
        parse(text)


def test_table():
    run = parse(TABLE.format(devices=""), listing=listing_of("0, 00000000:0B:00.0", "1, 00000000:8B:00.0"))
    assert run.matrices == {
        "host_to_device_memcpy_ce": ((55.42, 55.37),),
        "device_to_device_memcpy_read_ce": ((None, 395.96), (396.02, None)),
    }
    assert run.addresses == ["0000:0b:00.0", "0000:8b:00.0"]


@pytest.mark.parametrize(
    ("named", "listed", "addresses"),
    [
        # What nvbandwidth itself says of its order counts.
        (("8b", "0b"), ("0, 00000000:0B:00.0", "1, 00000000:8B:00.0"), ["0000:8b:00.0", "0000:0b:00.0"]),
        (("8b", "0b"), (), ["0000:8b:00.0", "0000:0b:00.0"]),
        (("8b", "0c"), ("0, 00000000:0B:00.0", "1, 00000000:8B:00.0"), []),
        (None, ("0, 00000000:0B:00.0", "1, [N/A]"), []),
        (None, ("0, 00000000:0B:00.0", "2, 00000000:8B:00.0"), []),
        # Then neither is it the order in which CUDA was told to count.
        (None, ("0, 00000000:8B:00.0", "1, 00000000:0B:00.0"), []),
        (None, (), []),
    ],
)
def test_gpus_are_known_only_where_nothing_speaks_against_it(named, listed, addresses):
    devices = DEVICES.format(*named) if named else ""
    assert list(parse(TABLE.format(devices=devices), listing=listing_of(*listed)).addresses) == addresses


def test_listing_that_failed_names_nobody():
    broken = listing_of("0, 00000000:0B:00.0").replace("<==", "<== (exit status 15: lost)")
    assert list(parse(TABLE.format(devices=""), listing=broken).addresses) == []


@pytest.mark.parametrize("cell", ["N/A", "nan", "inf", "-1", "", None, [], True, "55,4"])
def test_cell_that_is_no_amount_is_none(cell):
    case = {"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_matrix": [[cell]]}
    run = parse(json.dumps({"nvbandwidth": {"testcases": [case]}}))
    assert run.matrices == {"host_to_device_memcpy_ce": ((None,),)}


@pytest.mark.parametrize(
    ("case", "trouble"),
    [
        ({"status": "Waived"}, "Waived"),
        ({"status": "ERROR"}, "ERROR"),
        ({"status": "Running", "bandwidth_matrix": [["55"]]}, "Running"),
        ({"status": "Passed", "error": "late", "bandwidth_matrix": [["55"]]}, "Passed late"),
        ({"status": "Passed"}, "no bandwidth_matrix"),
        ({"status": "Passed", "bandwidth_matrix": [55]}, "no bandwidth_matrix"),
        ({"bandwidth_matrix": [["55"]]}, "None"),
    ],
)
def test_test_case_that_did_not_pass_has_no_matrix(case, trouble):
    run = parse(json.dumps({"nvbandwidth": {"testcases": [{"name": "a", **case}]}}))
    assert (run.matrices, run.troubles) == ({}, {"a": trouble})


@pytest.mark.parametrize(
    ("text", "rc", "said"),
    [
        ("", 0, "no matrix of bandwidths"),
        ("Running host_to_device_memcpy_ce.\n", 0, "no matrix of bandwidths"),
        ("Killed\n", 137, "exit status 137: Killed"),
        (REPORT, 1, "exit status 1 after a whole report"),
        (REPORT[:500], 0, "not JSON"),
        ("{}", 0, "no key 'nvbandwidth'"),
        ('{"nvbandwidth": {}}', 0, "no list of testcases"),
        (
            '{"nvbandwidth": {"error": "[CUDA_ERROR_SYSTEM_NOT_READY]"}}',
            1,
            "reports an error: .CUDA_ERROR_SYSTEM_NOT_READY",
        ),
    ],
)
def test_run_without_a_measurement(text, rc, said):
    with pytest.raises(Unreadable, match=said):
        parse(text, rc)


def test_output_without_nvbandwidth():
    with pytest.raises(Unreadable, match="no output of nvbandwidth"):
        nvbandwidth.parse(Output(LISTING))
    with pytest.raises(Unreadable, match="not found"):
        nvbandwidth.parse(Output("==> nvbandwidth -j -t a <== (nvbandwidth: not found)\n"))
