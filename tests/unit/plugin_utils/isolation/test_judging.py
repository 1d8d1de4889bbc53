"""One group's measurement against its class' floors: only a number over the bar is good."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.judging import (
    BAD,
    GOOD,
    VOID,
    Floor,
    Observation,
    Settings,
    SettingsError,
    bus_bandwidth,
    judge,
    size_text,
)

SIZE = 8 * 2**20
FLOORS = (Floor("all_reduce", 2, SIZE, 0.1), Floor("all_reduce", 4, SIZE, 0.05))
SETTINGS = Settings(1, (65536, SIZE), 3, FLOORS)
EXPECT = {
    "backend": "gloo",
    "ranks_per_node": 1,
    "sizes_bytes": [65536, SIZE],
    "iterations": 3,
    "floors": [{"collective": "all_reduce", "nodes_min": 2, "size_bytes": SIZE, "busbw_gb_per_s": 0.1}],
}


def ranks(*columns: list[float], correct: bool = True, size: int = SIZE) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"node": f"n{i}", "rank": i, "sizes": [{"bytes": size, "seconds": column, "correct": correct, "wrong": 0}]}
        for i, column in enumerate(columns)
    )


def seen(*columns: list[float], ok: bool = True, **other: Any) -> Observation:
    group = tuple(f"n{i}" for i in range(len(columns)))
    return Observation(1, group, ok, True, other.pop("error", ""), ranks(*columns, **other), {})


def seconds_at(gb_per_s: float) -> float:
    return SIZE / gb_per_s / 1e9


@pytest.mark.parametrize(("gb_per_s", "verdict"), [(0.1001, GOOD), (0.0999, BAD), (0.5, GOOD), (0.024, BAD)])
def test_floor_from_both_sides(gb_per_s: float, verdict: str) -> None:
    column = [seconds_at(gb_per_s)] * 3
    outcome = judge(seen(column, column), SETTINGS)
    assert outcome.verdict == verdict
    assert outcome.measured == pytest.approx(gb_per_s, rel=1e-3)
    assert outcome.expected == 0.1


def test_slowest_rank_of_each_iteration_counts() -> None:
    fast, slow = seconds_at(0.5), seconds_at(0.02)
    assert judge(seen([fast, fast, slow], [slow, fast, slow]), SETTINGS).verdict == BAD
    assert judge(seen([fast, fast, slow], [fast, fast, fast]), SETTINGS).verdict == GOOD


def test_bus_bandwidth_formula_of_nccl_tests() -> None:
    assert bus_bandwidth(2, 10**9, 1.0) == 1.0
    assert bus_bandwidth(16, 8 * 10**9, 1.0) == 15.0


def test_larger_group_has_its_own_floor() -> None:
    column = [2 * 3 / 4 * seconds_at(0.07)] * 3
    assert judge(seen(*[column] * 4), SETTINGS).verdict == GOOD
    assert judge(seen(*[[each * 2 for each in column]] * 4), SETTINGS).verdict == BAD


@pytest.mark.parametrize(
    "observation",
    [
        seen([0.01] * 3, [0.01] * 2),
        seen([0.01] * 2, [0.01] * 2),
        seen([0.0] * 3, [0.0] * 3),
        seen([float("nan")] * 3, [0.01] * 3),
        seen([0.01] * 3, [0.01] * 3, correct=False),
        seen([0.01] * 3, [0.01] * 3, size=65536),
        Observation(1, ("n0", "n1"), True, True, "", ranks([0.01] * 3), {}),
        Observation(1, ("n0", "n1"), True, True, "", (), {}),
        Observation(1, ("n0",), True, True, "", ranks([0.01] * 3), {}),
        Observation(1, ("n0", "n1"), True, False, "", ranks([0.01] * 3, [0.01] * 3), {}),
        Observation(1, ("n0", "n1"), True, True, "", ranks([0.01] * 3, [0.01] * 3), {"n1": "down*"}),
    ],
)
def test_incomplete_measurement_is_never_good(observation: Observation) -> None:
    assert judge(observation, SETTINGS).verdict == VOID


@pytest.mark.parametrize("error", ["rank 1 on n1: 3 wrong elements", "not finished after 60 s, cancelled", ""])
def test_failed_collective_is_bad_however_fast(error: str) -> None:
    outcome = judge(seen([0.001] * 3, [0.001] * 3, ok=False, error=error), SETTINGS)
    assert outcome.verdict == BAD
    assert outcome.measured is None
    assert outcome.reason


@pytest.mark.parametrize(
    ("observation", "ran"),
    [
        (seen([seconds_at(0.02)] * 3, [seconds_at(0.02)] * 3), True),
        (seen([0.01] * 3, [0.01] * 3, ok=False, correct=False, error="5 wrong elements"), True),
        # Whole and correct, and yet srun failed.
        (seen([0.01] * 3, [0.01] * 3, ok=False, error="srun ended with 1"), False),
        (seen([0.01] * 3, [0.01] * 2, ok=False, correct=False, error="stuck"), False),
        (seen([0.01] * 3, [0.01] * 3, ok=False, correct=False, size=64, error="stuck"), False),
        (Observation(1, ("n0", "n1"), False, True, "n1 silent", ranks([0.01] * 3, correct=False), {}), False),
        (Observation(1, ("n0", "n1"), False, True, "ModuleNotFoundError: torch", (), {}), False),
    ],
)
def test_bad_group_that_ran_is_told_from_one_that_crashed(observation: Observation, ran: bool) -> None:
    outcome = judge(observation, Settings(1, (SIZE,), 3, FLOORS))
    assert (outcome.verdict, outcome.ran) == (BAD, ran)


def test_observation_without_its_fields_counts_against_itself() -> None:
    observation = Observation.from_dict(1, {"group": ["n0", "n1"]})
    assert not observation.ok
    assert judge(observation, SETTINGS).verdict == VOID


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"floors": [{"collective": "all_reduce", "nodes_min": 2, "size_bytes": SIZE}]}, "busbw_gb_per_s is missing"),
        ({"iterations": 0}, "iterations is 0, expected a whole number above 0"),
        ({"ranks_per_node": True}, "ranks_per_node is True"),
        ({"sizes_bytes": ["8M"]}, "sizes_bytes is '8M'"),
        ({"floors": None}, "collective:"),
    ],
)
def test_bad_settings_name_the_key(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Settings.from_expect({**EXPECT, **change})


def test_settings_of_a_class() -> None:
    settings = Settings.from_expect(EXPECT, {"n0": "r1"})
    assert settings.floors == FLOORS[:1]
    assert not settings.fault()


@pytest.mark.parametrize(("size", "text"), [(8, "8 B"), (65536, "64 KiB"), (SIZE, "8 MiB"), (2**34, "16 GiB")])
def test_sizes_as_people_write_them(size: int, text: str) -> None:
    assert size_text(size) == text
