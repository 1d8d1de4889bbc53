"""What dcgmi diag says, in the JSON and the tables of DCGM 2, 3 and 4."""

import json
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.formats.dcgm import (
    FAIL,
    PASS,
    SKIP,
    UNKNOWN,
    Result,
    Trouble,
    addresses_of,
    gpus_named,
    test_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.formats.dcgm_json import json_report
from ansible_collections.muster.cluster.plugins.module_utils.formats.dcgm_table import table_report
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Unreadable

# pytest would take it for a test by its name.
test_of.__test__ = False

HEALTHY = (Path(__file__).parents[2] / "healthy" / "dcgm_diag.txt").read_text()
HEAD = """\
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Metadata  ----------+------------------------------------------------|
| DCGM Version              | 4.4.2                                          |
| GPU Device IDs Detected   | 2330, 2330                                     |
|-----  Deployment  --------+------------------------------------------------|
"""
FOOT = "+---------------------------+------------------------------------------------+\n"


def row(name, value):
    return f"| {name:<25} | {value:<46} |\n"


def document(*tests, root="DCGM Diagnostic", category="Hardware"):
    return json.dumps({root: {"test_categories": [{"category": category, "tests": list(tests)}]}})


def by_gpu(report, test):
    return {result.gpu: result.status for result in report.results if result.test == test}


@pytest.mark.parametrize(
    ("name", "category", "test"),
    [
        ("GPU Memory", "Hardware", "memory"),
        ("memory", "Hardware", "memory"),
        ("PCIe", "Integration", "pcie"),
        ("Targeted Power", "Stress", "targeted_power"),
        ("targeted_power", "Stress", "targeted_power"),
        ("EUD Test", "Stress", "eud"),
        ("Pulse Test", "Hardware", "pulse_test"),
        ("Denylist", "Deployment", "software"),
        ("software", "Deployment", "software"),
        ("something new", "Hardware", "something_new"),
    ],
)
def test_all_versions_names_of_a_test_are_one(name, category, test):
    assert test_of(name, category) == test


@pytest.mark.parametrize("text", ["GPU 3 has errors", "fault on GPU3.", "GPU 3: GPU 3 is slow"])
def test_gpus_named(text):
    assert gpus_named(text) == (3,)


def test_result_of_dcgm_4_names_an_entity():
    test = {
        "name": "pcie",
        "results": [
            {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 0, "status": "Pass"},
            {
                "entity_group_id": 1,
                "entity_id": 1,
                "status": "Fail",
                "warnings": [{"warning": "x", "error_severity": 6}],
            },
            {"entity_group": "CPU", "entity_group_id": 7, "entity_id": 1, "status": "Skip"},
        ],
        "test_summary": {"status": "Fail"},
    }
    results = json_report(document(test)).results
    assert results == (
        Result("pcie", "pcie", 0, PASS),
        Result("pcie", "pcie", 1, FAIL, (Trouble("x", 6),)),
        Result("pcie", "pcie", None, SKIP),
    )


def test_summary_that_fails_alone_is_the_hosts():
    test = {"name": "pcie", "results": [{"gpu_id": 0, "status": "Pass"}], "test_summary": {"status": "Fail"}}
    assert by_gpu(json_report(document(test)), "pcie") == {0: PASS, None: FAIL}


def test_warning_that_the_summary_alone_says_is_the_hosts():
    summary = {"status": "Pass", "warnings": [{"warning": "GPU 1 is weak"}]}
    test = {"name": "pcie", "results": [{"gpu_id": 0, "status": "Pass"}], "test_summary": summary}
    assert json_report(document(test)).results[1] == Result("pcie", "pcie", None, PASS, (Trouble("GPU 1 is weak"),))
    test["results"][0]["warnings"] = summary["warnings"]
    assert by_gpu(json_report(document(test)), "pcie") == {0: PASS}


@pytest.mark.parametrize("key", ["error", "errors"])
def test_error_beside_the_results_leaves_them_and_is_no_pass(key):
    whole = json.loads(document({"name": "pcie", "results": [{"gpu_id": 0, "status": "Fail"}]}))
    report = json_report(json.dumps({**whole, key: "GPU 3 was lost"}))
    assert [(result.gpu, result.status) for result in report.results] == [(0, FAIL), (None, UNKNOWN)]
    assert report.results[1].troubles == (Trouble("GPU 3 was lost"),)


@pytest.mark.parametrize(
    "warnings", ["broken", ["broken"], [{"warning": "broken"}], [{"warnings": "broken", "error_severity": "2"}]]
)
def test_warnings_of_every_version(warnings):
    test = {"name": "GPU Memory", "results": [{"gpu_ids": "0,1", "status": "FAIL", "warnings": warnings}]}
    results = json_report(document(test, root="DCGM GPU Diagnostic")).results
    assert [(result.test, result.gpu, result.status, result.troubles) for result in results] == [
        ("memory", gpu, FAIL, (Trouble("broken"),)) for gpu in (0, 1)
    ]


@pytest.mark.parametrize("status", ["Passed", "", None, "PASS?", 0])
def test_unknown_status_is_not_a_pass(status):
    test = {"name": "pcie", "results": [{"gpu_id": "0", "status": status}]}
    assert by_gpu(json_report(document(test)), "pcie") == {0: UNKNOWN}


@pytest.mark.parametrize("status", ["Warn", "FAIL", "fail"])
def test_warn_is_a_fail(status):
    test = {"name": "pcie", "results": [{"gpu_id": "0", "status": status}]}
    assert by_gpu(json_report(document(test)), "pcie") == {0: FAIL}


def test_results_of_all_iterations_count():
    one, two = (
        json.loads(document({"name": "pcie", "results": [{"gpu_id": 0, "status": status}]}))
        for status in ("Pass", "Fail")
    )
    report = json_report(json.dumps({"iterations": [one, two], "Overall Result": "Fail"}))
    assert [result.status for result in report.results] == [PASS, FAIL]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "neither JSON nor a table"),
        ("{}", "no key 'DCGM Diagnostic'"),
        ('{"iterations": []}', "no iteration"),
        ('{"DCGM Diagnostic": []}', "expected a mapping"),
        ('{"DCGM Diagnostic": {}}', "no test was run"),
        ('{"DCGM Diagnostic": {"runtime_error": "Error: paused"}}', "did not run: Error: paused"),
        ('{"DCGM Diagnostic": {"test_categories": {"a": 1}}}', "found a dict where a list"),
        (document({"results": []}), "has no name"),
        (document({"name": "pcie", "results": [{"gpu_id": "x", "status": "Pass"}]}), "GPU 'x', expected a number"),
        (document({"name": "pcie", "results": [{"entity_group_id": 1, "status": "Pass"}]}), "GPU None"),
    ],
)
def test_json_that_says_too_little(text, said):
    with pytest.raises(Unreadable, match=said):
        json_report(text)


def test_table_of_dcgm_4():
    text = (
        HEAD
        + row("software", "Pass")
        + row("", "GPU0: Pass")
        + row("", "GPU1: Pass")
        + "+-----  Hardware  ----------+------------------------------------------------+\n"
        + row("memory", "Fail")
        + row("", "GPU0: Pass")
        + row("", "GPU1: Fail")
        + row("Warning: GPU1", "Memory is bad, and this text of it goes on ov")
        + row("", "er the edge.")
        + FOOT
    )
    report = table_report(text, [0, 1])
    assert (report.complete, report.version) == (True, "4.4.2")
    assert by_gpu(report, "software") == {0: PASS, 1: PASS}
    assert by_gpu(report, "memory") == {0: PASS, 1: FAIL}
    (failed,) = [result for result in report.results if result.status == FAIL]
    assert failed.troubles == (Trouble("GPU 1: Memory is bad, and this text of it goes on over the edge."),)


def test_table_of_dcgm_3_hides_a_fail_under_a_pass():
    text = (
        HEAD
        + row("Denylist", "Pass")
        + row("Targeted Power", "Pass - GPU: 0   ")
        + row("", "Fail - GPU: 1   ")
        + row("Warning", "GPU 1 is weak")
        + row("Info", "Fail - GPU: 0 is what somebody might read here")
        + FOOT
    )
    report = table_report(text.replace("Deployment", "Integration"), [0, 1])
    assert by_gpu(report, "targeted_power") == {0: PASS, 1: FAIL}


@pytest.mark.parametrize(
    ("gpus", "found"),
    [([0, 1], {0: PASS, 1: PASS}), ([0, 1, 2], {None: PASS}), (None, {None: PASS})],
)
def test_all_means_the_gpus_that_the_table_counts(gpus, found):
    text = HEAD.replace("Deployment", "Integration") + row("PCIe", "Pass - All") + FOOT
    assert by_gpu(table_report(text, gpus), "pcie") == found


def test_warning_below_a_test_that_all_passed_is_kept():
    text = (
        HEAD.replace("Deployment", "Integration") + row("PCIe", "Pass - All") + row("Warning", "GPU 1 is weak") + FOOT
    )
    results = table_report(text, [0, 1]).results
    assert [(each.gpu, each.status, bool(each.troubles)) for each in results] == [(0, PASS, False), (1, PASS, True)]


def test_list_that_is_cut_off_is_no_pass():
    text = HEAD.replace("Deployment", "Integration") + row("PCIe", "Pass - GPUs: 0, 1, ...") + FOOT
    assert by_gpu(table_report(text, [0, 1]), "pcie") == {None: UNKNOWN}


def test_error_without_a_test_fails_the_deployment():
    report = table_report(HEAD + row("Error", "GPU 3 has row") + row("", " remappings pending"), None)
    assert not report.complete
    assert report.results == (
        Result("software", "Deployment", None, FAIL, (Trouble("GPU 3 has row remappings pending"),)),
    )


@pytest.mark.parametrize("text", ["", "Error: unable to connect to host engine\n", HEAD, "\0\1\2"])
def test_text_without_a_test_is_unreadable(text):
    with pytest.raises(Unreadable, match="no result of a test"):
        table_report(text, [0])


def test_addresses_of_a_recorded_discovery(recorded):
    assert addresses_of(recorded("dcgmi/discovery-l-v100.txt")) == {0: "0000:60:00.0"}


def test_addresses_of_eight():
    found = addresses_of(HEALTHY)
    assert (len(found), found[0], found[7]) == (8, "0000:04:00.0", "0000:8c:00.0")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("8 GPUs found.", "", "no count of GPUs"),
        ("8 GPUs found.", "7 GPUs found.", "7 GPUs found and gives 8"),
        ("PCI Bus ID: 00000000:04:00.0", "PCI Bus ID: N/A", "gives 7"),
        ("PCI Bus ID: 00000000:04:00.0", "PCI Bus ID: 00000000:05:00.0", "twice"),
        ("| GPU ID |", "| CPU ID |", "gives 0"),
    ],
)
def test_discovery_that_says_too_little(old, new, said):
    assert old in HEALTHY
    with pytest.raises(Unreadable, match=said):
        addresses_of(HEALTHY.replace(old, new))
