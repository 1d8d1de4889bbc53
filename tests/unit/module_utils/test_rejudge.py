"""Saved outputs are judged by the same checks as fresh ones."""

import json
import subprocess
import sys

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination import registry
from ansible_collections.muster.cluster.plugins.module_utils.examination.rejudge import (
    SavedError,
    checks_of,
    rejudged,
    saved_outputs,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.evidence_store import EvidenceStore
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence

from tests.typed import typed

MEMINFO = "MemTotal:       {} kB\nSwapTotal:      0 kB\n"


@pytest.fixture
def bundle(tmp_path):
    """Raw outputs as an examination keeps them."""
    evidence = Evidence("1", "n", "preflight", 1.0, 2.0, "b", {}, "d")
    outputs = {"meminfo": Output(MEMINFO.format(1024000)), "chrony": Output(rc=None, timed_out=True, error="no answer")}
    store = EvidenceStore(str(tmp_path))
    store.write_raw(evidence, "raw", outputs)
    return store.path("preflight", "1").parent / "raw"


def test_bundle_is_judged_as_it_was_when_it_was_fresh(bundle, expect):
    findings = {finding.check: finding for finding in rejudged(saved_outputs(str(bundle)), typed(expect))}
    assert findings["memory"].verdict == "pass"
    assert (findings["clock"].verdict, findings["clock"].reason) == ("incomplete", "no answer")


def test_only_checks_whose_outputs_are_there_are_asked():
    assert checks_of(["meminfo"]) == ("memory", "swap")
    assert set(checks_of(registry.PROBES)) <= set(registry.CHECKS)


def test_check_asked_by_name_without_its_output_is_incomplete(bundle, expect):
    (finding,) = rejudged(saved_outputs(str(bundle)), typed(expect), ["cpu"])
    assert (finding.verdict, finding.reason) == ("incomplete", "lscpu was not run")


@pytest.mark.parametrize(
    ("outputs", "checks", "message"),
    [({"furmark": Output()}, (), "found probe 'furmark'"), ({"meminfo": Output()}, ("x",), "found check 'x'")],
)
def test_unknown_names_are_an_error(expect, outputs, checks, message):
    with pytest.raises(SavedError, match=message):
        rejudged(outputs, typed(expect), checks)


def test_file_without_its_probe_and_broken_bundle_are_errors(tmp_path):
    (tmp_path / "q.txt").write_text("x")
    with pytest.raises(SavedError, match="expected --probe"):
        saved_outputs(str(tmp_path / "q.txt"))
    with pytest.raises(SavedError, match=r"outputs.json"):
        saved_outputs(str(tmp_path))
    (tmp_path / "outputs.json").write_text('{"meminfo": {"rc": 0, "new": 1}}')
    with pytest.raises(SavedError):
        saved_outputs(str(tmp_path))


@pytest.mark.parametrize(("kib", "said"), [(1024000, (0, "pass")), (512000, (1, "fail")), ("N/A", (2, "incomplete"))])
def test_program_judges_one_file(node_program, tmp_path, expect, kib, said):
    (tmp_path / "meminfo.txt").write_text(MEMINFO.format(kib))
    command = [sys.executable, str(node_program), "judge", "--probe", "meminfo", "--expect", "-"]
    done = subprocess.run(
        [*command, str(tmp_path / "meminfo.txt")], input=json.dumps(expect), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == said, done.stdout + done.stderr
