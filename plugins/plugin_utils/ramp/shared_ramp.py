"""The ramp of one run, kept by all worker processes together: each host starts at its moment, unless the ramp stopped.

Late is fine, early is not: where one host of a feed comes late, all that follow it there come later by as much. Each
start is led from here, so that nothing more starts when the control machine is lost.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output
from ansible_collections.muster.cluster.plugins.plugin_utils.control.progress import SharedProgress
from ansible_collections.muster.cluster.plugins.plugin_utils.ramp.ramp_plan import SITE, Turn, waiting_line

# The site's alarm is asked this often at most, by all workers together, and has so long to answer.
ALARM_EVERY_SECONDS, ALARM_SECONDS = 5.0, 10.0


class SharedRamp:
    """The hosts that start in one task of one play run; ``key`` tells it from others.

    ``alarm`` is the site's command, None for none; ``show`` gets one line for each feed whose ramp stopped.
    """

    def __init__(
        self,
        key: Sequence[str],
        alarm: Sequence[str] | None,
        show: Callable[[str], None],
        run: Callable[[Sequence[str], float], Output] | None = None,
    ) -> None:
        self._progress = SharedProgress("burn-in ramp", key, 0)
        self._alarm, self._show = alarm, show
        self._run = run or LocalHost().run

    def wait_for(self, turn: Turn) -> str:
        """Return "" when the host's moment has come, or why it is not started because the ramp has stopped."""
        moment = self._progress.deadline(0) + turn.after_seconds
        while True:
            with self._state() as state:
                if why := self._stopped(turn.feed, state):
                    self._tell(turn, why, state)
                    return why
                now = time.time()
                late = state["late"].get(turn.feed, 0.0)
                if now >= moment + late:
                    state["late"][turn.feed] = now - moment
                    state["started"][turn.feed] = state["started"].get(turn.feed, 0) + 1
                    return ""
            # The ramp may stop meanwhile.
            time.sleep(min(moment + late - now, ALARM_EVERY_SECONDS))

    def stop(self, turn: Turn, why: str) -> None:
        """Start nothing more on the feed of a host that was to start and was not."""
        with self._state() as state:
            state["started"][turn.feed] = state["started"].get(turn.feed, 1) - 1
            state["stopped"].setdefault(turn.feed, why)
            self._tell(turn, why, state)

    def _stopped(self, feed: str, state: dict[str, Any]) -> str:
        stopped = state["stopped"]
        if self._alarm and SITE not in stopped and time.time() - state["asked"] >= ALARM_EVERY_SECONDS:
            if why := alarm_of(self._run(self._alarm, ALARM_SECONDS)):
                stopped[SITE] = f"{self._alarm[0]}: {why}"
            state["asked"] = time.time()
        return str(stopped.get(SITE) or stopped.get(feed) or "")

    def _tell(self, turn: Turn, why: str, state: dict[str, Any]) -> None:
        if turn.feed not in state["told"]:
            state["told"].append(turn.feed)
            left = turn.starting - state["started"].get(turn.feed, 0)
            self._show(waiting_line(turn.feed, max(1, left), why))

    @contextmanager
    def _state(self) -> Iterator[dict[str, Any]]:
        """Give what all workers know, to one of them at a time."""
        with (self._progress.directory / "ramp").open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            state = json.loads(file.read() or '{"late": {}, "started": {}, "stopped": {}, "told": [], "asked": 0}')
            yield state
            file.seek(0)
            file.truncate()
            file.write(json.dumps(state))


def alarm_of(answer: Output) -> str:
    """Return the alarm that the site's command told of, "" where it says that there is none."""
    if answer.rc == 0:
        return ""
    said = " ".join((answer.stdout.strip() or answer.stderr.strip()).split())[:300]
    return answer.error or f"exit status {answer.rc}{': ' if said else ''}{said}"
