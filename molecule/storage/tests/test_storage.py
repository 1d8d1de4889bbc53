"""What the chain found, and rounds of saves under faults: each ends in time, in the right verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.save_rounds.save_judging import Limits, Save
from ansible_collections.muster.cluster.plugins.plugin_utils.save_rounds.save_rounds import Plan, next_round

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
SCENARIO = PROJECT / "molecule/storage"
SSH = ("ssh", "-F", str(PROJECT / "build/lab/ssh_config"), "-o", "BatchMode=yes", "-l", "root")
NODES = ("gpu-01", "gpu-02", "gpu-03", "gpu-04")
PLACE = "/checkpoints/.muster/storagelab"
# What one step on the storage may take here, and then the whole round.
STEP_SECONDS, ROUND_SECONDS = 30, 150


def on(host: str, command: str, text: str = "") -> str:
    """Return what a shell command prints on a host; it must succeed."""
    done = subprocess.run([*SSH, host, command], input=text, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{host}: {command}\nended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


# Until a node writes its shard; a round that never comes so far ends it.
WRITING = "for i in $(seq 900); do ls {place}/*/{node}/shard-0 >/dev/null 2>&1 && break; sleep 0.1; done"


@contextmanager
def stopped_in_mid_write() -> Iterator[None]:
    """Have whoever writes wait in the kernel from then on, as for a server that is gone, until the end of this."""
    freeze = f"{WRITING.format(place=PLACE, node='gpu-01')}; fsfreeze --freeze /checkpoints"
    # A shard of an earlier round would stop this one before it writes.
    on("gpu-01", f"rm -rf {PLACE}/*")
    stopping = threading.Thread(target=on, args=("gpu-01", freeze))
    stopping.start()
    try:
        yield
    finally:
        stopping.join()
        on("gpu-01", "fsfreeze --unfreeze /checkpoints")


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return Fleet.load(SCENARIO / "inventory/storage.fleet.yml")


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Any]:
    entries = json.loads((PROJECT / "build/molecule/storage/verdicts.json").read_text())
    return {entry["node"]: entry for entry in entries}


class Rounds:
    """Saves through the controller's Slurm, judged as a campaign does."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.expect = fleet.classes["lab_h100"]
        self.limits = Limits.of(self.expect)
        self.seen: list[dict[str, Any]] = []
        self.seconds: list[float] = []

    def run(self, number: int, group: tuple[str, ...]) -> Save:
        """Run one round and return it; it must end in its time."""
        addresses = {node.name: node.address for node in self.fleet.nodes}
        given = {
            "campaign": f"scenario{len(self.seen)}",
            "number": number,
            "groups": [list(group)],
            "gpus_per_node": 8,
            "addresses": {node: addresses[node] for node in group},
            "test": {
                **{"directory": PLACE, "ranks": 1, "shard_bytes": self.limits.shard_bytes, "files": 100},
                **{"checkpoint_bytes": 4 * 2**20, "python": self.expect.pytorch.python},
            },
            "environment": {"GLOO_SOCKET_IFNAME": "eth0"},
            "port": 26000 + 10 * len(self.seen) + 2 * int(time.time() % 500),
            "timeout_seconds": STEP_SECONDS,
            "deadline_seconds": ROUND_SECONDS,
        }
        argv = [str(Path(sys.executable).parent / "ansible"), f"--inventory={SCENARIO / 'inventory'}", "ctl", "-o"]
        argv += ["-m", "muster.cluster.storage_round", "-a", json.dumps(given)]
        environment = {**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "ANSIBLE_FORCE_COLOR": "0"}
        begin = time.monotonic()
        done = subprocess.run(
            argv, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False, timeout=ROUND_SECONDS + 90
        )
        self.seconds.append(time.monotonic() - begin)
        assert done.returncode == 0, done.stdout + done.stderr
        (item,) = json.loads(done.stdout.partition("=>")[2])["observations"]
        self.seen.append(item)
        return Save.read(number, item)

    def conclude(self, members: tuple[str, ...] = NODES) -> Conclusion:
        """Run rounds until they end."""
        saves: list[Save] = []
        while True:
            step = next_round(Plan(members, (), self.limits), saves)
            if isinstance(step, Conclusion):
                return step
            saves.append(self.run(step.number, step.groups[0]))

    def answer(self, node: str, number: int = 0) -> dict[str, Any]:
        """Return what a node said in one of the rounds."""
        found: dict[str, Any] = next(each for each in self.seen[number]["answers"] if each["node"] == node)
        return found


@pytest.fixture
def rounds(fleet: Fleet) -> Rounds:
    return Rounds(fleet)


def verdicts_of(conclusion: Conclusion) -> dict[str, str]:
    return {node: worst(each.verdict for each in found) for node, found in conclusion.findings.items()}


def finding(conclusion: Conclusion, node: str, check: str) -> Any:
    return next(each for each in conclusion.findings[node] if each.check == check)


@pytest.mark.main_road
def test_client_at_half_the_speed_is_named_and_the_others_are_admitted(verdicts: dict[str, Any]) -> None:
    assert {node: entry["state"] for node, entry in verdicts.items()} == {
        **dict.fromkeys(NODES, "admitted"),
        "gpu-04": "rejected",
    }
    failed = {each["check"]: each for each in verdicts["gpu-04"]["findings"] if each["verdict"] == FAIL}
    assert {"storage_write", "storage_read"} <= set(failed)
    assert failed["storage_write"]["measured"] == pytest.approx(0.012, rel=0.3)
    assert "times as long, limit 1.5" in failed["storage_write"]["reason"]
    assert "storage" in verdicts["gpu-04"]["stage"]


@pytest.mark.main_road
def test_all_that_is_owed_was_measured_past_the_caches(verdicts: dict[str, Any]) -> None:
    for node in NODES[:3]:
        found = {each["check"]: each for each in verdicts[node]["findings"] if each["check"].startswith("storage_")}
        assert {each["verdict"] for each in found.values()} == {PASS}
        # More than the host is let to read would come from memory.
        assert 0.004 < found["storage_read"]["measured"] < 0.03
        assert "loaded by" in found["storage_checkpoint"]["reason"]


@pytest.mark.main_road
def test_nothing_is_left_on_the_storage() -> None:
    assert on("gpu-01", f"ls -A {PLACE}") == ""


def test_storage_that_stops_in_mid_write_ends_in_time_and_blames_nobody(rounds: Rounds) -> None:
    with stopped_in_mid_write():
        conclusion = rounds.conclude()
        assert rounds.seconds[0] < ROUND_SECONDS
        blocked = [each for node in NODES for each in rounds.answer(node)["blocked"]]
        # In the kernel, where no signal reaches them.
        assert [each["state"] for each in blocked] == ["D"] * len(blocked)
        assert len(blocked) >= len(NODES)
        assert {rounds.answer(node)["phase"] for node in NODES} == {"write"}
    assert verdicts_of(conclusion) == dict.fromkeys(NODES, INCOMPLETE)
    assert "no node is blamed" in finding(conclusion, "gpu-01", "storage_write").reason
    # Once the storage is back they end.
    end = time.monotonic() + 60
    left = "ps -eo pid=,stat=,args= | grep 'muster storage' | grep -v grep || true"
    while any(on(node, left) for node in NODES):
        assert time.monotonic() < end, [on(node, left) for node in NODES]
        time.sleep(1)


def test_full_storage_is_nobodys_fault(rounds: Rounds) -> None:
    wait_until_usable()
    on("gpu-01", "fallocate -l $(($(stat -f -c '%a * %S' /checkpoints) - 20000000)) /checkpoints/fill")
    try:
        conclusion = rounds.conclude(NODES[:3])
    finally:
        on("gpu-01", "rm /checkpoints/fill")
    assert verdicts_of(conclusion) == dict.fromkeys(NODES[:3], INCOMPLETE)
    assert "No space left on device" in finding(conclusion, "gpu-01", "storage_write").reason


@pytest.mark.main_road
def test_read_only_mount_is_the_nodes_fault(rounds: Rounds) -> None:
    wait_until_usable()
    on("gpu-02", "mount -o remount,bind,ro /checkpoints")
    try:
        conclusion = rounds.conclude(NODES[:3])
    finally:
        on("gpu-02", "mount -o remount,bind,rw /checkpoints")
    assert verdicts_of(conclusion) == {"gpu-01": PASS, "gpu-02": FAIL, "gpu-03": PASS}
    assert "Read-only file system" in finding(conclusion, "gpu-02", "storage_write").reason


@pytest.mark.main_road
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("printf XXXX | dd of=$shard bs=1 seek=1000 conv=notrunc,fsync status=none", "is wrong for its writer, too"),
        ("rm $shard", "gone for its writer, too"),
    ],
    ids=["a flipped byte", "a shard missing"],
)
def test_damaged_shard_is_found_and_its_reader_passes(rounds: Rounds, damage: str, said: str) -> None:
    wait_until_usable()
    on("gpu-01", f"rm -rf {PLACE}/*")
    # Half of it is written: the rest of it, and the one that is written at half the speed, leave time enough.
    half = rounds.limits.shard_bytes // 2
    shard = f"shard=$(ls {PLACE}/*/gpu-03/shard-0); until [ $(stat -c %s $shard) -ge {half} ]; do sleep 0.05; done"
    spoiling = threading.Thread(
        target=on, args=("gpu-01", f"{WRITING.format(place=PLACE, node='gpu-03')}; {shard}; {damage}")
    )
    spoiling.start()
    conclusion = rounds.conclude()
    spoiling.join()
    assert verdicts_of(conclusion) == {"gpu-01": PASS, "gpu-02": PASS, "gpu-03": FAIL, "gpu-04": FAIL}
    found = finding(conclusion, "gpu-03", "storage_data")
    assert (found.verdict, found.expected) == (FAIL, 0)
    assert said in found.reason
    assert finding(conclusion, "gpu-04", "storage_data").verdict == PASS


def test_node_killed_in_its_save_is_incomplete_and_the_others_pass(rounds: Rounds) -> None:
    wait_until_usable()
    on("gpu-01", f"rm -rf {PLACE}/*")
    kill = f"{WRITING.format(place=PLACE, node='gpu-03')}; kill -9 $(pgrep -u muster -f 'muster storage')"
    killers = []

    def run(number: int, group: tuple[str, ...]) -> Save:
        killer = threading.Thread(target=on, args=("gpu-03", kill))
        killer.start()
        killers.append(killer)
        save = Rounds.run(rounds, number, group)
        killer.join()
        return save

    rounds.run = run  # type: ignore[method-assign] -- each of its rounds meets the killer
    conclusion = rounds.conclude(NODES[:3])
    assert killers
    assert verdicts_of(conclusion) == {"gpu-01": PASS, "gpu-02": PASS, "gpu-03": INCOMPLETE}
    assert "no answer: its task was killed" in finding(conclusion, "gpu-03", "storage_write").reason
    wait_until_usable()
    # What the killed one left is gone with the next round.
    assert verdicts_of(Rounds(rounds.fleet).conclude(NODES[:3])) == dict.fromkeys(NODES[:3], PASS)
    assert on("gpu-01", f"ls -A {PLACE}") == ""


def wait_until_usable() -> None:
    """Wait until Slurm gives out all nodes again."""
    end = time.monotonic() + 120
    while True:
        states = on("ctl", "sinfo -h -N -p acceptance -o %T").split()
        if set(states) == {"idle"}:
            return
        assert time.monotonic() < end, f"{states}: {on('ctl', 'sinfo -R')}"
        time.sleep(1)
