"""What a program was linked with and what a host lacks of it are read of real readelf and ldd, and judged."""

from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.shared_libraries import (
    LibraryError,
    Linking,
    build_bound,
    linking_of,
    missing_libraries,
    missing_words,
    parse_dynamic_section,
    parse_missing,
    without_library,
)

from tests.fake_host import FakeHost

# binutils 2.40, of a program that nccl-tests' Makefile linked with MPI=1 DSO=1.
SECTION = """
Dynamic section at offset 0x1d078 contains 33 entries:
  Tag        Type                         Name/Value
 0x0000000000000001 (NEEDED)             Shared library: [libverifiable.so.0]
 0x0000000000000001 (NEEDED)             Shared library: [libmpi.so.40]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x000000000000001d (RUNPATH)            Library runpath: [$ORIGIN:$ORIGIN/verifiable]
 0x000000000000000c (INIT)               0x4000
 0x0000000000000000 (NULL)               0x0
"""
STATIC = "\nThere is no dynamic section in this file.\n"
# glibc 2.36; it ends with 0 in spite of the first line.
LDD = """./m: /tmp/x/./libv.so.1: version `V2' not found (required by ./m)
\tlinux-vdso.so.1 (0x00007f6c6afca000)
\tlibv.so.1 => /tmp/x/./libv.so.1 (0x00007f6c6afb8000)
\tlibcuda.so.1 => not found
\tlibmpi.so.40 => not found
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f6c6adcc000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f6c6afcc000)
"""
MPI = Linking(("libmpi.so.40", "libc.so.6"))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "all_reduce_perf"
    path.write_bytes(Path("/proc/self/exe").read_bytes()[:4096])
    return path


def test_dynamic_section_is_read() -> None:
    wanted = Linking(("libverifiable.so.0", "libmpi.so.40", "libc.so.6"), ("$ORIGIN", "$ORIGIN/verifiable"))
    assert parse_dynamic_section(SECTION) == wanted
    # As linkers wrote it before, with --disable-new-dtags.
    old = SECTION.replace("(RUNPATH)            Library runpath", "(RPATH)              Library rpath")
    assert parse_dynamic_section(old) == wanted
    assert parse_dynamic_section(STATIC) == Linking()


@pytest.mark.parametrize("text", ["", "readelf 2.40", SECTION[:20]])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(LibraryError, match="readelf printed no dynamic section"):
        parse_dynamic_section(text)


@pytest.mark.parametrize(
    "output",
    [
        Output(rc=None, error="readelf: not found in /usr/bin"),
        Output(rc=-9),
        # Of a truncated file.
        Output(STATIC, "readelf: Error: Too many program headers - 0xd - the file is not that big\n"),
    ],
)
def test_program_that_readelf_cannot_read_is_refused(program: Path, output: Output) -> None:
    with pytest.raises(LibraryError, match=r"all_reduce_perf: readelf \(package binutils\) cannot read it"):
        linking_of(FakeHost({"readelf": output}), program)


def test_script_is_linked_with_nothing(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert linking_of(FakeHost(), tmp_path / "script") is None
    assert missing_libraries(FakeHost(), tmp_path / "script") == ()


@pytest.mark.parametrize(
    ("linking", "said"),
    [
        (MPI, ""),
        # Such a place may be on the nodes too: they are asked.
        (Linking(("libc.so.6",), ("/opt/nccl/lib", "$ORIGIN/../lib")), ""),
        (Linking((), ("/cache/build/out",)), "looks for libraries in /cache/build/out (RPATH or RUNPATH)"),
        (Linking((), ("/cache/other/../build",)), "looks for libraries in /cache/other/../build"),
        (Linking((), ("../build/verifiable",)), "looks for libraries in ../build/verifiable"),
        (Linking((), ("/cache/build-tools",)), ""),
        # ``-rpath :lib``, of a variable that was empty.
        (Linking((), ("",)), "looks for libraries in its working directory"),
        (
            Linking(("libown.so.0",), ("$ORIGIN/verifiable",)),
            "needs libown.so.0, which only the build made: link it statically, or add out/v/libown.so.0 to files",
        ),
        (Linking(("out/v/libown.so.0",)), "needs out/v/libown.so.0 by its path in the build directory"),
        (Linking(("/cache/build/out/libtoo.so",)), "needs /cache/build/out/libtoo.so by its path"),
        (Linking(("/opt/own/libown.so",)), ""),
        (Linking(("libtoo.so",), ("$ORIGIN/",)), ""),
        (Linking(("libtoo.so",), ("$ORIGIN/..",)), "needs libtoo.so, which is packed beside it: link it with RUNPATH"),
        (Linking(("libtoo.so",)), "needs libtoo.so, which is packed beside it"),
    ],
)
def test_program_that_starts_on_the_build_host_alone_is_told(linking: Linking, said: str) -> None:
    made = {"libown.so.0": "out/v/libown.so.0", "libtoo.so": "out/libtoo.so"}
    reasons = build_bound({"out/tool": linking, "out/libtoo.so": Linking()}, made, "/cache/build")
    assert len(reasons) == bool(said) and said in "".join(reasons), reasons


def test_program_without_mpi_is_told() -> None:
    programs = {"a": MPI, "b": Linking(("libcudart.so.13", "libc.so.6")), "libc.so.6": Linking(), "d": Linking()}
    assert without_library(programs, "libmpi") == [
        "b is not linked with libmpi: its libraries are libcudart.so.13, libc.so.6",
        "d is not linked with libmpi: its libraries are none",
    ]
    assert without_library({"mpich": Linking(("libmpich.so.12",))}, "libmpi") == []


def test_what_ldd_does_not_find_is_named(program: Path) -> None:
    assert parse_missing(LDD) == ("libcuda.so.1", "libmpi.so.40", "V2")
    # The driver may come up later.
    assert missing_libraries(FakeHost({"ldd": Output(LDD)}), program) == ("libmpi.so.40", "V2")


def test_statically_linked_program_lacks_nothing(program: Path) -> None:
    assert missing_libraries(FakeHost({"ldd": Output("", "\tnot a dynamic executable\n", 1)}), program) == ()
    assert missing_libraries(FakeHost({"ldd": Output("\tstatically linked\n")}), program) == ()


@pytest.mark.parametrize("output", [Output(rc=None, error="ldd: timed out"), Output(rc=1, stderr="ldd: exited")])
def test_program_that_ldd_cannot_read_is_refused(program: Path, output: Output) -> None:
    with pytest.raises(LibraryError, match="all_reduce_perf: ldd: ldd: "):
        missing_libraries(FakeHost({"ldd": output}), program)


def test_program_of_another_processor_is_refused(program: Path) -> None:
    content = bytearray(program.read_bytes())
    # e_machine: SPARC.
    content[18:20] = b"\x02\x00"
    program.write_bytes(content)
    with pytest.raises(LibraryError, match="all_reduce_perf was built for another processor than this host's"):
        missing_libraries(FakeHost(), program)


def test_missing_library_is_told_once_with_all_programs_and_what_to_do() -> None:
    assert missing_words({"all_reduce_perf": ["libmpi.so.40"]}) == [
        "all_reduce_perf needs libmpi.so.40, which this host does not have: add its package to host_base_packages"
    ]
    assert missing_words({"a": ["libmpi.so.40", "GLIBC_2.38"], "b": ["libmpi.so.40"], "c": []}) == [
        "a, b need libmpi.so.40, which this host does not have: add its package to host_base_packages",
        "a needs GLIBC_2.38, which this host does not have: build on the system of the nodes",
    ]
