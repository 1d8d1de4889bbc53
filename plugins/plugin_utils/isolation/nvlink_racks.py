"""Is each node in the NVLink domain of its rack? What the nodes say of their own GPUs, held against one another.

A node alone cannot tell: its GPUs may agree on a domain that is another rack's, or a part of the rack's. And does it
exchange data over NVLink there? Floors that hold between racks too are kept by rails, and the transport's finding says
nothing of one rack in a job of several: no faster than rails can be is no NVLink, and who met nobody of its rack has
shown nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import NVLINK_RACK_CHECK
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import Seen, matrix_of

SUBJECT = "network"
# An exchange measured as so many times what the rails carry cannot have gone over them.
_BEYOND_RAILS = 1.1


@dataclass(frozen=True)
class NvLinkRacks:
    """What nodes say of their NVLink domain.

    ``racks`` is the rack of each node of the class, heard of or not; ``domains`` by node ``UUID/CLIQUE``, as in its
    fingerprint: several, separated by commas, where its GPUs differ, None where it is unread.
    """

    racks: Mapping[str, str | None]
    domains: Mapping[str, str | None]

    @cached_property
    def _sizes(self) -> Counter[str | None]:
        return Counter(self.racks.values())

    @cached_property
    def _votes(self) -> dict[str | None, Counter[str]]:
        """Return by rack how many nodes are in each domain; whoever is in none, or in several, tells of none."""
        found: dict[str | None, Counter[str]] = {}
        for node in self.domains:
            domain = self._domain(node)
            if domain is not None and not _fault(domain):
                found.setdefault(self.racks.get(node), Counter())[domain] += 1
        return found

    def _domain(self, node: str) -> str | None:
        domain = self.domains.get(node)
        # Examined while its class had no domain.
        return None if domain == "none" else domain

    def together(self, one: str, other: str) -> bool:
        """Return whether two nodes are in one rack, and say nothing else of their domains."""
        rack, domains = self.racks.get(one), {self._domain(one), self._domain(other)} - {None}
        return rack is not None and rack == self.racks.get(other) and len(domains) < 2

    def finding(self, node: str) -> Finding:
        """Return the finding about one node."""
        rack, own = self.racks.get(node), self._domain(node)
        if rack is None:
            return _incomplete(own, "the fleet file declares no rack of the node")
        if own is None:
            return _incomplete(None, "the node's NVLink domain could not be read")
        votes = self._votes.get(rack, Counter())
        heard, domain, times = votes.total(), *max(votes.items(), key=lambda each: each[1], default=("", 0))
        major = domain if 2 * times > heard else None
        if fault := _fault(own):
            return Finding(NVLINK_RACK_CHECK, SUBJECT, FAIL, own, major, "", fault, "investigate")
        if heard == 1:
            why = f"no other of the {self._sizes[rack]} nodes of rack {rack} is known to be in an NVLink domain"
            return _incomplete(own, why)
        if major is None:
            split = ", ".join(f"{count} in {each}" for each, count in sorted(votes.items()))
            why = f"rack {rack} has no NVLink domain that most of its nodes are in: {split}"
            return _incomplete(own, why)
        said = f"{times} of {self._sizes[rack]} nodes of rack {rack} are in NVLink domain {major}"
        if own == major:
            return Finding(NVLINK_RACK_CHECK, SUBJECT, PASS, own, major, "", said)
        return Finding(NVLINK_RACK_CHECK, SUBJECT, FAIL, own, major, "", f"{said}, this one in {own}", "investigate")


def rails_gb_per_s(expect: Expectations) -> float | None:
    """Return what the rails of a node carry for each of its ranks, None where they take no part."""
    if expect.nic is None or expect.collective.backend != "nccl":
        return None
    return expect.nic.speed_gbps / 8 * len(expect.nic.rails) / expect.collective.ranks_per_node


def rack_mates(racks: NvLinkRacks, seen: Seen, settings: Settings, rails: float | None) -> dict[str, tuple[int, int]]:
    """Return with how many nodes of its rack and domain each node exchanged data, and with how many by rails alone.

    What two nodes did best at the largest size counts. ``rails`` is as ``rails_gb_per_s`` gives it: where nobody knows
    what they carry, nobody is said to go by them.
    """
    nodes = sorted({str(node) for _number, plan, _item in seen for job in plan.get("groups", ()) for node in job})
    matrix = matrix_of(nodes, seen, settings.pairs.sizes_bytes, settings.ranks_per_node, spread=False)
    exchanges, at = matrix.exchanges, int(np.argmax(matrix.sizes))
    place = np.array([racks.racks.get(node) or "" for node in matrix.nodes])
    inside = np.flatnonzero(place[exchanges.one] == place[exchanges.other]) if len(exchanges.one) else ()
    best: dict[tuple[str, str], float] = {}
    for row in inside:
        pair = matrix.nodes[exchanges.one[row]], matrix.nodes[exchanges.other[row]]
        speed = np.median(exchanges.gb[row, at])
        if not np.isnan(speed) and racks.together(*pair):
            best[pair] = max(best.get(pair, 0.0), float(speed))
    found: dict[str, tuple[int, int]] = {}
    for pair, speed in best.items():
        for node in pair:
            met, slow = found.get(node, (0, 0))
            found[node] = met + 1, slow + (rails is not None and speed <= _BEYOND_RAILS * rails)
    return found


def with_racks(conclusion: Conclusion, racks: NvLinkRacks, mates: Mapping[str, tuple[int, int]]) -> Conclusion:
    """Return the conclusion with a finding on every node's domain; whoever cannot be told right from wrong is held.

    ``mates`` is as ``rack_mates`` gives it.
    """
    mine = {node: _driven(racks.finding(node), *mates.get(node, (0, 0))) for node in conclusion.findings}
    findings = {node: (*own, mine[node]) for node, own in conclusion.findings.items()}
    held = dict(conclusion.held)
    for node, found in mine.items():
        if found.verdict == INCOMPLETE and all(each.verdict != FAIL for each in findings[node]):
            held.setdefault(node, found.reason)
    return replace(conclusion, findings=findings, held=held)


def _driven(finding: Finding, met: int, slow: int) -> Finding:
    """Return the finding on a node that met so many of its rack, and so many of them no faster than rails are.

    It passes if it met any, and was faster with half of them or more.
    """
    if finding.verdict != PASS or 0 < met >= 2 * slow:
        return finding
    if not met:
        said = "exchanged data with no other node of its rack, so nothing shows that it uses NVLink"
        return replace(finding, verdict=INCOMPLETE, reason=f"{said}; {finding.reason}", action="investigate")
    why = f"no faster than rails with {slow} of {met} nodes of its rack, so not over NVLink; {finding.reason}"
    # Of two nodes nobody knows which it is.
    return replace(finding, verdict=FAIL if met > 1 else INCOMPLETE, reason=why, action="investigate")


def _fault(domain: str) -> str:
    """Return what is wrong with a node's domain whatever the others say, empty if nothing."""
    if "," in domain:
        return f"the node's GPUs are in several NVLink domains: {domain}"
    # A GPU that has not joined a domain states a UUID of zeros.
    if not domain.partition("/")[0].strip("0-"):
        return "the node's GPUs have joined no NVLink domain"
    return ""


def _incomplete(own: str | None, why: str) -> Finding:
    return Finding(NVLINK_RACK_CHECK, SUBJECT, INCOMPLETE, own, None, "", why, "investigate")
