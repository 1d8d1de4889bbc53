"""What the hand-over sheets say, and what they leave open in so many words."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_sheets import SUMMARY, sheets_of

from ..fabric.examples import ROCE, fleet
from .leaf import declared, fleet_of
from .wiring import sheet_of


def test_every_switch_of_the_example_has_its_sheet() -> None:
    sheets = dict(sheets_of(fleet(ROCE)))
    assert len(sheets) == 1536 + 144 + 27 + 1
    assert "description p8-ctsw-18 Ethernet192/1\n" in sheets["tor-1536.txt"]
    assert "description tor-1536 Ethernet34/1\n" in sheets["p8-ctsw-18.txt"]
    assert sheets["agg-27.txt"].count("interface ") == 144


def test_port_of_a_rail_has_the_other_address_of_its_link_and_names_its_host() -> None:
    sheets = dict(sheets_of(fleet(ROCE), ["tor-0001"]))
    assert set(sheets) == {"tor-0001.txt", SUMMARY}
    rail = "interface Ethernet16/1\n   description gpu-0002 rail7\n   mtu 9000\n   no switchport\n"
    assert f"{rail}   ip address 172.23.0.2/31\n" in sheets["tor-0001.txt"]


def test_marking_is_configured_only_with_dcqcn() -> None:
    for system, word in (("eos", "random-detect"), ("sonic", "WRED_PROFILE"), ("cumulus", "congestion-control")):
        assert word not in sheet_of(fleet_of(system, 1))
        assert word in sheet_of(fleet_of(system, 1, dcqcn=True))


@pytest.mark.parametrize(
    ("system", "fabric", "gap"),
    [
        ("eos", {}, "GAP: addresses of links between switches, and routing over them, are not declared"),
        ("sonic", {}, "GAP: cable lengths, from which headroom is calculated, are not declared"),
        ("cumulus", {}, "GAP: weights of the traffic classes are not declared"),
        ("cumulus", {"routing": "e_ecmp"}, "GAP: NVUE has no hash field for the destination queue pair"),
        ("eos", {"routing": "e_ecmp"}, "GAP: load-balance sand is for 7280R"),
        ("sonic", {"routing": "packet_spray"}, "GAP: how sonic spreads packets (packet_spray) is not derived"),
    ],
)
def test_what_is_not_declared_is_a_marked_gap(system: str, fabric: dict[str, str], gap: str) -> None:
    assert gap in sheet_of(fleet_of(system, 1, **fabric))


def test_gateway_of_a_shared_network_is_a_gap_and_no_address() -> None:
    data = declared("eos", 1)
    data["nodes"][0]["rails"] |= {"addresses": "172.[16-23].0.1/16", "gateways": "172.[16-23].255.254"}
    sheet = sheet_of(Fleet.from_data(data, "site.fleet.yml"))
    assert "GAP: gateway 172.16.255.254 of a rail's shared network" in sheet
    assert "ip address" not in sheet


def test_summary_says_what_both_sides_agree_on() -> None:
    text = dict(sheets_of(fleet_of("sonic", 1, dcqcn=True)))[SUMMARY]
    assert "| data | 10 | 42 | 3 | yes, paused by PFC |" in text
    assert "| cnp | 50 | 202 | 7 | no |" in text
    assert "marks from 150000 bytes on, everything from 1500000 bytes on" in text
    assert "### sonic: tor-1 and 5 more" in text or "### sonic: tor-1 and 1 more" in text
