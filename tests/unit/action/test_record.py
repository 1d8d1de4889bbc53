"""The small actions and lookups around the ledger: record, guard, create, decide, due."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.muster.cluster.plugins.lookup import in_state
from ansible_collections.muster.cluster.plugins.lookup.due import LookupModule, due
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import STRESSES, required
from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import rules_of
from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import COMPONENTS
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Clock, Cpu, Expectations, Memory
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.controller_gate import (
    ControllerError,
    GateEdit,
    GateInfo,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.gate_ledger import create, guard
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.recording import Decision, decide, record
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger, LedgerError

from tests.fleets import LEDGER_ID, fleet_of, small_fleet, variables_of
from tests.typed import typed, undeclared

NOW = 2_000_000_000.0


LAB = expectations_of("lab_h100", {}, "test")
EXPECT: dict[str, Any] = {
    # What a class may state as null, it does.
    **undeclared(Expectations),
    "gpu": None,
    "cpu": {**undeclared(Cpu), "architecture": "x86_64", "sockets": 1, "cores": 1},
    "memory": {**undeclared(Memory), "mib": 1, "tolerance_percent": 5},
    "clock": {**undeclared(Clock), "offset_ms": 100},
    "disk": {"paths": []},
    **{key: LAB[key] for key in ("class", "kernel_log", "tools", "collective", "pytorch")},
}
EVIDENCE = Evidence(
    id="p1",
    node="n1",
    stage="preflight",
    started=NOW - 20,
    finished=NOW - 10,
    boot_id="b",
    fingerprint=dict.fromkeys(COMPONENTS, "1"),
    expect_digest=expect_digest_of("preflight", EXPECT),
    findings=tuple(Finding(check, part, "pass") for check, part in required("preflight", typed(EXPECT))),
    rules={**rules_of("burn_in", STRESSES), **rules_of("preflight")},
    identity={
        **{"board_uuid": "4c4c4544-0053-5210-8038-c8c04f583034", "bmc_mac": "3c:ec:ef:00:00:01"},
        **{"hostname": "n1", "slurmd_node": "n1"},
    },
)


class Controller:
    """A gate that only answers, or does not."""

    def __init__(self, info: GateInfo | None = None) -> None:
        self.info = info

    def read(self) -> GateInfo:
        if self.info is None:
            raise ControllerError("ctl does not answer")
        return self.info

    def write(self, partitions: Sequence[Mapping[str, Any]], generation: int, drains: Mapping[str, str]) -> GateEdit:
        raise AssertionError("nothing here may touch the gate")

    def close(self, nodes: Sequence[str]) -> GateEdit:
        raise AssertionError("nothing here may touch the gate")


FRESH = Controller(GateInfo(None, 0, {}))
SILENT = Controller()


@pytest.fixture
def fleet(tmp_path: Path) -> dict[str, Any]:
    return {
        "cluster": "lab",
        "nodes": {
            "ctl": {"role": "controller", "hardware_class": None},
            **{name: {"role": "compute", "hardware_class": "c"} for name in ("n1", "n2")},
        },
        "classes": {"c": EXPECT},
        "ledger": {"url": f"sqlite:///{tmp_path}/ledger.sqlite", "id": "i"},
        "policy": {
            "stages": ["preflight", "burn_in", "acceptance"],
            "burn_in_profile": "p",
            "burn_in_profiles": {"p": {"steps": [{"seconds": 60}], "interval_seconds": 5}},
            "fresh_hours": {},
            "retest": True,
            "heartbeat_seconds": None,
        },
    }


@pytest.fixture
def ledger(fleet: dict[str, Any]) -> Ledger:
    create(fleet_of(fleet), FRESH, False, NOW)
    return Ledger.open(fleet["ledger"]["url"], "i", "lab")


def known(ledger: Ledger, node: str = "n1") -> list[str]:
    with ledger.reading() as reader:
        return reader.known("preflight", node)


def test_record_then_record_again(fleet: dict[str, Any], ledger: Ledger) -> None:
    for _ in range(2):
        result = record(fleet_of(fleet), "preflight", {"n1": EVIDENCE.to_dict()}, NOW)
        assert (result["changed"], result["recorded"], result["refused"]) == (False, ["p1"], [])
    assert known(ledger) == ["p1"]


def test_record_takes_several_of_one_host_in_their_order(fleet: dict[str, Any], ledger: Ledger) -> None:
    given = {"n1": [replace(EVIDENCE, id=name).to_dict() for name in ("b", "a")]}
    assert record(fleet_of(fleet), "preflight", given, NOW)["recorded"] == ["b", "a"] == known(ledger)


def test_record_in_check_mode_leaves_no_trace(fleet: dict[str, Any], ledger: Ledger) -> None:
    assert record(fleet_of(fleet), "preflight", {"n1": EVIDENCE.to_dict()}, NOW, check=True)["recorded"] == ["p1"]
    assert known(ledger) == []


@pytest.mark.parametrize(
    ("host", "bad", "says"),
    [
        ("n2", None, "NoneType"),
        ("n2", {}, "format is None"),
        ("n2", {"format": 1, "node": "n2"}, "id is nothing"),
        ("n2", [EVIDENCE.to_dict()], "belongs to node n1, expected n2"),
        ("n2", [[EVIDENCE.to_dict()]], "list"),
        ("n2", "text", "str"),
        ("n2", replace(EVIDENCE, id="x").to_dict(), "belongs to node n1, expected n2"),
        ("n2", replace(EVIDENCE, id="x", node="n2", stage="acceptance").to_dict(), "is acceptance, expected preflight"),
        ("stranger", replace(EVIDENCE, id="x", node="stranger").to_dict(), "no compute node"),
        ("ctl", replace(EVIDENCE, id="x", node="ctl").to_dict(), "no compute node"),
        ("n2", replace(EVIDENCE, node="n2").to_dict(), "another record has this id"),
    ],
)
def test_record_leaves_out_what_a_host_was_not_asked_for_and_says_so(
    fleet: dict[str, Any], ledger: Ledger, host: str, bad: Any, says: str
) -> None:
    result = record(fleet_of(fleet), "preflight", {"n1": EVIDENCE.to_dict(), host: bad}, NOW)
    assert (result["recorded"], [item["node"] for item in result["refused"]]) == (["p1"], [host])
    assert says in result["warnings"][0]
    assert known(ledger, host) == []


@pytest.mark.parametrize("stage", ["fabric", "storage", "acceptance"])
def test_record_takes_no_hosts_word_for_what_is_measured_between_nodes(
    fleet: dict[str, Any], ledger: Ledger, stage: str
) -> None:
    with pytest.raises(LedgerError, match=f"stage '{stage}', expected one of preflight, burn_in"):
        record(fleet_of(fleet), stage, {"n1": replace(EVIDENCE, stage=stage).to_dict()}, NOW)


def test_record_needs_a_ledger(fleet: dict[str, Any]) -> None:
    with pytest.raises(LedgerError, match="ledger_create"):
        record(fleet_of(fleet), "preflight", {"n1": EVIDENCE.to_dict()}, NOW)


def test_create_once(fleet: dict[str, Any], tmp_path: Path) -> None:
    assert create(fleet_of(fleet), FRESH, False, NOW)["changed"]
    before = (tmp_path / "ledger.sqlite").read_bytes()
    assert not create(fleet_of(fleet), SILENT, True, NOW)["changed"]
    assert (tmp_path / "ledger.sqlite").read_bytes() == before


def test_create_in_check_mode_makes_nothing(fleet: dict[str, Any], tmp_path: Path) -> None:
    assert create(fleet_of(fleet), FRESH, False, NOW, check=True)["changed"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("gate", "recreate", "says"),
    [
        (Controller(GateInfo("i", 7, {})), False, "ledger_recreate=true"),
        (Controller(GateInfo("j", 7, {})), False, "ledger j"),
        (Controller(GateInfo("j", 7, {})), True, "ledger j"),
        (Controller(GateInfo("i", 0, {})), False, "ledger_recreate=true"),
        (SILENT, False, "ctl does not answer"),
        (SILENT, True, "run again when the controller answers"),
    ],
)
def test_create_refuses_where_there_was_a_ledger(
    fleet: dict[str, Any], tmp_path: Path, gate: Controller, recreate: bool, says: str
) -> None:
    with pytest.raises(LedgerError, match=says):
        create(fleet_of(fleet), gate, recreate, NOW)
    assert list(tmp_path.iterdir()) == []


def test_create_anew_counts_on_from_the_gate(fleet: dict[str, Any]) -> None:
    gate = Controller(GateInfo("i", 7, {}))
    create(fleet_of(fleet), gate, True, NOW)
    assert guard(fleet_of(fleet), gate)["generation"] == 8


def test_create_does_not_overwrite_another_database(fleet: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").write_bytes(b"precious")
    with pytest.raises(LedgerError, match="not a database"):
        create(fleet_of(fleet), FRESH, True, NOW)
    assert (tmp_path / "ledger.sqlite").read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("info", "says"),
    [(GateInfo("i", 1, {}), "older copy"), (GateInfo("j", 0, {}), "ledger j")],
    ids=["older", "foreign"],
)
def test_guard_stops(fleet: dict[str, Any], ledger: Ledger, info: GateInfo, says: str) -> None:
    with pytest.raises(LedgerError, match=says):
        guard(fleet_of(fleet), Controller(info))


def test_guard_passes_and_tells_a_silent_controller(fleet: dict[str, Any], ledger: Ledger) -> None:
    assert guard(fleet_of(fleet), Controller(GateInfo("i", 0, {})))["compared"]
    result = guard(fleet_of(fleet), SILENT)
    assert (result["compared"], len(result["warnings"])) == (False, 1)


def test_guard_names_the_playbook_that_makes_a_ledger(fleet: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"playbooks/ledger_create\.yml"):
        guard(fleet_of(fleet), FRESH)
    assert list(tmp_path.iterdir()) == []


def test_decide_then_decide_again_then_release(fleet: dict[str, Any], ledger: Ledger) -> None:
    given, typed_fleet = Decision("n1", "quarantined", "fan"), fleet_of(fleet)
    predicted = decide(typed_fleet, given, "me", NOW, check=True)
    first, second = decide(typed_fleet, given, "me", NOW), decide(typed_fleet, given, "me", NOW)
    assert predicted == first
    assert (first["changed"], first["state"], second["changed"]) == (True, "quarantined", False)
    assert decide(typed_fleet, replace(given, decision="release"), "me", NOW)["state"] == "testing"


def test_decide_waits_for_an_admission_that_is_under_way(fleet: dict[str, Any], ledger: Ledger) -> None:
    given, typed_fleet = Decision("n1", "quarantined", "fan"), fleet_of(fleet)
    thread = threading.Thread(target=decide, args=(typed_fleet, given, "me", NOW))
    with ledger.locked():
        thread.start()
        thread.join(0.5)
        with ledger.reading() as reader:
            assert reader.decisions() == {}
        assert decide(typed_fleet, given, "me", NOW, check=True)["changed"]
    thread.join(10)
    with ledger.reading() as reader:
        assert reader.decisions() == {"n1": "quarantined"}


@pytest.mark.parametrize("change", [{"node": "ctl"}, {"node": "x"}, {"reason": " "}])
def test_decide_refuses(fleet: dict[str, Any], ledger: Ledger, change: dict[str, Any]) -> None:
    given, typed_fleet = Decision("n1", "quarantined", "fan"), fleet_of(fleet)
    with pytest.raises(LedgerError):
        decide(typed_fleet, replace(given, **change), "me", NOW)


def test_due_reads_the_ledger_and_this_runs_preflight(fleet: dict[str, Any], ledger: Ledger) -> None:
    given = {"n1": EVIDENCE.to_dict()}

    def stages() -> list[str]:
        return [stage for stage in ("burn_in", "acceptance") if due(fleet_of(fleet), stage, ["n1"], given, NOW)]

    assert due(fleet_of(fleet), "burn_in", ["n1"], {}, NOW) == [], "a node that was not examined runs nothing"
    assert stages() == ["burn_in"]
    record(fleet_of(fleet), "preflight", {"n1": EVIDENCE.to_dict()}, NOW)
    assert stages() == ["burn_in"]
    burned = replace(
        EVIDENCE,
        id="b1",
        stage="burn_in",
        started=NOW - 80,
        expect_digest=expect_digest_of("burn_in", EXPECT),
        findings=tuple(Finding(check, part, "pass") for check, part in required("burn_in", typed(EXPECT))),
        detail={"profile": "p", "steps": [{"seconds": 60}], "elapsed_seconds": 60},
    )
    record(fleet_of(fleet), "burn_in", {"n1": burned.to_dict()}, NOW)
    assert stages() == ["acceptance"]
    assert due(fleet_of(fleet), "storage", ["n1"], given, NOW) == [], (
        "a stage that the policy does not name is never due"
    )


@pytest.mark.parametrize(
    "bad",
    [
        {**EVIDENCE.to_dict(), "fingerprint": {"kernel": ["x"]}},
        EVIDENCE.to_dict(),
        replace(EVIDENCE, node="n2", stage="burn_in").to_dict(),
        "text",
        None,
    ],
    ids=["malformed", "another node's", "another stage", "text", "nothing"],
)
def test_due_leaves_out_a_node_whose_preflight_cannot_be_read(fleet: dict[str, Any], ledger: Ledger, bad: Any) -> None:
    assert due(fleet_of(fleet), "burn_in", ["n1", "n2"], {"n1": EVIDENCE.to_dict(), "n2": bad}, NOW) == ["n1"]


def test_burn_in_is_due_on_a_host_whose_gpu_is_lost(fleet: dict[str, Any], ledger: Ledger) -> None:
    lost = replace(
        EVIDENCE,
        fingerprint={**EVIDENCE.fingerprint, "gpu_serials": None},
        findings=(Finding("fingerprint", "host", "incomplete"), *EVIDENCE.findings[1:]),
    )
    assert due(fleet_of(fleet), "burn_in", ["n1"], {"n1": lost.to_dict()}, NOW) == ["n1"]
    assert due(fleet_of(fleet), "acceptance", ["n1"], {"n1": lost.to_dict()}, NOW) == []


def test_due_tells_a_missing_ledger(tmp_path: Path) -> None:
    lookup = LookupModule()
    lookup.set_options = lambda **_given: None  # type: ignore[method-assign]
    fleet = variables_of(small_fleet(2), f"sqlite:///{tmp_path}/none.sqlite")
    lookup.get_option = {"fleet": fleet, "stage": "burn_in", "evidence": {}}.get  # type: ignore[method-assign]
    with pytest.raises(AnsibleLookupError, match=r"ledger_create\.yml"):
        lookup.run(["gpu-0001"])


def test_in_state_reads_the_ledger(tmp_path: Path) -> None:
    fleet = variables_of(small_fleet(2), f"sqlite:///{tmp_path}/ledger.sqlite")
    ledger = Ledger.create(fleet["ledger"]["url"], LEDGER_ID, "lab")
    lookup = in_state.LookupModule()
    lookup.set_options = lambda **_given: None  # type: ignore[method-assign]
    lookup.get_option = {"fleet": fleet}.get  # type: ignore[method-assign]
    assert lookup.run(["admitted"]) == []
    with ledger.writing() as writer:
        writer.declare({"gpu-0001": "hgx_h100"}, NOW)
        writer.move({"gpu-0001": ("admitted", "acceptance", "")}, "me", NOW, compared=True)
    assert lookup.run(["admitted"]) == ["gpu-0001"]
    assert lookup.run(["rejected", "held"]) == []


@pytest.mark.parametrize(
    ("verdict", "admitted", "found"),
    [("pass", True, ["gpu-0001"]), ("fail", True, []), ("incomplete", True, []), ("pass", False, [])],
)
def test_in_state_tells_spares_that_are_proven(tmp_path: Path, verdict: str, admitted: bool, found: list[str]) -> None:
    fleet = variables_of(small_fleet(2), f"sqlite:///{tmp_path}/ledger.sqlite")
    ledger = Ledger.create(fleet["ledger"]["url"], LEDGER_ID, "lab")
    stages = small_fleet(2).policy.stages
    with ledger.writing() as writer:
        writer.declare({"gpu-0001": "hgx_h100", "gpu-0002": "hgx_h100"}, NOW)
        if admitted:
            writer.move({"gpu-0001": ("admitted", "acceptance", "")}, "me", NOW, compared=True)
        for node in ("gpu-0001", "gpu-0002"):
            writer.decide(node, "spare", "kept back", "me", NOW)
        for stage in stages:
            last = verdict if stage == stages[-1] else "pass"
            findings = (Finding("data", "network", last),)
            given = replace(EVIDENCE, id=stage, node="gpu-0001", stage=stage, findings=findings)
            assert writer.add_evidence([given], NOW) == []
    lookup = in_state.LookupModule()
    lookup.set_options = lambda **_given: None  # type: ignore[method-assign]
    lookup.get_option = {"fleet": fleet, "proven": True}.get  # type: ignore[method-assign]
    assert lookup.run(["spare"]) == found
    lookup.get_option = {"fleet": fleet, "proven": False}.get  # type: ignore[method-assign]
    assert lookup.run(["spare"]) == ["gpu-0001", "gpu-0002"]
