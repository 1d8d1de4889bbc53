"""``muster collect`` as a user runs it."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import read_archive
from ansible_collections.muster.cluster.plugins.module_utils.commands import collect_command

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def run(node_program: Path, tmp_path: Path) -> Run:
    """Return a function that runs the command in a directory of its own, on a host with one tool and one file."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "uname").write_text("#!/bin/sh\necho 6.1.0\n")
    (tmp_path / "bin" / "uname").chmod(0o755)
    (tmp_path / "root" / "proc").mkdir(parents=True)
    (tmp_path / "root" / "proc" / "cmdline").write_text("root=/dev/sda1 token=canary\n")
    for number in range(9):
        counter = tmp_path / "root" / "sys" / "devices" / "system" / "node" / f"node{number}" / "cpulist"
        counter.parent.mkdir(parents=True)
        counter.write_text("0\n")
    (tmp_path / "here").mkdir()

    def run(*words: str, **options: object) -> subprocess.CompletedProcess[bytes]:
        argv = [sys.executable, "-S", str(node_program), "collect", "--node=gpu-01"]
        argv += [f"--tool-path={tmp_path}/bin", f"--root={tmp_path}/root", *words]
        given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.run(argv, cwd=tmp_path / "here", check=False, timeout=60, **given)  # type: ignore[call-overload,no-any-return]

    return run


def test_archive_is_its_owners_alone_and_the_list_says_what_it_holds(run: Run, tmp_path: Path) -> None:
    done = run()
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert re.fullmatch(r"muster-gpu-01-\d{8}T\d{6}Z\.tar\.gz", lines[-1])
    path = tmp_path / "here" / lines[-1]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list((tmp_path / "here").iterdir()) == [path]
    found = read_archive(path)
    assert (found.host, found.root, found.muster_version) == ("gpu-01", f"{tmp_path}/root", "0.1.0")
    assert found.outputs["cmdline"].stdout == "root=/dev/sda1 token=(masked)\n"
    columns = [line.split() for line in lines]
    assert ["cmdline", "/proc/cmdline", "30", "bytes", "1", "masked"] in columns
    assert ["uname", "uname", "-r", "6", "bytes"] in columns
    assert any(line[:3] == ["lscpu", "not", "read:"] for line in columns)
    assert ["numa", "/sys/devices/system/node:", "9", "files", "18", "bytes"] in columns
    assert sum(taken.probe == "numa" for taken in found.taken) == 9


def test_archive_on_standard_output_and_its_list_beside(run: Run, tmp_path: Path) -> None:
    done = run("--output=-")
    assert done.returncode == 0 and b"uname -r" in done.stderr
    path = tmp_path / "x.tar.gz"
    path.write_bytes(done.stdout)
    assert read_archive(path).outputs["uname"].stdout == "6.1.0\n"
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "link"])
def test_existing_file_is_never_overwritten(run: Run, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "mine"
    path.write_text("mine")
    if kind == "link":
        (tmp_path / "link").symlink_to(tmp_path / "gone")
        path = tmp_path / "link"
    done = run(f"--output={path}")
    assert done.returncode == 2 and b"exists, expected a name that is free" in done.stderr
    assert (tmp_path / "mine").read_text() == "mine" and not (tmp_path / "gone").exists()


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("--node=../x", "--node is '../x'"),
        ("--root=/nonexistent", "--root is '/nonexistent', expected a directory"),
        ("--output=/nonexistent/x", "--output is '/nonexistent/x', expected a file in a directory that exists"),
        ("--outptu=x", "unrecognized arguments: --outptu=x"),
    ],
)
def test_wrong_input_is_told_with_status_2(run: Run, word: str, said: str) -> None:
    done = run(word)
    assert done.returncode == 2 and said in done.stderr.decode() and b"Traceback" not in done.stderr


def test_terminal_gets_no_archive(run: Run) -> None:
    leader, terminal = os.openpty()
    done = run("--output=-", stdout=terminal)
    os.close(terminal)
    os.close(leader)
    assert done.returncode == 2 and b"standard output a terminal" in done.stderr


def test_archive_that_cannot_be_written_is_told_with_status_1_and_removed(run: Run, tmp_path: Path) -> None:
    def small() -> None:
        import resource  # noqa: PLC0415 -- in the child alone
        import signal  # noqa: PLC0415

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))

    done = run(f"--output={tmp_path}/x.tar.gz", preexec_fn=small)
    assert done.returncode == 1 and b"could not be written: File too large" in done.stderr
    assert not (tmp_path / "x.tar.gz").exists()


def test_who_is_not_root_is_told_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for user, told in ((0, False), (1000, True)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        words = ["--node=n", f"--root={tmp_path}", "--tool-path=/none", f"--output={tmp_path}/{user}.tar.gz"]
        assert collect_command.main(words, "0.1.0") == 0
        assert ("muster: not root" in capsys.readouterr().err) == told
