"""A group measured by nccl-tests: how it is started under srun, and what its report says of the group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..collectives.collective_program import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER, Phase, ProgramError
from ..nccl.nccl_tests import NcclTestsError, parse_nccl_tests
from .collective_job import container_options
from .round_job import Reading
from .slurm_round import Job

PROGRAMS = {
    ALL_REDUCE: "all_reduce_perf",
    ALL_GATHER: "all_gather_perf",
    REDUCE_SCATTER: "reduce_scatter_perf",
    ALL_TO_ALL: "alltoall_perf",
}


@dataclass(frozen=True)
class NcclTestsCodec:
    """One phase measured by nccl-tests, a process for each GPU. ``container`` as for torch."""

    tasks_per_node: int
    phase: Phase
    container: str | None = None

    def command(self, job: Job, deadline_seconds: int) -> list[str]:
        """Return the command that measures one group: every doubling from the least size to the largest."""
        sizes = sorted(self.phase.sizes)
        if any(size % sizes[0] or (size // sizes[0]) & (size // sizes[0] - 1) for size in sizes):
            raise ProgramError(
                f"phase {self.phase.name}: sizes {sizes}, expected doublings of the least for nccl-tests"
            )
        # The processes find each other by the PMIx that Slurm gives them.
        options = ["--mpi=pmix", *container_options(self.container, None)]
        swept = f"-b {sizes[0]} -e {sizes[-1]} -f 2 -g 1 -d float"
        repeated = f"-n {self.phase.iterations} -w {self.phase.warmup} -c 1"
        return [*options, PROGRAMS[self.phase.collective], *swept.split(), *repeated.split()]

    def read(self, group: Sequence[str], stdout: str) -> Reading:
        """Return one group's report; nccl-tests tells one time for all, and no rank that was wrong.

        Without a whole report of checked data nothing is measured: a crash, a hang and a missing line are failures.
        """
        errors: list[str] = []
        results: list[dict[str, Any]] = []
        wrong: list[int] = []
        try:
            found = parse_nccl_tests(stdout)
        except NcclTestsError as exc:
            errors.append(f"nccl-tests: {exc}")
            found = {}
        for size in self.phase.sizes if found else ():
            row = found.get(size)
            if row is None or row.wrong is None:
                errors.append(f"nccl-tests: {size} bytes {'not measured' if row is None else 'not checked'}")
                continue
            if row.wrong:
                wrong.append(size)
            late = row.ns_p99 and max(row.ns_p99, row.ns)
            results.append(
                {
                    "move": self.phase.name,
                    "step": 0,
                    "bytes": size,
                    "ns": [[row.ns] * self.tasks_per_node for _ in group],
                    "ns_p99": [[late] * self.tasks_per_node if late else None for _ in group],
                    # Whose data was wrong is not told: all of the group are under suspicion.
                    "wrong": {node: list(range(self.tasks_per_node)) for node in group} if row.wrong else {},
                }
            )
        if wrong:
            errors.append(f"wrong elements in {', '.join(map(str, wrong))} bytes")
        missing = [] if results else list(group)
        return Reading({"ranks": [], "results": results}, missing, errors, explained=False)
