"""The role's smallest playbook, run in check mode on this machine."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from tests import warm_ansible
from tests.identified import DECLARED

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def play(tmp_path):
    text = (ROOT / "roles/burn_in/README.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "play.yml").write_text(f"---\n{example[1]}", encoding="utf-8")

    def run(**variables):
        here = {**DECLARED, "ansible_connection": "local", "ansible_python_interpreter": sys.executable, **variables}
        (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"compute": {"hosts": {"gpu-01": here}}}), encoding="utf-8")
        command = [Path(sys.executable).parent / "ansible-playbook", "--check", "-i", "hosts.yml", "play.yml"]
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        environment["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / "collections")
        return warm_ansible.run(command, cwd=tmp_path, env=environment)

    return run


def test_smallest_playbook_runs(play):
    done = play(muster_expect={"class": "x"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed=0" in done.stdout


def test_missing_expectations_are_named(play):
    done = play()
    assert done.returncode != 0 and "muster_expect" in done.stdout + done.stderr
