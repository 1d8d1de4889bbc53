"""The installed RDMA libraries: rdma-core 50.0 installs ``libibverbs.so.1.14.50.0``."""

from __future__ import annotations

import re

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "rdma_core"
FILES = ("/usr/lib*/libibverbs.so.1.*", "/usr/lib/*/libibverbs.so.1.*")
NONE = "no libibverbs\n"

_FILE = re.compile(r"/usr/lib\S*/libibverbs\.so\.1\.[0-9]+\.([0-9][0-9A-Za-z.]*)", re.ASCII)


def collect(host: Host, expect: Expectations) -> Output:
    """List the libraries."""
    return Output("".join(f"{path}\n" for path in host.paths(*FILES)) or NONE)


def parse(output: Output) -> str:
    """Return the versions, such as ``50.0``, "none" where nothing is installed; raises Unreadable."""
    if output.stdout == NONE:
        return "none"
    found = [_FILE.fullmatch(line) for line in output.stdout.splitlines()]
    versions = {match.group(1) for match in found if match}
    if None in found or not output.stdout.endswith("\n"):
        raise Unreadable(f"{output.stdout[:60]!r}, expected paths such as /usr/lib64/libibverbs.so.1.14.50.0")
    return "+".join(sorted(versions))
