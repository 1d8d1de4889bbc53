"""A tool is built from what was declared, once, and never from anything else."""

import hashlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.run_module import run_module

needs_linker = pytest.mark.skipif(not all(map(shutil.which, ("gcc", "readelf"))), reason="needs gcc and readelf")
# Makes library and program as a Makefile does; $1 are the linker's options.
COMPILE = """mkdir -p out/own
echo 'int f(void) { return 0; }' | gcc -shared -fPIC -Wl,-soname,libown.so.0 -o out/own/libown.so.0 -xc -
ln -s libown.so.0 out/own/libown.so
echo 'int f(void); int main(void) { return f(); }' >main.c
"""
LINKED = "gcc -o out/tool main.c -Lout/own -lown"


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


@needs_linker
@pytest.mark.parametrize(
    ("link", "said"),
    [
        (f"{LINKED} -Wl,-rpath,$(pwd)/out/own", "/tool-1/out/own (RPATH or RUNPATH), which the nodes do not have"),
        (
            LINKED,
            "out/tool needs libown.so.0, which only the build made: link it statically, or add out/own/libown.so.0 to"
            " files and link with RUNPATH $ORIGIN",
        ),
        # As libtool leaves it.
        ("echo exec $(pwd)/out/.libs/tool >out/tool", "out/tool is a script that names the build directory"),
        ("head -c 300 /proc/self/exe >out/tool", "tool: readelf (package binutils) cannot read it"),
    ],
)
def test_program_that_would_start_on_the_build_host_alone_is_refused(build, tmp_path, link, said):
    result = build(build=[["sh", "-ec", COMPILE + link]])
    assert result["failed"] and said in result["msg"], result
    assert not list((tmp_path / "kept").iterdir())


@needs_linker
def test_library_that_is_packed_beside_its_program_is_found_there(build, tmp_path):
    files = ["out/tool", "out/own/libown.so.0"]
    result = build(build=[["sh", "-ec", f"{COMPILE}{LINKED} -Wl,-rpath,'$ORIGIN'"]], files=files)
    assert result["changed"], result
    with tarfile.open(result["path"]) as tar:
        tar.extractall(tmp_path)
    assert subprocess.run([tmp_path / "muster/tool-1-abc/tool"], check=False).returncode == 0


@needs_linker
def test_program_without_the_library_that_it_has_to_have_is_refused(build):
    compiled = [["sh", "-ec", "mkdir out; echo 'int main(void) { return 0; }' | gcc -o out/tool -xc -"]]
    result = build(build=compiled, links="libmpi")
    assert result["failed"] and "out/tool is not linked with libmpi: its libraries are libc.so.6" in result["msg"]
    assert build(build=compiled, links="libc.")["changed"]


def test_script_need_not_be_linked(build):
    assert build(links="libmpi")["changed"]
