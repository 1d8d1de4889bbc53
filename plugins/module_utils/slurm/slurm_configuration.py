"""Slurm's configuration on a controller: tried, swapped in as a whole, put back if slurmctld does not start on it."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..host.host import Host
from ..host.host_lists import fold, in_order
from ..host.whole_files import replace_link
from .configuration_swap import Places, Swap
from .gate_file import NO_LEDGER, GateFile, Partition
from .scontrol_output import NoAnswer, SlurmGateError
from .slurm_conf import (
    NOTHING,
    RECONFIGURE,
    RESTART,
    ConfigurationError,
    action_for,
    controllers_of,
    mass_removal,
    nodes_of,
    own_name,
    values_of,
)
from .slurm_controller import Controller
from .slurm_trial import SLURM_CONF, TrialError, slurm_uid, try_files
from .slurmctld_unit import SlurmctldUnit
from .user_gate import MARKER, Gate

GATE_NAME = "muster_partitions.conf"
# One of them says that a state directory is one, not an empty place where a file system should be mounted.
STATE_FILES = ("clustername", "job_state", "job_state.old", "node_state", "node_state.old")
# What a new state directory may hold besides: the gate's file and mark, and what a file system brings.
NO_STATE = {GATE_NAME, MARKER, "lost+found"}


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
        self.touched = False
        text = wanted.files[SLURM_CONF]
        self.name = own_name(text, name or socket.gethostname())
        log = values_of(text, "SlurmctldLogFile")
        self.slurmctld = SlurmctldUnit(host, places, self.name, log[0] if log else "", poll_seconds)
        self.swap = Swap(places)
        self.gate = GatePlace(self.controller, places, wanted)

    @property
    def leading(self) -> bool:
        """Whether this host is the first controller."""
        return controllers_of(self.wanted.files[SLURM_CONF])[0] == self.name

    def try_out(self) -> None:
        """Try the wanted files unless they are live; nothing is changed."""
        before, pending = self.swap.before(self.wanted.files)
        if pending is not None or any(before[name] != text for name, text in self.wanted.files.items()):
            self._try(before, self._gone(before))

    def apply(self, check: bool = False) -> Result:
        """Make the wanted files live and have slurmctld run on them; return what was done."""
        result = Result()
        if check:
            self._apply(result, check)
            return result
        try:
            Path(self.places.directory).mkdir(mode=0o755, parents=True, exist_ok=True)
            Path(self.places.work).mkdir(mode=0o755, parents=True, exist_ok=True)
            with self._alone():
                self._apply(result, check)
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

    def _apply(self, result: Result, check: bool) -> None:
        before, pending = self.swap.before(self.wanted.files)
        running = self.slurmctld.runs()
        result.undone = bool(pending)
        after: dict[str, str | None] = {**dict.fromkeys(before), **self.wanted.files}
        result.files = sorted(name for name in after if before.get(name) != after[name])
        result.diff = [_difference(self.places.directory, name, before.get(name), after[name]) for name in result.files]
        gone = self._gone(before)
        action = action_for(before, after) if pending is None else RESTART
        if not result.files and action == NOTHING and running:
            result.gate = self.gate.keep(check)
            return
        if result.files:
            self._try(before, gone)
        else:
            self._require_state(before)
        if not check:
            with _named(ConfigurationError, TrialError):
                self._keep_directory()
        if pending is not None and not check:
            self.swap.restore(pending)
            self.swap.forget_copies()
        result.gate = self.gate.keep(check)
        result.closed = self.gate.close(gone, check)
        result.started = not running
        result.restarted = running and (action == RESTART or (action == RECONFIGURE and not self.leading))
        # Nodes that fetched the files before have to be told.
        result.reconfigured = self.leading and action != NOTHING and before.get(SLURM_CONF) is not None
        if not check:
            self._swap(before, after, result)

    def _gone(self, before: Mapping[str, str | None]) -> list[str]:
        """Return the nodes that are no longer declared; raises ConfigurationError where that would do harm."""
        known = nodes_of(before.get(SLURM_CONF) or "")
        declared = set(nodes_of(self.wanted.files[SLURM_CONF]))
        gone = [name for name in known if name not in declared]
        if not gone or self.wanted.removal:
            return gone
        listed = fold(in_order(gone))
        leave = "nothing was changed; slurm_accept_removal=true if it is meant"
        mass = mass_removal(known, gone)
        if mass:
            raise ConfigurationError(f"the fleet lacks {listed}: {mass}; {leave}")
        try:
            busy = [name for name, node in self.controller.nodes().items() if name in gone and node.busy]
        except NoAnswer as exc:
            why = f"whether jobs run there is not known: {exc}"
            raise ConfigurationError(f"the fleet lacks {listed}; {why}; {leave}") from exc
        except SlurmGateError as exc:
            raise ConfigurationError(f"the fleet lacks {listed}: {exc}; {leave}") from exc
        if busy:
            raise ConfigurationError(f"the fleet lacks {fold(in_order(busy))}, where jobs run or may run; {leave}")
        return gone

    def _try(self, before: Mapping[str, str | None], gone: Collection[str]) -> None:
        self._require_directory()
        self._require_state(before)
        files = {**self.wanted.files, GATE_NAME: without_nodes(self.gate.content(), gone).render()}
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

    def _swap(self, before: Mapping[str, str | None], after: Mapping[str, str | None], result: Result) -> None:
        self.touched = True
        first = before.get(SLURM_CONF) is None
        edited = {name: after[name] for name in result.files}
        self.swap.begin(before, edited)
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
        self.swap.done(self.wanted.files)

    def _put_back(self, before: Mapping[str, str | None], edited: Collection[str], first: bool) -> str:
        """Undo the swap and return how that went."""
        if not edited:
            return "its files were not changed"
        self.swap.restore({name: before.get(name) is not None for name in edited})
        if first:
            self.slurmctld.stop()
            self.swap.undone()
            return "the files were taken away again"
        try:
            self.slurmctld.start()
        except ConfigurationError as exc:
            return f"the previous files are back, but {exc}"
        self.swap.undone()
        return "the previous files are back, and slurmctld runs on them"

    def _take_effect(self, result: Result) -> None:
        if result.started or result.restarted:
            self.slurmctld.start()
        if result.reconfigured:
            # After a restart too: the nodes fetch the files when they are told.
            with _named(ConfigurationError, SlurmGateError):
                self.controller.reconfigure()
            self.slurmctld.wait()


class GatePlace:
    """Where the file of user partitions belongs: in slurm.conf's directory, or linked from there to a shared one.

    What it says is the gate's. Methods raise ConfigurationError.
    """

    def __init__(self, controller: Controller, places: Places, wanted: Wanted) -> None:
        self.controller = controller
        self.wanted = wanted
        self.link = Path(places.directory, GATE_NAME)

    def content(self) -> GateFile:
        """Return what the file says; where there is none, all partitions, closed."""
        found = [content for content in (self._at(self.wanted.gate_path), self._at(self.link)) if content]
        real = [content for content in found if content.ledger_id != NO_LEDGER]
        if len({content.ledger_id for content in real}) > 1:
            raise ConfigurationError(
                f"{self.link} and {self.wanted.gate_path} come from different ledgers; remove the wrong one"
            )
        newest = sorted(real, key=lambda content: content.generation)
        return (newest or found or [GateFile(NO_LEDGER, 0, self.wanted.partitions)])[-1]

    def keep(self, check: bool) -> bool:
        """Have the file where it belongs; return whether it was not there."""
        real = Path(self.wanted.gate_path)
        linked = self.link == real or (self.link.is_symlink() and self.link.readlink() == real)
        if real.is_file() and linked:
            return False
        content = self.content()
        if check:
            return True
        if not real.is_file() or self._at(real) != content:
            self._write(real, content)
        if not linked:
            replace_link(self.link, real)
        return True

    def close(self, gone: Collection[str], check: bool) -> list[str]:
        """Close the gate for nodes that Slurm will not know: it would not start on a partition that names them.

        Returns those that were open.
        """
        content = self.content()
        closed = in_order({name for nodes in content.nodes.values() for name in nodes} & set(gone))
        if closed and not check:
            self._write(self.link, without_nodes(content, gone))
        return closed

    def _at(self, path: str | Path) -> GateFile | None:
        with _named(ConfigurationError, SlurmGateError):
            return self._gate(path).read()

    def _write(self, path: Path, content: GateFile) -> None:
        with _named(ConfigurationError, SlurmGateError):
            self._gate(path).write(content)

    def _gate(self, path: str | Path) -> Gate:
        return Gate(self.controller, str(path), self.wanted.state_directory)


@contextmanager
def _named(kind: type[Exception], *others: type[Exception]) -> Iterator[None]:
    """Turn exceptions into one kind."""
    try:
        yield
    except others as exc:
        raise kind(str(exc)) from exc


def _difference(directory: str, name: str, before: str | None, after: str | None) -> dict[str, str]:
    path = f"{directory}/{name}"
    return {
        "before_header": path if before is not None else f"{path} (absent)",
        "before": before or "",
        "after_header": path if after is not None else f"{path} (absent)",
        "after": after or "",
    }
