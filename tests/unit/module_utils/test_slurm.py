"""Host lists, the gate's file, scontrol's output and the plan; reconciling is tried in test_slurm_gate.py."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host_lists import HostListError, batches, expand, fold
from ansible_collections.muster.cluster.plugins.module_utils.slurm.gate_file import GateFile, Partition, parse_gate_file
from ansible_collections.muster.cluster.plugins.module_utils.slurm.gate_plan import (
    Examined,
    closing_of,
    guard,
    leaving,
    plan,
    returns,
    seconds_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import (
    UNREADABLE,
    Job,
    NodeState,
    Reservation,
    SlurmGateError,
    parse_jobs,
    parse_nodes,
    parse_partitions,
    parse_reservations,
)
from ansible_collections.muster.cluster.plugins.module_utils.slurm.user_gate import drains_of

# scontrol 22.05.8 as Debian 12 has it, on a two-node cluster.
PARTITIONS = (
    "PartitionName=acceptance AllowGroups=muster AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=NO QoS=N/A "
    "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=YES MaxNodes=UNLIMITED MaxTime=UNLIMITED "
    "MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n[1-2] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO "
    "OverSubscribe=EXCLUSIVE OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=4 TotalNodes=2 "
    "SelectTypeParameters=NONE JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED "
    "TRES=cpu=4,mem=2000M,node=2,billing=4\n"
    "PartitionName=batch AllowGroups=ALL Default=YES MaxNodes=UNLIMITED MaxTime=7-00:00:00 MinNodes=0 Nodes=(null) "
    "State=UP TotalCPUs=0 TotalNodes=0 TRES=(null)\n"
)
NODE = (
    "NodeName={name} Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=0.10 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) NodeAddr=10.66.0.11 NodeHostName=n1 "
    "Version=22.05.8 OS={os}  RealMemory=1000 AllocMem=0 FreeMem=700 Sockets=2 Boards=1 State={state} "
    "ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=acceptance  "
    "BootTime=2026-11-20T09:07:09 SlurmdStartTime=2026-11-20T09:08:00 LastBusyTime=Unknown "
    "CfgTRES=cpu=2,mem=1000M,billing=2 AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s "
    "ExtSensorsWatts=0 ExtSensorsTemp=n/s{reason}\n"
)
LINUX = "Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC @0"
# As scontrol prints it from State= on, in the words of a node that would rather be idle.
IDLE = "State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=batch  BootTime=None"


def line(name="n1", state="DOWN+DRAIN", reason=" Reason=cable [root@2026-11-20T10:00:00]", os=LINUX):
    return NODE.format(name=name, state=state, reason=reason, os=os)


def gate(nodes=(), generation=3, ledger="L1", **more):
    return GateFile(ledger, generation, (Partition("batch", True, tuple(nodes), **more),))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["gpu-01"], "gpu-01"),
        (["gpu-01", "gpu-02", "gpu-04"], "gpu-[01-02,04]"),
        (["n8", "n9", "n10", "n11"], "n[8-11]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n98", "n99", "n100"], "n[98-100]"),
        (["n09", "n10", "n011"], "n[09-10,011]"),
        (["n9", "n010"], "n[9,010]"),
        (["n2", "n1"], "n[2,1]"),
        (["a1", "b1", "a2"], "a1,b1,a2"),
        (["head", "head", "n1"], "head,head,n1"),
        (["r1n1", "r1n2", "r2n1"], "r1n[1-2],r2n1"),
        (["10.0.0.9", "10.0.0.10", "10.0.1.1"], "10.0.0.[9-10],10.0.1.1"),
        (["fd00::1", "fd00::2"], "fd00::1,fd00::2"),
    ],
)
def test_fold_keeps_order_and_expand_reads_it_back(names, text):
    assert fold(names) == text
    assert expand(text) == names


@pytest.mark.parametrize("text", ["n[1-", "n[]", "n[1-2]x", ",n1", "n[-2]", "n[1,,2]"])
def test_expand_refuses_what_is_no_host_list(text):
    with pytest.raises(HostListError):
        expand(text)


@pytest.mark.parametrize("limit", [40, 1000, 100_000])
def test_batches_hold_every_name_once_within_the_limit(limit):
    names = [f"gpu-{number:05d}" for number in range(1, 12500, 3)] + ["login", "gpu-00002"]
    found = list(batches(names, limit))
    assert sorted(name for batch in found for name in batch) == sorted(names)
    assert max(len(fold(batch)) for batch in found) <= limit
    assert list(batches([], limit)) == []


def test_name_longer_than_the_limit_is_a_batch_of_its_own():
    assert list(batches(["a-name-of-more-than-ten-letters", "b"], 10)) == [["a-name-of-more-than-ten-letters"], ["b"]]


@pytest.mark.parametrize("text", ["batch Default=YES Nodes=n[1-", "batch Default=YES Nodes=n[1-2]x]"])
def test_host_list_that_cannot_be_read_makes_the_gate_unreadable(text):
    with pytest.raises(SlurmGateError, match="line 2: host list"):
        parse_gate_file(f"# muster ledger L1 generation 3\nPartitionName={text}\n")
    with pytest.raises(SlurmGateError, match="host list"):
        parse_jobs("4711|batch|n[1-\n")


def test_twelve_thousand_nodes_fold_into_one_range():
    assert fold(f"gpu-{number:05}" for number in range(1, 12501)) == "gpu-[00001-12500]"


def test_gate_file_is_read_back_as_it_was_rendered():
    content = GateFile(
        "L1",
        7,
        (Partition("batch", True, ("n1", "n2", "n4"), (("MaxTime", "7-00:00:00"),)), Partition("big", False, ())),
    )
    assert parse_gate_file(content.render()) == content
    assert "PartitionName=big Default=NO\n" in content.render()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PartitionName=batch Default=YES\n",
        "# muster ledger L1 generation\n",
        "# muster ledger L1 generation 3\nNodeName=n1\n",
        "# muster ledger L1 generation 3\nPartitionName=batch\n",
        "# muster ledger L1 generation 3\nPartitionName=batch Default=YES Nodes\n",
        "# muster ledger L1 generation 3\nPartitionName=batch Default=YES Nodes=n[1-\n",
    ],
)
def test_garbled_gate_file_is_refused(text):
    with pytest.raises(SlurmGateError):
        parse_gate_file(text)


@pytest.mark.parametrize(
    "more",
    [
        {"name": "ba tch"},
        {"nodes": ["n1\nPartitionName=x"]},
        {"nodes": ["ALL,n1"]},
        {"parameters": {"Nodes": "ALL"}},
        {"parameters": {"nodes": "ALL"}},
        {"parameters": {"MaxTime": "1 Nodes=ALL"}},
        {"parameters": {"Max Time": "1"}},
    ],
)
def test_partition_that_would_smuggle_nodes_is_refused(more):
    with pytest.raises(SlurmGateError):
        Partition.from_params({"name": "batch", "nodes": [], "parameters": {}, **more})


def test_partition_takes_yaml_booleans():
    assert Partition.from_params({"name": "b", "nodes": ["n10", "n2"], "parameters": {"Hidden": True}}) == Partition(
        "b", False, ("n2", "n10"), (("Hidden", "YES"),)
    )


def test_partitions_of_scontrol():
    found = parse_partitions(PARTITIONS)
    assert {name: each.nodes for name, each in found.items()} == {"acceptance": {"n1", "n2"}, "batch": frozenset()}
    assert found["batch"].access == {"State": "UP", "AllowGroups": "ALL"}
    assert (found["acceptance"].access["AllowGroups"], found["acceptance"].access["Hidden"]) == ("muster", "YES")
    assert parse_partitions("No partitions in the system\n") == {}


@pytest.mark.parametrize(
    "cut",
    [
        "garbage",
        PARTITIONS[:200],
        # Cut in the middle of n[1-2],n30: a shorter list is not taken for the whole.
        "PartitionName=debug AllowGroups=ALL Nodes=n[1-2],n3",
        "PartitionName=ib Nodes=gpu-[01-04]-ib State=UP",
        "PartitionName=batch Nodes=n1 State=UP",
    ],
)
def test_partition_that_cannot_be_read_is_told_and_hides_no_other(cut):
    found = parse_partitions(f"{PARTITIONS}{cut}\n")
    troubled = [name for name, each in found.items() if each.trouble]
    assert troubled == [cut.partition(" ")[0].partition("=")[2] or "garbage"]
    assert found["acceptance"].nodes == ({"n1", "n2"} if troubled != ["acceptance"] else set())


def test_nodes_of_scontrol():
    text = (
        line("n1", "IDLE", "")
        + line("n2", "DOWN*+DRAIN", " Reason=cable [A] [root@2026-11-20T10:00:00]")
        + line("n3", "IDLE+DRAIN", " Reason=muster:health:xid:e1 [root@2026-11-20T10:00:00]")
        + line(
            "n4", "DOWN+NOT_RESPONDING", " Reason=Silent [slurm@2026-11-20T10:00:00] Comment=at [ann@home] Extra=a b"
        )
        + line("n5", "IDLE", " InstanceId=i-1 InstanceType=g7e")
    )
    nodes = parse_nodes(text)
    booted = "2026-11-20T09:07:09"
    assert nodes["n1"] == NodeState("IDLE", booted=booted)
    assert nodes["n2"] == NodeState("DOWN+DRAIN", "cable [A]", "root", "2026-11-20T10:00:00", booted)
    assert drains_of(nodes) == [{"node": "n2", "reason": "cable [A]", "user": "root", "time": "2026-11-20T10:00:00"}]
    assert nodes["n5"] == nodes["n1"]


# Slurm 24.11 of a cloud, which has LastBusyTime and ResumeAfterTime on one line and no CapWatts.
CLOUD = (
    "NodeName=gpu-st-ml-1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=32 CPUTot=32 CPULoad=1.23 "
    "AvailableFeatures=static,gpu ActiveFeatures=static,gpu Gres=gpu:rtxproserver6000:1 NodeAddr=10.0.10.160 "
    "NodeHostName=gpu-st-ml-1 Version=24.11.7 OS=Linux 6.8.0-1045-aws #47~22.04.1-Ubuntu SMP Thu Jan 29 21:28:23 UTC "
    "2026  RealMemory=249036 AllocMem=0 FreeMem=239612 Sockets=32 Boards=1 State=IDLE+CLOUD ThreadsPerCore=1 TmpDisk=0 "
    "Weight=1 Owner=N/A MCS_label=N/A Partitions=compute-gpu  BootTime=2026-03-11T11:04:15 "
    "SlurmdStartTime=2026-03-11T11:05:49 LastBusyTime=2026-03-11T11:05:51 ResumeAfterTime=None "
    "CfgTRES=cpu=32,mem=249036M,billing=32 AllocTRES= CurrentWatts=0 AveWatts=0  "
    "Reason=Node start up [root@2026-03-11T11:05:51] InstanceId=i-0cba89ff05359cd2f InstanceType=g7e.8xlarge\n"
)


def test_node_of_a_later_release():
    expected = NodeState("IDLE+CLOUD", "Node start up", "root", "2026-03-11T11:05:51", "2026-03-11T11:04:15")
    assert parse_nodes(CLOUD) == {"gpu-st-ml-1": expected}


@pytest.mark.parametrize(
    "forged",
    [
        line(os="Linux State=IDLE"),
        line(os="Linux State=IDLE ThreadsPerCore=1 Reason=none [root@2026-11-20T10:00:00]"),
        line(os=f"Linux {IDLE}"),
        line(os=f"Linux {IDLE} Comment=whatever follows"),
        line(os=f"Linux {IDLE} Reason=muster:boot:b1 [root@2026-11-20T08:00:00] Extra="),
        line(reason=" Reason=was State=IDLE before [root@2026-11-20T10:00:00]"),
        line(reason=f" Reason=cable {IDLE} [root@2026-11-20T10:00:00]"),
        line(reason=f" Reason=cable [root@2026-11-20T10:00:00] Comment={IDLE}"),
        line(reason=f" Reason=cable [root@2026-11-20T10:00:00] Extra=x {IDLE}"),
        line(reason=" Reason=cable [root@2026-11-20T10:00:00] InstanceId=x State=IDLE"),
    ],
)
def test_what_a_node_tells_of_itself_is_never_its_state(forged):
    found = parse_nodes(forged + line("n2", "IDLE", ""))
    assert found["n1"].kept_off and found["n1"].state in ("DOWN+DRAIN", UNREADABLE)
    assert not returns(found["n1"], Examined("b1", 2e9, False, True))
    assert found["n2"] == NodeState("IDLE", booted="2026-11-20T09:07:09")


def test_words_of_people_that_look_like_a_state_leave_the_state_readable():
    found = parse_nodes(line(reason=" Reason=was State=IDLE before [ann@2026-11-20T10:00:00]"))["n1"]
    assert (found.state, found.reason, found.by) == ("DOWN+DRAIN", "was State=IDLE before", "ann")


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("NodeName=n1 Arch=x86_64\n", {"n1"}),
        (line(os=f"Linux {IDLE}\nState=MIXED"), {"n1"}),
        (line(reason=" Reason=cable [root@2026-11-20T10:00:00] Comment=two\nlines"), {"n1"}),
        # A whole line of another node, before that node's own and behind it.
        (line(os=f"Linux {IDLE}\n{line('n9', 'IDLE', '')[:-1]} Comment="), {"n1", "n8", "n9"}),
        (line(os=f"Linux {IDLE}\n{line('n0', 'IDLE', '')[:-1]} Comment="), {"n0", "n1"}),
    ],
)
def test_node_that_cannot_be_read_alone_is_lost(text, lost):
    found = parse_nodes(line("n0", "IDLE", "") + text + line("n8", "IDLE", "") + line("n9", "IDLE", ""))
    assert {name for name, node in found.items() if not node.readable} == lost
    assert not any(node.drained or node.down for node in found.values() if not node.readable)
    assert all(found[name].kept_off and not returns(found[name], Examined("b", 2e9, False, True)) for name in lost)


def test_answer_that_begins_with_no_node_is_refused():
    with pytest.raises(SlurmGateError, match="expected NodeName="):
        parse_nodes("garbage\n")


@pytest.mark.parametrize(
    ("text", "reason", "by"),
    [
        ("cable [root@2026-11-20T10:00:00]", "cable", "root"),
        ("cable [ann@corp@2026-11-20T10:00:00]", "cable", "ann@corp"),
        ("cable", "cable", ""),
        # As 22.05 prints a reason of two lines, and one that quotes another.
        ("muster:boot:b1 [root@2026-11-20T10:00:00]        but keep", "muster:boot:b1 but keep", "root"),
        ("muster:boot:b1 [root@2026-11-20T10:00:00]        Comment=keep", "muster:boot:b1 Comment=keep", "root"),
        (
            "first line [ann@2026-11-20T10:00:00]        second line Comment=free text State=DOWN Extra=more words",
            "first line second line",
            "ann",
        ),
        (
            "muster:boot:b1 [root@then] [ann@2026-11-20T10:00:00]",
            "muster:boot:b1 [root@then] [ann@2026-11-20T10:00:00]",
            "",
        ),
        ("muster:boot:b1 Extra=[root@2026-11-20T10:00:00]", "muster:boot:b1 Extra=[root@2026-11-20T10:00:00]", ""),
    ],
)
def test_reason_and_who_gave_it(text, reason, by):
    found = parse_nodes(line(reason=f" Reason={text}"))["n1"]
    assert (found.reason, found.by) == (reason, by)


# Slurm 22.05 as well; the third is of a later release, with a comment.
RESERVATIONS = (
    "ReservationName=m1 StartTime=2026-11-23T19:21:33 EndTime=2026-11-23T20:21:33 Duration=01:00:00 Nodes=n[01-02] "
    "NodeCnt=2 CoreCnt=4 Features=(null) PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES TRES=cpu=4 "
    "Users=root,daemon Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a "
    "MaxStartDelay=(null)\n"
    "ReservationName=games_2 StartTime=2026-11-24T19:21:33 EndTime=2026-11-24T20:21:33 Duration=01:00:00 Nodes=n04 "
    "NodeCnt=1 CoreCnt=2 Features=(null) PartitionName=(null) Flags=SPEC_NODES TRES=cpu=2 Users=(null) Groups=games "
    "Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)\n"
    "ReservationName=c1 StartTime=2026-11-24T19:21:33 EndTime=2026-11-24T20:21:33 Duration=01:00:00 Nodes=n04 "
    "NodeCnt=1 CoreCnt=1 Features=(null) PartitionName=(null) Flags=   NodeName=n04 CoreIDs=0 TRES=cpu=1 Users=-bin "
    "Groups=(null) Accounts=phys,chem Licenses=(null) State=ACTIVE BurstBuffer=(null) MaxStartDelay=(null) "
    "Comment=for Users=root State=INACTIVE\n"
)


def test_reservations_of_scontrol():
    found = parse_reservations(RESERVATIONS)
    flags = ("MAINT", "IGNORE_JOBS", "SPEC_NODES")
    times = ("2026-11-23T19:21:33", "2026-11-23T20:21:33")
    assert found["m1"] == Reservation(("n01", "n02"), ("root", "daemon"), (), (), flags, *times, "ACTIVE")
    assert (found["games_2"].groups, found["games_2"].users, found["games_2"].state) == (("games",), (), "INACTIVE")
    assert (found["c1"].users, found["c1"].accounts, found["c1"].state) == (("-bin",), ("phys", "chem"), "ACTIVE")
    assert (found["c1"].nodes, found["c1"].flags) == (("n04",), ())
    assert parse_reservations("No reservations in the system\n") == {}
    assert Reservation.from_dict(json.loads(json.dumps(asdict(found["m1"])))) == found["m1"]


@pytest.mark.parametrize(
    "cut", ["garbage", RESERVATIONS[:200], RESERVATIONS.partition("\n")[0].replace("[01-02]", "[01-")]
)
def test_reservation_that_cannot_be_read_is_told_and_hides_no_other(cut):
    found = parse_reservations(f"{cut}\n{RESERVATIONS.partition(chr(10))[2]}")
    assert [bool(each.trouble) for each in found.values()] == [True, False, False]


@pytest.mark.parametrize(
    ("current", "refused"),
    [
        (None, ""),
        (gate(ledger="none", generation=0), ""),
        (gate(generation=2), ""),
        (gate(generation=3), ""),
        (gate(generation=4), "older copy"),
        (gate(ledger="L2", generation=1), "ledger L2"),
    ],
)
def test_guard_knows_another_ledger_and_an_older_copy(current, refused):
    if not refused:
        guard(current, gate())
        return
    with pytest.raises(SlurmGateError, match=refused):
        guard(current, gate())


def test_plan_closes_before_it_opens():
    steps = plan(gate(["n1", "n2"]), {"batch": {"n1", "n2"}, "acceptance": {"n1"}}, gate(["n2", "n3"]))
    assert steps.closing == gate(["n2"])
    assert steps.set_closed == {"batch": ("n2",)}
    assert steps.set_open == {"batch": ("n2", "n3")}
    assert (steps.opened, steps.closed) == ({"batch": ["n3"]}, {"batch": ["n1"]})
    assert steps.changed
    assert not steps.reconfigure


def test_plan_does_nothing_when_all_is_as_wanted():
    steps = plan(gate(["n1"], generation=2), {"batch": {"n1"}}, gate(["n1"]))
    assert not steps.changed
    assert not (steps.set_closed or steps.set_open or steps.opened or steps.closed)


def test_plan_closes_what_was_opened_by_hand():
    steps = plan(gate(["n1"]), {"batch": {"n1", "n2"}}, gate(["n1"]))
    assert steps.set_closed == {"batch": ("n1",)}
    assert steps.closed == {"batch": ["n2"]}


def test_plan_reopens_what_was_closed_by_hand():
    steps = plan(gate(["n1", "n2"]), {"batch": {"n1"}}, gate(["n1", "n2"]))
    assert steps.set_open == {"batch": ("n1", "n2")}
    assert steps.opened == {"batch": ["n2"]}


@pytest.mark.parametrize(
    ("current", "live"),
    [
        (None, {"batch": set()}),
        (gate(), {}),
        (gate(parameters=(("MaxTime", "1"),)), {"batch": set()}),
        (GateFile("L1", 1, (Partition("batch", True), Partition("old"))), {"batch": set(), "old": set()}),
    ],
)
def test_plan_reconfigures_where_a_partition_comes_goes_or_differs(current, live):
    assert plan(current, live, gate()).reconfigure


def test_closing_touches_the_named_nodes_alone():
    current = GateFile("L1", 3, (Partition("batch", True, ("n1", "n2", "n3")), Partition("big", False, ("n1",))))
    # n3 was closed by hand, n4 opened by hand.
    steps = closing_of(current, {"batch": {"n1", "n2", "n4"}, "big": {"n1"}, "acceptance": {"n2"}}, (), {"n2", "n9"})
    assert steps.file == GateFile("L1", 3, (Partition("batch", True, ("n1", "n3")), Partition("big", False, ("n1",))))
    assert (steps.set_live, steps.closed) == ({"batch": ("n1", "n4")}, {"batch": ["n2"]})
    unread = closing_of(current, {"big": {"n1"}}, {"batch", "ib"}, {"n2"})
    assert (unread.set_live, unread.closed) == ({"batch": ("n1", "n3")}, {"batch": ["n2"]})


# What slurmctld 22.05.8 was seen to say: a node that rebooted by itself, one that was drained before it did.
REBOOTED = "Node unexpectedly rebooted"
BEFORE, BOOTED, DURING, LATE = (f"2026-11-20T{hour}:00:00" for hour in ("08", "09", "10", "11"))
BEGAN = seconds_of(DURING)


def node(state="DOWN", reason=REBOOTED, at=BOOTED, booted=BOOTED, by="root"):
    return NodeState(state, reason, by, at, booted)


@pytest.mark.parametrize(
    ("given", "back"),
    [
        (node(), True),
        # It has rebooted again since it was examined.
        (node(booted=LATE, at=LATE), False),
        (node(booted="None"), False),
        (node(at="Unknown"), False),
        (node("IDLE", "", "", BOOTED), False),
        (node(reason="Not responding"), False),
        (node(reason="by hand"), False),
        (node(reason=""), False),
        (NodeState("DOWN", "", "", "", BOOTED), False),
        (node("DOWN+DRAIN", "fan tray"), False),
        (node("IDLE+DRAIN", REBOOTED), False),
        (node("IDLE+DRAIN", "Prolog error"), False),
        (node("IDLE+DRAIN", "muster: gpu_stack changes this node"), False),
        # An older boot's, this one's, and one of a boot that nobody has examined.
        (node("DOWN+DRAIN", "muster:boot:old", BEFORE), True),
        (node("DOWN+DRAIN", "muster:boot:new", LATE), True),
        (node("DOWN+DRAIN", "muster:boot:next", LATE), False),
        (node("DOWN+DRAIN", "muster:boot:old", BEFORE, LATE), False),
        # Role boot drained it, and it did reboot; and before it does.
        (node("DOWN+DRAIN", "muster: boot restarts this node", BEFORE), True),
        (node("IDLE+DRAIN", "muster: boot restarts this node", DURING), False),
        (node("IDLE+DRAIN", "muster:health:xid:e1"), False),
        (node("IDLE+DRAIN", "muster:incomplete:disk:e1"), False),
    ],
)
def test_node_in_service_comes_back_for_its_boot_alone(given, back):
    assert returns(given, Examined("new", BEGAN, True)) is back


@pytest.mark.parametrize(
    ("given", "back"),
    [
        (node("IDLE+DRAIN", "muster:health:xid:e1"), True),
        (node("DOWN+DRAIN", "muster:health:xid:e1", BEFORE), True),
        (node("IDLE+DRAIN", "muster:incomplete:program:exit-127"), True),
        (node("IDLE+DRAIN", "muster:health:xid:e1", LATE), False),
        (node("IDLE+DRAIN", "muster:health:"), False),
        (node("IDLE+DRAIN", "muster: by hand"), False),
        # A person's words, and Muster's own by another user.
        (node("IDLE+DRAIN", "muster: keep off, ask Ann"), False),
        (node("IDLE+DRAIN", "muster:health:xid:e1 but keep"), False),
        (node("IDLE+DRAIN", "muster:incomplete:disk:e1, ask Ann"), False),
        (node("IDLE+DRAIN", "muster:boot:new but keep"), False),
        (node("IDLE+DRAIN", "muster:health:xid:e1", by="ann"), False),
        (node("IDLE+DRAIN", "muster:boot:new", by="ann"), False),
        (node("IDLE+DRAIN", "muster:incomplete:disk:e1", by="slurm"), True),
        (node("IDLE+DRAIN", "fan tray"), False),
        (node("DOWN", "by hand"), False),
    ],
)
def test_node_out_of_service_is_given_back_for_its_tests(given, back):
    assert returns(given, Examined("new", BEGAN, False, True)) is back


LOADED = "muster: burn_in loads this node"


FEWER = "gres/gpu count reported lower than configured (7 < 8)"
# As slurmctld 24.11.5 says it.
HALF = (
    "gres/gpu GRES autodetected core affinity 0-1 on node gpu-03 doesn't match socket boundaries. (Socket 0 is cores "
    "0-3). Consider setting SlurmdParameters=l3cache_as_socket (recommended) or override this by manually specifying "
    "core affinity in gres.conf."
)
LITTLE = "Low RealMemory (reported:1031000 < 100.00% of configured:2064000)"


@pytest.mark.parametrize(
    ("given", "back"),
    [
        # The user is root once the node has registered again (22.05.8).
        (node("IDLE+DRAIN", FEWER), True),
        (node("IDLE+DRAIN", f"Low socket*core*thread count, Low CPUs, {LITTLE}", by="slurm"), True),
        (node("DOWN+DRAIN", FEWER, by="slurm"), True),
        (node("IDLE+DRAIN", HALF, by="slurm"), True),
        (node("IDLE+DRAIN", f"{HALF} Ask Ann."), False),
        # It registered so again since the examination, and still does.
        (node("IDLE+DRAIN", FEWER, LATE), False),
        (node("IDLE+DRAIN+INVALID_REG", FEWER, by="slurm"), False),
        (node("IDLE+DRAIN", FEWER, by="ann"), False),
        (node("IDLE+DRAIN", f"{FEWER}, ask Ann"), False),
        (node("IDLE+DRAIN", "gres/gpu count reported lower"), False),
        (node("UNREADABLE", FEWER), False),
    ],
)
def test_node_that_has_registered_with_all_again_comes_back(given, back):
    assert returns(given, Examined("new", BEGAN, False)) is back
    assert returns(given, Examined("new", BEGAN, True, True)) is back
    assert not returns(given, Examined("new", BEGAN, True))


@pytest.mark.parametrize(
    ("given", "burned_in", "back"),
    [
        (node("IDLE+DRAIN", LOADED), True, True),
        (node("MIXED+DRAIN", LOADED), True, True),
        (node("IDLE+DRAIN", LOADED), False, False),
        (node("IDLE+DRAIN", LOADED, LATE), True, False),
        (node("IDLE+DRAIN", f"{LOADED}, and keep it off"), True, False),
    ],
)
@pytest.mark.parametrize("in_service", [False, True])
def test_node_that_was_drained_for_a_burn_in_comes_back_when_it_is_burned_in(given, burned_in, back, in_service):
    assert returns(given, Examined("new", BEGAN, in_service, True, burned_in)) is back


def test_node_whose_check_still_finds_the_fault_stays_drained():
    assert not returns(node("IDLE+DRAIN", "muster:health:xid:e1"), Examined("new", BEGAN, False))
    assert returns(node("IDLE+DRAIN", "muster:incomplete:program:exit-127"), Examined("new", BEGAN, False))


@pytest.mark.parametrize(
    ("given", "back"),
    [
        (node("IDLE+DRAIN", "muster:incomplete:disk:e1"), True),
        (node("IDLE+DRAIN", "muster:incomplete:disk:e1", LATE), False),
        (node("IDLE+DRAIN", "muster:health:xid:e1"), False),
    ],
)
def test_healthy_node_in_service_comes_back_where_a_measurement_was_wanting(given, back):
    assert returns(given, Examined("new", BEGAN, True, True)) is back


@pytest.mark.parametrize("data", [None, {}, {"boot_id": "b", "began": "soon", "in_service": True}, {"boot_id": "b"}])
def test_examination_that_is_none_is_refused(data):
    with pytest.raises(SlurmGateError, match="n1"):
        Examined.from_params("n1", data)


def test_jobs_of_squeue():
    text = "12|batch|n[1-2]\n13|acceptance|n3\n14|batch|\n"
    assert parse_jobs(text) == [
        Job("12", "batch", frozenset({"n1", "n2"})),
        Job("13", "acceptance", frozenset({"n3"})),
        Job("14", "batch", frozenset()),
    ]


@pytest.mark.parametrize("text", ["slurm_load_jobs error\n", "12|batch\n", "x|batch|n1\n", "12|batch|n[1-\n"])
def test_garbled_jobs_are_refused(text):
    with pytest.raises(SlurmGateError):
        parse_jobs(text)


def test_only_users_jobs_on_closed_nodes_leave():
    jobs = parse_jobs("1|batch|n1\n2|batch|n[1-2]\n3|acceptance|n2\n4|batch|\n5|other|n2\n")
    assert [job.id for job in leaving(jobs, gate(["n1"]))] == ["2"]
