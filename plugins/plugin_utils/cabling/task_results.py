"""The live fabric from the results of the tasks that asked for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import lldp
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.infiniband_tools import (
    parse_iblinkinfo,
    parse_ibnetdiscover,
    parse_ibqueryerrors,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.live_fabric import LiveFabric, UnreadableError
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.planned_cables import Plan
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.seen_fabric import Heard, ethernet, infiniband

# Exit statuses of each tool that ran to its end; ibqueryerrors says by 1 that a counter is not 0.
_DONE = {"ibnetdiscover": (0,), "iblinkinfo": (0,), "ibqueryerrors": (0, 1)}
_Parsed = TypeVar("_Parsed")


def live_of(plan: Plan, given: Mapping[str, Any]) -> LiveFabric | None:
    """Return the live fabric from the results under ``infiniband`` or ``lldp``, None where there are none of either."""
    if given.get("infiniband") is not None:
        return infiniband_of(plan, given["infiniband"])
    return ethernet_of(plan, given["lldp"]) if given.get("lldp") is not None else None


def infiniband_of(plan: Plan, results: Mapping[str, Any]) -> LiveFabric:
    """Return the fabric from the results of the three tools. What could not be read is ``unread``, never sound."""
    topology = _parsed(results, "ibnetdiscover", parse_ibnetdiscover)
    states = _parsed(results, "iblinkinfo", parse_iblinkinfo)
    errors = _parsed(results, "ibqueryerrors", parse_ibqueryerrors)
    if isinstance(topology, str):
        reasons = tuple(each for each in (topology, states, errors) if isinstance(each, str))
        return LiveFabric({}, unread=reasons)
    return infiniband(plan, topology, states, errors)


def _parsed(results: Mapping[str, Any], tool: str, parse: Callable[[str], _Parsed]) -> _Parsed | str:
    """Return what a tool said, or why that is not known."""
    result = results.get(tool)
    if not isinstance(result, Mapping):
        return f"{tool}: was not run"
    if reason := _failed(result, _DONE[tool]):
        return f"{tool}: {reason}"
    try:
        return parse(str(result.get("stdout", "")))
    except UnreadableError as exc:
        return str(exc)


def _failed(result: Mapping[str, Any], done: tuple[int, ...]) -> str:
    if result.get("unreachable") or result.get("skipped") or result.get("rc") is None:
        return str(result.get("msg") or "was not run")
    if result["rc"] not in done:
        return f"exit status {result['rc']}: {(result.get('stderr') or result.get('msg') or '').strip()[-300:]}"
    return ""


def ethernet_of(plan: Plan, results: Mapping[str, Any]) -> LiveFabric:
    """Return what hosts hear, from the result of the module lldp_neighbors_info on each."""
    return ethernet(plan, {host: _heard(host, result) for host, result in results.items()})


def _heard(host: str, result: Any) -> Heard | str:
    if not isinstance(result, Mapping) or not isinstance(result.get("lldp"), str):
        why = result.get("msg") if isinstance(result, Mapping) else None
        return f"{host} was not asked{': ' if why else ''}{why or ''}"
    if result.get("reason"):
        return f"{host}: {result['reason']}"
    try:
        return Heard(result["interfaces"], lldp.parse(Output(result["lldp"])))
    except Unreadable as exc:
        return f"{host}: lldpctl: {exc}"
