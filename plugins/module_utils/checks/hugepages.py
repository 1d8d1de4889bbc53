"""Are huge pages set aside, and transparent ones used, as declared?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.hugepages import HugePages
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "hugepages"
RULES = 1
PROBES: tuple[str, ...] = ("hugepages",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, unless the class declares nothing about huge pages."""
    return [] if expect.memory.hugepages is None else ["host"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare every size of page: of one that the class does not name there are none, as they are lost to jobs."""
    found: HugePages = values["hugepages"]
    wanted = {item.size_kib: item.count for item in stated(expect.memory.hugepages).reserved}
    for size in sorted({*wanted, *found.reserved}):
        measured, count = found.reserved.get(size, 0), wanted.get(size, 0)
        if measured != count:
            why = f"another number of huge pages of {size} KiB is set aside"
            return [Finding(NAME, "host", FAIL, measured, count, "pages", why, "investigate")]
    transparent = stated(expect.memory.hugepages).transparent
    if transparent is None:
        why = f"transparent huge pages are {found.transparent or 'unknown'}, none declared"
        return [Finding(NAME, "host", PASS, sum(found.reserved.values()), sum(wanted.values()), "pages", why)]
    if found.transparent is None:
        why = "the setting of transparent huge pages could not be read"
        return [Finding(NAME, "host", INCOMPLETE, None, transparent, "", why, "investigate")]
    if found.transparent != transparent:
        why = "another setting of transparent huge pages"
        return [Finding(NAME, "host", FAIL, found.transparent, transparent, "", why, "investigate")]
    return [Finding(NAME, "host", PASS, found.transparent, transparent)]
