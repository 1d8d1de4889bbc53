"""Evidence: what comes back is what was written, and junk does not come back at all."""

import json
from dataclasses import fields

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import (
    STAGES,
    Evidence,
    EvidenceError,
    digest_of,
    expect_digest_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS, Finding

GOOD = Evidence("1", "gpu-01", "preflight", 1.0, None, "b", {"kernel": None}, "d", (Finding("cpu", "host", PASS),))


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_evidence_comes_back_through_json():
    assert Evidence.from_dict(json.loads(json.dumps(GOOD.to_dict()))) == GOOD


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 3}, "format is 3, expected 2"),
        ({"findings": [{}] * 5001}, "5001 findings, expected at most 5000"),
        ({"identity": {"board_uuid": 7}}, "identity 'board_uuid' is 7, expected a text or nothing"),
        ({"rules": {"xid": "2"}}, "rules 'xid' is '2', expected a whole number"),
        ({"rules": {"xid": True}}, "rules 'xid' is True, expected a whole number"),
        ({"program": None}, "program is NoneType"),
        ({"stage": "lunch"}, "stage is 'lunch'"),
        ({"started": True}, "started is bool"),
        ({"finished": "now"}, "finished is str"),
        ({"findings": {}}, "findings is dict"),
        ({"findings": [{"check": "cpu"}]}, "missing fields"),
        ({"findings": ["cpu"]}, "evidence 1"),
        ({"boot_id": None}, "boot_id is NoneType"),
        ({"fingerprint": {"kernel": ["x"]}}, "fingerprint 'kernel' is"),
        ({"fingerprint": {"gpu_serials": 7}}, "fingerprint 'gpu_serials' is 7"),
        ({"fingerprint": {"kernel": "a\0b"}}, "fingerprint 'kernel' is"),
        ({"fingerprint": {7: "x"}}, "fingerprint: key 7 is int"),
        ({"raw": {"lscpu": None}}, "raw 'lscpu' is NoneType"),
        ({"detail": nested(900)}, "detail: nested more than"),
        ({"detail": {"a": object()}}, "detail: object, expected JSON"),
        ({"node": "\udc80"}, "node: text that is not Unicode"),
    ],
)
def test_wrong_evidence_is_rejected_with_its_field(change, message):
    with pytest.raises(EvidenceError, match=message):
        Evidence.from_dict({**GOOD.to_dict(), **change})


@pytest.mark.parametrize("junk", [None, [], "text", 5, {}])
def test_junk_is_rejected(junk):
    with pytest.raises(EvidenceError):
        Evidence.from_dict(junk)


def test_digest_does_not_depend_on_order():
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1}) != digest_of({"a": 1, "b": 3})


def test_each_stage_is_judged_by_its_own_expectations():
    expect = {"class": "x", "cpu": {"cores": 96}, "collective": {"floors": [1]}}
    floor = {**expect, "collective": {"floors": [2]}}
    cores = {**expect, "cpu": {"cores": 64}}
    assert (
        expect_digest_of("burn_in", expect) == expect_digest_of("burn_in", floor) != expect_digest_of("burn_in", cores)
    )
    assert expect_digest_of("acceptance", expect) == expect_digest_of("acceptance", cores)
    assert expect_digest_of("acceptance", expect) != expect_digest_of("acceptance", floor)


@pytest.mark.parametrize("section", ["fabric", "nic"])
def test_collectives_over_other_rails_or_another_fabric_are_proven_anew(section):
    expect = {"class": "x", "nic": {"rails": [0]}, "fabric": {"kind": "roce"}, "collective": {}}
    changed = {**expect, section: {"other": 1}}
    assert expect_digest_of("acceptance", expect) != expect_digest_of("acceptance", changed)
    assert expect_digest_of("fabric", expect) != expect_digest_of("fabric", changed)
    # Another mark or routing is no reason for days of burn-in.
    same = expect_digest_of("burn_in", expect) == expect_digest_of("burn_in", changed)
    assert same == (section == "fabric")


def test_every_section_but_what_is_installed_planned_with_or_between_hosts_voids_a_burn_in_when_it_changes():
    sections = {each.name.rstrip("_") for each in fields(Expectations)}
    expect = {section: {"floor": 1} for section in sections}
    digest = expect_digest_of("burn_in", expect)
    changed = {name for name in sections if expect_digest_of("burn_in", {**expect, name: {"floor": 2}}) != digest}
    between = {"collective", "mini_clusters", "fabric", "rdma", "mounts", "checkpoint", "storage"}
    assert sections - changed == {"gpu_stack", "power", *between}


def test_mini_clusters_make_other_evidence_of_acceptance_alone_and_of_nothing_where_none_are_declared():
    before = {"class": "x", "collective": {}}
    declared, other = ({**before, "mini_clusters": {"profile": name}} for name in ("chat", "agent"))
    for stage in STAGES:
        without = expect_digest_of(stage, before)
        assert expect_digest_of(stage, {**before, "mini_clusters": None}) == without
        digests = {without, expect_digest_of(stage, declared), expect_digest_of(stage, other)}
        assert len(digests) == (3 if stage == "acceptance" else 1)
