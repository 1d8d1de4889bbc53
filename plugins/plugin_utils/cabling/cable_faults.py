"""The live fabric against the cabling plan: each fault once, with both ends in the plan's names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CABLING_CHECK
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.link_quality import ACTIVE, quality
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.live_fabric import LiveFabric
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.planned_cables import Plan
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.cabling_plan import Cable, End

_NO_SWITCH = "missing switch"
_NO_MANAGER = "no link is active: is there a subnet manager?"


@dataclass(frozen=True)
class Fault:
    """One thing that is not as planned: the planned cables it concerns, what was expected and what was found."""

    kind: str
    cables: tuple[Cable, ...]
    expected: str
    found: str
    verdict: str = FAIL

    def __str__(self) -> str:
        return f"{self.kind}: expected {self.expected}; found {self.found}"


@dataclass(frozen=True)
class Comparison:
    """What came of it. ``unread`` says what could not be read.

    ``unseen`` has the cables neither end of which was asked: hosts hear of their own switch over LLDP, not of those
    above it.
    """

    plan: Plan
    faults: tuple[Fault, ...]
    unread: tuple[str, ...] = ()
    unseen: frozenset[Cable] = frozenset()

    @property
    def verdict(self) -> str:
        """``pass`` only where every cable that was asked about is as planned, and there is one."""
        doubts = [INCOMPLETE] if self.unread or len(self.unseen) == len(self.plan.cables) else []
        return worst([PASS, *(fault.verdict for fault in self.faults), *doubts])

    @cached_property
    def by_cable(self) -> dict[Cable, list[Fault]]:
        """The faults of each cable that has any."""
        found: dict[Cable, list[Fault]] = {}
        for fault in self.faults:
            for cable in fault.cables:
                found.setdefault(cable, []).append(fault)
        return found

    @cached_property
    def by_host(self) -> dict[str, list[Cable]]:
        """The planned cables of each host."""
        found: dict[str, list[Cable]] = {}
        for cable in self.plan.cables:
            if cable.below in self.plan.rails:
                found.setdefault(cable.below.name, []).append(cable)
        return found

    def summary(self) -> str:
        """Return what people read: one line for each fault, and what could not be known."""
        lines = [f"{len(self.plan.cables)} cables planned, {len(self.faults)} faults"]
        lines += [f"- {fault}" for fault in self.faults]
        lines += [f"- not known: {reason}" for reason in self.unread]
        if self.unseen:
            lines.append(
                f"{len(self.unseen)} cables were not asked about, neither of their ends being one of the hosts"
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "verdict": self.verdict,
            "cables": len(self.plan.cables),
            "unseen": len(self.unseen),
            "unread": list(self.unread),
            "faults": [
                {**asdict(fault), "cables": [self.plan.cable(cable) for cable in fault.cables]} for fault in self.faults
            ],
        }


def cabling_findings(comparison: Comparison, node: str) -> list[Finding]:
    """Return one finding for each rail of a node that has a planned cable.

    It passes only where the cable was seen as planned and nothing about the fabric stayed unread. That a whole switch
    is gone is no host's fault: incomplete for those that belong to it.
    """
    return [_finding(comparison, cable) for cable in comparison.by_host.get(node, ())]


def fabric_findings(comparison: Comparison) -> list[Finding]:
    """Return a finding for each fault that concerns no host's rail: links between switches, and what is extra."""
    rails = comparison.plan.rails
    return [
        Finding(CABLING_CHECK, "fabric", each.verdict, each.found, each.expected, "", str(each), _action(each))
        for each in comparison.faults
        if not any(cable.below in rails for cable in each.cables)
    ]


def _finding(comparison: Comparison, cable: Cable) -> Finding:
    plan, faults = comparison.plan, comparison.by_cable.get(cable, [])
    subject, expected = f"nic {cable.below.port}", plan.called(cable.above)
    if faults:
        verdict = worst(INCOMPLETE if fault.kind == _NO_SWITCH else fault.verdict for fault in faults)
        why = f"{plan.cable(cable)}: " + "; ".join(map(str, faults))
        return Finding(CABLING_CHECK, subject, verdict, faults[0].found, expected, "", why, _action(faults[0]))
    if comparison.unread or cable in comparison.unseen:
        reason = "; ".join(comparison.unread) or "neither end was asked"
        why = f"{plan.cable(cable)}: not known: {reason}"
        return Finding(CABLING_CHECK, subject, INCOMPLETE, None, expected, "", why, "investigate")
    return Finding(CABLING_CHECK, subject, PASS, expected, expected)


def _action(fault: Fault) -> str:
    nobodys = fault.kind == _NO_SWITCH or fault.kind.startswith("extra")
    return "investigate" if fault.verdict == INCOMPLETE or nobodys else "reseat"


def compare(plan: Plan, live: LiveFabric) -> Comparison:
    """Return what differs between plan and live fabric, each cause once."""
    reach = {end: port.peer for end, port in live.ports.items() if port.peer is not None}
    if not reach and live.examined is None:
        dark = [_dark(plan, live, cable) for cable in plan.cables if cable.below in live.ports]
        return Comparison(plan, tuple(dark), (*live.unread, "no link is seen in the whole fabric"))
    for end, peer in list(reach.items()):
        reach.setdefault(peer, end)
    asked = [cable for cable in plan.cables if _asked(live, cable)]
    active = not live.physical or any(port.state == ACTIVE for port in live.ports.values())
    unread = (
        live.unread
        if active or any(port.state is None for port in live.ports.values())
        else (*live.unread, _NO_MANAGER)
    )
    faults: list[Fault] = []
    wrong: list[Cable] = []
    unknown: dict[str, list[Cable]] = {}
    for cable in asked:
        ends = (*cable, *(reach[end] for end in cable if end in reach))
        if doubt := next((live.doubtful[end] for end in ends if end in live.doubtful), None):
            unknown.setdefault(doubt, []).append(cable)
        elif reach.get(cable.below) != cable.above or reach.get(cable.above) != cable.below:
            wrong.append(cable)
        elif live.physical:
            faults += [Fault(kind, (cable,), *rest) for kind, *rest in quality(plan, live, cable, active)]
    faults += [
        Fault("unknown", tuple(cables), ", ".join(map(plan.cable, cables)), doubt, INCOMPLETE)
        for doubt, cables in unknown.items()
    ]
    faults += _misplaced(plan, live, reach, wrong)
    faults += _extra(plan, live, reach)
    return Comparison(plan, tuple(faults), unread, frozenset(plan.cables) - frozenset(asked))


def _asked(live: LiveFabric, cable: Cable) -> bool:
    return live.examined is None or any(end.name in live.examined for end in cable)


def _misplaced(plan: Plan, live: LiveFabric, reach: dict[End, End], wrong: Sequence[Cable]) -> list[Fault]:
    """Return the faults of cables whose ends do not reach each other."""
    found, left = _absent(plan, live, reach, wrong)
    ends = {end: cable for cable in left for end in cable}
    for group in _groups(left, ends, reach):
        closed = all(reach.get(end) in ends for cable in group for end in cable)
        if len(group) > 1 and closed:
            found.append(_exchanged(plan, reach, group))
        else:
            found += [_alone(plan, live, reach, cable) for cable in group]
    return found


def _absent(
    plan: Plan, live: LiveFabric, reach: dict[End, End], wrong: Sequence[Cable]
) -> tuple[list[Fault], list[Cable]]:
    """Return a fault for each whole switch or host that is not in the fabric, and the cables these do not explain."""
    if live.examined is not None:
        return [], list(wrong)
    there = {end.name for end in live.ports}
    missing: dict[str, list[Cable]] = {}
    left = []
    for cable in wrong:
        # The upper end first: a leaf that is gone explains its hosts' links.
        gone = next((end.name for end in reversed(cable) if end.name not in there), None)
        other = cable.below if gone == cable.above.name else cable.above
        if gone is None or (other in reach and reach[other] in plan.far):
            left.append(cable)
        else:
            missing.setdefault(gone, []).append(cable)
    faults = []
    for name, cables in missing.items():
        kind = _NO_SWITCH if name in plan.switches else "missing host"
        expected = ", ".join(map(plan.cable, cables[:8])) + (f" and {len(cables) - 8} more" if len(cables) > 8 else "")
        taken = [
            f"{plan.called(end)} reaches {plan.called(reach[end])}" for each in cables for end in each if end in reach
        ]
        found = "; ".join([f"{name} is not in the fabric", *taken])
        faults.append(Fault(kind, tuple(cables), expected, found))
    return faults, left


def _groups(cables: Sequence[Cable], ends: dict[End, Cable], reach: dict[End, End]) -> list[list[Cable]]:
    """Return the cables in groups whose ends reach each other's, in the plan's order."""
    groups, done = [], set()
    for first in cables:
        if first in done:
            continue
        group, open_cables = [], [first]
        done.add(first)
        while open_cables:
            cable = open_cables.pop()
            group.append(cable)
            for end in cable:
                other = ends.get(reach[end]) if end in reach else None
                if other is not None and other not in done:
                    done.add(other)
                    open_cables.append(other)
        groups.append(sorted(group))
    return groups


def _exchanged(plan: Plan, reach: dict[End, End], group: Sequence[Cable]) -> Fault:
    """Return the fault of cables that took each other's places."""
    hosts = {cable.below.name for cable in group}
    if len(group) > 2:
        kind = f"{len(group)} cables exchanged"
    elif len(hosts) == 1 and all(cable.below in plan.rails for cable in group):
        kind = "crossed rails"
    else:
        kind = "swapped pair"
    found = " and ".join(f"{plan.called(cable.below)} - {plan.called(reach[cable.below])}" for cable in group)
    return Fault(kind, tuple(group), " and ".join(map(plan.cable, group)), found)


def _alone(plan: Plan, live: LiveFabric, reach: dict[End, End], cable: Cable) -> Fault:
    """Return the fault of one cable whose ends reach something else or nothing."""
    reached = [(end, reach[end]) for end in cable if end in reach]
    if not reached:
        return _dark(plan, live, cable)
    found = "; ".join(f"{plan.called(end)} reaches {_place(plan, live, peer)}" for end, peer in reached)
    below, above = cable
    near, peer = above, reach.get(below)
    if peer is None and below not in plan.rails and reach[above] not in plan.far:
        # Moved at its lower end.
        near, peer = below, reach[above]
    if peer is None:
        # Somebody else's cable sits in the upper port.
        lost = (
            f"{plan.called(below)} is linked to nothing" if below in live.ports else f"{plan.called(below)} is not seen"
        )
        return Fault("missing link", (cable,), plan.cable(cable), f"{lost}; {found}")
    if peer.name not in plan.switches:
        kind = "unexpected reach"
    elif peer.name == near.name:
        kind = "wrong port"
    else:
        kind = "wrong leaf" if below in plan.rails else "wrong switch"
    return Fault(kind, (cable,), plan.cable(cable), found)


def _place(plan: Plan, live: LiveFabric, end: End) -> str:
    """Return an end with whose place it is."""
    planned = plan.far.get(end)
    if planned is not None:
        return f"{plan.called(end)} (planned for {plan.called(planned)})"
    if plan.known(end.name):
        return f"{plan.called(end)} (planned for nothing)"
    return f"{plan.called(end)} ({'a host' if end.name in live.hosts else 'a switch'} that the fleet does not declare)"


def _dark(plan: Plan, live: LiveFabric, cable: Cable) -> Fault:
    """Return the fault of a cable both of whose ends reach nothing."""
    states = []
    for end in cable:
        port = live.ports.get(end)
        if port is None:
            states.append(f"{plan.called(end)} is not in the fabric")
        else:
            states.append(f"{plan.called(end)} is {port.state or 'linked to nothing'}")
    return Fault("dead link", (cable,), plan.cable(cable), "; ".join(states))


def _extra(plan: Plan, live: LiveFabric, reach: dict[End, End]) -> list[Fault]:
    """Return the faults of links neither end of which is planned: strangers' by stranger, others one by one."""
    links: dict[tuple[str, str], list[tuple[End, End]]] = {}
    for end, peer in reach.items():
        if end > peer or end in plan.far or peer in plan.far or any(plan.belongs(each.name) for each in (end, peer)):
            continue
        stranger = next((each.name for each in (end, peer) if not plan.known(each.name)), None)
        if stranger is None:
            links["extra cable", f"{end} {peer}"] = [(end, peer)]
        else:
            links.setdefault(("extra host" if stranger in live.hosts else "extra switch", stranger), []).append(
                (end, peer)
            )
    return [
        Fault(kind, (), "nothing there", ", ".join(sorted(_link(plan, each) for each in found)))
        for (kind, _), found in links.items()
    ]


def _link(plan: Plan, link: Iterable[End]) -> str:
    hosts_first = sorted(link, key=lambda end: (end.name in plan.switches, end))
    return " - ".join(map(plan.called, hosts_first))
