"""A tool is built from what was declared, once, and never from anything else."""

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from tests.run_module import run_module


def archive(path, members):
    with tarfile.open(path, "w:gz") as tar:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def build(tmp_path):
    source = tmp_path / "tool.tar.gz"
    digest = archive(source, {"tool-1/build.sh": "mkdir out; echo built >out/tool\n"})

    def run(check=False, **changed):
        arguments = {
            **{"name": "tool-1", "key": "abc", "source": str(source), "sha256": digest},
            **{"build": [["sh", "build.sh"]], "files": ["out/tool"], "directory": str(tmp_path / "kept")},
            **changed,
        }
        return run_module("tool_archive", check, **arguments)

    return run


def test_tool_is_built_then_left_alone(build, tmp_path):
    first = build()
    assert first["changed"], first
    with tarfile.open(first["path"]) as tar:
        (member,) = tar.getmembers()
        assert (member.name, member.mode) == ("muster/tool-1-abc/tool", 0o755)
        assert tar.extractfile(member).read() == b"built\n"
    content = Path(first["path"]).read_bytes()
    assert not build()["changed"]
    Path(first["path"]).unlink()
    build()
    assert Path(first["path"]).read_bytes() == content
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["tool-1-abc.tar.gz"]


def test_check_mode_builds_nothing(build, tmp_path):
    assert build(check=True)["changed"]
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sha256": "0" * 64}, "expected " + "0" * 64),
        ({"source": "/nonexistent.tar.gz"}, "No such file"),
        ({"build": [["sh", "-c", "echo no compiler >&2; exit 3"]]}, "ended with status 3: no compiler"),
        ({"build": []}, "out/tool is not there after the build"),
    ],
)
def test_what_fails_is_named_and_nothing_is_kept(build, tmp_path, changed, said):
    result = build(**changed)
    assert result["failed"] and said in result["msg"], result
    assert [path for path in (tmp_path / "kept").iterdir() if path.suffix == ".gz"] == []


def test_archive_that_reaches_out_of_its_directory_is_refused(build, tmp_path):
    evil = tmp_path / "evil.tar.gz"
    digest = archive(evil, {"../../outside": "x"})
    result = build(source=str(evil), sha256=digest)
    assert result["failed"] and "lies outside of the archive" in result["msg"], result
