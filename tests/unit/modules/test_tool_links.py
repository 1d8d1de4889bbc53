"""Programs get a link in the path once they can start on the host, and not before."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule

from tests.run_module import run_module

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "opt/tool-1"
    place.mkdir(parents=True)
    for name in ("tool", "other"):
        (place / name).write_text("#!/bin/sh\n")
    return place


def links(place: Path, *programs: str, check: bool = False) -> dict[str, Any]:
    return run_module(
        "tool_links", check, place=str(place), programs=list(programs), directory=str(place.parents[1] / "bin")
    )


def test_programs_are_linked_then_left_alone(place: Path, tmp_path: Path) -> None:
    first = links(place, "tool", "other")
    assert first["changed"] and first["linked"] == [f"{tmp_path}/bin/tool", f"{tmp_path}/bin/other"]
    assert (tmp_path / "bin/tool").resolve() == place / "tool"
    again = links(place, "tool", "other")
    assert not again["changed"] and again["linked"] == []
    assert sorted(path.name for path in (tmp_path / "bin").iterdir()) == ["other", "tool"]


def test_link_to_another_version_and_a_file_are_replaced(place: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tool").symlink_to("/opt/muster/tool-0/tool")
    (tmp_path / "bin/other").write_text("of the site\n")
    changed = links(place, "tool", "other")
    assert changed["diff"]["before"] == f"{tmp_path}/bin/tool -> /opt/muster/tool-0/tool\n"
    assert all((tmp_path / "bin" / name).readlink() == place / name for name in ("tool", "other"))


def test_check_mode_links_nothing_and_needs_no_tool(place: Path, tmp_path: Path) -> None:
    (place / "other").unlink()
    assert links(place, "tool", "other", check=True)["linked"] == [f"{tmp_path}/bin/tool", f"{tmp_path}/bin/other"]
    assert not (tmp_path / "bin").exists()


def test_tool_that_is_not_there_is_named(place: Path) -> None:
    assert links(place, "lost")["msg"] == f"{place}/lost: No such file or directory"


def test_directory_in_place_of_a_link_is_named(place: Path, tmp_path: Path) -> None:
    (tmp_path / "bin/tool").mkdir(parents=True)
    assert links(place, "tool")["msg"] == f"{tmp_path}/bin/tool: Is a directory"


@needs_gcc
def test_program_whose_library_is_missing_is_not_linked(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Found by this session alone.
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    subprocess.run(["gcc", "-shared", "-o", tmp_path / "libmustertest.so", "-xc", "/dev/null"], check=True)
    source = "int main(void) { return 0; }"
    library = ["-Wl,--no-as-needed", "-L", tmp_path, "-lmustertest"]
    subprocess.run(["gcc", "-o", place / "linked", "-xc", "-", *library], input=source, text=True, check=True)
    subprocess.run(["gcc", "-o", place / "plain", "-xc", "-"], input=source, text=True, check=True)
    said = "linked needs libmustertest.so, which this host does not have: add its package to host_base_packages"
    assert links(place, "plain", "linked", "tool")["msg"] == said
    assert not (tmp_path / "bin").exists()
    # Its package may be one that the same run would install. Ansible's own list of warnings is one for all modules of a
    # process, and may have been handed out already.
    warnings: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda module, text: warnings.append(text))
    assert links(place, "plain", "linked", check=True)["changed"]
    assert warnings == [said]
    assert links(place, "plain")["changed"]
