"""Each host gets its own release of Slurm."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests import warm_ansible

ROOT = Path(__file__).resolve().parents[3]
VARIABLES = ROOT / "playbooks/group_vars/all.yml"


def test_hosts_have_the_release_of_their_entry_and_all_others_that_of_the_controllers(tmp_path: Path) -> None:
    text = (ROOT / "inventory/lab/lab.fleet.yml").read_text(encoding="utf-8")
    text = text.replace("\nscheduler:\n", '\nscheduler:\n  version: "24.11"\n')
    text = text.replace(
        "\nnodes:\n  - name: gpu-[01-04]\n", '\nnodes:\n  - name: gpu-[01-04]\n    slurm_version: "23.11"\n'
    )
    (tmp_path / "lab.fleet.yml").write_text(text, encoding="utf-8")
    task = {
        "ansible.builtin.copy": {
            "content": "{{ slurm_version | to_json }}",
            "dest": f"{tmp_path}/{{{{ inventory_hostname }}}}.json",
        },
        "delegate_to": "localhost",
    }
    play = {"hosts": "ctl,gpu-04,localhost", "gather_facts": False, "vars_files": [str(VARIABLES)], "tasks": [task]}
    (tmp_path / "play.yml").write_text(json.dumps([play]), encoding="utf-8")
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / "collections")
    command = [Path(sys.executable).with_name("ansible-playbook"), "-i", "lab.fleet.yml", "play.yml"]
    done = warm_ansible.run(command, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.glob("*.json")}
    # localhost is in the plays too, and is nobody's node.
    assert found == {"ctl": "24.11", "gpu-04": "23.11", "localhost": "24.11"}
