"""Slurm's hooks on a lab host: the wrappers as the role installs them, the real program, a simulated scontrol."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import rules_of
from ansible_collections.muster.cluster.plugins.module_utils.in_service.health_drain import OVER_SECONDS
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import defaults
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

SetFaults = Callable[..., None]
BOOT = "11111111-2222-3333-4444-555555555555"
# What a wrapper grants to a command, in seconds; the program comes first.
LIMIT = re.compile(r"(timeout -s KILL )([0-9.]+)")
WRAPPERS = Path(__file__).resolve().parents[3] / "roles" / "slurm" / "files" / "hooks"
# A controller that knows one node: its state and reason lie in a file, every update is kept.
SCONTROL = """#!{python}
import pathlib, sys, time
place = pathlib.Path({place!r})
state, _, reason = (place / "node").read_text().strip().partition("|")
if state == "hang":
    time.sleep(60)
if state == "gone":
    sys.exit("slurm_load_node error: Unable to contact slurm controller (connect failure)")
if sys.argv[1] == "show":
    told = f" Reason={{reason}} [root@2026-11-20T10:00:00]" if reason else ""
    print(f"NodeName={{sys.argv[3]}} Arch=x86_64 State={{state}} ThreadsPerCore=1 BootTime=None{{told}}")
else:
    keys = dict(word.split("=", 1) for word in sys.argv[2:])
    with (place / "updates").open("a") as file:
        file.write(" ".join(sys.argv[2:]) + "\\n")
    (place / "node").write_text("IDLE|" if keys["State"] == "RESUME" else "IDLE+DRAIN|" + keys["Reason"])
"""
# What the node asks about users and jobs: each answer is a file, none an error.
ANSWERS = """#!/bin/sh
for word; do :; done
exec cat '{place}'/told/"${{0##*/}}-$word"
"""


@dataclass
class Lab:
    """A host with Slurm's hooks, and what its controller was told; ``inside`` is the command that enters it."""

    place: Path
    inside: Sequence[str] = ()

    def slurm(self, state: str, reason: str = "") -> None:
        (self.place / "node").write_text(f"{state}|{reason}")

    def ssh_rules(self, text: str) -> None:
        """Give the host other rules for ssh; only where it is entered by ``inside``."""
        (self.place / "pam.d" / "sshd").write_text(text)

    def told(self, question: str, answer: str) -> None:
        (self.place / "told" / question).write_text(answer)

    @property
    def node(self) -> str:
        return (self.place / "node").read_text().strip()

    @property
    def updates(self) -> list[str]:
        path = self.place / "updates"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def heartbeat(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.place / "state" / "health.json").read_text())
        return data

    def program(self, text: str) -> None:
        path = self.place / "program"
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def hook(
        self, name: str, more: Mapping[str, str] | None = None, limit_seconds: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a hook; ``limit_seconds`` is what it grants the program instead of its own."""
        environment = {"SLURMD_NODENAME": "gpu-01", **(more or {})}
        text = (self.place / f"hook-{name}").read_text()
        if limit_seconds is not None:
            text = LIMIT.sub(rf"\g<1>{limit_seconds}", text, count=1)
        return subprocess.run(
            [*self.inside, "/bin/sh", "-c", text],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def lab(host_place: Path, node_program: Path) -> Lab:
    # Not every machine shows which of its programs have a GPU open.
    expect = expectations_of("lab_h100", {"lab_h100": {"gpu": {"nvml": None}}}, "lab")
    expect["tools"] = {"path": f"{host_place}/bin:/usr/bin:/bin", "root": str(host_place / "root")}
    boot_id = host_place / "root" / "proc" / "sys" / "kernel" / "random" / "boot_id"
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text(BOOT + "\n", encoding="ascii")
    (host_place / "expect.json").write_text(json.dumps(expect), encoding="utf-8")
    record = host_place / "state" / "evidence" / "preflight" / "a" / "evidence.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"boot_id": BOOT, "finished": 1.0, "findings": [{"verdict": "pass"}]}))
    tools = host_place / "slurm"
    tools.mkdir()
    (tools / "scontrol").write_text(SCONTROL.format(python=sys.executable, place=str(host_place)))
    (tools / "scontrol").chmod(0o755)
    for tool in ("getent", "id", "squeue"):
        (tools / tool).write_text(ANSWERS.format(place=host_place))
        (tools / tool).chmod(0o755)
    (host_place / "told").mkdir()
    (host_place / "hooks.json").write_text('{"operator_groups": ["sudo"]}')
    lab = Lab(host_place)
    lab.slurm("IDLE")
    arguments = " ".join(
        f"--{name} {host_place}/{where}"
        for name, where in (("expect", "expect.json"), ("settings", "hooks.json"), ("state-directory", "state"))
    )
    lab.program(
        f'#!/bin/sh\nword=$1; shift\nexec {sys.executable} {node_program} "$word" "$@" {arguments}'
        + f' $([ "$word" = health ] || echo --run-directory {host_place}/run)\n'
    )
    (host_place / "tmp").mkdir()
    for wrapper in WRAPPERS.iterdir():
        text = wrapper.read_text()
        for name, instead in (
            ("/usr/libexec/muster/muster", f"{host_place}/program"),
            ("/var/lib/muster", f"{host_place}/state"),
            ("/run/", f"{host_place}/tmp/"),
            ("PATH=/usr/local/sbin", f"PATH={tools}:/usr/local/sbin"),
        ):
            text = text.replace(name, instead)
        (host_place / f"hook-{wrapper.name}").write_text(text)
    return lab


XID = {"kernel_log": ["NVRM: Xid (PCI:0000:85:00): 48, DBE"]}
# Nobody on the machine of the tests has this number: what its processes are is for each test to say.
USER = 59998
JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": str(USER)}


def test_healthy_host_asks_slurm_nothing(lab: Lab) -> None:
    lab.slurm("gone")
    done = lab.hook("health")
    assert (done.returncode, lab.heartbeat["verdict"], lab.updates) == (0, "pass", [])
    assert lab.heartbeat["service_time"] == lab.heartbeat["time"]


def test_fault_drains_once_with_its_evidence(lab: Lab, set_faults: SetFaults) -> None:
    set_faults(**XID)
    assert lab.hook("health").returncode == 1
    evidence = lab.heartbeat["evidence_id"]
    reason = f"muster:health:xid:{evidence}"
    assert lab.node == f"IDLE+DRAIN|{reason}"
    record = json.loads((lab.place / "state" / "evidence" / "health" / evidence / "evidence.json").read_text())
    assert (record["node"], record["stage"], record["findings"][0]["check"]) == ("gpu-01", "health", "xid")
    assert record["identity"] == {"hostname": os.uname().nodename}
    assert record["rules"] == rules_of("health")
    assert lab.hook("health").returncode == 1
    assert (len(lab.updates), lab.heartbeat["evidence_id"]) == (1, evidence)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("IDLE+DRAIN", "waits for a cable"),
        ("DOWN", "by hand"),
        ("DOWN+DRAIN", "waits for a cable"),
        ("MIXED+DRAIN", "muster: gpu_stack changes this node"),
        ("DOWN", "Node unexpectedly rebooted"),
        ("IDLE+DRAIN", "was State=IDLE before"),
        ("IDLE+DRAIN", "muster:incomplete:disk:e1, ask Ann"),
    ],
)
def test_what_others_wrote_is_never_written_over(lab: Lab, set_faults: SetFaults, state: str, reason: str) -> None:
    set_faults(**XID)
    lab.slurm(state, reason)
    for program in (None, "#!/bin/sh\nexit 3\n"):
        if program:
            lab.program(program)
        assert lab.hook("health").returncode != 0
        assert (lab.updates, lab.node) == ([], f"{state}|{reason}")


@pytest.mark.parametrize(
    "reason",
    [
        "Prolog error",
        "Epilog error",
        "muster:incomplete:disk:e1",
        f"muster:boot:{BOOT}",
        "muster: burn_in loads this node",
    ],
)
def test_fault_is_said_where_slurm_or_a_doubt_of_ours_said_less(lab: Lab, set_faults: SetFaults, reason: str) -> None:
    set_faults(**XID)
    lab.slurm("IDLE+DRAIN", reason)
    lab.hook("health")
    assert lab.node.startswith("IDLE+DRAIN|muster:health:xid:")


def test_silent_node_is_drained_before_its_next_word_brings_it_back(lab: Lab, set_faults: SetFaults) -> None:
    set_faults(**XID)
    lab.slurm("DOWN", "Not responding")
    lab.hook("health")
    assert lab.node.startswith("IDLE+DRAIN|muster:health:xid:")


def test_what_could_not_be_measured_drains_until_it_can_be(lab: Lab, set_faults: SetFaults) -> None:
    set_faults(tool_faults={"dmesg": "garble"})
    assert lab.hook("health").returncode == 2
    assert lab.node.startswith("IDLE+DRAIN|muster:incomplete:")
    set_faults()
    assert lab.hook("health").returncode == 0
    assert (lab.node, lab.heartbeat["drain"]) == ("IDLE|", "")
    lab.hook("health")
    assert len(lab.updates) == 2


def test_fault_is_not_given_back_by_a_later_pass(lab: Lab, set_faults: SetFaults) -> None:
    set_faults(gpus_lost=["SXM6"])
    lab.hook("health")
    held = lab.node
    set_faults()
    assert lab.hook("health").returncode == 0
    assert lab.node == held and "muster:health:gpu_present:" in held


def test_boot_without_a_preflight_is_drained_by_name_and_comes_back_with_one(lab: Lab) -> None:
    record = lab.place / "state" / "evidence" / "preflight" / "a" / "evidence.json"
    text = record.read_text()
    record.unlink()
    assert lab.hook("health").returncode == 2
    assert lab.node == f"IDLE+DRAIN|muster:boot:{BOOT}"
    record.write_text(text)
    assert (lab.hook("health").returncode, lab.node) == (0, "IDLE|")


@pytest.mark.parametrize("state", ["gone", "hang"])
def test_sick_node_that_cannot_reach_slurmctld_leaves_a_mark_and_tries_again(
    lab: Lab, set_faults: SetFaults, state: str
) -> None:
    set_faults(**XID)
    lab.slurm(state)
    assert lab.hook("health").returncode == 1
    assert {item["check"] for item in lab.heartbeat["findings"]} == {"xid", "drain"}
    assert lab.heartbeat["verdict"] == "fail"
    lab.slurm("IDLE")
    lab.hook("health")
    assert lab.node.startswith("IDLE+DRAIN|muster:health:xid:")


# Ways in which a health check gives no answer: the program, and what it is said to have ended with.
NO_ANSWER = {
    "crashes": ("#!/usr/bin/python3\nraise SystemError('bug')\n", "exit-1"),
    "killed": ("#!/bin/sh\nkill -9 $$\n", "exit-137"),
    "nonsense": ('#!/bin/sh\necho \'{"verdict": "pass", "findings": []}\'\n', "exit-0"),
    "not a program": ("garbage\0", "exit-126"),
    "hangs": ("#!/bin/sh\nexec sleep 60\n", "exit-137"),
}


@pytest.mark.parametrize("how", NO_ANSWER)
def test_program_without_an_answer_drains_and_is_forgiven_once_it_answers(lab: Lab, how: str) -> None:
    sound = (lab.place / "program").read_text()
    assert lab.hook("health").returncode == 0
    service_time = lab.heartbeat["service_time"]
    text, code = NO_ANSWER[how]
    lab.program(text)
    assert lab.hook("health", limit_seconds=1 if how == "hangs" else None).returncode == 2
    reason = lab.node.partition("|")[2]
    assert reason.startswith("muster:incomplete:program:exit-")
    if how != "not a program":
        assert reason.endswith(code)
    # The mark that counts on the control side: Slurm's own heartbeat stands still.
    assert lab.heartbeat["service_time"] == service_time
    lab.program(sound)
    assert (lab.hook("health").returncode, lab.node) == (0, "IDLE|")
    assert not (lab.place / "state" / "health_drain").exists()


def test_missing_program_drains_the_node(lab: Lab) -> None:
    (lab.place / "program").unlink()
    assert lab.hook("health").returncode == 2
    assert lab.node == "IDLE+DRAIN|muster:incomplete:program:exit-127"


def test_state_directory_that_cannot_be_written_drains_the_node(lab: Lab) -> None:
    (lab.place / "state").rename(lab.place / "elsewhere")
    (lab.place / "state").write_text("")
    assert lab.hook("health").returncode != 0
    assert lab.node.startswith("IDLE+DRAIN|muster:incomplete:program:")


def test_prolog_and_epilog_of_a_healthy_host_pass_and_never_ask_slurm(lab: Lab) -> None:
    lab.slurm("hang")
    for hook in ("prolog", "epilog"):
        done = lab.hook(hook, JOB)
        assert (done.returncode, done.stdout) == (0, "")
        assert (lab.place / "run" / "jobs" / "7.json").exists() == (hook == "prolog")


def test_round_does_not_start_where_its_ports_cannot_be_closed(lab: Lab) -> None:
    done = lab.hook("prolog", {**JOB, "SLURM_JOB_USER": "muster", "SLURM_NODELIST": "gpu-[01-02]"})
    assert done.returncode == 1
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["check"], finding["verdict"]) == ("round_ports", "incomplete")


@pytest.mark.parametrize(
    ("faults", "check"),
    [
        (XID, "xid"),
        ({"gpus_lost": ["SXM6"]}, "gpu_present"),
        ({"tool_faults": {"dmesg": "garble"}}, "xid"),
    ],
)
def test_prolog_refuses_a_sick_node_before_health_has_seen_it(
    lab: Lab, set_faults: SetFaults, faults: dict[str, Any], check: str
) -> None:
    lab.hook("health")
    set_faults(**faults)
    done = lab.hook("prolog", JOB)
    assert done.returncode == 1
    assert check in {item["check"] for item in json.loads(done.stdout)["findings"]}
    assert not lab.updates


def test_waiver_keeps_a_node_in_service_to_its_last_day(lab: Lab, set_faults: SetFaults) -> None:
    def waive(until: str) -> None:
        waiver = {"check": "xid", "subject": "gpu *", "until": until}
        (lab.place / "hooks.json").write_text(json.dumps({"operator_groups": ["sudo"], "waivers": [waiver]}))

    set_faults(**XID)
    waive("2099-12-31")
    done = lab.hook("health")
    assert (done.returncode, lab.heartbeat["verdict"], lab.updates) == (0, "pass", [])
    # The control machine is told, and judges by the waivers that it knows.
    assert [item["check"] for item in json.loads(done.stdout)["findings"]] == ["xid"]
    assert lab.hook("prolog", JOB).returncode == 0
    assert lab.hook("epilog", JOB).returncode == 0
    waive("2020-01-01")
    assert lab.hook("prolog", JOB).returncode == 1
    assert lab.hook("health").returncode == 1
    assert lab.node.startswith("IDLE+DRAIN|muster:health:xid:")


def test_prolog_refuses_what_health_found_before(lab: Lab, set_faults: SetFaults) -> None:
    """Of a node that could not be drained because the controller was away at that time."""
    set_faults(**XID)
    lab.slurm("gone")
    lab.hook("health")
    done = lab.hook("prolog", JOB)
    assert done.returncode == 1 and "xid" in done.stdout


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
@pytest.mark.parametrize("how", ["crashes", "killed", "not a program", "hangs"])
def test_hook_without_an_answer_fails(lab: Lab, hook: str, how: str) -> None:
    lab.program(NO_ANSWER[how][0])
    assert lab.hook(hook, JOB, limit_seconds=1 if how == "hangs" else None).returncode != 0


def test_hooks_give_up_before_slurm_does() -> None:
    granted = {
        wrapper.name: sum(float(seconds) for _, seconds in LIMIT.findall(wrapper.read_text()))
        for wrapper in WRAPPERS.iterdir()
    }
    assert set(granted) == {"health", "prolog", "epilog"}
    assert 0 < granted["health"] < 10
    assert 0 < granted["prolog"] == granted["epilog"] < defaults()["hooks"]["timeout"]


def test_health_check_is_over_before_its_wrapper_ends_it() -> None:
    program, *_ = LIMIT.findall((WRAPPERS / "health").read_text())
    assert float(program[1]) > OVER_SECONDS


@pytest.mark.parametrize("job", [{}, {"SLURM_JOB_ID": "7"}, {"SLURM_JOB_ID": "../7", "SLURM_JOB_UID": "1000"}])
def test_hook_without_a_job_fails(lab: Lab, job: dict[str, str]) -> None:
    assert lab.hook("prolog", job).returncode == 1
    assert lab.hook("epilog", job).returncode == 1


@pytest.fixture
def login(lab: Lab) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the job's user that is not init's child, like that of a login by ssh."""
    if os.geteuid() != 0:
        pytest.skip("only root may start a process of another user")
    lab.told("getent-59998", f"alice:x:{USER}:{USER}::/:/bin/sh\n")
    lab.told("getent-sudo", "sudo:x:27:\n")
    lab.told("id-alice", "alice\0")
    lab.told("squeue---format=%A|%U|%T", f"7|{USER}|COMPLETING\n")
    # Processes of its own: jobs of the container hosts that other tests run on this machine are none of this host's.
    (lab.place / "pam.d").mkdir()
    lab.ssh_rules("account required pam_slurm.so\n")
    own = f"mount --bind {lab.place}/pam.d /etc/pam.d && echo ready; exec sleep 600"
    unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", own]
    first = subprocess.Popen(unshare, stdout=subprocess.PIPE)
    assert first.stdout is not None and first.stdout.readline() == b"ready\n"
    own = f"--pid=/proc/{first.pid}/ns/pid_for_children"
    lab.inside = ("nsenter", f"--target={first.pid}", "--mount", own, "--")
    process = subprocess.Popen([*lab.inside, "setpriv", f"--reuid={USER}", "/bin/sleep", "60"], cwd="/")
    yield process
    first.kill()
    first.communicate()
    process.wait()


def test_epilog_ends_a_login_that_outlives_the_last_job(lab: Lab, login: subprocess.Popen[bytes]) -> None:
    done = lab.hook("epilog", JOB)
    assert (done.returncode, done.stdout, login.wait(5)) == (0, "", -signal.SIGTERM)
    assert (lab.node, lab.updates) == ("IDLE|", [])


def test_epilog_leaves_a_login_that_another_job_allows(lab: Lab, login: subprocess.Popen[bytes]) -> None:
    lab.told("squeue---format=%A|%U|%T", f"7|{USER}|COMPLETING\n8|{USER}|RUNNING\n")
    assert lab.hook("epilog", JOB).returncode == 0
    assert login.poll() is None and lab.updates == []


def test_epilog_that_slurm_does_not_answer_drains_until_the_login_is_ended(
    lab: Lab, login: subprocess.Popen[bytes]
) -> None:
    (lab.place / "told" / "squeue---format=%A|%U|%T").unlink()
    done = lab.hook("epilog", JOB)
    (finding,) = json.loads(done.stdout)["findings"]
    assert (done.returncode, finding["check"], finding["verdict"]) == (1, "leftover_processes", "incomplete")
    assert login.poll() is None
    (record,) = (lab.place / "state" / "evidence" / "health").glob("*/evidence.json")
    assert lab.node == f"IDLE+DRAIN|muster:incomplete:leftover_processes:{record.parent.name}"
    # The health check passes, but for this.
    drained = lab.node
    assert lab.hook("health").returncode == 2
    assert (login.poll(), lab.node) == (None, drained)
    lab.told("squeue---format=%A|%U|%T", "")
    assert lab.hook("health").returncode == 0
    assert (login.wait(5), lab.node) == (-signal.SIGTERM, "IDLE|")


def test_health_check_ends_what_starts_after_a_users_last_job(lab: Lab, login: subprocess.Popen[bytes]) -> None:
    # Who never had a job here may be anybody.
    assert lab.hook("health").returncode == 0 and login.poll() is None
    lab.hook("epilog", JOB)
    assert login.wait(5) == -signal.SIGTERM
    again = subprocess.Popen([*lab.inside, "setpriv", f"--reuid={USER}", "/bin/sleep", "60"], cwd="/")
    for rules, squeue in (("", ""), (None, None), (None, f"8|{USER}|RUNNING\n")):
        lab.ssh_rules("account required pam_slurm.so\n" if rules is None else rules)
        answer = lab.place / "told" / "squeue---format=%A|%U|%T"
        answer.unlink() if squeue is None else answer.write_text(squeue)
        assert lab.hook("health").returncode == 0 and again.poll() is None
    lab.told("squeue---format=%A|%U|%T", "")
    assert lab.hook("health").returncode == 0
    assert (again.wait(5), lab.node, lab.updates) == (-signal.SIGTERM, "IDLE|", [])


def test_a_fault_found_beside_a_login_is_not_given_back_with_it(
    lab: Lab, login: subprocess.Popen[bytes], set_faults: SetFaults
) -> None:
    (lab.place / "told" / "squeue---format=%A|%U|%T").unlink()
    set_faults(tool_faults={"dmesg": "garble"})
    assert {item["check"] for item in json.loads(lab.hook("epilog", JOB).stdout)["findings"]} > {"leftover_processes"}
    # Slurm drains by the exit status, and people give the node back.
    assert (login.poll(), lab.updates) == (None, [])


def test_prolog_makes_the_users_directories(lab: Lab) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives directories away")
    parents = [str(lab.place / name) for name in ("cache", "data")]
    (lab.place / "hooks.json").write_text(json.dumps({"operator_groups": [], "user_directories": parents}))
    assert lab.hook("prolog", JOB).returncode == 0
    for parent in map(Path, parents):
        own = parent / f"user-{USER}"
        assert (own.stat().st_uid, own.stat().st_mode & 0o777, parent.stat().st_mode & 0o7777) == (USER, 0o700, 0o755)
    Path(parents[1], f"user-{USER}").rmdir()
    Path(parents[1], f"user-{USER}").symlink_to("/etc")
    done = lab.hook("prolog", JOB)
    assert done.returncode == 1 and "is no directory, or a link" in done.stdout


def test_prolog_does_not_start_a_job_without_its_settings(lab: Lab) -> None:
    (lab.place / "hooks.json").write_text("{")
    done = lab.hook("prolog", JOB)
    assert done.returncode == 1 and "hooks.json" in done.stdout
    # Of a role that wrote none.
    (lab.place / "hooks.json").unlink()
    assert lab.hook("prolog", JOB).returncode == 0


def test_epilog_tells_what_the_job_did(lab: Lab, set_faults: SetFaults) -> None:
    lab.hook("prolog", JOB)
    set_faults(**XID)
    done = lab.hook("epilog", JOB)
    assert done.returncode == 1 and "xid" in done.stdout
    (record,) = (lab.place / "state" / "evidence" / "health").glob("*/evidence.json")
    kept = json.loads(record.read_text())
    assert (kept["detail"], kept["identity"]) == ({"hook": "epilog", "job": "7"}, {"hostname": os.uname().nodename})
    assert kept["rules"] == rules_of("epilog")
