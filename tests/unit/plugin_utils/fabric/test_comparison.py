"""Each fault is told once, by both ends, and nothing else is blamed; what is not known is never a match."""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import replace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.cable_faults import (
    Comparison,
    cabling_findings,
    compare,
    fabric_findings,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.cabling_evidence import with_cabling
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.task_results import ethernet_of
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.cabling_plan import End

from .fabrics import ADDRESSES, Lab, plan

Told = list[tuple[str, tuple[str, ...]]]
A0, A1 = "gpu-1 rail 0 - leaf-1 port 1", "gpu-1 rail 1 - leaf-2 port 1"
B0, B1 = "gpu-2 rail 0 - leaf-1 port 2", "gpu-2 rail 1 - leaf-2 port 2"
UP = tuple(f"leaf-{leaf} port {3 + link} - spine-1 port {2 * leaf - 1 + link}" for leaf in (1, 2) for link in (0, 1))


def told(comparison: Comparison) -> Told:
    return sorted(
        (fault.kind, tuple(map(comparison.plan.cable, fault.cables)) or (fault.found,)) for fault in comparison.faults
    )


def moved(lab: Lab, end: tuple[str, str], place: tuple[str, str]) -> None:
    lab.pull(*end)
    lab.plug(end, place)


def without(lab: Lab, *names: str) -> None:
    for end in [end for end in lab.links if end.name in names]:
        if end in lab.links:
            lab.pull(*end)


def rotated(lab: Lab) -> None:
    lab.exchange(("gpu-1", "rail0"), ("gpu-2", "rail0"))
    lab.exchange(("gpu-1", "rail0"), ("gpu-1", "rail1"))


def weak(lab: Lab, width: int, speed: str) -> None:
    for end in (End("gpu-1", "rail0"), End("leaf-1", "1")):
        lab.width[end], lab.speed[end] = width, speed


def counted(lab: Lab, name: str, port: str, text: str) -> None:
    lab.errors[End(name, port)] = text


def state(lab: Lab, text: str) -> None:
    lab.state |= {End("gpu-1", "rail0"): text, End("leaf-1", "1"): text}


FAULTS: list[tuple[str, Callable[[Lab], object], Told]] = [
    ("sound", lambda lab: None, []),
    (
        "two hosts' cables",
        lambda lab: lab.exchange(("gpu-1", "rail0"), ("gpu-2", "rail0")),
        [("swapped pair", (A0, B0))],
    ),
    ("two rails", lambda lab: lab.exchange(("gpu-1", "rail0"), ("gpu-1", "rail1")), [("crossed rails", (A0, A1))]),
    ("two uplinks", lambda lab: lab.exchange(("leaf-1", "3"), ("leaf-1", "4")), [("swapped pair", UP[:2])]),
    (
        "rail and uplink",
        lambda lab: lab.exchange(("gpu-1", "rail0"), ("leaf-1", "3")),
        [("swapped pair", (A0, UP[0]))],
    ),
    ("three in a ring", rotated, [("3 cables exchanged", (A0, A1, B0))]),
    ("dead rail", lambda lab: lab.pull("gpu-1", "rail1"), [("dead link", (A1,))]),
    ("dead uplink", lambda lab: lab.pull("leaf-2", "3"), [("dead link", (UP[2],))]),
    ("host gone", lambda lab: without(lab, "gpu-2"), [("missing host", (B0, B1))]),
    ("leaf gone", lambda lab: without(lab, "leaf-2"), [("missing switch", (A1, B1, *UP[2:]))]),
    ("other leaf", lambda lab: moved(lab, ("gpu-1", "rail0"), ("leaf-2", "6")), [("wrong leaf", (A0,))]),
    ("other port", lambda lab: moved(lab, ("gpu-1", "rail0"), ("leaf-1", "6")), [("wrong port", (A0,))]),
    ("other switch", lambda lab: moved(lab, ("spine-1", "1"), ("leaf-2", "6")), [("wrong switch", (UP[0],))]),
    (
        "place of a cable that is out",
        lambda lab: (lab.pull("gpu-2", "rail0"), moved(lab, ("gpu-1", "rail0"), ("leaf-1", "2"))),
        [("missing link", (B0,)), ("wrong port", (A0,))],
    ),
    (
        "stranger in a planned place",
        lambda lab: (lab.pull("gpu-1", "rail0"), lab.plug(("stray", "mlx5_0"), ("leaf-1", "1"))),
        [("missing link", (A0,))],
    ),
    (
        "stranger",
        lambda lab: lab.plug(("stray", "mlx5_0"), ("leaf-1", "6")),
        [("extra host", ("stray mlx5_0 - leaf-1 port 6",))],
    ),
    ("own subnet manager", lambda lab: lab.plug(("sm", "mlx5_0"), ("leaf-1", "6")), []),
    ("known to the operator", lambda lab: lab.plug(("ufm-1", "mlx5_0"), ("leaf-1", "6")), []),
    (
        "unknown switch",
        lambda lab: lab.plug(("lost", "1"), ("leaf-1", "6")),
        [("extra switch", ("lost port 1 - leaf-1 port 6",))],
    ),
    (
        "cable too many",
        lambda lab: lab.plug(("leaf-1", "6"), ("leaf-2", "6")),
        [("extra cable", ("leaf-1 port 6 - leaf-2 port 6",))],
    ),
    ("one lane", lambda lab: weak(lab, 1, "NDR"), [("narrow link", (A0,))]),
    ("half speed", lambda lab: weak(lab, 4, "HDR"), [("slow link", (A0,))]),
    ("too fast", lambda lab: weak(lab, 4, "XDR"), [("fast link", (A0,))]),
    ("same rate on two lanes", lambda lab: weak(lab, 2, "XDR"), []),
    ("not active", lambda lab: state(lab, "  Init/  LinkUp"), [("dead link", (A0,))]),
    ("errors up to the limit", lambda lab: counted(lab, "leaf-1", "1", "[SymbolErrorCounter == 10]"), []),
    (
        "errors over it",
        lambda lab: counted(lab, "leaf-1", "1", "[SymbolErrorCounter == 11]"),
        [("erroring link", (A0,))],
    ),
    (
        "errors as newer tools print them",
        lambda lab: counted(lab, "gpu-1", "rail0", "[PortXmitWait == 5] [PortRcvErrors == 4096 (4.096K)]"),
        [("erroring link", (A0,))],
    ),
    (
        "congestion",
        lambda lab: counted(lab, "leaf-1", "1", "[PortXmitDiscards == 65535] [PortXmitWait == 4294967295]"),
        [],
    ),
]


@pytest.mark.parametrize(("spoil", "expected"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_fault_is_told_once_and_nothing_else_is_blamed(spoil: Callable[[Lab], object], expected: Told) -> None:
    lab = Lab()
    spoil(lab)
    comparison = lab.compared(others=("ufm-*",))
    assert told(comparison) == sorted(expected)
    assert comparison.unread == ()
    assert comparison.verdict == (FAIL if expected else PASS)


def test_every_rail_of_a_host_has_a_finding() -> None:
    lab = Lab()
    lab.pull("gpu-1", "rail1")
    right, dead = cabling_findings(lab.compared(), "gpu-1")
    assert (right.subject, right.verdict, right.measured) == ("nic rail0", PASS, "leaf-1 port 1")
    assert (dead.subject, dead.verdict, dead.expected, dead.action) == ("nic rail1", FAIL, "leaf-2 port 1", "reseat")
    assert dead.reason.startswith(f"{A1}: dead link")
    assert "leaf-2 port 1 is Down/Polling" in dead.reason
    assert cabling_findings(lab.compared(), "sm") == []


def test_both_hosts_of_a_swapped_pair_hear_of_it() -> None:
    lab = Lab()
    lab.exchange(("gpu-1", "rail0"), ("gpu-2", "rail0"))
    for host in ("gpu-1", "gpu-2"):
        crossed, right = cabling_findings(lab.compared(), host)
        assert (crossed.verdict, right.verdict) == (FAIL, PASS)
        assert "gpu-1 rail 0 - leaf-1 port 2" in crossed.reason


def test_fault_between_switches_is_the_fabrics() -> None:
    lab = Lab()
    lab.pull("leaf-1", "3")
    (finding,) = fabric_findings(lab.compared())
    assert (finding.subject, finding.verdict) == ("fabric", FAIL)
    assert {each.verdict for host in ("gpu-1", "gpu-2") for each in cabling_findings(lab.compared(), host)} == {PASS}


UNREAD: list[tuple[str, dict[str, object], str]] = [
    ("no tool", {"ibnetdiscover": None}, "ibnetdiscover: was not run"),
    ("tool failed", {"ibnetdiscover": {"rc": 1, "stdout": "", "stderr": "discover failed"}}, "discover failed"),
    ("host unreachable", {"ibnetdiscover": {"unreachable": True, "msg": "no route"}}, "no route"),
    ("nothing printed", {"ibnetdiscover": {"rc": 0, "stdout": ""}}, "printed nothing"),
    ("other output", {"ibnetdiscover": {"rc": 0, "stdout": "hello\n"}}, "is none of its lines"),
    ("no link states", {"iblinkinfo": {"rc": 255, "stdout": "", "stderr": "no port"}}, "iblinkinfo: exit status 255"),
    ("no counters", {"ibqueryerrors": {"rc": 0, "stdout": "Query SA failed\n"}}, "ibqueryerrors: line 1"),
    ("no summary", {"ibqueryerrors": {"rc": 0, "stdout": '\nErrors for "gpu-1 rail0"\n'}}, "its summary is missing"),
]


@pytest.mark.parametrize(("changed", "reason"), [row[1:] for row in UNREAD], ids=[row[0] for row in UNREAD])
def test_what_cannot_be_read_is_never_a_match(changed: dict[str, object], reason: str) -> None:
    comparison = Lab().compared(**changed)
    assert (comparison.verdict, comparison.faults) == (INCOMPLETE, ())
    assert reason in "; ".join(comparison.unread)
    assert {each.verdict for each in cabling_findings(comparison, "gpu-1")} == {INCOMPLETE}


@pytest.mark.parametrize("tool", ["ibnetdiscover", "iblinkinfo", "ibqueryerrors"])
def test_output_cut_short_anywhere_is_never_a_match(tool: str) -> None:
    lab = Lab()
    text = str(lab.results()[tool]["stdout"])
    # After the summary of counters nothing is left that could tell of errors.
    end = text.index("## Summary") if tool == "ibqueryerrors" else len(text.rstrip()) - 1
    for size in range(0, end, 7):
        comparison = lab.compared(**{tool: {"rc": 0, "stdout": text[:size]}})
        assert comparison.verdict == INCOMPLETE, size
        assert not [fault for fault in comparison.faults if fault.verdict == FAIL], size


def test_counters_of_fewer_nodes_than_there_are_do_not_clear_the_rest() -> None:
    lab = Lab()
    text = lab.ibqueryerrors().replace("7 nodes", "6 nodes")
    comparison = lab.compared(ibqueryerrors={"rc": 0, "stdout": text})
    assert comparison.unread == ("error counters: of 6 nodes, expected those of 7",)


def test_thresholds_that_hold_counts_back_are_not_taken() -> None:
    text = Lab().ibqueryerrors().replace("## Thresholds: ", "## Thresholds: [SymbolErrorCounter = 1000]")
    assert "held back counts" in Lab().compared(ibqueryerrors={"rc": 0, "stdout": text}).unread[0]


def test_nobody_is_blamed_for_a_missing_subnet_manager() -> None:
    lab = Lab()
    lab.state = dict.fromkeys(lab.links, "  Init/  LinkUp")
    comparison = lab.compared()
    assert (comparison.verdict, comparison.faults) == (INCOMPLETE, ())
    assert "subnet manager" in comparison.unread[0]


def test_two_hcas_of_one_name_are_not_told_apart() -> None:
    lab = Lab()
    lab.names["gpu-2 rail0"] = "gpu-1 rail0"
    comparison = lab.compared()
    assert comparison.verdict == INCOMPLETE
    assert {fault.kind for fault in comparison.faults} == {"unknown"}
    assert "two ports call themselves gpu-1 rail 0" in comparison.faults[0].found


def test_fabric_that_changes_while_it_is_read_is_not_known() -> None:
    before, after = Lab(), Lab()
    after.exchange(("gpu-1", "rail0"), ("gpu-2", "rail0"))
    comparison = before.compared(iblinkinfo=after.results()["iblinkinfo"])
    assert comparison.verdict == INCOMPLETE
    assert {fault.kind for fault in comparison.faults} == {"unknown"}


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("gpu-1 rail0", PASS),
        ("gpu-1.example.com rail0", PASS),
        ("gpu-1 mlx5_0", INCOMPLETE),
        ("gpu-1 rocep26s0", INCOMPLETE),
        ("gpu-1 HCA-1", INCOMPLETE),
        ("gpu-1 rail2", INCOMPLETE),
    ],
)
def test_hca_is_known_by_the_name_of_its_rail_alone(name: str, verdict: str) -> None:
    lab = Lab()
    lab.names["gpu-1 rail0"] = name
    comparison = lab.compared()
    assert comparison.verdict == verdict
    if verdict == INCOMPLETE:
        ((kind, cables),) = told(comparison)
        assert (kind, cables) == ("unknown", (A0,))
        assert f'port 1 of HCA "{name}" is by its node description none of the rails of gpu-1' in str(
            comparison.faults[0]
        )


def test_further_hca_of_a_host_in_the_port_of_its_rail_is_not_taken_for_it() -> None:
    lab = Lab()
    lab.pull("gpu-1", "rail0")
    lab.plug(("gpu-1", "mlx5_8"), ("leaf-1", "1"))
    assert (lab.compared().verdict, told(lab.compared())) == (INCOMPLETE, [("unknown", (A0,))])


@pytest.mark.parametrize("name", ["MF0;leaf-1:MQM8700/U1", "leaf-1", "MF0;leaf-1:MCS8500/U1"])
def test_names_of_switches_in_the_fabric(name: str) -> None:
    lab = Lab()
    lab.names["leaf-1"] = name
    assert lab.compared().verdict == PASS


NAMES = ("enp26s0np0", "ens60np0")


def lldp(*peers: tuple[str, str], reason: str = "") -> dict[str, object]:
    """What a host says whose rails reach these switches and ports."""
    entries = [
        f'{{"{NAMES[rail]}": {{"via": "LLDP", "chassis": {{"{name}": {{"id": {{"type": "mac", "value": "00:11"}}}}}},'
        f' "port": {{"id": {{"type": "ifname", "value": "{port}"}}}}}}}}'
        for rail, (name, port) in enumerate(peers)
    ]
    # The host has a further card.
    interfaces = {"0000:01:00.0": ["eth0"], ADDRESSES[0]: [NAMES[0]], ADDRESSES[1]: [NAMES[1]]}
    return {"lldp": f'{{"lldp": {{"interface": [{", ".join(entries)}]}}}}', "interfaces": interfaces, "reason": reason}


def test_switches_that_hosts_hear_of_are_compared_without_those_above_them() -> None:
    results = {
        "gpu-1": lldp(("leaf-1", "1"), ("leaf-2.example.com", "1")),
        "gpu-2": lldp(("leaf-1", "2"), ("leaf-2", "2")),
    }
    comparison = compare(plan(), ethernet_of(plan(), results))
    assert (comparison.verdict, told(comparison), len(comparison.unseen)) == (PASS, [], 4)


def test_swapped_pair_over_lldp_is_one_fault() -> None:
    results = {"gpu-1": lldp(("leaf-1", "2"), ("leaf-2", "1")), "gpu-2": lldp(("leaf-1", "1"), ("leaf-2", "2"))}
    assert told(compare(plan(), ethernet_of(plan(), results))) == [("swapped pair", (A0, B0))]


def test_one_half_of_a_swapped_pair_is_told_by_the_host_that_was_asked() -> None:
    comparison = compare(plan(), ethernet_of(plan(), {"gpu-1": lldp(("leaf-1", "2"), ("leaf-2", "1"))}))
    assert told(comparison) == [("wrong port", (A0,))]
    assert "leaf-1 port 2 (planned for gpu-2 rail 0)" in comparison.faults[0].found


def test_host_that_hears_nothing_or_was_not_asked_is_not_known() -> None:
    results = {"gpu-1": lldp(("leaf-1", "1")), "gpu-2": lldp(reason="lldpctl: not found")}
    comparison = compare(plan(), ethernet_of(plan(), results))
    assert comparison.verdict == INCOMPLETE
    assert [fault.found for fault in comparison.faults] == [
        "gpu-1: rail 1 (0000:3c:00.0) hears no neighbour over LLDP at ens60np0, expected one neighbour",
        "gpu-2: lldpctl: not found",
    ]
    assert compare(plan(), ethernet_of(plan(), {})).verdict == INCOMPLETE


@pytest.mark.parametrize(
    ("interfaces", "reason"),
    [
        ([], "gpu-1: rail 1 has no network interface at 0000:3c:00.0, network interfaces of this host: eth0 at 0000"),
        (["ens60np0", "ens60np1"], "gpu-1: rail 1 has network interfaces ens60np0, ens60np1 at 0000:3c:00.0, expected"),
    ],
    ids=["missing", "two"],
)
def test_rail_without_one_interface_is_not_known_and_the_other_is(interfaces: list[str], reason: str) -> None:
    said = lldp(("leaf-1", "1"), ("leaf-2", "1"))
    said["interfaces"] = {**typing.cast("dict[str, list[str]]", said["interfaces"]), ADDRESSES[1]: interfaces}
    comparison = compare(plan(), ethernet_of(plan(), {"gpu-1": said}))
    right, unknown = cabling_findings(comparison, "gpu-1")
    assert (right.verdict, unknown.verdict) == (PASS, INCOMPLETE)
    assert reason in unknown.reason


def test_host_that_no_class_describes_is_not_asked_about() -> None:
    known = replace(plan(), nics={})
    comparison = compare(known, ethernet_of(known, {"gpu-1": lldp(("leaf-1", "1"), ("leaf-2", "1"))}))
    assert (comparison.verdict, comparison.faults, len(comparison.unseen)) == (INCOMPLETE, (), 8)


def test_plan_names_both_ends_for_those_who_pull_cables() -> None:
    lines = plan().to_csv().splitlines()
    assert lines[0] == "number,from,from_rack,from_port,to,to_port,rail,speed_gbps"
    assert lines[1] == "1,gpu-1,r1,rail0,leaf-1,1,0,400"
    assert lines[5] == "5,leaf-1,,3,spine-1,1,,400"


def test_hosts_of_a_leaf_that_is_gone_are_held_and_not_blamed() -> None:
    lab = Lab()
    without(lab, "leaf-2")
    conclusion = with_cabling(Conclusion({"gpu-1": (), "gpu-2": ()}), lab.compared(), ())
    for findings in conclusion.findings.values():
        assert [(each.verdict, each.action) for each in findings] == [(PASS, "none"), (INCOMPLETE, "investigate")]
    assert all("leaf-2 is not in the fabric" in why for why in conclusion.held.values())
    assert len(conclusion.held) == 2


def test_fault_between_switches_is_a_remark_and_rejects_no_host() -> None:
    lab = Lab()
    lab.exchange(("leaf-1", "3"), ("leaf-2", "3"))
    conclusion = with_cabling(Conclusion({"gpu-1": ()}), lab.compared(), ())
    assert [each.verdict for each in conclusion.findings["gpu-1"]] == [PASS, PASS]
    assert conclusion.held == {}
    (remark,) = conclusion.remarks
    assert remark.startswith("swapped pair") and "leaf-1 port 3" in remark and "leaf-2 port 3" in remark


def test_fabric_of_which_a_tool_told_nothing_holds_everybody() -> None:
    comparison = Lab().compared(ibqueryerrors={"rc": None, "msg": "timed out"})
    conclusion = with_cabling(Conclusion({"gpu-1": ()}), comparison, ())
    assert {each.verdict for each in conclusion.findings["gpu-1"]} == {INCOMPLETE}
    assert "ibqueryerrors: timed out" in conclusion.held["gpu-1"]
