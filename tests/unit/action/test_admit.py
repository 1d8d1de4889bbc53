"""Action admit on a real SQLite ledger: over a controller that is a small fake, then over the gate's real code."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import STRESSES, required
from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import rules_of
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.host_lists import expand, fold
from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import COMPONENTS
from ansible_collections.muster.cluster.plugins.module_utils.slurm.drain_reason import BURN_IN
from ansible_collections.muster.cluster.plugins.module_utils.slurm.gate_file import GateFile, Partition, parse_gate_file
from ansible_collections.muster.cluster.plugins.module_utils.slurm.gate_plan import Examined, NodeHandling
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import SlurmGateError
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_controller import Controller as SlurmController
from ansible_collections.muster.cluster.plugins.module_utils.slurm.user_gate import Gate
from ansible_collections.muster.cluster.plugins.module_utils.slurm.user_reach import reached_by_users
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Clock, Cpu, Expectations, Memory
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission_request import Request
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admitting import admit
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.controller_gate import (
    ControllerError,
    GateEdit,
    GateInfo,
    ModuleGate,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.gate_ledger import create, guard
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger, LedgerError, states

from tests.fleets import fleet_of
from tests.typed import typed, undeclared

NOW = 2_000_000_000.0
HOUR = 3600.0
STAGES = ("preflight", "burn_in", "acceptance")
FINGERPRINT = {name: f"{name} 1" for name in COMPONENTS}


# As the fake controller prints it, local time.
BOOTED = time.mktime(time.strptime("2026-11-20T09:00:00", "%Y-%m-%dT%H:%M:%S"))


def machine(name: str) -> dict[str, str | None]:
    """Return the identity of the machine that a node is."""
    number = int(name[1:])
    mac = f"3c:ec:ef:7f:{number >> 8:02x}:{number & 255:02x}"
    told = {"board_uuid": f"4c4c4544-0053-5210-8038-{number:012x}", "bmc_mac": mac}
    return {**told, "hostname": name, "slurmd_node": name, "boot_time": str(int(BOOTED))}


LAB = expectations_of("lab_h100", {}, "test")
EXPECT: dict[str, Any] = {
    # What a class may state as null, it does.
    **undeclared(Expectations),
    "gpu": {
        **LAB["gpu"],
        **{"model": "GPU", "count": 1, "memory_mib": 1, "row_remap": None, "retired_pages": None, "nvml": None},
        "parts": [{"slot": "SXM1", "address": "0000:1b:00.0"}],
    },
    "cpu": {**undeclared(Cpu), "architecture": "x86_64", "sockets": 1, "cores": 1},
    "memory": {**undeclared(Memory), "mib": 1, "tolerance_percent": 5},
    "clock": {**undeclared(Clock), "offset_ms": 100},
    "disk": {"paths": [{"path": "/var", "free_gib": 5}]},
    **{key: LAB[key] for key in ("class", "kernel_log", "tools", "collective", "pytorch")},
}


class Killed(BaseException):
    """The process is gone; nothing may catch it."""


class FakeGate:
    """A controller in memory; ``fail`` names the calls that do not work, ``die`` those that kill the process."""

    def __init__(self) -> None:
        self.info = GateInfo(None, 0, {})
        self.open: set[str] = set()
        self.live: set[str] | None = None
        # Partitions that are not the gate's.
        self.others: dict[str, list[str]] = {}
        self.writes: list[list[str]] = []
        self.fail: set[str] = set()
        self.die: set[str] = set()
        self.check = False
        self.resume: Mapping[str, Mapping[str, Any]] = {}

    def _step(self, name: str) -> None:
        if name in self.die:
            raise Killed
        if name in self.fail:
            raise ControllerError("ctl does not answer")

    def read(self) -> GateInfo:
        self._step("read")
        live = {"batch": sorted(self.open if self.live is None else self.live), "acceptance": ["n0001"], **self.others}
        filed = {"batch": sorted(self.open)} if self.info.ledger_id else {}
        return replace(self.info, partitions=filed, live_partitions=live)

    def write(
        self,
        partitions: Sequence[Mapping[str, Any]],
        generation: int,
        drains: Mapping[str, str],
        resume: Mapping[str, Mapping[str, Any]],
    ) -> GateEdit:
        self.resume = resume
        (partition,) = partitions
        wanted = set(partition["nodes"])
        opened, closed = sorted(wanted - self.open), sorted(self.open - wanted)
        self._step("open" if opened else "write")
        changed = bool(opened or closed or generation != self.info.generation or self.info.ledger_id is None)
        if not self.check:
            self.writes.append(sorted(wanted))
            self.info = replace(self.info, ledger_id="ledger-1", generation=generation)
            self.open = wanted
            self.live = None
        return GateEdit(changed, opened, closed)

    def close(self, nodes: Sequence[str]) -> GateEdit:
        closed = sorted((self.open | (self.live or set())) & set(nodes))
        self._step("close")
        if not self.check:
            self.open -= set(nodes)
            self.live = None if self.live is None else self.live - set(nodes)
        return GateEdit(bool(closed), (), closed)


class Site:
    """A fleet of some nodes, its ledger, its gate and a clock."""

    def __init__(self, path: Path, count: int) -> None:
        self.names = [f"n{number:04}" for number in range(1, count + 1)]
        self.fleet: dict[str, Any] = {
            "cluster": "lab",
            "controller": "ctl",
            "nodes": {
                "ctl": {"role": "controller", "hardware_class": None},
                **{name: {"role": "compute", "hardware_class": "c"} for name in self.names},
            },
            "classes": {"c": EXPECT},
            "scheduler": {
                "leaving_jobs": "finish",
                "state_directory": "/shared/slurm",
                "partitions": [{"name": "batch", "default": True, "hardware_classes": None, "parameters": {}}],
            },
            "ledger": {"url": f"sqlite:///{path}", "id": "ledger-1"},
            "policy": {
                "stages": list(STAGES),
                "burn_in_profile": "p",
                "burn_in_profiles": {"p": {"steps": [{"seconds": 60}], "interval_seconds": 5}},
                "fresh_hours": {"burn_in": 720, "acceptance": 168},
                "close_limit_percent": 20,
                "retest": True,
                "heartbeat_seconds": None,
            },
        }
        self.gate = FakeGate()
        self.now = NOW
        self.run_number = 0
        Ledger.create(self.fleet["ledger"]["url"], "ledger-1", "lab", NOW)

    def ledger(self) -> Ledger:
        return Ledger.open(self.fleet["ledger"]["url"], "ledger-1", "lab")

    def states(self) -> dict[str, str]:
        return states(self.fleet["ledger"]["url"], "ledger-1")

    def evidence(self, name: str, stage: str, **changes: Any) -> Evidence:
        whole = Evidence(
            id=f"{name}-{stage}-{self.run_number}",
            node=name,
            stage=stage,
            started=self.now - 200,
            finished=self.now - 100,
            boot_id="b",
            fingerprint=FINGERPRINT,
            expect_digest=expect_digest_of(stage, EXPECT),
            identity=machine(name),
            rules=rules_of(stage, STRESSES),
            findings=tuple(Finding(check, part, "pass") for check, part in required(stage, typed(EXPECT))),
            detail={"profile": "p", "steps": [{"seconds": 60}], "elapsed_seconds": 61} if stage == "burn_in" else {},
        )
        return replace(whole, **changes)

    def failing(self, name: str, stage: str, **changes: Any) -> Evidence:
        whole = self.evidence(name, stage, **changes)
        return replace(whole, findings=(replace(whole.findings[0], verdict="fail", reason="bad"), *whole.findings[1:]))

    def run(self, evidence: Sequence[Evidence] = (), stages: Sequence[str] = STAGES, **given: Any) -> dict[str, Any]:
        """One run an hour after the last: every node that is not in ``evidence`` or unreachable passes ``stages``."""
        self.now += HOUR
        self.run_number += 1
        own = {(item.node, item.stage): item for item in self.later(evidence)}
        gone = {*given.get("unreachable", ()), *given.get("stopped", ())}
        nodes = given.pop("nodes", self.names)
        items = {
            name: [] if name in gone else [own.get((name, s)) or self.evidence(name, s) for s in stages]
            for name in nodes
        }
        plain = given.pop("plain", lambda given: given)(self.gather(items))
        request = Request(fleet_of(self.fleet), nodes, plain, **given)
        self.gate.check = request.check
        return admit(request, self.gate, self.now, "me@here")

    def gather(self, items: Mapping[str, Sequence[Evidence]]) -> dict[str, Any]:
        """Put into the ledger what came in before admission and return the preflights, as the play hands them over."""
        early = [item for all_of in items.values() for item in all_of if item.stage != "preflight"]
        if early:
            with self.ledger().writing() as writer:
                assert writer.add_evidence(early, self.now) == []
        return {
            name: [item.to_dict() for item in all_of if item.stage == "preflight"] for name, all_of in items.items()
        }

    def later(self, evidence: Sequence[Evidence]) -> list[Evidence]:
        times = {"started": self.now - 200, "finished": self.now - 100}
        return [replace(item, id=f"{item.node}-{item.stage}-{self.run_number}", **times) for item in evidence]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "ledger.sqlite", 4)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def state_of(result: Mapping[str, Any]) -> dict[str, str]:
    return {verdict["node"]: verdict["state"] for verdict in result["verdicts"]}


def test_first_run_opens_what_passed_and_the_second_changes_nothing(site: Site) -> None:
    bad = [site.failing("n0003", "burn_in"), site.failing("n0004", "acceptance")]
    first = site.run(bad)
    assert state_of(first) == {"n0001": "admitted", "n0002": "admitted", "n0003": "rejected", "n0004": "rejected"}
    assert {v["node"]: v["stage"] for v in first["verdicts"] if v["state"] == "rejected"} == {
        "n0003": "burn_in",
        "n0004": "acceptance",
    }
    assert (first["changed"], first["opened"], site.gate.open) == (True, ["n0001", "n0002"], {"n0001", "n0002"})
    told = {"node", "state", "stage", "findings", "evidence", "waived", "due", "weaker"}
    assert set(first["verdicts"][0]) == told
    second = site.run(bad)
    assert (second["changed"], second["transitions"], second["generation"]) == (False, [], first["generation"])
    assert "failed" not in second


def test_later_runs_need_a_preflight_only(site: Site) -> None:
    site.run()
    again = site.run(stages=["preflight"])
    assert (set(state_of(again).values()), again["changed"]) == ({"admitted"}, False)


def test_cleared_fault_is_admitted(site: Site) -> None:
    site.run([site.failing("n0004", "acceptance")])
    result = site.run(stages=["preflight", "acceptance"])
    assert (result["opened"], site.gate.open) == (["n0004"], set(site.names))


def test_one_record_need_not_be_a_list(site: Site) -> None:
    site.run()
    result = site.run(stages=["preflight"], plain=lambda items: {name: item for name, (item,) in items.items()})
    assert (set(state_of(result).values()), result["changed"]) == ({"admitted"}, False)


HEATED = {**EXPECT, "telemetry": {**LAB["telemetry"], "slot_spread_celsius": 10}}


class BurnedSite(Site):
    """A site whose nodes tell how hot their one GPU was, of a class that compares it."""

    def __init__(self, path: Path, count: int) -> None:
        super().__init__(path, count)
        self.fleet["classes"] = {"c": HEATED}
        self.celsius = dict.fromkeys(self.names, 60.0)

    def evidence(self, name: str, stage: str, **changes: Any) -> Evidence:
        whole = super().evidence(name, stage, **{"expect_digest": expect_digest_of(stage, HEATED), **changes})
        if stage != "burn_in":
            return whole
        measures = {"gpu_telemetry": {"gpu SXM1 0000:1b:00.0": {"watts": 700.0, "celsius": self.celsius[name]}}}
        return replace(whole, detail={**whole.detail, "measures": measures})

    def burn_in(self, celsius: float, *names: str) -> dict[str, Any]:
        """A run in which these nodes were burned in again, and all nodes are judged."""
        self.celsius |= dict.fromkeys(names, celsius)
        self.now += HOUR / 2
        self.run_number += 1
        self.gather({name: [self.evidence(name, "burn_in")] for name in names})
        return self.run(stages=["preflight"])


@pytest.fixture
def burned(tmp_path: Path) -> BurnedSite:
    return BurnedSite(tmp_path / "burned.sqlite", 8)


def test_node_that_is_hot_beside_all_others_in_the_ledger_is_rejected_until_it_is_cool(burned: BurnedSite) -> None:
    burned.run(nodes=burned.names[:-1])
    burned.celsius["n0008"] = 71.0
    first = burned.run(nodes=["n0008"])
    assert state_of(first) == {"n0008": "rejected"}
    assert [(each["check"], each["measured"], each["expected"]) for each in first["verdicts"][0]["findings"]] == [
        ("gpu_heat", 71.0, 70.0)
    ]
    again = burned.run(stages=["preflight"])
    assert (state_of(again)["n0008"], again["changed"]) == ("rejected", False)
    assert "n0008" in burned.burn_in(65.0, "n0008")["transitions"][0]["node"]
    assert burned.run(stages=["preflight", "acceptance"])["changed"] is False
    assert burned.gate.open == set(burned.names)


def test_others_that_run_cooler_now_close_no_node_but_its_own_burn_in_does(burned: BurnedSite) -> None:
    burned.celsius["n0008"] = 69.0
    assert set(state_of(burned.run()).values()) == {"admitted"}
    moved = burned.burn_in(55.0, *burned.names[:-1])
    assert (set(state_of(moved).values()), moved["transitions"]) == ({"admitted"}, [])
    (due,) = (each["due"] for each in moved["verdicts"] if each["due"])
    assert [each["stage"] for each in due] == ["burn_in"] and "gpu_heat" in due[0]["reason"]
    assert burned.run(stages=["preflight"])["changed"] is False
    hot = burned.burn_in(69.0, "n0008")
    assert (hot["closed"], state_of(hot)["n0008"]) == (["n0008"], "rejected")


def test_node_is_compared_with_nodes_of_its_own_class_alone(burned: BurnedSite) -> None:
    burned.fleet["classes"]["d"] = HEATED
    burned.fleet["nodes"] |= {name: {"role": "compute", "hardware_class": "d"} for name in burned.names[:4]}
    burned.celsius["n0008"] = 71.0
    assert set(state_of(burned.run()).values()) == {"admitted"}


def test_node_is_compared_with_burn_ins_by_the_same_expectations_alone(burned: BurnedSite) -> None:
    burned.celsius["n0008"] = 71.0
    older = [burned.evidence(name, "burn_in", expect_digest="older") for name in burned.names[:4]]
    states = state_of(burned.run(older))
    assert [name for name, state in states.items() if state == "admitted"] == burned.names[4:]


def test_node_that_told_nothing_is_judged_by_its_own_checks_alone(burned: BurnedSite) -> None:
    silent = burned.evidence("n0008", "burn_in")
    silent = replace(silent, detail={key: value for key, value in silent.detail.items() if key != "measures"})
    assert set(state_of(burned.run([silent])).values()) == {"admitted"}


def test_policy_without_burn_in_compares_none(burned: BurnedSite) -> None:
    burned.celsius["n0008"] = 99.0
    burned.fleet["policy"]["stages"] = ["preflight", "acceptance"]
    assert set(state_of(burned.run()).values()) == {"admitted"}


def test_no_node_without_evidence_is_opened(site: Site) -> None:
    result = site.run(stages=["preflight"])
    assert (set(state_of(result).values()), site.gate.open) == ({"testing"}, set())


def test_an_untargeted_node_is_left_alone(site: Site) -> None:
    site.run()
    result = site.run(nodes=["n0001"], stages=["preflight"])
    assert (state_of(result), result["changed"], site.gate.open) == ({"n0001": "admitted"}, False, set(site.names))


def test_early_pass_closes_and_opens_nothing(site: Site) -> None:
    site.run([site.failing("n0004", "acceptance")])
    swapped = site.evidence("n0002", "preflight", fingerprint={**FINGERPRINT, "gpu_serials": "another"})
    healed = site.run(stages=["preflight", "acceptance"], nodes=["n0004"], close_only=True)
    assert (healed["changed"], site.gate.open) == (False, {"n0001", "n0002", "n0003"})
    early = site.run([swapped], stages=["preflight"], close_only=True)
    assert [(t["node"], t["to_state"]) for t in early["transitions"]] == [("n0002", "testing")]
    assert (early["closed"], early["opened"], site.gate.open) == (["n0002"], [], {"n0001", "n0003"})
    assert site.states()["n0004"] == "rejected"


def test_early_pass_on_a_fresh_controller_opens_nothing(site: Site) -> None:
    result = site.run(stages=["preflight"], close_only=True)
    assert (result["transitions"], site.gate.open, set(site.states().values())) == ([], set(), {"new"})


def test_all_nodes_sick_closes_the_gate(site: Site) -> None:
    site.run()
    result = site.run([site.failing(name, "preflight") for name in site.names], stages=["preflight"])
    assert (set(state_of(result).values()), site.gate.open) == ({"rejected"}, set())
    assert "failed" not in result


def test_all_nodes_gone_closes_the_gate_if_slurm_lost_them_too(site: Site) -> None:
    site.run()
    site.gate.info = replace(site.gate.info, unreachable=frozenset(site.names))
    result = site.run(unreachable=site.names)
    assert (set(state_of(result).values()), site.gate.open) == ({"testing"}, set())
    assert {f["check"] for v in result["verdicts"] for f in v["findings"]} == {"reach"}


def test_nodes_gone_for_the_control_machine_alone_stop_the_run(site: Site) -> None:
    first = site.run()
    result = site.run(unreachable=site.names)
    assert result["failed"] and "admit_allow_mass_close=true" in result["msg"]
    assert (result["changed"], result["generation"], site.gate.open) == (False, first["generation"], set(site.names))
    assert set(site.states().values()) == {"admitted"}
    allowed = site.run(unreachable=site.names, allow_mass_close=True)
    assert (set(site.states().values()), site.gate.open, allowed["changed"]) == ({"testing"}, set(), True)


def test_one_node_gone_is_closed_and_others_stay(site: Site) -> None:
    site.run()
    result = site.run(unreachable=["n0001"], stages=["preflight"])
    assert (result["closed"], site.gate.open) == (["n0001"], {"n0002", "n0003", "n0004"})


def test_a_node_that_a_task_stopped_is_not_admitted(site: Site) -> None:
    result = site.run(stopped={"n0001": "Install: no space"})
    assert state_of(result)["n0001"] == "testing"
    assert "no space" in result["verdicts"][0]["findings"][0]["reason"]


def test_kill_between_commit_and_gate_is_carried_out_by_the_next_run(site: Site) -> None:
    site.gate.die = {"open"}
    with pytest.raises(Killed):
        site.run()
    assert (set(site.states().values()), site.gate.open) == ({"admitted"}, set())
    site.gate.die = set()
    result = site.run(stages=["preflight"])
    assert (site.gate.open, result["opened"], result["transitions"]) == (set(site.names), site.names, [])


def test_kill_at_the_gate_leaves_no_sick_node_open(site: Site) -> None:
    """A close is carried out before it is recorded: killed at any point, nothing is open that is not admitted."""
    site.run()
    sick = [site.failing("n0001", "preflight")]
    site.gate.die = {"write"}
    with pytest.raises(Killed):
        site.run(sick, stages=["preflight"])
    assert (site.states()["n0001"], "n0001" in site.gate.open) == ("admitted", True)
    site.gate.die = set()
    site.run(sick, stages=["preflight"])
    assert (site.states()["n0001"], "n0001" in site.gate.open) == ("rejected", False)


def test_kill_between_closing_and_commit_leaves_the_gate_closed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.run()
    write = site.gate.write

    def write_then_die(*given: Any) -> GateEdit:
        write(*given)
        raise Killed

    monkeypatch.setattr(site.gate, "write", write_then_die)
    with pytest.raises(Killed):
        site.run([site.failing("n0001", "preflight")], stages=["preflight"])
    assert (site.states()["n0001"], "n0001" in site.gate.open) == ("admitted", False)
    monkeypatch.undo()
    assert site.run(stages=["preflight"])["opened"] == ["n0001"]


@pytest.mark.parametrize("call", ["read", "open"])
def test_controller_that_does_not_answer_fails_the_task_and_keeps_the_verdicts(site: Site, call: str) -> None:
    site.gate.fail = {call}
    result = site.run()
    assert result["failed"] and "batch" in result["msg"] and "ctl does not answer" in result["msg"]
    assert (set(site.states().values()), site.gate.open) == ({"admitted"}, set())
    site.gate.fail = set()
    recovered = site.run(stages=["preflight"])
    assert (site.gate.open, "failed" in recovered) == (set(site.names), False)
    assert site.run(stages=["preflight"])["changed"] is False


def test_older_copy_stops_even_after_runs_without_the_controller(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.sqlite"
    site.run([site.failing("n0001", "burn_in")])
    shutil.copy(path, tmp_path / "copy")
    site.run(stages=["preflight", "burn_in"])
    shutil.copy(tmp_path / "copy", path)
    with pytest.raises(LedgerError, match="this control machine has seen generation 2: this is an older copy"):
        site.run(stages=["preflight"])
    # Another control machine has seen none.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    site.gate.fail = {"read"}
    for name in site.names[:2]:
        site.run([site.failing(name, "preflight")], stages=["preflight"])
    site.gate.fail = set()
    before = path.read_bytes(), set(site.gate.open)
    with pytest.raises(LedgerError, match="older copy"):
        site.run(stages=["preflight"])
    assert (path.read_bytes(), site.gate.open) == before


def test_gate_of_another_ledger_stops(site: Site, tmp_path: Path) -> None:
    site.run()
    site.gate.info = replace(site.gate.info, ledger_id="ledger-2")
    before = (tmp_path / "ledger.sqlite").read_bytes()
    with pytest.raises(LedgerError, match="ledger-2"):
        site.run(stages=["preflight"])
    assert (tmp_path / "ledger.sqlite").read_bytes() == before


def test_new_ledger_over_an_open_gate_stops(tmp_path: Path) -> None:
    site = Site(tmp_path / "a", 4)
    site.run()
    other = Site(tmp_path / "b", 4)
    other.gate = site.gate
    with pytest.raises(LedgerError, match="older copy"):
        other.run(stages=["preflight"])
    assert site.gate.open == set(site.names)


def test_check_mode_leaves_no_trace_and_tells_the_verdicts(site: Site, tmp_path: Path) -> None:
    site.gather({name: [site.evidence(name, stage) for stage in STAGES] for name in site.names})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    result = site.run(check=True, stages=["preflight"])
    assert (set(state_of(result).values()), result["opened"], result["changed"]) == ({"admitted"}, site.names, True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert site.gate.writes == []


def test_manual_drains_are_copied_kept_through_a_loss_and_lifted(site: Site) -> None:
    site.run()
    site.gate.info = replace(site.gate.info, drains={"n0001": "fan, Jo"})
    assert site.run(stages=["preflight"])["changed"] is False
    site.gate.info = replace(site.gate.info, drains={}, state_lost=True)
    site.run(stages=["preflight"])
    with site.ledger().reading() as reader:
        assert reader.drains() == {"n0001": "fan, Jo"}
    site.gate.info = replace(site.gate.info, state_lost=False)
    site.run(stages=["preflight"])
    with site.ledger().reading() as reader:
        assert reader.drains() == {}


def test_decision_stands_above_evidence_and_closes(site: Site) -> None:
    site.run()
    with site.ledger().writing() as writer:
        for name in site.names[:3]:
            writer.decide(name, "quarantined", "fan", "me", site.now)
    result = site.run(nodes=[])
    assert (site.gate.open, result["closed"], "failed" in result) == ({"n0004"}, site.names[:3], False)
    assert state_of(site.run(stages=["preflight"]))["n0001"] == "quarantined"
    with site.ledger().writing() as writer:
        writer.decide("n0001", "none", "fixed", "me", site.now)
    assert site.run(stages=["preflight"])["opened"] == ["n0001"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda items: {**items, "n0001": [*items["n0001"], {"format": 1}]},
        lambda items: {**items, "n0001": [*items["n0001"], items["n0002"][0]]},
        lambda items: {**items, "n0001": [*items["n0001"], None]},
        lambda items: {**items, "n0001": [{**items["n0001"][0], "started": float("nan")}]},
        lambda items: {**items, "n0001": [items["n0001"][0], {**items["n0001"][0], "boot_id": "another"}]},
        lambda items: {**items, "n0001": [{**items["n0001"][0], "stage": "burn_in", "id": "forged"}]},
        lambda items: {**items, "n0001": [*items["n0001"], {**items["n0001"][0], "stage": "acceptance", "id": "x"}]},
        lambda items: {**items, "n0001": [{**items["n0001"][0], "fingerprint": {"gpu_serials": ["x"]}}]},
        lambda items: {**items, "n0001": [{**items["n0001"][0], "fingerprint": {"gpu_serials": 7}}]},
        lambda items: {**items, "n0001": [{**items["n0001"][0], "raw": {"lscpu": 7}}]},
        lambda items: {**items, "n0001": [{**items["n0001"][0], "detail": nested(900)}]},
        lambda items: {**items, "n0001": [{**items["n0001"][0], "id": "\udc80"}]},
    ],
    ids=[
        "not evidence",
        "another node's",
        "nothing",
        "impossible time",
        "an id twice",
        "another stage",
        "another stage beside it",
        "a list for serials",
        "a number for serials",
        "a number for a digest",
        "nested",
        "not Unicode",
    ],
)
def test_unreadable_evidence_costs_its_own_node_only(site: Site, spoil: Any) -> None:
    result = site.run(plain=spoil)
    assert state_of(result) == {"n0001": "testing", **dict.fromkeys(site.names[1:], "admitted")}


def test_a_fault_of_this_run_wins_though_the_hosts_clock_is_set_back(site: Site) -> None:
    site.run()

    def set_back(plain: dict[str, Any]) -> dict[str, Any]:
        for item in plain["n0001"]:
            item |= {"started": item["started"] - 9 * HOUR, "finished": item["finished"] - 9 * HOUR}
        return plain

    result = site.run([site.failing("n0001", "preflight")], stages=["preflight"], plain=set_back)
    assert (state_of(result)["n0001"], result["closed"]) == ("rejected", ["n0001"])


def test_a_preflight_of_an_earlier_run_decides_if_it_is_what_this_run_got(site: Site) -> None:
    kept: dict[str, Any] = {}
    site.run([site.failing("n0001", "preflight")], plain=lambda plain: kept.update(plain) or plain)
    site.run(stages=["preflight"])
    result = site.run(stages=["preflight"], plain=lambda plain: {**plain, "n0001": kept["n0001"]})
    assert state_of(result)["n0001"] == "rejected"


def test_burn_in_decides_where_preflight_failed_too(site: Site) -> None:
    result = site.run([site.failing("n0001", "preflight"), site.failing("n0001", "burn_in")])
    assert next((v["state"], v["stage"]) for v in result["verdicts"]) == ("rejected", "burn_in")


def test_breaker_closes_what_has_a_fault_and_leaves_the_doubtful(tmp_path: Path) -> None:
    site = Site(tmp_path / "ledger.sqlite", 10)
    site.run([site.failing("n0009", "burn_in")])
    lost = site.names[:3]
    result = site.run(
        [site.failing("n0010", "preflight")], stages=["preflight", "burn_in"], unreachable=lost, close_only=False
    )
    assert result["failed"] and "(n0001, n0002, n0003)" in result["msg"] and "n0010" not in result["msg"]
    assert (result["closed"], result["opened"]) == (["n0010"], [])
    assert site.gate.open == set(site.names) - {"n0009", "n0010"}
    assert [(move["node"], move["to_state"]) for move in result["transitions"]] == [("n0010", "rejected")]
    assert (site.states()["n0001"], site.states()["n0009"]) == ("admitted", "rejected")
    assert site.gate.info.generation == result["generation"]
    again = site.run(stages=["preflight"], nodes=[name for name in site.names if name != "n0010"])
    assert (again["opened"], "failed" in again) == (["n0009"], False)


def test_breaker_of_a_partition_that_is_gone_leaves_the_whole_gate(tmp_path: Path) -> None:
    site = Site(tmp_path / "ledger.sqlite", 10)
    site.run()
    site.fleet["scheduler"]["partitions"][0]["name"] = "gpu"
    result = site.run([site.failing("n0010", "preflight")], stages=["preflight"])
    assert result["failed"] and "batch is not in the fleet file" in result["msg"]
    assert (site.gate.open, set(site.states().values()), result["changed"]) == (set(site.names), {"admitted"}, False)


def test_breaker_without_the_controller_records_what_has_a_fault(tmp_path: Path) -> None:
    site = Site(tmp_path / "ledger.sqlite", 10)
    site.run()
    site.gate.fail = {"read"}
    result = site.run([site.failing("n0010", "preflight")], stages=["preflight"], unreachable=site.names[:3])
    assert result["failed"] and "n0001" in result["msg"] and "ctl does not answer" in result["msg"]
    assert (site.states()["n0001"], site.states()["n0010"]) == ("admitted", "rejected")


def test_a_mistyped_expectation_stops_at_the_breaker(site: Site) -> None:
    site.run()
    right = site.fleet["classes"]["c"]
    wrong = {**EXPECT, "memory": {**EXPECT["memory"], "mib": 2}}
    site.fleet["classes"]["c"] = wrong
    judged = {"expect_digest": expect_digest_of("preflight", wrong)}
    failing = [site.failing(name, "preflight", **judged) for name in site.names]
    burned = [site.failing(name, "burn_in", **judged) for name in site.names]
    result = site.run([*failing, *burned], stages=["preflight", "burn_in"])
    assert result["failed"] and "admit_allow_mass_close=true" in result["msg"]
    assert (site.gate.open, set(site.states().values())) == (set(site.names), {"admitted"})
    site.fleet["classes"]["c"] = right
    assert "failed" not in site.run(stages=["preflight", "burn_in"])


def test_a_mistyped_floor_stops_at_the_breaker_after_acceptance_too(site: Site) -> None:
    site.run()
    high = [{**floor, "busbw_gb_per_s": 10 * floor["busbw_gb_per_s"]} for floor in EXPECT["collective"]["floors"]]
    wrong = {**EXPECT, "collective": {**EXPECT["collective"], "floors": high}}
    site.fleet["classes"]["c"] = wrong
    judged = {"expect_digest": expect_digest_of("acceptance", wrong)}
    failing = [site.failing(name, "acceptance", **judged) for name in site.names]
    result = site.run(failing, stages=["preflight", "acceptance"])
    assert result["failed"] and site.gate.open == set(site.names)


def test_adopting_an_open_cluster_does_not_close_it_silently(site: Site) -> None:
    site.gate.live = set(site.names)
    result = site.run(stages=["preflight"], close_only=True)
    assert result["failed"] and "partition batch: 4 of 4" in result["msg"] and site.gate.writes == []
    allowed = site.run(stages=["preflight"], allow_mass_close=True)
    assert ("failed" in allowed, site.gate.writes[-1]) == (False, [])


def test_a_lost_gate_file_closes_nothing(site: Site) -> None:
    site.run()
    site.gate.info, site.gate.live, site.gate.open = GateInfo(None, 0, {}), set(site.names), set()
    lost = site.run(stages=["preflight"], unreachable=site.names[1:])
    assert lost["failed"] and site.gate.writes == [site.names]
    result = site.run([site.failing("n0001", "preflight")], stages=["preflight"])
    assert ("failed" in result, site.gate.open) == (False, set(site.names[1:]))
    assert site.gate.writes[1:] == [site.names[1:], site.names[1:]]


def test_another_hardware_class_is_another_node(site: Site) -> None:
    site.run()
    site.fleet["classes"]["d"] = {**EXPECT, "memory": {**EXPECT["memory"], "mib": 2}}
    site.fleet["nodes"]["n0001"]["hardware_class"] = "d"
    site.fleet["scheduler"]["partitions"] = [
        {"name": "batch", "default": False, "hardware_classes": ["d"], "parameters": {}}
    ]
    result = site.run(nodes=[], allow_mass_close=True)
    assert (site.gate.open, site.states()["n0001"]) == (set(), "testing")
    assert [(move["node"], move["cause"]) for move in result["transitions"]] == [
        ("n0001", "hardware class was c, is d")
    ]
    assert state_of(site.run(stages=["preflight"]))["n0001"] == "testing"
    with site.ledger().reading() as reader:
        assert reader.nodes()["n0001"].hardware_class == "d"


def test_a_targeted_node_of_another_class_is_closed(site: Site) -> None:
    site.run()
    site.fleet["classes"]["d"] = EXPECT
    site.fleet["nodes"]["n0001"]["hardware_class"] = "d"
    early = site.run(stages=["preflight"], close_only=True)
    assert (early["closed"], site.states()["n0001"]) == (["n0001"], "testing")
    assert site.run(stages=["preflight"])["opened"] == ["n0001"]


def test_a_class_changed_for_all_nodes_stops_at_the_breaker_and_is_forgotten(site: Site) -> None:
    site.run()
    site.fleet["classes"]["d"] = EXPECT
    for name in site.names:
        site.fleet["nodes"][name]["hardware_class"] = "d"
    assert site.run(stages=["preflight"])["failed"]
    assert site.run(nodes=[])["failed"]
    for name in site.names:
        site.fleet["nodes"][name]["hardware_class"] = "c"
    result = site.run(stages=["preflight"])
    assert (result["changed"], site.gate.open) == (False, set(site.names))


def test_only_a_node_that_is_said_to_be_unreachable_is_called_so(site: Site) -> None:
    told = {
        verdict["node"]: verdict["findings"][0]
        for verdict in site.run(
            unreachable=["n0001"],
            stopped={"n0002": "", "n0003": "Install: no space"},
            plain=lambda p: {**p, "n0004": []},
        )["verdicts"]
    }
    assert {name: (finding["check"], finding["reason"]) for name, finding in told.items()} == {
        "n0001": ("reach", "unreachable in this run"),
        "n0002": ("preflight", "stopped in this run: the reason is not known"),
        "n0003": ("preflight", "stopped in this run: Install: no space"),
        "n0004": ("preflight", "not examined in this run; the reason is not known"),
    }


def test_many_nodes_open_at_once_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path / "ledger.sqlite", 300)
    first = site.run([site.failing("n0007", "burn_in")])
    second = site.run(stages=["preflight"])
    assert (len(first["opened"]), second["changed"]) == (299, False)


def decisions(site: Site) -> list[tuple[str, str, str, str]]:
    """Return every decision of the ledger, oldest first: node, decision, who, reason."""
    with sqlite3.connect(str(site.fleet["ledger"]["url"])[len("sqlite:///") :]) as connection:
        return connection.execute("SELECT node, decision, who, reason FROM decision ORDER BY seq").fetchall()


def drained(site: Site, **reasons: str) -> None:
    """Let Slurm show these nodes as drained."""
    told = {name: {"state": "MIXED+DRAIN", "reason": reason} for name, reason in reasons.items()}
    site.gate.info = replace(site.gate.info, nodes=told)


def word(site: Site, name: str, verdict: str = "pass", **more: Any) -> dict[str, Any]:
    """Return what node_check says of a node's health check."""
    findings = [] if verdict == "pass" else [Finding("xid", "host", verdict, reason="Xid 79").to_dict()]
    failed = (Finding("xid", "host", "fail"),)
    evidence = replace(site.evidence(name, "preflight"), stage="health", id=f"e-{name}", findings=failed).to_dict()
    whole = {"verdict": verdict, "findings": findings, "service_age_seconds": 60.0}
    return {**whole, "evidence": None if verdict == "pass" else evidence, **more}


@pytest.mark.parametrize("close_only", [True, False])
def test_node_that_its_health_check_drained_is_quarantined_by_it(site: Site, close_only: bool) -> None:
    site.run()
    drained(site, n0002="muster:health:xid:e1")
    # Passing again, or not even looked at, makes no difference: somebody has to look.
    result = site.run(stages=["preflight"], close_only=close_only, nodes=site.names[:2])
    assert (result["closed"], site.gate.open) == (["n0002"], {"n0001", "n0003", "n0004"})
    assert decisions(site) == [("n0002", "quarantined", "health", "xid failed in service, evidence e1")]
    assert [(move["node"], move["to_state"]) for move in result["transitions"]] == [("n0002", "quarantined")]
    again = site.run(stages=["preflight"])
    assert (again["changed"], len(decisions(site)), state_of(again)["n0002"]) == (False, 1, "quarantined")


FEWER = "gres/gpu count reported lower than configured (7 < 8)"


@pytest.mark.parametrize(
    ("state", "reason", "told"),
    [
        ("IDLE+DRAIN+INVALID_REG", FEWER, f"it registered with less than slurm.conf declares ({FEWER})"),
        # A person was there first, whose reason Slurm keeps.
        ("IDLE+DRAIN+INVALID_REG", "fan", "it registered with less than slurm.conf declares (fan)"),
        ("IDLE+INVALID_REG", "", "it registered with less than slurm.conf declares (Slurm gives no reason)"),
    ],
)
def test_node_that_registers_with_fewer_gpus_than_declared_is_rejected_by_name(
    site: Site, state: str, reason: str, told: str
) -> None:
    site.gate.info = replace(site.gate.info, nodes={"n0001": {"state": state, "reason": reason}})
    verdict = next(each for each in site.run()["verdicts"] if each["node"] == "n0001")
    found = [(each["check"], each["verdict"], each["reason"]) for each in verdict["findings"]]
    assert (verdict["state"], found) == ("rejected", [("slurm_registration", "fail", told)])
    assert site.gate.open == {"n0002", "n0003", "n0004"}
    # Once the daemon has registered again with all of them.
    site.gate.info = replace(site.gate.info, nodes={"n0001": {"state": "IDLE", "reason": ""}})
    assert site.run(stages=["preflight"])["opened"] == ["n0001"]


def test_node_in_service_that_lost_a_gpu_for_slurm_is_closed(site: Site) -> None:
    site.run()
    site.gate.info = replace(site.gate.info, nodes={"n0002": {"state": "MIXED+DRAIN+INVALID_REG", "reason": FEWER}})
    assert site.run(stages=["preflight"])["closed"] == ["n0002"]
    assert site.states()["n0002"] == "rejected"


def test_untargeted_and_unreachable_nodes_are_quarantined_too(site: Site) -> None:
    site.run()
    drained(site, n0003="muster:health:gpu_present:e7")
    assert site.run(nodes=[])["closed"] == ["n0003"]
    assert site.states()["n0003"] == "quarantined"
    drained(site, n0004="muster:health:gpu_present:e8")
    result = site.run(unreachable=["n0004"], stages=["preflight"])
    assert state_of(result)["n0004"] == "quarantined"


@pytest.mark.parametrize(
    "reason",
    ["fan tray", "muster:incomplete:disk:e1", "muster:boot:b", "muster: gpu_stack changes this node", "muster:health:"],
)
def test_other_drains_quarantine_nobody(site: Site, reason: str) -> None:
    site.run()
    drained(site, n0002=reason)
    assert site.run(stages=["preflight"])["changed"] is False
    assert decisions(site) == []


def test_health_drain_of_a_node_out_of_service_quarantines_nobody_and_admits_it_not(site: Site) -> None:
    site.fleet["policy"]["heartbeat_seconds"] = 900.0
    healths = {name: word(site, name) for name in site.names}
    drained(site, n0002="muster:health:xid:e1")
    result = site.run(health=healths)
    assert state_of(result) == {**dict.fromkeys(site.names, "admitted"), "n0002": "rejected"}
    assert decisions(site) == [] and site.gate.resume["n0002"]["in_service"]


def test_released_node_is_given_back_for_its_tests_only(site: Site) -> None:
    site.run()
    drained(site, n0002="muster:health:xid:e1")
    site.run(stages=["preflight"])
    assert "n0002" not in site.gate.resume
    with site.ledger().writing() as writer:
        writer.decide("n0002", "none", "GPU replaced", "me", site.now)
    site.run(stages=["preflight"], close_only=True)
    assert site.gate.resume["n0002"]["in_service"] is False
    assert site.gate.resume["n0001"]["in_service"] is True
    drained(site)
    assert site.run(stages=["preflight"])["opened"] == ["n0002"]


def test_only_a_node_whose_preflight_passed_comes_back(site: Site) -> None:
    sick = site.failing("n0002", "preflight")
    blind = site.evidence("n0003", "preflight", findings=())
    site.run([sick, blind], stages=["preflight"], unreachable=["n0004"])
    assert set(site.gate.resume) == {"n0001"}
    assert site.gate.resume["n0001"]["boot_id"] == "b"


def test_many_quarantined_by_other_expectations_stop_at_the_breaker(site: Site) -> None:
    site.run()
    drained(site, **dict.fromkeys(site.names[:3], "muster:health:memory:e1"))
    stopped = site.run(stages=["preflight"])
    assert stopped["failed"] and site.gate.open == set(site.names) and decisions(site) == []
    other = {name: word(site, name, "fail") for name in site.names[:3]}
    for name, each in other.items():
        each["evidence"] = {**each["evidence"], "id": f"other-{name}", "expect_digest": "mistyped"}
    assert site.run(stages=["preflight"], health=other)["failed"]
    same = {name: word(site, name, "fail") for name in site.names[:3]}
    result = site.run(stages=["preflight"], health=same)
    assert ("failed" in result, site.gate.open) == (False, {"n0004"})


@pytest.mark.parametrize(
    ("spoil", "state"),
    [
        ({"verdict": "fail", "findings": [Finding("xid", "host", "fail").to_dict()]}, "rejected"),
        ({"verdict": "incomplete"}, "testing"),
        ({"verdict": "well"}, "testing"),
        ({"findings": None}, "testing"),
        ({"service_age_seconds": None}, "testing"),
        ({"service_age_seconds": 901}, "testing"),
        (None, "testing"),
    ],
)
def test_node_in_service_whose_health_check_gives_no_pass_is_closed(
    site: Site, spoil: dict[str, Any] | None, state: str
) -> None:
    site.fleet["policy"]["heartbeat_seconds"] = 900.0
    sound = {name: word(site, name) for name in site.names}
    assert site.run(health=sound)["opened"] == site.names
    assert site.run(stages=["preflight"], health=sound)["changed"] is False
    given = {**sound, "n0002": {**sound["n0002"], **spoil} if spoil is not None else None}
    result = site.run(stages=["preflight"], health=given, close_only=True)
    assert (result["closed"], site.states()["n0002"]) == (["n0002"], state)
    assert site.run(stages=["preflight"], health=sound)["opened"] == ["n0002"]


def test_evidence_of_another_node_or_stage_is_not_taken_from_a_health_check(site: Site) -> None:
    forged = [
        replace(site.evidence("n0001", "preflight"), stage="health", id="h1"),
        site.evidence("n0002", "burn_in", id="h2"),
    ]
    site.run(health={"n0002": word(site, "n0002", evidence=forged[0].to_dict()), "n0003": {"evidence": 7}})
    site.run(health={"n0002": word(site, "n0002", evidence=forged[1].to_dict())}, stages=["preflight"])
    with site.ledger().reading() as reader:
        assert reader.known("health", "n0001") == [] == reader.known("health", "n0002")
        assert "h2" not in reader.known("burn_in", "n0002")


class Scontrol:
    """A running slurmctld as ``scontrol`` shows it: it reads the partition file when it starts and is reconfigured."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path = path
        self.up = True
        self.live: dict[str, list[str]] = {}
        self.reasons: dict[str, str] = {}
        self.names = names
        self.start()

    def start(self) -> None:
        self.live = {name: sorted(nodes) for name, nodes in parse_gate_file(self.path.read_text()).nodes.items()}

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        if not self.up:
            return Output(rc=1, stdout="Slurmctld(primary) at ctl is DOWN")
        if argv[1:] == ["reconfigure"]:
            self.start()
        elif argv[1:3] == ["show", "partition"]:
            lines = [
                f"PartitionName={name} Nodes={fold(nodes) or '(null)'} State=UP" for name, nodes in self.live.items()
            ]
            return Output("\n".join(lines))
        elif argv[1:3] == ["show", "reservation"]:
            return Output("No reservations in the system")
        elif argv[1:3] == ["show", "node"]:
            return Output("\n".join(map(self._node, self.names)))
        elif argv[1] == "update":
            given = dict(word.split("=", 1) for word in argv[2:])
            if "PartitionName" in given:
                self.live[given["PartitionName"]] = expand(given["Nodes"])
            else:
                self.reasons |= dict.fromkeys(expand(given["NodeName"]), given.get("Reason", ""))
        return Output()

    def _node(self, name: str) -> str:
        reason = self.reasons.get(name)
        state = "IDLE+DRAIN" if reason else "IDLE"
        told = f" Reason={reason} [root@2026-11-20T10:00:00]" if reason else ""
        return f"NodeName={name} OS=Linux State={state} ThreadsPerCore=1 BootTime=2026-11-20T09:00:00{told}"

    def read(self, path: str) -> Output:
        raise AssertionError(path)


class Controller:
    """The host on which the modules run: their parameters in, their results out."""

    def __init__(self, directory: Path, names: Sequence[str]) -> None:
        self.path = directory / "muster_partitions.conf"
        self.path.write_text("# muster ledger none generation 0\nPartitionName=batch Default=YES\n")
        (directory / "state").mkdir()
        self.slurm = Scontrol(self.path, names)
        self.gate = Gate(SlurmController(self.slurm), str(self.path), str(directory / "state"))
        self.up = True

    def execute(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if not self.up:
            raise ControllerError("controller ctl is unreachable")
        # Saved partitions and the mark of lost drains lie where Slurm's state does.
        assert arguments["state_save_location"] == "/shared/slurm"
        try:
            if name == "slurm_gate_info":
                return {**self.gate.describe(), "silent_nodes": sorted(arguments["probe"])}
            if "close" in arguments:
                return self.gate.close(arguments["close"])
            partitions = tuple(Partition.from_params(each) for each in arguments["partitions"])
            wanted = GateFile(arguments["ledger_id"], arguments["generation"], partitions)
            examined = {name: Examined.from_params(name, data) for name, data in arguments["resume"].items()}
            self.gate.handling = NodeHandling(examined, arguments["leaving_jobs"] == "end")
            return self.gate.reconcile(wanted, arguments["drains"], check=False)
        except SlurmGateError as exc:
            return {"failed": True, "msg": str(exc), **exc.result}


@pytest.fixture
def slurm_site(tmp_path: Path) -> Any:
    made: Any = Site(tmp_path / "ledger.sqlite", 4)
    for name in made.names:
        made.fleet["nodes"][name]["address"] = "192.0.2.1"
    made.controller = Controller(tmp_path, made.names)
    return made


def run(slurm_site: Any, evidence: Sequence[Any] = (), stages: Sequence[str] = STAGES, **given: Any) -> dict[str, Any]:
    slurm_site.now += 3600
    slurm_site.run_number += 1
    own = {(item.node, item.stage): item for item in slurm_site.later(evidence)}
    gone = given.get("unreachable", ())
    items = {
        name: [] if name in gone else [own.get((name, s)) or slurm_site.evidence(name, s) for s in stages]
        for name in slurm_site.names
    }
    gate = ModuleGate(slurm_site.controller.execute, fleet_of(slurm_site.fleet), gone)
    request = Request(fleet_of(slurm_site.fleet), slurm_site.names, slurm_site.gather(items), **given)
    return admit(request, gate, slurm_site.now, "me@here")


def test_file_and_controller_follow_the_ledger_and_the_second_run_changes_nothing(slurm_site: Any) -> None:
    first = run(slurm_site, [slurm_site.failing("n0004", "acceptance")])
    assert "failed" not in first and first["opened"] == slurm_site.names[:3]
    assert slurm_site.controller.slurm.live["batch"] == slurm_site.names[:3]
    header = slurm_site.controller.path.read_text().splitlines()[0]
    assert header == f"# muster ledger ledger-1 generation {first['generation']}"
    assert run(slurm_site, [slurm_site.failing("n0004", "acceptance")])["changed"] is False
    cleared = run(slurm_site, stages=["preflight", "acceptance"])
    assert (cleared["opened"], slurm_site.controller.slurm.live["batch"]) == (["n0004"], slurm_site.names)


def test_all_nodes_gone_closes_file_and_controller(slurm_site: Any) -> None:
    run(slurm_site)
    result = run(slurm_site, unreachable=slurm_site.names)
    assert "failed" not in result and result["closed"] == slurm_site.names
    assert "Nodes=" not in slurm_site.controller.path.read_text() and slurm_site.controller.slurm.live["batch"] == []


def test_slurmctld_that_is_down_is_closed_in_the_file_and_opened_later(slurm_site: Any) -> None:
    run(slurm_site, [slurm_site.failing("n0004", "acceptance")])
    slurm_site.controller.slurm.up = False
    result = run(slurm_site, [slurm_site.failing("n0001", "preflight")], stages=["preflight", "acceptance"])
    assert result["failed"] and result["closed"] == ["n0001"] and result["opened"] == []
    assert parse_gate_file(slurm_site.controller.path.read_text()).nodes["batch"] == {"n0002", "n0003"}
    assert slurm_site.states() == {"n0001": "rejected", **dict.fromkeys(slurm_site.names[1:], "admitted")}
    slurm_site.controller.slurm.up = True
    slurm_site.controller.slurm.start()
    again = run(slurm_site, [slurm_site.failing("n0001", "preflight")], stages=["preflight"])
    assert (again["opened"], slurm_site.controller.slurm.live["batch"]) == (["n0004"], slurm_site.names[1:])


def test_controller_that_is_gone_keeps_the_verdicts(slurm_site: Any) -> None:
    slurm_site.controller.up = False
    result = run(slurm_site)
    assert result["failed"] and "unreachable" in result["msg"]
    assert set(slurm_site.states().values()) == {"admitted"}
    slurm_site.controller.up = True
    assert run(slurm_site, stages=["preflight"])["opened"] == slurm_site.names


def test_manual_drain_comes_back_after_a_loss_and_not_after_it_was_lifted(slurm_site: Any) -> None:
    run(slurm_site)
    slurm_site.controller.slurm.reasons["n0001"] = "fan noise, Jo"
    assert run(slurm_site, stages=["preflight"])["changed"] is False
    slurm_site.controller.slurm.reasons.clear()
    slurm_site.controller.gate.marker.unlink()
    run(slurm_site, stages=["preflight"])
    assert slurm_site.controller.slurm.reasons == {"n0001": "fan noise, Jo"}
    slurm_site.controller.slurm.reasons.clear()
    run(slurm_site, stages=["preflight"])
    assert slurm_site.controller.slurm.reasons == {}
    slurm_site.controller.gate.marker.unlink()
    run(slurm_site, stages=["preflight"])
    assert slurm_site.controller.slurm.reasons == {}


def test_guard_and_create_read_the_file(slurm_site: Any, tmp_path: Path) -> None:
    gate = ModuleGate(slurm_site.controller.execute, fleet_of(slurm_site.fleet))
    assert guard(fleet_of(slurm_site.fleet), gate)["compared"]
    run(slurm_site)
    slurm_site.fleet["ledger"]["url"] = f"sqlite:///{tmp_path}/new.sqlite"
    with pytest.raises(LedgerError, match="ledger_recreate=true"):
        create(fleet_of(slurm_site.fleet), gate, False, slurm_site.now)
    create(fleet_of(slurm_site.fleet), gate, True, slurm_site.now)
    with pytest.raises(LedgerError, match="its id is"):
        guard(fleet_of({**slurm_site.fleet, "ledger": {**slurm_site.fleet["ledger"], "id": "another"}}), gate)


def test_quarantine_release_and_return_over_the_real_gate(slurm_site: Any) -> None:
    run(slurm_site)
    slurm_site.controller.slurm.reasons["n0002"] = "muster:health:xid:e1"
    slurm_site.controller.slurm.reasons["n0003"] = "fan tray"
    result = run(slurm_site, stages=["preflight"])
    assert (result["closed"], slurm_site.states()["n0002"]) == (["n0002"], "quarantined")
    assert run(slurm_site, stages=["preflight"], close_only=True)["resumed"] == []
    with slurm_site.ledger().writing() as writer:
        writer.decide("n0002", "none", "GPU replaced", "me", slurm_site.now)
    assert run(slurm_site, stages=["preflight"], close_only=True)["resumed"] == []
    sound = {"n0002": word(slurm_site, "n0002")}
    assert run(slurm_site, stages=["preflight"], close_only=True, health=sound)["resumed"] == ["n0002"]
    assert run(slurm_site, stages=["preflight"], health=sound)["opened"] == ["n0002"]
    assert slurm_site.controller.slurm.reasons == {"n0002": "", "n0003": "fan tray"}


def test_close_and_what_others_have_over_the_real_gate(slurm_site: Any) -> None:
    run(slurm_site)
    gate = ModuleGate(slurm_site.controller.execute, fleet_of(slurm_site.fleet))
    edit = gate.close(["n0002", "n0003"])
    assert (edit.changed, edit.opened, edit.closed) == (True, [], ["n0002", "n0003"])
    slurm_site.controller.slurm.live["debug"] = ["n0003"]
    info = gate.read()
    assert info.partitions == {"batch": ["n0001", "n0004"]}
    assert info.live_partitions == {**info.partitions, "debug": ["n0003"]}
    assert (info.live_access["debug"], info.reservations, info.unreadable) == ({"State": "UP"}, {}, {})
    (place,) = reached_by_users(info, {"n0001", "n0004"}, "acceptance", ["batch"], [])
    assert place.startswith("partition debug lists n0003, which is not admitted")
    assert not gate.close(["n0002"]).changed
    slurm_site.controller.slurm.up = False
    with pytest.raises(ControllerError, match=r"n0004 may still be open: .*lists none of them") as caught:
        gate.close(["n0004"])
    assert caught.value.edit is not None and caught.value.edit.closed == ["n0004"]
    slurm_site.controller.up = False
    with pytest.raises(ControllerError, match="unreachable"):
        gate.close(["n0001"])


def test_node_drained_for_a_burn_in_comes_back_over_the_real_gate_when_none_is_due(slurm_site: Any) -> None:
    run(slurm_site)
    reasons = slurm_site.controller.slurm.reasons
    # What role burn_in leaves, whose module and the gate have to agree on it.
    reasons["n0002"] = reasons["n0003"] = BURN_IN
    run(slurm_site, [slurm_site.failing("n0003", "burn_in")], stages=["preflight", "burn_in"], close_only=True)
    assert (reasons["n0002"], reasons["n0003"]) == ("", BURN_IN)
    assert run(slurm_site, stages=["preflight", "burn_in"])["resumed"] == ["n0003"]
