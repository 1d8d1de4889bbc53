"""Modules storage_array and storage_mounts, run as Ansible runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.storage_setup import mount_apply

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


@pytest.fixture
def tier(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A mounted tier to which an ordinary user, who stands for muster, has a way."""
    place = Path(tempfile.mkdtemp(prefix="muster-tier-", dir="/tmp"))
    shutil.copytree(root, place, dirs_exist_ok=True)
    place.chmod(0o755)
    line = "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n26 25 0:50 / /weka rw - wekafs fs rw\n"
    (place / "proc/self/mountinfo").write_text(line, encoding="ascii")
    (place / "weka").mkdir()
    (place / "weka").chmod(0o1777)
    monkeypatch.setattr(mount_apply, "USER", "nobody")
    yield place / "weka"
    shutil.rmtree(place)


def claim(tier: Path, check: bool = False) -> dict[str, Any]:
    root = tier.parent
    tools = f"{root}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    given = {"mounts": [MOUNT], "root": str(root), "tool_path": tools, "test_directory": "/weka/.muster"}
    return run_module("storage_mounts", check, **given)


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@as_root
def test_test_directory_is_made_for_its_user_and_made_once(tier: Path) -> None:
    rehearsed = claim(tier, check=True)
    assert rehearsed["changed"] and not (tier / ".muster").exists()
    assert claim(tier)["changes"] == ["/weka/.muster"]
    made = (tier / ".muster").stat()
    assert (made.st_uid, made.st_mode & 0o7777) == (65534, 0o700)
    again = claim(tier)
    assert (again["changed"], again["pending"]) == (False, [])


@as_root
@pytest.mark.parametrize(
    ("squat", "said"),
    [
        ("mkdir .muster", "tier weka: /weka/.muster belongs to daemon (1), expected a directory of nobody (65534)"),
        ("ln -s /tmp .muster", "tier weka: /weka/.muster is a link of daemon (1), expected a directory of nobody"),
    ],
)
def test_test_directory_of_another_user_is_told_and_stops_no_node(tier: Path, squat: str, said: str) -> None:
    subprocess.run(["sh", "-c", squat], cwd=tier, user=1, group=1, extra_groups=[], check=True)
    answer = claim(tier)
    assert not answer.get("failed") and not answer["changed"]
    assert answer["pending"][0].startswith(said), answer["pending"]


@as_root
def test_test_directory_that_its_user_cannot_make_is_told(tier: Path) -> None:
    tier.chmod(0o755)
    answer = claim(tier)
    assert not answer.get("failed")
    assert "tier weka: /weka/.muster: " in answer["pending"][0] and "Permission denied" in answer["pending"][0]


@as_root
def test_test_directory_is_not_made_where_nothing_is_mounted(tier: Path) -> None:
    (tier.parent / "proc/self/mountinfo").write_text("25 1 8:1 / / rw - ext4 /dev/sda1 rw\n", encoding="ascii")
    claim(tier)
    assert not (tier / ".muster").exists()


def test_nothing_declared_changes_nothing(root: Path) -> None:
    answer = run_module("storage_mounts", False, mounts=[], root=str(root), tool_path=str(root / "bin"))
    assert (answer["changed"], answer["changes"]) == (False, [])


def test_mount_without_a_key_is_named(root: Path) -> None:
    mount = {key: value for key, value in MOUNT.items() if key != "filesystem"}
    answer = run_module("storage_mounts", False, mounts=[mount], root=str(root))
    assert answer["failed"] and "mounts[0].filesystem: found nothing, expected text" in answer["msg"]
