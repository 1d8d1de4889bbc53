"""Whose drains are set and lifted."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.slurm.node_jobs import serves_slurm
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import (
    UNREADABLE,
    NodeState,
    SlurmGateError,
)
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_controller import Controller
from ansible_collections.muster.cluster.plugins.modules.slurm_drain import must_change

from tests.fake_host import FakeHost
from tests.run_module import run_module

OURS = "muster: gpu_stack changes this node"


@pytest.mark.parametrize(
    ("current", "state", "expected"),
    [
        (NodeState("IDLE"), "drained", True),
        (NodeState("MIXED"), "drained", True),
        (NodeState("IDLE+DRAIN", OURS), "drained", False),
        # A person's drain keeps its reason, and is never lifted.
        (NodeState("IDLE+DRAIN", "waits for a cable"), "drained", False),
        (NodeState("IDLE+DRAIN", "waits for a cable"), "resumed", False),
        (NodeState("IDLE+DRAIN", "muster: boot restarts this node", "root"), "resumed", False),
        (NodeState("IDLE+DRAIN", OURS, "ann"), "resumed", False),
        (NodeState("IDLE+DRAIN", OURS, "root"), "resumed", True),
        (NodeState("DOWN+DRAIN", OURS, "slurm"), "resumed", True),
        (NodeState("IDLE"), "resumed", False),
        (NodeState("DOWN", OURS), "resumed", False),
    ],
)
def test_must_change(current, state, expected):
    assert must_change(current, state, OURS) is expected


@pytest.mark.parametrize(
    ("state", "busy"),
    [
        ("IDLE+DRAIN", False),
        ("MIXED+DRAIN", True),
        ("ALLOCATED+DRAIN", True),
        ("IDLE+COMPLETING+DRAIN", True),
        (UNREADABLE, True),
    ],
)
def test_node_is_busy_until_its_last_job_has_left(state, busy):
    assert NodeState(state).busy is busy


@pytest.mark.parametrize(
    ("comms", "expected"),
    # A job's step outlives a slurmd that was stopped.
    [
        ((), False),
        (("sshd", "slurmctld"), False),
        (("sshd", "slurmd"), True),
        (("slurmstepd",), True),
        (("slurmd-wlm",), True),
    ],
)
def test_serves_slurm(comms, expected):
    assert (
        serves_slurm(FakeHost({f"/proc/{pid}/comm": Output(f"{comm}\n") for pid, comm in enumerate(comms)})) is expected
    )


def controller(answer):
    return FakeHost({"scontrol ping": Output("UP")}, answer=Output(answer))


def test_another_nodes_answer_is_an_error():
    line = f"NodeName=gpu-02 OS=Linux State=IDLE+DRAIN BootTime=None Reason={OURS} [root@2026-11-20T10:00:00]\n"
    expected = NodeState("IDLE+DRAIN", OURS, "root", "2026-11-20T10:00:00", "None")
    assert Controller(controller(line)).node("gpu-02") == expected
    with pytest.raises(SlurmGateError, match="said gpu-02, expected gpu-01"):
        Controller(controller(line)).node("gpu-01")
    with pytest.raises(SlurmGateError, match="said nothing"):
        Controller(controller("No nodes in the system\n")).node("gpu-01")
    with pytest.raises(SlurmGateError, match="scontrol show node gpu-02: 2 times State="):
        Controller(controller(line.replace("Linux", "x State=IDLE BootTime=None"))).node("gpu-02")


def test_reason_that_nobody_would_know_for_muster_own_is_refused():
    answer = run_module("slurm_drain", node="gpu-01", state="drained", reason="muster: keep off, ask Ann")
    assert answer["failed"] and "muster: boot restarts this node" in answer["msg"]
