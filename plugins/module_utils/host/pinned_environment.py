"""A Python environment of exactly the wheels that a lock names: reading the lock, judging what is there, making it.

An environment lies in ``LINK-KEY``, and ``LINK`` leads to the one in use. ``KEY`` follows from the lock and the Python:
another lock makes another environment beside it.

Options of pip: its user guide and the pages of ``pip install`` and of its configuration. RECORD: "Recording installed
projects" of the Python Packaging User Guide.
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ..words.errors import MusterError
from .host import Host, LocalHost, Output
from .whole_files import replace_file, replace_link

# Says whose the directory is from the first moment on, and what is in it once it is whole.
MARKER = "muster-environment.json"
LOCK = "requirements.txt"
ASK_SECONDS = 30.0
VENV_SECONDS = 300.0
# Of one answer of the mirror, not of a whole wheel.
ANSWER_SECONDS = 60
# No configuration is read at all. --isolated leaves out the user's and the environment's, but not /etc/pip.conf.
UNCONFIGURED = {"PIP_CONFIG_FILE": os.devnull}
# As long as a message may be that is still read.
WORDS = 700

_EXPECTED = "expected NAME==VERSION and --hash=sha256:DIGEST, as uv pip compile --generate-hashes writes them"
_PIN = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[A-Za-z0-9._, -]*\])?==(?P<version>[A-Za-z0-9.!+_-]+)"
    r"(?:\s*;(?:(?!\s-)[^;])*?)?(?:\s+--hash=sha256:[0-9a-f]{64})+"
)
_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


class PinnedEnvironmentError(MusterError):
    """What is wrong with the declaration, or why the environment could not be made."""


@dataclass(frozen=True)
class Pin:
    """One requirement of a lock; ``line`` is all of it for pip, with marker and hashes."""

    name: str
    version: str
    line: str


@dataclass(frozen=True)
class WheelSource:
    """The only place that pip asks: a simple index, or one page that links to all wheels (``find_links``)."""

    url: str
    find_links: bool

    @property
    def options(self) -> list[str]:
        """pip's options; raises PinnedEnvironmentError for an address that pip must not have."""
        parts = urlsplit(self.url)
        name = "find_links" if self.find_links else "index"
        if parts.username is not None:
            # Not shown: it may have the password.
            raise PinnedEnvironmentError(f"{name}: found a user in the address: the host's /root/.netrc is for that")
        if parts.scheme not in ("http", "https", "file"):
            raise PinnedEnvironmentError(f"{name}: found {self.url!r}, expected http://, https:// or file://")
        options = ["--no-index", "--find-links", self.url] if self.find_links else ["--index-url", self.url]
        # What comes without TLS is held against the hashes as well.
        return options + (["--trusted-host", parts.netloc] if parts.scheme == "http" else [])


@dataclass(frozen=True)
class PinnedEnvironment:
    """What is declared: the ``link``, the lock, and the Python by its path and its version (``3.12``)."""

    link: Path
    pins: Sequence[Pin]
    python: str
    version: str

    @property
    def lines(self) -> list[str]:
        """The lock, without comments."""
        return [pin.line for pin in self.pins]

    @property
    def place(self) -> Path:
        """Where it lies: the same for the same declaration."""
        declared = json.dumps([self.lines, self.python, self.version])
        return self.link.with_name(f"{self.link.name}-{hashlib.sha256(declared.encode()).hexdigest()[:12]}")

    @property
    def packages(self) -> Path:
        """Where pip installs to."""
        return self.place / "lib" / f"python{self.version}" / "site-packages"


def read_lock(text: str) -> list[Pin]:
    """Return what a lock pins, in its order; raises PinnedEnvironmentError for the first line that pins nothing.

    A project may be there several times, each for other versions of Python (``; python_full_version < '3.11'``).
    """
    pins: list[Pin] = []
    begun, first = "", 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        said = re.sub(r"(?:^|\s)#.*$", "", line).strip()
        first = first if begun else number
        begun = f"{begun} {said.rstrip(chr(92)).strip()}".strip()
        if not begun or said.endswith(chr(92)):
            continue
        pinned = _PIN.fullmatch(begun)
        if not pinned:
            raise PinnedEnvironmentError(f"requirements: line {first}: found {begun[:80]!r}, {_EXPECTED}")
        # Names are compared as pip does.
        pins.append(Pin(re.sub(r"[-_.]+", "-", pinned["name"]).lower(), pinned["version"], begun))
        begun = ""
    if not pins:
        raise PinnedEnvironmentError(f"requirements: nothing is pinned, {_EXPECTED}")
    return pins


def python_version(host: Host, python: str) -> str:
    """Return the version of a Python, such as ``3.12``; raises PinnedEnvironmentError."""
    output = host.run(_bound(python, "-I", "-c", _VERSION), ASK_SECONDS)
    version = output.stdout.strip()
    if output.rc != 0 or not re.fullmatch(r"3\.\d+", version):
        raise PinnedEnvironmentError(f"python: {python}: {_last_words(output) or repr(version)}, expected a Python 3")
    return version


def fault(declared: PinnedEnvironment) -> str:
    """Return why an environment has to be made (anew), "" where it is whole.

    Every file that pip has recorded is there in its size, and nothing else is among the packages.
    """
    place = declared.place
    if not place.is_dir():
        return "it is not there"
    marked = _marked(place)
    if not marked.get("files"):
        return "it was not finished"
    if marked.get("requirements") != declared.lines:
        return "it was made from another lock"
    if not os.access(place / "bin/python3", os.X_OK):
        return "bin/python3 leads to no program"
    try:
        changed = _changed(marked["files"], _stated(declared))
        return changed or _recorded_fault(declared.packages)
    except (OSError, ValueError, csv.Error) as exc:
        return f"what pip has recorded cannot be read ({exc})"


def in_use(link: Path) -> str:
    """Return the name of what a link leads to, "" where there is none; raises PinnedEnvironmentError for no link."""
    if os.path.lexists(link) and not link.is_symlink():
        raise PinnedEnvironmentError(f"{link}: found no link, expected one to an environment: move it away")
    leads = os.readlink(link) if link.is_symlink() else ""  # noqa: PTH115 -- text
    # What lies elsewhere is none of ours, whatever it is called.
    return "" if "/" in leads else leads


def pinned_in(link: Path) -> list[str]:
    """Return NAME==VERSION of what the environment in use was made from; nothing where it is none of ours."""
    lines = _marked(link).get("requirements")
    return [str(line).partition(" ")[0] for line in lines] if isinstance(lines, list) else []


def older(declared: PinnedEnvironment) -> list[Path]:
    """Return the environments that go when this one comes into use: ours, but for the one in use before.

    Something may still run from that one.
    """
    kept = (declared.place.name, in_use(declared.link))
    ours = re.compile(re.escape(declared.link.name) + "-[0-9a-f]{12}")
    return sorted(
        place
        for place in declared.link.parent.glob(f"{declared.link.name}-*")
        if ours.fullmatch(place.name)
        and place.name not in kept
        and (place / MARKER).is_file()
        and not place.is_symlink()
    )


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Keep a second run from making an environment meanwhile; raises PinnedEnvironmentError where one is at work."""
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise PinnedEnvironmentError(
                f"{directory}: another run makes an environment there: wait for its end"
            ) from exc
        yield
    finally:
        os.close(descriptor)


def make(declared: PinnedEnvironment, source: WheelSource, timeout_seconds: float) -> None:
    """Make the environment anew; raises PinnedEnvironmentError and OSError, and then leaves nothing of it."""
    place = declared.place
    remove(place)
    place.mkdir()
    try:
        _write_marker(declared, {})
        replace_file(place / LOCK, "".join(f"{line}\n" for line in declared.lines), 0o644)
        # Wheels are fetched and unpacked here: they may not fit where the host has its other temporary files.
        temporary = place / "tmp"
        temporary.mkdir()
        host = LocalHost(environment={**UNCONFIGURED, "TMPDIR": str(temporary)})
        venv = host.run(_bound(declared.python, "-I", "-m", "venv", str(place)), VENV_SECONDS)
        if venv.rc != 0:
            raise PinnedEnvironmentError(f"{declared.python} -m venv: {_last_words(venv)}")
        options = ["--isolated", "--no-input", "--no-cache-dir", "--disable-pip-version-check", "--quiet", "--no-color"]
        options += ["--require-hashes", "--only-binary=:all:", "--retries=2", f"--timeout={ANSWER_SECONDS}"]
        pip = [str(place / "bin/python3"), "-I", "-m", "pip", "install", *options, *source.options]
        installed = host.run(_bound(*pip, f"--requirement={place / LOCK}"), timeout_seconds)
        if installed.rc != 0:
            raise PinnedEnvironmentError(f"pip: {_last_words(installed)}")
        shutil.rmtree(temporary)
        why = _recorded_fault(declared.packages)
        if why:
            raise PinnedEnvironmentError(f"{place}: {why}, though pip has just installed it")
        # What the marker speaks of is on the disk before it is.
        os.sync()
        _write_marker(declared, _stated(declared))
    except BaseException:
        with suppress(OSError):
            remove(place)
        raise


def use(declared: PinnedEnvironment) -> None:
    """Have the link lead to the environment; raises OSError."""
    replace_link(declared.link, declared.place.name)


def remove(place: Path) -> None:
    """Remove an environment, its marker last: what a killed run leaves is still known as ours. Raises OSError."""
    if place.is_symlink():
        # What it leads to is not ours.
        place.unlink()
    if not place.is_dir():
        return
    for entry in place.iterdir():
        if entry.name == MARKER:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    shutil.rmtree(place)


def _bound(*argv: str) -> list[str]:
    # It ends with this process: a run that was killed must not go on writing into what the next one makes.
    return ["setpriv", "--pdeathsig=KILL", *argv]


def _last_words(output: Output) -> str:
    """Return what a program that failed said last, without what it only warned of."""
    if output.rc is None:
        return output.error
    said = (output.stderr.strip() or output.stdout.strip()).splitlines()
    errors = next((said[number:] for number, line in enumerate(said) if line.startswith("ERROR:")), said)
    # pip says only in a warning that nobody answered, and then that it found nothing.
    unanswered = [line for line in said if line.startswith("WARNING: Retrying")][-1:]
    words = " ".join(" ".join([*unanswered, *errors]).split())
    return words[:WORDS] or f"exit status {output.rc}, and no message"


def _marked(place: Path) -> Mapping[str, object]:
    try:
        marked = json.loads((place / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return marked if isinstance(marked, dict) else {}


def _write_marker(declared: PinnedEnvironment, files: Mapping[str, str]) -> None:
    marked = {"python": declared.python, "version": declared.version, "requirements": declared.lines, "files": files}
    replace_file(declared.place / MARKER, json.dumps(marked, indent=1) + "\n", 0o644)


def _stated(declared: PinnedEnvironment) -> dict[str, str]:
    """Return the digest of each file that says what the environment is, by its path there."""
    files = [declared.place / "pyvenv.cfg", *sorted(declared.packages.glob("*.dist-info/RECORD"))]
    return {str(file.relative_to(declared.place)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _changed(before: object, now: Mapping[str, str]) -> str:
    if not isinstance(before, dict):
        return "its marker is not whole"
    for path in sorted({*before, *now}):
        if before.get(path) != now.get(path):
            what = "has gone" if path not in now else "was added" if path not in before else "was changed"
            return f"{path} {what}"
    return ""


def _recorded_fault(packages: Path) -> str:
    """Return what differs from pip's records, "" where nothing does; raises OSError, ValueError and csv.Error."""
    recorded = {"__pycache__"}
    for record in sorted(packages.glob("*.dist-info/RECORD")):
        with record.open(encoding="utf-8", newline="") as file:
            for path, _digest, size in csv.reader(file):
                recorded.add(path.partition("/")[0])
                try:
                    found = os.stat(packages / path).st_size  # noqa: PTH116 -- some ten thousand of them
                except OSError:
                    return f"{path} of {record.parent.name} has gone"
                if size and found != int(size):
                    return f"{path} of {record.parent.name} has {found} bytes, expected {size}"
    if len(recorded) == 1:
        return "no package is recorded"
    others = sorted({entry.name for entry in packages.iterdir()} - recorded)
    return f"{others[0]} is among its packages, and in no record of pip" if others else ""
