from __future__ import annotations

import dataclasses
from html.parser import HTMLParser

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.checkpoint_plan import (
    FailureRate,
    Job,
    Save,
    plan_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.page import About, Part, report_page
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import Verdict

ABOUT = About(1763640000.0, "lab", "0.1.0", "5b0c8a4e-1111")
BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
MISSING = Finding(
    "gpu_inventory", "gpu SXM5 0000:9d:00.0", "fail", "absent", "NVIDIA H100", "", "not listed by nvidia-smi", "reboot"
)
HOSTILE = (
    "</td></table></details><script>alert('x')</script>\" onload=\"{{ 7 * 7 }}{% raw %}\x1b[31m\x00\udc80\u202e&lt;"
)


class Page(HTMLParser):
    """All that the tests ask of a page: its elements, attributes and text."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        # The page leaves out the end tags that HTML lets it leave out.
        if tag not in self.VOID | {"td", "th", "dt", "dd"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data


def gpus() -> tuple[Finding, ...]:
    return tuple(
        Finding("gpu_inventory", f"gpu SXM{at} 0000:{bus}:00.0", "pass", "NVIDIA H100", "NVIDIA H100")
        for at, bus in enumerate(BUSES, 1)
    )


def record(node: str, stage: str, findings: tuple[Finding, ...], **changes: object) -> Evidence:
    values: dict = {
        "id": f"{node}-{stage}-1",
        "node": node,
        "stage": stage,
        "started": 1763630000.0,
        "finished": 1763630042.0,
        "boot_id": "0d4e4c1e-7c3e",
        "fingerprint": {"gpu_driver": "550.90.07", "kernel": "6.1.0-26-amd64", "nccl": None},
        "expect_digest": "ab12",
        "findings": findings,
        "detail": {"profile": "short", "rounds": [1, 2]},
        "raw": {"nvidia_smi": "9f86d081"},
        "muster_version": "0.1.0",
    }
    return Evidence(**(values | changes))


def page_of(verdicts: list[Verdict], evidence: dict[str, list[Evidence]] | None = None, **options: object) -> str:
    return report_page(verdicts, evidence or {}, ABOUT, **options)  # type: ignore[arg-type]


def rejected(node: str = "gpu-03") -> tuple[Verdict, list[Evidence]]:
    findings = (*gpus()[:4], MISSING, *gpus()[5:])
    return Verdict(node, "rejected", "burn_in", findings), [record(node, "burn_in", findings)]


def test_page_says_what_a_vendor_needs_to_know() -> None:
    verdict, evidence = rejected()
    place = {"hardware_class": "hgx_h100", "pod": "pod-1", "rack": "r07", "address": "10.77.0.13"}
    text = Page(page_of([verdict], {"gpu-03": evidence}, places={"gpu-03": place})).text
    for part in (
        "lab: 0 of 1 node admitted",
        "hgx_h100 · pod-1 · r07 · 10.77.0.13",
        "gpu SXM5 0000:9d:00.0",
        "absent",
        "NVIDIA H100",
        "not listed by nvidia-smi",
        "reboot",
        "2025-11-20 09:13:20 UTC",
        "42 s",
        "0d4e4c1e-7c3e",
        "0.1.0",
        "gpu-03-burn_in-1",
        "550.90.07",
        "unreadable",
        "7 findings passed",
        "/var/lib/muster/evidence/burn_in/gpu-03-burn_in-1/raw/",
        "9f86d081",
        "5b0c8a4e-1111",
    ):
        assert part in text, part


def test_page_is_self_contained() -> None:
    verdict, evidence = rejected()
    html = page_of([verdict], {"gpu-03": evidence})
    page = Page(html)
    assert page.open == []
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not names & {"src", "srcset", "action"} and not any(name.startswith("on") for name in names)
    assert all((value or "").startswith("#") for name, value in page.attributes if name == "href")
    for remote in ("http:", "https:", "url(", "@import"):
        assert remote not in html


def test_text_of_hosts_is_only_ever_text() -> None:
    finding = dataclasses.replace(MISSING, subject=HOSTILE, reason=HOSTILE, measured=HOSTILE, unit="<b>")
    verdict = Verdict(HOSTILE, "rejected", HOSTILE, (finding,))
    odd = Verdict("a", HOSTILE, "", ())
    evidence = record(
        HOSTILE,
        "burn_in",
        (finding, *gpus()),
        id=HOSTILE,
        boot_id=HOSTILE,
        fingerprint={HOSTILE: HOSTILE},
        detail={HOSTILE: HOSTILE},
        raw={HOSTILE: HOSTILE},
        muster_version=HOSTILE,
    )
    html = report_page(
        [verdict, odd],
        {HOSTILE: [evidence]},
        About(0.0, HOSTILE, HOSTILE, HOSTILE),
        {HOSTILE: {"rack": HOSTILE}},
        {HOSTILE: [Part(HOSTILE, HOSTILE, HOSTILE, 1.0)]},
    )
    page = Page(html)
    harmless, records = rejected()
    plain = Page(page_of([harmless], {"gpu-03": records}, places={"gpu-03": {"rack": "r07"}}))
    assert page.open == [] and "script" not in page.tags
    assert set(page.tags) == set(plain.tags)
    assert "onload" not in {name for name, _ in page.attributes}
    assert "{{ 7 * 7 }}{% raw %}" in page.text and "49" not in page.text
    assert "\\u001b[31m\\u0000\\udc80\\u202e&lt;" in page.text
    html.encode("utf-8")
    assert not set("\x1b\x00\u202e") & set(html)


def test_findings_that_did_not_pass_are_never_dropped() -> None:
    hidden = Finding("clock", "host", "incomplete", None, 100, "ms", "chronyc gave no answer", "investigate")
    verdict, _ = rejected()
    text = Page(page_of([verdict], {"gpu-03": [record("gpu-03", "preflight", (hidden,))]})).text
    assert "chronyc gave no answer" in text and "not listed by nvidia-smi" in text


def test_latest_evidence_of_a_stage_is_shown() -> None:
    verdict, _ = rejected()
    old = record("gpu-03", "burn_in", gpus(), id="old", started=1.0)
    new = record("gpu-03", "burn_in", gpus(), id="newer", started=2.0)
    text = Page(page_of([verdict], {"gpu-03": [new, old]})).text
    assert "newer" in text and "old" not in text.split("Evidence")[1]


def test_unfinished_evidence_is_incomplete_whatever_it_found() -> None:
    html = page_of([Verdict("a", "testing", "burn_in", ())], {"a": [record("a", "burn_in", gpus(), finished=None)]})
    assert "not finished" in html
    assert '<h4>burn-in <span class="chip incomplete">' in html


@pytest.mark.parametrize(
    ("started", "finished", "says"),
    [
        (0.0, 7500.0, "2 h 05 min"),
        (0.0, 95.0, "1 min 35 s"),
        (0.0, 59.999, "60 s"),
        (10.0, 0.0, "the clock was set"),
        (1e300, 1e300, "not a time"),
        (0.0, float("nan"), "the clock was set"),
    ],
)
def test_times(started: float, finished: float, says: str) -> None:
    one = record("a", "burn_in", gpus(), started=started, finished=finished)
    assert says in page_of([Verdict("a", "testing", "burn_in", ())], {"a": [one]})


def test_fingerprints_that_differ_between_stages_say_which_stage_saw_what() -> None:
    verdict, evidence = rejected()
    other = record("gpu-03", "preflight", gpus(), fingerprint={"kernel": "6.1.0-27-amd64"})
    text = Page(page_of([verdict], {"gpu-03": [*evidence, other]})).text
    assert "6.1.0-27-amd64 (preflight)" in text and "6.1.0-26-amd64 (burn_in)" in text


def test_a_missing_part_is_named_by_the_serial_last_seen_in_its_place() -> None:
    verdict, evidence = rejected()
    parts = [Part("gpu", "SXM5", "1651", 1.0), Part("gpu", "SXM5", "1652", 2.0), Part("gpu", "SXM6", "1653", 3.0)]
    parts.append(Part("nic", "SXM5", "1654", 9.0))
    text = Page(page_of([verdict], {"gpu-03": evidence}, parts={"gpu-03": parts})).text
    assert "serial 1652" in text and "serial 1651" not in text
    assert "1651" in text and "1653" in text


def test_serial_numbers_stand_one_on_a_line() -> None:
    verdict, _ = rejected()
    serials = {"gpu_serials": "0000:1b:00.0=1650001,0000:9d:00.0=1650009", "nccl": "library a,b"}
    text = Page(page_of([verdict], {"gpu-03": [record("gpu-03", "preflight", (), fingerprint=serials)]})).text
    assert "0000:1b:00.0=1650001\n0000:9d:00.0=1650009" in text and "library a,b" in text


def test_sick_nodes_come_before_healthy_ones_and_are_open() -> None:
    verdict, evidence = rejected()
    healthy = Verdict("gpu-01", "admitted", "acceptance", gpus())
    html = page_of([healthy, verdict], {"gpu-03": evidence})
    assert html.index("gpu-03") < html.index("gpu-01")
    assert '<details class="node rejected" id="node-1" open>' in html
    assert '<details class="node admitted" id="node-2">' in html


def test_what_a_save_of_all_nodes_came_to_is_told() -> None:
    save = {"nodes": 4, "write_gb_per_s": 12.34567, "slowest_over_median": 1.1, "checkpoint": {"save_seconds": 2.0}}
    verdict = Verdict("gpu-01", "admitted", "storage", ())
    evidence = record("gpu-01", "storage", (), detail={"campaign": "c-1", "save": save, "rounds": [{"number": 1}]})
    text = Page(page_of([verdict], {"gpu-01": [evidence]})).text
    for part in ("write gb per s\n12.35", "slowest over median\n1.1", "nodes\n4", "campaign\nc-1"):
        assert part.replace("\n", "") in text.replace("\n", ""), part
    nothing = record("gpu-01", "storage", (), detail={"campaign": "c-1", "save": None})
    assert "c-1" in Page(page_of([verdict], {"gpu-01": [nothing]})).text


def test_plan_of_checkpoints_is_only_ever_text() -> None:
    job = Job(980e9, 8, 60, Save(60, 60, HOSTILE), FailureRate(6.5, HOSTILE), 300, 5)
    page = Page(report_page([], {}, dataclasses.replace(ABOUT, plan=plan_of(job))))
    assert page.open == [] and "script" not in page.tags
    for part in ("131072", "16384", "28.8 h", "storage writes", "arXiv 2410.21680", "<script>"):
        assert part in page.text, part


def test_no_nodes() -> None:
    assert "No node was targeted" in Page(page_of([])).text


def test_three_thousand_nodes_stay_readable() -> None:
    verdicts, evidence = [], {}
    for number in range(1, 3001):
        node = f"gpu-{number:04}"
        if number % 50 == 0:
            verdict, records = rejected(node)
        else:
            verdict, records = Verdict(node, "admitted", "acceptance", gpus()), []
            records = [record(node, stage, gpus()) for stage in ("preflight", "burn_in", "acceptance")]
        verdicts.append(verdict)
        evidence[node] = records
    html = page_of(verdicts, evidence)
    assert len(html) < 20e6
    assert "lab: 2940 of 3000 nodes admitted" in html
    # Sixty cards one below the other closed, the healthy ones behind one heading, and the work on one line.
    assert " open>" not in html
    assert html.count('<details class="node ') == 3000
    assert "and 36 more, below" in html


def test_one_cause_of_many_unmeasured_parts_is_one_line() -> None:
    unread = tuple(
        Finding(
            check, f"gpu SXM{at} 0000:{bus}:00.0", "incomplete", reason="nvidia_smi: not found", action="investigate"
        )
        for check in ("gpu_ecc", "gpu_power")
        for at, bus in enumerate(BUSES, 1)
    )
    slow = tuple(
        Finding("gpu_pcie", f"gpu SXM{at} 0000:{bus}:00.0", "fail", 8, 16, "lanes", "narrow", "reseat")
        for at, bus in enumerate(BUSES[:2], 1)
    )
    stopped = Finding("clock", "host", "incomplete", reason="chrony: not found", action="investigate")
    node = Verdict("gpu-01", "rejected", "burn_in", (*unread, *slow, stopped))
    page = Page(report_page([node], {"gpu-01": [record("gpu-01", "burn_in", (*unread, *slow, stopped))]}, ABOUT))
    assert page.text.count("nvidia_smi: not found") == 1
    assert "8 parts" in page.text and "2 checks" in page.text and "gpu_ecc, gpu_power" in page.text
    assert all(page.text.count(finding.subject) >= 1 for finding in unread)
    # What is at fault is listed part by part.
    assert page.text.count("narrow") == 3
    assert page.text.count("chrony: not found") == 1
