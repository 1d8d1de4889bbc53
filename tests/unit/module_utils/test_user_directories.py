"""Each user of a job has directories of their own, and nobody can make another's first."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.in_service.hook_settings import (
    HookSettings,
    read_hook_settings,
)
from ansible_collections.muster.cluster.plugins.module_utils.in_service.user_directories import (
    DirectoryRefused,
    make,
    make_all,
)

# Whoever runs the tests stands for root and for the user of the job.
ME = os.geteuid()
STRANGER = ME + 1
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_parent_and_directory_are_made_with_their_modes_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make(f"{tmp_path}/enroot", ME, ME)
    finally:
        os.umask(before)
    own = tmp_path / "enroot" / f"user-{ME}"
    assert (mode(own.parent), mode(own), own.lstat().st_uid) == (0o755, 0o700, ME)


def test_what_is_there_is_kept_and_closed_to_others(tmp_path: Path) -> None:
    own = tmp_path / f"user-{ME}"
    own.mkdir()
    (own / "image").write_text("kept")
    own.chmod(0o777)
    # As earlier releases made it, for everybody to write to.
    tmp_path.chmod(0o1777)
    for _again in range(2):
        make(str(tmp_path), ME, ME)
        assert (mode(own), mode(tmp_path), (own / "image").read_text()) == (0o700, 0o755, "kept")


@only_root
def test_directory_becomes_the_users_also_after_a_prolog_that_was_killed(tmp_path: Path) -> None:
    make(str(tmp_path), 2001)
    own = tmp_path / "user-2001"
    assert own.lstat().st_uid == 2001
    os.chown(own, 0, 0)
    make(str(tmp_path), 2001)
    assert own.lstat().st_uid == 2001


@only_root
def test_directory_that_another_user_made_first_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "user-2001"
    own.mkdir(mode=0o777)
    os.chown(own, 2002, 2002)
    with pytest.raises(DirectoryRefused, match=r"user-2001 belongs to uid 2002, expected 2001: remove it"):
        make(str(tmp_path), 2001)
    assert own.lstat().st_uid == 2002


def test_parent_of_another_user_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DirectoryRefused, match=rf"belongs to uid {ME}, expected {STRANGER}"):
        make(str(tmp_path), ME, STRANGER)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("what", ["link", "dangling link", "file", "pipe"])
@pytest.mark.parametrize("where", ["parent", "own"])
def test_nothing_is_made_or_changed_through_what_is_no_directory(tmp_path: Path, what: str, where: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o750)
    parent = tmp_path / "enroot"
    place = parent if where == "parent" else parent / f"user-{ME}"
    if where == "own":
        parent.mkdir()
    if what == "link":
        place.symlink_to(victim)
    elif what == "dangling link":
        place.symlink_to(tmp_path / "nowhere")
    elif what == "file":
        place.write_text("")
    else:
        os.mkfifo(place)
    with pytest.raises(DirectoryRefused, match="is no directory, or a link: remove it"):
        make(str(parent), ME, ME)
    assert (mode(victim), list(victim.iterdir()), (tmp_path / "nowhere").exists()) == (0o750, [], False)


def test_every_refusal_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    findings = make_all([f"{tmp_path}/file", f"{tmp_path}/none/enroot"], ME)
    assert [(each.verdict, each.check) for each in findings] == [("incomplete", "user_directories")] * 2


def test_settings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "hooks.json"
    path.write_text('{"operator_groups": ["sudo"], "user_directories": ["/run/enroot"]}')
    assert read_hook_settings(str(path)) == HookSettings(("sudo",), ("/run/enroot",))


@pytest.mark.parametrize(
    "text",
    [None, "", "[]", "{}", '{"operator_groups": "sudo"}', '{"operator_groups": [], "user_directories": ["enroot"]}'],
)
def test_settings_that_cannot_be_read_are_an_error_with_their_path(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "hooks.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(Unreadable, match=r"hooks\.json"):
        read_hook_settings(str(path))
