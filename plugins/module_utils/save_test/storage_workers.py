"""Processes that touch the storage, one for each rank, so that the one that gives the answer never waits for it.

A process that waits in the kernel for a lost server cannot be ended. Its parent asks it nothing but by pipes, waits no
longer than it said it would, tells what the process hangs in, and goes on without it.
"""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..host.own_directory import ForeignError, require_own
from ..host.waiting import wait_until
from ..words.errors import MusterError
from .storage_shard import Expected, Shape, Shard, storm

# From SIGKILL to the end of a process that the kernel lets end.
KILL_SECONDS = 2.0
_PIPE_BYTES = 2**16


class StorageError(MusterError):
    """A step on the storage that went wrong: what, with the operating system's word for it in ``code``."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Blocked:
    """A process that did not come back in time: its state in the kernel (``D`` cannot be ended) and where it waits."""

    pid: int
    rank: int
    state: str
    where: str
    gone: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"pid": self.pid, "rank": self.rank, "state": self.state, "where": self.where, "gone": self.gone}


class Workers:
    """The ranks of one node."""

    def __init__(self, ranks: int) -> None:
        self._ranks: list[_Rank] = []
        for number in range(ranks):
            self._ranks.append(_Rank(number, [each.ends for each in self._ranks]))

    def order(self, orders: Mapping[int, Mapping[str, Any]], seconds: float) -> dict[int, dict[str, Any]]:
        """Have ranks do something at the same time; return what each says.

        Raises StorageError for the first fault, and TimeoutError with the blocked processes where some are late.
        """
        for number, wanted in orders.items():
            self._ranks[number].ask(wanted)
        end = time.monotonic() + seconds
        answers: dict[int, dict[str, Any]] = {}
        waiting = {self._ranks[number].replies: self._ranks[number] for number in orders}
        while waiting and time.monotonic() < end:
            ready, _, _ = select.select(list(waiting), [], [], max(0.0, end - time.monotonic()))
            for replies in ready:
                rank = waiting[replies]
                answer = rank.hear()
                if answer is not None:
                    answers[rank.number] = answer
                    del waiting[replies]
        late = list(waiting.values())
        if late:
            raise TimeoutError([rank.blocked() for rank in late])
        for number in sorted(answers):
            if "error" in answers[number]:
                raise StorageError(f"rank {number}: {answers[number]['error']}", answers[number].get("code", ""))
        return answers

    def dismiss(self) -> list[Blocked]:
        """End all processes; return those that would not end."""
        for rank in self._ranks:
            rank.kill()
        wait_until(lambda: all(rank.ended() for rank in self._ranks), KILL_SECONDS, 0.01)
        return [rank.blocked() for rank in self._ranks if not rank.ended()]


class _Rank:
    def __init__(self, number: int, others: Sequence[tuple[int, ...]]) -> None:
        self.number = number
        orders, self._orders = os.pipe()
        self.replies, answers = os.pipe()
        self.ends = (self._orders, self.replies)
        self._text = b""
        self._over = False
        self.pid = os.fork()
        if not self.pid:
            _child(orders, answers, [*self.ends, *(end for ends in others for end in ends)])
        os.close(orders)
        os.close(answers)

    def ask(self, wanted: Mapping[str, Any]) -> None:
        # One that has ended says so by the end of its replies.
        with suppress(BrokenPipeError):
            os.write(self._orders, json.dumps(wanted).encode() + b"\n")

    def hear(self) -> dict[str, Any] | None:
        """Return a whole answer, None while it is still coming."""
        data = os.read(self.replies, _PIPE_BYTES)
        if not data:
            return {"error": "its process ended", "code": ""}
        self._text += data
        if not self._text.endswith(b"\n"):
            return None
        answer: dict[str, Any] = json.loads(self._text)
        self._text = b""
        return answer

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            if not self.ended():
                os.kill(self.pid, signal.SIGKILL)

    def ended(self) -> bool:
        if not self._over:
            with suppress(ChildProcessError):
                self._over = os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        return self._over

    def blocked(self) -> Blocked:
        state, where = hanging_in(self.pid)
        self.kill()
        wait_until(self.ended, KILL_SECONDS, 0.01)
        return Blocked(self.pid, self.number, state, where, self.ended())


def hanging_in(pid: int, proc: str = "/proc") -> tuple[str, str]:
    """Return the state of a process (``D``: in the kernel, cannot be ended) and the kernel function it waits in."""
    place = Path(proc, str(pid))
    state = where = ""
    with suppress(OSError, IndexError):
        # The name before it stands in brackets and may hold anything.
        _, bracket, rest = (place / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")
        state = rest.split()[0] if bracket else ""
    with suppress(OSError):
        where = (place / "wchan").read_text(encoding="ascii", errors="replace").strip()
    return state, "" if where == "0" else where[:80]


def _child(orders: int, answers: int, others: Sequence[int]) -> None:
    """Do what is ordered until the parent is gone."""
    status = 1
    try:
        for end in others:
            os.close(end)
        # Slurm waits until nobody holds the task's output any more, and this process may outlive the task.
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(nothing, standard)
        for number in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        work = _Work()
        with os.fdopen(orders, "rb") as lines:
            for line in lines:
                text = json.dumps(work.answer(json.loads(line))).encode() + b"\n"
                while text:
                    text = text[os.write(answers, text) :]
        status = 0
    finally:
        os._exit(status)


class _Work:
    """What a rank can do. Its shard stays in memory from one order to the next."""

    def __init__(self) -> None:
        self.shard: Shard | None = None
        self._what: dict[str, Callable[..., dict[str, Any]]] = {
            "prepare": self._prepare,
            "make": self._make,
            "enter": self._enter,
            "write": self._write,
            "read": self._read,
            "recheck": self._recheck,
            "storm": storm,
            "remove": self._remove,
        }

    def answer(self, order: Mapping[str, Any]) -> dict[str, Any]:
        arguments = {key: value for key, value in order.items() if key != "do"}
        try:
            return self._what[order["do"]](**arguments)
        except OSError as exc:
            code = errno.errorcode.get(exc.errno or 0, "")
            return {"error": f"{order['do']}: {exc}", "code": code}
        except ForeignError as exc:
            return {"error": f"{order['do']}: {exc}", "code": "FOREIGN"}
        except Exception as exc:  # noqa: BLE001 -- whatever goes wrong becomes this rank's answer
            return {"error": f"{order['do']}: {type(exc).__name__}: {exc}", "code": ""}

    def _prepare(self, owner: str, shard_bytes: int) -> dict[str, Any]:
        self.shard = Shard(owner, Shape.of(shard_bytes))
        return {"checks": self.shard.checks}

    @staticmethod
    def _make(directory: str, run: str) -> dict[str, Any]:
        """Make the run's directory and its token; what earlier runs left behind goes."""
        place = Path(directory)
        # Everybody may write in the root of the tier, and so may have made this before.
        require_own(directory, make=True)
        for left in place.iterdir():
            if left.name != run:
                shutil.rmtree(left, ignore_errors=True)
        (place / run).mkdir(mode=0o700)
        _keep(place / run / "token", run)
        return {}

    @staticmethod
    def _enter(directory: str, run: str, node: str) -> dict[str, Any]:
        """Find the token that another host left, and make this node's directory."""
        require_own(directory)
        place = Path(directory, run)
        found = (place / "token").read_text(encoding="utf-8")
        if found != run:
            raise OSError(errno.ESTALE, f"another run's token {found[:40]!r}, expected {run!r}", str(place / "token"))
        (place / node).mkdir(mode=0o700)
        return {}

    def _write(self, path: str) -> dict[str, Any]:
        assert self.shard is not None
        return self.shard.write(path)

    @staticmethod
    def _read(path: str, owner: str, shard_bytes: int, checks: Sequence[int]) -> dict[str, Any]:
        return Expected(owner, Shape.of(shard_bytes), checks).read(path)

    def _recheck(self, path: str, blocks: Sequence[int]) -> dict[str, Any]:
        assert self.shard is not None
        own = Expected(self.shard.owner, self.shard.shape, self.shard.checks)
        return {"wrong_blocks": own.recheck(path, blocks)}

    @staticmethod
    def _remove(path: str) -> dict[str, Any]:
        with suppress(FileNotFoundError):
            shutil.rmtree(path)
        return {}


def _keep(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
