"""What an examination may cost the run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import yaml

from tests import warm_ansible
from tests.fleets import small_fleet, variables_of

ROOT = Path(__file__).resolve().parents[3]
PLAY = """
- hosts: compute,localhost
  gather_facts: false
  tasks:
    - name: Skip hosts that are not compute nodes
      ansible.builtin.meta: end_host
      when: inventory_hostname == 'localhost'
    - name: Read parts and kernel log
      ansible.builtin.include_tasks: TASKS
- hosts: compute,localhost
  gather_facts: false
  tasks:
    - name: Go on
      ansible.builtin.debug:
        msg: "without {{ hostvars['gpu-01'].muster_stopped }}"
"""


def test_host_that_hangs_is_left_out_and_the_run_goes_on(tmp_path):
    """A connection that is there and a host that does nothing any more."""
    dead = tmp_path / "python3"
    dead.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    dead.chmod(0o755)
    node = {"ansible_connection": "local", "ansible_python_interpreter": str(dead)}
    # Nor can the ledger be read: examined is who can be.
    fleet = variables_of(small_fleet(2), f"sqlite:///{tmp_path}/none.sqlite")
    variables = {"muster_expect": {"class": "x"}, "muster_fleet": fleet}
    hosts = {"all": {"vars": variables, "children": {"compute": {"hosts": {"gpu-01": node}}}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")
    (tmp_path / "group_vars").symlink_to(ROOT / "playbooks/group_vars")
    play = PLAY.replace("TASKS", str(ROOT / "playbooks/tasks/examine.yml"))
    (tmp_path / "play.yml").write_text(play, encoding="utf-8")
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / "collections")
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml", "play.yml"]
    command += ["-e", "muster_examine_seconds=2"]
    done = warm_ansible.run(command, cwd=tmp_path, env=environment, timeout=50)
    said = " ".join(done.stdout.split())
    assert "without Examine the node: " in said and "Timed out after 2 second" in said, done.stdout + done.stderr
