"""The files that a lab host shows below its root."""

from __future__ import annotations

import re
from pathlib import Path

import lab_files
import pytest
from lab_state import declared


def test_meminfo_shows_the_memory_of_the_state_in_the_layout_of_the_kernel() -> None:
    lines = lab_files.files_of(declared("gpu-01", None, {"memory_mib": 2048}))["proc/meminfo"].splitlines()
    assert lines[:2] == ["MemTotal:        2097152 kB", "MemFree:         2034237 kB"]
    real = Path("/proc/meminfo").read_text(encoding="utf-8")
    read = ("MemTotal", "MemFree", "SwapTotal", "SwapFree")
    assert [re.sub(r"\d", " ", line) for line in lines if line.startswith(read)] == [
        re.sub(r"\d", " ", line) for line in real.splitlines() if line.startswith(read)
    ]


def test_a_file_that_a_new_state_lacks_vanishes_with_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_files, "files_of", dict)
    lab_files.write_files(tmp_path, {"sys/class/a/x": "1\n", "sys/class/b/x": "2\n"})
    own = tmp_path / "root" / "proc" / "boot_id"
    own.parent.mkdir(parents=True)
    own.write_text("written by the host\n", encoding="ascii")
    lab_files.write_files(tmp_path, {"sys/class/b/x": "3\n"})
    assert (tmp_path / "root/sys/class/b/x").read_text(encoding="ascii") == "3\n"
    assert not (tmp_path / "root/sys/class/a").exists()
    assert own.exists()
