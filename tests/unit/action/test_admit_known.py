"""What the ledger knows of nodes that a run does not judge: it closes them, and opens none of them."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.lookup.due import due
from ansible_collections.muster.cluster.plugins.module_utils.examination import rules
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS, STRESSES
from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import rules_of
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import Reservation
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.controller_gate import GateInfo
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.gate_ledger import guard
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.recording import Decision, decide
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import last_seen
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger, LedgerError
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import Doubt

from tests.fleets import fleet_of

from .test_admit import BOOTED, FINGERPRINT, HOUR, STAGES, Site, machine, state_of


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "ledger.sqlite", 8)


def forget(site: Site, name: str) -> dict[str, object]:
    """Take the node out of the fleet file and return what was declared."""
    site.names.remove(name)
    found: dict[str, object] = site.fleet["nodes"].pop(name)
    return found


def recorded(site: Site, *evidence: Evidence) -> None:
    """Put evidence into the ledger as a run does that is killed before it judges."""
    with site.ledger().writing() as writer:
        assert writer.add_evidence(evidence, site.now) == []


def test_node_taken_out_of_the_fleet_is_no_longer_admitted_and_opens_again_only_when_judged(site: Site) -> None:
    site.run()
    declared = forget(site, "n0004")
    gone = site.run(nodes=["n0001"], stages=["preflight"])
    assert (gone["closed"], site.states()["n0004"]) == (["n0004"], "testing")
    assert [move["cause"] for move in gone["transitions"]] == ["taken out of the fleet file"]
    assert site.run(nodes=["n0001"], stages=["preflight"])["changed"] is False
    site.fleet["nodes"]["n0004"] = declared
    result = site.run(nodes=["n0001"], stages=["preflight"])
    assert ("n0004" in site.gate.open, result["opened"]) == (False, [])
    site.names.append("n0004")
    site.now += 365 * 24 * HOUR
    # What it passed a year ago is too old for an admission; that of the others was fresh when they were admitted.
    result = site.run(stages=["preflight"])
    assert {name for name, state in state_of(result).items() if state != "admitted"} == {"n0004"}
    assert site.run()["opened"] == ["n0004"]


def test_node_admitted_in_the_ledger_alone_opens_only_when_judged(site: Site) -> None:
    site.run()
    site.gate.open, site.gate.info = set(), replace(site.gate.info, generation=0)
    result = site.run(nodes=["n0001"], stages=["preflight"])
    assert (result["opened"], site.gate.open) == (["n0001"], {"n0001"})
    assert site.run(stages=["preflight"])["opened"] == site.names[1:]


def test_node_that_is_open_in_one_partition_opens_in_a_new_one(site: Site) -> None:
    site.run()
    shapes = site.fleet["scheduler"]["partitions"]
    shapes[0]["name"] = "all"
    site.gate.info = replace(site.gate.info, ledger_id="ledger-1")
    assert site.run(nodes=["n0001"], stages=["preflight"], allow_mass_close=True).get("failed") is None
    assert site.gate.open == set(site.names)


def test_recorded_fault_that_nobody_judged_closes_in_every_run(site: Site) -> None:
    site.run()
    site.now += 60
    site.run_number += 1
    recorded(site, site.failing("n0004", "burn_in"))
    result = site.run(nodes=["n0001"], stages=["preflight"], close_only=True)
    assert (result["closed"], site.states()["n0004"]) == (["n0004"], "rejected")
    (move,) = result["transitions"]
    assert move["cause"].startswith("burn_in: ") and "bad" in move["cause"]
    assert site.run(nodes=["n0001"], stages=["preflight"])["changed"] is False
    assert state_of(site.run(stages=["preflight"]))["n0004"] == "rejected"


def test_faults_that_nobody_judged_of_a_mistyped_number_stop_at_the_breaker(site: Site) -> None:
    site.run()
    site.now += 60
    site.run_number += 1
    recorded(site, *(site.failing(name, "burn_in", expect_digest="another") for name in site.names[:4]))
    result = site.run(nodes=["n0008"], stages=["preflight"])
    assert result["failed"] and "partition batch: 4 of 8" in result["msg"]
    assert site.gate.open == set(site.names)


@pytest.mark.parametrize("waived", [False, True])
def test_older_preflight_does_not_overrule_a_newer_that_failed(site: Site, waived: bool) -> None:
    """Nor does one that has a fault of its own, if that is waived."""
    if waived:
        site.fleet["policy"]["waivers"] = [{**WAIVER, "until": "2099-01-01"}]
    site.run()
    site.run([site.failing("n0001", "preflight")], stages=["preflight"])

    def overtaken(given: dict[str, list[dict[str, float]]]) -> dict[str, list[dict[str, float]]]:
        # Run A examined the node eleven minutes before run B did, and comes to admission after it.
        failing = site.failing("n0001", "preflight", id="newer")
        recorded(site, replace(failing, started=site.now - 60, finished=site.now - 50))
        given["n0001"][0] |= {"started": site.now - 720, "finished": site.now - 710}
        return given

    result = site.run([wrong_clock(site, "n0001", "preflight")] * waived, stages=["preflight"], plain=overtaken)
    assert state_of(result)["n0001"] == "rejected"
    assert "n0001" not in site.gate.open


def test_newer_preflight_of_another_run_that_passed_keeps_the_node_open(site: Site) -> None:
    site.run()
    newer = replace(site.evidence("n0001", "preflight"), id="newer")

    def overtaken(given: dict[str, object]) -> dict[str, object]:
        recorded(site, replace(newer, started=site.now - 60, finished=site.now - 50))
        return given

    result = site.run(stages=["preflight"], plain=overtaken)
    assert (state_of(result)["n0001"], result["changed"]) == ("admitted", False)


def test_newer_preflight_with_another_part_decides(site: Site) -> None:
    site.run()
    changed = {**FINGERPRINT, "gpu_serials": "another"}
    newer = replace(site.evidence("n0001", "preflight"), id="newer", fingerprint=changed)

    def overtaken(given: dict[str, object]) -> dict[str, object]:
        recorded(site, replace(newer, started=site.now - 60, finished=site.now - 50))
        return given

    result = site.run(stages=["preflight"], plain=overtaken)
    assert (state_of(result)["n0001"], result["closed"]) == ("testing", ["n0001"])


@pytest.mark.parametrize("waived", [False, True])
def test_preflight_of_an_hour_ago_admits_nobody(site: Site, waived: bool) -> None:
    """Whatever is waived in it: only a fault that counts, counts however old it is."""
    if waived:
        site.fleet["policy"]["waivers"] = [{**WAIVER, "until": "2099-01-01"}]
    site.run()
    site.gate.open.discard("n0001")
    late = {"started": site.now + HOUR - 2000, "finished": site.now + HOUR - 1900}
    result = site.run(
        [wrong_clock(site, "n0001", "preflight")] * waived,
        stages=["preflight"],
        plain=lambda given: {**given, "n0001": [{**given["n0001"][0], **late}]},
    )
    (verdict,) = [each for each in result["verdicts"] if each["node"] == "n0001"]
    assert (verdict["state"], "n0001" in site.gate.open) == ("testing", False)
    assert "32 min before" in verdict["findings"][0]["reason"]


def test_gate_without_an_id_and_a_ledger_with_a_history_stop(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    site.run()
    shutil.copy(path, tmp_path / "copy")
    with site.ledger().writing() as writer:
        writer.decide("n0003", "quarantined", "smoke", "me", site.now)
    site.run(stages=["preflight"])
    shutil.copy(tmp_path / "copy", path)
    site.gate.info, site.gate.open = GateInfo(None, 0, {}), set()
    with pytest.raises(LedgerError, match=r"generation 1, this control machine has seen generation 3: .*older copy"):
        site.run(nodes=["n0001"], stages=["preflight"])
    last_seen.path_of("ledger-1").unlink()
    with pytest.raises(LedgerError, match=r"has a history .* nobody knows .* ledger_trust=true"):
        site.run(nodes=["n0001"], stages=["preflight"])
    result = site.run(nodes=["n0001"], stages=["preflight"], trust_ledger=True)
    assert (result["opened"], site.gate.open) == (["n0001"], {"n0001"})


def test_copy_from_before_a_decision_that_no_gate_followed_stops(site: Site, tmp_path: Path) -> None:
    """The controller is away while a node is quarantined, and the ledger restored from a copy of before."""
    path = tmp_path / "ledger.sqlite"
    site.run()
    shutil.copy(path, tmp_path / "copy")
    fleet = fleet_of(site.fleet)
    decision = Decision("n0003", "quarantined", "smoke")
    decide(fleet, decision, "me", site.now)
    shutil.copy(path, tmp_path / "newest")
    shutil.copy(tmp_path / "copy", path)
    older = r"transitions up to 8, this control machine has seen 9: .*older copy"
    with pytest.raises(LedgerError, match=older):
        site.run(nodes=["n0001"], stages=["preflight"])
    with pytest.raises(LedgerError, match=older):
        decide(fleet, replace(decision, node="n0004"), "me", site.now)
    site.gate.fail = {"read"}
    with pytest.raises(LedgerError, match=older):
        guard(fleet, site.gate)
    site.gate.fail = set()
    shutil.copy(tmp_path / "newest", path)
    assert site.run(nodes=["n0001"], stages=["preflight"])["closed"] == ["n0003"]


def test_gate_that_could_not_be_written_the_first_time_needs_no_switch(site: Site) -> None:
    site.gate.fail = {"open"}
    assert site.run()["failed"]
    site.gate.fail = set()
    assert site.run(stages=["preflight"])["opened"] == site.names


def test_change_of_state_keeps_policy_limits_and_approval(site: Site) -> None:
    site.run()
    with site.ledger().reading() as reader:
        move = reader.transitions()[0]
        content = reader.policy(move.policy)
        assert reader.nodes()["n0001"].policy == move.policy
    assert (move.to_state, move.who, move.approval) == ("admitted", "me@here", "")
    assert content is not None
    assert (content["policy"]["stages"], content["class"], content["expect"]["memory"]["mib"]) == (list(STAGES), "c", 1)
    site.run(unreachable=site.names, allow_mass_close=True)
    with site.ledger().reading() as reader:
        assert {move.approval for move in reader.transitions()[-8:]} == {"admit_allow_mass_close=true"}


def doubted(site: Site, *names: str) -> None:
    with site.ledger().writing() as writer:
        writer.add_doubts([Doubt(name, "acceptance", "slow with n0008", "c1") for name in names], site.now)


def verdict_of(result: Mapping[str, Any], name: str) -> dict[str, Any]:
    (found,) = [verdict for verdict in result["verdicts"] if verdict["node"] == name]
    return dict(found)


def test_doubt_about_a_node_in_service_is_shown_and_proven_again_and_closes_nobody(site: Site) -> None:
    site.run()
    doubted(site, "n0001")
    result = site.run(stages=["preflight"])
    told = verdict_of(result, "n0001")
    assert (told["state"], result["changed"]) == ("admitted", False)
    assert told["due"] == [{"stage": "acceptance", "reason": "c1 doubts it: slow with n0008"}]
    assert verdict_of(result, "n0002")["due"] == []
    preflights = {name: site.evidence(name, "preflight").to_dict() for name in site.names}
    fleet = fleet_of(site.fleet)
    assert due(fleet, "acceptance", site.names, preflights, site.now) == ["n0001"]
    again = site.run(stages=["preflight", "acceptance"])
    assert verdict_of(again, "n0001")["due"] == []
    assert due(fleet, "acceptance", site.names, preflights, site.now) == []


def test_doubted_node_that_is_closed_needs_the_proof_before_it_opens_again(site: Site) -> None:
    site.run()
    doubted(site, "n0001")
    site.run([site.failing("n0001", "preflight")], stages=["preflight"])
    result = site.run(stages=["preflight"])
    assert (state_of(result)["n0001"], "n0001" in site.gate.open) == ("testing", False)
    assert "c1 doubts it" in verdict_of(result, "n0001")["findings"][0]["reason"]
    assert site.run(stages=["preflight", "acceptance"])["opened"] == ["n0001"]


WAIVER = {"check": "clock", "nodes": "n000[1-2]", "reason": "no GPS yet", "who": "ann", "until": "2033-05-19"}


def wrong_clock(site: Site, name: str, stage: str = "burn_in") -> Evidence:
    whole = site.evidence(name, stage)
    assert any(finding.check == "clock" for finding in whole.findings)
    findings = [
        replace(each, verdict="fail", reason="late") if each.check == "clock" else each for each in whole.findings
    ]
    return replace(whole, findings=tuple(findings))


def test_waiver_accepts_one_check_on_its_nodes_until_its_day_ends_and_is_shown(site: Site) -> None:
    site.fleet["policy"]["waivers"] = [WAIVER]
    site.now = datetime(2033, 5, 19, 12, tzinfo=UTC).timestamp()
    result = site.run([wrong_clock(site, name) for name in ("n0001", "n0003")])
    assert {name: state for name, state in state_of(result).items() if state != "admitted"} == {"n0003": "rejected"}
    (waived,) = verdict_of(result, "n0001")["waived"]
    assert (waived["finding"]["verdict"], waived["finding"]["check"]) == ("fail", "clock")
    assert waived["waiver"] == {"reason": "no GPS yet", "who": "ann", "until": "2033-05-19"}
    # A recorded fault that is waived closes nobody, in whatever run.
    site.run_number += 1
    recorded(site, wrong_clock(site, "n0001"))
    assert site.run(nodes=["n0002"], stages=["preflight"])["changed"] is False
    site.now = datetime(2033, 5, 20, tzinfo=UTC).timestamp() - HOUR
    ended = site.run(stages=["preflight"])
    assert (state_of(ended)["n0001"], verdict_of(ended, "n0001")["waived"]) == ("rejected", [])


def test_waiver_that_ended_closes_in_whatever_run_comes_next(site: Site) -> None:
    site.now = datetime(2033, 5, 19, 12, tzinfo=UTC).timestamp()
    site.fleet["policy"]["waivers"] = [WAIVER]
    result = site.run([wrong_clock(site, "n0001")])
    (move,) = [each for each in result["transitions"] if each["node"] == "n0001"]
    assert "clock host: fail, waived by ann until 2033-05-19" in move["cause"]
    assert site.run(nodes=["n0002"], stages=["preflight"])["changed"] is False
    site.now = datetime(2033, 5, 20, 1, tzinfo=UTC).timestamp()
    result = site.run(nodes=["n0002"], stages=["preflight"])
    assert (result["closed"], site.states()["n0001"]) == (["n0001"], "rejected")
    (move,) = result["transitions"]
    assert move["policy"], "nobody can tell by which policy"


@pytest.mark.parametrize("first", [0, 1])
def test_recorded_fault_is_not_hidden_by_another_that_is_waived(site: Site, first: int) -> None:
    site.fleet["policy"]["waivers"] = [{**WAIVER, "until": "2099-01-01"}]
    site.run()
    site.now += 60
    site.run_number += 1
    both = [site.failing("n0001", "acceptance"), wrong_clock(site, "n0001")]
    recorded(site, both[first], both[1 - first])
    assert site.run(nodes=["n0002"], stages=["preflight"])["closed"] == ["n0001"]


@pytest.mark.parametrize("check", ["identity", "fingerprint", "burn_in", "preflight", "rejudged", "health", "no_such"])
def test_only_what_a_check_found_can_be_waived(site: Site, check: str) -> None:
    site.fleet["policy"]["waivers"] = [{**WAIVER, "check": check, "until": "2099-01-01"}]
    with pytest.raises(MusterError, match=rf"waivers\[0\]\.check: found \"{check}\""):
        site.run()


def test_waiver_covers_no_check_that_said_nothing(site: Site) -> None:
    site.fleet["policy"]["waivers"] = [{**WAIVER, "until": "2099-01-01"}]
    whole = site.evidence("n0001", "burn_in")
    silent = replace(whole, findings=tuple(each for each in whole.findings if each.check != "clock"))
    assert state_of(site.run([silent]))["n0001"] == "testing"


def test_fault_that_the_breaker_left_is_judged_by_the_next_run(site: Site) -> None:
    site.run()
    site.fleet["scheduler"]["partitions"][0]["name"] = "renamed"
    stopped = site.run([site.failing("n0004", "preflight")], stages=["preflight"])
    assert stopped["failed"] and site.states()["n0004"] == "admitted"
    site.run(nodes=["n0001"], stages=["preflight"], allow_mass_close=True)
    assert (site.states()["n0004"], "n0004" in site.gate.open) == ("rejected", False)


def test_waiver_of_one_fault_hides_no_other(site: Site) -> None:
    site.fleet["policy"]["waivers"] = [WAIVER]
    late = wrong_clock(site, "n0001")
    both = replace(late, findings=(*late.findings, replace(late.findings[0], check="xid", verdict="fail", reason="79")))
    assert state_of(site.run([both]))["n0001"] == "rejected"


@contextmanager
def locked(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let another run hold the ledger."""
    real = Ledger.locked
    with site.ledger().locked():
        monkeypatch.setattr(Ledger, "locked", lambda ledger: real(ledger, wait_seconds=0.1))
        yield


def test_measured_fault_closes_though_the_ledger_is_locked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.run()
    with locked(site, monkeypatch), pytest.raises(LedgerError, match=r"another run.*closed for a fault .*: n0002"):
        site.run([site.failing("n0002", "preflight")], stages=["preflight"])
    assert site.gate.open == set(site.names) - {"n0002"}
    # And the next run has it in the ledger.
    monkeypatch.undo()
    site.run([site.failing("n0002", "preflight")], stages=["preflight"])
    assert site.states()["n0002"] == "rejected"


def test_faults_of_many_nodes_close_nobody_without_the_ledger(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.run()
    faulty = [site.failing(name, "preflight") for name in site.names[:3]]
    with locked(site, monkeypatch), pytest.raises(LedgerError, match="3 nodes with a fault stay as they are"):
        site.run(faulty, stages=["preflight"])
    assert site.gate.open == set(site.names)


def test_two_faults_close_without_the_ledger_where_many_nodes_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is their share of the open nodes that counts, not of those that the run targets."""
    site = Site(tmp_path / "ledger.sqlite", 20)
    site.run()
    faulty = [site.failing(name, "preflight") for name in site.names[:2]]
    with locked(site, monkeypatch), pytest.raises(LedgerError, match="closed for a fault"):
        site.run(faulty, stages=["preflight"], nodes=site.names[:2])
    assert site.gate.open == set(site.names[2:])


def test_check_mode_closes_nobody_without_the_ledger(site: Site) -> None:
    site.run()
    site.fleet["ledger"]["id"] = "another"
    with pytest.raises(LedgerError):
        site.run([site.failing("n0002", "preflight")], stages=["preflight"], check=True)
    assert site.gate.open == set(site.names)


def test_measured_fault_closes_though_an_answer_of_slurm_cannot_be_read(site: Site) -> None:
    site.run()
    site.gate.fail = {"read"}
    result = site.run([site.failing("n0002", "preflight")], stages=["preflight"])
    assert result["failed"] and result["closed"] == ["n0002"]
    assert site.gate.open == set(site.names) - {"n0002"}


def test_what_the_ledger_knows_closes_though_an_answer_of_slurm_cannot_be_read(site: Site) -> None:
    """A fault that nobody judged, a decision of an operator, and a node that is open though it was rejected."""
    site.run([site.failing("n0005", "burn_in")])
    site.now += 60
    site.run_number += 1
    recorded(site, site.failing("n0004", "burn_in"))
    with site.ledger().writing() as writer:
        writer.decide("n0003", "quarantined", "smoke", "me", site.now)
    site.gate.open.add("n0005")
    site.gate.fail = {"read"}
    result = site.run(nodes=["n0001"], stages=["preflight"])
    assert "admit_allow_mass_close" not in result["msg"]
    assert site.gate.open == set(site.names) - {"n0003", "n0004", "n0005"}
    assert site.states()["n0004"] == "rejected"


@pytest.mark.parametrize("close_only", [True, False])
def test_partition_of_others_with_a_node_that_is_not_admitted_is_told(site: Site, close_only: bool) -> None:
    site.run([site.failing("n0003", "burn_in")])
    access = {"State": "UP", "AllowGroups": "ALL", "RootOnly": "NO"}
    site.gate.info = replace(site.gate.info, live_access={"debug": access, "batch": access})
    site.gate.others = {"debug": ["n0001", "n0003", "other-host"]}
    result = site.run(stages=["preflight"], close_only=close_only)
    (said,) = result.get("warnings") or [result["msg"]]
    assert ("failed" in result, said.startswith("partition debug lists n0003, which is not admitted")) == (
        not close_only,
        True,
    )
    site.fleet["scheduler"]["staff_partitions"] = ["debug"]
    result = site.run(stages=["preflight"], close_only=close_only)
    assert (result.get("warnings"), "failed" in result) == (None, False)


def test_partition_of_others_with_a_node_that_left_the_fleet_is_told_beside_other_trouble(site: Site) -> None:
    site.run()
    site.gate.info = replace(site.gate.info, live_access={"debug": {"State": "UP", "AllowGroups": "ALL"}})
    site.gate.others = {"debug": ["n0004"]}
    forget(site, "n0004")
    site.gate.fail = {"write"}
    result = site.run([site.failing("n0002", "preflight")], stages=["preflight"])
    assert "is not reconciled" in result["msg"] and "partition debug lists n0004" in result["msg"]
    with site.ledger().writing() as writer:
        writer.decide("n0004", "retired", "given away", "me", site.now)
    site.gate.fail = set()
    assert "failed" not in site.run(stages=["preflight"])


def test_reservation_of_users_with_a_node_that_is_not_admitted_is_an_error(site: Site) -> None:
    site.run([site.failing("n0003", "burn_in")])
    for users, failed in ((("root",), False), (("alice",), True)):
        kept = {"week": Reservation(nodes=("n0001", "n0003"), users=users)}
        site.gate.info = replace(site.gate.info, reservations=kept)
        result = site.run(stages=["preflight"])
        assert result.get("failed", False) is failed
        assert not failed or "reservation week for alice lists n0003" in result["msg"]


@pytest.mark.parametrize("nodes", [["n0002"], ["n0001"]])
def test_node_of_which_slurms_word_cannot_be_read_is_closed(site: Site, nodes: list[str]) -> None:
    site.run()
    site.gate.info = replace(site.gate.info, drains={"n0002": "fan, Jo"})
    site.run(nodes=["n0001"], stages=["preflight"])
    said = {"node n0002": "2 times State= and BootTime="}
    site.gate.info = replace(site.gate.info, unreadable=said, drains={})
    result = site.run(nodes=nodes, stages=["preflight"])
    assert (result["closed"], site.states()["n0002"]) == (["n0002"], "testing")
    assert "2 times State=" in result["transitions"][0]["cause"]
    with site.ledger().reading() as reader:
        assert reader.drains() == {"n0002": "fan, Jo"}
    again = site.run(nodes=["n0002"], stages=["preflight"])
    assert (again["opened"], site.states()["n0002"]) == ([], "testing")
    site.gate.info = replace(site.gate.info, unreadable={})
    assert site.run(nodes=["n0002"], stages=["preflight"])["opened"] == ["n0002"]


# --- the machine behind the name


def other_machine(site: Site, name: str, **identity: str | None) -> Evidence:
    """Return a preflight of a node that another machine answered."""
    return replace(site.evidence(name, "preflight"), identity={**machine(name), **identity})


@pytest.mark.parametrize("served", [True, False], ids=["in service", "new"])
def test_addresses_swapped_between_two_hosts_admit_nobody_under_the_wrong_name(site: Site, served: bool) -> None:
    if served:
        site.run()
    swapped = [
        replace(site.evidence(name, "preflight"), identity=machine(other))
        for name, other in (("n0001", "n0002"), ("n0002", "n0001"))
    ]
    # Two of eight that are wrong at once look like a fault of the fleet file: open ones ask before they close.
    result = site.run(swapped, allow_mass_close=served)
    assert {name for name, state in state_of(result).items() if state != "admitted"} == {"n0001", "n0002"}
    assert site.gate.open == {*site.names} - {"n0001", "n0002"}
    said = {finding["reason"] for finding in verdict_of(result, "n0001")["findings"]}
    assert any("Slurm runs node n0002 on this machine" in text for text in said)


def test_slurms_node_that_booted_at_another_time_is_another_machine(site: Site) -> None:
    booted = {name: {"state": "IDLE", "boot_time": BOOTED + (121 if name == "n0002" else 119)} for name in site.names}
    site.gate.info = replace(site.gate.info, nodes=booted)
    result = site.run()
    assert {name for name, state in state_of(result).items() if state != "admitted"} == {"n0002"}
    assert "booted +121 s from the machine" in verdict_of(result, "n0002")["findings"][0]["reason"]


def test_two_independent_real_identifiers_are_needed(site: Site) -> None:
    made_up = {"board_uuid": "03000200-0400-0500-0006-000700080009"}
    result = site.run([other_machine(site, "n0001", **made_up), other_machine(site, "n0002", bmc_mac=None)])
    assert {name for name, state in state_of(result).items() if state != "admitted"} == {"n0001", "n0002"}
    assert "identifiers of hardware: BMC" in verdict_of(result, "n0001")["findings"][0]["reason"]


def test_node_in_service_without_two_identifiers_is_due_and_stays_open(site: Site) -> None:
    site.run()
    result = site.run([other_machine(site, "n0001", bmc_mac=None)], stages=["preflight"])
    assert (state_of(result)["n0001"], result["closed"]) == ("admitted", [])
    assert "expected at least 2" in verdict_of(result, "n0001")["due"][0]["reason"]


def test_evidence_of_another_machine_counts_for_nothing(site: Site) -> None:
    site.run()
    exchanged = other_machine(
        site, "n0001", board_uuid="4c4c4544-0053-5210-8038-00000000beef", bmc_mac="3c:ec:ef:01:02:03"
    )
    result = site.run([exchanged], stages=["preflight"])
    assert (state_of(result)["n0001"], result["closed"]) == ("testing", ["n0001"])
    assert "taken on another machine: other board; other BMC" in verdict_of(result, "n0001")["findings"][0]["reason"]
    # What that machine passes itself counts.
    own = [replace(site.evidence("n0001", stage), identity=exchanged.identity) for stage in STAGES]
    assert site.run(own)["opened"] == ["n0001"]


def test_exchanged_board_leaves_the_machine_what_it_is(site: Site) -> None:
    serials = {**FINGERPRINT, "gpu_serials": "0000:1b:00.0=1650222000123"}
    site.run([replace(site.evidence("n0001", stage), fingerprint=serials) for stage in STAGES])
    board = other_machine(site, "n0001", board_uuid="4c4c4544-0053-5210-8038-00000000beef")
    result = site.run([replace(board, fingerprint=serials)], stages=["preflight"])
    assert state_of(result)["n0001"] == "admitted"


def test_serial_that_two_nodes_claim_keeps_the_newcomer_out_and_the_one_in_service_in(site: Site) -> None:
    first, second = (
        {**FINGERPRINT, "gpu_serials": f"0000:1b:00.0=1650222000123,0000:43:00.0={number}"}
        for number in ("1650222000777", "1650222000888")
    )
    served = [replace(site.evidence("n0001", stage), fingerprint=first) for stage in STAGES]
    newcomer = [replace(site.evidence("n0002", stage), fingerprint=second) for stage in STAGES]
    site.run([*served, site.failing("n0002", "burn_in")])
    result = site.run([*newcomer, *served], nodes=["n0001", "n0002"])
    assert state_of(result) == {"n0001": "admitted", "n0002": "testing"}
    assert site.gate.open == {*site.names} - {"n0002"}
    assert "gpu 1650222000123 is claimed by n0001 too" in verdict_of(result, "n0002")["findings"][0]["reason"]
    assert "is claimed by n0002 too" in verdict_of(result, "n0001")["due"][0]["reason"]
    # The part was moved: the node that it was in shows another.
    moved = {**FINGERPRINT, "gpu_serials": "0000:1b:00.0=1650222000999,0000:43:00.0=1650222000777"}
    repaired = [replace(site.evidence("n0001", stage), fingerprint=moved) for stage in STAGES]
    site.run(repaired, nodes=["n0001"])
    result = site.run(newcomer, nodes=["n0002"])
    assert (state_of(result), result["opened"]) == ({"n0002": "admitted"}, ["n0002"])


def test_node_that_showed_a_part_first_is_kept_out_by_nobodys_later_claim(site: Site) -> None:
    first = {**FINGERPRINT, "gpu_serials": "0000:1b:00.0=1650222000123"}
    owner = [replace(site.evidence("n0001", stage), fingerprint=first) for stage in STAGES]
    site.run(owner)
    site.run([replace(site.failing("n0002", "preflight"), fingerprint=first), owner[0]], stages=["preflight"])
    site.run([replace(site.failing("n0001", "preflight"), fingerprint=first)], nodes=["n0001"], stages=["preflight"])
    assert site.states()["n0001"] == "rejected"
    result = site.run(owner[:1], nodes=["n0001"], stages=["preflight"])
    assert state_of(result)["n0001"] == "admitted", verdict_of(result, "n0001")["findings"][0]["reason"]
    late = replace(site.evidence("n0002", "preflight"), fingerprint=first)
    assert state_of(site.run([late], nodes=["n0002"], stages=["preflight"]))["n0002"] == "testing"


@pytest.fixture
def other_disk_rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """What gives check disk another version."""

    def change() -> None:
        monkeypatch.setattr(CHECKS["disk"], "RULES", CHECKS["disk"].RULES + 1)
        rules._needed.cache_clear()

    yield change
    monkeypatch.undo()
    rules._needed.cache_clear()


def test_faults_by_a_check_that_changed_stop_at_the_breaker(site: Site, other_disk_rules: Callable[[], None]) -> None:
    """A check that is wrong now is no fault of half a partition; of one node it may be."""
    full = {
        name: replace(
            whole,
            findings=tuple(
                replace(each, verdict="fail", reason="full") if each.check == "disk" else each
                for each in whole.findings
            ),
        )
        for name in site.names[:4]
        for whole in (site.evidence(name, "preflight"),)
    }
    site.run()
    other_disk_rules()
    now = {name: replace(each, rules={**each.rules, "disk": CHECKS["disk"].RULES}) for name, each in full.items()}
    assert site.run([now["n0001"]], stages=["preflight"])["closed"] == ["n0001"]
    stopped = site.run(list(now.values()), stages=["preflight"])
    assert stopped["failed"] and "3 of 7" in stopped["msg"]
    assert site.gate.open == set(site.names) - {"n0001"}


@pytest.mark.parametrize(
    ("component", "state"), [("bmc_firmware", "admitted"), ("dimms", "admitted"), ("gpu_serials", "testing")]
)
def test_changed_part_of_a_node_in_service_makes_the_proof_due_and_closes_only_for_identity(
    site: Site, component: str, state: str
) -> None:
    site.run()
    changed = {**FINGERPRINT, component: "another"}
    result = site.run([replace(site.evidence("n0001", "preflight"), fingerprint=changed)], stages=["preflight"])
    assert state_of(result)["n0001"] == state
    due_stages = [each["stage"] for each in verdict_of(result, "n0001")["due"]]
    assert due_stages == (["burn_in"] if state == "admitted" else [])
    # A node that is not in service has to prove it before it opens.
    site.run([site.failing("n0001", "preflight", fingerprint=changed)], stages=["preflight"])
    result = site.run([replace(site.evidence("n0001", "preflight"), fingerprint=changed)], stages=["preflight"])
    assert state_of(result)["n0001"] == "testing"


@pytest.mark.parametrize(("component", "state"), [("bmc_firmware", "admitted"), ("gpu_serials", "testing")])
def test_part_that_cannot_be_read_for_once_closes_a_node_in_service_only_for_identity(
    site: Site, component: str, state: str
) -> None:
    site.run()
    unread = {**FINGERPRINT, component: None}
    whole = site.evidence("n0001", "preflight", fingerprint=unread)
    said = {"verdict": "incomplete", "reason": f"could not be read: {component}"}
    findings = [replace(each, **said) if each.check == "fingerprint" else each for each in whole.findings]
    result = site.run([replace(whole, findings=tuple(findings))], stages=["preflight"])
    assert state_of(result)["n0001"] == state
    assert bool(verdict_of(result, "n0001")["due"]) is (state == "admitted")


def test_evidence_from_before_identity_was_recorded_closes_nobody_and_opens_nobody(site: Site) -> None:
    old = [
        replace(
            site.evidence(name, stage), identity={}, fingerprint={"kernel": "kernel 1", "gpu_serials": "gpu_serials 1"}
        )
        for name in ("n0001", "n0002")
        for stage in ("burn_in", "acceptance")
    ]
    first = site.run(old)
    assert {name for name, state in state_of(first).items() if state != "admitted"} == {"n0001", "n0002"}
    with site.ledger().writing() as writer:
        writer.move({"n0001": ("admitted", "acceptance", "as an older Muster judged")}, "me", site.now, compared=True)
    site.gate.open.add("n0001")
    result = site.run(stages=["preflight"])
    assert (state_of(result)["n0001"], state_of(result)["n0002"]) == ("admitted", "testing")
    assert {each["stage"] for each in verdict_of(result, "n0001")["due"]} == {"burn_in", "acceptance"}


def test_one_version_that_changes_on_232_nodes_is_one_roll_out_proven_in_rings(tmp_path: Path) -> None:
    site = Site(tmp_path / "ledger.sqlite", 232)
    site.run()
    changed = {**FINGERPRINT, "bmc_firmware": "another"}
    preflights = [replace(site.evidence(name, "preflight"), fingerprint=changed) for name in site.names]
    result = site.run(preflights, stages=["preflight"])
    assert (result["changed"], site.gate.open, "failed" in result) == (False, {*site.names}, False)
    assert {verdict["due"][0]["stage"] for verdict in result["verdicts"]} == {"burn_in"}
    fleet, proven = fleet_of(site.fleet), set[str]()
    hold = fleet.classes["c"].collective.hold
    most = max(hold.nodes, math.ceil(hold.share * 232))
    for _ring in range(math.ceil(232 / most)):
        looked = [site.evidence(name, "preflight", fingerprint=changed) for name in site.names]
        now = due(fleet, "burn_in", site.names, {each.node: each.to_dict() for each in looked}, site.now)
        assert len(now) == min(most, 232 - len(proven)) and not proven & {*now}
        recorded(site, *(site.evidence(name, "burn_in", id=f"{name}-again", fingerprint=changed) for name in now))
        proven |= {*now}
    assert proven == {*site.names}


def test_host_that_was_copied_from_another_is_told(site: Site) -> None:
    clone = {"machine_id": "7f3b2c", "ssh_host_keys": "ed25519=abc"}
    result = site.run([other_machine(site, name, **clone) for name in ("n0001", "n0002")])
    assert set(state_of(result).values()) == {"admitted"}
    assert [text.partition(" is that of ")[2] for text in result["warnings"]] == [
        "n0001, n0002: copied from one installation"
    ] * 2


def test_changed_rule_makes_the_stage_due_in_service_and_keeps_others_out_until_it_is_judged_anew(site: Site) -> None:
    site.run([site.failing("n0002", "preflight")])
    older = {name: 0 if name == "xid" else version for name, version in rules_of("burn_in", STRESSES).items()}
    site.run_number += 1
    recorded(site, *(site.evidence(name, "burn_in", rules=older) for name in ("n0001", "n0002")))
    result = site.run(stages=["preflight"])
    assert (state_of(result)["n0001"], state_of(result)["n0002"]) == ("admitted", "testing")
    (owed,) = verdict_of(result, "n0001")["due"]
    assert (owed["stage"], owed["reason"].endswith("judged by other rules than those of today: xid")) == (
        "burn_in",
        True,
    )
    assert site.run(stages=["preflight", "burn_in"])["opened"] == ["n0002"]
