"""What the stages that run in rounds have in common: where their nodes are, and how long and where they meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Cohort, Request
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.generic_resources import (
    generic_resources,
    slurm_gpus,
)

# What finished rounds saw: number of the round, its plan (kind, groups, program), and what one group's job showed.
Seen = Sequence[tuple[int, Mapping[str, Any], Mapping[str, Any]]]
# Rounds use ports apart from those of the nine before, which may still be closing.
ROUND_PORTS = 100
LEAST_TIMEOUT_SECONDS = 10


class StageWork:
    """The nodes of one cohort in one stage."""

    def __init__(self, request: Request, cohort: Cohort) -> None:
        self.request = request
        self.cohort = cohort

    def proposal(self, seen: Seen, conclusion: Conclusion) -> dict[str, Any]:
        """Return what the ledger keeps beside a campaign's end, for people to decide about."""
        return {}

    def round_seconds(self, step: Round) -> int:
        """Return how long a round may take at the most."""
        return self.request.round_seconds

    def meeting(self, step: Round, seconds: int) -> dict[str, Any]:
        """Return what every round's module is told: where its nodes meet, how long they take, what Slurm hands out."""
        return {
            "gpus_per_node": self._gpus_per_node(),
            "port": self.request.port + ROUND_PORTS * (step.number % 10),
            "deadline_seconds": seconds,
            "timeout_seconds": max(LEAST_TIMEOUT_SECONDS, seconds // 3),
        }

    def _gpus_per_node(self) -> int:
        """Return how many GPUs Slurm hands out on each node of the cohort; 0 where it knows of none."""
        gpu = self.cohort.expect.gpu
        scheduler, hardware_class = self.request.fleet.scheduler, self.cohort.hardware_class
        resources = generic_resources(scheduler, hardware_class, gpu.count if gpu else None)
        return sum(each.count for each in slurm_gpus(resources))

    def addresses(self, step: Round) -> dict[str, str]:
        """Return the address of every node of a round."""
        return {node: self.request.fleet.addresses[node] for node in sorted(used(step))}


def used(step: Round) -> set[str]:
    """Return the nodes that take part in a round."""
    return {node for group in step.groups for node in group}
