"""The fleet: the declared cluster as typed values, read from a fleet file or from a plain inventory's variables."""

from __future__ import annotations

import ipaddress
import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from ansible_collections.muster.cluster.plugins.module_utils.burn_in_plan import PlanError, steps_of
from ansible_collections.muster.cluster.plugins.module_utils.collective_program import ELEMENT_BYTES
from ansible_collections.muster.cluster.plugins.module_utils.evidence import STAGES
from ansible_collections.muster.cluster.plugins.module_utils.expectations import shown
from ansible_collections.muster.cluster.plugins.plugin_utils.declaration import (
    FleetError,
    Section,
    one_of,
    read_yaml,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.cabling import check_cabling
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.declared import Fabric, read_fabric
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.host import with_fabric
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.rails import (
    RAIL_KEYS,
    Rail,
    check_rails,
    declared_rail,
    rails_of_block,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.hardware_class import (
    checked_expectations,
    expectations_of,
    plain,
    shipped_classes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.latency import LatencyProfile, with_mini_clusters
from ansible_collections.muster.cluster.plugins.plugin_utils.slurm.declared import (
    CONTROLLER,
    DATABASE,
    LOGIN,
    Scheduler,
    Services,
    read_scheduler,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.storage.declared import STORAGE, Storage, read_storage
from ansible_collections.muster.cluster.plugins.plugin_utils.storage.host import with_storage

PLUGIN = "muster.cluster.fleet"
SUFFIXES = (".fleet.yml", ".fleet.yaml")
# Keys of the fleet file that Ansible's Constructable takes.
CONSTRUCTABLE = ("compose", "groups", "keyed_groups", "strict", "use_extra_vars", "leading_separator")

SUBNET_MANAGER, COMPUTE = "subnet_manager", "compute"
# What a host that runs no user jobs can be.
HOST_ROLES = (CONTROLLER, DATABASE, LOGIN, SUBNET_MANAGER, STORAGE)

_DEFAULTS = Path(__file__).parent / "fleet_defaults.yml"
# Keys of muster_fleet that follow from the roles of the hosts.
_SERVICES = ("controller", "controllers", "database", "logins")
_SECTIONS = ("cluster", "fabric", "storage", "scheduler", "ledger", "policy")
_BLOCK = ("name", "hardware_class", "address", "pods", "racks", "rails")
_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_WORD = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_MISSING: Any = object()
_SQLITE = "sqlite:///"
_PASSWORD = re.compile(r"//[^/@]*:[^/@]*@|[?&]password=")
_LEDGER_URL = re.compile(r"(sqlite|postgresql(\+\w+)?)://.+")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Node:
    """One declared host: a compute node with its hardware class and place, or a host that runs no user jobs."""

    name: str
    role: str
    address: str
    hardware_class: str | None = None
    pod: str | None = None
    rack: str | None = None
    rails: tuple[Rail, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the node as it stands in ``muster_fleet.nodes``, without its name."""
        return {
            "role": self.role,
            "hardware_class": self.hardware_class,
            "address": self.address,
            "pod": self.pod,
            "rack": self.rack,
            "rails": [rail.to_dict() for rail in self.rails],
        }


@dataclass(frozen=True)
class LedgerAddress:
    """Where the ledger is and which one it must be."""

    url: str
    id: str


@dataclass(frozen=True)
class Policy:
    """What admission asks for."""

    stages: tuple[str, ...]
    burn_in_profile: str
    burn_in_profiles: Mapping[str, Mapping[str, Any]]
    fresh_hours: Mapping[str, float]
    close_limit_percent: float
    retest: bool
    # Age up to which the last health check of a node in service counts; None where Slurm runs none.
    heartbeat_seconds: float | None
    # Name of the profile that groups of GPUs must keep; None: none.
    latency_profile: str | None
    latency_profiles: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Fleet:
    """A whole, validated declaration."""

    cluster: str
    nodes: tuple[Node, ...]
    classes: Mapping[str, Mapping[str, Any]]
    fabric: Fabric
    storage: Storage
    services: Services
    scheduler: Scheduler
    ledger: LedgerAddress
    policy: Policy

    @classmethod
    def load(cls, path: str | Path) -> Fleet:
        """Return the fleet of a fleet file. Raises FleetError."""
        file = display_path(path)
        return cls.from_data(read_yaml(path, file), file)

    @classmethod
    def from_data(cls, data: Any, file: str) -> Fleet:
        """Return the fleet that a fleet file's content declares; ``file`` is named in errors. Raises FleetError."""
        keys = ("plugin", "hosts", "nodes", "hardware_classes", *_SECTIONS, *CONSTRUCTABLE)
        top = Section(data, file, "", keys)
        top.choice("plugin", (PLUGIN,))
        overrides = top.section("hardware_classes", None).data
        known = sorted({*shipped_classes(), *overrides})
        nodes: list[Node] = []
        used: dict[str, Mapping[str, Any]] = {}
        fabric = read_fabric(top)
        for section in top.sections("hosts", ("name", "role", "address"), required=True):
            nodes += _hosts(section)
        addresses = {node.name: node.address for node in nodes}
        storage = read_storage(top, {node.name: node.role for node in nodes})
        for section in top.sections("nodes", _BLOCK, required=True):
            name = section.choice("hardware_class", known)
            if name not in used:
                expect = with_fabric(name, expectations_of(name, overrides, file), fabric, file)
                used[name] = with_storage(name, expect, storage, addresses, file)
            nodes += _block(section, name, used[name], fabric)
        # A class nobody uses is checked all the same: its error would otherwise come with the first node of it.
        for name in overrides:
            if name not in used:
                expect = with_fabric(name, expectations_of(name, overrides, file), fabric, file)
                used[name] = {**expect, "mounts": None, "checkpoint": None}
        fleet = cls._checked(top, tuple(nodes), used, fabric, storage)
        return replace(fleet, ledger=_anchored(fleet.ledger, Path(file).parent))

    @classmethod
    def from_variables(cls, data: Any, file: str = "muster_fleet") -> Fleet:
        """Return the fleet that the variable ``muster_fleet`` holds, whichever inventory gave it. Raises FleetError."""
        top = Section(data, file, "", (*_SERVICES, "nodes", "classes", *_SECTIONS))
        fabric = read_fabric(top)
        known = top.section("classes", None, required=True)
        classes = {name: checked_expectations(value, file, f"classes.{name}") for name, value in known.data.items()}
        declared = top.section("nodes", None, required=True)
        keys = ("role", "hardware_class", "address", "pod", "rack", "rails")
        nodes = tuple(
            _declared_node(declared.section(name, keys, required=True), name, classes, fabric) for name in declared.data
        )
        storage = read_storage(top, {node.name: node.role for node in nodes if node.role != COMPUTE})
        addresses = {node.name: node.address for node in nodes}
        used = {node.hardware_class for node in nodes}
        for name, expect in classes.items():
            if with_fabric(name, expect, fabric, file) != expect:
                raise FleetError(file, f"classes.{name}.fabric", "other settings", "those that follow from fabric")
            if name in used and with_storage(name, expect, storage, addresses, file) != expect:
                raise FleetError(file, f"classes.{name}.mounts", "other mounts", "those that follow from storage")
        fleet = cls._checked(top, nodes, classes, fabric, storage)
        for name, wanted in fleet.classes.items():
            if wanted != classes[name]:
                raise FleetError(file, f"classes.{name}.mini_clusters", "others", "those that follow from policy")
        for key, value in fleet.services_variables().items():
            if top.data.get(key) != value:
                raise top.error(key, json.dumps(value), json.dumps(top.data.get(key), default=str))
        # There is no fleet file that a relative path could start from.
        if _anchored(fleet.ledger, Path("/")) != fleet.ledger:
            raise FleetError(file, "ledger.url", shown(fleet.ledger.url), "sqlite:////ABSOLUTE/PATH")
        return fleet

    @classmethod
    def _checked(
        cls,
        top: Section,
        nodes: tuple[Node, ...],
        classes: Mapping[str, Mapping[str, Any]],
        fabric: Fabric,
        storage: Storage,
    ) -> Fleet:
        _check_together(top, nodes, fabric)
        services = Services.of(((node.name, node.role) for node in nodes), top.file)
        check_cabling(nodes, fabric, top.file)
        scheduler = read_scheduler(top, classes, services)
        policy = _policy(top, fabric, storage, scheduler)
        profile = LatencyProfile.from_policy(asdict(policy))
        count = Counter(node.hardware_class for node in nodes)
        return cls(
            cluster=_named(top, "cluster", _HOST_NAME, "lower-case letters, digits and hyphens"),
            nodes=nodes,
            classes={
                name: with_mini_clusters(name, expect, profile, count[name], top.file)
                for name, expect in classes.items()
            },
            fabric=fabric,
            storage=storage,
            services=services,
            scheduler=scheduler,
            ledger=_ledger(top),
            policy=policy,
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
        """Return ``muster_fleet.nodes``: every host by name."""
        return {node.name: node.to_dict() for node in self.nodes}

    def variables(self) -> dict[str, Any]:
        """Return ``muster_fleet`` without ``nodes``, as plain data."""
        return {
            "cluster": self.cluster,
            **self.services_variables(),
            "classes": self.classes,
            "fabric": self.fabric.to_dict(),
            "storage": self.storage.to_dict(),
            "scheduler": self.scheduler.to_dict(),
            "ledger": asdict(self.ledger),
            "policy": {**asdict(self.policy), "stages": list(self.policy.stages)},
        }


_fleets: dict[str, Fleet] = {}


def remember(path: str, fleet: Fleet) -> None:
    """Keep the fleet that a run started with, for the processes that this one forks."""
    _fleets[path] = fleet


def fleet_at(path: str) -> Fleet:
    """Return the fleet of a fleet file: the one this run started with, else as the file says now. Raises FleetError."""
    if path not in _fleets:
        _fleets[path] = Fleet.load(path)
    return _fleets[path]


def display_path(path: str | Path) -> str:
    """Return a path as errors name it: relative where it lies below the working directory."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _named(section: Section, key: str, pattern: re.Pattern[str], expected: str) -> str:
    value: str = section.text(key)
    if not pattern.fullmatch(value):
        raise section.error(key, expected)
    return value


def _host_names(section: Section) -> list[str]:
    return section.names("name", _HOST_NAME.fullmatch, "a host name or pattern such as gpu-[0001-3072]")


def _address(section: Section, key: str) -> Address:
    value: str = section.text(key)
    try:
        return ipaddress.ip_address(value)
    except ValueError as exc:
        raise section.error(key, "an IP address such as 10.0.0.11") from exc


def _addresses(section: Section, count: int) -> list[str]:
    first = _address(section, "address")
    try:
        first + (count - 1)
    except ipaddress.AddressValueError as exc:
        raise section.error("address", f"an address after which {count - 1} more follow") from exc
    return [str(first + index) for index in range(count)]


def _hosts(section: Section) -> list[Node]:
    names = _host_names(section)
    role = section.choice("role", HOST_ROLES)
    return [Node(name, role, address) for name, address in zip(names, _addresses(section, len(names)), strict=True)]


def _block(section: Section, hardware_class: str, expect: Mapping[str, Any], fabric: Fabric) -> list[Node]:
    names = _host_names(section)
    addresses = _addresses(section, len(names))
    pods = _places(section, "pods", len(names))
    racks = _places(section, "racks", len(names))
    rails = rails_of_block(section, len(names), hardware_class, expect, fabric)
    return [
        Node(name, COMPUTE, addresses[index], hardware_class, pods[index], racks[index], rails[index])
        for index, name in enumerate(names)
    ]


def _places(block: Section, key: str, nodes: int) -> Sequence[str | None]:
    """Return the pod or rack of each node of a block: places are filled in order, ``nodes_each`` nodes to each."""
    if key not in block:
        return [None] * nodes
    section = block.section(key, ("name", "nodes_each"))
    names = section.names("name", _WORD.fullmatch, "letters, digits, hyphens, dots and underscores")
    each = section.number("nodes_each", 1, nodes if len(names) == 1 else _MISSING, whole=True)
    if each is _MISSING:
        raise section.error("nodes_each", f"the number of nodes in each of the {len(names)} {key}")
    needed = -(-nodes // each)
    if needed != len(names):
        fit = f"{needed} {key} for {nodes} nodes, {each} in each"
        raise section.error("name", fit, f'"{section.data["name"]}" ({len(names)} {key})')
    return [names[index // each] for index in range(nodes)]


def _declared_node(section: Section, name: str, classes: Mapping[str, Any], fabric: Fabric) -> Node:
    if not _HOST_NAME.fullmatch(name):
        raise FleetError(section.file, section.key, shown(name), "a host name")
    role = section.choice("role", (*HOST_ROLES, COMPUTE))
    hardware_class = section.choice("hardware_class", tuple(classes)) if role == COMPUTE else None
    rails = tuple(declared_rail(rail) for rail in section.sections("rails", RAIL_KEYS))
    if hardware_class:
        check_rails(section, [rail.device for rail in rails], hardware_class, classes[hardware_class], fabric)
    address = str(_address(section, "address"))
    return Node(name, role, address, hardware_class, section.text("pod", None), section.text("rack", None), rails)


def _check_together(top: Section, nodes: Sequence[Node], fabric: Fabric) -> None:
    """Raise FleetError for what only the nodes together show."""
    by_name: dict[str, Node] = {}
    by_address: dict[str, str] = {}
    pod_of: dict[str, str | None] = {}
    for node in nodes:
        if (other := by_name.setdefault(node.name, node)) is not node:
            if other.rack and node.rack and other.rack != node.rack:
                both = f'node "{node.name}" in racks {shown(other.rack)} and {shown(node.rack)}'
                raise FleetError(top.file, "nodes", both, "each node in one rack")
            raise FleetError(top.file, "nodes", f'host "{node.name}" twice', "each host once")
        for address in (node.address, *(rail.address.partition("/")[0] for rail in node.rails if rail.address)):
            if address in by_address:
                both = f"address {address} on {by_address[address]} and {node.name}"
                raise FleetError(top.file, "nodes", both, "each address once")
            by_address[address] = node.name
        if node.rack is not None and pod_of.setdefault(node.rack, node.pod) != node.pod:
            both = f'rack "{node.rack}" in pods {shown(pod_of[node.rack])} and {shown(node.pod)}'
            raise FleetError(top.file, "nodes", both, "each rack in one pod")
    managers = [node.name for node in nodes if node.role == SUBNET_MANAGER]
    if bool(managers) != bool(fabric.subnet_manager):
        found = f"{', '.join(managers) or 'no host'} with role {SUBNET_MANAGER}"
        wanted = "none, as fabric.subnet_manager is not declared" if managers else "one or more, first the master"
        raise FleetError(top.file, "hosts", found, wanted)


def _ledger(top: Section) -> LedgerAddress:
    section = top.section("ledger", ("url", "id"), required=True)
    url: str = section.text("url")
    # The fleet file is read by everybody and shown in errors.
    if _PASSWORD.search(url):
        raise section.error("url", "no password in it: libpq reads PGPASSFILE or PGPASSWORD", "a URL with a password")
    if not _LEDGER_URL.fullmatch(url):
        raise section.error("url", "sqlite:///PATH or postgresql://HOST/NAME")
    identity: str = section.text("id")
    try:
        return LedgerAddress(url, str(UUID(identity)))
    except ValueError as exc:
        raise section.error("id", "a UUID, such as one that uuidgen prints") from exc


def _anchored(ledger: LedgerAddress, directory: Path) -> LedgerAddress:
    """Return the address with a relative SQLite path made absolute from the fleet file's directory.

    Taken from wherever Ansible happens to run, one fleet would have as many ledgers as there are directories.
    """
    scheme, path = ledger.url[: len(_SQLITE)], ledger.url[len(_SQLITE) :]
    if scheme != _SQLITE or path.startswith("/"):
        return ledger
    return replace(ledger, url=f"{_SQLITE}{(directory / path).resolve()}")


def _policy(top: Section, fabric: Fabric, storage: Storage, scheduler: Scheduler) -> Policy:
    defaults = plain(read_yaml(_DEFAULTS), str(_DEFAULTS))["policy"]
    intervals = defaults.pop("heartbeat_intervals")
    section = top.section("policy", (*defaults, "heartbeat_seconds"))
    # Stages for which nothing is declared, and why.
    idle = {
        **({} if fabric.rdma else {"fabric": "as fabric.kind is ethernet"}),
        **({} if storage.checkpoint else {"storage": "as storage.checkpoint is not declared"}),
    }
    stages = section.texts("stages", tuple(each for each in defaults["stages"] if each not in idle))
    for index, stage in enumerate(stages):
        if stage not in STAGES:
            raise section.error(f"stages[{index}]", one_of(STAGES), shown(stage))
        if stage in idle:
            raise section.error(f"stages[{index}]", f"no stage {stage}, {idle[stage]}", shown(stage))
        if stage in stages[:index]:
            raise section.error(f"stages[{index}]", "each stage once", f"{shown(stage)} again")
    if not stages:
        raise section.error("stages", "at least one stage", "an empty list")
    shipped = Section(defaults["burn_in_profiles"], str(_DEFAULTS), "policy.burn_in_profiles", None)
    own = section.section("burn_in_profiles", None)
    profiles = {name: _profile(profiles, name) for profiles in (shipped, own) for name in profiles.data}
    latency = _latency_profiles(defaults["latency_profiles"], section)
    latency_profile = section.choice("latency_profile", tuple(latency), None)
    if latency_profile is not None and "acceptance" not in stages:
        raise section.error("latency_profile", "stage acceptance in policy.stages, which measures it")
    hours = section.section("fresh_hours", STAGES)
    return Policy(
        stages=stages,
        burn_in_profile=section.choice("burn_in_profile", tuple(profiles), defaults["burn_in_profile"]),
        burn_in_profiles=profiles,
        fresh_hours={**defaults["fresh_hours"], **{stage: hours.number(stage, 0) for stage in hours.data}},
        close_limit_percent=section.number("close_limit_percent", 0, defaults["close_limit_percent"]),
        retest=section.flag("retest", defaults["retest"]),
        heartbeat_seconds=_heartbeat(section, scheduler, intervals),
        latency_profile=latency_profile,
        latency_profiles=latency,
    )


def _heartbeat(section: Section, scheduler: Scheduler, intervals: float) -> Any:
    interval = scheduler.health_interval_seconds
    if interval is None:
        return section.number("heartbeat_seconds", 1, None)
    if "heartbeat_seconds" in section and section.number("heartbeat_seconds", 1) < interval:
        raise section.error("heartbeat_seconds", f"at least {interval:g}, as a health check runs that often")
    return section.number("heartbeat_seconds", 1, intervals * interval)


def _profile(profiles: Section, name: str) -> dict[str, Any]:
    """Return one burn-in profile as plain data, each step with the keys that say something."""
    profile = profiles.section(name, ("interval_seconds", "steps"), required=True)
    try:
        steps = steps_of(profile.data.get("steps"), profile.path("steps"))
    except PlanError as exc:
        raise FleetError(profile.file, exc.key, exc.found, exc.expected) from exc
    return {"interval_seconds": profile.number("interval_seconds", 0.1), "steps": [step.to_dict() for step in steps]}


def _latency_profiles(shipped: Mapping[str, Any], policy: Section) -> dict[str, dict[str, Any]]:
    """Return the shipped latency profiles and the site's own; raises FleetError."""
    given = (
        Section(shipped, str(_DEFAULTS), "policy.latency_profiles", None),
        policy.section("latency_profiles", None),
    )
    found: dict[str, dict[str, Any]] = {}
    for profiles in given:
        for name in profiles.data:
            profile = profiles.section(name, ("collective", "sizes_bytes", "limits"), required=True)
            sizes = profile.data.get("sizes_bytes")
            if not isinstance(sizes, (list, tuple)) or not sizes:
                raise profile.error("sizes_bytes", "a list of sizes in bytes")
            for index, size in enumerate(sizes):
                if isinstance(size, bool) or not isinstance(size, int) or size < 1 or size % ELEMENT_BYTES:
                    what = f"a whole number of at least 1 that {ELEMENT_BYTES} divides"
                    raise profile.error(f"sizes_bytes[{index}]", what, shown(size))
                if size in sizes[:index]:
                    raise profile.error(f"sizes_bytes[{index}]", "each size once", f"{size} again")
            limits: dict[int, float] = {}
            for limit in profile.sections("limits", ("gpus", "microseconds"), required=True):
                gpus = limit.number("gpus", 2, whole=True)
                if gpus in limits:
                    raise limit.error("gpus", "each number of GPUs once")
                limits[gpus] = limit.number("microseconds", 0.001)
                if not math.isfinite(limits[gpus]):
                    raise limit.error("microseconds", "a number of microseconds")
            found[name] = {
                # Every collective is judged by its own budget; the one that a token waits for is this.
                "collective": profile.choice("collective", ("all_reduce",), "all_reduce"),
                "sizes_bytes": [*sizes],
                "limits": [{"gpus": gpus, "microseconds": time} for gpus, time in sorted(limits.items())],
            }
    return found
