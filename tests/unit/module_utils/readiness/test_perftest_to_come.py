"""A perftest that cannot reach the memory of GPUs is named before anything is installed, in the words of the check."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.readiness import perftest_to_come

from tests.fake_host import FakeHost
from tests.typed import RAILS_FABRIC, typed

HELP = "Usage:\n  ib_write_bw\n\nOptions:\n  -d, --ib-dev=<dev>  Use IB device\n"
CUDA = "      --use_cuda=<cuda device id> Use CUDA\n"
DMABUF = "      --use_cuda_dmabuf Use CUDA DMA-BUF\n"
ABSENT = Output(rc=None, error="ib_write_bw: not found in /usr/bin")
NO_DRIVER = Output("", "ib_write_bw: error while loading shared libraries: libcuda.so.1: cannot open", 127)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (Output(HELP + CUDA + DMABUF, rc=1), ""),
        (NO_DRIVER, ""),
        (Output(HELP, rc=1), "perftest: ib_write_bw was built without CUDA: declare perftest in gpu_stack_tools"),
        (Output(HELP + CUDA, rc=1), "perftest: ib_write_bw has no --use_cuda_dmabuf"),
        (ABSENT, "perftest: ib_write_bw: not found in /usr/bin; declare perftest in gpu_stack_tools"),
        (Output("", "Killed", -9), "perftest: exit status -9: Killed; declare perftest"),
    ],
)
def test_perftest(expect: dict[str, Any], output: Output, said: str) -> None:
    host, declared = FakeHost({"ib_write_bw --help": output}), typed({**expect, "fabric": RAILS_FABRIC})
    told = perftest_to_come.lacks(host, declared, ["nccl-tests"], doca=False)
    assert bool(told) is bool(said) and all(each.startswith(said) for each in told)
    # Another one is to come.
    assert perftest_to_come.lacks(host, declared, ["perftest"], doca=False) == []
    assert perftest_to_come.lacks(host, declared, [], doca=True) == []


def test_not_asked_where_no_rail_is_tested_from_a_gpu(expect: dict[str, Any]) -> None:
    host = FakeHost()
    for other in ({"fabric": None}, {"fabric": RAILS_FABRIC, "rdma": {**expect["rdma"], "gpu_direct": False}}):
        assert perftest_to_come.lacks(host, typed({**expect, **other}), [], doca=False) == []
    assert host.runs == []
