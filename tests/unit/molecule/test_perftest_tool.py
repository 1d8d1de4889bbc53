"""What the lab's ib_write_bw and ib_write_lat print: the layout of real ones, and read by Muster as theirs is."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import perftest as probe
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.perftest import (
    BANDWIDTH,
    LATENCY,
    RailTest,
    parse,
)

ROOT = Path(__file__).parents[3]
RECORDED = ROOT.parent / "shared" / "recorded" / "perftest"
MINE = {"ip": "172.16.0.1", "qpn": "289"}
GIVEN = {"device": "mlx5_0", "queue_pairs": "1", "gid": "3", "size": "65536"}


@pytest.fixture(scope="module")
def tool() -> Any:
    place = ROOT / "molecule" / "lab" / "tools" / "perftest_tool.py"
    spec = importlib.util.spec_from_file_location("perftest_tool", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def skeleton(text: str) -> list[str]:
    """Return a report's lines without the figures and names of one run."""
    begin = text.index("RDMA_Write")
    lines = [line.strip() for line in text[begin:].splitlines() if "CPU Frequency" not in line]
    found = [re.sub(r"\b(0x[0-9a-f]+|[0-9]+(\.[0-9]+)?(:[0-9]+)*)\b", "N", line) for line in lines]
    # Whether NIC and tool do these is a matter of the run.
    words = [re.sub(r"(?<=: )(ON|OFF|Dynamic|mlx5_N|mlx5_[0-9]+)\b", "W", line) for line in found]
    return [re.sub(r"\s+", " ", line).replace("CQE Poll Batch : N", "CQE Poll Batch : W") for line in words if line]


def test_bandwidth_report_has_the_recorded_layout(tool: Any) -> None:
    path = RECORDED / "ib_write_bw-roce-bidir-peak-not-measured.txt"
    if not path.exists():
        pytest.skip(f"no recorded outputs at {RECORDED}")
    given = {**GIVEN, "seconds": "5"}
    simulated = tool.heading(BANDWIDTH, given, (138, 137), MINE) + tool.bandwidth(given, 560845, 98.02)
    recorded = path.read_text().replace("RDMA_Write Bidirectional BW Test", "RDMA_Write BW Test")
    assert skeleton(simulated) == skeleton(recorded)


def test_simulated_reports_are_read_to_their_figure(tool: Any) -> None:
    bandwidth = RailTest("single", BANDWIDTH, "rail0", "b", "a", 28301, 65536, seconds=1)
    text = tool.heading(BANDWIDTH, GIVEN, (1, 2), MINE) + tool.bandwidth({**GIVEN, "seconds": "1"}, 1000, 391.9)
    assert parse(text, bandwidth).value == 391.9
    latency = RailTest("single", LATENCY, "rail0", "b", "a", 28301, 2, iterations=1000)
    text = tool.heading(LATENCY, GIVEN, (1, 2), MINE) + tool.latency({**GIVEN, "size": "2"}, 1000, 2.21)
    assert parse(text, latency).value == 2.21


def test_report_from_the_memory_of_a_gpu_is_read_too(tool: Any) -> None:
    bandwidth = RailTest("single", BANDWIDTH, "rail0", "b", "a", 28301, 65536, seconds=1, gpu=3, dmabuf=True)
    before, after = tool.cuda({**GIVEN, "gpu": "3"})
    table = tool.bandwidth({**GIVEN, "seconds": "1"}, 1000, 391.9)
    assert parse(before + tool.heading(BANDWIDTH, GIVEN, (1, 2), MINE) + table + after, bandwidth).value == 391.9


@pytest.mark.parametrize("lacks", [[], ["--use_cuda_dmabuf"], ["--use_cuda", "--use_cuda_dmabuf"]])
def test_what_a_build_lacks_is_not_in_its_help_and_refused(tool: Any, tmp_path: Path, lacks: list[str]) -> None:
    (tmp_path / "root/perftest").mkdir(parents=True)
    (tmp_path / "root/perftest/fault").write_text(f"lacks={' '.join(lacks)}\n")
    tool.PLACE = str(tmp_path)
    asked = ["--use_cuda=3", "--use_cuda_dmabuf"]
    text, status = tool.run(BANDWIDTH, ["--help"])
    options = probe.parse(Output(text, rc=status))
    assert {"--use_cuda", "--use_cuda_dmabuf"} - options == set(lacks)
    if lacks:
        with pytest.raises(SystemExit, match=f"unrecognized option '{lacks[0]}'"):
            tool.arguments(BANDWIDTH, asked, lacks)
    else:
        assert tool.arguments(BANDWIDTH, asked, lacks)["gpu"] == "3"
        with pytest.raises(SystemExit, match="cannot be used without CUDA"):
            tool.arguments(BANDWIDTH, asked[::-1], lacks)
