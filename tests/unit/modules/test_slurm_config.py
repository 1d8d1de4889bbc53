"""The modules around a controller's configuration: what they refuse before anything is changed."""

from __future__ import annotations

import socket

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_preflight import preflight_faults

from tests.run_module import run_module

NAME = socket.gethostname()
CONF = (
    f"SlurmctldHost={NAME}(127.0.0.1)\nSlurmctldParameters=enable_configless\nNodeName=n[1-2] NodeAddr=10.0.0.[1-2]\n"
)


def test_addresses_that_are_numbers_need_no_looking_up():
    assert preflight_faults(CONF, ["10.0.0.9", "localhost"]) == []


@pytest.mark.parametrize(
    ("slurm_conf", "addresses", "why"),
    [
        (None, ["no-such-host.invalid"], "no-such-host.invalid: does not resolve"),
        (CONF + "NodeName=gone.invalid\n", [], "gone.invalid: does not resolve"),
        (CONF.replace(NAME, "ctl"), [], f"names the controllers ctl, this host calls itself {NAME}"),
        ("", [], "names the controllers nothing"),
        (CONF.replace("enable_configless", "idle_on_node_suspend"), [], "lacks enable_configless"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_changed(slurm_conf, addresses, why):
    assert why in "; ".join(preflight_faults(slurm_conf, addresses))
    arguments = {"packages": ["munge"], "version": "22.05", "addresses": addresses}
    conf = {} if slurm_conf is None else {"slurm_conf": slurm_conf}
    result = run_module("slurm_packages", check=True, **arguments, **conf)
    assert result["failed"]
    assert why in result["msg"]


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([], "expected slurm.conf among them"),
        ([{"name": "../slurm.conf", "content": ""}], "expected a name in /etc/slurm"),
        ([{"name": "slurm.conf", "content": "SlurmctldHost=ctl"}], "this host calls itself"),
    ],
)
def test_files_that_are_none(tmp_path, files, why):
    result = run_module("slurm_config", files=files, partitions=[], work_directory=str(tmp_path))
    assert result["failed"]
    assert why in result["msg"]
    assert list(tmp_path.iterdir()) == []
