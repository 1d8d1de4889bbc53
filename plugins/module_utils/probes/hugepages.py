"""Huge pages set aside, and when the kernel makes some by itself.

Files: Linux, Documentation/ABI/testing/sysfs-kernel-mm-hugepages and admin-guide/mm/transhuge.rst.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..host import blocks
from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "hugepages"
RESERVED = "/sys/kernel/mm/hugepages/hugepages-*kB/nr_hugepages"
TRANSPARENT = "/sys/kernel/mm/transparent_hugepage/enabled"

_PATH = re.compile(r".*/hugepages-(\d{1,18})kB/nr_hugepages", re.ASCII)


@dataclass(frozen=True)
class HugePages:
    """``reserved``: number of pages by size in KiB; ``transparent``: ``always``, ``madvise`` or ``never``."""

    reserved: Mapping[int, int]
    transparent: str | None


def collect(host: Host, expect: Expectations) -> Output:
    """Read one file for each size, and the setting."""
    return blocks.read_files(host, RESERVED, TRANSPARENT)


def parse(output: Output) -> HugePages:
    """Return what is set; raises Unreadable."""
    if not blocks.is_listed(output.stdout):
        raise Unreadable(f"begins with {output.stdout[:60]!r}, expected a list of files")
    files = blocks.split(output.stdout)
    reserved = {}
    for path, file in files.items():
        match = _PATH.fullmatch(path)
        if not match:
            continue
        number = file.stdout.strip()
        if file.rc != 0 or not re.fullmatch(r"[0-9]{1,18}", number):
            raise Unreadable(f"{path}: found {file.error or repr(number[:40])}, expected a number of pages")
        reserved[int(match.group(1))] = int(number)
    if not reserved:
        raise Unreadable(f"no file {RESERVED}, expected one for each size of page")
    chosen = re.findall(r"\[(\w+)\]", files.get(TRANSPARENT, Output()).stdout)
    return HugePages(reserved, chosen[0] if len(chosen) == 1 else None)
