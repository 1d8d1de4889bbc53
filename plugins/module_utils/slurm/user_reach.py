"""Where users reach nodes besides the partitions of the gate: partitions of others, and reservations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from ..host.host_lists import fold, in_order
from .scontrol_output import Reservation

# In a partition of these states no job starts (scontrol(1)); in one that drains, those that wait still do.
_CLOSED = ("DOWN", "INACTIVE")
# Users that may have a reservation: Muster's own runs what a person may not.
_STAFF = frozenset({"root", "slurm", "muster"})
_MUSTER = "muster"


class LiveSlurm(Protocol):
    """What the controller has live: nodes and access by partition, reservations, and what could not be read."""

    @property
    def live_partitions(self) -> Mapping[str, Collection[str]]: ...

    @property
    def live_access(self) -> Mapping[str, Mapping[str, str]]: ...

    @property
    def reservations(self) -> Mapping[str, Reservation]: ...

    @property
    def unreadable(self) -> Mapping[str, str]: ...


def reached_by_users(
    live: LiveSlurm, may_reach: Collection[str], test_partition: str, managed: Collection[str], staff: Collection[str]
) -> list[str]:
    """Return one text for each place besides the gate where users reach a node that is none of ``may_reach``.

    ``managed`` are the partitions that the gate itself holds, ``staff`` those that the fleet file declares for staff. A
    place that cannot be read counts. Where the controller did not answer there is none; the caller knows that.
    """
    names = {*live.live_access, *live.live_partitions} - {*managed, *staff}
    places = [
        *(_partition(name, live, set(may_reach), test_partition) for name in sorted(names)),
        *(_reservation(name, each, set(may_reach)) for name, each in sorted(live.reservations.items())),
        *(
            f"{what} cannot be read, so that nodes may be open there: {why}"
            for what, why in sorted(live.unreadable.items())
            if what.startswith("reservation")
        ),
    ]
    return [place for place in places if place]


def _partition(name: str, live: LiveSlurm, may_reach: set[str], test_partition: str) -> str:
    """Return how users reach such a node in a partition, nothing where they do not."""
    access = live.live_access.get(name, {})
    if access.get("State") in _CLOSED or access.get("RootOnly") == "YES":
        return ""
    groups = access.get("AllowGroups", _MUSTER)
    if name == test_partition and groups == _MUSTER:
        return ""
    if trouble := live.unreadable.get(f"partition {name}"):
        return f"partition {name} cannot be read, so that nodes may be open there: {trouble}"
    found = set(live.live_partitions.get(name, ())) - may_reach
    if not found:
        return ""
    if name == test_partition:
        return f"partition {name} has AllowGroups={groups}, expected {_MUSTER}, and {_lists(found)}"
    hint = "take the node out of it, or declare it in scheduler.staff_partitions if it is for staff alone"
    return f"partition {name} {_lists(found)}; {hint}"


def _reservation(name: str, reservation: Reservation, may_reach: set[str]) -> str:
    """Return how users reach such a node by a reservation, nothing where they do not."""
    found = set(reservation.nodes) - may_reach
    others = (*reservation.accounts, *reservation.groups, *(set(reservation.users) - _STAFF))
    if not found or (reservation.users and not others):
        return ""
    whom = ", ".join((*reservation.users, *reservation.accounts, *reservation.groups)) or "nobody by name"
    return f"reservation {name} for {whom} {_lists(found)}; delete it, or take the node out of it"


def _lists(names: set[str]) -> str:
    return f"lists {fold(in_order(names))}, which {'is' if len(names) == 1 else 'are'} not admitted"
