"""Run ansible-test sanity over the collection as it is released, on every Python that it supports and this machine has.

Nodes may run Python 3.9, so what they run is compiled and imported with it where it is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

from ansible.release import __version__ as ansible_core
from ansible_test._internal.python_requirements import get_venv_packages

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "sanity"
# ansible-test finds out by this path which collection it tests.
COPY = BUILD / "ansible_collections" / "muster" / "cluster"
BIN = Path(sys.executable).parent

# In place of the script that ansible-test downloads from its own server: Python brings a pip that installs the same.
GET_PIP = """\
import subprocess
import sys

subprocess.run([sys.executable, "-m", "ensurepip"], check=True, stdout=subprocess.DEVNULL)
wanted = [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]
subprocess.run([sys.executable, "-m", "pip", "install", *wanted], check=True)
"""


def copy_release() -> None:
    """Unpack the built collection where ansible-test expects it, with the list of accepted errors."""
    shutil.rmtree(BUILD / "ansible_collections", ignore_errors=True)
    COPY.mkdir(parents=True)
    build = ["ansible-galaxy", "collection", "build", "--force", "--output-path", BUILD]
    subprocess.run([BIN / build[0], *build[1:]], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    with tarfile.open(max(BUILD.glob("muster-cluster-*.tar.gz"), key=os.path.getmtime)) as archive:
        archive.extractall(COPY, filter="data")
    (COPY / "tests" / "sanity").mkdir(parents=True)
    # The newest list serves an ansible-core that has none of its own.
    accepted = max(Path(__file__).parent.glob("ignore-*.txt"))
    core = ".".join(ansible_core.split(".")[:2])
    shutil.copy(accepted, COPY / "tests" / "sanity" / f"ignore-{core}.txt")
    # Without a repository of its own the copy would be taken for an ignored directory of this one.
    subprocess.run(["git", "init", "--quiet"], cwd=COPY, check=True)
    subprocess.run(["git", "add", "--all"], cwd=COPY, check=True)


def home() -> Path:
    """Return a home directory below build/ in which ansible-test keeps its environments, with the user's settings."""
    place = BUILD / "home"
    script = place / ".ansible/test/cache" / f"get_pip_{_pip_version().replace('.', '_')}.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(GET_PIP, encoding="utf-8")
    settings = place / ".config"
    if not settings.exists():
        settings.symlink_to(Path.home() / ".config")
    return place


def _pip_version() -> str:
    """Return the version of pip that ansible-test puts into its environments."""

    class Python:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"

    return str(get_venv_packages(Python)["pip"])  # type: ignore[arg-type]


def oldest_python() -> Path | None:
    """Return a Python 3.9 that runs, or none."""
    candidates = [shutil.which("python3.9"), *sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9"))]
    for candidate in filter(None, candidates):
        # A shim of pyenv may be there without a version behind it.
        if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return Path(candidate)
    return None


def sanity(python: Path, place: Path, *arguments: str) -> int:
    """Run ansible-test sanity with this Python on the copy; return its exit status."""
    version = python.name.removeprefix("python")
    path = os.pathsep.join([str(python.parent), str(BIN), os.environ["PATH"]])
    environment = {**os.environ, "HOME": str(place), "PATH": path}
    command = [str(BIN / "ansible-test"), "sanity", "--color", "no", "--python", version, *arguments]
    return subprocess.run(command, cwd=COPY, env=environment, check=False).returncode


def offer_packages(place: Path, python: Path) -> None:
    """Let plugins of the control machine import what Muster depends on; modules keep the bare environment."""
    sanity(python, place, "--test", "import", "--prime-venvs")
    for packages in place.glob(".ansible/test/venv/sanity.import.plugin/*/*/lib/python*/site-packages"):
        (packages / "muster.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")


def main() -> int:
    copy_release()
    place = home()
    here = BIN / f"python{sys.version_info.major}.{sys.version_info.minor}"
    offer_packages(place, here)
    failed = sanity(here, place, *sys.argv[1:])
    oldest = oldest_python()
    if oldest is None:
        print("Python 3.9 is not installed: nothing was compiled or imported with it")
    elif not sys.argv[1:]:
        failed |= sanity(oldest, place, "--test", "compile", "--test", "import")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
