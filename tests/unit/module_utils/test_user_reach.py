"""Where users reach nodes besides the gate's own partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import Reservation
from ansible_collections.muster.cluster.plugins.module_utils.slurm.user_reach import reached_by_users

OPEN = {"State": "UP", "RootOnly": "NO", "Hidden": "NO", "AllowGroups": "ALL"}
ALL = ("n1", "n2", "n3")


@dataclass(frozen=True)
class Live:
    """What a controller answered."""

    live_partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    live_access: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)


def reached(live: Live) -> list[str]:
    """n1 is admitted; the gate holds batch, staff have ops."""
    return reached_by_users(live, {"n1"}, "acceptance", ["batch"], ["ops"])


def test_partition_of_others_that_lists_a_node_that_is_not_admitted() -> None:
    live = Live({"batch": ALL, "ops": ALL, "debug": ("n1", "n3"), "small": ("n1",)}, {"debug": OPEN, "small": OPEN})
    hint = "take the node out of it, or declare it in scheduler.staff_partitions if it is for staff alone"
    assert reached(live) == [f"partition debug lists n3, which is not admitted; {hint}"]
    assert reached(Live({"debug": ALL}))[0].startswith("partition debug lists n[2-3], which are not admitted")
    assert reached(Live()) == []


@pytest.mark.parametrize(
    ("access", "counts"),
    [
        ({}, True),
        ({"State": "DOWN"}, False),
        ({"State": "INACTIVE"}, False),
        # Jobs that wait are started there.
        ({"State": "DRAIN"}, True),
        ({"RootOnly": "YES"}, False),
        ({"Hidden": "YES"}, True),
        ({"AllowGroups": "ops"}, True),
        ({"AllowAccounts": "ops"}, True),
    ],
)
def test_which_partitions_count(access: dict[str, str], counts: bool) -> None:
    assert bool(reached(Live({"debug": ALL}, {"debug": {**OPEN, **access}}))) is counts


def test_own_test_partition_counts_once_others_may_use_it() -> None:
    assert reached(Live({"acceptance": ALL}, {"acceptance": {**OPEN, "AllowGroups": "muster"}})) == []
    (place,) = reached(Live({"acceptance": ALL}, {"acceptance": OPEN}))
    assert place.startswith("partition acceptance has AllowGroups=ALL, expected muster, and lists n[2-3]")
    assert reached(Live({"acceptance": ("n1",)}, {"acceptance": OPEN})) == []


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ({"users": ("ann",)}, True),
        ({"users": ("root", "ann")}, True),
        ({"users": ("root",)}, False),
        ({"users": ("root", "slurm", "muster")}, False),
        ({"users": ("root",), "accounts": ("phys",)}, True),
        ({"users": ("muster",), "groups": ("muster",)}, True),
        ({"accounts": ("phys",)}, True),
        ({"groups": ("phys",)}, True),
        # Everybody but one, and nobody by name.
        ({"users": ("-ann",)}, True),
        ({}, True),
        ({"users": ("ann",), "state": "INACTIVE"}, True),
        ({"users": ("ann",), "nodes": ("n1",)}, False),
        ({"users": ("ann",), "nodes": ()}, False),
    ],
)
def test_which_reservations_count(given: dict[str, tuple[str, ...]], counts: bool) -> None:
    live = Live(reservations={"course": Reservation(**{"nodes": ("n1", "n2"), **given})})  # type: ignore[arg-type]
    assert bool(reached(live)) is counts


def test_reservation_is_told_with_its_users_and_nodes() -> None:
    live = Live(reservations={"course": Reservation(("n2",), ("ann",), ("phys",))})
    told = "reservation course for ann, phys lists n2, which is not admitted; delete it, or take the node out of it"
    assert reached(live) == [told]


def test_what_cannot_be_read_counts_where_it_is_not_closed() -> None:
    why = {f"partition {name}": "garbled" for name in ("ib", "down", "ops", "batch")}
    access = {"ib": OPEN, "down": {**OPEN, "State": "DOWN"}, "ops": OPEN, "batch": OPEN}
    live = Live({}, access, {}, {**why, "reservation x": "cut", "reservations": "no answer", "node n2": "forged"})
    told = [place.partition(" cannot be read")[0] for place in reached(live)]
    assert told == ["partition ib", "reservation x", "reservations"]
