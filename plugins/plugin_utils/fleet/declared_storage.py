"""The declared storage: tiers that every compute node has, and the checkpoint that is written to one of them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from ansible_collections.muster.cluster.plugins.module_utils.formats.mounts import (
    BEEGFS,
    EXISTING,
    LOCAL,
    LUSTRE,
    NFS,
    PORTS_LIMIT,
    WEKA,
    addresses_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import pci_address
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import (
    Converted,
    Positive,
    ReadError,
    Rule,
    Text,
    at_least,
    check_keys,
    matching,
    one_of,
    read,
    read_as,
    shown,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import (
    choice,
    each_once,
    filled,
    internet,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import Repository
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.shipped_defaults import shipped_defaults

STORAGE = "storage"
# Connections of one NFS mount that Linux allows, and VAST's client (fs/nfs/fs_context.c of each, NFS_MAX_CONNECTIONS).
CONNECTIONS_LIMIT, VAST_CONNECTIONS_LIMIT = 16, 64
# Versions of NFS for which VAST's client has multipath (its documentation, "Features").
VAST_VERSIONS = ("3", "4.1")

# Keys of each kind beside those of all, and those of them that it cannot do without.
_KEYS: Mapping[str, tuple[str, ...]] = {
    LOCAL: ("per_numa_node",),
    NFS: ("server", "address", "export", "protocol", "connections", "clients", "drives", "client", "remoteports"),
    LUSTRE: ("source", "client", "stripe_count"),
    WEKA: ("source", "client", "net"),
    BEEGFS: ("management", "client", "authentication", "settings"),
    EXISTING: ("filesystem",),
}
_NEEDED: Mapping[str, tuple[str, ...]] = {
    LOCAL: (),
    NFS: ("server", "export"),
    LUSTRE: ("source",),
    WEKA: ("source",),
    BEEGFS: ("management",),
    EXISTING: ("filesystem",),
}
# How the source of a mount is written: lustre(7), and "Run the mount command" of WEKA's documentation.
_SOURCES = {
    LUSTRE: (r"[A-Za-z0-9_.:@,-]+:/[A-Za-z0-9_/.-]+", "MGS:/FILESYSTEM such as 10.0.0.1@tcp:/fsx"),
    WEKA: (r"[A-Za-z0-9_.,-]+:?/[A-Za-z0-9_.-]+", "BACKEND,BACKEND/FILESYSTEM such as 10.0.0.1,10.0.0.2/checkpoints"),
}
# What is said by other keys of a tier, or is written by Muster.
_NOT_AS_SETTING = ("sysMgmtdHost", "connAuthFile", "connDisableAuthentication", "cfgFile")
_NOT_AS_PARAMETER = {NFS: ("remoteports",), WEKA: ("net",)}
_OPTION = re.compile(r"[a-z][a-z0-9_]*").fullmatch
_VALUE = re.compile(r"[A-Za-z0-9_.:/@=+~-]+").fullmatch
_SETTING = re.compile(r"[a-z][A-Za-z0-9]*").fullmatch
_SETTING_VALUE = re.compile(r"[A-Za-z0-9_.:/@,-]+").fullmatch
# What YAML 1.1 takes for a text and everybody else for a number.
_EXPONENT = re.compile(r"\d+(\.\d+)?[eE]\+?\d+")

Word = Annotated[
    str, matching(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?", "lower-case letters, digits, hyphens and underscores")
]
# Nothing that a unit file, /etc/exports or a shell would read as something else.
Below = Annotated[
    str,
    matching(
        r"(?!.*/\.\.?(/|$))(/[A-Za-z0-9_.-]+)+",
        "an absolute path of letters, digits, dots, hyphens and underscores, below /",
    ),
]
MoreThanZero = Annotated[float, Rule("more than 0", lambda value: bool(value > 0))]
IPv4 = Annotated[str, internet(ipaddress.IPv4Address, "an IPv4 address such as 10.0.0.1")]
Device = Annotated[str, matching(r"[A-Za-z0-9_.:/+-]+", "a network device as WEKA's option net takes it, or udp")]
Drive = Annotated[str, Rule("a PCI address such as 0000:1b:00.0", lambda text: pci_address(text) == text)]


def _parameters(data: Any) -> dict[str, Any]:
    check_keys(data, None)
    for name, value in data.items():
        if not _OPTION(name):
            raise ReadError(name, shown(name), "a mount option's name in lower-case letters")
        written = isinstance(value, (str, int, float)) and not isinstance(value, bool) and _VALUE(str(value))
        if not (value is None or value is True or written):
            expected = "a number, a text, true for an option without a value, or null to take it out"
            raise ReadError(name, shown(value), expected)
    return dict(data)


def _settings(data: Any) -> dict[str, str]:
    """Return keys of beegfs-client.conf with their values as they stand there."""
    check_keys(data, None)
    found = {}
    for name, value in data.items():
        if not _SETTING(name) or name in _NOT_AS_SETTING:
            expected = "a key of beegfs-client.conf other than " + ", ".join(_NOT_AS_SETTING)
            raise ReadError(name, shown(name), expected)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if not isinstance(value, (bool, int, float, str)) or not _SETTING_VALUE(text):
            raise ReadError(name, shown(value), "true, false, a number or a text without blanks")
        found[name] = text
    return found


def _ports(data: Any) -> str:
    """Return an address, or the first and the last of a range as FIRST-LAST."""
    text: str = read_as(Text, data)
    try:
        addresses_of(text)
    except ValueError as exc:
        raise ReadError("", shown(text), f"an address, or FIRST-LAST with at most {PORTS_LIMIT} addresses") from exc
    return text


def _amount(data: Any) -> int:
    """Return a whole number, written out or as 70e9, which YAML 1.1 takes for a text without a dot and a sign."""
    value = float(data) if isinstance(data, str) and _EXPONENT.fullmatch(data) else data
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value < 1e18 or value != int(value):
        raise ReadError("", shown(data), "a whole number of at least 1, such as 70e9")
    return int(value)


@dataclass(frozen=True)
class StorageClient:
    """The packages of a file system's client, and the site's repository that has them; None: the host's own."""

    packages: Annotated[tuple[Text, ...], Rule("at least one package", bool)]
    repository: Repository | None = None


@dataclass(frozen=True, kw_only=True)
class Tier:
    """One file system that every compute node has at ``path``.

    ``parameters`` are mount options beside the defaults of its kind: a value, true for a bare one, None takes a default
    out. ``write_ms`` is what a small write may take, ``free_percent`` what has to be free. The other keys are those of
    some kinds: ``address`` is that of a declared ``server`` on the network of storage, ``clients`` (None: the compute
    nodes) may mount what it exports, ``drives`` are the PCI addresses of its drives below ``export``. VAST's client
    spreads its connections over ``remoteports``; WEKA's uses the devices ``net``. ``management`` is the address of
    BeeGFS' management service, ``settings`` are keys of its client's configuration.
    """

    name: Word
    kind: Literal["local", "nfs", "lustre", "weka", "beegfs", "existing"]
    path: Below
    parameters: Annotated[Mapping[str, Any], Converted("a mapping", _parameters)] = field(default_factory=dict)
    write_ms: Annotated[float, at_least(1)]
    free_percent: Annotated[float, at_least(0), Rule("less than 100", lambda value: bool(value < 100), of_value=True)]
    per_numa_node: bool | None = None
    server: Text | None = None
    address: (
        Annotated[str, internet(ipaddress.ip_address, "the server's IP address on the network of storage")] | None
    ) = None
    export: Below | None = None
    protocol: Literal["tcp", "rdma"] | None = None
    connections: Annotated[int, at_least(1)] | None = None
    remoteports: tuple[Annotated[str, Converted("an address or a range", _ports)], ...] = ()
    clients: (
        Annotated[
            tuple[Annotated[str, internet(ipaddress.ip_network, "an address or network such as 10.1.16.0/20")], ...],
            Rule("at least one address or network", bool),
        ]
        | None
    ) = None
    drives: tuple[Drive, ...] = ()
    source: Text | None = None
    client: StorageClient | None = None
    net: tuple[Device, ...] = ()
    management: IPv4 | None = None
    authentication: bool | None = None
    settings: Annotated[Mapping[str, str], Converted("a mapping", _settings)] = field(default_factory=dict)
    # -1 is all object storage targets (lfs-setstripe(1)).
    stripe_count: (
        Annotated[int, Rule("a number of targets, or -1 for all of them", lambda value: value == -1 or value > 0)]
        | None
    ) = None
    filesystem: Word | None = None

    def __post_init__(self) -> None:
        for key in _NEEDED[self.kind]:
            if getattr(self, key) is None:
                raise ReadError(key, "nothing", "text")
        if self.source is not None and self.kind in _SOURCES:
            pattern, expected = _SOURCES[self.kind]
            if not re.fullmatch(pattern, self.source, re.ASCII):
                raise ReadError("source", shown(self.source), expected)
        for key in _NOT_AS_PARAMETER.get(self.kind, ()):
            if key in self.parameters:
                raise ReadError(f"parameters.{key}", shown(self.parameters[key]), f"nothing, as key {key} has it")
        each_once("drives", self.drives)
        each_once("net", self.net)
        each_once("remoteports", self.remoteports)

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

    parameters: Annotated[int, Converted("a whole number of at least 1, such as 70e9", _amount)]
    ranks: Positive
    bytes_per_parameter: Annotated[float, at_least(1)]


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The checkpoint that stage storage writes: to which tier, of what model, and in how many seconds at the most.

    ``interval_seconds`` between two of them (None: what the plan computes) and ``failures_per_1000_node_days`` are the
    plan's.
    """

    tier: Text
    model: Model
    target_seconds: MoreThanZero
    interval_seconds: MoreThanZero | None = None
    failures_per_1000_node_days: MoreThanZero


@dataclass(frozen=True)
class Storage:
    """All tiers, and the checkpoint where one is declared: without it there is no stage storage."""

    tiers: tuple[Tier, ...] = ()
    checkpoint: Checkpoint | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that ``storage_of`` takes back."""
        checkpoint = asdict(self.checkpoint) if self.checkpoint else None
        return {"tiers": [tier.to_dict() for tier in self.tiers], "checkpoint": checkpoint}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def storage_of(data: Any) -> Storage:
    """Return the section ``storage`` of a fleet file, filled up with the defaults. Raises ReadError."""
    check_keys(data, ("tiers", "checkpoint"))
    shipped = shipped_defaults("storage")
    given = {"tiers": [], **data}
    tiers: tuple[Tier, ...] = read_as(tuple[_Filled, ...], given["tiers"] or (), "tiers")
    for index, tier in enumerate(tiers):
        try:
            _check_connections(tier, shipped)
            for other in tiers[:index]:
                _check_beside(tier, other, shipped)
                _check_packages(tier, other)
        except ReadError as exc:
            raise exc.under(f"tiers[{index}]") from None
    checkpoint = None
    if given.get("checkpoint") is not None:
        values = filled(given["checkpoint"], shipped["checkpoint"])
        per_parameter = {"bytes_per_parameter": values.pop("bytes_per_parameter")} if isinstance(values, dict) else {}
        if isinstance(values, dict) and "model" in values:
            values["model"] = filled(values["model"], per_parameter)
        checkpoint = read(Checkpoint, values, "checkpoint")
        # A node's own disk is lost with the node: what is there is no checkpoint.
        choice("checkpoint.tier", checkpoint.tier, [each.name for each in tiers if each.shared])
    return Storage(tiers, checkpoint)


def _tier(data: Any) -> Tier:
    """Return a tier filled up with the defaults of its kind; raises ReadError."""
    check_keys(data, [each.name for each in fields(Tier)])
    kind = choice("kind", data.get("kind"), tuple(_KEYS))
    for key in dict.fromkeys(each for keys in _KEYS.values() for each in keys):
        if key not in _KEYS[kind] and data.get(key) is not None:
            owners = " or ".join(owner for owner, keys in _KEYS.items() if key in keys)
            raise ReadError(key, shown(data[key]), f"nothing, as only a tier of kind {owners} has it")
    shipped = shipped_defaults("storage")
    common = {key: shipped[key] for key in ("write_ms", "free_percent")}
    silent: dict[str, dict[str, Any]] = {
        LOCAL: {"per_numa_node": False},
        NFS: {"protocol": "tcp", "connections": shipped["nfs"]["connections"].get(data.get("protocol") or "tcp")},
        LUSTRE: {"stripe_count": 1},
        BEEGFS: {"authentication": True},
    }
    return read(Tier, filled(data, {**common, **silent.get(kind, {})}))


_Filled = Annotated[Tier, Converted("a mapping", _tier)]


def _version(tier: Tier, shipped: Mapping[str, Any]) -> str:
    """Return the version of NFS with which a tier is mounted."""
    return str({**shipped["nfs"]["parameters"][tier.protocol], **tier.parameters}.get("vers"))


def _check_connections(tier: Tier, shipped: Mapping[str, Any]) -> None:
    """Raise ReadError where a tier cannot have its connections.

    Linux' own client refuses ``remoteports``. VAST's opens a connection to one address each, so that one connection
    makes no multipath of many addresses.
    """
    if not tier.remoteports:
        if tier.connections and tier.connections > CONNECTIONS_LIMIT:
            raise ReadError("connections", str(tier.connections), f"at most {CONNECTIONS_LIMIT}, as Linux allows")
        return
    if tier.client is None:
        raise ReadError("client", "nothing", "the packages of VAST's client, as Linux' own knows no remoteports")
    if tier.connections is None or not 2 <= tier.connections <= VAST_CONNECTIONS_LIMIT:
        expected = f"2 to {VAST_CONNECTIONS_LIMIT}, as each connection goes to one of the remoteports"
        raise ReadError("connections", str(tier.connections), expected)
    if _version(tier, shipped) not in VAST_VERSIONS:
        expected = f"{one_of(VAST_VERSIONS)}, for which VAST's client has remoteports"
        raise ReadError("parameters.vers", _version(tier, shipped), expected)


def _check_packages(tier: Tier, other: Tier) -> None:
    """Raise ReadError where two tiers want one package in two versions."""
    theirs = dict(each.partition("=")[::2] for each in (other.client.packages if other.client else ()))
    for index, package in enumerate(tier.client.packages if tier.client else ()):
        name, _, version = package.partition("=")
        if theirs.get(name, version) != version:
            expected = f"{name}={theirs[name]}" if theirs[name] else name
            raise ReadError(f"client.packages[{index}]", package, f"{expected}, as tier {other.name} has it")


def _check_beside(tier: Tier, other: Tier, shipped: Mapping[str, Any]) -> None:
    """Raise ReadError where a tier cannot be beside another one.

    Of one server and one minor version Linux has one client: the transport of the first mount carries all of them
    (fs/nfs/nfs4client.c, nfs41_walk_client_list).
    """
    if other.name == tier.name:
        raise ReadError("name", shown(tier.name), "each tier once")
    if _below(other.path, tier.path) or _below(tier.path, other.path):
        wanted = f"a directory that is not below or above {other.path} of tier {other.name}"
        raise ReadError("path", shown(tier.path), wanted)
    if (tier.kind, tier.server) != (other.kind, other.server) or tier.kind != NFS:
        return
    version = _version(tier, shipped)
    if version != _version(other, shipped):
        return
    for key in ("protocol", "connections", "remoteports"):
        own, theirs = (_shared_text(getattr(each, key)) for each in (tier, other))
        if own != theirs:
            why = f"{theirs}, as tier {other.name} of the same server and vers={version} has it: Linux shares them"
            raise ReadError(key, own, why)


def _shared_text(value: Any) -> str:
    return (", ".join(value) or "none") if isinstance(value, tuple) else str(value)


def _below(path: str, other: str) -> bool:
    return path == other or PurePosixPath(other) in PurePosixPath(path).parents


def check_servers(storage: Storage, roles: Mapping[str, str]) -> None:
    """Raise ReadError, by the whole declaration's keys, unless servers and hosts of role storage go together.

    ``roles`` are those of all declared hosts by name.
    """
    known = [name for name, role in roles.items() if role == STORAGE]
    for index, tier in enumerate(storage.tiers):
        if tier.server is None or tier.server in known:
            continue
        where = f"storage.tiers[{index}]"
        try:
            ipaddress.ip_address(tier.server)
        except ValueError as exc:
            names = f"{one_of(known)} (hosts of role {STORAGE})" if known else f"a declared host of role {STORAGE}"
            expected = f"{names}, or the address of another server"
            raise ReadError(f"{where}.server", shown(tier.server), expected) from exc
        for key in ("address", "clients", "drives"):
            if value := getattr(tier, key):
                says = f"nothing, as {tier.server} is no declared host of role {STORAGE}"
                raise ReadError(f"{where}.{key}", shown(value), says)
    served = {tier.server for tier in storage.tiers}
    for name in known:
        if name not in served:
            raise ReadError("hosts", f"{name}, idle", f"a tier in storage.tiers that names {name} as its server")
