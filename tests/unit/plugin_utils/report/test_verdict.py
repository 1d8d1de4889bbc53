from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.module_utils.words.printable import printable
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission import STATES
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import (
    STATES_SHOWN,
    Row,
    Verdict,
    quantity,
    verdict_rows,
    verdicts_from,
    words,
    worst_finding,
)

PASSED = Finding("cpu", "host", "pass", 96, 96, "cores")
MISSING = Finding(
    "gpu_inventory", "gpu SXM5 0000:9d:00.0", "fail", "absent", "NVIDIA H100 80GB HBM3", "", "not listed", "reboot"
)
UNREAD = Finding("clock", "host", "incomplete", None, 100, "ms", "chronyc: no answer within 5 s", "investigate")


def plain(node: str, state: str, stage: str | None = "burn_in", findings: tuple[Finding, ...] = ()) -> dict:
    return {"node": node, "state": state, "stage": stage, "findings": [finding.to_dict() for finding in findings]}


def test_sick_nodes_come_first_and_names_count() -> None:
    names = [("gpu-10", "admitted"), ("gpu-9", "admitted"), ("gpu-2", "held"), ("gpu-7", "rejected"), ("x", "unheard")]
    got = verdicts_from([plain(name, state) for name, state in names])
    assert [verdict.node for verdict in got] == ["x", "gpu-7", "gpu-2", "gpu-9", "gpu-10"]


def test_verdicts_survive_a_round_trip() -> None:
    got = verdicts_from([plain("gpu-03", "rejected", "burn_in", (PASSED, MISSING))])
    assert verdicts_from([verdict.to_dict() for verdict in got]) == got


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("text", 'verdicts: found "text", expected a list'),
        ({}, "verdicts: found a mapping, expected a list"),
        ([1], r"verdicts\[0\]: found 1, expected a mapping"),
        ([{**plain("a", "new"), "node": ""}], r'verdicts\[0\].node: found "", expected text'),
        ([{"node": "a", "findings": []}], r"verdicts\[0\].state: found nothing, expected text"),
        ([{**plain("a", "new"), "stage": 3}], r"stage: found 3, expected text"),
        ([{"node": "a", "state": "new", "stage": ""}], r"findings: found nothing, expected a list"),
        ([{**plain("a", "new"), "findings": [{"check": "cpu"}]}], r"findings\[0\]: found finding: missing fields"),
        ([{**plain("a", "new"), "findings": [7]}], r"verdicts\[0\].findings\[0\]: found finding is int"),
        ([{**plain("a", "new"), "evidence": [7]}], r"evidence\[0\]: found 7, expected text"),
        ([plain("a", "new"), plain("a", "held")], "node 'a' twice"),
    ],
)
def test_wrong_data_is_named(data: object, says: str) -> None:
    with pytest.raises(ReadError, match=says):
        verdicts_from(data)


@pytest.mark.parametrize(
    ("findings", "worst"),
    [
        ((), None),
        ((PASSED,), None),
        ((PASSED, UNREAD), UNREAD),
        ((UNREAD, MISSING), MISSING),
        ((Finding("a", "x", "fail", action="reboot"), Finding("b", "y", "fail", action="rma")), "b"),
        ((Finding("a", "x", "fail", action="reboot"), Finding("b", "y", "fail", action="reboot")), "a"),
    ],
)
def test_worst_finding_is_worst_verdict_then_most_drastic_action(
    findings: tuple[Finding, ...], worst: Finding | str | None
) -> None:
    found = worst_finding(findings)
    assert (found.check if isinstance(worst, str) and found else found) == worst


def test_rows_explain_the_state() -> None:
    rows = verdict_rows(
        [
            Verdict("gpu-03", "rejected", "burn_in", (PASSED, UNREAD, MISSING)),
            Verdict("gpu-04", "testing", "burn_in", (UNREAD,)),
            Verdict("gpu-05", "testing", "", ()),
            Verdict("gpu-01", "admitted", "acceptance", (PASSED,)),
        ]
    )
    assert rows == [
        Row(
            "gpu-03",
            "rejected",
            "burn_in",
            "gpu SXM5 0000:9d:00.0: not listed",
            "absent",
            "NVIDIA H100 80GB HBM3",
        ),
        Row("gpu-04", "testing", "burn_in", "chronyc: no answer within 5 s", "", "100 ms"),
        Row("gpu-05", "testing", "", "no findings yet", "", ""),
        Row("gpu-01", "admitted", "acceptance", "", "", ""),
    ]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "GB/s", ""),
        (0, "", "0"),
        (0.1 + 0.2, "GB/s", "0.3 GB/s"),
        (0.023916, "GB/s", "0.02392 GB/s"),
        (123456.7, "MB/s", "123457 MB/s"),
        (81559, "MiB", "81559 MiB"),
        (float("nan"), "", "nan"),
        ("absent", "", "absent"),
    ],
)
def test_quantity(value: object, unit: str, text: str) -> None:
    assert quantity(value, unit) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gpu-01", "gpu-01"),
        ("größer", "größer"),
        ("two\nlines\t", "two\nlines\t"),
        ("\x1b[31mred", "\\u001b[31mred"),
        ("a\u202eb\u2066\u200b\ufeff", "a\\u202eb\\u2066\\u200b\\ufeff"),
        ("\x00\r\x9b\u2028\udc80", "\\u0000\\u000d\\u009b\\u2028\\udc80"),
    ],
)
def test_printable_writes_out_what_could_steer_a_terminal(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_words() -> None:
    assert [words(name) for name in ("burn_in", "gpu_serials", "reset_gpu", "none", "")] == [
        "burn-in",
        "GPU serials",
        "reset GPU",
        "none",
        "",
    ]


def test_every_state_has_its_place_on_the_page():
    assert sorted(STATES_SHOWN) == sorted(STATES)
