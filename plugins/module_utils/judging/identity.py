"""Which machine answered: what it calls itself, and what of its hardware no other machine has.

Nothing here says what follows for a node: that is admission's to decide.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

from ..probes.dmidecode import Firmware
from ..probes.redfish import Documents
from ..probes.slurmd import Slurmd
from ..words.expectations import Expectations
from .fingerprint import LISTS, parts_of
from .placeholders import real

# The probes whose values identity_of reads.
PROBES = ("dmidecode", "ipmi_lan", "redfish", "hostname", "machine_id", "ssh_host_keys", "slurmd", "boot_time")
# Where there is none: no BMC that the class declares, no Slurm on the host yet.
NONE = "none"
# Kinds of hardware that identify a machine independently of each other, and the claims that belong to each.
_KINDS = {
    "board": ("board_uuid", "board_serial"),
    "BMC": ("bmc_mac",),
    "GPUs": ("gpu",),
    "NICs": ("nic",),
    "memory modules": ("dimm",),
    "drives": ("drive",),
}
# The claims that stand in the identity; the others stand in the fingerprint.
_OWN = ("board_uuid", "board_serial", "bmc_mac")
# What a copied or a new installation brings along: it ties nothing, but is told.
_INSTALLED = {"ssh_host_keys": "SSH host keys", "machine_id": "machine id", "hostname": "host name"}
_NAMED_AT_MOST = 5

Claim = tuple[str, str]
Told = Mapping[str, Optional[str]]


class Machine(NamedTuple):
    """What one record of evidence says of the machine that it was taken on: its fields of these names."""

    identity: Told
    fingerprint: Told


class Same(NamedTuple):
    """Whether two records are of one machine (None: cannot be told), and what differs or is missing, "" for nothing."""

    same: bool | None
    text: str


@dataclass(frozen=True)
class Misnamed:
    """A machine that calls itself otherwise than the node under whose name it was examined.

    ``certain`` is False where it is only not proven that it is that node. ``by`` says who used the ``name``: ``slurmd``
    or ``hostname``; with an empty name, who did not say any.
    """

    by: str
    name: str
    certain: bool
    text: str


def identity_of(values: Mapping[str, Any], expect: Expectations | None = None) -> dict[str, str | None]:
    """Return each identifier, None where it could not be read or a maker's placeholder stands; ``values`` by probe.

    ``boot_time`` is in seconds since the epoch, ``slurmd_started`` as Slurm prints it, local time. Of several SSH host
    keys, and of several nodes that Slurm runs on one machine, all stand in one text, separated by commas.
    """
    board: Firmware | None = values.get("dmidecode")
    slurmd: Slurmd | None = values.get("slurmd")
    keys: Mapping[str, str] | None = values.get("ssh_host_keys")
    booted = values.get("boot_time")
    identity = {
        "board_uuid": _unless_placeholder(board.system_uuid if board else None),
        "board_serial": _unless_placeholder(board.board_serial if board else None),
        "system_serial": _unless_placeholder(board.system_serial if board else None),
        "bmc_mac": _unless_placeholder(_mac(values.get("ipmi_lan"), values.get("redfish"))),
        "hostname": values.get("hostname"),
        "machine_id": values.get("machine_id"),
        "ssh_host_keys": ",".join(sorted(f"{kind}={key}" for kind, key in keys.items())) if keys else None,
        "slurmd_node": (",".join(slurmd.nodes) or NONE) if slurmd else None,
        "slurmd_started": slurmd.started if slurmd and slurmd.nodes else None,
        "boot_time": None if booted is None else str(booted),
    }
    if expect is not None and expect.bmc is None:
        identity["bmc_mac"] = NONE
    return identity


def claims_of(identity: Told, fingerprint: Told) -> frozenset[Claim]:
    """Return (kind, value) of every identifier of hardware that no other machine may have, in a form to compare.

    Serials of the system are none: twins in one chassis share them. Nor are those of cables and virtual functions.
    """
    return frozenset((kind, value) for kind, values in _values(identity, fingerprint).items() for value in values)


def hardware_identifiers(claims: Collection[Claim]) -> frozenset[str]:
    """Return the kinds of hardware that identify a machine independently of each other; a kind counts once."""
    known = {kind for kind, _ in claims}
    return frozenset(name for name, kinds in _KINDS.items() if known & {*kinds})


def same_machine(then: Machine, now: Machine) -> Same:
    """Compare two records: one machine if more kinds of hardware are those of then than are not.

    So an exchanged board, a tray of GPUs or a rotated host key leave the machine what it is, and the text names them. A
    kind counts as kept if more than half of it is: a single part may have come from another machine.
    """
    before, after = _values(*then), _values(*now)
    kept, differs, unknown = [], [], []
    for name, kinds in _KINDS.items():
        compared = [_kept(before[kind], after[kind]) for kind in kinds]
        if True in compared:
            kept.append(name)
        elif False in compared:
            differs.append(f"other {name}")
        elif any(before[kind] | after[kind] for kind in kinds):
            unknown.append(f"{name} not known of both")
    count = len(differs)
    for name, text in _INSTALLED.items():
        old, new = (_words(machine.identity.get(name)) for machine in (then, now))
        differs += [f"other {text}"] if old and new and not old & new else []
    if not kept and not count:
        return Same(None, "; ".join(["no identifier of hardware is known of both", *differs]))
    if len(kept) == count:
        return Same(None, "; ".join([*differs, *unknown]))
    return Same(len(kept) > count, "; ".join(differs))


def misnamed(identity: Told, node: str, fleet: Set[str] = frozenset()) -> Misnamed | None:
    """Return how the machine calls itself otherwise than the node, None where it is shown to be that node.

    Slurm's daemon decides, as jobs go where it runs: a cluster may give nodes other names than its hosts have. But a
    host that bears the name of another node of the ``fleet`` is that node by one name and this one by the other.
    """
    slurmd, hostname = identity.get("slurmd_node"), identity.get("hostname")
    if slurmd not in (None, NONE, node):
        return Misnamed("slurmd", str(slurmd), True, f"Slurm runs node {slurmd} on this machine, expected {node} alone")
    names = {hostname.lower(), _short(hostname)} if hostname else set()
    if names & fleet and _short(node) not in names:
        return Misnamed("hostname", str(hostname), True, f"the host calls itself {hostname}, another node of the fleet")
    if slurmd is None:
        return Misnamed("slurmd", "", False, "which node Slurm runs on this machine could not be read")
    if slurmd == NONE and _short(node) not in names:
        says = f"the host calls itself {hostname}" if hostname else "the host's name could not be read"
        return Misnamed("hostname", hostname or "", False, f"{says}, and no Slurm on it says that it is {node}")
    return None


def cloned(identities: Mapping[str, Told]) -> list[str]:
    """Return a text for each machine id and SSH host key that machines with different boards share: a copied image."""
    shared: dict[str, list[str]] = {}
    for node, identity in sorted(identities.items()):
        ids = [f"machine id {identity['machine_id']}"] if identity.get("machine_id") else []
        for what in (*ids, *(f"SSH host key {key}" for key in sorted(_words(identity.get("ssh_host_keys"))))):
            shared.setdefault(what, []).append(node)
    return [
        f"{what} is that of {_few(nodes)}: copied from one installation"
        for what, nodes in sorted(shared.items())
        if len({real(identities[node].get("board_uuid")) or node for node in nodes}) > 1
    ]


def _values(identity: Told, fingerprint: Told) -> Mapping[str, Set[str]]:
    """Return the values of the claims by kind."""
    return _parsed(tuple(map(identity.get, _OWN)), tuple(map(fingerprint.get, LISTS)))


# A node's records, which are judged one after the other, say the same of its hardware in nearly all cases.
@functools.lru_cache(maxsize=64)
def _parsed(own: tuple[str | None, ...], lists: tuple[str | None, ...]) -> Mapping[str, Set[str]]:
    found: dict[str, set[str]] = {kind: set() for kinds in _KINDS.values() for kind in kinds}
    for kind, text in zip(_OWN, own):
        found[kind] |= {bare} if (bare := real(text)) else set()
    for kind, _, serial in parts_of(dict(zip(LISTS, lists))):
        if kind in found:
            # With its part number: a serial number is one maker's for one kind of module.
            found[kind].add(serial.lower())
    return found


def _kept(old: Set[str], new: Set[str]) -> bool | None:
    """Return whether more than half of the values are there still, None where one of the two is not known."""
    return 2 * len(old & new) > max(len(old), len(new)) if old and new else None


def _words(text: str | None) -> set[str]:
    return {*text.split(",")} if text else set()


def _mac(lan: str | None, documents: Documents | None) -> str | None:
    return lan or (documents.mac if documents else None)


def _unless_placeholder(text: str | None) -> str | None:
    return text if real(text) else None


def _short(name: str) -> str:
    return name.partition(".")[0].lower()


def _few(nodes: Sequence[str]) -> str:
    more = len(nodes) - _NAMED_AT_MOST
    return ", ".join(nodes[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
