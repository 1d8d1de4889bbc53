"""Role subnet_manager checks its declaration before it masks or installs anything."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import warm_ansible

ROOT = Path(__file__).resolve().parents[3]
REFUSED = "subnet_manager_hosts must name this host and at most 14 hosts"


@pytest.mark.parametrize(
    ("given", "passes"),
    [
        ({}, True),
        ({"subnet_manager_settings": {"sweep_interval": 1}}, True),
        ({"subnet_manager_settings": {"guid": "0x1"}}, False),
        ({"subnet_manager_settings": {"sm_priority": 15}}, False),
        ({"subnet_manager_hosts": ["other"]}, False),
        ({"subnet_manager_mtu_bytes": 9000}, False),
    ],
)
def test_declaration_is_checked(tmp_path: Path, given: dict[str, Any], passes: bool) -> None:
    variables = {
        "subnet_manager_hosts": ["sm1"],
        "subnet_manager_routing_engine": "updn",
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        **given,
    }
    role = {"name": "muster.cluster.subnet_manager", "tasks_from": "preflight"}
    play = {"hosts": "sm1", "gather_facts": False, "tasks": [{"ansible.builtin.import_role": role}]}
    (tmp_path / "given.json").write_text(json.dumps(variables))
    (tmp_path / "play.json").write_text(json.dumps([play]))
    done = warm_ansible.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", "sm1,", "-e", "@given.json", "play.json"],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")},
    )
    said = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode == 0) is passes, said
    assert (REFUSED in said) is not passes, said
