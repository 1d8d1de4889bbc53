"""Every entry point of a role that configures hosts is one block that refuses the control machine."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
GUARD = "lookup('muster.cluster.may_configure')"
# They run on the control machine: it builds tools, or watches jobs through Slurm.
FREE = {"gpu_stack/build", "acceptance/main", "fabric_test/main", "storage_test/main"}
# Called by playbooks, but not described as entry points.
ALSO = {"slurm/install"}


def entry_points() -> list[str]:
    """Return ROLE/FILE of every entry point that a role describes or a playbook uses."""
    described = {
        f"{path.parents[1].name}/{entry}"
        for path in ROOT.glob("roles/*/meta/argument_specs.yml")
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
    }
    return sorted((described | ALSO) - FREE)


@pytest.mark.parametrize("entry", entry_points())
def test_entry_point_is_one_guarded_block(entry: str) -> None:
    role, _, file = entry.partition("/")
    tasks = yaml.safe_load((ROOT / f"roles/{role}/tasks/{file}.yml").read_text(encoding="utf-8"))
    assert [set(task) for task in tasks] == [{"name", "when", "block"}]
    assert tasks[0]["when"] == GUARD


def test_every_role_is_guarded_or_named_as_one_that_configures_no_host() -> None:
    roles = {path.name for path in (ROOT / "roles").iterdir() if path.is_dir()}
    assert roles == {entry.partition("/")[0] for entry in [*entry_points(), *FREE]}


def test_playbooks_use_entry_points_only() -> None:
    used = set()
    for path in ROOT.glob("playbooks/**/*.yml"):
        lines = path.read_text(encoding="utf-8").splitlines()
        for before, line in itertools.pairwise(lines):
            if line.strip().startswith("tasks_from:"):
                used.add(f"{before.rpartition('.')[2]}/{line.split()[-1]}")
    assert used and used <= {*entry_points(), *FREE}
