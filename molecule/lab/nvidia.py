#!/usr/bin/env python3
"""NVIDIA's own nvidia-smi, and the library that it asks in a host without a GPU: everything lies under build/nvidia.

The programs come from Debian's archive (section non-free), the library's header from NVIDIA's package on PyPI. The
library is a stand-in (nvml.c), which shows what the lab says of its GPUs.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab_machine import ROOT, LabError, file_of_wheel, install_needed, run

HERE = Path(__file__).resolve().parent
PLACE = ROOT / "build" / "nvidia"
LIBRARY = "libnvidia-ml.so.1"
COMPILER = {"gcc": "gcc"}
# nvidia-smi by its driver's branch: the suite of Debian that has it.
PROGRAMS = {"550": "trixie", "535": "bookworm"}
ARCHIVE = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
FILES = {"/usr/include/stdio.h": "libc6-dev", KEYRING: "debian-archive-keyring"}
HEADER = "nvidia-nvml-dev==13.4.92 --hash=sha256:90b65cebefd02a1e695675177c9d7886f48322906ce5c03398e8cb27cc5ad2d6"
_NAME = re.compile(rb"\bnvml[A-Z]\w+")


def programs() -> dict[str, Path]:
    """Return each nvidia-smi by its branch, fetched where it is not there yet."""
    found = {branch: PLACE / f"nvidia-smi-{branch}" for branch in PROGRAMS}
    for branch, path in found.items():
        if not path.exists():
            _fetch(PROGRAMS[branch], path)
    return found


def _fetch(suite: str, target: Path) -> None:
    """Unpack the program from its package, which apt finds and checks with lists and settings of its own."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for part in ("state/lists/partial", "cache/archives/partial"):
            (place / part).mkdir(parents=True)
        (place / "list").write_text(f"deb [signed-by={KEYRING}] {ARCHIVE} {suite} non-free\n", encoding="utf-8")
        settings = {
            "Dir::State": place / "state",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": place / "cache",
            "Dir::Etc::SourceList": place / "list",
            "Dir::Etc::SourceParts": "/dev/null",
            "APT::Sandbox::User": "root",
            # Otherwise an archive that is out of reach shows only as a package that it does not have.
            "APT::Update::Error-Mode": "any",
        }
        apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
        run([*apt, "update"])
        run([*apt, "download", "nvidia-smi"], cwd=place)
        (package,) = place.glob("*.deb")
        run(["dpkg-deb", "--extract", package, place / "root"])
        unfinished = target.with_suffix(".unfinished")
        shutil.copy(place / "root/usr/lib/nvidia/current/nvidia-smi", unfinished)
        unfinished.rename(target)


def header() -> Path:
    """Return the directory of nvml.h, fetched where it is not there yet."""
    target = PLACE / "include" / "nvml.h"
    if not target.exists():
        text = file_of_wheel(HEADER, "nvidia/cu13/include/nvml.h")
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
            file.write(text)
        Path(file.name).chmod(0o644)
        Path(file.name).rename(target)
    return target.parent


def library(target: Path, asking: Sequence[Path]) -> None:
    """Compile the library for the programs that will ask it, unless ``target`` is that already.

    nvidia-smi ends where a function is not there that it looks up: those that nvml.c has not say "not supported".
    """
    include, made_of = header(), target.with_name("made_of")
    sources = (HERE / "nvml.c", HERE / "nvidia.py", include / "nvml.h", *asking)
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    if target.exists() and made_of.exists() and made_of.read_text(encoding="utf-8") == digest:
        return
    names = set(_NAME.findall((include / "nvml.h").read_bytes()))
    names |= {name for program in asking for name in _NAME.findall(program.read_bytes())}
    absent = "".join(f"__attribute__((weak)) int {name.decode()}(void) {{ return 3; }}\n" for name in sorted(names))
    with tempfile.TemporaryDirectory() as place:
        rest = Path(place, "absent.c")
        rest.write_text(absent, encoding="utf-8")
        run(["gcc", "-w", "-O2", "-fPIC", "-c", "-o", Path(place, "absent.o"), rest])
        flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{include}"]
        built = Path(place, LIBRARY)
        run(["gcc", *flags, f"-Wl,-soname,{LIBRARY}", "-o", built, HERE / "nvml.c", Path(place, "absent.o")])
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(built, target.with_suffix(".unfinished"))
        target.with_suffix(".unfinished").rename(target)
    made_of.write_text(digest, encoding="utf-8")


def made() -> list[Path]:
    """Return the programs and their library, with what is missing or of an older source made."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / "lock").open("w", encoding="utf-8") as lock:
        # Unit tests come here from several processes at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        install_needed(COMPILER, FILES)
        found = programs()
        library(PLACE / LIBRARY, list(found.values()))
    return [PLACE / LIBRARY, *found.values()]


if __name__ == "__main__":
    try:
        made()
    except LabError as error:
        sys.exit(f"nvidia: {error}")
