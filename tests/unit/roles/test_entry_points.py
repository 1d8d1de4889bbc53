"""Every entry point of a role that configures hosts is one block that refuses the control machine."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.host.systems import SYSTEMS

ROOT = Path(__file__).resolve().parents[3]
GUARD = "lookup('muster.cluster.may_configure')"
# Of an entry point that configures hosts of more systems than the rest of its role.
OWN_GUARD = "lookup('muster.cluster.may_configure', role='muster.cluster.{}')"
# They run on the control machine: it builds tools, or watches jobs through Slurm.
FREE = {"gpu_stack/build", "acceptance/main", "fabric_test/main", "storage_test/main"}
# They do not know every system that Muster knows.
CHOOSY = {"slurm", "subnet_manager"}
# Called by playbooks, but not described as entry points.
ALSO = {"slurm/install", "slurm/hooks"}


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
    assert tasks[0]["when"] in (GUARD, OWN_GUARD.format(entry))


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


@pytest.mark.parametrize("name", ["provision", "subnet_manager", "slurm_upgrade", "slurm_restore"])
def test_host_is_asked_whether_it_has_a_system_of_every_role_before_the_first_of_them(name: str) -> None:
    """Roles that know every system need not be named, as an unknown one is refused to any role."""
    text = (ROOT / f"playbooks/{name}.yml").read_text(encoding="utf-8")
    named: set[str] = set()
    for play in yaml.safe_load(text):
        said = json.dumps(play)
        for words in re.findall(r'"muster\.cluster\.system_info": (null|\{[^}]*\}+[^}]*\})?', said):
            named |= set(re.findall(r"\w+", words))
        used = set(re.findall(r'"(?:name|role)": "muster\.cluster\.(\w+)"', said))
        assert used & CHOOSY <= named, (play["name"], used)


def test_choosy_roles_are_those_that_some_system_is_not_known_to() -> None:
    roles = {path.name for path in (ROOT / "roles").iterdir()} - {
        entry.partition("/")[0] for entry in FREE - {"gpu_stack/build"}
    }
    assert {role for role in roles if not all(system.knows(role) for system in SYSTEMS)} == CHOOSY
