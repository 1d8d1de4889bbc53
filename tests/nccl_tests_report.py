"""What nccl-tests prints, as 2.13 to 2.16 lay it out (src/common.cu); a unit test holds it against a recorded one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ALL_REDUCE = 2.0


def rank_line(rank: int, host: str, device: int, group: int = 0) -> str:
    """Return the line of one process, each device in a PCI slot of its own."""
    place = f"[0000:{0x10 + 0x10 * device:02x}:00]"
    return f"#  Rank {rank:2} Group {group:2} Pid {40000 + rank:6} on {host:>10} device {device:2} {place} NVIDIA H100"


def row(size: int, ranks: int, us: float, factor: float = ALL_REDUCE, wrong: int = 0) -> str:
    """Return the row of one size that took ``us`` microseconds out of place and in place.

    ``factor`` is the bus bandwidth over the algorithm's, but for (ranks - 1) / ranks.
    """
    time = f"{us:7.0f}" if us >= 10000 else f"{us:7.1f}" if us >= 100 else f"{us:7.2f}"
    algbw = size / us / 1e3
    side = f"  {time}  {algbw:6.2f}  {algbw * factor * (ranks - 1) / ranks:6.2f}  {wrong:5g}"
    return f"{size:12}  {size // 4:12}  {'float':>8}  {'sum':>6}  {-1:6}{side}{side}"


def report(
    hosts: Sequence[str],
    each: int,
    times: Mapping[int, float],
    factor: float = ALL_REDUCE,
    wrong: int = 0,
) -> str:
    """Return a report of ``each`` ranks on every host; ``times`` are microseconds by size."""
    count = len(hosts) * each
    mean = sum(size / us / 1e3 * factor * (count - 1) / count for size, us in times.items()) / len(times)
    ranks = [(host, device) for host in hosts for device in range(each)]
    sides = (
        f"# {'':10}  {'':12}  {'':8}  {'':6}  {'':6}           out-of-place                       in-place          "
    )
    names, units = (
        f"# {words[0]:>10}  {words[1]:>12}  {words[2]:>8}  {words[3]:>6}  {words[4]:>6}"
        + f"  {words[5]:>7}  {words[6]:>6}  {words[7]:>6} {words[8]:>6}" * 2
        for words in (
            ("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong"),
            ("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", ""),
        )
    )
    lines = [
        f"# nThread 1 nGpus 1 minBytes {min(times)} maxBytes {max(times)} step: 2(factor) warmup iters: 5 iters: 20"
        " agg iters: 1 validation: 1 graph: 0",
        "#",
        "# Using devices",
        *(rank_line(number, host, device) for number, (host, device) in enumerate(ranks)),
        "NCCL version 2.26.2+cuda12.8",
        "#",
        sides,
        names,
        units,
        *(row(size, count, us, factor, wrong) for size, us in times.items()),
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# Avg bus bandwidth    : {mean:g} ",
        "#",
    ]
    return "\n".join(lines) + "\n"
