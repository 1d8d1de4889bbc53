import json
from copy import deepcopy
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

from tests.placed import placed

from .clusters import FILE, MORE_HOSTS, WHOLE, files, site, variables_of


def test_silence_gives_the_defaults() -> None:
    fleet = Fleet.from_data(site(), FILE)
    scheduler = fleet.scheduler
    assert scheduler.staff_partitions == ()
    assert (scheduler.version, scheduler.topology, scheduler.gres, scheduler.leaving_jobs) == (
        "22.05",
        "tree",
        "explicit",
        "finish",
    )
    assert scheduler.state_directory == "/var/lib/slurm/slurmctld"
    assert (scheduler.repository, scheduler.accounting, scheduler.rest, scheduler.containers) == (
        None,
        None,
        None,
        None,
    )
    assert scheduler.hooks.health and scheduler.hooks.prolog and scheduler.hooks.epilog
    assert fleet.policy.heartbeat_seconds == 900


SIZES = "BlockSizes=2,4"
NVLINK = {"fabric_manager": False, "fabric_manager_log": None, "domain": {"hosts": 2, "imex": None}}


def in_domains(**block: Any) -> dict[str, Any]:
    """Return a fleet of eight nodes whose racks are NVLink domains of two hosts."""
    return {**site({"version": "24.11"}, **block), "hardware_classes": placed({"hgx_h100": {"nvlink": NVLINK}})}


def test_racks_that_are_nvlink_domains_are_blocks_by_default_and_read_back() -> None:
    data = in_domains()
    fleet = Fleet.from_data(data, FILE)
    assert fleet.scheduler.topology == "block"
    assert Fleet.from_variables(json.loads(json.dumps(variables_of(data)))) == fleet
    lines = files(data)["topology.conf"].splitlines()
    assert lines[1:] == [*(f"BlockName=rack-{at} Nodes=gpu-[0{2 * at - 1}-0{2 * at}]" for at in (1, 2, 3, 4)), SIZES]
    # One rack is one block, of which there is nothing to say.
    alone = in_domains(name="gpu-[1-2]", racks={"name": "rack-1"}, pods=None)
    assert "topology.conf" not in files(alone)
    assert "TopologyPlugin" not in files(alone)["slurm.conf"]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (
            {"racks": None},
            'site.fleet.yml: nodes: found node "gpu-01" of class hgx_h100 in no rack, expected a rack for each, as the '
            "nodes of one are an NVLink domain",
        ),
        (
            {"racks": {"name": "rack-[1-2]", "nodes_each": 4}},
            'site.fleet.yml: nodes: found more than 2 nodes of class hgx_h100 in rack "rack-1", expected at most 2, as '
            "nvlink.domain.hosts of the class says",
        ),
    ],
)
def test_rack_that_cannot_be_an_nvlink_domain_is_refused(block: dict[str, Any], message: str) -> None:
    with pytest.raises(FleetError) as caught:
        Fleet.from_data(in_domains(**block), FILE)
    assert str(caught.value) == message
    assert Fleet.from_data(site(**block), FILE).scheduler.topology == "tree"


def test_rack_of_fewer_nodes_than_imex_lists_is_refused_until_the_class_says_so() -> None:
    data = deepcopy(in_domains())
    nvlink = data["hardware_classes"]["hgx_h100"]["nvlink"]
    nvlink["domain"] = {**nvlink["domain"], "imex": {"nodes": 18, "channels": 1}}
    with pytest.raises(FleetError) as caught:
        Fleet.from_data(data, FILE)
    found = 'site.fleet.yml: nodes: found 2 nodes of class hgx_h100 in rack "rack-1"'
    assert str(caught.value) == f"{found}, expected 18, as nvlink.domain.imex.nodes of the class says, or null there"
    for nodes in (2, None):
        nvlink["domain"]["imex"]["nodes"] = nodes
        assert Fleet.from_data(data, FILE).scheduler.topology == "block"


@pytest.mark.parametrize("domain", [NVLINK["domain"], None])
def test_two_classes_share_a_rack_unless_both_are_in_nvlink_domains(domain: Any) -> None:
    data = in_domains(name="gpu-[01-07]", racks={"name": "rack-[1-7]", "nodes_each": 1}, pods=None)
    nvlink = {**NVLINK, "domain": domain, "fabric_manager": domain is None}
    data["hardware_classes"]["other"] = {"extends": "hgx_h100", "nvlink": nvlink}
    data["nodes"].append(
        {"name": "more-1", "hardware_class": "other", "address": "10.1.17.1", "racks": {"name": "rack-7"}}
    )
    if domain is None:
        assert Fleet.from_data(data, FILE).scheduler.topology == "block"
        return
    with pytest.raises(FleetError, match='found rack "rack-7" with nodes of classes hgx_h100 and other'):
        Fleet.from_data(data, FILE)


def test_class_that_no_node_is_of_makes_no_blocks() -> None:
    data = site({"version": "24.11"})
    data["hardware_classes"] = {**placed({}), "other": {"extends": "hgx_h100", "nvlink": NVLINK}}
    assert Fleet.from_data(data, FILE).scheduler.topology == "tree"


def test_plugin_of_pyxis_for_arm64_is_declared() -> None:
    data = site({"containers": {}})
    assert Fleet.from_data(data, FILE).scheduler.containers is not None
    data["hardware_classes"]["hgx_h100"]["cpu"] = {"architecture": "aarch64"}
    with pytest.raises(
        FleetError, match=r"scheduler.containers.plugin: .*x86_64.*, expected a path that the hosts of class"
    ):
        Fleet.from_data(data, FILE)
    data["scheduler"]["containers"] = {"plugin": "/usr/lib/aarch64-linux-gnu/slurm/spank_pyxis.so"}
    assert variables_of(data)["scheduler"]["containers"]["plugin"].startswith("/usr/lib/aarch64")


def test_services_are_named_by_role() -> None:
    variables = variables_of(site(WHOLE, MORE_HOSTS))
    assert variables["controller"] == "ctl"
    assert variables["controllers"] == ["ctl", "ctl-2"]
    assert variables["database"] == "db"
    assert variables["logins"] == ["login-1", "login-2"]


def test_whole_section_reads_back_from_variables() -> None:
    data = site(WHOLE, MORE_HOSTS)
    again = json.loads(json.dumps(variables_of(data)))
    assert Fleet.from_variables(again) == Fleet.from_data(data, FILE)


def test_accounts_come_parents_first_with_musters_own() -> None:
    accounting = Fleet.from_data(site(WHOLE, MORE_HOSTS), FILE).scheduler.accounting
    assert accounting is not None
    assert [(each.name, each.parent, each.users) for each in accounting.accounts] == [
        ("team", None, ("ann",)),
        ("muster", None, ("muster",)),
        ("sub", "team", ("bob",)),
    ]
    assert accounting.accounts[2].limits == {"GrpTRES": "gres/gpu=64"}


def test_short_forms_are_filled_in() -> None:
    data = site({"accounting": {}, "rest": {}, "containers": {}}, MORE_HOSTS[1:])
    scheduler = Fleet.from_data(data, FILE).scheduler
    assert scheduler.accounting is not None and scheduler.accounting.host == "db"
    assert scheduler.rest is not None and (scheduler.rest.host, scheduler.rest.port) == ("ctl", 6820)
    assert scheduler.containers is not None and scheduler.containers.packages[0] == "enroot"


@pytest.mark.parametrize(
    ("scheduler", "seconds"),
    [
        ({"parameters": {"HealthCheckInterval": 600}}, 1800),
        ({"parameters": {"healthcheckinterval": "60"}}, 180),
        ({"parameters": {"HealthCheckInterval": 0}}, None),
        ({"hooks": {"health": False}}, None),
    ],
)
def test_heartbeat_follows_the_health_checks(scheduler: dict[str, Any], seconds: float | None) -> None:
    assert Fleet.from_data(site(scheduler), FILE).policy.heartbeat_seconds == seconds


def parameters(**keys: Any) -> dict[str, Any]:
    return {"parameters": keys}


ACCOUNTED = {"name": "batch", "parameters": {"AllowAccounts": "team"}}
BAD: list[tuple[dict[str, Any], list[Any], str]] = [
    ({"version": 22.05}, [], "scheduler.version: found 22.05, expected one of 22.05, 23.02, .* 25.11, in quotes"),
    ({"version": "21.08"}, [], 'scheduler.version: found "21.08", expected one of 22.05'),
    (
        parameters(HealthCheckTimeout=30),
        [],
        r"parameters.HealthCheckTimeout: found 30, expected none, as Slurm 22.05 has no key .*came after 25.11",
    ),
    (
        parameters(PrologTimeout=30),
        [],
        r"parameters.PrologTimeout: found 30, .* has no key PrologTimeout \(it came with",
    ),
    ({"version": "23.11", **parameters(RoutePlugin="x")}, [], "parameters.RoutePlugin: .*23.02 was the last that had"),
    (
        parameters(PrologFlags="Alloc,RunInJob"),
        [],
        "found .Alloc,RunInJob., expected other values, as PrologFlags of Sl",
    ),
    ({"cgroup": {"CgroupPlugin": "disabled"}}, [], "cgroup.CgroupPlugin: .*22.05 has no disabled"),
    ({"node_parameters": {"hgx_h100": {"RestrictedCoresPerGPU": 2}}}, [], "node_parameters.hgx_h100.RestrictedCores"),
    ({"partitions": [{"name": "a", "parameters": {"ExclusiveTopo": "YES"}}]}, [], r"\[0\].parameters.ExclusiveTopo: f"),
    (
        {"topology": "block"},
        [],
        'scheduler.topology: found "block", expected tree or none: .*topology/block .it came w',
    ),
    ({"topology": "ring"}, [], 'scheduler.topology: found "ring", expected one of tree, block, none'),
    ({"gres": "auto"}, [], 'scheduler.gres: found "auto", expected one of explicit, nvml, nvidia, nrt, none'),
    ({"gres": "nvidia"}, [], r'scheduler.gres: found "nvidia", expected explicit .* no nvidia \(it came with 24.11\)'),
    ({"gres": "nrt", "version": "23.02"}, [], r'gres: found "nrt", expected explicit .* no nrt \(it came with 23.11\)'),
    (
        {"node_parameters": {"hgx_h100": {"Gres": "gpu:h100:7,nic:8"}}},
        [],
        r'node_parameters.hgx_h100.Gres: found "gpu:h100:7,nic:8", expected 8 GPUs, as gpu.count of the class has',
    ),
    ({"node_parameters": {"hgx_h100": {"gres": "gpu:1g.10gb:56"}}}, [], "hgx_h100.Gres: found .*expected 8 GPUs"),
    ({"leaving_jobs": "kill"}, [], 'scheduler.leaving_jobs: found "kill", expected one of finish, end'),
    ({"staff_partitions": "ops"}, [], 'scheduler.staff_partitions: found "ops", expected a list'),
    ({"staff_partitions": ["o ps"]}, [], r"scheduler.staff_partitions\[0\]: found .*expected letters, digits"),
    ({"staff_partitions": ["ops", "ops"]}, [], "scheduler.staff_partitions.*expected each partition once"),
    (
        {"staff_partitions": ["ops", "batch"]},
        [],
        r'staff_partitions\[1\]: found "batch", expected a partition that Mus',
    ),
    ({"staff_partitions": ["acceptance"]}, [], r'staff_partitions\[0\]: found "acceptance", expected a partition th'),
    (parameters(nodename="a"), [], "parameters.nodename: .*expected no NodeName here, use nodes and scheduler.node_p"),
    (parameters(Prolog=None), [], "parameters.Prolog: found nothing, expected no Prolog here, use scheduler.hooks.p"),
    (parameters(epilog="/x"), [], "parameters.epilog: found ./x., expected no Epilog here, use scheduler.hooks.epilog"),
    (
        parameters(HealthCheckProgram="/bin/true"),
        [],
        "parameters.HealthCheckProgram: .*expected no HealthCheckProgram here, use scheduler.hooks.health",
    ),
    (parameters(PrEpPlugins="prep/own"), [], "parameters.PrEpPlugins: found .prep/own., expected prep/script among"),
    (parameters(EnforcePartLimits="ALL"), [], "parameters.EnforcePartLimits: .*as the gate needs NO"),
    (parameters(StateSaveLocation="/x"), [], "parameters.StateSaveLocation: .*use scheduler.state_directory"),
    (parameters(ReturnToService=2), [], "parameters.ReturnToService: found 2, expected 0 or 1, as with 2"),
    (parameters(SlurmctldParameters="rl_enable"), [], "SlurmctldParameters: .*"),
    (
        parameters(SlurmctldParameters="power_save_interval=10"),
        [],
        "SlurmctldParameters: .*enable_configless among them",
    ),
    (parameters(KillWait=1, killwait=2), [], "parameters.killwait: found killwait again, expected each key once"),
    (parameters(MailProg="/bin/true # no"), [], "parameters.MailProg: .*a value of one line without #"),
    (parameters(HealthCheckInterval="often"), [], 'HealthCheckInterval: found "often", expected a whole number'),
    (parameters(MessageTimeout="long"), [], 'MessageTimeout: found "long", expected a whole number'),
    (parameters(ProctrackType="proctrack/linuxproc"), [], "ssh_access: found .pam_slurm_adopt., expected pam_slurm or"),
    ({"state_directory": "srv"}, [], 'scheduler.state_directory: found "srv", expected an absolute path'),
    (
        {},
        MORE_HOSTS[:1],
        "scheduler.state_directory: found nothing, expected a directory that ctl and ctl-2 both mount",
    ),
    ({"accounting": {"host": "ctl"}}, MORE_HOSTS[1:], 'accounting.host: found "ctl", expected one of db'),
    (
        {"accounting": {"enforce": ["all"]}},
        MORE_HOSTS[1:],
        r'accounting.enforce\[0\]: found "all", expected one of asso',
    ),
    (
        {"accounting": {"accounts": [{"name": "a", "parent": "b"}, {"name": "c"}]}},
        MORE_HOSTS[1:],
        r'accounts\[0\].parent: found "b", expected one of c',
    ),
    (
        {"accounting": {"accounts": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]}},
        MORE_HOSTS[1:],
        r'accounts\[0\].parent: found "b", expected no circle of parents',
    ),
    (
        {"accounting": {"accounts": [{"name": "a"}, {"name": "a"}]}},
        MORE_HOSTS[1:],
        r'accounts\[1\].name: found "a" aga',
    ),
    (
        {"accounting": {"accounts": [{"name": "Team A"}]}},
        MORE_HOSTS[1:],
        r'accounts\[0\].name: found "Team A", expecte',
    ),
    ({"accounting": {"accounts": [{"name": "muster"}]}}, MORE_HOSTS[1:], r"accounts\[0\].users: .*muster among them"),
    (
        {"accounting": {"accounts": [{"name": "a", "users": ["A b"]}]}},
        MORE_HOSTS[1:],
        r'users\[0\]: found "A b", expec',
    ),
    ({"partitions": [ACCOUNTED]}, [], r"\[0\].parameters.AllowAccounts: .*as scheduler.accounting is not declared"),
    ({"partitions": [ACCOUNTED], "accounting": {}}, MORE_HOSTS[1:], "AllowAccounts: .*enforce: .associations., or any"),
    ({"rest": {"host": "gpu-01"}}, [], 'scheduler.rest.host: found "gpu-01", expected one of ctl'),
    ({"rest": {"port": 70000}}, [], "scheduler.rest.port: found 70000, expected a port of at most 65535"),
    ({"containers": {}, "hooks": {"prolog": False}}, [], "scheduler.containers: .*expected hooks.prolog: true"),
    ({"repository": {"url": "deb x", "signing_key": "k"}}, [], 'repository.url: found "deb x", expected https://'),
    ({"repository": {"url": "https://x", "signing_key": "k"}}, [], "signing_key: found other text, expected the ASCII"),
    ({"containers": {"plugin": "pyxis.so"}}, [], 'containers.plugin: found "pyxis.so", expected an absolute path'),
    ({"hooks": {"epilogue": True}}, [], 'scheduler.hooks: found unknown key "epilogue", .*did you mean epilog'),
]


@pytest.mark.parametrize(("scheduler", "hosts", "message"), BAD, ids=[message for _, _, message in BAD])
def test_faulty_scheduler_is_one_line(scheduler: dict[str, Any], hosts: list[Any], message: str) -> None:
    with pytest.raises(FleetError, match=message) as caught:
        Fleet.from_data(site(scheduler, hosts), FILE)
    assert str(caught.value).startswith(f"{FILE}: ")
    assert "\n" not in str(caught.value)
