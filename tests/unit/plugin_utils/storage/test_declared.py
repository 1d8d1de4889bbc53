"""What a fleet file may say of storage, what follows from it for hosts, and how a fault is named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import STAGES, expect_digest_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

LAB = Path(__file__).parents[4] / "inventory" / "lab" / "lab.fleet.yml"
FILE = "site.fleet.yml"
SERVER = {"name": "nfs-1", "role": "storage", "address": "10.77.0.9"}
TIERS: list[dict[str, Any]] = [
    {"name": "scratch", "kind": "local", "path": "/scratch"},
    {"name": "checkpoints", "kind": "nfs", "path": "/checkpoints", "server": "nfs-1", "export": "/srv/checkpoints"},
    {"name": "fsx", "kind": "lustre", "path": "/fsx", "source": "10.0.0.1@tcp:/fsx"},
    {"name": "weka", "kind": "existing", "path": "/weka", "filesystem": "wekafs"},
]
CHECKPOINT = {"tier": "checkpoints", "model": {"parameters": "70e9", "ranks": 1024}}


def lab(**storage: Any) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(LAB.read_text())
    data["hosts"].append(dict(SERVER))
    data["storage"] = copy.deepcopy({"tiers": TIERS, **storage})
    return data


def with_tier(number: int, **changes: Any) -> dict[str, Any]:
    data = lab()
    data["storage"]["tiers"][number] |= changes
    return data


def mounts(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: list[dict[str, Any]] = Fleet.from_data(data, FILE).variables()["classes"]["lab_h100"]["mounts"]
    return {each["path"]: each for each in found}


def test_fleet_without_storage_has_no_tiers_no_mounts_and_no_stage() -> None:
    fleet = Fleet.load(LAB)
    assert fleet.variables()["storage"] == {"tiers": [], "checkpoint": None}
    assert fleet.classes["lab_h100"].mounts is None
    assert "storage" not in fleet.policy.stages


def test_declared_checkpoint_brings_the_stage_and_tiers_alone_do_not() -> None:
    data = lab(checkpoint=CHECKPOINT)
    data["policy"].pop("stages", None)
    assert Fleet.from_data(data, FILE).policy.stages == ("preflight", "burn_in", "fabric", "storage", "acceptance")
    del data["storage"]["checkpoint"]
    assert "storage" not in Fleet.from_data(data, FILE).policy.stages
    data["policy"]["stages"] = ["preflight", "storage"]
    with pytest.raises(FleetError, match=r'stages\[1\]: found "storage", expected no stage storage, as storage.check'):
        Fleet.from_data(data, FILE)


def test_defaults_are_filled_in() -> None:
    storage = Fleet.from_data(lab(checkpoint=CHECKPOINT), FILE).variables()["storage"]
    assert storage["checkpoint"] == {
        "tier": "checkpoints",
        "model": {"parameters": 70_000_000_000, "ranks": 1024, "bytes_per_parameter": 14},
        "target_seconds": 60,
        "interval_seconds": None,
        "failures_per_1000_node_days": 6.5,
    }
    assert storage["tiers"][1] == {
        **TIERS[1],
        "protocol": "tcp",
        "connections": 16,
        "write_ms": 1000,
        "free_percent": 5,
    }
    assert (storage["tiers"][0]["per_numa_node"], storage["tiers"][2]["stripe_count"]) == (False, 1)


def test_variables_read_back_the_same() -> None:
    fleet = Fleet.from_data(lab(checkpoint=CHECKPOINT), FILE)
    variables = json.loads(json.dumps({**fleet.variables(), "nodes": fleet.node_variables()}))
    assert Fleet.from_variables(variables) == fleet
    variables["classes"]["lab_h100"]["mounts"][0]["path"] = "/elsewhere"
    with pytest.raises(FleetError, match=r"classes.lab_h100.mounts: found other mounts, expected those that follow"):
        Fleet.from_variables(variables)


def test_mounts_of_each_kind() -> None:
    found = mounts(lab())
    assert {path: (each["filesystem"], each["source"]) for path, each in found.items()} == {
        "/scratch": ("xfs", None),
        "/checkpoints": ("nfs4", "10.77.0.9:/srv/checkpoints"),
        "/fsx": ("lustre", "10.0.0.1@tcp:/fsx"),
        "/weka": ("wekafs", None),
    }
    assert {"vers=4.2", "proto=tcp", "nconnect=16", "hard", "rsize=1048576"} <= {*found["/checkpoints"]["options"]}
    assert found["/weka"]["options"] == []


def test_rdma_has_its_port_and_sizes_and_one_connection() -> None:
    options = mounts(with_tier(1, protocol="rdma"))["/checkpoints"]["options"]
    assert {"proto=rdma", "port=20049", "rsize=262144"} <= {*options}
    assert not [each for each in options if each.startswith("nconnect")]


def test_one_server_may_be_reached_by_both_protocols_in_two_versions() -> None:
    data = lab()
    data["storage"]["tiers"].append({**TIERS[1], "name": "b", "path": "/b", "protocol": "rdma"})
    assert "vers=4.1" in mounts(data)["/b"]["options"]


def test_parameters_change_add_and_take_out_mount_options() -> None:
    changes = {"vers": 3, "retrans": None, "nordirplus": True}
    found = mounts(with_tier(1, parameters=changes))["/checkpoints"]
    assert (found["filesystem"], "vers=3" in found["options"], "nordirplus" in found["options"]) == ("nfs", True, True)
    assert not [each for each in found["options"] if each.startswith("retrans")]


def test_one_array_for_each_numa_node_of_the_class() -> None:
    found = mounts(with_tier(0, per_numa_node=True))
    assert {each["numa_node"]: path for path, each in found.items() if each["kind"] == "local"} == {
        0: "/scratch/numa0",
        1: "/scratch/numa1",
    }


VAST: dict[str, Any] = {
    **{"name": "vast", "kind": "nfs", "path": "/vast", "server": "172.25.1.1", "export": "/ckpt", "connections": 8},
    **{"remoteports": ["172.25.1.1-172.25.1.32", "172.25.2.1"], "client": {"packages": ["vastnfs-dkms=4.0.34"]}},
    **{"parameters": {"vers": 3, "spread_reads": True, "localports": "eth0~eth1"}},
}
WEKA: dict[str, Any] = {
    **{"name": "wk", "kind": "weka", "path": "/wk", "source": "10.0.0.1,10.0.0.2/ckpt", "net": ["mlnx0", "mlnx1"]},
    **{"parameters": {"num_cores": 2}},
}
BEEGFS: dict[str, Any] = {
    **{"name": "bee", "kind": "beegfs", "path": "/bee", "management": "10.0.0.5"},
    **{"settings": {"connUseRDMA": False, "connMgmtdPort": 8018}, "client": {"packages": ["beegfs-client-dkms"]}},
}


def with_more(*tiers: dict[str, Any]) -> dict[str, Any]:
    data = lab()
    data["storage"]["tiers"] += copy.deepcopy(list(tiers))
    return data


def test_other_clients_mounts_are_as_their_vendors_write_them() -> None:
    found = mounts(with_more(VAST, WEKA, BEEGFS))
    assert (found["/vast"]["filesystem"], found["/vast"]["source"]) == ("nfs", "172.25.1.1:/ckpt")
    ports = "remoteports=172.25.1.1-172.25.1.32~172.25.2.1"
    assert {"vers=3", "nconnect=8", "spread_reads", "localports=eth0~eth1", ports} <= {*found["/vast"]["options"]}
    assert (found["/wk"]["filesystem"], found["/wk"]["source"]) == ("wekafs", "10.0.0.1,10.0.0.2/ckpt")
    assert found["/wk"]["options"] == ["net=mlnx0", "net=mlnx1", "num_cores=2"]
    assert (found["/bee"]["filesystem"], found["/bee"]["source"]) == ("beegfs", "beegfs_nodev")
    assert found["/bee"]["options"] == ["cfgFile=/etc/beegfs/muster-bee.conf", "sysMgmtdHost=10.0.0.5"]


def test_beegfs_authenticates_unless_told_and_keeps_its_settings_as_text() -> None:
    tiers = Fleet.from_data(with_more(BEEGFS), FILE).variables()["storage"]["tiers"]
    assert tiers[-1]["authentication"] is True
    assert tiers[-1]["settings"] == {"connUseRDMA": "false", "connMgmtdPort": "8018"}
    tiers = Fleet.from_data(with_more({**BEEGFS, "authentication": False}), FILE).variables()["storage"]["tiers"]
    assert tiers[-1]["authentication"] is False


def test_declared_clients_read_back_the_same() -> None:
    fleet = Fleet.from_data(with_more(VAST, WEKA, BEEGFS), FILE)
    variables = json.loads(json.dumps({**fleet.variables(), "nodes": fleet.node_variables()}))
    assert Fleet.from_variables(variables) == fleet


def tier(number: int, **changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["storage"]["tiers"][number].update(changes)


def more(given: dict[str, Any], **changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["storage"]["tiers"].append(copy.deepcopy({**given, **changes}))


CLIENT_FAULTS: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (
        more(VAST, client=None),
        r"tiers\[4\].client: found nothing, expected the packages of VAST's client, as Linux' own",
    ),
    (
        more(VAST, connections=1),
        r"tiers\[4\].connections: found 1, expected 2 to 64, as each connection goes to one of",
    ),
    (more(VAST, connections=65), r"tiers\[4\].connections: found 65, expected 2 to 64"),
    (more(VAST, parameters={}), r"tiers\[4\].parameters.vers: found 4.2, expected one of 3, 4.1, for which VAST's"),
    (more(VAST, parameters={"vers": 3, "remoteports": "dns"}), r"parameters.remoteports: .*as key remoteports has it"),
    (more(VAST, remoteports=["dns"]), r'tiers\[4\].remoteports\[0\]: found "dns", expected an address, or FIRST-LAST'),
    (more(VAST, remoteports=["10.0.0.9-10.0.0.1"]), r"remoteports\[0\]: found .*expected an address, or FIRST-LAST"),
    (
        lambda data: data["storage"]["tiers"].extend(
            [copy.deepcopy(VAST), {**copy.deepcopy(VAST), "name": "b", "path": "/b", "remoteports": ["172.25.1.1"]}]
        ),
        r"tiers\[5\].remoteports: found 172.25.1.1, expected 172.25.1.1-172.25.1.32, 172.25.2.1, as tier vast of the",
    ),
    (
        lambda data: data["storage"]["tiers"].extend(
            [copy.deepcopy(VAST), {**BEEGFS, "client": {"packages": ["vastnfs-dkms=4.0.35"]}}]
        ),
        r"tiers\[5\].client.packages\[0\]: found vastnfs-dkms=4.0.35, expected vastnfs-dkms=4.0.34, as tier vast",
    ),
    (more(WEKA, source="10.0.0.1"), r"tiers\[4\].source: .*expected BACKEND,BACKEND/FILESYSTEM such as"),
    (more(WEKA, parameters={"net": "udp"}), r"tiers\[4\].parameters.net: .*as key net has it"),
    (more(WEKA, net=["a,soft"]), r"tiers\[4\].net\[0\]: .*expected a network device as WEKA"),
    (more(BEEGFS, management="mgmt"), r'tiers\[4\].management: found "mgmt", expected an IPv4 address'),
    (more(BEEGFS, management=None), r"tiers\[4\].management: found nothing"),
    (
        more(BEEGFS, settings={"connAuthFile": "/tmp/x"}),
        r"tiers\[4\].settings.connAuthFile: .*expected a key of beegfs-client.conf other than sysMgmtdHost",
    ),
    (
        more(BEEGFS, settings={"connUseRDMA": "no\nlogLevel=5"}),
        r"settings.connUseRDMA: .*expected true, false, a number",
    ),
    (
        tier(3, client={"packages": ["x"]}),
        r"tiers\[3\].client: .*as only a tier of kind nfs or lustre or weka or beegfs",
    ),
    (tier(2, net=["eth0"]), r"tiers\[2\].net: .*expected nothing, as only a tier of kind weka has it"),
]


@pytest.mark.parametrize(("spoil", "message"), CLIENT_FAULTS, ids=[message[:48] for _, message in CLIENT_FAULTS])
def test_fault_of_a_client_is_named(spoil: Callable[[dict[str, Any]], None], message: str) -> None:
    data = lab()
    spoil(data)
    with pytest.raises(FleetError, match=message):
        Fleet.from_data(data, FILE)


def test_address_on_the_network_of_storage_and_ipv6_are_what_is_mounted() -> None:
    assert mounts(with_tier(1, address="172.20.0.1"))["/checkpoints"]["source"] == "172.20.0.1:/srv/checkpoints"
    found = mounts({**(data := with_tier(1, server="fd00::9")), "hosts": data["hosts"][:-1]})
    assert found["/checkpoints"]["source"] == "[fd00::9]:/srv/checkpoints"


def test_compute_nodes_may_mount_by_all_their_addresses_and_nobody_else() -> None:
    fleet = Fleet.from_data(with_tier(1, drives=["0000:01:00.0"]), FILE)
    (export,) = fleet.exports_of("nfs-1")
    assert (export["path"], export["drives"], export["protocol"]) == ("/srv/checkpoints", ["0000:01:00.0"], "tcp")
    # gpu-01 to gpu-04 are 10.77.0.11 to .14, the controller 10.77.0.10.
    assert {"10.77.0.11/32", "10.77.0.12/31", "10.77.0.14/32"} <= {*export["clients"]}
    assert not {"10.77.0.10/31", "10.77.0.0/24", "10.77.0.8/29"} & {*export["clients"]}
    assert fleet.exports_of("ctl") == []
    fleet = Fleet.from_data(with_tier(1, clients=["10.77.0.0/24"]), FILE)
    (export,) = fleet.exports_of("nfs-1")
    assert export["clients"] == ["10.77.0.0/24"]


def test_another_mount_makes_other_evidence_of_preflight_health_and_storage_alone() -> None:
    before, after = (
        Fleet.from_data(data, FILE).variables()["classes"]["lab_h100"] for data in (lab(), with_tier(1, write_ms=9))
    )
    others = [stage for stage in STAGES if expect_digest_of(stage, before) != expect_digest_of(stage, after)]
    assert others == ["preflight", "storage", "health"]


def checkpoint(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["storage"].update(checkpoint={**CHECKPOINT, **changes})


FAULTS: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (
        tier(0, kind="nvme"),
        r'tiers\[0\].kind: found "nvme", expected one of local, nfs, lustre, weka, beegfs, existing',
    ),
    (tier(0, server="nfs-1"), r'tiers\[0\].server: found "nfs-1", expected nothing, as only a tier of kind nfs has it'),
    (tier(1, name="scratch"), r'tiers\[1\].name: found "scratch", expected each tier once'),
    (
        tier(1, path="/scratch/in"),
        r"tiers\[1\].path: .* expected a directory that is not below or above /scratch of ti",
    ),
    (tier(1, path="/a/../b"), r"tiers\[1\].path: .*expected an absolute path"),
    (tier(1, path="/a b"), r"tiers\[1\].path: .*expected an absolute path"),
    (tier(1, server="nfs-2"), r'tiers\[1\].server: found "nfs-2", expected one of nfs-1 \(hosts of role storage\), or'),
    (tier(1, server="10.1.1.1", drives=["0000:01:00.0"]), r"tiers\[1\].drives: .*10.1.1.1 is no declared host of role"),
    (tier(1, server="10.1.1.1"), "hosts: found nfs-1, idle, expected a tier in storage.tiers that names nfs-1"),
    (tier(1, connections=17), r"tiers\[1\].connections: found 17, expected at most 16, as Linux allows"),
    (
        lambda data: data["storage"]["tiers"].append(
            {**TIERS[1], "name": "b", "path": "/b", "protocol": "rdma", "parameters": {"vers": "4.2"}}
        ),
        r"tiers\[4\].protocol: found rdma, expected tcp, as tier checkpoints of the same server and vers=4.2 has it",
    ),
    (
        lambda data: data["storage"]["tiers"].append({**TIERS[1], "name": "b", "path": "/b", "connections": 4}),
        r"tiers\[4\].connections: found 4, expected 16, as tier checkpoints of the same server",
    ),
    (tier(1, clients=[]), r"tiers\[1\].clients: found an empty list"),
    (tier(1, clients=["*"]), r'tiers\[1\].clients\[0\]: found "\*", expected an address or network'),
    (tier(1, drives=["nvme0n1"]), r'tiers\[1\].drives\[0\]: found "nvme0n1", expected a PCI address'),
    (tier(1, parameters={"rsize": "1, soft"}), r"tiers\[1\].parameters.rsize: .*expected a number, a text"),
    (tier(1, parameters={"hard,soft": True}), r'tiers\[1\].parameters.hard,soft: found "hard,soft", expected a mount'),
    (tier(2, source="/fsx"), r"tiers\[2\].source: .*expected MGS:/FILESYSTEM"),
    (tier(2, stripe_count=0), r"tiers\[2\].stripe_count: found 0, expected a number of targets, or -1"),
    (tier(2, client={"packages": []}), r"tiers\[2\].client.packages: .*expected at least one package"),
    (tier(3, filesystem=None), r"tiers\[3\].filesystem: found nothing"),
    (tier(0, free_percent=100), r"tiers\[0\].free_percent: found 100, expected less than 100"),
    (tier(0, write_ms=0), r"tiers\[0\].write_ms: found 0, expected a number of at least 1"),
    (checkpoint(tier="scratch"), 'checkpoint.tier: found "scratch", expected one of checkpoints, fsx, weka'),
    (checkpoint(model=None), "checkpoint.model: found nothing, expected a mapping"),
    (checkpoint(model={"parameters": "70B", "ranks": 8}), 'checkpoint.model.parameters: found "70B", expected a whole'),
    (checkpoint(model={"parameters": 1.5, "ranks": 8}), "checkpoint.model.parameters: found 1.5, expected a whole"),
    (checkpoint(model={"parameters": 8, "ranks": 0}), "checkpoint.model.ranks: found 0, expected a whole number of at"),
    (checkpoint(target_seconds=0), "checkpoint.target_seconds: found 0, expected more than 0"),
    (
        checkpoint(failures_per_1000_node_days=0),
        "checkpoint.failures_per_1000_node_days: found 0, expected more than 0",
    ),
    (
        lambda data: data["hardware_classes"].update(lab_h100={"nvme": None}),
        r"tiers\[0\].kind: found kind local on class lab_h100 without NVMe drives",
    ),
    (
        lambda data: data["hardware_classes"].update(lab_h100={"mounts": [{"path": "/x"}]}),
        "hardware_classes.lab_h100.mounts: found a list, expected none, it follows from the fleet",
    ),
]


@pytest.mark.parametrize(("spoil", "message"), FAULTS, ids=[message[:48] for _, message in FAULTS])
def test_fault_is_named(spoil: Callable[[dict[str, Any]], None], message: str) -> None:
    data = lab()
    data.setdefault("hardware_classes", {})
    spoil(data)
    with pytest.raises(FleetError, match=message):
        Fleet.from_data(data, FILE)


@pytest.mark.parametrize(("value", "parameters"), [(70_000_000_000, 70e9), ("70e9", 70e9), ("4.05e11", 405e9), (8, 8)])
def test_parameters_may_be_written_with_an_exponent(value: Any, parameters: float) -> None:
    data = lab(checkpoint={**CHECKPOINT, "model": {"parameters": value, "ranks": 8}})
    found = Fleet.from_data(data, FILE).storage.checkpoint
    assert found is not None and found.model.parameters == parameters
