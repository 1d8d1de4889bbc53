"""In what a fleet asks less than Muster ships: each kind of it is named, and what is as strict or stricter is not."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import (
    expectations_of,
    shipped_classes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.shipped_comparison import UPPER_LIMITS

from tests.fleets import small_fleet


def weaker(policy: dict[str, Any] | None = None, own: dict[str, Any] | None = None) -> list[str]:
    fleet = small_fleet(4, policy=policy or {}, hardware_classes={"hgx_h100": own or {}})
    return list(fleet.weaker["hgx_h100"])


SHORT = {
    "burn_in_profile": "short",
    "burn_in_profiles": {"short": {"interval_seconds": 5, "steps": [{"seconds": 0.1}]}},
}
FLOOR = {"collective": "sendrecv", "nodes_min": 2, "size_bytes": 268435456}


def test_shipped_class_and_policy_are_not_weaker_than_themselves() -> None:
    assert weaker() == []


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_hook_that_is_left_out_is_named(hook: str) -> None:
    fleet = small_fleet(4, scheduler={"partitions": [{"name": "batch", "default": True}], "hooks": {hook: False}})
    (said,) = fleet.weaker["hgx_h100"]
    assert said.startswith(f"hooks.{hook} is false")


@pytest.mark.parametrize(
    ("policy", "own", "said"),
    [
        ({"stages": ["preflight", "burn_in", "fabric"]}, {}, "stage acceptance is not required"),
        (SHORT, {}, "burn-in profile short does less than standard: time in all: 0.1 of 12720 s"),
        ({"fresh_hours": {"burn_in": 1e9}}, {}, "evidence of burn_in counts for 1e+09 h, shipped 720"),
        ({}, {"dcgm": None}, "class hgx_h100: dcgm is not asked"),
        ({}, {"gpu": {"row_remap": None}}, "class hgx_h100: gpu.row_remap is not asked"),
        ({}, {"gpu": {"persistence": False}}, "class hgx_h100: gpu.persistence is false, shipped true"),
        ({}, {"gpu": {"ecc": {"sram_correctable": 20000}}}, "gpu.ecc.sram_correctable is 20000, shipped 10000"),
        ({}, {"memory": {"tolerance_percent": 50}}, "memory.tolerance_percent is 50, shipped"),
        ({}, {"rdma": {"bandwidth_percent": 50}}, "rdma.bandwidth_percent is 50, shipped 96"),
        ({}, {"nvbandwidth": {"floors": []}}, "nvbandwidth.floors has none for host_to_device_memcpy_ce"),
        (
            {},
            {"collective": {"floors": [{**FLOOR, "busbw_gb_per_s": 25}]}},
            "the floor of sendrecv is 25 GB/s, a rail of 400 Gb/s carries 50",
        ),
    ],
)
def test_what_is_weaker_is_named(policy: dict[str, Any], own: dict[str, Any], said: str) -> None:
    assert any(said in text for text in weaker(policy, own)), weaker(policy, own)


def test_nodes_without_a_health_check_in_service_are_told() -> None:
    scheduler = {"partitions": [{"name": "batch", "default": True}], "hooks": {"health": False}}
    assert small_fleet(2, scheduler=scheduler).weaker["hgx_h100"] == ("no health check is required in service",)


@pytest.mark.parametrize(
    ("policy", "own"),
    [
        ({"burn_in_profile": "full"}, {}),
        ({"fresh_hours": {"burn_in": 24}}, {}),
        ({}, {"gpu": {"ecc": {"sram_correctable": 10}}}),
        ({}, {"nvbandwidth": {"spread_percent": 1}}),
        ({}, {"gpu": {"vbios": "96.00"}}),
    ],
)
def test_what_is_stricter_is_not(policy: dict[str, Any], own: dict[str, Any]) -> None:
    assert weaker(policy, own) == []


def test_class_that_comes_from_no_shipped_one_says_that_there_is_nothing_to_compare_it_with() -> None:
    fleet = small_fleet(2)
    variables = {**fleet.variables(), "nodes": fleet.node_variables()}
    assert Fleet.from_variables(variables).weaker["hgx_h100"] == ()
    own = Fleet.from_variables({**variables, "bases": {"hgx_h100": None}})
    assert own.weaker["hgx_h100"] == ("class hgx_h100 comes from no shipped class that it could be compared with",)


def test_class_is_compared_with_the_shipped_one_that_it_extends() -> None:
    classes = {"first": {"extends": "hgx_h100", "dcgm": None}, "own": {"extends": "first"}}
    nodes = [
        {"name": "gpu-[01-02]", "hardware_class": "own", "address": "10.1.16.1", "rails": {"devices": "mlx5_[0-7]"}}
    ]
    assert small_fleet(2, hardware_classes=classes, nodes=nodes).weaker["own"] == ("class own: dcgm is not asked",)


@pytest.mark.parametrize("key", ["burn_in_profiles", "latency_profiles"])
def test_shipped_profile_cannot_be_redefined(key: str) -> None:
    shipped = small_fleet(2).policy.to_dict()[key]
    name, profile = next(iter(shipped.items()))
    # The very same is what a fleet that was read once says.
    assert small_fleet(2, policy={key: {name: profile}}).policy.to_dict()[key] == shipped
    other = (
        {"interval_seconds": 5, "steps": [{"seconds": 0.1}]}
        if key == "burn_in_profiles"
        else dict(profile, limits=[{"gpus": 16, "microseconds": 1e6}])
    )
    with pytest.raises(FleetError, match=rf"policy\.{key}\.{name}: found another profile, expected a name of its own"):
        small_fleet(2, policy={key: {name: other}})


def paths(data: Any, place: str = "") -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield f"{place}{key}"
            yield from paths(value, f"{place}{key}.")


def test_every_upper_limit_is_a_key_of_a_shipped_class() -> None:
    known = {path for name in shipped_classes() for path in paths(expectations_of(name, {}, "test"))}
    unknown = [pattern for pattern in UPPER_LIMITS if not any(fnmatchcase(path, pattern) for path in known)]
    assert unknown == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"until": "soon"}, r'waivers\[0\]\.until: found "soon", expected a day such as 2027-01-31'),
        ({"who": None}, r"waivers\[0\]\.who"),
        ({"reason": ""}, r"waivers\[0\]\.reason"),
        ({"nodes": "gpu-[2-1]"}, r"waivers\[0\]\.nodes"),
    ],
)
def test_wrong_waiver_is_refused_with_its_key(change: dict[str, Any], said: str) -> None:
    waiver = {"check": "clock", "nodes": "gpu-[01-02]", "reason": "x", "who": "ann", "until": "2027-01-31"}
    with pytest.raises(FleetError, match=said):
        small_fleet(2, policy={"waivers": [{**waiver, **change}]})
