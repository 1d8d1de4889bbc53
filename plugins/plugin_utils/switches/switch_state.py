"""What a switch reported about itself: one model for all systems; what was not reported never looks like a value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError

T = TypeVar("T")


class OutputError(MusterError, ValueError):
    """An answer that cannot be used: refused, cut short, too late, or of an unexpected form."""


@dataclass(frozen=True)
class Unknown:
    """Stands for what a switch did not tell; ``reason`` says why."""

    reason: str


def read_or_unknown(read: Callable[[], T], where: str) -> T | Unknown:
    """Return what ``read`` makes of an answer, or why nothing can be made of it; ``where`` names the answer."""
    try:
        return read()
    except OutputError as exc:
        return Unknown(str(exc))
    except (LookupError, TypeError, ValueError, AttributeError) as exc:
        return Unknown(f"{where}: unexpected form ({type(exc).__name__}: {exc})")


def need(value: T | Unknown) -> T:
    """Return the value. Raises OutputError where it was not reported."""
    if isinstance(value, Unknown):
        raise OutputError(value.reason)
    return value


class Answers:
    """What came back of each command of a system, by the command's name."""

    def __init__(self, commands: Mapping[str, str], texts: Mapping[str, str | Unknown]) -> None:
        self._commands, self._texts = commands, texts

    def text(self, name: str) -> str:
        """Return the output of a command. Raises OutputError where there is none."""
        text = self._texts.get(name, Unknown("was not asked"))
        if isinstance(text, Unknown):
            raise OutputError(f"{self._commands[name]}: {text.reason}")
        return text

    def data(self, name: str) -> Any:
        """Return what a command printed as JSON. Raises OutputError."""
        text = self.text(name)
        try:
            return json.loads(text)
        except ValueError as exc:
            end = f"ends with {text.rstrip()[-30:]!r}" if text.strip() else "prints nothing"
            raise OutputError(f"{self._commands[name]}: no complete JSON ({exc}; {end})") from exc


class Neighbour(NamedTuple):
    """What LLDP heard on a port: the name of the system, and every name under which it gave its port."""

    system: str
    ports: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.system} {' or '.join(self.ports)}"


class Ecn(NamedTuple):
    """Queue length in bytes from which packets are marked, and from which all are."""

    min_bytes: int
    max_bytes: int

    def __str__(self) -> str:
        return f"{self.min_bytes} to {self.max_bytes}"


@dataclass(frozen=True)
class PortState:
    """One port. ``classes`` gives the traffic class of a DSCP as text, ``3`` or what is odd about it.

    ``pfc`` and ``headroom`` are the priorities that are paused and that have buffer for what arrives meanwhile; ``ecn``
    is by traffic class and holds only those that mark. ``errors`` and ``discards`` count since they were last cleared.
    """

    exists: bool | Unknown
    mtu_bytes: int | Unknown
    pfc: frozenset[int] | Unknown
    watchdog: bool | Unknown
    trust_dscp: bool | Unknown
    classes: Mapping[int, str] | Unknown
    ecn: Mapping[int, Ecn] | Unknown
    headroom: frozenset[int] | Unknown
    addresses: frozenset[str] | Unknown
    neighbours: tuple[Neighbour, ...] | Unknown
    errors: Mapping[str, int] | Unknown
    discards: Mapping[str, int] | Unknown
    storms: int | Unknown


# The names of hash fields that all systems share here; others are called as the system calls them.
ADDRESSES_AND_PORTS = frozenset({"source address", "destination address", "source port", "destination port"})
QUEUE_PAIR = "destination queue pair"


@dataclass(frozen=True)
class SwitchState:
    """A whole switch; ``ecmp`` are the header fields by which it chooses among equal paths.

    ``not_shown`` are the fields that the system does not list even where it uses them, each with the reason.
    """

    ecmp: frozenset[str] | Unknown
    ports: Mapping[str, PortState]
    not_shown: Mapping[str, str] = field(default_factory=dict)
