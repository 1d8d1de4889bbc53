"""Tools of the GPU stack: what cannot measure anything is not built, what the examples need is."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from tests import warm_ansible

ROOT = Path(__file__).parents[3]


def built(tmp_path: Path, name: str, build: list[list[str]]) -> tuple[int, str]:
    """Return the exit status and the words of a run that builds a tool whose source is not there."""
    tool = {"name": name, "version": "2.16.4", "source": f"{tmp_path}/none.tar.gz", "sha256": "0" * 64}
    role = {"name": "muster.cluster.gpu_stack", "tasks_from": "build"}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.import_role": role}],
        "vars": {"gpu_stack_tools": [{**tool, "build": build, "files": ["build/all_reduce_perf"]}]},
    }
    (tmp_path / "play.json").write_text(json.dumps([play]))
    python = f"ansible_python_interpreter={sys.executable}"
    command = [Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", "-c", "local", "-e", python]
    done = warm_ansible.run(
        [*command, tmp_path / "play.json"],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")},
    )
    return done.returncode, re.sub(r"\s+", " ", done.stdout + done.stderr)


@pytest.mark.parametrize(
    "build",
    [
        [["make", "MPI=0"]],
        [["make", "MPI=1", "MPI=0"]],
        [["make", "-j16"]],
        [["make", "clean"], ["make"]],
        [["gmake", "MPI=0"]],
    ],
)
def test_nccl_tests_without_mpi_are_not_built(tmp_path: Path, build: list[list[str]]) -> None:
    rc, said = built(tmp_path, "nccl-tests", build)
    words = " ".join(word for command in build for word in command)
    assert rc and f"nccl-tests 2.16.4 is built by {words}, expected MPI=1 and MPI_HOME" in said
    assert "Build the tools" not in said


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("nccl-tests", [["make", "MPI=1", "MPI_HOME=/opt/mpi"]]),
        ("nccl-tests", [["sh", "build.sh"]]),
        ("nvbandwidth", [["make"]]),
    ],
)
def test_other_builds_are_tried(tmp_path: Path, name: str, build: list[list[str]]) -> None:
    rc, said = built(tmp_path, name, build)
    assert rc and "Build the tools" in said and "No such file" in said


def test_example_inventories_build_perftest_as_the_readme_says() -> None:
    text = (ROOT / "roles/gpu_stack/README.md").read_text(encoding="utf-8")
    blocks = [
        block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if block.startswith("gpu_stack_tools")
    ]
    (recipe,) = (tool for tool in yaml.safe_load(blocks[0])["gpu_stack_tools"] if tool["name"] == "perftest")
    for name in ("example_roce", "example_infiniband"):
        declared = (ROOT / f"inventory/{name}/group_vars/all.yml").read_text(encoding="utf-8")
        assert yaml.safe_load(declared)["gpu_stack_tools"] == [recipe], name
