"""The stage of storage: all nodes under test save a checkpoint to shared storage, as a job would."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.collectives.link_changes import ANY
from ansible_collections.muster.cluster.plugins.module_utils.collectives.link_words import link_name, link_words
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CARRIER_CHECK
from ansible_collections.muster.cluster.plugins.module_utils.nic.declared_nics import rails_of
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.campaign import NothingToProve
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Cohort, Request
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.link_findings import Owed, with_links
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.stage import Seen, StageWork
from ansible_collections.muster.cluster.plugins.plugin_utils.save_rounds.save_judging import (
    BAD,
    HELD,
    Limits,
    Save,
    gb_per_s,
    judge,
    target,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.save_rounds.save_rounds import (
    SUBJECT,
    Plan,
    conclude_early,
    next_round,
)

# Small files of each rank: with a hundred of a kind the slowest of 100 is one that was measured.
FILES = 100
# State that PyTorch saves: enough to be written by several ranks, little beside their shards.
CHECKPOINT_BYTES = 64 * 2**20
# Save, read, small files, PyTorch: each may take a quarter of a round less what Slurm and the start of torch take.
STEPS = 4
START_SECONDS = 30
LEAST_STEP_SECONDS = 10
# More nodes than this are only counted, the bad ones named.
TOLD_NODES = 8


class StorageRounds(StageWork):
    """A checkpoint of a cohort's nodes on the declared tier."""

    stage = "storage"

    def __init__(self, request: Request, cohort: Cohort) -> None:
        super().__init__(request, cohort)
        expect = cohort.expect
        if expect.checkpoint is None:
            raise NothingToProve("the fleet declares no storage.checkpoint")
        if expect.storage is None:
            raise NothingToProve(f"hardware class {cohort.hardware_class} has no limits for storage")
        self.limits = Limits.of(expect)
        self.plan = Plan(cohort.members, cohort.partners, self.limits)
        # Without, gloo takes the interface that the host's own name resolves to.
        interface, rails = request.fleet.fabric.socket_interface, rails_of(expect)
        # Nodes find out by themselves which interface leads to the storage.
        (self.link,) = link_words([interface or ANY], rails)
        self.environment = {str(key): str(value) for key, value in request.environment.items()}
        if sockets := self.environment.get("GLOO_SOCKET_IFNAME", interface):
            self.environment["GLOO_SOCKET_IFNAME"] = ",".join(link_words(sockets.split(","), rails))

    def surroundings(self) -> Mapping[str, Any]:
        """Return what is written where, by whom besides the nodes."""
        return {"partners": self.plan.partners, "test": self._test(), "environment": self.environment}

    def next_round(self, seen: Seen) -> Round | Conclusion:
        """Return the next save, or what is concluded."""
        step = next_round(self.plan, _saves(seen))
        return step if isinstance(step, Round) else self._with_links(step, seen)

    def conclude_early(self, seen: Seen, reason: str) -> Conclusion:
        """Return what is known so far."""
        return self._with_links(conclude_early(self.plan, _saves(seen), reason), seen)

    def _with_links(self, conclusion: Conclusion, seen: Seen) -> Conclusion:
        owed = Owed(CARRIER_CHECK, {SUBJECT: [link_name(self.link)]}, self.cohort.expect.collective.hold)
        answers = (each for save in _saves(seen) for each in save.answers.items())
        return with_links(conclusion, owed, ((node, answer["links"]) for node, answer in answers if "links" in answer))

    def arguments(self, step: Round, seconds: int) -> dict[str, Any]:
        """Return where the nodes are, what to write, and a port that no round before has used."""
        return {
            **self.meeting(step, seconds),
            "addresses": self.addresses(step),
            "test": self._test(),
            "environment": self.environment,
            "timeout_seconds": max(LEAST_STEP_SECONDS, (seconds - START_SECONDS) // STEPS),
        }

    def _test(self) -> dict[str, Any]:
        return {
            # Clusters may share the storage.
            "directory": f"{self.limits.path}/.muster/{self.request.fleet.cluster}",
            "ranks": self.cohort.expect.collective.ranks_per_node,
            "shard_bytes": self.limits.shard_bytes,
            "files": FILES,
            "checkpoint_bytes": CHECKPOINT_BYTES,
            "python": self.cohort.expect.pytorch.python,
            "links": [self.link],
        }

    def summary(self, number: int, plan: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> str:
        """Return the save's rate, and what was wrong with whom."""
        return "; ".join(self._summary(Save.read(number, item)) for item in items)

    def _summary(self, save: Save) -> str:
        if not save.started:
            return f"{len(save.group)} nodes: {save.error[:200]}"
        bad = []
        for node, checks in judge(save, self.limits).items():
            wrong = next((each for each in checks.values() if each.verdict in (BAD, HELD)), None)
            if wrong:
                bad.append(f"{node}: {wrong.reason[:160]}")
        reached = target(save, self.limits, ())
        parts = [f"{len(save.group)} nodes, {reached.reason if reached else f'nothing written: {save.error[:200]}'}"]
        parts += bad[:TOLD_NODES]
        if len(bad) > TOLD_NODES:
            parts.append(f"{len(bad) - TOLD_NODES} more")
        return "; ".join(parts)

    def details(self, seen: Seen) -> Mapping[str, Mapping[str, Any]]:
        """Return by node what it measured round by round, and what the largest save it took part in came to."""
        found: dict[str, dict[str, Any]] = {node: {"rounds": [], "save": None} for node in self.cohort.members}
        for save in _saves(seen):
            whole = summary_of(save, self.limits)
            for node in set(save.group) & set(found):
                found[node]["rounds"].append(_round_of(save, node))
                known = found[node]["save"]
                if whole and (known is None or whole["nodes"] > known["nodes"]):
                    found[node]["save"] = whole
        return found


def _round_of(save: Save, node: str) -> dict[str, Any]:
    answer = save.answers.get(node, {})
    parts = ("write", "read", "own", "second", "metadata", "checkpoint", "blocked", "elapsed_seconds")
    return {
        "number": save.number,
        "nodes": len(save.group),
        "error": str(answer.get("error") or ("" if answer else save.error)),
        **{part: answer.get(part) for part in parts},
    }


def summary_of(save: Save, limits: Limits) -> dict[str, Any] | None:
    """Return what one save of all its nodes came to, None where nobody wrote.

    ``blocking_seconds`` is how long a job that saves in step stands still; ``checkpoint`` has PyTorch's own, with
    ``save_seconds`` until all is on the storage. ``overhead_seconds`` is what the test took beside them.
    """
    speeds = {kind: _rates(save, kind) for kind in ("write", "read")}
    reached = target(save, limits, ())
    if not speeds["write"] or reached is None:
        return None
    answers = list(save.answers.values())
    storms = [answer["metadata"] for answer in answers if answer["metadata"]]
    made = [each for answer in answers if (each := answer["checkpoint"]) and not each["error"]]
    times = ("blocking_seconds", "save_seconds", "load_seconds")
    return {
        "nodes": len(speeds["write"]),
        "bytes": sum(answer["write"]["bytes"] for answer in answers if answer["write"]),
        "write_gb_per_s": reached.measured,
        "needed_gb_per_s": reached.expected,
        "node_write_gb_per_s": statistics.median(speeds["write"]),
        "node_read_gb_per_s": statistics.median(speeds["read"]) if speeds["read"] else None,
        "slowest_over_median": statistics.median(speeds["write"]) / min(speeds["write"]),
        "metadata_p99_ms": max((value for each in storms for value in each["p99_ms"].values()), default=None),
        "blocking_seconds": max(answer["write"].get("blocking_seconds", 0) for answer in answers if answer["write"]),
        "checkpoint": {name: max(each[name] for each in made) for name in times} if made else None,
        "overhead_seconds": max(_overhead(answer) for answer in answers),
    }


def _rates(save: Save, kind: str) -> list[float]:
    rates = (gb_per_s(answer[kind]) for answer in save.answers.values())
    return [rate for rate in rates if rate is not None]


def _overhead(answer: Mapping[str, Any]) -> float:
    parts = [answer[name] for name in ("read", "metadata") if answer[name]]
    busy = sum(part.get("seconds", 0) for part in parts) + (answer["write"] or {}).get("blocking_seconds", 0)
    made = answer["checkpoint"] or {}
    busy += made.get("save_seconds", 0) + made.get("load_seconds", 0)
    return round(float(answer["elapsed_seconds"]) - busy, 3)


def _saves(seen: Seen) -> list[Save]:
    return [Save.read(number, item) for number, _, item in seen]
