"""A task that is given a secret hides it: with ANSIBLE_DISPLAY_ARGS_TO_STDOUT=1 its arguments stand on the terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())
PLAYBOOKS = sorted((ROOT / "playbooks").rglob("*.yml"))
# What an operator gives to a playbook that has no role.
OF_PLAYBOOKS = {"switch_audit_password"}
# Variables that are made from a secret and tell nothing of it.
HARMLESS = {
    "__slurm_unknown_keys": "paths of the keys that are not given",
    "__slurm_key_bytes": "a length",
    "__slurm_jwt_bytes": "a length",
    "__slurm_checks": "lengths, compared",
    "__slurm_faults": "messages about lengths",
    "__checkpoint_storage_faults": "messages with names of tiers",
}
BLOCKS = ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks", "handlers")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None


def names_in(value: Any) -> set[str]:
    """Return the words of a value that can be names of variables or files."""
    return set(re.findall(r"[A-Za-z_][\w.-]*\w", json.dumps(value))) | set(re.findall(r"\w+", json.dumps(value)))


def tasks_of(data: Any) -> Iterator[dict[str, Any]]:
    """Yield the tasks of a file of tasks or of a playbook, those inside blocks too."""
    for entry in data if isinstance(data, list) else []:
        inner = [task for key in BLOCKS for task in tasks_of(entry.get(key))]
        yield from inner or [entry]


def secrets_of(role: Path) -> set[str]:
    """Return the names by which a role knows secrets: arguments, what is made of them, templates, results."""
    specs = (read(role / "meta/argument_specs.yml") or {}).get("argument_specs", {})
    secrets = {
        name
        for entry in specs.values()
        for name, option in entry.get("options", {}).items()
        if option.get("no_log") is True
    }
    hidden = [task for path in role.glob("tasks/*.yml") for task in tasks_of(read(path)) if task.get("no_log") is True]
    secrets |= {task["register"] for task in hidden if "register" in task}
    made: dict[str, Any] = dict(read(role / "vars/main.yml") or {})
    made |= {path.name: path.read_text(encoding="utf-8") for path in (role / "templates").glob("*")}
    while new := {name for name, value in made.items() if names_in(value) & secrets} - secrets - set(HARMLESS):
        secrets |= new
    return secrets


def shown(task: dict[str, Any], secrets: set[str]) -> set[str]:
    """Return the secrets that a task names and does not hide; conditions are not printed."""
    if task.get("no_log") is True:
        return set()
    return names_in({key: value for key, value in task.items() if key not in ("when", "name")}) & secrets


def test_secrets_of_a_role_are_found_through_variables_and_templates() -> None:
    found = secrets_of(ROOT / "roles/slurm")
    assert {"slurm_munge_key", "slurm_keys_read", "slurmdbd.conf.j2", "__slurm_dbd_secret", "__slurm_secrets"} <= found
    assert not {"__slurm_munge", "__slurm_jwt_files", "__slurm_rest_files"} & found


@pytest.mark.parametrize("hidden", [True, False])
def test_a_task_inside_a_block_is_looked_at(hidden: bool) -> None:
    task = {"name": "Write", "muster.cluster.file_set": {"secrets": "{{ __slurm_secrets }}"}, "no_log": hidden}
    (found,) = tasks_of([{"name": "Block", "block": [{"block": [task]}]}])
    assert shown(found, {"__slurm_secrets"}) == (set() if hidden else {"__slurm_secrets"})


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_no_task_of_a_role_shows_a_secret(role: Path) -> None:
    secrets = secrets_of(role)
    bare = {
        f"{path.relative_to(role)}: {task.get('name')}": found
        for path in sorted([*role.glob("tasks/*.yml"), *role.glob("handlers/*.yml")])
        for task in tasks_of(read(path))
        if (found := shown(task, secrets))
    }
    assert bare == {}, "add no_log: true"


def test_no_task_of_a_playbook_shows_a_secret() -> None:
    secrets = OF_PLAYBOOKS.union(*(secrets_of(role) for role in ROLES))
    bare = {
        f"{path.relative_to(ROOT)}: {task.get('name')}": found
        for path in PLAYBOOKS
        if "group_vars" not in path.parts
        for task in tasks_of(read(path))
        if (found := shown(task, secrets))
    }
    assert bare == {}, "add no_log: true"


def test_ansible_itself_prints_no_key(tmp_path: Path) -> None:
    """The task of role slurm that writes the keys, run in check mode by somebody who wants to see everything."""
    tasks = ROOT / "roles/slurm/tasks/write_keys.yml"
    variables = {"__slurm_secrets": [{"path": str(tmp_path / "key"), "owner": "root", "content": "c2VjcmV0LWtleQ=="}]}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": variables,
        "tasks": [{"ansible.builtin.import_tasks": str(tasks)}],
    }
    (tmp_path / "play.json").write_text(json.dumps([play]))
    interpreter = f"ansible_python_interpreter={sys.executable}"
    ansible = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [ansible, "-i", "localhost,", "-c", "local", "-e", interpreter, "-vvv", "--check", "--diff", "play.json"],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_DISPLAY_ARGS_TO_STDOUT": "1"}
        | {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed=1" in done.stdout and "c2VjcmV0" not in done.stdout + done.stderr
