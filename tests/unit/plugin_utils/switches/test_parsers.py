"""What the parsers make of outputs that differ from a switch as its sheet makes it, and of recorded ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.switches import cumulus, eos, sonic
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.printed_tables import (
    headed_table,
    numbers,
    ruled_table,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_state import (
    Answers,
    Ecn,
    Neighbour,
    OutputError,
    PortState,
    Unknown,
)

RECORDED = Path(__file__).parents[5] / "shared" / "recorded"
recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recorded outputs at {RECORDED}")


def port(system: Any, name: str, **texts: str) -> PortState:
    state: PortState = system.read(Answers(system.COMMANDS, texts), [name]).ports[name]
    return state


@pytest.mark.parametrize(("text", "expected"), [("3", {3}), ("3-4", {3, 4}), ("0,3-5", {0, 3, 4, 5}), ("3 5", {3, 5})])
def test_numbers(text: str, expected: set[int]) -> None:
    assert numbers(text) == expected


@pytest.mark.parametrize("text", ["", "Usage: show", "PORT  ACTION\n----  ------\nEth"])
def test_text_without_a_whole_table_is_an_error(text: str) -> None:
    with pytest.raises(OutputError, match="show it"):
        ruled_table(text, "show it")


def test_headed_table_needs_its_header() -> None:
    with pytest.raises(OutputError, match="no table of Port, Enabled"):
        headed_table("% Error", "show it", ("Port", "Enabled"))


def test_nothing_is_known_of_a_switch_that_answered_nothing() -> None:
    for system in (eos, sonic, cumulus):
        state = system.read(Answers({**system.COMMANDS, "watchdog p": "show"}, {}), ["p"])
        assert isinstance(state.ecmp, Unknown)
        assert all(isinstance(value, Unknown) for value in vars(state.ports["p"]).values())


@recorded
def test_recorded_eos_interfaces() -> None:
    text = (RECORDED / "switch-arista/show-interfaces-counters.json").read_text()
    state = port(eos, "Ethernet1", interfaces=text)
    assert (state.exists, state.mtu_bytes) == (True, 9214)
    assert state.errors == {"totalInErrors": 0, "totalOutErrors": 0, "fcsErrors": 0}
    assert state.discards == {"inDiscards": 0, "outDiscards": 0}
    assert port(eos, "Ethernet99", interfaces=text).exists is False


@recorded
def test_recorded_eos_lldp_gives_name_address_and_interface_of_a_linux_host() -> None:
    text = (RECORDED / "switch-arista/show-lldp-neighbors-detail.json").read_text()
    assert port(eos, "Ethernet8", lldp=text).neighbours == (Neighbour("78m3", ("000f.532e.ced1", "eth3")),)
    assert port(eos, "Ethernet99", lldp=text).neighbours == ()


@recorded
def test_recorded_sonic_tables() -> None:
    status = (RECORDED / "switch-sonic/show-interfaces-status.txt").read_text()
    counters = (RECORDED / "switch-sonic/show-interfaces-counters.txt").read_text()
    lldp = (RECORDED / "switch-sonic/show-lldp-table-two-macs.txt").read_text()
    state = port(sonic, "Ethernet0", status=status, counters=counters, lldp=lldp)
    assert (state.exists, state.mtu_bytes) == (True, 9100)
    # The transmit counters of that switch are N/A, which is not zero.
    assert isinstance(state.errors, Unknown) and "TX_ERR is N/A" in state.errors.reason
    assert state.neighbours == (
        Neighbour("dummy", ("00:00:00:00:00:01", "First MAC")),
        Neighbour("dummy", ("00:00:00:00:00:02", "Second MAC")),
    )
    assert port(sonic, "Ethernet1", status=status).exists is False


@recorded
def test_recorded_lldp_of_sonic_cut_short_is_no_answer() -> None:
    lldp = (RECORDED / "switch-sonic/show-lldp-table-two-macs.txt").read_text()
    for end in (lldp.rindex("Ethernet0"), lldp.rindex("Total")):
        assert isinstance(port(sonic, "Ethernet0", lldp=lldp[:end]).neighbours, Unknown)


def database(**tables: Any) -> str:
    return json.dumps({"PORT": {"Ethernet0": {}}, **tables})


def test_sonic_follows_references_of_old_releases() -> None:
    config = database(
        PORT_QOS_MAP={
            "Ethernet0": {
                "dscp_to_tc_map": "[DSCP_TO_TC_MAP|AZURE]",
                "tc_to_queue_map": "[TC_TO_QUEUE_MAP|AZURE]",
                "tc_to_pg_map": "[TC_TO_PRIORITY_GROUP_MAP|AZURE]",
                "pfc_to_queue_map": "[MAP_PFC_PRIORITY_TO_QUEUE|AZURE]",
                "pfc_enable": "3,4",
            }
        },
        DSCP_TO_TC_MAP={"AZURE": {"3": "3", "4": "4"}},
        TC_TO_QUEUE_MAP={"AZURE": {"3": "3", "4": "1"}},
        TC_TO_PRIORITY_GROUP_MAP={"AZURE": {"3": "3", "4": "0"}},
        MAP_PFC_PRIORITY_TO_QUEUE={"AZURE": {"3": "3", "4": "2"}},
        QUEUE={"Ethernet0|3-4": {"wred_profile": "[WRED_PROFILE|AZURE_LOSSLESS]"}},
        WRED_PROFILE={
            "AZURE_LOSSLESS": {"ecn": "ecn_all", "green_min_threshold": "1048576", "green_max_threshold": "2097152"}
        },
        BUFFER_PG={
            "Ethernet0|0": {"profile": "[BUFFER_PROFILE|ingress_lossy_profile]"},
            "Ethernet0|3-4": {"profile": "[BUFFER_PROFILE|pg_lossless_100000_40m_profile]"},
        },
        BUFFER_PROFILE={"ingress_lossy_profile": {"size": "0"}, "pg_lossless_100000_40m_profile": {"xoff": "177632"}},
    )
    state = port(sonic, "Ethernet0", config=config)
    assert state.pfc == {3}
    assert state.classes == {3: "3", 4: "4 in queue 1"}
    assert state.ecn == {3: Ecn(1048576, 2097152), 4: Ecn(1048576, 2097152)}
    assert state.headroom == {3}
    assert state.watchdog is False


def test_map_that_is_bound_but_not_there_is_no_answer() -> None:
    state = port(sonic, "Ethernet0", config=database(PORT_QOS_MAP={"Ethernet0": {"dscp_to_tc_map": "GONE"}}))
    assert isinstance(state.classes, Unknown) and "GONE is not there" in state.classes.reason


def test_hash_that_sonic_leaves_to_the_asic_is_no_answer() -> None:
    ecmp = sonic.read(Answers(sonic.COMMANDS, {"config": database()}), []).ecmp
    assert isinstance(ecmp, Unknown) and "ASIC's own default" in ecmp.reason


def test_storms_are_counted_over_the_queues_of_a_port() -> None:
    text = (
        "        QUEUE    STATUS    STORM DETECTED/RESTORED    TX OK/DROP\n"
        "-------------  --------  -------------------------  ------------\n"
        "  Ethernet0:3       N/A                        2/2       100/100\n"
        "  Ethernet0:4       N/A                        1/1       100/100\n"
    )
    assert port(sonic, "Ethernet0", storms=text).storms == 3
    assert port(sonic, "Ethernet40", storms=text).storms == 0


EOS = """
priority-flow-control pause watchdog default timeout 0.2
!
qos profile A
   uc-tx-queue 3
      random-detect ecn minimum-threshold 256 kbytes maximum-threshold 1 mbytes max-mark-probability 100 weight 0
!
interface Ethernet1/1
   no switchport
   ip address 10.0.0.0/31
   service-profile A
!
interface Ethernet2/1
   ip address 10.0.0.2/31
   no priority-flow-control pause watchdog
   tx-queue 3
      random-detect ecn minimum-threshold 2000 segments maximum-threshold 9000 segments
!
interface Ethernet3/1
   service-profile GONE
!
end
"""


def test_eos_configuration() -> None:
    own = port(eos, "Ethernet1/1", config=EOS)
    assert own.ecn == {3: Ecn(256_000, 1_000_000)}
    assert (own.watchdog, own.addresses) == (True, {"10.0.0.0/31"})
    other = port(eos, "Ethernet2/1", config=EOS)
    assert isinstance(other.ecn, Unknown) and "by segments, not by bytes" in other.ecn.reason
    assert (other.watchdog, other.addresses) == (False, frozenset())
    gone = port(eos, "Ethernet3/1", config=EOS)
    assert isinstance(gone.ecn, Unknown) and "service-profile GONE is not there" in gone.ecn.reason


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("Et1/1         Yes      3 5         Yes     DCBX disabled", {3, 5}),
        ("Et1/1         Yes      3           No      DCBX disabled", set()),
        ("Et1/1         No                   No", set()),
    ],
)
def test_eos_pauses_only_what_is_enabled_and_active(row: str, expected: set[int]) -> None:
    text = f"Port          Enabled  Priorities  Active  Note\n------------- -------- ----\n{row}\n"
    assert port(eos, "Ethernet1/1", pfc=text).pfc == expected


def test_eos_row_cut_short_is_no_answer() -> None:
    text = "Port          Enabled  Priorities  Active  Note\nEt1/1         Yes      3           Y"
    assert isinstance(port(eos, "Ethernet1/1", pfc=text).pfc, Unknown)


ROCE = {
    "state": "enabled",
    "pfc": {"pfc-priority": "3", "rx-enabled": "enabled", "tx-enabled": "enabled"},
    "congestion-control": {
        "congestion-mode": "ECN",
        "enabled-tc": "0,3",
        "min-threshold": "146.48 KB",
        "max-threshold": "1.43 MB",
    },
    "trust": {"trust-mode": "pcp,dscp"},
    "prio-map": {
        "3": {"pcp": "3", "dscp": "24,25,26", "switch-prio": "3"},
        "6": {"pcp": "6", "dscp": "48", "switch-prio": "6"},
    },
    "tc-map": {"3": {"switch-prio": "3", "traffic-class": "3"}, "6": {"switch-prio": "6", "traffic-class": "6"}},
    "pool-map": {
        "0": {"name": "lossy-default-ingress", "switch-priorities": "0,1,2,4,5,6,7"},
        "1": {"name": "roce-reserved-ingress", "switch-priorities": "3"},
        "3": {"name": "roce-reserved-egress", "switch-priorities": "-"},
    },
}


def nvue(qos: dict[str, Any]) -> str:
    interface = {"swp1-4,swp8": {"qos": {"pfc-watchdog": {"state": "enabled"}}}, "swp9": {"link": {}}}
    return json.dumps([{"header": {}}, {"set": {"interface": interface, "qos": qos}}])


def test_roce_preset_is_read_from_what_it_sets() -> None:
    config = nvue({"roce": {"enable": "on", "mode": "lossless"}})
    state = port(cumulus, "swp3", config=config, roce=json.dumps(ROCE))
    assert (state.pfc, state.trust_dscp, state.headroom, state.watchdog) == ({3}, True, {3}, True)
    assert state.classes == {24: "3", 25: "3", 26: "3", 48: "6"}
    assert state.ecn == {0: Ecn(149996, 1499464), 3: Ecn(149996, 1499464)}


def test_roce_preset_that_does_not_show_what_it_sets_is_no_answer() -> None:
    state = port(cumulus, "swp3", config=nvue({"roce": {"enable": "on"}}), roce="{}")
    assert isinstance(state.trust_dscp, Unknown) and isinstance(state.classes, Unknown)
    assert isinstance(state.pfc, (Unknown, frozenset)) and state.pfc != {3}


def test_ranges_of_interfaces_are_those_of_each() -> None:
    config = nvue({"pfc": {}})
    watched = {name for name in ("swp1", "swp4", "swp5", "swp8", "swp9") if port(cumulus, name, config=config).watchdog}
    assert watched == {"swp1", "swp4", "swp8"}
