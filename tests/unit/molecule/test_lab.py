"""What lab.py makes of an inventory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lab
import pytest


def inventory(**variables: Any) -> dict[str, Any]:
    common = {"muster_fleet": {"cluster": "lab"}, "lab_subnet": "10.77.0.0/24"}
    return {
        "compute": {"hosts": ["gpu-01"]},
        "_meta": {
            "hostvars": {
                "ctl": {**common, "ansible_host": "10.77.0.10"},
                "gpu-01": {**common, "ansible_host": "10.77.0.11", **variables},
            }
        },
    }


def test_hosts_come_from_the_inventory() -> None:
    found = lab.lab_of(inventory(lab_network_mbps=200))
    assert [(host.container, host.address, host.compute) for host in found.hosts] == [
        ("lab-ctl", "10.77.0.10", False),
        ("lab-gpu-01", "10.77.0.11", True),
    ]
    assert found.host("gpu-01").state["network_mbps"] == 200


def test_gpus_lie_where_the_hardware_class_says() -> None:
    parts = [{"slot": "SXM1", "address": "0000:1b:00.0"}]
    found = lab.lab_of(inventory(muster_expect={"gpu": {"parts": parts}}))
    assert [gpu["address"] for gpu in found.host("gpu-01").state["gpus"]] == ["0000:1b:00.0"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "the inventory has no hosts"),
        ({"_meta": {"hostvars": {"ctl": {}}}}, "inventory host ctl: no variable 'muster_fleet'"),
        (inventory(lab_state={"gpu": 1}), "inventory host gpu-01: unknown state gpu"),
        (
            inventory(lab_suite="jammy"),
            "inventory host gpu-01: lab_suite jammy, expected one of bookworm, trixie, noble",
        ),
    ],
)
def test_an_inventory_that_says_too_little_is_refused(content: dict[str, Any], said: str) -> None:
    with pytest.raises(lab.LabError, match=said):
        lab.lab_of(content)


def test_a_host_that_is_not_declared_is_refused() -> None:
    with pytest.raises(lab.LabError, match="no host gpu-09 in the inventory, found ctl, gpu-01"):
        lab.lab_of(inventory()).host("gpu-09")


def test_every_address_has_a_hardware_address_of_its_own() -> None:
    assert lab.mac_of("10.77.0.11") == "02:4d:0a:4d:00:0b"


def test_hosts_that_share_a_directory_see_the_same_one() -> None:
    places = [
        [argument for argument in lab.run_arguments(host, "image") if argument.endswith(":/srv/state")]
        for host in lab.lab_of(inventory(lab_shared="/srv/state")).hosts
    ]
    assert places == [[], [f"--volume={lab.BUILD / 'shared'}:/srv/state"]]


@pytest.mark.parametrize(
    ("name", "ports", "abandoned"),
    [
        ("mlab-00c0ffee", [], True),
        ("mlab-00c0ffee", ["veth0"], False),
        ("br0", [], False),
        ("mlab-00c0ffee", None, False),
    ],
)
def test_only_a_lab_bridge_without_hosts_is_abandoned(
    tmp_path: Path, name: str, ports: list[str] | None, abandoned: bool
) -> None:
    interface = tmp_path / name
    interface.mkdir()
    if ports is not None:
        (interface / "brif").mkdir()
        for port in ports:
            (interface / "brif" / port).touch()
    assert lab.is_abandoned(interface) is abandoned
