"""Admission: only the full set of fresh passes about the node as it is now admits it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import STRESSES
from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import rules_of
from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import COMPONENTS, DEPENDS
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError, plain, read
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission import (
    Case,
    Health,
    Policy,
    Trouble,
    due_stages,
    judge,
    ready_for,
    requirements_of,
    runnable_stages,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_policy import Waiver
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import LatencyProfile, with_mini_clusters
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import Record
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import verdicts_from
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.placed import PLACED
from tests.typed import typed

NOW = 2_000_000_000.0
HOUR = 3600.0
STAGES = ("preflight", "burn_in", "acceptance")
FINGERPRINT = {name: f"{name} 1" for name in COMPONENTS}
IDENTITY: dict[str, str | None] = {
    **{"board_uuid": "4c4c4544-0053-5210-8038-c8c04f583034", "bmc_mac": "3c:ec:ef:00:00:01"},
    **{"hostname": "n1", "slurmd_node": "n1"},
}
DIGESTS = dict.fromkeys(STAGES, "d")
REQUIRED = {
    "preflight": [("cpu", "host"), ("disk", "disk /var")],
    "burn_in": [("gpu_inventory", "gpu SXM1 0000:1b:00.0"), ("xid", "host")],
    "acceptance": [("pair_bandwidth", "network"), ("group_bandwidth", "network")],
}
STEPS = {"short": [{"seconds": 60}], "standard": [{"seconds": 600}], "long": [{"seconds": 6000}]}
POLICY = read(
    Policy,
    {
        "stages": list(STAGES),
        "burn_in_profile": "standard",
        "burn_in_profiles": {
            "short": {"steps": STEPS["short"], "interval_seconds": 5},
            "standard": {"steps": STEPS["standard"], "interval_seconds": 5},
            "long": {"steps": STEPS["long"], "interval_seconds": 5},
        },
        "fresh_hours": {"burn_in": 720, "acceptance": 168},
        "close_limit_percent": 20,
        "retest": True,
        "heartbeat_seconds": None,
    },
)


def ran(profile: str, elapsed: Any) -> dict[str, Any]:
    return {"profile": profile, "steps": STEPS[profile], "elapsed_seconds": elapsed}


def evidence(stage: str, **changes: Any) -> Evidence:
    detail = ran("standard", 600.5) if stage == "burn_in" else {}
    whole = Evidence(
        id=f"{stage}-1",
        node="n1",
        stage=stage,
        started=NOW - 2 * HOUR,
        finished=NOW - HOUR,
        boot_id="b",
        fingerprint=FINGERPRINT,
        expect_digest="d",
        findings=tuple(Finding(check, part, "pass") for check, part in REQUIRED[stage]),
        detail=detail,
        identity=IDENTITY,
        rules=rules_of(stage, STRESSES),
    )
    return replace(whole, **changes)


def records(*items: Evidence) -> tuple[Record, ...]:
    return tuple(Record(item, NOW - HOUR / 2, order) for order, item in enumerate(items))


WHOLE = Case("n1", REQUIRED, records(*map(evidence, STAGES)), FINGERPRINT, DIGESTS, identity=IDENTITY)


def with_stage(stage: str, *items: Evidence) -> Case:
    kept = [record.evidence for record in WHOLE.records if record.evidence.stage != stage]
    return replace(WHOLE, records=records(*kept, *items))


def outcome(case: Case, now: float = NOW) -> tuple[str, str]:
    judgement = judge(case, POLICY, now)
    return judgement.state, judgement.stage


def spoiled(finding: Finding, verdict: str) -> Finding:
    """A finding whose verdict its own constructor would refuse."""
    copy = replace(finding)
    object.__setattr__(copy, "verdict", verdict)
    return copy


def test_full_set_is_admitted() -> None:
    judgement = judge(WHOLE, POLICY, NOW)
    assert (judgement.state, judgement.stage, len(judgement.findings)) == ("admitted", "acceptance", 6)


@given(st.sampled_from([(stage, pair) for stage in STAGES for pair in REQUIRED[stage]]))
def test_a_missing_required_finding_never_admits(removed: tuple[str, tuple[str, str]]) -> None:
    stage, pair = removed
    whole = evidence(stage)
    left = tuple(finding for finding in whole.findings if (finding.check, finding.subject) != pair)
    judgement = judge(with_stage(stage, replace(whole, findings=left)), POLICY, NOW)
    assert (judgement.state, judgement.stage) == ("testing", stage)
    assert [(f.check, f.subject) for f in judgement.findings if f.verdict == "incomplete"] == [pair]


@given(st.sampled_from(STAGES), st.integers(0, 1), st.text())
def test_a_verdict_other_than_pass_never_admits(stage: str, place: int, verdict: str) -> None:
    whole = evidence(stage)
    findings = list(whole.findings)
    findings[place] = spoiled(findings[place], verdict)
    state = outcome(with_stage(stage, replace(whole, findings=tuple(findings))))
    expected = {"pass": ("admitted", "acceptance"), "fail": ("rejected", stage)}.get(verdict, ("testing", stage))
    assert state == expected


@given(st.sampled_from(STAGES), st.sampled_from(["fail", "incomplete"]), st.booleans())
def test_a_worse_finding_beside_a_pass_never_admits(stage: str, verdict: str, same_part: bool) -> None:
    whole = evidence(stage)
    check, part = REQUIRED[stage][0] if same_part else ("extra", "elsewhere")
    state, _ = outcome(with_stage(stage, replace(whole, findings=(*whole.findings, Finding(check, part, verdict)))))
    assert state == {"fail": "rejected", "incomplete": "testing"}[verdict]


@given(st.sampled_from([(stage, name) for stage in STAGES for name in DEPENDS[stage]]), st.booleans(), st.booleans())
def test_a_component_changed_or_unread_never_admits(pair: tuple[str, str], unread: bool, then: bool) -> None:
    stage, name = pair
    other = {**FINGERPRINT, name: None if unread else "another"}
    case = with_stage(stage, evidence(stage, fingerprint=other)) if then else replace(WHOLE, fingerprint=other)
    judgement = judge(case, POLICY, NOW)
    assert judgement.state == "testing"
    assert any(name in finding.reason for finding in judgement.findings)


@given(st.sampled_from(STAGES), st.floats(min_value=0.001, max_value=1e6))
def test_evidence_beyond_freshness_never_admits(stage: str, beyond: float) -> None:
    finished = NOW - POLICY.fresh_limit(stage) * HOUR - beyond
    case = with_stage(stage, evidence(stage, started=finished - HOUR, finished=finished))
    assert outcome(case) == ("testing", stage)


@given(
    st.floats(min_value=1, max_value=167),
    st.floats(min_value=600, allow_infinity=False),
    st.sampled_from(["standard", "long"]),
)
def test_evidence_within_all_limits_admits(hours: float, duration: float, profile: str) -> None:
    finished = NOW - hours * HOUR
    long_enough = ran(profile, duration)
    case = replace(
        WHOLE,
        records=records(
            evidence("preflight"),
            evidence("burn_in", started=finished - 700, finished=finished, detail=long_enough),
            evidence("acceptance", started=finished, finished=finished),
        ),
    )
    assert outcome(case) == ("admitted", "acceptance")


@settings(max_examples=300)
@given(st.sets(st.sampled_from(STAGES)), st.sampled_from(STAGES), st.sampled_from(["fail", "incomplete", "pass"]))
def test_admitted_exactly_with_every_stage(present: set[str], touched: str, verdict: str) -> None:
    items = []
    for stage in sorted(present):
        item = evidence(stage)
        if stage == touched:
            item = replace(item, findings=(*item.findings[1:], replace(item.findings[0], verdict=verdict)))
        items.append(item)
    whole = present == set(STAGES) and (verdict == "pass" or touched not in present)
    assert (outcome(replace(WHOLE, records=records(*items)))[0] == "admitted") == whole


BURN_IN = evidence("burn_in")
LATER = {"id": "burn_in-2", "started": NOW - HOUR, "finished": NOW - HOUR / 2}
FAILED = replace(BURN_IN, findings=(replace(BURN_IN.findings[0], verdict="fail"), *BURN_IN.findings[1:]))

# (rule, case, state, stage): the ways in which other systems let a sick node through, and some of our own.
FAIL_OPEN: list[tuple[str, Case, str, str]] = [
    (
        "a check that crashed leaves no finding",
        with_stage("burn_in", replace(BURN_IN, findings=())),
        "testing",
        "burn_in",
    ),
    ("a stage that did not run is not a pass", with_stage("burn_in"), "testing", "burn_in"),
    ("acceptance that never ran is not a pass", with_stage("acceptance"), "testing", "acceptance"),
    (
        "a stage killed half way is not a pass",
        with_stage("burn_in", replace(BURN_IN, finished=None)),
        "testing",
        "burn_in",
    ),
    (
        "a low number rejects, it does not advise",
        with_stage(
            "acceptance",
            evidence(
                "acceptance",
                findings=(
                    Finding("pair_bandwidth", "network", "fail", 0.02, 0.1, "GB/s"),
                    Finding("group_bandwidth", "network", "pass"),
                ),
            ),
        ),
        "rejected",
        "acceptance",
    ),
    (
        "a skipped check is incomplete, not passed",
        with_stage(
            "burn_in",
            replace(BURN_IN, findings=(replace(BURN_IN.findings[0], verdict="incomplete"), BURN_IN.findings[1])),
        ),
        "testing",
        "burn_in",
    ),
    ("a class that requires nothing passes nobody", replace(WHOLE, required={}), "testing", "preflight"),
    (
        "a stage that requires nothing passes nobody",
        replace(WHOLE, required={**REQUIRED, "burn_in": []}),
        "testing",
        "burn_in",
    ),
    (
        "a finding on another part does not count",
        with_stage(
            "burn_in",
            replace(
                BURN_IN, findings=(replace(BURN_IN.findings[0], subject="gpu SXM2 0000:43:00.0"), BURN_IN.findings[1])
            ),
        ),
        "testing",
        "burn_in",
    ),
    (
        "other expectations make other evidence",
        replace(WHOLE, expect_digests=dict.fromkeys(STAGES, "e")),
        "testing",
        "preflight",
    ),
    ("another node's evidence", with_stage("burn_in", replace(BURN_IN, node="n2")), "testing", "burn_in"),
    ("an unknown node state of this run", replace(WHOLE, fingerprint=None), "testing", "preflight"),
    (
        "an unreachable node",
        replace(WHOLE, trouble=Trouble("preflight", "reach", "unreachable")),
        "testing",
        "preflight",
    ),
    (
        "a node that a task stopped",
        replace(WHOLE, trouble=Trouble("preflight", "preflight", "x")),
        "testing",
        "preflight",
    ),
    ("nothing at all", Case("n1", REQUIRED, (), None, DIGESTS), "new", "preflight"),
    (
        "nothing at all from a targeted node",
        Case("n1", REQUIRED, (), None, "d", trouble=Trouble("preflight", "reach", "unreachable")),
        "testing",
        "preflight",
    ),
    (
        "a shorter profile",
        with_stage("burn_in", replace(BURN_IN, detail=ran("short", 900))),
        "testing",
        "burn_in",
    ),
    (
        "a burn-in that does not say what was done",
        with_stage("burn_in", replace(BURN_IN, detail={"profile": "standard", "elapsed_seconds": 900})),
        "testing",
        "burn_in",
    ),
    (
        "steps that are none",
        with_stage("burn_in", replace(BURN_IN, detail={**ran("standard", 900), "steps": ["all"]})),
        "testing",
        "burn_in",
    ),
    (
        "a burn-in cut short",
        with_stage("burn_in", replace(BURN_IN, detail=ran("standard", 599.9))),
        "testing",
        "burn_in",
    ),
    (
        "a burn-in planned long enough and cut short",
        with_stage(
            "burn_in",
            replace(BURN_IN, detail={**ran("standard", 599.9), "duration_seconds": 600}),
        ),
        "testing",
        "burn_in",
    ),
    (
        "a burn-in that says it was longer than its begin and end allow",
        with_stage("burn_in", replace(BURN_IN, started=NOW - HOUR - 599.9)),
        "testing",
        "burn_in",
    ),
    (
        "a burn-in of no length",
        with_stage("burn_in", replace(BURN_IN, detail={"profile": "standard", "steps": STEPS["standard"]})),
        "testing",
        "burn_in",
    ),
    (
        "a duration that is no number",
        with_stage("burn_in", replace(BURN_IN, detail=ran("standard", math.nan))),
        "testing",
        "burn_in",
    ),
    (
        "a duration that is true",
        with_stage("burn_in", replace(BURN_IN, detail=ran("standard", True))),
        "testing",
        "burn_in",
    ),
    ("a burn-in cut short by a fault", with_stage("burn_in", replace(FAILED, detail={})), "rejected", "burn_in"),
    ("times in the future", with_stage("burn_in", replace(BURN_IN, finished=NOW + 301)), "testing", "burn_in"),
    (
        "times after the import",
        with_stage("burn_in", replace(BURN_IN, finished=NOW - HOUR / 2 + 301)),
        "testing",
        "burn_in",
    ),
    (
        "finished before it started",
        with_stage("burn_in", replace(BURN_IN, finished=NOW - 3 * HOUR)),
        "testing",
        "burn_in",
    ),
    (
        "times that are no numbers",
        with_stage("burn_in", replace(BURN_IN, started=math.nan, finished=math.nan)),
        "testing",
        "burn_in",
    ),
    ("an endless finish", with_stage("burn_in", replace(BURN_IN, finished=math.inf)), "testing", "burn_in"),
    ("a finish beyond any clock", with_stage("burn_in", replace(BURN_IN, finished=10**400)), "testing", "burn_in"),
    ("two records of one id", with_stage("burn_in", FAILED, BURN_IN), "testing", "burn_in"),
    (
        "a later fault wins over an older pass",
        with_stage("burn_in", BURN_IN, replace(FAILED, **LATER)),
        "rejected",
        "burn_in",
    ),
    (
        "a fault found last wins though the host's clock was set back",
        with_stage("burn_in", BURN_IN, replace(FAILED, id="burn_in-2", started=1.0, finished=7200.0)),
        "testing",
        "burn_in",
    ),
    (
        "a fault of this run wins though the host's clock is hours behind",
        with_stage(
            "preflight",
            evidence("preflight"),
            evidence(
                "preflight",
                id="preflight-2",
                started=NOW - 9 * HOUR,
                finished=NOW - 9 * HOUR + 1,
                findings=(Finding("cpu", "host", "fail"), Finding("disk", "disk /var", "pass")),
            ),
        ),
        "rejected",
        "preflight",
    ),
    (
        "a part that dropped out in a later test does not bring the old pass back",
        with_stage("burn_in", BURN_IN, replace(FAILED, **LATER, fingerprint={**FINGERPRINT, "gpu_serials": "seven"})),
        "testing",
        "burn_in",
    ),
    (
        "a later test that was killed",
        with_stage("burn_in", BURN_IN, replace(BURN_IN, **{**LATER, "finished": None})),
        "testing",
        "burn_in",
    ),
    (
        "a later record with a wrong clock",
        with_stage("burn_in", BURN_IN, replace(FAILED, id="burn_in-2", started=NOW + HOUR, finished=NOW + 2 * HOUR)),
        "testing",
        "burn_in",
    ),
    (
        "an old wrong clock does not stand in the way for ever",
        with_stage("burn_in", replace(BURN_IN, id="burn_in-0", started=NOW + HOUR, finished=NOW + 2 * HOUR), BURN_IN),
        "admitted",
        "acceptance",
    ),
    (
        "a measured fault is named though an earlier stage is incomplete",
        replace(with_stage("burn_in", FAILED), fingerprint={**FINGERPRINT, "gpu_serials": None}),
        "rejected",
        "burn_in",
    ),
    (
        "a GPU that is lost is named though nobody can read which GPUs there are",
        replace(
            with_stage("burn_in", replace(FAILED, fingerprint={**FINGERPRINT, "gpu_serials": None})),
            fingerprint={**FINGERPRINT, "gpu_serials": None},
        ),
        "rejected",
        "burn_in",
    ),
    (
        "of two that found a fault burn-in decides",
        replace(
            WHOLE,
            records=records(
                evidence("preflight", findings=(Finding("cpu", "host", "fail"), Finding("disk", "disk /var", "pass"))),
                FAILED,
            ),
        ),
        "rejected",
        "burn_in",
    ),
    (
        "held by acceptance",
        with_stage("acceptance", evidence("acceptance", detail={"held": "no partner"})),
        "held",
        "acceptance",
    ),
    ("quarantined", replace(WHOLE, decision="quarantined"), "quarantined", ""),
    ("spare", replace(WHOLE, decision="spare"), "spare", ""),
    ("retired and faulty", replace(with_stage("burn_in", FAILED), decision="retired"), "retired", ""),
    (
        "retired and unreachable",
        replace(WHOLE, decision="retired", trouble=Trouble("preflight", "reach", "x")),
        "retired",
        "",
    ),
]


@pytest.mark.parametrize(
    ("case", "state", "stage"), [each[1:] for each in FAIL_OPEN], ids=[each[0] for each in FAIL_OPEN]
)
def test_no_way_through(case: Case, state: str, stage: str) -> None:
    assert outcome(case) == (state, stage)


@pytest.mark.parametrize(("seconds", "state"), [(0, "admitted"), (1, "testing")])
def test_freshness_on_both_sides_of_the_limit(seconds: float, state: str) -> None:
    finished = NOW - 168 * HOUR - seconds
    case = with_stage("acceptance", evidence("acceptance", started=finished - 1, finished=finished))
    assert outcome(case)[0] == state


def test_fault_of_a_run_that_had_not_read_its_host_rejects_and_the_stage_is_due() -> None:
    """Power was lost before the first examination; a pass of such a run is none."""
    lost = Finding("burn_in", "host", "fail", reason="unplanned reboot", action="investigate")
    cut = evidence("burn_in", fingerprint={}, identity={}, findings=(lost,), rules={})
    case = with_stage("burn_in", evidence("burn_in", id="older"), cut)
    assert outcome(case) == ("rejected", "burn_in")
    assert "burn_in" in due_stages(case, replace(POLICY, retest=False), NOW)
    passed = replace(cut, findings=evidence("burn_in").findings)
    assert outcome(with_stage("burn_in", passed)) == ("testing", "burn_in")


@pytest.mark.parametrize(
    "change",
    [
        {"rules": {}},
        # Of two kinds of hardware one is as it was, so that nobody knows whether it is the same machine.
        {"identity": {**IDENTITY, "bmc_mac": "3c:ec:ef:00:00:99"}},
    ],
    ids=["judged by other rules", "of another machine, perhaps"],
)
def test_waived_fault_lets_no_evidence_pass_that_is_not_of_today_and_of_this_machine(change: dict[str, Any]) -> None:
    (check, part), *_ = REQUIRED["burn_in"]
    fault = Finding(check, part, "fail", reason="known", action="investigate")
    whole = evidence("burn_in")
    faulty = replace(whole, findings=(fault, *whole.findings[1:]))
    given = {"check": check, "nodes": "n1", "reason": "known", "who": "ann", "until": "2099-01-01"}
    policy = replace(POLICY, waivers=(read(Waiver, given),))
    assert judge(with_stage("burn_in", faulty), policy, NOW).state == "admitted"
    assert judge(with_stage("burn_in", replace(faulty, **change)), policy, NOW).state == "testing"


@pytest.mark.parametrize("stage", ["preflight", "burn_in"])
def test_evidence_that_was_drawn_and_not_judged_here_admits_nobody(stage: str) -> None:
    whole = evidence(stage)
    case = replace(with_stage(stage, whole), drawn=frozenset({whole.id}))
    assert outcome(case) == ("testing", stage)
    # It is not the node's fault: the stage is due again, and in service it is only owed.
    assert stage in due_stages(case, replace(POLICY, retest=False), NOW)
    judgement = judge(replace(case, admitted_since=NOW - HOUR / 2), POLICY, NOW)
    assert (judgement.state, list(judgement.due)) == ("admitted", [stage])
    assert outcome(replace(case, drawn=frozenset({"another"}))) == ("admitted", "acceptance")
    (check, part), *_ = REQUIRED[stage]
    fault = Finding(check, part, "fail", reason="known", action="investigate")
    faulty = replace(whole, findings=(fault, *whole.findings[1:]))
    assert outcome(replace(with_stage(stage, faulty), drawn=case.drawn)) == ("rejected", stage)


@pytest.mark.parametrize("stage", ["preflight", "burn_in"])
def test_evidence_that_could_not_be_judged_here_is_owed_by_a_node_in_service(stage: str) -> None:
    """A difference closes it."""
    whole = evidence(stage)

    def case(verdict: str) -> Case:
        drawn = Finding("rejudged", "host", verdict, reason="another program judged it", action="investigate")
        return replace(with_stage(stage, replace(whole, findings=(*whole.findings, drawn))), admitted_since=NOW - 60)

    judgement = judge(case("incomplete"), POLICY, NOW)
    assert (judgement.state, list(judgement.due)) == ("admitted", [stage])
    assert outcome(replace(case("incomplete"), admitted_since=None)) == ("testing", stage)
    assert outcome(case("fail")) == ("rejected", stage)


@pytest.mark.parametrize("said", ["soon", "nan", "inf", "", None])
def test_time_of_boot_that_is_none_costs_its_own_node_alone(said: str | None) -> None:
    case = replace(WHOLE, identity={**IDENTITY, "boot_time": said}, slurm_booted=NOW - HOUR)
    assert outcome(case) == ("testing", "preflight")
    judgement = judge(replace(case, admitted_since=NOW - 60), POLICY, NOW)
    assert (judgement.state, list(judgement.due)) == ("admitted", ["preflight"])


@pytest.mark.parametrize(("slurm", "state"), [(NOW - 9 * HOUR, "admitted"), (NOW - HOUR, "testing")])
def test_node_in_service_that_slurm_has_not_seen_since_its_reboot_is_due(slurm: float, state: str) -> None:
    """Slurm's boot before the host's is an old registration, one behind it another machine."""
    case = replace(WHOLE, identity={**IDENTITY, "boot_time": str(NOW - 2 * HOUR)}, slurm_booted=slurm)
    assert judge(replace(case, admitted_since=NOW - 60), POLICY, NOW).state == state
    assert outcome(case) == ("testing", "preflight")


def test_error_of_a_gpu_closes_a_node_in_service_and_its_end_does_not() -> None:
    def case(then: str, now: str) -> Case:
        before = evidence("burn_in", fingerprint={**FINGERPRINT, "gpu_errors": then})
        seen = {**FINGERPRINT, "gpu_errors": now}
        return replace(with_stage("burn_in", before), fingerprint=seen, admitted_since=NOW - 60)

    assert judge(case("none", "0000:1b:00.0 Xid 79"), POLICY, NOW).state == "testing"
    assert judge(case("0000:1b:00.0 Xid 13", "none"), POLICY, NOW).state == "admitted"


@pytest.mark.parametrize(("now", "passes"), [("none", True), ("9c6f5af3/1", False)])
def test_evidence_from_before_a_component_was_read_counts_where_the_class_has_no_such_part(
    now: str, passes: bool
) -> None:
    before = evidence("acceptance")
    known: dict[str, str | None] = {
        name: value for name, value in before.fingerprint.items() if name != "nvlink_domain"
    }
    seen = {**FINGERPRINT, "nvlink_domain": now}
    preflight = evidence("preflight", fingerprint=seen)
    burn_in = evidence("burn_in")

    def case(fingerprint: dict[str, str | None]) -> Case:
        kept = records(preflight, burn_in, replace(before, fingerprint=fingerprint))
        return replace(WHOLE, records=kept, fingerprint=seen)

    assert outcome(case(known)) == (("admitted" if passes else "testing"), "acceptance")
    # One that was there and unread says nothing of what it was.
    assert outcome(case({**known, "nvlink_domain": None})) == ("testing", "acceptance")
    # A node in service is never closed by it, and owes its proof where there is something to compare.
    due = judge(replace(case(known), admitted_since=NOW - 60), POLICY, NOW)
    assert (due.state, list(due.due)) == ("admitted", [] if passes else ["acceptance"])


@pytest.mark.parametrize(
    "before",
    [
        # Nobody asked then, or nobody could be told; another environment of the same version; a host without one.
        "absent",
        None,
        "2.8.0+cu128 python 3.12.3 in /opt/muster/pytorch-0123456789ab",
        "no torch python 3.12.3 in /opt/muster/pytorch-5f1c9a02e7d4",
        "none",
    ],
)
def test_proof_by_another_pytorch_or_by_one_that_nobody_knows_does_not_count(before: str | None) -> None:
    now = "2.8.0+cu128 python 3.12.3 in /opt/muster/pytorch-5f1c9a02e7d4"
    seen: dict[str, str | None] = {**FINGERPRINT, "pytorch": now}
    known: dict[str, str | None] = {name: value for name, value in FINGERPRINT.items() if name != "pytorch"}

    def case(fingerprint: dict[str, str | None]) -> Case:
        others = [replace(evidence(stage), fingerprint=seen) for stage in ("preflight", "burn_in")]
        kept = records(*others, replace(evidence("acceptance"), fingerprint=fingerprint))
        return replace(WHOLE, records=kept, fingerprint=seen)

    then = case(known if before == "absent" else {**known, "pytorch": before})
    assert outcome(case(seen))[0] == "admitted"
    assert outcome(then) == ("testing", "acceptance")
    # A node in service goes on, and owes its proof.
    due = judge(replace(then, admitted_since=NOW - 60), POLICY, NOW)
    assert (due.state, list(due.due)) == ("admitted", ["acceptance"])


@pytest.mark.parametrize("stage", ["burn_in", "acceptance"])
def test_check_that_came_with_later_rules_closes_no_node_in_service_but_is_owed(stage: str) -> None:
    whole = evidence(stage)
    older = replace(whole, findings=whole.findings[1:], rules=dict.fromkeys(whole.rules, 0))
    case = with_stage(stage, older)
    assert outcome(case) == ("testing", stage)
    # Whatever the host's clock says: the ledger's tells what was there at admission.
    judgement = judge(replace(case, admitted_since=NOW - HOUR / 2), POLICY, NOW)
    assert (judgement.state, list(judgement.due)) == ("admitted", [stage])
    assert "by other rules" in judgement.due[stage]
    # Nor one that was proven again in service before the check came. What today's rules judged has to be whole.
    again = judge(replace(case, admitted_since=NOW - HOUR * 3 / 4), POLICY, NOW)
    assert (again.state, list(again.due)) == ("admitted", [stage])
    today = with_stage(stage, replace(older, rules=whole.rules))
    assert judge(replace(today, admitted_since=NOW - HOUR / 2), POLICY, NOW).state == "testing"


HOT = Finding("gpu_heat", "gpu SXM1 0000:1b:00.0", "fail", 61.5, 49.0, "C", "it is hot", "reseat")
AIR = Finding("gpu_heat", "host", "incomplete", reason="rack r1 is hot", action="investigate")


@pytest.mark.parametrize(("found", "state"), [(HOT, "rejected"), (AIR, "testing")])
def test_what_its_burn_in_shows_beside_others_admits_no_node_and_is_tested_again(found: Finding, state: str) -> None:
    case = replace(WHOLE, compared=(found,))
    judgement = judge(case, POLICY, NOW)
    assert (judgement.state, judgement.stage, found in judgement.findings) == (state, "burn_in", True)
    assert due_stages(case, POLICY, NOW) == ("preflight", "burn_in")
    # As any other burn-in that was measured and did not pass.
    assert due_stages(case, replace(POLICY, retest=False), NOW) == ("preflight",)
    given = {"check": "gpu_heat", "nodes": "n1", "reason": "known", "who": "ann", "until": "2099-01-01"}
    judgement = judge(case, replace(POLICY, waivers=(read(Waiver, given),)), NOW)
    assert (judgement.state, [each.finding for each in judgement.waived]) == ("admitted", [found])


def test_what_its_burn_in_shows_beside_others_is_of_that_burn_in_alone() -> None:
    for void in (with_stage("burn_in"), with_stage("burn_in", evidence("burn_in", finished=None))):
        judgement = judge(replace(void, compared=(HOT,)), POLICY, NOW)
        assert (judgement.state, HOT in judgement.findings) == ("testing", False)


@pytest.mark.parametrize("found", [HOT, AIR])
def test_cohort_that_moved_closes_no_node_in_service_but_is_owed(found: Finding) -> None:
    (last,) = (each for each in WHOLE.records if each.evidence.stage == "burn_in")
    served = replace(WHOLE, compared=(found,), admitted_since=NOW - HOUR / 4, judged=last.order)
    judgement = judge(served, POLICY, NOW)
    assert (judgement.state, list(judgement.due)) == ("admitted", ["burn_in"])
    assert found.reason in judgement.due["burn_in"]
    assert due_stages(served, POLICY, NOW) == ("preflight", "burn_in")
    # In a burn-in since then it counts as what that burn-in found.
    anew = replace(served, judged=last.order - 1)
    assert judge(anew, POLICY, NOW).state == ("rejected" if found is HOT else "testing")
    again = replace(last.evidence, detail={**last.evidence.detail, "judged_again": {"of": "burn_in-0", "from": {}}})
    known = [each for each in WHOLE.records if each is not last]
    old_outputs = replace(anew, records=(*known, replace(last, evidence=again)))
    assert judge(old_outputs, POLICY, NOW).state == "admitted"
    given = {"check": "gpu_heat", "nodes": "n1", "reason": "known", "who": "ann", "until": "2099-01-01"}
    policy = replace(POLICY, waivers=(read(Waiver, given),))
    assert [judge(case, policy, NOW).due for case in (served, anew)] == [{}, {}]


def test_a_node_in_service_does_not_age_out_and_still_fails_closed() -> None:
    later = NOW + 10_000 * HOUR
    fresh = evidence("preflight", id="preflight-2", started=later - 60, finished=later - 30)
    kept = [record for record in WHOLE.records if record.evidence.stage != "preflight"]
    case = replace(WHOLE, records=(*kept, Record(fresh, later, 9)), admitted_since=NOW)
    assert outcome(case, later) == ("admitted", "acceptance")
    assert outcome(replace(case, admitted_since=None), later) == ("testing", "burn_in")
    swapped = replace(case, fingerprint={**FINGERPRINT, "gpu_serials": "another"})
    assert outcome(swapped, later)[0] == "testing"


def test_unreachable_keeps_the_fault_that_was_measured() -> None:
    case = replace(with_stage("burn_in", FAILED), trouble=Trouble("preflight", "reach", "unreachable in this run"))
    judgement = judge(case, POLICY, NOW)
    assert [(f.check, f.verdict) for f in judgement.findings] == [("reach", "incomplete"), ("gpu_inventory", "fail")]
    assert judgement.state == "testing"


@pytest.mark.parametrize(
    ("case", "due", "runnable"),
    [
        (WHOLE, ("preflight",), ("preflight",)),
        (with_stage("burn_in"), ("preflight", "burn_in"), ("preflight", "burn_in")),
        (with_stage("acceptance"), ("preflight", "acceptance"), ("preflight", "acceptance")),
        (with_stage("burn_in", FAILED), ("preflight", "burn_in"), ("preflight", "burn_in")),
        (
            replace(
                WHOLE,
                fingerprint={**FINGERPRINT, "kernel": "another"},
                records=records(
                    evidence("preflight", fingerprint={**FINGERPRINT, "kernel": "another"}), *map(evidence, STAGES[1:])
                ),
            ),
            ("preflight", "acceptance"),
            ("preflight", "acceptance"),
        ),
        (
            replace(
                WHOLE,
                fingerprint={**FINGERPRINT, "gpu_serials": "another"},
                records=records(
                    evidence("preflight", fingerprint={**FINGERPRINT, "gpu_serials": "another"}),
                    *map(evidence, STAGES[1:]),
                ),
            ),
            ("preflight", "burn_in", "acceptance"),
            ("preflight", "burn_in"),
        ),
        (Case("n1", REQUIRED, (), None, DIGESTS), ("preflight", "burn_in", "acceptance"), ("preflight",)),
        (replace(WHOLE, decision="quarantined", records=()), ("preflight",), ("preflight",)),
        (replace(WHOLE, decision="spare", records=()), ("preflight", "burn_in", "acceptance"), STAGES[:2]),
        (
            with_stage("preflight", evidence("preflight", findings=(Finding("cpu", "host", "incomplete"),))),
            ("preflight",),
            ("preflight",),
        ),
        (
            replace(
                WHOLE,
                fingerprint={**FINGERPRINT, "gpu_serials": None},
                records=records(evidence("preflight", fingerprint={**FINGERPRINT, "gpu_serials": None}), BURN_IN),
            ),
            ("preflight", "burn_in", "acceptance"),
            ("preflight", "burn_in"),
        ),
        (
            replace(WHOLE, records=records(evidence("preflight", findings=()), BURN_IN)),
            ("preflight", "acceptance"),
            ("preflight",),
        ),
    ],
)
def test_due_stages(case: Case, due: tuple[str, ...], runnable: tuple[str, ...]) -> None:
    assert due_stages(case, POLICY, NOW) == due
    assert runnable_stages(case, POLICY, NOW) == runnable


def test_a_rejected_stage_is_due_again_unless_retest_is_off() -> None:
    once = replace(POLICY, retest=False)
    rejected = with_stage("burn_in", FAILED)
    assert due_stages(rejected, POLICY, NOW) == ("preflight", "burn_in")
    assert due_stages(rejected, once, NOW) == ("preflight",)
    assert due_stages(with_stage("burn_in"), once, NOW) == ("preflight", "burn_in")
    assert not ready_for("acceptance", rejected, once, NOW)
    unread = {**FINGERPRINT, "gpu_serials": None}
    lost = replace(with_stage("burn_in", replace(FAILED, fingerprint=unread)), fingerprint=unread)
    assert due_stages(lost, once, NOW) == ("preflight", "acceptance")
    assert due_stages(replace(lost, fingerprint=FINGERPRINT), once, NOW) == ("preflight", "burn_in")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"stages": []}, "policy.stages"),
        ({"stages": ["burn_in"]}, "policy.stages"),
        ({"burn_in_profile": "none"}, "policy.burn_in_profile"),
        ({"burn_in_profiles": {"standard": {"steps": []}}}, "policy.burn_in_profiles.standard.steps"),
        ({"fresh_hours": {"burn_in": math.nan}}, "policy.fresh_hours"),
        ({"fresh_hours": {"burn_in": -1}}, "policy.fresh_hours"),
        ({"retest": "no"}, "policy.retest"),
    ],
)
def test_policy_that_leaves_something_open_is_refused(change: dict[str, Any], named: str) -> None:
    policy = {
        "stages": list(STAGES),
        "burn_in_profile": "standard",
        "burn_in_profiles": {"standard": {"steps": STEPS["standard"], "interval_seconds": 5}},
        "fresh_hours": {},
        "retest": True,
        "heartbeat_seconds": None,
    }
    with pytest.raises(ReadError, match=named):
        read(Policy, {**policy, **change}, "policy")


WATCHED = replace(POLICY, heartbeat_seconds=900.0)
SOUND = Health("pass", (), 100.0)
XID = Finding("xid", "gpu SXM1 0000:1b:00.0", "fail", reason="Xid 79")
UNREAD = Finding("disk", "disk /var", "incomplete", reason="no answer")


@pytest.mark.parametrize(
    ("health", "since", "expected"),
    [
        (SOUND, None, ("admitted", "acceptance")),
        (SOUND, NOW - HOUR, ("admitted", "acceptance")),
        # Nobody asked it, or it gave no word.
        (None, None, ("testing", "health")),
        (None, NOW - HOUR, ("testing", "health")),
        (Health("", ()), None, ("testing", "health")),
        (Health("incomplete", ()), None, ("testing", "health")),
        (Health("incomplete", (UNREAD,), 100.0), NOW - HOUR, ("testing", "health")),
        (Health("fail", (XID,), 100.0), None, ("rejected", "health")),
        (Health("fail", (), 100.0), None, ("rejected", "health")),
        # A word that says one thing and shows another.
        (Health("pass", (XID,), 100.0), None, ("rejected", "health")),
        (Health("pass", (UNREAD,), 100.0), None, ("testing", "health")),
        # Slurm has to run it on a node in service, as soon as it had the time to.
        (replace(SOUND, service_age=900.0), NOW - HOUR, ("admitted", "acceptance")),
        (replace(SOUND, service_age=900.1), NOW - HOUR, ("testing", "health")),
        (replace(SOUND, service_age=None), NOW - HOUR, ("testing", "health")),
        (replace(SOUND, service_age=-301.0), NOW - HOUR, ("testing", "health")),
        (replace(SOUND, service_age=None), NOW - 900, ("admitted", "acceptance")),
        (replace(SOUND, service_age=None), NOW - 901, ("testing", "health")),
        (replace(SOUND, service_age=None), None, ("admitted", "acceptance")),
        (replace(SOUND, drained="muster:health:xid:e1"), None, ("rejected", "health")),
    ],
)
def test_only_a_node_whose_health_check_runs_and_passes_is_admitted(
    health: Health | None, since: float | None, expected: tuple[str, str]
) -> None:
    judgement = judge(replace(WHOLE, health=health, admitted_since=since), WATCHED, NOW)
    assert (judgement.state, judgement.stage) == expected
    assert judge(replace(WHOLE, health=health, admitted_since=since), POLICY, NOW).state == "admitted"


@pytest.mark.parametrize("verdict", ["pass", "fail"])
def test_waiver_covers_what_the_health_check_found(verdict: str) -> None:
    """Also that of a node which does not know of it yet; not what drained the node, or comes beside."""
    given = {"check": "xid", "subject": "gpu SXM1 *", "nodes": "n1", "reason": "known", "who": "ann"}
    policy = replace(WATCHED, waivers=(read(Waiver, {**given, "until": "2099-01-01"}),))
    case = replace(WHOLE, health=Health(verdict, (XID,), 100.0))
    judgement = judge(case, policy, NOW)
    assert (judgement.state, [each.finding for each in judgement.waived]) == ("admitted", [XID])
    over = replace(WATCHED, waivers=(read(Waiver, {**given, "until": "2020-01-01"}),))
    assert judge(case, over, NOW).state == "rejected"
    for health in (
        Health("fail", (XID, replace(XID, check="sxid")), 100.0),
        Health("fail", (), 100.0),
        Health(verdict, (XID,), 100.0, "muster:health:xid:e1"),
    ):
        assert judge(replace(case, health=health), policy, NOW).state == "rejected"
    assert judge(replace(case, health=Health("incomplete", (XID,), 100.0)), policy, NOW).state == "testing"


def test_stage_says_more_than_health() -> None:
    failed = evidence("burn_in", findings=(XID, Finding("xid", "host", "pass")))
    case = replace(with_stage("burn_in", failed), health=Health("fail", (XID,)))
    judgement = judge(case, WATCHED, NOW)
    assert (judgement.state, judgement.stage) == ("rejected", "burn_in")


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "pass",
        {},
        {"verdict": "pass"},
        {"verdict": "pass", "findings": [{}], "service_age_seconds": 1},
        {"verdict": "pass", "findings": 7, "service_age_seconds": 1},
        {"verdict": "pass", "findings": []},
    ],
)
def test_word_of_a_health_check_that_is_none_is_incomplete(data: Any) -> None:
    assert Health.from_answer(data).verdict == "incomplete"
    judgement = judge(replace(WHOLE, health=Health.from_answer(data)), WATCHED, NOW)
    assert (judgement.state, judgement.stage) == ("testing", "health")


@pytest.mark.parametrize("age", ["100", True, math.nan, math.inf, None])
def test_age_that_is_no_number_is_none(age: Any) -> None:
    word = Health.from_answer({"verdict": "pass", "findings": [], "service_age_seconds": age})
    assert (word.verdict, word.service_age) == ("pass", None)


@pytest.mark.parametrize("seconds", [0, -1, "900", True, math.nan])
def test_heartbeat_limit_that_is_none_is_refused(seconds: Any) -> None:
    policy = {
        "stages": list(STAGES),
        "burn_in_profile": "standard",
        "burn_in_profiles": {"standard": {"steps": STEPS["standard"], "interval_seconds": 5}},
        "fresh_hours": {},
        "retest": True,
        "heartbeat_seconds": seconds,
    }
    with pytest.raises(ReadError, match=r"policy\.heartbeat_seconds"):
        read(Policy, policy, "policy")


HGX = typed(expectations_of("hgx_h100", PLACED, "test"))
CHAT, AGENT, NONE = (
    with_mini_clusters(HGX, profile, 8, "test")
    for profile in (
        LatencyProfile("chat", "all_reduce", (65536,), {16: 60.0}),
        LatencyProfile("chat", "all_reduce", (65536,), {16: 50.0}),
        None,
    )
)


@pytest.mark.parametrize(
    ("proven", "asked", "left_out", "state"),
    [
        (CHAT, CHAT, "", "admitted"),
        (CHAT, CHAT, "mini_cluster_latency", "testing"),
        (AGENT, CHAT, "", "testing"),
        (NONE, CHAT, "", "testing"),
        (CHAT, NONE, "", "testing"),
        (NONE, NONE, "", "admitted"),
        (HGX, NONE, "", "admitted"),
    ],
    ids=["passed", "unmeasured", "other_limit", "declared_since", "dropped_since", "none", "none_before"],
)
def test_node_is_admitted_by_mini_clusters_of_the_declared_profile_alone(
    proven: Expectations, asked: Expectations, left_out: str, state: str
) -> None:
    (owed, _digests), (required, digests) = (requirements_of({"x": each}, POLICY)["x"] for each in (proven, asked))
    assert ("mini_cluster_latency" in dict(required["acceptance"])) == (asked is CHAT)
    given = [
        evidence(
            stage,
            expect_digest=expect_digest_of(stage, plain(proven)),
            findings=tuple(Finding(*pair, "pass") for pair in owed[stage] if pair[0] != left_out),
        )
        for stage in STAGES
    ]
    case = Case("n1", required, records(*given), FINGERPRINT, digests, identity=IDENTITY)
    # Neither burn-in nor anything else but acceptance is asked for again.
    assert outcome(case) == (state, "acceptance")
    due = due_stages(case, POLICY, NOW)
    assert due == (("preflight",) if state == "admitted" else ("preflight", "acceptance"))


def cases_of_all_kinds() -> dict[str, Case]:
    cpu = Finding("cpu", "host", "fail", reason="bad")
    sick = with_stage("preflight", evidence("preflight", findings=(*evidence("preflight").findings[1:], cpu)))
    return {
        "admitted": WHOLE,
        "rejected": sick,
        "decided": replace(sick, decision="quarantined"),
        "stale": with_stage("acceptance", evidence("acceptance", finished=NOW - 900 * HOUR)),
        "incomplete": with_stage("burn_in", evidence("burn_in", findings=())),
        "unreachable": replace(WHOLE, trouble=Trouble("preflight", "reach", "unreachable in this run")),
        "new": replace(WHOLE, records=(), fingerprint=None),
    }


@pytest.mark.parametrize("kind", cases_of_all_kinds())
def test_a_verdict_hands_on_no_pass_and_the_report_has_them_all(kind: str) -> None:
    case = cases_of_all_kinds()[kind]
    judgement = judge(case, POLICY, NOW)
    handed = judgement.to_dict()
    assert {finding["verdict"] for finding in handed["findings"]} <= {"fail", "incomplete"}
    assert handed == judgement.without_passes().to_dict()
    (verdict,) = verdicts_from([handed])
    completed = verdict.completed(record.evidence for record in case.records)
    assert Counter(completed.findings) == Counter(judgement.findings)
    assert set(completed.to_dict()) == {"node", "state", "stage", "findings", "waived", "due", "weaker"}
