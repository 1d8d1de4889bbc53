"""Is each node in the NVLink domain of its rack? What the nodes say of their own GPUs, held against one another.

A node alone cannot tell: its GPUs may agree on a domain that is another rack's, or a part of the rack's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import NVLINK_RACK_CHECK
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion

SUBJECT = "network"


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


def with_racks(conclusion: Conclusion, racks: NvLinkRacks) -> Conclusion:
    """Return the conclusion with a finding on every node's domain; whoever cannot be told right from wrong is held."""
    mine = {node: racks.finding(node) for node in conclusion.findings}
    findings = {node: (*own, mine[node]) for node, own in conclusion.findings.items()}
    held = dict(conclusion.held)
    for node, found in mine.items():
        if found.verdict == INCOMPLETE and all(each.verdict != FAIL for each in findings[node]):
            held.setdefault(node, found.reason)
    return replace(conclusion, findings=findings, held=held)


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
