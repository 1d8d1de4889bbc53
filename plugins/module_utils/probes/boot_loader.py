"""``/boot/grub/grub.cfg``: the command lines with which grub starts kernels at the next boot (GRUB manual, linux).

Every ``linux`` command with a ``root=`` is a kernel of this host; memory testers have none. Needs root: the file is
for nobody else's eyes. A host without it is started by other means.
"""

from __future__ import annotations

import re

from ..host.host import Host, Output, Unreadable
from ..host.kernel_parameters import words_of
from ..words.expectations import Expectations

NAME = "boot_loader"
PATH = "/boot/grub/grub.cfg"

_LINUX = re.compile(r"^[ \t]*linux(?:16|efi)?\s+\S+\s+(.*)$", re.MULTILINE)


def collect(host: Host, expect: Expectations | None = None) -> Output:
    """Read the file once."""
    return host.read(PATH)


def parse(output: Output) -> tuple[tuple[str, ...], ...]:
    """Return each kernel's words in the file's order; raises Unreadable where there is none."""
    if output.rc != 0:
        raise Unreadable(output.error or f"{PATH} could not be read")
    lines = [
        words for words in map(words_of, _LINUX.findall(output.stdout)) if any(w.startswith("root=") for w in words)
    ]
    if not lines or not output.stdout.endswith("\n"):
        raise Unreadable(f"{PATH} starts no kernel with a root=")
    return tuple(lines)
