"""The load of one burn-in step: stresses that run side by side, and what each of them printed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from ..examination.examine import fault_of
from ..examination.registry import STRESSES, applies
from ..host.host import Host, Output
from ..words.expectations import Expectations
from .burn_in_plan import Step

# What all stresses of a step together get to end by themselves, and then to die. A stop of the unit allows 30 s in all.
ASKED_SECONDS = 8.0
KILLED_SECONDS = 5.0


class StoppableHost(Host, Protocol):
    """A host whose tools can be ended from outside."""

    def stop(self) -> None:
        """End what runs: asked the first time, killed the second. Every later run ends at once."""


class Load:
    """The stresses of one step, each in a thread and on a host of its own."""

    def __init__(self, step: Step, expect: Expectations, another: Callable[[], StoppableHost]) -> None:
        names = [name for name in step.run if applies(name, expect)]
        self.outputs: dict[str, Output] = {}
        self.hosts: dict[str, StoppableHost] = {name: another() for name in names}
        self.threads = {
            name: threading.Thread(target=self._collect, args=(name, step, expect), name=name, daemon=True)
            for name in names
        }
        for thread in self.threads.values():
            thread.start()

    def _collect(self, name: str, step: Step, expect: Expectations) -> None:
        try:
            seconds = step.seconds or step.limit_seconds
            output = STRESSES[name].collect(self.hosts[name], expect, seconds, step.run[name])
        except Exception as exc:  # noqa: BLE001 -- a stress' fault must cost a verdict, not the run
            output = Output(rc=None, error=f"{name}: {fault_of(exc)}")
        self.outputs[name] = output

    @property
    def running(self) -> bool:
        """Whether a stress has still to come to its end."""
        return bool(self.alive)

    @property
    def alive(self) -> list[str]:
        """Which stresses have still to come to their end."""
        return [name for name, thread in self.threads.items() if thread.is_alive()]

    def stop(self) -> dict[str, Output]:
        """End what still runs and return every output; one that did not end in its time says so."""
        late = self.alive
        for seconds in (ASKED_SECONDS, KILLED_SECONDS):
            alive = self.alive
            for name in alive:
                self.hosts[name].stop()
            _join((self.threads[name] for name in alive), seconds)
        return {
            name: Output(rc=None, timed_out=True, error=f"{name} did not end in its time and was killed")
            if name in late
            else self.outputs.get(name, Output(rc=None, error=f"{name} gave no output"))
            for name in self.threads
        }


def _join(threads: Iterable[threading.Thread], seconds: float) -> None:
    """Wait for all of them, ``seconds`` in all."""
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
