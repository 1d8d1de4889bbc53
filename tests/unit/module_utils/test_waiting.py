"""Waiting: as long as needed, never longer than allowed, asked once at least and once at the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host import waiting
from ansible_collections.muster.cluster.plugins.module_utils.host.waiting import poll, retry, wait_until


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    return clock


def after(clock: Clock, seconds: float) -> Callable[[], bool]:
    end = clock.now + seconds
    return lambda: clock.now >= end


def test_condition_that_holds_is_not_waited_for(clock: Clock) -> None:
    assert wait_until(lambda: True, 10, 1)
    assert clock.pauses == []


@pytest.mark.parametrize(("seconds", "held", "pauses"), [(3, True, 3), (2, True, 2), (1.5, False, 2), (0, False, 0)])
def test_condition_is_asked_until_the_end_and_at_it(clock: Clock, seconds: float, held: bool, pauses: int) -> None:
    assert wait_until(after(clock, 2.0 if seconds < 3 else 3.0), seconds, 1) is held
    assert (len(clock.pauses), clock.now) == (pauses, 100 + seconds)


def test_time_that_is_over_already_leaves_one_question(clock: Clock) -> None:
    asked: list[int] = []
    assert poll(lambda: asked.append(1) or "late", lambda _: False, -5, 1) == "late"
    assert (asked, clock.pauses) == ([1], [])


def test_pauses_grow(clock: Clock) -> None:
    wait_until(lambda: False, 10, 1, grow=2)
    assert clock.pauses == [1, 2, 4, 3]


def test_answer_that_is_enough_comes_back(clock: Clock) -> None:
    answers = iter([["late"], ["late"], []])
    assert poll(lambda: next(answers), lambda texts: not texts, 10, 1) == []
    assert clock.pauses == [1, 1]


def test_call_is_tried_until_it_succeeds_or_its_error_is_the_callers(clock: Clock) -> None:
    end = clock.now + 2

    def call() -> str:
        if clock.now < end:
            raise ConnectionRefusedError("not yet")
        return "there"

    assert retry(call, OSError, 10, 1) == "there"
    end = clock.now + 9
    with pytest.raises(ConnectionRefusedError, match="not yet"):
        retry(call, OSError, 3, 1)
    with pytest.raises(ConnectionRefusedError, match="not yet"):
        retry(call, ValueError, 100, 1)
