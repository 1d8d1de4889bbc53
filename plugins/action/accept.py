"""Action plugin accept: acceptance collectives between nodes, in rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.finding import INCOMPLETE
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Cohort, Request
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.task import CampaignAction
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.walk import Means, Seen, prove
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.judging import (
    BAD,
    GOOD,
    Observation,
    Outcome,
    Settings,
    SettingsError,
    judge,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.planning import (
    Conclusion,
    Round,
    conclude_early,
    next_round,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.transport import transport_findings

# More groups than this are told by number, the bad ones by name.
TOLD_GROUPS = 8


class Acceptance:
    """All-reduce collectives between the nodes of a cohort."""

    stage = "acceptance"

    def __init__(self, request: Request, cohort: Cohort) -> None:
        self.request = request
        self.cohort = cohort
        self.fault = ""
        self.interface = request.fleet.get("fabric", {}).get("socket_interface")
        self.environment = {str(key): str(value) for key, value in request.environment.items()}
        racks = {name: node.get("rack") for name, node in request.fleet["nodes"].items()}
        try:
            self.settings = Settings.from_expect(cohort.expect.get("collective"), racks)
        except SettingsError as exc:
            self.fault = f"hardware class {cohort.hardware_class}: {exc}"
            self.settings = Settings(1, (), 1, (), racks)

    def surroundings(self) -> Mapping[str, Any]:
        """Return what the ranks are given."""
        return {"environment": self.environment, "socket_interface": self.interface}

    def next_round(self, seen: Seen) -> Round | Conclusion:
        """Return the next round of collectives, or what is concluded."""
        if self.fault:
            return self.conclude_early(seen, self.fault)
        step = next_round(self.cohort.members, self.cohort.partners, _observations(seen), self.settings)
        return step if isinstance(step, Round) else self._with_transport(step, seen)

    def conclude_early(self, seen: Seen, reason: str) -> Conclusion:
        """Return what is known so far."""
        members, partners = self.cohort.members, self.cohort.partners
        return self._with_transport(conclude_early(members, partners, _observations(seen), self.settings, reason), seen)

    def _with_transport(self, conclusion: Conclusion, seen: Seen) -> Conclusion:
        """Add to each node's findings by which road its collectives went."""
        observations = _observations(seen)
        findings = {
            node: (*own, *transport_findings(node, observations, self.cohort.expect))
            for node, own in conclusion.findings.items()
        }
        return replace(conclusion, findings=findings)

    def arguments(self, step: Round, seconds: int) -> dict[str, Any]:
        """Return addresses, settings, and ports that no round before has used."""
        fleet, collective = self.request.fleet, self.cohort.expect["collective"]
        environment = dict(self.environment)
        if collective["backend"] == "gloo" and self.interface:
            environment.setdefault("GLOO_SOCKET_IFNAME", self.interface)
        used = {node for group in step.groups for node in group}
        return {
            "addresses": {node: fleet["nodes"][node]["address"] for node in sorted(used)},
            "collective": dict(collective),
            "environment": environment,
            "port": self.request.port + 100 * (step.number % 10),
            "deadline_seconds": seconds,
            "timeout_seconds": max(10, seconds // 3),
        }

    def told(self, number: int, items: Sequence[Mapping[str, Any]]) -> str:
        """Return the groups' bandwidths."""
        return told([judge(Observation.from_dict(number, item), self.settings) for item in items])

    def details(self, seen: Seen) -> Mapping[str, Mapping[str, Any]]:
        """Return by node the rounds it took part in and the versions of the libraries it used."""
        observations = _observations(seen)
        outcomes = [judge(observation, self.settings) for observation in observations]
        versions = versions_of(observations)
        return {
            node: {
                "rounds": [_round_detail(outcome) for outcome in outcomes if node in outcome.group],
                "versions": versions.get(node, {}),
            }
            for node in self.cohort.members
        }


def accept(request: Request, means: Means) -> dict[str, Any]:
    """Bring every cohort's campaign to its conclusion and return the task's result; raises LedgerError."""
    return prove(request, Acceptance, means)


def _observations(seen: Seen) -> list[Observation]:
    return [Observation.from_dict(number, item) for number, item in seen]


def versions_of(observations: Sequence[Observation]) -> dict[str, dict[str, list[str]]]:
    """Return, by node and library, the versions that its ranks reported; more than one is worth a look."""
    found: dict[str, dict[str, set[str]]] = {}
    for observation in observations:
        for rank in observation.ranks:
            for library, version in (rank.get("versions") or {}).items():
                found.setdefault(rank["node"], {}).setdefault(library, set()).add(version)
    return {node: {library: sorted(seen) for library, seen in sorted(used.items())} for node, used in found.items()}


def told(outcomes: Sequence[Outcome]) -> str:
    """Return a round in one line: every group of a few, of many only those that are not good."""
    shown = outcomes if len(outcomes) <= TOLD_GROUPS else [each for each in outcomes if each.verdict != GOOD]
    parts = [_told(outcome) for outcome in shown[: 2 * TOLD_GROUPS]]
    if len(parts) < len(outcomes):
        good = sum(outcome.verdict == GOOD for outcome in outcomes)
        parts.append(f"{good} of {len(outcomes)} groups good")
    return "; ".join(parts)


def _told(outcome: Outcome) -> str:
    names = "+".join(outcome.group) if len(outcome.group) <= TOLD_GROUPS else f"{len(outcome.group)} nodes"
    if outcome.measured is None:
        return f"{names} {'failed' if outcome.verdict == BAD else INCOMPLETE}: {outcome.reason[:200]}"
    if outcome.verdict == GOOD:
        return f"{names} {outcome.measured:.3g} GB/s"
    return f"{names} slow {outcome.measured:.3g} of {outcome.expected:g} GB/s"


def _round_detail(outcome: Outcome) -> dict[str, Any]:
    return {
        "number": outcome.number,
        "group": list(outcome.group),
        "verdict": outcome.verdict,
        "measured": outcome.measured,
        "expected": outcome.expected,
        "size_bytes": outcome.size_bytes,
        "reason": outcome.reason,
    }


class ActionModule(CampaignAction):
    """Run acceptance from the host that the task is delegated to."""

    module = "muster.cluster.collective_round"
    work_of = Acceptance
