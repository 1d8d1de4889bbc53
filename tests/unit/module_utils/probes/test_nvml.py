"""NVML by ctypes: against the lab's library, and what no answer is."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host import nvml_program
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import nvml

from tests.typed import typed
from tests.unit.module_utils.conftest import EXPECT, LAB_CODE, healthy_host

sys.path.insert(0, str(LAB_CODE))

import lab_gpus
import nvidia
from lab_machine import LabError
from lab_state import declared

GOOD = {"address": "00000000:1B:00.0", "ecc_uncorrected": 0, "remap_pending": 0, "remap_failure": 0, "recovery": 0}
# What the library is told of the second GPU; each value may be an error of NVML's instead.
ERRORS, ROWS, ACTION = (
    "ecc_errors/volatile/dram_uncorrectable",
    "remapped_rows/remapped_row_pending",
    "gpu_recovery_action",
)
SICK = {
    ERRORS: "5000000000",
    "remapped_rows/remapped_row_corr": "7",
    "remapped_rows/remapped_row_unc": "9",
    ROWS: "Yes",
    ACTION: "Reset",
}
LOST, RESET = "GPU is lost", "GPU requires reset"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the library that the lab has in NVML's place."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler to build a stand-in for NVML")
    path = tmp_path_factory.mktemp("nvml") / nvidia.LIBRARY
    try:
        nvidia.library(path, ())
    except LabError as exc:
        pytest.skip(f"no stand-in for NVML: {exc}")
    return path


@pytest.fixture
def library(built):
    """Tell the library of two GPUs: a healthy one, and a sick one with other values of its own."""

    def tell(values=None, hang_seconds=0):
        state = declared("gpu-01", EXPECT["gpu"]["parts"], {"gpu_values": {"SXM6": SICK}})
        # The first line of a name counts.
        lines = [f"1\t{name}\t{value}\n" for name, value in (values or {}).items()]
        text = "".join([f"host\thang_seconds\t{hang_seconds}\n", *lines, lab_gpus.text_of(state)])
        built.with_name("gpus").write_text(text)
        return str(built)

    return tell


def asked(host, library):
    """Return the command that asks the library where no program has a GPU."""
    nvml.collect(host, typed({**EXPECT, "gpu": {**EXPECT["gpu"], "nvml": library}}))
    return (sys.executable, *host.runs[-1][1:], str(Path(__file__).parent))


def answer(library):
    return LocalHost().run(asked(healthy_host(), library), 30)


def test_what_the_library_tells_is_read(library):
    found = nvml.parse(answer(library()))
    assert found == nvml.Nvml(
        "", {"0000:1b:00.0": nvml.NvmlGpu(0, 0, 0, 0), "0000:ab:00.0": nvml.NvmlGpu(5000000000, 1, 0, 1)}
    )


@pytest.mark.parametrize("name", ["handle", "pci/pci_bus_id"])
def test_gpu_without_handle_or_address_is_not_among_them_and_its_status_is_told(library, name):
    found = nvml.parse(answer(library({name: LOST})))
    assert (list(found.gpus), found.refused) == (["0000:1b:00.0"], (15,))


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({ERRORS: LOST}, 15),
        ({ROWS: LOST}, 15),
        ({ACTION: LOST}, 15),
        ({ERRORS: RESET, ROWS: LOST}, 15),
        ({ACTION: RESET}, 16),
        ({ERRORS: "N/A", ROWS: "Unknown Error"}, 0),
    ],
)
def test_lost_gpu_is_told_by_any_value(library, values, status):
    found = nvml.parse(answer(library(values)))
    assert (found.gpus["0000:ab:00.0"].status, found.gpus["0000:1b:00.0"].status) == (status, 0)
    assert found.refused == ()


def test_library_that_knows_no_recovery_action_tells_the_rest(library):
    assert nvml.parse(answer(library({ACTION: "N/A"}))).gpus["0000:ab:00.0"] == nvml.NvmlGpu(5000000000, 1, 0, None)


def test_library_that_hangs_is_given_up(library):
    assert LocalHost().run(asked(healthy_host(), library(hang_seconds=60)), 0.5).timed_out


def test_missing_library_is_unreadable():
    with pytest.raises(Unreadable, match=r"libnone.so.1"):
        nvml.parse(answer("libnone.so.1"))


def test_class_without_the_library_is_not_asked(fake_host, expect):
    expect["gpu"]["nvml"] = None
    assert nvml.parse(nvml.collect(fake_host, typed(expect))) == nvml.Nvml("not declared", {})
    assert fake_host.runs == []


def test_program_that_has_a_gpu_open_makes_the_node_busy(tmp_path):
    for pid, name, opened in ((7, "nv-hostengine", "/dev/nvidia0"), (8, "bash", "/dev/nvidiactl"), (9, "python", "/x")):
        (tmp_path / f"{pid}/fd").mkdir(parents=True)
        (tmp_path / f"{pid}/comm").write_text(f"{name}\n")
        (tmp_path / f"{pid}/fd/3").symlink_to(opened)
    (tmp_path / "self").mkdir()
    assert nvml_program.who_has_a_gpu(str(tmp_path)) is None
    (tmp_path / "9/fd/4").symlink_to("/dev/nvidia7")
    assert nvml_program.who_has_a_gpu(str(tmp_path)) == "python (pid 9)"


def test_field_that_is_no_count_is_unknown():
    gpus = [{**GOOD, "ecc_uncorrected": "N/A", "remap_pending": -1, "remap_failure": True, "new": 1, "status": "x"}]
    found = nvml.parse(Output(json.dumps({"gpus": gpus}))).gpus["0000:1b:00.0"]
    assert found == nvml.NvmlGpu(None, None, None, 0, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"busy": ""}',
        '{"busy": null}',
        '{"busy": "x", "gpus": []}'[:-1],
        '{"gpus": {}}',
        '{"gpus": [], "refused": 15}',
        '{"gpus": [7]}',
        '{"gpus": [{"address": "?"}]}',
        json.dumps({"gpus": [GOOD, GOOD]}),
        "[" * 100000,
    ],
)
def test_what_is_no_answer_is_unreadable(text):
    with pytest.raises(Unreadable):
        nvml.parse(Output(text))
