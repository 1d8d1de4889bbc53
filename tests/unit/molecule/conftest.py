"""The lab's own code is no package: it is loaded from where it lies."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "molecule" / "lab"))

import lab  # noqa: E402 -- found on the path just set
import lab_files  # noqa: E402 -- as above
from lab_state import declared  # noqa: E402

Run = Callable[..., subprocess.CompletedProcess[bytes]]
# What a file or directory is, and when it was changed.
State = tuple[int, ...]


def show(place: Path, **faults: Any) -> None:
    """Make a place what a lab host called gpu-01 with these faults sees as /opt/lab, set up by the roles."""
    state = declared("gpu-01", None, {"cpu_governor": "performance", **faults})
    (place / "state.json").write_text(json.dumps(state), encoding="utf-8")
    lab.install_tools(place, state)
    lab_files.write_files(place, state)


class FirstHost:
    """A healthy lab host, which each test finds as it was made.

    Its 1,400 files are made once; whatever a test has added, removed or changed is put right.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        show(place)
        self._states = dict(self._found())
        self._contents = {path: _content(path, state) for path, state in self._states.items()}

    def restore(self) -> None:
        found = dict(self._found())
        for path in sorted(found, reverse=True):
            wanted = self._states.get(path)
            if wanted is None or _is_directory(wanted) != _is_directory(found[path]):
                Path(path).rmdir() if _is_directory(found.pop(path)) else Path(path).unlink()
        for path, state in sorted(self._states.items()):
            if found.get(path) == state:
                continue
            content = self._contents[path]
            if content is None:
                Path(path).mkdir(exist_ok=True)
            else:
                Path(path).unlink(missing_ok=True)
                Path(path).symlink_to(content) if isinstance(content, str) else Path(path).write_bytes(content)
            if not isinstance(content, str):
                Path(path).chmod(stat.S_IMODE(state[0]))
            self._states[path] = _state(path)

    def _found(self) -> Iterator[tuple[str, State]]:
        for folder, folders, files in os.walk(self.place):
            # What tools share stays compiled.
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in (*folders, *files):
                path = os.path.join(folder, name)  # noqa: PTH118 -- a Path of each is what takes the time
                yield path, _state(path)


def _state(path: str) -> State:
    """Return the mode of what is there; of a file also what changes whenever somebody changes it."""
    found = os.lstat(path)
    return (found.st_mode,) if stat.S_ISDIR(found.st_mode) else (found.st_mode, found.st_ino, found.st_ctime_ns)


def _content(path: str, state: State) -> bytes | str | None:
    """Return what is in a file, or where a symbolic link leads to; None of a directory."""
    if stat.S_ISLNK(state[0]):
        return str(Path(path).readlink())
    return None if _is_directory(state) else Path(path).read_bytes()


def _is_directory(state: State) -> bool:
    return stat.S_ISDIR(state[0])


@pytest.fixture(scope="session")
def first_host(tmp_path_factory: pytest.TempPathFactory) -> FirstHost:
    return FirstHost(tmp_path_factory.mktemp("host"))


@pytest.fixture
def host_place(first_host: FirstHost) -> Path:
    """What a healthy lab host called gpu-01 sees as /opt/lab."""
    first_host.restore()
    return first_host.place


@pytest.fixture
def set_faults(host_place: Path) -> Callable[..., None]:
    """Give the host faults, as host_vars would."""
    return partial(show, host_place)


@pytest.fixture
def tool(host_place: Path) -> Run:
    """Run a tool of the host."""

    def run(name: str, *arguments: str, timeout: float = 10) -> subprocess.CompletedProcess[bytes]:
        command = [str(host_place / "bin" / name), *arguments]
        return subprocess.run(command, capture_output=True, timeout=timeout, check=False)

    return run


@pytest.fixture(scope="session")
def recorded() -> Path:
    """Outputs of real machines, where they are at hand."""
    place = ROOT.parent / "shared" / "recorded"
    if not place.is_dir():
        pytest.skip(f"no recorded outputs at {place}")
    return place
