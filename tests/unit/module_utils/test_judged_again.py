"""Kept outputs judged again by other rules: never better than the record, and nothing without all of the outputs."""

import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in import Clock, Environment, run
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_plan import Plan, steps_of
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_record import Record
from ansible_collections.muster.cluster.plugins.module_utils.checks import cpu_stress, memory, xid
from ansible_collections.muster.cluster.plugins.module_utils.examination import rules
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import examine
from ansible_collections.muster.cluster.plugins.module_utils.examination.rejudge import (
    SavedError,
    examinations_of,
    judged_again,
)
from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import outdated, rules_of
from ansible_collections.muster.cluster.plugins.module_utils.host.evidence_store import EvidenceStore
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.raw_outputs import digests_of, places_in
from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import fingerprint_of
from ansible_collections.muster.cluster.plugins.module_utils.stress import cpu_stress as cpu_load
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding, worst
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import plain

from tests.typed import typed

from .conftest import EXPECT, healthy, healthy_host

PROGRAM = "c0ffee"
LOG = (
    "2025-01-21T04:41:44+0000 h kernel: Linux version 6.1.0\n"
    "2025-01-21T04:42:44+0000 h kernel: NVRM: Xid (PCI:0000:ab:00): 79, GPU has fallen off the bus.\n"
)


@pytest.fixture(scope="module")
def burned_once(tmp_path_factory):
    """A burn-in that passed: an idle host, one under a load of a minute, and idle again; and where it keeps that."""
    now, host, place = [1000.0], healthy_host(), tmp_path_factory.mktemp("burned")

    def load(host, expect, seconds, settings):
        until = now[0] + seconds
        while now[0] < until:
            time.sleep(0.001)
        return Output(healthy("cpu_stress"))

    def sleep(seconds):
        time.sleep(0.001)
        now[0] += seconds

    steps = steps_of([{"seconds": 60, "run": {"cpu_stress": {}}}, {"seconds": 30}])
    plan = Plan("run-1", "gpu-01", "quick", steps, 25, typed(EXPECT))
    host.stop = lambda: None
    clock = Clock(lambda: now[0], lambda: now[0], sleep)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_load, "collect", load)
        given = Environment(Record(str(place)), host, lambda: host, "1", clock, lambda text: None, bool, tuple)
        evidence = run(plan, given)
    assert evidence is not None and worst(finding.verdict for finding in evidence.findings) == PASS
    return evidence, place, plan.expect


@pytest.fixture(autouse=True)
def versions_of_now():
    """Let no test see the versions that another one gave the checks."""
    rules._needed.cache_clear()
    yield
    rules._needed.cache_clear()


@pytest.fixture
def burned(burned_once):
    """The burn-in, with what it keeps."""
    evidence, place, expect = burned_once
    return evidence, EvidenceStore(str(place)).read_raw("burn_in", "run-1", places_in(evidence.raw)), expect


@pytest.fixture
def examined(fake_host, expect):
    """A preflight that passed, with what it keeps."""
    expect = typed(expect)
    examination = examine("preflight", fake_host, expect)
    evidence = Evidence(
        "p-1",
        "gpu-01",
        "preflight",
        1.0,
        2.0,
        "boot",
        fingerprint_of(examination.values, expect),
        expect_digest_of("preflight", plain(expect)),
        findings=examination.findings,
        raw=digests_of(examination.outputs),
        rules=rules_of("preflight"),
    )
    assert worst(finding.verdict for finding in evidence.findings) == PASS
    return evidence, {"raw": dict(examination.outputs)}, expect


def again(burned, program=PROGRAM):
    evidence, kept, expect = burned
    return judged_again(evidence, kept, expect, "2", program)


def stricter(monkeypatch, check, verdict, when=lambda values: True):
    """Have a check of another version find something else."""
    decide = check.decide

    def found(values, expect):
        return [replace(each, verdict=verdict if when(values) else each.verdict) for each in decide(values, expect)]

    monkeypatch.setattr(check, "decide", found)
    monkeypatch.setattr(check, "RULES", check.RULES + 1)


def test_same_rules_come_to_the_same_findings(burned, examined):
    for item in (burned, examined):
        evidence, new = item[0], again(item)
        assert set(new.findings) == set(evidence.findings)
        assert new == again(item), "it is the same record each time"
        assert new.id != evidence.id and new.id != again(item, "another program").id
        assert (new.rules, new.program, new.muster_version) == (evidence.rules, PROGRAM, "2")
        same = ("node", "stage", "started", "finished", "boot_id", "fingerprint", "expect_digest", "raw")
        assert all(getattr(new, key) == getattr(evidence, key) for key in same)
        assert new.detail["judged_again"] == {"of": evidence.id, "from": {}}
        assert Evidence.from_dict(json.loads(json.dumps(new.to_dict()))) == new


def test_fault_that_only_the_new_rules_see_is_found(burned, monkeypatch):
    before = memory.RULES
    stricter(monkeypatch, memory, FAIL)
    assert outdated(burned[0].rules, "burn_in", ["memory", "xid"]) == ("memory",)
    new = again(burned)
    assert {each.check for each in new.findings if each.verdict == FAIL} == {"memory"}
    assert outdated(new.rules, "burn_in", ["memory", "xid"]) == ()
    assert new.detail["judged_again"]["from"] == {"memory": before}


def test_rules_that_see_less_do_not_make_a_record_better(burned, monkeypatch):
    evidence, kept, expect = burned
    findings = tuple(replace(each, verdict=FAIL) if each.check == "memory" else each for each in evidence.findings)
    stricter(monkeypatch, memory, PASS)
    new = again((replace(evidence, findings=findings), kept, expect))
    assert {each.check for each in new.findings if each.verdict == FAIL} == {"memory"}


def test_what_a_host_showed_under_load_is_judged_too(burned, monkeypatch):
    """The idle host at the end says nothing of it."""
    evidence, kept, expect = burned
    place = kept["loaded_1"] = {**kept["loaded_1"], "kernel_log": Output(LOG)}
    evidence = replace(evidence, raw={**evidence.raw, **digests_of(place, "loaded_1")})
    monkeypatch.setattr(xid, "RULES", xid.RULES + 1)
    new = again((evidence, kept, expect))
    assert {each.check for each in new.findings if each.verdict == FAIL} == {"xid"}


def test_result_of_a_load_is_judged_again_and_the_load_itself_is_not(burned, monkeypatch):
    stricter(monkeypatch, cpu_stress, FAIL)
    new = again(burned)
    assert {each.check for each in new.findings if each.verdict == FAIL} == {"cpu_stress"}
    assert outdated(new.rules, "burn_in", ["cpu_stress"]) == ()
    monkeypatch.setattr(cpu_load, "RULES", cpu_load.RULES + 1)
    # The cache of the versions that are needed is a program's, of which none changes while it runs.
    rules._needed.cache_clear()
    assert outdated(again(burned).rules, "burn_in", ["cpu_stress"]) == ("load cpu_stress",)


def test_record_that_is_judged_again_has_what_its_loads_measured(burned, monkeypatch):
    """As the run itself would have it, with what the BMC showed beside the load."""
    evidence, kept, expect = burned
    assert evidence.detail["measures"] == {} == again(burned).detail["measures"]
    old = replace(evidence, detail={key: value for key, value in evidence.detail.items() if key != "measures"})
    assert "measures" not in again((old, kept, expect)).detail

    def measures(values, expect):
        return {"host": {"fans": sum(sensor.unit == "RPM" for sensor in values["ipmi_sdr"].sensors)}}

    monkeypatch.setattr(cpu_stress, "measures", measures, raising=False)
    monkeypatch.setattr(cpu_stress, "OPTIONAL_PROBES", ("ipmi_sdr",), raising=False)
    measured = {"cpu_stress": {"host": {"fans": 4}}}
    assert again(burned).detail["measures"] == again((old, kept, expect)).detail["measures"] == measured
    # What cannot be measured any more is not told by the number of before.
    monkeypatch.setattr(cpu_stress, "measures", lambda values, expect: {})
    stale = replace(evidence, detail={**evidence.detail, "measures": measured})
    assert again((stale, kept, expect)).detail["measures"] == {}
    # A check that cannot be judged again, as not all of its outputs were kept, keeps what it had.
    monkeypatch.setattr(cpu_stress, "PROBES", ("cpu_stress", "memory_latency"))
    assert again((stale, kept, expect)).detail["measures"] == measured


def test_record_that_was_judged_again_before_is_judged_from_the_first(burned, monkeypatch):
    _, kept, expect = burned
    first = memory.RULES
    monkeypatch.setattr(memory, "RULES", first + 1)
    second = again(burned)
    monkeypatch.setattr(memory, "RULES", first + 2)
    third = judged_again(second, kept, expect, "3", PROGRAM)
    assert third.detail["judged_again"] == {"of": "run-1", "from": {"memory": first + 1}}


@pytest.mark.parametrize(
    ("place", "change", "told"),
    [
        ("last", {"memory_log": Output()}, ""),
        ("last", {"meminfo": None}, "not there: last/meminfo"),
        ("last", {"meminfo": Output("MemTotal: 9 kB\n")}, "not what it was: last/meminfo"),
        ("last", {"meminfo": Output("")}, "not what it was: last/meminfo"),
        # Half of it, as a full disk leaves it.
        ("last", {"nvidia_smi": "half"}, "not what it was: last/nvidia_smi"),
        # The same text of a tool that failed.
        ("last", {"lscpu": "failed"}, "not what it was: last/lscpu"),
        ("loaded_1", {"meminfo": None}, "not there: loaded_1/meminfo"),
        ("step_1", {"cpu_stress": None}, "not there: step_1/cpu_stress"),
        ("step_1", None, "not there: step_1/cpu_stress"),
    ],
)
def test_nothing_is_said_of_outputs_that_are_not_those_of_the_record(burned, place, change, told):
    evidence, kept, expect = burned
    outputs = dict(kept.pop(place))
    for name, output in (change or {}).items():
        was = outputs.pop(name, Output())
        if output is not None:
            other = {"half": Output(was.stdout[: len(was.stdout) // 2]), "failed": replace(was, rc=1)}
            outputs[name] = other[output] if isinstance(output, str) else output
    if change is not None:
        kept[place] = outputs
    if not told:
        assert again((evidence, kept, expect)) == again(burned), "what the record does not name is left out"
        return
    with pytest.raises(SavedError, match=rf"raw output of evidence run-1 is {told}"):
        again((evidence, kept, expect))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"raw": {}}, "names no raw output"),
        ({"finished": None}, "expected a finished"),
        ({"stage": "health"}, "expected a finished"),
        ({"expect_digest": "other"}, "other expectations"),
        ({"raw": {"last/furmark": "0"}, "detail": {}}, "expected a probe's"),
        ({"raw": {"first_failed/lscpu": "0", "last/lscpu": "0"}, "detail": {}}, "expected a probe's"),
        ({"raw": {"../../lscpu": "0"}, "detail": {}}, "expected PROBE"),
        ({"detail": {"steps": "all"}}, "detail.steps"),
        ({"detail": {"steps": [7]}}, "detail.steps"),
        ({"detail": {"steps": None}}, "detail.steps"),
        # A load whose output is not named would pass by the old rules for ever.
        ({"detail": {"steps": [{"run": {"gpu_stress": {}}}]}}, "names no raw output of step_1/gpu_stress"),
    ],
)
def test_record_that_cannot_be_judged_again_is_an_error(burned, change, told):
    evidence, kept, expect = burned
    with pytest.raises(SavedError, match=told):
        again((replace(evidence, **change), kept, expect))


def test_check_that_reads_what_was_not_kept_is_incomplete(examined):
    """As one that is new in this program."""
    evidence, kept, expect = examined
    raw = {name: digest for name, digest in evidence.raw.items() if name != "meminfo"}
    found = examinations_of(replace(evidence, raw=raw), kept, expect)["raw"].findings
    assert Finding("memory", "host", INCOMPLETE, reason="meminfo was not run", action="investigate") in found


def test_program_judges_what_its_host_keeps(node_program, tmp_path, burned_once):
    evidence, place, typed_expect = burned_once
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    command = [sys.executable, str(node_program), "judge-again", "--stage", "burn_in", "--state-directory", tmp_path]

    def ask(evidence_id):
        given = json.dumps(plain(typed_expect))
        return subprocess.run([*command, "--id", evidence_id], input=given, capture_output=True, text=True, check=False)

    before = sorted(tmp_path.rglob("*"))
    done = ask("run-1")
    assert done.returncode == 0, done.stderr
    new = Evidence.from_dict(json.loads(done.stdout))
    assert new.detail["judged_again"]["of"] == "run-1" and set(new.findings) == set(evidence.findings)
    assert sorted(tmp_path.rglob("*")) == before
    for wrong, told in (("run-2", "No such file"), ("../run-1", "--id is")):
        assert ask(wrong).returncode == 2 and told in ask(wrong).stderr
    (EvidenceStore(str(tmp_path)).path("burn_in", "run-1").with_name("last") / "lscpu.txt").write_text("")
    assert ask("run-1").returncode == 2 and "last/lscpu" in ask("run-1").stderr


def test_check_whose_output_was_not_kept_is_not_judged_again_and_stays_owed(burned, monkeypatch):
    """As one that came with a later version: an upgrade must not make every node's burn-in incomplete."""
    evidence, kept, expect = burned
    assert any(name.endswith("/numa") for name in evidence.raw)
    raw = {name: digest for name, digest in evidence.raw.items() if not name.endswith("/numa")}
    older = replace(
        evidence,
        raw=raw,
        findings=tuple(each for each in evidence.findings if each.check != "numa"),
        rules={name: version for name, version in evidence.rules.items() if name != "numa"},
    )
    less = {place: {name: each for name, each in outputs.items() if name != "numa"} for place, outputs in kept.items()}
    record = judged_again(older, less, expect, "2", PROGRAM)
    assert {each.verdict for each in record.findings} == {PASS}
    assert outdated(record.rules, "burn_in", {each.check for each in evidence.findings} | {"numa"}) == ("numa",)
