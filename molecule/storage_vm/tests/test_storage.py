"""What a server and a client must do after the role: carry data, find what is lost, come back from a reboot."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.answer_lines import unpack
from ansible_collections.muster.cluster.plugins.plugin_utils.save_rounds.save_judging import (
    BAD,
    CLOCK,
    GOOD,
    Limits,
    Outcome,
    Save,
    judge,
)

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
SCENARIO = PROJECT / "molecule" / "storage_vm"
INVENTORY = f"--inventory={SCENARIO / 'inventory'}"
SERVER, CLIENT = "nfs-1", "vm-01"
MIB = 1024 * 1024
# Path on the client, directory on the server, protocol, version of NFS.
SHARED = {"/checkpoints": ("/srv/checkpoints", "tcp", "4.2"), "/fast/rdma-1": ("/srv/fast", "rdma", "4.1")}
EACH_SHARED = pytest.mark.parametrize("path", SHARED)


def ask(machine: str, command: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command on a machine."""
    argv = ["ssh", "-F", str(PROJECT / "build/vm/storage_vm/ssh_config"), machine, command]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=180)


def on(machine: str, command: str) -> str:
    """Return what a shell command prints on a machine."""
    done = ask(machine, command)
    assert done.returncode == 0, f"{machine}: {command}: {done.stdout}{done.stderr}"
    return done.stdout


def ansible(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of Ansible's programs on the scenario's inventory."""
    argv = [str(Path(sys.executable).parent / program), INVENTORY, *arguments]
    environment = {**os.environ, "ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1", "COLUMNS": "200"}
    return subprocess.run(argv, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)


def play(*arguments: str) -> tuple[int, int, str]:
    """Run the role again; return how many tasks changed and failed, and what was printed."""
    done = ansible("ansible-playbook", *arguments, str(SCENARIO / "storage.yml"))
    text = done.stdout + done.stderr
    recap = re.findall(r"changed=(\d+) .*failed=(\d+)", text)
    assert recap, text
    return sum(int(changed) for changed, _ in recap), sum(int(failed) for _, failed in recap), text


@pytest.fixture(scope="module")
def expect() -> str:
    """Return the expectations of the client's class as the node program reads them."""
    done = ansible("ansible", CLIENT, "-m", "ansible.builtin.debug", "-a", "msg={{ muster_expect | to_json }}", "-o")
    text: str = json.loads(done.stdout.partition("=>")[2])["msg"]
    return text


def examined(expect: str) -> dict[str, dict[str, Any]]:
    """Return what preflight finds of the tiers and the drives below them, by part."""
    command = f"/usr/libexec/muster/muster examine --stage preflight --no-store --node {CLIENT} <<'E'\n{expect}\nE"
    findings = json.loads(on(CLIENT, command))["findings"]
    return {each["subject"]: each for each in findings if each["check"] in ("mounts", "local_drives")}


def verdicts(expect: str) -> dict[str, str]:
    """Return the verdicts by part."""
    return {part: each["verdict"] for part, each in examined(expect).items()}


ALL_WELL = dict.fromkeys(("mount /scratch", "mount /checkpoints", "mount /fast/rdma-1", "nvme 1", "nvme 2"), "pass")


def wait_for(expect: str, wanted: dict[str, str], seconds: float = 120) -> None:
    """Wait until the client is as it is wanted."""
    deadline = time.monotonic() + seconds
    while (found := verdicts(expect)) != wanted and time.monotonic() < deadline:
        time.sleep(2)
    assert found == wanted


def mount_of(path: str) -> dict[str, str]:
    """Return type, source and options of what is mounted on the client."""
    shown = on(CLIENT, f"findmnt --json --output FSTYPE,SOURCE,OPTIONS --mountpoint {path}")
    (found,) = json.loads(shown)["filesystems"]
    return dict(found)


def test_scratch_is_xfs_on_an_array_of_both_drives_mounted_by_uuid() -> None:
    found = mount_of("/scratch")
    assert found["fstype"] == "xfs" and "noatime" in found["options"]
    detail = on(CLIENT, f"mdadm --detail --export {found['source']}")
    assert "MD_LEVEL=raid0" in detail and "MD_DEVICES=2" in detail
    uuid = on(CLIENT, f"blkid -s UUID -o value {found['source']}").strip()
    assert f"What=/dev/disk/by-uuid/{uuid}" in on(CLIENT, "systemctl cat scratch.mount")
    assert on(CLIENT, "stat -c %a /scratch").strip() == "1777"


@EACH_SHARED
def test_shared_tier_is_mounted_as_declared(path: str) -> None:
    found, (directory, protocol, version) = mount_of(path), SHARED[path]
    assert (found["fstype"], found["source"]) == ("nfs4", f"172.16.0.9:{directory}")
    assert {"hard", f"proto={protocol}", f"vers={version}"} <= {*found["options"].split(",")}


def test_export_lies_on_the_servers_own_array() -> None:
    assert "/dev/md" in on(SERVER, "findmnt --noheadings --output SOURCE,FSTYPE --mountpoint /srv/checkpoints")
    exports = on(SERVER, "exportfs -v")
    assert "172.16.0.0/24" in exports and "<world>" not in exports and "root_squash" in exports


def test_requests_in_flight_are_not_held_to_a_few() -> None:
    parameters = "/sys/module/sunrpc/parameters/tcp_max_slot_table_entries /sys/module/nfs/parameters/max_session_slots"
    assert on(CLIENT, f"cat {parameters}").split() == ["65536", "1024"]


@EACH_SHARED
def test_what_is_written_is_read_back_uncached_and_lies_on_the_server(path: str) -> None:
    file = f"{path}/shard"
    # As somebody: root is nobody on the server, and may not open what nobody owns in a sticky directory.
    user = "setpriv --reuid=1000 --regid=1000 --clear-groups"
    on(CLIENT, f"{user} dd if=/dev/urandom of={file} bs=1M count=8 conv=fsync status=none")
    stats = (
        f'awk \'/mounted on/ {{found = $5 == "{path}"}} found && $1 == "bytes:" {{print $4}}\' /proc/self/mountstats'
    )
    before = int(on(CLIENT, stats))
    read = on(CLIENT, f"{user} dd if={file} bs=1M count=8 iflag=direct status=none | sha256sum").split()[0]
    # Through the client's cache none of it would be asked for.
    assert int(on(CLIENT, stats)) - before == 8 * MIB
    assert on(SERVER, f"sha256sum {SHARED[path][0]}/shard").split()[0] == read
    on(CLIENT, f"{user} rm {file}")


def small_files(machine: str, directory: str) -> dict[str, Any]:
    """Return what a machine says of its part in a round of saves in which it is alone."""
    program = "/usr/libexec/muster/muster"
    test = {
        **{
            "directory": directory,
            "run": f"run-{time.time_ns()}",
            "hub": machine,
            "hub_address": "127.0.0.1",
        },
        **{"ranks": 1, "shard_bytes": MIB, "files": 20, "checkpoint_bytes": MIB},
        **{"python": "/usr/bin/python3", "program": program},
    }
    slurm = f"SLURMD_NODENAME={machine} SLURM_STEP_NODELIST={machine} SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=1"
    slurm += " MUSTER_ROUND_SECRET=lab"
    user = "setpriv --reuid=1000 --regid=1000 --clear-groups"
    said = ask(machine, f"{slurm} {user} {program} storage --spec='{json.dumps(test)}' --port=26000 --deadline=150")
    (answer,), faults = unpack(said.stdout)
    assert not faults, said.stdout + said.stderr
    return answer


def clocks() -> dict[str, Outcome]:
    """Return by machine what is found of its clock: the client's against the server's stamps, and the server's own."""
    answers = [small_files(CLIENT, "/checkpoints"), small_files(SERVER, "/srv/checkpoints")]
    save = Save.read(1, {"group": [CLIENT, SERVER], "started": True, "ok": True, "answers": answers})
    # Of the limits none is the clock's.
    found = judge(save, Limits(0.001, 0.001, 1e6, 1.5, "/checkpoints", MIB, 1, 60.0))
    return {machine: outcomes[CLOCK] for machine, outcomes in found.items()}


def put_clock_forward(seconds: float) -> None:
    """Set the client's clock so much further."""
    on(CLIENT, f"python3 -c 'import time; time.clock_settime(time.CLOCK_REALTIME, time.time() + {seconds})'")


def test_clock_that_is_off_is_found_by_the_time_stamps_of_the_storage() -> None:
    # Machines that are started one after the other have clocks that differ.
    put_clock_forward(-small_files(CLIENT, "/checkpoints")["metadata"]["skew_seconds"])
    right = clocks()
    put_clock_forward(60)
    try:
        wrong = clocks()
    finally:
        put_clock_forward(-60)
    assert {machine: each.verdict for machine, each in right.items()} == {CLIENT: GOOD, SERVER: GOOD}
    assert {machine: each.verdict for machine, each in wrong.items()} == {CLIENT: BAD, SERVER: GOOD}
    assert wrong[CLIENT].measured == pytest.approx(60, abs=3)


def test_preflight_passes_every_tier(expect: str) -> None:
    # An emulated drive on a busy machine may once take longer than a write may.
    wait_for(expect, ALL_WELL)


def test_health_check_finds_a_lost_mount_at_once(expect: str) -> None:
    on(CLIENT, "umount /checkpoints")
    found = examined(expect)
    assert found["mount /checkpoints"]["verdict"] == "incomplete"
    assert "tier checkpoints: nothing is mounted at /checkpoints" in found["mount /checkpoints"]["reason"]
    on(CLIENT, f"mkdir -p /tmp/muster; cat >/tmp/expect.json <<'E'\n{expect}\nE\n")
    check = "/usr/libexec/muster/muster health --expect /tmp/expect.json --state-directory /tmp/muster"
    # An emulated machine on a busy one may not answer within the check's own limit, which is no pass either.
    end = time.monotonic() + 120
    while "nothing is mounted at /checkpoints" not in (said := ask(CLIENT, check)).stdout:
        assert said.returncode != 0 and time.monotonic() < end, said.stdout + said.stderr
    assert said.returncode != 0
    changed, failed, text = play(f"--limit={CLIENT}")
    assert (changed, failed) == (1, 0), text
    wait_for(expect, ALL_WELL)


@pytest.fixture
def server_away() -> Iterator[None]:
    """Stop the server for a while, as by a fault: its packets are lost, connections stay."""
    on(CLIENT, "ip route add blackhole 172.16.0.9/32; ip route flush cache")
    yield
    on(CLIENT, "ip route del blackhole 172.16.0.9/32 2>/dev/null; true")


def test_server_that_is_away_costs_an_answer_and_not_the_node(expect: str, server_away: None) -> None:
    for _ in range(2):
        found = examined(expect)
        assert found["mount /checkpoints"]["verdict"] == "incomplete", found
        assert "did not" in found["mount /checkpoints"]["reason"]
        assert found["mount /scratch"]["verdict"] == "pass"
    hanging = on(CLIENT, "grep -l muster-mount-probe /proc/[0-9]*/cmdline 2>/dev/null | wc -l; true")
    assert int(hanging) <= len(SHARED) + 1
    on(CLIENT, "ip route del blackhole 172.16.0.9/32")
    wait_for(expect, ALL_WELL)


def test_read_only_mount_is_found(expect: str) -> None:
    on(CLIENT, "mount -o remount,ro /scratch")
    found = examined(expect)["mount /scratch"]
    assert (found["verdict"], found["measured"]) == ("fail", "read-only")
    on(CLIENT, "mount -o remount,rw /scratch")


def test_changed_setting_waits_for_a_word() -> None:
    options = "vers=4.2,proto=tcp,nconnect=2,hard,noatime"
    on(CLIENT, f"umount /checkpoints && mount -t nfs -o {options} 172.16.0.9:/srv/checkpoints /checkpoints")
    changed, failed, text = play(f"--limit={CLIENT}")
    assert (changed, failed) == (0, 0), text
    assert "nconnect=2, expected nconnect=4" in re.sub(r"\s+", " ", text)
    changed, failed, text = play(f"--limit={CLIENT}", "-e", "checkpoint_storage_allow_remount=true")
    assert (changed, failed) == (1, 0), text
    assert "nconnect=4" in mount_of("/checkpoints")["options"]


def test_drive_that_is_gone_is_found(expect: str) -> None:
    on(CLIENT, "echo 1 >/sys/bus/pci/devices/0000:00:11.0/remove")
    found = examined(expect)
    assert found["mount /scratch"]["verdict"] == "fail", found["mount /scratch"]
    assert found["nvme 2"]["verdict"] != "pass"
    assert found["mount /checkpoints"]["verdict"] == "pass"


def reboot() -> None:
    """Boot both machines anew."""
    lab = [sys.executable, str(PROJECT / "molecule/lab/vm.py"), str(SCENARIO / "vars/machines.yml")]
    subprocess.run([*lab, "reboot"], check=True)


def test_reboot_brings_everything_back_before_slurmd(expect: str) -> None:
    reboot()
    wait_for(expect, ALL_WELL)
    shown = "systemctl show --property=ActiveEnterTimestampMonotonic --value"
    slurmd = int(on(CLIENT, f"{shown} slurmd.service"))
    assert slurmd >= int(on(CLIENT, f"{shown} scratch.mount")) > 0


def test_nothing_is_left_to_change_after_the_reboot() -> None:
    changed, failed, text = play()
    assert (changed, failed) == (0, 0), text


def test_drive_with_data_is_refused_by_name_and_erased_only_when_told() -> None:
    array = mount_of("/scratch")["source"]
    on(CLIENT, f"systemctl stop scratch.mount && mdadm --stop {array} && wipefs -qa /dev/nvme0n1 /dev/nvme1n1")
    on(CLIENT, "echo 'y' | mkfs.ext4 -q -F -L precious /dev/nvme1n1")
    # Where superblocks lie: all of both takes an emulated processor minutes.
    hashed = "for drive in /dev/nvme?n1; do head -c 64M $drive | sha256sum; done"
    before = on(CLIENT, hashed)
    changed, failed, text = play(f"--limit={CLIENT}")
    assert (changed, failed) == (0, 1), text
    assert re.search(r"nvme1n1 at 0000:00:11.0 \(serial C2\) holds ext4", re.sub(r"\s+", " ", text)), text
    assert on(CLIENT, hashed) == before
    changed, failed, text = play(f"--limit={CLIENT}", "-e", "checkpoint_storage_erase=true")
    assert failed == 0, text
    assert mount_of("/scratch")["fstype"] == "xfs"
    changed, failed, text = play(f"--limit={CLIENT}")
    assert (changed, failed) == (0, 0), text
