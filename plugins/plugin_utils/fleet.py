"""The fleet: the declared cluster as typed values, read from a fleet file or from a plain inventory's variables."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from ansible_collections.muster.cluster.plugins.module_utils.burn_in_plan import PlanError, steps_of
from ansible_collections.muster.cluster.plugins.module_utils.evidence import STAGES
from ansible_collections.muster.cluster.plugins.module_utils.expectations import shown
from ansible_collections.muster.cluster.plugins.plugin_utils.declaration import (
    FleetError,
    Section,
    one_of,
    read_yaml,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.hardware_class import (
    checked_expectations,
    expectations_of,
    plain,
    shipped_classes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.node_names import PatternError, expand

PLUGIN = "muster.cluster.fleet"
SUFFIXES = (".fleet.yml", ".fleet.yaml")
# Keys of the fleet file that Ansible's Constructable takes.
CONSTRUCTABLE = ("compose", "groups", "keyed_groups", "strict", "use_extra_vars", "leading_separator")

CONTROLLER, COMPUTE = "controller", "compute"
# What a host that runs no user jobs can be.
HOST_ROLES = (CONTROLLER,)
FABRICS = ("roce", "infiniband", "ethernet")
SSH_ACCESS = ("pam_slurm", "pam_slurm_adopt", "open")
# Muster's own partition, in which nodes under test run.
ACCEPTANCE_PARTITION = "acceptance"

_DEFAULTS = Path(__file__).parent / "fleet_defaults.yml"
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
class Rail:
    """One NIC of a node on its rail's network; ``address`` with its prefix length, None where the rail has none."""

    rail: int
    device: str
    address: str | None


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
            "rails": [{"rail": rail.rail, "device": rail.device, "address": rail.address} for rail in self.rails],
        }


@dataclass(frozen=True)
class Fabric:
    """The network that collectives use; ``socket_interface`` is where their bootstrap and sockets go."""

    kind: str
    speed_gbps: float | None = None
    socket_interface: str | None = None


@dataclass(frozen=True)
class Partition:
    """One user partition; ``hardware_classes`` None takes nodes of every class."""

    name: str
    default: bool
    hardware_classes: tuple[str, ...] | None
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Scheduler:
    """Slurm: partitions, and keys of slurm.conf, of its NodeName lines (by class) and of cgroup.conf."""

    partitions: tuple[Partition, ...]
    parameters: Mapping[str, Any]
    node_parameters: Mapping[str, Mapping[str, Any]]
    ssh_access: str
    cgroup: Mapping[str, Any]


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


@dataclass(frozen=True)
class Fleet:
    """A whole, validated declaration."""

    cluster: str
    nodes: tuple[Node, ...]
    classes: Mapping[str, Mapping[str, Any]]
    fabric: Fabric
    storage: Mapping[str, Any]
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
        fabric = _fabric(top)
        for section in top.sections("hosts", ("name", "role", "address"), required=True):
            nodes += _hosts(section)
        for section in top.sections("nodes", _BLOCK, required=True):
            name = section.choice("hardware_class", known)
            if name not in used:
                used[name] = expectations_of(name, overrides, file)
            nodes += _block(section, name, used[name], fabric)
        # A class nobody uses is checked all the same: its error would otherwise come with the first node of it.
        for name in overrides:
            used.setdefault(name, expectations_of(name, overrides, file))
        fleet = cls._checked(top, tuple(nodes), used, fabric)
        return replace(fleet, ledger=_anchored(fleet.ledger, Path(file).parent))

    @classmethod
    def from_variables(cls, data: Any, file: str = "muster_fleet") -> Fleet:
        """Return the fleet that the variable ``muster_fleet`` holds, whichever inventory gave it. Raises FleetError."""
        top = Section(data, file, "", ("controller", "nodes", "classes", *_SECTIONS))
        fabric = _fabric(top)
        known = top.section("classes", None, required=True)
        classes = {name: checked_expectations(value, file, f"classes.{name}") for name, value in known.data.items()}
        declared = top.section("nodes", None, required=True)
        keys = ("role", "hardware_class", "address", "pod", "rack", "rails")
        nodes = tuple(
            _declared_node(declared.section(name, keys, required=True), name, classes, fabric) for name in declared.data
        )
        fleet = cls._checked(top, nodes, classes, fabric)
        top.choice("controller", (fleet.controller,))
        # There is no fleet file that a relative path could start from.
        if _anchored(fleet.ledger, Path("/")) != fleet.ledger:
            raise FleetError(file, "ledger.url", shown(fleet.ledger.url), "sqlite:////ABSOLUTE/PATH")
        return fleet

    @classmethod
    def _checked(
        cls, top: Section, nodes: tuple[Node, ...], classes: Mapping[str, Mapping[str, Any]], fabric: Fabric
    ) -> Fleet:
        _check_together(top, nodes)
        return cls(
            cluster=_named(top, "cluster", _HOST_NAME, "lower-case letters, digits and hyphens"),
            nodes=nodes,
            classes=classes,
            fabric=fabric,
            # No step reads storage settings yet; a key that nothing reads must not look as if it did something.
            storage=dict(top.section("storage", ()).data),
            scheduler=_scheduler(top, classes),
            ledger=_ledger(top),
            policy=_policy(top),
        )

    @property
    def controller(self) -> str:
        """Name of the controller host."""
        return next(node.name for node in self.nodes if node.role == CONTROLLER)

    def node_variables(self) -> dict[str, dict[str, Any]]:
        """Return ``muster_fleet.nodes``: every host by name."""
        return {node.name: node.to_dict() for node in self.nodes}

    def variables(self) -> dict[str, Any]:
        """Return ``muster_fleet`` without ``nodes``, as plain data."""
        scheduler = asdict(self.scheduler)
        scheduler["partitions"] = [
            {**partition, "hardware_classes": _list(partition["hardware_classes"])}
            for partition in scheduler["partitions"]
        ]
        return {
            "cluster": self.cluster,
            "controller": self.controller,
            "classes": self.classes,
            "fabric": asdict(self.fabric),
            "storage": self.storage,
            "scheduler": scheduler,
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


def _list(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)


def _named(section: Section, key: str, pattern: re.Pattern[str], expected: str) -> str:
    value: str = section.text(key)
    if not pattern.fullmatch(value):
        raise section.error(key, expected)
    return value


def _expanded(section: Section, key: str, check: Callable[[str], Any], expected: str) -> list[str]:
    pattern: str = section.text(key)
    try:
        names = expand(pattern)
    except PatternError as exc:
        raise section.error(key, exc.expected, exc.found) from exc
    for name in (names[0], names[-1]):
        if not check(name):
            raise section.error(key, expected)
    return names


def _host_names(section: Section) -> list[str]:
    return _expanded(section, "name", _HOST_NAME.fullmatch, "a host name or pattern such as gpu-[0001-3072]")


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
    rails = _rails(section, len(names), hardware_class, expect, fabric)
    return [
        Node(name, COMPUTE, addresses[index], hardware_class, pods[index], racks[index], rails[index])
        for index, name in enumerate(names)
    ]


def _places(block: Section, key: str, nodes: int) -> Sequence[str | None]:
    """Return the pod or rack of each node of a block: places are filled in order, ``nodes_each`` nodes to each."""
    if key not in block:
        return [None] * nodes
    section = block.section(key, ("name", "nodes_each"))
    names = _expanded(section, "name", _WORD.fullmatch, "letters, digits, hyphens, dots and underscores")
    each = section.number("nodes_each", 1, nodes if len(names) == 1 else _MISSING, whole=True)
    if each is _MISSING:
        raise section.error("nodes_each", f"the number of nodes in each of the {len(names)} {key}")
    needed = -(-nodes // each)
    if needed != len(names):
        fit = f"{needed} {key} for {nodes} nodes, {each} in each"
        raise section.error("name", fit, f'"{section.data["name"]}" ({len(names)} {key})')
    return [names[index // each] for index in range(nodes)]


def _rails(
    block: Section, nodes: int, hardware_class: str, expect: Mapping[str, Any], fabric: Fabric
) -> Sequence[tuple[Rail, ...]]:
    if "rails" not in block:
        _check_rails(block, (), hardware_class, expect, fabric)
        return [()] * nodes
    section = block.section("rails", ("devices", "addresses"))
    devices = _expanded(section, "devices", _WORD.fullmatch, "a device or pattern such as mlx5_[0-7]")
    _check_rails(block, devices, hardware_class, expect, fabric)
    if "addresses" not in section:
        return [tuple(Rail(rail, device, None) for rail, device in enumerate(devices))] * nodes
    return list(zip(*_rail_columns(section, devices, nodes), strict=True))


def _rail_columns(section: Section, devices: Sequence[str], nodes: int) -> list[list[Rail]]:
    """Return, for each rail, the rail as each node has it: addresses of one network, counted up from the first."""
    example = "the first node's address on each rail, such as 172.[16-23].0.1/16"
    firsts = _expanded(section, "addresses", lambda _: True, example)
    if len(firsts) != len(devices):
        raise section.error("addresses", f"{len(devices)}, one for each device", f"{len(firsts)} networks")
    columns = []
    for rail, (device, text) in enumerate(zip(devices, firsts, strict=True)):
        try:
            first = ipaddress.ip_interface(text)
        except ValueError as exc:
            raise section.error("addresses", example) from exc
        network = first.network
        if "/" not in text or int(first.ip) + nodes - 1 >= int(network.broadcast_address) + (
            network.num_addresses <= 2
        ):
            room = f"a network with its prefix length that holds {nodes} nodes from {first.ip} on"
            raise section.error("addresses", room, f'"{text}"')
        columns.append([Rail(rail, device, f"{first.ip + index}/{network.prefixlen}") for index in range(nodes)])
    return columns


def _check_rails(
    section: Section, devices: Sequence[str], hardware_class: str, expect: Mapping[str, Any], fabric: Fabric
) -> None:
    # Collectives over plain Ethernet need no rails, so that they may stay undeclared there.
    if not devices and fabric.kind == "ethernet":
        return
    expected = [rail["device"] for rail in expect["nic"]["rails"]] if expect["nic"] else []
    if len(devices) != len(expected):
        says = f"as nic.rails of class {hardware_class} says"
        raise section.error("rails", f"{len(expected)}, {says}", f"{len(devices)} rails")
    for rail, (device, wanted) in enumerate(zip(devices, expected, strict=True)):
        if device != wanted:
            says = f'"{wanted}", as nic.rails of class {hardware_class} says (override it for other NICs)'
            raise section.error("rails", says, f'"{device}" as rail {rail}')


def _declared_node(section: Section, name: str, classes: Mapping[str, Any], fabric: Fabric) -> Node:
    if not _HOST_NAME.fullmatch(name):
        raise FleetError(section.file, section.key, shown(name), "a host name")
    role = section.choice("role", (*HOST_ROLES, COMPUTE))
    hardware_class = section.choice("hardware_class", tuple(classes)) if role == COMPUTE else None
    rails = tuple(_declared_rail(rail) for rail in section.sections("rails", ("rail", "device", "address")))
    if hardware_class:
        _check_rails(section, [rail.device for rail in rails], hardware_class, classes[hardware_class], fabric)
    address = str(_address(section, "address"))
    return Node(name, role, address, hardware_class, section.text("pod", None), section.text("rack", None), rails)


def _declared_rail(section: Section) -> Rail:
    address = section.text("address", None)
    if address is not None:
        try:
            ipaddress.ip_interface(address)
        except ValueError as exc:
            raise section.error("address", "an address with its prefix length such as 172.16.0.1/16") from exc
    return Rail(section.number("rail", 0, whole=True), section.text("device"), address)


def _check_together(top: Section, nodes: Sequence[Node]) -> None:
    """Raise FleetError for what only the nodes together show."""
    by_name: set[str] = set()
    by_address: dict[str, str] = {}
    pod_of: dict[str, str | None] = {}
    for node in nodes:
        if node.name in by_name:
            raise FleetError(top.file, "nodes", f'host "{node.name}" twice', "each host once")
        by_name.add(node.name)
        for address in (node.address, *(rail.address.partition("/")[0] for rail in node.rails if rail.address)):
            if address in by_address:
                both = f"address {address} on {by_address[address]} and {node.name}"
                raise FleetError(top.file, "nodes", both, "each address once")
            by_address[address] = node.name
        if node.rack is not None and pod_of.setdefault(node.rack, node.pod) != node.pod:
            both = f'rack "{node.rack}" in pods {shown(pod_of[node.rack])} and {shown(node.pod)}'
            raise FleetError(top.file, "nodes", both, "each rack in one pod")
    controllers = [node.name for node in nodes if node.role == CONTROLLER]
    if len(controllers) != 1:
        found = ", ".join(controllers) or "none"
        raise FleetError(top.file, "hosts", f"{found} with role controller", "exactly one controller")


def _fabric(top: Section) -> Fabric:
    section = top.section("fabric", ("kind", "speed_gbps", "socket_interface"), required=True)
    return Fabric(
        section.choice("kind", FABRICS),
        section.number("speed_gbps", 1, None),
        section.text("socket_interface", None),
    )


def _scheduler(top: Section, classes: Mapping[str, Any]) -> Scheduler:
    keys = ("partitions", "parameters", "node_parameters", "ssh_access", "cgroup")
    section = top.section("scheduler", keys, required=True)
    partitions: list[Partition] = []
    for item in section.sections("partitions", ("name", "default", "hardware_classes", "parameters"), required=True):
        name = _named(item, "name", _WORD, "letters, digits, hyphens, dots and underscores")
        if name == ACCEPTANCE_PARTITION:
            raise item.error("name", "another name, as this is the partition that only Muster uses")
        if name.upper() == "DEFAULT":
            raise item.error("name", "another name, as Slurm takes this for the defaults of all partitions")
        if name in (partition.name for partition in partitions):
            raise item.error("name", "each partition once", f"{shown(name)} again")
        default = item.flag("default", False)
        if default and any(partition.default for partition in partitions):
            raise item.error("default", "one default partition", "a second default")
        wanted = item.texts("hardware_classes", None)
        for index, wants in enumerate(wanted or ()):
            if wants not in classes:
                raise item.error(f"hardware_classes[{index}]", one_of(sorted(classes)), shown(wants))
        partitions.append(Partition(name, default, wanted, _parameters(item, "parameters")))
    by_class = section.section("node_parameters", sorted(classes))
    return Scheduler(
        partitions=tuple(partitions),
        parameters=_parameters(section, "parameters"),
        node_parameters={name: _parameters(by_class, name) for name in by_class.data},
        ssh_access=section.choice("ssh_access", SSH_ACCESS, "pam_slurm_adopt"),
        cgroup=_parameters(section, "cgroup"),
    )


def _parameters(parent: Section, key: str) -> dict[str, Any]:
    """Return keys of a Slurm file with their values."""
    section = parent.section(key, None)
    for name, value in section.data.items():
        # YAML turns an unquoted yes into true; which of Slurm's spellings was meant is not ours to guess.
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            raise section.error(name, "a number or a text (quote yes and no)")
    return dict(section.data)


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


def _policy(top: Section) -> Policy:
    defaults = plain(read_yaml(_DEFAULTS), str(_DEFAULTS))["policy"]
    section = top.section("policy", tuple(defaults))
    stages = section.texts("stages", tuple(defaults["stages"]))
    for index, stage in enumerate(stages):
        if stage not in STAGES:
            raise section.error(f"stages[{index}]", one_of(STAGES), shown(stage))
        if stage in stages[:index]:
            raise section.error(f"stages[{index}]", "each stage once", f"{shown(stage)} again")
    if not stages:
        raise section.error("stages", "at least one stage", "an empty list")
    shipped = Section(defaults["burn_in_profiles"], str(_DEFAULTS), "policy.burn_in_profiles", None)
    own = section.section("burn_in_profiles", None)
    profiles = {name: _profile(profiles, name) for profiles in (shipped, own) for name in profiles.data}
    hours = section.section("fresh_hours", STAGES)
    return Policy(
        stages=stages,
        burn_in_profile=section.choice("burn_in_profile", tuple(profiles), defaults["burn_in_profile"]),
        burn_in_profiles=profiles,
        fresh_hours={**defaults["fresh_hours"], **{stage: hours.number(stage, 0) for stage in hours.data}},
        close_limit_percent=section.number("close_limit_percent", 0, defaults["close_limit_percent"]),
        retest=section.flag("retest", defaults["retest"]),
    )


def _profile(profiles: Section, name: str) -> dict[str, Any]:
    """Return one burn-in profile as plain data, each step with the keys that say something."""
    profile = profiles.section(name, ("interval_seconds", "steps"), required=True)
    try:
        steps = steps_of(profile.data.get("steps"), profile.path("steps"))
    except PlanError as exc:
        raise FleetError(profile.file, exc.key, exc.found, exc.expected) from exc
    return {"interval_seconds": profile.number("interval_seconds", 0.1), "steps": [step.to_dict() for step in steps]}
