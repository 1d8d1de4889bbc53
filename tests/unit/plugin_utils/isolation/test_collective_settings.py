"""What a class asks of its collectives: read whole, or refused with key, found and expected."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_tests import NcclTestsError, parse_nccl_tests
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import (
    expectations_of,
    shipped_classes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import (
    Settings,
    bus_bandwidth,
    most_of,
    size_text,
)

from tests.fleets import collectives
from tests.placed import PLACED
from tests.recorded.judged import RECORDED
from tests.typed import typed

MIB = 2**20
EXPECT: dict[str, Any] = {
    "ranks_per_node": 8,
    "step_seconds": 180,
    "pairs": {"sizes_bytes": [65536, 256 * MIB], "iterations": 20, "warmup": 3, "seconds": 1},
    "groups": {
        "collectives": ["all_reduce", "all_gather"],
        "sizes_bytes": [8, 1024 * MIB],
        "iterations": 20,
        "warmup": 5,
    },
    "train": {"hidden": 64, "layers": 2, "steps": 10},
    "floors": [
        {"collective": "sendrecv", "nodes_min": 2, "size_bytes": 256 * MIB, "busbw_gb_per_s": 40},
        {"collective": "all_reduce", "nodes_min": 1, "size_bytes": 1024 * MIB, "busbw_gb_per_s": 450},
        {"collective": "all_reduce", "nodes_min": 2, "size_bytes": 1024 * MIB, "busbw_gb_per_s": 400},
        {"collective": "all_reduce", "nodes_min": 4, "size_bytes": 1024 * MIB, "busbw_gb_per_s": 340},
    ],
    "latency": [{"collective": "all_reduce", "nodes_min": 2, "size_bytes": 8, "microseconds": 60}],
    "cohort": {"peers": 8, "margin": 0.05, "smallest": 0.1},
    "hold": {"nodes": 2, "share": 0.2},
    "straggler": {"p99_over_p50": 1.5, "last_share": 0.3},
    "budget_minutes": None,
}
INSIDE = {"collective": "all_reduce", "nodes_min": 1, "size_bytes": 16, "microseconds": 60}


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the expectations with one key set, or without it where the value is Ellipsis."""
    expect = copy.deepcopy(EXPECT)
    *above, key = path.split(".")
    section: Any = expect
    for name in above:
        section = section[int(name) if name.isdigit() else name]
    if value is ...:
        del section[key]
    else:
        section[int(key) if key.isdigit() else key] = value
    return expect


def test_settings_are_read_whole() -> None:
    settings = Settings.of(collectives(EXPECT), {"n1": {"rack": "r1", "pod": None}})
    assert settings.fault() == ""
    assert settings.pairs.sizes_bytes == (65536, 256 * MIB)
    assert settings.groups.collectives == ("all_reduce", "all_gather")
    assert (settings.cohort.margin, settings.hold.share, settings.budget_minutes) == (0.05, 0.2, None)
    assert settings.checks() == (
        *("pair_bandwidth", "rail_bandwidth", "pair_latency", "data", "group_bandwidth", "group_latency"),
        *("straggler", "train"),
    )


def test_checks_are_those_that_the_class_can_answer() -> None:
    expect = {**EXPECT, "ranks_per_node": 1, "straggler": None, "train": None, "latency": []}
    expect["pairs"] = {**EXPECT["pairs"], "sizes_bytes": [256 * MIB]}
    assert Settings.of(collectives(expect)).checks() == ("pair_bandwidth", "data", "group_bandwidth")


@pytest.mark.parametrize(
    ("nodes", "floor"),
    [(1, 450), (2, 400), (3, 400), (4, 340), (500, 340)],
)
def test_floor_of_the_largest_groups_that_are_not_larger_holds(nodes: int, floor: float) -> None:
    assert Settings.of(collectives(EXPECT)).floor("all_reduce", nodes, 1024 * MIB) == floor


def test_what_holds_inside_a_node_says_nothing_between_nodes() -> None:
    expect = changed("floors", EXPECT["floors"][:2])
    assert Settings.of(collectives(expect)).floor("all_reduce", 2, 1024 * MIB) is None


def test_healthy_is_what_floor_or_baseline_ask_for() -> None:
    key = ("sendrecv", 2, 256 * MIB)
    assert Settings.of(collectives(EXPECT)).healthy(2, 256 * MIB) == pytest.approx(40 / 0.95)
    assert Settings.of(collectives(EXPECT), {}, {key: 46.0}).healthy(2, 256 * MIB) == 46.0
    assert Settings.of(collectives(EXPECT), {}, {key: 30.0}).healthy(2, 256 * MIB) == pytest.approx(40 / 0.95)
    assert Settings.of(collectives(EXPECT)).healthy(2, 65536) is None


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("ranks_per_node", 0, "collective.ranks_per_node: found 0, expected a whole number of at least 1"),
        ("ranks_per_node", True, "collective.ranks_per_node: found true"),
        ("step_seconds", ..., "collective.step_seconds: found nothing"),
        ("step_seconds", -1, "collective.step_seconds: found -1, expected a number above 0"),
        ("pairs", [], "collective.pairs: found an empty list, expected a mapping"),
        ("pairs.sizes_bytes", [], "collective.pairs.sizes_bytes: found an empty list, expected multiples of 4 bytes"),
        ("pairs.sizes_bytes", [8, "9"], 'collective.pairs.sizes_bytes[1]: found "9"'),
        ("pairs.seconds", float("nan"), "collective.pairs.seconds: found NaN"),
        ("groups.collectives", ["gossip"], 'groups.collectives[0]: found "gossip", expected one of all_reduce'),
        ("floors", {}, "collective.floors: found a mapping, expected a list"),
        ("floors.0", 7, "collective.floors[0]: found 7, expected a mapping"),
        ("floors.0.busbw_gb_per_s", 0, "collective.floors[0].busbw_gb_per_s: found 0, expected a number above 0"),
        ("floors.0.size_bytes", 4096, "floors[0].size_bytes: found 4096, expected one of collective.pairs.sizes_bytes"),
        ("floors.1.collective", "all_to_all", "expected one of collective.groups.collectives"),
        ("latency.0.microseconds", ..., "collective.latency[0].microseconds: found nothing"),
        ("latency.0.size_bytes", 16, "latency[0].size_bytes: found 16, expected one of collective.groups.sizes_bytes"),
        ("cohort.margin", 1.5, "collective.cohort.smallest: found 0.1, expected at least the margin 1.5"),
        ("cohort.smallest", 0.01, "collective.cohort.smallest: found 0.01, expected at least the margin 0.05"),
        ("cohort.peers", 1, "collective.cohort.peers: found 1, expected a whole number of at least 2"),
        ("hold.share", "half", 'collective.hold.share: found "half"'),
        ("hold.share", 1, "collective.hold.share: found 1, expected a number above 0 and below 1"),
        ("straggler", 3, "collective.straggler: found 3, expected a mapping"),
        ("straggler.last_share", 1.5, "straggler.last_share: found 1.5, expected a number above 0 and below 1"),
        ("train", 3, "collective.train: found 3, expected a mapping, or null"),
        ("budget_minutes", 0, "collective.budget_minutes: found 0, expected a number above 0"),
    ],
)
def test_settings_that_cannot_be_read_name_key_found_and_expected(path: str, value: Any, said: str) -> None:
    with pytest.raises(ReadError) as raised:
        Settings.of(collectives(changed(path, value)))
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("floors", [], "no sendrecv floor for two nodes"),
        ("floors.1.size_bytes", 4096, "a floor for all_reduce at 4 KiB, which is not in groups.sizes_bytes"),
        ("latency", [INSIDE], "the latency of all_reduce at 16 B, which is not measured"),
    ],
)
def test_settings_by_which_nothing_can_be_judged_say_why(path: str, value: Any, said: str) -> None:
    assert said in Settings.of(collectives(changed(path, value))).fault()


@pytest.mark.parametrize(
    ("collective", "factor"),
    [("all_reduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("all_to_all", 0.75), ("sendrecv", 1.0)],
)
def test_bus_bandwidth_is_that_of_nccl_tests(collective: str, factor: float) -> None:
    assert bus_bandwidth(collective, 4, 10**9, 1.0) == pytest.approx(factor)


@pytest.mark.parametrize(("size", "text"), [(8, "8 B"), (65536, "64 KiB"), (MIB, "1 MiB"), (16 * 2**30, "16 GiB")])
def test_size_as_people_write_it(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("name", "override", "most"),
    [
        # Eighteen links of 26.562 GB/s and 16 lanes of 4 GB/s, twice.
        ("hgx_h100", {}, 1084.232),
        ("hgx_h200", {}, 1084.232),
        # A third as fast.
        ("a100", {"nvlink": {"links": 12, "link_gb_per_s": 25}, "gpu": {"pcie_generation": 4}}, 664),
        # gloo goes over what is no GPU's.
        ("lab_h100", {}, None),
        ("cpu", {"gpu": None}, None),
        # Not declared: perhaps a bridge joins them.
        ("pcie", {"nvlink": None}, None),
    ],
)
def test_most_that_links_carry(name: str, override: dict[str, Any], most: float | None) -> None:
    own = {**PLACED, name: {"extends": "hgx_h100", **override}} if override else PLACED
    assert most_of(typed(expectations_of(name, own, "test"))) == (most and pytest.approx(most))


@pytest.mark.parametrize("name", shipped_classes())
def test_floors_of_shipped_classes_can_be_reached(name: str) -> None:
    expect = typed(expectations_of(name, PLACED, "test"))
    most = most_of(expect)
    assert most is None or all(2 * floor.busbw_gb_per_s < most for floor in expect.collective.floors)


def test_no_recorded_report_of_sound_h100_is_faster_than_its_links() -> None:
    if not RECORDED.is_dir():
        pytest.skip(f"no recorded outputs at {RECORDED}")
    most = most_of(typed(expectations_of("hgx_h100", PLACED, "test")))
    fastest: dict[str, float] = {}
    for path in sorted((RECORDED / "nccl-tests").iterdir()):
        try:
            rows = parse_nccl_tests(path.read_text(encoding="utf-8", errors="replace")).rows
        except NcclTestsError:
            continue
        fastest[path.name] = max(float(side.busbw) for row in rows for side in row.sides)
    # The fastest are 483 GB/s over NVLink in one host and 471 between two; a rack of GB200, with links of twice the
    # speed, has 847.
    assert most is not None and max(fastest.values()) < most
    # A copy in the memory of one H100 is faster: half of what its memory reads and writes, counted as of 16 ranks.
    copied = typed(expectations_of("hgx_h100", PLACED, "test")).gpu_stress
    assert copied is not None and copied.memory_copy_floor_gb_per_s / 2 * 15 / 8 > 2 * most
