"""The plugin is run by ansible-playbook through its playbook, against real ledgers and exported files."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger
from ansible_collections.muster.cluster.plugins.plugin_utils.report.fleet_comparison import Summary, values_of
from ansible_collections.muster.cluster.plugins.plugin_utils.report.measured import measured

from tests import warm_ansible
from tests.placed import PLACED

from ...browser.observed import Sick, Site, rounds

ROOT = Path(__file__).resolve().parents[3]
SITE = Site(16, rack=2, pod=8)
LEDGER = "3d0c5f9e-2f47-4e0c-9f0a-5b8a1c6d7e21"


def fleet_file(at: Path, name: str, campaigns: dict[str, int] | None = None) -> Path:
    """Write a fleet and its ledger; ``campaigns`` has the number of nodes by name."""
    declared = {
        "plugin": "muster.cluster.fleet",
        "cluster": name,
        "hosts": [{"name": "ctl", "role": "controller", "address": "10.1.0.10"}],
        "nodes": [
            {
                "name": "gpu-[0001-0016]",
                "hardware_class": "hgx_h100",
                "address": "10.1.16.1",
                "pods": {"name": "pod-[1-2]", "nodes_each": 8},
                "racks": {"name": "rack-[1-8]", "nodes_each": 2},
            }
        ],
        "hardware_classes": PLACED,
        "fabric": {"kind": "infiniband", "speed_gbps": 400, "socket_interface": "bond0"},
        "scheduler": {"partitions": [{"name": "batch", "default": True}]},
        "ledger": {"url": f"sqlite:///{name}.sqlite", "id": LEDGER},
    }
    path = at / f"{name}.fleet.yml"
    path.write_text(yaml.safe_dump(declared))
    ledger = Ledger.create(f"sqlite:///{at / name}.sqlite", LEDGER, name)
    with ledger.writing() as writer:
        for campaign, nodes in (campaigns or {}).items():
            for each in rounds(Site(nodes, rack=2, pod=8), 15, Sick(), campaign=campaign):
                writer.save_round(each)
    return path


def exported(at: Path, name: str, hardware_class: str = "hgx_h100") -> Path:
    slow = Sick(dict.fromkeys(SITE.names, 1.25))
    values = values_of(measured(rounds(SITE, 15, slow, seed=3)), SITE.places)
    path = at / f"{name}.json"
    path.write_text(json.dumps(Summary(name, "roce", {hardware_class: values}).to_dict()))
    return path


def play(at: Path, left: Path, right: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm_ansible.run(
        [
            *(Path(sys.executable).parent / "ansible-playbook", "muster.cluster.compare"),
            *("-e", f"compare_left={left}", "-e", f"compare_right={right}", "-e", f"compare_directory={at}/out"),
            *arguments,
        ],
        cwd=at,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), "ANSIBLE_NOCOLOR": "1"},
    )


def test_a_ledger_is_compared_with_an_exported_file(tmp_path: Path) -> None:
    # Of two campaigns that of more nodes counts, though the other is newer.
    left = fleet_file(tmp_path, "east", {"aa-1": 16, "bb-2": 4})
    result = play(tmp_path, left, exported(tmp_path, "west"))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "sendrecv: west is 0.80 times as fast as east" in result.stdout and "changed=0" in result.stdout
    told = json.loads((tmp_path / "out/compare.json").read_text())
    assert (told["left"], told["right"], told["notes"]) == ("east", "west", [])
    large = [row for row in told["rows"] if row["collective"] == "sendrecv" and row["size_bytes"] == 2**28]
    assert {row["differs"] for row in large} == {True} and {row["n"][0] for row in large} == {8, 48, 64}
    page = (tmp_path / "out/compare.html").read_text()
    assert "east beside west" in page and "<svg" in page


def test_check_mode_leaves_no_trace(tmp_path: Path) -> None:
    result = play(tmp_path, exported(tmp_path, "east"), exported(tmp_path, "west"), "--check")
    assert result.returncode == 0, result.stdout + result.stderr
    assert not (tmp_path / "out").exists() and "times as fast as east" in result.stdout


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("plan", "{", "west.sqlite: round.plan is '{', expected JSON"),
        ("observations", "[1", "west.sqlite: round.observations is '[1', expected JSON"),
        (None, None, "west.sqlite: database disk image is malformed; restore it from a copy"),
    ],
)
def test_spoilt_ledger_is_named_and_the_page_before_stays(
    tmp_path: Path, column: str | None, value: str | None, says: str
) -> None:
    right, file = fleet_file(tmp_path, "west", {"aa-1": 16}), tmp_path / "west.sqlite"
    if column is None:
        with file.open("r+b") as ledger:
            ledger.truncate(file.stat().st_size // 2)
    else:
        with closing(sqlite3.connect(file)) as database, database:
            database.execute(f"update round set {column} = ?", [value])
    (tmp_path / "out").mkdir()
    (tmp_path / "out/compare.html").write_text("as it was")
    result = play(tmp_path, exported(tmp_path, "east"), right)
    said = " ".join((result.stdout + result.stderr).split())
    assert result.returncode == 2 and says in said and "Traceback" not in said, said
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["compare.html"]
    assert (tmp_path / "out/compare.html").read_text() == "as it was"


@pytest.mark.parametrize("case", ["class", "empty", "absent", "text", "ledger"])
def test_what_cannot_be_compared_is_refused(tmp_path: Path, case: str) -> None:
    left = exported(tmp_path, "east")
    text = tmp_path / "text.json"
    text.write_text("{")
    right, says = {
        "class": lambda: (exported(tmp_path, "west", "hgx_h200"), "nodes of different hardware classes"),
        "empty": lambda: (fleet_file(tmp_path, "west"), "west: no acceptance measurements are recorded"),
        "absent": lambda: (tmp_path / "none.json", "none.json: No such file"),
        "text": lambda: (text, "text.json: not JSON"),
        "ledger": lambda: (fleet_file(tmp_path, "west"), "no such file"),
    }[case]()
    if case == "ledger":
        (tmp_path / "west.sqlite").unlink()
    result = play(tmp_path, left, right)
    assert result.returncode == 2 and says in " ".join((result.stdout + result.stderr).split())
    assert not (tmp_path / "out").exists()
