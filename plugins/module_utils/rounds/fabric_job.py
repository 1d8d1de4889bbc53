"""The program of a fabric round, ``muster fabric``: how it is called for a group, and how its answers are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .round_job import Reading, muster_command, read_answers
from .slurm_round import Job


@dataclass(frozen=True)
class FabricCodec:
    """``test`` and ``nodes`` as ``muster fabric`` takes them; one end runs on each node of a group."""

    program: str
    nodes: Mapping[str, Mapping[str, Any]]
    test: Mapping[str, Any]
    timeout_seconds: int
    tasks_per_node: int = 1

    def command(self, job: Job, deadline_seconds: int) -> list[str]:
        """Return the command of one end, which is told of its group's nodes alone."""
        spec = {**self.test, "nodes": {node: self.nodes[node] for node in job.group}}
        return muster_command(self.program, "fabric", spec, job, (self.timeout_seconds, deadline_seconds))

    def read(self, group: Sequence[str], stdout: str) -> Reading:
        """Return the ends' answers; one of a sweep that ended early has an error."""
        return read_answers(group, stdout, ("tests", "servers", "counters"), _fault)


_TEST = {"phase": str, "tool": str, "device": str, "server": str, "client": str, "error": str, "bytes": int}


def _fault(record: Mapping[str, Any]) -> str:
    """Return what cannot be read in a node's answer, empty if all can."""
    tests, counters = record.get("tests"), record.get("counters")
    if not isinstance(tests, list) or not isinstance(record.get("servers"), list) or not isinstance(counters, dict):
        return "an answer without tests, servers and counters"
    for test in tests:
        if not isinstance(test, dict) or not all(isinstance(test.get(key), kind) for key, kind in _TEST.items()):
            return f"a test that cannot be read: {str(test)[:80]}"
        if "value" not in test:
            return f"a test without a value: {str(test)[:80]}"
    for device, phases in counters.items():
        for phase, grown in phases.items() if isinstance(phases, dict) else (("", None),):
            if not isinstance(grown, dict) or not _is_growth(grown):
                return f"counters of {device} that cannot be read ({phase})"
    return ""


def _is_growth(grown: Mapping[str, Any]) -> bool:
    counts, missing = grown.get("grown"), grown.get("missing")
    return (
        isinstance(counts, dict)
        and all(isinstance(count, int) and count >= 0 for count in counts.values())
        and isinstance(missing, list)
    )
