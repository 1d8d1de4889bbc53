"""Waiting for burn-in, with a node that answers from a list."""

import json
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible_collections.muster.cluster.plugins.action import burn_in_wait
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.control import burn_in_waiting, muster_action

EVIDENCE = Evidence("a", "gpu-01", "burn_in", 1.0, 2.0, "boot", {}, "digest").to_dict()
RUNNING = {"status": "running", "id": "a", "eta_seconds": 100, "failed": 1, "percent": 5}
FINISHED = {
    "status": "finished",
    "id": "a",
    "failed": 0,
    "percent": 100,
    "evidence": EVIDENCE,
    "evidence_path": "/e",
}
GONE = AnsibleConnectionFailure("no route")


class Node:
    def __init__(self, *answers):
        self.answers = list(answers)
        self.commands = []

    def __call__(self, command):
        self.commands.append(command)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            return {"rc": answer, "stdout": "", "stderr": "sh: no such file"}
        return {"rc": 0, "stdout": f"motd\n{json.dumps(answer)}\n", "stderr": ""}


@pytest.fixture
def wait(monkeypatch, tmp_path):
    """Runs the action on a node; returns its result, and the seconds it slept."""
    now = [1000.0]
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(burn_in_waiting.time, "time", lambda: now[0])
    monkeypatch.setattr(burn_in_waiting.time, "sleep", sleep)
    monkeypatch.setattr(
        burn_in_wait,
        "SharedProgress",
        lambda *_: SimpleNamespace(deadline=lambda seconds: 1000.0 + seconds, report=lambda host, state: None),
    )
    monkeypatch.setattr(muster_action.ActionBase, "run", lambda *_: {})

    def run(node, check_mode=False, resumed=None, **arguments):
        action = burn_in_wait.ActionModule.__new__(burn_in_wait.ActionModule)
        task = {"args": arguments, "action": "muster.cluster.burn_in_wait", "check_mode": check_mode, "_uuid": "task"}
        action._task = SimpleNamespace(**task)
        action._low_level_execute_command = node
        action.execute = resumed
        return action.run(None, {"inventory_hostname": "gpu-01", "ansible_play_batch": ["gpu-01"]}), slept

    return run


def test_finished_run_brings_its_evidence(wait):
    result, slept = wait(Node(FINISHED))
    assert (result["status"], result["evidence"], result["evidence_path"]) == ("finished", EVIDENCE, "/e")
    assert not slept and result["changed"] is False


PASSED = {**FINISHED, "evidence": {**EVIDENCE, "findings": [Finding("cpu", "host", "pass").to_dict()]}}
FAILED = {**FINISHED, "evidence": {**EVIDENCE, "findings": [Finding("cpu", "host", "fail").to_dict()]}}


def test_node_that_passed_is_given_back(wait):
    asked = []
    for answer, changed in (({"changed": True}, True), ({"changed": False}, False)):
        result, _ = wait(Node(PASSED), resumed=lambda *given, answer=answer: asked.append(given) or answer)
        assert result["changed"] is changed and result["evidence"] == PASSED["evidence"]
    reason = "muster: burn_in loads this node"
    assert asked == [("slurm_drain", {"node": "gpu-01", "state": "resumed", "reason": reason})] * 2


@pytest.mark.parametrize("answer", [FAILED, FINISHED, RUNNING, {"status": "none"}])
def test_node_that_did_not_pass_stays_drained(wait, answer):
    wait(Node(answer))


def test_check_mode_gives_no_node_back(wait):
    wait(Node(PASSED), check_mode=True)


def test_node_that_slurm_does_not_give_back_keeps_its_evidence(wait):
    def silent(*_):
        raise muster_action.UnreachableError("gone")

    for resumed in (lambda *_: {"failed": True, "msg": "gone"}, silent):
        result, _ = wait(Node(PASSED), resumed=resumed)
        assert result["evidence"] == PASSED["evidence"] and not result.get("failed")
        assert result["warnings"] == ["gpu-01 stays drained until the next run: gone"]


def test_wait_of_zero_asks_once(wait):
    node = Node(RUNNING)
    result, slept = wait(node, wait_seconds=0)
    assert (result["status"], result["evidence"]) == ("running", None)
    assert len(node.commands) == 1 and not slept


def test_delay_grows_to_a_minute(wait):
    _, slept = wait(Node(*[RUNNING] * 20, FINISHED), wait_seconds=3600)
    assert slept[:3] == [1.0, 1.5, 2.25] and slept[-1] == 60.0


def test_node_that_says_when_it_ends_is_asked_then(wait):
    soon = {**RUNNING, "eta_seconds": 2.0}
    _, slept = wait(Node(*[RUNNING] * 10, soon, FINISHED), wait_seconds=3600)
    assert slept[-1] == 2.0


def test_waiting_ends_with_the_time(wait):
    result, slept = wait(Node(*[RUNNING] * 20), wait_seconds=10)
    assert result["status"] == "running" and 10 <= sum(slept) < 12


def test_run_that_was_cut_off_is_settled(wait):
    node = Node({"status": "interrupted", "id": "a"}, FINISHED)
    result, _ = wait(node)
    assert result["status"] == "finished" and "settle" in node.commands[1]


def test_check_mode_settles_nothing(wait):
    node = Node({"status": "interrupted", "id": "a"})
    result, _ = wait(node, check_mode=True)
    assert result["status"] == "interrupted" and len(node.commands) == 1


def test_dropped_connection_is_tried_again(wait):
    result, _ = wait(Node(RUNNING, GONE, GONE, FINISHED), wait_seconds=60)
    assert result["status"] == "finished"


def test_node_that_stays_away_is_unreachable(wait):
    with pytest.raises(AnsibleConnectionFailure):
        wait(Node(RUNNING, GONE, GONE, GONE), wait_seconds=60)


def test_lost_evidence_is_a_failure(wait):
    result, _ = wait(Node({**FINISHED, "evidence": None, "message": "evidence cannot be read: gone"}))
    assert result["failed"] and "gone" in result["msg"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"node": "gpu-02"}, "node is 'gpu-02', expected 'gpu-01'"),
        ({"stage": "preflight"}, "stage is 'preflight', expected 'burn_in'"),
        ({"id": "old"}, "id is 'old', expected 'a'"),
        ({"findings": None}, "findings is NoneType"),
    ],
)
def test_evidence_of_something_else_is_a_failure(wait, change, said):
    result, _ = wait(Node({**FINISHED, "evidence": {**EVIDENCE, **change}}))
    assert result["failed"] and said in result["msg"]
    assert result["evidence"] is None


@pytest.mark.parametrize("arguments", [{"wait_seconds": "soon"}, {"wait_seconds": -1}, {"wait_seconds": "nan"}])
def test_wrong_time_is_named(wait, arguments):
    with pytest.raises(AnsibleActionFail, match="wait_seconds"):
        wait(Node(), **arguments)


def test_missing_program_is_named(wait):
    with pytest.raises(AnsibleActionFail, match="no such file"):
        wait(Node(127))


def test_missing_program_in_check_mode_is_no_run(wait):
    assert wait(Node(127), check_mode=True)[0]["status"] == "none"
