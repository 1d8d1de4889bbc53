"""``/var/lib/muster/health.json``: what the last health run found, and how far it had read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations
from ..words.finding import VERDICTS, Finding

NAME = "heartbeat"
PATH = "/var/lib/muster/health.json"
FORMAT = 1
FINDINGS = ("findings", "waived")
# Stands for a file that is not there yet; an empty one is a fault.
NONE = "none\n"


@dataclass(frozen=True)
class Heartbeat:
    """One health run.

    ``time`` and ``counters_time`` are seconds since the epoch; ``findings`` are those that did not pass, ``waived``
    what did not pass and is accepted on this node. ``counters`` are the error counters by which growth is measured,
    read at ``counters_time``. ``log_seconds`` is the uptime of the last kernel message that was judged; ``log_lost``
    says that messages were lost and nobody has read the whole log since. ``service_time`` is when Slurm ran the check
    last, 0 for never; ``evidence_id`` names the evidence that holds the findings, ``drain`` the reason with which the
    node is to be drained, or was and has still to be given back.
    """

    time: float
    boot_id: str
    verdict: str
    findings: tuple[Finding, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    counters_time: float = 0.0
    log_seconds: float = 0.0
    log_lost: bool = False
    root: str = "/"
    service_time: float = 0.0
    evidence_id: str = ""
    drain: str = ""
    waived: tuple[Finding, ...] = ()

    def to_json(self) -> str:
        """Return the file's text."""
        findings = {key: [finding.to_dict() for finding in getattr(self, key)] for key in FINDINGS}
        data = {**self.__dict__, "format": FORMAT, **findings}
        return json.dumps(data, indent=1, sort_keys=True) + "\n"


def collect(host: Host, expect: Expectations) -> Output:
    """Read the file once; that there is none yet is no error."""
    return host.read(PATH) if host.paths(PATH) else Output(NONE)


def parse(output: Output) -> Heartbeat | None:
    """Return the last run, None before the first one; raises Unreadable."""
    if output.rc != 0:
        raise Unreadable(f"exit status {output.rc}: {output.error or output.stderr}")
    if output.stdout == NONE:
        return None
    try:
        data = json.loads(output.stdout)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"{PATH} is not JSON: {exc}") from exc
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, Mapping) else type(data).__name__
        raise Unreadable(f"{PATH}: format is {found!r}, expected {FORMAT}")
    number, kinds = (int, float), Heartbeat.__dataclass_fields__
    expected: dict[str, Any] = {
        **{"time": number, "counters_time": number, "log_seconds": number, "boot_id": str, "verdict": str},
        **{"findings": list, "counters": Mapping, "log_lost": bool, "root": str},
        **{"service_time": number, "evidence_id": str, "drain": str, "waived": list},
    }
    # Written by a program that knew less: an upgrade must not make every node of a cluster unreadable at once.
    data = {"service_time": 0.0, "evidence_id": "", "drain": "", "waived": [], **data}
    for key in kinds:
        value = data.get(key)
        if not isinstance(value, expected[key]) or (isinstance(value, bool) and key != "log_lost") or value != value:  # noqa: PLR0124
            raise Unreadable(f"{PATH}: {key} is {value!r}, which is of another kind than expected")
    times = [data[key] for key in ("time", "counters_time", "log_seconds", "service_time")]
    if not data["time"] > 0 or not all(0 <= time < math.inf for time in times):
        raise Unreadable(f"{PATH}: times {times!r}, expected seconds since the epoch and of uptime")
    if data["verdict"] not in VERDICTS:
        raise Unreadable(f"{PATH}: verdict is {data['verdict']!r}, expected one of {', '.join(VERDICTS)}")
    if not all(isinstance(count, int) for count in data["counters"].values()):
        raise Unreadable(f"{PATH}: counters hold what is no number")
    try:
        data |= {key: tuple(Finding.from_dict(item) for item in data[key]) for key in FINDINGS}
    except (TypeError, ValueError) as exc:
        raise Unreadable(f"{PATH}: {exc}") from exc
    return Heartbeat(**{key: data[key] for key in kinds})
