"""Has every rail a RoCE v2 GID with an IPv4 address of its interface, by which its peers reach it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..nic.declared_nics import roce_ports
from ..roce.decide import BACKENDS, missing_gid
from ..roce.port import PortError, place_of, state_of, unread_gid
from ..roce.settings import PortSettings
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "roce_gid"
RULES = 2
PROBES: tuple[str, ...] = ("roce_port",)
_WANTED = "RoCE v2, IPv4"


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NIC parts of the rails, none where the fabric is no RoCE."""
    return list(roce_ports(expect))


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge every rail by itself."""
    return [_finding(subject, port, values["roce_port"]) for subject, port in roce_ports(expect).items()]


def _finding(subject: str, port: PortSettings, outputs: Mapping[str, Any]) -> Finding:
    try:
        place = place_of(port, outputs)
    except PortError as exc:
        return Finding(NAME, subject, FAIL, "absent", _WANTED, "", str(exc), "investigate")
    state = state_of(place, outputs, BACKENDS[port.backend], frozenset())
    if not (why := missing_gid(port, state)):
        return Finding(NAME, subject, PASS, _WANTED, _WANTED)
    if unread := unread_gid(place.device, outputs):
        return Finding(NAME, subject, INCOMPLETE, None, _WANTED, "", f"{why}; {unread}", "investigate")
    return Finding(NAME, subject, FAIL, "none", _WANTED, "", why, "investigate")
