"""Each question, one answer away from right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_judging import QUESTIONS, judge
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_plan import plans_of
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_state import (
    ADDRESSES_AND_PORTS,
    QUEUE_PAIR,
    Ecn,
    Neighbour,
    PortState,
    SwitchState,
    Unknown,
)

from .leaf import fleet_of

FLEET = fleet_of("eos", 1, dcqcn=True, routing="e_ecmp")
PLAN = plans_of(FLEET)["tor-1"]
HOST, UPLINK = "Ethernet2/1", "Ethernet9/1"


def right(port: str) -> PortState:
    ours = PLAN.ports[port]
    names = ("0c42.a100.0001", "enp26s0np0") if ours.host else (ours.other.port,)
    return PortState(
        exists=True,
        mtu_bytes=9000,
        pfc=frozenset({3, 5}),
        watchdog=True,
        trust_dscp=True,
        classes={10: "3", 20: "5", 50: "7", 0: "1"},
        ecn={3: Ecn(150_000, 1_500_000), 0: Ecn(1, 2)},
        headroom=frozenset({3, 5}),
        addresses=frozenset({ours.address} if ours.address else ()),
        neighbours=(Neighbour(ours.other.name, names),),
        errors={"fcs": 0},
        discards={"in": 0},
        storms=0,
    )


def state(port: str = HOST, **changes: Any) -> SwitchState:
    ports = {name: right(name) for name in PLAN.ports}
    ports[port] = replace(ports[port], **changes)
    return SwitchState(ADDRESSES_AND_PORTS | {QUEUE_PAIR}, ports)


def test_right_switch_passes_every_question_that_is_asked() -> None:
    findings = judge(PLAN, state())
    assert {finding.verdict for finding in findings} == {PASS}
    assert {finding.check for finding in findings} == {f"switch_{question}" for question in QUESTIONS}


OTHER = (Neighbour("gpu-1", ("aa", "eth1")), Neighbour("gpu-2", ("bb", "eth1")))
WRONG = [
    ("mtu", {"mtu_bytes": 8999}, FAIL),
    ("pfc", {"pfc": frozenset({3})}, FAIL),
    ("pfc", {"pfc": frozenset({3, 4, 5})}, FAIL),
    ("pfc_watchdog", {"watchdog": False}, FAIL),
    ("trust", {"trust_dscp": False}, FAIL),
    ("dscp", {"classes": {10: "3", 20: "5"}}, FAIL),
    ("dscp", {"classes": {10: "3", 20: "5", 50: "7 in queue 0"}}, FAIL),
    ("ecn", {"ecn": {}}, FAIL),
    ("ecn", {"ecn": {5: Ecn(150_000, 1_500_000)}}, FAIL),
    ("ecn", {"ecn": {3: Ecn(149_000, 1_500_000)}}, FAIL),
    ("ecn", {"ecn": {3: Ecn(150_000, 1_510_000)}}, FAIL),
    ("headroom", {"headroom": frozenset({3})}, FAIL),
    ("address", {"addresses": frozenset({"172.17.0.1/31"})}, FAIL),
    ("cable", {"neighbours": ()}, FAIL),
    ("cable", {"neighbours": (Neighbour("gpu-2", ("aa", "eth1")),)}, FAIL),
    ("cable", {"neighbours": OTHER}, FAIL),
    ("errors", {"errors": {"fcs": 0, "tx": 1}}, FAIL),
    ("discards", {"discards": {"in": 1}}, FAIL),
    ("pause_storms", {"storms": 1}, FAIL),
    *((question, {name: Unknown("why")}, INCOMPLETE) for question, name in [("mtu", "mtu_bytes"), ("pfc", "pfc")]),
    ("headroom", {"headroom": Unknown("why")}, INCOMPLETE),
    ("errors", {"errors": Unknown("why")}, INCOMPLETE),
]


@pytest.mark.parametrize(("question", "changes", "verdict"), WRONG, ids=lambda value: str(value)[:60])
def test_one_wrong_answer_is_one_finding_on_that_port(question: str, changes: Any, verdict: str) -> None:
    found = [finding for finding in judge(PLAN, state(**changes)) if finding.verdict != PASS]
    assert [(each.check, each.subject, each.verdict) for each in found] == [
        (f"switch_{question}", f"tor-1 {HOST}", verdict)
    ]
    assert found[0].expected is not None
    assert found[0].reason == "why" if verdict == INCOMPLETE else found[0].measured is not None
    assert {finding.verdict for finding in judge(PLAN, state(**changes), [question])} == {PASS}


def test_uplink_is_judged_by_switch_and_port_in_the_words_of_the_plan() -> None:
    heard = (Neighbour("ctsw-1.site.example", ("Ethernet2/1",)),)
    (found,) = [each for each in judge(PLAN, state(UPLINK, neighbours=heard)) if each.verdict != PASS]
    assert (found.check, found.measured) == ("switch_cable", "ctsw-1.site.example Ethernet2/1")
    assert found.expected == "ctsw-1 Ethernet1/1"


def test_port_that_is_not_there_is_one_finding() -> None:
    found = [each for each in judge(PLAN, state(exists=False, mtu_bytes=Unknown("x"))) if each.verdict != PASS]
    assert [(each.check, each.measured) for each in found] == [("switch_port", "no")]


def test_port_without_a_declared_cable_is_not_judged() -> None:
    known = state()
    extra = replace(known, ports={**known.ports, "Ethernet60/1": right(HOST)})
    assert judge(PLAN, extra) == judge(PLAN, known)


@pytest.mark.parametrize(
    ("fields", "not_shown", "verdict"),
    [
        (ADDRESSES_AND_PORTS, {}, FAIL),
        (ADDRESSES_AND_PORTS, {QUEUE_PAIR: "cannot be told"}, INCOMPLETE),
        (ADDRESSES_AND_PORTS | {QUEUE_PAIR, "x"}, {}, PASS),
        (Unknown("why"), {}, INCOMPLETE),
    ],
)
def test_switch_hashes_what_the_routing_says(fields: Any, not_shown: Any, verdict: str) -> None:
    finding = judge(PLAN, replace(state(), ecmp=fields, not_shown=not_shown))[0]
    assert (finding.check, finding.subject, finding.verdict) == ("switch_ecmp", "tor-1", verdict)


def test_marking_is_not_asked_for_with_dcqcn_off_and_no_hash_with_packet_spray() -> None:
    plan = plans_of(fleet_of("eos", 1, dcqcn=False, routing="packet_spray"))["tor-1"]
    findings = judge(plan, state(ecn={}))
    assert "switch_ecn" not in {finding.check for finding in findings}
    (spray,) = [finding for finding in findings if finding.check == "switch_ecmp"]
    assert (spray.verdict, spray.reason) == (INCOMPLETE, "how eos spreads packets (packet_spray) is not read")


def test_host_is_the_right_one_whatever_its_system_calls_the_interface() -> None:
    heard = (Neighbour("gpu-1.site.example", ("0c42.a100.0002", "ens61f1np1")),)
    assert [each.check for each in judge(PLAN, state(neighbours=heard)) if each.verdict != PASS] == []
