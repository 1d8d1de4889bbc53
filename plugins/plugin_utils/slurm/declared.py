"""The declared scheduler: which hosts run Slurm's services, and the section ``scheduler`` of a fleet file."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.expectations import shown
from ansible_collections.muster.cluster.plugins.plugin_utils.declaration import FleetError, Section, one_of, read_yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.hardware_class import plain
from ansible_collections.muster.cluster.plugins.plugin_utils.slurm.versions import lacking, releases

CONTROLLER, DATABASE, LOGIN = "controller", "database", "login"
SSH_ACCESS = ("pam_slurm", "pam_slurm_adopt", "open")
# Muster's own partition, in which nodes under test run, and the user and account under which it runs there.
ACCEPTANCE_PARTITION = "acceptance"
MUSTER = "muster"
TREE, BLOCK, NONE = "tree", "block", "none"
TOPOLOGIES = (TREE, BLOCK, NONE)
AUTO, EXPLICIT = "auto", "explicit"
GRES = (AUTO, EXPLICIT, NONE)
FINISH, END = "finish", "end"
LEAVING_JOBS = (FINISH, END)
ENFORCE = ("associations", "limits", "nojobs", "nosteps", "qos", "safe", "wckeys")
# Debian 12's release, and where its slurmctld keeps its state.
VERSION = "22.05"
STATE_DIRECTORY = "/var/lib/slurm/slurmctld"
CGROUP_TRACKING = "proctrack/cgroup"
ADOPT = "pam_slurm_adopt"
# At most two: a third would stand by for a case that neither this design nor its tests know.
CONTROLLERS_LIMIT = 2

# Keys that hold the gate or are made from other values of the fleet file; what to use instead.
OWN_KEYS = {
    "BackupAddr": "a second host of role controller",
    "BackupController": "a second host of role controller",
    "ClusterName": "cluster",
    "ControlAddr": "the hosts of role controller",
    "ControlMachine": "the hosts of role controller",
    "EnforcePartLimits": "nothing else, as the gate needs NO: a job waits for nodes that are closed now",
    "Include": "nothing else, as the gate's file has to be the last word",
    "NodeName": "nodes and scheduler.node_parameters",
    "NodeSet": "scheduler.partitions[].hardware_classes",
    "PartitionName": "scheduler.partitions",
    "SlurmctldAddr": "the hosts of role controller",
    "SlurmctldHost": "the hosts of role controller",
    "StateSaveLocation": "scheduler.state_directory",
    "TopologyPlugin": "scheduler.topology",
}
_KEYS = (
    *("partitions", "parameters", "node_parameters", "ssh_access", "cgroup", "version", "repository", "accounting"),
    *("state_directory", "topology", "gres", "leaving_jobs", "rest", "containers", "hooks"),
)
_WORD = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
# sacctmgr keeps account names in lower case.
_ACCOUNT = re.compile(r"[a-z0-9]([a-z0-9_.-]*[a-z0-9])?")
_USER = re.compile(r"[a-z_][a-z0-9_.-]*\$?")
# Keys of slurm.conf that others are computed from.
_WHOLE_NUMBERS = ("HealthCheckInterval", "MessageTimeout")
# Partition keys that ask who is charged.
_ACCOUNT_KEYS = ("allowaccounts", "denyaccounts", "allowqos", "denyqos", "qos")


@dataclass(frozen=True)
class Services:
    """Names of the hosts that run Slurm's services; the first controller leads, the second stands by."""

    controllers: tuple[str, ...]
    database: str | None
    logins: tuple[str, ...]

    @classmethod
    def of(cls, roles: Iterable[tuple[str, str]], file: str) -> Services:
        """Return the services of hosts by name and role. Raises FleetError."""
        hosts = list(roles)
        by_role = {role: [name for name, has in hosts if has == role] for role in (CONTROLLER, DATABASE, LOGIN)}
        controllers, databases = by_role[CONTROLLER], by_role[DATABASE]
        if not 1 <= len(controllers) <= CONTROLLERS_LIMIT:
            found = f"{', '.join(controllers) or 'none'} with role {CONTROLLER}"
            raise FleetError(file, "hosts", found, "one controller, or two: the first leads, the second stands by")
        if len(databases) > 1:
            raise FleetError(file, "hosts", f"{', '.join(databases)} with role {DATABASE}", "one database, or none")
        return cls(tuple(controllers), databases[0] if databases else None, tuple(by_role[LOGIN]))


@dataclass(frozen=True)
class Partition:
    """One user partition; ``hardware_classes`` None takes nodes of every class."""

    name: str
    default: bool
    hardware_classes: tuple[str, ...] | None
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Repository:
    """A site's repository of packages: its address, suite, components and ASCII-armored public key."""

    url: str
    suite: str | None
    components: tuple[str, ...]
    signing_key: str


@dataclass(frozen=True)
class Account:
    """One account of the accounting database with its users; ``limits`` are keys of sacctmgr such as ``GrpTRES``."""

    name: str
    parent: str | None
    users: tuple[str, ...]
    limits: Mapping[str, Any]


@dataclass(frozen=True)
class Accounting:
    """slurmdbd on ``host``; ``parameters`` are further keys of slurmdbd.conf."""

    host: str
    enforce: tuple[str, ...]
    parameters: Mapping[str, Any]
    accounts: tuple[Account, ...]


@dataclass(frozen=True)
class Rest:
    """slurmrestd on ``host``."""

    host: str
    port: int


@dataclass(frozen=True)
class Containers:
    """enroot and pyxis: their packages, and the path of pyxis' SPANK plugin."""

    packages: tuple[str, ...]
    plugin: str


@dataclass(frozen=True)
class Hooks:
    """Which of Muster's programs Slurm runs on compute nodes."""

    health: bool
    prolog: bool
    epilog: bool


@dataclass(frozen=True)
class Scheduler:
    """Slurm: its release, partitions, services, and keys of slurm.conf, NodeName lines (by class) and cgroup.conf.

    A key that is None is left out of its file.
    """

    partitions: tuple[Partition, ...]
    parameters: Mapping[str, Any]
    node_parameters: Mapping[str, Mapping[str, Any]]
    ssh_access: str
    cgroup: Mapping[str, Any]
    version: str
    repository: Repository | None
    accounting: Accounting | None
    state_directory: str
    topology: str
    gres: str
    leaving_jobs: str
    rest: Rest | None
    containers: Containers | None
    hooks: Hooks

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that ``read_scheduler`` takes back."""
        data: dict[str, Any] = _plain(asdict(self))
        return data

    @property
    def health_interval_seconds(self) -> float | None:
        """Seconds between two health checks of a node; None where Slurm runs none."""
        if not self.hooks.health:
            return None
        own = self.parameter("HealthCheckInterval")
        # 0 switches the checks off, as Slurm has it.
        return float(defaults()["hooks"]["health_interval"] if own is None else own) or None

    def parameter(self, key: str) -> Any:
        """Return the site's value of a key of slurm.conf, spelled in any case; None where it has none."""
        return next((value for name, value in self.parameters.items() if name.lower() == key.lower()), None)


@lru_cache(maxsize=1)
def defaults() -> Mapping[str, Any]:
    """Return what holds where a fleet file is silent, without units and sources."""
    path = Path(__file__).with_name("defaults.yml")
    data: Mapping[str, Any] = plain(read_yaml(path), str(path))
    return data


def read_scheduler(top: Section, classes: Collection[str], services: Services) -> Scheduler:
    """Return the section ``scheduler``, filled up with the defaults. Raises FleetError."""
    section = top.section("scheduler", _KEYS, required=True)
    version = _version(section)
    by_class = section.section("node_parameters", sorted(classes))
    scheduler = Scheduler(
        partitions=_partitions(section, classes, version),
        parameters=_parameters(section, "parameters", _known(version, "slurm.conf"), removable=True),
        node_parameters={
            name: _parameters(by_class, name, _known(version, "node"), removable=True) for name in by_class.data
        },
        ssh_access=section.choice("ssh_access", SSH_ACCESS, ADOPT),
        cgroup=_parameters(section, "cgroup", _known(version, "cgroup.conf"), removable=True),
        version=version,
        repository=read_repository(section),
        accounting=_accounting(section, services),
        state_directory=_state_directory(section, services),
        topology=section.choice("topology", TOPOLOGIES, TREE),
        gres=section.choice("gres", GRES, EXPLICIT),
        leaving_jobs=section.choice("leaving_jobs", LEAVING_JOBS, FINISH),
        rest=_rest(section, services),
        containers=_containers(section),
        hooks=_hooks(section),
    )
    _check_together(section, scheduler)
    return scheduler


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _version(section: Section) -> str:
    value = section.data.get("version")
    if value is None:
        return VERSION
    # YAML takes 22.05 for a number, and 23.10 for 23.1.
    if not isinstance(value, str) or value not in releases():
        raise section.error("version", f"{one_of(releases())}, in quotes")
    return str(value)


def _partitions(section: Section, classes: Collection[str], version: str) -> tuple[Partition, ...]:
    partitions: list[Partition] = []
    for item in section.sections("partitions", ("name", "default", "hardware_classes", "parameters"), required=True):
        name: str = item.text("name")
        if not _WORD.fullmatch(name):
            raise item.error("name", "letters, digits, hyphens, dots and underscores")
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
        partitions.append(
            Partition(name, default, wanted, _parameters(item, "parameters", _known(version, "partition")))
        )
    return tuple(partitions)


def _parameters(
    parent: Section, key: str, complaint: Callable[[str, Any], str] = lambda _name, _value: "", removable: bool = False
) -> dict[str, Any]:
    """Return keys of a Slurm file with their values; ``complaint`` says what is wrong with one of them."""
    section = parent.section(key, None)
    seen: set[str] = set()
    for name, value in section.data.items():
        # YAML turns an unquoted yes into true; which of Slurm's spellings was meant is not ours to guess.
        if not (isinstance(value, (str, int, float)) or (removable and value is None)) or isinstance(value, bool):
            raise section.error(name, "a number or a text (quote yes and no)")
        if not name.isalnum() or (isinstance(value, str) and re.search(r"[\n#]", value)):
            raise section.error(name, "a key of letters and digits, and a value of one line without #")
        if name.lower() in seen:
            raise section.error(name, "each key once, as Slurm does not look at its case", f"{name} again")
        seen.add(name.lower())
        if expected := complaint(name, value):
            raise section.error(name, expected)
    return dict(section.data)


def _known(version: str, file: str) -> Callable[[str, Any], str]:
    """Return what says why a release does not take a key of one of Slurm's files."""
    own = {name.lower(): name for name in OWN_KEYS} if file == "slurm.conf" else {}

    def complaint(name: str, value: Any) -> str:
        if name.lower() in own:
            return f"no {own[name.lower()]} here, use {OWN_KEYS[own[name.lower()]]}"
        return "" if value is None else lacking(version, file, name, value)

    return complaint


def read_repository(section: Section) -> Repository | None:
    """Return the site's repository that a section declares, None where it declares none. Raises FleetError."""
    if "repository" not in section:
        return None
    item = section.section("repository", ("url", "suite", "components", "signing_key"))
    url: str = item.text("url")
    if not url.startswith(("http://", "https://", "file:/")):
        raise item.error("url", "https://..., http://... or file:/...")
    key: str = item.text("signing_key")
    if "PGP PUBLIC KEY BLOCK" not in key:
        raise item.error("signing_key", "the ASCII-armored public key itself", "other text")
    return Repository(url, item.text("suite", None), item.texts("components", ()), key)


def _accounting(section: Section, services: Services) -> Accounting | None:
    if "accounting" not in section:
        if services.database is not None:
            found = f"{services.database} with role {DATABASE}"
            raise FleetError(section.file, "hosts", found, "none, as scheduler.accounting is not declared")
        return None
    item = section.section("accounting", ("host", "enforce", "parameters", "accounts"))
    if services.database is None:
        raise FleetError(section.file, "hosts", f"none with role {DATABASE}", "one, as scheduler.accounting needs it")
    enforce = item.texts("enforce", ())
    for index, what in enumerate(enforce):
        if what not in ENFORCE:
            raise item.error(f"enforce[{index}]", one_of(ENFORCE), shown(what))
    return Accounting(
        host=item.choice("host", (services.database,), services.database),
        enforce=enforce,
        parameters=_parameters(item, "parameters"),
        accounts=_accounts(item),
    )


def _accounts(item: Section) -> tuple[Account, ...]:
    """Return the declared accounts, parents before children; Muster's own is there in any case."""
    accounts: dict[str, Account] = {}
    where: dict[str, Section] = {}
    for each in item.sections("accounts", ("name", "parent", "users", "limits")):
        name: str = each.text("name")
        if not _ACCOUNT.fullmatch(name) or name == "root":
            raise each.error("name", "lower-case letters, digits, hyphens, dots and underscores, other than root")
        if name in accounts:
            raise each.error("name", "each account once", f"{shown(name)} again")
        users = each.texts("users", ())
        for index, user in enumerate(users):
            if not _USER.fullmatch(user):
                raise each.error(f"users[{index}]", "a user name", shown(user))
        accounts[name] = Account(name, each.text("parent", None), users, _parameters(each, "limits"))
        where[name] = each
    for name, account in accounts.items():
        if account.parent is not None and account.parent not in accounts:
            others = sorted(set(accounts) - {name})
            raise where[name].error("parent", one_of(others) if others else "none, as no other account is declared")
    if MUSTER not in accounts:
        # Where associations are enforced, a user without an account runs nothing: nothing could be proven.
        accounts[MUSTER] = Account(MUSTER, None, (MUSTER,), {})
    elif MUSTER not in accounts[MUSTER].users:
        raise where[MUSTER].error("users", f"{MUSTER} among them, as Muster's own jobs run under it")
    ordered: dict[str, Account] = {}
    while len(ordered) < len(accounts):
        ready = [
            each
            for each in accounts.values()
            if each.name not in ordered and (each.parent is None or each.parent in ordered)
        ]
        if not ready:
            stuck = next(name for name in accounts if name not in ordered)
            raise where[stuck].error("parent", "no circle of parents")
        ordered.update((each.name, each) for each in ready)
    return tuple(ordered.values())


def _state_directory(section: Section, services: Services) -> str:
    if "state_directory" not in section and len(services.controllers) > 1:
        expected = f"a directory that {' and '.join(services.controllers)} both mount"
        raise section.error("state_directory", expected)
    return _path(section, "state_directory", STATE_DIRECTORY)


def _path(section: Section, key: str, default: str) -> str:
    value: str = section.text(key, default)
    path = PurePosixPath(value)
    if not path.is_absolute() or ".." in path.parts or re.search(r"[\s#=]", value):
        raise section.error(key, "an absolute path without blanks")
    return str(path)


def _rest(section: Section, services: Services) -> Rest | None:
    if "rest" not in section:
        return None
    item = section.section("rest", ("host", "port"))
    hosts = (*services.controllers, *filter(None, (services.database,)), *services.logins)
    port = item.number("port", 1, defaults()["rest"]["port"], whole=True)
    if port > 65535:
        raise item.error("port", "a port of at most 65535")
    return Rest(item.choice("host", hosts, services.controllers[0]), port)


def _containers(section: Section) -> Containers | None:
    if "containers" not in section:
        return None
    item, known = section.section("containers", ("packages", "plugin")), defaults()["containers"]
    return Containers(item.texts("packages", tuple(known["packages"])), _path(item, "plugin", known["plugin"]))


def _hooks(section: Section) -> Hooks:
    item = section.section("hooks", ("health", "prolog", "epilog"))
    return Hooks(*(item.flag(key, True) for key in ("health", "prolog", "epilog")))


def _check_together(section: Section, scheduler: Scheduler) -> None:
    """Raise FleetError for what keys say only together."""
    if scheduler.topology == BLOCK and (
        why := lacking(scheduler.version, "slurm.conf", "TopologyPlugin", "topology/block")
    ):
        raise section.error("topology", f"{TREE} or {NONE}: {why}")
    parameters = section.section("parameters", None)
    returns = scheduler.parameter("ReturnToService")
    if returns is not None and str(returns) not in ("0", "1"):
        raise _fault(parameters, "ReturnToService", "0 or 1, as with 2 a node takes jobs whatever made it reboot")
    controller = scheduler.parameter("SlurmctldParameters")
    if controller is not None and "enable_configless" not in str(controller).lower().split(","):
        raise _fault(parameters, "SlurmctldParameters", "enable_configless among them, by which nodes get their files")
    for key in _WHOLE_NUMBERS:
        value = scheduler.parameter(key)
        if value is not None and not re.fullmatch(r"\d+", str(value)):
            raise _fault(parameters, key, "a whole number of seconds")
    tracking = scheduler.parameter("ProctrackType") or CGROUP_TRACKING
    if scheduler.ssh_access == ADOPT and tracking != CGROUP_TRACKING:
        raise section.error("ssh_access", f"pam_slurm or open, as {ADOPT} needs {CGROUP_TRACKING}", shown(ADOPT))
    _check_accounts(section, scheduler)


def _check_accounts(section: Section, scheduler: Scheduler) -> None:
    """Raise FleetError where a partition asks for accounts that nobody checks.

    Without a database such a partition keeps every job waiting, without enforcement anyone may name the account.
    """
    accounted = scheduler.accounting is not None or scheduler.parameter("AccountingStorageType") is not None
    enforced = set(scheduler.accounting.enforce if scheduler.accounting else ()) | set(
        str(scheduler.parameter("AccountingStorageEnforce") or "").lower().split(",")
    )
    for item, partition in zip(
        section.sections("partitions", ("name", "default", "hardware_classes", "parameters")),
        scheduler.partitions,
        strict=True,
    ):
        for key in partition.parameters:
            if key.lower() not in _ACCOUNT_KEYS:
                continue
            if not accounted:
                raise item.error(f"parameters.{key}", "none, as scheduler.accounting is not declared", key)
            if not enforced & {"associations", "limits", "qos", "safe", "all"}:
                expected = "scheduler.accounting.enforce: [associations], or anyone may name the account"
                raise item.error(f"parameters.{key}", expected, key)


def _fault(section: Section, key: str, expected: str) -> FleetError:
    name = next(name for name in section.data if name.lower() == key.lower())
    return section.error(name, expected)
