"""dpkg and apt of Debian and Ubuntu: what they say, and what they are told."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from .host import Host, Output
from .packages import Installed, PackageError, armored, ended_well

LISTS = "/var/lib/apt/lists"

_PROVIDED = "${db:Status-Status} ${Provides}\\n"
_STATUS = "${binary:Package}\\t${Version}\\t${db:Status-Want}\\t${db:Status-Status}\\t${db:Status-Eflag}\\n"
# The directories that a rehearsal has its own of, by apt's.
_PARTS = {"/etc/apt/sources.list.d": "sources", "/etc/apt/preferences.d": "preferences"}
QUERY_SECONDS = 60.0
_UPDATE_SECONDS = 300.0


def sources_text(repositories: Sequence[Mapping[str, object]], role: str = "gpu_stack") -> str:
    """Return the source file of repositories as ``REPOSITORY`` has them; a fleet file's null is a default too."""
    stanzas = []
    for each in repositories:
        key = armored(each)
        lines = ["Types: deb", f"URIs: {each['url']}", f"Suites: {each['suite'] or '/'}"]
        components = each.get("components") or ()
        if isinstance(components, (list, tuple)) and components:
            lines.append(f"Components: {' '.join(map(str, components))}")
        # deb822: a continued line begins with a blank, an empty one is a lone full stop.
        lines += ["Signed-By:", *(f" {line.strip() or '.'}" for line in key.splitlines())]
        stanzas.append("\n".join(lines))
    return f"# Written by Muster ({role}); edits are lost.\n" + "\n\n".join(stanzas) + "\n"


def parse_status(text: str) -> dict[str, Installed]:
    """Return dpkg's packages by name; raises PackageError. Of several architectures the broken one counts."""
    found: dict[str, Installed] = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != 5:
            raise PackageError(f"dpkg-query: {line[:80]!r}, expected five fields")
        name, version, want, state, flag = fields
        package = Installed(version, state, want == "hold", flag != "ok")
        short = name.partition(":")[0]
        if short not in found or package.broken:
            found[short] = package
    return found


def parse_provided(text: str) -> set[str]:
    """Return the names of ``installed libmpi (= 4.1), mpi``, one line for each package."""
    return {
        each.split()[0].partition(":")[0]
        for line in text.splitlines()
        if line.startswith("installed ")
        for each in line[len("installed ") :].split(",")
        if each.strip()
    }


def parse_available(text: str) -> dict[str, list[str]]:
    """Return the versions by package, newest first, from ``apt-cache madison``."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 3 and fields[1] not in found.setdefault(fields[0], []):
            found[fields[0]].append(fields[1])
    return found


class Apt:
    """dpkg and apt of a host. Every method raises PackageError."""

    def __init__(self, host: Host, timeout_seconds: float) -> None:
        self.host = host
        self.timeout_seconds = timeout_seconds

    def status(self) -> dict[str, Installed]:
        """Return all packages that dpkg knows."""
        output = self.host.run(["dpkg-query", "--show", f"--showformat={_STATUS}"], QUERY_SECONDS)
        if output.rc is None:
            raise PackageError(f"{output.error}; packages are known on Debian and Ubuntu only")
        return parse_status(checked(output, "dpkg-query").stdout)

    @contextmanager
    def private(self, files: Mapping[str, str]) -> Iterator[list[str]]:
        """Give options by which apt works on lists of its own; apt's files on the host are only read.

        ``files`` are those sources and preferences that differ from the host's, by the paths that they are to have.
        """
        with tempfile.TemporaryDirectory(prefix="muster-apt-") as name:
            place = Path(name)
            for part in ("lists/partial", "cache/archives/partial", *_PARTS.values()):
                (place / part).mkdir(parents=True)
            _link(LISTS, place / "lists")
            for directory, part in _PARTS.items():
                _link(directory, place / part, but=[Path(path).name for path in files])
            for path, text in files.items():
                (place / _PARTS[str(Path(path).parent)] / Path(path).name).write_text(text, encoding="utf-8")
            yield options_of(
                {
                    "Dir::State::lists": place / "lists",
                    "Dir::Cache": place / "cache",
                    "Dir::Etc::sourceparts": place / "sources",
                    "Dir::Etc::preferencesparts": place / "preferences",
                    "APT::Sandbox::User": "root",
                    "Debug::NoLocking": "1",
                }
            )

    def fetch(self, options: Sequence[str]) -> str:
        """Fetch package lists and return what could not be fetched, empty if nothing."""
        settings = {"Acquire::Retries": "2", "DPkg::Lock::Timeout": "300"}
        done = self.host.run(["apt-get", "-q", *options, *options_of(settings), "update"], _UPDATE_SECONDS)
        # Older apt calls a repository that it could not fetch a warning.
        failed = done.rc != 0 or "Failed to fetch" in done.stderr or "GPG error" in done.stderr
        return said(done) if failed else ""

    def fetch_alone(self, sources: str, options: Sequence[str] = ()) -> None:
        """Fetch the lists of one file's repositories, and of no other; every one has to be readable."""
        with tempfile.TemporaryDirectory(prefix="muster-apt-") as name:
            (Path(name) / "muster.sources").write_text(sources, encoding="utf-8")
            alone = {"Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": name, "APT::Get::List-Cleanup": "0"}
            failed = self.fetch([*options, *options_of({**alone, "APT::Update::Error-Mode": "any"})])
        if failed:
            raise PackageError(f"the repositories cannot be read: {failed}")

    def cache(self, command: str, names: Sequence[str], options: Sequence[str]) -> str:
        """Return what ``apt-cache`` says of packages; nothing is asked without any."""
        if not names:
            return ""
        done = self.host.run(["apt-cache", *options, command, *names], QUERY_SECONDS)
        return checked(done, f"apt-cache {command}").stdout

    def rehearse(self, words: Sequence[str], options: Sequence[str]) -> list[str]:
        """Return which packages an installation would remove; raises PackageError where it would fail."""
        done = self.host.run([*_install(options), "--simulate", *words], _UPDATE_SECONDS)
        checked(done, "a rehearsal of apt-get install failed and nothing was changed")
        return parse_removed(done.stdout)

    def install(self, words: Sequence[str], options: Sequence[str] = ()) -> Output:
        """Install, and remove what ends in a minus sign; whether it worked is for ``status`` to say."""
        return self.host.run([*_install(options), *words], self.timeout_seconds)

    def provided(self) -> set[str]:
        """Return the names that installed packages provide without being called so."""
        argv = ["dpkg-query", "--show", f"--showformat={_PROVIDED}"]
        shown = checked(self.host.run(argv, QUERY_SECONDS), "dpkg-query")
        return parse_provided(shown.stdout)

    def lists_are_old(self, valid_seconds: float) -> bool:
        """Return whether the host's lists of packages are older than this, or none."""
        try:
            age = time.time() - Path(LISTS).stat().st_mtime
        except OSError:
            return True
        return age > valid_seconds

    def repair(self) -> None:
        """Finish what an installation left that was killed; what fails here is tried again by the next."""
        self.host.run(["dpkg", "--force-confold", "--configure", "--pending"], self.timeout_seconds)

    def hold(self, names: Sequence[str]) -> None:
        """Keep packages at their version until somebody asks for another."""
        if names:
            checked(self.host.run(["apt-mark", "hold", *names], QUERY_SECONDS), "apt-mark hold failed")


def _install(options: Sequence[str]) -> list[str]:
    settings = options_of({"Dpkg::Options::": "--force-confold", "DPkg::Lock::Timeout": "300"})
    return ["apt-get", "-q", "install", "--yes", "--no-install-recommends", *settings, *options]


def parse_removed(text: str) -> list[str]:
    """Return the packages that ``apt-get --simulate`` says would be removed (``Remv nvidia-open-565 [565.57.01]``)."""
    return re.findall(r"^(?:Remv|Purg) ([^\s:]+)", text, re.MULTILINE)


def options_of(settings: Mapping[str, object]) -> list[str]:
    """Return apt's settings as words of its command line."""
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def _link(source: str | Path, place: Path, but: Collection[str] = ()) -> None:
    """Make ``place`` show the files of ``source``."""
    for path in Path(source).iterdir() if Path(source).is_dir() else ():
        if path.is_file() and path.name not in (*but, "lock"):
            (place / path.name).symlink_to(path)


def checked(output: Output, what: str) -> Output:
    """Return a tool's output; raises PackageError with what it said unless it ended with 0."""
    return ended_well(output, what, said(output))


def said(output: Output) -> str:
    """Return what a tool said went wrong, in one line."""
    text = output.stderr or output.stdout
    lines = [line.strip() for line in text.splitlines() if re.match(r"(E|W|Err|dpkg|The following| .*Depends)", line)]
    return output.error or "; ".join(lines[-8:])[:1500] or text.strip()[-500:] or f"exit status {output.rc}"
