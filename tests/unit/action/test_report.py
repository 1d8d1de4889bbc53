"""The plugin is run by ansible-playbook against a real ledger."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger

from tests import warm_ansible
from tests.fleets import LAB, LEDGER_ID, small_fleet, variables_of

from ...browser.observed import Sick, Site, rounds

ROOT = Path(__file__).resolve().parents[3]
MISSING = Finding("gpu_inventory", "gpu SXM5 0000:9d:00.0", "fail", "absent", "H100", "", "gone \x1b[31m", "reboot")
CPU = Finding("cpu", "host", "pass", 96, 96, "cores")
VERDICTS = [
    {"node": "gpu-01", "state": "admitted", "stage": "acceptance", "findings": [CPU.to_dict()]},
    {"node": "gpu-03", "state": "rejected", "stage": "burn_in", "findings": [CPU.to_dict(), MISSING.to_dict()]},
]
PLAYBOOK = """
- name: Report
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Write the report
      muster.cluster.report:
        verdicts: "{{ data.verdicts }}"
        fleet: "{{ data.fleet }}"
        dest: out
      register: written
    - name: Show what it returned
      ansible.builtin.copy: {content: "{{ written | to_json }}", dest: "{{ playbook_dir }}/returned.json", mode: "0644"}
      check_mode: false
"""


@pytest.fixture
def site(tmp_path: Path) -> dict[str, Any]:
    url = f"sqlite:///{tmp_path}/ledger.sqlite"
    ledger = Ledger.create(url, LEDGER_ID, "lab")
    evidence = Evidence(
        "burn-1", "gpu-03", "burn_in", 1.0, 43.0, "boot-7", {"kernel": "6.1.0"}, "ab", (CPU, MISSING), {}, {}, "0.1.0"
    )
    serials = {"gpu_serials": "0000:1b:00.0=1650001,0000:9d:00.0=1650009"}
    seen = Evidence("pre-1", "gpu-03", "preflight", 1.0, 2.0, "boot-7", serials, "ab", (CPU,))
    with ledger.writing() as writer:
        assert writer.add_evidence([evidence, seen], 50.0) == []
    return {"verdicts": VERDICTS, "fleet": variables_of(Fleet.load(LAB), url)}


def play(at: Path, data: dict[str, Any], *arguments: str) -> subprocess.CompletedProcess[str]:
    (at / "play.yml").write_text(PLAYBOOK)
    (at / "data.json").write_text(json.dumps({"data": data}))
    return warm_ansible.run(
        [Path(sys.executable).parent / "ansible-playbook", "play.yml", "-e", "@data.json", *arguments],
        cwd=at,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), "ANSIBLE_NOCOLOR": "1"},
    )


def test_report_is_written_and_shown(tmp_path: Path, site: dict[str, Any]) -> None:
    result = play(tmp_path, site)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "changed: [localhost]" not in result.stdout.split("Show what")[0]
    rows = [line.split() for line in result.stdout.splitlines() if line.strip().startswith("gpu-")]
    assert [row[:3] for row in rows] == [["gpu-03", "rejected", "burn_in"], ["gpu-01", "admitted", "acceptance"]]
    assert "\x1b" not in result.stdout
    returned = json.loads((tmp_path / "returned.json").read_text())
    assert returned["changed"] is False
    assert returned["states"] == {"admitted": 1, "rejected": 1}
    assert returned["report_file"] == str(tmp_path / "out" / "report.html")
    verdicts = json.loads((tmp_path / "out/verdicts.json").read_text())
    assert [verdict["node"] for verdict in verdicts] == ["gpu-03", "gpu-01"]
    assert set(verdicts[0]) == {"node", "state", "stage", "findings", "waived", "due", "weaker"}
    assert set(verdicts[0]["findings"][1]) == set(MISSING.to_dict())
    page = (tmp_path / "out/report.html").read_text()
    for text in ("lab: 1 of 2 nodes admitted", "boot-7", "burn-1", "r2 · 10.77.0.13", "serial", "1650009"):
        assert text in page, text
    assert ">Checkpoints<" not in page, "no checkpoint is declared"
    assert "\x1b" not in page and "\\u001b[31m" in page
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.html", "verdicts.json"]


def with_rounds(site: dict[str, Any], spoilt: bool = False) -> dict[str, Any]:
    """Return the site with a campaign over 16 nodes in its ledger, and evidence that names it."""
    small = Site(16, rack=2, pod=8)
    fleet = variables_of(small_fleet(16), site["fleet"]["ledger"]["url"])
    stored = rounds(small, 15, Sick({"gpu-0007": 1.2}), campaign="c0ffee-1")
    if spoilt:
        stored = [replace(each, observations=[{"group": small.names, "ok": True, "results": "x"}]) for each in stored]
    ledger = Ledger.open(fleet["ledger"]["url"], LEDGER_ID, "lab")
    evidence = [
        Evidence(f"e-{name}", name, "acceptance", 5.0, 6.0, "b", {}, "ab", (CPU,), {"campaign": "c0ffee-1"})
        for name in small.names
    ]
    with ledger.writing() as writer:
        for each in stored:
            writer.save_round(each)
        assert writer.add_evidence(evidence, 50.0) == []
    verdicts = [{"node": name, "state": "admitted", "stage": "acceptance", "findings": []} for name in small.names]
    return {"verdicts": verdicts, "fleet": fleet}


def test_recorded_rounds_are_drawn_and_exported(tmp_path: Path, site: dict[str, Any]) -> None:
    result = play(tmp_path, with_rounds(site))
    assert result.returncode == 0, result.stdout + result.stderr
    page = (tmp_path / "out/report.html").read_text()
    for text in ("data:image/png;base64", "15 permutations of pairs", "120 exchanges", "Slow with everybody"):
        assert text in page, text
    assert page.count("<svg") >= 10
    assert page.count('<a href="#campaign-1-round-1">round 1</a>') == 16, "from each node's evidence"
    exported = json.loads((tmp_path / "out/acceptance.json").read_text())
    assert (exported["cluster"], exported["fabric"], list(exported["classes"])) == ("lab", "roce", ["hgx_h100"])
    assert json.loads((tmp_path / "returned.json").read_text())["acceptance_file"].endswith("out/acceptance.json")


def test_rounds_that_cannot_be_read_leave_the_verdicts(tmp_path: Path, site: dict[str, Any]) -> None:
    result = play(tmp_path, with_rounds(site, spoilt=True))
    assert result.returncode == 0, result.stdout + result.stderr
    page = (tmp_path / "out/report.html").read_text()
    assert "16 of 16 nodes admitted" in page and "can be drawn" in page and "<svg" not in page
    assert not (tmp_path / "out/acceptance.json").exists()


TIER = {"name": "checkpoints", "kind": "existing", "path": "/weka", "filesystem": "wekafs"}
CHECKPOINT = {
    "tier": "checkpoints",
    "model": {"parameters": 70_000_000_000, "ranks": 1024, "bytes_per_parameter": 14},
    "target_seconds": 60,
    "failures_per_1000_node_days": 6.5,
}


@pytest.mark.parametrize(
    ("gpus", "page_says", "run_says"),
    [(8, '<td class="count">131072<td class="count">16384', ""), (0, "", "no plan of checkpoints: gpu.count")],
)
def test_plan_of_declared_checkpoints_is_on_the_page(
    tmp_path: Path, site: dict[str, Any], gpus: int, page_says: str, run_says: str
) -> None:
    storage = {"tiers": [TIER], "checkpoint": CHECKPOINT}
    none = {} if gpus else {"hardware_classes": {"hgx_h100": {"gpu": None, "gpu_stack": None}}}
    declared = small_fleet(4, storage=storage, **none)
    result = play(tmp_path, {**site, "fleet": variables_of(declared, site["fleet"]["ledger"]["url"])})
    assert result.returncode == 0, result.stdout + result.stderr
    page = (tmp_path / "out/report.html").read_text()
    assert (">Checkpoints<" in page) == bool(page_says) and page_says in page
    assert run_says in result.stdout + result.stderr


def test_check_mode_leaves_no_trace(tmp_path: Path, site: dict[str, Any]) -> None:
    result = play(tmp_path, site, "--check")
    assert result.returncode == 0, result.stdout + result.stderr
    assert not (tmp_path / "out").exists()
    assert "gpu-03" in result.stdout


def spoil_rounds(file: Path, column: str, value: str) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(f"update round set {column} = ?", [value])


def cut(file: Path) -> None:
    with file.open("r+b") as ledger:
        ledger.truncate(file.stat().st_size // 2)


def overwrite(file: Path) -> None:
    file.write_bytes(b"\0garbage" * 4000)


SPOILT: list[tuple[Callable[[Path], None], str]] = [
    (cut, "ledger.sqlite: database disk image is malformed; restore it from a copy"),
    (overwrite, "ledger.sqlite: file is not a database; restore it from a copy"),
    (lambda file: spoil_rounds(file, "plan", "{"), "ledger.sqlite: round.plan is '{', expected JSON"),
    (lambda file: spoil_rounds(file, "observations", "[1"), "ledger.sqlite: round.observations is '[1', expected JSON"),
    (
        lambda file: spoil_rounds(file, "plan", "[]"),
        "ledger.sqlite: round 1 of campaign c0ffee-1: round.plan is list, expected a mapping; restore it from a copy",
    ),
    (
        lambda file: spoil_rounds(file, "observations", "5"),
        "ledger.sqlite: round 1 of campaign c0ffee-1: round.observations is int, expected a list; restore it",
    ),
]


@pytest.mark.parametrize(("spoil", "says"), SPOILT)
def test_spoilt_ledger_is_named_and_the_page_before_stays(
    tmp_path: Path, site: dict[str, Any], spoil: Callable[[Path], None], says: str
) -> None:
    data = with_rounds(site)
    spoil(tmp_path / "ledger.sqlite")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/report.html").write_text("as it was")
    result = play(tmp_path, data)
    said = " ".join((result.stdout + result.stderr).split())
    assert result.returncode == 2 and says in said, said
    assert "Traceback" not in said
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]
    assert (tmp_path / "out/report.html").read_text() == "as it was"


def test_a_campaign_without_rounds_is_said_on_the_page(tmp_path: Path, site: dict[str, Any]) -> None:
    data = with_rounds(site)
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as database, database:
        database.execute("delete from round")
    assert play(tmp_path, data).returncode == 0
    assert "Campaign c0ffee-1, which the acceptance evidence of 16 nodes names, has no rounds" in (
        tmp_path / "out/report.html"
    ).read_text(encoding="utf-8")


def test_a_second_run_writes_the_same_but_for_its_time(tmp_path: Path, site: dict[str, Any]) -> None:
    data, pages = with_rounds(site), []
    for _ in range(2):
        result = play(tmp_path, data)
        assert result.returncode == 0, result.stdout + result.stderr
        files = sorted((tmp_path / "out").iterdir())
        pages.append({file.name: re.sub(r"Written [0-9: -]+ UTC", "", file.read_text()) for file in files})
    assert pages[0] == pages[1] and len(pages[0]) == 3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"verdicts": [{"node": "gpu-01"}]}, "verdicts[0].state: found nothing, expected text"),
        ({"fleet": {"cluster": "lab", "nodes": {}}}, "muster_fleet: classes: found nothing, expected a mapping"),
        ({"fleet": variables_of(Fleet.load(LAB), "sqlite:////none.sqlite")}, "none.sqlite: no such file"),
    ],
)
def test_wrong_input_writes_nothing(tmp_path: Path, site: dict[str, Any], change: dict[str, Any], says: str) -> None:
    result = play(tmp_path, site | change)
    assert result.returncode == 2
    assert says in result.stdout + result.stderr
    assert not (tmp_path / "out").exists()
