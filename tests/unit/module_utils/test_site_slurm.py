"""A Slurm that the site sets up itself, held against what the later steps need: each question, and all together.

What scontrol prints is that of Slurm 22.05.8, shortened; ``NEWER`` has what later releases print otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.slurm import site_slurm
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import (
    SlurmGateError,
    parse_partitions,
)
from ansible_collections.muster.cluster.plugins.module_utils.slurm.site_output import (
    ConfiguredNode,
    parse_config,
    parse_configured_nodes,
    parse_partition_words,
)
from ansible_collections.muster.cluster.plugins.module_utils.slurm.site_slurm import Files, Wanted
from ansible_collections.muster.cluster.plugins.module_utils.slurm.site_survey import Survey, joined, read_files, survey
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_conf import ConfigurationError

from tests.fake_host import FakeHost

CONFIG = """\
Configuration data as of 2026-11-28T18:04:58
AccountingStorageEnforce = associations
AccountingStorageType   = accounting_storage/slurmdbd
AuthType                = auth/munge
ClusterName             = slurmlab
EnforcePartLimits       = NO
Epilog                  = /usr/libexec/muster/epilog
EpilogSlurmctld         = (null)
HealthCheckInterval     = 30 sec
HealthCheckNodeState    = CYCLE,ANY
HealthCheckProgram      = /usr/libexec/muster/health
PluginDir               = /usr/lib/x86_64-linux-gnu/slurm-wlm
PowerPlugin             = 
PrEpPlugins             = prep/script
PrivateData             = none
Prolog                  = /usr/libexec/muster/prolog
PrologEpilogTimeout     = 60
PrologSlurmctld         = (null)
PrologFlags             = Alloc
ReturnToService         = 1
SlurmdParameters        = (null)
SLURM_CONF              = /etc/slurm/slurm.conf
SLURM_VERSION           = 22.05.8
StateSaveLocation       = /srv/slurm-state

Cgroup Support Configuration:
AuthType                = never a key of slurm.conf

Slurmctld(primary) at ctl is UP
"""  # noqa: W291 -- as scontrol prints it
PARTITIONS = (
    "PartitionName=acceptance AllowGroups=muster AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=NO QoS=N/A "
    "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=YES MaxNodes=UNLIMITED MaxTime=UNLIMITED "
    "MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=gpu-[01-03] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO "
    "ReqResv=NO OverSubscribe=EXCLUSIVE OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=6 TotalNodes=3 "
    "SelectTypeParameters=NONE JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED "
    "TRES=cpu=6,mem=3000M,node=3,billing=6,gres/gpu=24\n"
    "PartitionName=batch AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A "
    "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED "
    "MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=gpu-[01-03] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO "
    "ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=6 TotalNodes=3\n"
)
NODE = (
    "NodeName=gpu-01 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=2.15 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:8 NodeAddr=10.77.2.21 NodeHostName=gpu-01 Version=22.05.8 "
    "OS=Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=1000 AllocMem=0 FreeMem=11308 Sockets=2 Boards=1 "
    "State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=acceptance,batch  "
    "BootTime=2026-11-28T17:52:58 SlurmdStartTime=2026-11-28T18:03:22 CfgTRES=cpu=2,mem=1000M,billing=2,gres/gpu=8\n"
)
NODES = "".join(NODE.replace("gpu-01", f"gpu-0{at}") for at in (1, 2, 3))
CONF = """\
ClusterName=slurmlab
SlurmctldHost=ctl(10.77.2.10)
NodeName=gpu-[01-03] NodeAddr=10.77.2.[21-23] CPUs=2 Gres=gpu:8 RealMemory=1000
PartitionName=acceptance Nodes=gpu-[01-03] AllowGroups=muster Hidden=YES OverSubscribe=EXCLUSIVE Default=NO State=UP
Include muster_partitions.conf
"""
GATE = "# muster ledger none generation 0\nPartitionName=batch Default=YES\n"
ASSOCIATIONS = "research||||||||||||||||||\n"
WANTED = Wanted(
    release="22.05",
    nodes={"gpu-01": 8, "gpu-02": 8, "gpu-03": 8},
    partitions={"batch": {}},
    hooks=("health", "prolog", "epilog"),
    state_directory="/srv/slurm-state",
    controllers=1,
    pmix=False,
    uid=990,
)
SETTINGS = parse_config(CONFIG)
ACCEPTANCE = parse_partition_words(PARTITIONS)["acceptance"]
FILES = Files({"/etc/slurm/slurm.conf": CONF, "/etc/slurm/gate.conf": GATE}, CONF, "/etc/slurm/gate.conf")


def without(key: str) -> dict[str, str]:
    return {name: value for name, value in SETTINGS.items() if name != key}


# -- what scontrol prints


def test_config_is_that_of_slurm_conf_alone() -> None:
    assert SETTINGS["HealthCheckInterval"] == "30 sec"
    assert (SETTINGS["PowerPlugin"], SETTINGS["AuthType"]) == ("", "auth/munge")


@pytest.mark.parametrize("text", ["", "slurm_load_ctl_conf error: Unable to contact slurm controller", "\x00garbled"])
def test_config_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(SlurmGateError, match="expected 'Configuration data as of '"):
        parse_config(text)


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:8", 8),
        ("gpu:8(S:0-1)", 8),
        ("gpu:nvidia_h100_80gb_hbm3:8(S:0-1)", 8),
        ("gpu:h100:4(S:0),gpu:a100:4(S:1),nic:8", 8),
        ("gpu", 1),
        ("(null)", 0),
        ("nic:8", 0),
        ("notgpu:8", 0),
    ],
)
def test_gpus_are_counted_as_slurm_prints_them(gres: str, gpus: int) -> None:
    assert parse_configured_nodes(NODE.replace("Gres=gpu:8", f"Gres={gres}"))["gpu-01"].gpus == gpus


def test_a_node_that_has_not_registered_has_no_version() -> None:
    # As 22.05 prints a node of which it has heard nothing.
    line = (
        "NodeName=gpu-01 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=N/A AvailableFeatures=(null) "
        "ActiveFeatures=(null) Gres=gpu:8 NodeAddr=gpu-01 NodeHostName=gpu-01  RealMemory=1 AllocMem=0 State=DOWN"
    )
    assert parse_configured_nodes(line) == {"gpu-01": ConfiguredNode(8, "")}


def test_what_a_node_tells_of_itself_hides_neither_its_gpus_nor_another_node() -> None:
    lied = NODE.replace("OS=Linux", "OS=Linux Gres=gpu:1 NodeAddr=x NodeHostName=x Version=99.99")
    assert parse_configured_nodes(lied)["gpu-01"] == ConfiguredNode(8, "22.05.8")
    two = parse_configured_nodes(NODES + NODE.replace("gpu:8", "gpu:1"))
    assert two["gpu-01"].trouble == "there are two lines of node gpu-01"
    assert two["gpu-02"] == ConfiguredNode(8, "22.05.8")


@pytest.mark.parametrize("cut", [20, 120, NODE.index("NodeAddr=")])
def test_a_node_whose_line_was_cut_is_in_trouble(cut: int) -> None:
    assert "expected Gres=" in parse_configured_nodes(NODE[:cut])["gpu-01"].trouble


# -- one question after the other


def test_a_slurm_as_muster_sets_it_up_lacks_nothing() -> None:
    assert site_slurm.release_lacks(SETTINGS, WANTED) == []
    assert site_slurm.settings_lack(SETTINGS, WANTED) == []
    assert site_slurm.hooks_lack(SETTINGS, WANTED.hooks) == []
    assert site_slurm.partition_lacks(ACCEPTANCE, 3) == []
    assert site_slurm.gate_lacks(FILES, ["acceptance", "batch"], WANTED) == []
    assert site_slurm.addresses_lack(FILES, WANTED) == {}
    assert site_slurm.accounts_lack(SETTINGS, WANTED, ["muster"]) == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("23.02.1", "slurmctld is 23.02.1, scheduler.version says 22.05: declare 23.02"),
        ("19.05.2", "SLURM_VERSION is 19.05.2, expected one of 20.11"),
        ("soon", "SLURM_VERSION is soon, expected one of"),
        ("", "SLURM_VERSION is not told"),
    ],
)
def test_another_release_is_told(said: str, why: str) -> None:
    (found,) = site_slurm.release_lacks({**SETTINGS, "SLURM_VERSION": said}, WANTED)
    assert why in found


@pytest.mark.parametrize(
    ("key", "bad", "good"),
    [
        ("AuthType", ["auth/none", "(null)"], ["auth/slurm"]),
        ("EnforcePartLimits", ["ANY", "ALL", "YES"], ["NO"]),
        ("ReturnToService", ["2", "(null)"], ["0", "1"]),
        ("StateSaveLocation", ["/var/spool/slurmctld", "/srv/slurm-state/more"], ["/srv/slurm-state"]),
        ("SlurmdParameters", ["config_overrides", "l3cache_as_socket,Config_Overrides"], ["l3cache_as_socket"]),
        ("PrivateData", ["jobs,nodes"], ["jobs,usage"]),
    ],
)
def test_a_setting_that_undoes_the_gate_is_told_by_its_key(key: str, bad: list[str], good: list[str]) -> None:
    for value in good:
        assert site_slurm.settings_lack({**SETTINGS, key: value}, WANTED) == []
    for value in bad:
        (found,) = site_slurm.settings_lack({**SETTINGS, key: value}, WANTED)
        assert found.startswith(f"{key}: is {value}, expected ")
    (found,) = site_slurm.settings_lack(without(key), WANTED)
    assert found.startswith(f"{key}: is not told, expected ")


@pytest.mark.parametrize(
    ("key", "bad", "good"),
    [
        ("HealthCheckProgram", ["(null)", "/usr/sbin/nhc"], ["/usr/libexec/muster/health"]),
        ("HealthCheckInterval", ["0 sec", "301 sec", "5 min"], ["1 sec", "300 sec"]),
        ("HealthCheckNodeState", ["IDLE", "ANY,NONDRAINED_IDLE", "CYCLE"], ["ANY", "ANY,CYCLE", "ANY,START_ONLY"]),
        ("Prolog", ["(null)", "/etc/slurm/prolog.d/*", "/usr/libexec/*", "*"], ["/usr/libexec/*/prolog"]),
        ("Epilog", ["/opt/site/epilog"], ["/usr/libexec/muster/epilog*"]),
        ("PrologFlags", ["(null)", "NoHold"], ["Alloc,Contain", "Contain", "X11"]),
        ("PrEpPlugins", ["prep/site"], ["prep/script,prep/site"]),
        ("PrologEpilogTimeout", ["29", "0", "soon"], ["30", "65534", "60 sec", "UNLIMITED"]),
    ],
)
def test_a_hook_that_slurm_does_not_run_so_is_told_by_its_key(key: str, bad: list[str], good: list[str]) -> None:
    for value in good:
        assert site_slurm.hooks_lack({**SETTINGS, key: value}, WANTED.hooks) == []
    for value in bad:
        (found,) = site_slurm.hooks_lack({**SETTINGS, key: value}, WANTED.hooks)
        assert found.startswith(f"{key}: is {value}, expected "), found
    (found,) = site_slurm.hooks_lack(without(key), WANTED.hooks)
    assert found.startswith(f"{key}: is not told, expected ")


def test_hooks_of_later_releases_are_listed_and_have_a_timeout_each() -> None:
    settings = {key: value for key, value in SETTINGS.items() if key not in ("Prolog", "PrologEpilogTimeout")}
    newer = {**settings, "Prolog[0]": "/opt/site/prolog", "Prolog[1]": "/usr/libexec/muster/prolog"}
    newer |= {"PrologTimeout": "UNLIMITED", "EpilogTimeout": "29 sec"}
    (found,) = site_slurm.hooks_lack(newer, WANTED.hooks)
    assert found.startswith("EpilogTimeout: is 29 sec")


def test_a_hook_that_the_fleet_declares_false_is_not_asked_for() -> None:
    none = {key: value for key, value in SETTINGS.items() if not key.startswith(("Prolog", "Epilog", "Health", "PrEp"))}
    assert site_slurm.hooks_lack(none, ()) == []
    assert len(site_slurm.hooks_lack(none, ("health",))) == 3


@pytest.mark.parametrize(
    ("key", "bad", "good"),
    [
        ("State", ["DOWN", "DRAIN", "INACTIVE"], []),
        ("AllowGroups", ["ALL", "muster,users"], []),
        ("Hidden", ["NO"], []),
        ("OverSubscribe", ["NO", "FORCE:4"], []),
        ("Default", ["YES"], []),
        ("RootOnly", ["YES"], []),
        ("ReqResv", ["YES"], []),
        ("AllocNodes", ["login-1"], []),
        ("AllowAccounts", ["research"], []),
        ("AllowQos", ["high"], []),
        ("MaxTime", ["1-00:00:00"], []),
        ("MaxCPUsPerNode", ["64"], []),
        ("MaxNodes", ["2", "few"], ["3", "4"]),
        ("MinNodes", ["2"], ["1"]),
    ],
)
def test_partition_acceptance_is_held_to_each_of_its_words(key: str, bad: list[str], good: list[str]) -> None:
    for value in good:
        assert site_slurm.partition_lacks({**ACCEPTANCE, key: value}, 3) == []
    for value in bad:
        (found,) = site_slurm.partition_lacks({**ACCEPTANCE, key: value}, 3)
        assert found.startswith(f"partition acceptance: {key} is {value}, expected ")
    words = {name: value for name, value in ACCEPTANCE.items() if name != key}
    (found,) = site_slurm.partition_lacks(words, 3)
    assert found.startswith(f"partition acceptance: {key} is not told, expected ")


def test_without_partition_acceptance_that_alone_is_told() -> None:
    assert site_slurm.partition_lacks(None, 3) == [
        "partition acceptance: slurmctld has none, expected one with AllowGroups=muster"
    ]
    twice = parse_partition_words(PARTITIONS + PARTITIONS)["acceptance"]
    assert len(site_slurm.partition_lacks(twice, 3)) == len(ACCEPTANCE.keys() & _PARTITION_KEYS)


_PARTITION_KEYS = {*site_slurm._PARTITION, "MaxNodes", "MinNodes"}


@pytest.mark.parametrize(
    ("conf", "why"),
    [
        (CONF + "PartitionName=batch Nodes=gpu-[01-03]\n", "declares partition batch"),
        (CONF + "partitionname = batch nodes=ALL\n", "declares partition batch"),
        (CONF + "PartitionName=DEFAULT MaxTime=60 Nodes=ALL\n", "PartitionName=DEFAULT has Nodes"),
        (CONF + "PartitionName=Default nodes = ALL\n", "PartitionName=DEFAULT has Nodes"),
        # As Slurm's own pattern reads them.
        (CONF + 'PartitionName="batch" Nodes=ALL\n', "declares partition batch"),
        (CONF + "PartitionName+=batch Nodes=ALL\n", "declares partition batch"),
        (CONF + 'PartitionName="DEFAULT" Nodes="ALL"\n', "PartitionName=DEFAULT has Nodes"),
        (CONF + "PartitionName=DEFAULT Nodes+=ALL\n", "PartitionName=DEFAULT has Nodes"),
        (CONF + 'PartitionName="" Nodes=ALL\n', ""),
        (CONF + "PartitionName=DEFAULT AllocNodes=ALL\n", ""),
        (CONF + "PartitionName=DEFAULT MaxTime=60\n", ""),
        (CONF + "PartitionName=debug Nodes=gpu-01\n", ""),
        (CONF + "#PartitionName=batch Nodes=gpu-01\n", ""),
    ],
)
def test_user_partitions_stand_in_the_gates_file_alone(conf: str, why: str) -> None:
    files = replace(FILES, texts={**FILES.texts, "/etc/slurm/slurm.conf": conf})
    found = site_slurm.gate_lacks(files, ["batch"], WANTED)
    assert [why in each for each in found] == [True] * bool(why)


def test_the_gates_file_is_included_readable_and_live() -> None:
    alone = replace(FILES, texts={"/etc/slurm/slurm.conf": CONF})
    assert site_slurm.gate_lacks(alone, ["batch"], WANTED)[0].startswith("slurm.conf: does not include /etc/slurm/gate")
    for text in ("", "PartitionName=batch Nodes=ALL\n", GATE[:20]):
        (found,) = site_slurm.gate_lacks(replace(FILES, texts={**FILES.texts, FILES.gate: text}), ["batch"], WANTED)
        assert "expected '# muster ledger <id> generation <number>'" in found
    (found,) = site_slurm.gate_lacks(FILES, ["acceptance"], WANTED)
    assert found.endswith("has partition batch, slurmctld has not: run scontrol reconfigure")


def test_two_controllers_read_one_gate() -> None:
    both = replace(WANTED, controllers=2, state_directory="/srv/slurm-state")
    (found,) = site_slurm.gate_lacks(FILES, ["batch"], both)
    assert "is on this controller alone" in found
    gate = "/srv/slurm-state/muster_partitions.conf"
    shared = Files({"/etc/slurm/slurm.conf": CONF, gate: GATE}, CONF, gate)
    assert site_slurm.gate_lacks(shared, ["batch"], both) == []


@pytest.mark.parametrize(
    ("conf", "lacking"),
    [
        (CONF, []),
        (CONF.replace("NodeAddr=10.77.2.[21-23]", ""), ["gpu-01", "gpu-02", "gpu-03"]),
        (CONF.replace("gpu-[01-03] NodeAddr=10.77.2.[21-23]", "gpu-[01-02] NodeAddr=10.77.2.[21-22]"), ["gpu-03"]),
        (CONF.replace("NodeAddr", "\\\nNodeAddr"), ["gpu-01", "gpu-02", "gpu-03"]),
    ],
)
def test_the_prolog_finds_every_nodes_address_in_slurm_conf_itself(conf: str, lacking: list[str]) -> None:
    files = replace(FILES, own=conf)
    assert sorted(site_slurm.addresses_lack(files, WANTED)) == lacking
    assert site_slurm.addresses_lack(files, replace(WANTED, hooks=("health",))) == {}


def test_addresses_that_cannot_be_read_are_an_error() -> None:
    with pytest.raises(ConfigurationError):
        site_slurm.addresses_lack(replace(FILES, own="NodeName=gpu-[01-03] NodeAddr=10.0.0.1\n"), WANTED)


def test_accounts_are_asked_for_where_slurm_does() -> None:
    ask = site_slurm.accounts_lack
    assert ask({**SETTINGS, "AccountingStorageEnforce": "none"}, WANTED, None) == []
    assert "none that can be read" in ask(SETTINGS, WANTED, None)[0]
    assert ask(SETTINGS, WANTED, ["root", "alice"])[0].startswith("accounts: user muster has none, expected one")
    charged = replace(WANTED, partitions={"batch": {"allowaccounts": "research"}, "long": {}})
    assert ask(SETTINGS, charged, ["muster"]) == []
    (found,) = ask({**SETTINGS, "AccountingStorageEnforce": "none"}, charged, ["muster"])
    assert found.endswith("expected associations, as partition batch asks for accounts")
    assert ask(without("AccountingStorageEnforce"), WANTED, ["muster"]) == ["AccountingStorageEnforce: is not told"]


def test_pmix_is_asked_for_where_a_class_needs_it() -> None:
    needed = replace(WANTED, pmix=True)
    assert site_slurm.pmix_lacks([], WANTED) == []
    assert site_slurm.pmix_lacks(["mpi_pmi2.so"], needed)[0].startswith("PMIx: PluginDir has no mpi_pmix*.so")
    for name in ("mpi_pmix.so", "mpi_pmix_v4.so"):
        assert site_slurm.pmix_lacks([name], needed) == []


def test_user_muster_has_the_number_of_the_nodes() -> None:
    assert site_slurm.user_lacks(990, WANTED) == []
    assert "uid 991 on this controller, expected uid 990" in site_slurm.user_lacks(991, WANTED)[0]
    assert "no such user" in site_slurm.user_lacks(None, WANTED)[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "slurmctld does not know the node"),
        (NODE.replace("gpu:8", "gpu:7"), "Gres has 7 GPUs, expected gpu:8"),
        (NODE.replace("gpu:8", "gpu:9"), "Gres has 9 GPUs, expected gpu:8"),
        (NODE.replace("gpu:8", "(null)"), "Gres has 0 GPUs, expected gpu:8"),
        (NODE.replace("Version=22.05.8", "Version=20.11.9"), ""),
        (NODE.replace("Version=22.05.8", "Version=23.02.1"), "Slurm 23.02 is newer than a slurmctld of 22.05 serves"),
        (NODE.replace("Version=22.05.8", "Version=mine"), "Slurm mine is unknown here"),
        (NODE[:90] + "\n", "expected Gres=, NodeAddr= and NodeHostName="),
    ],
)
def test_a_node_that_lacks_something_lacks_it_alone(text: str, why: str) -> None:
    seen = parse_configured_nodes(text + NODES.partition("\n")[2])
    found = site_slurm.nodes_lack(seen, parse_partitions(PARTITIONS)["acceptance"], "22.05", WANTED)
    assert list(found) == ["gpu-01"] * bool(why)
    assert why in "".join(found.get("gpu-01", []))


def test_where_slurm_is_to_know_of_no_gpus_none_are_asked_for() -> None:
    seen = parse_configured_nodes(NODES.replace("gpu:8", "(null)"))
    wanted = replace(WANTED, nodes=dict.fromkeys(WANTED.nodes, 0))
    assert site_slurm.nodes_lack(seen, parse_partitions(PARTITIONS)["acceptance"], "22.05", wanted) == {}


def test_partition_acceptance_lists_every_node() -> None:
    short = parse_partitions(PARTITIONS.replace("gpu-[01-03]", "gpu-[01-02]"))["acceptance"]
    found = site_slurm.nodes_lack(parse_configured_nodes(NODES), short, "22.05", WANTED)
    assert found == {"gpu-03": ["partition acceptance does not list the node"]}
    cut = parse_partitions(PARTITIONS[:200])["acceptance"]
    assert set(site_slurm.nodes_lack(parse_configured_nodes(NODES), cut, "22.05", WANTED)) == set(WANTED.nodes)


# -- all together, on a controller


class Site:
    """A controller of the site: its files below a directory, and what its commands print."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.conf = place / "slurm.conf"
        self.conf.write_text(CONF, encoding="utf-8")
        (place / "muster_partitions.conf").write_text(GATE, encoding="utf-8")
        self.wanted = WANTED
        self.config = CONFIG.replace("/etc/slurm", str(place))
        self.partitions, self.nodes, self.users = PARTITIONS, NODES, "muster|muster"
        self.silent = ""

    def ask(self, uid: int | None = 990) -> Survey:
        outputs = {
            "scontrol ping": Output("Slurmctld(primary) at ctl is UP\n"),
            "scontrol show config": Output(self.config),
            "scontrol show partition --all --oneliner": Output(self.partitions),
            "scontrol show node --all --oneliner": Output(self.nodes),
            "sacctmgr": Output(self.accounts()),
            "/usr/lib/x86_64-linux-gnu/slurm-wlm/mpi_pmix.so": Output(),
        }
        if self.silent:
            outputs[self.silent] = Output(stderr="slurm_load: Unable to contact slurm controller", rc=1)
        host = FakeHost(outputs)
        found = survey(host, self.wanted, uid, 60, str(self.place / "muster_partitions.conf"))
        assert all("show" in argv or "ping" in argv or "list" in argv for argv in host.runs), "something was changed"
        return found

    def accounts(self) -> str:
        columns = len(_columns())
        row = dict.fromkeys(_columns(), "")
        row["Account"], _, row["User"] = self.users.partition("|")
        assert len(row) == columns
        return "|".join(row.values()) + "\n"


def _columns() -> tuple[str, ...]:
    from ansible_collections.muster.cluster.plugins.module_utils.slurm import slurm_accounts  # noqa: PLC0415

    return slurm_accounts._COLUMNS


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a controller that has all."""
    return Site(tmp_path)


def test_a_site_that_has_all_passes(site: Site) -> None:
    assert site.ask() == Survey([], {})
    site.wanted = replace(WANTED, pmix=True)
    assert site.ask() == Survey([], {})


def test_a_slurm_that_lets_everybody_in_is_told_everything_at_once(site: Site) -> None:
    site.partitions = (
        site.partitions.replace("AllowGroups=muster", "AllowGroups=ALL")
        .replace("Hidden=YES", "Hidden=NO")
        .replace("OverSubscribe=EXCLUSIVE", "OverSubscribe=NO")
    )
    site.conf.write_text(
        CONF.replace("Include muster_partitions.conf", "include /etc/slurm.d/none\\\n").replace(
            "include /etc/slurm.d/none\\\n", "PartitionName=DEFAULT \\\n  Nodes=ALL"
        )
        + "PartitionName=batch Default=YES Nodes=gpu-[01-03]\n",
        encoding="utf-8",
    )
    site.config = (
        site.config.replace("EnforcePartLimits       = NO", "EnforcePartLimits       = ALL")
        .replace("ReturnToService         = 1", "ReturnToService         = 2")
        .replace("SlurmdParameters        = (null)", "SlurmdParameters        = config_overrides")
        .replace("/usr/libexec/muster/prolog", "/opt/site/prolog")
    )
    site.nodes = site.nodes.replace("gpu:8", "gpu:7", 1)
    site.users = "research|alice"
    found = site.ask(uid=1000)
    starts = [
        *("EnforcePartLimits: is ALL", "ReturnToService: is 2", "SlurmdParameters: is config_overrides"),
        *("Prolog: is /opt/site/prolog", "partition acceptance: AllowGroups is ALL"),
        *("partition acceptance: Hidden is NO", "partition acceptance: OverSubscribe is NO"),
        *(f"{site.conf}: declares partition batch", f"{site.conf}: PartitionName=DEFAULT has Nodes"),
        *("slurm.conf: does not include", "accounts: user muster has none", "user muster: uid 1000"),
    ]
    assert len(found.lacking) == len(starts)
    assert all(any(line.startswith(start) for line in found.lacking) for start in starts), found.lacking
    assert list(found.nodes) == ["gpu-01"]


@pytest.mark.parametrize(
    "silent",
    [
        *("scontrol ping", "scontrol show config", "scontrol show partition --all --oneliner"),
        "scontrol show node --all --oneliner",
    ],
)
def test_a_controller_that_does_not_tell_lacks_that(site: Site, silent: str) -> None:
    site.silent = silent
    (found,) = site.ask().lacking
    assert "Unable to contact slurm controller" in found


def test_accounts_that_cannot_be_listed_are_lacking(site: Site) -> None:
    site.silent = "sacctmgr"
    assert "none that can be read" in site.ask().lacking[0]


def test_an_empty_answer_lacks_everything(site: Site) -> None:
    site.partitions = site.nodes = ""
    found = site.ask()
    assert found.lacking[0].startswith("partition acceptance: slurmctld has none")
    assert found.nodes == {
        name: ["slurmctld does not know the node, expected a NodeName line in slurm.conf"] for name in WANTED.nodes
    }


@pytest.mark.parametrize("lines", range(1, CONFIG.count("\n")))
def test_a_configuration_that_was_cut_never_passes_for_a_whole_one(site: Site, lines: int) -> None:
    whole = site.config
    site.config = "".join(whole.splitlines(keepends=True)[:lines])
    asked_last = whole[: whole.index("StateSaveLocation")].count("\n") + 1
    assert bool(site.ask().lacking) == (lines < asked_last)


def _without_include(site: Site) -> None:
    (site.place / "muster_partitions.conf").unlink()


def _spoiled_include(site: Site) -> None:
    (site.place / "muster_partitions.conf").write_bytes(b"\xff\x00\n")


def _relative_conf(site: Site) -> None:
    site.config = site.config.replace(f"{site.place}/slurm.conf", "slurm.conf")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_without_include, "No such file or directory, expected slurm.conf or a file that it includes"),
        (_spoiled_include, "expected '# muster ledger"),
        (_relative_conf, "SLURM_CONF: is slurm.conf, expected the path"),
    ],
)
def test_files_that_cannot_be_read_are_lacking(site: Site, spoil: Callable[[Site], None], why: str) -> None:
    spoil(site)
    (found,) = site.ask().lacking
    assert why in found


def test_includes_are_followed_wherever_they_lie(tmp_path: Path) -> None:
    conf, gate = tmp_path / "slurm.conf", tmp_path / "shared/gate.conf"
    gate.parent.mkdir()
    gate.write_text(GATE, encoding="utf-8")
    (tmp_path / "link.conf").symlink_to(gate)
    (tmp_path / "east.conf").write_text(f"PartitionName=batch \\\n Nodes=ALL\nInclude {conf}\n", encoding="utf-8")
    conf.write_text("include\t%c.conf\nINCLUDE   link.conf # the gate\n", encoding="utf-8")
    files = read_files(str(conf), "east", str(gate))
    assert set(files.texts) == {str(conf), str(tmp_path / "east.conf"), str(gate)}
    assert files.gate in files.texts and files.own == conf.read_text(encoding="utf-8")
    assert "declares partition batch" in site_slurm.gate_lacks(files, ["batch"], WANTED)[0]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("A=1 \\\n B=2\nC=3\n", "A=1  B=2\nC=3\n"),
        ("A=1 \\ \t\nB=2\n", "A=1 B=2\n"),
        # Slurm takes a comment away before it looks for the backslash, so that the next line counts.
        ("# old \\\nPartitionName=DEFAULT Nodes=ALL\n", "\nPartitionName=DEFAULT Nodes=ALL\n"),
        ("A=1 # old \\\nB=2\n", "A=1 \nB=2\n"),
    ],
)
def test_lines_go_on_as_slurm_reads_them(text: str, read: str) -> None:
    assert joined(text) == read
