"""Declared packages by rpm and dnf 4, the manager of RHEL 8 to 10 and of what is built from it.

Versions are locked by dnf's plugin versionlock (dnf-plugins-core), in a block of its list that is ours.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from .host import Host, Output
from .packages import GOING, Declaration, Installed, PackageError, Plan, armored, ended_well, missing, text_of

REPOSITORIES = "/etc/yum.repos.d"
KEYS = "/etc/pki/rpm-gpg"
LOCKS = "/etc/dnf/plugins/versionlock.list"
LOCK_SETTINGS = "/etc/dnf/plugins/versionlock.conf"
LOCK_PACKAGE = "python3-dnf-plugin-versionlock"

QUERY_SECONDS = 120.0
_FETCH_SECONDS = 600.0
_STATUS = "%{NAME}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\t%{ARCH}\\n"
# Packages that depend on each other in one exact version: an upgrade of the host that finds a newer one of them alone
# would fail as a whole. A family is locked with the one of it that is declared. Names are as narrow as can be: what is
# locked and has another version cannot be installed any more (NVIDIA's Driver Installation Guide, "Version locking").
_FAMILIES = (
    (
        *("kmod-nvidia-*", "nvidia-driver*", "nvidia-fabric*", "nvidia-imex*", "nvidia-kmod-common*", "nvidia-open*"),
        *("nvidia-libXNVCtrl*", "nvidia-modprobe*", "nvidia-persistenced*", "nvidia-settings*", "nvidia-xconfig*"),
        *("libnvidia-cfg*", "libnvidia-fbc*", "libnvidia-gpucomp*", "libnvidia-ml*", "xorg-x11-nvidia*"),
    ),
    ("libnccl*",),
    ("datacenter-gpu-manager*",),
    ("nvidia-container-toolkit*", "libnvidia-container*"),
)
# As apt does it: nothing that is only recommended, and nothing goes because nobody needs it any more.
_SETTINGS = ("--setopt=install_weak_deps=False", "--setopt=clean_requirements_on_remove=False")
# What rpm keeps in several versions: kernels (dnf's installonlypkgs) and keys.
_SEVERAL = re.compile(r"kernel(-.*)?|gpg-pubkey|installonlypkg.*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*|/[A-Za-z0-9+._/-]+")
_VERSION = re.compile(r"(?:[1-9]\d*:)?[A-Za-z0-9.+~^_]+-[A-Za-z0-9.+~^_]+")


class DnfPackages:
    """The package manager of RHEL and what is built from it, as ``PackageManager`` has it."""

    form = "an RPM's name and its exact version with release, and epoch unless that is 0 (3:570.86.15-1.el9)"

    def __init__(self, host: Host, timeout_seconds: float) -> None:
        self.host = host
        self.timeout_seconds = timeout_seconds

    def is_package(self, name: str, version: str) -> bool:
        """Return whether this may be a package's name, or a file in it, and its version, which may be ""."""
        return bool(_NAME.fullmatch(name) and (not version or _VERSION.fullmatch(version)))

    def status(self) -> dict[str, Installed]:
        """Return all packages that rpm knows."""
        output = self.host.run(["rpm", "--query", "--all", f"--queryformat={_STATUS}"], QUERY_SECONDS)
        return parse_status(ended_well(output, "rpm --query --all", _said(output)).stdout)

    def provided(self, names: Sequence[str]) -> set[str]:
        """Return those of the names that an installed package provides, files among them."""
        asked = ((name, ["rpm", "--query", "--whatprovides", name]) for name in names)
        return {name for name, argv in asked if self.host.run(argv, QUERY_SECONDS).rc == 0}

    def files(self, declared: Declaration, going: Sequence[str] = ()) -> dict[str, str]:
        """Return the repositories, their keys and the list of locks."""
        found = {_repository(declared): "", LOCKS: locks_text(text_of(LOCKS), declared, going)}
        for number, each in enumerate(declared.repositories, 1):
            key = f"{KEYS}/RPM-GPG-KEY-{declared.stem}-{number}"
            found[key] = armored(each) + "\n"
            found[_repository(declared)] += repository_text(f"{declared.stem}-{number}", each, key)
        if found[_repository(declared)]:
            found[_repository(declared)] = (
                f"# Written by Muster ({declared.owner}); edits are lost.\n{found[_repository(declared)]}"
            )
        return found

    def declared_before(self, declared: Declaration) -> list[str]:
        """Return the packages in our block of the locks, with those that should have gone already."""
        ours = _split(text_of(LOCKS), declared)[1]
        names = [line[len(GOING) :] if line.startswith(GOING) else lock_name(line) for line in ours]
        # What a declared package pulled in was declared by nobody.
        return [name for name in names if "*" not in name]

    def rehearse(self, declared: Declaration, planned: Plan) -> list[str]:
        """Return what dnf would remove, in directories of its own; raises PackageError where it would fail."""
        with self._private(self.files(declared)) as options:
            if declared.repositories:
                self._read_alone(declared, options)
            wanted = {name: version for name, _there, version in planned.install if version}
            absent = missing(wanted, self._available(list(wanted), options))
            if absent:
                raise PackageError(f"no repository has {'; '.join(absent)}; nothing was changed")
            removed = []
            for verb, words in self._calls(planned):
                done = self.host.run(["dnf", "--assumeno", *_SETTINGS, *options, *verb, *words], _FETCH_SECONDS)
                # It ends with 1, as nobody agreed.
                if "Operation aborted." not in done.stdout + done.stderr and "Nothing to do." not in done.stdout:
                    raise PackageError(f"a rehearsal of dnf {verb[0]} failed and nothing was changed: {_said(done)}")
                removed += parse_removed(done.stdout)
        return [name for name in dict.fromkeys(removed) if name not in planned.remove]

    def fetch(self, declared: Declaration, valid_seconds: float) -> str:
        """Read the declared repositories again; dnf itself sees to the age of others (metadata_expire)."""
        if declared.repositories:
            self._read_alone(declared, ["--refresh"])
        return ""

    def install(self, planned: Plan) -> None:
        """Repair, install and remove."""
        if planned.repair:
            # An installation that was killed leaves the old version beside the new one.
            self._run(["remove", "--duplicates"], ())
        locks = {_lock(name, version) for name, _there, version in planned.install if version}
        if locks and not self._heeds(locks):
            self._run(["install"], [LOCK_PACKAGE])
            if not self._heeds(locks):
                raise PackageError(
                    f"{LOCKS}: dnf does not heed it, expected in {LOCK_SETTINGS} enabled = 1 and this file as locklist"
                )
        for verb, words in self._calls(planned):
            self._run(verb, words)

    def hold(self, names: Sequence[str]) -> None:
        """Do nothing: the list of locks, one of the files, is what holds."""

    def _calls(self, planned: Plan) -> Iterator[tuple[list[str], list[str]]]:
        words = [f"{name}-{version}" if version else name for name, _there, version in planned.install]
        if words:
            # What is in the way of a declared version goes, and nothing does for a name that may have any.
            exact = any(version for _name, _there, version in planned.install)
            yield ["install", *(["--allowerasing"] if exact else [])], words
        if planned.remove:
            yield ["remove"], list(planned.remove)

    def _run(self, verb: Sequence[str], words: Sequence[str]) -> None:
        done = self.host.run(["dnf", "--assumeyes", "--quiet", *_SETTINGS, *verb, *words], self.timeout_seconds)
        ended_well(done, f"dnf {verb[0]} failed", _said(done))

    def _heeds(self, locks: Collection[str]) -> bool:
        """Return whether dnf knows these lines of the list of locks."""
        # Without repositories, whose lists may not be there yet: dnf would fail for that.
        done = self.host.run(["dnf", "--quiet", "--disablerepo=*", "versionlock", "list"], QUERY_SECONDS)
        return done.rc == 0 and set(locks) <= set(done.stdout.splitlines())

    def _read_alone(self, declared: Declaration, options: Sequence[str]) -> None:
        """Read the declared repositories and no other; raises PackageError where one cannot be read."""
        ours = ["--disablerepo=*", f"--enablerepo={declared.stem}-*", "makecache"]
        done = self.host.run(["dnf", "--quiet", *options, *ours], _FETCH_SECONDS)
        ended_well(done, "the repositories cannot be read", _said(done))

    def _available(self, names: Sequence[str], options: Sequence[str]) -> dict[str, list[str]]:
        """Return the versions by package, newest first."""
        if not names:
            return {}
        form = "--queryformat=%{name}\\t%{epoch}:%{version}-%{release}"
        argv = ["dnf", "--quiet", *options, "repoquery", "--showduplicates", form, *names]
        done = self.host.run(argv, _FETCH_SECONDS)
        return parse_available(ended_well(done, "dnf repoquery", _said(done)).stdout)

    @contextmanager
    def _private(self, files: Mapping[str, str]) -> Iterator[list[str]]:
        """Give options by which dnf works in directories of its own; those of the host are only read.

        ``files`` are those that the declaration has, by the paths that they are to have.
        """
        with tempfile.TemporaryDirectory(prefix="muster-dnf-") as name:
            place = Path(name)
            for part in ("cache", "persist", "log", "repositories", "plugins"):
                (place / part).mkdir()
            ours = {Path(path).name: text for path, text in files.items() if path.startswith(f"{REPOSITORIES}/")}
            for path in Path(REPOSITORIES).glob("*.repo"):
                if path.name not in ours:
                    (place / "repositories" / path.name).symlink_to(path)
            for file, text in ours.items():
                (place / "repositories" / file).write_text(text, encoding="utf-8")
            for path in Path(LOCKS).parent.glob("*.conf"):
                if path.name not in ("versionlock.conf", "generate_completion_cache.conf"):
                    (place / "plugins" / path.name).symlink_to(path)
            locks = place / "locks"
            locks.write_text(files[LOCKS], encoding="utf-8")
            (place / "plugins" / "versionlock.conf").write_text(
                f"[main]\nenabled=1\nlocklist={locks}\n", encoding="utf-8"
            )
            # It writes /var/cache/dnf/packages.db, wherever the cache is.
            (place / "plugins" / "generate_completion_cache.conf").write_text("[main]\nenabled=0\n", encoding="utf-8")
            settings = {
                "cachedir": "cache",
                "persistdir": "persist",
                "logdir": "log",
                "reposdir": "repositories",
                "pluginconfpath": "plugins",
            }
            yield [f"--setopt={key}={place / part}" for key, part in settings.items()]


def parse_status(text: str) -> dict[str, Installed]:
    """Return rpm's packages by name; raises PackageError. A package there in two versions is broken."""
    found: dict[str, Installed] = {}
    seen: dict[tuple[str, str], str] = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != 3 or not fields[1]:
            raise PackageError(f"rpm --query --all: {line[:80]!r}, expected three fields")
        name, version, architecture = fields[0], plain(fields[1]), fields[2]
        other = seen.setdefault((name, architecture), version)
        twice = other != version and not _SEVERAL.fullmatch(name)
        state = f"there in the versions {other} and {version}" if twice else "installed"
        if name not in found or twice:
            found[name] = Installed(version, state, held=True)
    return found


def parse_available(text: str) -> dict[str, list[str]]:
    """Return the versions by package from ``dnf repoquery``, the last one first."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, tab, version = line.partition("\t")
        if tab and plain(version) not in found.setdefault(name, []):
            found[name].insert(0, plain(version))
    return found


def parse_removed(text: str) -> list[str]:
    """Return the packages that dnf's table of a transaction lists for removal, or as replaced by others."""
    found, removing = [], False
    for line in text.splitlines():
        # A name too long for its column stands alone; what follows it is further to the right.
        match = re.match(r" (\S+)", line) if removing else re.match(r"\s+replacing\s+(\S+)\.[^.\s]+\s", line)
        if line and not line.startswith(" "):
            removing = line.startswith("Removing")
        elif match:
            found.append(match.group(1))
    return found


def plain(version: str) -> str:
    """Return a version without the epoch 0, which nobody writes."""
    return version[2:] if version.startswith("0:") else version


def repository_text(name: str, repository: Mapping[str, object], key: str) -> str:
    """Return one section of a repository file; raises PackageError for what only apt has.

    The versions are declared exactly: streams of modules must not hide them (module_hotfixes, dnf.conf(5)).
    """
    if repository.get("suite") not in (None, "", "/") or repository.get("components"):
        raise PackageError(f"repository {repository['url']}: suite and components are apt's, expected neither for dnf")
    return (
        f"[{name}]\nname={name}\nbaseurl={repository['url']}\nenabled=1\ngpgcheck=1\ngpgkey=file://{key}\n"
        "module_hotfixes=1\nskip_if_unavailable=0\n"
    )


def locks_text(text: str, declared: Declaration, going: Iterable[str] = ()) -> str:
    """Return the list of locks with our block as declared, and what is still ``going``; all other lines stay."""
    before, _ours, after = _split(text, declared)
    locks = [_lock(name, version) for name, version in sorted(declared.exact.items())]
    if declared.stack:
        versions = [*sorted(set(declared.exact.values())), *declared.together]
        locks += [_lock(part, version) for part in _parts(declared.exact) for version in versions]
    locks += [f"{GOING}{name}" for name in sorted(going)]
    begin, end = _marks(declared)
    lines = [*before, *([begin, *locks, end] if locks else []), *after]
    # The plugin ends every dnf without its list: one that is there stays there.
    return "".join(f"{line}\n" for line in lines) or ("\n" if text else "")


def _parts(names: Iterable[str]) -> list[str]:
    """Return the names of all packages that go with these, as patterns."""
    declared = list(names)
    return [
        part
        for family in _FAMILIES
        if any(fnmatchcase(name, pattern) for name in declared for pattern in family)
        for part in family
    ]


def _lock(name: str, version: str) -> str:
    return f"{name}-{version}.*"


def lock_name(line: str) -> str:
    """Return the package of ``nvidia-driver-3:570.86.15-1.el9.*``."""
    return line.rpartition("-")[0].rpartition("-")[0]


def _split(text: str, declared: Declaration) -> tuple[list[str], list[str], list[str]]:
    """Return the lines before our block, in it, and after it; raises PackageError for a block without an end."""
    lines, (begin, end) = text.splitlines(), _marks(declared)
    if begin not in lines:
        return lines, [], []
    first = lines.index(begin)
    if end not in lines[first:]:
        raise PackageError(f"{LOCKS}: found {begin!r} without {end!r} below it: restore that line")
    last = lines.index(end, first)
    return lines[:first], lines[first + 1 : last], lines[last + 1 :]


def _marks(declared: Declaration) -> tuple[str, str]:
    return f"# BEGIN Muster ({declared.owner})", f"# END Muster ({declared.owner})"


def _repository(declared: Declaration) -> str:
    return f"{REPOSITORIES}/{declared.stem}.repo"


def _said(output: Output) -> str:
    """Return what dnf or rpm said went wrong, in one line."""
    text = output.stderr.strip() or output.stdout.strip()
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Last metadata")]
    return output.error or "; ".join(lines[-10:])[:1500] or f"exit status {output.rc}"
