import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_plan import shortfall
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import STAGES
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import plain
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet, fleet_at, remember
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.rails import Rail

from tests.placed import PLACED, placed

ROOT = Path(__file__).parents[3]
LAB = ROOT / "inventory" / "lab" / "lab.fleet.yml"
FILE = "site.fleet.yml"

ROCE = {
    "plugin": "muster.cluster.fleet",
    "cluster": "east",
    "hosts": [{"name": "ctl", "role": "controller", "address": "10.1.0.10"}],
    "nodes": [
        {
            "name": "gpu-[0001-3072]",
            "hardware_class": "hgx_h100",
            "address": "10.1.16.1",
            "pods": {"name": "pod-[1-8]", "nodes_each": 384},
            "racks": {"name": "rack-[0001-1536]", "nodes_each": 2},
            "rails": {"addresses": "172.[16-23].0.1/16"},
        }
    ],
    "hardware_classes": PLACED,
    "fabric": {"kind": "roce", "speed_gbps": 400, "socket_interface": "bond0"},
    "scheduler": {"partitions": [{"name": "batch", "default": True}]},
    "ledger": {"url": "postgresql://db/east", "id": "3d0c5f9e-2f47-4e0c-9f0a-5b8a1c6d7e21"},
}


# Of a block beside the lab's own, without cables.
BESIDE = {"addresses": "172.16.[0-7].101/24"}


ASKING = {**ROCE, "policy": {"latency_profile": "mini_cluster"}}
LIMIT_OF_12 = [{"gpus": 12, "microseconds": 5}]


def lab() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(LAB.read_text())
    return data


def test_lab_gives_its_nodes_in_order() -> None:
    fleet = Fleet.load(LAB)
    assert [node.name for node in fleet.nodes] == ["ctl", "gpu-01", "gpu-02", "gpu-03", "gpu-04"]
    assert [node.address for node in fleet.nodes] == [f"10.77.0.{number}" for number in range(10, 15)]
    assert [node.rack for node in fleet.nodes] == [None, "r1", "r1", "r2", "r2"]
    assert fleet.controller == "ctl"


def test_large_fleet_is_placed_by_arithmetic() -> None:
    fleet = Fleet.from_data(ROCE, FILE)
    first, last = fleet.nodes[1], fleet.nodes[-1]
    assert (last.name, last.pod, last.rack, last.address) == ("gpu-3072", "pod-8", "rack-1536", "10.1.28.0")
    assert first.rails[0] == Rail(0, "172.16.0.1/16")
    assert last.rails[7] == Rail(7, "172.23.12.0/16")


def test_several_blocks_may_share_a_rack_of_one_pod() -> None:
    data = lab()
    data["fabric"]["verify_cabling"] = False
    more = {"name": "gpu-05", "hardware_class": "lab_h100", "address": "10.77.0.20", "rails": BESIDE}
    data["nodes"].append({**more, "pods": {"name": "p1"}, "racks": {"name": "r2"}})
    assert Fleet.from_data(data, FILE).nodes[-1].rack == "r2"


def test_last_rack_may_be_half_full() -> None:
    data = lab()
    data["nodes"][0] |= {"name": "gpu-[01-03]"}
    assert [node.rack for node in Fleet.from_data(data, FILE).nodes[1:]] == ["r1", "r1", "r2"]


def test_infiniband_rails_need_neither_addresses_nor_a_key() -> None:
    data = copy.deepcopy(ROCE)
    data["fabric"] = {"kind": "infiniband"}
    del data["nodes"][0]["rails"]  # type: ignore[index]
    assert Fleet.from_data(data, FILE).nodes[1].rails[7] == Rail(7, None)


def test_rails_are_numbered_as_the_class_does_it() -> None:
    data = copy.deepcopy(ROCE)
    nics = [{"rail": 2, "address": "0000:1a:00.0"}, {"rail": 5, "address": "0000:3c:00.0"}]
    data["hardware_classes"] = placed({"hgx_h100": {"nic": {"rails": nics}}})
    data["nodes"][0]["rails"] = {"addresses": "172.[16-17].0.1/16"}  # type: ignore[index]
    rails = Fleet.from_data(data, FILE).nodes[1].rails
    assert rails == (Rail(2, "172.16.0.1/16"), Rail(5, "172.17.0.1/16"))
    assert [rail.name for rail in rails] == ["rail2", "rail5"]


def test_policy_that_says_nothing_gets_the_defaults() -> None:
    policy = Fleet.from_data(ROCE, FILE).policy
    assert (policy.stages, policy.burn_in_profile) == (
        ("preflight", "burn_in", "fabric", "acceptance"),
        "standard",
    )
    fresh = {"burn_in": 720, "fabric": 168, "storage": 168, "acceptance": 168}
    assert (policy.fresh_hours, policy.close_limit_percent) == (fresh, 20)
    assert policy.retest is True


def test_ethernet_has_no_stage_fabric() -> None:
    data = lab()
    data["fabric"] = {"kind": "ethernet"}
    data["nodes"][0]["rails"] = None
    assert Fleet.from_data(data, FILE).policy.stages == ("preflight", "burn_in", "acceptance")
    data["policy"]["stages"] = ["preflight", "fabric"]
    with pytest.raises(FleetError, match="no stage fabric, as"):
        Fleet.from_data(data, FILE)


def test_policy_adds_to_the_default_profiles() -> None:
    policy = Fleet.load(LAB).policy
    assert policy.burn_in_profiles["lab"].interval_seconds == 6
    assert policy.burn_in_profiles["lab"].steps[0].to_dict() == {
        "limit_seconds": 120.0,
        "run": {"dcgm_diag": {"level": 2}},
    }
    assert "standard" in policy.burn_in_profiles


def test_latency_profiles_are_asked_for_by_name_alone() -> None:
    policy = Fleet.from_data(ROCE, FILE).policy
    assert policy.latency_profile is None
    shipped = policy.latency_profiles["mini_cluster"].to_dict()
    assert shipped["sizes_bytes"] == [65536, 262144, 1048576] and shipped["collective"] == "all_reduce"
    assert shipped["limits"] == [{"gpus": gpus, "microseconds": 60} for gpus in (16, 32, 64)]
    own = {"sizes_bytes": [8], "limits": [{"gpus": 32, "microseconds": 90}, {"gpus": 16, "microseconds": 55.5}]}
    data = {**ROCE, "policy": {"latency_profile": "chat", "latency_profiles": {"chat": own}}}
    policy = Fleet.from_data(data, FILE).policy
    assert policy.latency_profile == "chat" and set(policy.latency_profiles) == {"mini_cluster", "chat"}
    assert policy.latency_profiles["chat"].to_dict()["limits"] == [
        {"gpus": 16, "microseconds": 55.5},
        {"gpus": 32, "microseconds": 90},
    ]


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ({"latency_profile": "chat"}, 'latency_profile: found "chat", expected one of mini_cluster'),
        ({"latency_profiles": {"x": {"limits": []}}}, "x.sizes_bytes: found nothing, expected a list of sizes"),
        ({"latency_profiles": {"x": {"sizes_bytes": [0]}}}, r"x.sizes_bytes\[0\]: found 0, expected a whole number"),
        (
            {"latency_profiles": {"x": {"sizes_bytes": [True]}}},
            r"x.sizes_bytes\[0\]: found true, expected a whole number",
        ),
        (
            {"latency_profiles": {"x": {"sizes_bytes": [10]}}},
            r"x.sizes_bytes\[0\]: found 10, .* that 4 divides",
        ),
        (
            {"latency_profiles": {"x": {"sizes_bytes": [8, 8]}}},
            r"x.sizes_bytes\[1\]: found 8 again, expected each",
        ),
        ({"latency_profiles": {"x": {"sizes_bytes": [8]}}}, "x.limits: found nothing, expected a list"),
        ({"latency_profiles": {"x": {"sizes_bytes": [8], "limits": []}}}, "x.limits: found an empty list"),
        (
            {"latency_profiles": {"x": {"sizes_bytes": [8], "limits": [{"gpus": 1, "microseconds": 5}]}}},
            r"x.limits\[0\].gpus: found 1, expected a whole number of at least 2",
        ),
        (
            {"latency_profiles": {"x": {"sizes_bytes": [8], "limits": [{"gpus": 16, "microseconds": 0}]}}},
            r"x.limits\[0\].microseconds: found 0, expected a number of at least 0.001",
        ),
        (
            {"latency_profiles": {"x": {"sizes_bytes": [8], "limits": [{"gpus": 16, "microseconds": math.inf}]}}},
            r"x.limits\[0\].microseconds: found Infinity, expected a number of microseconds",
        ),
        (
            {"latency_profile": "mini_cluster", "stages": ["preflight", "burn_in"]},
            'latency_profile: found "mini_cluster", expected stage acceptance in policy.stages',
        ),
        (
            {"latency_profile": "x", "latency_profiles": {"x": {"sizes_bytes": [8], "limits": LIMIT_OF_12}}},
            'policy.latency_profile: found "x" with 12 GPUs, expected multiples of 8, as a node of class hgx',
        ),
        (
            {"latency_profiles": {"x": {"sizes_bytes": [8], "limits": [{"gpus": 16, "microseconds": 5}] * 2}}},
            r"x.limits\[1\].gpus: found 16, expected each number of GPUs once",
        ),
        (
            {"latency_profiles": {"x": {"collective": "all_to_all", "sizes_bytes": [8], "limits": []}}},
            "x.limits: found an empty list|x.collective: found",
        ),
        ({"latency_profiles": {"x": {"sizes": [8]}}}, 'unknown key "sizes", expected one of collective, sizes_bytes'),
    ],
)
def test_wrong_latency_profiles_are_refused(policy: dict[str, Any], says: str) -> None:
    with pytest.raises(FleetError, match=says):
        Fleet.from_data({**ROCE, "policy": policy}, FILE)


def test_profile_that_is_asked_for_is_what_classes_in_use_expect() -> None:
    classes = Fleet.from_data({**ASKING, "hardware_classes": placed({"spare": {"extends": "hgx_h100"}})}, FILE).classes
    assert plain(classes["hgx_h100"].mini_clusters) == {
        "profile": "mini_cluster",
        "collective": "all_reduce",
        "sizes_bytes": [65536, 262144, 1048576],
        "limits": [{"gpus": gpus, "microseconds": 60.0} for gpus in (16, 32, 64)],
    }
    # Of a class without nodes nothing is asked, and without a profile nothing of any.
    assert classes["spare"].mini_clusters is None
    assert Fleet.from_data(ROCE, FILE).classes["hgx_h100"].mini_clusters is None


def test_mini_clusters_follow_from_policy_and_are_not_stated_otherwise() -> None:
    fleet = Fleet.from_data(ASKING, FILE)
    variables = json.loads(json.dumps({**fleet.variables(), "nodes": fleet.node_variables()}))
    assert Fleet.from_variables(variables) == fleet
    variables["classes"]["hgx_h100"]["mini_clusters"] = None
    with pytest.raises(FleetError, match=r"classes\.hgx_h100\.mini_clusters: found others, expected those that follow"):
        Fleet.from_variables(variables)
    own = {**ROCE, "hardware_classes": placed({"hgx_h100": {"mini_clusters": None}})}
    with pytest.raises(FleetError, match=r"hgx_h100\.mini_clusters: found nothing, expected none, it follows from"):
        Fleet.from_data(own, FILE)


@pytest.mark.parametrize("data", [lab(), ROCE, ASKING], ids=["lab", "roce", "mini_clusters"])
def test_variables_are_plain_data_that_read_back_the_same(data: dict[str, Any]) -> None:
    fleet = Fleet.from_data(data, FILE)
    variables = {**fleet.variables(), "nodes": fleet.node_variables()}
    again = json.loads(json.dumps(variables))
    assert again == variables
    assert Fleet.from_variables(again) == fleet


def test_run_keeps_the_fleet_that_it_started_with(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_text("")
    started = Fleet.load(LAB)
    remember(str(path), started)
    assert fleet_at(str(path)) is started


def change(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def changed(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = to

    changed.__name__ = ".".join(map(str, path))
    return changed


def host(name: str, role: str, number: int) -> dict[str, Any]:
    return {"name": name, "role": role, "address": f"10.77.0.{number}"}


def drop(*path: str | int) -> Callable[[dict[str, Any]], None]:
    return change(*path, to=None)


CLASSES = "dgx_h100, dgx_h200, gb200_nvl72, grand_teton_h100, hgx_b200, hgx_h100, hgx_h200, lab_h100, xe9680_h100"
SPARE = {"name": "gpu-[04-05]", "hardware_class": "lab_h100", "address": "10.77.0.50", "rails": BESIDE}
SECOND_POD = {"name": "gpu-09", "hardware_class": "lab_h100", "address": "10.77.0.19", "rails": BESIDE}
SECOND_POD |= {"pods": {"name": "p2"}, "racks": {"name": "r2"}}
BAD = [
    (change("nodez", to=[]), 'found unknown key "nodez", expected one of plugin, hosts, nodes, .*did you mean nodes'),
    (change("scheduler", "partition", to=[]), r'scheduler: found unknown key "partition", .*did you mean partitions\?'),
    (change("nodes", 0, "rack", to="r1"), r'nodes\[0\]: found unknown key "rack", expected one of .*mean racks\?'),
    (change(3, to=1), "found key 3, expected a text key"),
    (change("plugin", to="muster.cluster.flot"), 'plugin: found "muster.cluster.flot", expected one of muster.clus'),
    (drop("cluster"), "cluster: found nothing, expected text"),
    (change("cluster", to="The Lab"), 'cluster: found "The Lab", expected lower-case letters, digits and hyphens'),
    (change("nodes", 0, "hardware_class", to="hgx_h1000"), f'class: found "hgx_h1000", expected one of {CLASSES}$'),
    (change("nodes", 0, "hardware_class", to=100), rf"nodes\[0\].hardware_class: found 100, expected one of {CLASSES}"),
    (change("nodes", 0, "name", to="gpu-[04-01]"), r'nodes\[0\].name: found "\[04-01\]" in "gpu-\[04-01\]", expected '),
    (change("nodes", 0, "name", to="GPU_[1-4]"), r'nodes\[0\].name: found "GPU_\[1-4\]", expected a host name or patt'),
    (change("nodes", to=[]), "nodes: found an empty list, expected at least one entry"),
    (change("nodes", to={"gpu": 4}), "nodes: found a mapping, expected a list"),
    (change("nodes", 0, to="gpu-01"), r'nodes\[0\]: found "gpu-01", expected a mapping'),
    (lambda data: data["nodes"].append(SPARE), 'nodes: found host "gpu-04" twice, expected each host once'),
    (change("hosts", 0, "name", to="gpu-01"), 'nodes: found host "gpu-01" twice, expected each host once'),
    (change("hosts", 0, "address", to="10.77.0.13"), "found address 10.77.0.13 on ctl and gpu-03, expected each addr"),
    (change("nodes", 0, "address", to="10.77.0.300"), r'nodes\[0\].address: found "10.77.0.300", expected an IP addr'),
    (change("nodes", 0, "address", to="255.255.255.254"), r"nodes\[0\].address: .*after which 3 more follow"),
    (drop("nodes", 0, "address"), r"nodes\[0\].address: found nothing, expected text"),
    (change("nodes", 0, "racks", "nodes_each", to=1), r'racks.name: found "r\[1-2\]" \(2 racks\), expected 4 racks'),
    (
        change("nodes", 0, "racks", "nodes_each", to=4),
        r"nodes\[0\].racks.name: .*expected 1 racks for 4 nodes, 4 in ea",
    ),
    (change("nodes", 0, "racks", "nodes_each", to="2"), r'racks.nodes_each: found "2", expected a whole number of at '),
    (change("nodes", 0, "racks", "nodes_each", to=0), r"racks.nodes_each: found 0, expected a whole number of at leas"),
    (drop("nodes", 0, "racks", "nodes_each"), "racks.nodes_each: found nothing, expected the number of nodes in each"),
    (change("nodes", 0, "pods", to={"name": "p[1-3]", "nodes_each": 2}), "pods.name: .*expected 2 pods for 4 nodes"),
    (lambda data: data["nodes"].append(SECOND_POD), 'nodes: found rack "r2" in pods "p1" and "p2", expected each rack'),
    (
        change("nodes", 0, "rails", to={"devices": "mlx5_[0-7]"}),
        r'nodes\[0\].rails: found unknown key "devices", expected one of addresses, gateways, switches, ports',
    ),
    (
        change("hardware_classes", to={"lab_h100": {"nic": {"rails": []}}}),
        r"nodes\[0\].rails: found class lab_h100 without nic.rails, expected them as hardware_classes.lab_h100.nic.r",
    ),
    (
        change("hardware_classes", to={"lab_h100": {"nic": None}}),
        r"nodes\[0\].rails: found class lab_h100 without nic.rails",
    ),
    (
        change("hardware_classes", to={"lab_h100": {"nic": {"rails": [{"rail": 0, "device": "mlx5_0"}]}}}),
        r'lab_h100.nic.rails\[0\]: found unknown key "device", expected one of rail, address',
    ),
    (
        change("hardware_classes", to={"lab_h100": {"nic": {"rails": [{"rail": 0, "address": None}]}}}),
        r"lab_h100.nic.rails\[0\].address: found nothing, expected a PCI address",
    ),
    (change("hosts", 0, "role", to="control"), r'hosts\[0\].role: found "control", expected one of controller'),
    (change("hosts", to=[]), "hosts: found an empty list, expected at least one entry"),
    (
        lambda data: data["hosts"].append({"name": "ctl2", "role": "controller", "address": "10.77.0.9"}),
        "scheduler.state_directory: found nothing, expected a directory that ctl and ctl2 both mount",
    ),
    (
        lambda data: data["hosts"].extend(host(f"ctl{number}", "controller", number) for number in (2, 3)),
        "hosts: found ctl, ctl2, ctl3 with role controller, expected one controller, or two: the first leads",
    ),
    (change("hosts", 0, "role", to="login"), "hosts: found none with role controller, expected one controller, or two"),
    (
        lambda data: data["hosts"].extend(host(f"db{number}", "database", number) for number in (2, 3)),
        "hosts: found db2, db3 with role database, expected one database, or none",
    ),
    (
        lambda data: data["hosts"].append(host("db", "database", 9)),
        "hosts: found db with role database, expected none, as scheduler.accounting is not declared",
    ),
    (change("scheduler", "accounting", to={}), "hosts: found none with role database, expected one, as scheduler.acc"),
    (
        lambda data: data["nodes"].append({**SPARE, "racks": {"name": "r3"}}),
        'nodes: found node "gpu-04" in racks "r2" and "r3", expected each node in one rack',
    ),
    (
        lambda data: (drop("scheduler", "hooks")(data), change("policy", "heartbeat_seconds", to=299)(data)),
        "heartbeat_seconds: found 299, expected at least 300, as a health",
    ),
    (change("policy", "heartbeat_intervals", to=3), 'policy: found unknown key "heartbeat_intervals"'),
    (drop("fabric"), "fabric: found nothing, expected a mapping"),
    (change("fabric", "kind", to="token_ring"), 'fabric.kind: found "token_ring", expected one of roce, infiniband, e'),
    (
        change("fabric", "socket_interface", to="rail8"),
        'fabric.socket_interface: found "rail8", expected an interface, or a rail of class lab_h100',
    ),
    (
        change("fabric", "speed_gbps", to="400G"),
        'fabric.speed_gbps: found "400G", expected a whole number of at least 1',
    ),
    (change("storage", to={"path": "/ckpt"}), 'storage: found unknown key "path", expected one of tiers, checkpoint'),
    (change("scheduler", "partitions", to=[]), "scheduler.partitions: found an empty list, expected at least one en"),
    (
        change("scheduler", "partitions", 0, "hardware_classes", to=["hgx"]),
        r'scheduler.partitions\[0\].hardware_classes\[0\]: found "hgx", expected one of lab_h100',
    ),
    (change("scheduler", "partitions", 0, "name", to="DEFAULT"), 'found "DEFAULT", expected another name, as Slurm'),
    (change("scheduler", "partitions", 0, "name", to="acceptance"), 'found "acceptance", expected another name, as th'),
    (change("scheduler", "partitions", 0, "default", to="yes"), 'default: found "yes", expected true or false'),
    (
        lambda data: data["scheduler"]["partitions"].append({"name": "batch"}),
        r'scheduler.partitions\[1\].name: found "batch" again, expected each partition once',
    ),
    (
        lambda data: data["scheduler"]["partitions"].append({"name": "long", "default": True}),
        r"scheduler.partitions\[1\].default: found a second default, expected one default partition",
    ),
    (change("scheduler", "parameters", "KillWait", to=True), "KillWait: found true, expected a number or a text"),
    (change("scheduler", "parameters", to=["KillWait"]), "scheduler.parameters: found a list, expected a mapping"),
    (change("scheduler", "node_parameters", to={"hgx": {}}), 'node_parameters: found unknown key "hgx", expected one'),
    (change("scheduler", "ssh_access", to="none"), 'ssh_access: found "none", expected one of pam_slurm, pam_slurm_a'),
    (drop("ledger"), "ledger: found nothing, expected a mapping"),
    (drop("ledger", "id"), "ledger.id: found nothing, expected text"),
    (change("ledger", "id", to="lab"), 'ledger.id: found "lab", expected a UUID'),
    (change("ledger", "url", to="ledger.sqlite"), 'ledger.url: found "ledger.sqlite", expected sqlite:///PATH or po'),
    (change("ledger", "url", to="postgresql://me:secret@db/east"), "ledger.url: found a URL with a password, expected"),
    (change("ledger", "url", to="postgres://me:secret@db/east"), "ledger.url: found a URL with a password, expected"),
    (change("ledger", "url", to="postgresql://db/east?password=secret"), "ledger.url: found a URL with a password"),
    (
        change("policy", "stages", to=["burnin"]),
        rf'policy.stages\[0\]: found "burnin", expected one of {", ".join(STAGES)}',
    ),
    (change("policy", "stages", to=["burn_in"] * 2), r'policy.stages\[1\]: found "burn_in" again, expected each stag'),
    (change("policy", "stages", to=[]), "policy.stages: found an empty list, expected at least one stage"),
    (change("policy", "stages", to="burn_in"), 'policy.stages: found "burn_in", expected a list of texts'),
    (
        change("policy", "burn_in_profile", to="week"),
        'burn_in_profile: found "week", expected one of quick, standard',
    ),
    (drop("policy", "burn_in_profiles", "lab", "steps"), "burn_in_profiles.lab.steps: found nothing, expected a list"),
    (
        change("policy", "burn_in_profiles", "lab", "steps", 1, "seconds", to=-1),
        r"lab.steps\[1\].seconds: found -1",
    ),
    (change("policy", "fresh_hours", to={"burnin": 1}), 'fresh_hours: found unknown key "burnin", .*mean burn_in'),
    (change("policy", "fresh_hours", to={"burn_in": -1}), "fresh_hours.burn_in: found -1, expected a number of at lea"),
    (change("policy", "retest", to=1), "policy.retest: found 1, expected true or false"),
    (change("hardware_classes", to={"spare": {"extends": "hgx"}}), 'hardware_classes.spare.extends: found "hgx", exp'),
]


@pytest.mark.parametrize(("fault", "message"), BAD, ids=[message for _, message in BAD])
def test_faulty_file_is_one_line_with_file_key_found_and_expected(fault: Callable[[Any], None], message: str) -> None:
    data = lab()
    fault(data)
    with pytest.raises(FleetError, match=message) as caught:
        Fleet.from_data(data, FILE)
    assert str(caught.value).startswith(f"{FILE}: ")
    assert "\n" not in str(caught.value)


RAILS: list[tuple[Any, str]] = [
    ({"addresses": "172.[16-22].0.1/16"}, "found 7 networks, expected 8, one for each rail of the class"),
    (
        {"addresses": "172.[16-23].0.1/24"},
        r'addresses: found "172.16.0.1/24", expected a netw',
    ),
    (
        {"addresses": "172.[16-23].0.1"},
        r'addresses: found "172.16.0.1", expected a network wi',
    ),
    (
        {"addresses": "172.[16-23].0/16"},
        "expected the first node's address on each rail, such",
    ),
    ({"addresses": "10.[1-8].16.1/16"}, "found address 10.1.16.1 on gpu-0001 and gpu-0001"),
]


@pytest.mark.parametrize(("rails", "message"), RAILS)
def test_rails_that_contradict_the_class_or_do_not_fit(rails: Any, message: str) -> None:
    data = copy.deepcopy(ROCE)
    data["nodes"][0]["rails"] = rails  # type: ignore[index]
    with pytest.raises(FleetError, match=message):
        Fleet.from_data(data, FILE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "site.fleet.yml: found an empty file, expected a mapping"),
        ("# nothing\n", "found an empty file, expected a mapping"),
        ("- a\n", "found a list, expected a mapping"),
        ("hello", 'found "hello", expected a mapping'),
        ("plugin: [a\n", r"line 2, column 1: found text that is not YAML \(.*\), expected YAML"),
        ("cluster: a\ncluster: b\n", r'line 2, column 1: found text .*key "cluster" twice in one mapping'),
        ("cluster: \x07\n", "found text that is not YAML.*expected YAML"),
        ("plugin: !vault x\n", "found text that is not YAML"),
    ],
)
def test_file_that_is_no_declaration(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / FILE
    path.write_text(text)
    with pytest.raises(FleetError, match=message) as caught:
        Fleet.load(path)
    assert "\n" not in str(caught.value)


def test_file_of_other_bytes_or_none_at_all(tmp_path: Path) -> None:
    path = tmp_path / FILE
    with pytest.raises(FleetError, match="found No such file or directory, expected a readable YAML file"):
        Fleet.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FleetError, match="found bytes that are not UTF-8"):
        Fleet.load(path)


VARIABLES = [
    (drop("nodes"), "nodes: found nothing, expected a mapping"),
    (change("controller", to="gpu-01"), 'controller: found "gpu-01", expected "ctl"'),
    (drop("controllers"), r'controllers: found null, expected \["ctl"\]'),
    (change("database", to="gpu-01"), 'database: found "gpu-01", expected null'),
    (change("logins", to=["ctl"]), r'logins: found \["ctl"\], expected \[\]'),
    (change("nodes", "gpu-01", "address", to="10.77.0.12"), "nodes: found address 10.77.0.12 on gpu-01 and gpu-02"),
    (change("nodes", "gpu-01", "role", to="gpu"), 'nodes.gpu-01.role: found "gpu", expected one of controller, databa'),
    (change("nodes", "gpu-01", "hardware_class", to="x"), 'gpu-01.hardware_class: found "x", expected one of lab_h100'),
    (change("nodes", "gpu-01", "racks", to="r"), 'nodes.gpu-01: found unknown key "racks", .*did you mean rack'),
    (change("nodes", "gpu-01", "pod", to="p2"), 'nodes: found rack "r1" in pods "p2" and "p1", expected each rack in'),
    (change("nodes", "gpu-01", "rails", to=[{"rail": 0}]), "gpu-01.rails: found rails 0, expected 0, 1, 2, 3, 4, "),
    (
        change("nodes", "gpu-01", "rails", to=[]),
        "gpu-01.rails: found no rails, expected 0, 1, .*as nic.rails of class la",
    ),
    (
        change("nodes", "gpu-01", "rails", to=[{"rail": 0, "address": "x"}]),
        r'nodes.gpu-01.rails\[0\].address: found "x", expected an address with its prefix length',
    ),
    (change("classes", "lab_h100", "memory", "mib", to="x"), 'classes.lab_h100.memory.mib: found "x", expected a who'),
    (change("ledger", "id", to="lab"), 'ledger.id: found "lab", expected a UUID'),
    (change("policy", "stages", to=["burnin"]), r'policy.stages\[0\]: found "burnin"'),
]


@pytest.mark.parametrize(("fault", "message"), VARIABLES, ids=[message for _, message in VARIABLES])
def test_faulty_plain_inventory_gets_the_same_validation(fault: Callable[[Any], None], message: str) -> None:
    fleet = Fleet.load(LAB)
    data = json.loads(json.dumps({**fleet.variables(), "nodes": fleet.node_variables()}))
    fault(data)
    with pytest.raises(FleetError, match=message) as caught:
        Fleet.from_variables(data)
    assert str(caught.value).startswith("muster_fleet: ")


def test_relative_ledger_is_the_same_from_every_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {**lab(), "ledger": {"url": "sqlite:///../ledger.sqlite", "id": "3d0c5f9e-2f47-4e0c-9f0a-5b8a1c6d7e21"}}
    file = tmp_path / "inventory" / "site.fleet.yml"
    fleet = Fleet.from_data(data, str(file))
    assert fleet.ledger.url == f"sqlite:///{tmp_path}/ledger.sqlite"
    variables = {**fleet.variables(), "nodes": fleet.node_variables()}
    assert Fleet.from_variables(variables).ledger == fleet.ledger
    variables["ledger"] = {**variables["ledger"], "url": "sqlite:///ledger.sqlite"}
    with pytest.raises(FleetError, match=r'ledger.url: found "sqlite:///ledger.sqlite", expected sqlite:////ABSOLUTE'):
        Fleet.from_variables(variables)


def test_each_shipped_profile_does_all_that_the_shorter_ones_do() -> None:
    profiles = Fleet.load(LAB).policy.burn_in_profiles
    quick, standard, full = (profiles[name].steps for name in ("quick", "standard", "full"))
    assert not shortfall(full, standard) and not shortfall(standard, quick)
    assert shortfall(quick, standard) and shortfall(standard, full)


def with_power(kilowatts: dict[str, Any], power: Any = {"kilowatts": 10}, **block: Any) -> dict[str, Any]:  # noqa: B006
    """A fleet with a power budget, and what its class draws."""
    data = copy.deepcopy(ROCE)
    data["hardware_classes"]["hgx_h100"]["power"] = power
    data["nodes"][0].update(block)
    data["policy"] = {"burn_in": {"kilowatts": kilowatts}}
    return data


def test_node_is_fed_by_its_feed_else_its_pod_else_as_the_whole_fleet() -> None:
    feeds = {"name": "feed-[01-48]", "nodes_each": 64}
    for block, first, last in (
        ({"feeds": feeds}, "feed feed-01", "feed feed-48"),
        ({}, "pod pod-1", "pod pod-8"),
        ({"pods": None}, "the fleet", "the fleet"),
    ):
        fleet = Fleet.from_data(with_power({"feed": 640}, **block), FILE)
        nodes = list(fleet.compute.values())
        assert (nodes[0].power_feed, nodes[-1].power_feed) == (first, last)
        data = {**fleet.variables(), "nodes": fleet.node_variables()}
        assert Fleet.from_variables(json.loads(json.dumps(data))).compute == fleet.compute
    assert not fleet.policy.burn_in.alarm and fleet.policy.burn_in.ramp_seconds == 15


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            with_power({"site": 5000}, None),
            "policy.burn_in.kilowatts: found a budget, and nodes of class hgx_h100, which declares no power, expected "
            "hardware_classes.hgx_h100.power.kilowatts",
        ),
        (
            with_power({"rack": 40}, racks=None),
            'policy.burn_in.kilowatts.rack: found 40, and node "gpu-0001" in no rack, expected a rack for each node',
        ),
        (
            with_power({"feed": 9}),
            "policy.burn_in.kilowatts.feed: found 9, expected at least 10, which one node of class hgx_h100 draws",
        ),
        (with_power({"pod": 9}), "policy.burn_in.kilowatts"),
        (with_power({"site": 0}), "policy.burn_in.kilowatts.site"),
        (
            with_power({}, feeds={"name": "[1-3072]", "nodes_each": 1}),
            'nodes: found rack "rack-0001" in feeds "1" and "2", expected each rack in one feed',
        ),
        ({**ROCE, "policy": {"burn_in": {"alarm": ["pdu-alarm"]}}}, 'policy.burn_in.alarm[0]: found "pdu-alarm"'),
        ({**ROCE, "policy": {"burn_in": {"alarm": []}}}, "policy.burn_in.alarm"),
        ({**ROCE, "policy": {"burn_in": {"ramp_seconds": -1}}}, "policy.burn_in.ramp_seconds"),
        ({**ROCE, "policy": {"burn_in": {"ramp": 1}}}, "policy.burn_in"),
    ],
)
def test_power_that_nobody_can_keep_to_is_refused_with_its_key(data: dict[str, Any], message: str) -> None:
    with pytest.raises(FleetError) as caught:
        Fleet.from_data(data, FILE)
    assert str(caught.value).startswith(f"{FILE}: {message}"), caught.value
