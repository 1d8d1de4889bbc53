"""Slurm's accounting database as ``sacctmgr`` shows it, and what brings it to a declaration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..host.host import Host, Output
from ..words.errors import MusterError

ROOT = "root"
# Limits of an association that sacctmgr prints under the name by which it sets them.
LIMITS = (
    "DefaultQOS",
    "Fairshare",
    "GrpJobs",
    "GrpJobsAccrue",
    "GrpSubmit",
    "GrpTRES",
    "GrpTRESMins",
    "GrpTRESRunMins",
    "GrpWall",
    "MaxJobs",
    "MaxJobsAccrue",
    "MaxSubmit",
    "MaxTRES",
    "MaxTRESMins",
    "MaxTRESPerNode",
    "MaxWall",
    "Priority",
    "QOS",
)
_COLUMNS = ("Account", "User", "Partition", "ParentName", *LIMITS)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class AccountsError(MusterError):
    """What the database does not take, or does not answer."""


@dataclass(frozen=True)
class Account:
    """A declared account: its users are known by name, ``limits`` hold for the account as a whole."""

    name: str
    parent: str = ROOT
    users: tuple[str, ...] = ()
    limits: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    organization: str = ""

    @classmethod
    def from_params(cls, data: Mapping[str, Any]) -> Account:
        """Return the account of a module's parameters; raises AccountsError for what sacctmgr would misread."""
        name, parent = str(data["name"]), str(data.get("parent") or ROOT)
        users = tuple(dict.fromkeys(str(user) for user in data.get("users") or ()))
        for each in (name, parent, *users):
            # Slurm keeps names in lower case; one that is not would be made again and again.
            if not _NAME.fullmatch(each) or each != each.lower():
                raise AccountsError(f"account {name}: {each!r} is no name, expected lower case {_NAME.pattern}")
        known = {limit.lower(): limit for limit in LIMITS}
        limits = {}
        for key, value in (data.get("limits") or {}).items():
            if str(key).lower() not in known:
                raise AccountsError(f"account {name}: limit {key}, expected one of {', '.join(LIMITS)}")
            limits[known[str(key).lower()]] = str(value)
        texts = {key: str(data.get(key) or "") for key in ("description", "organization")}
        return cls(name, parent, users, limits, **texts)


@dataclass(frozen=True)
class Association:
    """What the database holds of one account in this cluster, or of one user in it."""

    account: str
    user: str = ""
    parent: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Present:
    """What the database holds."""

    clusters: frozenset[str] = frozenset()
    associations: tuple[Association, ...] = ()

    def account(self, name: str) -> Association | None:
        """Return an account's own association, None where there is none."""
        return next((each for each in self.associations if each.account == name and not each.user), None)

    def has_user(self, user: str, account: str) -> bool:
        """Return whether a user may name an account."""
        return any(each.account == account and each.user == user for each in self.associations)


@dataclass(frozen=True)
class Step:
    """One change: ``words`` follow ``sacctmgr --immediate``."""

    what: str
    words: tuple[str, ...]


def parse_clusters(text: str) -> frozenset[str]:
    """Return the clusters in ``sacctmgr list cluster format=Cluster``."""
    return frozenset(line.strip() for line in text.splitlines() if line.strip())


def parse_associations(text: str) -> tuple[Association, ...]:
    """Return the associations that hold in every partition; raises AccountsError for another table."""
    found = []
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != len(_COLUMNS):
            raise AccountsError(f"sacctmgr list associations: {line[:80]!r}, expected {len(_COLUMNS)} columns")
        row = dict(zip(_COLUMNS, (value.strip() for value in fields)))
        if not row["Partition"]:
            limits = {key: row[key] for key in LIMITS if row[key]}
            found.append(Association(row["Account"], row["User"], row["ParentName"], limits))
    return tuple(found)


def same(limit: str, found: str, wanted: str) -> bool:
    """Return whether two values of a limit are the same: names and TRES in any order, -1 as none."""
    parts = [sorted(_parts(text.lower())) for text in (found, wanted)]
    if limit == "Fairshare":
        parts = [each or ["1"] for each in parts]
    return parts[0] == parts[1]


def _parts(value: str) -> list[str]:
    return [part for part in value.split(",") if part and part != "-1" and not part.endswith("=-1")]


def written(limit: str, found: str, wanted: str) -> str:
    """Return what sacctmgr has to be told for a limit to become what is wanted, where something else is there."""
    if limit == "QOS":
        return ",".join(_parts(wanted))
    if "TRES" not in limit:
        return wanted
    # sacctmgr merges TRES: a kind that is not named keeps its limit. It refuses -1 without a kind.
    parts = _parts(wanted)
    kept = {part.lower().partition("=")[0] for part in parts}
    gone = [kind for kind in (part.partition("=")[0] for part in found.split(",")) if kind.lower() not in kept]
    return ",".join([*parts, *(f"{kind}=-1" for kind in gone if kind)])


def ordered(accounts: Sequence[Account], present: Present) -> list[Account]:
    """Return the accounts, parents first; raises AccountsError for a parent that is not there and a ring of parents."""
    names = [account.name for account in accounts]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise AccountsError(f"account {twice[0]} is declared twice")
    done: list[Account] = []
    rest = list(accounts)
    while rest:
        ready = [each for each in rest if each.parent not in {other.name for other in rest}]
        if not ready:
            raise AccountsError(f"accounts {', '.join(each.name for each in rest)} are each other's parents")
        for each in ready:
            if each.parent not in (ROOT, *names) and present.account(each.parent) is None:
                raise AccountsError(f"account {each.name}: parent {each.parent} is neither declared nor there")
        done += ready
        rest = [each for each in rest if each not in ready]
    return done


def plan(cluster: str, accounts: Sequence[Account], present: Present) -> list[Step]:
    """Return what brings the database to the declaration; what is not declared stays."""
    steps = []
    if cluster.lower() not in {name.lower() for name in present.clusters}:
        steps.append(Step(f"add cluster {cluster}", ("add", "cluster", cluster)))
    for account in ordered(accounts, present):
        there = present.account(account.name)
        has = there.limits if there else {}
        words = [
            f"{key}={written(key, has.get(key, ''), value)}"
            for key, value in sorted(account.limits.items())
            if not same(key, has.get(key, ""), value)
        ]
        if there is None:
            described = [
                f"Description={account.description or account.name}",
                f"Organization={account.organization or account.name}",
            ]
            words = [f"Cluster={cluster}", f"Parent={account.parent}", *described, *words]
            steps.append(Step(f"add account {account.name}", ("add", "account", account.name, *words)))
        else:
            moved = [f"Parent={account.parent}"] if there.parent != account.parent else []
            if moved or words:
                where = ("where", f"Account={account.name}", f"Cluster={cluster}", "set", *moved, *words)
                steps.append(Step(f"set {' '.join([*moved, *words])} of {account.name}", ("modify", "account", *where)))
        for user in account.users:
            if not present.has_user(user, account.name):
                words = [f"Account={account.name}", f"Cluster={cluster}"]
                steps.append(Step(f"add user {user} to {account.name}", ("add", "user", user, *words)))
    return steps


class Database:
    """The accounting database behind ``sacctmgr``. Every method raises AccountsError."""

    def __init__(self, host: Host, cluster: str, timeout_seconds: float) -> None:
        self.host = host
        self.cluster = cluster
        self.timeout_seconds = timeout_seconds

    def read(self) -> Present:
        """Return what is there."""
        clusters = parse_clusters(self._list("cluster", "format=Cluster"))
        # Without the parents' limits, which are printed as each account's own and cannot be taken away there.
        named = (f"Cluster={self.cluster}", "WOPLimits", f"format={','.join(_COLUMNS)}")
        return Present(clusters, parse_associations(self._list("associations", *named)))

    def take(self, step: Step) -> None:
        """Make one change."""
        output = self._run(["sacctmgr", "--immediate", "--quiet", *step.words])
        if output.rc != 0:
            raise AccountsError(f"{step.what}: {_said(output)}")

    def _list(self, *words: str) -> str:
        output = self._run(["sacctmgr", "--noheader", "--parsable2", "list", *words])
        if output.rc != 0:
            raise AccountsError(f"sacctmgr list {words[0]}: {_said(output)}")
        return output.stdout

    def _run(self, command: list[str]) -> Output:
        return self.host.run(command, self.timeout_seconds)


def _said(output: Output) -> str:
    text = " ".join(line.strip() for line in (output.stderr + "\n" + output.stdout).splitlines() if line.strip())
    return output.error or text[-500:] or f"exit status {output.rc}"
