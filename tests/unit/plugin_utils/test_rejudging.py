"""Nodes that lie about what their tools printed are found when they are drawn, and admission follows."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in import Clock, Environment, run
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_plan import Plan, steps_of
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_record import Record
from ansible_collections.muster.cluster.plugins.module_utils.checks import cpu_stress
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import Examination
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import examine, judge_stress
from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import rules_of
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.raw_outputs import digests_of, pack, places_in
from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import fingerprint_of
from ansible_collections.muster.cluster.plugins.module_utils.judging.identity import identity_of
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, digest_of, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, worst
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import plain, read_as
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission_request import Request
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admitting import admit
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import program_digest
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_policy import Waiver
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import AGREES
from ansible_collections.muster.cluster.plugins.plugin_utils.rejudging import drawing
from ansible_collections.muster.cluster.plugins.plugin_utils.rejudging.drawing import (
    DRAWN,
    Handed,
    draw,
    drawn,
    rejudge,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.rejudging.outdated_evidence import outdated_burn_ins

from tests.fake_host import FakeHost
from tests.fleets import fleet_of
from tests.typed import typed
from tests.unit.action.test_admit import FakeGate
from tests.unit.module_utils.conftest import EXPECT, healthy, healthy_host

XID = Output(
    "2025-01-21T04:41:44+0000 host kernel: Linux version 6.1.0\n"
    "2025-01-21T04:42:44+0000 host kernel: NVRM: Xid (PCI:0000:ab:00): 79, GPU has fallen off the bus.\n"
)
NOW = 2_000_000_000.0
NAMES = ("gpu-01", "gpu-02", "gpu-03", "gpu-04", "gpu-05")
# What of a machine's hardware no other machine has, as the healthy host prints it, and as others do.
SERIALS = (
    ("<serial>165", "<serial>{0}65"),
    ("510000", "5{0}0000"),
    ("b83f:d203:00", "b83f:d203:{0}0"),
    ("LAB", "LB{0}"),
    ("-4000-8000-00000000000", "-4000-8000-00000000001{0}"),
    ("7c:c2:55:09", "7c:c2:55:{0}9"),
)
FILES = {"meminfo": "/proc/meminfo", "kernel_log": "journalctl"}
LESS = Output("MemTotal:        512000 kB\nMemFree: 1 kB\nSwapTotal: 0 kB\n")
Kept = dict[str, dict[str, Output]]


def host_of(name: str = "gpu-03", **outputs: Output) -> FakeHost:
    """Return a healthy host, a machine of its own for each name, on which some tools print something else."""
    host, number = healthy_host(), name[-1]
    for key, output in host.outputs.items():
        text = output.stdout.replace("gpu-01", name)
        for serial, own in SERIALS:
            text = text.replace(serial, own.format(number))
        host.outputs[key] = replace(output, stdout=text)
    host.outputs |= {FILES[key]: output for key, output in outputs.items()}
    return host


@functools.cache
def examined(name: str) -> Examination:
    """Return the examination of a healthy host."""
    return examine("preflight", host_of(name), typed(EXPECT))


class Site:
    """Nodes with what each of them said and kept; admission runs over a fake gate."""

    def __init__(self, path: Path) -> None:
        self.fleet = fleet_of(
            {
                "nodes": {
                    "ctl": {"role": "controller"},
                    **{name: {"role": "compute", "hardware_class": "c"} for name in NAMES},
                },
                "classes": {"c": EXPECT},
                "ledger": {"url": f"sqlite:///{path / 'ledger.sqlite'}", "id": "ledger-1"},
            }
        )
        self.ledger = Ledger.create(self.fleet.ledger.url, self.fleet.ledger.id, "lab", 1.0)
        self.gate = FakeGate()
        self.now = NOW
        self.said: dict[str, Evidence] = {}
        self.kept: dict[str, Kept] = {}
        for name in NAMES:
            self.examine(name)

    def examine(self, name: str, host: FakeHost | None = None, **change: Any) -> None:
        """Have a node examined; ``change`` is what its program says instead of what it found."""
        expect = typed(EXPECT)
        examination = examined(name) if host is None else examine("preflight", host, expect)
        evidence = Evidence(
            f"p-{name}-{self.now:.0f}",
            name,
            "preflight",
            self.now - 2,
            self.now - 1,
            "boot",
            fingerprint_of(examination.values, expect),
            expect_digest_of("preflight", plain(expect)),
            findings=examination.findings,
            raw=digests_of(examination.outputs),
            rules=rules_of("preflight"),
            program=program_digest(),
            identity=identity_of(examination.values, expect),
        )
        self.said[name] = replace(evidence, **change)
        self.kept[name] = {"raw": dict(examination.outputs)}

    def handed(self) -> Handed:
        stage = next(iter(self.said.values())).stage
        return Handed(self.fleet, stage, {name: each.to_dict() for name, each in self.said.items()})

    def fetched(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of the module on one node."""
        outputs = self.kept[asked["node"]]
        places = {place: outputs[place] for place in asked["places"]}
        return {"item": dict(asked), "changed": False, "outputs": pack(places)}

    def judge(
        self, lots: str, answer: Callable[[Mapping[str, Any]], Any] | None = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """Let lots fall on a node, judge what it gives, and return the outcomes and the states of all."""
        result = draw(self.handed(), lots, self.now)
        done = rejudge(self.handed(), result, [(answer or self.fetched)(each) for each in result["drawn"]], self.now)
        evidence = {**self.handed().evidence, **done["evidence"]}
        admitted = admit(Request(self.fleet, NAMES, evidence=evidence), self.gate, self.now, "ann")
        assert not admitted.get("failed"), admitted
        return done["outcomes"], {each["node"]: each for each in admitted["verdicts"]}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def lots_for(*wanted: str) -> str:
    """Return a seed by which these are among the drawn."""
    return next(seed for seed in map(str, range(1000)) if set(wanted) <= {*drawn(seed, NAMES, ())})


def test_nodes_whose_findings_are_those_of_their_outputs_are_admitted(site: Site) -> None:
    outcomes, verdicts = site.judge("any")
    assert list(outcomes.values()) == [AGREES] * DRAWN
    assert {each["state"] for each in verdicts.values()} == {"admitted"} and site.gate.open == {*NAMES}
    with site.ledger.reading() as reader:
        draws = reader.draws()
        assert {each.node for each in draws} == {*drawn("any", NAMES, ())}
        assert {(each.seed, each.among, each.at) for each in draws} == {("any", digest_of(sorted(NAMES)), site.now)}
        assert [each.evidence for each in draws] == [site.said[each.node].id for each in draws]


def test_sick_node_whose_program_passes_it_is_found_when_it_is_drawn(site: Site) -> None:
    healthy = site.said["gpu-03"].findings
    site.examine("gpu-03", host_of(meminfo=LESS), findings=healthy)
    assert worst(each.verdict for each in site.said["gpu-03"].findings) == PASS
    outcomes, verdicts = site.judge(lots_for("gpu-03"))
    assert "memory host: pass (1000 MiB) by the node, fail (500 MiB) here" in outcomes["gpu-03"]
    (finding,) = verdicts["gpu-03"]["findings"]
    assert (verdicts["gpu-03"]["state"], finding["check"], finding["verdict"]) == ("rejected", "rejudged", FAIL)
    assert "gpu-03" not in site.gate.open and len(site.gate.open) == 4


def test_node_that_names_its_parts_wrongly_is_found_too(site: Site) -> None:
    """An error of a GPU since boot stands in the fingerprint of a preflight, which asks no check for it."""
    site.examine("gpu-03", host_of(kernel_log=XID), fingerprint=site.said["gpu-03"].fingerprint)
    outcomes, verdicts = site.judge(lots_for("gpu-03"))
    assert "gpu_errors: none by the node, 0000:ab:00.0 Xid 79" in outcomes["gpu-03"]
    assert verdicts["gpu-03"]["state"] == "rejected"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        # A number that the limit hides; a finding that is none; one too few.
        (lambda each: replace(each, measured=999) if each.check == "memory" else each, "pass (999 MiB) by the node"),
        (lambda each: replace(each, subject="moon") if each.check == "memory" else each, "memory host: nothing by"),
        (lambda each: replace(each, check="xid") if each.check == "memory" else each, "xid host: pass"),
    ],
)
def test_word_is_compared_part_by_part_and_number_by_number(site: Site, change: Any, told: str) -> None:
    findings = tuple(change(each) for each in site.said["gpu-03"].findings)
    site.said["gpu-03"] = replace(site.said["gpu-03"], findings=findings)
    outcomes, verdicts = site.judge(lots_for("gpu-03"))
    assert told in outcomes["gpu-03"]
    assert verdicts["gpu-03"]["state"] == "rejected"


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (healthy_host().outputs["/proc/meminfo"], "is not what it was: meminfo"),
        (Output(""), "is not what it was: meminfo"),
        (Output("MemTotal:        512000 kB\nMemFree: 1 kB\nSwapTotal: 0 kB\n", rc=1), "is not what it was: meminfo"),
    ],
)
def test_outputs_made_good_after_their_digests_were_given_are_found(site: Site, output: Output, told: str) -> None:
    findings = site.said["gpu-03"].findings
    site.examine("gpu-03", host_of(meminfo=LESS), findings=findings)
    site.kept["gpu-03"]["raw"]["meminfo"] = output
    outcomes, verdicts = site.judge(lots_for("gpu-03"))
    assert told in outcomes["gpu-03"]
    assert (verdicts["gpu-03"]["state"], verdicts["gpu-03"]["findings"][0]["verdict"]) == ("rejected", FAIL)


@pytest.mark.parametrize(
    "answer",
    [
        {"unreachable": True, "msg": "Failed to connect to the host via ssh"},
        {"failed": True, "msg": "/var/lib/muster/evidence/preflight/p/raw: No such file or directory"},
        {"failed": True, "msg": "\ud800\0 of a node that would not be recorded"},
        {"changed": False},
        {"changed": False, "outputs": None},
        {"changed": False, "outputs": "eJyr"},
        {"changed": False, "outputs": pack({})},
        {"changed": False, "outputs": pack({"raw": {}})},
        None,
    ],
)
def test_node_that_cannot_give_its_outputs_is_incomplete(site: Site, answer: Any) -> None:
    def given(asked: Mapping[str, Any]) -> Any:
        if asked["node"] != "gpu-03":
            return site.fetched(asked)
        return None if answer is None else {"item": dict(asked), **answer}

    outcomes, verdicts = site.judge(lots_for("gpu-03"), given)
    assert outcomes["gpu-03"].startswith(f"{INCOMPLETE}: raw output")
    (finding,) = verdicts["gpu-03"]["findings"]
    assert (verdicts["gpu-03"]["state"], finding["check"], finding["verdict"]) == ("testing", "rejudged", INCOMPLETE)
    assert "gpu-03" not in site.gate.open and len(site.gate.open) == 4


@pytest.mark.parametrize("raw", [{}, {"last/lscpu": "0" * 64}, {"../../x": "0"}, {"lscpu": "0" * 64}])
def test_evidence_that_names_no_outputs_of_its_own_passes_nobody(site: Site, raw: dict[str, str]) -> None:
    site.said["gpu-03"] = replace(site.said["gpu-03"], raw=raw)

    def given(asked: Mapping[str, Any]) -> Any:
        return {"item": dict(asked), "outputs": pack(site.kept[asked["node"]])}

    _, verdicts = site.judge(lots_for("gpu-03"), given)
    assert verdicts["gpu-03"]["state"] in ("testing", "rejected")


def test_what_another_program_judged_is_incomplete_and_blames_nobody(site: Site) -> None:
    site.examine("gpu-03", host_of(meminfo=LESS), findings=site.said["gpu-03"].findings, program="older")
    outcomes, verdicts = site.judge(lots_for("gpu-03"))
    assert "another program judged it" in outcomes["gpu-03"]
    assert verdicts["gpu-03"]["state"] == "testing"


def test_who_did_not_agree_is_drawn_again_until_it_does(site: Site) -> None:
    findings = site.said["gpu-03"].findings
    site.examine("gpu-03", host_of(meminfo=LESS), findings=findings)
    site.judge(lots_for("gpu-03"))
    others = next(seed for seed in map(str, range(1000)) if "gpu-03" not in drawn(seed, NAMES, ()))
    for host, state in ((host_of(meminfo=LESS), "rejected"), (host_of(), "admitted")):
        site.now += 60
        for name in NAMES:
            site.examine(name)
        site.examine("gpu-03", host, findings=findings)
        outcomes, verdicts = site.judge(others)
        assert (len(outcomes), verdicts["gpu-03"]["state"]) == (DRAWN + 1, state)
    with site.ledger.reading() as reader:
        assert reader.unsettled("preflight") == set()


def test_run_that_was_killed_before_the_outcome_draws_the_same_nodes_again(site: Site) -> None:
    lots = draw(site.handed(), "killed", site.now)
    names = {each["node"] for each in lots["drawn"]}
    assert all(each.keys() == {"node", "stage", "id", "places"} for each in lots["drawn"])
    assert names <= {each["node"] for each in draw(site.handed(), "next", site.now)["drawn"]}
    with site.ledger.reading() as reader:
        assert {each.outcome for each in reader.draws()} == {None}
        # What was drawn was in the ledger before anybody was asked.
        assert {each.evidence.node for name in names for each in reader.records(["preflight"], [name])[name]} == names


def test_check_mode_draws_nobody_and_leaves_no_trace(site: Site) -> None:
    result = draw(site.handed(), "seed", site.now, check=True)
    assert result["drawn"] == []
    assert rejudge(site.handed(), result, [], site.now) == {"outcomes": {}, "evidence": {}}
    with site.ledger.reading() as reader:
        assert reader.draws() == []


NONE = [
    *(None, 7, [], {}, {"finished": None}, {"finished": 1.0}, {"finished": 1, "node": "gpu-02"}),
    *({"finished": 1, "stage": "burn_in", "findings": given} for given in (7, [7], [{"verdict": ["pass"]}], [{}], "x")),
]


@pytest.mark.parametrize("given", NONE)
def test_what_is_no_evidence_is_not_drawn(site: Site, given: Any) -> None:
    handed = Handed(site.fleet, "preflight", {"gpu-03": given, "stranger": site.said["gpu-01"].to_dict()})
    assert draw(handed, "seed", site.now)["drawn"] == []


def test_lots_are_those_of_their_seed_and_nobody_is_left_out_for_ever() -> None:
    assert drawn("a", NAMES, ()) == drawn("a", NAMES[::-1], ()) and len(drawn("a", NAMES, ())) == DRAWN
    assert {name for seed in range(100) for name in drawn(str(seed), NAMES, ())} == {*NAMES}
    assert set(drawn("a", NAMES, {"gpu-01", "gpu-02", "elsewhere"})) > {"gpu-01", "gpu-02"}
    assert drawn("a", [], {"gpu-01"}) == [] and drawn("a", ["gpu-01"], ()) == ["gpu-01"]
    assert drawn("a", NAMES, ()) == sorted(random.Random("a").sample(sorted(NAMES), DRAWN))


def test_record_that_the_ledger_does_not_take_passes_nobody(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing.uuid, "uuid4", lambda: site.said["gpu-01"].id)
    site.examine("gpu-03", host_of(meminfo=LESS), findings=site.said["gpu-03"].findings)
    lots = lots_for("gpu-03", "gpu-01")
    _, verdicts = site.judge(lots)
    assert verdicts["gpu-03"]["state"] == "testing" and "gpu-03" not in site.gate.open


@pytest.fixture(scope="module")
def burn_ins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Evidence, Kept]]:
    """Five nodes that have burned in and passed."""
    return {name: burn_in(name, tmp_path_factory.mktemp(name)) for name in NAMES}


def burn_in(name: str, place: Path) -> tuple[Evidence, Kept]:
    """Return the evidence of a burn-in of a minute that passed, and what the node keeps of it."""
    now, host, record = NOW - 600, host_of(name), Record(str(place))

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    plan = Plan(f"b-{name}", name, "p", steps_of([{"seconds": 60}]), 25, typed(EXPECT))
    clock = Clock(lambda: now, lambda: now, sleep)
    evidence = run(plan, Environment(record, host, lambda: host, "1", clock, lambda text: None, bool, tuple))
    assert evidence is not None
    kept = record.store.read_raw("burn_in", evidence.id, places_in(evidence.raw))
    return replace(evidence, program=program_digest()), kept


@pytest.fixture
def burned(site: Site, burn_ins: dict[str, tuple[Evidence, Kept]]) -> Site:
    """The nodes with the evidence of their burn-in instead of their preflight's."""
    for name, (said, kept) in burn_ins.items():
        site.said[name], site.kept[name] = said, {place: dict(outputs) for place, outputs in kept.items()}
    return site


def outcomes_of(site: Site, lots: str) -> tuple[dict[str, str], dict[str, Evidence | None]]:
    """Judge burn-ins that are drawn; return the outcomes, and what the ledger has of each node."""
    with site.ledger.writing() as writer:
        assert writer.add_evidence(list(site.said.values()), site.now) == []
    result = draw(site.handed(), lots, site.now)
    done = rejudge(site.handed(), result, [site.fetched(each) for each in result["drawn"]], site.now)
    with site.ledger.reading() as reader:
        return done["outcomes"], {name: reader.newest(name, "burn_in") for name in NAMES}


def test_burn_ins_that_are_what_their_outputs_say_stand(burned: Site) -> None:
    outcomes, newest = outcomes_of(burned, "any")
    assert list(outcomes.values()) == [AGREES] * DRAWN and newest == burned.said


def test_burn_in_that_passed_beside_an_xid_is_found(burned: Site) -> None:
    """The log of the last examination has what the program did not find in it."""
    said, kept = burned.said["gpu-03"], burned.kept["gpu-03"]
    kept["last"]["kernel_log"] = XID
    burned.said["gpu-03"] = replace(said, raw={**said.raw, **digests_of(kept["last"], "last")})
    outcomes, newest = outcomes_of(burned, lots_for("gpu-03"))
    assert "xid gpu SXM6 0000:ab:00.0: pass (none) by the node, fail (Xid 79)" in outcomes["gpu-03"]
    record = newest["gpu-03"]
    assert record is not None and record.faulty and record.original == "b-gpu-03"
    assert (record.started, record.finished) == (said.started, said.finished)


def test_burn_in_that_found_worse_before_its_last_examination_is_no_lie(burned: Site) -> None:
    said = burned.said["gpu-03"]
    findings = tuple(replace(each, measured=7) if each.check == "memory" else each for each in said.findings)
    burned.said["gpu-03"] = replace(said, findings=findings)
    assert outcomes_of(burned, lots_for("gpu-03"))[0]["gpu-03"] == AGREES


@pytest.mark.parametrize(
    ("measures", "told"),
    [
        ({"cpu_stress": {"host": {"celsius": 40.0}}}, "measures of cpu_stress: others by the node than here"),
        ([], "measures: list by the node, a mapping here"),
    ],
)
def test_lie_about_what_nodes_are_compared_by_is_found(burned: Site, measures: Any, told: str) -> None:
    said = burned.said["gpu-03"]
    burned.said["gpu-03"] = replace(said, detail={**said.detail, "measures": measures})
    outcomes, newest = outcomes_of(burned, lots_for("gpu-03"))
    assert told in outcomes["gpu-03"] and newest["gpu-03"] is not None and newest["gpu-03"].faulty


@pytest.mark.parametrize(("celsius", "same"), [(40.0, True), (40.5, False), (None, False)])
def test_numbers_that_nodes_are_compared_by_are_those_of_the_outputs(
    burned: Site, monkeypatch: pytest.MonkeyPatch, celsius: float | None, same: bool
) -> None:
    measures = {"host": {"celsius": 40.0}}
    monkeypatch.setattr(cpu_stress, "measures", lambda values, expect: measures, raising=False)
    load = {"cpu_stress": Output(healthy("cpu_stress"))}
    findings = judge_stress("cpu_stress", load, typed(EXPECT)).findings
    for name, said in burned.said.items():
        told = celsius if name == "gpu-03" else 40.0
        detail = {
            **{**said.detail, "steps": [{"seconds": 60, "run": {"cpu_stress": {}}}]},
            "measures": {"cpu_stress": {"host": {"celsius": told}}} if told else {},
        }
        raw = {**said.raw, **digests_of(load, "step_1")}
        burned.kept[name]["step_1"] = load
        burned.said[name] = replace(said, detail=detail, raw=raw, findings=(*said.findings, *findings))
    outcomes, _ = outcomes_of(burned, lots_for("gpu-03"))
    assert (outcomes.pop("gpu-03") == AGREES) is same and set(outcomes.values()) == {AGREES}


def test_lie_about_what_the_new_rules_say_is_found(burned: Site) -> None:
    """A record that the node made of its old outputs is drawn as one of a new burn-in is."""
    said, kept = burned.said["gpu-03"], burned.kept["gpu-03"]
    kept["last"]["kernel_log"] = XID
    first = replace(said, raw={**said.raw, **digests_of(kept["last"], "last")}, rules={})
    with burned.ledger.writing() as writer:
        assert writer.add_evidence([first], burned.now) == []
    detail = {**said.detail, "judged_again": {"of": said.id, "from": {}}}
    burned.said["gpu-03"] = replace(first, id="again", detail=detail, rules=said.rules)
    outcomes, newest = outcomes_of(burned, lots_for("gpu-03"))
    assert "xid gpu SXM6" in outcomes["gpu-03"]
    assert newest["gpu-03"] is not None and newest["gpu-03"].faulty


def test_burn_in_that_failed_is_not_drawn(burned: Site) -> None:
    for name in NAMES[1:]:
        said = burned.said[name]
        burned.said[name] = replace(said, findings=(*said.findings, replace(said.findings[0], verdict=FAIL)))
    assert [each["node"] for each in draw(burned.handed(), "any", burned.now)["drawn"]] == ["gpu-01"]


def test_burn_in_with_a_waived_fault_is_drawn(burned: Site) -> None:
    """Or a program could keep away from being looked at by a fault that is accepted."""
    said = burned.said["gpu-03"]
    fault = next(each for each in said.findings if each.check == "memory")
    burned.said = {"gpu-03": replace(said, findings=(*said.findings, replace(fault, verdict=FAIL)))}
    until = datetime.fromtimestamp(NOW, UTC).strftime("%Y-%m-%d")
    waiver = {"nodes": "gpu-03", "check": "memory", "reason": "a module too few", "who": "ann", "until": until}
    waivers = read_as(tuple[Waiver, ...], [waiver])
    burned.fleet = replace(burned.fleet, policy=replace(burned.fleet.policy, waivers=waivers))
    assert outcomes_of(burned, "any")[0] == {"gpu-03": AGREES}
    assert draw(burned.handed(), "any", NOW + 2 * 86400)["drawn"] == []


def test_burn_ins_of_other_rules_are_named_and_no_others(burned: Site) -> None:
    older = {**burned.said["gpu-02"].rules, "xid": 0}
    burned.said["gpu-02"] = replace(burned.said["gpu-02"], rules=older)
    # Judged again once, and outdated anew: the outputs lie beside the first.
    again = replace(
        burned.said["gpu-02"], id="again", detail={**burned.said["gpu-02"].detail, "judged_again": {"of": "b-gpu-02"}}
    )
    present = burned.said["gpu-03"].rules
    burned.said["gpu-03"] = replace(burned.said["gpu-03"], rules={**present, "of another stage": 7})
    burned.said["gpu-04"] = replace(burned.said["gpu-04"], rules={}, finished=None)
    burned.said["gpu-05"] = replace(burned.said["gpu-05"], rules={}, expect_digest="of another class")
    fleet = replace(burned.fleet, policy=replace(burned.fleet.policy, stages=("preflight", "burn_in")))
    with burned.ledger.writing() as writer:
        assert writer.add_evidence([*burned.said.values(), again], burned.now) == []
        assert outdated_burn_ins(fleet, writer) == {"gpu-02": "b-gpu-02"}
        assert outdated_burn_ins(burned.fleet, writer) == {}, "the policy asks for no burn-in"
