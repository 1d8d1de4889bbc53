"""Fabric campaigns against a real ledger: recorded round by round, taken up after a kill, concluded once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import required
from ansible_collections.muster.cluster.plugins.module_utils.nic.declared_nics import gpus_beside
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.campaign import RoundError, Runtime, prove
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Request
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.fabric_stage import FabricRounds

from tests.fleets import fleet_of
from tests.typed import typed
from tests.unit.plugin_utils.fabric import examples

NAMES = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
FINGERPRINT = {"nics": "rail0=1:28.43", "kernel": "6.1", "gpu_driver": "570"}
SENT = 10**9


class Killed(BaseException):
    """The process dies here."""


class Cluster:
    """Hosts of which one rail may be slow; counts rounds, and can kill its caller or lose its Slurm."""

    def __init__(self, slow: tuple[str, str] | None = None) -> None:
        self.slow = slow
        self.flaps = 0
        self.calls: list[dict[str, Any]] = []
        self.told: list[str] = []
        self.now = 1_000_000.0
        self.trouble: Callable[[int], None] = lambda number: None

    def run_round(self, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        self.calls.append(arguments)
        self.trouble(arguments["number"])
        self.now += 5
        return [self.observation(group, arguments["test"]) for group in arguments["groups"]]

    def observation(self, group: list[str], test: dict[str, Any]) -> dict[str, Any]:
        rails = [f"rail{rail['rail']}" for rail in test["rails"]]
        answers = [self.answer(node, group, rails) for node in group]
        return {"group": group, "ok": True, "started": True, "error": "", "answers": answers, "unavailable": {}}

    def answer(self, node: str, group: list[str], rails: list[str]) -> dict[str, Any]:
        tests, counters = [], {}
        for rail in rails:
            gbps = 200.0 if self.slow and self.slow[1] == rail and self.slow[0] in group else 392.0
            other = next((name for name in group if name != node), node)
            about = {"rail": rail, "client": node, "server": other, "error": ""}
            phases = ("single", "together", "control") if len(group) == 2 else ("loopback",)
            value = gbps if len(group) == 2 else 390.0
            tests += [{**about, "phase": p, "tool": "ib_write_bw", "value": value, "bytes": SENT} for p in phases]
            if node == group[-1] and len(group) == 2:
                tests.append({**about, "phase": "single", "tool": "ib_write_lat", "value": 2.2, "bytes": 2000})
            if len(group) == 2:
                counters[rail] = {phase: {"grown": self.grown(phase), "missing": []} for phase in phases}
        flapped = {"rdma": [2, 2 + self.flaps]} if self.flaps and node == "gpu-2" else {}
        links = {**{rail: {} for rail in rails}, rails[0]: flapped}
        return {"node": node, "tests": tests, "servers": [], "counters": counters, "links": links}

    @staticmethod
    def grown(phase: str) -> dict[str, int]:
        priority = PRIORITIES["control" if phase == "control" else "data"]
        return {f"{way}_prio{priority}_bytes": SENT + 10**6 for way in ("rx", "tx")}

    def prove(self, request: Request) -> dict[str, Any]:
        return prove(request, FabricRounds, Runtime(self.run_round, self.told.append, lambda: self.now))


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return ``muster_fleet`` of eight hosts in one pod."""
    path = tmp_path_factory.mktemp("fleet") / "small.fleet.yml"
    data = examples.small_roce()
    # Cables have tests of their own.
    data["fabric"]["verify_cabling"] = False
    path.write_text(yaml.safe_dump(data))
    fleet = Fleet.load(path)
    return {**fleet.variables(), "nodes": fleet.node_variables()}


PRIORITIES = {name: each["priority"] for name, each in examples.small_roce()["fabric"]["qos"].items()}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(f"sqlite:///{tmp_path}/ledger.sqlite", "id-1", "lab")


@pytest.fixture
def asked(tmp_path: Path, ledger: Ledger, declared: dict[str, Any]) -> Callable[..., Request]:
    place = {"url": f"sqlite:///{tmp_path}/ledger.sqlite", "id": "id-1"}
    fleet = {**declared, "cluster": "lab", "ledger": place}

    def request(nodes: tuple[str, ...] = NAMES, **other: Any) -> Request:
        evidence = {
            name: [Evidence(f"p-{name}", name, "preflight", 1.0, 2.0, "b", FINGERPRINT, "d").to_dict()]
            for name in nodes
        }
        return Request(fleet_of(fleet), list(nodes), **{"evidence": evidence, **other})

    return request


def verdicts(result: dict[str, Any]) -> dict[str, str]:
    found = {node: [Evidence.from_dict(item) for item in items] for node, items in result["evidence"].items()}
    return {node: worst(each.verdict for each in items[0].findings) for node, items in found.items()}


def test_sound_hosts_pass_all_that_is_owed_and_all_is_recorded(ledger: Ledger, asked: Callable[..., Request]) -> None:
    cluster, request = Cluster(), asked()
    result = cluster.prove(request)
    assert verdicts(result) == dict.fromkeys(NAMES, PASS)
    (campaign,) = result["campaigns"]
    with ledger.reading() as reader:
        rounds = reader.rounds(campaign["campaign"])
        records = reader.records(["fabric"], NAMES)
    assert [stored.plan["kind"] for stored in rounds] == ["loopback", "leaf", "pod", "concluded"]
    assert all(stored.finished for stored in rounds)
    (evidence,) = [record.evidence for record in records["gpu-1"]]
    assert evidence.to_dict() == result["evidence"]["gpu-1"][0]
    expect = request.fleet.variables()["classes"][str(request.fleet.hosts["gpu-1"].hardware_class)]
    assert {(each.check, each.subject) for each in evidence.findings} == set(required("fabric", typed(expect)))
    assert evidence.expect_digest == expect_digest_of("fabric", expect)
    assert evidence.fingerprint == FINGERPRINT
    assert [each["number"] for each in evidence.detail["rounds"]] == [1, 2, 3]


def test_rail_at_fault_is_told_with_its_switch_and_nobody_else(asked: Callable[..., Request]) -> None:
    cluster = Cluster(("gpu-3", "rail5"))
    assert verdicts(cluster.prove(asked())) == {**dict.fromkeys(NAMES, PASS), "gpu-3": FAIL}
    (told,) = [line for line in cluster.told if "rejects" in line]
    assert "fabric rejects gpu-3: rail 5 (0000:bc:00.0), cable to tor-2 " in told
    assert any("gpu-3+gpu-4 bad on rail5" in line for line in cluster.told)


def test_rail_that_lost_its_carrier_is_rejected_though_it_is_fast(asked: Callable[..., Request]) -> None:
    cluster = Cluster()
    cluster.flaps = 2
    result = cluster.prove(asked())
    assert verdicts(result) == {**dict.fromkeys(NAMES, PASS), "gpu-2": FAIL}
    found = Evidence.from_dict(result["evidence"]["gpu-2"][0]).findings
    (failed,) = [each for each in found if each.verdict != PASS]
    # Twice in each of the rounds: looped back, with its neighbour, in its pod.
    assert (failed.check, failed.subject, failed.measured) == ("carrier", "nic rail0", 6)
    assert failed.reason == "carriers were lost or found while it was measured: rdma 6 times"


@pytest.mark.parametrize("killed_in", [1, 2, 3, 4])
def test_killed_in_a_round_goes_on_from_what_is_recorded(
    ledger: Ledger, asked: Callable[..., Request], killed_in: int
) -> None:
    cluster = Cluster(("gpu-3", "rail5"))

    def trouble(number: int) -> None:
        if number == killed_in:
            raise Killed

    cluster.trouble = trouble
    with pytest.raises(Killed):
        cluster.prove(asked())
    with ledger.reading() as reader:
        assert reader.records(["fabric"], NAMES) == {name: [] for name in NAMES}
    cluster.trouble = lambda number: None
    result = cluster.prove(asked())
    assert verdicts(result) == {**dict.fromkeys(NAMES, PASS), "gpu-3": FAIL}
    numbers = [call["number"] for call in cluster.calls]
    # The interrupted round is run again, as it was planned; no other is.
    assert numbers == [*range(1, killed_in + 1), *range(killed_in, max(numbers) + 1)]
    assert cluster.calls[killed_in - 1]["groups"] == cluster.calls[killed_in]["groups"]
    assert len({call["campaign"] for call in cluster.calls}) == 1
    with ledger.reading() as reader:
        assert {name: len(found) for name, found in reader.records(["fabric"], NAMES).items()} == dict.fromkeys(
            NAMES, 1
        )


@pytest.mark.parametrize("change", ["environment", "rails", "queue_pairs", "nodes"])
def test_interrupted_campaign_of_other_circumstances_is_not_taken_up(
    asked: Callable[..., Request], change: str
) -> None:
    cluster = Cluster()

    def trouble(number: int) -> None:
        raise Killed

    cluster.trouble = trouble
    with pytest.raises(Killed):
        cluster.prove(asked())
    cluster.trouble = lambda number: None
    again = asked(NAMES[:2]) if change == "nodes" else asked()
    fleet: dict[str, Any] = {**again.fleet.variables(), "nodes": again.fleet.node_variables()}
    if change == "environment":
        again = asked(environment={"LD_LIBRARY_PATH": "/opt/cuda/lib64"})
    elif change == "rails":
        first = fleet["nodes"]["gpu-1"]
        moved = [{**first["rails"][0], "port": "Ethernet9/1"}, *first["rails"][1:]]
        again = Request(
            fleet_of({**fleet, "nodes": {**fleet["nodes"], "gpu-1": {**first, "rails": moved}}}),
            NAMES,
            evidence=again.evidence,
        )
    elif change == "queue_pairs":
        classes = {
            name: {**each, "rdma": {**each["rdma"], "queue_pairs": 8}} for name, each in fleet["classes"].items()
        }
        again = Request(fleet_of({**fleet, "classes": classes}), NAMES, evidence=again.evidence)
    cluster.prove(again)
    assert len({call["campaign"] for call in cluster.calls}) == 2


def test_round_that_could_not_be_run_stays_open_and_passes_nobody(
    ledger: Ledger, asked: Callable[..., Request]
) -> None:
    cluster = Cluster()

    def trouble(number: int) -> None:
        if number == 2:
            raise RoundError("Slurm did not answer: sinfo: no such file")

    cluster.trouble = trouble
    result = cluster.prove(asked())
    assert set(verdicts(result).values()) == {INCOMPLETE}
    assert not result["campaigns"][0]["concluded"]
    with ledger.reading() as reader:
        assert [stored.finished is None for stored in reader.rounds()] == [False, True]
    cluster.trouble = lambda number: None
    assert verdicts(cluster.prove(asked())) == dict.fromkeys(NAMES, PASS)
    assert [call["number"] for call in cluster.calls] == [1, 2, 2, 3]


def test_mended_node_is_proven_at_every_distance_by_hosts_in_service(asked: Callable[..., Request]) -> None:
    cluster = Cluster()
    result = cluster.prove(asked(("gpu-3",), partners=["gpu-1", "gpu-4", "gpu-5"]))
    assert verdicts(result) == {"gpu-3": PASS}
    assert [call["groups"] for call in cluster.calls[1:]] == [[["gpu-1", "gpu-3"]], [["gpu-3", "gpu-4"]]]


def test_check_mode_plans_and_leaves_no_trace(ledger: Ledger, asked: Callable[..., Request]) -> None:
    cluster = Cluster()
    result = cluster.prove(asked(check=True))
    assert (cluster.calls, result["evidence"]) == ([], {})
    assert result["campaigns"][0]["next_round"]["kind"] == "loopback"
    with ledger.reading() as reader:
        assert reader.rounds() == []


def test_module_gets_addresses_marks_and_a_fresh_port(asked: Callable[..., Request]) -> None:
    cluster, request = Cluster(), asked()
    cluster.prove(request)
    for call in cluster.calls:
        assert sorted(call["nodes"]) == sorted({node for group in call["groups"] for node in group})
        assert call["test"]["data_class"] >> 2 == request.fleet.fabric.to_dict()["qos"]["data"]["dscp"]
        assert call["test"]["control_class"] >> 2 == request.fleet.fabric.to_dict()["qos"]["control"]["dscp"]
        assert call["test"]["dmabuf"]
        assert [rail["rail"] for rail in call["test"]["rails"]] == list(range(8))
        assert sorted(rail["gpu"] for rail in call["test"]["rails"]) == list(range(8))
        assert call["test"]["links"] == [f"rail{rail['rail']}={rail['address']}" for rail in call["test"]["rails"]]
        assert call["nodes"]["gpu-1"]["rails"] == {f"rail{rail}": f"172.{16 + rail}.0.1" for rail in range(8)}
        # What a host calls its devices is its own affair.
        assert "mlx5" not in str(call)
    assert len({call["port"] for call in cluster.calls}) == len(cluster.calls)


def test_class_without_rails_is_skipped_with_the_reason_and_stops_no_other(asked: Callable[..., Request]) -> None:
    request = asked()
    fleet: dict[str, Any] = {**request.fleet.variables(), "nodes": request.fleet.node_variables()}
    name = fleet["nodes"]["gpu-1"]["hardware_class"]
    bare = {**fleet["classes"][name], "nic": None, "rdma": None, "affinity": None}
    nodes = {**fleet["nodes"], "gpu-1": {**fleet["nodes"]["gpu-1"], "hardware_class": "bare", "rails": []}}
    changed = {**fleet, "nodes": nodes, "classes": {**fleet["classes"], "bare": bare}}
    result = Cluster().prove(Request(fleet_of(changed), NAMES, evidence=request.evidence))
    assert sorted(result["evidence"]) == ["gpu-2", "gpu-3", "gpu-4"]
    assert result["skipped"] == {"gpu-1": "hardware class bare has no RDMA rails on this fabric"}


def test_gpu_of_a_rail_is_the_one_beside_it(declared: dict[str, Any]) -> None:
    (expect,) = declared["classes"].values()
    assert sorted(gpus_beside(typed(expect)).values()) == list(range(8))
    assert gpus_beside(typed({**expect, "gpu": None})) == {}
    affinity = {**expect["affinity"], "parts": [{"slot": expect["gpu"]["parts"][5]["slot"], "numa_node": 0, "rail": 2}]}
    assert gpus_beside(typed({**expect, "affinity": affinity}))[2] == 5
