"""The NCCL library and its settings file, found and not executed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "nccl"
CONF = "/etc/nccl.conf"
FIND = (
    *("find", "/usr", "/etc", "-maxdepth", "4"),
    *("(", "-path", "/usr/share", "-o", "-path", "/usr/include", "-o", "-path", "/usr/src", ")", "-prune"),
    *("-o", "(", "-name", "libnccl.so.*", "-o", "-path", CONF, ")", "-print"),
)
TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class Nccl:
    """Versions in the names of the installed libraries, and the settings file's SHA-256; "none" where there is none."""

    library: str
    conf: str


def collect(host: Host, expect: Expectations) -> Output:
    """List the files, then take the digest of the settings file if it is there; both texts one after the other."""
    listed = host.run(FIND, TIMEOUT_SECONDS)
    if listed.rc != 0 or CONF not in listed.stdout.splitlines():
        return listed
    digest = host.run(("sha256sum", CONF), TIMEOUT_SECONDS)
    return Output(listed.stdout + digest.stdout, digest.stderr, digest.rc, digest.timed_out, digest.error)


def parse(output: Output) -> Nccl:
    """Return what is installed; raises Unreadable, also when the settings file is there and its digest is not."""
    require_success(output)
    lines = output.stdout.splitlines()
    versions = {match.group(1) for line in lines if (match := re.search(r"/libnccl\.so\.([\d.]+)$", line))}
    # libnccl.so.2 is the link that every version has.
    named = sorted(version for version in versions if "." in version) or sorted(versions)
    digests = [match.group(1) for line in lines if (match := re.fullmatch(r"([0-9a-f]{64}) [ *]" + CONF, line))]
    if CONF in lines and not digests:
        raise Unreadable(f"{CONF} is there, its digest is not")
    return Nccl(library="+".join(named) or "none", conf=digests[0] if digests else "none")
