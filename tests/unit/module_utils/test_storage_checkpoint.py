"""PyTorch's part of a storage test: its processes are given up in time, and what they load is what they saved."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.save_test import storage_checkpoint
from ansible_collections.muster.cluster.plugins.module_utils.save_test.storage_checkpoint_process import (
    CheckpointProcess,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import build


@pytest.fixture
def port() -> int:
    with socket.create_server(("", 0)) as server:
        found: int = server.getsockname()[1]
    return found


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "muster"
    path.write_bytes(build())
    return str(path)


def process(program: str, port: int, ranks: int = 1, python: str = sys.executable) -> CheckpointProcess:
    return CheckpointProcess(python, program, 2**20, (port, "a word"), ranks)


@pytest.mark.pytorch
def test_two_ranks_save_and_one_loads(
    torch: Path, program: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(torch))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    ranks = process(program, port, 2)
    ranks.ready(60)
    answer = ranks.save_and_load(str(tmp_path / "checkpoint"), 0, 1, "127.0.0.1", 60)
    ranks.end()
    assert answer["error"] == ""
    assert (answer["ranks"], answer["loaded_by"]) == (2, 1)
    assert answer["bytes"] >= 2**20
    # Training goes on before all is written.
    assert 0 < answer["blocking_seconds"] <= answer["save_seconds"]
    assert answer["load_seconds"] > 0
    assert answer["torch"]
    assert sum(path.stat().st_size for path in (tmp_path / "checkpoint").iterdir()) >= answer["bytes"]


CHANGED = """
import sys
from ansible_collections.muster.cluster.plugins.module_utils.save_test import storage_checkpoint as s
import torch
from torch.distributed import checkpoint
load = checkpoint.load
def changed(state, **more):
    load(state, **more)
    state["state"].to_local()[3, 7] += 1
checkpoint.load = changed
sys.exit(s.main())
"""


@pytest.mark.pytorch
def test_state_that_comes_back_changed_is_an_error(
    torch: Path, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "changed.py").write_text(CHANGED)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(torch), *sys.path]))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    ranks = process(str(tmp_path / "changed.py"), port, 2)
    ranks.ready(60)
    answer = ranks.save_and_load(str(tmp_path / "checkpoint"), 0, 1, "127.0.0.1", 20)
    ranks.end()
    assert "WrongState: 1 wrong elements of " in answer["error"]


def test_node_without_torch_says_so(program: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numpy.py").write_text("")
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ranks = process(program, port)
    ranks.ready(20)
    answer = ranks.save_and_load(str(tmp_path), 0, 2, "127.0.0.1", 5)
    ranks.end()
    assert answer == {"torch": "", "ranks": 2, "error": "ImportError: no torch here"}


def test_node_without_python_says_so(program: str, port: int, tmp_path: Path) -> None:
    ranks = process(program, port, python="/nowhere/python")
    ranks.ready(5)
    assert "/nowhere/python could not be started" in ranks.save_and_load(str(tmp_path), 0, 2, "a", 5)["error"]
    ranks.end()


@pytest.mark.parametrize("text", ["import time; time.sleep(600)", "import os; os._exit(3)"])
def test_torch_that_hangs_or_dies_is_given_up_in_time(
    program: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "numpy.py").write_text("")
    (tmp_path / "torch.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ranks = process(program, port)
    ranks.ready(2)
    answer = ranks.save_and_load(str(tmp_path), 0, 2, "127.0.0.1", 5)
    ranks.end()
    assert answer["error"].startswith("import of torch")


@pytest.mark.parametrize("size", [2, 3, 4, 7, 32])
def test_state_can_be_shared_by_all_ranks_and_by_one_less(size: int) -> None:
    rows = storage_checkpoint.rows_of(10**6, size)
    assert rows % size == rows % (size - 1) == 0
    assert rows * storage_checkpoint.COLUMNS * storage_checkpoint.ELEMENT_BYTES >= 10**6
