"""What one save of many nodes says about each of them: good, bad, or nothing.

Pure. A node is bad where it alone, or with fewer than are good, does not reach what is asked: what happens to more is
likelier the storage's fault, or its network's, than theirs, and then no node is blamed. What one node says of another
convicts neither of the two: that takes a third.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, stated
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.observation import Observation

WRITE, READ, DATA = "storage_write", "storage_read", "storage_data"
METADATA, CLOCK, CHECKPOINT, TARGET = "storage_metadata", "storage_clock", "storage_checkpoint", "storage_target"
UNITS = {WRITE: "GB/s", READ: "GB/s", DATA: "wrong blocks", METADATA: "ms", CLOCK: "s", CHECKPOINT: "s", TARGET: "GB/s"}

GOOD, BAD = "good", "bad"
# It or the other of two is at fault, and there was no third to tell which.
HELD = "held"
# Says nothing about the node: another one's fault kept it from being measured. Worth another try.
VOID = "void"
# Nothing either, by the storage's fault or for want of other hosts: another try would tell no more.
OPEN = "open"

# What is asked of the fleet's storage above the declared rate (AI storage acceptance: a save meets other traffic).
SPARE = 1.25
# A median over fewer says nothing about the one that differs.
LEAST_PEERS = 3
# Some servers stamp files in whole or even seconds: less says nothing.
STAMP_SECONDS = 2.0
# What the storage answers when it, or what a user may write to it, is used up; no host's fault.
_FULL = ("ENOSPC", "EDQUOT")
# Somebody else has the directory of the test, or could move it: no host's fault either.
_FOREIGN = "FOREIGN"
_WRONG_STATE = "WrongState"
_NO_THIRD = "no third host could tell which of the two is at fault"
# Which check a node was at, by what its answer calls the step; small files come with what is not named.
_CHECK_AT = {
    **dict.fromkeys(("start", "prepare", "make", "enter", "write"), WRITE),
    **dict.fromkeys(("read", "recheck"), READ),
    "checkpoint": CHECKPOINT,
}


@dataclass(frozen=True)
class Limits:
    """What a class asks of a node, and the fleet of its storage."""

    write_gb_per_s: float
    read_gb_per_s: float
    metadata_p99_ms: float
    slowest_over_median: float
    path: str
    shard_bytes: int
    ranks: int
    target_seconds: float

    @classmethod
    def of(cls, expect: Expectations) -> Limits:
        """Return the limits in a class' expectations."""
        own, declared = stated(expect.storage), stated(expect.checkpoint)
        return cls(
            write_gb_per_s=own.write_gb_per_s,
            read_gb_per_s=own.read_gb_per_s,
            metadata_p99_ms=own.metadata_p99_ms,
            slowest_over_median=own.slowest_over_median,
            path=declared.path,
            shard_bytes=declared.shard_bytes,
            ranks=declared.ranks,
            target_seconds=declared.target_seconds,
        )


@dataclass(frozen=True)
class Save(Observation):
    """What a group of nodes saved in one round."""


@dataclass(frozen=True)
class Outcome:
    """One check of one node in one save."""

    verdict: str
    measured: float | None = None
    expected: float | None = None
    reason: str = ""


def judge(save: Save, limits: Limits) -> dict[str, dict[str, Outcome]]:
    """Return by node the outcome of every check but the target's."""
    stopped = {node: _stopped(save, node) for node in save.group}
    # What keeps a node from going on is told by the check it was at; of the others nothing is known.
    nodes = {node: replace(each, verdict=VOID) if each.verdict == BAD else each for node, each in stopped.items()}
    speeds = {kind: _speeds(save, kind) for kind in ("write", "read")}
    found = {
        node: {
            WRITE: _speed(speeds["write"], node, limits.write_gb_per_s, limits, nodes[node]),
            READ: _read(save, speeds["read"], node, limits, nodes[node]),
            DATA: _data(save, node, nodes[node]),
            METADATA: _metadata(save, node, limits, nodes[node]),
            CLOCK: _clock(save, node, nodes[node]),
            CHECKPOINT: _checkpoint(save, node, nodes[node]),
        }
        for node in save.group
    }
    for node, each in stopped.items():
        if each.verdict in (BAD, OPEN):
            check = _CHECK_AT.get(str(save.answers[node]["phase"]), METADATA)
            found[node][check] = replace(each, expected=found[node][check].expected)
    for check in (WRITE, READ, DATA, METADATA, CLOCK, CHECKPOINT):
        bad = [node for node in save.group if found[node][check].verdict == BAD]
        good = [node for node in save.group if found[node][check].verdict == GOOD]
        if len(bad) > len(good):
            others = (
                f"so are {len(bad)} of {len(save.group)} nodes: suspect the storage or its network, no node is blamed"
            )
            for node in bad:
                outcome = found[node][check]
                why = others if len(save.group) > 1 else "no other host was there to compare it with"
                found[node][check] = replace(outcome, verdict=OPEN, reason=f"{outcome.reason}; {why}")
                if stopped[node].verdict == BAD:
                    # Nor would another try measure what comes after.
                    _close(found[node])
    return found


def _close(checks: dict[str, Outcome]) -> None:
    for check, outcome in checks.items():
        if outcome.verdict == VOID:
            checks[check] = replace(outcome, verdict=OPEN)


def _stopped(save: Save, node: str) -> Outcome:
    """Return what kept a node from going on, by whose fault that was."""
    if not save.started or node in save.unavailable:
        return Outcome(VOID, reason=save.unavailable.get(node) or save.error or "did not run")
    answer = save.answers.get(node)
    if answer is None:
        return Outcome(VOID, reason=f"no answer: its task was killed, or died ({save.error[:200]})")
    error, code = str(answer["error"]), str(answer["code"])
    if not error:
        return Outcome(VOID, reason="not measured")
    if code in ("HUB", "MEETING"):
        return Outcome(VOID, reason=error)
    if code in _FULL:
        return Outcome(OPEN, reason=f"{error}: the storage is full, or the test's share of it")
    if code == _FOREIGN:
        return Outcome(OPEN, reason=error)
    held = [each for each in answer["blocked"] if each.get("state") == "D"]
    stuck = f"; {len(held)} tasks were blocked in the kernel" if held else ""
    return Outcome(BAD, reason=f"{error}{stuck}")


def _part(save: Save, node: str, name: str) -> Mapping[str, Any] | None:
    part: Mapping[str, Any] | None = save.answers.get(node, {}).get(name)
    return None if part is None or part.get("error") else part


def gb_per_s(traffic: Mapping[str, Any] | None) -> float | None:
    """Return the rate of one node's writing or reading, None where there is none."""
    if traffic is None or not is_above_zero(traffic.get("seconds")) or not is_above_zero(traffic.get("bytes")):
        return None
    return float(traffic["bytes"]) / float(traffic["seconds"]) / 1e9


def is_above_zero(value: Any) -> bool:
    """Return whether a value is a finite number above 0."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _speeds(save: Save, kind: str) -> dict[str, float]:
    found = {node: gb_per_s(_part(save, node, kind)) for node in save.group}
    return {node: speed for node, speed in found.items() if speed is not None}


def _speed(speeds: Mapping[str, float], node: str, floor: float, limits: Limits, unmeasured: Outcome) -> Outcome:
    if node not in speeds:
        return replace(unmeasured, expected=floor)
    speed = speeds[node]
    said = f"{speed:.4g} GB/s"
    if len(speeds) >= LEAST_PEERS:
        median = statistics.median(speeds.values())
        said += f", the median of {len(speeds)} nodes is {median:.4g}"
        # All move as much: it takes so many times as long as the median.
        if median > speed * limits.slowest_over_median:
            times = f"takes {median / speed:.2f} times as long, limit {limits.slowest_over_median:g}"
            return Outcome(BAD, speed, median / limits.slowest_over_median, f"{said}: {times}")
    if speed < floor:
        return Outcome(BAD, speed, floor, f"{said}: below the class' floor")
    return Outcome(GOOD, speed, floor, said)


def _read(save: Save, speeds: Mapping[str, float], node: str, limits: Limits, unmeasured: Outcome) -> Outcome:
    part = save.answers.get(node, {}).get("read")
    if part and part.get("error"):
        return Outcome(VOID, expected=limits.read_gb_per_s, reason=str(part["error"]))
    if part and part["of"] == node:
        return Outcome(
            OPEN, speeds.get(node), limits.read_gb_per_s, "no other host was there whose shards it could read"
        )
    if part and node not in speeds:
        return Outcome(VOID, expected=limits.read_gb_per_s, reason=str(part["fault"]) or "nothing read")
    return _speed(speeds, node, limits.read_gb_per_s, limits, unmeasured)


def _data(save: Save, node: str, unmeasured: Outcome) -> Outcome:
    """Judge by who else finds the same blocks wrong: what its writer cannot read either was not its reader's fault.

    Where only one of the two finds them wrong a third has to say, who has read the same shards.
    """
    return _written(save, node) or _read_back(save, node, unmeasured)


def _written(save: Save, node: str) -> Outcome | None:
    """Return what speaks against a node by its own shards, None where nothing does."""
    own = _part(save, node, "own")
    if own is None:
        return None
    if own["wrong"]:
        said = f"its shards are wrong on the storage: {own['fault']}"
        if len(save.group) == 2:
            return Outcome(HELD, own["wrong"], 0, f"{said}; no third host could tell whether the storage is at fault")
        return Outcome(BAD, own["wrong"], 0, said)
    second = _second(save, node)
    if second is not None and not second[1]:
        return None
    verdict, third = (HELD, _NO_THIRD) if second is None else (BAD, f"wrong for {second[0]}, too")
    readers = {each: part["wrong"] for each in save.group if (part := _read_of(save, each, node)) is not None}
    said = f"its shards are wrong for {', '.join(readers) or 'their reader'} and right for itself"
    return Outcome(verdict, sum(readers.values()), 0, f"{said}; {third}")


def _read_back(save: Save, node: str, unmeasured: Outcome) -> Outcome:
    """Return what speaks for or against a node by the shards of another that it read."""
    part = save.answers.get(node, {}).get("read")
    if part and part.get("error"):
        return Outcome(VOID, expected=0, reason=str(part["error"]))
    if part is None:
        return replace(unmeasured, expected=0)
    writer = str(part["of"])
    if writer == node:
        return Outcome(OPEN, part["wrong"], 0, "no other host was there whose shards it could read")
    if not part["wrong"]:
        return Outcome(GOOD, 0, 0, f"shards of {writer} read back as they were written")
    looked, second = _part(save, writer, "own"), _second(save, writer)
    if looked is None:
        return Outcome(VOID, part["wrong"], 0, f"{part['fault']}; {writer} could not be asked to look again")
    if looked["wrong"]:
        verdict = OPEN if len(save.group) == 2 else VOID
        return Outcome(verdict, part["wrong"], 0, f"{part['fault']}; wrong for {writer}, who wrote it, too")
    said = f"{part['fault']}; right for {writer}, who wrote it"
    if second is None:
        return Outcome(HELD, part["wrong"], 0, f"{said}; {_NO_THIRD}")
    if second[1]:
        return Outcome(VOID, part["wrong"], 0, f"{said}, and wrong for {second[0]}, too")
    return Outcome(BAD, part["wrong"], 0, f"{said}, and for {second[0]}")


def _read_of(save: Save, node: str, writer: str, name: str = "read") -> Mapping[str, Any] | None:
    """Return what a node read of another's shards, as their reader or as the ``second`` one."""
    part = _part(save, node, name)
    return part if part is not None and part["of"] == writer else None


def _second(save: Save, writer: str) -> tuple[str, int] | None:
    """Return who else than its reader read a node's shards, and how many blocks were wrong then."""
    found = ((node, _read_of(save, node, writer, "second")) for node in save.group)
    return next(((node, int(part["wrong"])) for node, part in found if part is not None), None)


def _metadata(save: Save, node: str, limits: Limits, unmeasured: Outcome) -> Outcome:
    part = _part(save, node, "metadata")
    times = part["p99_ms"] if part else {}
    if not times or not all(is_above_zero(value) for value in times.values()):
        return replace(unmeasured, expected=limits.metadata_p99_ms)
    worst = max(sorted(times), key=lambda operation: float(times[operation]))
    value = float(times[worst])
    verdict = GOOD if value <= limits.metadata_p99_ms else BAD
    return Outcome(verdict, value, limits.metadata_p99_ms, f"99 of 100 {worst} calls within {value:.4g} ms")


def _clock(save: Save, node: str, unmeasured: Outcome) -> Outcome:
    skews = {
        each: float(part["skew_seconds"])
        for each in save.group
        if (part := _part(save, each, "metadata")) and isinstance(part.get("skew_seconds"), (int, float))
    }
    if node not in skews:
        return replace(unmeasured, expected=STAMP_SECONDS)
    # Held against the others: a server whose clock is off is off for all of them.
    usual = statistics.median(skews.values()) if len(skews) >= LEAST_PEERS else 0.0
    away = abs(skews[node] - usual)
    said = f"its clock and the storage's time stamps are {skews[node]:.3g} s apart"
    if len(skews) >= LEAST_PEERS:
        said += f", {usual:.3g} s in the median of {len(skews)} nodes"
    return Outcome(GOOD if away <= STAMP_SECONDS else BAD, away, STAMP_SECONDS, said)


def _checkpoint(save: Save, node: str, unmeasured: Outcome) -> Outcome:
    wrong = [each for each in save.group if _WRONG_STATE in _checkpoint_error(save, each)]
    if wrong and len(save.group) == 2:
        # One of the two loads what both have saved.
        return Outcome(HELD, reason=f"PyTorch on {wrong[0]} loaded another state than both saved; {_NO_THIRD}")
    part = save.answers.get(node, {}).get("checkpoint")
    if part is None:
        return unmeasured
    error = _checkpoint_error(save, node)
    if _WRONG_STATE in error:
        return Outcome(BAD, reason=f"PyTorch loaded another state than it saved: {error}")
    if error:
        return Outcome(VOID, reason=f"PyTorch: {error}")
    if not is_above_zero(part.get("save_seconds")) or not is_above_zero(part.get("load_seconds")):
        return Outcome(VOID, reason="PyTorch said nothing of how long it took")
    said = (
        f"{part.get('bytes', 0) / 1e6:.4g} MB saved by {part.get('ranks')} ranks (training held up for "
        f"{part.get('blocking_seconds', 0):.3g} s), loaded by {part.get('loaded_by')} in {part['load_seconds']:.3g} s"
    )
    return Outcome(GOOD, float(part["save_seconds"]), None, said)


def _checkpoint_error(save: Save, node: str) -> str:
    part = save.answers.get(node, {}).get("checkpoint")
    return "" if part is None else str(part["error"])


def target(save: Save, limits: Limits, without: Sequence[str]) -> Outcome | None:
    """Return whether a save reached the declared rate, None where nobody wrote; ``without`` those who are at fault.

    A job's ranks wait for the slowest. What is asked of the ranks that were there is their part of the whole.
    """
    parts = [part for node in save.group if node not in without and (part := _part(save, node, "write")) is not None]
    parts = [part for part in parts if gb_per_s(part) is not None]
    if not parts:
        return None
    total = sum(int(part["bytes"]) for part in parts)
    ranks = max(1, round(total / limits.shard_bytes))
    measured = total / max(float(part["seconds"]) for part in parts) / 1e9
    needed = min(total, limits.shard_bytes * limits.ranks) / limits.target_seconds * SPARE / 1e9
    said = (
        f"{measured:.4g} GB/s by {len(parts)} nodes, {needed:.4g} are needed for a save in {limits.target_seconds:g} s"
    )
    if ranks < limits.ranks:
        said += f"; shown for {ranks} of {limits.ranks} ranks"
    if measured < needed:
        return Outcome(OPEN, measured, needed, f"{limits.path} as a whole: {said}; no node is blamed")
    return Outcome(GOOD, measured, needed, said)
