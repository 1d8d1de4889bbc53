"""Whole files: the old one or the new one, with the permissions it had, and nothing left beside it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host import whole_files
from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import (
    put_in_place,
    replace_file,
    replace_link,
    replacing,
)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_new_file_comes_with_its_directories_and_what_the_umask_allows(tmp_path: Path) -> None:
    path = tmp_path / "a/b/file"
    before = os.umask(0o027)
    try:
        replace_file(path, "text")
    finally:
        os.umask(before)
    assert (path.read_text(), mode_of(path)) == ("text", 0o640)


def test_file_keeps_its_permissions_unless_others_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o604)
    replace_file(path, b"new")
    assert (path.read_bytes(), mode_of(path)) == (b"new", 0o604)
    replace_file(path, b"newer", 0o440, (os.getuid(), os.getgid()))
    assert (path.read_bytes(), mode_of(path)) == (b"newer", 0o440)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_file_keeps_its_owner_unless_another_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    os.chown(path, 12, 34)
    replace_file(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12, 34)
    replace_file(path, "new", owner=(56, 78))
    assert (path.stat().st_uid, path.stat().st_gid) == (56, 78)


def test_owner_that_was_asked_for_and_cannot_be_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    (tmp_path / "file").write_text("old")
    monkeypatch.setattr(whole_files.os, "fchown", refuse)
    with pytest.raises(PermissionError):
        replace_file(tmp_path / "file", "new", owner=(1, 1))
    assert (tmp_path / "file").read_text() == "old"
    # One that was only to be kept is not.
    replace_file(tmp_path / "file", "new")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("file", "new")]


def test_failure_half_way_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path, 0o600) as file:
        file.write(b"half")
        raise RuntimeError
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"


def test_file_and_directory_are_synced_before_and_after_the_file_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    synced: list[tuple[bool, bool]] = []

    def fsync(descriptor: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), path.exists()))

    monkeypatch.setattr(whole_files.os, "fsync", fsync)
    replace_file(path, "text")
    assert synced == [(False, False), (True, True)]
    (tmp_path / "staged").write_text("more")
    path.unlink()
    synced.clear()
    put_in_place(tmp_path / "staged", path)
    assert synced == [(False, False), (True, True)]
    assert path.read_text() == "more"


def test_secret_is_never_readable_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(whole_files.os, "fsync", lambda descriptor: seen.append(os.fstat(descriptor).st_mode & 0o077))
    with replacing(tmp_path / "key", 0o400) as file:
        seen += [mode_of(each) & 0o077 for each in tmp_path.iterdir()]
        file.write(b"secret")
    assert seen[:2] == [0, 0]
    assert mode_of(tmp_path / "key") == 0o400


def test_symbolic_link_is_replaced_and_what_it_named_stays(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("other's")
    (tmp_path / "link").symlink_to("target")
    replace_file(tmp_path / "link", "ours")
    assert (tmp_path / "target").read_text() == "other's"
    assert not (tmp_path / "link").is_symlink()
    replace_link(tmp_path / "link", tmp_path / "target")
    assert (tmp_path / "link").readlink() == tmp_path / "target"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "target"]


def test_text_that_could_not_be_decoded_is_written_as_it_was(tmp_path: Path) -> None:
    replace_file(tmp_path / "file", b"M\xfcller".decode("utf-8", "surrogateescape"))
    assert (tmp_path / "file").read_bytes() == b"M\xfcller"
