"""One rank's shard of a checkpoint: written in blocks that no cache, and no other block, can be taken for.

Every block begins with a page that says whose it is and which; the rest is random, so that storage which compresses
or finds duplicates gains nothing. Whoever reads the shard back knows the first by itself and the checksums of the
rest from the writer. All calls raise OSError; times are of the monotonic clock, which nobody sets.
"""

from __future__ import annotations

import errno
import mmap
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# O_DIRECT asks for memory, offset and length in whole sectors, of 4 KiB at most.
PAGE = 4096
# What one call writes: the client of a network file system sends it in many requests at a time, as fio's queue would.
BLOCK_BYTES = 8 * 2**20
# Random memory of one rank, repeated in a longer shard under other headers.
POOL_BYTES = 256 * 2**20
# Reading goes on while blocks before are checked.
READ_BUFFERS = 3
# Wrong blocks that are named; all are counted.
NAMED_BLOCKS = 4
# Files of a storm whose time stamps are held against this host's clock.
STAMPED_FILES = 8


@dataclass(frozen=True)
class Shape:
    """A shard's blocks: at least ``shard_bytes``, in whole blocks."""

    block_bytes: int
    blocks: int

    @classmethod
    def of(cls, shard_bytes: int) -> Shape:
        """Return the shape of a shard that holds ``shard_bytes``."""
        pages = -(-shard_bytes // PAGE)
        # Two pages: the header's, and one that is random.
        block = max(2 * PAGE, min(BLOCK_BYTES, pages * PAGE))
        return cls(block, -(-shard_bytes // block))

    @property
    def total_bytes(self) -> int:
        """Size of the file."""
        return self.block_bytes * self.blocks


class Shard:
    """What one rank writes, in memory; ``checks`` are the checksums of its distinct blocks without their headers."""

    def __init__(self, owner: str, shape: Shape) -> None:
        self.owner = owner
        self.shape = shape
        distinct = min(shape.blocks, max(1, POOL_BYTES // shape.block_bytes))
        # Anonymous memory begins at a page.
        self._memory = mmap.mmap(-1, distinct * shape.block_bytes)
        self._pool = [
            memoryview(self._memory)[index * shape.block_bytes : (index + 1) * shape.block_bytes]
            for index in range(distinct)
        ]
        for block in self._pool:
            block[PAGE:] = os.urandom(shape.block_bytes - PAGE)
        self.checks = [zlib.crc32(block[PAGE:]) for block in self._pool]

    def block(self, number: int) -> memoryview:
        """Return a block with its header; valid until the next call."""
        block = self._pool[number % len(self._pool)]
        block[:PAGE] = header(self.owner, number)
        return block

    def write(self, path: str) -> dict[str, Any]:
        """Write the shard and bring it to the storage; return what was written, how and when."""
        begin = time.monotonic()
        with opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as (fd, direct):
            for number in range(self.shape.blocks):
                _write_all(fd, self.block(number), number * self.shape.block_bytes)
            os.fsync(fd)
            if not direct:
                # What is on the storage need not stay in memory, where a reader on this host would find it.
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        return {"bytes": self.shape.total_bytes, "direct": direct, "begin": begin, "end": time.monotonic()}


@dataclass(frozen=True)
class Expected:
    """What a reader knows of another rank's shard."""

    owner: str
    shape: Shape
    checks: Sequence[int]

    def read(self, path: str) -> dict[str, Any]:
        """Read the shard from the storage and compare it; return what was read, how and when, and what is wrong."""
        size = self.shape.block_bytes
        memory = mmap.mmap(-1, READ_BUFFERS * size)
        buffers = [memoryview(memory)[index * size : (index + 1) * size] for index in range(READ_BUFFERS)]
        checking: list[Future[str]] = []
        faults: list[tuple[int, str]] = []
        total = 0
        begin = time.monotonic()
        with opened(path, os.O_RDONLY) as (fd, direct), ThreadPoolExecutor(1) as checker:
            if not direct:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            for number in range(self.shape.blocks):
                if number >= READ_BUFFERS:
                    # The buffer is free once what it held has been looked at.
                    checking[number - READ_BUFFERS].result()
                buffer = buffers[number % READ_BUFFERS]
                got = _read_all(fd, buffer, number * size)
                total += got
                checking.append(checker.submit(self.fault, buffer[:got], number))
            faults = [(number, fault) for number, each in enumerate(checking) if (fault := each.result())]
        return {
            "bytes": total,
            "direct": direct,
            "begin": begin,
            "end": time.monotonic(),
            "wrong": len(faults),
            "wrong_blocks": [number for number, _ in faults[:NAMED_BLOCKS]],
            "fault": f"block {faults[0][0]}: {faults[0][1]}" if faults else "",
        }

    def recheck(self, path: str, numbers: Sequence[int]) -> list[int]:
        """Read single blocks again; return those that are wrong."""
        size = self.shape.block_bytes
        buffer = memoryview(mmap.mmap(-1, size))
        with opened(path, os.O_RDONLY) as (fd, direct):
            if not direct:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            return [number for number in numbers if self.fault(buffer[: _read_all(fd, buffer, number * size)], number)]

    def fault(self, block: memoryview, number: int) -> str:
        """Return what is wrong with a block, empty if nothing is."""
        if len(block) != self.shape.block_bytes:
            return f"{len(block)} bytes of {self.shape.block_bytes}"
        wanted = header(self.owner, number)
        if bytes(block[:PAGE]) != wanted:
            return f"its header is {bytes(block[:80]).rstrip(bytes(1))!r}, expected {wanted.rstrip(bytes(1))!r}"
        found, check = zlib.crc32(block[PAGE:]), self.checks[number % len(self.checks)]
        return "" if found == check else f"checksum {found:08x}, expected {check:08x}"


def header(owner: str, number: int) -> bytes:
    """Return the first page of a block."""
    return f"muster {owner} block {number}\n".encode().ljust(PAGE, b"\0")


@contextmanager
def opened(path: str, flags: int) -> Iterator[tuple[int, bool]]:
    """Open a file past the page cache where the file system can, and say whether it could."""
    direct = True
    try:
        fd = os.open(path, flags | os.O_DIRECT, 0o600)
    except OSError as exc:
        if exc.errno != errno.EINVAL:
            raise
        direct = False
        # A file system without direct access may have made the file before it refused.
        if flags & os.O_EXCL:
            with suppress(FileNotFoundError):
                Path(path).unlink()
        fd = os.open(path, flags, 0o600)
    try:
        yield fd, direct
    except BaseException:
        with suppress(OSError):
            os.close(fd)
        raise
    # Network file systems may tell of a failed write only here.
    os.close(fd)


def _write_all(fd: int, data: memoryview, offset: int) -> None:
    done = 0
    while done < len(data):
        wrote = os.pwrite(fd, data[done:], offset + done)
        if wrote <= 0:
            raise OSError(errno.EIO, f"{wrote} bytes written at {offset + done}")
        done += wrote


def _read_all(fd: int, buffer: memoryview, offset: int) -> int:
    done = 0
    while done < len(buffer):
        got = os.preadv(fd, [buffer[done:]], offset + done)
        if got <= 0:
            break
        done += got
        if done % PAGE:
            # Only a file's end is no whole page.
            break
    return done


def storm(directory: str, files: int) -> dict[str, Any]:
    """Make, look at and remove ``files`` empty files; return how long each took and how far the clocks are apart.

    ``milliseconds`` by operation; ``skew_seconds`` is this host's clock less the time with which the storage stamps
    files, the least of some, as a stamp is never better than its request.
    """
    took: dict[str, list[float]] = {"create": [], "stat": [], "unlink": []}
    skews = []
    place = Path(directory)
    place.mkdir(mode=0o700)
    begin = time.monotonic()
    for number in range(files):
        path = str(place / f"{number}")
        fd = timed(took["create"], os.open, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        if number < STAMPED_FILES:
            skews.append(time.time() - os.fstat(fd).st_mtime)
        os.close(fd)
    for number in range(files):
        timed(took["stat"], os.stat, str(place / f"{number}"))
    for number in range(files):
        timed(took["unlink"], os.unlink, str(place / f"{number}"))
    place.rmdir()
    return {
        "milliseconds": took,
        "skew_seconds": min(skews, key=abs, default=None),
        "begin": begin,
        "end": time.monotonic(),
    }


def timed(took: list[float], call: Any, *arguments: Any) -> Any:
    """Return what the call gives; its milliseconds are added to ``took``."""
    begin = time.perf_counter()
    result = call(*arguments)
    took.append(round((time.perf_counter() - begin) * 1000, 4))
    return result
