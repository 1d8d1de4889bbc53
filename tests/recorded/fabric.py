"""What whole InfiniBand fabrics said, and what hosts heard of their switches over LLDP."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Rail
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.cable_faults import (
    cabling_findings,
    compare,
    fabric_findings,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.infiniband_tools import (
    Errors,
    LinkState,
    SeenPort,
    parse_ibnetdiscover,
    parse_ibqueryerrors,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.link_quality import quality
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.live_fabric import (
    LiveFabric,
    LivePort,
    UnreadableError,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.planned_cables import Plan
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.seen_fabric import infiniband
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.task_results import ethernet_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.cabling_plan import Cable, End

from .row import Row


def _plan(
    speed_gbps: int,
    *cables: tuple[str, str, str, str],
    kind: str = "infiniband",
    nics: Mapping[str, Sequence[Rail]] | None = None,
) -> Plan:
    ends = tuple(Cable(End(*cable[:2]), End(*cable[2:])) for cable in cables)
    rails = {cable.below: 0 for cable in ends if not cable.below.port.isdigit()}
    hosts = {end.name: None for end in rails}
    switches = {end.name for cable in ends for end in cable} - set(hosts)
    return Plan(kind, ends, rails, hosts, frozenset(switches), speed_gbps, nics=nics or {})


def _leaf(number: int, port: int, *hosts: tuple[int, str]) -> list[tuple[str, str, str, str]]:
    name, chip = f"rmd70-0101-0919-{number:02d}ib0", "L01" if number < 10 else "L02"
    rails = [(f"RMD70109190{host}", "ibp11s0f0", name, str(at)) for at, host in hosts]
    return [*rails, (name, str(port), f"rmd70-0101-0908-01ib1-A-{chip}", str(number))]


_DIRECTOR = "rmd70-0101-0908-01ib1-A"
_HDR = _plan(
    200,
    *_leaf(1, 25, (1, "1003"), (9, "1019")),
    *_leaf(2, 25, (1, "1053"), (9, "1037")),
    *_leaf(3, 25, (1, "2003"), (9, "2019")),
    *_leaf(11, 26, (1, "6003"), (9, "6019")),
    *_leaf(12, 26, (1, "6053"), (9, "6037")),
    *((f"{_DIRECTOR}-L0{chip}", "21", f"{_DIRECTOR}-S01", str(chip)) for chip in (1, 2)),
)
_ALONE = _plan(400, ("dgx-gb200-n01-c1", "HCA-1", "leaf-1", "1"))
_EDR = _plan(100, ("o0001", "mlx5_0", "ib-i1l1s01", "10"), ("o0002", "mlx5_0", "ib-i1l1s01", "11"))
_FRONT = _plan(
    200,
    ("front", "rail0", "rscfee5001", "ifname_value"),
    ("front", "rail1", "rscfee4001", "ifname_value"),
    kind="roce",
    nics={"front": (Rail(0, "0000:61:00.0"), Rail(1, "0000:e1:00.0"))},
)


# By the buses in their names.
_INTERFACES = {"0000:61:00.0": ["enp97s0f0"], "0000:e1:00.0": ["enp225s0f0"]}


def _topology(plan: Plan, text: str) -> Sequence[Finding]:
    """Judge the topology alone, as if what is linked were active and no counter had risen."""
    try:
        ports = parse_ibnetdiscover(text)
    except UnreadableError as exc:
        comparison = compare(plan, LiveFabric({}, unread=(str(exc),)))
    else:
        nodes = len({(port.own.kind, port.own.node) for port in ports})
        states = {port.own.key: _state(port) for port in ports}
        comparison = compare(plan, infiniband(plan, ports, states, Errors({}, nodes, 0)))
    return [
        *fabric_findings(comparison),
        *(each for host in plan.hosts for each in cabling_findings(comparison, host)),
    ]


def _state(port: SeenPort) -> LinkState:
    if port.peer is None:
        return LinkState("Down/Polling", None, None, None)
    return LinkState("Active/LinkUp", int(port.width[:-1]), port.speed, port.peer.key)


def _counters(text: str) -> Sequence[Finding]:
    """Judge each of the switch's eight ports by its counters."""
    found = []
    errors = parse_ibqueryerrors(text).counters
    switch = 0x2C903006E29B0
    for number in range(1, 9):
        cable = Cable(End("host", f"mlx5_{number}"), End("ys23ib4", str(number)))
        plan = Plan("infiniband", (cable,), {}, {}, frozenset({"ys23ib4"}))
        live = LiveFabric(
            {end: LivePort(None, "Active/LinkUp") for end in cable}, {cable.above: errors.get((switch, number), {})}
        )
        faults = quality(plan, live, cable)
        verdict = FAIL if faults else PASS
        found.append(Finding("cabling", f"port {number}", verdict, reason="; ".join(fault[2] for fault in faults)))
    return found


def _sick_ports(text: str) -> Sequence[Finding]:
    """Fail where ports 5 and 7 are the sick ones, as the file's true verdict says, and no others."""
    found = _counters(text)
    sick = [finding.subject for finding in found if finding.verdict == FAIL]
    return found if sick == ["port 5", "port 7"] else [Finding("cabling", "fabric", INCOMPLETE, reason=str(sick))]


def _lldp(text: str) -> Sequence[Finding]:
    said = json.dumps(json.loads(text)["lldp_status"])
    result = {"lldp": said, "interfaces": _INTERFACES, "reason": ""}
    return cabling_findings(compare(_FRONT, ethernet_of(_FRONT, {"front": result})), "front")


def _row(file: str, verdict: str, findings: Callable[[str], Sequence[Finding]], why: str = "") -> Row:
    return Row(file, "", ("cabling",), verdict, why=why, judge=lambda data, _: findings(data.decode()))


ROWS = [
    _row("ib/ibnetdiscover-hdr-faked-small.txt", PASS, lambda text: _topology(_HDR, text)),
    _row("ib/ibnetdiscover-no-links.txt", FAIL, lambda text: _topology(_ALONE, text)),
    _row(
        "ib/ibnetdiscover-p-edr.txt",
        INCOMPLETE,
        lambda text: _topology(_EDR, text),
        "an excerpt: of a link between two switches it has one end only",
    ),
    _row("ib/ibqueryerrors-sx6036-saturated-counters.txt", FAIL, _sick_ports),
    _row("net/ip-json-bond-good.json", PASS, _lldp),
]
NOT_COVERED: dict[str, str] = {}
