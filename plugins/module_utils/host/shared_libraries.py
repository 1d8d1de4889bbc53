"""Shared libraries of programs: which ones a build linked, and which of them a host does not have."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..words.errors import MusterError
from .host import Host

# Both read a file or its libraries: a slow disk, and nothing else, makes them wait.
TIMEOUT_SECONDS = 60
# What comes with NVIDIA's driver, also where it is not loaded yet: preflight fails a node without it.
DRIVER_LIBRARIES = frozenset({"libcuda.so.1", "libnvidia-ml.so.1"})
_ENTRY = re.compile(r"^ *0x[0-9a-f]+ +\((NEEDED|RPATH|RUNPATH)\) .*\[(.*)\]$", re.MULTILINE)
_MISSING = re.compile(r"^\s*(\S+) => not found$", re.MULTILINE)
# glibc's elf/dl-version.c; ldd prints it among the libraries, and ends with 0.
_OLD = re.compile(r": version `([^']+)' not found \(required by ")


class LibraryError(MusterError):
    """A program that would not start, or one of which that cannot be told."""


@dataclass(frozen=True)
class Linking:
    """What a program was linked with: names of libraries, and directories in which it looks for them first."""

    needed: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()


def parse_dynamic_section(text: str) -> Linking:
    """Return what ``readelf --dynamic --wide`` printed; raises LibraryError for anything else.

    RPATH and RUNPATH have one entry of several directories: ``Library runpath: [$ORIGIN:/opt/lib]``.
    """
    if "Dynamic section at offset" not in text and "There is no dynamic section in this file." not in text:
        raise LibraryError(f"readelf printed no dynamic section: {text.strip()[:200]!r}")
    found = [(match[1], match[2]) for match in _ENTRY.finditer(text)]
    return Linking(
        tuple(value for tag, value in found if tag == "NEEDED"),
        tuple(each for tag, value in found if tag != "NEEDED" for each in value.split(":")),
    )


def linking_of(host: Host, program: Path) -> Linking | None:
    """Return what a program was linked with, None for one that is no ELF file; raises LibraryError, OSError."""
    if _elf_header(program) is None:
        return None
    output = host.run(["readelf", "--dynamic", "--wide", str(program)], TIMEOUT_SECONDS)
    # Of a truncated file it says that there is no dynamic section, with status 0.
    if output.rc != 0 or "Error:" in output.stderr:
        said = output.error or output.stderr.strip()[:200]
        raise LibraryError(f"{program.name}: readelf (package binutils) cannot read it: {said}")
    return parse_dynamic_section(output.stdout)


def build_bound(programs: Mapping[str, Linking], made: Mapping[str, str], top: str) -> list[str]:
    """Return why programs would start on the build host alone, in words; empty if they would start elsewhere too.

    ``programs`` are the files to pack by path below ``top``, where they were built; ``made`` has the path below ``top``
    of each library there, by its name.
    """
    # They end up in one directory, whatever theirs is now.
    packed = {Path(path).name for path in programs}
    reasons = []
    for path, linking in programs.items():
        reasons += [
            f"{path} looks for libraries in {directory or 'its working directory'} (RPATH or RUNPATH), which the nodes"
            " do not have: link it without, or with $ORIGIN"
            for directory in linking.directories
            if not directory.startswith(("$ORIGIN", "${ORIGIN}")) and _inside(Path(top, directory), top)
        ]
        for name in linking.needed:
            # Linked by its path, and without a name of its own (SONAME).
            if "/" in name and _inside(Path(top, name), top):
                reasons.append(f"{path} needs {name} by its path in the build directory: link it with -l or statically")
            elif name in made and name not in packed:
                reasons.append(
                    f"{path} needs {name}, which only the build made: link it statically, or add {made[name]} to files"
                    " and link with RUNPATH $ORIGIN"
                )
            elif name in made and not any(_is_origin(directory) for directory in linking.directories):
                reasons.append(f"{path} needs {name}, which is packed beside it: link it with RUNPATH $ORIGIN")
    return reasons


def without_library(programs: Mapping[str, Linking], beginning: str) -> list[str]:
    """Return which programs are linked with no library whose name begins so, in words.

    What others among them need is a library itself, and not asked.
    """
    libraries = {name for linking in programs.values() for name in linking.needed}
    return [
        f"{path} is not linked with {beginning}: its libraries are {', '.join(linking.needed) or 'none'}"
        for path, linking in programs.items()
        if Path(path).name not in libraries and not any(name.startswith(beginning) for name in linking.needed)
    ]


def _is_origin(directory: str) -> bool:
    return os.path.normpath(directory) in ("$ORIGIN", "${ORIGIN}")


def _inside(directory: Path, top: str) -> bool:
    real, real_top = os.path.realpath(directory), os.path.realpath(top)
    return real == real_top or real.startswith(f"{real_top}{os.sep}")


def parse_missing(text: str) -> tuple[str, ...]:
    """Return what ``ldd`` did not find: names of libraries, and versions (``GLIBC_2.38``) that one does not have."""
    return tuple(dict.fromkeys([*_MISSING.findall(text), *_OLD.findall(text)]))


def missing_libraries(host: Host, program: Path) -> tuple[str, ...]:
    """Return what a program needs and this host has not, besides the driver's; raises LibraryError, OSError.

    A script needs nothing. One of another processor raises.
    """
    header = _elf_header(program)
    if header is None:
        return ()
    if header != _elf_header(Path("/proc/self/exe")):
        raise LibraryError(f"{program.name} was built for another processor than this host's")
    output = host.run(["ldd", str(program)], TIMEOUT_SECONDS)
    text = output.stdout + output.stderr
    # One that is linked statically.
    if output.rc != 0 and "not a dynamic executable" not in text:
        raise LibraryError(f"{program.name}: ldd: {output.error or text.strip()[:200]}")
    return tuple(name for name in parse_missing(text) if name not in DRIVER_LIBRARIES)


def missing_words(missing: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what is missing on a host, in words, each library with all programs that need it."""
    programs: dict[str, list[str]] = {}
    for program, names in missing.items():
        for name in names:
            programs.setdefault(name, []).append(program)
    return [
        f"{', '.join(each)} {'need' if len(each) > 1 else 'needs'} {name}, which this host does not have: "
        + ("add its package to host_base_packages" if ".so" in name else "build on the system of the nodes")
        for name, each in programs.items()
    ]


def _elf_header(path: Path) -> tuple[bytes, bytes] | None:
    """Return class and byte order, and processor, of an ELF file (elf(5): e_ident, e_machine); None for another."""
    with path.open("rb") as file:
        head = file.read(20)
    return (head[4:6], head[18:20]) if head.startswith(b"\x7fELF") else None
