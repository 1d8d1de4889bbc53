"""The stage of acceptance: collectives between nodes, programs run in a few Slurm steps."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import INSIDE
from ansible_collections.muster.cluster.plugins.module_utils.collectives.link_changes import ANY
from ansible_collections.muster.cluster.plugins.module_utils.collectives.link_words import (
    link_name,
    link_word,
    link_words,
)
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import (
    CARRIER_CHECK,
    NVLINK_RACK_CHECK,
    STALL_CHECK,
    TRANSPORT_CHECK,
    collective_checks,
    owes_nvlink_rack,
    owes_transport,
)
from ansible_collections.muster.cluster.plugins.module_utils.nic.declared_nics import rails_of
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import INCOMPLETE, PASS, Finding, worst
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import plain
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Cohort, Request
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.link_findings import Owed, with_links
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.stage import Seen, StageWork, used
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import LatencyProfile
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.shipped_comparison import far_floors
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import MINI_CLUSTERS, Planner
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.baseline import adopted, proposed
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import CONFIRM, SUSPECTS
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import (
    Settings,
    most_of,
    places_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import phases_of
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.nvlink_racks import (
    NvLinkRacks,
    rack_mates,
    rails_gb_per_s,
    with_racks,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.round_summary import (
    details,
    round_summary,
    versions_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.stall_findings import SUBJECT, with_stalls
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.transport import (
    ranks_by_node,
    transport_findings,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger

# What planning counts for a permutation is what it takes usually; a sweep may take so many times as long in all.
SPARE_FACTOR = 4
# Rounds that ask suspects again, or fill up mini-clusters, wait for partners in service; a sweep goes without those
# that are busy.
WAITING = (CONFIRM, SUSPECTS, MINI_CLUSTERS)
# The stages whose evidence tells in which NVLink domain a node in service was when it was examined last.
_EXAMINED = ("preflight", "acceptance")


class Acceptance(StageWork):
    """Collectives between the nodes of a cohort."""

    stage = "acceptance"

    def __init__(self, request: Request, cohort: Cohort) -> None:
        super().__init__(request, cohort)
        self.fault = ""
        self.interface = request.fleet.fabric.socket_interface
        self.environment = {str(key): str(value) for key, value in request.environment.items()}
        self.fabric = request.fleet.fabric.kind
        self.settings: Settings | None = None
        self.planner: Planner | None = None
        transport = (TRANSPORT_CHECK,) if owes_transport(cohort.expect) else ()
        in_domains = owes_nvlink_rack(cohort.expect)
        rack = (NVLINK_RACK_CHECK,) if in_domains else ()
        self.owed = (*collective_checks(cohort.expect), *transport, *rack, STALL_CHECK, CARRIER_CHECK)
        self.racks = {
            node.name: node.rack
            for node in request.fleet.compute.values()
            if node.hardware_class == cohort.hardware_class
        }
        # Of nodes in service what their evidence says, of those under test what this run's preflight does.
        self.told = self._told_domains() if in_domains else {}
        profile, places = LatencyProfile.of(cohort.expect.mini_clusters), places_of(request.fleet)
        try:
            settings = Settings.of(cohort.expect.collective, places, self._baseline(), profile)
            self.settings = replace(
                settings,
                most_gb_per_s=most_of(cohort.expect),
                nvlink_racks=in_domains,
                far_floors=far_floors(cohort.expect),
            )
            self.planner = Planner(cohort.members, cohort.partners, self.settings)
        except ValueError as exc:
            self.fault = f"hardware class {cohort.hardware_class}: {exc}"

    def _baseline(self) -> dict[tuple[str, int, int], float] | None:
        """Return what was adopted for this class on this fabric; raises ValueError where there is no such proposal."""
        if not self.request.baselines:
            return None
        with self._ledger().reading() as reader:
            kept = [
                stored.plan["baseline"]
                for campaign in self.request.baselines
                for stored in reader.rounds(campaign)
                if "baseline" in stored.plan
            ]
        what = (self.cohort.hardware_class, self.fabric)
        mine = [each for each in kept if (each.get("hardware_class"), each.get("fabric")) == what]
        if not mine:
            named = ", ".join(self.request.baselines)
            raise ValueError(f"no baseline for hardware class {what[0]} on {what[1]} was proposed by campaign {named}")
        return adopted(mine[-1])

    def _ledger(self) -> Ledger:
        fleet = self.request.fleet
        return Ledger.open(fleet.ledger.url, fleet.ledger.id, fleet.cluster, read_only=True)

    def _told_domains(self) -> dict[str, str | None]:
        """Return the NVLink domain of the nodes in service that share a rack with a node under test."""
        asked = {self.racks.get(node) for node in self.cohort.members} - {None}
        partners = [node for node in self.cohort.partners if self.racks.get(node) in asked]
        if not partners:
            return {}
        with self._ledger().reading() as reader:
            records = reader.records(_EXAMINED, partners)
        found: dict[str, str | None] = {}
        for node in partners:
            evidence = [each.evidence for each in records[node] if "nvlink_domain" in each.evidence.fingerprint]
            if evidence:
                found[node] = max(evidence, key=lambda each: each.started).fingerprint["nvlink_domain"]
        return found

    def _nvlink_racks(self) -> NvLinkRacks:
        """Return what is known of the domains of the racks with nodes under test."""
        own = {node: each.fingerprint.get("nvlink_domain") for node, each in self.cohort.preflight.items()}
        return NvLinkRacks(self.racks, {**self.told, **own})

    def surroundings(self) -> Mapping[str, Any]:
        """Return what the ranks are given, and what was adopted, or told by nodes in service, to judge them by."""
        asked: dict[str, Any] = {"environment": self.environment, "socket_interface": self.interface}
        if self.told:
            asked["nvlink_domains"] = self.told
        return {**asked, "baselines": sorted(self.request.baselines)} if self.request.baselines else asked

    def proposal(self, seen: Seen, conclusion: Conclusion) -> dict[str, Any]:
        """Return what the healthy nodes showed, as a baseline that an operator may adopt."""
        if self.settings is None:
            return {}
        healthy = [
            node
            for node, findings in conclusion.findings.items()
            if worst(finding.verdict for finding in findings) == PASS
        ]
        used_by = versions_of(item for _, _, item in seen)
        libraries = [(name, texts) for node in healthy for name, texts in used_by.get(node, {}).items()]
        versions = sorted({f"{name} {text}" for name, texts in libraries for text in texts})
        key = (self.cohort.hardware_class, self.fabric, ", ".join(versions))
        found = proposed(key, healthy, seen, self.settings)
        return {} if found is None else {"baseline": json.loads(json.dumps(found.to_dict()))}

    def next_round(self, seen: Seen) -> Round | Conclusion:
        """Return the next round of collectives, or what is concluded."""
        if self.planner is None:
            return self._unjudged()
        step = self.planner.next_round(seen)
        return step if isinstance(step, Round) else self._completed(step, seen)

    def conclude_early(self, seen: Seen, reason: str) -> Conclusion:
        """Return what is known so far."""
        if self.planner is None:
            return self._unjudged()
        return self._completed(self.planner.conclude_early(seen, reason), seen)

    def _unjudged(self) -> Conclusion:
        findings = tuple(Finding(check, "network", INCOMPLETE, None, None, "", self.fault) for check in self.owed)
        return Conclusion(dict.fromkeys(self.cohort.members, findings))

    def _completed(self, conclusion: Conclusion, seen: Seen) -> Conclusion:
        """Add to each node's findings its collectives' road, its NVLink domain, its stalls and what its links did."""
        assert self.settings is not None
        observed, racks = ranks_by_node(item for _, _, item in seen), self._nvlink_racks()
        findings = {
            node: (
                *own,
                *transport_findings(node, observed.get(node, ()), self.cohort.expect, racks.racks, racks.domains),
            )
            for node, own in conclusion.findings.items()
        }
        conclusion = replace(conclusion, findings=findings)
        if owes_nvlink_rack(self.cohort.expect):
            mates = rack_mates(racks, seen, self.settings, rails_gb_per_s(self.cohort.expect))
            conclusion = with_racks(conclusion, racks, mates)
        conclusion = with_stalls(conclusion, seen, self.settings)
        names = list(map(link_name, self._links()))
        return with_links(conclusion, Owed(CARRIER_CHECK, {SUBJECT: names}, self.settings.hold), _told(seen, names))

    def _sockets(self) -> list[str]:
        """Return the interfaces of the ranks' sockets, as nodes take them; none where nobody declares any."""
        declared = self.interface or ""
        if self.cohort.expect.collective.backend == "gloo":
            declared = self.environment.get("GLOO_SOCKET_IFNAME", declared)
        return link_words(declared.split(","), rails_of(self.cohort.expect)) if declared else []

    def _links(self) -> list[str]:
        """Return what ranks go over: the interface of their sockets and, with NCCL on an RDMA fabric, every rail."""
        rails = rails_of(self.cohort.expect) if owes_transport(self.cohort.expect) else ()
        return list(dict.fromkeys([*(self._sockets() or [ANY]), *map(link_word, rails)]))

    def round_seconds(self, step: Round) -> int:
        """Return how long a step may take: what a long sweep needs, if that is more than any round may take."""
        collective = self.cohort.expect.collective
        phases = step.program.get("moves", ())
        steps = sum(
            len(phase.get("shifts") or phase.get("pairs") or ()) for phase in phases if phase["kind"] == "pairs"
        )
        groups = sum(phase["seconds"] for phase in phases if phase["kind"] != "pairs")
        needed = collective.step_seconds + SPARE_FACTOR * steps * collective.pairs.seconds + groups
        return max(self.request.round_seconds, math.ceil(needed))

    def arguments(self, step: Round, seconds: int) -> dict[str, Any]:
        """Return addresses, settings, the program, and ports that no round before has used."""
        collective = self.cohort.expect.collective
        environment = dict(self.environment)
        if collective.backend == "gloo" and (sockets := self._sockets()):
            environment["GLOO_SOCKET_IFNAME"] = ",".join(sockets)
        waited_for = sorted(used(step) & set(self.cohort.partners)) if step.kind in WAITING else []
        return {
            **self.meeting(step, seconds),
            "addresses": self.addresses(step),
            "collective": plain(collective),
            "python": self.cohort.expect.pytorch.python,
            "program": dict(step.program),
            "links": self._links(),
            "environment": environment,
            "partners": list(self.cohort.partners),
            "patient": waited_for,
            "patience_seconds": self.request.partner_wait_seconds if waited_for else 0,
        }

    def summary(self, number: int, plan: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> str:
        """Return a round in one line."""
        return "" if self.settings is None else round_summary(number, plan, items, self.settings)

    def details(self, seen: Seen) -> Mapping[str, Mapping[str, Any]]:
        """Return by node what its evidence keeps of the rounds: the versions of its libraries, and the image, too."""
        if self.settings is None:
            return {}
        found = details(self.cohort.members, seen, self.settings)
        image = self.cohort.expect.collective.container
        tested = _in_image(seen) if image is not None else set()
        return {node: {**kept, "container": image} if node in tested else kept for node, kept in found.items()}


def _in_image(seen: Seen) -> set[str]:
    """Return the nodes whose moves inside themselves were run, in the image where the class names one."""
    return {
        node
        for _, plan, item in seen
        if item.get("started") is True and any(phase.get("kind") == INSIDE for phase in phases_of(plan, item["group"]))
        for node in item["group"]
    }


def _told(seen: Seen, watched: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield by node what its links did; of a node whose links all stayed an observation says nothing."""
    stayed: dict[str, Any] = {name: {} for name in watched}
    for _, _, item in seen:
        if item.get("started") is True and isinstance(item.get("links"), Mapping):
            for node in item["group"]:
                for told in item["links"].get(node, (stayed,)):
                    yield node, told
