"""NCCL's log as people save it, alone or beside what a job printed: WARN lines by kind, and the road of the data.

NCCL prints a WARN for each call that failed (its user guide, NCCL_DEBUG). Texts: NVIDIA/nccl src/transport/net_ib,
src/misc/socket.cc, src/bootstrap.cc, src/init.cc; PyTorch's ProcessGroupNCCL.cpp; libfabric's fi_getinfo.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_log import (
    RDMA_NETWORK,
    LogError,
    NcclLog,
    parse_nccl_log,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_findings import (
    fault,
    sound,
    unheld,
    unread,
    watch,
)

NAME = "NCCL's log"
_CHECK = "nccl_log"

_MARKS = re.compile(
    r"NCCL (?:INFO|WARN|ERROR) |\bNCCL version \d+\.\d+|ProcessGroupNCCL|libfabric:.*<warn>|ncclDevkitError|"
    r"NCCL Error \d+:|DistBackendError|ncclSystemError|ncclInternalError|ncclRemoteError|ncclUnhandledCudaError"
)
_WARN = re.compile(r"NCCL (?:WARN|ERROR) (.*)$", re.MULTILINE)
# By what a WARN line says: what it means. The first that matches; a line of no kind is a fault by its own text.
_KINDS = (
    (
        r"(?:Got completion from peer .*with|Completion) (?:status|error)\D*(\d+)?",
        "an RDMA transfer ended with an error",
    ),
    (r"Got async (?:fatal )?event|async event|port error", "the NIC reported an event of its port or device"),
    (r"Failed to initialize any NET plugin|Failed to find .*network", "no network plugin could be used"),
    (r"[Tt]im(?:eout|ed out)", "an operation took longer than its limit"),
    (r"Connection (?:closed|reset) by (?:remote )?peer|[Bb]roken pipe|Net : Connection closed", "a peer went away"),
    (
        r"Connect(?:ion)? to .*failed|No route to host|Connection refused|socket.*(?:failed|error)",
        "no connection to a peer",
    ),
    (r"Call to ibv_\w+ failed|ibv_\w+ failed|Unable to open device", "a call of the RDMA device failed"),
    (r"NVLS|NVLink SHARP|[Mm]ulticast", "multicast over NVSwitch (NVLS) failed: ask the fabric manager"),
    (r"Cuda failure|CUDA (?:failure|error)|out of memory|unhandled cuda", "a CUDA call failed"),
    (r"No device found|No usable|no socket interface", "no device that NCCL could use"),
    (r"Duplicate GPU detected|Mismatched|mismatch", "ranks do not fit together"),
)
# A line of these tells a setting, no failure.
_NO_FAILURE = re.compile(
    r"set by environment|is deprecated|deprecated|Using default|falling back to (?:version|v\d)|NCCL_\w+ (?:is|set) "
    r"|[Ii]gnoring (?:NCCL_|unknown)|NUMA (?:auto )?balancing",
)
_VENDOR = re.compile(r"vendor err (\d+)")
# ibv_wc_status of rdma-core's verbs.h.
_STATUS = {
    4: "local protection error",
    5: "flushed after an earlier error",
    10: "remote access error",
    11: "remote operation error",
    12: "transport retries exceeded: no answer from the peer",
    13: "receiver not ready, retries exceeded",
}
# ProcessGroupNCCL.cpp: its watchdog, the monitor of the watchdog, and what other ranks told it.
_WATCHDOG = re.compile(
    r"Watchdog caught collective operation timeout|Some NCCL operations have failed or timed out"
    r"|Heartbeat monitor timed out|ProcessGroupNCCL watchdog hang|dump signal due to a collective timeout"
)
_DIED = re.compile(r"watchdog thread terminated(?: with exception)?: ?(.*)$", re.MULTILINE)
# A communicator that was given up. PyTorch ends a sound one so as well.
_ABORTED = re.compile(r"NCCL INFO .*\bAbort COMPLETE\b")
# SHARP's own library (sharp_coll): the tree in the switches is not used, and all goes on without it.
_NO_SHARP = re.compile(
    r"^.{0,200}?(?:\bERROR\b.{0,80}\bsharp|sharp_\w{1,40}.{0,80}\bfailed|SHARP.{0,80}(?:init error|[Ff]ailed)).*$",
    re.MULTILINE,
)
_CUDA = re.compile(r"\bCUDA error: (\S[^\n]*)")
_RAISED = re.compile(r"nccl(?:System|Internal|Remote|UnhandledCuda)Error|NCCL Error \d+: .*")
_NO_EFA = re.compile(r"libfabric:.*provider efa output empty list")
_NO_IB = re.compile(r"NET/IB : No device found")
_OTHER_NET = re.compile(r"NCCL INFO NET/(?!IB\b|Socket\b|Plugin\b|OFI\b)(\w+) : Using ")


def recognises(text: str) -> bool:
    """Return whether NCCL, or what runs it, printed a line of this."""
    return bool(_MARKS.search(text))


def findings(text: str, expect: Expectations | None) -> list[Finding]:
    """Return the faults that the log names, and what its road is where a class says what it must be."""
    # The last line of a file may lack its end.
    whole = text if text.endswith("\n") else text + "\n"
    try:
        log = parse_nccl_log(whole)
    except LogError as exc:
        return [*log_faults(text), unread(_CHECK, "network", str(exc))]
    found = [*log_faults(text), *_mixed(log), *(_against(log, whole, expect) if expect else ())]
    if not any(finding.verdict == "fail" for finding in found):
        aborted = _ABORTED.search(text)
        passed = expect is not None and log.complete and bool(log.direct) and not (log.staged or aborted)
        found.append(sound(_CHECK, "network", ", ".join(log.networks)) if passed else unheld(_CHECK, "network"))
    return found


def log_faults(text: str) -> list[Finding]:
    """Return a finding for each kind of failure that NCCL, PyTorch or libfabric names, whatever else stands there."""
    counted: Counter[str] = Counter()
    said: dict[str, str] = {}
    for line in _WARN.findall(text):
        if not line.strip() or _NO_FAILURE.search(line):
            continue
        kind = _kind(line)
        counted[kind] += 1
        said.setdefault(kind, line.strip())
    found = [
        fault(_CHECK, "network", f"{kind}: {said[kind][:160]}" + (f" ({count} lines)" if count > 1 else ""))
        for kind, count in counted.items()
    ]
    if match := _WATCHDOG.search(text):
        reason = "a collective hung until PyTorch's watchdog ended it; which rank or program is to blame is not told"
        found.append(fault(_CHECK, "job", reason, match[0]))
    if match := _DIED.search(text):
        found.append(fault(_CHECK, "job", f"PyTorch's watchdog ended: {match[1].strip()[:160]}", match[0][:80]))
    # cudaGetErrorString's words, as PyTorch raises them.
    if (match := _CUDA.search(text)) and not any("CUDA" in finding.reason for finding in found):
        found.append(fault(_CHECK, "job", f"a CUDA call failed: {match[1].strip()[:160]}", match[1].strip()[:80]))
    if _NO_EFA.search(text):
        found.append(fault(_CHECK, "network", "libfabric finds no device of provider efa", "none", "efa"))
    if not found and (match := _RAISED.search(text)):
        found.append(fault(_CHECK, "job", f"NCCL gave up: {match[0][:160]}"))
    if found == [] and (notes := [line for line in _WARN.findall(text) if line.strip()]):
        found.append(watch(_CHECK, "network", f"NCCL warns: {notes[0].strip()[:160]}"))
    if found == [] and (match := _NO_SHARP.search(text)):
        found.append(watch(_CHECK, "network", f"SHARP could not be used: {match[0].strip()[:160]}"))
    return found


def _kind(line: str) -> str:
    for pattern, meaning in _KINDS:
        if match := re.search(pattern, line):
            status = match[1] if match.groups() else None
            named = f", {_STATUS[int(status)]}" if status and int(status) in _STATUS else ""
            vendor = _VENDOR.search(line)
            return f"{meaning}{named}{f', vendor error {vendor[1]}' if vendor else ''}"
    return "NCCL warns"


def _mixed(log: NcclLog) -> Iterator[Finding]:
    layers = {link: sorted(name for name, of in log.devices.items() if of == link) for link in log.devices.values()}
    if len(layers) > 1:
        few = min(layers.values(), key=len)
        reason = f"NCCL uses devices of two networks at once; {', '.join(few)} are not of the compute fabric"
        yield fault(_CHECK, "network", reason, ", ".join(sorted(log.devices)))


def _against(log: NcclLog, text: str, expect: Expectations) -> Iterator[Finding]:
    rails = len(expect.nic.rails) if expect.nic else 0
    if log.devices and rails and len(log.devices) < rails:
        reason = "NCCL uses fewer RDMA devices than there are rails"
        yield fault(_CHECK, "network", f"{reason}: {', '.join(log.devices)}", len(log.devices), rails)
    if expect.fabric is None:
        return
    wrong = [name for name in log.networks if not RDMA_NETWORK.fullmatch(name)]
    other = _OTHER_NET.search(text)
    if wrong or other or (_NO_IB.search(text) and not log.devices):
        name = wrong[0] if wrong else other[1] if other else "none"
        yield fault(_CHECK, "network", f"data goes over {name}, expected RDMA devices", name, "IB")
    if log.devices and rails and len(log.devices) > rails:
        reason = "NCCL uses more RDMA devices than there are rails"
        yield fault(_CHECK, "network", f"{reason}: {', '.join(log.devices)}", len(log.devices), rails)
    transport = expect.collective.transport
    if transport and transport.gpu_direct and (log.without_gpu_direct or log.staged):
        named = ", ".join(log.without_gpu_direct or sorted(log.staged))
        yield fault(_CHECK, "network", f"data goes through host memory: no GPUDirect RDMA on {named}", named)
    if transport and transport.nvls is not None and log.nvls not in (None, transport.nvls):
        yield fault(_CHECK, "network", "NVLS is not as declared", str(log.nvls), str(transport.nvls))
