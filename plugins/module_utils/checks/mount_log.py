"""Did network file systems stand still since boot, and have they come back?

A stall that ended within the log is the storage's or network's affair and worth a look; one that did not end leaves the
question open. An eviction says that a server gave this client up. An error of such a file system's that is none of
these is a remark. Formats: the kernel's fs/nfs and net/sunrpc
(``nfs: server NAME not responding``), Lustre's client (``NAME: Connection to NAME was lost``), LNet's InfiniBand driver
(lnet/klnds/o2iblnd/o2iblnd_cb.c: ``Timed out tx for NID``), net/ceph/mon_client.c, fs/ceph/mds_client.c.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.log_faults import HOST, Fault, findings_of, remarks_in
from ..probes.kernel_log import Message
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "mount_log"
RULES = 3
PROBES: tuple[str, ...] = ("kernel_log",)

# What begins a stall, and what ends it; the group is the server or target, of Ceph the kind: another one takes over.
_BEGINS = (
    re.compile(r"\bnfs: server (\S+) not responding"),
    re.compile(r"\bLustre: \S+: Connection to (\S+) \(at .*\) was lost"),
    re.compile(r"\bLustreError: .*?(\S+-(?:OST|MDT)[0-9a-f]{4})\S*: operation \w+ to node \S+ failed: rc = -\d+"),
    re.compile(r"\bLNet(?:Error)?: .*\bTimed out (?:tx for|RDMA with) ([\w.:]+@\w+)"),
    re.compile(r"\blibceph: (mon)\d+ .*(?:session lost|connect error|socket closed \(con state (?!OPEN\)))"),
    re.compile(r"\bceph: (?:\[[^\]]*\]: ?)?(mds)\d+ (?:hung|caps stale)"),
)
_ENDS = (
    re.compile(r"\bnfs: server (\S+) OK"),
    re.compile(r"\bLustre: \S*?((?:[\w.]+-)?(?:OST|MDT)[0-9a-f]{4})\S*: Connection restored to"),
    re.compile(r"\bLustre: \S+: Connection restored to .*\(at ([\w.:]+@\w+)\)"),
    re.compile(r"\blibceph: (mon)\d+ .*session established"),
    re.compile(r"\bceph: (?:\[[^\]]*\]: ?)?(mds)\d+ (?:came back|caps renewed|reconnect success|recovery completed)"),
)
_EVICTED = re.compile(r"This client was evicted by (\S+?)[;,. ]")
_DRIVER = re.compile(r"(?:Lustre|LNet)(?:Error)?: |(?:wekafs\w*|beegfs|mmfs\w*|gpfs|libceph|ceph|NFS|RPC|CIFS|fuse): ")
# libcfs_debug.h: a thread of Lustre's that met what must not be stands still for ever.
_BUG = re.compile(r"\b(?:Lustre|LNet)Error: .*(?:\bLBUG\b|\bASSERTION\()")
_GONE = re.compile(r"\bnfs: server (\S+) not responding, timed out")
_STALE = re.compile(r"\bNFS: (?:server (\S+) error|.*[Ss]tale file handle)|\bnfs4_reclaim_open_state|lost \d+ locks")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return [HOST]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for the host."""
    messages = values["kernel_log"]
    known = (_EVICTED, _BUG, *_BEGINS)
    unknown = [one for one in messages if _DRIVER.match(one.text) and not any(mark.search(one.text) for mark in known)]
    return findings_of(NAME, _faults(messages) + remarks_in(unknown, _DRIVER, ()), [HOST])


def _faults(messages: Sequence[Message]) -> list[Fault]:
    faults: list[Fault] = []
    open_since: dict[str, str] = {}
    for message in messages:
        text = message.text
        if not any(word in text for word in ("nfs", "NFS", "Lustre", "LNet", "lost", "ceph: ")):
            continue
        evicted = _EVICTED.search(text)
        if evicted:
            faults.append(Fault(HOST, f"evicted by {evicted.group(1)}", FAIL, "investigate", message.stamp))
        if _BUG.search(text):
            faults.append(Fault(HOST, "Lustre's client stopped on a bug (LBUG)", FAIL, "reboot", message.stamp))
        if _STALE.search(text):
            faults.append(Fault(HOST, "NFS state was lost", PASS, "investigate", message.stamp))
        for name in _names(_BEGINS, text):
            open_since.setdefault(name, message.stamp)
            if _GONE.search(text):
                faults.append(Fault(HOST, f"gave up on {name}", FAIL, "investigate", message.stamp))
        for name in _names(_ENDS, text):
            if name in open_since:
                what = f"{name} did not respond for a time"
                faults.append(Fault(HOST, what, PASS, "investigate", open_since.pop(name)))
    for name, stamp in open_since.items():
        what = f"{name} did not respond and the log does not say that it came back"
        faults.append(Fault(HOST, what, INCOMPLETE, "investigate", stamp))
    return faults


def _names(patterns: Sequence[re.Pattern[str]], text: str) -> list[str]:
    return [match.group(1) for match in (pattern.search(text) for pattern in patterns) if match]
