"""The declaration shown on the page on storage can be used, and its plan is the one that is computed from it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.checkpoint_plan import SIZES
from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.checkpoint_plan_table import plan_lines
from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.measured_plan import fleet_plan
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_storage import Storage, storage_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

ROOT = Path(__file__).parents[3]
PAGE = ROOT.joinpath("docs/storage.md").read_text(encoding="utf-8")
FLEET = ROOT / "inventory/example_roce/roce.fleet.yml"


def declared() -> Storage:
    (example,) = [text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if text.startswith("storage:")]
    return storage_of(yaml.safe_load(example)["storage"])


def test_the_example_is_a_declaration() -> None:
    storage = declared().to_dict()
    assert [tier["kind"] for tier in storage["tiers"]] == ["local", "nfs"]
    assert storage["checkpoint"]["model"] == {"parameters": 70 * 10**9, "ranks": 1024, "bytes_per_parameter": 14}


def test_the_table_is_the_plan_of_the_example() -> None:
    # Of the fleet only the GPUs of a node matter here: eight.
    fleet = replace(Fleet.load(FLEET), storage=declared())
    (shown,) = re.findall(r"```\n( *GPUs.*?)```", PAGE, re.DOTALL)
    assert shown.splitlines() == plan_lines(fleet_plan(fleet, None, 0.0))[: 2 + len(SIZES)]
