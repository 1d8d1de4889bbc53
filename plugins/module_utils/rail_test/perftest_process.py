"""One end of a perftest run as a process of this host: started, waited for, ended in bounded time."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import IO, ClassVar

from ..host.waiting import wait_until
from .perftest import RailTest

# A process that waits for a broken device does not end even when it is killed; it is left to the kernel.
KILL_SECONDS = 2
# Of what a tool said, in characters, that an error shows.
SAID = 300
_POLL_SECONDS = 0.02
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class Tool:
    """One end of a test that was started; what it prints goes to files, so that it never blocks."""

    running: ClassVar[set[Tool]] = set()
    # A start is whole or not at all to whoever ends all from another thread.
    _starting: ClassVar[threading.Lock] = threading.Lock()
    _ended_all: ClassVar[bool] = False

    def __init__(self, test: RailTest, argv: Sequence[str], path: str) -> None:
        self.test = test
        self.error = ""
        self.late = False
        self.process: subprocess.Popen[bytes] | None = None
        # Closed with the process that writes them. The report is on stdout, what went wrong on stderr.
        self.out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.err: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        # GPUs are numbered by their places, as the request numbers them.
        more = {"PATH": path, "LC_ALL": "C", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        with Tool._starting:
            if Tool._ended_all:
                self.error = f"{test.tool} was not started: the run ends"
                return
            try:
                self.process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=self.out,
                    stderr=self.err,
                    env={**os.environ, **more},
                    start_new_session=True,
                    preexec_fn=_end_with_parent,  # noqa: PLW1509 -- its one system call takes no lock of any thread
                )
            except OSError as exc:
                self.error = f"{argv[0]}: {exc.strerror or exc}"
            else:
                Tool.running.add(self)

    def finish(self, end: float) -> str:
        """Wait until it ends, kill it at ``end`` (monotonic), and return its report; ``error`` says what was wrong."""
        if self.process is None:
            self._printed()
            return ""
        if not self._ended(end):
            self.late = True
            self.error = self.error or f"{self.test.tool} did not end in time, killed"
            self.kill()
            self._ended(time.monotonic() + KILL_SECONDS)
        Tool.running.discard(self)
        text, complaints = self._printed()
        if self.process.returncode and not self.error:
            # On stderr the cause comes first, and what followed from it after.
            said = " ".join(complaints.split())[:SAID] or " ".join(text.split())[-SAID:] or "nothing printed"
            self.error = f"{self.test.tool} ended with {self.process.returncode}: {said}"
        return text

    def _printed(self) -> list[str]:
        texts = []
        for file in (self.out, self.err):
            file.seek(0)
            texts.append(file.read(2**20).decode(errors="replace"))
            file.close()
        return texts

    def runs(self) -> bool:
        """Say whether the process was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def _ended(self, end: float) -> bool:
        # In smaller steps than Popen.wait takes: a run has some forty of these waits, one after the other.
        return wait_until(lambda: not self.runs(), end - time.monotonic(), _POLL_SECONDS)

    def kill(self) -> None:
        """Tell the process and all that it started to end; waits for nothing."""
        if self.process and self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    @classmethod
    def kill_all(cls) -> None:
        """Tell all that run to end; none is started after. Not for a signal's handler: it may interrupt a start."""
        # Starting a program that a dead file system holds never ends; the others are ended all the same.
        whole = cls._starting.acquire(timeout=KILL_SECONDS)
        cls._ended_all = True
        for tool in tuple(cls.running):
            tool.kill()
        if whole:
            cls._starting.release()


def _end_with_parent() -> None:
    """Let this process be killed when the program that started it is: a server would wait for its client for ever."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def taken(ports: Iterable[int], end: float) -> set[int]:
    """Return the ports that another program keeps; one that was told to end has until ``end`` (monotonic) to do so."""
    found = set(ports)

    def free() -> bool:
        found.intersection_update(listening_ports())
        return not found

    if found:
        wait_until(free, end - time.monotonic(), _POLL_SECONDS)
    return found


def silent(servers: Iterable[Tool], end: float) -> list[Tool]:
    """Wait until all servers listen, until ``end`` (monotonic) at the latest; return those that do not."""
    waiting, ended = list(servers), list[Tool]()

    def all_listen() -> bool:
        ports = listening_ports() if waiting else set()
        ended.extend(tool for tool in waiting if not tool.runs())
        waiting[:] = [tool for tool in waiting if tool not in ended and tool.test.port not in ports]
        return not waiting

    wait_until(all_listen, end - time.monotonic(), _POLL_SECONDS)
    for tool in waiting:
        tool.error = f"{tool.test.tool} did not listen in time"
    return [*ended, *waiting]


def listening_ports() -> set[int]:
    """Return the TCP ports on which anything of this host listens."""
    found: set[int] = set()
    for name in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/net/{name}", encoding="ascii") as file:  # noqa: PTH123
            for line in file:
                words = line.split(None, 4)
                # 0A is LISTEN.
                if len(words) > 3 and words[3] == "0A":
                    found.add(int(words[1].rpartition(":")[2], 16))
    return found
