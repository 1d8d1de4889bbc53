"""The stage of the fabric: every rail of every node against other nodes, in rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.collectives.link_words import link_word
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CARRIER_CHECK, rail_checks
from ansible_collections.muster.cluster.plugins.module_utils.nic.declared_nics import gpus_beside, rails_of, subject_of
from ansible_collections.muster.cluster.plugins.module_utils.nic.peer_memory import DMABUF
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.fabric_test import CONTROL, SINGLE, TOGETHER
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.perftest import BANDWIDTH
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import stated
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import plain
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.cabling_evidence import comparison_of, with_cabling
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.campaign import NothingToProve
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Cohort, Request
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.link_findings import Owed, with_links
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.stage import Seen, StageWork, used
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import ROCE, Fabric
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fabric_of_host import tos_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Node
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.distances import Place
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.rail_judging import Limits, Pair
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.rail_rounds import (
    Campaign,
    Plan,
    conclude_early,
    next_round,
)

# More groups than this are only counted, the bad ones named.
NAMED_GROUPS = 8


class FabricRounds(StageWork):
    """perftest between the rails of a cohort's nodes."""

    stage = "fabric"

    def __init__(self, request: Request, cohort: Cohort) -> None:
        super().__init__(request, cohort)
        self.fabric = request.fleet.fabric
        expect, hosts = cohort.expect, request.fleet.hosts
        if not rail_checks(expect):
            raise NothingToProve(f"hardware class {cohort.hardware_class} has no RDMA rails on this fabric")
        # Read anew by each run, also by one that takes up an interrupted campaign.
        verified = stated(expect.fabric).verify_cabling
        self.comparison = comparison_of(request.fleet, request.cabling) if verified else None
        self.plan = Plan(
            members=cohort.members,
            partners=cohort.partners,
            places={name: _place(hosts[name]) for name in (*cohort.members, *cohort.partners)},
            rails=tuple(rails_of(expect)),
            checks=rail_checks(expect),
            limits=Limits.of(expect, _priorities(self.fabric)),
        )

    def surroundings(self) -> Mapping[str, Any]:
        """Return what is declared of the fabric, how the nodes' rails lie in it, and what is run over them."""
        hosts = self.request.fleet.hosts
        return {
            "fabric": self.fabric.to_dict(),
            "rails": {name: [rail.to_dict() for rail in hosts[name].rails] for name in self.plan.places},
            "test": self._test(),
            "environment": self.request.environment,
        }

    def next_round(self, seen: Seen) -> Round | Conclusion:
        """Return the next round of tests, or what is concluded."""
        step = next_round(self.plan, _pairs(seen))
        return step if isinstance(step, Round) else self._completed(step, seen)

    def conclude_early(self, seen: Seen, reason: str) -> Conclusion:
        """Return what is known so far."""
        return self._completed(conclude_early(self.plan, _pairs(seen), reason), seen)

    def _completed(self, conclusion: Conclusion, seen: Seen) -> Conclusion:
        """Add to each node's findings how its rails are connected, and what their links did."""
        if self.comparison is not None:
            conclusion = with_cabling(conclusion, self.comparison, self.cohort.partners)
        expect = self.cohort.expect
        watched = {subject_of(rail): (rail.name,) for rail in rails_of(expect)}
        answers = (each for pair in _pairs(seen) for each in pair.answers.items())
        told = ((node, answer["links"]) for node, answer in answers if "links" in answer)
        return with_links(conclusion, Owed(CARRIER_CHECK, watched, expect.collective.hold), told)

    def arguments(self, step: Round, seconds: int) -> dict[str, Any]:
        """Return where the nodes are, what to run, and a port that no round before has used."""
        hosts = self.request.fleet.hosts
        return {
            "nodes": {
                name: {
                    "address": hosts[name].address,
                    "rails": {rail.name: rail.address.partition("/")[0] for rail in hosts[name].rails if rail.address},
                }
                for name in sorted(used(step))
            },
            "test": self._test(),
            **self.meeting(step, seconds),
        }

    def _test(self) -> dict[str, Any]:
        expect, qos = self.cohort.expect, self.fabric.qos
        rdma = stated(expect.rdma)
        gpus = gpus_beside(expect) if rdma.gpu_direct else {}
        return {
            "rails": [{**plain(rail), "gpu": gpus.get(rail.rail)} for rail in rails_of(expect)],
            **{key: getattr(rdma, key) for key in ("bandwidth_bytes", "latency_bytes", "queue_pairs", "seconds")},
            "roce": self.fabric.kind == ROCE,
            "dmabuf": self.fabric.peer_memory == DMABUF,
            "data_class": tos_of(qos.data, self.fabric) if qos else None,
            "control_class": tos_of(qos.control, self.fabric) if qos else None,
            "counters": sorted(self.plan.limits.counters),
            "links": [link_word(rail) for rail in rails_of(expect)],
            "path": expect.tools.path,
            "root": expect.tools.root,
        }

    def summary(self, number: int, plan: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> str:
        """Return the groups' least bandwidth, or how many of their rails are bad."""
        pairs = [Pair.read(number, item) for item in items]
        shown = pairs if len(pairs) <= NAMED_GROUPS else [pair for pair in pairs if self._bad(pair)]
        parts = [self._summary(pair) for pair in shown[: 2 * NAMED_GROUPS]]
        if len(shown) < len(pairs):
            parts.append(f"{len(pairs) - len(shown)} of {len(pairs)} groups good")
        return "; ".join(parts)

    def _summary(self, pair: Pair) -> str:
        names, bad = "+".join(pair.group), self._bad(pair)
        if pair.error:
            return f"{names} failed: {pair.error[:200]}"
        if bad:
            return f"{names} bad on {', '.join(bad)}"
        values = [
            test["value"]
            for answer in pair.answers.values()
            for test in answer["tests"]
            if test["tool"] == BANDWIDTH and test["phase"] != CONTROL
        ]
        return f"{names} {min(values):.4g} Gb/s and more" if values else f"{names} nothing measured"

    def _bad(self, pair: Pair) -> list[str]:
        """Return the rails on which this group alone would not pass."""
        plan = replace(self.plan, members=pair.group, partners=())
        campaign = Campaign.of(plan, [pair])
        if len(pair.group) == 1:
            findings = campaign.conclusion().findings.get(pair.group[0], ())
            return [each.subject for each in findings if each.check == "rail_loopback" and each.verdict != PASS]
        return [
            rail.name
            for rail in plan.rails
            if any(not record.passed for (other, _), record in campaign.records.items() if other == rail)
        ]

    def details(self, seen: Seen) -> Mapping[str, Mapping[str, Any]]:
        """Return by node what its tests measured and what its counters did, round by round."""
        found: dict[str, dict[str, Any]] = {node: {"rounds": []} for node in self.cohort.members}
        for pair in _pairs(seen):
            for node in set(pair.group) & set(found):
                answer = pair.answers.get(node, {})
                found[node]["rounds"].append(
                    {
                        "number": pair.number,
                        "group": list(pair.group),
                        "error": pair.error,
                        "tests": answer.get("tests", []),
                        "grown": {
                            rail: {phase: grown["grown"] for phase, grown in phases.items()}
                            for rail, phases in answer.get("counters", {}).items()
                        },
                    }
                )
        return found


def _place(node: Node) -> Place:
    return Place(node.pod, {rail.name: (rail.switch, rail.port) for rail in node.rails})


def _priorities(fabric: Fabric) -> dict[str, int]:
    """Return which priority the packets of each phase must have."""
    if fabric.qos is None:
        return {}
    data = fabric.qos.data.priority
    return {SINGLE: data, TOGETHER: data, CONTROL: fabric.qos.control.priority}


def _pairs(seen: Seen) -> list[Pair]:
    return [Pair.read(number, item) for number, _, item in seen]
