"""Fleets whose nodes and login hosts have other releases of Slurm than the controllers."""

import json
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

from tests.placed import placed

from .clusters import FILE, MORE_HOSTS, files, settings, site, variables_of

SECOND_BLOCK = {
    "name": "gpu-[09-10]",
    "hardware_class": "hgx_h100",
    "address": "10.1.17.1",
    "racks": {"name": "rack-5", "nodes_each": 2},
    "pods": {"name": "pod-3"},
}
DOMAIN = {"fabric_manager": False, "fabric_manager_log": None, "domain": {"hosts": 2, "imex": None}}


def mixed(node: Any = None, login: Any = None, **scheduler: Any) -> dict[str, Any]:
    """Return a fleet with two blocks of nodes and login hosts; ``node`` is the second block's release."""
    login_hosts = {**MORE_HOSTS[2], **({} if login is None else {"slurm_version": login})}
    data = site(scheduler, [login_hosts])
    data["nodes"].append({**SECOND_BLOCK, **({} if node is None else {"slurm_version": node})})
    return data


def fault(data: dict[str, Any]) -> str:
    with pytest.raises(FleetError) as caught:
        Fleet.from_data(data, FILE)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{FILE}: ")


def test_nodes_and_login_hosts_have_releases_of_their_own() -> None:
    data = mixed("23.11", "24.05", version="24.11")
    fleet = Fleet.from_data(data, FILE)
    nodes = fleet.node_variables()
    assert {name: node.get("slurm_version") for name, node in nodes.items() if "slurm_version" in node} == {
        "login-1": "24.05",
        "login-2": "24.05",
        "gpu-09": "23.11",
        "gpu-10": "23.11",
    }
    assert fleet.slurm_releases == ("24.11", "24.05", "23.11")
    assert Fleet.from_variables(json.loads(json.dumps(variables_of(data)))) == fleet


@pytest.mark.parametrize("silence", [{}, {"slurm_version": None}])
def test_hosts_without_a_release_of_their_own_have_the_variables_that_they_always_had(silence: dict[str, Any]) -> None:
    data = mixed(version="24.11")
    data["nodes"][1] |= silence
    fleet = Fleet.from_data(data, FILE)
    assert set(fleet.node_variables()["gpu-09"]) == {"role", "hardware_class", "address", "pod", "rack", "rails"}
    assert fleet.slurm_releases == ("24.11",)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            "22.05",
            'found "22.05", expected one of 23.02, 23.11, 24.05, 24.11, which a slurmctld of scheduler.version (24.11)',
        ),
        ("25.05", 'found "25.05", expected one of 23.02, 23.11, 24.05, 24.11, which a slurmctld'),
        ("21.08", 'found "21.08", expected one of 22.05, 23.02, 23.11, 24.05, 24.11, 25.05, 25.11, in quotes'),
        (23.11, "found 23.11, expected one of 22.05, 23.02, 23.11, 24.05, 24.11, 25.05, 25.11, in quotes"),
        ("", 'found "", expected one of 22.05, '),
    ],
)
def test_release_that_the_controllers_do_not_serve_is_refused_where_it_stands(own: Any, message: str) -> None:
    assert fault(mixed(node=own, version="24.11")).startswith(f"nodes[1].slurm_version: {message}")
    assert fault(mixed(login=own, version="24.11")).startswith(f"hosts[1].slurm_version: {message}")


def test_variables_of_an_inventory_without_a_fleet_file_are_held_to_the_same() -> None:
    variables = json.loads(json.dumps(variables_of(mixed("23.11", version="24.11"))))
    variables["nodes"]["gpu-10"]["slurm_version"] = "22.05"
    with pytest.raises(FleetError, match=r'nodes.gpu-10.slurm_version: found "22.05", expected one of 23.02'):
        Fleet.from_variables(variables)
    variables["nodes"]["gpu-10"]["slurm_version"] = "24.05"
    variables["nodes"]["ctl"]["slurm_version"] = "24.05"
    with pytest.raises(FleetError, match=r"nodes.ctl.slurm_version: .*role controller are always of scheduler.version"):
        Fleet.from_variables(variables)


@pytest.mark.parametrize(
    ("role", "why"),
    [
        ("controller", "are always of scheduler.version"),
        ("database", "are always of scheduler.version"),
        ("storage", "have no Slurm"),
        ("subnet_manager", "have no Slurm"),
    ],
)
def test_other_hosts_have_no_release_of_their_own(role: str, why: str) -> None:
    data = site({"version": "24.11"}, [{"name": "x", "role": role, "address": "10.1.0.20", "slurm_version": "24.11"}])
    assert fault(data) == (f'hosts[1].slurm_version: found "24.11", expected none, as hosts of role {role} {why}')


# What a section may say of a later release only, and the first release that has it.
KNOWN_LATER: list[tuple[dict[str, Any], str, str]] = [
    (
        {"parameters": {"PrologTimeout": 30}},
        "25.05",
        "parameters.PrologTimeout: found 30, expected none, as Slurm 24.05 has",
    ),
    (
        {"parameters": {"HealthCheckNodeState": "START_ONLY"}},
        "25.11",
        'parameters.HealthCheckNodeState: found "START_ONLY", expected other values, as HealthCheckNodeState of S',
    ),
    (
        {"parameters": {"SlurmctldParameters": "enable_configless,enable_stepmgr"}},
        "24.05",
        'parameters.SlurmctldParameters: found "enable_configless,enable_stepmgr", expected other values, as Slurmctld',
    ),
    ({"node_parameters": {"hgx_h100": {"RestrictedCoresPerGPU": 2}}}, "24.05", "node_parameters.hgx_h100.RestrictedC"),
    ({"partitions": [{"name": "a", "parameters": {"ExclusiveTopo": "YES"}}]}, "24.05", "partitions[0].parameters.Excl"),
    ({"topology": "block"}, "23.11", 'topology: found "block", expected tree or none: other values, as TopologyPlugin'),
    (
        {"cgroup": {"SystemdTimeout": 5000}},
        "24.05",
        "cgroup.SystemdTimeout: found 5000, expected none, as Slurm 23.11 ha",
    ),
    (
        {"gres": "nvidia"},
        "24.11",
        'gres: found "nvidia", expected explicit or other values, as AutoDetect of Slurm 24.05 h',
    ),
    (
        {"gres": "nrt"},
        "23.11",
        'gres: found "nrt", expected explicit or other values, as AutoDetect of Slurm 23.02 has no n',
    ),
]
BEFORE = {"25.11": "24.05", "25.05": "24.05", "24.11": "24.05", "24.05": "23.11", "23.11": "23.02"}
# Files that user commands do not read.
OF_DAEMONS = ("cgroup", "gres")


@pytest.mark.parametrize(("section", "version", "message"), KNOWN_LATER, ids=[said for _, _, said in KNOWN_LATER])
def test_what_a_nodes_release_lacks_is_refused_with_the_nodes_named(
    section: dict[str, Any], version: str, message: str
) -> None:
    Fleet.from_data(mixed(version, version, version=version, **section), FILE)
    old = BEFORE[version]
    said = fault(mixed(old, version=version, **section))
    assert said.startswith(f"scheduler.{message}") and said.endswith(f", and nodes[1].slurm_version is {old}")
    # The controllers' own want is named first.
    assert "slurm_version" not in fault(mixed(old, version=old, **section))
    if set(section) & set(OF_DAEMONS):
        Fleet.from_data(mixed(login=old, version=version, **section), FILE)
    else:
        assert fault(mixed(login=old, version=version, **section)).endswith(f", and hosts[1].slurm_version is {old}")


def test_value_that_slurmctld_alone_looks_for_is_asked_of_the_controllers_alone() -> None:
    rates = {"parameters": {"SlurmctldParameters": "enable_configless,rl_enable", "SchedulerParameters": "defer_batch"}}
    Fleet.from_data(mixed("22.05", version="23.11", **rates), FILE)
    assert "rl_enable" in fault(mixed(version="22.05", **rates))


@pytest.mark.parametrize(
    ("controllers", "node", "login", "both"),
    [
        ("25.05", None, None, True),
        ("25.05", "24.11", None, False),
        ("25.11", None, "24.11", False),
        ("25.11", "25.05", "25.05", True),
    ],
)
def test_time_limits_of_the_hooks_are_named_as_every_release_knows_them(
    controllers: str, node: str | None, login: str | None, both: bool
) -> None:
    keys = settings(files(mixed(node, login, version=controllers))["slurm.conf"])
    limits = {key for key in keys if key.endswith("logTimeout")}
    assert limits == ({"PrologTimeout", "EpilogTimeout"} if both else {"PrologEpilogTimeout"})


@pytest.mark.parametrize(("node", "sizes"), [(None, True), ("24.05", True), ("23.11", False)])
def test_sizes_of_blocks_are_left_out_where_a_release_has_none(node: str | None, sizes: bool) -> None:
    text = files(mixed(node, version="24.11", topology="block"))["topology.conf"]
    assert ("BlockSizes=" in text) == sizes
    assert "BlockName=rack-5 Nodes=gpu-[09-10]" in text


@pytest.mark.parametrize(("node", "topology"), [(None, "block"), ("24.05", "block"), ("23.11", "tree")])
def test_racks_that_are_nvlink_domains_are_blocks_where_every_release_has_them(node: str | None, topology: str) -> None:
    data = {**mixed(node, version="24.11"), "hardware_classes": placed({"hgx_h100": {"nvlink": DOMAIN}})}
    fleet = Fleet.from_data(data, FILE)
    assert fleet.scheduler.topology == topology
    assert not [text for text in fleet.weaker["hgx_h100"] if text.startswith("topology")]
    assert Fleet.from_variables(json.loads(json.dumps(variables_of(data)))) == fleet
