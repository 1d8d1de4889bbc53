"""A switch's state against the fleet's declaration: one finding for each question about each port with a cable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_plan import HASHED, PortPlan, SwitchPlan
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_state import (
    Neighbour,
    PortState,
    SwitchState,
    Unknown,
)

T = TypeVar("T")
# What can be asked, and what is asked by it.
QUESTIONS = {
    "port": "the port is there",
    "mtu": "the port carries packets as large as the hosts send",
    "pfc": "exactly the lossless priorities are paused",
    "pfc_watchdog": "the watchdog ends pauses that never end",
    "trust": "the port trusts the packets' DSCP",
    "dscp": "each declared DSCP goes into the traffic class of its priority",
    "ecn": "with DCQCN, the data class marks packets between the declared thresholds",
    "headroom": "lossless priorities have buffer for what arrives after a pause was sent",
    "address": "the port has the gateway's address of the host's rail",
    "cable": "LLDP hears the declared host, or the declared port of a switch",
    "errors": "no errors were counted",
    "discards": "no packet was discarded",
    "pause_storms": "the watchdog never had to act",
    "ecmp": "flows are spread by the declared header fields",
}
_UNITS = {"mtu": "B", "ecn": "B", "errors": "since last cleared", "discards": "since last cleared"}
# The RoCE preset shows thresholds rounded to two decimals (1.43 MB).
_ROUNDING = 0.005


def judge(plan: SwitchPlan, state: SwitchState, leave_out: Collection[str] = ()) -> list[Finding]:
    """Return the findings on one switch, without the questions in ``leave_out``."""
    findings = [_ecmp(plan, state), *(each for port in plan.ports for each in _port(plan, port, state.ports[port]))]
    return [finding for finding in findings if finding.check.removeprefix("switch_") not in leave_out]


def unasked(plan: SwitchPlan, reason: str) -> Finding:
    """Return the finding on a switch that could not be asked at all."""
    return Finding("switch_session", plan.switch.name, INCOMPLETE, reason=reason, action="investigate")


def _finding(question: str, subject: str, value: T | Unknown, expected: Any, right: Callable[[T], bool]) -> Finding:
    """Return what follows from a value, or ``incomplete`` where it was not reported."""
    check, wanted, unit = f"switch_{question}", _text(expected), _UNITS.get(question, "")
    if isinstance(value, Unknown):
        return Finding(check, subject, INCOMPLETE, None, wanted, unit, value.reason, "investigate")
    verdict = PASS if right(value) else FAIL
    action = "none" if verdict == PASS else "investigate"
    reason = "" if verdict == PASS else f"not so: {QUESTIONS[question]}"
    return Finding(check, subject, verdict, _text(value), wanted, unit, reason, action)


def _text(value: Any) -> str | int | float:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float, str)):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {each}" for key, each in sorted(value.items())) or "none"
    texts = [str(each) for each in (value if isinstance(value, tuple) else sorted(value))]
    return ", ".join(texts) or "none"


def _ecmp(plan: SwitchPlan, state: SwitchState) -> Finding:
    routing = plan.fabric.routing or ""
    if routing not in HASHED:
        value: Any = Unknown(f"how {plan.switch.system} spreads packets ({routing}) is not read")
        return _finding("ecmp", plan.switch.name, value, routing, bool)
    wanted, fields = HASHED[routing], state.ecmp
    missing = frozenset() if isinstance(fields, Unknown) else wanted - fields
    if reasons := [state.not_shown[each] for each in sorted(missing) if each in state.not_shown]:
        fields = Unknown("; ".join(reasons))
    return _finding("ecmp", plan.switch.name, fields, wanted, lambda found: found >= wanted)


def _port(plan: SwitchPlan, port: str, state: PortState) -> Iterator[Finding]:
    subject, ours = f"{plan.switch.name} {port}", plan.ports[port]
    there = _finding("port", subject, state.exists, True, bool)
    yield there
    if there.verdict == FAIL:
        return
    yield _finding("mtu", subject, state.mtu_bytes, plan.fabric.mtu_bytes, lambda mtu: _reaches(mtu, plan))
    lossless = frozenset(plan.lossless)
    yield _finding("pfc", subject, state.pfc, lossless, lambda found: found == lossless)
    if plan.classes:
        yield _finding("trust", subject, state.trust_dscp, True, bool)
        yield _dscp(plan, subject, state)
    if lossless:
        yield _finding("pfc_watchdog", subject, state.watchdog, True, bool)
        yield _finding("headroom", subject, state.headroom, lossless, lambda found: found >= lossless)
        yield _finding("pause_storms", subject, state.storms, 0, lambda count: count == 0)
    if plan.marks:
        yield _ecn(plan, subject, state)
    if ours.address:
        yield _finding("address", subject, state.addresses, ours.address, lambda found: ours.address in found)
    yield _cable(ours, subject, state.neighbours)
    for question, counted in (("errors", state.errors), ("discards", state.discards)):
        yield _finding(question, subject, counted, 0, lambda counts: not any(counts.values()))


def _reaches(mtu: int, plan: SwitchPlan) -> bool:
    return plan.fabric.mtu_bytes is not None and mtu >= plan.fabric.mtu_bytes


def _dscp(plan: SwitchPlan, subject: str, state: PortState) -> Finding:
    wanted = {dscp: str(priority) for dscp, priority in plan.classes.items()}
    classes: Any = state.classes
    if not isinstance(classes, Unknown):
        classes = {dscp: classes.get(dscp, "unmapped") for dscp in wanted}
    return _finding("dscp", subject, classes, wanted, lambda found: found == wanted)


def _ecn(plan: SwitchPlan, subject: str, state: PortState) -> Finding:
    wanted = plan.marks
    marks: Any = state.ecn
    if not isinstance(marks, Unknown):
        marks = {priority: marks.get(priority, "no marking") for priority in wanted}

    def right(found: Mapping[int, Any]) -> bool:
        return all(
            found[priority] != "no marking"
            and abs(found[priority].min_bytes - ecn.min_bytes) <= ecn.min_bytes * _ROUNDING
            and abs(found[priority].max_bytes - ecn.max_bytes) <= ecn.max_bytes * _ROUNDING
            for priority, ecn in wanted.items()
        )

    shown = {priority: f"{ecn.min_bytes} to {ecn.max_bytes}" for priority, ecn in wanted.items()}
    return _finding("ecn", subject, marks, shown, right)


def _cable(ours: PortPlan, subject: str, heard: tuple[Neighbour, ...] | Unknown) -> Finding:
    """Return what LLDP says of the other end, in the words of the cabling plan.

    A host tells a name that its system chose for the interface, or a MAC address: not which rail it is.
    """
    other = ours.other
    expected = other.name if ours.host else str(other)

    def right(found: tuple[Neighbour, ...]) -> bool:
        named = len(found) == 1 and _short(found[0].system) == _short(other.name)
        return named and (ours.host or other.port in found[0].ports)

    return _finding("cable", subject, heard, expected, right)


def _short(name: str) -> str:
    return name.split(".", maxsplit=1)[0].lower()
