"""Does every rail's RoCE port show what the fabric declares: trust, PFC, DCQCN, marks, MTU, rings, buffers?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..nic.declared_nics import roce_ports
from ..roce.decide import BACKENDS, differences, problems, shown, unsupported, wanted
from ..roce.port import PortError, place_of, state_of
from ..roce.settings import PortSettings
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "roce_settings"
RULES = 2
PROBES: tuple[str, ...] = ("roce_port",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NIC parts of the rails, none where the fabric is no RoCE."""
    return list(roce_ports(expect))


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge every rail by itself; a finding names all that is wrong with one."""
    return [_finding(subject, port, values["roce_port"]) for subject, port in roce_ports(expect).items()]


def _finding(subject: str, port: PortSettings, outputs: Mapping[str, Any]) -> Finding:
    values = wanted(port)
    everything = f"{len(values)} settings"
    if impossible := unsupported(port):
        return Finding(NAME, subject, FAIL, None, everything, "", "; ".join(impossible), "investigate")
    try:
        place = place_of(port, outputs)
    except PortError as exc:
        return Finding(NAME, subject, FAIL, "absent", port.address, "", str(exc), "investigate")
    state = state_of(place, outputs, BACKENDS[port.backend], frozenset(values))
    wrong = differences(port, state)
    if not wrong:
        return Finding(NAME, subject, PASS, everything, everything)
    told = [name for name in wrong if name not in state.unread]
    verdict, name = (FAIL, told[0]) if told else (INCOMPLETE, next(iter(wrong)))
    found = shown(state.values[name]) if told else None
    return Finding(
        NAME, subject, verdict, found, shown(wrong[name]), "", "; ".join(problems(port, state)), "investigate"
    )
