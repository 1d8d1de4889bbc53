"""The live fabric as it was seen: which port reaches which, in what state, with how many errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.cabling_plan import End


class UnreadableError(MusterError, ValueError):
    """What a tool printed says nothing for certain about the fabric."""


class LivePort(NamedTuple):
    """One port: its peer (None: linked to nothing), state such as ``Active/LinkUp``, lanes, Gb/s of all lanes.

    None stands for what was not reported.
    """

    peer: End | None
    state: str | None = None
    lanes: int | None = None
    gbps: float | None = None
    speed: str = ""


@dataclass(frozen=True)
class LiveFabric:
    """What was seen of a fabric, in the names of the plan.

    ``ports`` has every port that was asked. ``examined`` names the hosts and switches that were, None means all there
    are: what is not among the ports is not in the fabric. ``physical`` says whether state, lanes, speed and error
    counters were asked too. ``doubtful`` has ends of which nothing can be said, with the reason; ``unread`` what else
    could not be read: nothing passes while there is any.
    """

    ports: Mapping[End, LivePort]
    errors: Mapping[End, Mapping[str, int]] = field(default_factory=dict)
    examined: frozenset[str] | None = None
    hosts: frozenset[str] = frozenset()
    physical: bool = True
    doubtful: Mapping[End, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
