"""Who draws power for a burn-in now, by what nodes say in this run and by what the ledger knows of all others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, EvidenceError
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger, Reader
from ansible_collections.muster.cluster.plugins.plugin_utils.ramp.ramp_plan import Drawing, Turn, planned

INLET = "inlet_temperature"
# How long what a node found of its inlet says something about the air of its feed.
INLET_SECONDS = 900.0
# What a run may take beyond its steps: examinations, a tool that has to be killed, a planned reboot.
_BEYOND_SECONDS = 3600.0
_REBOOT_SECONDS = 1800.0
# What no plan takes, whatever a node says of its own: it must not hold power for ever.
_MOST_SECONDS = 30 * 86400.0


def plan_ramp(
    fleet: Fleet, due: Sequence[str], brought: Mapping[str, Any], now: float, check: bool = False
) -> dict[str, Turn]:
    """Return the turns of the due nodes, and write down in the ledger which of them have a share of the budget.

    ``brought`` is the burn-in evidence that this run's examination collected, by node. What others draw is read and
    what these will is written in one transaction, so that two runs at once do not give the same power away twice.
    Raises LedgerError.
    """
    ledger = Ledger.open(fleet.ledger.url, fleet.ledger.id, fleet.cluster, read_only=check)
    counted = fleet.policy.burn_in.kilowatts.declared
    if not counted or check:
        with ledger.reading() as reader:
            return planned(fleet, due, drawing(fleet, reader, brought, now))
    with ledger.writing() as writer:
        drawn = drawing(fleet, writer, brought, now)
        turns = planned(fleet, due, drawn)
        steps = [step.to_dict() for step in fleet.policy.burn_in_profiles[fleet.policy.burn_in_profile].steps]
        length = longest_seconds(steps)
        # From the start of a run that is under way on: its end ends the share.
        writer.share_burn_in(
            {
                name: (min(now, drawn.running.get(name, now)), now + turn.after_seconds + length)
                for name, turn in turns.items()
                if not turn.waits
            }
        )
    return turns


def give_back(fleet: Fleet, nodes: Iterable[str]) -> None:
    """Take the shares back of nodes on which nothing was started. Raises LedgerError."""
    with Ledger.open(fleet.ledger.url, fleet.ledger.id, fleet.cluster).writing() as writer:
        writer.end_burn_in_shares(nodes)


def drawing(fleet: Fleet, reader: Reader, brought: Mapping[str, Any], now: float) -> Drawing:
    """Return who draws power now, and the feeds on which an inlet was too warm lately."""
    last = {node: read for node, given in brought.items() if (read := _last(node, given)) is not None}
    running = {node: evidence.started for node, evidence in last.items() if evidence.finished is None}
    shares: set[str] = set()
    if fleet.policy.burn_in.kilowatts.declared:
        shares = reader.burn_in_shares(now)
        shares |= {node for node, started, detail in reader.unfinished("burn_in") if now < started + longest_of(detail)}
    alarms: dict[str, str] = {}
    for evidence in (*last.values(), *reader.newest_since("burn_in", now - INLET_SECONDS)):
        # A run that ended says what was then, however late it was fetched.
        if evidence.node in fleet.compute and (evidence.finished is None or evidence.finished > now - INLET_SECONDS):
            for finding in evidence.findings:
                waived = fleet.policy.waiver_for(evidence.node, finding, now) is not None
                if finding.check == INLET and finding.verdict == FAIL and not waived:
                    alarms.setdefault(
                        fleet.compute[evidence.node].power_feed, f"inlet of {evidence.node}: {finding.reason}"
                    )
    return Drawing(running, shares, alarms)


def longest_of(detail: Any) -> float:
    """Return after how many seconds a run of which the ledger has this detail must have ended."""
    steps = detail.get("steps") if isinstance(detail, Mapping) else None
    return longest_seconds(steps if isinstance(steps, list) else [])


def longest_seconds(steps: Sequence[Any]) -> float:
    """Return how long the steps of a plan may take together, with their limits, reboots and examinations."""
    whole = _BEYOND_SECONDS
    for step in steps:
        given = step if isinstance(step, Mapping) else {}
        # A node may say anything here, and must not stop the plan of all others.
        for told in (given.get("seconds"), given.get("limit_seconds")):
            if isinstance(told, (int, float)) and told > 0:
                whole += min(told, _MOST_SECONDS)
        whole += _REBOOT_SECONDS if given.get("reboot") else 0.0
    return min(whole, _MOST_SECONDS)


def _last(node: str, given: Any) -> Evidence | None:
    """Return the last of a node's records; what cannot be read was not taken by the ledger, and the node is stopped."""
    try:
        evidence = Evidence.from_dict(given[-1])
    except (EvidenceError, IndexError, KeyError, TypeError):
        return None
    return evidence if evidence.node == node else None
