"""Which running systems may be one."""

from __future__ import annotations

import sys

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.running_system import RunningSystem

BOOT, OTHER_BOOT = "5a1f0a51-4ad9-4f35-9b6b-0c8f1f2e7d11", "c3a9e0aa-52a2-4d8b-a3e5-0f4b6a0f3d02"
MACHINE, OTHER_MACHINE = "9f86d081884c7d659a2feaa0c55ad015", "60303ae22b998861bce3b28f33eec1be"
HERE = RunningSystem(BOOT, MACHINE, "2049:2")


@pytest.mark.parametrize(
    ("other", "may"),
    [
        pytest.param(HERE, True, id="the same"),
        pytest.param(RunningSystem(OTHER_BOOT, OTHER_MACHINE, "2049:2"), False, id="another machine"),
        pytest.param(RunningSystem(OTHER_BOOT, MACHINE, "2049:2"), False, id="clone of the same image"),
        pytest.param(RunningSystem(BOOT, OTHER_MACHINE, "77:1"), False, id="container on the same machine"),
        pytest.param(RunningSystem(BOOT, "", "77:1"), False, id="container without a machine id"),
        pytest.param(RunningSystem(BOOT, MACHINE, "77:1"), True, id="container that shows its host's machine id"),
        pytest.param(RunningSystem(BOOT, OTHER_MACHINE, "2049:2"), True, id="same root below another /etc"),
        pytest.param(RunningSystem("", OTHER_MACHINE, "77:1"), True, id="no boot id"),
        pytest.param(RunningSystem(), True, id="nothing readable"),
    ],
)
def test_system_may_be_another_unless_an_id_excludes_it(other: RunningSystem, may: bool) -> None:
    assert HERE.may_be(other) is may
    assert other.may_be(HERE) is may


def test_two_systems_without_machine_ids_are_told_apart_by_their_roots() -> None:
    assert not RunningSystem(BOOT, "", "1:2").may_be(RunningSystem(BOOT, "", "1:3"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads files of Linux")
def test_this_system_is_itself_and_survives_the_way_through_a_result() -> None:
    here = RunningSystem.here()
    assert here.boot_id and here.may_be(RunningSystem.from_dict(here.to_dict()))


@pytest.mark.parametrize(
    ("boot", "machine"), [("", "uninitialized\n"), ("garbage", ""), (BOOT.upper(), MACHINE[:31]), ("\xff", "\xff")]
)
def test_ids_that_are_none_are_empty(tmp_path, boot: str, machine: str) -> None:
    for name, text in (("proc/sys/kernel/random/boot_id", boot), ("etc/machine-id", machine)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text, encoding="latin-1")
    here = RunningSystem.here(str(tmp_path))
    assert (here.boot_id, here.machine_id) == ("", "") and here.root_id


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        ("run/systemd/container", "podman\n", "podman"),
        ("run/.containerenv", "", "podman"),
        (".dockerenv", "", "docker"),
    ],
)
def test_container_is_told_from_a_machine(tmp_path, path: str, text: str, name: str) -> None:
    assert RunningSystem.here(str(tmp_path)).container == ""
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(text)
    assert RunningSystem.here(str(tmp_path)).container == name


def test_missing_files_are_empty_ids(tmp_path) -> None:
    here = RunningSystem.here(str(tmp_path))
    assert (here.boot_id, here.machine_id) == ("", "")
