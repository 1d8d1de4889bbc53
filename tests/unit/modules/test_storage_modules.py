"""Modules storage_array and storage_mounts, run as Ansible runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.muster.cluster.plugins.modules import storage_array, storage_mounts

MOUNT = {
    "tier": "weka",
    "kind": "existing",
    "path": "/weka",
    "filesystem": "wekafs",
    "source": None,
    "options": [],
    "numa_node": None,
    "stripe_count": None,
    "write_ms": 1000,
    "free_percent": 5,
}


def run(module: Any, capsys: pytest.CaptureFixture[str], check: bool = False, **arguments: Any) -> dict[str, Any]:
    with (
        patch_module_args({**arguments, "_ansible_check_mode": check, "_ansible_diff": True}),
        pytest.raises(SystemExit),
    ):
        module.main()
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("25 1 8:1 / / rw - ext4 /dev/sda1 rw\n", encoding="ascii")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/systemctl").write_text("#!/bin/sh\nexit 0\n", encoding="ascii")
    (tmp_path / "bin/systemctl").chmod(0o755)
    return tmp_path


def test_drives_that_are_not_there_fail_the_task_by_what_was_expected(capsys: pytest.CaptureFixture[str]) -> None:
    arrays = [{"name": "scratch", "count": 99, "model": "no such drive"}]
    for check in (False, True):
        answer = run(storage_array, capsys, check, arrays=arrays)
        assert answer["failed"] and "99" in answer["msg"] and "NVMe drives" in answer["msg"], answer


def test_existing_tier_that_is_not_there_fails_the_task_and_not_check_mode(
    capsys: pytest.CaptureFixture[str], root: Path
) -> None:
    given = {"mounts": [MOUNT], "root": str(root), "tool_path": str(root / "bin")}
    answer = run(storage_mounts, capsys, True, **given)
    assert not answer.get("failed")
    assert answer["problems"] == [
        "tier weka: nothing is mounted at /weka, expected wekafs; it is mounted by somebody else"
    ]
    answer = run(storage_mounts, capsys, False, **given)
    assert answer["failed"] and "tier weka: nothing is mounted at /weka, expected wekafs" in answer["msg"]


def test_nothing_declared_changes_nothing(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    answer = run(storage_mounts, capsys, False, mounts=[], root=str(root), tool_path=str(root / "bin"))
    assert (answer["changed"], answer["changes"]) == (False, [])


def test_mount_without_a_key_is_named(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    mount = {key: value for key, value in MOUNT.items() if key != "filesystem"}
    answer = run(storage_mounts, capsys, False, mounts=[mount], root=str(root))
    assert answer["failed"] and "mounts[0].filesystem: found nothing, expected text" in answer["msg"]
