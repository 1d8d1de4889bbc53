"""Files are written once, units run on what is written, and what cannot be is said before anything is changed."""

from __future__ import annotations

import base64
import getpass
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host import systems
from ansible_collections.muster.cluster.plugins.module_utils.host.file_set import (
    BEGAN,
    Applied,
    Block,
    FileSet,
    FileSetError,
    FileWanted,
    UnitWanted,
    decoded,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output
from ansible_collections.muster.cluster.plugins.module_utils.host.systemd import SystemdError
from ansible_collections.muster.cluster.plugins.modules.file_set import units_of

from tests.contracts.table import refuse_unknown

ME = getpass.getuser()
PAM = "auth required pam_env.so\n@include common-account\nsession optional pam_motd.so\n"
BLOCK = Block("ssh follows jobs (Muster)", "@include common-account")


class Units(LocalHost):
    """A host whose units are what a dict says; systemctl works on that."""

    def __init__(
        self, running: float = 0.0, state: str = "active", enabled: str = "enabled", stale: str = "no"
    ) -> None:
        super().__init__()
        self.began = time.clock_gettime(time.CLOCK_MONOTONIC) - running
        self.state, self.enabled, self.stale = state, enabled, stale
        self.fails = ""
        self.done: list[str] = []

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        refuse_unknown(argv)
        verb, unit = argv[1], argv[-1]
        if verb == "show":
            began = int(self.began * 1e6)
            shown = {"ActiveState": self.state, "UnitFileState": self.enabled, "NeedDaemonReload": self.stale}
            since = "InactiveExit" if self.state == "activating" else "ActiveEnter"
            shown |= dict.fromkeys(BEGAN.values(), "0") | {f"{since}TimestampMonotonic": str(began)}
            return Output("\n".join(f"{key}={value}" for key, value in shown.items()))
        self.done.append(f"{verb} {unit}" if verb != "daemon-reload" else verb)
        if verb == self.fails:
            return Output(rc=1, stderr="Job for munge.service failed")
        if verb in ("start", "restart"):
            self.state, self.began = "active", time.clock_gettime(time.CLOCK_MONOTONIC)
        if verb == "enable":
            self.enabled = "enabled"
        return Output()


def apply(host: Units, files: list[FileWanted], units: Sequence[UnitWanted] = (), **more: Any) -> Applied:
    return FileSet(tuple(files), units=tuple(units)).apply(host, **more)


def secret(tmp_path: Path, data: bytes | None = b"k" * 32) -> FileWanted:
    return FileWanted(str(tmp_path / "munge.key"), data, 0o400, ME, secret=True)


def munge(tmp_path: Path) -> UnitWanted:
    return UnitWanted("munge", (str(tmp_path / "munge.key"),))


def test_secret_is_written_and_its_unit_restarted_then_neither(tmp_path: Path) -> None:
    host = Units(running=100)
    first = apply(host, [secret(tmp_path)], [munge(tmp_path)])
    assert first.restarted == ["munge"] and first.written == [str(tmp_path / "munge.key")]
    assert (tmp_path / "munge.key").read_bytes() == b"k" * 32
    assert (tmp_path / "munge.key").stat().st_mode & 0o777 == 0o400
    assert not apply(host, [secret(tmp_path)], [munge(tmp_path)]).changed
    assert host.done == ["restart munge"]


def test_no_difference_shows_a_secret(tmp_path: Path) -> None:
    apply(Units(), [secret(tmp_path, b"old secret")])
    (shown,) = apply(Units(), [secret(tmp_path)]).diff
    assert (shown["before"], shown["after"]) == ("", "")


def test_restart_that_a_killed_run_left_undone_is_made_up_for(tmp_path: Path) -> None:
    apply(Units(), [secret(tmp_path)])
    host = Units(running=100)
    assert apply(host, [secret(tmp_path)], [munge(tmp_path)], check=True).restarted == ["munge"]
    assert host.done == []
    assert apply(host, [secret(tmp_path)], [munge(tmp_path)]).restarted == ["munge"]


def test_file_from_the_future_restarts_nothing(tmp_path: Path) -> None:
    apply(Units(), [secret(tmp_path)])
    os.utime(tmp_path / "munge.key", (time.time() + 3600, time.time() + 3600))
    assert not apply(Units(running=100), [secret(tmp_path)], [munge(tmp_path)]).changed


@pytest.mark.parametrize("state", ["inactive", "failed"])
def test_unit_that_does_not_run_is_started_and_not_restarted(tmp_path: Path, state: str) -> None:
    host = Units(running=100, state=state)
    assert apply(host, [secret(tmp_path)], [munge(tmp_path)]).started == ["munge"]
    assert host.done == ["start munge"]


def test_unit_that_is_starting_is_waited_for_unless_its_file_is_newer(tmp_path: Path) -> None:
    host = Units(running=100, state="activating")
    assert apply(host, [secret(tmp_path)], [munge(tmp_path)]).started == ["munge"]
    again = Units(running=0, state="activating")
    assert apply(again, [secret(tmp_path)], [munge(tmp_path)]).started == ["munge"]
    assert (host.done, again.done) == (["restart munge"], ["start munge"])


@pytest.mark.parametrize("state", ["disabled", "", "enabled-runtime"])
def test_unit_that_does_not_start_at_boot_is_enabled(state: str) -> None:
    host = Units(enabled=state)
    assert apply(host, [], [UnitWanted("munge")]).enabled == ["munge"]
    assert not apply(host, [], [UnitWanted("munge")]).changed


def test_unit_that_another_task_starts_is_only_enabled(tmp_path: Path) -> None:
    host = Units(state="inactive", enabled="disabled")
    apply(host, [secret(tmp_path)], [UnitWanted("slurmctld", (str(tmp_path / "munge.key"),), "enabled")])
    assert host.done == ["enable slurmctld"]


def test_reloaded_unit_is_reloaded_when_its_file_is_written_and_only_if_it_runs(tmp_path: Path) -> None:
    unit = UnitWanted("ssh", (str(tmp_path / "munge.key"),), "as_is", reload=True)
    stopped, running = Units(state="inactive", enabled="disabled"), Units(running=100, enabled="disabled")
    assert apply(stopped, [secret(tmp_path)], [unit]).reloaded == []
    assert apply(running, [secret(tmp_path, b"other")], [unit]).reloaded == ["ssh"]
    assert not apply(running, [secret(tmp_path, b"other")], [unit]).changed
    assert (stopped.done, running.done) == ([], ["reload ssh"])


def test_unit_file_that_changed_is_read_before_its_unit_is_restarted() -> None:
    host = Units(stale="yes", state="inactive")
    apply(host, [], [UnitWanted("slurmd")])
    assert host.done == ["daemon-reload", "start slurmd"]


def test_unit_that_does_not_start_is_an_error_that_tells_what_was_done(tmp_path: Path) -> None:
    host, done = Units(running=100), Applied()
    host.fails = "restart"
    with pytest.raises(SystemdError, match=r"systemctl restart munge: Job for munge\.service failed"):
        apply(host, [secret(tmp_path)], [munge(tmp_path)], done=done)
    assert (done.written, done.restarted) == ([str(tmp_path / "munge.key")], [])


def test_directories_are_made_for_all_to_enter_and_others_left_as_they_are(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    umask = os.umask(0o077)
    try:
        apply(Units(), [FileWanted(str(tmp_path / "new/below/a"), b""), FileWanted(str(closed / "b"), b"")])
    finally:
        os.umask(umask)
    modes = {place: place.stat().st_mode & 0o777 for place in (tmp_path / "new", tmp_path / "new/below", closed)}
    assert modes == {tmp_path / "new": 0o755, tmp_path / "new/below": 0o755, closed: 0o700}


def test_secret_without_content_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    files = [FileWanted(str(tmp_path / "first"), b"first"), secret(tmp_path, None)]
    assert apply(Units(), files, check=True).written == [str(tmp_path / "first"), str(tmp_path / "munge.key")]
    with pytest.raises(FileSetError, match=r"no content is given for .*munge\.key"):
        apply(Units(), files)
    assert list(tmp_path.iterdir()) == []


def test_owner_who_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileSetError, match="there is no user no-such-user"):
        apply(Units(), [FileWanted(str(tmp_path / "key"), b"", 0o400, "no-such-user")])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o600, 0o440, 0o444])
def test_secret_that_others_may_read_is_written_anew(tmp_path: Path, mode: int) -> None:
    apply(Units(), [secret(tmp_path)])
    (tmp_path / "munge.key").chmod(mode)
    assert apply(Units(), [secret(tmp_path)]).written == [str(tmp_path / "munge.key")]
    assert (tmp_path / "munge.key").stat().st_mode & 0o777 == 0o400


def test_text_that_is_no_base64_is_an_error_that_does_not_show_it() -> None:
    assert decoded("/key", base64.b64encode(b"k").decode()) == b"k"
    with pytest.raises(FileSetError, match="the content for /key is not Base64") as told:
        decoded("/key", "hunter2!")
    assert "hunter2" not in str(told.value)


def block(tmp_path: Path, content: str) -> FileWanted:
    return FileWanted(str(tmp_path / "sshd"), content.encode(), None, block=BLOCK)


def test_block_is_put_below_its_line_replaced_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "sshd"
    path.write_text(PAM)
    path.chmod(0o640)
    apply(Units(), [block(tmp_path, "account required pam_slurm.so")])
    lines = path.read_text().splitlines()
    begin, end = f"# BEGIN {BLOCK.name}", f"# END {BLOCK.name}"
    assert lines[1:5] == ["@include common-account", begin, "account required pam_slurm.so", end]
    assert path.stat().st_mode & 0o777 == 0o640
    assert not apply(Units(), [block(tmp_path, "account required pam_slurm.so")]).changed
    apply(Units(), [block(tmp_path, "account required pam_slurm_adopt.so\n")])
    assert path.read_text().splitlines() == [*lines[:3], "account required pam_slurm_adopt.so", *lines[4:]]
    apply(Units(), [block(tmp_path, "")])
    assert path.read_text() == PAM


def test_block_in_check_mode_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "sshd").write_text(PAM)
    assert apply(Units(), [block(tmp_path, "account required pam_slurm.so")], check=True).changed
    assert (tmp_path / "sshd").read_text() == PAM


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "no such file, expected one to put"),
        ("auth required pam_env.so\n", "no line '@include common-account'"),
        (f"{PAM}# BEGIN {BLOCK.name}\n", "expected the lines"),
        (f"# END {BLOCK.name}\n{PAM}# BEGIN {BLOCK.name}\n", "stands before"),
        (f"# BEGIN {BLOCK.name}\n# END {BLOCK.name}\n" * 2 + PAM, "expected the lines"),
    ],
)
def test_file_in_which_a_block_has_no_place_is_an_error_and_left(tmp_path: Path, text: str | None, why: str) -> None:
    path = tmp_path / "sshd"
    if text is not None:
        path.write_text(text)
    with pytest.raises(FileSetError, match=why):
        apply(Units(), [block(tmp_path, "account required pam_slurm.so")])
    assert (path.read_text() if path.exists() else None) == text


def test_empty_block_of_a_file_that_does_not_exist_is_no_change(tmp_path: Path) -> None:
    assert not apply(Units(), [block(tmp_path, "")]).changed
    assert list(tmp_path.iterdir()) == []


def test_module_names_units_as_the_host_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = tmp_path / "os-release"
    monkeypatch.setattr(systems, "FILES", (str(release),))
    unit = {"name": "chrony", "files": ["/etc/chrony.conf"], "state": "started", "reload": False}

    def named() -> list[str]:
        return [each.name for each in units_of([unit, {**unit, "name": "munge.service"}])]

    assert named() == ["chrony", "munge.service"], "of a system that is not told"
    for text, own in (("ID=debian\nVERSION_ID=12\n", "chrony"), ("ID=rhel\nVERSION_ID=9.5\n", "chronyd")):
        release.write_text(text, encoding="utf-8")
        assert named() == [own, "munge.service"]


NAMES = Block("hosts of the cluster (Muster)")


def test_block_without_a_place_goes_to_the_end_and_is_found_again(tmp_path: Path) -> None:
    place = tmp_path / "hosts"
    place.write_text("127.0.0.1 localhost\n")
    place.chmod(0o600)
    wanted = [FileWanted(str(place), b"10.0.0.1 ctl\n", None, block=NAMES)]
    assert apply(Units(), wanted).written == [str(place)]
    begin, end = "# BEGIN hosts of the cluster (Muster)", "# END hosts of the cluster (Muster)"
    assert place.read_text().splitlines() == ["127.0.0.1 localhost", begin, "10.0.0.1 ctl", end]
    assert place.stat().st_mode & 0o777 == 0o600, "other lines and the mode are not the block's"
    assert not apply(Units(), wanted).changed


def test_file_is_made_for_a_block_without_a_place_but_nothing_else_is_replaced(tmp_path: Path) -> None:
    wanted = [FileWanted(str(tmp_path / "hosts"), b"10.0.0.1 ctl\n", None, block=NAMES)]
    assert apply(Units(), wanted, check=True).changed and not (tmp_path / "hosts").exists()
    assert apply(Units(), wanted).changed and not apply(Units(), wanted).changed
    assert (tmp_path / "hosts").stat().st_mode & 0o777 == 0o644
    assert not apply(Units(), [FileWanted(str(tmp_path / "none"), b"", None, block=NAMES)]).changed
    (tmp_path / "link").symlink_to(tmp_path / "hosts")
    with pytest.raises(FileSetError, match="link: no such file"):
        apply(Units(), [FileWanted(str(tmp_path / "link"), b"x\n", None, block=NAMES)])
