"""Did every link that a stage's traffic used keep its carrier? By what each node counted before and after each round.

What is lost for a second is sent again: bandwidth and latency hardly show it, and users' jobs end by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Hold
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion

# By what was to be watched (``rail0``, an interface, "*"): of each link that changed, or could not be read (null), how
# often it had changed at first and at last.
Told = Mapping[str, Mapping[str, Sequence[int | None]]]
_NAMED = 4


@dataclass(frozen=True)
class Owed:
    """The findings that nodes owe of their links: by subject what was to be watched, all by one check.

    A node that watched more by itself is judged by that, too.
    """

    check: str
    subjects: Mapping[str, Sequence[str]]
    hold: Hold


@dataclass(frozen=True)
class _Links:
    """What a node's links did, by what was asked for: how often each changed, and what leaves that open."""

    grown: Mapping[str, Mapping[str, int]]
    unclear: Mapping[str, Sequence[str]]


def with_links(conclusion: Conclusion, owed: Owed, told: Iterable[tuple[str, Told]]) -> Conclusion:
    """Return the conclusion with a finding on the links of every node; ``told`` is by node, in the order of the rounds.

    A link that changed rejects its node. Where so many nodes had one that the class suspects what they share, as a
    switch that was started anew, they are held.
    """
    series: dict[str, list[Told]] = {}
    for node, links in told:
        series.setdefault(node, []).append(links)
    found = {node: _links_of(each) for node, each in series.items()}
    changed = {node for node, links in found.items() if any(links.grown.values())}
    shared = ""
    if len(changed) >= owed.hold.nodes and len(changed) > owed.hold.share * len(found):
        shared = f"so did links of {len(changed)} of {len(found)} nodes: suspect a switch, no node is blamed"
    findings, held, doubted = dict(conclusion.findings), dict(conclusion.held), dict(conclusion.doubted)
    for node, measured in conclusion.findings.items():
        mine = [_finding(owed, subject, found.get(node), shared) for subject in owed.subjects]
        findings[node] = (*measured, *mine)
        why = next((each.reason for each in mine if each.measured and each.verdict == INCOMPLETE), "")
        if why and all(each.verdict != FAIL for each in findings[node]):
            held.setdefault(node, why)
    for node in sorted(changed - set(findings)):
        theirs = (_finding(owed, subject, found[node], shared) for subject in owed.subjects)
        doubted.setdefault(node, next(each.reason for each in theirs if each.measured))
    return replace(conclusion, findings=findings, held=held, doubted=doubted)


def _links_of(series: Sequence[Told]) -> _Links:
    grown: dict[str, dict[str, int]] = {}
    unclear: dict[str, list[str]] = {}
    for told in series:
        for name, links in told.items():
            mine = grown.setdefault(name, {})
            said = unclear.setdefault(name, [])
            for link, (first, last) in links.items():
                if first is None or last is None:
                    said.append(f"how often {_worded(link)} changed could not be read")
                elif last < first:
                    said.append(f"the count of {link} fell from {first} to {last}: it was set back")
                elif last > first:
                    mine[link] = mine.get(link, 0) + last - first
    return _Links(grown, unclear)


def _finding(owed: Owed, subject: str, links: _Links | None, shared: str) -> Finding:
    wanted, unit = owed.subjects[subject], "changes"
    if links is None:
        why = "the node told nothing of its links"
        return Finding(owed.check, subject, INCOMPLETE, None, 0, unit, why, "investigate")
    elsewhere = {name for other, names in owed.subjects.items() if other != subject for name in names}
    names = dict.fromkeys((*wanted, *(name for name in links.grown if name not in elsewhere)))
    grown = {link: count for name in names for link, count in links.grown.get(name, {}).items()}
    if grown:
        worst = max(grown, key=lambda link: grown[link])
        said = ", ".join(f"{link} {count} times" for link, count in list(grown.items())[:_NAMED])
        why = f"carriers were lost or found while it was measured: {said}"
        if shared:
            return Finding(owed.check, subject, INCOMPLETE, grown[worst], 0, unit, f"{why}; {shared}", "investigate")
        return Finding(owed.check, subject, FAIL, grown[worst], 0, unit, why, "reseat")
    unclear = [text for name in names for text in links.unclear.get(name, (f"nothing was told of {_worded(name)}",))]
    if unclear:
        why = "; ".join(list(dict.fromkeys(unclear))[:_NAMED])
        return Finding(owed.check, subject, INCOMPLETE, None, 0, unit, why, "investigate")
    return Finding(owed.check, subject, PASS, 0, 0, unit, f"{', '.join(map(_worded, names))}: no carrier was lost")


def _worded(name: str) -> str:
    return "any link of the host (fabric.socket_interface is not declared)" if name == "*" else name
