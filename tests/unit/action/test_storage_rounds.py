"""Storage campaigns against a real ledger, with the declared storage of a fleet file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import required
from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import DEPENDS
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.campaign import RoundError, Runtime, prove
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Request
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger
from ansible_collections.muster.cluster.plugins.plugin_utils.save_rounds.storage_stage import StorageRounds

from tests.fleets import fleet_of
from tests.typed import typed
from tests.unit.plugin_utils.storage.test_rounds import answer

LAB = Path(__file__).parents[3] / "inventory" / "lab" / "lab.fleet.yml"
NAMES = ("gpu-01", "gpu-02", "gpu-03", "gpu-04")
LIMITS = {"write_gb_per_s": 2, "read_gb_per_s": 4, "metadata_p99_ms": 50, "slowest_over_median": 1.3}
MODEL = {"parameters": "70e9", "ranks": 1024}


def variables(tmp_path: Path, **change: Any) -> dict[str, Any]:
    """Return ``muster_fleet`` of the lab's hosts with a checkpoint on storage that somebody else mounts."""
    data = yaml.safe_load(LAB.read_text())
    data["hardware_classes"] = {"lab_h100": {"storage": LIMITS}}
    data["storage"] = {
        "tiers": [{"name": "weka", "kind": "existing", "path": "/weka", "filesystem": "wekafs"}],
        "checkpoint": {"tier": "weka", "model": MODEL, **change},
    }
    data["policy"].pop("stages", None)
    path = tmp_path / "storage.fleet.yml"
    path.write_text(yaml.safe_dump(data))
    fleet = Fleet.load(path)
    place = {"url": f"sqlite:///{tmp_path}/ledger.sqlite", "id": "id-1"}
    return {**fleet.variables(), "nodes": fleet.node_variables(), "ledger": place, "cluster": "lab"}


class Cluster:
    """Hosts of which one may be slow; its Slurm may fail."""

    def __init__(self, slow: str = "", trouble: str = "", flapping: str = "") -> None:
        self.slow = slow
        self.flapping = flapping
        self.trouble = trouble
        self.calls: list[dict[str, Any]] = []
        self.told: list[str] = []
        self.now = 1_000_000.0

    def run_round(self, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        self.calls.append(arguments)
        self.now += 60
        if self.trouble:
            raise RoundError(self.trouble)
        (group,) = arguments["groups"]
        answers = []
        for number, node in enumerate(group):
            found = answer(node, group[(number + 1) % len(group)])
            if node == self.slow:
                found["write"]["seconds"] = 2.0
            if node == self.flapping:
                # Over what leads to the storage, which the node found by itself.
                found["links"] = {**found["links"], "eth7": {"eth7": [2, 4]}}
            answers.append(found)
        return [{"group": group, "started": True, "ok": True, "error": "", "answers": answers, "unavailable": {}}]

    def prove(self, request: Request) -> dict[str, Any]:
        return prove(request, StorageRounds, Runtime(self.run_round, self.told.append, lambda: self.now))


@pytest.fixture
def asked(tmp_path: Path) -> Callable[..., Request]:
    Ledger.create(f"sqlite:///{tmp_path}/ledger.sqlite", "id-1", "lab")
    fleet = variables(tmp_path)
    fingerprint = dict.fromkeys(DEPENDS["storage"], "1")

    def request(nodes: tuple[str, ...] = NAMES, **other: Any) -> Request:
        evidence = {
            name: [Evidence(f"p-{name}", name, "preflight", 1.0, 2.0, "b", fingerprint, "d").to_dict()]
            for name in nodes
        }
        return Request(fleet_of(fleet), list(nodes), **{"evidence": evidence, **other})

    return request


def findings(result: dict[str, Any]) -> dict[str, Evidence]:
    return {node: Evidence.from_dict(items[0]) for node, items in result["evidence"].items()}


def test_sound_hosts_pass_all_that_is_owed_and_all_is_recorded(asked: Callable[..., Request]) -> None:
    cluster, request = Cluster(), asked()
    found = findings(cluster.prove(request))
    expect = request.fleet.variables()["classes"]["lab_h100"]
    for evidence in found.values():
        assert worst(each.verdict for each in evidence.findings) == PASS
        assert [(each.check, each.subject) for each in evidence.findings] == required("storage", typed(expect))
        assert evidence.stage == "storage"
        assert evidence.expect_digest == expect_digest_of("storage", expect)
        save = evidence.detail["save"]
        assert (save["nodes"], save["bytes"], save["write_gb_per_s"]) == (4, 16_000_000_000, 16.0)
        assert save["blocking_seconds"] == 1.1
        assert save["checkpoint"] == {"blocking_seconds": 0.1, "save_seconds": 0.6, "load_seconds": 0.3}
        # 9 s in all, less 1.1 for the save, 0.5 each for reading and small files, 0.9 for PyTorch.
        assert save["overhead_seconds"] == pytest.approx(6.0)
    assert cluster.told[0].startswith("storage round 1 (together, 60 s): 4 nodes, 16 GB/s by 4 nodes, ")


def test_round_is_told_what_the_fleet_declares(asked: Callable[..., Request]) -> None:
    cluster, request = Cluster(), asked(environment={"NCCL_DEBUG": "WARN"}, round_seconds=430)
    cluster.prove(request)
    (call,) = cluster.calls
    assert call["groups"] == [list(NAMES)]
    # 70e9 parameters of 14 bytes over 1,024 ranks.
    assert call["test"]["shard_bytes"] == 957_031_250
    assert call["test"]["directory"] == "/weka/.muster/lab"
    assert call["test"]["links"] == ["eth0"]
    assert call["environment"] == {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_DEBUG": "WARN"}
    assert (call["deadline_seconds"], call["timeout_seconds"]) == (430, 100)
    assert call["addresses"]["gpu-01"] == request.fleet.addresses["gpu-01"]


def test_rail_may_be_the_interface_of_sockets(tmp_path: Path, asked: Callable[..., Request]) -> None:
    fleet = variables(tmp_path)
    fleet["fabric"]["socket_interface"] = "rail1"
    address = fleet["classes"]["lab_h100"]["nic"]["rails"][1]["address"]
    cluster, request = Cluster(), asked()
    cluster.prove(replace(request, fleet=fleet_of(fleet)))
    (call,) = cluster.calls
    assert call["test"]["links"] == [f"rail1={address}"]
    assert call["environment"]["GLOO_SOCKET_IFNAME"] == f"rail1={address}"


def test_slow_host_is_rejected_after_a_second_save_and_told(asked: Callable[..., Request]) -> None:
    cluster = Cluster(slow="gpu-03")
    found = findings(cluster.prove(asked()))
    verdicts = {node: worst(each.verdict for each in evidence.findings) for node, evidence in found.items()}
    assert verdicts == {**dict.fromkeys(NAMES, PASS), "gpu-03": FAIL}
    assert len(cluster.calls) == 2
    assert cluster.calls[0]["port"] != cluster.calls[1]["port"]
    assert any(told.startswith("storage rejects gpu-03: 2 GB/s, the median") for told in cluster.told)
    assert [each["number"] for each in found["gpu-03"].detail["rounds"]] == [1, 2]
    # The largest save is what the plan starts from.
    assert found["gpu-03"].detail["save"]["nodes"] == 4


def test_host_that_loses_its_link_to_the_storage_is_rejected(asked: Callable[..., Request]) -> None:
    found = findings(Cluster(flapping="gpu-02").prove(asked()))
    assert {node for node, each in found.items() if worst(one.verdict for one in each.findings) != PASS} == {"gpu-02"}
    (failed,) = [each for each in found["gpu-02"].findings if each.verdict == FAIL]
    assert (failed.check, failed.subject, failed.measured, failed.expected) == ("carrier", "storage", 2, 0)


def test_lost_controller_blames_nobody(asked: Callable[..., Request]) -> None:
    found = findings(Cluster(trouble="controller not reachable").prove(asked()))
    assert {worst(each.verdict for each in evidence.findings) for evidence in found.values()} == {INCOMPLETE}


def test_check_mode_says_what_would_be_next(asked: Callable[..., Request]) -> None:
    cluster = Cluster()
    (campaign,) = cluster.prove(asked(check=True))["campaigns"]
    assert campaign["next_round"] == {"number": 1, "kind": "together", "groups": [list(NAMES)]}
    assert not cluster.calls


def test_class_without_limits_proves_nothing(asked: Callable[..., Request]) -> None:
    request = asked()
    classes = {name: replace(each, storage=None) for name, each in request.fleet.classes.items()}
    request = replace(request, fleet=replace(request.fleet, classes=classes))
    result = Cluster().prove(request)
    assert result["evidence"] == {}
    assert result["skipped"] == dict.fromkeys(NAMES, "hardware class lab_h100 has no limits for storage")


@pytest.mark.parametrize("change", [{"target_seconds": 59}, {"model": {**MODEL, "parameters": "80e9"}}])
def test_another_checkpoint_voids_the_evidence_and_no_others(tmp_path: Path, change: dict[str, Any]) -> None:
    expects = [variables(tmp_path, **each)["classes"]["lab_h100"] for each in ({}, change)]
    changed = {stage for stage in DEPENDS if len({expect_digest_of(stage, each) for each in expects}) == 2}
    assert changed == {"storage"}
