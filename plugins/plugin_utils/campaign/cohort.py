"""What a play asks to be proven, and which of its nodes are tested together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import DEPENDS
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import (
    Evidence,
    EvidenceError,
    digest_of,
    expect_digest_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import plain
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet


@dataclass(frozen=True)
class Request:
    """What the play asks for. ``evidence`` holds this run's preflight evidence by node.

    ``cabling`` is what was read of the live fabric, for the stage that judges it: results by host under ``lldp``, or by
    tool under ``infiniband``. ``baselines`` are the campaigns whose proposals were adopted.
    """

    fleet: Fleet
    nodes: Sequence[str]
    partners: Sequence[str] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    port: int = 29400
    budget_seconds: int = 3600
    round_seconds: int = 300
    partner_wait_seconds: int = 0
    baselines: Sequence[str] = ()
    cabling: Mapping[str, Any] = field(default_factory=dict)
    check: bool = False


@dataclass(frozen=True)
class Cohort:
    """Nodes of one hardware class on one fabric, with what their evidence will carry."""

    hardware_class: str
    members: tuple[str, ...]
    partners: tuple[str, ...]
    preflight: Mapping[str, Evidence]
    expect: Expectations

    @cached_property
    def declared(self) -> Mapping[str, Any]:
        """The expectations as plain data, of which digests are taken."""
        data: dict[str, Any] = plain(self.expect)
        return data

    def identity(self, stage: str, surroundings: Mapping[str, Any]) -> str:
        """Return the digest of everything that the campaign's observations depend on."""
        nodes = {
            name: [
                self.preflight[name].boot_id,
                {key: self.preflight[name].fingerprint.get(key) for key in DEPENDS[stage]},
            ]
            for name in self.members
        }
        expect = expect_digest_of(stage, self.declared)
        return digest_of({"nodes": nodes, "expect": expect, "surroundings": surroundings})[:12]


def cohorts_of(request: Request) -> tuple[list[Cohort], dict[str, str]]:
    """Return the nodes by hardware class, and why a node is in no cohort."""
    fleet = request.fleet
    skipped: dict[str, str] = {}
    preflight: dict[str, Evidence] = {}
    for name in request.nodes:
        if name not in fleet.compute:
            skipped[name] = "not a compute node of the fleet"
            continue
        found, why = _preflight(name, request.evidence.get(name))
        if found is None:
            skipped[name] = why
        else:
            preflight[name] = found
    cohorts = []
    class_of = {name: str(node.hardware_class) for name, node in fleet.compute.items()}
    tested = set(request.nodes)
    for hardware_class in sorted({class_of[name] for name in preflight}):
        members = sorted(name for name in preflight if class_of[name] == hardware_class)
        # In the order in which they are to be taken.
        others = [name for name in dict.fromkeys(request.partners) if name not in tested]
        partners = [name for name in others if class_of.get(name) == hardware_class]
        mine = {name: preflight[name] for name in members}
        expect = fleet.classes[hardware_class]
        cohorts.append(Cohort(hardware_class, tuple(members), tuple(partners), mine, expect))
    return cohorts, skipped


def _preflight(name: str, given: Any) -> tuple[Evidence | None, str]:
    items = given if isinstance(given, Sequence) and not isinstance(given, str) else [given] if given else []
    found = []
    for item in items:
        try:
            evidence = Evidence.from_dict(item)
        except EvidenceError as exc:
            return None, str(exc)
        if evidence.node == name and evidence.stage == "preflight":
            found.append(evidence)
    if not found:
        return None, "no preflight evidence of this run: nothing to tie a measurement to"
    return max(found, key=lambda evidence: evidence.started), ""
