"""How often a job saves its state, what failures cost it then, and how fast storage has to be: pure arithmetic.

M is the mean time between failures of the whole job, w the time for which one save stops it, t the time of work between
two saves, R what a failure costs beyond the work that is repeated. Failures are taken for independent and as likely at
one time as at another.

- M = 1 / (nodes x rate). From 6.5 failures per 1,000 node-days it gives the 1.8 h at 16,384 GPUs and 0.23 h at 131,072
  that "Revisiting Reliability in Large-Scale ML Research Clusters" (arXiv 2410.21680) projects.
- t = sqrt(2 w M): J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974.
- t = sqrt(2 w M) (1 + sqrt(w / 2M) / 3 + (w / 2M) / 9) - w, and M where w >= 2M; work done / time = t / (M e^(R/M)
  (e^((t+w)/M) - 1)), of which 1 - w/t - (t/2 + R)/M is the first order: J. T. Daly, "A higher order estimate of the
  optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22(3), 2006.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.save_rounds.save_judging import SPARE

DAY_SECONDS = 86400.0
# GPUs of a job, up to the largest that the paper projects.
SIZES = tuple(1024 * 2**step for step in range(8))
# Ten events tell a rate to within a third (1 / sqrt(10)); with fewer a published rate says more.
FEWEST_FAULTS = 10
# How admission begins the cause of a move when a node could not be reached.
UNREACHED = "preflight: reach host: "


@dataclass(frozen=True)
class Save:
    """One save of the whole state: how long the job stops for it, and after how long it is there to be loaded."""

    blocking_seconds: float
    complete_seconds: float
    source: str

    @property
    def behind_seconds(self) -> float:
        """Seconds for which the job works on while the state is still being written."""
        return max(0.0, self.complete_seconds - self.blocking_seconds)


@dataclass(frozen=True)
class FailureRate:
    """Failures that end a job, in 1,000 days of one node in service."""

    per_1000_node_days: float
    source: str


@dataclass(frozen=True)
class History:
    """How long nodes have been in service, and how often a fault took one out of it."""

    node_days: float
    faults: int


@dataclass(frozen=True)
class Job:
    """What is planned: the state's size, the nodes it runs on, what a save takes and what its operators want."""

    checkpoint_bytes: float
    gpus_per_node: int
    target_seconds: float
    save: Save
    rate: FailureRate
    restart_seconds: float
    wanted_loss_percent: float
    # The interval that its operators keep to, None for the best one.
    interval_seconds: float | None = None


@dataclass(frozen=True)
class Row:
    """The plan for one number of GPUs. ``loss_percent`` is of all time: saving, and repeating what failures undid.

    ``declared_loss_percent`` is what the declared interval loses, None where none is declared.
    """

    gpus: int
    nodes: int
    failure_seconds: float
    young_seconds: float
    interval_seconds: float
    loss_percent: float
    loss_with_restart_percent: float
    wanted_save_seconds: float
    wanted_gb_per_s: float
    declared_loss_percent: float | None


@dataclass(frozen=True)
class Plan:
    """The plan for a job at several sizes; ``target_gb_per_s`` is what all nodes together have to write at."""

    job: Job
    target_gb_per_s: float
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return asdict(self)


def plan_of(job: Job, sizes: Iterable[int] = SIZES) -> Plan:
    """Return the plan of a job for each number of GPUs."""
    return Plan(job, gb_per_s(job.checkpoint_bytes, job.target_seconds), tuple(_row(job, gpus) for gpus in sizes))


def _row(job: Job, gpus: int) -> Row:
    nodes = -(-gpus // job.gpus_per_node)
    failure = seconds_between_failures(nodes, job.rate.per_1000_node_days)
    save = job.save
    interval = max(daly_seconds(save.blocking_seconds, failure), save.behind_seconds)

    def lost(interval: float, restart: float) -> float:
        return 100 * loss(interval, save.blocking_seconds, failure, save.behind_seconds + restart)

    wanted = save_seconds_for(job.wanted_loss_percent / 100, failure)
    return Row(
        gpus=gpus,
        nodes=nodes,
        failure_seconds=failure,
        young_seconds=young_seconds(save.blocking_seconds, failure),
        interval_seconds=interval,
        loss_percent=lost(interval, 0.0),
        loss_with_restart_percent=lost(interval, job.restart_seconds),
        wanted_save_seconds=wanted,
        wanted_gb_per_s=gb_per_s(job.checkpoint_bytes, wanted),
        declared_loss_percent=None if job.interval_seconds is None else lost(job.interval_seconds, 0.0),
    )


def seconds_between_failures(nodes: int, per_1000_node_days: float) -> float:
    """Return M: the mean time between failures of a job on so many nodes."""
    return DAY_SECONDS * 1000 / (nodes * per_1000_node_days)


def young_seconds(save: float, failure: float) -> float:
    """Return Young's time of work between two saves."""
    return math.sqrt(2 * save * failure)


def daly_seconds(save: float, failure: float) -> float:
    """Return Daly's time of work between two saves."""
    if save >= 2 * failure:
        return failure
    part = save / (2 * failure)
    return young_seconds(save, failure) * (1 + math.sqrt(part) / 3 + part / 9) - save


def loss(interval: float, save: float, failure: float, restart: float = 0.0) -> float:
    """Return the expected share of all time that is no lasting work, 0 to 1 (Daly's model)."""
    cycle = (interval + save) / failure
    # log(e^cycle - 1), which must not overflow where a save takes many times as long as failures leave.
    cost = cycle + math.log(-math.expm1(-cycle)) + restart / failure
    return 1 - interval / failure * math.exp(-cost)


def save_seconds_for(wanted: float, failure: float) -> float:
    """Return how long a save may stop the job for a loss of ``wanted`` (above 0, below 0.5) at the best interval."""
    fast, slow = 0.0, 2 * failure
    for _ in range(100):
        middle = (fast + slow) / 2
        if loss(daly_seconds(middle, failure), middle, failure) < wanted:
            fast = middle
        else:
            slow = middle
    return slow


def gb_per_s(size: float, seconds: float) -> float:
    """Return the rate (1e9 bytes a second) that storage needs to take ``size`` bytes in that time, and spare."""
    return size / seconds * SPARE / 1e9


def history_of(moves: Sequence[tuple[float, Any]], declared: Collection[str], now: float) -> History:
    """Return the time in service and the faults in it, from transitions with their times, oldest first.

    A fault in service is an admitted node that becomes rejected or quarantined, or cannot be reached. A node that is
    not ``declared`` any more counts up to its last transition: nothing tells when it was taken away.
    """
    since: dict[str, float] = {}
    seconds, faults = 0.0, 0
    for at, move in moves:
        if move.from_state == "admitted" and move.node in since:
            # A clock that was set back adds no negative time.
            seconds += max(0.0, at - since.pop(move.node))
            faults += move.to_state in ("rejected", "quarantined") or move.cause.startswith(UNREACHED)
        if move.to_state == "admitted":
            since[move.node] = at
    seconds += sum(max(0.0, now - at) for node, at in since.items() if node in declared)
    return History(seconds / DAY_SECONDS, faults)


def rate_of(history: History | None, otherwise: FailureRate) -> FailureRate:
    """Return the fleet's own failure rate where its history tells one, else the other with the reason."""
    if history is None:
        return FailureRate(otherwise.per_1000_node_days, f"{otherwise.source}; there is no ledger yet")
    told = f"{history.faults} faults in {history.node_days:.1f} node-days in service"
    if history.faults < FEWEST_FAULTS or not history.node_days:
        few = f"{otherwise.source}; the ledger tells {told}, fewer than {FEWEST_FAULTS}"
        return FailureRate(otherwise.per_1000_node_days, few)
    return FailureRate(1000 * history.faults / history.node_days, f"the ledger: {told}")
