"""What nccl-tests printed: a whole report of checked data, wrong data, or too little to measure anything by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import bus_factor
from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_tests import (
    NcclTestsError,
    disagreement,
    fault_of,
    parse_nccl_tests,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding

from .row import Row


def _report(
    data: bytes, expect: Mapping[str, Any], ranks: int, collective: str, hosts: Sequence[str]
) -> Sequence[Finding]:
    """Judge whether the report can be measured by; how fast it was is another question."""
    try:
        found = parse_nccl_tests(data.decode("utf-8", errors="replace"))
    except NcclTestsError as exc:
        return [Finding("data", "network", INCOMPLETE, reason=str(exc))]
    if hosts and (fault := fault_of(found, hosts, ranks // len(hosts))):
        return [Finding("data", "network", INCOMPLETE, reason=fault)]
    differ = [fault for row in found.rows if (fault := disagreement(row, bus_factor(collective, ranks)))]
    if differ:
        return [Finding("data", "network", INCOMPLETE, reason=differ[0])]
    wrong = [row.size for row in found.rows if row.wrong]
    if wrong:
        return [Finding("data", "network", FAIL, reason=f"wrong elements at {len(wrong)} sizes")]
    if any(row.wrong is None for row in found.rows):
        return [Finding("data", "network", INCOMPLETE, reason="data was not checked")]
    return [Finding("data", "network", PASS)]


def _row(
    file: str,
    verdict: str,
    why: str = "",
    ranks: int = 16,
    hosts: Sequence[str] = (),
) -> Row:
    """Return the row of a report by so many ranks; ``hosts`` are theirs, where it names all ranks."""
    collective = next((name for word, name in _COLLECTIVES.items() if word in file), "all_reduce")
    judge = partial(_report, ranks=ranks, collective=collective, hosts=hosts)
    return Row(f"nccl-tests/{file}", "nccl_tests", ("data",), verdict, why=why, judge=judge)


_COLLECTIVES = {"allgather": "all_gather", "reducescatter": "reduce_scatter", "alltoall": "all_to_all"}
_UNCHECKED = "the check was off: fast, but nobody knows whether it was right"
_EXCERPT = "an excerpt without the header that says what its columns are"
_NO_END = "the report ends before it says how many values were out of bounds"
_ELIDED = "rows are left out"
_NO_REPORT = "no report at all"
ROWS = [
    _row("a100-2node-allreduce-new-columns.txt", "pass", hosts=("{host1}", "{host2}")),
    _row("a100x8-allgather-check-off-old-columns.txt", "incomplete", _UNCHECKED, 8, ("localhost",)),
    _row("a100x8-allreduce-check-off-old-columns.txt", "incomplete", _UNCHECKED, 8, ("localhost",)),
    _row("a100x8-allreduce-columns-removed.txt", "incomplete", "its columns were removed by hand"),
    _row("a100x8-allreduce-new-columns.txt", "pass", ranks=8, hosts=("{hostname}",)),
    _row("a100x8-reducescatter-check-off-old-columns.txt", "incomplete", _UNCHECKED, 8, ("localhost",)),
    _row("a100x8-alltoall-check-off-old-columns.txt", "incomplete", _UNCHECKED, 8, ("localhost",)),
    _row("a3high-2node-allgather-tcpx-check-off.txt", "incomplete", _EXCERPT),
    _row("a3mega-2node-allgather-tcpxo.txt", "incomplete", _EXCERPT),
    _row("a3ultra-2node-allgather-roce-h200.txt", "incomplete", _EXCERPT),
    _row("dgxa100-2node-allreduce-ib-old-columns.txt", "pass"),
    _row("dgxa100-4node-allreduce-old-columns.txt", "pass", ranks=32),
    _row("gb200-1440gpu-allreduce-20racks.txt", "pass", ranks=1440),
    _row("gb200-72gpu-allreduce-nvl72.txt", "pass", ranks=72),
    _row("h100-2node-allreduce-ib-xe9680-full.txt", "pass", hosts=("bm-h100-01", "bm-h100-02")),
    # Published as a run on 64 GPUs; its two bandwidths are those of 96.
    _row("h100-64gpu-allreduce-sharp-ib-coreweave.txt", "pass", ranks=96),
    _row("h100-nompi-16-processes-busbw-0.txt", "incomplete", "16 runs of one GPU each: nothing went over a wire"),
    _row("h100x8-crash-system-not-yet-initialized.txt", "incomplete", _NO_REPORT),
    _row("nccl-warn-failed-net-plugin.log", "incomplete", _NO_REPORT),
    _row("nccl-warn-ib-completion-error-12.log", "incomplete", _NO_REPORT),
    _row("oci-h100-2node-allreduce-roce.txt", "pass", hosts=("h100-ord01-03-14", "h100-ord01-03-294")),
    _row("oci-ncclscout-pairwise-3nodes.txt", "incomplete", _NO_REPORT),
    _row("p4de-2node-allreduce-efa-srun-labels.txt", "incomplete", _NO_END),
    # Its bandwidths are those of one node's eight ranks.
    _row("p5-2node-allreduce-awsbatch-mpi-prefix.txt", "pass", ranks=8),
    _row("p5-2node-allreduce-efa-srun-labels.txt", "incomplete", _NO_END),
    _row("p5-2node-allreduce-eks-mpi-prefix.txt", "incomplete", _ELIDED),
    _row("p5en-16node-allreduce-elided.txt", "incomplete", _ELIDED),
    _row("pytorch-nccl-watchdog-timeout-600s.log", "incomplete", _NO_REPORT),
    _row(
        "rtx3090-3node-allreduce-162-failed-sci-wrong.txt",
        "fail",
        "162 values out of bounds, wrong in every row",
        ranks=3,
        hosts=("worker1", "worker2", "worker3"),
    ),
    _row("v100-2node-allreduce-roce-100g-old-columns.txt", "pass", "right; how fast is another question"),
]
NOT_COVERED: dict[str, str] = {}
