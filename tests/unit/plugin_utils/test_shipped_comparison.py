"""In what a fleet asks less than Muster ships: each kind of it is named, and what is as strict or stricter is not."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import read_expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError, plain
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import (
    expectations_of,
    shipped_classes,
    shipped_values,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.shipped_comparison import (
    LOWER_LIMITS,
    NOT_COMPARED,
    UPPER_LIMITS,
    is_among,
    limit_key,
    weaker_class,
    weaker_values,
)

from tests.fleets import small_fleet
from tests.placed import PLACED

INVENTORY = Path(__file__).parents[3] / "inventory"

BATCH: dict[str, Any] = {"partitions": [{"name": "batch", "default": True}]}


def weaker(policy: dict[str, Any] | None = None, own: dict[str, Any] | None = None) -> list[str]:
    fleet = small_fleet(4, policy=policy or {}, hardware_classes={"hgx_h100": own or {}})
    return list(fleet.weaker["hgx_h100"])


SHORT = {
    "burn_in_profile": "short",
    "burn_in_profiles": {"short": {"interval_seconds": 5, "steps": [{"seconds": 0.1}]}},
}
FLOOR = {"collective": "sendrecv", "nodes_min": 2, "size_bytes": 268435456, "busbw_gb_per_s": 45}

DIAGNOSTICS = (
    *("software", "memory", "pcie", "diagnostic", "memory_bandwidth", "targeted_stress", "targeted_power"),
    *("memtest", "pulse_test"),
)


def test_shipped_class_and_policy_are_not_weaker_than_themselves() -> None:
    assert weaker() == []


@pytest.mark.parametrize("file", ["example_infiniband/infiniband", "example_roce/roce"])
def test_examples_ask_for_all_that_is_shipped(file: str) -> None:
    assert set(Fleet.load(INVENTORY / f"{file}.fleet.yml").weaker.values()) == {()}


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_hook_that_is_left_out_is_named(hook: str) -> None:
    fleet = small_fleet(4, scheduler={**BATCH, "hooks": {hook: False}})
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
        ({}, {"dcgm": {"required": []}}, "class hgx_h100: dcgm.required lacks software at level 1"),
        (
            {},
            {"dcgm": {"required": [{"level": 4, "tests": DIAGNOSTICS}]}},
            "dcgm.required lacks memory, pcie at level 2",
        ),
        ({}, {"dcgm": {"required": [{"level": 2, "tests": ["pcie"]}]}}, "dcgm.required lacks memory at level 2"),
        ({}, {"disk": {"paths": []}}, "disk.paths has none for /var"),
        ({}, {"disk": {"paths": [{"path": "/var", "free_gib": 1}]}}, "disk.paths[/var].free_gib is 1, shipped 5"),
        ({}, {"kernel": {"command_line": {"required": []}}}, "kernel.command_line.required lacks iommu=pt"),
        ({}, {"kernel": {"command_line": {"forbidden": ["mem"]}}}, "forbidden lacks numa=off, mce=off, nomce, pci=no"),
        ({}, {"collective": {"backend": "gloo"}}, 'class hgx_h100: collective.backend is "gloo", shipped "nccl"'),
        ({}, {"affinity": {"nic_connection": "SYS"}}, 'affinity.nic_connection is "SYS", shipped "PXB"'),
        ({}, {"cpu": {"governor": "powersave"}}, 'cpu.governor is "powersave", shipped "performance"'),
        ({}, {"tools": {"root": "/stand-in"}}, 'class hgx_h100: tools.root is "/stand-in", shipped "/"'),
        ({}, {"collective": {"cohort": {"peers": 1000000}}}, "collective.cohort.peers is 1000000, shipped 8"),
        ({}, {"collective": {"budget_minutes": 5}}, "collective.budget_minutes is 5, shipped null"),
        ({}, {"rdma": {"queue_pairs": 8}}, "rdma.queue_pairs is 8, shipped 4"),
        ({}, {"collective": {"floors": [FLOOR]}}, "collective.floors has none for all_reduce 1 17179869184"),
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
    fleet = small_fleet(2, scheduler={**BATCH, "hooks": {"health": False}})
    assert fleet.weaker["hgx_h100"] == ("no health check is required in service",)


@pytest.mark.parametrize(
    ("scheduler", "said"),
    [
        (
            {"parameters": {"HealthCheckInterval": 86400}},
            "scheduler.parameters.HealthCheckInterval is 86400, shipped 300",
        ),
        (
            {"parameters": {"healthchecknodestate": "IDLE"}},
            "scheduler.parameters.HealthCheckNodeState is IDLE: nodes in other states are not checked",
        ),
        (
            {"parameters": {"PrologFlags": None}},
            "scheduler.parameters.PrologFlags lacks Alloc: a node is only checked when a job's first step is there",
        ),
        ({"ssh_access": "open"}, "ssh_access is open: users may log in to every node, also without a job there"),
        (
            {"ssh_access": "pam_slurm"},
            "ssh_access is pam_slurm, shipped pam_slurm_adopt: logins are outside the job's limits",
        ),
        ({"staff_partitions": ["ops", "lab"]}, "staff_partitions: nodes that are not admitted may be in ops, lab"),
    ],
)
def test_what_the_scheduler_lets_pass_is_named(scheduler: dict[str, Any], said: str) -> None:
    assert small_fleet(2, scheduler={**BATCH, **scheduler}).weaker["hgx_h100"] == (said,)


IN_DOMAINS = {
    "hgx_h100": {
        "nvlink": {"fabric_manager": False, "fabric_manager_log": None, "domain": {"hosts": 18, "imex": None}},
    }
}


@pytest.mark.parametrize(
    ("scheduler", "topology", "said"),
    [
        ({"version": "24.05"}, "block", ()),
        ({"version": "24.05", "topology": "block"}, "block", ()),
        ({"version": "24.05", "topology": "tree"}, "tree", ("topology is tree, shipped block",)),
        ({"version": "24.05", "topology": "none"}, "none", ("topology is none, shipped block",)),
        # Blocks must have as many nodes each.
        ({"version": "23.11"}, "tree", ()),
        ({"version": "23.11", "topology": "block"}, "block", ()),
        # Releases that have no blocks.
        ({"version": "23.02"}, "tree", ()),
        ({}, "tree", ()),
        ({"topology": "none"}, "none", ()),
    ],
)
def test_racks_that_are_nvlink_domains_are_blocks_unless_a_site_declares_others(
    scheduler: dict[str, Any], topology: str, said: tuple[str, ...]
) -> None:
    found = small_fleet(4, scheduler={**BATCH, **scheduler}, hardware_classes=IN_DOMAINS)
    assert found.scheduler.topology == topology
    weaker = [text.partition(":")[0] for text in found.weaker["hgx_h100"] if text.startswith("topology")]
    assert weaker == [*said]
    plainly = small_fleet(4, scheduler={**BATCH, **scheduler})
    assert plainly.scheduler.topology == scheduler.get("topology", "tree")
    assert [text for text in plainly.weaker["hgx_h100"] if text.startswith("topology")] == []


@pytest.mark.parametrize(
    "parameters",
    [
        {"HealthCheckInterval": 300},
        {"HealthCheckInterval": "60", "HealthCheckNodeState": "ANY"},
        {"PrologFlags": "Contain,X11"},
        {"KillWait": 5},
    ],
)
def test_what_the_scheduler_asks_as_well_is_not(parameters: dict[str, Any]) -> None:
    assert small_fleet(2, scheduler={**BATCH, "parameters": parameters}).weaker["hgx_h100"] == ()


def test_age_of_a_health_check_is_compared_with_the_shipped_one_whatever_the_interval() -> None:
    scheduler = {**BATCH, "parameters": {"HealthCheckInterval": 30}}
    for seconds, said in ((900, ()), (901, ("the last health check counts for 901 s, shipped 900",))):
        fleet = small_fleet(2, scheduler=scheduler, policy={"heartbeat_seconds": seconds})
        assert fleet.weaker["hgx_h100"] == said
    # Where Slurm runs none, somebody else has to.
    scheduler = {**BATCH, "hooks": {"health": False}}
    fleet = small_fleet(2, scheduler=scheduler, policy={"heartbeat_seconds": 1e9})
    assert fleet.weaker["hgx_h100"] == ("the last health check counts for 1e+09 s, shipped 900",)


def examined_every(seconds: float, profile: str) -> dict[str, Any]:
    steps = small_fleet(2).policy.to_dict()["burn_in_profiles"][profile]["steps"]
    return {"burn_in_profile": "own", "burn_in_profiles": {"own": {"interval_seconds": seconds, "steps": steps}}}


@pytest.mark.parametrize(("profile", "most"), [("standard", 60), ("full", 300)])
def test_burn_in_that_looks_more_seldom_than_a_shipped_one_which_does_as_much_is_named(
    profile: str, most: float
) -> None:
    assert weaker(examined_every(most, profile)) == []
    (said,) = weaker(examined_every(1e9, profile))
    assert said == f"burn-in profile own examines every 1e+09 s, shipped {most}"


def test_limits_of_storage_are_compared_with_the_shipped_ones() -> None:
    tier = {"name": "fast", "kind": "existing", "path": "/fast", "filesystem": "wekafs"}

    def said(target: float, **own: float) -> tuple[str, ...]:
        checkpoint = {"tier": "fast", "model": {"parameters": 1e9, "ranks": 8}, "target_seconds": target}
        storage = {"tiers": [{**tier, **own}], "checkpoint": checkpoint}
        return small_fleet(2, storage=storage).weaker["hgx_h100"]

    assert said(60) == said(30, write_ms=500, free_percent=10) == ()
    assert said(61, write_ms=1001, free_percent=4) == (
        "storage tier fast: write_ms is 1001, shipped 1000",
        "storage tier fast: free_percent is 4, shipped 5",
        "storage.checkpoint.target_seconds is 61, shipped 60",
    )


def test_cabling_that_is_declared_and_not_verified_is_named() -> None:
    fabric = {"kind": "roce", "speed_gbps": 400, "socket_interface": "bond0", "verify_cabling": False}
    unplanned, planned = fabric, {**fabric, "switches": [{"name": "leaf-1", "tier": "leaf", "system": "sonic"}]}
    rails = {
        "ports": "swp[1-16]",
        "switches": {"name": "leaf-1", "nodes_each": 2, "rails_each": 8},
    }
    nodes = [{"name": "gpu-[1-2]", "hardware_class": "hgx_h100", "address": "10.1.16.1", "rails": rails}]
    assert small_fleet(2, fabric=unplanned).weaker["hgx_h100"] == ()
    said = ("fabric.verify_cabling is false: no rail is held against the cabling plan",)
    assert small_fleet(2, fabric=planned, nodes=nodes).weaker["hgx_h100"] == said


@pytest.mark.parametrize(
    ("policy", "own"),
    [
        ({"burn_in_profile": "full"}, {}),
        ({"fresh_hours": {"burn_in": 24}}, {}),
        ({}, {"gpu": {"ecc": {"sram_correctable": 10}}}),
        ({}, {"nvbandwidth": {"spread_percent": 1}}),
        ({}, {"gpu": {"vbios": "96.00"}}),
        ({}, {"dcgm": {"eud_required": True}}),
        ({}, {"dcgm": {"required": [{"level": 1, "tests": [*DIAGNOSTICS, "context_create"]}]}}),
        ({}, {"disk": {"paths": [{"path": "/tmp", "free_gib": 1}, {"path": "/var", "free_gib": 6}]}}),
        ({}, {"kernel": {"command_line": {"required": ["pci=realloc", "iommu=pt"]}}}),
        ({}, {"nic": {"frontend": [{"interface": "eth0", "speed_gbps": 25, "mtu_bytes": None}]}}),
        ({}, {"pytorch": {"python": "/opt/site/bin/python"}, "nic": {"physical": {"tool": "mstlink"}}}),
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
    nodes = [{"name": "gpu-[01-02]", "hardware_class": "own", "address": "10.1.16.1"}]
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


def test_floor_for_larger_groups_takes_the_place_of_the_shipped_one() -> None:
    floors = shipped_values("hgx_h100")["collective"]["floors"]
    more = {"collective": "all_reduce", "nodes_min": 16, "size_bytes": 17179869184}
    said = ["class hgx_h100: collective.floors[all_reduce 16 17179869184].busbw_gb_per_s is 339, shipped 340"]
    for least, expected in ((340, []), (339, said)):
        own = [*floors, {**more, "busbw_gb_per_s": least}]
        assert weaker(own={"collective": {"floors": own}}) == expected
    # What is left holds for the groups that had a lower one of their own.
    few = [each for each in floors if (each["collective"], each["nodes_min"]) != ("all_to_all", 8)]
    assert weaker(own={"collective": {"floors": few}}) == []


def test_fewer_or_slower_parts_are_named_and_other_places_are_not() -> None:
    def said(name: str = "xe9680_h100", **nic: Any) -> tuple[str, ...]:
        whole = expectations_of(name, PLACED, "test")
        # Exact places would name rails that are not there.
        affinity = {**whole["affinity"], "parts": None}
        own = read_expectations({**whole, "nic": {**whole["nic"], **nic}, "affinity": affinity})
        found = (text.removeprefix(f"class {name}: ") for text in weaker_class(own, name))
        return tuple(text for text in found if text != "affinity.parts is not asked")

    rails = expectations_of("xe9680_h100", {}, "test")["nic"]["rails"]
    assert said(rails=[{**rail, "address": f"0000:{rail['rail']:02x}:00.0"} for rail in rails]) == ()
    assert said(rails=rails[:7]) == ("nic.rails has 7 entries, shipped 8",)
    ends = [{"interface": f"port{number}", "speed_gbps": 400, "mtu_bytes": None} for number in (1, 2, 3)]
    assert said("grand_teton_h100", frontend=ends) == ()
    assert said("grand_teton_h100", frontend=[{**ends[0], "speed_gbps": 100}, *ends[1:]]) == (
        "nic.frontend.speed_gbps is 100, shipped 400",
    )


def leaves(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield sections, lists, entries and values of a class with the way to each."""
    if place:
        yield place, data
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from leaves(value, (*place, key))


def key_of(place: tuple[Any, ...]) -> str:
    return ".".join(key for key in place if isinstance(key, str))


# Words of which a class may have one: what is no word of a key is refused.
WORDS = (
    *("cpu", "gloo", "nccl_tests", "SYS", "Ethernet", "InfiniBand", "redfish", "sendrecv", "all_gather"),
    *("/other", "x"),
)


def weakened(key: str, value: Any) -> Iterator[Any]:
    """Yield what asks less than a value of a class, or may do so."""
    yield None
    if isinstance(value, list):
        yield []
        # Without a floor for larger groups the higher one for smaller groups holds.
        if key != "collective.floors":
            yield from ([*value[:index], *value[index + 1 :]] for index in range(len(value)))
    elif isinstance(value, bool):
        if value:
            yield False
    elif isinstance(value, str):
        yield from (word for word in WORDS if word != value)
    elif isinstance(value, int | float):
        if not is_among(key, LOWER_LIMITS):
            yield value * 4 + 4
        if not is_among(key, UPPER_LIMITS):
            yield value // 4 if isinstance(value, int) else value / 4


def changed(data: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    own = copy.deepcopy(data)
    inner: Any = own
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return own


# What may be another one without a word: beside what the product does not compare, names and places of parts, and what
# a floor is for, as the test of larger groups says; a test that a lower level has already is asked more often.
NAMES = (
    *("nic.rails.*", "nic.frontend.interface", "gpu.parts.*"),
    *("collective.floors.collective", "collective.floors.nodes_min", "dcgm.required.level"),
)


@pytest.mark.parametrize("name", shipped_classes())
def test_every_value_of_a_class_that_is_weakened_is_named(name: str) -> None:
    whole = expectations_of(name, PLACED, "test")
    silent, tried = [], 0
    for place, value in leaves(whole):
        key = key_of(place)
        for other in weakened(key, value) if value is not None else ():
            if other == value or (is_among(key, (*NOT_COMPARED, *NAMES)) and other is not None):
                continue
            try:
                own = plain(read_expectations(changed(whole, place, other)))
            except ReadError:
                continue
            tried += 1
            if not any(weaker_values(whole, own)):
                silent.append((place, other))
    assert silent == []
    assert tried > 300


def test_every_pattern_is_of_a_key_of_a_shipped_class_and_says_one_thing_of_it() -> None:
    known = {key_of(place) for name in shipped_classes() for place, _ in leaves(expectations_of(name, PLACED, "test"))}
    for patterns in (UPPER_LIMITS, LOWER_LIMITS, NOT_COMPARED):
        assert [pattern for pattern in patterns if not any(is_among(key, [pattern]) for key in known)] == []
    assert [key for key in known if is_among(key, UPPER_LIMITS) and is_among(key, LOWER_LIMITS)] == []
    assert limit_key("disk.paths[/var].free_gib") == "disk.paths.free_gib"


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
