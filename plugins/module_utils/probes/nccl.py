"""The NCCL library and its settings file, found and not executed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from ..host.host import Host, Output, Unreadable, require_success
from ..host.rail_names import read_names
from ..nccl.nccl_conf import CONF, by_rail
from ..nic.declared_nics import named_rails
from ..words.expectations import Expectations

NAME = "nccl"
FIND = (
    *("find", "/usr", "/etc", "-maxdepth", "4"),
    *("(", "-path", "/usr/share", "-o", "-path", "/usr/include", "-o", "-path", "/usr/src", ")", "-prune"),
    *("-o", "(", "-name", "libnccl.so.*", "-o", "-path", CONF, ")", "-print"),
)
TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class Nccl:
    """Versions in the names of the installed libraries, and the settings file's SHA-256; "none" where there is none.

    The digest is that of the text in which devices are called as their rails, whatever this boot calls them.
    """

    library: str
    conf: str


def collect(host: Host, expect: Expectations) -> Output:
    """List the files, then take the digest of the settings file if it is there; both texts one after the other."""
    listed = host.run(FIND, TIMEOUT_SECONDS)
    if listed.rc != 0 or CONF not in listed.stdout.splitlines():
        return listed
    conf = host.run(("cat", CONF), TIMEOUT_SECONDS)
    if conf.rc != 0:
        return conf
    try:
        text = by_rail(conf.stdout, named_rails(expect, read_names(host)))
    except Unreadable as exc:
        return Output(rc=None, error=str(exc))
    return Output(f"{listed.stdout}{hashlib.sha256(text.encode()).hexdigest()}  {CONF}\n")


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
