"""Waiting with a limit, by the monotonic clock: for a condition, for a value, for a call that succeeds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def poll(
    ask: Callable[[], Value], enough: Callable[[Value], bool], seconds: float, every: float, grow: float = 1.0
) -> Value:
    """Return the first answer that is ``enough``, or the one that ``ask`` gives after ``seconds``.

    It is asked at least once, with pauses of ``every`` seconds, each ``grow`` times as long as the one before. What
    ``ask`` raises ends the waiting.
    """
    end = time.monotonic() + seconds
    while True:
        answer = ask()
        left = end - time.monotonic()
        if left <= 0 or enough(answer):
            return answer
        # The last question is put at the end of the time, not up to a pause before it.
        time.sleep(min(every, left))
        every *= grow


def wait_until(condition: Callable[[], bool], seconds: float, every: float, grow: float = 1.0) -> bool:
    """Return whether ``condition`` came true within ``seconds``; it is asked as in ``poll``."""
    return poll(condition, bool, seconds, every, grow)


def retry(call: Callable[[], Value], error: type[Exception], seconds: float, every: float) -> Value:
    """Return what ``call`` gives the first time that it does not raise ``error``.

    What it raises once ``seconds`` are over goes to the caller.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except error:
            left = end - time.monotonic()
            if left <= 0:
                raise
        time.sleep(min(every, left))
