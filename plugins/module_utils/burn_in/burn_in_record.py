"""What is on a node's disk of its burn-in: the state of the run, the lock that says it lives, and the evidence."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from ..host.evidence_store import EvidenceStore, valid_id
from ..host.waiting import wait_until
from ..host.whole_files import PRIVATE, private_directory, replace_file
from ..words.evidence import Evidence

STAGE = "burn_in"
RUNNING, REBOOTING, FINISHED = "running", "rebooting", "finished"
# A server with two TiB of memory and many cards takes ten minutes to its first login.
REBOOT_LIMIT_SECONDS = 1800.0
_NUMBERS = ("duration_seconds", "interval_seconds", "started", "elapsed_seconds", "left_seconds")


class Record:
    """The node's burn-in directory: ``state.json`` (what is going on), the lock, and the evidence.

    A run holds the lock while it lives, so that a state that says ``running`` under a free lock is one that was cut
    off: by a reboot if the boot id differs, else by the process's end.
    """

    def __init__(self, state_directory: str) -> None:
        self.directory = Path(state_directory) / STAGE
        self.store = EvidenceStore(state_directory)

    def state(self) -> dict[str, Any]:
        """Return state.json; ``{"status": "none"}`` where there is none, with a message where it cannot be read."""
        path = self.directory / "state.json"
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"status": "none"}
        except (OSError, ValueError) as exc:
            return {"status": "none", "message": f"{path}: {exc}"}
        if not _is_state(state):
            return {"status": "none", "message": f"{path}: not the state of a burn-in"}
        return dict(state)

    def evidence_of(self, state: Mapping[str, Any]) -> Evidence:
        """Return the evidence of the run that a state tells of; one that cannot be read has not finished."""
        try:
            return Evidence.from_dict(self.store.read(STAGE, str(state["id"])))
        except (OSError, ValueError):
            return Evidence(
                id=str(state["id"]),
                node=str(state.get("node", "")),
                stage=STAGE,
                started=float(state.get("started", 0)),
                finished=None,
                boot_id=str(state.get("boot_id", "")),
                fingerprint={},
                expect_digest=str(state.get("expect_digest", "")),
                detail={"profile": str(state.get("profile", "")), "elapsed_seconds": 0, "examinations": 0},
            )

    def uncollected(self, node: str, known: Collection[str]) -> list[Evidence]:
        """Return the node's evidence that came after the last ``known``, oldest first; a run under way is the last.

        The state is that of the last run, whatever a clock that was set meanwhile says of the others. What another node
        left on this disk (a host made from its image), or nobody can read, says nothing about this one.
        """
        state = self.state()
        last = [self.evidence_of(state)] if state["status"] != "none" else []
        others = []
        for evidence_id in self.store.ids(STAGE):
            with contextlib.suppress(OSError, ValueError):
                others.append(Evidence.from_dict(self.store.read(STAGE, evidence_id)))
        earlier = sorted((each for each in others if each.id != state.get("id")), key=lambda each: each.started)
        runs = [each for each in (*earlier, *last) if each.node == node]
        after = max((number for number, each in enumerate(runs, 1) if each.id in known), default=0)
        return runs[after:]

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Replace state.json."""
        replace_file(self.directory / "state.json", json.dumps(state, indent=1, sort_keys=True) + "\n", PRIVATE)

    def close_to_others(self) -> None:
        """Close what an older program left open: any user who could open the lock could hold it."""
        with contextlib.suppress(FileNotFoundError):
            self.directory.chmod(0o700)
            (self.directory / "lock").chmod(PRIVATE)

    def alive(self) -> bool:
        """Return whether a run holds the lock."""
        try:
            with (self.directory / "lock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def holder(self) -> int | None:
        """Return the process id of the run that holds the lock, None where none does."""
        if not self.alive():
            return None
        try:
            return int((self.directory / "lock").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    @contextlib.contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the lock, with our process id in it; yields False where another process keeps it."""
        private_directory(self.directory)
        with (self.directory / "lock").open("a", encoding="ascii") as file:
            os.fchmod(file.fileno(), PRIVATE)
            # Someone who asks whether a run is alive holds it for a moment.
            mine = wait_until(lambda: _try_lock(file), seconds=0.5, every=0.05)
            if mine:
                file.truncate(0)
                file.write(str(os.getpid()))
                file.flush()
            yield mine


def _try_lock(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def cut_off(state: Mapping[str, Any], alive: bool, wall: float) -> bool:
    """Return whether the state is that of a run which nobody goes on with.

    One that rebooted the host as planned goes on at boot by itself; ``wall`` (seconds since the epoch) says when that
    should have been.
    """
    if alive or state.get("status") not in (RUNNING, REBOOTING):
        return False
    return state["status"] == RUNNING or not 0 <= wall - float(state["kept"]) <= REBOOT_LIMIT_SECONDS


def status(record: Record, monotonic: float, wall: float, *, with_evidence: bool = False) -> dict[str, Any]:
    """Return what is going on: ``status`` is none, running, interrupted (to be settled), or finished.

    Progress goes by the monotonic clock: the wall clock of a new host may be set while the run goes on.
    """
    state = record.state()
    if state["status"] == "none":
        return state
    if cut_off(state, record.alive(), wall):
        # Read again: it may have finished between the two looks.
        state = record.state()
        if cut_off(state, record.alive(), wall):
            state["status"] = "interrupted"
    if state["status"] == REBOOTING:
        state["status"] = RUNNING
    left, whole = float(state["left_seconds"]), float(state["elapsed_seconds"]) + float(state["left_seconds"])
    at = state.get("kept_monotonic")
    going_on = state["status"] == RUNNING
    if going_on and isinstance(at, (int, float)) and monotonic >= at:
        left -= monotonic - at
    state["eta_seconds"] = max(0.0, round(left, 1)) if going_on else 0
    state["percent"] = min(99, int(100 - 100 * max(0.0, left) / whole)) if going_on and whole > 0 else 100
    state["evidence_path"] = str(record.store.path(STAGE, state["id"]))
    if with_evidence:
        try:
            state["evidence"] = record.store.read(STAGE, state["id"])
        except (OSError, ValueError) as exc:
            state["evidence"] = None
            state["message"] = f"evidence cannot be read: {exc}"
    return state


def _is_state(state: Any) -> bool:
    """Return whether a run can have written it: one that nobody can go on with must not stop the next run."""
    if not isinstance(state, Mapping) or state.get("status") not in (RUNNING, REBOOTING, FINISHED):
        return False
    numbers = [state.get(key) for key in (*_NUMBERS, "kept", "next_step")]
    return (
        isinstance(state.get("id"), str)
        and valid_id(state["id"])
        and all(isinstance(number, (int, float)) and math.isfinite(number) for number in numbers)
    )
