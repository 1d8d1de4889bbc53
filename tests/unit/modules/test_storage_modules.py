"""Modules storage_array and storage_mounts, run as Ansible runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.run_module import run_module

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


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("25 1 8:1 / / rw - ext4 /dev/sda1 rw\n", encoding="ascii")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/systemctl").write_text("#!/bin/sh\nexit 0\n", encoding="ascii")
    (tmp_path / "bin/systemctl").chmod(0o755)
    return tmp_path


def test_drives_that_are_not_there_fail_the_task_by_what_was_expected() -> None:
    arrays = [{"name": "scratch", "count": 99, "model": "no such drive"}]
    for check in (False, True):
        answer = run_module("storage_array", check, arrays=arrays)
        assert answer["failed"] and "99" in answer["msg"] and "NVMe drives" in answer["msg"], answer


def test_existing_tier_that_is_not_there_fails_the_task_and_not_check_mode(root: Path) -> None:
    given = {"mounts": [MOUNT], "root": str(root), "tool_path": str(root / "bin")}
    answer = run_module("storage_mounts", True, **given)
    assert not answer.get("failed")
    assert answer["problems"] == [
        "tier weka: nothing is mounted at /weka, expected wekafs; it is mounted by somebody else"
    ]
    answer = run_module("storage_mounts", False, **given)
    assert answer["failed"] and "tier weka: nothing is mounted at /weka, expected wekafs" in answer["msg"]


def test_nothing_declared_changes_nothing(root: Path) -> None:
    answer = run_module("storage_mounts", False, mounts=[], root=str(root), tool_path=str(root / "bin"))
    assert (answer["changed"], answer["changes"]) == (False, [])


def test_mount_without_a_key_is_named(root: Path) -> None:
    mount = {key: value for key, value in MOUNT.items() if key != "filesystem"}
    answer = run_module("storage_mounts", False, mounts=[mount], root=str(root))
    assert answer["failed"] and "mounts[0].filesystem: found nothing, expected text" in answer["msg"]
