"""The ledger: guards, transactions and what survives a kill, on real SQLite files."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import (
    TABLES,
    Ledger,
    LedgerError,
    OutdatedLedgerError,
    StoredRound,
    parts_of,
    states,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import (
    AGREES,
    AdmittedBy,
    Doubt,
    Draw,
    Measured,
)
from sqlalchemy import String, create_engine, select, type_coerce

ID, CLUSTER = "ledger-1", "lab"
EVIDENCE = Evidence(
    id="e1",
    node="n1",
    stage="preflight",
    started=100.0,
    finished=110.0,
    boot_id="b",
    fingerprint={"gpu_serials": "0000:1b:00.0=S1,0000:43:00.0=S2", "kernel": None},
    expect_digest="d",
    findings=(Finding("cpu", "host", "pass", 96, 96),),
    detail={"a": 1.5},
    raw={"lscpu": "0" * 64},
)
FORK = multiprocessing.get_context("fork")


SCHEMA_1 = f"""
CREATE TABLE meta (ledger_id VARCHAR NOT NULL PRIMARY KEY, cluster VARCHAR NOT NULL, schema_version INTEGER NOT NULL,
  generation INTEGER NOT NULL, owed INTEGER NOT NULL, created DOUBLE NOT NULL);
CREATE TABLE node (name VARCHAR NOT NULL PRIMARY KEY, hardware_class VARCHAR, state VARCHAR NOT NULL,
  stage VARCHAR NOT NULL, reason VARCHAR NOT NULL, since DOUBLE NOT NULL);
CREATE TABLE part (kind VARCHAR NOT NULL, serial VARCHAR NOT NULL, node VARCHAR NOT NULL, slot VARCHAR NOT NULL,
  first_seen DOUBLE NOT NULL, last_seen DOUBLE NOT NULL, PRIMARY KEY (kind, serial));
CREATE INDEX ix_part_node ON part (node);
CREATE TABLE evidence (seq INTEGER NOT NULL PRIMARY KEY, id VARCHAR NOT NULL UNIQUE, node VARCHAR NOT NULL,
  stage VARCHAR NOT NULL, started DOUBLE NOT NULL, finished DOUBLE, boot_id VARCHAR NOT NULL, fingerprint JSON NOT NULL,
  expect_digest VARCHAR NOT NULL, findings JSON NOT NULL, detail JSON NOT NULL, raw JSON NOT NULL,
  muster_version VARCHAR NOT NULL, imported DOUBLE NOT NULL, digest VARCHAR NOT NULL);
CREATE INDEX evidence_newest ON evidence (stage, node, seq);
CREATE TABLE decision (seq INTEGER NOT NULL PRIMARY KEY, node VARCHAR NOT NULL, decision VARCHAR NOT NULL,
  who VARCHAR NOT NULL, at DOUBLE NOT NULL, reason VARCHAR NOT NULL);
CREATE INDEX ix_decision_node ON decision (node);
CREATE TABLE transition (seq INTEGER NOT NULL PRIMARY KEY, node VARCHAR NOT NULL, from_state VARCHAR NOT NULL,
  to_state VARCHAR NOT NULL, at DOUBLE NOT NULL, cause VARCHAR NOT NULL, who VARCHAR NOT NULL);
CREATE INDEX ix_transition_node ON transition (node);
CREATE TABLE drain (node VARCHAR NOT NULL PRIMARY KEY, reason VARCHAR NOT NULL, seen DOUBLE NOT NULL);
CREATE TABLE round (seq INTEGER NOT NULL PRIMARY KEY, campaign VARCHAR NOT NULL, number INTEGER NOT NULL,
  plan JSON NOT NULL, observations JSON, started DOUBLE NOT NULL, finished DOUBLE, UNIQUE (campaign, number));
INSERT INTO meta VALUES ('{ID}', '{CLUSTER}', 1, 3, 0, 1.0);
INSERT INTO node VALUES ('n1', 'a', 'admitted', 'acceptance', 'every required check passed', 10.0);
INSERT INTO part VALUES ('gpu', 'S1', 'n1', '0000:1b:00.0', 5.0, 9.0);
INSERT INTO evidence VALUES (1, 'e0', 'n1', 'preflight', 5, 6, 'b', '{{}}', 'd', '[]', '{{}}', '{{}}', '', 9, 'x');
INSERT INTO evidence VALUES (2, 'e2', 'n1', 'burn_in', 11, 12, 'b', '{{}}', 'd',
  '[{{"check": "xid", "subject": "host", "verdict": "fail", "measured": null, "expected": null, "unit": "",
  "reason": "", "action": "none"}}]', '{{}}', '{{}}', '', 13, 'y');
INSERT INTO transition VALUES (1, 'n1', 'new', 'admitted', 10.0, 'every required check passed', 'ann');
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.sqlite"


@pytest.fixture
def ledger(url: str) -> Ledger:
    made = Ledger.create(url, ID, CLUSTER, now=1.0)
    with made.writing() as writer:
        writer.declare({"n1": "a", "n2": "b"}, 1.0)
    return made


def test_create_then_open(url: str) -> None:
    Ledger.create(url, ID, CLUSTER)
    with Ledger.open(url, ID, CLUSTER).reading() as reader:
        assert (reader.generation(), reader.nodes()) == (0, {})


def test_create_refuses_what_is_there(url: str, ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="already there"):
        Ledger.create(url, "another", CLUSTER)
    assert states(url, ID) == {"n1": "new", "n2": "new"}


def no_file(path: Path) -> None:
    path.unlink()


def empty_file(path: Path) -> None:
    path.write_bytes(b"")


def no_tables(path: Path) -> None:
    path.unlink()
    sqlite3.connect(path).execute("vacuum").close()


def another_database(path: Path) -> None:
    path.unlink()
    sqlite3.connect(path).execute("create table song (name)").close()


def not_a_database(path: Path) -> None:
    path.write_bytes(b"muster" * 1000)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def newer_schema(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("update meta set schema_version = 99")


def no_meta_row(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("delete from meta")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (no_file, "no such file"),
        (empty_file, "the file is empty"),
        (no_tables, "empty|no tables"),
        (another_database, "holds tables song"),
        (not_a_database, "not a database"),
        (cut_short, "malformed"),
        (a_directory, "not a file"),
        (newer_schema, "schema 99 is newer"),
        (no_meta_row, "0 rows in table meta"),
    ],
)
def test_open_refuses_and_changes_nothing(
    url: str, ledger: Ledger, tmp_path: Path, damage: Callable[[Path], None], says: str
) -> None:
    path = tmp_path / "ledger.sqlite"
    damage(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(LedgerError, match=says):
        Ledger.open(url, ID, CLUSTER)
    assert states(url, ID) == {}
    assert (path.read_bytes() if path.is_file() else None) == before


@pytest.mark.parametrize(
    ("ledger_id", "cluster", "says"), [("x", CLUSTER, "its id is"), (ID, "x", "belongs to cluster")]
)
def test_open_refuses_a_foreign_ledger(url: str, ledger: Ledger, ledger_id: str, cluster: str, says: str) -> None:
    with pytest.raises(LedgerError, match=says):
        Ledger.open(url, ledger_id, cluster)


@pytest.mark.parametrize("url", ["nonsense", "sqlite://", "mysql://u:p@h/d"])
def test_open_refuses_a_url_that_names_no_ledger(url: str) -> None:
    with pytest.raises(LedgerError, match=r"ledger\.url"):
        Ledger.open(url, ID, CLUSTER)


def test_a_password_is_never_shown() -> None:
    with pytest.raises(LedgerError) as caught:
        Ledger.open("postgresql+nodriver://u:hunter2@127.0.0.1:1/d", ID, CLUSTER)
    assert "hunter2" not in str(caught.value)


def test_evidence_again_changes_nothing(ledger: Ledger) -> None:
    for _ in range(2):
        with ledger.writing() as writer:
            assert writer.add_evidence([EVIDENCE], 200.0) == []
    with ledger.reading() as reader:
        (record,) = reader.records(["preflight"], ["n1"])["n1"]
        assert (record.evidence, record.imported) == (EVIDENCE, 200.0)
        assert reader.known("preflight", "n1") == ["e1"]


@pytest.mark.parametrize("change", [{"findings": ()}, {"node": "n2"}, {"finished": None}, {"detail": {"a": 2}}])
def test_another_record_with_a_known_id_is_refused(ledger: Ledger, change: dict[str, Any]) -> None:
    with ledger.writing() as writer:
        writer.add_evidence([EVIDENCE], 200.0)
        (refused,) = writer.add_evidence([replace(EVIDENCE, **change)], 201.0)
    assert "e1" in refused.reason
    with ledger.reading() as reader:
        assert reader.records(["preflight"], ["n1"])["n1"][0].evidence == EVIDENCE


@pytest.mark.parametrize(
    "change",
    [
        {"started": math.nan},
        {"finished": math.inf},
        {"started": 10**400},
        {"boot_id": "\udc80"},
        {"boot_id": "\0"},
        {"detail": {"duration_seconds": math.nan}},
    ],
)
def test_evidence_that_no_database_takes_is_refused_alone(ledger: Ledger, change: dict[str, Any]) -> None:
    with ledger.writing() as writer:
        (refused,) = writer.add_evidence([replace(EVIDENCE, **change), replace(EVIDENCE, id="e2", node="n2")], 200.0)
        assert (refused.node, refused.id) == ("n1", "e1")
        assert writer.known("preflight", "n2") == ["e2"]


def test_unfinished_evidence_is_continued_until_it_is_finished(ledger: Ledger) -> None:
    running = replace(EVIDENCE, finished=None, findings=())
    with ledger.writing() as writer:
        writer.add_evidence([running], 200.0)
        assert writer.known("preflight", "n1") == []
        assert writer.add_evidence([EVIDENCE], 201.0) == []
        assert len(writer.add_evidence([running], 202.0)) == 1
        assert writer.known("preflight", "n1") == ["e1"]
        (record,) = writer.records(["preflight"], ["n1"])["n1"]
    assert record.evidence == EVIDENCE


def test_records_give_the_last_imported_whatever_the_hosts_clock_says(ledger: Ledger) -> None:
    items = [
        (replace(EVIDENCE, id="old", started=10.0, finished=11.0), 100.0),
        (replace(EVIDENCE, id="newest", started=90.0, finished=91.0), 101.0),
        (replace(EVIDENCE, id="ahead", started=9e9, finished=9e9), 102.0),
        (replace(EVIDENCE, id="late", started=50.0, finished=51.0), 103.0),
        (replace(EVIDENCE, id="other", node="n2"), 103.0),
    ]
    for item, imported in items:
        with ledger.writing() as writer:
            writer.add_evidence([item], imported)
    with ledger.reading() as reader:
        found = reader.records(["preflight", "burn_in"], ["n1"])
    assert [record.evidence.id for record in found["n1"]] == ["late"]


def test_evidence_of_one_transaction_keeps_its_order(ledger: Ledger) -> None:
    items = [replace(EVIDENCE, id="first", started=90.0, finished=91.0), replace(EVIDENCE, id="last", started=10.0)]
    with ledger.writing() as writer:
        writer.add_evidence(items, 100.0)
        assert [record.evidence.id for record in writer.records(["preflight"], ["n1"])["n1"]] == ["last"]


def test_a_continuation_is_the_newest(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        writer.add_evidence([replace(EVIDENCE, finished=None), replace(EVIDENCE, id="e2")], 100.0)
        writer.add_evidence([EVIDENCE], 101.0)
        assert [record.evidence for record in writer.records(["preflight"], ["n1"])["n1"]] == [EVIDENCE]
        assert writer.known("preflight", "n1") == ["e2", "e1"]


def test_a_record_that_cannot_be_read_any_more_is_one_that_never_finished(ledger: Ledger, tmp_path: Path) -> None:
    with ledger.writing() as writer:
        writer.add_evidence([EVIDENCE, replace(EVIDENCE, id="e2")], 100.0)
    with sqlite3.connect(tmp_path / "ledger.sqlite") as connection:
        connection.execute("update evidence set fingerprint = '{\"kernel\": [1]}' where id = 'e2'")
    with ledger.reading() as reader:
        (record,) = reader.records(["preflight"], ["n1"])["n1"]
    assert (record.evidence.id, record.evidence.finished) == ("e2", None)


def test_a_reason_may_quote_anything(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        writer.move({"n1": ("testing", "preflight", "said \udc80\0\x1b[2J")}, "me", 2.0, compared=True)
        assert writer.nodes()["n1"].reason == r"said \udc80\u0000\u001b[2J"


def test_an_admitted_node_keeps_the_class_it_was_admitted_as(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        writer.move({"n1": ("admitted", "acceptance", "")}, "me", 2.0, compared=True)
        writer.declare({"n1": "new", "n2": "new"}, 3.0)
        assert {name: row.hardware_class for name, row in writer.nodes().items()} == {"n1": "a", "n2": "new"}
        writer.move({"n1": ("testing", "preflight", "")}, "me", 4.0, compared=True)
        writer.declare({"n1": "new", "n2": "new"}, 5.0)
        assert writer.nodes()["n1"].hardware_class == "new"


def test_admitted_under_is_what_was_in_force_at_admission(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        writer.add_evidence([replace(EVIDENCE, id="e0", expect_digest="older"), EVIDENCE], 2.0)
        writer.add_evidence([replace(EVIDENCE, id="n2", node="n2")], 2.0)
        writer.move({"n1": ("admitted", "acceptance", "")}, "me", 2.0, compared=True)
        writer.add_evidence([replace(EVIDENCE, id="e2", expect_digest="later")], 3.0)
        assert writer.admitted_under("preflight", ["n1", "n2"]) == {"n1": AdmittedBy("d", {})}
        assert writer.admitted_under("burn_in", ["n1", "n2"]) == writer.admitted_under("preflight", []) == {}


def test_parts_follow_preflight(ledger: Ledger) -> None:
    assert parts_of(EVIDENCE) == [("gpu", "0000:1b:00.0", "S1"), ("gpu", "0000:43:00.0", "S2")]
    assert parts_of(replace(EVIDENCE, fingerprint={"gpu_serials": None})) == []
    assert parts_of(replace(EVIDENCE, fingerprint={"gpu_serials": "none"})) == []
    assert parts_of(replace(EVIDENCE, fingerprint={"gpu_serials": ["x"]})) == []  # type: ignore[dict-item]
    with ledger.writing() as writer:
        writer.add_evidence([EVIDENCE], 200.0)
        moved = replace(EVIDENCE, id="e2", node="n2", fingerprint={"gpu_serials": "0000:1b:00.0=S1"})
        writer.add_evidence([moved], 300.0)
        (part,) = writer.parts("n2")
        assert [each.serial for each in writer.parts("n1")] == ["S2"]
        writer.add_evidence([replace(EVIDENCE, id="e3")], 400.0)
        writer.add_evidence([replace(EVIDENCE, id="e4")], 500.0)
        stays = [(each.node, each.first_seen, each.last_seen) for each in writer.part_history("S1")]
        assert [each.serial for each in writer.parts("n1")] == ["S1", "S2"]
        assert writer.parts("n2") == []
    assert (part.kind, part.serial, part.node, part.slot) == ("gpu", "S1", "n2", "0000:1b:00.0")
    assert stays == [("n1", 200.0, 200.0), ("n2", 300.0, 300.0), ("n1", 400.0, 500.0)]


def test_parts_of_every_family_have_a_history(ledger: Ledger) -> None:
    fingerprint = {
        "gpu_serials": "0000:1b:00.0=1651",
        "nic_guids": "rail0=b83f:d203:000a:7c10",
        "cables": "rail0=OSFP-DR4/MT2231VS,rail1=MCP4Y10/MT2345 (cable)",
        "dimms": "A1=M321/80CE0123",
        "drives": "0000:18:00.0=S5XA1234",
        "board": "product=X,serial=BRD7,uuid=u",
    }
    whole = replace(EVIDENCE, fingerprint=fingerprint, identity={"board_serial": "BRD7"})
    with ledger.writing() as writer:
        writer.add_evidence([whole], 200.0)
        found = {(each.kind, each.slot, each.serial) for each in writer.parts("n1")}
    assert found == {
        ("board_serial", "board", "brd7"),
        ("gpu", "0000:1b:00.0", "1651"),
        ("nic", "rail0", "b83f:d203:000a:7c10"),
        ("module", "rail0", "OSFP-DR4/MT2231VS"),
        ("dimm", "A1", "M321/80CE0123"),
        ("drive", "0000:18:00.0", "S5XA1234"),
    }


def test_part_that_two_nodes_claim_at_once_is_in_the_history_of_both(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        writer.add_evidence([EVIDENCE, replace(EVIDENCE, id="e2", node="n2")], 200.0)
        assert [each.node for each in writer.part_history("S1")] == ["n1", "n2"]


def test_machine_that_answered_to_anothers_name_leaves_no_claim_on_its_parts(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        writer.declare({"n1": "c", "n2": "c"}, 1.0)
        writer.add_evidence([replace(EVIDENCE, identity={"slurmd_node": "n1"})], 200.0)
        # The address of n2 was that of n1 for one run.
        writer.add_evidence([replace(EVIDENCE, id="e2", node="n2", identity={"slurmd_node": "n1"})], 300.0)
        assert writer.parts("n2") == [] and writer.shared_parts() == []
        # A machine on which Slurm runs nothing yet claims what it shows.
        writer.add_evidence([replace(EVIDENCE, id="e3", node="n2", identity={"slurmd_node": "none"})], 400.0)
        assert {serial for _, serial, _ in writer.shared_parts()} == {"S1", "S2"}


def test_numbers_of_finished_evidence_make_series(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        for number, (finished, value) in enumerate([(110.0, 96), (None, 12), (110.0, "many"), (110.0, 95.5)]):
            finding = Finding("cpu", "host", "pass", value, 96)
            writer.add_evidence([replace(EVIDENCE, id=f"e{number}", finished=finished, findings=(finding,))], number)
        assert writer.series("n1", "cpu", "host") == [(0.0, 96), (3.0, 95.5)]
        assert writer.series("n2", "cpu", "host") == writer.series("n1", "cpu", "gpu 0") == []


def test_evidence_of_fifty_megabytes_is_refused_and_the_ledger_stays_small(url: str, ledger: Ledger) -> None:
    flood = replace(
        EVIDENCE, id="e2", findings=tuple(Finding("cpu", "host", "pass", unit="x" * 1000) for _ in range(4900))
    )
    with ledger.writing() as writer:
        (refused,) = writer.add_evidence([EVIDENCE, flood], 200.0)
        assert writer.known("preflight", "n1") == ["e1"]
    assert "bytes, expected at most 4194304" in refused.reason
    assert Path(url.removeprefix("sqlite:///")).stat().st_size < 2**18


def fault(name: str, verdict: str = "fail", **other: Any) -> Evidence:
    return replace(EVIDENCE, id=name, findings=(Finding("cpu", "host", verdict),), **other)


def test_fault_that_nobody_judged_is_known_until_the_node_is_judged(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        writer.add_evidence([fault("e0", stage="burn_in")], 100.0)
        writer.move(dict.fromkeys(("n1", "n2"), ("admitted", "acceptance", "")), "me", 100.0, compared=True)
        writer.judged(["n1", "n2"], writer.mark().evidence)
        assert writer.unjudged_faults() == []
        writer.add_evidence(
            [fault("e1", stage="burn_in"), fault("e2", "pass"), fault("e3", "incomplete", node="n2")], 100.0
        )
        assert {each.node: each.id for each in writer.unjudged_faults()} == {"n1": "e1"}
        # Whatever came since, a pass or the beginning of another run, has not been judged either.
        writer.add_evidence([fault("e4", "pass", stage="burn_in")], 100.0)
        assert [each.id for each in writer.unjudged_faults()] == ["e1"]
        writer.add_evidence([fault("e5", stage="burn_in", finished=None)], 100.0)
        writer.judged(["n1"], writer.mark().evidence)
        assert writer.unjudged_faults() == []


def test_last_finished_evidence_says_what_it_measured(ledger: Ledger) -> None:
    def burned(number: int, node: str = "n1", **changes: Any) -> Evidence:
        told = {"measures": {"gpu_telemetry": {"host": {"inlet_celsius": 20.0 + number}}}}
        return replace(EVIDENCE, **{"id": f"b{number}", "node": node, "stage": "burn_in", "detail": told, **changes})

    with ledger.writing() as writer:
        given = [burned(1), burned(2), burned(3, "n2", detail={}), burned(4, "n3"), burned(5, "n3", finished=None)]
        assert writer.add_evidence([*given, burned(6, "n4", stage="preflight")], 200.0) == []
    with ledger.reading() as reader:
        # An older one takes the place of none: not of one that measured nothing, or goes on.
        assert reader.measured("burn_in") == [Measured("n1", "d", {"gpu_telemetry": {"host": {"inlet_celsius": 22.0}}})]
    with ledger.writing() as writer:
        assert writer.add_evidence([burned(7, detail={"measures": "nonsense"})], 300.0) == []
    with ledger.reading() as reader:
        assert reader.measured("burn_in") == [Measured("n1", "d", "nonsense")]


def test_doubt_stands_until_the_stage_is_proven_again(ledger: Ledger) -> None:
    doubt = Doubt("n1", "acceptance", "slow with n2", "campaign c1")
    with ledger.writing() as writer:
        writer.add_evidence([EVIDENCE, replace(EVIDENCE, id="e2", stage="acceptance")], 100.0)
        writer.add_doubts([doubt], 110.0)
        writer.add_doubts([doubt], 120.0)
        assert writer.doubts() == [doubt]
        writer.add_evidence(
            [replace(EVIDENCE, id="e3"), replace(EVIDENCE, id="e4", stage="acceptance", node="n2")], 130.0
        )
        assert writer.doubts() == [doubt]
        writer.add_evidence([replace(EVIDENCE, id="e5", stage="acceptance")], 140.0)
        assert writer.doubts() == []
        writer.add_doubts([doubt], 150.0)
        assert writer.doubts() == [doubt]


def test_doubt_is_not_answered_by_judging_old_outputs_again(ledger: Ledger) -> None:
    doubt = Doubt("n1", "burn_in", "slow with n2", "campaign c1")
    with ledger.writing() as writer:
        writer.add_evidence([BURNED], 100.0)
        writer.add_doubts([doubt], 110.0)
        assert writer.add_evidence([made_of(BURNED, "b2")], 120.0) == []
        assert writer.doubts() == [doubt]
        writer.add_evidence([replace(BURNED, id="b3")], 130.0)
        assert writer.doubts() == []


def test_change_of_state_says_who_by_which_policy_and_what_allowed_it(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        first = writer.keep_policy({"stages": ["preflight"]}, 1.0)
        assert writer.keep_policy({"stages": ["preflight"]}, 2.0) == first != writer.keep_policy({"stages": []}, 2.0)
        assert writer.policy(first) == {"stages": ["preflight"]}
        assert writer.policy("unknown") is None
        policies = {"n1": first}
        writer.move(
            {"n1": ("admitted", "preflight", "all")}, "ann", 3.0, compared=True, policies=policies, approval="x"
        )
        assert writer.nodes()["n1"].policy == first
        writer.decide("n1", "quarantined", "smoke", "bob", 4.0)
        assert writer.nodes()["n1"].policy == ""
        admitted, quarantined = writer.transitions()
    assert (admitted.who, admitted.policy, admitted.approval) == ("ann", first, "x")
    assert (quarantined.who, quarantined.policy, quarantined.approval) == ("bob", "", "decision of bob")


def old_ledger(url: str) -> Path:
    """Make a ledger as Muster wrote it before identity, rules and policies were recorded."""
    path = Path(url.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(path)) as old:
        old.executescript(SCHEMA_1)
        old.commit()
    return path


def test_ledger_of_schema_1_is_upgraded_with_all_that_is_in_it(url: str) -> None:
    path = old_ledger(url)
    with pytest.raises(OutdatedLedgerError, match="schema 1 is older than this Muster's, expected 3"):
        Ledger.open(url, ID, CLUSTER)
    assert Ledger.upgrade(url, ID, CLUSTER)
    assert not Ledger.upgrade(url, ID, CLUSTER)
    with closing(sqlite3.connect(f"{path}.schema1")) as kept:
        assert kept.execute("SELECT schema_version FROM meta").fetchall() == [(1,)]
    with Ledger.open(url, ID, CLUSTER).writing() as writer:
        (record,) = writer.records(["preflight"], ["n1"])["n1"]
        assert (record.evidence.identity, record.evidence.rules, record.evidence.program) == ({}, {}, "")
        assert writer.nodes()["n1"].judged == 1
        assert [move.cause for move in writer.transitions()] == ["every required check passed"]
        assert [(part.serial, part.first_seen, part.last_seen) for part in writer.parts("n1")] == [("S1", 5.0, 9.0)]
        # What was recorded after the node was judged last.
        assert {each.node: each.id for each in writer.unjudged_faults()} == {"n1": "e2"}
        writer.add_evidence([EVIDENCE], 300.0)


def test_upgrade_that_is_killed_leaves_the_old_ledger(url: str) -> None:
    path = old_ledger(url)
    with closing(sqlite3.connect(path)) as other:
        # The last of its steps fails.
        other.execute("CREATE TABLE series (x)")
        other.commit()
        with pytest.raises(LedgerError, match="series"):
            Ledger.upgrade(url, ID, CLUSTER)
        columns = [row[1] for row in other.execute("PRAGMA table_info(evidence)")]
        assert "identity" not in columns
        assert other.execute("SELECT serial FROM part").fetchall() == [("S1",)]


def test_generation_counts_transactions_that_the_gate_follows(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        assert len(writer.move({"n1": ("testing", "preflight", "a")}, "me", 2.0, compared=True)) == 1
        assert writer.generation() == 1
    with ledger.writing() as writer:
        assert writer.move({"n1": ("testing", "burn_in", "b")}, "me", 3.0, compared=True) == []
        assert writer.generation() == 1
        assert (writer.nodes()["n1"].stage, writer.nodes()["n1"].since) == ("burn_in", 2.0)


def test_changes_made_unseen_by_the_gate_are_counted_later(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        writer.move({"n1": ("testing", "preflight", "a")}, "me", 2.0, compared=False)
        assert writer.generation() == 0
        writer.move({}, "me", 3.0, compared=True)
        assert writer.generation() == 1
        writer.move({}, "me", 4.0, compared=True)
        assert writer.generation() == 1


def test_decision_stands_until_released(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        assert writer.decide("n1", "quarantined", "fan", "me", 2.0)
        assert writer.decide("n1", "quarantined", "fan", "me", 3.0) is None
        assert (writer.decisions(), writer.states()["n1"]) == ({"n1": "quarantined"}, "quarantined")
        writer.decide("n1", "none", "fixed", "me", 4.0)
        assert (writer.decisions(), writer.states()["n1"]) == ({}, "testing")
        assert [(each.from_state, each.to_state) for each in writer.transitions()] == [
            ("new", "quarantined"),
            ("quarantined", "testing"),
        ]


@pytest.mark.parametrize(("node", "decision"), [("n1", "admitted"), ("n9", "retired")])
def test_decision_outside_the_vocabulary_is_refused(ledger: Ledger, node: str, decision: str) -> None:
    with pytest.raises(LedgerError), ledger.writing() as writer:
        writer.decide(node, decision, "", "me", 2.0)


def test_drains_are_kept_and_lifted(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        assert writer.keep_drains({"n1": "fan", "n2": "disk"}, 1.0)
        assert not writer.keep_drains({"n1": "fan", "n2": "disk"}, 2.0)
        assert writer.keep_drains({"n2": "other"}, 3.0)
        assert writer.drains() == {"n2": "other"}


def test_round_is_saved_when_it_starts_and_when_it_ends(ledger: Ledger) -> None:
    begun = StoredRound("c1", 1, {"groups": [["n1", "n2"]]}, None, 1.0, None)
    ended = replace(begun, observations=[{"busbw": 1.5}], finished=2.0)
    for step in (begun, ended):
        with ledger.writing() as writer:
            writer.save_round(step)
    with ledger.reading() as reader:
        assert reader.rounds("c1") == [ended] and reader.rounds("c2") == []
    with pytest.raises(LedgerError, match="has ended"), ledger.writing() as writer:
        writer.save_round(ended)


def test_times_of_a_round_are_read_as_arrays_and_kept_as_lists(url: str, ledger: Ledger) -> None:
    plan, rows = {"groups": [["n1", "n2", "n3"]]}, [[18000, 18001], None, [18002, 2**31]]
    observed = [{"results": [{"move": "walk", "ns": rows}]}]
    with ledger.writing() as writer:
        writer.save_round(StoredRound("c1", 1, plan, observed, 1.0, 2.0))
    with ledger.reading() as reader:
        (first,) = reader.rounds("c1")
    times = (first.observations or [])[0]["results"][0]["ns"]
    assert [None if np.isnan(row).any() else row for row in times.tolist()] == rows
    with ledger.writing() as writer:
        writer.save_round(replace(first, campaign="c2"))
    with create_engine(url).connect() as connection:
        kept = connection.execute(select(type_coerce(TABLES.tables["round"].c.observations, String))).scalars()
        assert [json.loads(text) for text in kept] == [observed, observed]


def test_rehearsal_leaves_no_trace(url: str, ledger: Ledger, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with Ledger.open(url, ID, CLUSTER, read_only=True).rehearsing() as book, book.writing() as writer:
        writer.add_evidence([EVIDENCE], 1.0)
        writer.move({"n1": ("admitted", "acceptance", "")}, "me", 2.0, compared=True)
        assert writer.states()["n1"] == "admitted"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_read_only_ledger_refuses_to_write(url: str, ledger: Ledger) -> None:
    with pytest.raises(LedgerError), Ledger.open(url, ID, CLUSTER, read_only=True).writing() as writer:
        writer.declare({"n3": None}, 1.0)


def test_an_error_inside_undoes_everything(ledger: Ledger) -> None:
    with pytest.raises(RuntimeError), ledger.writing() as writer:
        writer.move({"n1": ("admitted", "acceptance", "")}, "me", 2.0, compared=True)
        raise RuntimeError
    with ledger.reading() as reader:
        assert (reader.states()["n1"], reader.generation()) == ("new", 0)


def killed_in_a_transaction(url: str) -> None:
    with Ledger.open(url, ID, CLUSTER).writing() as writer:
        writer.add_evidence([replace(EVIDENCE, id=f"e{n}", detail={"text": "x" * 20000}) for n in range(300)], 1.0)
        writer.move({"n1": ("admitted", "acceptance", "")}, "me", 2.0, compared=True)
        os.kill(os.getpid(), signal.SIGKILL)


def test_kill_in_mid_transaction_leaves_nothing_of_it(url: str, ledger: Ledger) -> None:
    process = FORK.Process(target=killed_in_a_transaction, args=(url,))
    process.start()
    process.join(30)
    assert process.exitcode == -signal.SIGKILL
    with Ledger.open(url, ID, CLUSTER).writing() as writer:
        assert (writer.states(), writer.known("preflight", "n1")) == ({"n1": "new", "n2": "new"}, [])


def writes_slowly(url: str, begun: Any) -> None:
    with Ledger.open(url, ID, CLUSTER).writing() as writer:
        begun.set()
        time.sleep(0.5)
        writer.move({"n1": ("testing", "preflight", "")}, "first", 2.0, compared=True)


def test_second_writer_waits_for_the_first(url: str, ledger: Ledger) -> None:
    begun = FORK.Event()
    process = FORK.Process(target=writes_slowly, args=(url, begun))
    process.start()
    assert begun.wait(10)
    with ledger.writing() as writer:
        assert writer.states()["n1"] == "testing"
        writer.move({"n1": ("rejected", "preflight", "")}, "second", 3.0, compared=True)
        assert writer.generation() == 2
    process.join(10)


def holds_the_run_lock(url: str, begun: Any) -> None:
    with Ledger.open(url, ID, CLUSTER).locked():
        begun.set()
        time.sleep(60)


def test_two_runs_do_not_admit_at_once(url: str, ledger: Ledger) -> None:
    begun = FORK.Event()
    process = FORK.Process(target=holds_the_run_lock, args=(url, begun))
    process.start()
    assert begun.wait(10)
    with pytest.raises(LedgerError, match=f"process {process.pid}"), ledger.locked(wait_seconds=0.3):
        pass
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join(10)
    with ledger.locked(wait_seconds=5):
        pass


BURNED = replace(EVIDENCE, id="b1", stage="burn_in", findings=(Finding("cpu", "host", "pass", 96),), rules={"cpu": 1})


def made_of(record: Evidence, name: str, **change: Any) -> Evidence:
    """Return a record that was judged again."""
    detail = {**record.detail, "judged_again": {"of": record.original, "from": {"cpu": 1}}}
    return replace(record, **{"id": name, "detail": detail, "rules": {"cpu": 2}, **change})


def test_record_judged_again_stands_for_the_newest_of_its_stage(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        assert writer.add_evidence([BURNED], 200.0) == []
        again = made_of(BURNED, "b2", findings=(Finding("cpu", "host", "fail", 96),))
        assert writer.add_evidence([again], 210.0) == []
        assert writer.newest("n1", "burn_in") == again
        # The same once more, and made of the same original by later rules.
        third = made_of(again, "b3", rules={"cpu": 3})
        assert writer.add_evidence([again, third], 220.0) == []
        assert writer.newest("n1", "burn_in") == third
        # It measured nothing anew.
        assert [at for at, _ in writer.series("n1", "cpu", "host")] == [200.0]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        # The newest is another burn-in: an old pass must not come back behind its fault.
        ([replace(BURNED, id="b9", started=300.0, finished=310.0)], "the newest record is b9"),
        # What the ledger has of it is no pass.
        ([replace(BURNED, findings=(Finding("cpu", "host", "fail"),))], "cpu host is fail in b1"),
        ([replace(BURNED, findings=(Finding("cpu", "host", "incomplete"),))], "cpu host is incomplete in b1"),
        ([replace(BURNED, findings=(Finding("xid", "host", "fail"), *BURNED.findings))], "xid host is fail in b1"),
        ([replace(BURNED, started=90.0)], "another started"),
        ([replace(BURNED, boot_id="c", raw={})], "another boot_id, raw"),
        ([], "no record of which it was made"),
    ],
)
def test_record_judged_again_is_refused_where_it_makes_anything_better(
    ledger: Ledger, given: list[Evidence], told: str
) -> None:
    with ledger.writing() as writer:
        writer.add_evidence([BURNED, *given] if given and given[0].id != "b1" else given, 200.0)
        before = writer.newest("n1", "burn_in")
        (refused,) = writer.add_evidence([made_of(BURNED, "b2")], 210.0)
        assert told in refused.reason
        assert writer.newest("n1", "burn_in") == before


@pytest.mark.parametrize("again", [None, 7, {}, {"of": 7}, {"of": "b2"}])
def test_record_judged_again_of_nothing_is_refused(ledger: Ledger, again: Any) -> None:
    with ledger.writing() as writer:
        writer.add_evidence([BURNED], 200.0)
        (refused,) = writer.add_evidence([replace(BURNED, id="b2", detail={"judged_again": again})], 210.0)
    assert "no record of which it was made" in refused.reason


def test_draws_are_kept_with_their_seed_and_stand_open_until_they_agree(ledger: Ledger) -> None:
    drawn = [Draw("preflight", node, f"e-{node}", "seed-1", "among", 5.0) for node in ("n1", "n2", "n3")]
    with ledger.writing() as writer:
        writer.add_draws(drawn)
        assert writer.unsettled("preflight") == {"n1", "n2", "n3"}
        writer.end_draws("seed-1", {"n1": AGREES, "n2": "differs: xid\0"})
        assert writer.unsettled("preflight") == {"n2", "n3"}
        assert writer.drawn_and_not_judged() == {"e-n3"}
        assert writer.unsettled("burn_in") == set()
        writer.add_draws([Draw("preflight", "n2", "e-n2-2", "seed-2", "among", 6.0)])
        writer.end_draws("seed-2", {"n2": AGREES})
        assert writer.unsettled("preflight") == {"n3"}
    with ledger.reading() as reader:
        assert reader.draws()[1] == replace(drawn[1], outcome="differs: xid\\u0000")


def test_ledger_of_schema_2_gets_the_shares_of_a_power_budget(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/two.sqlite"
    Ledger.create(url, ID, "lab", 1.0)
    with closing(sqlite3.connect(tmp_path / "two.sqlite")) as old:
        old.executescript("DROP TABLE burn_in_share; UPDATE meta SET schema_version = 2;")
    assert Ledger.upgrade(url, ID, "lab") and not Ledger.upgrade(url, ID, "lab")
    with Ledger.open(url, ID, "lab").writing() as writer:
        writer.share_burn_in({"gpu-01": (10.0, 20.0)})
        writer.share_burn_in({"gpu-01": (12.0, 30.0), "gpu-02": (12.0, 20.0)})
        assert writer.burn_in_shares(19.0) == {"gpu-01", "gpu-02"} and writer.burn_in_shares(25.0) == {"gpu-01"}
        writer.end_burn_in_shares(["gpu-01", "unknown"])
        assert writer.burn_in_shares(19.0) == {"gpu-02"}
