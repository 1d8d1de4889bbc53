"""Does the ring buffer still hold every kernel message since the log was last read?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.heartbeat import Heartbeat
from ..probes.kernel_log import Message, begins_with_boot
from ..words.expectations import Expectations
from ..words.finding import INCOMPLETE, PASS, Finding

NAME = "log_continuity"
RULES = 2
PROBES: tuple[str, ...] = ("boot_id", "heartbeat", "kernel_ring", "preflights")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return ["host"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare the oldest message with the last one that was judged."""
    ring: tuple[Message, ...] = values["kernel_ring"]
    last: Heartbeat | None = values["heartbeat"]
    boot = values["boot_id"]
    if last is not None and last.boot_id != boot:
        last = None
    # A preflight reads the whole journal: what the ring had lost before it is no longer unread.
    read_again = last is not None and boot in values["preflights"] and values["preflights"][boot].ended > last.time
    oldest = next((message.seconds for message in ring if message.seconds is not None), None)
    if begins_with_boot(ring):
        why = ""
    elif last is None:
        why = "the beginning of this boot is lost, and no health run has read it"
    elif last.log_lost and not read_again:
        why = "messages were lost before; a preflight reads the journal again"
    elif oldest is None or oldest > last.log_seconds:
        why = f"the oldest message is of uptime {oldest} s, the last one judged of {last.log_seconds} s: some were lost"
    else:
        why = ""
    if why:
        return [Finding(NAME, "host", INCOMPLETE, "lost", "whole", "", why, "investigate")]
    return [Finding(NAME, "host", PASS, "whole", "whole")]
