"""One campaign against a fleet in another process: rounds there, planning here, the truth once all is concluded."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import Planner
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings

from tests.fleets import collectives

from .fleet import Fleet, Spec, expectations, revealed

ROOT = Path(__file__).resolve().parents[2]
ROUNDS_AT_MOST = 12
# What a start and a permutation cost in modelled time; a hang is waited for besides.
START_MINUTES, PERMUTATION_SECONDS = 3.0, 1.0


@dataclass(frozen=True)
class Played:
    """How one campaign ended; ``detected``: all that is bad got what it should, ``blamed``: somebody sound is rejected.

    ``held_sound``: somebody sound was held. ``planning`` are the seconds of the longest computation of a next round.
    """

    detected: bool
    blamed: bool
    held_sound: bool
    rounds: int
    tests: int
    minutes: float
    planning: float
    remarks: tuple[str, ...]


def serve(pipe: Connection) -> None:
    """Keep fleets: ``new``, ``run`` and, once a conclusion is handed in, ``concluded``, which gives the truth."""
    fleet: Fleet | None = None
    while True:
        word, *arguments = pipe.recv()
        if word == "new":
            fleet = Fleet(*arguments)
            pipe.send((fleet.nodes, fleet.places()))
        elif word == "run" and fleet is not None:
            pipe.send(fleet.run(arguments[0]))
        elif word == "concluded" and fleet is not None:
            pipe.send(revealed(fleet))
            fleet = None
        elif word == "stop":
            return
        else:
            pipe.send(None)


class Server:
    """The process that holds the truth."""

    def __enter__(self) -> Server:
        # The other process finds its modules by this one's path, on which they need not be under pytest.
        sys.path += [each for each in (str(ROOT), str(ROOT / "collections")) if each not in sys.path]
        context = get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other,), daemon=True)
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.pipe.send(("stop",))
        self.process.join()

    def ask(self, *words: Any) -> Any:
        """Return its answer."""
        self.pipe.send(words)
        return self.pipe.recv()


def plan_of(step: Round) -> dict[str, Any]:
    """Return a round as the ledger keeps it."""
    return {"kind": step.kind, "groups": [list(group) for group in step.groups], "program": dict(step.program)}


def play(server: Server, spec: Spec, seed: int, expect: Mapping[str, Any] | None = None) -> Played:
    """Play one campaign to its end."""
    nodes, places = server.ask("new", spec, seed)
    planner = Planner(nodes, (), Settings.of(collectives(expect or expectations(spec)), places))
    seen: list[tuple[int, Mapping[str, Any], Mapping[str, Any]]] = []
    started, tests, seconds, planning = 0, 0, 0.0, 0.0
    while True:
        begun = time.process_time()
        step = planner.next_round(seen)
        planning = max(planning, time.process_time() - begun)
        if isinstance(step, Conclusion):
            break
        if len(seen) > ROUNDS_AT_MOST * 4:
            raise AssertionError(f"no conclusion after {len(seen)} observations of {spec}, seed {seed}")
        plan = plan_of(step)
        items = server.ask("run", plan)
        seen += [(step.number, plan, item) for item in items]
        if not any(item["started"] for item in items):
            continue
        started += 1
        tests += sum(_tests(item) for item in items)
        seconds += max(_seconds(item, plan) for item in items)
    truth = server.ask("concluded", {node: [each.verdict for each in owed] for node, owed in step.findings.items()})
    return _scored(step, truth, (started, tests, started * START_MINUTES + seconds / 60, planning))


def _tests(item: Mapping[str, Any]) -> int:
    pairs = {(result["move"], result["step"]) for result in item["results"]}
    return len(pairs) * max(1, len(item["group"]) // 2)


def _seconds(item: Mapping[str, Any], plan: Mapping[str, Any]) -> float:
    walked = {phase["name"] for phase in plan["program"]["moves"] if phase["kind"] == "pairs"}
    done = {(result["move"], result["step"]) for result in item["results"] if result["move"] in walked}
    waited = (
        0.0 if item["ok"] else max(phase["seconds"] for phase in plan["program"]["moves"] if phase["name"] in walked)
    )
    return len(done) * PERMUTATION_SECONDS + waited


def _scored(step: Conclusion, truth: Mapping[str, Any], costs: tuple[int, int, float, float]) -> Played:
    rejected = {node for node, owed in step.findings.items() if any(each.verdict == FAIL for each in owed)}
    passed = {node for node, owed in step.findings.items() if all(each.verdict == PASS for each in owed)}
    held = set(step.held)
    bad, hold, gone = set(truth["bad"]), set(truth["held"]), set(truth["gone"])
    detected = bad <= rejected and hold <= held and not (bad | hold | gone) & passed
    if truth["fault"] == "clean":
        detected = passed == set(step.findings)
    sound = set(step.findings) - bad - hold - gone
    return Played(detected, bool(rejected - bad), bool(held & sound), *costs, step.remarks)
