"""Slurm's configuration on a controller: tried, swapped in as a whole, put back where slurmctld does not start on it.

The swap is safe against being killed: a journal lies beside copies of the files as they were until slurmctld answers on
the new ones, and the next run begins by putting them back.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .host import Host
from .slurm import MARKER, NO_LEDGER, Controller, Gate, GateError, GateFile, NoAnswer, Partition, expand, fold, natural
from .slurm_trial import SLURM_CONF, TrialError, complaints, slurm_uid, try_files

GATE_NAME = "muster_partitions.conf"
NOTHING, RECONFIGURE, RESTART = "nothing", "reconfigure", "restart"
# What takes effect by a restart alone (slurm.conf(5) of 22.05); all else by scontrol reconfigure, which leaves RPCs
# unbroken.
RESTART_KEYS = {
    "accountingstorageenforce",
    "accountingstoragehost",
    "accountingstorageport",
    "accountingstoragetres",
    "accountingstoragetype",
    "authaltparameters",
    "authalttypes",
    "authinfo",
    "authtype",
    "credtype",
    "grestypes",
    "jobacctgathertype",
    "jobcontainertype",
    "maxjobcount",
    "maxnodecount",
    "nodename",
    "plugindir",
    "prepplugins",
    "prologflags",
    "proctracktype",
    "schedulertype",
    "selecttype",
    "selecttypeparameters",
    "slurmctldhost",
    "slurmctldparameters",
    "slurmctldport",
    "slurmdport",
    "slurmuser",
    "statesavelocation",
    "switchtype",
    "taskplugin",
    "topologyplugin",
}
# Files of which slurmctld keeps what it read at its start.
RESTART_FILES = frozenset({"topology.conf", "gres.conf", "plugstack.conf"})
# One of them says that a state directory is one, not an empty place where a file system should be mounted.
STATE_FILES = ("clustername", "job_state", "job_state.old", "node_state", "node_state.old")
# What a new state directory may hold besides: the gate's file and mark, and what a file system brings.
NO_STATE = {GATE_NAME, MARKER, "lost+found"}
# Removing more of a cluster than this share, and at least two nodes, is more likely a broken fleet file than meant.
REMOVAL_LIMIT_PERCENT = 20


class ConfigurationError(Exception):
    """Why the configuration is not as wanted; ``result`` holds what was done before."""

    def __init__(self, message: str, result: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.result = dict(result or {})


@dataclass(frozen=True)
class Wanted:
    """What a controller must have: its files by name, user partitions as they are filed once, closed, and its places.

    ``gate_path`` is where the file of user partitions really lies: with two controllers, in the directory they share.
    ``removal`` and ``empty_state`` are the operator's leave to lose nodes with jobs, or to start without saved state.
    """

    files: Mapping[str, str]
    partitions: tuple[Partition, ...]
    state_directory: str
    gate_path: str
    removal: bool = False
    empty_state: bool = False


@dataclass(frozen=True)
class Places:
    """Where things lie, and how long slurmctld may take: ``trial_seconds`` staged, ``start_seconds`` live."""

    directory: str = "/etc/slurm"
    work: str = "/var/lib/muster/slurm"
    unit: str = "slurmctld"
    trial_seconds: float = 60
    start_seconds: float = 120

    @property
    def journal(self) -> Path:
        """The record of a swap that is not finished."""
        return Path(self.work, "swap.json")

    @property
    def previous(self) -> Path:
        """The files as they were before the last swap."""
        return Path(self.work, "previous")

    @property
    def names(self) -> Path:
        """Which files the last swap wrote, so that one that is no longer wanted can go."""
        return Path(self.work, "files.json")

    @property
    def bootstrap(self) -> Path:
        """The mark by which slurmctld may start once without saved state; ``slurmctld-state`` takes it away."""
        return Path(self.work, "bootstrap")


def keys_of(text: str) -> dict[str, list[str]]:
    """Return the lines of a slurm.conf by the lower case of their first key, without comments, in order."""
    keys: dict[str, list[str]] = {}
    for line in text.splitlines():
        bare = line.partition("#")[0].strip()
        if bare:
            keys.setdefault(re.split(r"[=\s]", bare)[0].lower(), []).append(bare)
    return keys


def values_of(text: str, key: str) -> list[str]:
    """Return the first word of each value of a key."""
    lines = keys_of(text).get(key.lower(), [])
    return [match.group(1) for line in lines if (match := re.match(r"\w+\s*=\s*(\S+)", line))]


def controllers_of(text: str) -> list[str]:
    """Return the names of the controllers, the leading one first."""
    return [value.partition("(")[0] for value in values_of(text, "SlurmctldHost")]


def own_name(text: str, host_name: str) -> str:
    """Return the name of the controller that a host is; raises ConfigurationError where it is none."""
    names = controllers_of(text)
    for name in names:
        if name in (host_name, host_name.partition(".")[0]):
            return name
    raise ConfigurationError(
        f"slurm.conf names the controllers {', '.join(names) or 'nothing'}, this host calls itself {host_name}; "
        "nothing was changed"
    )


def addresses_of(text: str) -> list[str]:
    """Return what slurmctld looks up: of nodes (their names, where they have no address), controllers and database.

    Raises ConfigurationError for a host list that cannot be read.
    """
    found = [value.partition("(")[2].rstrip(")") or value for value in values_of(text, "SlurmctldHost")]
    found += values_of(text, "AccountingStorageHost")
    for line in keys_of(text).get("nodename", []):
        words = dict(word.partition("=")[::2] for word in line.split())
        address = words.get("NodeAddr", words["NodeName"])
        if words["NodeName"] != "DEFAULT":
            try:
                found += expand(address)
            except GateError as exc:
                raise ConfigurationError(f"{SLURM_CONF}: NodeAddr: {exc}") from exc
    return found


def nodes_of(text: str) -> list[str]:
    """Return the names of the declared nodes; raises ConfigurationError for a host list that cannot be read."""
    try:
        return [name for value in values_of(text, "NodeName") if value != "DEFAULT" for name in expand(value)]
    except GateError as exc:
        raise ConfigurationError(f"{SLURM_CONF}: NodeName: {exc}") from exc


def action_for(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> str:
    """Return what makes the difference between two sets of files take effect."""
    changed = {name for name in {*before, *after} if _bare(before.get(name)) != _bare(after.get(name))}
    old, new = (keys_of(files.get(SLURM_CONF) or "") for files in (before, after))
    keys = {key for key in {*old, *new} if old.get(key) != new.get(key)}
    if keys & RESTART_KEYS or changed & RESTART_FILES:
        return RESTART
    return RECONFIGURE if changed else NOTHING


def is_up(ping: str, name: str) -> bool:
    """Return whether ``scontrol ping`` says that the controller of this name is there."""
    return re.search(rf"\bat {re.escape(name)} is UP\b", ping) is not None


def state_is_empty(directory: str) -> bool:
    """Return whether a StateSaveLocation holds nothing of Slurm's, or is not there."""
    return not any(Path(directory, name).exists() for name in STATE_FILES)


def without_nodes(gate: GateFile, gone: Collection[str]) -> GateFile:
    """Return the gate closed for nodes that Slurm will not know."""
    partitions = tuple(
        replace(each, nodes=tuple(name for name in each.nodes if name not in gone)) for each in gate.partitions
    )
    return replace(gate, partitions=partitions)


def mounted_at(path: str, mountinfo: str) -> str:
    """Return the mount point that a path lies below, from the text of /proc/self/mountinfo."""
    points = [fields[4] for line in mountinfo.splitlines() if len(fields := line.split()) > 4]
    real = os.path.realpath(path)
    below = [point for point in points if point in ("/", real) or real.startswith(f"{point}/")]
    return max(below, key=len, default="/")


def mass_removal(before: Collection[str], gone: Collection[str]) -> str:
    """Return why so many nodes cannot go at once, nothing where they can."""
    if len(gone) < 2 or len(gone) * 100 <= len(before) * REMOVAL_LIMIT_PERCENT:
        return ""
    return f"{len(gone)} of {len(before)} nodes, more than {REMOVAL_LIMIT_PERCENT} %"


@dataclass
class Result:
    """What was done, or would be."""

    files: list[str] = field(default_factory=list)
    diff: list[dict[str, str]] = field(default_factory=list)
    restarted: bool = False
    reconfigured: bool = False
    started: bool = False
    undone: bool = False
    closed: list[str] = field(default_factory=list)
    gate: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return it as a module's result."""
        done = (self.restarted, self.reconfigured, self.started, self.undone, self.gate)
        return {"changed": bool(self.files or self.closed) or any(done), **vars(self)}


class Configuration:
    """One controller's configuration. Its methods raise ConfigurationError."""

    def __init__(self, host: Host, places: Places, wanted: Wanted, name: str = "", poll_seconds: float = 0.5) -> None:
        self.host = host
        self.places = places
        self.wanted = wanted
        self.controller = Controller(host, places.start_seconds)
        self.poll_seconds = poll_seconds
        self.touched = False
        self.name = own_name(wanted.files[SLURM_CONF], name or socket.gethostname())
        link = str(Path(places.directory, GATE_NAME))
        self.gate = Gate(self.controller, link, wanted.state_directory)

    @property
    def leading(self) -> bool:
        """Whether this host is the first controller."""
        return controllers_of(self.wanted.files[SLURM_CONF])[0] == self.name

    def try_out(self) -> None:
        """Try the wanted files unless they are live; nothing is changed."""
        before, pending = self._before()
        if pending is not None or any(before[name] != text for name, text in self.wanted.files.items()):
            self._try(before, self._gone(before))

    def settle(self, check: bool = False) -> Result:
        """Make the wanted files live and have slurmctld run on them; return what was done."""
        result = Result()
        if check:
            self._settle(result, check)
            return result
        try:
            Path(self.places.directory).mkdir(mode=0o755, parents=True, exist_ok=True)
            Path(self.places.work).mkdir(mode=0o755, parents=True, exist_ok=True)
            with self._alone():
                self._settle(result, check)
        except (OSError, ConfigurationError) as exc:
            # What was only planned did not change anything.
            raise ConfigurationError(str(exc), {**result.to_dict(), "changed": self.touched}) from exc
        return result

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let neither another swap nor the gate write meanwhile."""
        directory = os.open(self.places.directory, os.O_RDONLY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)

    def _settle(self, result: Result, check: bool) -> None:
        before, pending = self._before()
        running = self._running() or self._unit() == "active"
        result.undone = bool(pending)
        after: dict[str, str | None] = {**dict.fromkeys(before), **self.wanted.files}
        result.files = sorted(name for name in after if before.get(name) != after[name])
        result.diff = [_difference(self.places.directory, name, before.get(name), after[name]) for name in result.files]
        gone = self._gone(before)
        action = action_for(before, after) if pending is None else RESTART
        if not result.files and action == NOTHING and running:
            self._keep_gate(result, check)
            return
        if result.files:
            self._try(before, gone)
        else:
            self._require_state(before)
        if not check:
            with _named(ConfigurationError, TrialError):
                self._keep_directory()
        if pending is not None and not check:
            self._restore(pending)
            # The copies may go now; that slurmctld may run on other files is still to be remembered.
            _write(self.places.journal, "{}\n")
        self._keep_gate(result, check)
        self._close_gone(result, gone, check)
        result.started = not running
        result.restarted = running and (action == RESTART or (action == RECONFIGURE and not self.leading))
        # Nodes that fetched the files before have to be told.
        result.reconfigured = self.leading and action != NOTHING and before.get(SLURM_CONF) is not None
        if not check:
            self._swap(before, after, result)

    def _before(self) -> tuple[dict[str, str | None], dict[str, bool] | None]:
        """Return the files as they are, or as they were before a swap that was not finished, and which those were."""
        pending: dict[str, bool] | None = None
        with suppress(FileNotFoundError):
            try:
                pending = {str(name): bool(there) for name, there in _loaded(self.places.journal).items()}
            except (ValueError, AttributeError):
                # It is written in one step before anything else is touched: one that cannot be read is not ours.
                raise ConfigurationError(f"{self.places.journal}: not the journal of a swap; look at it") from None
        names = {*self.wanted.files, *self._known()}
        files = {name: _text(Path(self.places.directory, name)) for name in names}
        for name, there in (pending or {}).items():
            files[name] = _text(self.places.previous / name) if there else None
            if there and files[name] is None:
                raise ConfigurationError(f"{self.places.previous / name}: missing, though the journal names it")
        return files, pending

    def _known(self) -> list[str]:
        try:
            return [str(name) for name in _loaded(self.places.names)]
        except (FileNotFoundError, ValueError, TypeError):
            return []

    def _gone(self, before: Mapping[str, str | None]) -> list[str]:
        """Return the nodes that are no longer declared; raises ConfigurationError where that would do harm."""
        known = nodes_of(before.get(SLURM_CONF) or "")
        declared = set(nodes_of(self.wanted.files[SLURM_CONF]))
        gone = [name for name in known if name not in declared]
        if not gone or self.wanted.removal:
            return gone
        listed = fold(sorted(gone, key=natural))
        leave = "nothing was changed; slurm_accept_removal=true if it is meant"
        mass = mass_removal(known, gone)
        if mass:
            raise ConfigurationError(f"the fleet lacks {listed}: {mass}; {leave}")
        try:
            busy = [name for name, node in self.controller.nodes().items() if name in gone and node.busy]
        except NoAnswer as exc:
            why = f"whether jobs run there is not known: {exc}"
            raise ConfigurationError(f"the fleet lacks {listed}; {why}; {leave}") from exc
        except GateError as exc:
            raise ConfigurationError(f"the fleet lacks {listed}: {exc}; {leave}") from exc
        if busy:
            raise ConfigurationError(f"the fleet lacks {fold(sorted(busy, key=natural))}, where jobs run; {leave}")
        return gone

    def _try(self, before: Mapping[str, str | None], gone: Collection[str]) -> None:
        self._require_directory()
        self._require_state(before)
        files = {**self.wanted.files, GATE_NAME: without_nodes(self._gate_content(), gone).render()}
        try:
            try_files(self.host, files, self.name, self.places.trial_seconds)
        except TrialError as exc:
            raise ConfigurationError(f"{exc}; nothing was changed") from exc

    def _require_state(self, before: Mapping[str, str | None]) -> None:
        """Raise ConfigurationError where slurmctld would have to start without its state and nobody said so."""
        if before.get(SLURM_CONF) is None or self.wanted.empty_state or not state_is_empty(self.wanted.state_directory):
            return
        raise ConfigurationError(
            f"{self.wanted.state_directory} holds no state of Slurm's, and this controller is not new: jobs and drains "
            "would be lost; mount it, restore it (playbooks/slurm_restore.yml), or say slurm_accept_empty_state=true; "
            "nothing was changed"
        )

    def _gate_content(self) -> GateFile:
        """Return what the file of user partitions says; where there is none, all of them, closed."""
        found = [
            content for content in (self._gate_at(self.wanted.gate_path), self._gate_at(self.gate.path)) if content
        ]
        real = [content for content in found if content.ledger_id != NO_LEDGER]
        if len({content.ledger_id for content in real}) > 1:
            raise ConfigurationError(
                f"{self.gate.path} and {self.wanted.gate_path} come from different ledgers; remove the wrong one"
            )
        newest = sorted(real, key=lambda content: content.generation)
        return (newest or found or [GateFile(NO_LEDGER, 0, self.wanted.partitions)])[-1]

    def _gate_at(self, path: str | Path) -> GateFile | None:
        try:
            return Gate(self.controller, str(path), self.wanted.state_directory).read()
        except GateError as exc:
            raise ConfigurationError(str(exc)) from exc

    def _require_directory(self) -> None:
        """Raise ConfigurationError where two controllers would have a state each."""
        if len(controllers_of(self.wanted.files[SLURM_CONF])) < 2:
            return
        place = self.wanted.state_directory
        if mounted_at(place, self.host.read("/proc/self/mountinfo").stdout) == "/":
            raise ConfigurationError(
                f"{place} is on this host's own file system, expected a mount that both controllers share; "
                "nothing was changed"
            )

    def _keep_directory(self) -> None:
        """Have a state directory that Slurm may write to. One that holds anything of others stays as it is."""
        place = Path(self.wanted.state_directory)
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
        owner = slurm_uid(self.wanted.files[SLURM_CONF])
        if place.stat().st_uid != owner and {path.name for path in place.iterdir()} <= NO_STATE:
            os.chown(place, owner, -1)

    def _keep_gate(self, result: Result, check: bool) -> None:
        """Have the file of user partitions where it belongs; what it says is the gate's."""
        link, real = self.gate.path, Path(self.wanted.gate_path)
        linked = link == real or (link.is_symlink() and link.readlink() == real)
        if real.is_file() and linked:
            return
        content = self._gate_content()
        result.gate = True
        if check:
            return
        with _named(ConfigurationError, GateError):
            if not real.is_file() or self._gate_at(real) != content:
                Gate(self.controller, str(real), self.wanted.state_directory).write(content)
        if not linked:
            staged = link.with_name(f".{link.name}.new")
            staged.unlink(missing_ok=True)
            staged.symlink_to(real)
            staged.replace(link)

    def _close_gone(self, result: Result, gone: Collection[str], check: bool) -> None:
        """Close the gate for nodes that Slurm will not know: it would not start on a partition that names them."""
        content = self._gate_content()
        closed = without_nodes(content, gone)
        result.closed = sorted({name for nodes in content.nodes.values() for name in nodes} & set(gone), key=natural)
        if result.closed and not check:
            with _named(ConfigurationError, GateError):
                self.gate.write(closed)

    def _swap(self, before: Mapping[str, str | None], after: Mapping[str, str | None], result: Result) -> None:
        self.touched = True
        first = before.get(SLURM_CONF) is None
        edited = {name: after[name] for name in result.files}
        self._remember(before, edited)
        for name, text in edited.items():
            _write(Path(self.places.directory, name), text)
        if first or self.wanted.empty_state:
            self.places.bootstrap.touch()
        try:
            try:
                self._take_effect(result)
            except ConfigurationError as exc:
                raise ConfigurationError(f"{exc}; {self._put_back(before, edited, first)}") from exc
        finally:
            # Never left behind for a later start.
            self.places.bootstrap.unlink(missing_ok=True)
        _write(self.places.names, json.dumps(sorted(self.wanted.files)) + "\n")
        self.places.journal.unlink()

    def _remember(self, before: Mapping[str, str | None], edited: Collection[str]) -> None:
        """Keep the files as they are, then say that a swap has begun."""
        if edited:
            staged = self.places.previous.with_name("previous.new")
            shutil.rmtree(staged, ignore_errors=True)
            staged.mkdir(mode=0o755)
            for name, text in before.items():
                if text is not None:
                    _write(staged / name, text)
            shutil.rmtree(self.places.previous, ignore_errors=True)
            staged.rename(self.places.previous)
        _write(self.places.journal, json.dumps({name: before.get(name) is not None for name in edited}) + "\n")

    def _restore(self, names: Mapping[str, bool]) -> None:
        for name, there in names.items():
            _write(Path(self.places.directory, name), _text(self.places.previous / name) if there else None)

    def _put_back(self, before: Mapping[str, str | None], edited: Collection[str], first: bool) -> str:
        """Undo the swap and return how that went."""
        if not edited:
            return "its files were not changed"
        self._restore({name: before.get(name) is not None for name in edited})
        if first:
            self.host.run(["systemctl", "stop", self.places.unit], self.places.start_seconds)
            self.places.journal.unlink()
            return "the files were taken away again"
        try:
            self._start()
        except ConfigurationError as exc:
            return f"the previous files are back, but {exc}"
        self.places.journal.unlink()
        return "the previous files are back, and slurmctld runs on them"

    def _take_effect(self, result: Result) -> None:
        if result.started or result.restarted:
            self._start()
        if result.reconfigured:
            # After a restart too: the nodes fetch the files when they are told.
            with _named(ConfigurationError, GateError):
                self.controller.reconfigure()
            self._wait()

    def _start(self) -> None:
        self._systemctl("daemon-reload")
        log = self._log_size()
        try:
            self._systemctl("restart", self.places.unit)
            self._wait()
        except ConfigurationError as exc:
            raise ConfigurationError(f"{exc}{self._words(log)}") from exc

    def _wait(self) -> None:
        """Wait until this host's controller answers."""
        until = time.monotonic() + self.places.start_seconds
        while not self._running():
            if self._unit() in ("failed", "inactive"):
                raise ConfigurationError(f"slurmctld on {self.name} ended")
            if time.monotonic() > until:
                raise ConfigurationError(
                    f"slurmctld on {self.name} does not answer after {self.places.start_seconds:g} s"
                )
            time.sleep(self.poll_seconds)

    def _running(self) -> bool:
        return is_up(self.host.run(["scontrol", "ping"], self.places.start_seconds).stdout, self.name)

    def _unit(self) -> str:
        """Return the unit's state, such as ``active``."""
        return self.host.run(["systemctl", "is-active", self.places.unit], 30).stdout.strip()

    def _systemctl(self, *arguments: str) -> None:
        output = self.host.run(["systemctl", *arguments], self.places.start_seconds)
        if output.rc != 0:
            words = (output.error or output.stderr or output.stdout).strip().splitlines() or ["no message"]
            raise ConfigurationError(f"systemctl {' '.join(arguments)}: {words[0]}")

    def _log_path(self) -> Path | None:
        found = values_of(self.wanted.files[SLURM_CONF], "SlurmctldLogFile")
        return Path(found[0]) if found else None

    def _log_size(self) -> int:
        path = self._log_path()
        with suppress(OSError):
            return path.stat().st_size if path else 0
        return 0

    def _words(self, since: int) -> str:
        """Return what slurmctld or its unit said before it ended."""
        path = self._log_path()
        said: list[str] = []
        with suppress(OSError):
            if path:
                with path.open("rb") as file:
                    file.seek(since)
                    said = complaints(file.read().decode("utf-8", errors="replace"))
        if not said:
            # The unit's own words: the guard of the state directory speaks there.
            journal = self.host.run(["journalctl", "-u", self.places.unit, "-o", "cat", "-n", "20", "--no-pager"], 30)
            said = [line for line in journal.stdout.splitlines() if "slurmctld-state" in line or "fatal" in line]
        return f": {'; '.join(said[-2:])}" if said else ""


@contextmanager
def _named(kind: type[Exception], *others: type[Exception]) -> Iterator[None]:
    """Turn exceptions into one kind."""
    try:
        yield
    except others as exc:
        raise kind(str(exc)) from exc


def _loaded(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return None


def _bare(text: str | None) -> list[str] | None:
    """Return a file's lines without comments."""
    if text is None:
        return None
    return [bare for line in text.splitlines() if (bare := line.partition("#")[0].strip())]


def _write(path: Path, text: str | None) -> None:
    """Replace a file in one step that survives a power cut; None removes it."""
    if text is None:
        path.unlink(missing_ok=True)
        return
    staged = path.with_name(f".{path.name}.new")
    with staged.open("w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    staged.chmod(0o644)
    staged.replace(path)


def _difference(directory: str, name: str, before: str | None, after: str | None) -> dict[str, str]:
    path = f"{directory}/{name}"
    return {
        "before_header": path if before is not None else f"{path} (absent)",
        "before": before or "",
        "after_header": path if after is not None else f"{path} (absent)",
        "after": after or "",
    }
