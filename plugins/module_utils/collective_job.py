"""One Slurm job per group of nodes: how it is started, and what its output says about the group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .collective import decode
from .host import Output
from .slurm_round import Job, addresses_text, ending_of, srun_argv, trouble_of

# What ranks report the versions of.
LIBRARIES = ("torch", "nccl")


@dataclass(frozen=True)
class Settings:
    """What all jobs of a round share. A rank has ``deadline_seconds`` in all, ``timeout_seconds`` for each step."""

    partition: str
    python: str
    program: str
    backend: str
    ranks_per_node: int
    sizes: tuple[int, ...]
    iterations: int
    warmup: int
    deadline_seconds: int
    timeout_seconds: int

    def argv(self, job: Job) -> list[str]:
        """Return the command that runs one group's collective."""
        command = [
            self.python,
            self.program,
            "collective",
            f"--backend={self.backend}",
            f"--addresses={addresses_text(job)}",
            f"--port={job.port}",
            f"--sizes={','.join(str(size) for size in self.sizes)}",
            f"--iterations={self.iterations}",
            f"--warmup={self.warmup}",
            f"--timeout={self.timeout_seconds}",
            f"--deadline={self.deadline_seconds}",
        ]
        return srun_argv(job, self.partition, self.ranks_per_node, self.deadline_seconds, command)

    def observe(self, group: Sequence[str], output: Output, states: Mapping[str, str]) -> dict[str, Any]:
        """Return what one group's job showed; see the function of this name."""
        return observe(group, self, output, states)


def observe(group: Sequence[str], settings: Settings, output: Output, states: Mapping[str, str]) -> dict[str, Any]:
    """Return what one group's job showed. ``output`` is srun's, with ``rc`` None when it was ended at its deadline.

    ``ok`` means that every rank of every node gave one whole line with correct data for every size and iteration, and
    that srun ended with 0. Speed is judged elsewhere. ``states`` are the nodes' Slurm states after the job: a member
    without a line that Slurm has lost is ``unavailable``, gone rather than slow.
    """
    records, faults = decode(output.stdout)
    ranks: list[dict[str, Any]] = []
    errors: list[str] = list(faults)
    seen: set[int] = set()
    per_node = dict.fromkeys(group, 0)
    for record in records:
        rank, node = record.get("rank"), record.get("node")
        if not isinstance(rank, int) or not isinstance(node, str) or node not in per_node or rank in seen:
            errors.append(f"a line of rank {rank!r} on {node!r} that nobody asked for")
            continue
        seen.add(rank)
        sizes, fault = _checked_sizes(record.get("sizes"), settings)
        said = record.get("error")
        if said or fault:
            errors.append(f"rank {rank} on {node}: {said or fault}")
        else:
            per_node[node] += 1
        ranks.append(
            {
                "node": node,
                "rank": rank,
                "sizes": sizes,
                "error": str(said or ""),
                "phase": record.get("phase"),
                "versions": _versions(record.get("versions")),
                # As the rank told it; whoever judges it takes nothing in it for granted.
                **({"transport": record["transport"]} if "transport" in record else {}),
            }
        )
    answered = {rank["node"] for rank in ranks}
    missing = [node for node in group if node not in answered]
    if missing:
        errors.append(f"no result from {', '.join(missing)}")
    short = [f"{node} {per_node[node]}" for node in group if per_node[node] != settings.ranks_per_node]
    if short and not errors:
        errors.append(f"complete ranks: {', '.join(short)}, expected {settings.ranks_per_node} each")
    gone = trouble_of(output, missing, states)
    # What ranks say is clearer than how srun ended them.
    errors += ending_of(output, settings.deadline_seconds, bool(errors))
    return {
        "group": list(group),
        "ok": not errors,
        "started": True,
        "error": "; ".join(errors)[:2000],
        "ranks": sorted(ranks, key=lambda rank: rank["rank"]),
        "missing": missing,
        "unavailable": gone,
    }


def _checked_sizes(sizes: Any, settings: Settings) -> tuple[list[dict[str, Any]], str]:
    """Return the sizes that can be read and the first thing that is wrong with them."""
    kept: list[dict[str, Any]] = []
    fault = ""
    for size in sizes if isinstance(sizes, list) else []:
        seconds = size.get("seconds") if isinstance(size, dict) else None
        if (
            not isinstance(seconds, list)
            or not isinstance(size.get("bytes"), int)
            or not all(isinstance(value, (int, float)) and math.isfinite(value) and value > 0 for value in seconds)
        ):
            fault = fault or f"unreadable measurement {str(size)[:80]}"
            continue
        correct = size.get("correct") is True
        if len(seconds) != settings.iterations:
            fault = fault or f"{len(seconds)} iterations of {size['bytes']} bytes, expected {settings.iterations}"
        elif not correct:
            fault = fault or f"{size.get('wrong', 'some')} wrong elements in {size['bytes']} bytes"
        kept.append({"bytes": size["bytes"], "seconds": seconds, "correct": correct, "wrong": size.get("wrong", 0)})
    found = [size["bytes"] for size in kept]
    if not fault and found != list(settings.sizes):
        fault = f"sizes {found}, expected {list(settings.sizes)}"
    return kept, fault


def _versions(said: Any) -> dict[str, str]:
    """Return the versions of the libraries that a rank used, without what is no version of one."""
    items = said.items() if isinstance(said, dict) else ()
    return {name: text[:80] for name, text in items if name in LIBRARIES and isinstance(text, str)}
