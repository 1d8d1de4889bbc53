"""What NVML tells of each GPU, against the class."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import nvml as check
from ansible_collections.muster.cluster.plugins.module_utils.probes.nvml import Nvml, NvmlGpu

from tests.typed import typed

GOOD = NvmlGpu(0, 0, 0, 0)


def answers(expect, gpu, busy=""):
    gpus = {"0000:1b:00.0": GOOD, **({"0000:ab:00.0": gpu} if gpu else {})}
    found = check.decide({"nvml": Nvml(busy, gpus)}, typed(expect))
    assert [finding.subject for finding in found] == list(check.subjects(typed(expect)))
    return [(finding.verdict, finding.action) for finding in found]


@pytest.mark.parametrize(
    ("gpu", "answer"),
    [
        (GOOD, ("pass", "none")),
        (None, ("fail", "reboot")),
        (NvmlGpu(1, 0, 0, 0), ("fail", "reset_gpu")),
        (NvmlGpu(0, 1, 0, 0), ("fail", "reset_gpu")),
        (NvmlGpu(0, 1, 1, 1), ("fail", "rma")),
        (NvmlGpu(0, 0, 0, 1), ("fail", "reset_gpu")),
        (NvmlGpu(0, 0, 0, 2), ("fail", "reboot")),
        (NvmlGpu(0, 0, 0, 9), ("fail", "investigate")),
        (NvmlGpu(0, 0, 0, None), ("pass", "none")),
        (NvmlGpu(None, 0, 0, 0), ("incomplete", "investigate")),
        (NvmlGpu(0, None, None, 0), ("incomplete", "investigate")),
        (NvmlGpu(0, 0, 0, None, 15), ("fail", "reboot")),
        (NvmlGpu(5, 0, 1, 1, 15), ("fail", "reboot")),
        (NvmlGpu(0, 0, 0, 0, 16), ("fail", "reset_gpu")),
        (NvmlGpu(0, 0, 0, 0, None), ("incomplete", "investigate")),
    ],
)
def test_gpu_is_judged_and_the_other_one_passes(expect, gpu, answer):
    assert answers(expect, gpu) == [("pass", "none"), answer]


@pytest.mark.parametrize(
    ("refused", "words"),
    [((15,), "refuses 1 of the GPUs that it counts, 1 as lost"), ((999,), "refuses 1 of the"), ((), "does not see it")],
)
def test_gpu_without_a_handle_is_known_by_its_absence(expect, refused, words):
    first, second = check.decide({"nvml": Nvml("", {"0000:1b:00.0": GOOD}, refused)}, typed(expect))
    assert (first.verdict, second.verdict, second.action) == ("pass", "fail", "reboot")
    assert words in second.reason and "0000:ab:00.0" in second.subject


def test_gpu_without_spare_rows_owes_no_remapping(expect):
    expect["gpu"]["row_remap"] = None
    assert answers(expect, NvmlGpu(0, None, None, None))[1] == ("pass", "none")


def test_busy_node_is_not_asked_and_whoever_asks_gets_no_pass(expect):
    assert check.IDLE_ONLY
    found = check.decide({"nvml": Nvml("python (pid 9)", {})}, typed(expect))
    assert [(finding.verdict, "python (pid 9)" in finding.reason) for finding in found] == [("incomplete", True)] * 2


def test_class_without_the_library_owes_nothing(expect):
    assert check.subjects(typed({**expect, "gpu": {**expect["gpu"], "nvml": None}})) == []
    assert check.subjects(typed({**expect, "gpu": None})) == []
