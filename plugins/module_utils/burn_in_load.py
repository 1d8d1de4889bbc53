"""The load of one burn-in step: stresses that run side by side, and what each of them printed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from .burn_in_plan import Step
from .host import Host, Output
from .registry import STRESSES, applies

_JOIN_SECONDS = 5.0


class StoppableHost(Host, Protocol):
    """A host whose tools can be ended from outside."""

    def stop(self) -> None:
        """Kill what runs; every later run ends at once."""


class Load:
    """The stresses of one step, each in a thread and on a host of its own."""

    def __init__(self, step: Step, expect: Mapping[str, Any], another: Callable[[], StoppableHost]) -> None:
        names = [name for name in step.run if applies(name, expect)]
        self.outputs: dict[str, Output] = {}
        self.hosts: dict[str, StoppableHost] = {name: another() for name in names}
        self.threads = {
            name: threading.Thread(target=self._collect, args=(name, step, expect), name=name, daemon=True)
            for name in names
        }
        for thread in self.threads.values():
            thread.start()

    def _collect(self, name: str, step: Step, expect: Mapping[str, Any]) -> None:
        try:
            seconds = step.seconds or step.limit_seconds
            output = STRESSES[name].collect(self.hosts[name], expect, seconds, step.run[name])
        except Exception as exc:  # noqa: BLE001 -- a stress' fault must cost a verdict, not the run
            missing = f"expectations lack {exc}" if isinstance(exc, KeyError) else f"{type(exc).__name__}: {exc}"
            output = Output(rc=None, error=f"{name}: {missing}")
        self.outputs[name] = output

    @property
    def running(self) -> bool:
        """Whether a stress has still to come to its end."""
        return any(thread.is_alive() for thread in self.threads.values())

    def stop(self) -> dict[str, Output]:
        """Kill what still runs and return every output; one that did not end says so."""
        late = {name for name, thread in self.threads.items() if thread.is_alive()}
        for name in late:
            self.hosts[name].stop()
        for name in late:
            # One that is stuck in the kernel stays behind.
            self.threads[name].join(_JOIN_SECONDS)
        why = "did not end in its time and was killed"
        return {
            name: Output(rc=None, timed_out=True, error=f"{name} {why}") if name in late else self.outputs[name]
            for name in self.threads
        }
