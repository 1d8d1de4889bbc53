"""One line of progress for all hosts of a task, though each host waits in a process of its own."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

# Directories of plays that were killed are swept after this long.
_STALE_SECONDS = 3 * 86400


@dataclass(frozen=True)
class HostProgress:
    """Where one host stands: ``done`` (ended, whatever the verdict), findings that failed, seconds still planned.

    ``waiting`` is False once nobody waits for it any more, because it is done or because the time is up.
    """

    done: bool = False
    failed: int = 0
    eta_seconds: float = 0.0
    unreachable: bool = False
    waiting: bool = True


def progress_line(what: str, hosts: Sequence[HostProgress]) -> str:
    """Return the line, such as ``burn-in: 2 of 4 done, 1 failed, ETA 00:00:12``."""
    done = sum(host.done for host in hosts)
    failed = sum(host.failed > 0 for host in hosts)
    unreachable = sum(host.unreachable for host in hosts)
    left = int(max((host.eta_seconds for host in hosts if not host.done), default=0))
    late = sum(host.eta_seconds <= 0 and not (host.done or host.unreachable) for host in hosts)
    parts = [f"{done} of {len(hosts)} done", f"{failed} failed"]
    if unreachable:
        parts.append(f"{unreachable} unreachable")
    if late:
        # An examination that waits for a tool is in no plan.
        parts.append(f"{late} past {'its' if late == 1 else 'their'} planned end")
    if left:
        parts.append(f"ETA {left // 3600:02d}:{left // 60 % 60:02d}:{left % 60:02d}")
    return f"{what}: {', '.join(parts)}"


class SharedProgress:
    """The hosts of one task of one play run, through a directory that its worker processes share.

    ``key`` tells task and batch of hosts from others of the same run, ``expected`` how many hosts the batch has;
    ``every_seconds`` is the least time from one line to the next, but for the last one.
    """

    def __init__(
        self, what: str, key: Sequence[str], expected: int, every_seconds: float = 5.0, parent: str | None = None
    ) -> None:
        self.what = what
        self.expected = expected
        self.every_seconds = every_seconds
        root = Path(parent or tempfile.gettempdir()) / f"muster-progress-{os.getuid()}"
        root.mkdir(mode=0o700, exist_ok=True)
        if root.is_symlink() or root.stat().st_uid != os.getuid():
            raise PermissionError(f"{root} belongs to somebody else")
        _sweep(root)
        self.directory = root / hashlib.sha256("\0".join(key).encode()).hexdigest()[:16]
        self.directory.mkdir(mode=0o700, exist_ok=True)

    def deadline(self, seconds: float) -> float:
        """Return when the waiting ends (epoch): ``seconds`` after the first host of the batch began to wait."""
        path = self.directory / "deadline"
        with contextlib.suppress(FileExistsError):
            temporary = self.directory / f".deadline.{os.getpid()}"
            temporary.write_text(repr(time.time() + seconds), encoding="ascii")
            try:
                # Unlike a rename, a link does not replace what another process was first to write.
                path.hardlink_to(temporary)
            finally:
                temporary.unlink()
        return float(path.read_text(encoding="ascii"))

    def report(self, host: str, state: HostProgress) -> str | None:
        """Note where a host stands and return the line if it is ours to print now."""
        name = hashlib.sha256(host.encode()).hexdigest()[:16]
        temporary = self.directory / f".{name}.{os.getpid()}"
        temporary.write_text(json.dumps(asdict(state)), encoding="ascii")
        temporary.replace(self.directory / f"{name}.host")
        with (self.directory / "printed").open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if state.waiting else 0))
            except BlockingIOError:
                return None
            file.seek(0)
            last = file.read()
            hosts = self.hosts()
            line = progress_line(self.what, hosts)
            recent = time.time() - os.fstat(file.fileno()).st_mtime < self.every_seconds
            # The file is as old as the first report: the first line comes when all hosts have begun to wait.
            over = len(hosts) >= self.expected and not any(each.waiting for each in hosts)
            if line == last or (recent and not over):
                return None
            file.seek(0)
            file.truncate()
            file.write(line)
        return line

    def hosts(self) -> list[HostProgress]:
        """Return where each host stands that has begun to wait."""
        found = []
        for path in sorted(self.directory.glob("*.host")):
            with contextlib.suppress(OSError, ValueError, TypeError):
                found.append(HostProgress(**json.loads(path.read_text(encoding="ascii"))))
        return found


def _sweep(root: Path) -> None:
    for entry in root.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - entry.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(entry, ignore_errors=True)
