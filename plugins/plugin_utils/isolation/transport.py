"""Did a node's data take the declared road? NCCL's own log says which devices it used, and whether GPUDirect did it.

A collective can reach its floor over the wrong devices, through host memory or, where the floor is low, over sockets;
users' jobs then meet the difference.

Inside a rack that is one NVLink domain everything goes over NVLink, and no channel over the network is the right road.
FORMAT_UNVERIFIED: what NCCL writes there of NVLink is not read. That it writes no channel over the network there (as of
any that is not ``via NET``) follows from NCCL's source and documentation, and was not seen on such a rack. With a node
of another domain in the group some have to go over the network: nvlink_rack says which node is at the wrong place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import (
    owes_nvlink_rack,
    owes_transport,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.rail_names import NamedRail
from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_log import RDMA_NETWORK, LogError, NcclLog
from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_version import older
from ansible_collections.muster.cluster.plugins.module_utils.nic.declared_nics import rails_of
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, stated
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding

CHECK = "transport"
SUBJECT = "network"
_LINKS = {"infiniband": "IB", "roce": "RoCE"}


def ranks_by_node(items: Iterable[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the observations by node, of each only its group and the node's own ranks.

    Thousands of nodes have tens of thousands of ranks: not everybody's are to be looked through for each.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        own: dict[str, list[Any]] = {}
        for rank in item.get("ranks") or ():
            own.setdefault(rank.get("node"), []).append(rank)
        for node, ranks in own.items():
            found.setdefault(node, []).append({"group": item["group"], "ranks": ranks})
    return found


def transport_findings(
    node: str,
    items: Sequence[Mapping[str, Any]],
    expect: Expectations,
    racks: Mapping[str, str | None] | None = None,
    domains: Mapping[str, str | None] | None = None,
) -> list[Finding]:
    """Return the finding about the node's road, none where its class owes none.

    ``items`` are the observations of all jobs. Every step that the node's own ranks came to the end of counts, whatever
    became of others, and the worst of its ranks; a rank whose log says too little leaves the answer open. ``racks`` is
    the rack of each node, which matters where the rack is one NVLink domain, ``domains`` what each says of its own.
    """
    if not owes_transport(expect):
        return []
    wrong: dict[str, None] = {}
    unknown: dict[str, None] = {}
    finished = 0
    for item in items:
        ranks = [rank for rank in item.get("ranks") or () if rank.get("node") == node]
        if not ranks or any(rank.get("phase") != "end" for rank in ranks):
            continue
        finished += 1
        channels = 0
        for rank in ranks:
            try:
                log = NcclLog.from_dict(rank.get("transport"))
            except LogError as exc:
                unknown[str(exc)] = None
                continue
            channels += sum(log.direct.values()) + sum(log.staged.values())
            used = (rank.get("versions") or {}).get("nccl")
            wrong.update(dict.fromkeys(wrong_roads(log, expect, used)))
            unknown.update(dict.fromkeys(unanswered(log, expect, used)))
        rack = _one_rack(item["group"], racks or {}) if owes_nvlink_rack(expect) else None
        if rack is not None:
            told, silent = _told(item["group"], domains or {})
            said = f"{channels} channels over the network inside rack {rack}"
            if channels and len(told) < 2 and not (told and silent):
                wrong[f"{said}, expected NVLink"] = None
            elif channels and len(told) < 2:
                unknown[f"{said}, and the NVLink domain of {', '.join(silent)} is unknown"] = None
        elif not channels and len(item["group"]) > 1:
            unknown["NCCL's log names no channel over the network"] = None
    if not finished:
        unknown["no collective with this node was finished"] = None
    expected = _expected(expect)
    if wrong:
        return [Finding(CHECK, SUBJECT, FAIL, None, expected, "", "; ".join(wrong), "investigate")]
    if unknown:
        return [Finding(CHECK, SUBJECT, INCOMPLETE, None, expected, "", "; ".join(unknown), "investigate")]
    return [Finding(CHECK, SUBJECT, PASS, expected, expected)]


def wrong_roads(log: NcclLog, expect: Expectations, used: str | None = None) -> list[str]:
    """Return what the log shows that is not declared; ``used`` is the version that the rank's torch reports."""
    # A rail without a device is none that the log could name.
    rails = [NamedRail(each.rail, each.address, log.rails.get(each.name), None) for each in rails_of(expect)]
    fabric, asked = stated(expect.fabric), expect.collective.transport
    link = _LINKS[fabric.kind]
    found = []
    if log.devices:
        if others := sorted(set(log.devices) - {rail.device for rail in rails}):
            found.append(f"NCCL used {', '.join(others)}, which {_are(others)} no rail of the class")
        if lacking := [rail for rail in rails if rail.device not in log.devices]:
            found.append(f"NCCL left out {_listed(lacking)}")
        if other := [rail for rail in rails if log.devices.get(str(rail.device), link) != link]:
            found.append(f"{_listed(other)} with link layer {log.devices[str(other[0].device)]}, expected {link}")
    for network in dict.fromkeys((*log.networks, *log.direct, *log.staged)):
        if not RDMA_NETWORK.fullmatch(network):
            found.append(f"NCCL went over {network}, expected RDMA (NET/IB)")
    if asked and asked.gpu_direct:
        if off := [rail for rail in rails if rail.device in log.without_gpu_direct]:
            found.append(f"GPUDirect RDMA is off for {_listed(off)}")
        if staged := sum(number for network, number in log.staged.items() if RDMA_NETWORK.fullmatch(network)):
            found.append(f"{staged} channels through host memory, expected GPUDirect RDMA on all")
    if asked and asked.nvls is not None and log.nvls is not None and log.nvls != asked.nvls:
        found.append(f"NVLS is {'available' if log.nvls else 'not available'}, the class says otherwise")
    least = fabric.nccl_least
    version = log.version or used
    if least and version and older(version, least):
        found.append(f"NCCL {version} does not know NCCL_IB_FIFO_TC, expected {least} or later")
    return found


def unanswered(log: NcclLog, expect: Expectations, used: str | None = None) -> list[str]:
    """Return what one rank's log does not say although it has to."""
    missing = []
    if not log.complete:
        missing.append("NCCL's log ends before its communicator is up")
    if not log.devices:
        missing.append("NCCL's log names no RDMA device")
    if not log.networks:
        missing.append("NCCL's log names no network")
    asked = expect.collective.transport
    if asked and asked.nvls and log.nvls is None:
        missing.append("NCCL's log says nothing of NVLS")
    if stated(expect.fabric).nccl_least and not (log.version or used):
        missing.append("NCCL's version is unknown")
    return missing


def _expected(expect: Expectations) -> str:
    asked = expect.collective.transport
    words = [f"{len(rails_of(expect))} rails over {_LINKS[stated(expect.fabric).kind]}"]
    words += ["GPUDirect RDMA"] if asked and asked.gpu_direct else []
    words += ["NVLS" if asked.nvls else "no NVLS"] if asked and asked.nvls is not None else []
    words += ["NVLink alone inside a rack"] if owes_nvlink_rack(expect) else []
    return ", ".join(words)


def _one_rack(group: Sequence[str], racks: Mapping[str, str | None]) -> str | None:
    """Return the rack that holds all of these nodes, None where they are in several or nobody says."""
    found = {racks.get(node) for node in group}
    return found.pop() if len(found) == 1 else None


def _told(group: Sequence[str], domains: Mapping[str, str | None]) -> tuple[set[str], list[str]]:
    """Return which NVLink domains these nodes say that they are in, and which nodes say nothing."""
    # "none": examined while its class had no domain.
    own = {node: domains.get(node) for node in group}
    known = {node: domain for node, domain in own.items() if domain not in (None, "none")}
    return {str(domain) for domain in known.values()}, [node for node in own if node not in known]


def _listed(rails: Iterable[NamedRail]) -> str:
    return ", ".join(map(str, rails))


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
