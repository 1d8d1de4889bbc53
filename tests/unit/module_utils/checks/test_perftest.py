"""A perftest that cannot reach the memory of GPUs as declared is found before the node is taken from the queue."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import perftest as check
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import perftest as probe

from tests.typed import RAILS_FABRIC, typed

HELP = """Usage:
  ib_write_bw            start a server and wait for connection

Options:
  -d, --ib-dev=<dev>  Use IB device <dev> (default first device found)
\t  --aes_xts Runs traffic with AES_XTS feature (encryption)
"""
CUDA = "      --use_cuda=<cuda device id> Use CUDA specific device for GPUDirect RDMA testing\n"
BUS_ID = "      --use_cuda_bus_id=<cuda full BUS id> Use CUDA specific device\n"
DMABUF = "      --use_cuda_dmabuf Use CUDA DMA-BUF for GPUDirect RDMA testing\n"


@pytest.mark.parametrize(
    ("help_text", "peer_memory", "verdict", "said"),
    [
        (HELP + CUDA + BUS_ID + DMABUF, "dmabuf", "pass", ""),
        (HELP + CUDA + DMABUF, "nvidia_peermem", "pass", ""),
        (HELP + CUDA, "nvidia_peermem", "pass", ""),
        (HELP + CUDA, "dmabuf", "fail", "ib_write_bw has no --use_cuda_dmabuf, which fabric.peer_memory asks for"),
        (HELP, "dmabuf", "fail", "ib_write_bw was built without CUDA: declare perftest in gpu_stack_tools"),
        (HELP + BUS_ID, "nvidia_peermem", "fail", "was built without CUDA"),
        (HELP + DMABUF, "dmabuf", "fail", "was built without CUDA"),
    ],
)
def test_options_of_the_test_are_there(
    expect: dict[str, Any], help_text: str, peer_memory: str, verdict: str, said: str
) -> None:
    declared = typed({**expect, "fabric": {**RAILS_FABRIC, "peer_memory": peer_memory}})
    # Asked for help, perftest ends with 1.
    (finding,) = check.decide({"perftest": probe.parse(Output(help_text, rc=1))}, declared)
    assert (finding.verdict, finding.subject) == (verdict, *check.subjects(declared))
    assert said in finding.reason


def test_owed_only_where_rails_are_tested_from_the_memory_of_gpus(expect: dict[str, Any]) -> None:
    declared = {**expect, "fabric": RAILS_FABRIC}
    assert check.subjects(typed(declared)) == ["perftest"]
    assert check.subjects(typed({**declared, "rdma": {**expect["rdma"], "gpu_direct": False}})) == []
    assert check.subjects(typed({**declared, "gpu": None})) == []
    assert check.subjects(typed({**declared, "fabric": None})) == []


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (Output("", "ib_write_bw: error while loading shared libraries: libcuda.so.1: cannot open", 127), "libcuda"),
        (Output(HELP + CUDA, "Killed", 1), "exit status 1: Killed"),
        (Output(HELP + CUDA, rc=-9), "exit status -9: no message"),
        (Output("", rc=1), "expected perftest's usage and options"),
        (Output((HELP + CUDA)[:-5], rc=1), "expected perftest's usage and options"),
    ],
)
def test_help_that_is_cut_or_refused_is_no_answer(output: Output, said: str) -> None:
    with pytest.raises(Unreadable, match=said):
        probe.parse(output)
