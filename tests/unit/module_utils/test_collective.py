"""The program that ranks run: its pattern, its one line, its deadline; with PyTorch where there is one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils import collective

ROOT = Path(__file__).resolve().parents[3]
TORCH = ROOT / "build" / "lab" / "torch"
RUN = f"import sys, {collective.__name__} as collective; sys.exit(collective.main())"
SLURM = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_NODELIST": "gpu-[01-02]"}
ARGUMENTS = ("--backend=gloo", "--sizes=65536,1048576,44", "--iterations=3", "--warmup=1")


def start(arguments: tuple[str, ...], environment: Mapping[str, str], path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *ARGUMENTS, *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT / 'collections'}:{path}", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_sum_of_contributions_is_that_of_all_ranks() -> None:
    for ranks in range(1, 60):
        assert collective.total_contribution(ranks) == sum(collective.contribution(rank) for rank in range(ranks))


def test_sums_of_the_largest_fleet_are_exact_in_float32() -> None:
    assert collective.total_contribution(100_000) * collective.INDEX_PERIOD < 2**24


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("gpu-01", "gpu-01"),
        ("gpu-01,gpu-02", "gpu-01"),
        ("gpu-[01-02,04]", "gpu-01"),
        ("gpu-[04,07],a1", "gpu-04"),
        ("r[1-2]n[03-04]", "r1n03"),
    ],
)
def test_rank_0_is_on_the_first_node_of_the_list(nodes: str, first: str) -> None:
    assert collective.first_host(nodes) == first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"SLURM_PROCID": ""}, "SLURM_PROCID is ''"),
        ({"SLURM_NTASKS": "two"}, "SLURM_NTASKS is 'two'"),
        ({"SLURM_PROCID": "2"}, "expected less than SLURM_NTASKS 2"),
        ({"SLURM_STEP_NODELIST": ""}, "SLURM_STEP_NODELIST is empty"),
    ],
)
def test_place_names_the_variable_that_is_wrong(change: dict[str, str], message: str) -> None:
    with pytest.raises(collective.CollectiveError, match=message):
        collective.place_from({**SLURM, **change})


def test_rank_with_nccl_tells_its_road_or_why_not(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    with start(("--backend=nccl", "--port=1"), {**SLURM, "NCCL_DEBUG": "WARN"}, tmp_path) as rank:
        output, _ = rank.communicate(timeout=60)
    ((record,), faults) = collective.decode(output)
    assert (rank.returncode, faults) == (1, [])
    assert record["transport"] == {"error": "NCCL wrote nothing"}


def test_rank_with_nccl_reads_what_nccl_wrote(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "import os\nopen(os.environ['NCCL_DEBUG_FILE'], 'w').write("
        "os.environ['NCCL_DEBUG'] + ' NCCL INFO Using network Socket\\n')\nraise ImportError('no torch here')"
    )
    with start(("--backend=nccl", "--port=1"), SLURM, tmp_path) as rank:
        output, _ = rank.communicate(timeout=60)
    ((record,), _) = collective.decode(output)
    assert record["transport"]["networks"] == ["Socket"]


def test_lines_of_many_ranks_among_other_output() -> None:
    records = [{"rank": rank, "sizes": []} for rank in range(3)]
    text = "a warning\n" + "\n".join(collective.encode(record) for record in records) + "\nsrun: done\n"
    assert collective.decode(text) == (records, [])


@pytest.mark.parametrize("damage", ["cut", "mixed", "changed", "no_json"])
def test_damaged_line_is_told_and_never_a_record(damage: str) -> None:
    line = collective.encode({"rank": 0, "sizes": [{"bytes": 8, "seconds": [0.5]}]})
    damaged = {
        "cut": line[:-7],
        "mixed": line[:40] + line,
        "changed": line.replace("0.5", "0.1"),
        "no_json": f"{collective.PREFIX} {collective._digest('[1]')} [1]",
    }[damage]
    records, faults = collective.decode(damaged)
    assert records == []
    assert len(faults) == 1


def test_outside_slurm_it_says_so(tmp_path: Path) -> None:
    process = start(("--port=1",), {}, tmp_path)
    _, error = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "SLURM_PROCID is '', expected a number: start this through srun" in error


def test_rank_without_torch_answers_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch on this host')")
    process = start(("--port=1",), {**SLURM, "SLURMD_NODENAME": "gpu-01"}, tmp_path)
    output, _ = process.communicate(timeout=20)
    records, faults = collective.decode(output)
    assert process.returncode == 1
    assert not faults
    assert records[0]["node"] == "gpu-01"
    assert records[0]["error"] == "ImportError in import of torch: no torch on this host"


def test_rank_that_hangs_answers_at_its_deadline(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import time; time.sleep(60)")
    process = start(("--port=1", "--deadline=0.3"), SLURM, tmp_path)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == collective.EXIT_DEADLINE
    assert collective.decode(output)[0][0]["error"] == "not finished after 0.3 s, stuck in import of torch"


@pytest.mark.parametrize("arguments", [("--sizes=6", "--port=1"), ("--iterations=0", "--port=1"), ()])
def test_wrong_arguments_are_refused(arguments: tuple[str, ...], tmp_path: Path) -> None:
    process = start(arguments, SLURM, tmp_path)
    process.communicate(timeout=20)
    assert process.returncode == 2


needs_torch = pytest.mark.skipif(
    not TORCH.exists() or sys.version_info[:2] != (3, 11), reason="needs the lab's PyTorch, which is for Python 3.11"
)


@needs_torch
def test_two_real_ranks_agree_over_loopback() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = [
        start(
            (f"--port={port}", "--addresses=gpu-01=127.0.0.1", "--timeout=30"),
            {**SLURM, "SLURM_PROCID": str(rank), "SLURMD_NODENAME": f"gpu-0{rank + 1}", "GLOO_SOCKET_IFNAME": "lo"},
            TORCH,
        )
        for rank in range(2)
    ]
    for rank, process in enumerate(ranks):
        output, error = process.communicate(timeout=60)
        assert process.returncode == 0, output + error
        (record,), faults = collective.decode(output)
        assert not faults
        assert (record["node"], record["rank"], record["error"]) == (f"gpu-0{rank + 1}", rank, "")
        assert [(size["bytes"], size["correct"]) for size in record["sizes"]] == [
            (65536, True),
            (1048576, True),
            (44, True),
        ]
        assert all(len(size["seconds"]) == 3 and min(size["seconds"]) > 0 for size in record["sizes"])


VERIFY = """
import json, torch
from ansible_collections.muster.cluster.plugins.module_utils import collective as c
c.TILE_ELEMENTS = 11 * 100
def total(ranks, iteration, count):
    whole = torch.zeros(count)
    for rank in range(ranks):
        part = torch.empty(count)
        c.fill(torch, part, rank, iteration)
        whole += part
    return whole
good = total(15, 4, 3007)
wrong, lost, moved = good.clone(), good.clone(), torch.roll(good, 1024)
wrong[7] += 1
lost[3000:] = float("nan")
print(json.dumps({
    "good": c.wrong_elements(torch, good, 15, 4),
    "one": c.wrong_elements(torch, wrong, 15, 4),
    "nan": c.wrong_elements(torch, lost, 15, 4),
    "moved": c.wrong_elements(torch, moved, 15, 4) > 2000,
    "stale": c.wrong_elements(torch, good, 15, 5),
    "rank missing": c.wrong_elements(torch, total(14, 4, 3007), 15, 4),
}))
"""


@needs_torch
def test_every_wrong_element_is_counted() -> None:
    path = f"{ROOT / 'collections'}:{TORCH}"
    done = subprocess.run(
        [sys.executable, "-c", VERIFY],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == {
        "good": 0,
        "one": 1,
        "nan": 7,
        "moved": True,
        "stale": 3007,
        "rank missing": 3007,
    }
