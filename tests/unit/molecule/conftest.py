"""The lab's own code is no package: it is loaded from where it lies."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "molecule" / "lab"))

import lab  # noqa: E402 -- found on the path just set
import lab_files  # noqa: E402 -- as above
from lab_state import declared  # noqa: E402

Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def host_place(tmp_path: Path) -> Path:
    """What a healthy lab host called gpu-01 sees as /opt/lab."""
    state = declared("gpu-01", None, {})
    (tmp_path / "state.json").write_text(json.dumps(state), encoding="utf-8")
    lab.install_tools(tmp_path, {})
    lab_files.write_files(tmp_path, state)
    return tmp_path


@pytest.fixture
def set_faults(host_place: Path) -> Callable[..., None]:
    """Give the host faults, as host_vars would."""

    def set_them(**faults: Any) -> None:
        state = declared("gpu-01", None, faults)
        (host_place / "state.json").write_text(json.dumps(state), encoding="utf-8")
        lab.install_tools(host_place, state["tool_faults"])
        lab_files.write_files(host_place, state)

    return set_them


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
