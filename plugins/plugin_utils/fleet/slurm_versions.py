"""What releases of Slurm differ in: which of them has a key of its files, and a value of a key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_releases import RELEASES
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import read_yaml

_DATA = Path(__file__).with_name("slurm_versions.yml")
_LATER = "later"
Kind = Literal["slurmctld", "slurmd", "commands"]
SLURMCTLD: Final = "slurmctld"
SLURMD: Final = "slurmd"
COMMANDS: Final = "commands"


class Reader(NamedTuple):
    """What reads Slurm's files somewhere in a fleet, and its release; ``key`` says where the fleet file declares it."""

    key: str
    version: str
    kind: Kind


@lru_cache(maxsize=1)
def _data() -> Mapping[str, Any]:
    data: Mapping[str, Any] = read_yaml(_DATA)
    return data


def releases() -> tuple[str, ...]:
    """Return the releases that a fleet file may declare, oldest first."""
    return RELEASES[RELEASES.index(_data()["first"]) :]


def has_key(version: str, file: str, key: str) -> bool:
    """Return whether a release knows a key of one of Slurm's files, of its ``node`` or of its ``partition`` lines."""
    return not lacking(version, file, key, None)


def lacking_for(readers: Iterable[Reader], file: str, key: str, value: Any) -> str:
    """Return what one of the readers lacks of ``key=value`` in a file, as ``lacking`` says it, and which that is."""
    for reader in readers:
        if why := lacking(reader.version, file, key, value, reader.kind):
            return why if reader.kind == SLURMCTLD else f"{why}, and {reader.key} is {reader.version}"
    return ""


def lacking(version: str, file: str, key: str, value: Any, kind: Kind = SLURMCTLD) -> str:
    """Return what a release lacks of ``key=value`` in a file and why, such as ``none, as Slurm 22.05 has no key ...``.

    Nothing where the release has it, where nothing is known of it, or where its ``kind`` does not read it. Keys and
    values are compared without their case, as Slurm does; a value is a list whose members may carry a setting of their
    own (``rl_enable,rl_log_freq=60``).
    """
    if kind == COMMANDS and file in _data()["daemons_only"]:
        return ""
    keys = _data()["keys"].get(file, {})
    name = _spelled(key, keys)
    if name is not None and (why := _absent(version, keys[name])):
        return f"none, as Slurm {version} has no key {name} ({why})"
    by_key = _data()["values"].get(file, {})
    name = _spelled(key, by_key)
    if name is None or value is None:
        return ""
    for member in str(value).split(","):
        known = _spelled(member.partition("=")[0].strip(), by_key[name])
        if known is None or by_key[name][known].get("by", kind) != kind:
            continue
        if why := _absent(version, by_key[name][known]):
            return f"other values, as {name} of Slurm {version} has no {known} ({why})"
    return ""


def _spelled(key: str, known: Mapping[str, Any]) -> str | None:
    return next((name for name in known if name.lower() == key.lower()), None)


def _absent(version: str, span: Mapping[str, str]) -> str:
    """Return when a thing came or went, if the release is not in its span."""
    order = releases()
    since, until = span.get("since"), span.get("until")
    if since == _LATER:
        return f"it came after {order[-1]}"
    if since is not None and order.index(version) < order.index(since):
        return f"it came with {since}"
    if until is not None and order.index(version) > order.index(until):
        return f"{until} was the last that had it"
    return ""
