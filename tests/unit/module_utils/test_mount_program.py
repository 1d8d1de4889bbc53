"""Mounts that are used: what they answer, and that one which hangs costs an answer and nobody's time."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import judge
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS, parsers, required
from ansible_collections.muster.cluster.plugins.module_utils.host import mount_program
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.in_service import health
from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import DEPENDS, fingerprint_of
from ansible_collections.muster.cluster.plugins.module_utils.probes import mounts
from ansible_collections.muster.cluster.plugins.module_utils.slurm import drain_reason

from tests.fuzz.sick import MOUNTS
from tests.typed import typed
from tests.unit.module_utils.conftest import HEALTHY

TEXT = (HEALTHY / "mounts.json").read_text()

MOUNT = {
    **{"tier": "scratch", "kind": "local", "filesystem": "xfs", "source": None, "options": [], "numa_node": None},
    **{"stripe_count": None, "write_ms": 100, "free_percent": 5},
}


def ran(*paths: str, seconds: float = 2.0) -> dict[str, dict]:
    program = [sys.executable, "-IS", mount_program.__file__, mount_program.MARK, str(seconds), *paths]
    done = subprocess.run(program, capture_output=True, text=True, timeout=30, check=True)
    return json.loads(done.stdout)


def mounted(*kinds: str) -> str:
    """Return where a file system of one of these kinds is mounted on this machine."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        path = before.split(" ")[4]
        # Root writes as somebody else.
        if after.split(" ")[0] in kinds and os.access(path, os.W_OK) and os.stat(path).st_mode & 0o002:  # noqa: PTH116
            return path
    pytest.skip(f"no file system of {kinds} that can be written is mounted here")


def test_mount_that_takes_a_write_says_how_long_it_took_and_keeps_no_file():
    path = mounted("tmpfs", "ext4", "xfs", "overlay")
    before = {each.name for each in Path(path).iterdir()}
    answer = ran(path)[path]
    assert (answer["error"], answer["stuck"]) == ("", "") and 0 < answer["write_ms"] < 5000
    assert answer["size"] >= answer["free"] > 0
    assert not [name for name in {each.name for each in Path(path).iterdir()} - before if "muster" in name]
    assert mounts.parse(Output(json.dumps({path: answer})))[path].mount.path == path


def test_directory_that_is_no_mount_is_not_written_to(tmp_path):
    assert ran(str(tmp_path)) == {str(tmp_path): {"mountinfo": ""}}


def test_file_system_that_takes_no_write_says_why():
    answer = ran("/proc")["/proc"]
    assert answer["write_ms"] is None and answer["error"] and answer["errno"], answer


def test_mount_that_hangs_costs_its_answer_alone(monkeypatch, tmp_path):
    def told(path, say):
        if path == "/dead":
            time.sleep(60)
        say({"free": 1, "size": 2})
        if path == "/late":
            time.sleep(60)
        say({"write_ms": 1.0})

    monkeypatch.setattr(mount_program, "told", told)
    monkeypatch.setattr(mount_program, "_RUN", str(tmp_path / "run"))
    answers = mount_program.ask(["/dead", "/late", "/well"], 1.0)
    assert {path: answer["stuck"] for path, answer in answers.items()} == {
        "/dead": "mount",
        "/late": "write",
        "/well": "",
    }
    # What could be killed is gone, and no reason to ask less the next time. On a busy machine it may be remembered as
    # not gone yet.
    for kept in (tmp_path / "run").glob("*"):
        stat = Path("/proc", kept.read_text(), "stat")
        for _ in range(200):
            if not stat.exists() or stat.read_text().split()[2] == "Z":
                break
            time.sleep(0.05)
        else:
            pytest.fail(f"{kept.name} still runs")


def test_second_examination_sends_nobody_where_one_hangs_already(monkeypatch, tmp_path):
    children = []

    def told(path, say):
        time.sleep(60)

    monkeypatch.setattr(mount_program, "told", told)
    monkeypatch.setattr(mount_program, "_RUN", str(tmp_path / "run"))
    # The command line of whoever runs this test.
    monkeypatch.setattr(mount_program, "MARK", "py")
    kill = os.kill
    # As if it were stuck in the kernel.
    monkeypatch.setattr(mount_program.os, "kill", lambda pid, number: children.append(pid))
    try:
        assert mount_program.ask(["/dead"], 0.3)["/dead"]["stuck"] == "mount"
        assert mount_program.hangs("/dead") and not mount_program.hangs("/other")
        assert mount_program.ask(["/dead"], 0.3)["/dead"]["stuck"] == "mount"
        assert len(children) == 1
    finally:
        for child in children:
            kill(child, 9)
            os.waitpid(child, 0)
    assert not mount_program.hangs("/dead")


def test_probe_runs_the_program_from_where_it_lies(monkeypatch, expect):
    path = mounted("tmpfs", "ext4", "xfs", "overlay")

    class Here(LocalHost):
        def run(self, argv, timeout_seconds):
            assert timeout_seconds <= health.MEASURE_SECONDS / 2
            return super().run((sys.executable, *argv[1:]), timeout_seconds)

    found = mounts.parse(mounts.collect(Here(), typed({**expect, "mounts": [{**MOUNT, "path": path}]})))
    assert found[path].mount is not None and found[path].stuck == ""


def test_fleet_without_tiers_asks_nobody_and_owes_nothing(fake_host, expect):
    assert mounts.parse(mounts.collect(fake_host, typed({**expect, "mounts": None}))) == {}
    assert fake_host.runs == []
    for stage in ("preflight", "health"):
        assert not {check for check, _ in required(stage, typed(expect))} & {"mounts", "local_drives"}
    storage = {**expect, "mounts": copy.deepcopy(MOUNTS)}
    for stage in ("preflight", "health"):
        parts = [part for check, part in required(stage, typed(storage)) if check == "mounts"]
        assert parts == ["mount /scratch", "mount /checkpoints"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"/a": 1}',
        '{"/a": {}}',
        '{"/a": {"mountinfo": "x"}}',
        TEXT.replace('"stuck": ""', '"stuck": "?"'),
        TEXT.replace("/scratch rw", "/other rw"),
        TEXT.replace('"present": 8', '"present": "all"'),
    ],
)
def test_answer_that_is_none_is_unreadable(text):
    with pytest.raises(Unreadable):
        mounts.parse(Output(text))


def judged(expect, text=TEXT):
    storage = {**expect, "mounts": copy.deepcopy(MOUNTS), "nvme": {**expect["nvme"], "count": 8}}
    findings = judge({"mounts": Output(text)}, parsers(["mounts"]), [CHECKS["mounts"]], typed(storage)).findings
    return {each.subject: each for each in findings}


@pytest.mark.parametrize(
    ("change", "part", "verdict", "said"),
    [
        (('"free": 700000000000000', '"free": 1'), "/checkpoints", "pass", "tier checkpoints: too little space left"),
        (('"free": 30000000000000', '"free": 1'), "/scratch", "fail", "tier scratch: too little space left"),
        (('"stuck": ""', '"stuck": "mount"'), "/checkpoints", "incomplete", "/checkpoints did not answer in time"),
        (('"present": 8', '"present": 7'), "/scratch", "fail", "7 of 8 drives of the array are there"),
        (('"clean"', '"broken"'), "/scratch", "fail", "array state is broken"),
    ],
)
def test_what_is_said_of_a_mount(expect, change, part, verdict, said):
    assert change[0] in TEXT
    found = judged(expect, TEXT.replace(*change, 1))
    assert found[f"mount {part}"].verdict == verdict
    assert said in found[f"mount {part}"].reason
    assert [each.verdict for name, each in found.items() if name != f"mount {part}"] == ["pass"]


def over_ports(expect, declared, shown):
    """Return the finding of a shared tier that is declared and mounted over such addresses."""
    wanted = copy.deepcopy(MOUNTS)
    next(each for each in wanted if each["path"] == "/checkpoints")["options"].append(f"remoteports={declared}")
    data = json.loads(TEXT)
    data["/checkpoints"]["mountinfo"] = data["/checkpoints"]["mountinfo"].replace("\n", f",remoteports={shown}\n")
    findings = judge(
        {"mounts": Output(json.dumps(data))},
        parsers(["mounts"]),
        [CHECKS["mounts"]],
        typed({**expect, "mounts": wanted}),
    ).findings
    return next(each for each in findings if each.subject == "mount /checkpoints")


def test_mount_over_fewer_addresses_than_declared_is_the_nodes_fault(expect):
    assert over_ports(expect, "10.0.0.1-10.0.0.8", "10.0.0.1-10.0.0.8").verdict == "pass"
    assert over_ports(expect, "10.0.0.1-10.0.0.8", "10.0.0.1-10.0.0.9").verdict == "pass"
    found = over_ports(expect, "10.0.0.1-10.0.0.8", "10.0.0.1~10.0.0.3")
    assert (found.verdict, found.measured, found.expected, found.unit) == ("fail", 2, 8, "addresses")
    assert found.reason.endswith(
        "/checkpoints is not mounted over all remoteports: without 10.0.0.2, 10.0.0.4, 10.0.0.5 and 3 more"
    )
    # What DNS says at the time is no declared address.
    assert over_ports(expect, "10.0.0.1", "dns").verdict == "fail"


@pytest.mark.parametrize(("shown", "verdict"), [("10.0.0.5", "pass"), ("10.0.0.6", "fail")])
def test_beegfs_of_another_management_service_is_another_file_system(expect, shown, verdict):
    wanted = copy.deepcopy(MOUNTS)
    tier = next(each for each in wanted if each["path"] == "/checkpoints")
    tier |= {"kind": "beegfs", "filesystem": "beegfs", "source": "beegfs_nodev", "options": ["sysMgmtdHost=10.0.0.5"]}
    data = json.loads(TEXT)
    line = f"90 25 0:60 / /checkpoints rw,relatime - beegfs beegfs_nodev rw,sysMgmtdHost={shown}\n"
    data["/checkpoints"]["mountinfo"] = line
    storage = typed({**expect, "mounts": wanted})
    findings = judge({"mounts": Output(json.dumps(data))}, parsers(["mounts"]), [CHECKS["mounts"]], storage).findings
    (found,) = (each for each in findings if each.subject == "mount /checkpoints")
    assert found.verdict == verdict
    why = "tier checkpoints: management service is 10.0.0.6, expected 10.0.0.5"
    assert found.reason == ("" if verdict == "pass" else why)


def test_client_tells_its_version_where_its_kind_keeps_it():
    assert mount_program.VERSIONS["nfs"] == mount_program.VERSIONS["nfs4"]
    assert mount_program.VERSIONS["nfs"].endswith("/sunrpc/parameters/nfs_bundle_version")


def test_vast_client_and_its_ports_are_part_of_who_the_host_is(expect):
    storage = typed({**expect, "mounts": copy.deepcopy(MOUNTS)})
    data = json.loads(TEXT)
    before = fingerprint_of({"mounts": mounts.parse(Output(json.dumps(data)))}, storage)["storage_client"]
    data["/checkpoints"]["version"] = "4.0.34-vastdata"
    data["/checkpoints"]["mountinfo"] = data["/checkpoints"]["mountinfo"].replace("\n", ",remoteports=10.0.0.1\n")
    after = fingerprint_of({"mounts": mounts.parse(Output(json.dumps(data)))}, storage)["storage_client"]
    assert before != after and "4.0.34-vastdata" in after and "remoteports=10.0.0.1" in after


@pytest.mark.parametrize(("number", "verdict"), [("ENOSPC", "incomplete"), ("EROFS", "fail"), ("ESTALE", "fail")])
def test_write_that_fails_is_the_nodes_unless_the_server_is_full(expect, number, verdict):
    data = json.loads(TEXT)
    data["/checkpoints"] |= {"write_ms": None, "error": "no", "errno": number}
    assert judged(expect, json.dumps(data))["mount /checkpoints"].verdict == verdict
    data = json.loads(TEXT)
    data["/scratch"] |= {"write_ms": None, "error": "no", "errno": number}
    assert judged(expect, json.dumps(data))["mount /scratch"].verdict == "fail"


def test_storage_client_is_part_of_who_the_host_is(expect):
    storage = {**expect, "mounts": copy.deepcopy(MOUNTS)}
    client = fingerprint_of({"mounts": mounts.parse(Output(TEXT))}, typed(storage))["storage_client"]
    assert client is not None and client.startswith("checkpoints=nfs4 ") and "proto=tcp" in client
    other = TEXT.replace("nconnect=16", "nconnect=1")
    assert fingerprint_of({"mounts": mounts.parse(Output(other))}, typed(storage))["storage_client"] != client
    data = json.loads(TEXT)
    data["/checkpoints"] = {"mountinfo": ""}
    lost = fingerprint_of({"mounts": mounts.parse(Output(json.dumps(data)))}, typed(storage))["storage_client"]
    assert lost == "checkpoints=not mounted"
    assert fingerprint_of({"mounts": None}, typed(storage))["storage_client"] is None
    assert fingerprint_of({"mounts": {}}, typed(expect))["storage_client"] == "none"
    assert "storage_client" in DEPENDS["storage"]


def test_lost_mount_is_a_reason_to_drain_at_the_next_health_check(fake_host, expect):
    expect["gpu"]["nvml"] = None
    expect["mounts"] = copy.deepcopy(MOUNTS)
    fake_host.outputs["/usr/bin/python3"] = Output(TEXT)
    assert health.examine(fake_host, typed(expect), 1000.0).verdict == "pass"
    data = json.loads(TEXT)
    data["/checkpoints"] = {"mountinfo": ""}
    fake_host.outputs["/usr/bin/python3"] = Output(json.dumps(data))
    beat = health.examine(fake_host, typed(expect), 1300.0)
    # Lifted when the server is back: no person has to release a node for that.
    assert health.reason_of(beat).startswith(f"{drain_reason.INCOMPLETE}mounts:")
    data = json.loads(TEXT)
    data["/scratch"] = {"mountinfo": ""}
    fake_host.outputs["/usr/bin/python3"] = Output(json.dumps(data))
    beat = health.examine(fake_host, typed(expect), 1300.0)
    assert health.reason_of(beat).startswith(f"{drain_reason.FAULT}mounts:")
    # No answer at all is no pass either.
    fake_host.outputs["/usr/bin/python3"] = Output(rc=None, timed_out=True, error="no answer within 2.5 s")
    beat = health.examine(fake_host, typed(expect), 1600.0)
    assert health.reason_of(beat).startswith(f"{drain_reason.INCOMPLETE}mounts:")
