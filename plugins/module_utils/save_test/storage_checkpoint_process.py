"""PyTorch's processes of a storage test on one node: started early, as torch loads slowly, and given up in time."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from .storage_workers import hanging_in

_PIPE_BYTES = 2**16


class CheckpointProcess:
    """One or more ranks of PyTorch Distributed Checkpoint on this node; ``checkpoint_bytes`` is the whole state's size.

    They meet at a store: its port, and the word before all its keys, which no stranger knows.
    What goes wrong is an ``error`` in the answer: torch is no part of the storage.
    """

    def __init__(self, python: str, program: str, checkpoint_bytes: int, store: tuple[int, str], ranks: int) -> None:
        self._port, self._word = store
        self._bytes = checkpoint_bytes
        self._error = ""
        self._texts: dict[int, bytes] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for _ in range(ranks):
                self._processes.append(
                    subprocess.Popen(
                        [python, program, "storage-checkpoint"],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        # torch and gloo say there what they think of their surroundings.
                        stderr=subprocess.DEVNULL,
                        env=os.environ,
                    )
                )
        except OSError as exc:
            self._error = f"{python} could not be started: {exc}"
        self._version = ""

    def ready(self, seconds: float) -> None:
        """Wait until torch is loaded."""
        answers = self._hear(seconds, "import of torch")
        self._error = self._error or next((each["error"] for each in answers if each.get("error")), "")
        self._version = next((str(each["torch"]) for each in answers if each.get("torch")), "")

    @property
    def able(self) -> bool:
        """Whether nothing went wrong so far."""
        return not self._error

    def save_and_load(self, directory: str, rank: int, size: int, address: str, seconds: float) -> dict[str, Any]:
        """Save with all ranks of ``size`` nodes, load with one rank less; return what was measured, or an error."""
        count = len(self._processes)
        about = {"torch": self._version, "ranks": size * count}
        if self._error:
            return {**about, "error": self._error}
        order = {
            **{"directory": directory, "size": size * count, "address": address, "port": self._port},
            **{"word": self._word, "bytes": self._bytes, "seconds": seconds},
        }
        for number, process in enumerate(self._processes):
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.write(json.dumps({**order, "rank": rank * count + number}).encode() + b"\n")
                process.stdin.flush()
        answers = self._hear(seconds + 5, "save and load")
        wrong = next((each["error"] for each in answers if each.get("error")), self._error)
        return {**about, "error": wrong} if wrong else {**about, **_slowest(answers), "error": ""}

    def _hear(self, seconds: float, phase: str) -> list[dict[str, Any]]:
        """Return one answer of each process; those that are late have an error for an answer."""
        end = time.monotonic() + seconds
        waiting = {process.stdout.fileno(): process for process in self._processes if process.stdout is not None}
        texts = dict.fromkeys(waiting, b"")
        answers = []
        while waiting and time.monotonic() < end:
            ready, _, _ = select.select(list(waiting), [], [], max(0.0, end - time.monotonic()))
            for each in ready:
                data = os.read(each, _PIPE_BYTES)
                texts[each] += data
                if not data or texts[each].endswith(b"\n"):
                    del waiting[each]
                    answers.append(_answer(texts[each], phase))
        for process in waiting.values():
            state, where = hanging_in(process.pid)
            answers.append(
                {"error": f"{phase} not done after {seconds:g} s (pid {process.pid}, {state} in {where or 'unknown'})"}
            )
        return answers

    def end(self) -> None:
        """End all processes; one that hangs in the kernel is left to it."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)


def _answer(text: bytes, phase: str) -> dict[str, Any]:
    # Libraries print what they like; the last line is the answer.
    last = (text.decode(errors="replace").strip().splitlines() or [""])[-1]
    try:
        answer = json.loads(last)
    except ValueError:
        answer = None
    return answer if isinstance(answer, dict) else {"error": f"{phase}: its process ended: {last[:200]}"}


def _slowest(answers: list[dict[str, Any]]) -> Mapping[str, Any]:
    times = ("blocking_seconds", "save_seconds", "load_seconds")
    return {
        "loaded_by": answers[0]["loaded_by"],
        "bytes": answers[0]["bytes"],
        **{name: max(answer[name] for answer in answers) for name in times},
    }
