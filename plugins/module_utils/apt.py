"""Exact package versions on Debian and Ubuntu: what dpkg and apt say, what has to be done, and the doing of it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .host import Host, Output

SOURCES = "/etc/apt/sources.list.d/muster-gpu-stack.sources"
PREFERENCES = "/etc/apt/preferences.d/muster-gpu-stack.pref"
LISTS = "/var/lib/apt/lists"
# Packages that depend on each other in one exact version, of which apt alone would take the newest.
PARTS = "nvidia-* libnvidia-* libcuda1 libnv* libnccl* datacenter-gpu-manager* firmware-nvidia-* xserver-*-nvidia*"
FABRIC_MANAGER = "nvidia-fabricmanager"

_STATUS = "${binary:Package}\\t${Version}\\t${db:Status-Want}\\t${db:Status-Status}\\t${db:Status-Eflag}\\n"
_QUERY_SECONDS = 60.0
_UPDATE_SECONDS = 300.0
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_VERSION = re.compile(r"(?:\d+:)?[0-9][A-Za-z0-9.+~-]*")
# dpkg's states of a package of which nothing has to be repaired.
_SOUND = ("installed", "not-installed", "config-files")


class AptError(Exception):
    """What cannot be done, in words for the person who declared it."""


@dataclass(frozen=True)
class Installed:
    """What dpkg says of one package; ``reinstall`` is set where its files may be half there."""

    version: str
    state: str = "installed"
    held: bool = False
    reinstall: bool = False

    @property
    def broken(self) -> bool:
        """Whether an earlier installation stopped half way."""
        return self.reinstall or self.state not in _SOUND


@dataclass(frozen=True)
class Plan:
    """What brings a host to the declared versions. ``install`` is (name, version there or "", wanted version)."""

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
            *(f"install {name} {new}" + (f" in place of {old}" if old else "") for name, old, new in self.install),
            *(f"hold {name}" for name in self.hold),
        ]


def upstream(version: str) -> str:
    """Return a Debian version without epoch and revision: ``1:4.2.3-1`` gives ``4.2.3``."""
    return version.rpartition(":")[2].partition("-")[0]


def check_declaration(driver: str, packages: Mapping[str, str]) -> None:
    """Raise AptError unless the packages are ones, one of them is the driver's, and a fabric manager goes with it."""
    for name, version in packages.items():
        if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
            raise AptError(f"package {name!r} {version!r}: expected a Debian package's name and its exact version")
        if name.startswith(FABRIC_MANAGER) and upstream(version) != driver:
            raise AptError(f"{name} is declared as {version}, the driver as {driver}: it starts with the same only")
    if not any(
        upstream(version) == driver and not name.startswith(FABRIC_MANAGER) for name, version in packages.items()
    ):
        raise AptError(f"none of the packages {', '.join(packages) or '(none)'} is the driver {driver}")


def sources_text(repositories: Sequence[Mapping[str, object]], role: str = "gpu_stack") -> str:
    """Return the source file of repositories, each with ``url``, ``suite``, ``components`` and ``signing_key``."""
    stanzas = []
    for each in repositories:
        key = str(each["signing_key"]).strip()
        if not key.startswith("-----BEGIN PGP PUBLIC KEY BLOCK-----"):
            raise AptError(f"repository {each['url']}: signing_key is no ASCII-armored public key")
        lines = ["Types: deb", f"URIs: {each['url']}", f"Suites: {each['suite']}"]
        components = each.get("components") or ()
        if isinstance(components, (list, tuple)) and components:
            lines.append(f"Components: {' '.join(map(str, components))}")
        # deb822: a continued line begins with a blank, an empty one is a lone full stop.
        lines += ["Signed-By:", *(f" {line.strip() or '.'}" for line in key.splitlines())]
        stanzas.append("\n".join(lines))
    return f"# Written by Muster ({role}); edits are lost.\n" + "\n\n".join(stanzas) + "\n"


def preferences_text(driver: str, packages: Mapping[str, str]) -> str:
    """Return apt's preferences: the declared versions, and the same versions for what these packages pull in.

    1001 also goes back to an older version; ``declared_before`` reads the names again.
    """
    versions = [*sorted(set(packages.values())), f"{driver}-*"]
    pins = [*sorted(packages.items()), *((PARTS, version) for version in versions)]
    stanzas = [f"Package: {names}\nPin: version {version}\nPin-Priority: 1001" for names, version in pins]
    return "# Written by Muster (gpu_stack); edits are lost.\n" + "\n\n".join(stanzas) + "\n"


def declared_before(preferences: str) -> list[str]:
    """Return the packages that an earlier declaration named."""
    return re.findall(r"^Package: (\S+)$", preferences, re.MULTILINE)


def parse_status(text: str) -> dict[str, Installed]:
    """Return dpkg's packages by name; raises AptError. Of several architectures the broken one counts."""
    found: dict[str, Installed] = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != 5:
            raise AptError(f"dpkg-query: {line[:80]!r}, expected five fields")
        name, version, want, state, flag = fields
        package = Installed(version, state, want == "hold", flag != "ok")
        short = name.partition(":")[0]
        if short not in found or package.broken:
            found[short] = package
    return found


def parse_available(text: str) -> dict[str, list[str]]:
    """Return the versions by package, newest first, from ``apt-cache madison``."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 3 and fields[1] not in found.setdefault(fields[0], []):
            found[fields[0]].append(fields[1])
    return found


def plan(wanted: Mapping[str, str], before: Iterable[str], status: Mapping[str, Installed]) -> Plan:
    """Return what has to be done; ``before`` are packages declared earlier, which go when they no longer are."""
    there = {name: package.version for name, package in status.items() if package.state != "config-files"}
    there = {name: version for name, version in there.items() if status[name].state != "not-installed"}
    return Plan(
        repair=tuple((name, _state(package)) for name, package in sorted(status.items()) if package.broken),
        install=tuple(
            (name, there.get(name, ""), version)
            for name, version in sorted(wanted.items())
            if there.get(name) != version
        ),
        remove=tuple(sorted(name for name in set(before) - set(wanted) if name in there)),
        hold=tuple(sorted(name for name in wanted if name not in there or not status[name].held)),
    )


def missing(wanted: Mapping[str, str], available: Mapping[str, Sequence[str]]) -> list[str]:
    """Return one line for each package that no repository has in the wanted version."""
    return [
        f"{name}: wanted {version}, available {', '.join(available.get(name, ())[:6]) or 'none'}"
        for name, version in sorted(wanted.items())
        if version not in available.get(name, ())
    ]


def _state(package: Installed) -> str:
    return f"{package.state}, to be installed again" if package.reinstall else package.state


class Apt:
    """dpkg and apt of a host. Every method raises AptError."""

    def __init__(self, host: Host, timeout_seconds: float) -> None:
        self.host = host
        self.timeout_seconds = timeout_seconds

    def status(self) -> dict[str, Installed]:
        """Return all packages that dpkg knows."""
        output = self.host.run(["dpkg-query", "--show", f"--showformat={_STATUS}"], _QUERY_SECONDS)
        if output.rc is None:
            raise AptError(f"{output.error}; packages are known on Debian and Ubuntu only")
        return parse_status(_checked(output, "dpkg-query").stdout)

    def rehearse(self, sources: str, preferences: str, planned: Plan) -> None:
        """Raise AptError if a wanted version is not to be had or does not go with what else is there.

        Works on lists of its own: apt's files on the host are only read.
        """
        with tempfile.TemporaryDirectory(prefix="muster-apt-") as name:
            place = Path(name)
            for part in ("lists/partial", "cache/archives/partial", "own", "sources", "preferences"):
                (place / part).mkdir(parents=True)
            linked(LISTS, place / "lists")
            linked(Path(SOURCES).parent, place / "sources", but=Path(SOURCES).name)
            linked(Path(PREFERENCES).parent, place / "preferences", but=Path(PREFERENCES).name)
            for part in ("own", "sources"):
                (place / part / Path(SOURCES).name).write_text(sources, encoding="utf-8")
            (place / "preferences" / Path(PREFERENCES).name).write_text(preferences, encoding="utf-8")
            options = options_of(
                {
                    "Dir::State::lists": place / "lists",
                    "Dir::Cache": place / "cache",
                    "Dir::Etc::sourceparts": place / "sources",
                    "Dir::Etc::preferencesparts": place / "preferences",
                    "APT::Sandbox::User": "root",
                    "Debug::NoLocking": "1",
                }
            )
            self._update(place / "own", options)
            wanted = {package: version for package, _there, version in planned.install}
            if not wanted:
                return
            listed = self.host.run(["apt-cache", *options, "madison", *wanted], _QUERY_SECONDS)
            absent = missing(wanted, parse_available(_checked(listed, "apt-cache madison").stdout))
            if absent:
                raise AptError(f"no repository has {'; '.join(absent)}; nothing was changed")
            done = self.host.run(_install_command(planned, ["--simulate", *options]), _UPDATE_SECONDS)
            _checked(done, "a rehearsal of apt-get install failed and nothing was changed")

    def update(self) -> None:
        """Fetch the lists of the declared repositories, and of no other."""
        with tempfile.TemporaryDirectory(prefix="muster-apt-") as name:
            linked(Path(SOURCES).parent, Path(name), only=Path(SOURCES).name)
            self._update(Path(name), [])

    def _update(self, sources: Path, options: Sequence[str]) -> None:
        alone = {"Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": sources, "APT::Get::List-Cleanup": "0"}
        more = {"APT::Update::Error-Mode": "any", "Acquire::Retries": "2", "DPkg::Lock::Timeout": "300"}
        output = self.host.run(["apt-get", "-q", *options, *options_of({**alone, **more}), "update"], _UPDATE_SECONDS)
        _checked(output, "the repositories cannot be read")
        # Older apt calls a repository that it could not fetch a warning.
        if "Failed to fetch" in output.stderr or "GPG error" in output.stderr:
            raise AptError(f"the repositories cannot be read: {said(output)}")

    def change(self, planned: Plan) -> None:
        """Repair, then install and remove; whether it worked is for ``status`` to say."""
        if planned.repair:
            # What fails here is tried again by apt below, in the wanted version.
            self.host.run(["dpkg", "--force-confold", "--configure", "--pending"], self.timeout_seconds)
        _checked(
            self.host.run(_install_command(planned, ["--yes", "-q"]), self.timeout_seconds), "apt-get install failed"
        )

    def hold(self, names: Sequence[str]) -> None:
        """Keep packages at their version until somebody asks for another."""
        if names:
            _checked(self.host.run(["apt-mark", "hold", *names], _QUERY_SECONDS), "apt-mark hold failed")


def _install_command(planned: Plan, options: Sequence[str]) -> list[str]:
    broken = {name for name, state in planned.repair}
    words = [f"{name}={version}" for name, _there, version in planned.install]
    words += [f"{name}-" for name in planned.remove]
    words += sorted(broken - {name for name, _there, _version in planned.install} - set(planned.remove))
    fixing = ["--fix-broken", "--reinstall"] if any("again" in state for _name, state in planned.repair) else []
    return [
        *("apt-get", "install", "--no-install-recommends", "--allow-downgrades", "--allow-change-held-packages"),
        *(fixing or (["--fix-broken"] if planned.repair else [])),
        *options_of({"Dpkg::Options::": "--force-confold", "DPkg::Lock::Timeout": "300"}),
        *options,
        *words,
    ]


def options_of(settings: Mapping[str, object]) -> list[str]:
    """Return apt's settings as words of its command line."""
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def linked(source: str | Path, place: Path, only: str = "", but: str = "") -> None:
    """Make ``place`` show the files of ``source``."""
    for path in Path(source).iterdir() if Path(source).is_dir() else ():
        if path.is_file() and path.name not in (but, "lock") and path.name == (only or path.name):
            (place / path.name).symlink_to(path)


def _checked(output: Output, what: str) -> Output:
    if output.rc != 0:
        raise AptError(f"{what}: {said(output)}")
    return output


def said(output: Output) -> str:
    """Return what a tool said went wrong, in one line."""
    text = output.stderr or output.stdout
    lines = [line.strip() for line in text.splitlines() if re.match(r"(E|W|Err|dpkg|The following| .*Depends)", line)]
    return output.error or "; ".join(lines[-8:])[:1500] or text.strip()[-500:] or f"exit status {output.rc}"
