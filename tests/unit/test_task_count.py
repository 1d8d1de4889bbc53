"""The counts are held against the recap that ansible-playbook itself prints."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = """
- name: First
  hosts: all
  gather_facts: false
  tasks:
    - name: Ok
      ansible.builtin.assert: {that: true}
    - name: Skipped
      ansible.builtin.assert: {that: true}
      when: false
    - name: Loop
      ansible.builtin.command: {argv: ["true"]}
      loop: [1, 2, 3]
    - name: Ignored
      ansible.builtin.fail: {}
      ignore_errors: true
    - name: Once
      ansible.builtin.assert: {that: true}
      run_once: true
    - name: Include
      ansible.builtin.include_tasks: more.yml
    - name: Rescue
      block:
        - name: Fail
          ansible.builtin.fail: {}
      rescue:
        - name: Mend
          ansible.builtin.assert: {that: true}
- name: Second
  hosts: all
  gather_facts: false
  roles: [tiny]
- name: Third
  hosts: all,gone
  gather_facts: false
  tasks:
    - name: Reach
      ansible.builtin.command: {argv: ["true"]}
      changed_when: false
    - name: Fail on one
      ansible.builtin.fail: {}
      when: inventory_hostname == "b"
"""
# 192.0.2.1 is a documentation address: nothing answers there.
INVENTORY = """
all:
  hosts: {a: {ansible_connection: local}, b: {ansible_connection: local}}
  children: {gone: {hosts: {c: {ansible_host: 192.0.2.1, ansible_port: 1, ansible_timeout: 1}}}}
  vars: {ansible_python_interpreter: "%s"}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], dict]:
    at = tmp_path_factory.mktemp("run")
    (at / "play.yml").write_text(PLAYBOOK)
    (at / "more.yml").write_text("- name: Included\n  ansible.builtin.assert: {that: true}\n")
    (at / "hosts.yml").write_text(INVENTORY % sys.executable)
    (at / "roles/tiny/tasks").mkdir(parents=True)
    (at / "roles/tiny/tasks/main.yml").write_text("- name: In a role\n  ansible.builtin.command: {argv: ['true']}\n")
    result = playbook(at, MUSTER_TASK_COUNT_FILE=str(at / "out/tasks.json"))
    return result, json.loads((at / "out/tasks.json").read_text())


def playbook(at: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", "hosts.yml", "play.yml"],
        cwd=at,
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "task_count",
            "ANSIBLE_NOCOLOR": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def recap(stdout: str) -> dict[str, dict[str, int]]:
    hosts = {}
    for line in stdout.split("PLAY RECAP")[1].splitlines():
        if match := re.match(r"(\w+)\s+: (.*)", line):
            hosts[match[1]] = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", match[2])}
    return hosts


def test_counts_agree_with_the_recap(run: tuple[subprocess.CompletedProcess[str], dict]) -> None:
    result, counted = run
    said = recap(result.stdout)
    assert set(said) == {"a", "b", "c"}, result.stdout + result.stderr
    for host, numbers in said.items():
        evaluated = sum(numbers[key] for key in ("ok", "skipped", "failed", "unreachable", "rescued"))
        assert sum(counted["hosts"][host].values()) == evaluated, (host, numbers, counted)
        assert counted["changed"][host] == numbers["changed"]


def test_roles_and_plays_are_told_apart(run: tuple[subprocess.CompletedProcess[str], dict]) -> None:
    _, counted = run
    assert counted["hosts"]["b"]["tiny"] == 1
    assert counted["hosts"]["b"]["Third"] == 2
    assert counted["hosts"]["a"]["First"] == counted["hosts"]["b"]["First"], "what runs once is no cost of a host"
    assert counted["hosts"]["a"]["once for all hosts"] == 1
    assert "once for all hosts" not in counted["hosts"]["b"]
    assert counted["changed"] == {"a": 2, "b": 2, "c": 0}, "a loop counts once"
    assert [play["name"] for play in counted["plays"]] == ["First", "Second", "Third"]
    assert all(play["seconds"] >= 0 for play in counted["plays"])


def test_without_a_file_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(INVENTORY % sys.executable)
    (tmp_path / "play.yml").write_text("- {name: None, hosts: a, gather_facts: false, tasks: []}\n")
    result = playbook(tmp_path)
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hosts.yml", "play.yml"]
    assert "WARNING" not in result.stderr


def test_unwritable_file_is_a_warning_not_a_failed_run(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(INVENTORY % sys.executable)
    (tmp_path / "play.yml").write_text("- {name: None, hosts: a, gather_facts: false, tasks: []}\n")
    result = playbook(tmp_path, MUSTER_TASK_COUNT_FILE=str(tmp_path / "hosts.yml" / "tasks.json"))
    assert result.returncode == 0
    assert "task_count: cannot write" in result.stderr
