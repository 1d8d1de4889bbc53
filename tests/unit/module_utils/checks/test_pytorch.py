"""PyTorch of the class' Python: there, of the declared version, and run by the driver."""

from dataclasses import replace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import pytorch
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import STAGE_CHECKS, examine, required
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes.nvidia_smi import Gpus
from ansible_collections.muster.cluster.plugins.module_utils.probes.pytorch import PyTorch

from tests.typed import typed

FOUND = PyTorch("3.12.3", "/opt/muster/pytorch-5f1c9a02e7d4", "2.8.0+cu128", "12.8", "2.3.2", "2.27.3")
GPUS = Gpus("570.86.15", ())
WHAT_TO_DO = "declare gpu_stack_pytorch, or name the Python that has PyTorch as pytorch.python of the class"


def judged(expect, found=FOUND, gpus=GPUS):
    (finding,) = pytorch.decide({"pytorch": found, "nvidia_smi": gpus}, typed(expect))
    return finding


def test_sound_pytorch_passes_and_preflight_owes_it(fake_host, expect):
    assert judged(expect).verdict == "pass"
    assert judged(expect).measured == "2.8.0+cu128"
    assert ("pytorch", "pytorch") in required("preflight", typed(expect))
    assert "pytorch" not in STAGE_CHECKS["burn_in"]
    found = {each.check: each.verdict for each in examine("preflight", fake_host, typed(expect)).findings}
    assert found["pytorch"] == "pass"


def test_host_without_that_python_is_incomplete_and_told_what_to_do(fake_host, expect):
    python = expect["pytorch"]["python"]
    fake_host.outputs[python] = Output(rc=None, error=f"{python}: No such file or directory")
    found = {each.check: each for each in examine("preflight", fake_host, typed(expect)).findings}
    assert found["pytorch"].verdict == "incomplete"
    assert found["pytorch"].reason == (
        f"no Python could be started as {python} ({python}: No such file or directory): {WHAT_TO_DO}"
    )
    assert found["fingerprint"].verdict == "incomplete" and "pytorch" in found["fingerprint"].reason


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ({"torch": None, "cuda": None}, "has no torch"),
        ({"numpy": None}, "has no numpy"),
        ({"torch": None, "numpy": None}, "has no torch and no numpy"),
    ],
)
def test_python_without_its_packages_is_incomplete(expect, lost, words):
    finding = judged(expect, replace(FOUND, **lost))
    assert finding.verdict == "incomplete"
    python = expect["pytorch"]["python"]
    assert finding.reason == f"{python} (/opt/muster/pytorch-5f1c9a02e7d4) {words}: {WHAT_TO_DO}"


def test_another_version_than_the_class_names_fails(expect):
    expect["pytorch"]["version"] = "2.8.0+cu128"
    assert judged(expect).verdict == "pass"
    expect["pytorch"]["version"] = "2.8.0"
    finding = judged(expect)
    assert (finding.verdict, finding.measured, finding.expected) == ("fail", "2.8.0+cu128", "2.8.0")
    assert "expected 2.8.0 (pytorch.version of the class)" in finding.reason


def test_build_without_cuda_fails_where_something_needs_it(expect):
    cpu = replace(FOUND, torch="2.13.0+cpu", cuda=None)
    assert judged(expect, cpu).verdict == "fail"
    assert judged(expect, cpu).reason.endswith("was built without CUDA, and gpu_stress.device is cuda")
    expect["gpu_stress"] = None
    assert judged(expect, cpu).reason.endswith("was built without CUDA, and collective.backend is nccl")
    expect["collective"]["backend"] = "gloo"
    assert judged(expect, cpu, None).verdict == "pass"


def test_cuda_that_the_driver_does_not_run_fails_with_both_numbers(expect):
    newer = replace(FOUND, torch="2.10.0+cu130", cuda="13.0")
    finding = judged(expect, newer)
    assert finding.verdict == "fail"
    assert "CUDA 13.0 needs driver 580.65.06 or later, found 570.86.15" in finding.reason
    assert judged(expect, newer, Gpus("580.65.06", ())).verdict == "pass"


@pytest.mark.parametrize("gpus", [None, Gpus(None, ())])
def test_driver_that_could_not_be_read_passes_nobody(expect, gpus):
    assert judged(expect, gpus=gpus).verdict == "incomplete"
