"""The one way in which Muster's node code talks to a host, so that a test can stand in for one."""

from __future__ import annotations

import contextlib
import glob
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from ..words.errors import MusterError

TOOL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# A tool that prints without end must not fill the memory of the host it examines.
OUTPUT_LIMIT_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class Output:
    """What one tool run or file read gave.

    ``rc`` is the exit status, negative for a signal, None when the tool could not be started or read at all;
    ``error`` then says why. A run that hit its time limit has ``timed_out`` set and counts as unreadable whatever
    it printed.
    """

    stdout: str = ""
    stderr: str = ""
    rc: int | None = 0
    timed_out: bool = False
    error: str = ""


class Unreadable(MusterError):
    """A probe's output that cannot be turned into a value; the text says what was found and what was expected.

    ``read`` is what could be read of it all the same, None for nothing. It may prove a fault and never the absence of
    one. A probe gives it only where each part speaks for itself, as the lines of a log do, and no lost part could make
    a fault of what is left.
    """

    def __init__(self, reason: str, read: Any = None) -> None:
        super().__init__(reason)
        self.read = read


def require_success(output: Output) -> None:
    """Raise Unreadable, with the exit status and what the tool said, unless it ended with 0."""
    if output.rc != 0:
        said = " ".join((output.stderr.strip() or output.stdout).split())
        raise Unreadable(f"exit status {output.rc}: {said[:200] or 'no message'}")


class Host(Protocol):
    """A host on which tools run and files are read."""

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        """Run a tool with LC_ALL=C and return what it printed; never raises for what the tool does."""

    def read(self, path: str) -> Output:
        """Return a file's text as ``stdout``; never raises for what the file is."""

    def paths(self, *patterns: str) -> list[str]:
        """Return the absolute paths that the glob patterns name, sorted, each once."""


class LocalHost:
    """The host this process runs on.

    ``tool_path`` is the PATH in which tools are looked up; ``root`` stands before every path that is read (as
    node_exporter's ``--path.rootfs``), so that both can be settings of a site. ``environment`` is what tools find there
    besides this process' own.
    """

    def __init__(
        self, tool_path: str = TOOL_PATH, root: str = "/", environment: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.tool_path = tool_path
        self.environment = environment
        self.root = root
        # How long any tool has run; what an examination takes beyond that is ours.
        self.tool_seconds = 0.0
        self._clock = threading.Lock()
        self._at_once = 0
        self._since = 0.0
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def stop(self) -> None:
        """End what runs, from another thread: asked the first time, killed the second. Every later run ends at once."""
        # A tool that works through a service or lays out files has to be able to take that back.
        with_what = signal.SIGKILL if self._stopped else signal.SIGTERM
        self._stopped = True
        for process in list(self._running):
            _kill(process, with_what)

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        """Run a tool in a process group of its own; at the time limit the whole group is killed."""
        with self._clock:
            self._since = self._since if self._at_once else time.monotonic()
            self._at_once += 1
        try:
            return self._run(argv, timeout_seconds)
        finally:
            with self._clock:
                self._at_once -= 1
                self.tool_seconds += 0.0 if self._at_once else time.monotonic() - self._since

    def _run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        environment = {**os.environ, **self.environment, "PATH": self.tool_path, "LC_ALL": "C", "LANGUAGE": "C"}
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                executable=_find(argv[0], self.tool_path),
                start_new_session=True,
            )
        except OSError as exc:
            return Output(rc=None, error=f"{argv[0]}: {exc.strerror or exc}")
        self._running.add(process)
        try:
            if self._stopped:
                _kill(process)
            stdout, stderr, why = _drain(process, timeout_seconds)
        except BaseException:
            _kill_group(process)
            raise
        finally:
            self._running.discard(process)
        if self._stopped:
            why = "stop"
        if why:
            _kill_group(process)
            return Output(rc=None, timed_out=why == "time", error=f"{argv[0]}: {_LIMITS[why].format(timeout_seconds)}")
        return Output(_text(stdout), _text(stderr), process.returncode)

    def read(self, path: str) -> Output:
        """Return the text of ``root`` + ``path``."""
        data = bytearray()
        try:
            with Path(self.root, path.lstrip("/")).open("rb") as file:
                # In parts, as the kernel refuses to fill large buffers from /proc/sys (ENOMEM).
                while len(data) <= OUTPUT_LIMIT_BYTES and (part := file.read(65536)):
                    data += part
        except OSError as exc:
            return Output(rc=None, error=f"{path}: {exc.strerror or exc}")
        if len(data) > OUTPUT_LIMIT_BYTES:
            return Output(rc=None, error=f"{path}: larger than {OUTPUT_LIMIT_BYTES} bytes")
        return Output(_text(bytes(data)))

    def paths(self, *patterns: str) -> list[str]:
        """Return what lies under ``root``, named as if ``root`` were "/"."""
        root = self.root.rstrip("/")
        found = {path for pattern in patterns for path in glob.glob(glob.escape(root) + pattern)}  # noqa: PTH207 -- as below
        return sorted(path[len(root) :] for path in found)


_LIMITS = {
    "stop": "stopped",
    "time": "no answer within {0:g} s",
    "size": f"printed more than {OUTPUT_LIMIT_BYTES} bytes",
}


def _drain(process: subprocess.Popen[bytes], timeout_seconds: float) -> tuple[bytes, bytes, str]:
    """Return stdout, stderr and the limit that was hit ("" for none, "time" or "size")."""
    deadline = time.monotonic() + timeout_seconds
    assert process.stdout is not None and process.stderr is not None
    chunks: dict[int, list[bytes]] = {process.stdout.fileno(): [], process.stderr.fileno(): []}
    size = 0
    with selectors.DefaultSelector() as selector:
        for descriptor in chunks:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                return b"", b"", "time"
            for key, _ in ready:
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fd)
                    continue
                chunks[key.fd].append(data)
                size += len(data)
                if size > OUTPUT_LIMIT_BYTES:
                    return b"", b"", "size"
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return b"", b"", "time"
    stdout, stderr = (b"".join(parts) for parts in chunks.values())
    process.stdout.close()
    process.stderr.close()
    return stdout, stderr, ""


def _kill(process: subprocess.Popen[bytes], with_what: signal.Signals = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, with_what)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    _kill(process)
    with contextlib.suppress(subprocess.TimeoutExpired):
        # A child stuck in the kernel cannot be reaped: one short try, never a long wait.
        process.wait(0.2)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _find(tool: str, tool_path: str) -> str:
    """Return where ``tool`` lies; subprocess would look in our own PATH, not in the one it is given."""
    if "/" in tool:
        return tool
    for directory in tool_path.split(":"):
        candidate = os.path.join(directory, tool)  # noqa: PTH118 -- hot path of a start-up budget
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):  # noqa: PTH112 -- as above
            return candidate
    raise FileNotFoundError(2, f"not found in {tool_path}")


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
