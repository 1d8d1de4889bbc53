"""What a group of nodes did in one round of the fabric or storage stage, as the round's module returned it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Observation:
    """One group's job. ``error`` says what was wrong with the job as a whole; ``answers`` are by node.

    ``unavailable`` says of nodes that Slurm did not give why.
    """

    number: int
    group: tuple[str, ...]
    started: bool
    error: str
    answers: Mapping[str, Mapping[str, Any]]
    unavailable: Mapping[str, str]

    @classmethod
    def read(cls, number: int, item: Mapping[str, Any]) -> Self:
        """Return an item of the module's result; what is missing in it counts against the group."""
        group = tuple(str(node) for node in item["group"])
        answers = {str(answer["node"]): answer for answer in item.get("answers") or () if answer.get("node") in group}
        error = "" if item.get("ok") is True else str(item.get("error") or "failed")
        return cls(number, group, item.get("started") is True, error, answers, dict(item.get("unavailable") or {}))
