"""The program as a node runs it: the real archive under the real interpreter."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.commands.examine_command import STAGES
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import STAGE_CHECKS
from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import rules_of
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import (
    COLLECTION,
    build,
    program_digest,
)


@pytest.fixture(scope="module")
def muster(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "muster"
    path.write_bytes(build())

    def run(*words, text=""):
        argv = [sys.executable, "-S", str(path), *words]
        return subprocess.run(argv, input=text, capture_output=True, text=True, check=False, timeout=60)

    return run


def test_version(muster):
    assert muster("--version").stdout == "muster 0.1.0\n"


def test_version_starts_within_its_budget(muster):
    def seconds():
        before = os.times()
        muster("--version")
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    # Processor time, and the best of several: other processes of the machine are not ours to measure.
    assert min(seconds() for _ in range(5)) < 0.15


def test_examine_gives_evidence_and_keeps_the_last_five(muster, expect, tmp_path):
    expect["tools"] = {"path": "/nonexistent", "root": str(tmp_path)}
    words = ("examine", "--stage", "preflight", "--node", "n", "--state-directory", str(tmp_path))
    for number in range(7):
        done = muster(*words, "--id", f"e{number}", text=json.dumps(expect))
        assert done.returncode == 0, done.stderr
    evidence = Evidence.from_dict(json.loads(done.stdout))
    assert {finding.verdict for finding in evidence.findings} == {"incomplete"}
    assert "not found in /nonexistent" in evidence.findings[1].reason
    assert (evidence.rules, evidence.program) == (rules_of("preflight"), program_digest())
    stored = sorted(path.name for path in (tmp_path / "evidence" / "preflight").iterdir())
    assert stored == ["e2", "e3", "e4", "e5", "e6"]
    directory = tmp_path / "evidence" / "preflight" / "e6"
    assert json.loads((directory / "evidence.json").read_text()) == evidence.to_dict()
    assert json.loads((directory / "raw" / "outputs.json").read_text())["lscpu"]["rc"] is None


def test_examine_says_which_machine_it_was(muster, expect, tmp_path):
    expect["tools"] = {"path": "/usr/bin:/bin", "root": str(tmp_path)}
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "machine-id").write_text("5f2b8c1e9a7d4e63b0c4d8f1a2e6b397\n")
    done = muster("examine", "--stage", "preflight", "--node", "other-name", "--no-store", text=json.dumps(expect))
    evidence = Evidence.from_dict(json.loads(done.stdout))
    # The name that it was asked by is not the machine's word.
    assert evidence.node == "other-name"
    assert evidence.identity["hostname"] == os.uname().nodename
    assert evidence.identity["machine_id"] == "5f2b8c1e9a7d4e63b0c4d8f1a2e6b397"
    assert evidence.identity["ssh_host_keys"] is None


def test_examine_of_one_check_prints_its_findings_and_keeps_nothing(muster, expect, tmp_path):
    expect["tools"] = {"path": "/nonexistent", "root": str(tmp_path)}
    words = ("examine", "--stage", "burn_in", "--node", "n", "--state-directory", str(tmp_path / "state"))
    done = muster(*words, "--check", "inlet_temperature", text=json.dumps(expect))
    (finding,) = json.loads(done.stdout)
    assert (finding["check"], finding["subject"], finding["verdict"]) == ("inlet_temperature", "host", "incomplete")
    assert not (tmp_path / "state").exists()
    done = muster(*words, "--check", "roce_gid", text=json.dumps(expect))
    assert done.returncode == 2 and "expected a check of stage burn_in" in done.stderr


def test_examine_without_store_leaves_no_trace(muster, expect, tmp_path):
    expect["tools"] = {"path": "/nonexistent", "root": str(tmp_path)}
    words = ("examine", "--stage", "preflight", "--node", "n", "--state-directory", str(tmp_path / "state"))
    assert muster(*words, "--no-store", text=json.dumps(expect)).returncode == 0
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("", (), "expectations on standard input are not JSON"),
        ('{"class": "x"}', (), "expectations: fabric: found nothing, expected a mapping, or null"),
        (None, ("--id", "../../x"), "--id is '../../x'"),
    ],
)
def test_bad_input_ends_with_status_2_and_a_reason(muster, expect, text, words, message):
    text = json.dumps(expect) if text is None else text
    done = muster("examine", "--stage", "preflight", "--node", "n", *words, text=text)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_burn_in_status_of_a_fresh_node(muster, tmp_path):
    done = muster("burn-in", "status", "--state-directory", str(tmp_path))
    assert json.loads(done.stdout) == {"status": "none"}


def test_stages_of_the_command_line_are_those_of_the_registry():
    assert set(STAGES) == set(STAGE_CHECKS) - {"health", "prolog", "epilog"}


def test_unknown_command_names_what_there_is(muster):
    done = muster("examin")
    assert done.returncode == 2 and "found 'examin', expected one of examine, burn-in" in done.stderr
    assert muster().returncode == 2


def test_closed_pipe_leaves_no_traceback(muster, tmp_path):
    read, write = os.pipe()
    os.close(read)
    path = tmp_path / "muster"
    path.write_bytes(build())
    argv = [sys.executable, "-S", str(path), "--help"]
    done = subprocess.run(argv, stdout=write, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(write)
    assert done.returncode == 141 and done.stderr == ""


@pytest.mark.parametrize(
    "path",
    sorted([*COLLECTION.glob("plugins/module_utils/**/*.py"), *COLLECTION.glob("plugins/modules/*.py")]),
    ids=lambda path: path.name,
)
def test_code_for_nodes_is_python_3_9(path: Path):
    ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=(3, 9))


def test_gpu_programs_run_from_the_archive(muster, tmp_path):
    # -S of the fixture hides every package: whatever the machine has, there is no torch.
    done = muster("gpu-stress", "--device=cpu", "--gpus=0000:1b:00.0", "--seconds=1")
    summary = json.loads(done.stdout)
    assert done.returncode == 0 and "import of torch" in summary["missing"]["0000:1b:00.0"]
    done = muster("gpu-telemetry", "--seconds=0.1", f"--directory={tmp_path}", "--files=1", "--under-load")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["under_load"] is True
