"""A tool that crashes is asked again, and one that always crashes has said nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import yaml

from tests import warm_ansible

ROOT = Path(__file__).resolve().parents[3]
# Crashes as often as its file of crashes has lines.
TOOL = """#!/bin/sh
if [ -s {crashes} ]; then
    sed -i 1d {crashes}
    kill -SEGV $$
fi
echo answered
"""


def test_crashed_tool_is_asked_again_and_no_crash_is_an_answer(tmp_path):
    for name, crashes in (("ibnetdiscover", 0), ("iblinkinfo", 1), ("ibqueryerrors", 9)):
        (tmp_path / f"{name}.crashes").write_text("crash\n" * crashes, encoding="utf-8")
        (tmp_path / name).write_text(TOOL.format(crashes=tmp_path / f"{name}.crashes"), encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"cabling_reader": "localhost", "cabling_seconds": 30, "ansible_python_interpreter": sys.executable},
        "tasks": [
            {"ansible.builtin.import_tasks": str(ROOT / "playbooks/tasks/read_infiniband.yml")},
            {"ansible.builtin.copy": {"dest": str(tmp_path / "said"), "content": "{{ muster_infiniband.results }}"}},
        ],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    environment["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / "collections")
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", "-c", "local", "play.yml"]
    done = warm_ansible.run(command, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    said = yaml.safe_load((tmp_path / "said").read_text(encoding="utf-8"))
    assert [(each["rc"], each["stdout"]) for each in said] == [(0, "answered"), (0, "answered"), (-11, "")]
