"""node_check asks for one examination, and takes no other answer."""

import json
import sys
from dataclasses import replace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.modules import node_check
from ansible_collections.muster.cluster.plugins.modules.node_check import health_in

from tests.run_module import run_module

EXPECT = {"class": "x", "clock": {"offset_ms": 0.5}, "collective": {"backend": "gloo"}}
# Answers as asked, but for what ANSWER says otherwise.
TOOL = """#!{python}
import json, sys
if sys.argv[1] == "burn-in":
    assert sys.argv[2:5] == ["settle", "--uncollected", "gpu-01"]
    print({burn_in!r}.replace("KNOWN", " ".join(sys.argv[6::2])))
    sys.exit()
sys.stdin.read()
sys.stderr.write({said!r})
words = sys.argv[2:]
if sys.argv[1] == "judge-again":
    sys.exit({again!r}) if {again!r}.startswith("muster:") else print({again!r}) or sys.exit(0)
asked = {{words[at][2:]: words[at + 1] for at in range(0, 6, 2)}}
print(json.dumps({{**json.loads({evidence!r}), **asked, **json.loads({answer!r})}}))
"""


@pytest.fixture
def check(tmp_path):
    def run(_health=False, _again="", _judge_again="", _said="", _burn_in='{"uncollected": []}', _known=(), **answer):
        digest = expect_digest_of("preflight", EXPECT)
        evidence = Evidence("", "", "", 1.0, 2.0, "boot", {}, digest).to_dict()
        tool = tmp_path / "muster"
        given = {"evidence": json.dumps(evidence), "answer": json.dumps(answer), "again": _again, "said": _said}
        tool.write_text(TOOL.format(python=sys.executable, burn_in=_burn_in, **given))
        tool.chmod(0o755)
        asked = {"node": "gpu-01", "expect": EXPECT, "judge_again": _judge_again, "known": list(_known)}
        arguments = {**asked, "tool": str(tool), "health": _health}
        return run_module("node_check", **arguments)

    return run


def test_answer_to_this_request_is_returned(check):
    result = check()
    assert (result["evidence"]["node"], result["evidence"]["stage"]) == ("gpu-01", "preflight")
    assert len(result["evidence"]["id"]) == 36 and result["changed"] is False


def test_evidence_that_the_node_could_not_keep_is_told(check, monkeypatch):
    warned = []
    monkeypatch.setattr(node_check.AnsibleModule, "warn", lambda _, text: warned.append(text))
    said = "muster: evidence could not be kept on this host: [Errno 28] No space left on device: '/var/lib/muster'"
    check(_said=f"{said}\n")
    assert warned == [said]


BURNED = Evidence("KNOWN", "gpu-01", "burn_in", 1.0, 2.0, "boot", {}, "d")


def test_burn_in_that_nobody_collected_comes_along(check):
    result = check(_burn_in=json.dumps({"uncollected": [BURNED.to_dict()]}), _known=["a", "b"])
    assert [each["id"] for each in result["burn_in"]] == ["a b"]
    assert check()["burn_in"] == []


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "null",
        "{}",
        '{"uncollected": null}',
        '{"uncollected": [{}]}',
        json.dumps({"uncollected": [replace(BURNED, node="gpu-02").to_dict()]}),
        json.dumps({"uncollected": [replace(BURNED, stage="preflight").to_dict()]}),
    ],
)
def test_unreadable_word_about_burn_in_fails(check, answer):
    result = check(_burn_in=answer)
    assert result["failed"] and "burn-in settle: exit status 0" in result["msg"]


@pytest.mark.parametrize(
    "answer", [{"id": "yesterday"}, {"node": "gpu-02"}, {"stage": "burn_in"}, {"expect_digest": "other"}]
)
def test_answer_to_another_request_fails(check, answer):
    ((key, value),) = answer.items()
    result = check(**answer)
    assert result["failed"] and f"{key} is {value!r}, expected" in result["msg"]


PREFLIGHT = Evidence("p", "gpu-01", "preflight", 1.0, 2.0, "boot", {}, "d")
WORD = {"verdict": "pass", "findings": [], "boot_id": "boot", "evidence": None}
FAILED = Finding("xid", "host", "fail").to_dict()


def heard(word, rc=0):
    return health_in(rc, word if isinstance(word, str) else json.dumps(word), "", PREFLIGHT, False)


def test_word_of_the_health_check_is_returned():
    assert heard(WORD) == {"verdict": "pass", "findings": [], "evidence": None}
    evidence = replace(PREFLIGHT, stage="health", id="h").to_dict()
    told = heard({**WORD, "verdict": "fail", "findings": [FAILED], "evidence": evidence}, 1)
    assert (told["verdict"], told["findings"], told["evidence"]["id"]) == ("fail", [FAILED], "h")


@pytest.mark.parametrize(
    ("word", "rc"),
    [
        ("", 0),
        ("OK\n", 0),
        ("null", 0),
        ("[]", 0),
        ({}, 0),
        ({**WORD, "verdict": "healthy"}, 0),
        ({**WORD, "verdict": ["pass"]}, 0),
        # The word and the exit status, or what it found, say two things.
        (WORD, 1),
        (WORD, -9),
        ({**WORD, "findings": [FAILED]}, 0),
        ({**WORD, "findings": [{}]}, 0),
        # A pass of another boot, evidence of another node or stage.
        ({**WORD, "boot_id": "other"}, 0),
        ({**WORD, "verdict": "fail", "findings": [FAILED], "evidence": PREFLIGHT.to_dict()}, 1),
        (
            {
                **WORD,
                "verdict": "fail",
                "findings": [FAILED],
                "evidence": replace(PREFLIGHT, stage="health", node="gpu-02").to_dict(),
            },
            1,
        ),
    ],
)
def test_answer_that_is_none_is_incomplete(word, rc):
    told = heard(word, rc)
    assert (told["verdict"], told["evidence"]) == ("incomplete", None)
    assert told["findings"][0]["check"] == "health" and f"exit status {rc}" in told["findings"][0]["reason"]


def test_health_check_is_asked_only_where_the_site_runs_one(check):
    assert check()["health"] is None


def test_health_check_that_crashes_costs_the_pass_and_not_the_task(check):
    result = check(_health=True)
    assert result["evidence"]["node"] == "gpu-01"
    assert (result["health"]["verdict"], result["health"]["service_age_seconds"]) == ("incomplete", None)


AGAIN = replace(PREFLIGHT, stage="burn_in", id="b-2", detail={"judged_again": {"of": "b-1", "from": {"xid": 1}}})


def test_burn_in_is_judged_again_where_that_is_asked_for(check):
    assert check()["judged_again"] is None
    result = check(_judge_again="b-1", _again=json.dumps(AGAIN.to_dict()))
    assert result["judged_again"] == AGAIN.to_dict() and result["evidence"]["stage"] == "preflight"


@pytest.mark.parametrize(
    "answer",
    [
        "muster: raw output of evidence b-1 is not there, or is another: last/lscpu",
        "",
        "{}",
        *(
            json.dumps(replace(AGAIN, **change).to_dict())
            for change in ({"node": "gpu-02"}, {"stage": "preflight"}, {"detail": {}}, {"detail": {"judged_again": 7}})
        ),
        json.dumps(replace(AGAIN, detail={"judged_again": {"of": "b-0"}}).to_dict()),
    ],
)
def test_burn_in_that_cannot_be_judged_again_costs_the_burn_in_and_not_the_task(check, answer):
    result = check(_judge_again="b-1", _again=answer)
    assert result["evidence"]["node"] == "gpu-01" and result["judged_again"] is None
