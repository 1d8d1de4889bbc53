"""The table says what is so: what was tried is what stands in it, and what Muster builds is covered by it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.perftest import RailTest, argv_of
from ansible_collections.muster.cluster.plugins.module_utils.rounds.slurm_round import Job, NodeShare, srun_argv

from tests.contracts import page, systems, table
from tests.contracts.table import Tool, refuse_unknown
from tests.unit.module_utils.test_perftest import BW, LAT

TOOLS = [tool for tool in table.read().values() if not tool.unverified]


def test_what_stands_in_the_table_was_given_to_real_programs() -> None:
    told = {name: each["patterns"] for name, each in page.seen().items()}
    assert told == {tool.name: list(tool.patterns) for tool in TOOLS}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_program_was_asked_wherever_it_has_a_package(tool: Tool) -> None:
    asked = set(page.seen()[tool.name]["versions"])
    assert asked == {suite for suite in systems.suites() if tool.packages[suite]} != set()


def test_page_shows_the_table() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.render(page.seen())


@pytest.mark.parametrize(
    ("argv", "known"),
    [
        ("ethtool -S eth0", True),
        ("/usr/sbin/ethtool -S eth0", True),
        ("ethtool -S", False),
        ("ethtool -S eth0 more", False),
        ("ethtool -G eth0 rx 1 tx many", False),
        ("mlxlink -d 0000:1a:00.0 -m --json", True),
        ("mlxlink -d 1a:00.0 -m --json", False),
        ("systemctl stop a", True),
        ("systemctl stop a b", True),
        ("systemctl kill a", False),
        ("frobnicate", False),
        ("muster examine", True),
    ],
)
def test_argument_vector_is_known_by_its_form(argv: str, known: bool) -> None:
    if known:
        refuse_unknown(argv.split())
    else:
        with pytest.raises(pytest.fail.Exception):
            refuse_unknown(argv.split())


@pytest.mark.parametrize("gid_index", [None, 3])
@pytest.mark.parametrize("address", [None, "10.0.0.2", "fd00::2"])
@pytest.mark.parametrize("test", [BW, LAT, replace(BW, gpu=3), replace(BW, gpu=3, dmabuf=True)])
def test_every_end_of_a_rail_test_is_in_the_table(test: RailTest, address: str | None, gid_index: int | None) -> None:
    refuse_unknown(argv_of(test, "mlx5_0", gid_index, address))


@pytest.mark.parametrize("share", [NodeShare(tasks=1, gpus=0), NodeShare(tasks=8, gpus=8)])
def test_every_job_of_a_round_is_in_the_table(share: NodeShare) -> None:
    job = Job("muster-round-1", ("gpu-01", "gpu-02"), {}, 29500)
    refuse_unknown(srun_argv(job, "acceptance", share, 60, ["/usr/bin/python3", "-"]))
