"""Campaigns against a real ledger: recorded round by round, taken up after a kill, concluded once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ansible_collections.muster.cluster.plugins.action.accept import ActionModule
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import Phase, read_program
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import required
from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import rules_of
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign import campaign as walk
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.campaign import (
    Abandoned,
    RoundError,
    Runtime,
    prove,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Request
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import program_digest
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Node
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_stage import Acceptance
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger, LedgerError, StoredRound
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import Doubt

from tests.fleets import fleet_of
from tests.typed import RAILS_FABRIC, typed

SIZE = 8 * 2**20
MOVE = {"sizes_bytes": [SIZE], "iterations": 2, "warmup": 1}
COLLECTIVE: dict[str, Any] = {
    **{"driver": "torch", "backend": "gloo", "ranks_per_node": 1, "container": None},
    "container_python": "/usr/bin/python3",
    **{"transport": None, "step_seconds": 10, "pairs": {**MOVE, "seconds": 0.5}},
    "groups": {**MOVE, "collectives": ["all_reduce"]},
    "train": None,
    "floors": [
        {"collective": "sendrecv", "nodes_min": 2, "size_bytes": SIZE, "busbw_gb_per_s": 0.1},
        {"collective": "all_reduce", "nodes_min": 2, "size_bytes": SIZE, "busbw_gb_per_s": 0.1},
    ],
    "latency": [],
    "cohort": {"peers": 8, "margin": 0.05, "smallest": 0.1},
    "hold": {"nodes": 2, "share": 0.2},
    "straggler": None,
    "budget_minutes": None,
}
LAB = expectations_of("lab_h100", {}, "test")
NIC = LAB["nic"]
CLASS = {
    **LAB,
    **{"fabric": None, "nic": None, "collective": COLLECTIVE, "mini_clusters": None},
}
NAMES = ("gpu-01", "gpu-02", "gpu-04")
FINGERPRINT = {"gpu_serials": "1", "gpu_vbios": "1", "gpu_driver": "1", "kernel": "6.1", "nccl": "1"}


class Killed(BaseException):
    """The process dies here."""


class Cluster:
    """Nodes of which some are slow; counts rounds and can kill its caller or lose its Slurm."""

    def __init__(self, slow: set[str]) -> None:
        self.slow = slow
        self.calls: list[dict[str, Any]] = []
        self.told: list[str] = []
        self.now = 1_000_000.0
        self.trouble: Callable[[int], None] = lambda number: None
        self.stalls: list[dict[str, Any]] = []
        self.links: dict[str, list[Any]] = {}

    def run_round(self, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        self.calls.append(arguments)
        self.trouble(arguments["number"])
        self.now += 5
        return [self.observation(group, arguments["program"]) for group in arguments["groups"]]

    def observation(self, group: list[str], program: dict[str, Any]) -> dict[str, Any]:
        ranks = [
            {"node": node, "rank": rank, "error": "", "phase": "end", "versions": {"torch": "2.6.0+cpu"}}
            for rank, node in enumerate(group)
        ]
        return {
            **{"group": group, "ok": True, "started": True, "error": "", "ranks": ranks},
            "results": [result for phase in read_program(program, len(group)) for result in self.results(group, phase)],
            **{"missing": [], "unavailable": {}, "stalls": self.stalls, "links": self.links},
        }

    def results(self, group: list[str], phase: Phase) -> list[dict[str, Any]]:
        """Return what a move over a group shows: whoever meets a slow node is as slow."""
        found = []
        for step in range(phase.steps):
            row: list[list[int] | None] = []
            for position, node in enumerate(group):
                if phase.kind == "pairs":
                    other = phase.partner(step, len(group), position)
                    met = {node} if other is None else {node, group[other]}
                else:
                    met = {group[each] for each in phase.group_of(len(group), position) or (position,)}
                factor = 1 if phase.kind == "pairs" else 2 * (len(met) - 1) / len(met)
                nanoseconds = round(factor * SIZE / (0.024 if self.slow & met else 0.5))
                row.append([nanoseconds] if len(met) > 1 else None)
            late = {} if phase.kind == "pairs" else {"last": {}}
            result = {"move": phase.name, "step": step, "bytes": SIZE, "ns": row, "ns_p99": row, "wrong": {}}
            found.append({**result, **late})
        return found

    def accept(self, request: Request) -> dict[str, Any]:
        return prove(request, Acceptance, Runtime(self.run_round, self.told.append, lambda: self.now))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(f"sqlite:///{tmp_path}/ledger.sqlite", "id-1", "lab")


def preflight(node: str, boot_id: str = "boot-1") -> dict[str, Any]:
    identity = {"slurmd_node": node}
    preflight = Evidence(f"pre-{node}", node, "preflight", 1.0, 2.0, boot_id, FINGERPRINT, "digest", identity=identity)
    return preflight.to_dict()


def request(tmp_path: Path, nodes: tuple[str, ...] = NAMES, **other: Any) -> Request:
    declared = {
        name: {"role": "compute", "hardware_class": "lab_h100", "address": f"10.0.0.{number}", "rack": None}
        for number, name in enumerate((*NAMES, "gpu-05"), 1)
    }
    fleet = {
        "cluster": "lab",
        "ledger": {"url": f"sqlite:///{tmp_path}/ledger.sqlite", "id": "id-1"},
        "nodes": {
            **declared,
            "ctl": {"role": "controller", "hardware_class": None, "address": "10.0.0.9", "rack": None},
        },
        "classes": {"lab_h100": dict(CLASS)},
        "fabric": {"kind": "ethernet", "socket_interface": "eth0"},
    }
    given = {"evidence": {name: [preflight(name)] for name in nodes}, **other}
    return Request(fleet_of(fleet), list(nodes), **given)


def expecting(asked: Request, **sections: Any) -> Request:
    """Return the request with other sections of the class."""
    return replace(asked, fleet=replace(asked.fleet, classes={"lab_h100": typed({**CLASS, **sections})}))


def verdicts(result: dict[str, Any]) -> dict[str, str]:
    found = {}
    for node, items in result["evidence"].items():
        (evidence,) = [Evidence.from_dict(item) for item in items]
        found[node] = worst(finding.verdict for finding in evidence.findings if finding.check == "pair_bandwidth")
    return found


def test_what_other_campaigns_observed_is_not_read(ledger: Ledger, tmp_path: Path) -> None:
    with ledger.writing() as writer:
        writer.save_round(StoredRound("other-1", 1, {"kind": "walk", "groups": []}, [], 1.0, 2.0))
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as database, database:
        database.execute("update round set observations = 'of another campaign, and large'")
    assert set(verdicts(Cluster(set()).accept(request(tmp_path))).values()) == {PASS}


def test_slow_node_is_rejected_and_all_is_recorded(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster({"gpu-04"})
    result = cluster.accept(request(tmp_path))
    assert verdicts(result) == {"gpu-01": PASS, "gpu-02": PASS, "gpu-04": FAIL}
    assert result["changed"] is False
    (campaign,) = result["campaigns"]
    assert campaign["concluded"]
    with ledger.reading() as reader:
        rounds = reader.rounds(campaign["campaign"])
        records = reader.records(["acceptance"], NAMES)
    assert [stored.number for stored in rounds[:-1]] == list(range(1, len(cluster.calls) + 1))
    assert rounds[-1].plan["kind"] == "concluded"
    assert all(stored.finished for stored in rounds)
    evidence = records["gpu-04"][-1].evidence
    assert evidence.to_dict() == result["evidence"]["gpu-04"][0]
    assert (evidence.boot_id, evidence.fingerprint) == ("boot-1", FINGERPRINT)
    assert evidence.identity == {"slurmd_node": "gpu-04"}
    assert evidence.expect_digest == expect_digest_of("acceptance", CLASS)
    assert (evidence.rules, evidence.program) == (rules_of("acceptance"), program_digest())
    assert [each["number"] for each in evidence.detail["rounds"]][:2] == [1, 2]
    assert evidence.detail["versions"] == {"torch": ["2.6.0+cpu"]}
    assert any(line.startswith("acceptance round 1 (walk, 5 s): 3 nodes; ") for line in cluster.told)
    assert any(line.startswith("acceptance rejects gpu-04: ") for line in cluster.told)


def acceptance_of(result: dict[str, Any], node: str) -> dict[str, tuple[str, str]]:
    (evidence,) = [Evidence.from_dict(item) for item in result["evidence"][node]]
    return {finding.check: (finding.verdict, finding.reason) for finding in evidence.findings}


def test_sound_nodes_pass_all_that_acceptance_owes(ledger: Ledger, tmp_path: Path) -> None:
    result = Cluster(set()).accept(request(tmp_path))
    for node in NAMES:
        found = acceptance_of(result, node)
        assert list(found) == [check for check, _subject in required("acceptance", typed(CLASS))]
        assert {verdict for verdict, _reason in found.values()} == {PASS}
        assert found["carrier"][1] == "eth0: no carrier was lost"


def test_stalls_that_no_exchange_shows_hold_their_node_and_lost_carriers_reject_theirs(
    ledger: Ledger, tmp_path: Path
) -> None:
    cluster = Cluster(set())
    pairs = (["gpu-01", "gpu-02"], ["gpu-01", "gpu-04"])
    cluster.stalls = [{"move": "walk", "nodes": pair, "meetings": 60, "lost_ns": [120_000_000] * 2} for pair in pairs]
    cluster.links = {"gpu-04": [{"eth0": {"eth0": [2, 4]}}]}
    result = cluster.accept(request(tmp_path))
    assert verdicts(result) == dict.fromkeys(NAMES, PASS)
    assert acceptance_of(result, "gpu-01")["stalls"][0] == INCOMPLETE
    assert acceptance_of(result, "gpu-04")["carrier"][0] == FAIL
    assert {node: acceptance_of(result, node)["stalls"][0] for node in NAMES[1:]} == dict.fromkeys(NAMES[1:], PASS)
    assert list(result["campaigns"][0]["held"]) == ["gpu-01"]


@pytest.mark.parametrize(
    ("environment", "interface", "watched"),
    [
        ({}, "eth0", ["eth0"]),
        ({}, None, ["*"]),
        ({"GLOO_SOCKET_IFNAME": "eth2,eth3"}, "eth0", ["eth2", "eth3"]),
        ({}, "rail3", ["rail3=0000:5e:00.0"]),
        ({"GLOO_SOCKET_IFNAME": "rail3,eth3"}, "eth0", ["rail3=0000:5e:00.0", "eth3"]),
    ],
)
def test_ranks_watch_what_their_sockets_use(
    ledger: Ledger, tmp_path: Path, environment: dict[str, str], interface: str | None, watched: list[str]
) -> None:
    cluster, asked = Cluster(set()), expecting(request(tmp_path, environment=environment), nic=NIC)
    fabric = replace(asked.fleet.fabric, socket_interface=interface)
    cluster.accept(replace(asked, fleet=replace(asked.fleet, fabric=fabric)))
    assert cluster.calls[0]["links"] == watched
    assert cluster.calls[0]["environment"].get("GLOO_SOCKET_IFNAME", "*") == ",".join(watched)


def test_with_nccl_every_rail_is_watched_whatever_nodes_call_it(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster(set())
    # Nodes tell by rail; whose links all stayed is not told of.
    cluster.links = {"gpu-04": [{"eth0": {}, **{f"rail{rail}": {} for rail in range(8)}, "rail3": {"ens4": [2, 4]}}]}
    collective = {**CLASS["collective"], "backend": "nccl"}
    result = cluster.accept(expecting(request(tmp_path), nic=NIC, fabric=RAILS_FABRIC, collective=collective))
    words = [f"rail{rail['rail']}={rail['address']}" for rail in NIC["rails"]]
    assert cluster.calls[0]["links"] == ["eth0", *words]
    verdict, reason = acceptance_of(result, "gpu-01")["carrier"]
    assert (verdict, reason.startswith("eth0, rail0, rail1, ")) == (PASS, True)
    verdict, reason = acceptance_of(result, "gpu-04")["carrier"]
    assert verdict == FAIL and "ens4" in reason


@pytest.mark.parametrize("image", [None, "registry.example#pytorch:25.01"])
def test_evidence_names_the_image_that_ran_what_is_inside_a_node(
    ledger: Ledger, tmp_path: Path, image: str | None
) -> None:
    inside = {"collective": "all_reduce", "nodes_min": 1, "size_bytes": SIZE, "busbw_gb_per_s": 0.1}
    floors = [*COLLECTIVE["floors"], inside]
    collective = {**COLLECTIVE, "ranks_per_node": 2, "floors": floors, "container": image}
    cluster = Cluster(set())
    result = cluster.accept(expecting(request(tmp_path), collective=collective))
    moves = [phase["kind"] for call in cluster.calls for phase in call["program"]["moves"]]
    assert "inside" in moves
    assert {each[0]["detail"].get("container") for each in result["evidence"].values()} == {image}
    # Where nothing is measured inside a node no image was used.
    result = Cluster(set()).accept(expecting(request(tmp_path), collective={**COLLECTIVE, "container": image}))
    assert {each[0]["detail"].get("container") for each in result["evidence"].values()} == {None}


def test_nothing_is_proven_by_a_pytorch_that_the_fingerprint_does_not_name(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster(set())
    result = cluster.accept(request(tmp_path, environment={"PYTHONPATH": "/opt/torch"}))
    assert (cluster.calls, result["evidence"]) == ([], {})
    why = "environment: found PYTHONPATH, expected none: pytorch.python of the class has PyTorch"
    assert set(result["skipped"].values()) == {why} and set(result["skipped"]) == set(NAMES)


def test_module_gets_addresses_interface_and_a_fresh_port(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster({"gpu-04"})
    cluster.accept(request(tmp_path, environment={"NCCL_DEBUG": "WARN"}))
    first = cluster.calls[0]
    assert first["environment"] == {"NCCL_DEBUG": "WARN", "GLOO_SOCKET_IFNAME": "eth0"}
    assert first["program"]["moves"][0]["kind"] == "pairs"
    assert (first["patient"], first["patience_seconds"]) == ([], 0)
    assert first["python"] == "/opt/muster/pytorch/bin/python3"
    assert first["addresses"] == {
        node: f"10.0.0.{NAMES.index(node) + 1}" for group in first["groups"] for node in group
    }
    assert len({call["port"] for call in cluster.calls}) == len(cluster.calls)


@pytest.mark.parametrize("killed_in", [1, 2])
def test_killed_in_a_round_goes_on_from_what_is_recorded(ledger: Ledger, tmp_path: Path, killed_in: int) -> None:
    cluster = Cluster({"gpu-04"})

    def trouble(number: int) -> None:
        if number == killed_in:
            raise Killed

    cluster.trouble = trouble
    with pytest.raises(Killed):
        cluster.accept(request(tmp_path))
    cluster.trouble = lambda number: None
    result = cluster.accept(request(tmp_path))
    assert verdicts(result) == {"gpu-01": PASS, "gpu-02": PASS, "gpu-04": FAIL}
    numbers = [call["number"] for call in cluster.calls]
    # The interrupted round is run again, as it was planned; no other is.
    assert numbers == [*range(1, killed_in + 1), *range(killed_in, max(numbers) + 1)]
    for key in ("groups", "program"):
        assert cluster.calls[killed_in - 1][key] == cluster.calls[killed_in][key]
    assert len({call["campaign"] for call in cluster.calls}) == 1


@pytest.mark.parametrize("change", ["boot", "age", "nodes", "environment", "interface"])
def test_interrupted_campaign_of_other_circumstances_is_not_taken_up(
    ledger: Ledger, tmp_path: Path, change: str
) -> None:
    cluster = Cluster(set())

    def trouble(number: int) -> None:
        raise Killed

    cluster.trouble = trouble
    with pytest.raises(Killed):
        cluster.accept(request(tmp_path))
    cluster.trouble = lambda number: None
    again = request(tmp_path)
    if change == "boot":
        again = request(tmp_path, evidence={name: [preflight(name, "boot-2")] for name in NAMES})
    elif change == "age":
        cluster.now += walk.RESUME_SECONDS
    elif change == "environment":
        again = request(tmp_path, environment={"NCCL_DEBUG": "WARN"})
    elif change == "interface":
        fabric = replace(again.fleet.fabric, socket_interface="eth1")
        again = replace(again, fleet=replace(again.fleet, fabric=fabric))
    else:
        again = request(tmp_path, NAMES[:2])
    cluster.accept(again)
    assert len({call["campaign"] for call in cluster.calls}) == 2


def test_other_port_is_the_same_campaign(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster({"gpu-04"})
    cluster.accept(request(tmp_path, budget_seconds=22))
    cluster.accept(request(tmp_path, port=31000))
    assert len({call["campaign"] for call in cluster.calls}) == 1


def test_node_that_was_mended_after_an_interruption_is_not_convicted_by_what_was_seen_before(
    ledger: Ledger, tmp_path: Path
) -> None:
    cluster = Cluster({"gpu-04"})
    asked = {"nodes": ("gpu-04",), "partners": ["gpu-01", "gpu-02"]}
    # Two bad pairs and no control pair: the next observation would convict.
    cluster.accept(request(tmp_path, **asked, budget_seconds=27))
    assert [call["number"] for call in cluster.calls] == [1, 2]
    cluster.slow = set()
    cluster.now += walk.RESUME_SECONDS
    assert verdicts(cluster.accept(request(tmp_path, **asked))) == {"gpu-04": PASS}


def test_nothing_convicts_where_ranks_cannot_run_at_all(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster(set())

    def failed(arguments: dict[str, Any]) -> list[dict[str, Any]]:
        error = "rank 0: ModuleNotFoundError in import of torch"
        return [
            {"group": group, "ok": False, "started": True, "error": error, "ranks": []} for group in arguments["groups"]
        ]

    means = Runtime(failed, cluster.told.append, lambda: cluster.now)
    result = prove(request(tmp_path, ("gpu-04", "gpu-05"), partners=["gpu-01", "gpu-02"]), Acceptance, means)
    assert verdicts(result) == {"gpu-04": INCOMPLETE, "gpu-05": INCOMPLETE}
    held = result["campaigns"][0]["held"]
    assert sorted(held) == ["gpu-04", "gpu-05"]
    assert "so no node is blamed" in held["gpu-04"]
    assert not any("rejects" in line for line in cluster.told)


def test_concluded_campaign_is_measured_anew(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster({"gpu-04"})
    first = cluster.accept(request(tmp_path, ("gpu-04",), partners=["gpu-01", "gpu-02"]))
    assert verdicts(first) == {"gpu-04": FAIL}
    # Another campaign in between, whose evidence is newer, must not hide that this one has ended.
    cluster.now += 60
    cluster.accept(request(tmp_path))
    cluster.slow = set()
    cluster.now += 60
    second = cluster.accept(request(tmp_path, ("gpu-04",), partners=["gpu-01", "gpu-02"]))
    assert verdicts(second) == {"gpu-04": PASS}
    assert len({call["campaign"] for call in cluster.calls}) == 3


def test_slurm_that_cannot_run_a_round_leaves_all_incomplete_and_the_next_run_goes_on(
    ledger: Ledger, tmp_path: Path
) -> None:
    cluster = Cluster({"gpu-04"})

    def trouble(number: int) -> None:
        if number == 2:
            raise RoundError("Slurm did not answer: sinfo: no such file")

    cluster.trouble = trouble
    result = cluster.accept(request(tmp_path))
    assert set(verdicts(result).values()) == {INCOMPLETE}
    assert not result["campaigns"][0]["concluded"]
    assert "Slurm did not answer" in result["evidence"]["gpu-01"][0]["findings"][0]["reason"]
    cluster.trouble = lambda number: None
    assert verdicts(cluster.accept(request(tmp_path))) == {"gpu-01": PASS, "gpu-02": PASS, "gpu-04": FAIL}
    assert [call["number"] for call in cluster.calls][:3] == [1, 2, 2]


def served(ledger: Ledger, *names: str) -> None:
    with ledger.writing() as writer:
        writer.declare(dict.fromkeys(names, "lab_h100"), 1.0)
        writer.move(dict.fromkeys(names, ("admitted", "acceptance", "passed")), "me", 1.0, compared=True)


def test_node_in_service_that_could_not_be_measured_again_keeps_its_evidence_and_owes_the_stage(
    ledger: Ledger, tmp_path: Path
) -> None:
    cluster = Cluster(set())
    cluster.accept(request(tmp_path))
    served(ledger, "gpu-01")

    def trouble(number: int) -> None:
        raise RoundError("the nodes are busy")

    cluster.trouble = trouble
    cluster.now += 10_000
    cluster.accept(request(tmp_path))
    with ledger.reading() as reader:
        last = {node: found[-1].evidence for node, found in reader.records(["acceptance"], NAMES).items()}
        doubts = reader.doubts()
    assert worst(finding.verdict for finding in last["gpu-01"].findings) == PASS
    assert worst(finding.verdict for finding in last["gpu-02"].findings) == INCOMPLETE
    assert [(each.node, each.stage) for each in doubts] == [("gpu-01", "acceptance")]
    cluster.trouble = lambda number: None
    cluster.accept(request(tmp_path))
    with ledger.reading() as reader:
        assert reader.doubts() == []


def test_node_in_service_that_fails_again_has_it_in_the_ledger(ledger: Ledger, tmp_path: Path) -> None:
    served(ledger, "gpu-04")
    Cluster({"gpu-04"}).accept(request(tmp_path))
    with ledger.reading() as reader:
        ((record,),) = reader.records(["acceptance"], ["gpu-04"]).values()
    assert record.evidence.faulty


@pytest.mark.parametrize("slow", ["gpu-04", "gpu-05"])
def test_single_partner_in_service_convicts_nobody_alone_and_is_doubted(
    ledger: Ledger, tmp_path: Path, slow: str
) -> None:
    served(ledger, "gpu-05")
    result = Cluster({slow}).accept(request(tmp_path, ("gpu-04",), partners=["gpu-05"]))
    assert verdicts(result) == {"gpu-04": INCOMPLETE}
    with ledger.reading() as reader:
        (doubt,) = reader.doubts()
    assert (doubt.node, doubt.reason) == ("gpu-05", "bad with gpu-04, and no other node could tell which of them is")


IN_A_DOMAIN = "9c6f5af3-53bf-49b5-a436-b66766c413c3/1"
IN_ANOTHER = "9c6f5af3-53bf-49b5-a436-b66766c413c3/2"


def in_racks(tmp_path: Path, nodes: tuple[str, ...] = NAMES, **told: Any) -> Request:
    """Return the request with all nodes in one rack that is an NVLink domain, and which domain each says."""
    asked = request(tmp_path, nodes, partners=told.pop("partners", ()))
    evidence = {}
    for node in nodes:
        given = preflight(node)
        domain = told.get(node.replace("-", "_"), IN_A_DOMAIN)
        evidence[node] = [{**given, "fingerprint": {**given["fingerprint"], "nvlink_domain": domain}}]
    domain = {"hosts": 18, "imex": None}
    nvlink = {**LAB["nvlink"], "fabric_manager": False, "fabric_manager_log": None, "domain": domain}
    asked = expecting(replace(asked, evidence=evidence), nvlink=nvlink)
    placed = tuple(replace(node, rack="r1") if node.role == "compute" else node for node in asked.fleet.nodes)
    return replace(asked, fleet=replace(asked.fleet, nodes=placed))


def test_nodes_of_a_rack_are_held_against_one_another(ledger: Ledger, tmp_path: Path) -> None:
    asked = in_racks(tmp_path, gpu_04=IN_ANOTHER)
    result = Cluster(set()).accept(asked)
    found = {node: acceptance_of(result, node)["nvlink_rack"] for node in NAMES}
    said = f"2 of 4 nodes of rack r1 are in NVLink domain {IN_A_DOMAIN}"
    assert found == {
        "gpu-01": (PASS, said),
        "gpu-02": (PASS, said),
        "gpu-04": (FAIL, f"{said}, this one in {IN_ANOTHER}"),
    }
    expect = asked.fleet.classes["lab_h100"]
    assert list(acceptance_of(result, "gpu-01")) == [check for check, _ in required("acceptance", expect)]


def test_node_alone_in_its_rack_is_held_until_another_is_in_service(ledger: Ledger, tmp_path: Path) -> None:
    result = Cluster(set()).accept(in_racks(tmp_path, ("gpu-01",), partners=["gpu-02"]))
    assert acceptance_of(result, "gpu-01")["nvlink_rack"][0] == INCOMPLETE
    assert "no other of the 4 nodes of rack r1" in result["campaigns"][0]["held"]["gpu-01"]
    cluster = Cluster(set())
    cluster.accept(in_racks(tmp_path))
    served(ledger, "gpu-02", "gpu-04")
    for own, verdict in ((IN_A_DOMAIN, PASS), (IN_ANOTHER, FAIL)):
        again = in_racks(tmp_path, ("gpu-01",), partners=["gpu-02", "gpu-04", "gpu-05"], gpu_01=own)
        assert acceptance_of(cluster.accept(again), "gpu-01")["nvlink_rack"][0] == verdict


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_tray_whose_rails_are_unknown_meets_its_rack_and_passes(ledger: Ledger, tmp_path: Path, backend: str) -> None:
    def asking(nodes: tuple[str, ...], away: tuple[str, ...] = (), **told: Any) -> Request:
        asked = in_racks(tmp_path, nodes, **told)
        own = asked.fleet.classes["lab_h100"]
        assert own.nic is None
        classes = {"lab_h100": replace(own, collective=replace(own.collective, backend=backend))}
        placed = tuple(replace(node, rack="r2") if node.name in away else node for node in asked.fleet.nodes)
        return replace(asked, fleet=replace(asked.fleet, classes=classes, nodes=placed))

    cluster = Cluster(set())
    result = cluster.accept(asking(NAMES))
    assert {acceptance_of(result, node)["nvlink_rack"][0] for node in NAMES} == {PASS}
    served(ledger, "gpu-02", "gpu-04", "gpu-05")
    result = cluster.accept(asking(("gpu-01",), ("gpu-04", "gpu-05"), partners=["gpu-02", "gpu-04", "gpu-05"]))
    assert acceptance_of(result, "gpu-01")["nvlink_rack"][0] == PASS


def test_campaign_is_not_taken_up_once_nodes_in_service_tell_of_another_domain(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster(set())
    cluster.accept(in_racks(tmp_path))
    served(ledger, "gpu-02", "gpu-04")
    cluster.calls = []

    def trouble(number: int) -> None:
        raise Killed

    asked = in_racks(tmp_path, ("gpu-01",), partners=["gpu-02", "gpu-04"])
    for moved in (False, False, True):
        if moved:
            cluster.trouble = lambda number: None
            cluster.accept(in_racks(tmp_path, gpu_02=IN_ANOTHER))
        cluster.trouble = trouble
        with pytest.raises(Killed):
            cluster.accept(asked)
    mine = [call["campaign"] for call in cluster.calls if {"gpu-01"} <= {*call["groups"][0]}]
    assert mine[0] == mine[1] != mine[-1]


def test_domain_is_said_of_a_campaign_that_had_to_stop_and_of_one_that_cannot_begin(
    ledger: Ledger, tmp_path: Path
) -> None:
    cluster = Cluster(set())

    def trouble(number: int) -> None:
        raise RoundError("the nodes are busy")

    cluster.trouble = trouble
    found = acceptance_of(cluster.accept(in_racks(tmp_path)), "gpu-01")
    verdict, why = found["nvlink_rack"]
    assert verdict == INCOMPLETE
    assert why.startswith("exchanged data with no other node of its rack")
    assert why.endswith(f"3 of 4 nodes of rack r1 are in NVLink domain {IN_A_DOMAIN}")
    assert found["data"][0] == INCOMPLETE
    asked = replace(in_racks(tmp_path), baselines=["of nobody"])
    found = acceptance_of(cluster.accept(asked), "gpu-01")
    assert list(found) == [check for check, _ in required("acceptance", asked.fleet.classes["lab_h100"])]
    assert {verdict for verdict, _ in found.values()} == {INCOMPLETE}


def test_rack_that_is_no_faster_than_its_rails_is_not_in_a_domain(ledger: Ledger, tmp_path: Path) -> None:
    asked = in_racks(tmp_path)
    own = asked.fleet.classes["lab_h100"]
    rails = typed({**CLASS, "nic": NIC}).nic
    nccl = replace(own, nic=rails, collective=replace(own.collective, backend="nccl"))
    found = Cluster(set()).accept(replace(asked, fleet=replace(asked.fleet, classes={"lab_h100": nccl})))
    verdict, why = acceptance_of(found, "gpu-01")["nvlink_rack"]
    assert verdict == FAIL
    assert why.startswith("no faster than rails with 2 of 2 nodes of its rack, so not over NVLink; 3 of 4 nodes")


class Doubting(Acceptance):
    """Acceptance that ends with a doubt about a node in service."""

    def next_round(self, seen: Any) -> Any:
        step = super().next_round(seen)
        return replace(step, doubted={"gpu-05": "slow with all"}) if isinstance(step, Conclusion) else step


def test_doubt_about_a_partner_in_service_is_in_the_ledger(ledger: Ledger, tmp_path: Path) -> None:
    served(ledger, "gpu-05")
    cluster = Cluster(set())
    runtime = Runtime(cluster.run_round, cluster.told.append, lambda: cluster.now)
    (campaign,) = prove(request(tmp_path), Doubting, runtime)["campaigns"]
    with ledger.reading() as reader:
        assert reader.doubts() == [Doubt("gpu-05", "acceptance", "slow with all", campaign["campaign"])]


def test_worker_whose_playbook_has_ended_leaves_the_record_as_it_is(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster({"gpu-04"})

    def trouble(number: int) -> None:
        if number == 2:
            raise Abandoned

    cluster.trouble = trouble
    with pytest.raises(Abandoned):
        cluster.accept(request(tmp_path))
    with ledger.reading() as reader:
        assert [stored.finished is None for stored in reader.rounds()] == [False, True]
        assert reader.records(["acceptance"], NAMES) == {name: [] for name in NAMES}
    # The lock went with it, and the next run goes on with the round that was not run.
    cluster.trouble = lambda number: None
    assert verdicts(cluster.accept(request(tmp_path))) == {"gpu-01": PASS, "gpu-02": PASS, "gpu-04": FAIL}
    assert [call["number"] for call in cluster.calls] == [1, 2, 2]


class Printing(ActionModule):  # type: ignore[misc]
    """The action, whose round module prints a text."""

    def __init__(self, text: str) -> None:
        self._text, self._task_vars, self._used_interpreter = text, {}, None

    def _execute_module(self, **_: Any) -> dict[str, Any]:
        return self._parse_returned_data({"rc": 0, "stdout": self._text, "stderr": ""}, "legacy")


def test_times_that_a_round_module_prints_are_read_as_arrays() -> None:
    observation = {"group": ["gpu-01"], "ok": True, "results": [{"move": "walk", "ns": [[1, 2], None]}]}
    (found,) = Printing(json.dumps({"changed": False, "observations": [observation]}))._run_round({})
    times = found["results"][0].pop("ns")
    assert np.array_equal(times, [[1, 2], [np.nan, np.nan]], equal_nan=True)
    assert found == {"group": ["gpu-01"], "ok": True, "results": [{"move": "walk"}]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"failed": true, "msg": "Slurm is down", "observations": []}', "Slurm is down"),
        ('{"observations": "many"}', "no observations"),
        ("[]", "no observations"),
        ("Traceback", "no observations"),
        ("", "no observations"),
    ],
)
def test_what_a_failed_round_module_prints_is_a_round_error(text: str, said: str) -> None:
    with pytest.raises(RoundError, match=said):
        Printing(text)._run_round({})


def test_what_is_printed_before_the_result_does_not_hide_it() -> None:
    assert Printing('motd\n{"observations": [{"group": ["gpu-01"]}]}\n')._run_round({}) == [{"group": ["gpu-01"]}]


@pytest.mark.parametrize("lost", ["before", "during"])
def test_kill_of_the_playbook_is_not_recorded_as_trouble_with_a_round(
    ledger: Ledger, tmp_path: Path, lost: str
) -> None:
    cluster = Cluster({"gpu-04"})
    alive = lost == "during"

    def trouble(number: int) -> None:
        nonlocal alive
        alive = False
        raise RoundError("controller not reachable: the connection was closed")

    cluster.trouble = trouble
    run_round = walk.led(cluster.run_round, lambda: alive)
    with pytest.raises(Abandoned):
        prove(request(tmp_path), Acceptance, Runtime(run_round, cluster.told.append, lambda: cluster.now))
    assert len(cluster.calls) == (lost == "during")
    with ledger.reading() as reader:
        assert reader.records(["acceptance"], NAMES) == {name: [] for name in NAMES}


def test_two_runs_never_walk_at_the_same_time(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "SPARE_SECONDS", 0)
    cluster = Cluster(set())
    with ledger.locked(work="proving"), pytest.raises(LedgerError, match="another run is proving nodes"):
        cluster.accept(request(tmp_path, round_seconds=0))
    assert cluster.calls == []


def test_observations_about_other_groups_are_not_believed(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster(set())
    means = Runtime(lambda arguments: [], cluster.told.append, lambda: cluster.now)
    result = prove(request(tmp_path), Acceptance, means)
    assert set(verdicts(result).values()) == {INCOMPLETE}


def test_budget_used_up_leaves_the_rest_to_the_next_run(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster({"gpu-04"})
    result = cluster.accept(request(tmp_path, budget_seconds=22))
    assert len(cluster.calls) == 1
    assert PASS not in verdicts(result).values()
    result = cluster.accept(request(tmp_path))
    assert verdicts(result) == {"gpu-01": PASS, "gpu-02": PASS, "gpu-04": FAIL}
    assert [call["number"] for call in cluster.calls] == [1, 2]


def test_check_mode_plans_and_leaves_no_trace(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster(set())
    result = cluster.accept(request(tmp_path, check=True))
    assert cluster.calls == []
    assert result["evidence"] == {}
    assert result["campaigns"][0]["next_round"]["kind"] == "walk"
    with ledger.reading() as reader:
        assert reader.rounds() == []


def test_node_without_preflight_evidence_is_skipped_with_the_reason(ledger: Ledger, tmp_path: Path) -> None:
    evidence = {name: [preflight(name)] for name in NAMES[:2]}
    result = Cluster(set()).accept(request(tmp_path, evidence=evidence))
    assert sorted(result["evidence"]) == ["gpu-01", "gpu-02"]
    assert "no preflight evidence" in result["skipped"]["gpu-04"]


def test_partner_under_test_and_strangers_are_no_partners(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster(set())
    result = cluster.accept(request(tmp_path, ("gpu-01",), partners=["gpu-01", "ctl", "gpu-99"]))
    assert cluster.calls == []
    assert verdicts(result) == {"gpu-01": INCOMPLETE}


class Copying(Cluster):
    """Groups that copy within a GPU, as processes do that are alone: 2,000 GB/s, counted as of all ranks."""

    def results(self, group: list[str], phase: Phase) -> list[dict[str, Any]]:
        found = super().results(group, phase)
        for result in found if phase.kind == "groups" else ():
            result["ns"] = [row and [round(each * 0.5 / 2000) for each in row] for row in result["ns"]]
        return found


@pytest.mark.parametrize(("backend", "verdict"), [("nccl", INCOMPLETE), ("gloo", PASS)])
def test_group_is_not_measured_that_is_faster_than_the_links_of_its_gpus(
    ledger: Ledger, tmp_path: Path, backend: str, verdict: str
) -> None:
    result = Copying(set()).accept(expecting(request(tmp_path), collective={**COLLECTIVE, "backend": backend}))
    for node in NAMES:
        found, reason = acceptance_of(result, node)["group_bandwidth"]
        assert found == verdict, reason
        said = "all:all_reduce of 8 MiB reached 2000 GB/s, which NVLinks and PCIe do not carry (1084 at most)"
        assert (said in reason) == (verdict == INCOMPLETE)


def test_class_without_usable_floors_runs_nothing(ledger: Ledger, tmp_path: Path) -> None:
    asked = expecting(request(tmp_path), collective={**COLLECTIVE, "floors": []})
    cluster = Cluster(set())
    result = cluster.accept(asked)
    assert cluster.calls == []
    assert set(verdicts(result).values()) == {INCOMPLETE}
    assert (
        "no sendrecv floor for two nodes (collective.floors)"
        in result["evidence"]["gpu-01"][0]["findings"][0]["reason"]
    )


def large(tmp_path: Path, **other: Any) -> Request:
    """Return a request over nine nodes, enough to judge each other."""
    names = tuple(f"gpu-1{number}" for number in range(9))
    asked = request(tmp_path, names, **other)
    more = [Node(name, "compute", f"10.0.1.{number}", "lab_h100") for number, name in enumerate(names)]
    return replace(asked, fleet=replace(asked.fleet, nodes=(*asked.fleet.nodes, *more)))


def test_baseline_of_a_healthy_fleet_is_kept_and_used_once_it_is_adopted(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster(set())
    (campaign,) = cluster.accept(large(tmp_path))["campaigns"]
    proposed = campaign["baseline"]
    assert (proposed["hardware_class"], proposed["fabric"], proposed["versions"]) == (
        *("lab_h100", "ethernet"),
        "torch 2.6.0+cpu",
    )
    assert {each["collective"] for each in proposed["figures"]} == {"sendrecv", "all_reduce"}
    with ledger.reading() as reader:
        assert reader.rounds(campaign["campaign"])[-1].plan["baseline"] == proposed

    # The floor is 0.1 GB/s: three nodes are fast enough for it, and not as fast as what was adopted.
    class Slower(Cluster):
        def results(self, group: list[str], phase: Phase) -> list[dict[str, Any]]:
            found = super().results(group, phase)
            for result in found:
                result["ns"] = result["ns_p99"] = [row and [2 * row[0]] for row in result["ns"]]
            return found

    slower = Slower(set())
    assert set(verdicts(slower.accept(request(tmp_path))).values()) == {PASS}
    adopted = request(tmp_path, baselines=[campaign["campaign"]])
    assert PASS not in verdicts(slower.accept(adopted)).values()
    cluster.now += 100
    assert set(verdicts(cluster.accept(adopted)).values()) == {PASS}


def test_baseline_that_nobody_proposed_judges_nobody(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster(set())
    result = cluster.accept(request(tmp_path, baselines=["5f2a9c"]))
    assert cluster.calls == []
    assert set(verdicts(result).values()) == {INCOMPLETE}
    reason = result["evidence"]["gpu-01"][0]["findings"][0]["reason"]
    assert "no baseline for hardware class lab_h100 on ethernet was proposed by campaign 5f2a9c" in reason


MINI_CLUSTERS = {
    "profile": "chat",
    "collective": "all_reduce",
    "sizes_bytes": [SIZE],
    "limits": [{"gpus": 2, "microseconds": 50_000}, {"gpus": 3, "microseconds": 50_000}],
}


def asking(tmp_path: Path, nodes: tuple[str, ...] = NAMES, **other: Any) -> Request:
    return expecting(request(tmp_path, nodes, **other), mini_clusters=MINI_CLUSTERS)


def latency_of(result: dict[str, Any], node: str) -> tuple[Evidence, str]:
    (evidence,) = [Evidence.from_dict(item) for item in result["evidence"][node]]
    return evidence, next(each.verdict for each in evidence.findings if each.check == "mini_cluster_latency")


def test_declared_mini_clusters_are_measured_and_recorded_as_evidence(ledger: Ledger, tmp_path: Path) -> None:
    result = Cluster(set()).accept(asking(tmp_path))
    for node in NAMES:
        evidence, verdict = latency_of(result, node)
        assert verdict == PASS and worst(each.verdict for each in evidence.findings) == PASS
        assert evidence.expect_digest != expect_digest_of("acceptance", CLASS)
    without = Cluster(set()).accept(request(tmp_path))
    (evidence,) = [Evidence.from_dict(item) for item in without["evidence"]["gpu-01"]]
    assert "mini_cluster_latency" not in {each.check for each in evidence.findings}


def test_group_above_its_limit_is_held_by_its_evidence(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster(set())
    slow = [{"gpus": 2, "microseconds": 50_000}, {"gpus": 3, "microseconds": 10}]
    result = cluster.accept(expecting(request(tmp_path), mini_clusters={**MINI_CLUSTERS, "limits": slow}))
    for node in NAMES:
        evidence, verdict = latency_of(result, node)
        assert verdict == INCOMPLETE and "p99 above the limit" in evidence.detail["held"]


def test_mini_clusters_that_partners_fill_up_wait_for_them(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster(set())
    partners = {"partners": ["gpu-02", "gpu-04"], "partner_wait_seconds": 90}
    result = cluster.accept(asking(tmp_path, ("gpu-01",), **partners))
    assert latency_of(result, "gpu-01")[1] == PASS
    assert (cluster.calls[-1]["patience_seconds"], cluster.calls[-1]["patient"]) == (90, ["gpu-02", "gpu-04"])


def test_suspects_wait_for_partners_and_a_walk_does_not(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster({"gpu-04"})
    asked = request(tmp_path, ("gpu-04",), partners=["gpu-01", "gpu-02"], partner_wait_seconds=90)
    cluster.accept(asked)
    waits = {(call["patience_seconds"], bool(call["patient"])) for call in cluster.calls[1:]}
    assert (cluster.calls[0]["patience_seconds"], cluster.calls[0]["patient"]) == (0, [])
    assert waits == {(90, True)}


def test_long_walk_gets_the_time_it_needs(ledger: Ledger, tmp_path: Path) -> None:
    cluster = Cluster(set())
    cluster.accept(request(tmp_path, round_seconds=20))
    phases = cluster.calls[0]["program"]["moves"]
    permutations = sum(len(phase["shifts"]) for phase in phases)
    assert cluster.calls[0]["deadline_seconds"] == 10 + 4 * permutations * 0.5
