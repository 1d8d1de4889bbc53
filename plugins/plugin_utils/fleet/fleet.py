"""The fleet: the declared cluster as typed values, read from a fleet file or from a plain inventory's variables."""

from __future__ import annotations

import ipaddress
import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, NvLinkDomain
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import (
    Converted,
    Positive,
    ReadError,
    Rule,
    Text,
    plain,
    read,
    read_as,
    shown,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.cabling_plan import check_cabling
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import (
    FleetError,
    Pattern,
    choice,
    declared,
    faults_of,
    names,
    read_yaml,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import Fabric, fabric_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_policy import (
    Policy,
    PowerBudget,
    read_policy,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import (
    CONTROLLER,
    DATABASE,
    LOGIN,
    Release,
    Scheduler,
    Services,
    defaults,
    in_blocks,
    read_scheduler,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_storage import (
    Storage,
    check_servers,
    storage_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fabric_of_host import with_fabric
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.generic_resources import check_gpus
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import (
    base_of,
    expectations_of,
    shipped_classes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import with_mini_clusters
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.rails import (
    BlockRails,
    Rail,
    check_rails,
    rails_of_block,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.shipped_comparison import (
    far_floors,
    weaker_class,
    weaker_fabric,
    weaker_policy,
    weaker_scheduler,
    weaker_storage,
    weaker_topology,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.slurm_versions import COMMANDS, SLURMD, Reader
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.storage_of_host import exports_of, with_storage

PLUGIN = "muster.cluster.fleet"
SUFFIXES = (".fleet.yml", ".fleet.yaml")
# Keys of the fleet file that Ansible's Constructable takes.
CONSTRUCTABLE = ("compose", "groups", "keyed_groups", "strict", "use_extra_vars", "leading_separator")

SUBNET_MANAGER, COMPUTE = "subnet_manager", "compute"

_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?").fullmatch
_WORD = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?").fullmatch
_SQLITE = "sqlite:///"
_PASSWORD = re.compile(r"//[^/@]*:[^/@]*@|[?&]password=")
_LEDGER_URL = re.compile(r"(sqlite|postgresql(\+\w+)?)://.+")


@dataclass(frozen=True)
class Node:
    """One declared host: a compute node with its hardware class and place, or a host that runs no user jobs.

    ``slurm_version`` is its own release of Slurm, None where it has the controllers'.
    """

    name: str
    role: str
    address: str
    hardware_class: str | None = None
    pod: str | None = None
    rack: str | None = None
    rails: tuple[Rail, ...] = ()
    slurm_version: str | None = None
    feed: str | None = None

    @property
    def power_feed(self) -> str:
        """What feeds it, as it is told to people: its feed, else its pod, else the whole fleet."""
        return f"feed {self.feed}" if self.feed else f"pod {self.pod}" if self.pod else "the fleet"

    def to_dict(self) -> dict[str, Any]:
        """Return the node as it stands in ``muster_fleet.nodes``, without its name."""
        return {
            "role": self.role,
            "hardware_class": self.hardware_class,
            "address": self.address,
            "pod": self.pod,
            "rack": self.rack,
            "rails": [rail.to_dict() for rail in self.rails],
            # Left out where there is none, as on most hosts.
            **({"slurm_version": self.slurm_version} if self.slurm_version else {}),
            **({"feed": self.feed} if self.feed else {}),
        }


def _ledger_url(data: Any) -> str:
    url: str = read_as(Text, data)
    # The fleet file is read by everybody and shown in errors.
    if _PASSWORD.search(url):
        raise ReadError("", "a URL with a password", "no password in it: libpq reads PGPASSFILE or PGPASSWORD")
    if not _LEDGER_URL.fullmatch(url):
        raise ReadError("", shown(url), "sqlite:///PATH or postgresql://HOST/NAME")
    return url


def _ledger_id(data: Any) -> str:
    identity: str = read_as(Text, data)
    try:
        return str(UUID(identity))
    except ValueError as exc:
        raise ReadError("", shown(identity), "a UUID, such as one that uuidgen prints") from exc


@dataclass(frozen=True)
class LedgerAddress:
    """Where the ledger is and which one it must be."""

    url: Annotated[str, Converted("text", _ledger_url)]
    id: Annotated[str, Converted("text", _ledger_id)]


def _address(data: Any) -> str:
    text: str = read_as(Text, data)
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as exc:
        raise ReadError("", shown(text), "an IP address such as 10.0.0.11") from exc


Address = Annotated[str, Converted("text", _address)]
HostNames = Annotated[Pattern, names("a host name or pattern such as gpu-[0001-3072]", _HOST_NAME)]
ClusterName = Annotated[str, Rule("lower-case letters, digits and hyphens", lambda name: bool(_HOST_NAME(name)), True)]
HostRole = Literal["controller", "database", "login", "subnet_manager", "storage"]


def _check_own_release(role: str, version: str | None) -> None:
    """Raise ReadError for a host of a role that cannot have a release of Slurm of its own."""
    if version is None or role in (COMPUTE, LOGIN):
        return
    why = "are always of scheduler.version" if role in (CONTROLLER, DATABASE) else "have no Slurm"
    raise ReadError("slurm_version", shown(version), f"none, as hosts of role {role} {why}")


def _readers(hosts: Iterable[tuple[str, str, str | None]]) -> tuple[Reader, ...]:
    """Return the first of each release and kind of the hosts, given by key, role and own release of Slurm."""
    found: dict[tuple[str, str], Reader] = {}
    for key, role, version in hosts:
        if version is not None:
            reader = Reader(f"{key}.slurm_version", version, SLURMD if role == COMPUTE else COMMANDS)
            found.setdefault((reader.version, reader.kind), reader)
    return tuple(found.values())


@dataclass(frozen=True)
class HostBlock:
    """Hosts that run no user jobs, by pattern."""

    name: HostNames
    role: HostRole
    address: Address
    slurm_version: Release | None = None

    def __post_init__(self) -> None:
        _check_own_release(self.role, self.slurm_version)

    def nodes(self) -> list[Node]:
        """Return the hosts; raises ReadError."""
        addresses = _addresses(self.address, len(self.name.names))
        return [
            Node(name, self.role, address, slurm_version=self.slurm_version)
            for name, address in zip(self.name.names, addresses, strict=True)
        ]


@dataclass(frozen=True)
class Places:
    """Pods, racks or power feeds by pattern, filled in order with ``nodes_each`` nodes of a block."""

    name: Annotated[Pattern, names("letters, digits, hyphens, dots and underscores", _WORD)]
    nodes_each: Positive | None = None


@dataclass(frozen=True)
class NodeBlock:
    """Like compute nodes, by pattern."""

    name: HostNames
    hardware_class: Any
    address: Address
    pods: Places | None = None
    racks: Places | None = None
    rails: BlockRails | None = None
    slurm_version: Release | None = None
    feeds: Places | None = None

    def nodes(self, expect: Expectations, fabric: Fabric) -> list[Node]:
        """Return the nodes, of whose class ``expect`` is; raises ReadError."""
        count = len(self.name.names)
        addresses = _addresses(self.address, count)
        pods, racks = _places("pods", self.pods, count), _places("racks", self.racks, count)
        feeds = _places("feeds", self.feeds, count)
        rails = rails_of_block(self.rails, count, expect, fabric)
        each = zip(self.name.names, addresses, pods, racks, rails, feeds, strict=True)
        return [
            Node(name, COMPUTE, address, self.hardware_class, pod, rack, node_rails, self.slurm_version, feed)
            for name, address, pod, rack, node_rails, feed in each
        ]


@dataclass(frozen=True)
class DeclaredNode:
    """A host as the variables have it, under its name."""

    role: Literal["controller", "database", "login", "subnet_manager", "storage", "compute"]
    address: Address
    hardware_class: Any = None
    pod: Text | None = None
    rack: Text | None = None
    rails: tuple[Rail, ...] = ()
    slurm_version: Release | None = None
    feed: Text | None = None

    def __post_init__(self) -> None:
        _check_own_release(self.role, self.slurm_version)

    def node(self, name: str, classes: Mapping[str, Expectations], fabric: Fabric) -> Node:
        """Return the host; raises ReadError."""
        if self.role != COMPUTE:
            return Node(name, self.role, self.address, None, self.pod, self.rack, self.rails, self.slurm_version)
        known = choice("hardware_class", self.hardware_class, tuple(classes))
        check_rails([rail.rail for rail in self.rails], classes[known], fabric)
        return Node(
            name, self.role, self.address, known, self.pod, self.rack, self.rails, self.slurm_version, self.feed
        )


_Entries = Rule("at least one entry", bool, of_value=True)
_Fabric = Annotated[Fabric, Converted("a mapping", fabric_of)]
_Storage = Annotated[Storage, Converted("a mapping", storage_of)]


@dataclass(frozen=True, kw_only=True)
class FleetFile:
    """What a fleet file says, section by section; those that depend on others are read with them."""

    plugin: Literal["muster.cluster.fleet"]
    hosts: Annotated[tuple[HostBlock, ...], _Entries]
    nodes: Annotated[tuple[NodeBlock, ...], _Entries]
    hardware_classes: Mapping[str, Any] = field(default_factory=dict)
    cluster: ClusterName
    fabric: _Fabric
    storage: _Storage = field(default_factory=Storage)
    scheduler: Mapping[str, Any]
    ledger: LedgerAddress
    policy: Mapping[str, Any] = field(default_factory=dict)
    # Keys that Ansible's Constructable takes.
    compose: Any = None
    groups: Any = None
    keyed_groups: Any = None
    strict: Any = None
    use_extra_vars: Any = None
    leading_separator: Any = None

    @property
    def slurm_readers(self) -> tuple[Reader, ...]:
        """What reads Slurm's files with a release of its own."""
        hosts = ((f"hosts[{index}]", block.role, block.slurm_version) for index, block in enumerate(self.hosts))
        nodes = ((f"nodes[{index}]", COMPUTE, block.slurm_version) for index, block in enumerate(self.nodes))
        return _readers(itertools.chain(hosts, nodes))


@dataclass(frozen=True)
class FleetVariables:
    """What ``muster_fleet`` says; the services follow from the roles."""

    cluster: ClusterName
    nodes: Mapping[str, DeclaredNode]
    classes: Mapping[str, Any]
    fabric: _Fabric
    ledger: LedgerAddress
    scheduler: Mapping[str, Any]
    storage: _Storage = field(default_factory=Storage)
    policy: Mapping[str, Any] = field(default_factory=dict)
    # The shipped class that each class comes from, null where it comes from none.
    bases: Mapping[str, Text | None] = field(default_factory=dict)
    controller: Any = None
    controllers: Any = None
    database: Any = None
    logins: Any = None

    @property
    def slurm_readers(self) -> tuple[Reader, ...]:
        """What reads Slurm's files with a release of its own."""
        return _readers((f"nodes.{name}", node.role, node.slurm_version) for name, node in self.nodes.items())


@dataclass(frozen=True)
class Fleet:
    """A whole, validated declaration."""

    cluster: str
    nodes: tuple[Node, ...]
    classes: Mapping[str, Expectations]
    fabric: Fabric
    storage: Storage
    services: Services
    scheduler: Scheduler
    ledger: LedgerAddress
    policy: Policy
    # What the policy would be if the fleet file were silent.
    shipped_policy: Policy
    bases: Mapping[str, str | None]

    @classmethod
    def load(cls, path: str | Path) -> Fleet:
        """Return the fleet of a fleet file. Raises FleetError."""
        file = display_path(path)
        return cls.from_data(read_yaml(path, file), file)

    @classmethod
    def from_data(cls, data: Any, file: str) -> Fleet:
        """Return the fleet that a fleet file's content declares; ``file`` is named in errors. Raises FleetError."""
        top = declared(FleetFile, data, file)
        overrides, fabric, storage = top.hardware_classes, top.fabric, top.storage
        known = sorted({*shipped_classes(), *overrides})
        nodes: list[Node] = []
        for index, block in enumerate(top.hosts):
            with faults_of(file, f"hosts[{index}]"):
                nodes += block.nodes()
        addresses = {node.name: node.address for node in nodes}
        used: dict[str, Expectations] = {}
        for index, given in enumerate(top.nodes):
            with faults_of(file, f"nodes[{index}]"):
                name = choice("hardware_class", given.hardware_class, known)
            if name not in used:
                expect = with_fabric(_class(name, overrides, file), fabric, file)
                used[name] = with_storage(expect, storage, addresses, file)
            with faults_of(file, f"nodes[{index}]"):
                nodes += given.nodes(used[name], fabric)
        # A class nobody uses is checked all the same: its error would otherwise come with the first node of it.
        for name in overrides:
            if name not in used:
                expect = with_fabric(_class(name, overrides, file), fabric, file)
                used[name] = replace(expect, mounts=None, checkpoint=None)
        fleet = cls._checked(top, file, tuple(nodes), used, {name: base_of(name, overrides) for name in used})
        return replace(fleet, ledger=_anchored(fleet.ledger, Path(file).parent))

    @classmethod
    def from_variables(cls, data: Any, file: str = "muster_fleet") -> Fleet:
        """Return the fleet that the variable ``muster_fleet`` holds, whichever inventory gave it. Raises FleetError."""
        top = declared(FleetVariables, data, file)
        fabric, storage = top.fabric, top.storage
        classes = {name: declared(Expectations, each, file, f"classes.{name}") for name, each in top.classes.items()}
        nodes: list[Node] = []
        for name, given in top.nodes.items():
            if not _HOST_NAME(name):
                raise FleetError(file, f"nodes.{name}", shown(name), "a host name")
            with faults_of(file, f"nodes.{name}"):
                nodes.append(given.node(name, classes, fabric))
        addresses = {node.name: node.address for node in nodes}
        used = {node.hardware_class for node in nodes}
        for name, expect in classes.items():
            if with_fabric(expect, fabric, file) != expect:
                raise FleetError(file, f"classes.{name}.fabric", "other settings", "those that follow from fabric")
            if name in used and with_storage(expect, storage, addresses, file) != expect:
                raise FleetError(file, f"classes.{name}.mounts", "other mounts", "those that follow from storage")
        bases = {name: base_of(name, {}) for name in classes} | dict(top.bases)
        fleet = cls._checked(top, file, tuple(nodes), classes, bases)
        for name, wanted in fleet.classes.items():
            if wanted != classes[name]:
                raise FleetError(file, f"classes.{name}.mini_clusters", "others", "those that follow from policy")
        for key, value in fleet.services_variables().items():
            if getattr(top, key) != value:
                raise FleetError(file, key, json.dumps(getattr(top, key), default=str), json.dumps(value))
        # There is no fleet file that a relative path could start from.
        if _anchored(fleet.ledger, Path("/")) != fleet.ledger:
            raise FleetError(file, "ledger.url", shown(fleet.ledger.url), "sqlite:////ABSOLUTE/PATH")
        return fleet

    @classmethod
    def _checked(
        cls,
        top: FleetFile | FleetVariables,
        file: str,
        nodes: tuple[Node, ...],
        classes: Mapping[str, Expectations],
        bases: Mapping[str, str | None],
    ) -> Fleet:
        """Return the fleet of sections that agree with each other. Raises FleetError."""
        fabric, storage = top.fabric, top.storage
        with faults_of(file):
            check_servers(storage, {node.name: node.role for node in nodes if node.role != COMPUTE})
            _check_together(nodes, fabric)
            domains = _check_nvlink_domains(nodes, classes)
        services = Services.of(((node.name, node.role) for node in nodes), file)
        check_cabling(nodes, fabric, file)
        scheduler = read_scheduler(top.scheduler, classes, services, top.slurm_readers, file)
        if domains and "topology" not in top.scheduler:
            scheduler = in_blocks(scheduler, top.slurm_readers)
        check_gpus(scheduler, classes, file)
        with faults_of(file):
            _check_container_plugin(scheduler, nodes, classes)
        policy = read_policy(top.policy, fabric, storage, scheduler, file)
        with faults_of(file, "policy.burn_in.kilowatts"):
            _check_power(policy.burn_in.kilowatts, nodes, classes)
        count = Counter(node.hardware_class for node in nodes)
        return cls(
            cluster=top.cluster,
            nodes=nodes,
            classes={
                name: with_mini_clusters(expect, policy.latency, count[name], file) for name, expect in classes.items()
            },
            fabric=fabric,
            storage=storage,
            services=services,
            scheduler=scheduler,
            ledger=top.ledger,
            policy=policy,
            shipped_policy=read_policy({}, fabric, storage, scheduler, file),
            bases=bases,
        )

    @property
    def controller(self) -> str:
        """Name of the leading controller host."""
        return self.services.controllers[0]

    def services_variables(self) -> dict[str, Any]:
        """Return the keys of ``muster_fleet`` that name the hosts of Slurm's services."""
        return {
            "controller": self.controller,
            "controllers": list(self.services.controllers),
            "database": self.services.database,
            "logins": list(self.services.logins),
        }

    def node_variables(self) -> dict[str, dict[str, Any]]:
        """Return ``muster_fleet.nodes``: every host by name, made once for all the processes that a run forks."""
        return self._node_variables

    @cached_property
    def _node_variables(self) -> dict[str, dict[str, Any]]:
        return {node.name: node.to_dict() for node in self.nodes}

    @cached_property
    def hosts(self) -> dict[str, Node]:
        """Every declared host by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def compute(self) -> dict[str, Node]:
        """The nodes that run jobs, by name."""
        return {node.name: node for node in self.nodes if node.role == COMPUTE}

    @cached_property
    def addresses(self) -> dict[str, str]:
        """The address of every host by name."""
        return {node.name: node.address for node in self.nodes}

    @cached_property
    def slurm_releases(self) -> tuple[str, ...]:
        """Every release of Slurm in the fleet, the controllers' first."""
        own = (node.slurm_version for node in self.nodes if node.slurm_version)
        return tuple(dict.fromkeys([self.scheduler.version, *own]))

    @cached_property
    def weaker(self) -> dict[str, tuple[str, ...]]:
        """In what a node of each class is asked less than what Muster ships, one sentence each."""
        common = (
            *weaker_policy(self.policy, self.shipped_policy, self.scheduler),
            *weaker_scheduler(self.scheduler),
            *weaker_fabric(self.fabric),
            *weaker_storage(self.storage),
        )
        return {
            name: (
                *common,
                *weaker_topology(self.scheduler, self.slurm_releases, expect),
                *weaker_class(expect, self.bases.get(name)),
            )
            for name, expect in self.classes.items()
        }

    @property
    def far_floors(self) -> tuple[str, ...]:
        """By how much the nodes of each class could be slow together unnoticed."""
        return tuple(text for expect in self.classes.values() for text in far_floors(expect))

    def exports_of(self, host: str) -> list[dict[str, Any]]:
        """Return what a declared server exports, as the lookup ``storage_exports`` gives it."""
        compute = self.compute.values()
        rails = (rail.address for node in compute for rail in node.rails if rail.address)
        return exports_of(host, self.storage, [*(node.address for node in compute), *rails])

    @cached_property
    def _class_variables(self) -> dict[str, Any]:
        return {name: plain(expect) for name, expect in self.classes.items()}

    def variables(self) -> dict[str, Any]:
        """Return ``muster_fleet`` without ``nodes``, as plain data."""
        return {
            "cluster": self.cluster,
            **self.services_variables(),
            "classes": self._class_variables,
            "fabric": self.fabric.to_dict(),
            "storage": self.storage.to_dict(),
            "scheduler": self.scheduler.to_dict(),
            "ledger": asdict(self.ledger),
            "policy": self.policy.to_dict(),
            # A shipped class is its own.
            **({"bases": own} if (own := {key: base for key, base in self.bases.items() if base != key}) else {}),
        }


_fleets: dict[str, Fleet] = {}
_variables: dict[str, Mapping[str, Any]] = {}


def remember(path: str, fleet: Fleet, variable: Mapping[str, Any] | None = None) -> None:
    """Keep the fleet that a run started with, for the processes that this one forks.

    ``variable`` is ``muster_fleet`` as the inventory has it, its large keys not filled in yet.
    """
    _fleets[path] = fleet
    if variable is not None:
        _variables[path] = variable


def remembered(variable: Any) -> Fleet | None:
    """Return the fleet whose ``muster_fleet`` this is, its large keys not filled in yet, None for any other."""
    # Compared as a whole: who overrides one value of it in a play has another fleet.
    return next((_fleets[path] for path, known in _variables.items() if known == variable), None)


def fleet_at(path: str) -> Fleet:
    """Return the fleet of a fleet file: the one this run started with, else as the file says now. Raises FleetError."""
    if path not in _fleets:
        _fleets[path] = Fleet.load(path)
    return _fleets[path]


def display_path(path: str | Path) -> str:
    """Return a path as errors name it: relative where it lies below the working directory."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _class(name: str, overrides: Mapping[str, Any], file: str) -> Expectations:
    return read(Expectations, expectations_of(name, overrides, file))


def _addresses(first: str, count: int) -> list[str]:
    address = ipaddress.ip_address(first)
    try:
        return [str(address + index) for index in range(count)]
    except ipaddress.AddressValueError as exc:
        raise ReadError("address", shown(first), f"an address after which {count - 1} more follow") from exc


def _places(key: str, places: Places | None, nodes: int) -> Sequence[str | None]:
    """Return the pod, rack or feed of each node of a block: they are filled in order, ``nodes_each`` nodes to each."""
    if places is None:
        return [None] * nodes
    known = places.name.names
    each = places.nodes_each or (nodes if len(known) == 1 else None)
    if each is None:
        raise ReadError(f"{key}.nodes_each", "nothing", f"the number of nodes in each of the {len(known)} {key}")
    needed = -(-nodes // each)
    if needed != len(known):
        fit = f"{needed} {key} for {nodes} nodes, {each} in each"
        raise ReadError(f"{key}.name", f'"{places.name.text}" ({len(known)} {key})', fit)
    return [known[index // each] for index in range(nodes)]


def _check_together(nodes: Sequence[Node], fabric: Fabric) -> None:
    """Raise ReadError for what only the nodes together show."""
    by_name: dict[str, Node] = {}
    by_address: dict[str, str] = {}
    pod_of: dict[str, str | None] = {}
    feed_of: dict[str, str | None] = {}
    for node in nodes:
        if (other := by_name.setdefault(node.name, node)) is not node:
            if other.rack and node.rack and other.rack != node.rack:
                both = f'node "{node.name}" in racks {shown(other.rack)} and {shown(node.rack)}'
                raise ReadError("nodes", both, "each node in one rack")
            raise ReadError("nodes", f'host "{node.name}" twice', "each host once")
        for address in (node.address, *(rail.address.partition("/")[0] for rail in node.rails if rail.address)):
            if address in by_address:
                both = f"address {address} on {by_address[address]} and {node.name}"
                raise ReadError("nodes", both, "each address once")
            by_address[address] = node.name
        if node.rack is not None and pod_of.setdefault(node.rack, node.pod) != node.pod:
            both = f'rack "{node.rack}" in pods {shown(pod_of[node.rack])} and {shown(node.pod)}'
            raise ReadError("nodes", both, "each rack in one pod")
        if node.rack is not None and feed_of.setdefault(node.rack, node.feed) != node.feed:
            both = f'rack "{node.rack}" in feeds {shown(feed_of[node.rack])} and {shown(node.feed)}'
            raise ReadError("nodes", both, "each rack in one feed")
    managers = [node.name for node in nodes if node.role == SUBNET_MANAGER]
    if bool(managers) != bool(fabric.subnet_manager):
        found = f"{', '.join(managers) or 'no host'} with role {SUBNET_MANAGER}"
        wanted = "none, as fabric.subnet_manager is not declared" if managers else "one or more, first the master"
        raise ReadError("hosts", found, wanted)


def _check_nvlink_domains(nodes: Sequence[Node], classes: Mapping[str, Expectations]) -> bool:
    """Return whether any rack is an NVLink domain; raises ReadError for one that cannot be, as its nodes' class is."""
    domains: dict[str, NvLinkDomain] = {
        name: expect.nvlink.domain for name, expect in classes.items() if expect.nvlink and expect.nvlink.domain
    }
    racks: dict[str, list[str]] = {}
    for node in nodes:
        if node.hardware_class not in domains:
            continue
        if node.rack is None:
            found = f'node "{node.name}" of class {node.hardware_class} in no rack'
            raise ReadError("nodes", found, "a rack for each, as the nodes of one are an NVLink domain")
        in_rack = racks.setdefault(node.rack, [])
        in_rack.append(node.hardware_class)
        kinds = sorted(set(in_rack))
        if len(kinds) > 1:
            found = f'rack "{node.rack}" with nodes of classes {" and ".join(kinds)}'
            raise ReadError("nodes", found, "one class in each rack that is an NVLink domain")
        most = domains[node.hardware_class].hosts
        if len(in_rack) > most:
            found = f'more than {most} nodes of class {node.hardware_class} in rack "{node.rack}"'
            raise ReadError("nodes", found, f"at most {most}, as nvlink.domain.hosts of the class says")
    for rack, in_rack in racks.items():
        imex = domains[in_rack[0]].imex
        if imex and imex.nodes not in (None, len(in_rack)):
            found = f'{len(in_rack)} nodes of class {in_rack[0]} in rack "{rack}"'
            wanted = f"{imex.nodes}, as nvlink.domain.imex.nodes of the class says, or null there"
            raise ReadError("nodes", found, wanted)
    return bool(racks)


def _check_power(budget: PowerBudget, nodes: Sequence[Node], classes: Mapping[str, Expectations]) -> None:
    """Raise ReadError for a budget that cannot be kept, or within which some node could never be burned in."""
    if not budget.declared:
        return
    for node in nodes:
        if node.role != COMPUTE:
            continue
        name = str(node.hardware_class)
        power = classes[name].power
        if power is None:
            found = f"a budget, and nodes of class {name}, which declares no power"
            raise ReadError("", found, f"hardware_classes.{name}.power.kilowatts, the most that such a node draws")
        if budget.rack is not None and node.rack is None:
            raise ReadError("rack", f'{budget.rack:g}, and node "{node.name}" in no rack', "a rack for each node")
        for place, limit in budget.to_dict().items():
            if limit is not None and power.kilowatts > limit:
                expected = f"at least {power.kilowatts:g}, which one node of class {name} draws"
                raise ReadError(place, f"{limit:g}", expected)


def _check_container_plugin(scheduler: Scheduler, nodes: Sequence[Node], classes: Mapping[str, Expectations]) -> None:
    """Raise ReadError for the default path of pyxis' plugin, which is that of x86_64, where nodes are arm64."""
    used = {node.hardware_class for node in nodes}
    arm64 = sorted(name for name in classes if name in used and classes[name].cpu.architecture == "aarch64")
    if arm64 and scheduler.containers and scheduler.containers.plugin == defaults()["containers"]["plugin"]:
        expected = f"a path that the hosts of class {arm64[0]} (aarch64) have, and all other hosts of Slurm"
        raise ReadError("scheduler.containers.plugin", shown(scheduler.containers.plugin), expected)


def _anchored(ledger: LedgerAddress, directory: Path) -> LedgerAddress:
    """Return the address with a relative SQLite path made absolute from the fleet file's directory.

    Taken from wherever Ansible happens to run, one fleet would have as many ledgers as there are directories.
    """
    scheme, path = ledger.url[: len(_SQLITE)], ledger.url[len(_SQLITE) :]
    if scheme != _SQLITE or path.startswith("/"):
        return ledger
    return replace(ledger, url=f"{_SQLITE}{(directory / path).resolve()}")
