"""The plan of a fleet's checkpoints, from what it declares, what stage `storage` measured and what the ledger tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.checkpoint_plan import (
    SIZES,
    FailureRate,
    Job,
    Plan,
    Save,
    history_of,
    plan_of,
    rate_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_storage import Checkpoint
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.shipped_defaults import sourced_defaults
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger, LedgerError, Reader
from ansible_collections.muster.cluster.plugins.plugin_utils.save_rounds.save_judging import TARGET

# Finding the fault, starting again and loading: 5 min to 2.2 h by "Story of Two GPUs"; the shorter one is of a job
# whose spares stand by.
RESTART_SECONDS = 300.0
# What a few more nodes make up for.
WANTED_LOSS_PERCENT = 5.0


class PlanningError(MusterError, ValueError):
    """A fleet for which nothing can be planned; the text says what was found and what was expected."""


@dataclass(frozen=True)
class Wishes:
    """What is planned with beside the declaration.

    ``restart_seconds`` is what a failure costs besides the repeated work. ``blocking_seconds`` is for how long a save
    stops the job, None for all of it: shorter where the state is copied and written behind the job.
    ``failures_per_1000_node_days`` stands above what ledger and declaration tell.
    """

    restart_seconds: float = RESTART_SECONDS
    wanted_loss_percent: float = WANTED_LOSS_PERCENT
    blocking_seconds: float | None = None
    failures_per_1000_node_days: float | None = None

    def check(self) -> None:
        """Raise PlanningError for what cannot be planned with."""
        if not self.restart_seconds >= 0:
            raise PlanningError(f"restart_seconds: found {self.restart_seconds:g}, expected at least 0")
        if not 0 < self.wanted_loss_percent < 50:
            wanted = f"wanted_loss_percent: found {self.wanted_loss_percent:g}"
            raise PlanningError(f"{wanted}, expected above 0 and below 50")
        for name in ("blocking_seconds", "failures_per_1000_node_days"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise PlanningError(f"{name}: found {value:g}, expected above 0")


def fleet_plan(fleet: Fleet, ledger: Reader | None, now: float, wishes: Wishes | None = None) -> Plan:
    """Return the plan of a fleet that declares ``storage.checkpoint``; ``ledger`` is None where there is none yet.

    Raises PlanningError.
    """
    wishes = wishes or Wishes()
    wishes.check()
    declared = fleet.storage.checkpoint
    if declared is None:
        raise PlanningError("storage.checkpoint: found nothing, expected the model whose checkpoints are planned")
    model, compute = declared.model, list(fleet.compute)
    if wishes.failures_per_1000_node_days is not None:
        rate = FailureRate(wishes.failures_per_1000_node_days, "given for this plan")
    else:
        history = None if ledger is None else history_of(ledger.history(), set(compute), now)
        rate = rate_of(history, declared_rate(declared))
    size = float(model.parameters) * model.bytes_per_parameter
    target = float(declared.target_seconds)
    save = None if ledger is None else measured_save(ledger, compute, size)
    save = save or Save(target, target, "declared target, not measured")
    if wishes.blocking_seconds is not None:
        save = replace(save, blocking_seconds=min(wishes.blocking_seconds, save.complete_seconds))
    job = Job(
        checkpoint_bytes=size,
        gpus_per_node=gpus_per_node(fleet),
        target_seconds=target,
        save=save,
        rate=rate,
        restart_seconds=wishes.restart_seconds,
        wanted_loss_percent=wishes.wanted_loss_percent,
        interval_seconds=declared.interval_seconds,
    )
    return plan_of(job, sorted({*SIZES, model.ranks}))


def measured_save(ledger: Reader, nodes: Sequence[str], checkpoint_bytes: float) -> Save | None:
    """Return how long a save takes by the evidence of stage storage that stands, None where there is none.

    Of a single node that was tested again the storage shows less than it can: the fastest save counts.
    """
    found = [
        (finding.measured, record.evidence.id, finding.reason)
        for records in ledger.records(("storage",), nodes).values()
        for record in records
        for finding in record.evidence.findings
        if finding.check == TARGET and isinstance(finding.measured, (int, float)) and finding.measured > 0
    ]
    if not found:
        return None
    rate, evidence, reason = max(found)
    seconds = checkpoint_bytes / (rate * 1e9)
    return Save(seconds, seconds, f"stage storage, evidence {evidence}: {reason}")


def declared_rate(checkpoint: Checkpoint) -> FailureRate:
    """Return the declared failure rate, the shipped one with its source."""
    rate = checkpoint.failures_per_1000_node_days
    shipped = sourced_defaults()["storage"]["checkpoint"]["failures_per_1000_node_days"]
    return FailureRate(float(rate), shipped["source"] if rate == shipped["value"] else "declared")


def gpus_per_node(fleet: Fleet) -> int:
    """Return how many GPUs most compute nodes have by their class. Raises PlanningError where none has any."""
    gpus = {name: expect.gpu.count if expect.gpu else 0 for name, expect in fleet.classes.items()}
    counts = Counter(gpus[str(node.hardware_class)] for node in fleet.compute.values())
    # Of two that are as common the smaller: more nodes, more failures.
    count = max(sorted(counts), key=lambda each: counts[each], default=0)
    if not count:
        raise PlanningError("gpu.count: found no GPUs in the classes of the compute nodes, expected at least one")
    return int(count)


def recorded_plan(fleet: Fleet, now: float, wishes: Wishes) -> Plan:
    """Return the plan by what the fleet's ledger has, or before there is one; raises LedgerError and PlanningError."""
    try:
        ledger = Ledger.open(fleet.ledger.url, fleet.ledger.id, fleet.cluster, read_only=True)
    except LedgerError as exc:
        if not exc.absent:
            raise
        # A cluster is planned before it has one.
        return fleet_plan(fleet, None, now, wishes)
    with ledger.reading() as reader:
        return fleet_plan(fleet, reader, now, wishes)
