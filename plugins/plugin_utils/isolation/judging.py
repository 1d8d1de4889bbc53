"""What one group's collective says about that group: good, bad, or nothing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

GOOD = "good"
BAD = "bad"
# The group was not measured: its job never ran, or a member was gone. Says nothing about anybody.
VOID = "void"
ALL_REDUCE = "all_reduce"
UNIT = "GB/s"


class SettingsError(ValueError):
    """Collective settings that cannot be judged by; the text names the key, what was found and what was expected."""


@dataclass(frozen=True)
class Floor:
    """Least bus bandwidth, in GB/s, of groups of ``nodes_min`` or more nodes at one message size."""

    collective: str
    nodes_min: int
    size_bytes: int
    busbw_gb_per_s: float


@dataclass(frozen=True)
class Settings:
    """What a hardware class asks of its collectives, and how a campaign may go about it.

    ``racks`` by node is used to pair across racks. A campaign plans no more than ``max_rounds`` rounds of pairs.
    """

    ranks_per_node: int
    sizes_bytes: tuple[int, ...]
    iterations: int
    floors: tuple[Floor, ...]
    racks: Mapping[str, str | None] = field(default_factory=dict)
    max_rounds: int = 24

    @classmethod
    def from_expect(
        cls, collective: Any, racks: Mapping[str, str | None] | None = None, max_rounds: int = 24
    ) -> Settings:
        """Return the settings in a class' ``collective`` expectations; raises SettingsError."""
        if not isinstance(collective, Mapping):
            raise SettingsError(f"collective is {type(collective).__name__}, expected a mapping")
        try:
            floors = tuple(
                Floor(
                    str(floor["collective"]),
                    _positive(floor["nodes_min"], "floors.nodes_min"),
                    _positive(floor["size_bytes"], "floors.size_bytes"),
                    float(floor["busbw_gb_per_s"]),
                )
                for floor in collective["floors"]
            )
            settings = cls(
                _positive(collective["ranks_per_node"], "ranks_per_node"),
                tuple(_positive(size, "sizes_bytes") for size in collective["sizes_bytes"]),
                _positive(collective["iterations"], "iterations"),
                floors,
                racks or {},
                max_rounds,
            )
        except KeyError as exc:
            raise SettingsError(f"collective.{exc.args[0]} is missing") from exc
        except (TypeError, ValueError) as exc:
            raise SettingsError(f"collective: {exc}") from exc
        return settings

    def floors_for(self, nodes: int) -> tuple[Floor, ...]:
        """Return the floors that hold for a group of ``nodes``: per size the one with the largest ``nodes_min``."""
        chosen: dict[int, Floor] = {}
        for floor in sorted(self.floors, key=lambda each: each.nodes_min):
            if floor.collective == ALL_REDUCE and floor.nodes_min <= nodes:
                chosen[floor.size_bytes] = floor
        return tuple(chosen[size] for size in sorted(chosen))

    def fault(self) -> str:
        """Return why nothing can be judged by these settings, empty if everything can."""
        for floor in self.floors:
            if floor.collective != ALL_REDUCE:
                return f"the hardware class has a floor for {floor.collective}, which is not measured"
            if floor.size_bytes not in self.sizes_bytes:
                return f"the hardware class has a floor at {size_text(floor.size_bytes)}, which is not in sizes_bytes"
            if not (math.isfinite(floor.busbw_gb_per_s) and floor.busbw_gb_per_s > 0):
                return f"the floor at {size_text(floor.size_bytes)} is {floor.busbw_gb_per_s:g}, expected more than 0"
        if not self.floors_for(2):
            return "the hardware class has no all_reduce floor for two nodes (collective.floors)"
        return ""


@dataclass(frozen=True)
class Observation:
    """What one group did in one round, as ``collective_round`` returns it; ``unavailable``: why nodes are gone."""

    number: int
    group: tuple[str, ...]
    ok: bool
    started: bool
    error: str
    ranks: tuple[Mapping[str, Any], ...]
    unavailable: Mapping[str, str]

    @classmethod
    def from_dict(cls, number: int, data: Mapping[str, Any]) -> Observation:
        """Return the observation in ``data``; what is missing in it counts against it."""
        return cls(
            number,
            tuple(str(node) for node in data["group"]),
            data.get("ok") is True,
            data.get("started") is True,
            str(data.get("error") or ""),
            tuple(data.get("ranks") or ()),
            dict(data.get("unavailable") or {}),
        )


@dataclass(frozen=True)
class Outcome:
    """An observation judged; ``measured`` and ``expected`` are GB/s at the size that is worst against its floor.

    ``ran``: every rank went through all of it, so that a bad verdict is about speed or data. Without, a rank crashed,
    hung or said nothing, which what the ranks are given can cause as well as a node.
    """

    number: int
    group: tuple[str, ...]
    verdict: str
    measured: float | None = None
    expected: float | None = None
    size_bytes: int | None = None
    reason: str = ""
    ran: bool = False
    less_is_better: bool = False

    @property
    def share(self) -> float:
        """What was measured as a part of what was expected; the worst outcome has the least."""
        share = (self.measured or 0) / (self.expected or 1)
        return -share if self.less_is_better else share

    def text(self) -> str:
        """Return what happened, to stand behind the names of those it happened to."""
        if self.measured is None:
            return self.reason
        return f"all-reduce of {size_text(self.size_bytes or 0)} reached {self.measured:.3g} {UNIT}"


def bus_bandwidth(ranks: int, size_bytes: int, seconds: float) -> float:
    """Return an all-reduce's bus bandwidth in GB/s, as nccl-tests defines it: independent of the number of ranks."""
    return 2 * (ranks - 1) / ranks * size_bytes / seconds / 1e9


def iteration_seconds(ranks: Sequence[Mapping[str, Any]], size_bytes: int) -> list[float] | None:
    """Return how long each iteration took its slowest rank; None unless every rank timed the same number of them."""
    columns: list[Sequence[float]] = []
    for rank in ranks:
        found = [size for size in rank.get("sizes", ()) if size.get("bytes") == size_bytes]
        if len(found) != 1 or found[0].get("correct") is not True or not found[0].get("seconds"):
            return None
        columns.append(found[0]["seconds"])
    if not columns or len({len(column) for column in columns}) != 1:
        return None
    slowest = [max(row) for row in zip(*columns, strict=True)]
    return slowest if all(math.isfinite(value) and value > 0 for value in slowest) else None


def judge(observation: Observation, settings: Settings) -> Outcome:
    """Judge a group against its class' floors.

    The median over the iterations counts: a slow member or link slows every one of them, while a single late iteration
    on a shared network is nobody's fault.
    """
    nodes = len(observation.group)
    floors = settings.floors_for(nodes)
    number, group = observation.number, observation.group
    if not observation.started or observation.unavailable:
        gone = ", ".join(f"{node}: {why}" for node, why in observation.unavailable.items())
        return Outcome(number, group, VOID, reason=observation.error or gone or "did not run")
    if not floors:
        return Outcome(number, group, VOID, reason=f"the hardware class has no floor for {nodes} nodes")
    if not observation.ok:
        reason = observation.error or "failed"
        ran = _wrong_throughout(observation.ranks, nodes * settings.ranks_per_node, settings)
        return Outcome(number, group, BAD, expected=floors[0].busbw_gb_per_s, reason=reason, ran=ran)
    if len(observation.ranks) != nodes * settings.ranks_per_node:
        return Outcome(number, group, VOID, reason=f"{len(observation.ranks)} ranks, expected all of {nodes} nodes")
    worst: tuple[float, float, Floor] | None = None
    for floor in floors:
        seconds = iteration_seconds(observation.ranks, floor.size_bytes)
        if seconds is None or len(seconds) != settings.iterations:
            return Outcome(number, group, VOID, reason=f"nothing measured at {size_text(floor.size_bytes)}")
        measured = bus_bandwidth(nodes * settings.ranks_per_node, floor.size_bytes, statistics.median(seconds))
        ratio = measured / floor.busbw_gb_per_s
        if worst is None or ratio < worst[0]:
            worst = (ratio, measured, floor)
    assert worst is not None
    ratio, measured, floor = worst
    verdict = GOOD if ratio >= 1 else BAD
    return Outcome(number, group, verdict, float(f"{measured:.4g}"), floor.busbw_gb_per_s, floor.size_bytes, ran=True)


def _wrong_throughout(ranks: Sequence[Mapping[str, Any]], count: int, settings: Settings) -> bool:
    """Return whether all ranks timed everything that was asked, and some of the data came out wrong."""
    sizes = [size for rank in ranks for size in rank.get("sizes", ())]
    whole = all(
        tuple(size.get("bytes") for size in rank.get("sizes", ())) == settings.sizes_bytes
        and all(len(size.get("seconds") or ()) == settings.iterations for size in rank["sizes"])
        for rank in ranks
    )
    return whole and len(ranks) == count and any(size.get("correct") is not True for size in sizes)


def size_text(size_bytes: int) -> str:
    """Return a message size as people write it (``8 MiB``)."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"


def _positive(value: Any, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingsError(f"{key} is {value!r}, expected a whole number above 0")
    return value
