"""Is a link that goes where it should as good as it should be: state, width, speed, error counters?"""

from __future__ import annotations

from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.infiniband_tools import LANE_GBPS
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.live_fabric import LiveFabric, LivePort
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.planned_cables import Plan
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.cabling_plan import Cable

LANES = 4
ACTIVE = "Active/LinkUp"
# Counts since somebody cleared them, up to which a link is sound. The example thresholds of ibqueryerrors(8), but for
# PortRcvErrors: 14 on every NIC of an H100 node in service (gpud's test data) is nothing to fail. Switches count a flap
# each time the host at their port reboots. Discards, waits and dropped VL15 packets tell of congestion, not of a cable.
LIMITS = {
    "SymbolErrorCounter": 10,
    "LinkErrorRecoveryCounter": 10,
    "LinkDownedCounter": 10,
    "PortRcvErrors": 100,
    "PortRcvRemotePhysicalErrors": 100,
    "LocalLinkIntegrityErrors": 10,
}
# Counters that stop at their end (InfiniBand specification, 16.1.3.5): what stands there is a lower bound.
COUNTER_ENDS = {0xF, 0xFF, 0xFFFF, 0xFFFFFFFF}

Fault = tuple[str, str, str, str]


def quality(plan: Plan, live: LiveFabric, cable: Cable, active: bool = True) -> list[Fault]:
    """Return what is wrong with a link that is where it belongs: (kind, expected, found, verdict) each.

    The ends of a link agree about state, lanes and speed; the counters are each end's own. Unless ``active``, no link
    of the whole fabric is, and none is blamed for it.
    """
    ports = [live.ports[end] for end in cable if end in live.ports]
    where, wanted = plan.cable(cable), speed_named(plan.speed_gbps)
    found: list[Fault] = []
    states = {port.state for port in ports}
    if active and states - {None, ACTIVE}:
        shown = ", ".join(sorted(str(state) for state in states - {None}))
        found.append(("dead link", f"{where} {ACTIVE}", shown, FAIL))
    elif plan.speed_gbps is not None:
        found += [(kind, f"{where} at {wanted}", shown, verdict) for kind, shown, verdict in _speed(plan, ports)]
    if over := _errors(plan, live, cable):
        found.append(("erroring link", f"{where} within the limits", over, FAIL))
    return found


def _speed(plan: Plan, ports: list[LivePort]) -> list[tuple[str, str, str]]:
    for port in ports:
        if port.gbps is None or port.lanes is None:
            return [("unknown", "width and speed that have no name", INCOMPLETE)]
        shown = f"{port.lanes}x {port.speed} ({port.gbps:g} Gb/s)"
        # Two lanes of NDR are a port of 200 Gb/s, as four of HDR are.
        if port.gbps != plan.speed_gbps:
            wanted = plan.speed_gbps or 0
            full = port.lanes < LANES and LANE_GBPS[port.speed] * LANES >= wanted
            return [("narrow link" if full else "slow link" if port.gbps < wanted else "fast link", shown, FAIL)]
    return []


def speed_named(gbps: int | None) -> str:
    """Return a speed as InfiniBand calls it: ``4x NDR (400 Gb/s)``."""
    name = next((name for name, lane in LANE_GBPS.items() if lane * LANES == gbps), None)
    return f"{LANES}x {name} ({gbps} Gb/s)" if name else f"{gbps} Gb/s"


def _errors(plan: Plan, live: LiveFabric, cable: Cable) -> str:
    said = []
    for end in cable:
        over = [(name, count) for name, count in live.errors.get(end, {}).items() if count > LIMITS.get(name, count)]
        counts = ", ".join(
            f"{name} {'at least ' if n in COUNTER_ENDS else ''}{n} (limit {LIMITS[name]})" for name, n in over
        )
        if counts:
            said.append(f"{counts} at {plan.called(end)}")
    return "; ".join(said)
