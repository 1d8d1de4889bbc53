"""Who is blamed for what a save shows: tables of faults, each with the verdict it has to end in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import STORAGE_CHECKS
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round
from ansible_collections.muster.cluster.plugins.plugin_utils.save_rounds.save_judging import Limits, Save, judge, target
from ansible_collections.muster.cluster.plugins.plugin_utils.save_rounds.save_rounds import (
    MAX_ROUNDS,
    Plan,
    conclude_early,
    next_round,
)

NODES = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
# Eight shards of 0.5 GB: 4 GB of each node.
LIMITS = Limits(2.0, 4.0, 50.0, 1.3, "/checkpoints", 500_000_000, 64, 10.0)
BLOCKED = {"pid": 7, "rank": 0, "state": "D", "where": "rpc_wait_bit_killable", "gone": True}


def answer(node: str, peer: str, **change: Any) -> dict[str, Any]:
    """Return what a sound node says: 4 GB/s written, 8 GB/s read."""
    return {
        **{"node": node, "phase": "end", "error": "", "code": "", "blocked": [], "nodes": 4, "elapsed_seconds": 9.0},
        "links": {"eth0": {}},
        "write": {"bytes": 4_000_000_000, "seconds": 1.0, "direct": True, "blocking_seconds": 1.1},
        "read": {"of": peer, "bytes": 4_000_000_000, "seconds": 0.5, "direct": True, "wrong": 0, "fault": ""},
        "own": None,
        "second": None,
        "metadata": {
            **{"operations": 2400, "p99_ms": {"create": 3.0, "stat": 1.0, "unlink": 2.0}},
            **{"skew_seconds": 0.01, "seconds": 0.5},
        },
        "checkpoint": {
            **{"error": "", "bytes": 67108864, "ranks": 4, "loaded_by": 3},
            **{"blocking_seconds": 0.1, "save_seconds": 0.6, "load_seconds": 0.3},
        },
        **change,
    }


def broken(phase: str, code: str, error: str, **change: Any) -> dict[str, Any]:
    """Return the changes of a node that could not go on."""
    order = ("write", "read", "metadata", "checkpoint")
    missing = dict.fromkeys(order[order.index(phase) :]) if phase in order else {}
    return {"phase": phase, "code": code, "error": error, **missing, **change}


def at(seconds: float) -> dict[str, Any]:
    """Return the changes of a node whose write took so long."""
    return {"write": {"bytes": 4_000_000_000, "seconds": seconds, "direct": True, "blocking_seconds": seconds}}


def save(group: tuple[str, ...] = NODES, number: int = 1, **changes: Mapping[str, Any] | None) -> Save:
    """Return a save; a change by node (``gpu_1``), None for no answer."""
    answers = []
    for index, node in enumerate(group):
        peer = group[(index + max(1, len(group) // 2)) % len(group)]
        change = changes.get(node.replace("-", "_"), {})
        if change is not None:
            answers.append(answer(node, peer, **change))
    item = {"group": group, "started": True, "ok": True, "error": "", "answers": answers, "unavailable": {}}
    return Save.read(number, item)


def walk(
    members: tuple[str, ...] = NODES, partners: tuple[str, ...] = (), **faults: Any
) -> tuple[Conclusion, list[Any]]:
    """Return what is concluded where these nodes have these faults in every save, and the rounds that led there."""
    plan, saves, rounds = Plan(members, partners, LIMITS), [], []
    while True:
        step = next_round(plan, saves)
        if isinstance(step, Conclusion):
            return step, rounds
        assert isinstance(step, Round)
        rounds.append((step.kind, step.groups[0]))
        saves.append(save(step.groups[0], step.number, **faults))
        assert len(rounds) <= MAX_ROUNDS


def verdicts(conclusion: Conclusion) -> dict[str, str]:
    return {node: worst(each.verdict for each in found) for node, found in conclusion.findings.items()}


def finding(conclusion: Conclusion, node: str, check: str) -> Any:
    return next(each for each in conclusion.findings[node] if each.check == check)


def test_sound_nodes_pass_all_that_is_owed_after_one_save() -> None:
    conclusion, rounds = walk()
    assert rounds == [("together", NODES)]
    assert verdicts(conclusion) == dict.fromkeys(NODES, PASS)
    for found in conclusion.findings.values():
        assert [(each.check, each.subject) for each in found] == [(check, "storage") for check in STORAGE_CHECKS]
    assert not conclusion.held
    reached = finding(conclusion, "gpu-1", "storage_target")
    # 16 GB in a second; 16 of 64 ranks owe 16 GB in 10 s, and a quarter more.
    assert (reached.measured, reached.expected) == (16, 2)
    assert "shown for 32 of 64 ranks" in reached.reason


def test_slow_node_is_measured_again_with_good_ones_and_named() -> None:
    conclusion, rounds = walk(gpu_3=at(2.0))
    assert rounds[1] == ("again", ("gpu-1", "gpu-2", "gpu-3"))
    assert verdicts(conclusion) == {"gpu-1": PASS, "gpu-2": PASS, "gpu-3": FAIL, "gpu-4": PASS}
    slow = finding(conclusion, "gpu-3", "storage_write")
    assert (slow.measured, slow.expected) == (2.0, pytest.approx(3.0769, abs=1e-3))
    assert "takes 2.00 times as long, limit 1.3" in slow.reason
    # The storage is judged without it.
    assert finding(conclusion, "gpu-1", "storage_target").measured == 12


@pytest.mark.parametrize(("seconds", "verdict"), [(1.3, PASS), (1.31, FAIL)])
def test_bar_of_the_slowest_is_the_class(seconds: float, verdict: str) -> None:
    assert verdicts(walk(gpu_3=at(seconds))[0])["gpu-3"] == verdict


@pytest.mark.parametrize(("seconds", "verdict"), [(2.0, PASS), (2.01, FAIL)])
def test_floor_of_the_class_holds_where_two_are_no_cohort(seconds: float, verdict: str) -> None:
    conclusion, _ = walk(("gpu-1", "gpu-2"), gpu_2=at(seconds))
    assert verdicts(conclusion) == {"gpu-1": PASS, "gpu-2": verdict}


def test_node_that_was_slow_once_passes_and_it_is_said() -> None:
    plan = Plan(NODES, (), LIMITS)
    saves = [save(gpu_3=at(2.0)), save(("gpu-1", "gpu-2", "gpu-3"), 2)]
    conclusion = next_round(plan, saves)
    assert isinstance(conclusion, Conclusion)
    found = finding(conclusion, "gpu-3", "storage_write")
    assert found.verdict == PASS
    assert "(at first: 2 GB/s" in found.reason


def test_storage_that_is_slow_for_most_blames_nobody() -> None:
    slow = {node.replace("-", "_"): at(3.0) for node in NODES}
    conclusion, rounds = walk(**slow)
    assert len(rounds) == 1
    assert verdicts(conclusion) == dict.fromkeys(NODES, INCOMPLETE)
    assert (
        "suspect the storage or its network, no node is blamed" in finding(conclusion, "gpu-1", "storage_write").reason
    )


def test_storage_below_the_declared_rate_holds_all_and_blames_nobody() -> None:
    limits = Limits(0.1, 4.0, 50.0, 1.3, "/checkpoints", 500_000_000, 64, 1.0)
    plan = Plan(NODES, (), limits)
    slow = {node.replace("-", "_"): at(1.0) for node in NODES}
    conclusion = next_round(plan, [save(**slow)])
    assert isinstance(conclusion, Conclusion)
    assert verdicts(conclusion) == dict.fromkeys(NODES, INCOMPLETE)
    assert sorted(conclusion.held) == list(NODES)
    assert "/checkpoints as a whole: 16 GB/s by 4 nodes, 20 are needed for a save in 1 s" in conclusion.held["gpu-1"]


def test_more_ranks_than_the_model_has_owe_no_more_than_the_model() -> None:
    small = Limits(0.1, 4.0, 50.0, 1.3, "/checkpoints", 500_000_000, 8, 1.0)
    outcome = target(save(), small, ())
    assert outcome is not None
    assert outcome.expected == pytest.approx(5.0)


ALL = {node.replace("-", "_"): None for node in NODES}
FAULTS: dict[str, tuple[dict[str, Any], dict[str, str], str, str]] = {
    "server stopped": (
        dict.fromkeys(ALL, broken("write", "LATE", "write not done after 60 s", blocked=[BLOCKED])),
        dict.fromkeys(NODES, INCOMPLETE),
        "storage_write",
        "1 tasks were blocked in the kernel; so are 4 of 4 nodes: suspect the storage",
    ),
    "disk full": (
        dict.fromkeys(ALL, broken("write", "ENOSPC", "rank 0: write: No space left on device")),
        dict.fromkeys(NODES, INCOMPLETE),
        "storage_write",
        "the storage is full",
    ),
    "disk full for one": (
        {"gpu_2": broken("write", "ENOSPC", "rank 0: write: No space left on device")},
        {"gpu-1": PASS, "gpu-2": INCOMPLETE, "gpu-3": PASS, "gpu-4": PASS},
        "storage_write",
        "the storage is full",
    ),
    "read-only mount of one": (
        {"gpu_2": broken("write", "EROFS", "rank 0: enter: Read-only file system: '/checkpoints'")},
        {"gpu-1": PASS, "gpu-2": FAIL, "gpu-3": PASS, "gpu-4": PASS},
        "storage_write",
        "Read-only file system",
    ),
    "one blocked": (
        {"gpu_2": broken("write", "LATE", "write not done after 60 s", blocked=[BLOCKED])},
        {"gpu-1": PASS, "gpu-2": FAIL, "gpu-3": PASS, "gpu-4": PASS},
        "storage_write",
        "1 tasks were blocked in the kernel; as bad when it was measured again",
    ),
    "node killed": (
        {"gpu_2": None},
        {"gpu-1": PASS, "gpu-2": INCOMPLETE, "gpu-3": PASS, "gpu-4": PASS},
        "storage_write",
        "no answer: its task was killed, or died",
    ),
    "clock skew": (
        {"gpu_2": {"metadata": {**answer("", "")["metadata"], "skew_seconds": -3600.0}}},
        {"gpu-1": PASS, "gpu-2": FAIL, "gpu-3": PASS, "gpu-4": PASS},
        "storage_clock",
        "-3.6e+03 s apart",
    ),
    "clock of the server": (
        {key: {"metadata": {**answer("", "")["metadata"], "skew_seconds": 90.0}} for key in ALL},
        dict.fromkeys(NODES, PASS),
        "storage_clock",
        "90 s in the median",
    ),
    "slow small files": (
        {"gpu_2": {"metadata": {**answer("", "")["metadata"], "p99_ms": {"create": 50.1, "stat": 1.0}}}},
        {"gpu-1": PASS, "gpu-2": FAIL, "gpu-3": PASS, "gpu-4": PASS},
        "storage_metadata",
        "99 of 100 create calls within 50.1 ms",
    ),
    "no torch": (
        {"gpu_2": {"checkpoint": {"error": "ImportError: No module named 'torch'"}}},
        {"gpu-1": PASS, "gpu-2": INCOMPLETE, "gpu-3": PASS, "gpu-4": PASS},
        "storage_checkpoint",
        "No module named 'torch'",
    ),
    "another state": (
        {"gpu_2": {"checkpoint": {"error": "WrongState: 3 wrong elements"}}},
        {"gpu-1": PASS, "gpu-2": FAIL, "gpu-3": PASS, "gpu-4": PASS},
        "storage_checkpoint",
        "PyTorch loaded another state than it saved",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_ends_in_its_verdict(name: str) -> None:
    faults, expected, check, reason = FAULTS[name]
    conclusion, rounds = walk(**faults)
    assert verdicts(conclusion) == expected
    # What is the storage's fault is not tried again.
    assert len(rounds) == (1 if set(expected.values()) <= {expected["gpu-1"]} else len(rounds))
    assert reason in finding(conclusion, "gpu-2", check).reason


def test_directory_of_another_user_is_no_nodes_fault_and_named_to_all() -> None:
    why = "rank 0: make: /checkpoints/.muster belongs to mallory (1002), expected a directory of muster (994)"
    told, led = broken("write", "HUB", f"gpu-1: {why}"), broken("write", "FOREIGN", why)
    conclusion, rounds = walk(**{**dict.fromkeys(ALL, told), "gpu_1": led, "gpu_2": led})
    assert verdicts(conclusion) == dict.fromkeys(NODES, INCOMPLETE)
    assert all(finding(conclusion, node, "storage_write").reason.endswith(why) for node in NODES)
    assert len(rounds) <= 3


def test_shard_that_is_wrong_for_its_writer_too_rejects_the_writer() -> None:
    wrong = {"of": "gpu-2", "bytes": 1, "seconds": 1.0, "wrong": 1, "fault": "shard 0 of gpu-2, block 1: checksum"}
    first = save(
        gpu_4={"read": {**wrong, "bytes": 4_000_000_000, "seconds": 0.5}},
        gpu_2={"own": {"wrong": 1, "fault": "block 1 of shard 0 is wrong for its writer, too"}},
    )
    plan = Plan(NODES, (), LIMITS)
    step = next_round(plan, [first])
    # Who read it has proven nothing yet, and gets another's to read.
    assert isinstance(step, Round)
    assert "gpu-4" in step.groups[0]
    assert "gpu-2" not in step.groups[0]
    conclusion = next_round(plan, [first, save(step.groups[0], 2)])
    assert isinstance(conclusion, Conclusion)
    assert verdicts(conclusion) == {"gpu-1": PASS, "gpu-2": FAIL, "gpu-3": PASS, "gpu-4": PASS}


def disputed(reader: str, writer: str, **second: int) -> dict[str, Any]:
    """Return the changes where a reader finds shards wrong that their writer finds right; and what ``second`` finds."""
    fault = {"bytes": 4_000_000_000, "seconds": 0.5, "fault": f"shard 0 of {writer}, block 1: checksum"}
    changes: dict[str, Any] = {reader: {"read": {"of": writer, "wrong": 1, **fault}}}
    changes[writer] = {"own": {"wrong": 0, "fault": ""}}
    for node, wrong in second.items():
        changes[node] = {"second": {"of": writer, "wrong": wrong, **fault}}
    return {node.replace("-", "_"): change for node, change in changes.items()}


def test_shard_that_is_right_for_its_writer_and_a_third_rejects_the_reader() -> None:
    conclusion, rounds = walk(**disputed("gpu-4", "gpu-2", gpu_3=0))
    assert len(rounds) == 1
    assert verdicts(conclusion) == {"gpu-1": PASS, "gpu-2": PASS, "gpu-3": PASS, "gpu-4": FAIL}
    assert "right for gpu-2, who wrote it, and for gpu-3" in finding(conclusion, "gpu-4", "storage_data").reason


def test_shard_that_is_wrong_for_reader_and_a_third_rejects_the_writer() -> None:
    first = save(**disputed("gpu-4", "gpu-2", gpu_3=1))
    step = next_round(Plan(NODES, (), LIMITS), [first])
    assert isinstance(step, Round) and "gpu-4" in step.groups[0] and "gpu-2" not in step.groups[0]
    conclusion = next_round(Plan(NODES, (), LIMITS), [first, save(step.groups[0], 2)])
    assert isinstance(conclusion, Conclusion)
    assert verdicts(conclusion) == {"gpu-1": PASS, "gpu-2": FAIL, "gpu-3": PASS, "gpu-4": PASS}
    reason = finding(conclusion, "gpu-2", "storage_data").reason
    assert reason == "its shards are wrong for gpu-4 and right for itself; wrong for gpu-3, too"


NO_THIRD = "no third host could tell which of the two is at fault"


@pytest.mark.parametrize(("reader", "writer"), [("gpu-1", "gpu-9"), ("gpu-9", "gpu-1")])
def test_single_partner_convicts_nobody_and_is_doubted(reader: str, writer: str) -> None:
    conclusion, rounds = walk(("gpu-1",), ("gpu-9",), **disputed(reader, writer))
    # The same two would tell nothing more.
    assert len(rounds) == 1
    assert verdicts(conclusion) == {"gpu-1": INCOMPLETE}
    assert finding(conclusion, "gpu-1", "storage_data").measured == 1
    assert list(conclusion.held) == ["gpu-1"] and list(conclusion.doubted) == ["gpu-9"]
    assert conclusion.held["gpu-1"].endswith(NO_THIRD) and conclusion.doubted["gpu-9"].endswith(NO_THIRD)


def test_node_that_spoils_what_it_writes_and_reads_fails_by_the_word_of_two_partners() -> None:
    # It reads gpu-8 wrong, which gpu-9 reads right; gpu-9 and gpu-8 read it wrong.
    faults = disputed("gpu-9", "gpu-1", gpu_8=1)
    faults["gpu_1"].update(disputed("gpu-1", "gpu-8")["gpu_1"])
    faults["gpu_8"]["own"] = {"wrong": 0, "fault": ""}
    faults["gpu_9"].update(disputed("gpu-1", "gpu-8", gpu_9=0)["gpu_9"])
    conclusion, _ = walk(("gpu-1",), ("gpu-8", "gpu-9"), **faults)
    assert (verdicts(conclusion), conclusion.held, conclusion.doubted) == ({"gpu-1": FAIL}, {}, {})


def test_two_alone_that_disagree_are_both_held() -> None:
    conclusion, _ = walk(NODES[:2], **disputed("gpu-1", "gpu-2"))
    assert verdicts(conclusion) == {"gpu-1": INCOMPLETE, "gpu-2": INCOMPLETE}
    assert sorted(conclusion.held) == ["gpu-1", "gpu-2"]


def test_two_that_disagree_are_held_where_the_third_was_lost_and_when_stopped() -> None:
    seen = [save(**disputed("gpu-4", "gpu-2"))]
    conclusion = next_round(Plan(NODES, (), LIMITS), seen)
    assert isinstance(conclusion, Conclusion)
    assert verdicts(conclusion) == {"gpu-1": PASS, "gpu-2": INCOMPLETE, "gpu-3": PASS, "gpu-4": INCOMPLETE}
    for concluded in (conclusion, conclude_early(Plan(NODES, (), LIMITS), seen, "budget used up")):
        assert sorted(concluded.held) == ["gpu-2", "gpu-4"]


def test_single_partner_whose_shards_are_wrong_for_both_is_doubted() -> None:
    faults = disputed("gpu-1", "gpu-9")
    faults["gpu_9"]["own"] = {"wrong": 1, "fault": "block 1 of shard 0 is wrong for its writer, too"}
    conclusion, rounds = walk(("gpu-1",), ("gpu-9",), **faults)
    assert (verdicts(conclusion), len(rounds)) == ({"gpu-1": INCOMPLETE}, 1)
    assert "no third host could tell whether the storage is at fault" in conclusion.doubted["gpu-9"]
    # A member's own are no word against its partner.
    faults = disputed("gpu-9", "gpu-1")
    faults["gpu_1"]["own"] = {"wrong": 1, "fault": "block 1 of shard 0 is wrong for its writer, too"}
    conclusion, _ = walk(("gpu-1",), ("gpu-9",), **faults)
    assert (verdicts(conclusion), list(conclusion.held), conclusion.doubted) == (
        {"gpu-1": INCOMPLETE},
        ["gpu-1"],
        {},
    )


def test_state_that_two_saved_and_one_loaded_wrong_convicts_neither() -> None:
    wrong = {"checkpoint": {"error": "WrongState: 3 wrong elements"}}
    lost = {"checkpoint": {"error": "RuntimeError: Connection closed by peer"}}
    conclusion, rounds = walk(("gpu-1",), ("gpu-9",), gpu_1=wrong, gpu_9=lost)
    assert (verdicts(conclusion), len(rounds)) == ({"gpu-1": INCOMPLETE}, 1)
    assert list(conclusion.held) == ["gpu-1"] and list(conclusion.doubted) == ["gpu-9"]


def test_storage_that_spoils_most_shards_blames_nobody() -> None:
    own = {"own": {"wrong": 1, "fault": "block 0 of shard 0 is wrong for its writer, too"}}
    conclusion, _ = walk(gpu_1=own, gpu_2=own, gpu_3=own)
    assert all(finding(conclusion, node, "storage_data").verdict == INCOMPLETE for node in NODES[:3])


def test_others_are_measured_again_when_their_meeting_point_was_lost() -> None:
    lost = broken("write", "MEETING", "the rendezvous was lost")
    plan = Plan(NODES, (), LIMITS)
    first = save(gpu_1=None, gpu_2=lost, gpu_3=lost, gpu_4=lost)
    step = next_round(plan, [first])
    assert isinstance(step, Round)
    assert set(step.groups[0]) == set(NODES)
    unavailable = Save(1, NODES, True, "no result", first.answers, {"gpu-1": "down*"})
    step = next_round(plan, [unavailable])
    assert isinstance(step, Round)
    assert step.groups == (("gpu-2", "gpu-3", "gpu-4"),)
    conclusion = next_round(plan, [unavailable, save(step.groups[0], 2)])
    assert isinstance(conclusion, Conclusion)
    assert verdicts(conclusion) == {"gpu-1": INCOMPLETE, "gpu-2": PASS, "gpu-3": PASS, "gpu-4": PASS}


def test_single_node_saves_with_nodes_in_service_or_proves_nothing() -> None:
    conclusion, rounds = walk(("gpu-1",), ("gpu-8", "gpu-9"))
    assert rounds == [("together", ("gpu-8", "gpu-9", "gpu-1"))]
    assert verdicts(conclusion) == {"gpu-1": PASS}
    alone, _ = walk(("gpu-1",))
    assert verdicts(alone) == {"gpu-1": INCOMPLETE}
    assert "no other host was there" in finding(alone, "gpu-1", "storage_read").reason


def test_partner_that_is_busy_is_not_waited_for() -> None:
    plan = Plan(("gpu-1",), ("gpu-8", "gpu-9", "gpu-7"), LIMITS)
    busy = Save(1, ("gpu-8", "gpu-9", "gpu-1"), False, "not started: gpu-8 is allocated", {}, {"gpu-8": "allocated"})
    step = next_round(plan, [busy])
    assert isinstance(step, Round)
    assert step.groups == (("gpu-9", "gpu-7", "gpu-1"),)


def test_partner_that_is_bad_twice_is_doubted_and_not_judged() -> None:
    conclusion, _ = walk(("gpu-1", "gpu-2"), ("gpu-9",), gpu_9=at(2.5))
    assert sorted(conclusion.findings) == ["gpu-1", "gpu-2"]
    assert verdicts(conclusion) == {"gpu-1": PASS, "gpu-2": PASS}


def test_stopped_campaign_passes_nobody() -> None:
    conclusion = conclude_early(Plan(NODES, (), LIMITS), [save()], "budget used up")
    assert verdicts(conclusion) == dict.fromkeys(NODES, INCOMPLETE)
    assert finding(conclusion, "gpu-1", "storage_write").reason == "budget used up"


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "1", None, True])
def test_seconds_that_are_none_are_no_measurement(value: Any) -> None:
    for part in ("write", "read"):
        change = {part: {**answer("gpu-2", "gpu-4")[part], "seconds": value}}
        outcomes = judge(save(gpu_2=change), LIMITS)["gpu-2"]
        assert outcomes[f"storage_{part}"].verdict != "good"
