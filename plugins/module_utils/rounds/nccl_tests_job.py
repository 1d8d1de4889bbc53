"""A group measured by nccl-tests: how it is started under srun, and what its report says of the group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..collectives.collective_program import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    REDUCE_SCATTER,
    Phase,
    ProgramError,
    bus_factor,
)
from ..collectives.link_changes import LinksTold
from ..nccl.nccl_tests import Measurement, NcclTestsError, disagreement, fault_of, parse_nccl_tests
from ..words.answer_lines import PREFIX, answers_in
from .collective_job import container_options
from .round_job import Reading
from .slurm_round import Job

PROGRAMS = {
    ALL_REDUCE: "all_reduce_perf",
    ALL_GATHER: "all_gather_perf",
    REDUCE_SCATTER: "reduce_scatter_perf",
    ALL_TO_ALL: "alltoall_perf",
}
# What each rank has of a collective that gives every rank a part of its own is a multiple of this (src/all_gather.cu).
PART_BYTES = 16


def moved_bytes(collective: str, size: int, ranks: int) -> int:
    """Return the size that nccl-tests makes of one asked for, and tells in its row.

    Of one too small for all ranks it moves nothing; what stands for it is the least that it moves, as with PyTorch.
    """
    if collective == ALL_REDUCE:
        return size
    least = PART_BYTES * ranks
    return max(least, size // least * least)


@dataclass(frozen=True)
class NcclTestsCodec:
    """One phase measured by nccl-tests, a process for each GPU. ``container`` as for torch.

    On the hosts the node program ``executable`` starts each process and watches ``links``. Inside an image nobody does:
    it need not have the Python for that.
    """

    tasks_per_node: int
    phase: Phase
    executable: str
    links: tuple[str, ...] = ()
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
        if self.container is None:
            options += [self.executable, "watch-links", *(f"--link={name}" for name in self.links), "--"]
        swept = f"-b {sizes[0]} -e {sizes[-1]} -f 2 -g 1 -d float"
        repeated = f"-n {self.phase.iterations} -w {self.phase.warmup} -c 1"
        return [*options, PROGRAMS[self.phase.collective], *swept.split(), *repeated.split()]

    def read(self, group: Sequence[str], stdout: str) -> Reading:
        """Return one group's report; nccl-tests tells one time for all, and no rank that was wrong.

        Without one whole report of all ranks on the group's hosts nothing is measured: a crash, a hang, a missing line
        and ranks that ran apart are failures. So is a size whose data nobody checked, or whose columns disagree. There
        are no ``stalls``, of which nccl-tests tells nothing, and no ``links`` where nobody watched them.
        """
        errors: list[str] = []
        results: list[dict[str, Any]] = []
        wrong: list[int] = []
        links, hosts = self._told(group, stdout, errors)
        found = self._rows(hosts, stdout, errors)
        ranks = len(group) * self.tasks_per_node
        factor = bus_factor(self.phase.collective, ranks)
        for size in self.phase.sizes if found else ():
            row = found.get(moved_bytes(self.phase.collective, size, ranks))
            if row is None or row.wrong is None:
                errors.append(f"nccl-tests: {size} bytes {'not measured' if row is None else 'not checked'}")
                continue
            if row.wrong:
                wrong.append(size)
            if fault := disagreement(row, factor):
                errors.append(f"nccl-tests: {size} bytes cannot be read: {fault}")
                continue
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
        silent = [node for node, told in links.items() if not told]
        if silent and results:
            errors.append(f"nothing told of the links of {', '.join(silent)}")
        watched = {"links": links} if self.container is None else {}
        missing = silent if results else list(group)
        return Reading({"ranks": [], "results": results, **watched}, missing, errors, explained=False)

    def _rows(self, hosts: Sequence[str], stdout: str, errors: list[str]) -> dict[int, Measurement]:
        """Return what was measured by size, nothing unless it is one report of all ranks on these hosts."""
        try:
            report = parse_nccl_tests("".join(line for line in stdout.splitlines(True) if PREFIX not in line))
        except NcclTestsError as exc:
            errors.append(f"nccl-tests: {exc}")
            return {}
        if fault := fault_of(report, hosts, self.tasks_per_node):
            errors.append(f"nccl-tests: {fault}")
            return {}
        rows = report.rows
        if self.phase.collective == ALL_TO_ALL:
            # It cannot be done in place, where nccl-tests runs it all the same and checks nothing (src/alltoall.cu).
            rows = tuple(replace(row, sides=row.sides[:1]) for row in rows)
        return {row.size: row for row in rows}

    def _told(self, group: Sequence[str], stdout: str, errors: list[str]) -> tuple[dict[str, list[Any]], list[str]]:
        """Return what nodes told of their links, or nothing where nobody watched them, and how their hosts are called.

        A host that told no name has its node's.
        """
        told = LinksTold(group if self.container is None else (), self.links)
        hosts = {node: node for node in group}
        for answer in answers_in(stdout, errors):
            node = answer["node"]
            if node not in told.by_node:
                errors.append(f"an answer of {node!r} that nobody asked for")
            elif fault := told.take(node, answer.get("links")):
                errors.append(f"{node}: {fault}")
            else:
                hosts[node] = str(answer.get("host") or node)
        return told.by_node, list(hosts.values())
