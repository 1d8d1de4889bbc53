"""The load of the rails against the lab's perftest and numactl: a healthy node passes, a fault is told of its rail."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import nic_load as check
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output
from ansible_collections.muster.cluster.plugins.module_utils.rail_test import nic_load_program as program
from ansible_collections.muster.cluster.plugins.module_utils.stress import nic_load as stress
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import NoSettings, Tools
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.typed import RAILS_FABRIC, typed

ROOT = Path(__file__).resolve().parents[3]
RUN = f"import sys, {program.__name__} as program; sys.exit(program.main(sys.argv[2:]))"
EXPECT = typed({**expectations_of("lab_h100", {}, "test"), "fabric": RAILS_FABRIC})


class LabHost(LocalHost):
    """A host of the lab's tools and files, whose node program is that of this tree."""

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        assert argv[0] == stress.PROGRAM
        return super().run([sys.executable, "-c", RUN, *argv[1:]], timeout_seconds)


@pytest.fixture
def judged(host_place: Path) -> Callable[[], dict[str, Finding]]:
    """Load every memory once and return the findings by rail."""

    def run() -> dict[str, Finding]:
        tools = Tools(f"{host_place / 'bin'}:{os.environ['PATH']}", str(host_place / "root"))
        expect = replace(EXPECT, tools=tools)
        host = LabHost(tools.path, tools.root, {"PYTHONPATH": str(ROOT / "collections")})
        output = stress.collect(host, expect, 0.1, NoSettings())
        findings = check.decide({"nic_load": stress.parse(output)}, expect)
        assert [finding.subject for finding in findings] == list(check.subjects(expect))
        return {finding.subject.removeprefix("nic "): finding for finding in findings}

    return run


def test_healthy_node_passes(judged: Callable[[], dict[str, Finding]]) -> None:
    found = judged()
    assert {finding.verdict for finding in found.values()} == {"pass"}, found
    assert "numa 0 (far 21) 392." in found["rail6"].reason and "numa 1 (near) 392." in found["rail6"].reason


def test_faults_are_told_of_their_rails(
    judged: Callable[[], dict[str, Finding]], set_faults: Callable[..., None]
) -> None:
    set_faults(rail_slow={"rail2": 180}, nics_missing=["rail4"], nics_down=["rail5"], roce_no_gid=["rail7"])
    found = judged()
    assert {rail: finding.verdict for rail, finding in found.items() if finding.verdict != "pass"} == {
        "rail2": "fail",
        **dict.fromkeys(("rail4", "rail5", "rail7"), "incomplete"),
    }
    assert "numa 0 (near) 180 Gb/s, median of 5 on this node" in found["rail2"].reason
    assert "no RDMA device at 0000:9c:00.0" in found["rail4"].reason
    assert "Port number 1 state is Down" in found["rail5"].reason
    assert "no GID of type RoCE v2" in found["rail7"].reason


def test_perftest_without_cuda_and_a_missing_memory_are_incomplete(
    judged: Callable[[], dict[str, Finding]], set_faults: Callable[..., None]
) -> None:
    set_faults(perftest_lacks=["--use_cuda", "--use_cuda_dmabuf"])
    found = judged()
    assert {finding.verdict for finding in found.values()} == {"incomplete"}
    assert "unrecognized option '--use_cuda" in found["rail0"].reason
    set_faults(numa_off=True)
    found = judged()
    assert {finding.verdict for finding in found.values()} == {"incomplete"}
    assert "1 NUMA nodes have CPUs and memory, the class has 2" in found["rail0"].reason
