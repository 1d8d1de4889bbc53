"""``enroot version``: the program that runs the container images in which acceptance is measured.

It prints its version and nothing else (enroot 3.4 and 3.5).
"""

from __future__ import annotations

import re

from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "enroot"
# No output of a real host is at hand.
FORMAT_UNVERIFIED = True
ARGV = ("enroot", "version")
TIMEOUT_SECONDS = 10.0
NOT_ASKED = "the class' collectives use no image\n"


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once, where the class measures inside an image."""
    return Output(NOT_ASKED) if expect.collective.container is None else host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> str | None:
    """Return the version, None where no image is used; raises Unreadable."""
    if output.stdout == NOT_ASKED:
        return None
    require_success(output)
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)+\S{0,40}\n", output.stdout):
        raise Unreadable(f"printed {output.stdout[:60]!r}, expected a version such as 3.5.0")
    return output.stdout.strip()
