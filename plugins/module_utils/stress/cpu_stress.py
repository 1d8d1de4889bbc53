"""``stress-ng --verify``: every CPU computes, and a share of the memory is written and read back, results compared.

The share is taken of the memory that is available when the stress begins, without that of GPUs where it is part of the
system's (Grace), and spread over one worker for each CPU of the host; the workers are stress-ng's own, which the kernel
ends first if memory runs out all the same.
"""

from __future__ import annotations

import re

from ..formats.stress_ng import Run, joined_streams, run_of
from ..host.blocks import joined, split
from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations, NoSettings, stated

NAME = "cpu_stress"
RULES = 1
SETTINGS = NoSettings
# Workers end at their next step, and memory has to be given back.
_MARGIN_SECONDS = 120.0
_BLOCK = "stress-ng"
_NODES = "/sys/devices/system/node/node*"


def collect(host: Host, expect: Expectations, seconds: float, settings: NoSettings) -> Output:
    """Load CPUs and memory for ``seconds``."""
    meminfo = host.read("/proc/meminfo")
    match = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo.stdout, re.MULTILINE | re.ASCII)
    if not match:
        return Output(rc=None, error=f"/proc/meminfo: {meminfo.error or 'no MemAvailable'}")
    kib = int(match.group(1))
    if expect.numa and expect.numa.gpu_memory_nodes is not None:
        of_gpus = _free_of_gpus(host)
        if of_gpus is None:
            return Output(rc=None, error=f"{_NODES}/meminfo: how much memory is the GPUs' could not be read")
        kib -= of_gpus
    mib = max(64, int(kib * stated(expect.cpu_stress).memory_percent / 100) // 1024)
    command = ["stress-ng", "--cpu", "0", "--vm", "0", "--vm-bytes", f"{mib}M", "--vm-method", "all"]
    command += ["--verify", "--metrics", "--timeout", f"{max(1, int(seconds))}s"]
    return joined({_BLOCK: joined_streams(host.run(command, seconds + _MARGIN_SECONDS))})


def _free_of_gpus(host: Host) -> int | None:
    """Return how many KiB are free at NUMA nodes without CPUs, None where one cannot be read."""
    free = 0
    for path in host.paths(f"{_NODES}/cpulist"):
        cpus, memory = host.read(path), host.read(path.replace("cpulist", "meminfo"))
        match = re.search(r"^Node \d+ MemFree:\s+(\d+) kB$", memory.stdout, re.MULTILINE | re.ASCII)
        if cpus.rc != 0 or not match:
            return None
        free += 0 if cpus.stdout.strip() else int(match.group(1))
    return free


def parse(output: Output) -> Run:
    """Return how the run went; raises Unreadable."""
    if not output.stdout.startswith("==> "):
        return run_of(joined_streams(output))
    part = split(output.stdout).get(_BLOCK)
    if part is None:
        raise Unreadable("no output of stress-ng")
    return run_of(part)
