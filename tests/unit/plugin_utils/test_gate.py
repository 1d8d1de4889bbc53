"""The gate: exactly the admitted nodes, and no mass close without a reason."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.gate import (
    closes_of,
    mass_close,
    only_closing,
    wanted_partitions,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import Partition

PARTITIONS = [Partition("batch", True, None, {"MaxTime": "1-0"}), Partition("h100", False, ("hgx_h100",))]
CLASSES = {"n1": "hgx_h100", "n2": "lab_h100", "n3": "hgx_h100"}


def partition(*nodes: str) -> list[dict[str, Any]]:
    return [{"name": "batch", "default": True, "nodes": list(nodes), "parameters": {}}]


def names(count: int) -> list[str]:
    return [f"n{number:03}" for number in range(count)]


def test_partitions_list_admitted_nodes_of_their_classes() -> None:
    states = {"n1": "admitted", "n2": "admitted", "n3": "rejected", "gone": "admitted"}
    assert wanted_partitions(states, PARTITIONS, CLASSES) == [
        {"name": "batch", "default": True, "nodes": ["n1", "n2"], "parameters": {"MaxTime": "1-0"}},
        {"name": "h100", "default": False, "nodes": ["n1"], "parameters": {}},
    ]


@pytest.mark.parametrize(
    "state", ["new", "testing", "held", "rejected", "quarantined", "spare", "retired", "", "ADMITTED"]
)
def test_no_other_state_opens(state: str) -> None:
    assert all(not each["nodes"] for each in wanted_partitions(dict.fromkeys(CLASSES, state), PARTITIONS, CLASSES))


def test_nothing_known_opens_nothing() -> None:
    assert [each["nodes"] for each in wanted_partitions({}, PARTITIONS, CLASSES)] == [[], []]


def test_only_closing_opens_nothing() -> None:
    assert only_closing(partition("n1", "n2"), {"batch": ["n2", "n3"]})[0]["nodes"] == ["n2"]
    assert only_closing(partition("n1"), {})[0]["nodes"] == []


def test_closes_include_a_partition_that_is_no_longer_declared() -> None:
    assert closes_of(partition("n1"), {"batch": ["n1"], "old": ["n2"]}) == {"old": ["n2"]}


@pytest.mark.parametrize(
    ("open_count", "closed", "limit", "stops"),
    [
        (10, 2, 20, False),
        (10, 3, 20, True),
        (9, 2, 20, True),
        (2, 1, 20, False),
        (2, 2, 20, True),
        (1, 1, 0, False),
        (3072, 614, 20, False),
        (3072, 615, 20, True),
        (10, 10, 100, False),
        (4, 1, 0, False),
        (4, 2, 0, True),
        (4, 0, 0, False),
    ],
)
def test_breaker_on_both_sides_of_its_limits(open_count: int, closed: int, limit: float, stops: bool) -> None:
    nodes = names(open_count)
    why = mass_close(partition(*nodes[closed:]), {"batch": nodes}, (), limit)
    assert bool(why) == stops
    if stops:
        assert "admit_allow_mass_close=true" in why and f"{closed} of {open_count}" in why


def test_confirmed_closes_do_not_count() -> None:
    nodes = names(10)
    assert not mass_close(partition(), {"batch": nodes}, set(nodes), 20)
    assert not mass_close(partition(), {"batch": nodes}, set(nodes[2:]), 20)
    assert mass_close(partition(), {"batch": nodes}, set(nodes[3:]), 20)


def test_each_partition_has_its_own_breaker() -> None:
    wanted = [*partition(*names(20)), {"name": "small", "default": False, "nodes": [], "parameters": {}}]
    assert mass_close(wanted, {"batch": names(20), "small": ["n000", "n001"]}, (), 20).startswith("partition small")
