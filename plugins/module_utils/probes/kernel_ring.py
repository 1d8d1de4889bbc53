"""``dmesg``: the kernel's ring buffer, which is read at once and never waits for a disk, but forgets its oldest lines.

Lines are ``[   12.345678] TEXT``: seconds since boot, which no correction of the clock moves.
"""

from __future__ import annotations

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations
from .kernel_log import Message, messages_in

NAME = "kernel_ring"
ARGV = ("dmesg",)
TIMEOUT_SECONDS = 5.0


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> tuple[Message, ...]:
    """Return the messages that are still there, in order; raises Unreadable."""
    messages = messages_in(output)
    if all(message.seconds is None for message in messages):
        raise Unreadable(f"no message with a time in {len(messages)} lines, expected '[   12.345678] ...'", messages)
    return messages


def since(output: Output, seconds: float) -> Output:
    """Return the output from the last message on that is not newer than ``seconds`` of uptime.

    That one was judged before; it stays, since a log without any line could not be told from one that was not read.
    """
    if output.rc != 0 or output.error:
        return output
    lines = output.stdout.split("\n")
    first = 0
    for index, line in enumerate(lines[:-1]):
        try:
            (message,) = messages_in(Output(line + "\n")) if line.strip() else (Message("", ""),)
        except Unreadable:
            # Whoever parses it says why.
            return output
        now = message.seconds
        if now is not None and now <= seconds:
            first = index
    return Output("\n".join(lines[first:]), output.stderr, output.rc)
