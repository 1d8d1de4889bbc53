"""Module system_info, run as Ansible runs it: the system is told, and one that a role does not know is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host import systems

from tests.run_module import run_module

ROCKY = 'NAME="Rocky Linux"\nID=rocky\nVERSION_ID="9.4"\n'


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that is read in the place of /etc/os-release."""
    monkeypatch.setattr(systems, "FILES", (str(tmp_path / "os-release"),))
    return tmp_path / "os-release"


@pytest.mark.parametrize("check", [False, True])
def test_system_is_beside_the_ids(release: Path, check: bool) -> None:
    release.write_text(ROCKY, encoding="utf-8")
    told = run_module("system_info", check=check, roles=["host_base", "burn_in"])
    assert told["boot_id"] and told["changed"] is False
    assert told["system"]["release"] == "9.4" and told["system"]["network"] == "networkmanager"


def test_role_that_does_not_know_the_system_is_refused_without_ids(release: Path) -> None:
    release.write_text(ROCKY, encoding="utf-8")
    told = run_module("system_info", roles=["host_base", "slurm"])
    assert told["failed"] and told["msg"].startswith("role slurm does not know Rocky Linux 9.4, expected one of Debian")
    assert "boot_id" not in told


def test_unknown_system_is_told_and_refused_to_every_role(release: Path) -> None:
    release.write_text("ID=arch\n", encoding="utf-8")
    assert run_module("system_info")["system"]["id"] == "arch"
    told = run_module("system_info", roles=["host_base"])
    assert told["failed"] and told["msg"].startswith("system: found arch without a version, expected one of Debian 12")


def test_system_that_cannot_be_read_is_an_error(release: Path) -> None:
    told = run_module("system_info")
    assert told["failed"] and told["msg"].startswith("system: ") and str(release) in told["msg"]
