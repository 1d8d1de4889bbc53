"""One campaign against a fleet in another process: rounds there, planning here, the truth once all is concluded."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
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

from .faults import EITHER, HELD, PASSED, REJECTED, Fault
from .fleet import Fleet, Spec, expectations, revealed

ROOT = Path(__file__).resolve().parents[2]
ROUNDS_AT_MOST = 12
# What a start and a permutation cost in modelled time; a hang is waited for besides.
START_MINUTES, PERMUTATION_SECONDS = 3.0, 1.0


@dataclass(frozen=True)
class Played:
    """How one campaign ended: what became of each node, and what should have, of those with which something is wrong.

    ``planning`` are the seconds of the longest computation of a next round.
    """

    became: Mapping[str, str]
    expected: Mapping[str, str]
    steps: int
    minutes: float
    planning: float
    remarks: tuple[str, ...]

    @property
    def missed(self) -> list[str]:
        """Return who is bad and did not get what it should."""
        return [node for node, its in self.expected.items() if self.became[node] not in _ALLOWED[its]]

    @property
    def wrongly_admitted(self) -> list[str]:
        """Return who is bad and passed everything."""
        return [node for node in self.expected if self.became[node] == PASSED]

    @property
    def wrongly_rejected(self) -> list[str]:
        """Return who is rejected and should not be: who is sound, or held because nobody can tell that it is bad."""
        allowed = (REJECTED, EITHER)
        return [node for node, its in self.became.items() if its == REJECTED and self.expected.get(node) not in allowed]

    @property
    def held_innocents(self) -> list[str]:
        """Return who is sound and is neither admitted nor rejected."""
        return [node for node, its in self.became.items() if its == HELD and node not in self.expected]


_ALLOWED = {REJECTED: (REJECTED,), HELD: (HELD,), EITHER: (REJECTED, HELD)}


def serve(pipe: Connection) -> None:
    """Keep fleets: ``new``, ``run`` and, once a conclusion is handed in, ``concluded``, which gives the truth."""
    fleet: Fleet | None = None
    # Whoever asks may be gone without a word.
    with contextlib.suppress(EOFError, OSError):
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
        other.close()
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


def play(
    server: Server,
    spec: Spec,
    seed: int,
    expect: Mapping[str, Any] | None = None,
    faults: Sequence[Fault] | None = None,
) -> Played:
    """Play one campaign to its end, of a named fault's fleet or one of these faults."""
    nodes, places = server.ask("new", spec, seed, faults)
    members, partners = nodes[: spec.hosts], nodes[spec.hosts :]
    planner = Planner(members, partners, Settings.of(collectives(expect or expectations(spec)), places))
    seen: list[tuple[int, Mapping[str, Any], Mapping[str, Any]]] = []
    started, seconds, planning = 0, 0.0, 0.0
    while True:
        begun = time.process_time()
        step = planner.next_round(seen)
        planning = max(planning, time.process_time() - begun)
        if isinstance(step, Conclusion):
            break
        if step.number > ROUNDS_AT_MOST:
            raise AssertionError(f"no conclusion after {step.number} rounds of {spec}, seed {seed}")
        plan = plan_of(step)
        items = server.ask("run", plan)
        seen += [(step.number, plan, item) for item in items]
        if any(item["started"] for item in items):
            started += 1
            seconds += max(_seconds(item, plan) for item in items)
    truth = server.ask("concluded", {node: [each.verdict for each in owed] for node, owed in step.findings.items()})
    minutes = round(started * START_MINUTES + seconds / 60, 2)
    return Played(became_of(step), expected_of(truth), started, minutes, planning, step.remarks)


def became_of(conclusion: Conclusion) -> dict[str, str]:
    """Return what becomes of each node under test."""
    verdicts = {node: {each.verdict for each in owed} for node, owed in conclusion.findings.items()}
    return {
        node: REJECTED if FAIL in found else PASSED if found == {PASS} else HELD for node, found in verdicts.items()
    }


def expected_of(truth: Mapping[str, Any]) -> dict[str, str]:
    """Return what should become of those with which something is wrong. Whom Slurm lost cannot be judged."""
    lists = {"bad": REJECTED, "held": HELD, "gone": HELD, "either": EITHER}
    return {node: expected for name, expected in lists.items() for node in truth[name]}


def _seconds(item: Mapping[str, Any], plan: Mapping[str, Any]) -> float:
    """Return what a job takes besides its start: its permutations, and until a hang is noticed."""
    phases = {phase["name"]: phase for phase in plan["program"]["moves"]}
    done = {(result["move"], result["step"]) for result in item["results"] if phases[result["move"]]["kind"] == "pairs"}
    waited = max((phases[name]["seconds"] for name, _step, _how in item.get("reached", {}).values()), default=0.0)
    return len(done) * PERMUTATION_SECONDS + waited
