"""The lab's own code is no package: it is loaded from where it lies."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "molecule" / "lab"))

import lab  # noqa: E402 -- found on the path just set
import lab_files  # noqa: E402 -- as above
import lab_roce  # noqa: E402 -- as above
from lab_state import declared  # noqa: E402

Run = Callable[..., subprocess.CompletedProcess[bytes]]


def show(place: Path, **faults: Any) -> None:
    """Make a place what a lab host called gpu-01 with these faults sees as /opt/lab."""
    state = declared("gpu-01", None, faults)
    (place / "state.json").write_text(json.dumps(state), encoding="utf-8")
    lab.install_tools(place, state["tool_faults"])
    lab_files.write_files(place, state)


@pytest.fixture(scope="session")
def first_host(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, frozenset[Path]]:
    """A healthy lab host, and what there is on it."""
    place = tmp_path_factory.mktemp("host")
    show(place)
    return place, frozenset(place.rglob("*"))


@pytest.fixture
def host_place(first_host: tuple[Path, frozenset[Path]]) -> Path:
    """What a healthy lab host called gpu-01 sees as /opt/lab.

    Its 1,400 files are made once; whatever the test before has added, removed or changed is put right.
    """
    place, known = first_host
    for path in sorted(place.rglob("*"), reverse=True):
        # A setting stays where a fault comes, but not from one test to the next. What tools share stays compiled.
        if path in known and not lab_roce.is_setting(str(path.relative_to(place)).removeprefix("root/")):
            continue
        if "__pycache__" not in path.parts:
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    show(place)
    return place


@pytest.fixture
def set_faults(host_place: Path) -> Callable[..., None]:
    """Give the host faults, as host_vars would."""
    return partial(show, host_place)


@pytest.fixture
def tool(host_place: Path) -> Run:
    """Run a simulated tool of the host."""

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
