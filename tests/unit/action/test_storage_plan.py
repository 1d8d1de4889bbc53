"""The playbook is run as operators run it, on a fleet file's data, against a real ledger and none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger

from tests import warm_ansible
from tests.fleets import LEDGER_ID, small_fleet, variables_of

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def fleet(tmp_path: Path) -> dict[str, Any]:
    storage = {
        "tiers": [{"name": "checkpoints", "kind": "existing", "path": "/weka", "filesystem": "wekafs"}],
        "checkpoint": {
            "tier": "checkpoints",
            "model": {"parameters": 70_000_000_000, "ranks": 1024, "bytes_per_parameter": 14},
            "target_seconds": 60,
            "failures_per_1000_node_days": 6.5,
        },
    }
    return variables_of(small_fleet(4, storage=storage), f"sqlite:///{tmp_path}/ledger.sqlite")


def play(at: Path, fleet: dict[str, Any], *arguments: str) -> subprocess.CompletedProcess[str]:
    (at / "data.json").write_text(json.dumps({"muster_fleet": fleet, "storage_plan_file": "out/plan.json"}))
    return warm_ansible.run(
        [
            Path(sys.executable).parent / "ansible-playbook",
            ROOT / "playbooks/storage_plan.yml",
            *("-i", "localhost,", "-e", "@data.json", *arguments),
        ],
        cwd=at,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), "ANSIBLE_NOCOLOR": "1"},
    )


def test_plan_is_printed_and_written_and_changes_nothing(tmp_path: Path, fleet: dict[str, Any]) -> None:
    result = play(tmp_path, fleet)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "changed=0" in result.stdout
    assert [line.split()[0] for line in result.stdout.splitlines() if line.strip().startswith(("1024 ", "131072 "))]
    written = json.loads((tmp_path / "out/plan.json").read_text())
    assert written["cluster"] == "lab" and any("Daly" in formula for formula in written["formulas"])
    assert [row["gpus"] for row in written["rows"]] == [1024 * 2**step for step in range(8)]
    assert written["rows"][4]["failure_seconds"] == pytest.approx(6490, rel=0.001)
    assert written["job"]["rate"]["source"].endswith("there is no ledger yet")
    before = (tmp_path / "out/plan.json").read_bytes()
    assert play(tmp_path, fleet).returncode == 0
    assert (tmp_path / "out/plan.json").read_bytes() == before


def test_check_mode_writes_nothing_and_prints_the_plan(tmp_path: Path, fleet: dict[str, Any]) -> None:
    result = play(tmp_path, fleet, "--check", "-e", "storage_plan_wanted_loss_percent=3")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "for 3 % lost" in result.stdout
    assert not (tmp_path / "out").exists()


def test_ledger_is_asked_where_there_is_one(tmp_path: Path, fleet: dict[str, Any]) -> None:
    Ledger.create(fleet["ledger"]["url"], LEDGER_ID, "lab")
    result = play(tmp_path, fleet)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "the ledger tells 0 faults in 0.0 node-days in service, fewer than 10" in result.stdout


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (variables_of(small_fleet(4), "sqlite:////nowhere"), "storage.checkpoint: found nothing, expected the model"),
        ({"ledger": {"url": "sqlite:////etc", "id": LEDGER_ID}}, "not a file"),
        ({"classes": {}}, 'nodes.gpu-0001.hardware_class: found "hgx_h100", expected none'),
    ],
)
def test_wrong_fleet_is_named_and_nothing_written(
    tmp_path: Path, fleet: dict[str, Any], change: dict[str, Any], says: str
) -> None:
    result = play(tmp_path, fleet | change)
    assert result.returncode == 2
    assert says in result.stdout + result.stderr
    assert not (tmp_path / "out").exists()


def test_another_clusters_ledger_is_refused(tmp_path: Path, fleet: dict[str, Any]) -> None:
    Ledger.create(fleet["ledger"]["url"], LEDGER_ID, "other")
    result = play(tmp_path, fleet)
    assert result.returncode == 2
    assert "belongs to cluster other" in result.stdout + result.stderr
