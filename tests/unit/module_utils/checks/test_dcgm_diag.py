"""The verdict on dcgmi diag: skips are no passes, and no node is blamed by a guess."""

import json

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import dcgm_diag
from ansible_collections.muster.cluster.plugins.module_utils.formats.dcgm import (
    FAIL,
    PASS,
    SKIP,
    UNKNOWN,
    Report,
    Result,
    Trouble,
)
from ansible_collections.muster.cluster.plugins.module_utils.formats.dcgm_json import json_report
from ansible_collections.muster.cluster.plugins.module_utils.formats.dcgm_table import table_report
from ansible_collections.muster.cluster.plugins.module_utils.stress.dcgm_diag import Diagnosis

from tests.typed import typed

FIRST, SECOND = "gpu SXM1 0000:1b:00.0", "gpu SXM6 0000:ab:00.0"
# dcgmi counts the other way round.
ADDRESSES = {0: "0000:ab:00.0", 1: "0000:1b:00.0"}
TESTS = (
    "memory",
    "pcie",
    "diagnostic",
    "memory_bandwidth",
    "targeted_stress",
    "targeted_power",
)


def results(*changed, software=PASS):
    """Return a level 3 that passes on both GPUs, but for the results in ``changed``."""
    found = {("software", None): Result("software", "Denylist", None, software)}
    found |= {(test, gpu): Result(test, test, gpu, PASS) for test in TESTS for gpu in (0, 1)}
    return tuple({**found, **{(result.test, result.gpu): result for result in changed}}.values())


def decide(expect, found, *, level=3, addresses=ADDRESSES, complete=True, exit_status=0, version="4.2.3"):  # noqa: PLR0913 -- a run
    diagnosis = Diagnosis(level, Report(found, complete, version), addresses, "no listing", exit_status)
    findings = dcgm_diag.decide({"dcgm_diag": diagnosis}, typed(expect))
    assert len({finding.subject for finding in findings}) == len(findings)
    return {finding.subject: finding for finding in findings}


def verdicts(findings):
    return [findings[subject].verdict for subject in (FIRST, SECOND, "host")]


def test_level_3_that_passes(expect):
    assert verdicts(decide(expect, results())) == ["pass", "pass", "pass"]


def test_class_that_requires_nothing_of_a_level_passes_nobody(expect):
    expect["dcgm"]["required"] = [{"level": 4, "tests": ["memtest"]}]
    assert verdicts(decide(expect, results())) == ["incomplete", "incomplete", "incomplete"]


@pytest.mark.parametrize("status", [SKIP, UNKNOWN])
@pytest.mark.parametrize("test", TESTS)
def test_required_test_that_was_not_passed_is_incomplete(expect, test, status):
    found = decide(expect, results(Result(test, test, 0, status, (Trouble("no ECC"),))))
    assert verdicts(found) == ["pass", "incomplete", "pass"]
    assert f"{test} is required and" in found[SECOND].reason and "no ECC" in found[SECOND].reason


@pytest.mark.parametrize("test", TESTS)
def test_required_test_that_is_absent_is_incomplete(expect, test):
    found = decide(expect, tuple(result for result in results() if (result.test, result.gpu) != (test, 0)))
    assert verdicts(found) == ["pass", "incomplete", "pass"]
    assert f"{test} is required and not reported" in found[SECOND].reason


def test_level_below_does_not_owe_the_tests_of_the_level_above(expect):
    found = tuple(result for result in results() if result.test in ("software", "memory", "pcie"))
    assert verdicts(decide(expect, found, level=2)) == ["pass", "pass", "pass"]
    assert verdicts(decide(expect, found, level=3)) == ["incomplete", "incomplete", "pass"]


def test_skip_of_a_test_that_the_class_does_not_require_is_no_matter(expect):
    found = (*results(), Result("eud", "EUD Test", 0, SKIP), Result("eud", "EUD Test", 1, SKIP))
    assert verdicts(decide(expect, found)) == ["pass", "pass", "pass"]


@pytest.mark.parametrize(("required", "verdict"), [(False, "pass"), (True, "incomplete")])
def test_extended_utility_diagnostic_where_the_class_requires_it(expect, required, verdict):
    expect["dcgm"]["eud_required"] = required
    more = [Result(test, test, gpu, PASS) for test in ("memtest", "pulse_test") for gpu in (0, 1)]
    found = (*results(), *more, Result("eud", "EUD Test", None, SKIP))
    assert verdicts(decide(expect, found, level=4)) == [verdict, verdict, "pass"]
    done = (*results(), *more, *(Result("eud", "eud", gpu, PASS) for gpu in (0, 1)))
    assert verdicts(decide(expect, done, level=4)) == ["pass", "pass", "pass"]


@pytest.mark.parametrize(
    ("test", "text", "severity", "action"),
    [
        ("memory", "", None, "rma"),
        ("memory", "Thermal violations totaling 13.3 seconds", None, "investigate"),
        ("memory", "Error using CUDA API cuInit: 'system not yet initialized'", None, "investigate"),
        ("memory", "row remappings are pending", None, "reset_gpu"),
        ("memory", "row remapping failed", None, "rma"),
        ("memory", "GPU has fallen off the bus", None, "reboot"),
        ("memory", "something else", 6, "reset_gpu"),
        ("diagnostic", "miscompare", 2, "rma"),
        ("diagnostic", "wrong setting", 5, "investigate"),
        ("pcie", "bandwidth too low", 2, "reseat"),
        ("targeted_power", "Max power of 224.1 did not reach desired power minimum", 1, "investigate"),
        ("memory_bandwidth", "", None, "investigate"),
        ("something_new", "", None, "investigate"),
    ],
)
def test_failure_names_the_part_and_what_to_do(expect, test, text, severity, action):
    troubles = (Trouble(text, severity),) if text else ()
    found = decide(expect, (*results(), Result(test, test, 0, FAIL, troubles)), exit_status=226)
    assert verdicts(found) == ["pass", "fail", "pass"]
    assert (found[SECOND].action, found[SECOND].measured) == (action, f"{test}: fail")
    assert text in found[SECOND].reason


def test_failure_of_the_hosts_software_is_the_hosts_and_of_the_gpu_it_names(expect):
    trouble = Trouble("GPU 0 has uncorrectable memory errors and row remappings are pending")
    found = decide(expect, results(Result("software", "Page Retirement/Row Remap", None, FAIL, (trouble,))))
    assert found["host"].verdict == found[SECOND].verdict == "fail"
    assert found["host"].action == found[SECOND].action == "reset_gpu"
    # The software's tests are required of every GPU.
    assert found[FIRST].verdict == "incomplete"


def test_persistence_mode_is_not_a_reason_to_return_a_gpu(expect):
    found = decide(expect, results(Result("software", "Persistence Mode", None, FAIL)))
    assert (found["host"].verdict, found["host"].action) == ("fail", "investigate")


def test_failure_on_a_gpu_that_cannot_be_told_blames_the_host_alone(expect):
    found = decide(expect, results(Result("memory", "memory", 0, FAIL)), addresses=None)
    assert verdicts(found) == ["incomplete", "incomplete", "fail"]
    assert "on DCGM GPU 0" in found["host"].reason
    assert "no listing" in found[FIRST].reason


def test_gpu_that_dcgmi_does_not_list_is_incomplete(expect):
    found = decide(expect, results(), addresses={0: ADDRESSES[0]})
    assert verdicts(found) == ["incomplete", "pass", "pass"]
    assert "dcgmi lists no GPU at 0000:1b:00.0" in found[FIRST].reason


def test_failed_gpu_that_the_class_does_not_have_is_named_by_its_address(expect):
    found = decide(expect, results(Result("memory", "memory", 2, FAIL)), addresses={**ADDRESSES, 2: "0000:cd:00.0"})
    assert found["gpu 0000:cd:00.0"].verdict == "fail"
    assert verdicts(found) == ["pass", "pass", "pass"]


@pytest.mark.parametrize(
    ("severity", "verdict", "action"), [(1, "pass", "investigate"), (2, "incomplete", "investigate")]
)
def test_pass_beside_an_error_is_watched_or_in_doubt(expect, severity, verdict, action):
    trouble = Trouble("cannot allocate enough memory", severity)
    found = decide(expect, results(Result("memory", "memory", 0, PASS, (trouble,))), exit_status=226)
    assert (found[SECOND].verdict, found[SECOND].action) == (verdict, action)
    assert "cannot allocate enough memory" in found[SECOND].reason


def test_status_without_a_failure_passes_no_host(expect):
    found = decide(expect, results(), exit_status=226)
    assert found["host"].verdict == "incomplete"
    assert "ended with status 226" in found["host"].reason


def test_test_of_unknown_outcome_passes_no_host(expect):
    found = decide(expect, (*results(), Result("memory", "memory", None, UNKNOWN)))
    assert found["host"].verdict == "incomplete"
    assert "memory: has an unknown status" in found["host"].reason


def test_table_without_its_end_passes_nobody(expect):
    assert verdicts(decide(expect, results(), complete=False)) == ["incomplete"] * 3


def test_nothing_passes_nobody(expect):
    assert verdicts(decide(expect, ())) == ["incomplete"] * 3


BUSY = (
    "The memory copy utilization for the GPU: 0 is greater than 10%. "
    "This may affect the results of the nvbandwidth test."
)


def nvbandwidth(text=BUSY, gpus=(0, 1), blamed=0):
    """Return level 3 with a failed nvbandwidth, which fails on all GPUs and says why of one."""
    failed = (
        Result("nvbandwidth", "nvbandwidth", gpu, FAIL, (Trouble(text, 2),) if gpu == blamed else ()) for gpu in gpus
    )
    return (*results(), *failed)


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("version", ["4.4.2", "4.5.0"])
def test_failure_that_is_known_of_the_version_is_neither_fail_nor_pass(expect, version, required):
    if required:
        expect["dcgm"]["required"].append({"level": 3, "tests": ["nvbandwidth"]})
    found = decide(expect, nvbandwidth(), version=version, exit_status=226)
    assert verdicts(found) == ["incomplete", "incomplete", "pass"]
    for subject in (FIRST, SECOND):
        assert f"known of dcgmi {version}: nvbandwidth takes the load" in found[subject].reason
        assert found[subject].reason.count("NVIDIA/DCGM issue 272") == 1
        assert "install 4.5.1 or another version" in found[subject].reason


@pytest.mark.parametrize("version", ["4.4.1", "4.5.1", "4.5.2", None])
def test_failure_of_another_or_of_no_version_is_one(expect, version):
    assert verdicts(decide(expect, nvbandwidth(), version=version)) == ["fail", "fail", "pass"]


def test_failure_of_a_known_test_that_says_something_else_is_one(expect):
    found = decide(expect, nvbandwidth("GPU 0 has fallen off the bus"), version="4.5.0")
    assert verdicts(found) == ["incomplete", "fail", "pass"]
    assert found[SECOND].action == "reboot"
    both = Result("nvbandwidth", "nvbandwidth", 0, FAIL, (Trouble(BUSY), Trouble("Detected XID 79")))
    assert verdicts(decide(expect, (*results(), both), version="4.5.0")) == ["pass", "fail", "pass"]


@pytest.mark.parametrize("test", TESTS)
def test_another_failure_beside_a_known_one_is_one(expect, test):
    failed = Result(test, test, 1, FAIL, (Trouble("miscompare"),))
    found = decide(expect, (*nvbandwidth(), failed), version="4.5.0")
    assert verdicts(found) == ["fail", "incomplete", "pass"]
    assert "nvbandwidth" not in found[FIRST].reason


@pytest.mark.parametrize(("gpus", "addresses"), [((0, 1), None), ((None,), ADDRESSES)])
def test_known_failure_that_no_gpu_can_be_told_of_passes_no_host(expect, gpus, addresses):
    found = decide(expect, nvbandwidth(gpus=gpus), version="4.5.0", addresses=addresses, exit_status=226)
    assert found["host"].verdict == "incomplete"
    assert found["host"].reason.count("NVIDIA/DCGM issue 272") == 1


def test_known_failure_in_the_json_of_dcgm(expect):
    entities = [{"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": "Fail"} for gpu in (0, 1)]
    entities[0]["warnings"] = [{"error_category": 3, "error_id": 36, "error_severity": 2, "warning": BUSY}]
    test = {"name": "nvbandwidth", "results": entities, "test_summary": {"status": "Fail"}}
    body = {"test_categories": [{"category": "Hardware", "tests": [test]}]}
    report = json_report(json.dumps({"DCGM Diagnostic": body, "metadata": {"version": "4.5.0"}}))
    found = decide(expect, (*results(), *report.results), version=report.version)
    assert verdicts(found) == ["incomplete", "incomplete", "pass"]


def test_known_failure_in_the_table_of_dcgm(expect):
    pieces = [BUSY[start : start + 45] for start in range(0, len(BUSY), 45)]
    rows = [("DCGM Version", "4.5.0"), ("nvbandwidth", "Fail"), ("", "GPU0: Fail"), ("", "GPU1: Fail")]
    rows += [("Warning: GPU0", pieces[0]), *(("", piece) for piece in pieces[1:])]
    report = table_report("".join(f"| {name:<25} | {value:<46} |\n" for name, value in rows), [0, 1])
    found = decide(expect, (*results(), *report.results), version=report.version)
    assert verdicts(found) == ["incomplete", "incomplete", "pass"]


@pytest.mark.parametrize("without", ["dcgm", "gpu"])
def test_class_without_dcgm_or_gpus_owes_nothing(expect, without):
    assert dcgm_diag.subjects(typed(expect)) == [FIRST, SECOND, "host"]
    expect[without] = None
    assert list(dcgm_diag.subjects(typed(expect))) == []
