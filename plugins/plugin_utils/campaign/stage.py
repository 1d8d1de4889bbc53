"""What the stages that run in rounds have in common: where their nodes are, and how long and where they meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Cohort, Request
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round

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
        """Return where a round's nodes meet and how long they may take, as every round's module is told."""
        return {
            "port": self.request.port + ROUND_PORTS * (step.number % 10),
            "deadline_seconds": seconds,
            "timeout_seconds": max(LEAST_TIMEOUT_SECONDS, seconds // 3),
        }

    def addresses(self, step: Round) -> dict[str, str]:
        """Return the address of every node of a round."""
        return {node: self.request.fleet.addresses[node] for node in sorted(used(step))}


def used(step: Round) -> set[str]:
    """Return the nodes that take part in a round."""
    return {node for group in step.groups for node in group}
