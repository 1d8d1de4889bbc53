"""Role boot in a play of two hosts: what a reboot did not bring, and a reboot that fails, are that host's alone."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import warm_ansible
from tests.identified import IDENTIFIED

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def play(tmp_path: Path) -> Callable[[str], str]:
    """Run the role as provisioning does; something of gpu-1's waits for a reboot, which a local host is not given."""
    for host in ("gpu-1", "gpu-2"):
        (tmp_path / host / "boot/grub").mkdir(parents=True)
        (tmp_path / host / "boot/grub/grub.cfg").write_text("\tlinux /vmlinuz root=/dev/md0 ro iommu=pt\n")
        (tmp_path / host / "proc/sys/kernel/random").mkdir(parents=True)
        (tmp_path / host / "proc/cmdline").write_text("BOOT_IMAGE=/vmlinuz root=/dev/md0 ro iommu=pt\n")
    given = {
        **IDENTIFIED,
        "boot_parameters": [],
        "boot_pending": "{{ ['rail0 waits'] if inventory_hostname == 'gpu-1' else [] }}",
        "boot_allow_reboot": True,
        "boot_root": f"{tmp_path}/{{{{ inventory_hostname }}}}",
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
    }
    role = {"name": "boot", "ansible.builtin.import_role": {"name": "muster.cluster.boot"}}
    recorded = {"ansible.builtin.debug": {"msg": "kept of {{ inventory_hostname }}: {{ ansible_failed_result.msg }}"}}
    go_on = {"ansible.builtin.debug": {"msg": "{{ inventory_hostname }} goes on"}}
    plays = [
        {"hosts": "all", "gather_facts": False, "tasks": [{"block": [role], "rescue": [recorded]}]},
        {"hosts": "all", "gather_facts": False, "tasks": [go_on]},
    ]
    (tmp_path / "given.json").write_text(json.dumps(given))
    (tmp_path / "play.json").write_text(json.dumps(plays))

    def run(boot_id: str) -> str:
        for host in ("gpu-1", "gpu-2"):
            (tmp_path / host / "proc/sys/kernel/random/boot_id").write_text(f"{boot_id}\n")
        command = [Path(sys.executable).with_name("ansible-playbook"), "-i", "gpu-1,gpu-2"]
        return warm_ansible.run(
            [*command, "-e", f"@{tmp_path}/given.json", tmp_path / "play.json"],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")},
        ).stdout

    return run


def test_node_is_rebooted_once_for_one_thing_and_its_failure_is_its_own(play: Callable[[str], str]) -> None:
    first = play("one")
    # Where a slurmd runs here, whose controller does not answer, the node is not even asked to reboot.
    drained = "kept of gpu-1: slurmctld does not answer" in first and "Reboot the node" not in first
    assert drained or "kept of gpu-1: Running ansible.builtin.reboot with local" in first, first
    assert "Resume the node" not in first and "kept of gpu-2" not in first
    assert "gpu-1 goes on" in first and "gpu-2 goes on" in first
    second = play("two")
    assert "Reboot the node" not in second and "kept of gpu-1: switch the node off and on" in second, second
    assert "kept of gpu-2" not in second and "gpu-2 goes on" in second
