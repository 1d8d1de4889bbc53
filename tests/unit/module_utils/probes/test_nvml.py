"""NVML by ctypes: against a stand-in library, and what no answer is."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host import nvml_program
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import nvml

from tests.typed import typed
from tests.unit.module_utils.conftest import EXPECT, healthy_host

SOURCE = Path(__file__).resolve().parents[1] / "nvml_stand_in.c"
GOOD = {"address": "00000000:1B:00.0", "ecc_uncorrected": 0, "remap_pending": 0, "remap_failure": 0, "recovery": 0}


@pytest.fixture
def library(tmp_path):
    """Build the stand-in with these macros."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build a stand-in for NVML")

    def build(*macros):
        path = tmp_path / "libnvidia-ml.so.1"
        flags = [f"-D{macro}" for macro in macros]
        subprocess.run([compiler, "-shared", "-fPIC", *flags, "-o", str(path), str(SOURCE)], check=True, timeout=60)
        return str(path)

    return build


def asked(host, library):
    """Return the command that asks the library where no program has a GPU."""
    nvml.collect(host, typed({**EXPECT, "gpu": {**EXPECT["gpu"], "nvml": library}}))
    return (sys.executable, *host.runs[-1][1:], str(SOURCE.parent))


def answer(library):
    return LocalHost().run(asked(healthy_host(), library), 30)


def test_what_the_library_tells_is_read(library):
    found = nvml.parse(answer(library()))
    assert found == nvml.Nvml(
        "", {"0000:1b:00.0": nvml.NvmlGpu(0, 0, 0, 0), "0000:ab:00.0": nvml.NvmlGpu(5000000000, 1, 0, 1)}
    )


def test_lost_gpu_is_not_among_them(library):
    assert list(nvml.parse(answer(library("LOST=1"))).gpus) == ["0000:1b:00.0"]


def test_library_that_knows_no_recovery_action_tells_the_rest(library):
    assert nvml.parse(answer(library("OLD=1"))).gpus["0000:ab:00.0"] == nvml.NvmlGpu(5000000000, 1, 0, None)


def test_library_that_hangs_is_given_up(library):
    assert LocalHost().run(asked(healthy_host(), library("HANG=60")), 0.5).timed_out


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
    gpus = [{**GOOD, "ecc_uncorrected": "N/A", "remap_pending": -1, "remap_failure": True, "new": 1}]
    found = nvml.parse(Output(json.dumps({"gpus": gpus}))).gpus["0000:1b:00.0"]
    assert found == nvml.NvmlGpu(None, None, None, 0)


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
        '{"gpus": [7]}',
        '{"gpus": [{"address": "?"}]}',
        json.dumps({"gpus": [GOOD, GOOD]}),
        "[" * 100000,
    ],
)
def test_what_is_no_answer_is_unreadable(text):
    with pytest.raises(Unreadable):
        nvml.parse(Output(text))
