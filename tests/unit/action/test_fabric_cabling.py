"""The cables in stage fabric's evidence: who is plugged in wrongly is rejected, whatever its bandwidth is."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import required
from ansible_collections.muster.cluster.plugins.module_utils.nic.declared_nics import rails_of
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Request, cohorts_of
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.cabling_plan import cables_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.fabric_stage import FabricRounds

from tests.typed import typed
from tests.unit.plugin_utils.fabric.examples import small_roce

NODES = ("gpu-1", "gpu-2")


@functools.cache
def site(**fabric: Any) -> Fleet:
    data = small_roce()
    data["fabric"].update(fabric)
    return Fleet.from_data(data, "site.fleet.yml")


PLANNED = {tuple(cable.below): tuple(cable.above) for cable in cables_of(site().nodes, site().fabric)}


RAILS = rails_of(site().classes["xe9680_h100"])
# As systemd calls them once udev has seen a switch of mode: by bus, in no order of the rails.
NAMES = [f"enp{int(rail.address[5:7], 16)}s0np0" for rail in RAILS]


def heard(node: str, ports: dict[int, tuple[str, ...] | None] | None = None) -> dict[str, Any]:
    """What lldp_neighbors_info gives, each rail at its planned port unless said otherwise."""
    entries = []
    for rail in range(8):
        place = (ports or {}).get(rail, PLANNED[node, f"rail{rail}"])
        if place is not None:
            chassis = {place[0]: {"id": {"type": "mac", "value": "02:00"}}}
            port = {"id": {"type": "ifname", "value": place[1]}}
            entries.append({NAMES[rail]: {"via": "LLDP", "chassis": chassis, "port": port}})
    interfaces = {rail.address: [NAMES[rail.rail]] for rail in RAILS}
    return {"lldp": json.dumps({"lldp": {"interface": entries}}), "interfaces": interfaces, "reason": ""}


def concluded(cabling: dict[str, Any], fleet: Fleet | None = None, partners: tuple[str, ...] = ()) -> Conclusion:
    declared = fleet or site()
    evidence = {
        name: [Evidence(f"pre-{name}", name, "preflight", 1.0, 2.0, "boot-1", {}, "digest").to_dict()] for name in NODES
    }
    request = Request(declared, NODES, partners, evidence, cabling=cabling)
    (cohort,), skipped = cohorts_of(request)
    assert skipped == {}
    return FabricRounds(request, cohort).conclude_early([], "no time")


def cables(conclusion: Conclusion, node: str) -> dict[str, Finding]:
    return {each.subject: each for each in conclusion.findings[node] if each.check == "cabling"}


def test_evidence_has_everything_that_is_owed_of_each_rail() -> None:
    conclusion = concluded({"lldp": {name: heard(name) for name in NODES}})
    (expect,) = site().classes.values()
    for node in NODES:
        found = sorted((each.check, each.subject) for each in conclusion.findings[node])
        assert found == sorted(required("fabric", typed(expect)))
        assert {each.verdict for each in cables(conclusion, node).values()} == {PASS}
    assert conclusion.held == {}


def test_crossed_rails_are_rejected_with_both_ends_and_the_neighbour_is_not() -> None:
    one, other = PLANNED["gpu-1", "rail2"], PLANNED["gpu-1", "rail5"]
    conclusion = concluded({"lldp": {"gpu-1": heard("gpu-1", {2: other, 5: one}), "gpu-2": heard("gpu-2")}})
    found = cables(conclusion, "gpu-1")
    assert {name for name, each in found.items() if each.verdict == FAIL} == {"nic rail2", "nic rail5"}
    wrong = found["nic rail2"]
    assert (wrong.action, wrong.expected) == ("reseat", "tor-1 port Ethernet3/1")
    assert "gpu-1 rail 2 - tor-1 port Ethernet3/1" in wrong.reason
    assert "gpu-1 rail 2 - tor-1 port Ethernet6/1" in wrong.reason
    assert {each.verdict for each in cables(conclusion, "gpu-2").values()} == {PASS}
    assert conclusion.held == {}


def test_host_in_the_place_of_one_that_was_not_asked_blames_itself_alone() -> None:
    wrongly = heard("gpu-2", {0: PLANNED["gpu-3", "rail0"]})
    conclusion = concluded({"lldp": {"gpu-1": heard("gpu-1"), "gpu-2": wrongly}})
    wrong = cables(conclusion, "gpu-2")["nic rail0"]
    assert wrong.verdict == FAIL
    assert "gpu-2 rail 0 reaches tor-2 port Ethernet1/1 (planned for gpu-3 rail 0)" in wrong.reason
    assert {each.verdict for each in cables(conclusion, "gpu-1").values()} == {PASS}
    assert (conclusion.held, conclusion.doubted, conclusion.remarks) == ({}, {}, ())


UNKNOWN: dict[str, tuple[dict[str, Any], int]] = {
    "nothing read": ({}, 8),
    "nobody asked": ({"lldp": {}}, 8),
    "task failed": ({"lldp": {"gpu-1": {"msg": "timed out", "failed": True}}}, 8),
    "no tool": ({"lldp": {"gpu-1": {**heard("gpu-1"), "reason": "lldpctl: not found"}}}, 8),
    "cut short": ({"lldp": {"gpu-1": {**heard("gpu-1"), "lldp": heard("gpu-1")["lldp"][:300]}}}, 8),
    "one silent": ({"lldp": {"gpu-1": heard("gpu-1", {3: None})}}, 1),
    "no interface": ({"lldp": {"gpu-1": {**heard("gpu-1"), "interfaces": {RAILS[0].address: [NAMES[0]]}}}}, 7),
}


@pytest.mark.parametrize(("cabling", "rails"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_known_is_incomplete_and_holds_the_host(cabling: dict[str, Any], rails: int) -> None:
    conclusion = concluded(cabling)
    found = cables(conclusion, "gpu-1")
    unknown = [each for each in found.values() if each.verdict == INCOMPLETE]
    assert (len(unknown), len(found)) == (rails, 8)
    assert {each.verdict for each in found.values()} <= {PASS, INCOMPLETE}
    assert conclusion.held["gpu-1"] == unknown[0].reason


def test_partner_in_service_that_is_plugged_in_wrongly_is_doubted() -> None:
    third = heard("gpu-3", {0: PLANNED["gpu-4", "rail0"]})
    given = {"lldp": {**{name: heard(name) for name in NODES}, "gpu-3": third}}
    assert list(concluded(given, partners=("gpu-3",)).doubted) == ["gpu-3"]


def test_fleet_that_verifies_nothing_gets_no_such_finding() -> None:
    assert cables(concluded({}, site(verify_cabling=False)), "gpu-1") == {}
