"""``fio``: random reads of every NVMe drive of the class, one drive after the other.

The drives are read as raw devices and never written (``--readonly``). Only where the class names a directory is a file
laid out there, read and removed: that is the permission to write. One drive at a time, so that the drives do not share
the CPUs that measure them. JSON of fio 3 (fio(1), "FIO JSON OUTPUT"), which notes of fio's own may precede; load of
OCI's check: 16 jobs with 16 requests each.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import Any, Union

from ..formats.nvme import assigned
from ..host.blocks import joined, split
from ..host.host import Host, Output, Unreadable
from ..probes import nvme_sysfs
from ..words.expectations import Expectations, NoSettings, NvmeRead, stated

NAME = "nvme_read"
RULES = 1
SETTINGS = NoSettings
NO_DRIVE = "no drive of the class was found\n"
# fio has to lay out a file, to settle and to write its report.
_MARGIN_SECONDS = 60.0
_FILE = "muster-nvme-read"


@dataclass(frozen=True)
class Reads:
    """What fio measured on one drive: read requests per second, how many in all, over how many seconds."""

    iops: float
    requests: int
    seconds: float


# What was measured, or why nothing was.
Answer = Union[Reads, str]


def collect(host: Host, expect: Expectations, seconds: float, settings: NoSettings) -> Output:
    """Read each drive for its share of the time, under the name of its part."""
    own = stated(expect.nvme_read)
    if own.file:
        directory = own.file.directory.rstrip("/")
        targets = {f"nvme {own.file.directory}": f"{directory}/{_FILE}"}
    else:
        drives = assigned(nvme_sysfs.parse(nvme_sysfs.collect(host, expect)), expect.nvme)
        targets = {part: f"/dev/{drive.namespace}" for part, drive in drives.items() if drive.namespace}
    if not targets:
        return Output(NO_DRIVE)
    share = max(1, int(seconds / len(targets)) - 1)
    return joined(
        {part: host.run(_command(own, target, share), share + _MARGIN_SECONDS) for part, target in targets.items()}
    )


def _command(own: NvmeRead, target: str, seconds: int) -> tuple[str, ...]:
    file = own.file
    place = (f"--size={file.size_mib}M", "--unlink=1") if file else ("--readonly",)
    return (
        "fio",
        "--output-format=json",
        f"--name={NAME}",
        f"--filename={target}",
        *place,
        "--rw=randread",
        f"--bs={own.block_bytes}",
        f"--numjobs={own.jobs}",
        f"--iodepth={own.queue_depth}",
        "--ioengine=libaio",
        "--direct=1",
        "--time_based",
        f"--runtime={seconds}",
        "--norandommap",
        "--randrepeat=0",
        "--group_reporting",
    )


def parse(output: Output) -> dict[str, Answer]:
    """Return what was measured by part, as text why nothing was; raises Unreadable."""
    if output.stdout == NO_DRIVE:
        return {}
    parts = split(output.stdout)
    if not parts or not output.stdout.startswith("==> "):
        raise Unreadable(f"begins with {output.stdout[:40]!r}, expected a heading for each drive")
    return {part: _answer(answer) for part, answer in parts.items()}


def _answer(answer: Output) -> Answer:
    if answer.rc is None:
        return answer.error or "fio could not be run"
    # Notes of fio's own ("fio: this platform does not support ...") may stand before the report.
    text = answer.stdout
    start = 0 if text.startswith("{") else text.find("\n{") + 1
    try:
        document = json.loads(text[start:])
        jobs = document["jobs"]
        # With continue_on_error a job ends well and counts what went wrong.
        errors = [job["first_error"] if job["error"] == 0 and job.get("total_err") else job["error"] for job in jobs]
        reads = [job["read"] for job in jobs]
        iops = sum(_number(read["iops"]) for read in reads)
        requests = sum(int(_number(read["total_ios"])) for read in reads)
        milliseconds = max(_number(read["runtime"]) for read in reads)
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        said = answer.stderr or " ".join(text[:start].split())
        return f"exit status {answer.rc}, no whole report of fio ({type(exc).__name__}): {said[:200]}"
    failed = [error for error in errors if error != 0]
    if failed or answer.rc != 0:
        said = ", ".join(f"{each} ({os.strerror(each)})" if isinstance(each, int) else str(each) for each in failed)
        return f"{IO_ERROR} {said or 'none'}, exit status {answer.rc}: {answer.stderr[:200]}"
    if requests == 0 or iops <= 0 or milliseconds <= 0:
        return f"no read came to its end: {requests} requests in {milliseconds:g} ms"
    return Reads(iops, requests, milliseconds / 1000)


# How the answer of a drive begins on which reading failed.
IO_ERROR = "fio error"


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise ValueError(f"found {value!r}, expected a number")
    return float(value)
