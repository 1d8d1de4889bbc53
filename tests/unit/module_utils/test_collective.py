"""The program that ranks run: its moves, its one answer, its deadlines; with PyTorch where there is one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives import collective
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_guard import (
    EXIT_DEADLINE,
    EXIT_ENDED,
)
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import (
    pack_spec,
    read_program,
)
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_stalls import Stalls
from ansible_collections.muster.cluster.plugins.module_utils.host.waiting import wait_until
from ansible_collections.muster.cluster.plugins.module_utils.words.answer_lines import unpack

ROOT = Path(__file__).resolve().parents[3]
RUN = f"import sys, {collective.__name__} as collective; sys.exit(collective.main())"
SECRET = {"MUSTER_ROUND_SECRET": "0123456789abcdef"}
SLURM = {**SECRET, "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_NODELIST": "gpu-[01-02]"}
TIMES = {"iterations": 3, "warmup": 1, "seconds": 20}
WALK = {
    **{"name": "walk", "kind": "pairs", "collective": "sendrecv", "sizes": [65536, 44]},
    **{**TIMES, "shifts": [0]},
}


def spec(phases: list[dict[str, Any]], nodes: int = 2, links: tuple[str, ...] = ("lo",)) -> list[str]:
    names = [[f"gpu-0{number + 1}", "127.0.0.1"] for number in range(nodes)]
    whole = {"nodes": names, "program": {"moves": phases}, "links": list(links)}
    return [f"--spec={part}" for part in pack_spec(whole)]


def start(
    arguments: tuple[str, ...],
    environment: Mapping[str, str],
    path: Path,
    phases: list[dict[str, Any]] | None = None,
    run: str = RUN,
) -> subprocess.Popen[str]:
    backend = () if any(word.startswith("--backend") for word in arguments) else ("--backend=gloo",)
    given = [] if any(word.startswith("--spec") for word in arguments) else spec(phases or [WALK])
    return subprocess.Popen(
        [sys.executable, "-c", run, *backend, *given, *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT / 'collections'}:{path}", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


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
        ({"MUSTER_ROUND_SECRET": ""}, "MUSTER_ROUND_SECRET is empty"),
    ],
)
def test_place_names_the_variable_that_is_wrong(change: dict[str, str], message: str) -> None:
    with pytest.raises(collective.CollectiveError, match=message):
        collective.place_from({**SLURM, **change})


def test_rank_with_nccl_tells_its_road_or_why_not(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    with start(
        ("--backend=nccl", "--port=1"), {**SLURM, "SLURMD_NODENAME": "gpu-01", "NCCL_DEBUG": "WARN"}, tmp_path
    ) as rank:
        output, _ = rank.communicate(timeout=60)
    ((record,), faults) = unpack(output)
    assert (rank.returncode, faults) == (1, [])
    assert record["transport"] == {"error": "NCCL wrote nothing"}


def test_rank_with_nccl_reads_what_nccl_wrote(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "import os\nopen(os.environ['NCCL_DEBUG_FILE'], 'w').write("
        "os.environ['NCCL_DEBUG'] + ' NCCL INFO Using network Socket\\n')\nraise ImportError('no torch here')"
    )
    with start(("--backend=nccl", "--port=1"), {**SLURM, "SLURMD_NODENAME": "gpu-01"}, tmp_path) as rank:
        output, _ = rank.communicate(timeout=60)
    ((record,), _) = unpack(output)
    assert record["transport"]["networks"] == ["Socket"]


RAILS = ("rail0=0000:1a:00.0", "rail1=0000:3c:00.0")


def on_host_with_one_rail(tmp_path: Path) -> str:
    """Return what runs a rank on a host whose rail 0 is called as after a reboot, and whose rail 1 is not there."""
    function = tmp_path / "root/sys/bus/pci/devices/0000:1a:00.0"
    for place in ("infiniband/rocep26s0", "net/enp26s0np0"):
        (function / place).mkdir(parents=True)
    there = (
        f"from functools import partial; collective.LocalHost = partial(collective.LocalHost, root='{tmp_path}/root')"
    )
    return RUN.replace(" as collective;", f" as collective; {there};")


def test_rank_with_nccl_tells_what_its_host_calls_the_rails(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "import os\nopen(os.environ['NCCL_DEBUG_FILE'], 'w').write('NCCL INFO NET/IB : Using [0]rocep26s0:1/RoCE\\n')\n"
        "raise ImportError('no torch here')"
    )
    asked = ("--backend=nccl", "--port=1", *spec([WALK], links=("lo", *RAILS)))
    environment = {**SLURM, "SLURMD_NODENAME": "gpu-01"}
    with start(asked, environment, tmp_path, run=on_host_with_one_rail(tmp_path)) as rank:
        output, _ = rank.communicate(timeout=60)
    ((record,), _) = unpack(output)
    assert record["transport"]["devices"] == {"rocep26s0": "RoCE"}
    assert record["transport"]["rails"] == {"rail0": "rocep26s0", "rail1": None}


def test_gloo_is_told_what_the_host_calls_the_rail_of_its_sockets(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import os\nraise ImportError(os.environ['GLOO_SOCKET_IFNAME'])")
    environment = {**SLURM, "SLURMD_NODENAME": "gpu-01", "GLOO_SOCKET_IFNAME": f"{RAILS[0]},eth1"}
    with start(("--port=1",), environment, tmp_path, run=on_host_with_one_rail(tmp_path)) as rank:
        output, _ = rank.communicate(timeout=60)
    ((record,), _) = unpack(output)
    assert record["error"].endswith("enp26s0np0,eth1")


def test_outside_slurm_it_says_so(tmp_path: Path) -> None:
    process = start(("--port=1",), {}, tmp_path)
    _, error = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "SLURM_PROCID is '', expected a number: start this through srun" in error


def test_rank_without_torch_answers_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch on this host')")
    process = start(("--port=1",), {**SLURM, "SLURMD_NODENAME": "gpu-01"}, tmp_path)
    output, _ = process.communicate(timeout=20)
    records, faults = unpack(output)
    assert process.returncode == 1
    assert not faults
    assert records[0]["node"] == "gpu-01"
    assert records[0]["error"] == "ImportError in import of torch: no torch on this host"


def test_rank_that_hangs_answers_at_its_deadline(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import time; time.sleep(60)")
    process = start(("--port=1", "--deadline=0.3"), {**SLURM, "SLURMD_NODENAME": "gpu-01"}, tmp_path)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == EXIT_DEADLINE
    assert unpack(output)[0][0]["error"] == "not finished after 0.3 s, stuck in import of torch"


def test_rank_that_slurm_ends_answers_with_what_it_did(tmp_path: Path) -> None:
    # In a library of which Python is not told anything.
    come = tmp_path / "come"
    (tmp_path / "torch.py").write_text(f"import ctypes; open({str(come)!r}, 'w'); ctypes.CDLL(None).sleep(60)")
    process = start(("--port=1",), {**SLURM, "SLURMD_NODENAME": "gpu-01"}, tmp_path)
    assert wait_until(come.exists, 20, 0.05)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=5)
    assert process.returncode == EXIT_ENDED
    assert unpack(output)[0][0]["error"] == "told to stop: Slurm ended the step, in import of torch"


def test_rank_whose_slurmstepd_is_gone_ends(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import time; time.sleep(60)")
    process = start(("--port=1", "--deadline=1"), {**SLURM, "SLURMD_NODENAME": "gpu-01"}, tmp_path)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(20) == EXIT_DEADLINE


def test_rank_on_a_node_that_is_not_in_the_job_says_so(tmp_path: Path) -> None:
    process = start(("--port=1",), {**SLURM, "SLURMD_NODENAME": "gpu-07"}, tmp_path)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "this is gpu-07, expected one of gpu-01, gpu-02" in unpack(output)[0][0]["error"]


@pytest.mark.parametrize(
    "arguments",
    [("--spec=nonsense", "--port=1"), ("--spec=", "--port=1"), ("--port=one",), (*spec([]), "--port=1"), ()],
)
def test_wrong_arguments_are_refused(arguments: tuple[str, ...], tmp_path: Path) -> None:
    process = start(arguments, SLURM, tmp_path)
    process.communicate(timeout=20)
    assert process.returncode == 2


class Crowd:
    """Real ranks over loopback, ``each`` of them on each of ``nodes`` pretended nodes."""

    def __init__(self, torch: Path, phases: list[dict[str, Any]], nodes: int, each: int = 1, run: str = RUN) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        arguments = (f"--port={self.port}", "--timeout=60", "--deadline=100", *spec(phases, nodes))
        self.ranks = [
            start(
                arguments,
                {
                    **SECRET,
                    **{"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank % each), "SLURM_NTASKS": str(nodes * each)},
                    **{"SLURM_STEP_NODELIST": f"gpu-[01-0{nodes}]", "SLURMD_NODENAME": f"gpu-0{rank // each + 1}"},
                    **{"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
                },
                torch,
                run=run,
            )
            for rank in range(nodes * each)
        ]

    def come_to_the_last_move(self) -> None:
        """Wait until rank 1 is well into a move that has no end, and whose time is not up by far."""
        # What it does first takes no time beside loading torch; then it holds sockets to the store and to its peer.
        while _sockets(self.ranks[1].pid) < SOCKETS:
            assert self.ranks[1].poll() is None, "it ended before it met the other"
            time.sleep(0.1)
        time.sleep(5)

    def answers(self, *without: int) -> dict[int, tuple[int, dict[str, Any]]]:
        """Return by rank its exit status and its one answer."""
        found = {}
        for rank, process in enumerate(self.ranks):
            if rank not in without:
                output, error = process.communicate(timeout=120)
                records, faults = unpack(output)
                assert not faults and len(records) == 1, output + error
                found[rank] = (process.returncode, records[0])
        for rank in without:
            self.ranks[rank].kill()
            self.ranks[rank].communicate()
        return found


@pytest.mark.pytorch
def test_two_nodes_of_two_ranks_walk_every_kind_of_move(torch: Path) -> None:
    groups = {"kind": "groups", "sizes": [8, 65536], **TIMES, "groups": [[0, 1]]}
    names = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
    phases = [
        {"name": "inside", "kind": "inside", "collective": "all_reduce", "sizes": [4096], **TIMES},
        WALK,
        *({"name": name, "collective": name, **groups} for name in names),
        {"name": "apart", "collective": "all_reduce", **groups, "groups": [[1], [0]]},
        {"name": "train", "kind": "train", "hidden": 16, "layers": 2, "steps": 2, "warmup": 1, "seconds": 30},
    ]
    answers = Crowd(torch, phases, 2, 2).answers()
    for rank, (status, record) in answers.items():
        assert (status, record["error"], record["phase"]) == (0, "", "end"), record
        assert (record["node"], record["rank"], record["local_rank"]) == (f"gpu-0{rank // 2 + 1}", rank, rank % 2)
        told = record["results"]
        assert sorted(told) == sorted(["inside", "walk", *names, "apart", "train"])
        for name, lists in told.items():
            count = 1 if name in ("inside", "train") else 2
            assert [len(lists[key]) for key in ("ns", "ns_p99", "wrong")] == [count] * 3
            assert all(0 < median <= worst for median, worst in zip(lists["ns"], lists["ns_p99"], strict=True))
            assert not any(lists["wrong"])
        assert 0 < told["train"]["compute_ns"][0] <= told["train"]["ns_p99"][0]
        # Twelve times hidden squared, twice, four bytes each.
        assert told["train"]["bytes"] == 2 * 12 * 16**2 * 4
    # In each iteration somebody was the slowest of the group, and nobody else.
    last = [record["results"]["all_reduce"]["last"] for _, record in answers.values()]
    assert [sum(column) for column in zip(*last, strict=True)] == [TIMES["iterations"]] * 2


# Both of a pair begin the third timed exchange of the last permutation a fifth of a second later than they could: what
# a network that stands still does between two exchanges.
STALLED = f"""
import sys, time, {collective.__name__} as collective
from {collective.__package__} import collective_ranks
exchange, begun = collective_ranks.Ranks.exchange, [0]
def stalled(self, peer, sent, received):
    begun[0] += sent.numel() == 1
    if sent.numel() == 1 and begun[0] == 14:
        time.sleep(0.2)
    exchange(self, peer, sent, received)
collective_ranks.Ranks.exchange = stalled
sys.exit(collective.main())
"""


@pytest.mark.pytorch
def test_stall_between_two_timed_exchanges_is_told_with_its_length(torch: Path) -> None:
    # Two permutations of one warm-up and ten timed exchanges.
    walk = {**WALK, "sizes": [65536], "iterations": 10, "shifts": [0, 0]}
    answers = Crowd(torch, [walk], 2, run=STALLED).answers()
    stalls = Stalls(("gpu-01", "gpu-02"), read_program({"moves": [walk]}, 2), 1)
    for rank, (status, record) in answers.items():
        assert (status, record["error"]) == (0, ""), record
        # No exchange shows it, neither in the middle nor at its worst.
        assert max(record["results"]["walk"]["ns_p99"]) < 200_000_000
        assert record["links"] == {"lo": {}}
        assert stalls.take(record["node"], record["local_rank"], record["stalls"]) == "", rank
    (found,) = stalls.all()
    assert (found["nodes"], found["meetings"]) == (["gpu-01", "gpu-02"], 22)
    assert 200_000_000 <= found["lost_ns"][0] < 2_000_000_000


@pytest.mark.pytorch
def test_groups_of_some_follow_groups_of_others(torch: Path) -> None:
    groups = {"kind": "groups", "collective": "all_reduce", "sizes": [8], **TIMES}
    parts = [[[0, 1]], [[0, 1]], [[0, 2]], [[1, 2], [0]], [[0, 1, 2]], [[2, 1]]]
    phases = [{"name": str(number), **groups, "groups": part} for number, part in enumerate(parts)]
    for rank, (status, record) in Crowd(torch, phases, 3).answers().items():
        assert (status, record["error"]) == (0, "")
        for number, part in enumerate(parts):
            took_part = any(rank in group for group in part)
            assert (record["results"][str(number)]["ns"] != [None]) == took_part


@pytest.mark.pytorch
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_rank_that_is_stopped_or_dies_ends_the_walk_of_all(torch: Path, how: signal.Signals) -> None:
    endless = {**WALK, "sizes": [65536], "iterations": 10_000_000, "seconds": 12}
    crowd = Crowd(torch, [{**WALK, "name": "first"}, endless], 2)
    crowd.come_to_the_last_move()
    crowd.ranks[1].send_signal(how)
    ((code, record),) = crowd.answers(1).values()
    assert code == (EXIT_DEADLINE if how == signal.SIGSTOP else 1)
    assert record["stood"][:2] == ["walk", 0]
    assert list(record["results"]) == ["first"]


# Whoever reaches the store may write what it likes, and PyTorch tells it the names of all keys.
STRANGER = """
import sys, time
from datetime import timedelta
from torch import distributed
store = distributed.TCPStore("127.0.0.1", int(sys.argv[1]), None, False, timedelta(seconds=60), False)
print("connected", flush=True)
try:
    while True:
        for place in {"", *(key.lstrip("/").partition("/")[0] + "/" for key in store.list_keys())}:
            store.set(place + "muster/stop", "\\x1b[2JI was here")
        time.sleep(0.02)
except RuntimeError:
    sys.exit("the store has ended")
"""


@pytest.mark.pytorch
def test_stranger_who_writes_keys_stops_nobody_and_is_not_quoted(torch: Path) -> None:
    crowd = Crowd(torch, [{**WALK, "iterations": 1500, "seconds": 60}], 2)
    stranger = subprocess.Popen(
        [sys.executable, "-c", STRANGER, str(crowd.port)],
        env={"PYTHONPATH": str(torch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    answers = crowd.answers()
    assert "the store has ended" in stranger.communicate(timeout=30)[1], "the stranger was there to the end"
    assert {rank: (status, record["error"]) for rank, (status, record) in answers.items()} == {0: (0, ""), 1: (0, "")}


@pytest.mark.pytorch
def test_ranks_that_slurm_ends_tell_what_they_measured_and_where_they_stood(torch: Path) -> None:
    endless = {**WALK, "sizes": [65536], "iterations": 10_000_000, "seconds": 60}
    crowd = Crowd(torch, [{**WALK, "name": "first"}, endless], 2)
    crowd.come_to_the_last_move()
    begin = time.monotonic()
    for rank in crowd.ranks:
        rank.send_signal(signal.SIGTERM)
    answers = crowd.answers()
    # Slurm gives 30 s (KillWait); a site may give less.
    assert time.monotonic() - begin < 3
    for code, record in answers.values():
        assert code == EXIT_ENDED
        assert record["error"].startswith("told to stop: Slurm ended the step, in walk, step 0 (")
        assert record["stood"][:2] == ["walk", 0]
        assert list(record["results"]) == ["first"]


# To the store for itself, to the store to be told, and gloo's own.
SOCKETS = 3


def _sockets(pid: int) -> int:
    count = 0
    for path in Path(f"/proc/{pid}/fd").iterdir():
        # Torch opens and closes files by the thousand while it loads.
        with suppress(FileNotFoundError):
            count += str(path.readlink()).startswith("socket:")
    return count


VERIFY = """
import json, torch
from ansible_collections.muster.cluster.plugins.module_utils.collectives import collective_data as c
c.TILE_ELEMENTS = 11 * 100
pattern = c.Pattern(torch, torch.device("cpu"))
def total(ranks, iteration, count):
    whole = torch.zeros(count)
    for rank in range(ranks):
        part = torch.empty(count)
        pattern.fill(part, rank, iteration)
        whole += part
    return whole
sums = [c.total_contribution(range(15))]
def wrong(tensor, factors=sums, first=0, iteration=4):
    return int(pattern.wrong(tensor, factors, first, iteration))
good = total(15, 4, 3007)
one, lost, moved = good.clone(), good.clone(), torch.roll(good, 1024)
one[7] += 1
lost[3000:] = float("nan")
blocks = torch.cat([torch.empty(1501) for _ in range(3)]).view(3, 1501)
for rank, block in enumerate(blocks):
    pattern.fill(block, rank, 2)
each = [c.contribution(rank) for rank in range(3)]
swapped = blocks[[1, 0, 2]].reshape(-1)
print(json.dumps({
    "good": wrong(good),
    "one": wrong(one),
    "nan": wrong(lost),
    "moved": wrong(moved) > 2000,
    "stale": wrong(good, iteration=5),
    "rank missing": wrong(total(14, 4, 3007)),
    "part": wrong(good[1024:], first=1024),
    "part of another": wrong(good[1024:], first=1025),
    "blocks": wrong(blocks.reshape(-1), each, iteration=2),
    "blocks swapped": wrong(swapped, each, iteration=2),
}))
"""


@pytest.mark.pytorch
def test_every_wrong_element_is_counted(torch: Path) -> None:
    path = f"{ROOT / 'collections'}:{torch}"
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
        "part": 0,
        "part of another": 1983,
        "blocks": 0,
        "blocks swapped": 3002,
    }
