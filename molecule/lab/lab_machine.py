"""The machine on which labs run: its commands, its packages, and files of packages on PyPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class LabError(Exception):
    """What went wrong, in words for the person at the terminal."""


def run(argv: Sequence[str | Path], **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a command on this machine; raise LabError with what it printed when it fails."""
    check = more.pop("check", True)
    done = subprocess.run(
        [str(word) for word in argv], capture_output=True, text=True, errors="replace", check=False, **more
    )
    if check and done.returncode:
        raise LabError(f"{' '.join(map(str, argv))}\nended with status {done.returncode}: {done.stderr.strip()}")
    return done


def install_needed(commands: Mapping[str, str], files: Mapping[str, str] = MappingProxyType({})) -> None:
    """Install what is missing of the machine's own packages, known by commands and by files."""
    missing = [package for command, package in commands.items() if not shutil.which(command)]
    missing += [package for path, package in files.items() if not Path(path).exists()]
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise LabError(f"install these first (no apt-get here): {' '.join(missing)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "-qq", "install", "--no-install-recommends", *missing]
    if run(install, env=environment, check=False).returncode:
        run(["apt-get", "-qq", "update"], env=environment)
        run(install, env=environment)


def file_of_wheel(requirement: str, name: str) -> bytes:
    """Return a file of a wheel that pip fetches from PyPI by its hash: ``PACKAGE==VERSION --hash=sha256:...``.

    It is always the wheel of x86_64, whose headers are those of any machine.
    """
    with tempfile.TemporaryDirectory() as place:
        requirements = Path(place, "requirements.txt")
        requirements.write_text(f"{requirement}\n", encoding="utf-8")
        get = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        get += ["--require-hashes", "--only-binary=:all:", "--platform=manylinux2014_x86_64", f"--dest={place}"]
        run([*get, f"--requirement={requirements}"])
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as files:
            return files.read(name)
