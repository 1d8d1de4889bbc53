"""Reconciling file and controller, against a controller that behaves as slurmctld 22.05 was seen to."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output
from ansible_collections.muster.cluster.plugins.module_utils.host.host_lists import expand, fold
from ansible_collections.muster.cluster.plugins.module_utils.slurm.gate_file import GateFile, Partition, parse_gate_file
from ansible_collections.muster.cluster.plugins.module_utils.slurm.gate_plan import Examined, NodeHandling
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import Reservation, SlurmGateError
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_controller import ARGUMENT_BYTES, Controller
from ansible_collections.muster.cluster.plugins.module_utils.slurm.user_gate import MARKER, Gate
from ansible_collections.muster.cluster.plugins.modules.slurm_gate_info import answers

from tests.contracts.table import refuse_unknown
from tests.run_module import run_module

ALL = {"n1", "n2", "n3"}
REBOOTED = "Node unexpectedly rebooted"


class FakeSlurm:
    """A host on which scontrol talks to a controller that has read ``path``."""

    def __init__(self, path):
        self.path = path
        self.up = True
        self.refuse = ()
        self.deaf = False
        self.refused_nodes = set()
        self.deaf_nodes = set()
        self.pings = 0
        self.nodes = dict.fromkeys(sorted(ALL), "")
        self.down = set()
        self.jobs = {}
        self.commands = []
        self.live = {}
        # What scontrol prints of partitions besides, and of reservations; and what it cannot answer.
        self.more_partitions = ""
        self.reservations = "No reservations in the system\n"
        self.mute = ()
        self.os = "Linux"

    def restart(self, erase=None):
        if erase:
            erase.unlink(missing_ok=True)
            self.nodes = dict.fromkeys(self.nodes, "")
        self.live = {
            "acceptance": set(ALL),
            **{k: set(v) for k, v in parse_gate_file(self.path.read_text()).nodes.items()},
        }

    def run(self, argv, timeout_seconds):
        refuse_unknown(argv)
        arguments = argv[1:]
        if not self.up:
            return Output("Slurmctld(primary) at ctl is DOWN\n", "", 1)
        if arguments[0] == "ping":
            self.pings += 1
            return Output("Slurmctld(primary) at ctl is UP\n")
        if arguments[0] == "show" and arguments[1] in self.mute:
            return Output("", "slurm_load error: Zero Bytes were transmitted or received\n", 1)
        if arguments[:2] == ["show", "reservation"]:
            return Output(self.reservations)
        if arguments[:2] == ["show", "partition"]:
            lines = [
                f"PartitionName={k} Default=NO Nodes={fold(sorted(v)) or '(null)'} State=UP"
                for k, v in self.live.items()
            ]
            return Output("\n".join(lines) + "\n" + self.more_partitions)
        if arguments[:2] == ["show", "node"]:
            lines = [
                f"NodeName={k} OS={self.os if k == 'n1' else 'Linux'} State={'DOWN' if k in self.down else 'IDLE'}"
                + f"{'+DRAIN' if v and v != REBOOTED else ''} TmpDisk=0 BootTime=2026-11-20T09:00:00 "
                + (f" Reason={v} [root@2026-11-20T10:00:00]" if v else "")
                for k, v in self.nodes.items()
            ]
            return Output("\n".join(lines) + "\n")
        if argv[0] == "squeue":
            return Output("".join(f"{job}|{where}\n" for job, where in self.jobs.items()))
        self.commands.append(" ".join(arguments))
        if argv[0] == "scancel" or arguments[0] == "requeue":
            if any(word in self.commands[-1] for word in self.refuse):
                return Output("", "Job is not requeueable\n", 1)
            del self.jobs[arguments[-1]]
            return Output()
        if any(word in self.commands[-1] for word in self.refuse):
            return Output("", "slurm_update error: Invalid node name specified\n", 1)
        if arguments[0] == "reconfigure":
            self.restart()
            return Output()
        return self.update(dict(word.split("=", 1) for word in arguments[1:]))

    def update(self, keys):
        if "PartitionName" in keys:
            if not self.deaf:
                self.live[keys["PartitionName"]] = set(expand(keys["Nodes"]))
            return Output()
        for name in expand(keys["NodeName"]):
            # Slurm stops at the first node that it refuses.
            if name in self.refused_nodes:
                return Output("", "slurm_update error: Invalid node state specified\n", 1)
            if name not in self.deaf_nodes:
                self.nodes[name] = keys.get("Reason", "")
                self.down.discard(name)
        return Output()


@pytest.fixture
def slurm(tmp_path):
    path = tmp_path / "muster_partitions.conf"
    path.write_text(GateFile("none", 0, (Partition("batch", True),)).render())
    (tmp_path / MARKER).touch()
    slurm = FakeSlurm(path)
    slurm.restart()
    return slurm


@pytest.fixture
def reconcile(slurm, tmp_path):
    gate = Gate(Controller(slurm, 1), str(slurm.path), str(tmp_path))

    def call(nodes, generation=1, ledger="L1", drains=None, **more):
        wanted = GateFile(ledger, generation, (Partition("batch", True, tuple(nodes)),))
        return gate.reconcile(wanted, drains or {}, **more)

    return call


def filed(slurm):
    return set(parse_gate_file(slurm.path.read_text()).nodes["batch"])


def test_open_then_open_again(slurm, reconcile):
    first = reconcile(["n1", "n2"])
    assert first["changed"]
    assert first["opened"] == {"batch": ["n1", "n2"]}
    assert filed(slurm) == slurm.live["batch"] == {"n1", "n2"}
    slurm.commands.clear()
    again = reconcile(["n1", "n2"])
    assert not again["changed"]
    assert slurm.commands == []


def test_close_then_close_again(slurm, reconcile):
    reconcile(["n1", "n2"])
    assert reconcile(["n2"], 2)["closed"] == {"batch": ["n1"]}
    assert filed(slurm) == slurm.live["batch"] == {"n2"}
    assert not reconcile(["n2"], 2)["changed"]
    assert reconcile([], 3)["changed"]
    assert filed(slurm) == slurm.live["batch"] == set()


def test_check_mode_leaves_no_trace(slurm, reconcile, tmp_path):
    (tmp_path / MARKER).unlink()
    before = slurm.path.read_text()
    result = reconcile(["n1"], drains={"n2": "cable"}, check=True)
    assert result["changed"]
    assert result["drains_restored"] == ["n2"]
    assert slurm.path.read_text() == before
    assert slurm.commands == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [slurm.path.name]


def test_newer_generation_alone_is_filed_and_no_change(slurm, reconcile):
    reconcile(["n1"])
    assert not reconcile(["n1"], 5)["changed"]
    assert parse_gate_file(slurm.path.read_text()).generation == 5


@pytest.mark.parametrize(("ledger", "generation"), [("L2", 9), ("L1", 1)])
def test_foreign_or_older_ledger_changes_nothing_unless_adopted(slurm, reconcile, ledger, generation):
    reconcile(["n1"], 2)
    before = slurm.path.read_text()
    slurm.commands.clear()
    with pytest.raises(SlurmGateError, match="nothing was changed"):
        reconcile([], generation, ledger)
    assert slurm.path.read_text() == before
    assert slurm.commands == []
    assert reconcile([], generation, ledger, adopt=True)["closed"] == {"batch": ["n1"]}


def test_file_that_is_not_ours_changes_nothing_unless_adopted(slurm, reconcile):
    slurm.path.write_text("PartitionName=batch Nodes=ALL\n")
    with pytest.raises(SlurmGateError, match="expected '# muster ledger"):
        reconcile([])
    assert slurm.path.read_text() == "PartitionName=batch Nodes=ALL\n"
    reconcile([], adopt=True)
    assert filed(slurm) == set()


def test_missing_file_is_written(slurm, reconcile):
    slurm.path.unlink()
    assert reconcile(["n1"])["changed"]
    assert filed(slurm) == slurm.live["batch"] == {"n1"}


def test_nodes_opened_or_closed_by_hand_are_set_right(slurm, reconcile):
    reconcile(["n1", "n2"])
    slurm.live["batch"] = {"n1", "n3"}
    result = reconcile(["n1", "n2"])
    assert (result["opened"], result["closed"]) == ({"batch": ["n2"]}, {"batch": ["n3"]})
    assert slurm.live["batch"] == {"n1", "n2"}


def test_controller_down_closes_in_the_file_and_opens_nothing(slurm, reconcile):
    reconcile(["n1", "n2"])
    slurm.up = False
    with pytest.raises(SlurmGateError, match="does not answer") as caught:
        reconcile(["n2", "n3"], 2)
    assert caught.value.result["changed"]
    assert caught.value.result["live"] is False
    assert caught.value.result["opened"] == {}
    assert filed(slurm) == {"n2"}
    slurm.up = True
    slurm.restart()
    assert slurm.live["batch"] == {"n2"}


def test_controller_down_is_no_failure_while_nothing_is_open(slurm, reconcile):
    slurm.up = False
    assert reconcile([])["live"] is False


def test_check_mode_on_a_controller_that_is_not_there_yet_does_not_fail(slurm, tmp_path):
    slurm.up = False
    gate = Gate(Controller(slurm, 1), str(tmp_path / "none" / "muster_partitions.conf"), str(tmp_path / "none"))
    wanted = GateFile("L1", 1, (Partition("batch", True),))
    assert gate.reconcile(wanted, {}, check=True)["changed"]
    with pytest.raises(SlurmGateError, match="No such file"):
        gate.reconcile(wanted, {})


def test_unreadable_partition_of_others_keeps_no_node_open(slurm, reconcile):
    reconcile(["n1", "n2"])
    slurm.more_partitions = "PartitionName=ib Nodes=gpu-[01-04]-ib State=UP\ngarbage\n"
    assert reconcile(["n1"], 2)["closed"] == {"batch": ["n2"]}
    assert filed(slurm) == slurm.live["batch"] == {"n1"}


def test_own_partition_that_cannot_be_read_is_closed_and_told(slurm, reconcile):
    reconcile(["n1", "n2"])
    ran = slurm.run

    def run(argv, timeout_seconds):
        answer = ran(argv, timeout_seconds)
        return Output(answer.stdout.replace("PartitionName=batch Default=NO Nodes=", "PartitionName=batch Nodes=["))

    slurm.run = run
    with pytest.raises(SlurmGateError, match=r"still has open: partition batch cannot be read \(.*expected n1"):
        reconcile(["n1"], 2)
    assert filed(slurm) == slurm.live["batch"] == {"n1"}


def test_controller_that_does_not_tell_its_partitions_closes_in_the_file(slurm, reconcile):
    reconcile(["n1", "n2"])
    slurm.mute = ("partition",)
    with pytest.raises(SlurmGateError, match="1 nodes closed in"):
        reconcile(["n1"], 2)
    assert filed(slurm) == {"n1"}


@pytest.fixture
def close(slurm, reconcile, tmp_path):
    """Close nodes of a gate of ``batch`` with n1, n2 and n3, at generation 7."""
    reconcile(["n1", "n2", "n3"], 7)
    slurm.commands.clear()
    gate = Gate(Controller(slurm, 1), str(slurm.path), str(tmp_path))
    return lambda *names, **more: gate.close(names, **more)


def test_close_by_name_then_close_again(slurm, close):
    result = close("n2", "n9")
    assert (result["changed"], result["closed"], result["live"]) == (True, {"batch": ["n2"]}, True)
    assert filed(slurm) == slurm.live["batch"] == {"n1", "n3"}
    content = parse_gate_file(slurm.path.read_text())
    assert (content.ledger_id, content.generation) == ("L1", 7)
    assert slurm.live["acceptance"] == ALL
    slurm.commands.clear()
    again = close("n2", "n9")
    assert (again["changed"], again["closed"], slurm.commands) == (False, {}, [])


def test_closing_by_name_opens_nothing_and_closes_nobody_else(slurm, close):
    # n1 was closed by hand; the generation and the marker say what they like.
    slurm.live["batch"] = {"n2", "n3"}
    close("n3")
    assert (filed(slurm), slurm.live["batch"]) == ({"n1", "n2"}, {"n2"})


def test_closing_by_name_finds_what_was_opened_by_hand_alone(slurm, close):
    close("n2")
    slurm.live["batch"] |= {"n2"}
    assert close("n2")["closed"] == {"batch": ["n2"]}
    assert slurm.live["batch"] == {"n1", "n3"}


def test_closing_by_name_in_check_mode_leaves_no_trace(slurm, close, tmp_path):
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    result = close("n2", check=True)
    assert (result["changed"], result["closed"]) == (True, {"batch": ["n2"]})
    assert ({path.name: path.read_text() for path in tmp_path.iterdir()}, slurm.commands) == (before, [])


def test_closing_by_name_while_the_controller_is_silent_closes_in_the_file_and_says_so(slurm, close, tmp_path):
    slurm.up = False
    for _again in range(2):
        (tmp_path / "part_state").touch()
        with pytest.raises(
            SlurmGateError, match=r"n2 may still be open: slurmctld does not answer.*lists none"
        ) as caught:
            close("n2")
        assert not (tmp_path / "part_state").exists()
        assert (caught.value.result["live"], filed(slurm)) == (False, {"n1", "n3"})
        assert caught.value.result["closed"] == ({} if _again else {"batch": ["n2"]})
    assert close("n3", check=True)["closed"] == {"batch": ["n3"]}


@pytest.mark.parametrize("mute", [("partition",), ("partition", "node", "reservation")])
def test_closing_by_name_needs_no_answer_that_can_be_read(slurm, close, mute):
    slurm.mute = mute
    with pytest.raises(SlurmGateError, match=r"n2 may still be open: .*Zero Bytes"):
        close("n2")
    assert filed(slurm) == slurm.live["batch"] == {"n1", "n3"}


def test_closing_by_name_though_a_partition_cannot_be_read(slurm, close):
    slurm.more_partitions = "PartitionName=ib Nodes=gpu-[01-04]-ib State=UP\n"
    assert close("n2")["closed"] == {"batch": ["n2"]}
    slurm.more_partitions = "PartitionName=batch Nodes=n3 State=UP\n"
    with pytest.raises(SlurmGateError, match="n3 may still be open: partition batch cannot be read"):
        close("n3")
    assert filed(slurm) == slurm.live["batch"] == {"n1"}


def test_closing_by_name_live_though_the_file_cannot_be_written(slurm, close, monkeypatch):
    def full(*_given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ansible_collections.muster.cluster.plugins.module_utils.slurm.user_gate.replace_file", full)
    with pytest.raises(SlurmGateError, match=r"n2 may still be open: live they are closed; .*No space left"):
        close("n2")
    assert (filed(slurm), slurm.live["batch"]) == (ALL, {"n1", "n3"})


def test_closing_by_name_that_takes_no_effect_is_found_out(slurm, close):
    slurm.deaf = True
    with pytest.raises(SlurmGateError, match="n2 may still be open: partition batch has n2"):
        close("n2")
    assert filed(slurm) == {"n1", "n3"}


def test_closing_by_name_before_anything_was_rendered(slurm, tmp_path):
    gate = Gate(Controller(slurm, 1), str(slurm.path), str(tmp_path))
    assert not gate.close(["n2"])["changed"]
    slurm.live["batch"] = {"n2"}
    assert gate.close(["n2"])["closed"] == {"batch": ["n2"]}
    slurm.up = False
    assert gate.close(["n2"])["live"] is False
    slurm.path.unlink()
    assert gate.close(["n2"])["changed"] is False
    slurm.up = True
    with pytest.raises(SlurmGateError, match="no such file"):
        gate.close(["n2"])


def test_closing_by_name_stops_at_a_file_that_is_not_ours(slurm, close):
    slurm.path.write_text("PartitionName=batch Nodes=ALL\n")
    with pytest.raises(SlurmGateError, match="expected '# muster ledger"):
        close("n2")


def test_module_closes_by_name(slurm, close, tmp_path, monkeypatch):
    monkeypatch.setattr("ansible_collections.muster.cluster.plugins.modules.slurm_gate.LocalHost", lambda **_: slurm)
    places = {"path": str(slurm.path), "state_save_location": str(tmp_path)}
    for check in (True, False):
        answer = run_module("slurm_gate", check, close=["n2"], **places)
        assert (answer["changed"], answer["closed"]) == (True, {"batch": ["n2"]})
        assert "Nodes=n[1-3]" in answer["diff"]["before"] and "Nodes=n[1,3]" in answer["diff"]["after"]
    again = run_module("slurm_gate", close=["n2"], **places)
    assert not again["changed"] and "diff" not in again
    assert run_module("slurm_gate", close=[], partitions=[], **places)["failed"]
    assert "generation" in run_module("slurm_gate", partitions=[], ledger_id="L1", **places)["msg"]
    assert run_module("slurm_gate", **places)["failed"]


def test_two_reconciles_do_not_overlap(slurm, reconcile, tmp_path):
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(reconcile, ["n1"])
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.2)
        assert slurm.commands == []
        os.close(held)
        assert waiting.result(timeout=5)["changed"]


def test_opening_that_the_controller_refuses_is_undone(slurm, reconcile):
    reconcile(["n1"])
    slurm.refuse = ("n[1-2]",)
    with pytest.raises(SlurmGateError, match=r"opening was undone$"):
        reconcile(["n1", "n2"], 2)
    assert filed(slurm) == slurm.live["batch"] == {"n1"}


def test_controller_that_says_yes_and_does_nothing_is_found_out(slurm, reconcile):
    slurm.deaf = True
    with pytest.raises(SlurmGateError, match="has no nodes, expected n1"):
        reconcile(["n1"])
    assert filed(slurm) == set()


def test_close_that_does_not_take_effect_fails(slurm, reconcile):
    reconcile(["n1", "n2"])
    slurm.deaf = True
    with pytest.raises(SlurmGateError, match="still has open"):
        reconcile(["n1"], 2)
    assert filed(slurm) == {"n1"}


def test_manual_drain_is_reported_and_restored_when_state_was_lost(slurm, reconcile, tmp_path):
    slurm.nodes["n2"] = "cable"
    slurm.nodes["n3"] = "muster:health:xid:e1"
    assert [drain["node"] for drain in reconcile([])["drains_found"]] == ["n2"]
    slurm.restart(erase=tmp_path / MARKER)
    result = reconcile([], drains={"n2": "cable"})
    assert result["slurm_state_lost"]
    assert result["changed"]
    assert result["drains_restored"] == ["n2"]
    assert [drain["node"] for drain in result["drains_found"]] == ["n2"]
    assert slurm.nodes["n2"] == "cable"
    again = reconcile([], drains={"n2": "cable"})
    assert not again["changed"]
    assert not again["slurm_state_lost"]


@pytest.mark.parametrize("reason", ["muster: keep off, ask Ann", "muster:health:xid:e1 but keep"])
def test_drain_in_a_persons_words_is_copied_and_never_lifted(slurm, reconcile, tmp_path, reason):
    slurm.nodes["n2"] = reason
    found = reconcile([])["drains_found"]
    assert [(drain["node"], drain["reason"]) for drain in found] == [("n2", reason)]
    gate = Gate(
        Controller(slurm, 1),
        str(slurm.path),
        str(tmp_path),
        NodeHandling(examined(*ALL, in_service=False, healthy=True)),
    )
    assert gate.reconcile(GateFile("L1", 1, (Partition("batch", True),)), {})["resumed"] == []
    assert slurm.nodes["n2"] == reason


def test_persons_drain_that_reads_like_ours_stays_a_persons_when_root_restores_it(slurm, reconcile, tmp_path):
    slurm.restart(erase=tmp_path / MARKER)
    assert reconcile([], drains={"n2": "muster:health:xid:e1"})["drains_restored"] == ["n2"]
    assert slurm.nodes["n2"] == "restored: muster:health:xid:e1"
    assert [drain["node"] for drain in reconcile([])["drains_found"]] == ["n2"]


def test_drain_of_a_node_that_cannot_be_read_is_neither_lifted_nor_lost(slurm, reconcile, tmp_path):
    slurm.os = "x State=IDLE BootTime=None"
    assert reconcile([], drains={"n1": "cable"})["drains_lifted"] == []
    slurm.restart(erase=tmp_path / MARKER)
    assert reconcile([], drains={"n1": "cable"})["drains_restored"] == ["n1"]
    assert slurm.nodes["n1"] == "cable"


def test_drain_that_somebody_lifted_is_not_restored(slurm, reconcile):
    result = reconcile([], drains={"n2": "cable"})
    assert result["drains_lifted"] == ["n2"]
    assert slurm.nodes["n2"] == ""


def test_drain_of_a_node_that_slurm_does_not_know_is_left_alone(slurm, reconcile, tmp_path):
    (tmp_path / MARKER).unlink()
    assert reconcile([], drains={"gone": "cable"})["drains_restored"] == []


def test_lost_drain_is_restored_before_nodes_are_opened(slurm, reconcile, tmp_path):
    (tmp_path / MARKER).unlink()
    reconcile(["n2"], drains={"n2": "cable"})
    words = [command.split()[1].partition("=")[0] for command in slurm.commands if command.startswith("update")]
    assert words == ["NodeName", "PartitionName"]


def test_state_directory_that_is_not_there_is_named(slurm, tmp_path):
    gate = Gate(Controller(slurm, 1), str(slurm.path), str(tmp_path / "none"))
    with pytest.raises(SlurmGateError, match="expected Slurm's StateSaveLocation"):
        gate.reconcile(GateFile("L1", 1, (Partition("batch", True, ("n1",)),)), {})
    assert filed(slurm) == set()


def test_partition_that_goes_is_closed(slurm, reconcile, tmp_path):
    both = GateFile("L1", 1, (Partition("batch", True, ("n1",)), Partition("big", False, ("n2",))))
    Gate(Controller(slurm, 1), str(slurm.path), str(tmp_path)).reconcile(both, {})
    result = reconcile(["n1"], 2)
    assert result["closed"] == {"big": ["n2"]}
    assert "big" not in slurm.live


def test_description_of_the_gate(slurm, reconcile, tmp_path):
    gate = Gate(Controller(slurm, 1), str(slurm.path), str(tmp_path))
    new = gate.describe()
    assert (new["ledger_id"], new["generation"], new["partitions"]) == (None, 0, {"batch": []})
    reconcile(["n1"], 4)
    slurm.nodes["n2"] = "cable"
    found = gate.describe()
    assert (found["ledger_id"], found["generation"], found["partitions"]) == ("L1", 4, {"batch": ["n1"]})
    assert found["drains"] == {"n2": "cable"}
    assert found["slurm_state_lost"] is False
    assert found["live_partitions"]["acceptance"] == ["n1", "n2", "n3"]


def test_description_tells_what_others_have_and_what_cannot_be_read(slurm, reconcile, tmp_path):
    reconcile(["n1"])
    slurm.more_partitions = (
        "PartitionName=debug AllowGroups=ALL RootOnly=NO Nodes=n3 State=UP\n"
        "PartitionName=ib AllowGroups=ALL Nodes=gpu-[01-04]-ib State=UP\n"
    )
    slurm.reservations = (
        "ReservationName=course StartTime=a EndTime=b Nodes=n3 Flags=SPEC_NODES Users=ann Groups=(null) "
        "Accounts=(null) State=ACTIVE\nReservationName=cut StartTime=a\n"
    )
    slurm.os = "x State=IDLE BootTime=None"
    found = Gate(Controller(slurm, 1), str(slurm.path), str(tmp_path)).describe()
    assert found["live_partitions"] == {"acceptance": ["n1", "n2", "n3"], "batch": ["n1"], "debug": ["n3"]}
    assert found["live_access"]["debug"] == {"State": "UP", "RootOnly": "NO", "AllowGroups": "ALL"}
    assert found["live_access"]["ib"] == {"State": "UP", "AllowGroups": "ALL"}
    course = found["reservations"].pop("course")
    assert (course["nodes"], course["users"], found["reservations"]) == (("n3",), ("ann",), {})
    assert sorted(found["unreadable"]) == ["node n1", "partition ib", "reservation cut"]
    assert found["nodes"]["n1"]["state"] == "UNREADABLE" and found["nodes"]["n2"]["state"] == "IDLE"


def test_module_tells_reservations_as_plain_data(slurm, reconcile, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "ansible_collections.muster.cluster.plugins.modules.slurm_gate_info.LocalHost", lambda **_: slurm
    )
    slurm.reservations = (
        "ReservationName=course StartTime=a EndTime=b Nodes=n[2-3] Flags= "
        "Users=ann Groups=(null) Accounts=(null) State=ACTIVE"
    )
    answer = run_module("slurm_gate_info", path=str(slurm.path), state_save_location=str(tmp_path))
    course = answer["reservations"]["course"]
    assert (course["nodes"], Reservation.from_dict(course).nodes) == (["n2", "n3"], ("n2", "n3"))


def test_module_knows_the_hours_apart_that_a_clock_change_gives_the_same_name(tmp_path, monkeypatch):
    booted = (1792888200, 1792891800)
    lines = "".join(
        f"echo NodeName=n{number} OS=Linux State=IDLE BootTime=$(date -d @{at} +%Y-%m-%dT%H:%M:%S)\n"
        for number, at in enumerate(booted)
    )
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\ncase $1$2 in shownode) {lines};; show*) ;; *) echo UP;; esac\n")
    scontrol.chmod(0o755)
    monkeypatch.setattr(
        "ansible_collections.muster.cluster.plugins.modules.slurm_gate_info.LocalHost",
        partial(LocalHost, f"{tmp_path}:/usr/bin:/bin"),
    )
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    assert {time.strftime("%H:%M", time.localtime(at)) for at in booted} == {"02:30"}
    answer = run_module("slurm_gate_info", path=str(tmp_path / "gate"), state_save_location=str(tmp_path))
    monkeypatch.undo()
    time.tzset()
    assert [node["boot_time"] for node in answer["nodes"].values()] == [*booted]


def test_reservations_that_slurm_does_not_tell_hide_nothing_else(slurm, reconcile, tmp_path):
    reconcile(["n1"])
    slurm.mute = ("reservation",)
    found = Gate(Controller(slurm, 1), str(slurm.path), str(tmp_path)).describe()
    assert found["live"] and list(found["unreadable"]) == ["reservations"]


def test_silent_controller_makes_no_drain_look_lifted(slurm, tmp_path):
    slurm.up = False
    found = Gate(Controller(slurm, 1), str(slurm.path), str(tmp_path)).describe()
    assert (found["live"], found["drains"], found["slurm_state_lost"]) == (False, {}, True)


def test_probe_tells_a_listening_port_from_a_closed_one():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert answers("127.0.0.1", port, 1)
    assert not answers("127.0.0.1", port, 1)


def test_saved_partitions_are_dropped_at_every_write_so_that_a_standby_reads_the_file(slurm, reconcile, tmp_path):
    saved = [tmp_path / "part_state", tmp_path / "part_state.old"]
    for nodes, generation in ((["n1", "n2"], 1), (["n2"], 2)):
        for path in saved:
            path.touch()
        assert reconcile(nodes, generation)["changed"]
        assert [path for path in saved if path.exists()] == []


def test_saved_partitions_are_dropped_again_after_the_live_update(slurm, reconcile, tmp_path):
    """The controller saves what was live until then at any moment."""
    reconcile(["n1", "n2"])
    ran = slurm.run

    def run(argv, timeout_seconds):
        if "update" in argv:
            (tmp_path / "part_state").touch()
        return ran(argv, timeout_seconds)

    slurm.run = run
    reconcile(["n2"], 2)
    assert not (tmp_path / "part_state").exists()
    reconcile(["n2", "n3"], 3)
    assert not (tmp_path / "part_state").exists()


def test_saved_partitions_are_dropped_though_no_controller_answers(slurm, reconcile, tmp_path):
    reconcile(["n1"])
    slurm.up = False
    for _again in range(2):
        (tmp_path / "part_state").touch()
        with pytest.raises(SlurmGateError, match="does not answer"):
            reconcile([], 2) if not _again else reconcile(["n3"], 2)
        assert not (tmp_path / "part_state").exists()


def test_saved_partitions_that_cannot_be_dropped_are_an_error(slurm, reconcile, tmp_path):
    (tmp_path / "part_state").mkdir()
    with pytest.raises(SlurmGateError, match="part_state: "):
        reconcile(["n1"])


def test_controller_that_answers_once_the_file_is_written_is_closed_live_too(slurm, reconcile):
    """It may have read the file as it was a moment before."""
    reconcile(["n1", "n2"])
    slurm.up = False
    ran = slurm.run

    def run(argv, timeout_seconds):
        slurm.up = slurm.up or filed(slurm) == {"n2"}
        return ran(argv, timeout_seconds)

    slurm.run = run
    result = reconcile(["n2"], 2)
    assert (result["live"], result["closed"]) == (True, {"batch": ["n1"]})
    assert slurm.live["batch"] == {"n2"}


def test_file_in_a_shared_directory_is_written_there_and_the_link_stays(slurm, reconcile, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    slurm.path.rename(shared / "muster_partitions.conf")
    slurm.path.symlink_to(shared / "muster_partitions.conf")
    assert reconcile(["n1"])["changed"]
    assert slurm.path.is_symlink()
    assert filed(slurm) == {"n1"}
    assert [path.name for path in shared.iterdir()] == ["muster_partitions.conf"]


@pytest.fixture
def cared(slurm, tmp_path):
    """Reconcile ``batch`` with care for nodes that come back and jobs that leave."""

    def call(nodes, care, drains=None, **more):
        gate = Gate(Controller(slurm, 1), str(slurm.path), str(tmp_path), care)
        return gate.reconcile(GateFile("L1", 1, (Partition("batch", True, tuple(nodes)),)), drains or {}, **more)

    return call


def examined(*names, in_service=True, healthy=False):
    """These nodes, as examined long after what the controller tells of them."""
    return {name: Examined("boot", 2e9, in_service, healthy) for name in names}


def test_rebooted_node_is_resumed_once_examined_and_before_it_is_opened(slurm, cared):
    slurm.nodes["n2"], slurm.down = REBOOTED, {"n2", "n3"}
    slurm.nodes["n3"] = REBOOTED
    first = cared(["n2"], NodeHandling(examined("n1", "n2")))
    assert (first["resumed"], first["changed"], slurm.down) == (["n2"], True, {"n3"})
    order = [command.split()[1].partition("=")[0] for command in slurm.commands]
    assert order.index("NodeName") < order.index("PartitionName")
    again = cared(["n2"], NodeHandling(examined("n1", "n2")))
    assert (again["resumed"], again["changed"]) == ([], False)


def test_three_thousand_nodes_are_resumed_by_a_few_commands(slurm, cared):
    # Odd numbers alone: nothing of them folds to a range.
    names = [f"gpu-rack{number:05d}" for number in range(1, 50000, 2)]
    slurm.nodes = dict.fromkeys(names, REBOOTED)
    slurm.down = set(names)
    result = cared([], NodeHandling(examined(*names[:3000])))
    updates = [command for command in slurm.commands if "RESUME" in command]
    assert (result["resumed"], len(updates)) == (names[:3000], 1)
    assert slurm.down == set(names[3000:])
    assert slurm.pings < 15
    slurm.commands.clear()
    assert cared([], NodeHandling(examined(*names)))["resumed"] == names[3000:]
    assert len(slurm.commands) == 2
    longest = max(len(word) for command in slurm.commands for word in command.split())
    assert longest <= ARGUMENT_BYTES + len("NodeName=")


def test_node_that_slurm_does_not_resume_blocks_no_other(slurm, cared):
    slurm.nodes = dict.fromkeys(("n1", "n2", "n3"), REBOOTED)
    slurm.down, slurm.refused_nodes = set(ALL), {"n2"}
    with pytest.raises(
        SlurmGateError, match=r"not resumed: scontrol update NodeName=n2 .*Invalid node state"
    ) as caught:
        cared(["n1", "n3"], NodeHandling(examined("n1", "n2", "n3")))
    assert caught.value.result["resumed"] == ["n1", "n3"]
    assert (slurm.down, slurm.live["batch"]) == ({"n2"}, {"n1", "n3"})
    # n1 was resumed before Slurm came to n2, and is not asked for again.
    tried = [command.split()[1] for command in slurm.commands if "RESUME" in command]
    assert tried == ["NodeName=n[1-3]", "NodeName=n2", "NodeName=n3"]


def test_resume_that_slurm_accepts_and_does_not_do_is_found_out(slurm, cared):
    slurm.nodes = dict.fromkeys(("n1", "n2"), REBOOTED)
    slurm.down, slurm.deaf_nodes = {"n1", "n2"}, {"n1"}
    with pytest.raises(SlurmGateError, match=r"not resumed: n1 is still DOWN \(Node unexpectedly rebooted\)") as caught:
        cared([], NodeHandling(examined("n1", "n2")))
    assert caught.value.result["resumed"] == ["n2"]


def test_node_that_somebody_drains_meanwhile_is_neither_resumed_nor_an_error(slurm, cared, monkeypatch):
    slurm.nodes["n2"], slurm.down = REBOOTED, {"n2"}
    resume = Controller.resume

    def resume_and_drain(controller, *names):
        resume(controller, *names)
        slurm.nodes["n2"] = "fan tray"

    monkeypatch.setattr(Controller, "resume", resume_and_drain)
    assert cared([], NodeHandling(examined("n2")))["resumed"] == []


def test_rebooted_node_is_left_down_in_check_mode(slurm, cared):
    slurm.nodes["n2"], slurm.down = REBOOTED, {"n2"}
    result = cared([], NodeHandling(examined("n2")), check=True)
    assert (result["resumed"], result["changed"], slurm.commands) == (["n2"], True, [])


def test_drain_of_a_person_is_never_lifted(slurm, cared):
    slurm.nodes |= {"n1": "fan tray", "n2": "muster:health:xid:e1", "n3": "Prolog error"}
    assert cared([], NodeHandling(examined(*ALL, in_service=False)))["resumed"] == []
    assert cared([], NodeHandling(examined(*ALL, in_service=False, healthy=True)))["resumed"] == ["n2"]
    assert slurm.nodes == {"n1": "fan tray", "n2": "", "n3": "Prolog error"}


def test_node_that_the_ledger_knows_as_drained_by_hand_is_not_resumed(slurm, cared):
    slurm.nodes["n2"], slurm.down = REBOOTED, {"n2"}
    assert cared([], NodeHandling(examined("n2")), drains={"n2": "fan tray"})["resumed"] == []


def test_health_drain_of_a_node_in_service_is_not_lifted(slurm, cared):
    slurm.nodes["n2"] = "muster:health:xid:e1"
    assert cared(["n2"], NodeHandling(examined("n2")))["resumed"] == []


def test_jobs_on_a_node_that_leaves_go_on_unless_told_otherwise(slurm, cared):
    cared(["n1", "n2"], NodeHandling())
    slurm.jobs = {"7": "batch|n2", "8": "batch|n1", "9": "acceptance|n2"}
    result = cared(["n1"], NodeHandling())
    assert (result["jobs_ended"], set(slurm.jobs)) == ([], {"7", "8", "9"})
    result = cared(["n1"], NodeHandling(end_jobs=True))
    assert (result["jobs_ended"], result["changed"], set(slurm.jobs)) == (["7"], True, {"8", "9"})
    assert not cared(["n1"], NodeHandling(end_jobs=True))["changed"]


def test_job_that_cannot_be_requeued_is_cancelled(slurm, cared):
    slurm.jobs, slurm.refuse = {"7": "batch|n2"}, ("requeue",)
    assert cared([], NodeHandling(end_jobs=True))["jobs_ended"] == ["7"]
    assert slurm.commands[-2:] == ["requeue 7", "7"] and not slurm.jobs


def test_jobs_are_left_in_check_mode(slurm, cared):
    slurm.jobs = {"7": "batch|n2"}
    assert cared([], NodeHandling(end_jobs=True), check=True)["jobs_ended"] == ["7"]
    assert slurm.jobs
