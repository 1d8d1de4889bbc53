"""node_check asks for one examination, and takes no other answer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.evidence import Evidence, expect_digest_of

COLLECTIONS = Path(__file__).resolve().parents[3] / "collections"
EXPECT = {"class": "x", "clock": {"offset_ms": 0.5}, "collective": {"backend": "gloo"}}
# Answers as asked, but for what ANSWER says otherwise.
TOOL = """#!{python}
import json, sys
words = sys.argv[2:]
asked = {{words[at][2:]: words[at + 1] for at in range(0, 6, 2)}}
print(json.dumps({{**json.loads({evidence!r}), **asked, **json.loads({answer!r})}}))
"""


@pytest.fixture
def check(tmp_path):
    def run(**answer):
        digest = expect_digest_of("preflight", EXPECT)
        evidence = Evidence("", "", "", 1.0, 2.0, "boot", {}, digest).to_dict()
        tool = tmp_path / "muster"
        tool.write_text(TOOL.format(python=sys.executable, evidence=json.dumps(evidence), answer=json.dumps(answer)))
        tool.chmod(0o755)
        arguments = {"node": "gpu-01", "expect": EXPECT, "tool": str(tool)}
        done = subprocess.run(
            [sys.executable, "-m", "ansible_collections.muster.cluster.plugins.modules.node_check"],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
            env={"PYTHONPATH": str(COLLECTIONS), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return json.loads(done.stdout)

    return run


def test_answer_to_this_request_is_returned(check):
    result = check()
    assert (result["evidence"]["node"], result["evidence"]["stage"]) == ("gpu-01", "preflight")
    assert len(result["evidence"]["id"]) == 36 and result["changed"] is False


@pytest.mark.parametrize(
    "answer", [{"id": "yesterday"}, {"node": "gpu-02"}, {"stage": "burn_in"}, {"expect_digest": "other"}]
)
def test_answer_to_another_request_fails(check, answer):
    ((key, value),) = answer.items()
    result = check(**answer)
    assert result["failed"] and f"{key} is {value!r}, expected" in result["msg"]
