"""``/etc/nccl.conf`` of a host: NCCL's variables, with what the system calls the rails in the place of their names.

The variables are declared with rails (``NCCL_IB_HCA`` is ``=rail0,rail1``). What the system calls a rail's device and
interface is read whenever the file is written, because it changes (``host/rail_names.py``). A rail that has none is
told, and left out of the exact list: without a list, or with an earlier name in it, NCCL would use NICs that are no
rails. Where no rail has one the value is ``=none``, which no device is called.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..host.file_set import FileSet, FileWanted
from ..host.host import Host
from ..host.rail_names import NamedRail, Names, named, no_device, no_interface, read_names
from ..words.expectations import Rail
from ..words.reader import ReadError, Text, read

CONF = "/etc/nccl.conf"
HEAD = "# Written by Muster (nccl); edits are lost.\n"
# Variables that name rails: which of its names, and why it has none.
_HCA = "NCCL_IB_HCA"
_NAMING = {_HCA: ("device", no_device), "NCCL_SOCKET_IFNAME": ("interface", no_interface)}
_NONE = "none"
_AGAIN_SECONDS = 1.0
# "=": NCCL takes the names as whole ones, and not as beginnings.
_LINE = re.compile(rf"({'|'.join(_NAMING)})==(.*)")


@dataclass(frozen=True)
class Variable:
    """One variable of NCCL, and in one line why it has this value."""

    name: Text
    value: str
    reason: Text


@dataclass(frozen=True)
class Settings:
    """What is wanted of a host: the variables in order, and the rails that their values name."""

    variables: Sequence[Variable]
    rails: Sequence[Rail]

    def __post_init__(self) -> None:
        known = {rail.name for rail in self.rails}
        for each in self.variables:
            # Interfaces may be called as they are; of devices nothing but rails is ever declared.
            if each.name == _HCA and (unknown := set(each.value.lstrip("=").split(",")) - known):
                raise ReadError("rails", f"no {', '.join(sorted(unknown))}", f"every rail that {_HCA} names")

    @classmethod
    def from_dict(cls, data: Any) -> Settings:
        """Return the settings in ``data``; raises ReadError."""
        return read(cls, data)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Return the settings of ``/etc/muster/nccl.json``; raises ReadError or ValueError."""
        return cls.from_dict(json.loads(text))


@dataclass(frozen=True)
class Outcome:
    """What was written, or would be (nothing: the file is as it has to be), and which rails have no name."""

    diff: Sequence[Mapping[str, str]]
    problems: Sequence[str]


def conf_of(settings: Settings, names: Names) -> tuple[str, list[str]]:
    """Return the file's text with what the system calls the rails, and why rails that are named have no such name."""
    rails = {rail.name: rail for rail in named(settings.rails, names)}
    parts, problems = [HEAD], []
    for each in settings.variables:
        value = each.value
        if each.name in _NAMING and value.startswith("="):
            kind, lacking = _NAMING[each.name]
            words = value[1:].split(",")
            found = [getattr(rails[word], kind) if word in rails else word for word in words]
            problems += [lacking(rails[word], names) for word, name in zip(words, found) if name is None]
            value = "=" + (",".join(name for name in found if name is not None) or _NONE)
        parts.append(f"# {each.reason}\n{each.name}={value}\n")
    return "".join(parts), problems


def apply(host: Host, settings: Settings, wait_seconds: float, path: str = CONF) -> Outcome:
    """Write the file unless it is as it has to be; raises Unreadable or OSError.

    Rails without a name are waited for. What is known is written at once: until then the file may hold names of an
    earlier boot, which may be those of other NICs now.
    """
    deadline = time.monotonic() + wait_seconds
    diff: list[Mapping[str, str]] = []
    while True:
        outcome = _apply(host, settings, path, check=False)
        diff += outcome.diff
        if not outcome.problems or time.monotonic() >= deadline:
            return Outcome(diff, outcome.problems)
        time.sleep(_AGAIN_SECONDS)


def check(host: Host, settings: Settings, path: str = CONF) -> Outcome:
    """Compare only; raises Unreadable or OSError."""
    return _apply(host, settings, path, check=True)


def by_rail(text: str, rails: Sequence[NamedRail]) -> str:
    """Return a file's text as it would be were devices and interfaces called as their rails: the same at every boot."""
    called = {
        variable: {getattr(rail, kind): rail.name for rail in rails} for variable, (kind, _lacking) in _NAMING.items()
    }

    def renamed(line: re.Match[str]) -> str:
        names = (called[line[1]].get(name, name) for name in line[2].split(","))
        return f"{line[1]}=={','.join(names)}"

    return "".join(_LINE.sub(renamed, line) for line in text.splitlines(True))


def _apply(host: Host, settings: Settings, path: str, check: bool) -> Outcome:
    text, problems = conf_of(settings, read_names(host))
    wanted = FileWanted(path, text.encode(), 0o644)
    return Outcome(FileSet((wanted,)).apply(host, check).diff, problems)
