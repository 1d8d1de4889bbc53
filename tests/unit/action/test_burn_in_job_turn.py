"""When a host of a ramp starts, and when it no longer does."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from ansible_collections.muster.cluster.plugins.action import burn_in_job
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.plugin_utils.control import muster_action
from ansible_collections.muster.cluster.plugins.plugin_utils.ramp import shared_ramp
from ansible_collections.muster.cluster.plugins.plugin_utils.ramp.ramp_plan import Turn
from ansible_collections.muster.cluster.plugins.plugin_utils.ramp.shared_ramp import SharedRamp, alarm_of

PLAN = {"node": "gpu-01", "profile": "p", "steps": [{"seconds": 60}], "interval_seconds": 5, "expect": {}}
STARTED = {"changed": True, "started_now": True, "status": "running", "waits": ""}
ATTACHED = {"changed": False, "started_now": False, "status": "running", "waits": ""}
ENDED = {"changed": False, "started_now": False, "status": "finished", "waits": "no run is under way"}
WARM = "inlet of gpu-01 at 41 C: Inlet Temp above the class limit"


class World:
    """One play run: its clock, what operators see, and the hosts that the module ran on, with the time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.shown: list[str] = []
        self.ran: list[tuple[str, float, bool]] = []
        self.asked: list[float] = []
        self.answers: dict[str, list[dict[str, Any]]] = {}
        self.alarm = Output()
        self.task = str(uuid4())
        self.batch = ["gpu-01", "gpu-02", "gpu-03"]

    def ask(self, argv: Any, seconds: float) -> Output:
        self.asked.append(self.now)
        assert seconds == 10.0
        return self.alarm

    def start(self, host: str = "gpu-01", check: bool = False, alarm: bool = False, **turn: Any) -> dict[str, Any]:
        action = burn_in_job.ActionModule.__new__(burn_in_job.ActionModule)
        given = {**PLAN, "node": host, **({"alarm": ["/site/alarm"]} if alarm else {})}
        given["turn"] = Turn(**{"feed": "feed 1", "starting": 3, **turn}).to_dict() if turn else {}
        task = {"args": given, "action": "muster.cluster.burn_in_job", "check_mode": check, "_uuid": self.task}
        action._task = SimpleNamespace(**task)

        def execute(module: str, arguments: dict[str, Any]) -> dict[str, Any]:
            assert module == "burn_in_job" and not {"turn", "alarm"} & arguments.keys()
            self.ran.append((host, self.now, arguments.get("may_start", True)))
            return dict(self.answers[host].pop(0)) if self.answers.get(host) else dict(STARTED)

        action.execute = execute
        return action.run(None, {"inventory_hostname": host, "ansible_play_batch": self.batch})


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()

    def sleep(seconds: float) -> None:
        assert seconds > 0
        world.now += seconds

    monkeypatch.setattr(shared_ramp.time, "time", lambda: world.now)
    monkeypatch.setattr(shared_ramp.time, "sleep", sleep)
    monkeypatch.setattr(shared_ramp, "LocalHost", lambda: SimpleNamespace(run=world.ask))
    monkeypatch.setattr(burn_in_job, "show", world.shown.append)
    monkeypatch.setattr(muster_action.ActionBase, "run", lambda *_: {})
    return world


def test_host_starts_at_its_moment_counted_from_the_first(world: World) -> None:
    world.start("gpu-01", after_seconds=0.0)
    result = world.start("gpu-02", after_seconds=7.5)
    assert world.ran == [("gpu-01", 1000.0, True), ("gpu-02", 1007.5, True)]
    assert result["started_now"] and result["changed"] and not world.shown


def test_where_one_comes_late_those_after_it_keep_their_distance(world: World) -> None:
    world.start("gpu-01", after_seconds=0.0)
    world.now += 60
    world.start("gpu-02", after_seconds=10.0)
    world.start("gpu-03", after_seconds=20.0)
    assert [at for _, at, _ in world.ran] == [1000.0, 1060.0, 1070.0]
    # Another feed is not late.
    world.start("gpu-04", feed="feed 2", after_seconds=70.0)
    assert world.ran[-1][1] == 1070.0


def test_without_a_turn_a_host_starts_at_once(world: World) -> None:
    world.start("gpu-01")
    assert world.ran == [("gpu-01", 1000.0, True)]


def test_host_that_waits_for_another_run_is_not_asked_and_has_not_failed(world: World) -> None:
    result = world.start("gpu-01", waits="rack r01: 40 of 40 kW are in use by 4 nodes")
    assert not world.ran and not result.get("failed") and result["changed"] is False
    assert (result["started_now"], result["status"]) == (False, "none")
    assert result["waits"] == "rack r01: 40 of 40 kW are in use by 4 nodes"


def test_run_under_way_is_attached_to_without_a_turn_alarm_or_not(world: World) -> None:
    world.alarm = Output(rc=1)
    world.answers["gpu-01"] = [ATTACHED]
    result = world.start("gpu-01", alarm=True, running=True, after_seconds=500.0, waits="feed 1: too warm")
    assert world.ran == [("gpu-01", 1000.0, False)] and not world.asked
    assert result["status"] == "running" and result["waits"] == ""


def test_run_that_turns_out_to_have_ended_needs_a_turn(world: World) -> None:
    world.answers["gpu-01"] = [ENDED]
    world.start("gpu-01", running=True, after_seconds=20.0)
    assert world.ran == [("gpu-01", 1000.0, False), ("gpu-01", 1020.0, True)]
    world.answers["gpu-02"] = [ENDED]
    assert world.start("gpu-02", running=True, waits="feed 1: too warm")["waits"] == "feed 1: too warm"
    assert len(world.ran) == 3


def test_failed_question_for_a_run_under_way_starts_nothing(world: World) -> None:
    world.answers["gpu-01"] = [{"failed": True, "msg": "broken"}]
    assert world.start("gpu-01", running=True)["msg"] == "broken"
    assert len(world.ran) == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Output("PDU 7 phase B at 34 A\n", rc=1), "exit status 1: PDU 7 phase B at 34 A"),
        (Output("", "no route to the PDU", rc=3), "exit status 3: no route to the PDU"),
        (Output(rc=2), "exit status 2"),
        (Output(rc=None, timed_out=True, error="/site/alarm: no answer within 10 s"), "no answer within 10 s"),
        (Output(rc=None, error="/site/alarm: No such file or directory"), "No such file or directory"),
    ],
)
def test_alarm_of_the_site_stops_all_feeds_and_each_says_how_many_wait(world: World, answer: Output, why: str) -> None:
    world.start("gpu-01", alarm=True, after_seconds=0.0)
    world.alarm = answer
    for host, feed in (("gpu-02", "feed 1"), ("gpu-03", "feed 1"), ("gpu-04", "feed 2")):
        result = world.start(host, alarm=True, after_seconds=30.0, feed=feed)
        assert why in result["waits"] and not result.get("failed") and result["started_now"] is False
    assert world.ran == [("gpu-01", 1000.0, True)]
    assert [line.partition(" is not")[0] for line in world.shown] == [
        "burn-in of 2 nodes of feed 1",
        "burn-in of 3 nodes of feed 2",
    ]
    assert why in world.shown[0]
    # No later answer takes it back within the run, and nobody asks any more.
    world.alarm, asked = Output(), len(world.asked)
    world.now += 60
    assert world.start("gpu-05", alarm=True, after_seconds=0.0)["waits"] and len(world.asked) == asked


def test_alarm_is_asked_every_five_seconds_by_all_hosts_together(world: World) -> None:
    for number in range(1, 21):
        world.start(f"gpu-{number:02}", alarm=True, after_seconds=number * 1.0)
    gaps = [later - earlier for earlier, later in zip(world.asked, world.asked[1:], strict=False)]
    assert 4 <= len(world.asked) <= 5 and min(gaps) >= 5


def test_warm_inlet_of_a_host_stops_its_feed_and_no_other(world: World) -> None:
    world.answers["gpu-01"] = [{"changed": False, "started_now": False, "status": "none", "waits": WARM}]
    assert world.start("gpu-01", after_seconds=0.0)["waits"] == WARM
    # A host that was lost meanwhile is no longer one of the batch.
    world.batch.pop()
    assert world.start("gpu-02", after_seconds=5.0)["waits"] == WARM
    assert world.shown == [f"burn-in of 3 nodes of feed 1 is not started in this run: {WARM}"]
    assert world.start("gpu-03", after_seconds=5.0, feed="feed 2")["started_now"]
    assert [host for host, _, _ in world.ran] == ["gpu-01", "gpu-03"]


def test_check_mode_neither_waits_nor_asks(world: World) -> None:
    world.start("gpu-01", check=True, alarm=True, after_seconds=500.0)
    assert world.ran == [("gpu-01", 1000.0, True)] and not world.asked


def test_command_that_hangs_is_an_alarm_within_its_time(tmp_path: Any) -> None:
    command = tmp_path / "alarm"
    command.write_text("#!/bin/sh\nexec sleep 60\n")
    command.chmod(0o755)
    host = shared_ramp.LocalHost()
    assert "no answer within 0.2 s" in alarm_of(host.run([str(command)], 0.2))


def test_two_processes_share_one_ramp() -> None:
    shown: list[str] = []
    key = [str(uuid4())]

    def ramp(run: Callable[..., Output] = lambda *_: Output()) -> SharedRamp:
        return SharedRamp(key, ["/site/alarm"], shown.append, run)

    assert ramp().wait_for(Turn("feed 1", starting=2)) == ""
    ramp().stop(Turn("feed 1", starting=2), "too warm")
    assert ramp().wait_for(Turn("feed 1", starting=2)) == "too warm"
    assert shown == ["burn-in of 2 nodes of feed 1 is not started in this run: too warm"]
