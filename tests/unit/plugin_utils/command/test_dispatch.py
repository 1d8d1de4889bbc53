"""The command for people, started as its own process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.command.dispatch import SUBCOMMANDS

ROOT = Path(__file__).resolve().parents[4]
HEALTHY = ROOT / "tests" / "healthy"
START = """
import sys
from ansible_collections.muster.cluster.plugins.plugin_utils.command.dispatch import main
status = main()
heavy = {"ansible", "numpy", "sqlalchemy"} & set(sys.modules)
assert not heavy, heavy
sys.exit(status)
"""


def muster(*words: str, **more) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "collections")}
    argv = [sys.executable, "-c", START, *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env=environment, **more)


def test_judge_of_a_healthy_output_passes_without_heavy_imports() -> None:
    done = muster("judge", "--class=lab_h100", "--probe=uname", str(HEALTHY / "uname.txt"), "--check=kernel_crash")
    assert done.returncode == 2 and done.stdout.splitlines()[-1] == "incomplete", done.stderr
    done = muster("judge", "--class=lab_h100", "--probe=nvidia_smi", str(HEALTHY / "nvidia_smi.xml"), "--check=gpu_ecc")
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "pass", done.stdout + done.stderr


def test_json_holds_what_the_text_says() -> None:
    words = ("judge", "--class=lab_h100", "--probe=nvidia_smi", str(HEALTHY / "nvidia_smi.xml"), "--check=gpu_ecc")
    text, data = muster(*words, "--all"), json.loads(muster(*words, "--json").stdout)
    assert (data["format"], data["command"], data["status"], data["verdict"]) == (1, "judge", 0, "pass")
    assert len(data["findings"]) == len(text.stdout.splitlines()) - 1
    assert {finding["verdict"] for finding in data["findings"]} == {"pass"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("judge", "--class=lab_h100", "--probe=uname", "/nonexistent"), "/nonexistent"),
        (
            ("judge", "--class=lab_h100", "--probe=unam", str(HEALTHY / "uname.txt")),
            "found probe 'unam', expected one of",
        ),
        (("judge", f"--expect={HEALTHY / 'uname.txt'}", "--probe=uname", "x"), "is not JSON"),
        (("judge", f"--expect={HEALTHY / 'nvml.json'}", "--probe=uname", "x"), "expected"),
    ],
)
def test_wrong_input_names_what_was_found_and_expected(words: tuple[str, ...], reason: str) -> None:
    done = muster(*words)
    assert done.returncode == 2 and reason in done.stderr and "Traceback" not in done.stderr, done.stderr
    data = json.loads(muster(*words, "--json").stdout)
    assert reason in data["error"] and data["status"] == 2


def test_class_of_a_board_is_refused_as_it_names_no_parts() -> None:
    done = muster("judge", "--class=hgx_h100", "--probe=uname", str(HEALTHY / "uname.txt"))
    assert done.returncode == 2 and "hgx_h100.gpu.parts: found nothing" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_subcommand_and_class_are_refused() -> None:
    assert muster("jugde").returncode == 2
    done = muster("judge", "--class=hgx_h999", "x")
    assert done.returncode == 2 and "hgx_h100" in done.stderr


def test_version_names_muster_and_what_it_runs_on() -> None:
    versions = json.loads(muster("version", "--json").stdout)["versions"]
    assert versions["muster"] == "0.1.0" and versions["ansible-core"] and versions["python"]


def test_help_names_every_subcommand() -> None:
    printed = muster("--help").stdout
    assert all(f"{name} " in printed for name in SUBCOMMANDS)


def test_closed_pipe_leaves_no_traceback() -> None:
    words = ["judge", "--class=lab_h100", "--probe=nvidia_smi", str(HEALTHY / "nvidia_smi.xml")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "collections")}
    read, write = os.pipe()
    os.close(read)
    argv = [sys.executable, "-c", START, *words]
    done = subprocess.run(
        argv, stdout=write, stderr=subprocess.PIPE, text=True, check=False, timeout=60, env=environment
    )
    os.close(write)
    assert done.returncode == 141 and done.stderr == ""
