"""The declared scheduler: which hosts run Slurm's services, and the section ``scheduler`` of a fleet file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal

from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_releases import served
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import (
    Converted,
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
    FleetError,
    choice,
    each_once,
    faults_of,
    filled,
    read_yaml,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import plain
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.slurm_versions import (
    SLURMCTLD,
    Reader,
    lacking,
    lacking_for,
    releases,
)

CONTROLLER, DATABASE, LOGIN = "controller", "database", "login"
# Muster's own partition, in which nodes under test run, and the user and account under which it runs there.
ACCEPTANCE_PARTITION = "acceptance"
MUSTER = "muster"
TREE, NONE = "tree", "none"
BLOCK: Final = "block"
EXPLICIT = "explicit"
END = "end"
# Debian 12's release, and where its slurmctld keeps its state.
VERSION = "22.05"
STATE_DIRECTORY = "/var/lib/slurm/slurmctld"
CGROUP_TRACKING = "proctrack/cgroup"
ADOPT, OPEN = "pam_slurm_adopt", "open"
# At most two: a third would stand by for a case that neither this design nor its tests know.
CONTROLLERS_LIMIT = 2

# Keys that hold the gate or are made from other values of the fleet file; what to use instead.
OWN_KEYS = {
    "AuthType": "nothing else, as only auth/munge tells Slurm who a user is",
    "BackupAddr": "a second host of role controller",
    "BackupController": "a second host of role controller",
    "ClusterName": "cluster",
    "ControlAddr": "the hosts of role controller",
    "ControlMachine": "the hosts of role controller",
    "EnforcePartLimits": "nothing else, as the gate needs NO: a job waits for nodes that are closed now",
    "Epilog": "scheduler.hooks.epilog",
    "HealthCheckProgram": "scheduler.hooks.health",
    "Include": "nothing else, as the gate's file has to be the last word",
    "NodeName": "nodes and scheduler.node_parameters",
    "NodeSet": "scheduler.partitions[].hardware_classes",
    "PartitionName": "scheduler.partitions",
    "Prolog": "scheduler.hooks.prolog",
    "SlurmctldAddr": "the hosts of role controller",
    "SlurmctldHost": "the hosts of role controller",
    "StateSaveLocation": "scheduler.state_directory",
    "TopologyPlugin": "scheduler.topology",
}
# Keys of the section that only Muster's own set-up of Slurm follows.
SETUP_KEYS = ("accounting", "cgroup", "containers", "parameters", "repository", "rest", "ssh_access", "topology")
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


def _parameters(data: Any, removable: bool = False) -> dict[str, Any]:
    """Return keys of a Slurm file with their values; null takes one that is ``removable`` out."""
    check_keys(data, None)
    seen: set[str] = set()
    for name, value in data.items():
        # YAML turns an unquoted yes into true; which of Slurm's spellings was meant is not ours to guess.
        if not (isinstance(value, (str, int, float)) or (removable and value is None)) or isinstance(value, bool):
            raise ReadError(name, shown(value), "a number or a text (quote yes and no)")
        if not name.isalnum() or (isinstance(value, str) and re.search(r"[\n#]", value)):
            expected = "a key of letters and digits, and a value of one line without #"
            raise ReadError(name, shown(value), expected)
        if name.lower() in seen:
            raise ReadError(name, f"{name} again", "each key once, as Slurm does not look at its case")
        seen.add(name.lower())
    return dict(data)


def _version(data: Any) -> str:
    # YAML takes 22.05 for a number, and 23.10 for 23.1.
    if not isinstance(data, str) or data not in releases():
        raise ReadError("", shown(data), f"{one_of(releases())}, in quotes")
    return data


def _directory(data: Any) -> str:
    value: str = read_as(Text, data)
    path = PurePosixPath(value)
    if not path.is_absolute() or ".." in path.parts or re.search(r"[\s#=]", value):
        raise ReadError("", shown(value), "an absolute path without blanks")
    return str(path)


Parameters = Annotated[Mapping[str, Any], Converted("a mapping", _parameters)]
Removable = Annotated[Mapping[str, Any], Converted("a mapping", lambda data: _parameters(data, removable=True))]
Directory = Annotated[str, Converted("text", _directory)]
Release = Annotated[str, Converted("text", _version)]
_WORD = matching(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?", "letters, digits, hyphens, dots and underscores")


@dataclass(frozen=True)
class Partition:
    """One user partition; ``hardware_classes`` None takes nodes of every class."""

    name: Annotated[str, _WORD]
    default: bool = False
    hardware_classes: tuple[Text, ...] | None = None
    parameters: Parameters = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name == ACCEPTANCE_PARTITION:
            raise ReadError("name", shown(self.name), "another name, as this is the partition that only Muster uses")
        if self.name.upper() == "DEFAULT":
            expected = "another name, as Slurm takes this for the defaults of all partitions"
            raise ReadError("name", shown(self.name), expected)


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A site's repository of packages: its address, suite, components and ASCII-armored public key."""

    url: Annotated[str, matching("(https?://|file:/).*", "https://..., http://... or file:/...")]
    suite: Text | None = None
    components: tuple[Text, ...] = ()
    signing_key: Text

    def __post_init__(self) -> None:
        if "PGP PUBLIC KEY BLOCK" not in self.signing_key:
            raise ReadError("signing_key", "other text", "the ASCII-armored public key itself")


@dataclass(frozen=True)
class Account:
    """One account of the accounting database with its users; ``limits`` are keys of sacctmgr such as ``GrpTRES``."""

    # sacctmgr keeps account names in lower case.
    name: Annotated[
        str,
        matching(
            r"(?!root$)[a-z0-9]([a-z0-9_.-]*[a-z0-9])?",
            "lower-case letters, digits, hyphens, dots and underscores, other than root",
        ),
    ]
    parent: Text | None = None
    users: tuple[Annotated[str, matching(r"[a-z_][a-z0-9_.-]*\$?", "a user name")], ...] = ()
    limits: Parameters = field(default_factory=dict)


def _accounts(data: Any) -> tuple[Account, ...]:
    """Return the declared accounts, parents before children; Muster's own is there in any case."""
    given: tuple[Account, ...] = read_as(tuple[Account, ...], data)
    names = [account.name for account in given]
    each_once("", names, "each account once", ".name")
    for index, account in enumerate(given):
        if account.parent is not None and account.parent not in names:
            others = sorted({*names} - {account.name})
            expected = one_of(others) if others else "none, as no other account is declared"
            raise ReadError(f"[{index}].parent", shown(account.parent), expected)
        if account.name == MUSTER and MUSTER not in account.users:
            expected = f"{MUSTER} among them, as Muster's own jobs run under it"
            raise ReadError(f"[{index}].users", shown(account.users), expected)
    # Where associations are enforced, a user without an account runs nothing: nothing could be proven.
    left = [*given, *(() if MUSTER in names else (_OWN_ACCOUNT,))]
    ordered: dict[str, Account] = {}
    while left:
        ready = [each for each in left if each.parent is None or each.parent in ordered]
        if not ready:
            raise ReadError(f"[{names.index(left[0].name)}].parent", shown(left[0].parent), "no circle of parents")
        ordered.update((each.name, each) for each in ready)
        left = [each for each in left if each.name not in ordered]
    return tuple(ordered.values())


_OWN_ACCOUNT = Account(MUSTER, None, (MUSTER,))


@dataclass(frozen=True)
class Accounting:
    """slurmdbd on ``host``; ``parameters`` are further keys of slurmdbd.conf."""

    host: Text
    enforce: tuple[Literal["associations", "limits", "nojobs", "nosteps", "qos", "safe", "wckeys"], ...] = ()
    parameters: Parameters = field(default_factory=dict)
    accounts: Annotated[tuple[Account, ...], Converted("a list", _accounts)] = (_OWN_ACCOUNT,)


@dataclass(frozen=True)
class Rest:
    """slurmrestd on ``host``; ``port`` is that of TLS, where role slurm is given a certificate."""

    host: Text
    port: Annotated[int, at_least(1), Rule("a port of at most 65535", (65535).__ge__, of_value=True)]


@dataclass(frozen=True)
class Containers:
    """enroot and pyxis: their packages, and the path of pyxis' SPANK plugin."""

    packages: tuple[Text, ...]
    plugin: Directory


@dataclass(frozen=True)
class Hooks:
    """Which of Muster's programs Slurm runs on compute nodes."""

    health: bool = True
    prolog: bool = True
    epilog: bool = True


@dataclass(frozen=True)
class Scheduler:
    """Slurm: its release, partitions, services, and keys of slurm.conf, NodeName lines (by class) and cgroup.conf.

    ``version`` is that of the controllers and the database; other hosts may have their own. A key that is None is left
    out of its file. ``staff_partitions`` are partitions of others that users cannot submit to, so that nodes which are
    not admitted may be in them. Where it is not ``managed``, the site sets Slurm up, and SETUP_KEYS are as by default.
    """

    partitions: Annotated[tuple[Partition, ...], Rule("at least one entry", bool, of_value=True)]
    parameters: Removable = field(default_factory=dict)
    node_parameters: Mapping[str, Removable] = field(default_factory=dict)
    ssh_access: Literal["pam_slurm", "pam_slurm_adopt", "open"] = "pam_slurm_adopt"
    cgroup: Removable = field(default_factory=dict)
    version: Release = VERSION
    repository: Repository | None = None
    accounting: Accounting | None = None
    state_directory: Directory = STATE_DIRECTORY
    topology: Literal["tree", "block", "none"] = "tree"
    # Device files of the class, or what AutoDetect of gres.conf finds.
    gres: Literal["explicit", "nvml", "nvidia", "nrt", "none"] = "explicit"
    leaving_jobs: Literal["finish", "end"] = "finish"
    rest: Rest | None = None
    containers: Containers | None = None
    hooks: Hooks = Hooks()
    staff_partitions: tuple[Annotated[str, _WORD], ...] = ()
    managed: bool = True

    def __post_init__(self) -> None:
        _check_setup(self)
        _check_partitions(self)
        _check_staff_partitions(self)
        _check_own_keys(self)
        _check_parameters(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that ``read_scheduler`` takes back."""
        data: dict[str, Any] = _plain(asdict(self))
        # Left out where there is none: the variables of such fleets stay what they were.
        usual = {"staff_partitions": not self.staff_partitions, "managed": self.managed}
        return {key: value for key, value in data.items() if not usual.get(key)}

    @property
    def health_interval_seconds(self) -> float | None:
        """Seconds between two health checks of a node; None where Slurm runs none."""
        if not self.hooks.health:
            return None
        own = self.parameter("HealthCheckInterval")
        # 0 switches the checks off, as Slurm has it.
        return (shipped_health_interval() if own is None else float(own)) or None

    def parameter(self, key: str) -> Any:
        """Return the site's value of a key of slurm.conf, spelled in any case; None where it has none."""
        return next((value for name, value in self.parameters.items() if name.lower() == key.lower()), None)


@lru_cache(maxsize=1)
def defaults() -> Mapping[str, Any]:
    """Return what holds where a fleet file is silent, without units and sources."""
    path = Path(__file__).with_name("slurm_defaults.yml")
    data: Mapping[str, Any] = plain(read_yaml(path), str(path))
    return data


def shipped_health_interval() -> float:
    """Return the seconds between two health checks where a fleet file is silent."""
    return float(defaults()["hooks"]["health_interval"])


def read_scheduler(
    data: Any, classes: Collection[str], services: Services, readers: Sequence[Reader], file: str
) -> Scheduler:
    """Return the section ``scheduler``, filled up with the defaults. Raises FleetError.

    ``readers`` are the nodes and login hosts that have a release of their own.
    """
    with faults_of(file, "scheduler"):
        check_keys(data, [each.name for each in fields(Scheduler)])
    if (data.get("accounting") is None) != (services.database is None):
        expected = (
            "as scheduler.accounting is not declared" if services.database else "as scheduler.accounting needs it"
        )
        found = f"{services.database or 'none'} with role {DATABASE}"
        raise FleetError(file, "hosts", found, f"{'none' if services.database else 'one'}, {expected}")
    if data.get("state_directory") is None and len(services.controllers) > 1:
        expected = f"a directory that {' and '.join(services.controllers)} both mount"
        raise FleetError(file, "scheduler.state_directory", "nothing", expected)
    shipped = {
        "accounting": {"host": services.database},
        "rest": {"host": services.controllers[0], **defaults()["rest"]},
        "containers": defaults()["containers"],
    }
    with faults_of(file, "scheduler"):
        given = {key: filled(data[key], known) for key, known in shipped.items() if data.get(key) is not None}
        scheduler = read(Scheduler, {**data, **given})
    for reader in readers:
        _check_served(scheduler, reader, file)
    with faults_of(file, "scheduler"):
        _check_known(scheduler, (Reader("scheduler.version", scheduler.version, SLURMCTLD), *readers))
        for index, partition in enumerate(scheduler.partitions):
            for number, wanted in enumerate(partition.hardware_classes or ()):
                choice(f"partitions[{index}].hardware_classes[{number}]", wanted, sorted(classes))
        try:
            check_keys(scheduler.node_parameters, sorted(classes))
        except ReadError as exc:
            raise exc.under("node_parameters") from None
        if scheduler.accounting:
            choice("accounting.host", scheduler.accounting.host, [services.database or ""])
        if scheduler.rest:
            hosts = (*services.controllers, *filter(None, (services.database,)), *services.logins)
            choice("rest.host", scheduler.rest.host, hosts)
    return scheduler


def in_blocks(scheduler: Scheduler, readers: Sequence[Reader]) -> Scheduler:
    """Return the scheduler with topology/block if Muster sets it up and every release can, otherwise unchanged."""
    releases_here = (scheduler.version, *(reader.version for reader in readers))
    if not scheduler.managed or any(map(no_blocks, releases_here)):
        return scheduler
    return replace(scheduler, topology=BLOCK)


def no_blocks(version: str) -> str:
    """Return why a release has no blocks of different sizes, nothing where it has.

    Slurm 23.11 has topology/block, and ends where a rack has a node fewer than another (tests/contracts).
    """
    return lacking(version, "topology.conf", "BlockSizes", None)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _check_setup(scheduler: Scheduler) -> None:
    """Raise ReadError for a key by which Muster sets up Slurm, where the site does."""
    if scheduler.managed:
        return
    for each in fields(scheduler):
        usual = each.default_factory() if each.default_factory is not MISSING else each.default
        value = getattr(scheduler, each.name)
        if each.name in SETUP_KEYS and value != usual:
            expected = "no such key, as with scheduler.managed: false the site sets it up in its own Slurm"
            raise ReadError(each.name, shown(value) if isinstance(value, (Mapping, str)) else "a value", expected)


def _check_partitions(scheduler: Scheduler) -> None:
    """Raise ReadError for names given twice, and for partitions that ask for accounts that nobody checks.

    Without a database such a partition keeps every job waiting, without enforcement anyone may name the account.
    """
    known: list[Partition] = []
    accounted = scheduler.accounting is not None or scheduler.parameter("AccountingStorageType") is not None
    enforced = set(scheduler.accounting.enforce if scheduler.accounting else ()) | set(
        str(scheduler.parameter("AccountingStorageEnforce") or "").lower().split(",")
    )
    for index, partition in enumerate(scheduler.partitions):
        where = f"partitions[{index}]"
        if partition.name in (other.name for other in known):
            raise ReadError(f"{where}.name", f"{shown(partition.name)} again", "each partition once")
        if partition.default and any(other.default for other in known):
            raise ReadError(f"{where}.default", "a second default", "one default partition")
        known.append(partition)
        for key in partition.parameters:
            # Whether the site's own Slurm checks accounts is asked there (module slurm_site_info).
            if key.lower() not in _ACCOUNT_KEYS or not scheduler.managed:
                continue
            if not accounted:
                raise ReadError(f"{where}.parameters.{key}", key, "none, as scheduler.accounting is not declared")
            if not enforced & {"associations", "limits", "qos", "safe", "all"}:
                expected = "scheduler.accounting.enforce: [associations], or anyone may name the account"
                raise ReadError(f"{where}.parameters.{key}", key, expected)


def _check_staff_partitions(scheduler: Scheduler) -> None:
    """Raise ReadError for a partition of staff that is the gate's, or Muster's own."""
    each_once("staff_partitions", scheduler.staff_partitions, "each partition once")
    for index, name in enumerate(scheduler.staff_partitions):
        if name in (ACCEPTANCE_PARTITION, *(partition.name for partition in scheduler.partitions)):
            expected = (
                "a partition that Muster does not manage, as those of users and its own are never for staff alone"
            )
            raise ReadError(f"staff_partitions[{index}]", shown(name), expected)


def _check_own_keys(scheduler: Scheduler) -> None:
    """Raise ReadError for a key of slurm.conf that is Muster's own."""
    own = {name.lower(): name for name in OWN_KEYS}
    for name, value in scheduler.parameters.items():
        if name.lower() in own:
            expected = f"no {own[name.lower()]} here, use {OWN_KEYS[own[name.lower()]]}"
            raise ReadError(f"parameters.{name}", shown(value), expected)


def _check_served(scheduler: Scheduler, reader: Reader, file: str) -> None:
    """Raise FleetError for a host's own release that the controllers do not serve."""
    window = [each for each in releases() if each in served(scheduler.version)]
    if reader.version not in window:
        expected = f"{one_of(window)}, which a slurmctld of scheduler.version ({scheduler.version}) serves"
        raise FleetError(file, reader.key, shown(reader.version), expected)


def _check_known(scheduler: Scheduler, readers: Sequence[Reader]) -> None:
    """Raise ReadError for a key or value that the release of one of the readers lacks; the controllers' comes first."""
    places = [
        ("parameters", "slurm.conf", scheduler.parameters),
        *((f"node_parameters.{name}", "node", given) for name, given in scheduler.node_parameters.items()),
        ("cgroup", "cgroup.conf", scheduler.cgroup),
        *(
            (f"partitions[{at}].parameters", "partition", each.parameters)
            for at, each in enumerate(scheduler.partitions)
        ),
    ]
    for where, file, given in places:
        for name, value in given.items():
            if value is not None and (expected := lacking_for(readers, file, name, value)):
                raise ReadError(f"{where}.{name}", shown(value), expected)
    if why := lacking_for(readers, "slurm.conf", "TopologyPlugin", f"topology/{scheduler.topology}"):
        raise ReadError("topology", shown(scheduler.topology), f"{TREE} or {NONE}: {why}")
    if why := lacking_for(readers, "gres.conf", "AutoDetect", scheduler.gres):
        raise ReadError("gres", shown(scheduler.gres), f"{EXPLICIT} or {why}")


def _check_parameters(scheduler: Scheduler) -> None:
    """Raise ReadError for what keys say only together."""
    returns = scheduler.parameter("ReturnToService")
    if returns is not None and str(returns) not in ("0", "1"):
        raise _fault(scheduler, "ReturnToService", "0 or 1, as with 2 a node takes jobs whatever made it reboot")
    controller = scheduler.parameter("SlurmctldParameters")
    if controller is not None and "enable_configless" not in str(controller).lower().split(","):
        raise _fault(scheduler, "SlurmctldParameters", "enable_configless among them, by which nodes get their files")
    # Slurm's default; without it a prolog and an epilog are named and never run.
    programs = scheduler.parameter("PrEpPlugins")
    if programs is not None and "prep/script" not in str(programs).lower().split(","):
        raise _fault(scheduler, "PrEpPlugins", "prep/script among them, which runs prolog and epilog")
    for key in _WHOLE_NUMBERS:
        value = scheduler.parameter(key)
        if value is not None and not re.fullmatch(r"\d+", str(value)):
            raise _fault(scheduler, key, "a whole number of seconds")
    if scheduler.containers and not scheduler.hooks.prolog:
        expected = "hooks.prolog: true, as the prolog makes the users' directories"
        raise ReadError("containers", "containers without a prolog", expected)
    tracking = scheduler.parameter("ProctrackType") or CGROUP_TRACKING
    if scheduler.ssh_access == ADOPT and tracking != CGROUP_TRACKING:
        raise ReadError("ssh_access", shown(ADOPT), f"pam_slurm or open, as {ADOPT} needs {CGROUP_TRACKING}")


def _fault(scheduler: Scheduler, key: str, expected: str) -> ReadError:
    name = next(name for name in scheduler.parameters if name.lower() == key.lower())
    return ReadError(f"parameters.{name}", shown(scheduler.parameters[name]), expected)
