"""A fleet whose Slurm the site sets up itself: what it may declare, what its slurm.conf is given and held against."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.muster.cluster.plugins.lookup.slurm_files import LookupModule as SlurmFiles
from ansible_collections.muster.cluster.plugins.lookup.slurm_site import LookupModule as SlurmSite
from ansible_collections.muster.cluster.plugins.module_utils.slurm import site_slurm
from ansible_collections.muster.cluster.plugins.module_utils.slurm.gate_file import parse_gate_file
from ansible_collections.muster.cluster.plugins.module_utils.slurm.site_slurm import Files, Wanted
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_conf import keys_of, values_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import SETUP_KEYS, defaults
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

from .clusters import FILE, MORE_HOSTS, WHOLE, site, variables_of
from .test_declared import in_domains

LOGIN = [{"name": "login-[1-2]", "role": "login", "address": "10.1.0.13"}]


def unmanaged(**scheduler: Any) -> dict[str, Any]:
    return site({"managed": False, **scheduler}, LOGIN)


def lines_of(data: dict[str, Any]) -> dict[str, str]:
    (files,) = SlurmFiles().run([variables_of(data)])
    return {file["name"]: file["content"] for file in files}


def needs_of(data: dict[str, Any]) -> dict[str, Any]:
    (needs,) = SlurmSite().run([variables_of(data)])
    return needs


def test_muster_sets_slurm_up_unless_the_fleet_says_otherwise() -> None:
    usual = Fleet.from_data(site(), FILE).scheduler
    assert usual.managed and "managed" not in usual.to_dict()
    assert not Fleet.from_data(unmanaged(), FILE).scheduler.managed


def test_a_site_of_its_own_is_read_back_from_its_variables() -> None:
    charged = [{"name": "batch", "default": True, "parameters": {"AllowAccounts": "team"}}]
    for data in (unmanaged(partitions=charged), {**in_domains(), "scheduler": unmanaged()["scheduler"]}):
        fleet = Fleet.from_data(data, FILE)
        assert Fleet.from_variables(json.loads(json.dumps(variables_of(data)))) == fleet
        assert fleet.scheduler.topology == "tree"


@pytest.mark.parametrize("key", SETUP_KEYS)
def test_what_muster_would_set_up_is_refused_by_name(key: str) -> None:
    hosts = MORE_HOSTS if key == "accounting" else LOGIN
    data = site({"managed": False, "state_directory": "/srv/slurm", "version": "24.05", key: WHOLE[key]}, hosts)
    with pytest.raises(FleetError, match=rf"scheduler\.{key}: found .*expected no such key, as with scheduler.managed"):
        Fleet.from_data(data, FILE)


def test_what_the_gate_and_the_rounds_need_may_be_declared() -> None:
    rest = {key: value for key, value in WHOLE.items() if key not in SETUP_KEYS}
    assert set(rest) >= {"partitions", "node_parameters", "version", "state_directory", "gres", "hooks"}
    assert Fleet.from_data(unmanaged(**rest), FILE).scheduler.hooks.epilog is False


@pytest.mark.parametrize("value", ["no", 0])
def test_managed_is_a_switch(value: Any) -> None:
    with pytest.raises(FleetError, match=r"scheduler\.managed"):
        Fleet.from_data(site({"managed": value}), FILE)


def test_that_the_site_sets_slurm_up_is_told_as_weaker() -> None:
    def told(**scheduler: Any) -> list[str]:
        fleet = Fleet.from_data(site(scheduler), FILE)
        return [text for text in fleet.weaker["hgx_h100"] if text.startswith("managed ")]

    assert told() == []
    assert told(managed=False) == [
        "managed is false: logins without a job, cgroups and the placing of jobs are the site's own"
    ]


def test_hooks_are_those_that_muster_installs() -> None:
    known = defaults()["hooks"]
    assert {name: program for name, (_, program) in site_slurm.HOOKS.items()} == {
        name: known[name] for name in site_slurm.HOOKS
    }
    assert known["health_interval"] == site_slurm.HEALTH_SECONDS
    assert known["timeout"] >= site_slurm.LEAST_HOOK_SECONDS


def test_the_lines_for_the_site_are_what_it_is_held_against() -> None:
    data = unmanaged()
    files = lines_of(data)
    assert set(files) == {"slurm.conf", "muster_partitions.conf"}
    settings = {
        line.partition("=")[0]: line.partition("=")[2]
        for lines in keys_of(files["slurm.conf"]).values()
        for line in lines
        if " " not in line
    }
    settings["HealthCheckInterval"] += " sec"
    settings |= {"PrEpPlugins": "prep/script", "SlurmdParameters": "(null)", "PrivateData": "none"}
    settings["StateSaveLocation"] = "/var/lib/slurm/slurmctld"
    wanted = Wanted(**needs_of(data), pmix=False, uid=990)
    assert site_slurm.settings_lack(settings, wanted) == []
    assert site_slurm.hooks_lack(settings, wanted.hooks) == []
    texts = {"/etc/slurm/slurm.conf": files["slurm.conf"], "/etc/slurm/gate": files["muster_partitions.conf"]}
    seen = Files(texts, files["slurm.conf"], "/etc/slurm/gate")
    assert site_slurm.gate_lacks(seen, ["acceptance", "batch"], wanted) == []
    assert values_of(files["slurm.conf"], "PartitionName") == ["acceptance"]
    assert files["slurm.conf"].endswith("\nInclude muster_partitions.conf\n")
    assert not any(parse_gate_file(files["muster_partitions.conf"]).nodes.values())


def test_lines_follow_the_hooks_and_the_gpus() -> None:
    conf = lines_of(unmanaged(hooks={"health": False, "prolog": False, "epilog": True}))["slurm.conf"]
    assert "Epilog=/usr/libexec/muster/epilog\n" in conf
    assert "HealthCheck" not in conf and "Prolog=" not in conf and "PrologFlags" not in conf
    assert "# In the NodeName line of gpu-[01-08]: Gres=gpu:8\n" in conf
    assert "Gres" not in lines_of(unmanaged(gres="none"))["slurm.conf"]


def test_needs_are_those_of_the_fleet() -> None:
    needs = needs_of(unmanaged(hooks={"prolog": False}, version="24.05", state_directory="/srv/slurm"))
    assert needs == {
        "nodes": dict.fromkeys([f"gpu-0{at}" for at in range(1, 9)], 8),
        "partitions": {"batch": {}},
        "release": "24.05",
        "state_directory": "/srv/slurm",
        "controllers": 1,
        "hooks": ["health", "epilog"],
    }
    assert set(needs_of(unmanaged(gres="none"))["nodes"].values()) == {0}
    own = {"hgx_h100": {"Gres": "gpu:h100:8,nic:4"}}
    assert set(needs_of(unmanaged(gres="none", node_parameters=own))["nodes"].values()) == {8}


@pytest.mark.parametrize("terms", [[], ["lab"], [{}], [{}, {}]])
def test_anything_but_one_fleet_is_an_error(terms: list[Any]) -> None:
    with pytest.raises(AnsibleLookupError, match=r"slurm_site: .*expected"):
        SlurmSite().run(terms)
