"""What a package is on a host and what is declared of packages, whichever manager the host has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..words.errors import MusterError
from .host import Output

# A repository as a module takes it.
REPOSITORY = {
    "url": {"type": "str", "required": True},
    "suite": {"type": "str", "default": "/"},
    "components": {"type": "list", "elements": "str", "default": []},
    "signing_key": {"type": "str", "required": True, "no_log": False},
}
# Stands in the manager's file before a package that is declared no longer and still there: a run that is killed must
# not forget it.
GOING = "# To be removed: "
ARMOR = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
# States of a package of which nothing has to be repaired, in dpkg's words.
_SOUND = ("installed", "not-installed", "config-files")


class PackageError(MusterError):
    """What cannot be done, in words for the person who declared it."""


@dataclass(frozen=True)
class Installed:
    """What the host says of one package; ``reinstall`` is set where its files may be half there."""

    version: str
    state: str = "installed"
    held: bool = False
    reinstall: bool = False

    @property
    def broken(self) -> bool:
        """Whether an earlier installation stopped half way."""
        return self.reinstall or self.state not in _SOUND

    @property
    def there(self) -> bool:
        """Whether files of the package are on the host."""
        return self.state not in ("config-files", "not-installed")


@dataclass(frozen=True)
class Declaration:
    """Packages that somebody declares: the version of each, "" for any that there is.

    ``owner`` names the files. A ``stack`` consists of exactly these: what an earlier declaration named goes, its
    versions are held, and ``together`` are versions that whatever it pulls in has to have too.
    """

    owner: str
    packages: Mapping[str, str]
    repositories: Sequence[Mapping[str, object]] = ()
    stack: bool = False
    together: Sequence[str] = ()

    @property
    def exact(self) -> dict[str, str]:
        """The packages that have to be there in one version."""
        return {name: version for name, version in self.packages.items() if version}

    @property
    def stem(self) -> str:
        """Begin of the names of its files."""
        return f"muster-{self.owner.replace('_', '-')}"


@dataclass(frozen=True)
class Plan:
    """What brings a host to the declaration. ``install`` is (name, version there or "", wanted version or "")."""

    repair: tuple[tuple[str, str], ...] = ()
    install: tuple[tuple[str, str, str], ...] = ()
    remove: tuple[str, ...] = ()
    hold: tuple[str, ...] = ()

    @property
    def disruptive(self) -> bool:
        """Whether software that jobs may be using changes."""
        return bool(self.repair or self.install or self.remove)

    def steps(self) -> list[str]:
        """Return one line for each step."""
        return [
            *(f"repair {name}, which is {state}" for name, state in self.repair),
            *(f"remove {name}" for name in self.remove),
            *(
                " ".join(("install", name, new)).strip() + (f" in place of {old}" if old else "")
                for name, old, new in self.install
            ),
            *(f"hold {name}" for name in self.hold),
        ]


class PackageManager(Protocol):
    """The manager of a host's packages. Every method raises PackageError."""

    # What a name and a version have to be, and what people call both.
    form: str

    def is_package(self, name: str, version: str) -> bool:
        """Return whether this may be a package's name and its version, which may be ""."""

    def status(self) -> dict[str, Installed]:
        """Return the packages that the host knows."""

    def provided(self, names: Sequence[str]) -> set[str]:
        """Return those of the names that something installed stands for, although no package is called so."""

    def files(self, declared: Declaration, going: Sequence[str] = ()) -> dict[str, str]:
        """Return the manager's files of a declaration by path; one with an empty text is not to be there.

        They name what is ``going``: declared no longer, and still there.
        """

    def declared_before(self, declared: Declaration) -> list[str]:
        """Return the packages that an earlier declaration of the same owner pinned, by the files that it left."""

    def rehearse(self, declared: Declaration, planned: Plan) -> list[str]:
        """Return the packages that the plan would remove besides, on lists of its own: nothing changes.

        What no repository has, and what does not fit together, is an error.
        """

    def fetch(self, declared: Declaration, valid_seconds: float) -> str:
        """Fetch lists of packages that are older than this, and return what could not be fetched.

        The repositories of the declaration have to be readable.
        """

    def install(self, planned: Plan) -> None:
        """Repair, install and remove."""

    def hold(self, names: Sequence[str]) -> None:
        """Keep packages at their version until somebody asks for another."""


def plan(
    declared: Declaration, before: Iterable[str], status: Mapping[str, Installed], provided: Iterable[str] = ()
) -> Plan:
    """Return what has to be done.

    ``before`` are packages declared earlier, which go when they no longer are; ``provided`` are names for which
    something else stands.
    """
    there = {name: package.version for name, package in status.items() if package.there}
    broken = {name: package for name, package in sorted(status.items()) if package.broken}
    wanted, others = declared.packages, set(provided)
    stack = sorted(declared.exact) if declared.stack else []
    install = tuple(
        (name, there.get(name, ""), version)
        for name, version in sorted(wanted.items())
        if (there.get(name) != version if version else name not in there and name not in others)
    )
    # What stopped half way keeps apt from everything else, whoever declared it. Where there is nothing else to do, it
    # is left to its owner, who knows whether jobs are using it.
    repair = broken if declared.stack or install or broken.keys() & wanted.keys() else {}
    return Plan(
        repair=tuple((name, _state(package)) for name, package in repair.items()),
        install=install,
        remove=tuple(sorted(name for name in set(before) - set(wanted) if name in there)) if declared.stack else (),
        hold=tuple(name for name in stack if name not in there or not status[name].held),
    )


def missing(wanted: Mapping[str, str], available: Mapping[str, Sequence[str]]) -> list[str]:
    """Return one line for each package that no repository has in the wanted version."""
    return [
        f"{name}: wanted {version}, available {', '.join(available.get(name, ())[:6]) or 'none'}"
        for name, version in sorted(wanted.items())
        if version not in available.get(name, ())
    ]


def armored(repository: Mapping[str, object]) -> str:
    """Return a repository's public key; raises PackageError unless it is the key itself."""
    key = str(repository["signing_key"]).strip()
    if not key.startswith(ARMOR):
        raise PackageError(f"repository {repository['url']}: signing_key is no ASCII-armored public key")
    return key


def text_of(path: str) -> str:
    """Return a file's text, nothing where there is none."""
    return Path(path).read_text(encoding="utf-8") if Path(path).exists() else ""


def differences(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the files that are not as they should be, as a module shows them."""
    return [
        {"before_header": path, "after_header": path, "before": before, "after": text}
        for path, text in files.items()
        if (before := text_of(path)) != text
    ]


def listing(before: Iterable[str], after: Iterable[str]) -> dict[str, str]:
    """Return packages before and after, as a module shows them."""
    heads = {"before_header": "packages", "after_header": "packages"}
    return {**heads, "before": "".join(f"{line}\n" for line in before), "after": "".join(f"{line}\n" for line in after)}


def shown(planned: Plan) -> list[dict[str, str]]:
    """Return the packages of a plan before and after, as a diff shows them."""
    if not planned.steps():
        return []
    before = [f"{name} {old}" for name, old, _new in planned.install if old]
    before += [*planned.remove, *(f"{name} ({state})" for name, state in planned.repair)]
    after = [f"{name} {new}".strip() for name, _old, new in planned.install]
    after += [f"{name} (installed)" for name, _state in planned.repair] + [f"{name} (held)" for name in planned.hold]
    return [listing(before, after)]


def ended_well(output: Output, what: str, said: str) -> Output:
    """Return a tool's output; raises PackageError with what it ``said`` unless it ended with 0."""
    if output.rc != 0:
        raise PackageError(f"{what}: {said}")
    return output


def _state(package: Installed) -> str:
    return f"{package.state}, to be installed again" if package.reinstall else package.state
