"""The declared storage: tiers that every compute node has, and the checkpoint that is written to one of them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.expectations import pci_address, shown
from ansible_collections.muster.cluster.plugins.plugin_utils.declaration import Section, one_of, read_yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.hardware_class import plain
from ansible_collections.muster.cluster.plugins.plugin_utils.slurm.declared import Repository, read_repository

STORAGE = "storage"
LOCAL, NFS, LUSTRE, EXISTING = "local", "nfs", "lustre", "existing"
KINDS = (LOCAL, NFS, LUSTRE, EXISTING)
PROTOCOLS = ("tcp", "rdma")
# Connections of one NFS mount that Linux allows (fs/nfs/fs_context.c, NFS_MAX_CONNECTIONS).
CONNECTIONS_LIMIT = 16

_DEFAULTS = Path(__file__).parents[1] / "fleet_defaults.yml"
_COMMON = ("name", "kind", "path", "parameters", "write_ms", "free_percent")
# Keys that only tiers of one kind have a use for.
_ONLY = {
    LOCAL: ("per_numa_node",),
    NFS: ("server", "address", "export", "protocol", "connections", "clients", "drives"),
    LUSTRE: ("source", "client", "stripe_count"),
    EXISTING: ("filesystem",),
}
_CHECKPOINT = ("tier", "model", "target_seconds", "interval_seconds", "failures_per_1000_node_days")
_WORD = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?")
# Nothing that a unit file, /etc/exports or a shell would read as something else.
_PATH = re.compile(r"(/[A-Za-z0-9_.-]+)+")
_OPTION = re.compile(r"[a-z][a-z0-9_]*")
_VALUE = re.compile(r"[A-Za-z0-9_.:/@=-]+")
_LUSTRE_SOURCE = re.compile(r"[A-Za-z0-9_.:@,-]+:/[A-Za-z0-9_/.-]+")
# What YAML 1.1 takes for a text and everybody else for a number.
_EXPONENT = re.compile(r"\d+(\.\d+)?[eE]\+?\d+")


@dataclass(frozen=True)
class LustreClient:
    """The packages of a Lustre client, and the site's repository that has them; None: the host's own."""

    packages: tuple[str, ...]
    repository: Repository | None


@dataclass(frozen=True)
class Tier:
    """One file system that every compute node has at ``path``.

    ``parameters`` are mount options beside the defaults of its kind: a value, true for a bare one, None takes a default
    out. ``write_ms`` is what a small write may take, ``free_percent`` what has to be free. The other keys belong to one
    kind each: ``address`` is that of a declared ``server`` on the network of storage, ``clients`` (None: the compute
    nodes) may mount what it exports, ``drives`` are the PCI addresses of its drives below ``export``.
    """

    name: str
    kind: str
    path: str
    parameters: Mapping[str, Any]
    write_ms: float
    free_percent: float
    per_numa_node: bool | None = None
    server: str | None = None
    address: str | None = None
    export: str | None = None
    protocol: str | None = None
    connections: int | None = None
    clients: tuple[str, ...] | None = None
    drives: tuple[str, ...] = ()
    source: str | None = None
    client: LustreClient | None = None
    stripe_count: int | None = None
    filesystem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what is declared as plain data; what says nothing is left out."""
        return {key: value for key, value in _plain(asdict(self)).items() if value not in (None, [], {})}

    @property
    def shared(self) -> bool:
        """Whether other hosts have the same file system."""
        return self.kind != LOCAL


@dataclass(frozen=True)
class Model:
    """What is saved: so many parameters with so many bytes each, in equal shards of so many ranks."""

    parameters: int
    ranks: int
    bytes_per_parameter: float


@dataclass(frozen=True)
class Checkpoint:
    """The checkpoint that stage storage writes: to which tier, of what model, and in how many seconds at the most.

    ``interval_seconds`` between two of them (None: what the plan computes) and ``failures_per_1000_node_days`` are the
    plan's.
    """

    tier: str
    model: Model
    target_seconds: float
    interval_seconds: float | None
    failures_per_1000_node_days: float


@dataclass(frozen=True)
class Storage:
    """All tiers, and the checkpoint where one is declared: without it there is no stage storage."""

    tiers: tuple[Tier, ...] = ()
    checkpoint: Checkpoint | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that ``read_storage`` takes back."""
        checkpoint = asdict(self.checkpoint) if self.checkpoint else None
        return {"tiers": [tier.to_dict() for tier in self.tiers], "checkpoint": checkpoint}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def defaults() -> dict[str, Any]:
    """Return what holds where the section ``storage`` of a fleet file is silent."""
    found: dict[str, Any] = plain(read_yaml(_DEFAULTS), str(_DEFAULTS))["storage"]
    return found


def read_storage(top: Section, roles: Mapping[str, str]) -> Storage:
    """Return the section ``storage`` of a fleet file, filled up with the defaults. Raises FleetError.

    ``roles`` are those of all declared hosts by name.
    """
    section = top.section("storage", ("tiers", "checkpoint"))
    shipped = defaults()
    tiers: list[Tier] = []
    for given in section.sections("tiers", (*_COMMON, *(key for keys in _ONLY.values() for key in keys))):
        tier = _tier(given, shipped, roles)
        for other in tiers:
            if other.name == tier.name:
                raise given.error("name", "each tier once")
            if _below(other.path, tier.path) or _below(tier.path, other.path):
                raise given.error("path", f"a directory that is not below or above {other.path} of tier {other.name}")
            _check_transport(given, tier, other, shipped)
        tiers.append(tier)
    checkpoint = _checkpoint(section, tiers, shipped["checkpoint"]) if "checkpoint" in section else None
    served = {tier.server for tier in tiers}
    for name, role in roles.items():
        if role == STORAGE and name not in served:
            raise top.error("hosts", f"a tier in storage.tiers that names {name} as its server", f"{name}, idle")
    return Storage(tuple(tiers), checkpoint)


def _check_transport(section: Section, tier: Tier, other: Tier, shipped: Mapping[str, Any]) -> None:
    """Raise FleetError where two NFS tiers would have to share what they declare differently.

    Of one server and one minor version Linux has one client: the transport of the first mount carries all of them
    (fs/nfs/nfs4client.c, nfs41_walk_client_list).
    """
    if (tier.kind, tier.server) != (other.kind, other.server) or tier.kind != NFS:
        return
    versions = [
        str({**shipped["nfs"]["parameters"][each.protocol], **each.parameters}.get("vers")) for each in (tier, other)
    ]
    if versions[0] != versions[1]:
        return
    for key in ("protocol", "connections"):
        own, theirs = getattr(tier, key), getattr(other, key)
        if own != theirs:
            why = f"{theirs}, as tier {other.name} of the same server and vers={versions[0]} has it: Linux shares them"
            raise section.error(key, why, str(own))


def _below(path: str, other: str) -> bool:
    return path == other or PurePosixPath(other) in PurePosixPath(path).parents


def _tier(section: Section, shipped: Mapping[str, Any], roles: Mapping[str, str]) -> Tier:
    name, kind = _word(section, "name"), section.choice("kind", KINDS)
    for owner, keys in _ONLY.items():
        for key in keys:
            if kind != owner and key in section:
                raise section.error(key, f"nothing, as only a tier of kind {owner} has it")
    common: dict[str, Any] = {
        "name": name,
        "kind": kind,
        "path": _path(section, "path"),
        "parameters": _parameters(section),
        "write_ms": section.number("write_ms", 1, shipped["write_ms"]),
        "free_percent": section.number("free_percent", 0, shipped["free_percent"]),
    }
    if common["free_percent"] >= 100:
        raise section.error("free_percent", "less than 100")
    if kind == LOCAL:
        return Tier(**common, per_numa_node=section.flag("per_numa_node", False))
    if kind == NFS:
        return Tier(**common, **_nfs(section, shipped, roles))
    if kind == LUSTRE:
        return Tier(**common, **_lustre(section))
    return Tier(**common, filesystem=_word(section, "filesystem"))


def _nfs(section: Section, shipped: Mapping[str, Any], roles: Mapping[str, str]) -> dict[str, Any]:
    server: str = section.text("server")
    ours = roles.get(server) == STORAGE
    if not ours:
        try:
            ipaddress.ip_address(server)
        except ValueError as exc:
            known = [name for name, role in roles.items() if role == STORAGE]
            names = f"{one_of(known)} (hosts of role {STORAGE}), " if known else f"a declared host of role {STORAGE}, "
            raise section.error("server", f"{names}or the address of another server") from exc
    for key in ("address", "clients", "drives"):
        if key in section and not ours:
            raise section.error(key, f"nothing, as {server} is no declared host of role {STORAGE}")
    if "address" in section:
        try:
            ipaddress.ip_address(section.text("address"))
        except ValueError as exc:
            raise section.error("address", "the server's IP address on the network of storage") from exc
    protocol = section.choice("protocol", PROTOCOLS, "tcp")
    connections = section.number("connections", 1, shipped["nfs"]["connections"][protocol], whole=True)
    if connections > CONNECTIONS_LIMIT:
        raise section.error("connections", f"at most {CONNECTIONS_LIMIT}, as Linux allows")
    return {
        "server": server,
        "address": section.text("address", None),
        "export": _path(section, "export"),
        "protocol": protocol,
        "connections": connections,
        "clients": _clients(section),
        "drives": _drives(section),
    }


def _clients(section: Section) -> tuple[str, ...] | None:
    clients: tuple[str, ...] | None = section.texts("clients", None)
    for index, client in enumerate(clients or ()):
        try:
            ipaddress.ip_network(client)
        except ValueError as exc:
            wanted = "an address or network such as 10.1.16.0/20"
            raise section.error(f"clients[{index}]", wanted, shown(client)) from exc
    if clients == ():
        raise section.error("clients", "at least one address or network", "an empty list")
    return clients


def _drives(section: Section) -> tuple[str, ...]:
    drives: tuple[str, ...] = section.texts("drives", ())
    for index, drive in enumerate(drives):
        if pci_address(drive) != drive:
            raise section.error(f"drives[{index}]", "a PCI address such as 0000:1b:00.0", shown(drive))
        if drive in drives[:index]:
            raise section.error(f"drives[{index}]", "each one once", f"{shown(drive)} again")
    return drives


def _lustre(section: Section) -> dict[str, Any]:
    source: str = section.text("source")
    if not _LUSTRE_SOURCE.fullmatch(source):
        raise section.error("source", "MGS:/FILESYSTEM such as 10.0.0.1@tcp:/fsx")
    client = None
    if "client" in section:
        item = section.section("client", ("packages", "repository"))
        packages = item.texts("packages", ())
        if not packages:
            raise item.error("packages", "at least one package")
        client = LustreClient(packages, read_repository(item))
    # -1 is all object storage targets (lfs-setstripe(1)).
    stripe: int = section.number("stripe_count", -1, 1, whole=True)
    if stripe == 0:
        raise section.error("stripe_count", "a number of targets, or -1 for all of them")
    return {"source": source, "client": client, "stripe_count": stripe}


def _word(section: Section, key: str) -> str:
    value: str = section.text(key)
    if not _WORD.fullmatch(value):
        raise section.error(key, "lower-case letters, digits, hyphens and underscores")
    return value


def _path(section: Section, key: str) -> str:
    path: str = section.text(key)
    if not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        raise section.error(key, "an absolute path of letters, digits, dots, hyphens and underscores, below /")
    return path


def _parameters(section: Section) -> dict[str, Any]:
    options = section.section("parameters", None)
    for name, value in options.data.items():
        if not _OPTION.fullmatch(name):
            raise options.error(name, "a mount option's name in lower-case letters", shown(name))
        if value is None or value is True:
            continue
        if isinstance(value, bool) or not isinstance(value, (str, int, float)) or not _VALUE.fullmatch(str(value)):
            raise options.error(name, "a number, a text, true for an option without a value, or null to take it out")
    return dict(options.data)


def _checkpoint(section: Section, tiers: list[Tier], shipped: Mapping[str, Any]) -> Checkpoint:
    given = section.section("checkpoint", _CHECKPOINT)
    # A node's own disk is lost with the node: what is there is no checkpoint.
    tier = given.choice("tier", [each.name for each in tiers if each.shared])
    model = given.section("model", ("parameters", "ranks", "bytes_per_parameter"), required=True)
    for key in ("target_seconds", "interval_seconds", "failures_per_1000_node_days"):
        if key in given and given.number(key, 0) == 0:
            raise given.error(key, "more than 0")
    return Checkpoint(
        tier=tier,
        model=Model(
            parameters=_amount(model, "parameters"),
            ranks=model.number("ranks", 1, whole=True),
            bytes_per_parameter=model.number("bytes_per_parameter", 1, shipped["bytes_per_parameter"]),
        ),
        target_seconds=given.number("target_seconds", 0, shipped["target_seconds"]),
        interval_seconds=given.number("interval_seconds", 0, None),
        failures_per_1000_node_days=given.number(
            "failures_per_1000_node_days", 0, shipped["failures_per_1000_node_days"]
        ),
    )


def _amount(section: Section, key: str) -> int:
    """Return a whole number, written out or as 70e9, which YAML 1.1 takes for a text without a dot and a sign."""
    value = section.data.get(key)
    if isinstance(value, str) and _EXPONENT.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value < 1e18 or value != int(value):
        raise section.error(key, "a whole number of at least 1, such as 70e9")
    return int(value)
