"""Ends a rank that has stood too long at one place, tells the others, and says where each of them stood.

A process that is stopped, or whose GPU hangs, says nothing; who waits for it can. The first to run out of time tells
the rest by the store at which all met, so that the step ends at once and every rank that lives has given its answer.
Where Slurm ends the step (it lost a node, or the time is up) it sends SIGTERM, and kills after KillWait seconds: the
rank answers in between.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from ..words.answer_lines import pack
from .round_secret import opened, sealed

EXIT_DEADLINE = 124
# As the shell has it of a process that SIGTERM ended.
EXIT_ENDED = 143
# Where a rank stands in a step: at its beginning until all are there, in it, busy with itself, or through with it.
GATHERING, MEETING, OWN, DONE = "gathering", "meeting", "own", "done"
# Who waits at the beginning waits for the slowest of the step before, who may use up all of its time.
GATHERING_SPARE_SECONDS = 5.0
TELL_SECONDS = 3.0
# How soon a stranger's word in the place of ours is looked at again.
_AGAIN_SECONDS = 0.2
_STOP = "muster/stop"


class Guard:
    """One rank's watch. ``report`` is its answer, printed exactly once whatever happens; ``last`` adds to it then."""

    def __init__(self, report: dict[str, Any], seconds: float, last: Callable[[], Mapping[str, Any]]) -> None:
        self.report = report
        self._last = last
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._place_end = self._end
        self._place_seconds = seconds
        self._changed = threading.Condition()
        self._printed = threading.Lock()
        self._told = threading.Event()
        self._released = threading.Event()
        self._connect: Callable[[float], Any] | None = None
        self._secret = ""
        # Every thread that is started from here on, a library's too, leaves SIGTERM to the one that answers to it: a
        # handler would wait for the main thread, which may be deep in a collective.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
        threading.Thread(target=self._watch_clock, daemon=True).start()
        threading.Thread(target=self._watch_slurm, daemon=True).start()

    def at(self, phase: str, step: int, stage: str, seconds: float) -> None:
        """Say where this rank stands, and how long it may."""
        self.report["stood"] = [phase, step, stage]
        earlier, self._place_end = self._place_end, time.monotonic() + seconds
        self._place_seconds = seconds
        if self._place_end < earlier:
            with self._changed:
                self._changed.notify()

    def stage(self, stage: str) -> None:
        """Change the stage alone, within the time that ``at`` gave."""
        self.report["stood"][2] = stage

    def listen(self, connect: Callable[[float], Any], secret: str) -> None:
        """Be told by the others from now on; ``connect`` gives a connection of its own to the store (seconds).

        What does not bear the seal of the round's ``secret`` says nothing.
        """
        self._connect, self._secret = connect, secret
        threading.Thread(target=self._watch_store, daemon=True).start()

    def release(self, store: Any, first: bool) -> None:
        """Let nobody be told any more, once all have come to the end; ``first`` is the rank that says so."""
        if first:
            store.set(_STOP, sealed(self._secret, ""))
        self._released.wait(TELL_SECONDS)

    def finish(self, status: int) -> None:
        """Print the answer of a rank that came to its end, and end the process."""
        self._print()
        # Threads of libraries that still run abort an interpreter that ends in order.
        os._exit(status)

    def give_up(self, why: str, status: int, told: bool = False) -> None:
        """Print what is known, tell the others unless they told us, and leave without any library's destructors."""
        self.report["error"] = why.replace("\n", " ")[:500]
        self._print()
        if not told and self._connect and not self._tell(why):
            # Nobody can be told: srun ends the step soon after its first task, and the others' own time is not up yet.
            time.sleep(self._place_seconds + 2 * GATHERING_SPARE_SECONDS)
        os._exit(status)

    def failed(self, why: str) -> None:
        """End this rank for what went wrong in it, unless it went wrong because another had ended."""
        if self._connect and self._told.wait(1.0):
            time.sleep(60)
        self.give_up(why, 1)

    def _watch_clock(self) -> None:
        with self._changed:
            while True:
                left = min(self._end, self._place_end) - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
        late = self._end <= self._place_end
        seconds = self._seconds if late else self._place_seconds
        self.give_up(f"not finished after {seconds:g} s, stuck in {self._where()}", EXIT_DEADLINE)

    def _watch_slurm(self) -> None:
        signal.sigwait((signal.SIGTERM,))
        # So were the others: there is nobody to tell.
        self.give_up(f"told to stop: Slurm ended the step, in {self._where()}", EXIT_ENDED, told=True)

    def _where(self) -> str:
        stood = self.report.get("stood")
        if not stood:
            return str(self.report["phase"])
        phase, step, stage = stood
        doing = {GATHERING: "waiting for all to begin it", MEETING: "waiting for others in it", OWN: "own work in it"}
        return f"{phase}, step {step} ({doing.get(stage, 'waiting for all to end it')})"

    def _watch_store(self) -> None:
        assert self._connect is not None
        # What a store that is gone raises is whatever torch makes of it; then only this rank's own time counts.
        with suppress(Exception):
            store = self._connect(self._seconds)
            store.wait([_STOP], timedelta(seconds=self._seconds))
            while (why := opened(self._secret, store.get(_STOP))) is None:
                time.sleep(_AGAIN_SECONDS)
            if not why:
                self._released.set()
                return
            self._told.set()
            self.give_up(f"told to stop: {why}", EXIT_DEADLINE, told=True)

    def _tell(self, why: str) -> bool:
        done = threading.Event()
        who = f"rank {self.report.get('rank')} on {self.report.get('node')}: {why}"

        def tell() -> None:
            with suppress(Exception):
                assert self._connect is not None
                store = self._connect(TELL_SECONDS)
                if not store.check([_STOP]) or opened(self._secret, store.get(_STOP)) is None:
                    store.set(_STOP, sealed(self._secret, who))
                done.set()

        threading.Thread(target=tell, daemon=True).start()
        return done.wait(TELL_SECONDS)

    def _print(self) -> None:
        """Write the rank's answer; the second of two calls waits for the first to end the process."""
        if not self._printed.acquire(blocking=False):
            time.sleep(60)
            return
        data = pack({**self.report, **self._last()}).encode()
        # Where slurmstepd is gone nobody reads it; the rank ends all the same.
        with suppress(OSError):
            while data:
                data = data[os.write(1, data) :]
