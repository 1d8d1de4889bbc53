"""Nodes of a storage test as processes over loopback, on a directory of this host: faults end in bounded time."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.answer_lines import unpack

NODES = ("gpu-01", "gpu-02", "gpu-03", "gpu-04")
BLOCK = 2**16
SHARD = 3 * BLOCK + 1
# What stands for torch's part here: it has tests of its own.
CHECKPOINT = """
import json, sys
print(json.dumps({"torch": "stand-in"}), flush=True)
order = json.loads(sys.stdin.readline() or sys.exit())
answer = {"bytes": order["bytes"], "loaded_by": order["size"] - 1, "error": ""}
answer.update(blocking_seconds=0.1, save_seconds=0.2, load_seconds=0.3)
print(json.dumps(answer), flush=True)
"""
# A fault is made below the program, in the calls to the kernel, where its ranks make them.
PROGRAM = """
import errno, os, sys, time
from ansible_collections.muster.cluster.plugins.module_utils.save_test import storage_shard, storage_test
storage_shard.BLOCK_BYTES = 2**16
storage_test.JOIN_SECONDS = 10
storage_test.MARGIN_SECONDS = 2
fault = os.environ.get("FAULT", "")
pwrite, fsync, preadv, mkdir, clock = os.pwrite, os.fsync, os.preadv, os.mkdir, time.time
if fault == "full":
    def broken(fd, data, offset):
        if offset:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(fd, data, offset)
    os.pwrite = broken
if fault == "read-only":
    def broken(path, *rest, **more):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
    os.mkdir = broken
if fault in ("flipped", "missing", "short", "wrong-storage"):
    def broken(fd):
        fsync(fd)
        path = os.readlink(f"/proc/self/fd/{fd}")
        if not path.endswith("shard-0"):
            return
        if fault == "missing":
            os.unlink(path)
        elif fault == "short":
            os.truncate(path, 2**16)
        else:
            with open(path, "r+b") as file:
                file.seek(2**16 + 5000)
                byte = file.read(1)
                file.seek(-1, 1)
                file.write(bytes([byte[0] ^ 1]))
                file.flush()
                fsync(file.fileno())
    os.fsync = broken
if fault == "wrong-reader":
    def broken(fd, buffers, offset):
        got = preadv(fd, buffers, offset)
        if offset == 2**16:
            buffers[0][5000] ^= 1
        return got
    os.preadv = broken
if fault == "wrong-storage":
    # Others read what lies there; its writer what it has in its memory.
    def broken(fd, buffers, offset):
        got = preadv(fd, buffers, offset)
        if offset == 2**16 and os.environ["SLURMD_NODENAME"] not in os.readlink(f"/proc/self/fd/{fd}"):
            return got
        if offset == 2**16:
            buffers[0][5000] ^= 1
        return got
    os.preadv = broken
if fault == "hanging-write":
    os.pwrite = lambda *_: time.sleep(600)
if fault == "hanging-read":
    os.preadv = lambda *_: time.sleep(600)
if fault == "killed":
    os.pwrite = lambda *_: os.kill(os.getppid(), 9)
if fault == "slow-clock":
    time.time = lambda: clock() - 3600
if fault == "slow":
    def broken(fd, data, offset):
        time.sleep(0.8)
        return pwrite(fd, data, offset)
    os.pwrite = broken
sys.exit(storage_test.main())
"""


@pytest.fixture
def port() -> int:
    with socket.create_server(("", 0)) as server:
        found: int = server.getsockname()[1]
    return found


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory on the disk, as memory has no direct access everywhere."""
    path = Path(__file__).parents[3] / "build" / f"storage-test-{os.getpid()}"
    path.mkdir(parents=True)
    yield path / "tier"
    shutil.rmtree(path)


@pytest.fixture
def run(place: Path, port: int, tmp_path: Path) -> Iterator[Callable[..., dict[str, dict[str, Any]]]]:
    started: list[subprocess.Popen[str]] = []
    program = tmp_path / "checkpoint.py"
    program.write_text(CHECKPOINT)

    def start(
        *nodes: str, timeout: float = 5, deadline: float = 40, directory: str = "", **faults: str
    ) -> dict[str, dict[str, Any]]:
        nodes = nodes or NODES
        spec = {
            **{"directory": directory or str(place), "run": "test-1", "hub": nodes[0], "hub_address": "127.0.0.1"},
            **{"ranks": 2, "shard_bytes": SHARD, "files": 20, "checkpoint_bytes": 4096},
            **{"python": sys.executable, "program": str(program)},
            "links": ["lo"],
        }
        words = [f"--spec={json.dumps(spec)}", f"--port={port}", f"--timeout={timeout}", f"--deadline={deadline}"]
        for number, node in enumerate(nodes):
            environment = {
                **os.environ,
                **{"SLURM_PROCID": str(number), "SLURM_LOCALID": "0", "SLURM_NTASKS": str(len(nodes))},
                **{"SLURM_STEP_NODELIST": ",".join(nodes), "SLURMD_NODENAME": node, "SLURM_JOB_ID": "7"},
                **{"MUSTER_ROUND_SECRET": "0123456789abcdef"},
                "PYTHONPATH": os.pathsep.join(sys.path),
                "FAULT": faults.get(node.replace("-", "_"), ""),
            }
            started.append(
                subprocess.Popen(
                    [sys.executable, "-c", PROGRAM, *words], stdout=subprocess.PIPE, text=True, env=environment
                )
            )
        output = "".join(each.communicate(timeout=deadline + 20)[0] for each in started)
        started.clear()
        answers, errors = unpack(output)
        assert not errors
        return {answer["node"]: answer for answer in answers}

    yield start
    for each in started:
        if each.poll() is None:
            each.send_signal(signal.SIGKILL)
            each.wait()


def good(answer: dict[str, Any]) -> bool:
    """Return whether a node came to the end and found nothing wrong."""
    return not answer["error"] and answer["phase"] == "end" and not answer["read"]["wrong"]


def test_all_nodes_write_and_read_each_others_shards(run: Callable[..., Any], place: Path) -> None:
    answers = run()
    assert sorted(answers) == sorted(NODES)
    for node, answer in answers.items():
        assert good(answer), answer["error"]
        assert answer["nodes"] == 4
        for traffic in (answer["write"], answer["read"]):
            # Two ranks, each in whole blocks.
            assert traffic["bytes"] == 2 * 4 * BLOCK
            assert traffic["seconds"] > 0
            assert traffic["direct"]
        assert answer["write"]["blocking_seconds"] >= answer["write"]["seconds"]
        assert answer["read"]["of"] != node
        assert answer["metadata"]["operations"] == 2 * 3 * 20
        assert answer["metadata"]["p99_ms"]["create"] >= answer["metadata"]["median_ms"]["create"] > 0
        assert abs(answer["metadata"]["skew_seconds"]) < 1
        # What leads to the storage is watched besides, where anything does.
        assert answer["links"]["lo"] == {}
        assert answer["checkpoint"]["ranks"] == 4
        assert answer["checkpoint"]["loaded_by"] == 3
    assert sorted(answer["read"]["of"] for answer in answers.values()) == sorted(NODES)
    assert list(place.iterdir()) == []


def test_stranger_who_knows_run_and_job_takes_no_nodes_place(run: Callable[..., Any], port: int) -> None:
    ended, said = threading.Event(), []

    def strange() -> None:
        while not ended.is_set():
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                hello = {"node": "gpu-02", "key": "test-1 7", "address": "127.0.0.1"}
                connection.sendall(json.dumps(hello).encode() + b"\n")
                said.append(connection.recv(1))
            time.sleep(0.02)

    stranger = threading.Thread(target=strange)
    stranger.start()
    answers = run("gpu-01", "gpu-02")
    ended.set()
    stranger.join()
    assert said and set(said) == {b""}
    assert all(good(answer) and answer["nodes"] == 2 for answer in answers.values()), answers


def test_alone_a_node_reads_its_own_shards(run: Callable[..., Any]) -> None:
    answer = run("gpu-01")["gpu-01"]
    assert good(answer)
    assert answer["read"]["of"] == "gpu-01"
    # A checkpoint of one rank could not be resharded.
    assert answer["checkpoint"]["ranks"] == 2


def test_what_a_killed_run_left_is_removed(run: Callable[..., Any], place: Path) -> None:
    (place / "test-0" / "gpu-01").mkdir(parents=True)
    (place / "test-0" / "gpu-01" / "shard-0").write_text("left")
    assert all(map(good, run("gpu-01", "gpu-02").values()))
    assert list(place.iterdir()) == []


def test_full_storage_is_told_and_the_others_go_on(run: Callable[..., Any]) -> None:
    answers = run(gpu_02="full")
    assert answers["gpu-02"]["code"] == "ENOSPC"
    assert "No space left on device" in answers["gpu-02"]["error"]
    assert answers["gpu-02"]["phase"] == "write"
    others = [answers[node] for node in NODES if node != "gpu-02"]
    assert all(map(good, others))
    assert {answer["nodes"] for answer in others} == {3}


def test_read_only_mount_is_told_where_it_is(run: Callable[..., Any], place: Path) -> None:
    answers = run(gpu_03="read-only")
    assert answers["gpu-03"]["code"] == "EROFS"
    assert str(place) in answers["gpu-03"]["error"]
    assert all(good(answers[node]) for node in NODES if node != "gpu-03")


def test_read_only_mount_of_the_leading_node_stops_all_by_its_fault(run: Callable[..., Any], place: Path) -> None:
    place.mkdir()
    answers = run("gpu-01", "gpu-02", gpu_01="read-only")
    assert answers["gpu-01"]["code"] == "EROFS"
    assert answers["gpu-02"]["code"] == "HUB"
    assert "gpu-01: rank 0: make:" in answers["gpu-02"]["error"]


@pytest.fixture
def tier(place: Path) -> Iterator[Path]:
    """The root of a tier in which everybody may write, where everybody gets to."""
    root = Path(tempfile.mkdtemp(prefix="muster-tier-", dir="/tmp"))
    root.chmod(0o1777)
    yield root
    shutil.rmtree(root)


SQUATTED = "{tier}/.muster belongs to nobody (65534), expected a directory of {me}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("squat", "said"),
    [
        ("mkdir -m 0755 .muster", SQUATTED),
        ("mkdir -m 0700 .muster", SQUATTED),
        ("mkdir -m 0777 .muster; mkdir -m 0777 .muster/lab", SQUATTED),
        ("ln -s /tmp .muster", "{tier}/.muster is a link of nobody (65534), expected a directory of {me}"),
        ("touch .muster", "{tier}/.muster is a file of nobody (65534), expected a directory of {me}"),
    ],
)
def test_directory_of_another_user_is_refused_by_name_and_nothing_is_put_there(
    run: Callable[..., Any], tier: Path, squat: str, said: str
) -> None:
    subprocess.run(["sh", "-c", squat], cwd=tier, user=65534, group=65534, extra_groups=[], check=True)
    before = sorted(map(str, tier.rglob("*")))
    answers = run("gpu-01", "gpu-02", directory=f"{tier}/.muster/lab")
    expected = said.format(tier=tier, me=f"{pwd.getpwuid(0).pw_name} (0)")
    assert answers["gpu-01"]["code"] == "FOREIGN" and expected in answers["gpu-01"]["error"], answers["gpu-01"]
    assert answers["gpu-02"]["code"] == "HUB" and expected in answers["gpu-02"]["error"]
    assert sorted(map(str, tier.rglob("*"))) == before


def test_own_directory_in_a_tier_of_everybody_is_used_and_cannot_be_moved(run: Callable[..., Any], tier: Path) -> None:
    for _ in range(2):
        assert all(map(good, run("gpu-01", "gpu-02", directory=f"{tier}/.muster/lab").values()))
    made = tier / ".muster"
    assert made.stat().st_mode & 0o777 == 0o700
    if os.geteuid() == 0:
        moved = subprocess.run(["mv", made, tier / "mine"], user=65534, group=65534, capture_output=True, check=False)
        assert moved.returncode != 0


def test_tier_in_which_everybody_can_move_everything_is_refused(run: Callable[..., Any], tier: Path) -> None:
    tier.chmod(0o777)
    answer = run("gpu-01", directory=f"{tier}/.muster/lab")["gpu-01"]
    assert answer["code"] == "FOREIGN" and f"{tier} has mode 0777, expected 1777" in answer["error"]


@pytest.mark.parametrize("fault", ["flipped", "missing", "short"])
def test_wrong_shard_is_found_by_its_reader_and_by_its_writer(run: Callable[..., Any], fault: str) -> None:
    answers = run(gpu_02=fault)
    reader = next(answer for answer in answers.values() if answer["read"]["of"] == "gpu-02")
    assert reader["read"]["wrong"] >= 1
    wanted = {"flipped": "block 1: checksum", "missing": "No such file", "short": "block 1: 0 bytes of"}[fault]
    assert wanted in reader["read"]["fault"]
    assert answers["gpu-02"]["own"]["wrong"] >= 1
    assert "for its writer, too" in answers["gpu-02"]["own"]["fault"]
    assert all(good(answer) for answer in answers.values() if answer is not reader)
    assert all(answer["own"] is None for node, answer in answers.items() if node != "gpu-02")


@pytest.mark.parametrize(("fault", "wrong", "second"), [("wrong-reader", 2, 0), ("wrong-storage", 1, 1)])
def test_shard_that_is_right_for_its_writer_is_read_by_a_third(
    run: Callable[..., Any], fault: str, wrong: int, second: int
) -> None:
    answers = run(gpu_04=fault)
    reader = next(answer for answer in answers.values() if answer["read"]["wrong"])
    assert reader["read"]["wrong"] == wrong
    writer = answers[reader["read"]["of"]]
    assert writer["own"] == {"wrong": 0, "fault": ""}
    (third,) = (answer for answer in answers.values() if answer["second"])
    assert third["node"] not in (reader["node"], writer["node"])
    assert (third["second"]["of"], third["second"]["wrong"]) == (writer["node"], second)
    assert all(answer["phase"] == "end" and not answer["error"] for answer in answers.values())


def test_two_hosts_have_no_third_to_ask(run: Callable[..., Any]) -> None:
    answers = run("gpu-01", "gpu-02", gpu_02="wrong-reader")
    assert answers["gpu-02"]["read"]["wrong"] == 2 and answers["gpu-01"]["own"] == {"wrong": 0, "fault": ""}
    assert [answer["second"] for answer in answers.values()] == [None, None]


@pytest.mark.parametrize("fault", ["hanging-write", "hanging-read"])
def test_rank_that_hangs_is_told_and_holds_up_nobody(run: Callable[..., Any], fault: str) -> None:
    answers = run(timeout=3, gpu_04=fault)
    assert answers["gpu-04"]["code"] == "LATE"
    assert [each["rank"] for each in answers["gpu-04"]["blocked"]] == [0, 1]
    # Here it can be ended; in the kernel for a lost server it could not.
    assert all(each["gone"] and each["state"] for each in answers["gpu-04"]["blocked"])
    assert f"{fault.partition('-')[2]} not done after 3 s by rank 0 (" in answers["gpu-04"]["error"]
    assert all(not answer["error"] for node, answer in answers.items() if node != "gpu-04")


def test_stopped_server_blocks_all_and_ends_in_time(run: Callable[..., Any]) -> None:
    answers = run(timeout=3, deadline=25, **{node.replace("-", "_"): "hanging-write" for node in NODES})
    assert {answer["code"] for answer in answers.values()} == {"LATE"}
    assert all(len(answer["blocked"]) == 2 for answer in answers.values())


def test_node_killed_in_its_save_has_no_answer_and_the_others_go_on(run: Callable[..., Any]) -> None:
    answers = run(gpu_03="killed")
    assert sorted(answers) == ["gpu-01", "gpu-02", "gpu-04"]
    assert all(map(good, answers.values()))
    assert {answer["nodes"] for answer in answers.values()} == {3}


def test_others_end_when_the_leading_node_is_killed(run: Callable[..., Any]) -> None:
    answers = run(gpu_01="killed")
    assert sorted(answers) == ["gpu-02", "gpu-03", "gpu-04"]
    assert {answer["code"] for answer in answers.values()} == {"MEETING"}


def test_clock_that_is_off_is_told_and_spoils_no_measurement(run: Callable[..., Any]) -> None:
    answers = run("gpu-01", "gpu-02", gpu_02="slow-clock")
    assert all(map(good, answers.values()))
    assert answers["gpu-02"]["metadata"]["skew_seconds"] == pytest.approx(-3600, abs=1)
    assert 0 < answers["gpu-02"]["write"]["seconds"] < 30


def test_slow_node_is_slow_by_its_own_time_and_holds_up_the_save_of_all(run: Callable[..., Any]) -> None:
    answers = run(gpu_02="slow")
    slow = answers["gpu-02"]["write"]["seconds"]
    others = [answers[node]["write"] for node in NODES if node != "gpu-02"]
    assert slow >= 4 * 0.8
    assert all(each["seconds"] < slow for each in others)
    assert all(each["blocking_seconds"] >= 4 * 0.8 for each in others)
