"""A controller's configuration: tried, swapped, put back, killed half way; slurmctld and systemd are scripts here."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.slurm import configuration_swap, slurm_configuration
from ansible_collections.muster.cluster.plugins.module_utils.slurm.configuration_swap import Places
from ansible_collections.muster.cluster.plugins.module_utils.slurm.gate_file import GateFile, Partition, parse_gate_file
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_conf import (
    NOTHING,
    RECONFIGURE,
    RESTART,
    SOCKETS,
    ConfigurationError,
    action_for,
    addresses_of,
    mass_removal,
    nodes_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_configuration import (
    Configuration,
    Wanted,
    mounted_at,
)
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_trial import complaints, trial_text

CONF = """# Written by Muster
ClusterName=lab
SlurmctldHost=ctl(10.0.0.1)
SlurmUser=root
SchedulerParameters=nohold_on_prolog_fail
NodeName=gpu-[01-04] NodeAddr=10.0.0.[11-14] State=UNKNOWN
PartitionName=acceptance Nodes=gpu-[01-04]
Include muster_partitions.conf
"""
TOOLS = {
    # What stands before the program is of no use to a fake.
    "unshare": 'while [ "$1" != sh ]; do shift; done\nexec "$@"',
    "ip": "exit 0",
    "slurmctld": """
directory=$(dirname "$3")
echo "trial" >> @/log
cp "$directory"/*.conf @/tried/
if grep -q Foo "$3"; then
  echo "slurmctld: error: _parse_next_key: Parsing error at unrecognized key: Foo"
  echo "slurmctld: fatal: Unable to process configuration file"
  exit 1
fi
touch "$directory/up"
exec sleep 20
""",
    "scontrol": """
if [ "$1" = ping ]; then
  if [ -n "$SLURM_CONF" ]; then up=$(dirname "$SLURM_CONF")/up; else up=@/up; fi
  [ -e "$up" ] && echo "Slurmctld(primary) at ctl is UP" && exit 0
  echo "Slurmctld(primary) at ctl is DOWN"
  exit 1
fi
echo "scontrol $*" >> @/log
[ "$1" = show ] && cat @/nodes
exit 0
""",
    "systemctl": """
case $1 in
  is-active) [ -e @/up ] && echo active || echo failed; exit 0 ;;
  stop) echo "stop" >> @/log; rm -f @/up; exit 0 ;;
  daemon-reload) exit 0 ;;
esac
echo "$1" >> @/log
rm -f @/up
ls @/work/bootstrap >> @/marks 2>/dev/null
if grep -q Sick @/etc/slurm.conf; then echo "[now] fatal: sick" >> @/slurmctld.log; exit 0; fi
touch @/up
""",
    "journalctl": 'echo "slurmctld-state: said the unit"',
}


@pytest.fixture
def place(tmp_path):
    for name in ("etc", "bin", "tried", "state", "work"):
        (tmp_path / name).mkdir()
    for name, text in TOOLS.items():
        tool = tmp_path / "bin" / name
        tool.write_text("#!/bin/sh\n" + text.replace("@/", f"{tmp_path}/") + "\n")
        tool.chmod(0o755)
    (tmp_path / "nodes").write_text("")
    (tmp_path / "log").touch()
    return tmp_path


def wanted(place, text=CONF, **more):
    files = {"slurm.conf": text.replace("ClusterName", f"SlurmctldLogFile={place}/slurmctld.log\nClusterName")}
    return Wanted(
        files | more.pop("files", {}),
        (Partition("batch", True),),
        str(place / "state"),
        more.pop("gate_path", str(place / "etc/muster_partitions.conf")),
        **more,
    )


def configuration(place, given, name="ctl"):
    places = Places(str(place / "etc"), str(place / "work"), trial_seconds=5, start_seconds=2)
    return Configuration(LocalHost(f"{place}/bin:/usr/bin:/bin"), places, given, name, poll_seconds=0.05)


def apply(place, text=CONF, check=False, **more):
    return configuration(place, wanted(place, text, **more)).apply(check)


def said(place):
    """What was asked of slurmctld since the last look."""
    lines = (place / "log").read_text().split("\n")[:-1]
    (place / "log").write_text("")
    return lines


@pytest.fixture
def running(place):
    """A controller that runs on CONF and has saved state."""
    apply(place)
    (place / "state/clustername").touch()
    said(place)
    return place


def live(place, name="slurm.conf"):
    return (place / "etc" / name).read_text()


def test_first_start_may_be_without_state_and_the_gate_is_closed(place):
    result = apply(place)
    assert (result.files, result.started, result.restarted) == (["slurm.conf"], True, False)
    assert said(place) == ["trial", "restart"]
    assert (place / "marks").read_text().strip() == str(place / "work/bootstrap")
    assert not (place / "work/bootstrap").exists()
    assert live(place, "muster_partitions.conf") == GateFile("none", 0, (Partition("batch", True),)).render()
    assert not (place / "work/swap.json").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(("there", "given"), [((), True), (("muster_partitions.conf",), True), (("mail",), False)])
def test_new_state_directory_becomes_slurms_unless_it_holds_what_is_not(place, there, given):
    """A shared directory is mounted with whatever owner it has."""
    os.chown(place / "state", 12345, -1)
    for name in there:
        (place / "state" / name).touch()
    apply(place)
    assert (place / "state").stat().st_uid == (0 if given else 12345)


def test_second_run_does_nothing(running):
    before = {path: path.stat().st_mtime_ns for path in running.rglob("*") if path.is_file()}
    result = apply(running)
    assert not result.to_dict()["changed"]
    assert said(running) == []
    assert {path: path.stat().st_mtime_ns for path in before if path != running / "log"} == {
        path: time for path, time in before.items() if path != running / "log"
    }


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        ("nohold_on_prolog_fail", "nohold_on_prolog_fail,defer", ["trial", "scontrol reconfigure"]),
        ("State=UNKNOWN", "CPUs=2 State=UNKNOWN", ["trial", "restart", "scontrol reconfigure"]),
        ("gpu-[01-04] NodeAddr=10.0.0.[11-14]", "gpu-[01-05] NodeAddr=10.0.0.[11-15]", ["trial", "restart"]),
        ("Written by Muster", "Written by somebody", ["trial"]),
    ],
)
def test_what_changed_decides_how_it_takes_effect_and_once(running, old, new, asked):
    text = CONF.replace(old, new)
    result = apply(running, text)
    assert said(running)[: len(asked)] == asked
    assert (result.restarted, result.reconfigured) == ("restart" in asked, asked != ["trial"])
    assert new in live(running)
    assert old in (running / "work/previous/slurm.conf").read_text()
    assert not apply(running, text).to_dict()["changed"]
    assert said(running) == []


def test_configuration_that_is_not_accepted_changes_nothing(running):
    before = live(running)
    with pytest.raises(ConfigurationError, match=r"unrecognized key: Foo; fatal: .*nothing was changed") as caught:
        apply(running, CONF + "Foo=1\n")
    assert not caught.value.result["changed"]
    assert live(running) == before
    assert said(running) == ["trial"]
    assert not (running / "work/swap.json").exists()


def test_controller_that_does_not_start_gets_its_old_files_back(running):
    before = live(running)
    with pytest.raises(
        ConfigurationError, match=r"ctl ended: fatal: sick; the previous files are back, and slurmctld runs on them"
    ) as caught:
        apply(running, CONF.replace("State=", "Feature=Sick State="), files={"topology.conf": "SwitchName=s\n"})
    assert live(running) == before
    assert not (running / "etc/topology.conf").exists()
    assert said(running) == ["trial", "restart", "restart"]
    assert caught.value.result["restarted"]
    assert not (running / "work/swap.json").exists()
    assert not apply(running).to_dict()["changed"]


def test_first_start_that_fails_leaves_no_configuration(place):
    with pytest.raises(ConfigurationError, match="the files were taken away again"):
        apply(place, CONF.replace("State=", "Feature=Sick State="))
    assert [path.name for path in (place / "etc").iterdir()] == ["muster_partitions.conf"]
    assert said(place) == ["trial", "restart", "stop"]
    assert not (place / "work/bootstrap").exists()
    assert apply(place).started


class Killed(BaseException):
    pass


@pytest.mark.parametrize("writes", range(9))
def test_killed_anywhere_the_next_run_undoes_it_and_begins_anew(running, monkeypatch, writes):
    """A write is the only thing that can be half done; each is made in one step."""
    wrote, left = configuration_swap._write, [writes]

    def write(path, text):
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        wrote(path, text)

    new = {"files": {"topology.conf": "SwitchName=s\n", "cgroup.conf": "ConstrainCores=yes\n"}}
    text = CONF.replace("State=", "CPUs=2 State=")
    monkeypatch.setattr(configuration_swap, "_write", write)
    try:
        apply(running, text, **new)
    except Killed:
        swapping = (running / "work/swap.json").exists()
    else:
        swapping = None
    monkeypatch.undo()
    said(running)
    # Whatever is asked for next, the controller runs on exactly that.
    result = apply(running)
    assert "CPUs" not in live(running)
    assert not (running / "etc/topology.conf").exists()
    if swapping is None or swapping:
        assert result.undone is bool(swapping)
        assert "restart" in said(running)
    assert not (running / "work/swap.json").exists()
    assert not apply(running).to_dict()["changed"]
    assert apply(running, text, **new).restarted


def test_interrupted_run_is_reported_by_check_mode_and_left_alone(running):
    (running / "work/previous").mkdir(exist_ok=True)
    (running / "work/previous/slurm.conf").write_text(live(running))
    (running / "work/swap.json").write_text(json.dumps({"slurm.conf": True}))
    (running / "etc/slurm.conf").write_text("half")
    assert apply(running, check=True).undone
    assert live(running) == "half"
    assert apply(running).undone
    assert "ClusterName" in live(running)


def test_journal_without_its_copies_is_an_error(running):
    (running / "work/swap.json").write_text(json.dumps({"slurm.conf": True}))
    with pytest.raises(ConfigurationError, match="missing, though the journal names it"):
        apply(running)


def test_check_mode_tries_and_leaves_no_trace(running):
    before = {path: path.read_bytes() for path in running.rglob("*") if path.is_file()}
    result = apply(running, CONF.replace("State=", "CPUs=2 State="), check=True)
    assert result.restarted
    assert result.diff[0]["after"].count("CPUs=2") == 1
    assert said(running) == ["trial"]
    skip = {running / "log", *(running / "tried").iterdir()}
    assert {path: path.read_bytes() for path in running.rglob("*") if path.is_file() and path not in skip} == {
        path: data for path, data in before.items() if path not in skip
    }


def test_file_that_is_no_longer_wanted_goes_and_a_sites_own_stays(running):
    (running / "etc/job_submit.lua").write_text("-- the site's\n")
    apply(running, files={"topology.conf": "SwitchName=s\n"})
    result = apply(running)
    assert result.files == ["topology.conf"]
    assert result.restarted
    assert sorted(path.name for path in (running / "etc").iterdir()) == [
        "job_submit.lua",
        "muster_partitions.conf",
        "slurm.conf",
    ]


def test_controller_that_is_down_is_started(running):
    (running / "up").unlink()
    result = apply(running)
    assert (result.started, result.restarted) == (True, False)
    assert said(running) == ["restart"]


def test_empty_state_is_refused_unless_the_operator_says_so(running):
    (running / "state/clustername").unlink()
    (running / "up").unlink()
    (running / "marks").unlink()
    for text in (CONF, CONF + "KillWait=5\n"):
        with pytest.raises(ConfigurationError, match=r"holds no state of Slurm's.*slurm_accept_empty_state"):
            apply(running, text)
    assert said(running) == []
    assert apply(running, empty_state=True).started
    assert (running / "marks").read_text().strip() == str(running / "work/bootstrap")
    assert not (running / "work/bootstrap").exists()


def test_node_that_is_open_and_no_longer_declared_is_closed_in_the_same_swap(running):
    gate = GateFile("L1", 7, (Partition("batch", True, ("gpu-03", "gpu-04")),))
    (running / "etc/muster_partitions.conf").write_text(gate.render())
    text = CONF.replace("gpu-[01-04] NodeAddr=10.0.0.[11-14]", "gpu-[01-03] NodeAddr=10.0.0.[11-13]")
    assert apply(running, text, check=True).closed == ["gpu-04"]
    assert apply(running, text).closed == ["gpu-04"]
    assert "gpu-04" not in (running / "tried/muster_partitions.conf").read_text()
    now = parse_gate_file(live(running, "muster_partitions.conf"))
    assert (now.ledger_id, now.generation, now.nodes) == ("L1", 7, {"batch": frozenset({"gpu-03"})})


@pytest.mark.parametrize(
    ("left", "why"),
    [("gpu-[01-03] NodeAddr=10.0.0.[11-13]", "gpu-04, where jobs run"), ("gpu-01", "3 of 4 nodes, more than 20 %")],
)
@pytest.mark.parametrize("told", ["State=ALLOCATED BootTime=None", "State=IDLE"])
def test_nodes_with_jobs_and_many_at_once_do_not_go_by_accident(running, left, why, told):
    """A node counts as one with jobs if its line was cut."""
    (running / "nodes").write_text(f"NodeName=gpu-04 {told} \n")
    text = CONF.replace("gpu-[01-04] NodeAddr=10.0.0.[11-14]", left)
    with pytest.raises(ConfigurationError, match=why):
        apply(running, text)
    assert "trial" not in said(running)
    assert apply(running, text, removal=True).restarted


def test_removal_while_the_controller_is_silent_is_refused(running):
    (running / "up").unlink()
    with pytest.raises(ConfigurationError, match="whether jobs run there is not known"):
        apply(running, CONF.replace("gpu-[01-04] NodeAddr=10.0.0.[11-14]", "gpu-[01-03] NodeAddr=10.0.0.[11-13]"))


@pytest.fixture
def shared(running, monkeypatch):
    monkeypatch.setattr(slurm_configuration, "mounted_at", lambda path, mountinfo: "/shared")
    return running


TWO = CONF.replace("SlurmUser", "SlurmctldHost=ctl-2(10.0.0.2)\nSlurmUser")


def test_gate_moves_to_the_shared_directory_and_a_link_leads_there(shared):
    gate = GateFile("L1", 7, (Partition("batch", True, ("gpu-03",)),))
    (shared / "etc/muster_partitions.conf").write_text(gate.render())
    real = shared / "state/muster_partitions.conf"
    # What the standby, which comes first, has written there.
    real.write_text(GateFile("none", 0, (Partition("batch", True),)).render())
    assert apply(shared, TWO, gate_path=str(real)).gate
    assert (shared / "etc/muster_partitions.conf").readlink() == real
    assert real.read_text() == gate.render()
    assert not apply(shared, TWO, gate_path=str(real)).to_dict()["changed"]


def test_gates_of_two_ledgers_are_an_error(shared):
    real = shared / "state/muster_partitions.conf"
    for path, ledger in ((shared / "etc/muster_partitions.conf", "L1"), (real, "L2")):
        path.write_text(GateFile(ledger, 7, (Partition("batch", True),)).render())
    with pytest.raises(ConfigurationError, match="different ledgers"):
        apply(shared, TWO, gate_path=str(real))


def test_two_controllers_need_a_mount_that_they_share(running, monkeypatch):
    monkeypatch.setattr(slurm_configuration, "mounted_at", lambda path, mountinfo: "/")
    with pytest.raises(ConfigurationError, match="expected a mount that both controllers share; nothing was changed"):
        apply(running, TWO)
    assert "ctl-2" not in live(running)


def test_standby_is_restarted_for_what_the_leading_controller_reads_by_itself(shared):
    tool = shared / "bin/scontrol"
    tool.write_text(tool.read_text().replace("at ctl is", "at ctl-2 is"))
    configuration(shared, wanted(shared, TWO), "ctl-2").apply()
    said(shared)
    text = TWO.replace("nohold_on_prolog_fail", "defer")
    result = configuration(shared, wanted(shared, text), "ctl-2.example.com").apply()
    assert (result.restarted, result.reconfigured) == (True, False)
    assert "SlurmctldHost=ctl-2(127.0.0.1)" in (shared / "tried/slurm.conf").read_text()


def test_new_standby_that_says_that_it_waits_for_the_primary_is_there(shared):
    with pytest.raises(ConfigurationError, match="ctl-2 does not answer after 2 s"):
        configuration(shared, wanted(shared, TWO), "ctl-2").apply()
    tool = shared / "bin/systemctl"
    waits = "warning: Waiting for heartbeat file to exist..."
    tool.write_text(f"{tool.read_text()}echo '{waits}' >>{shared}/slurmctld.log\n")
    assert configuration(shared, wanted(shared, TWO), "ctl-2").apply().restarted
    # What an earlier one said does not count.
    tool.write_text(tool.read_text().replace(f"echo '{waits}'", "true"))
    with pytest.raises(ConfigurationError, match="ctl-2 does not answer after 2 s"):
        configuration(shared, wanted(shared, TWO.replace("nohold_on_prolog_fail", "defer")), "ctl-2").apply()


def test_trying_alone_changes_nothing_and_spares_what_is_live(running):
    configuration(running, wanted(running)).try_out()
    assert said(running) == []
    configuration(running, wanted(running, CONF + "KillWait=5\n")).try_out()
    assert said(running) == ["trial"]
    assert "KillWait" not in live(running)
    with pytest.raises(ConfigurationError, match="unrecognized key"):
        configuration(running, wanted(running, CONF + "Foo=5\n")).try_out()


def test_host_that_slurm_conf_does_not_name_is_an_error(place):
    with pytest.raises(ConfigurationError, match="names the controllers ctl, this host calls itself gpu-01"):
        configuration(place, wanted(place), "gpu-01")


def test_trial_without_namespaces_is_an_error(running):
    (running / "bin/unshare").write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n")
    with pytest.raises(ConfigurationError, match=r"namespaces of its own \(unshare\): unshare failed: Operation"):
        apply(running, CONF + "KillWait=5\n")


def test_trial_that_never_answers_ends_and_leaves_nothing(running, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (running / "bin/slurmctld").write_text("#!/bin/sh\nexec sleep 20\n")
    one = configuration(running, wanted(running, CONF + "KillWait=5\n"))
    one.places = replace(one.places, trial_seconds=0.4)
    with pytest.raises(ConfigurationError, match=r"did not answer within 0.4 s"):
        one.apply()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_trial_reaches_neither_state_database_nor_programs():
    text = trial_text(
        "SlurmctldHost=ctl(10.0.0.1)\nStateSaveLocation=/live\nAccountingStorageType=accounting_storage/slurmdbd\n"
        "accountingstoragetres=gres/gpu\nSuspendProgram=/off\nSlurmctldPrimaryOnProg=/vip\nKillWait=5\n"
        "PartitionName=a TRESBillingWeights=GRES/gpu=1 MaxTime=5\n",
        "ctl",
        "/t",
    )
    lines = text.splitlines()
    assert lines[-2:] == ["KillWait=5", "PartitionName=a MaxTime=5"]
    assert "StateSaveLocation=/t/state" in lines
    assert not [line for line in lines if "/live" in line or "rogram" in line or "slurmdbd" in line]


def test_complaints_leave_out_what_every_new_controller_says():
    log = """slurmctld: error: Configured MailProg is invalid
slurmctld: error: Could not open node state file /t/state/node_state: No such file or directory
slurmctld: error: NOTE: Trying backup state save file. Information may be lost!
slurmctld: error: Couldn't load specified plugin name for mpi/pmix: Dlopen of plugin file failed
[2026-11-22] error: WARNING: Invalid hostnames in switch configuration: gpu-[05-09]
slurmctld: fatal: Switch configuration r has invalid child (s7)
"""
    assert complaints(log) == [
        "error: WARNING: Invalid hostnames in switch configuration: gpu-[05-09]",
        "fatal: Switch configuration r has invalid child (s7)",
    ]


@pytest.mark.parametrize(
    ("before", "after", "action"),
    [
        ({"slurm.conf": CONF}, {"slurm.conf": CONF + "# more\n"}, NOTHING),
        ({"slurm.conf": CONF}, {"slurm.conf": CONF + "killwait=3\n"}, RECONFIGURE),
        # A comment that nodes read.
        ({"slurm.conf": CONF}, {"slurm.conf": f"{CONF}{SOCKETS}NodeName=a NodeAddr=10.9.0.1\n"}, RECONFIGURE),
        ({"slurm.conf": CONF}, {"slurm.conf": CONF.replace("10.0.0.1)", "10.0.0.9)")}, RESTART),
        ({"slurm.conf": CONF, "cgroup.conf": "A=1"}, {"slurm.conf": CONF, "cgroup.conf": "A=2"}, RECONFIGURE),
        ({"slurm.conf": CONF, "gres.conf": None}, {"slurm.conf": CONF, "gres.conf": "A=2"}, RESTART),
        ({"slurm.conf": None}, {"slurm.conf": CONF}, RESTART),
    ],
)
def test_action(before, after, action):
    assert action_for(before, after) == action


def test_addresses_are_looked_up_by_name_where_there_is_none():
    text = "SlurmctldHost=ctl(10.0.0.1)\nSlurmctldHost=two\nNodeName=DEFAULT CPUs=2\nNodeName=a[1-2]\n"
    assert addresses_of(text + "NodeName=b NodeAddr=b.example\n") == ["10.0.0.1", "two", "a1", "a2", "b.example"]
    with pytest.raises(ConfigurationError, match="cannot read"):
        nodes_of("NodeName=a[1-\n")


@pytest.mark.parametrize(("known", "gone", "stopped"), [(10, 2, False), (9, 2, True), (4, 1, False), (1, 1, False)])
def test_mass_removal_boundary(known, gone, stopped):
    assert bool(mass_removal(range(known), range(gone))) is stopped


def test_mount_point_of_a_directory(tmp_path):
    info = f"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:9 / {tmp_path} rw - nfs4 server:/slurm rw\n"
    assert mounted_at(str(tmp_path / "ctl"), info) == str(tmp_path)
    assert mounted_at("/var/lib/slurm", info) == "/"
    assert os.path.ismount("/")


GUARD = Path(__file__).parents[3] / "roles/slurm/files/slurmctld-state"


@pytest.mark.parametrize(("files", "marked", "starts"), [([], False, 1), ([], True, 0), (["job_state.old"], False, 0)])
def test_guard_of_the_state_directory(tmp_path, files, marked, starts):
    for name in [*files, "muster_partitions.conf", "muster_gate"]:
        (tmp_path / name).touch()
    mark = tmp_path / "mark"
    if marked:
        mark.touch()
    done = LocalHost().run(["sh", str(GUARD), str(tmp_path), str(mark)], 10)
    assert done.rc == starts, done
    assert not mark.exists()
    assert ("holds no state" in done.stderr) is bool(starts)
