"""An admission that is killed, overtaken or kept from the gate at every step of its way."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.plugin_utils.admission import admitting
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.controller_gate import (
    ControllerError,
    GateEdit,
    GateInfo,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger, LedgerError
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import DECISIONS

from .test_admit import FakeGate, Killed, Site, drained, state_of

# More steps than any admission here takes.
STEPS = 40


class StrictGate(FakeGate):
    """A gate that refuses an older generation, as the real one does."""

    def write(
        self,
        partitions: Sequence[Mapping[str, Any]],
        generation: int,
        drains: Mapping[str, str],
        resume: Mapping[str, Mapping[str, Any]],
    ) -> GateEdit:
        if self.info.generation > generation:
            raise ControllerError(f"the file is of generation {self.info.generation}, given was {generation}")
        return super().write(partitions, generation, drains, resume)


class Steps:
    """What an admission does to ledger and gate, step by step; ``happen`` is called at each with its number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
        self.names: list[str] = []
        self.writing = False
        self.happen: Callable[[int], None] = lambda number: None
        for name in ("reading", "writing"):
            monkeypatch.setattr(Ledger, name, self._transaction(getattr(Ledger, name), name))
        for name in ("read", "write"):
            monkeypatch.setattr(site.gate, name, self._call(getattr(site.gate, name), f"gate {name}"))

    def _step(self, name: str) -> None:
        self.names.append(name)
        self.happen(len(self.names))

    def _transaction(self, real: Any, name: str) -> Any:
        @contextmanager
        def watched(ledger: Ledger) -> Iterator[Any]:
            self._step(f"before {name}")
            with real(ledger) as transaction:
                self.writing = name == "writing"
                yield transaction
                if self.writing:
                    self._step("before commit")
            self.writing = False
            self._step(f"after {name}")

        return watched

    def _call(self, real: Any, name: str) -> Any:
        def watched(*given: Any) -> GateInfo | GateEdit:
            assert not self.writing, f"{name} within a write transaction"
            self._step(f"before {name}")
            answer: GateInfo | GateEdit = real(*given)
            self._step(f"after {name}")
            return answer

        return watched


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], tuple[Site, Steps]]:
    first = Site(tmp_path / "first.sqlite", 4)
    first.gate = StrictGate()
    first.run([first.failing("n0004", "acceptance")])
    assert first.gate.open == {"n0001", "n0002", "n0003"}

    def made(number: int) -> tuple[Site, Steps]:
        monkeypatch.undo()
        # Each copy has a control machine of its own, which remembers no other copy's generations.
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / str(number)))
        site = copy.deepcopy(first)
        shutil.copy(tmp_path / "first.sqlite", tmp_path / f"{number}.sqlite")
        site.fleet["ledger"]["url"] = f"sqlite:///{tmp_path}/{number}.sqlite"
        return site, Steps(monkeypatch, site)

    return made


def opened_in_vain(site: Site) -> set[str]:
    """Return the nodes that are open and not admitted by the ledger."""
    states = site.states()
    return {name for name in site.gate.open | (site.gate.live or set()) if states[name] != "admitted"}


def busy(site: Site, **given: Any) -> dict[str, Any]:
    """One run with something of each kind: n0001 falls ill, n0002 was drained by its check, n0004 is well again."""
    drained(site, n0002="muster:health:xid:e1")
    return site.run([site.failing("n0001", "preflight")], stages=["preflight", "acceptance"], **given)


def once(steps: Steps, when: Callable[[int], bool], then: Callable[[], Any]) -> list[Any]:
    """Have something happen at the first step for which ``when`` is true; the list returned holds what it gave."""
    done: list[Any] = []

    def happen(number: int) -> None:
        if when(number):
            steps.happen = lambda number: None
            done.append(then())

    steps.happen = happen
    return done


def die() -> None:
    raise Killed


def bring(site: Site, *evidence: Evidence) -> None:
    """Record evidence as another run does."""
    with site.ledger().writing() as writer:
        assert writer.add_evidence(evidence, site.now) == []


def test_no_kill_leaves_a_node_open_that_is_not_admitted(make: Any) -> None:
    killed = 0
    for number in range(1, STEPS):
        site, steps = make(number)
        once(steps, number.__eq__, die)
        try:
            busy(site)
        except Killed:
            killed += 1
        else:
            break
        assert opened_in_vain(site) == set(), steps.names
        busy(site)
        expected = {"n0001": "rejected", "n0002": "quarantined", "n0003": "admitted", "n0004": "admitted"}
        assert (site.states(), site.gate.open) == (expected, {"n0003", "n0004"}), steps.names
        with site.ledger().reading() as reader:
            causes = [move.cause for move in reader.transitions() if move.to_state in DECISIONS]
        assert len(causes) == 1, "decided twice"
    assert killed == len(steps.names) > 15, "every step was tried"


def test_the_gate_is_never_asked_within_a_write_transaction(make: Any) -> None:
    site, steps = make(0)
    busy(site)
    assert steps.names.count("before gate write") == 2


def test_a_second_admission_waits_for_the_first(make: Any) -> None:
    site, steps = make(0)

    def second() -> None:
        with pytest.raises(LedgerError, match="another run is admitting"), site.ledger().locked(wait_seconds=0.1):
            pass

    done = once(steps, lambda number: steps.names[-1] == "after gate write", second)
    busy(site)
    assert done


@pytest.mark.parametrize("ill", ["n0003", "n0004"])
def test_an_admission_in_between_is_noticed_even_without_the_lock(
    make: Any, monkeypatch: pytest.MonkeyPatch, ill: str
) -> None:
    """The other one examined later and found another node ill: that node ends closed, and none is open in vain."""
    tried = 0
    for number in range(1, STEPS):
        site, steps = make(number)
        monkeypatch.setattr(Ledger, "locked", lambda ledger, *given, **more: nullcontext())

        def overtake(site: Site = site) -> dict[str, Any]:
            return site.run([site.failing(ill, "preflight")], stages=["preflight"], nodes=[ill])

        # The database itself keeps writers apart.
        done = once(steps, lambda at, number=number, steps=steps: at >= number and not steps.writing, overtake)
        result = busy(site)
        if not done:
            break
        assert opened_in_vain(site) == set(), (number, steps.names)
        # Where the other was through before this one's evidence was recorded, it came first. One is the test's own.
        if steps.names[:number].count("before commit") >= 2 and "failed" not in result:
            tried += 1
            assert ill not in site.gate.open, (number, steps.names)
    assert tried > 8


@pytest.mark.parametrize("step", ["before gate write", "after gate write"])
@pytest.mark.parametrize("stage", ["preflight", "acceptance"])
def test_evidence_that_comes_in_while_nodes_are_judged_counts(make: Any, stage: str, step: str) -> None:
    site, steps = make(0)
    late = site.failing("n0003", stage, id="late")
    done = once(steps, lambda number: steps.names[-1] == step, lambda: bring(site, late))
    result = busy(site)
    assert done and "failed" not in result
    assert (state_of(result)["n0003"] != "admitted", "n0003" in site.gate.open) == (True, False), steps.names


@pytest.mark.parametrize("step", ["before gate write", "after gate write"])
def test_node_in_service_that_another_run_found_sound_meanwhile_stays_open(make: Any, step: str) -> None:
    """As after a draw, which records preflights while another run judges; one that is not in service waits."""
    site, steps = make(0)
    found = [site.evidence(name, "preflight", id=f"late-{name}") for name in ("n0003", "n0004")]
    done = once(steps, lambda number: steps.names[-1] == step, lambda: bring(site, *found))
    result = busy(site)
    assert done and "failed" not in result
    assert (state_of(result)["n0003"], "n0003" in site.gate.open) == ("admitted", True), steps.names
    assert (state_of(result)["n0004"], "n0004" in site.gate.open) == ("testing", False), steps.names


def test_evidence_of_other_nodes_makes_nobody_judge_again(make: Any) -> None:
    site, steps = make(0)
    late = site.failing("n0003", "burn_in", id="late")
    done = once(steps, lambda number: steps.names[-1] == "before gate write", lambda: bring(site, late))
    result = busy(site, nodes=["n0001", "n0004"])
    assert done and (steps.names.count("before gate read"), "failed" in result) == (1, False)


def test_evidence_that_never_stops_coming_opens_nothing(make: Any) -> None:
    site, steps = make(0)
    brought = 0

    def happen(number: int) -> None:
        nonlocal brought
        if steps.names[-1] == "after reading" and steps.names.count("before gate read") > brought:
            brought += 1
            steps.happen = lambda number: None
            bring(site, site.evidence("n0003", "burn_in", id=f"late {brought}"))
            steps.happen = happen

    steps.happen = happen
    with pytest.raises(LedgerError, match="run again"):
        busy(site)
    assert (brought, opened_in_vain(site)) == (admitting.ATTEMPTS, set())
    assert "n0004" not in site.gate.open


@pytest.mark.parametrize("gone", ["read", "write", "open"])
def test_a_gate_that_does_not_answer_opens_nobody_and_the_next_run_closes(make: Any, gone: str) -> None:
    site, _ = make(0)
    before = set(site.gate.open)
    site.gate.fail = {gone}
    result = busy(site)
    assert result["failed"] and "ctl does not answer" in result["msg"]
    assert site.gate.open <= before
    site.gate.fail = set()
    busy(site)
    assert (opened_in_vain(site), site.gate.open) == (set(), {"n0003", "n0004"})
