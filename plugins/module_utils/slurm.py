"""The user gate of a Slurm 22.05 (or later) controller: its partition file, its live partitions, its nodes' drains."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import drain_reason
from .host import Host, Output

GATE_FILE = "/etc/slurm/muster_partitions.conf"
# Debian's; vars/main.yml of role slurm sets it.
STATE_SAVE_LOCATION = "/var/lib/slurm/slurmctld"
# Its absence says that the state directory was erased, and the operators' drains with it.
MARKER = "muster_gate"
# Where slurmctld saves its live partitions. A standby that takes over restores them from there, whatever the file says.
SAVED_PARTITIONS = ("part_state", "part_state.old")
OUR_REASON = "muster:"
# What a file says that no ledger has rendered yet.
NO_LEDGER = "none"

_HEADER = re.compile(r"# muster ledger (\S+) generation (\d+)")
_NAME = re.compile(r"[A-Za-z0-9_.:-]+")


class GateError(Exception):
    """Why the gate is not as wanted; ``result`` holds what was done before."""

    def __init__(self, message: str, result: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.result = dict(result or {})


class NoAnswer(GateError):
    """The controller did not answer."""


@dataclass(frozen=True)
class Partition:
    """One user partition; ``nodes`` are those that passed, ``parameters`` are slurm.conf keys such as ``MaxTime``."""

    name: str
    default: bool = False
    nodes: tuple[str, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_params(cls, data: Mapping[str, Any]) -> Partition:
        """Return the partition of a module's parameters; raises GateError for a name or value Slurm would misread."""
        parameters = {str(key): _value(value) for key, value in (data.get("parameters") or {}).items()}
        taken = {"PartitionName", "Nodes", "Default", "Include"}
        for key, value in parameters.items():
            if key.title() in {name.title() for name in taken} or not key.isalnum() or re.search(r"[\s#]", value):
                raise GateError(f"partition {data['name']}: parameter {key}={value!r} cannot be set there")
        nodes = tuple(sorted(set(data.get("nodes") or ()), key=natural))
        for name in (data["name"], *nodes):
            if not _NAME.fullmatch(name):
                raise GateError(f"partition {data['name']}: {name!r} is not a name, expected {_NAME.pattern}")
        return cls(data["name"], bool(data.get("default")), nodes, tuple(sorted(parameters.items())))

    def open_for(self, nodes: Collection[str]) -> Partition:
        """Return the partition with those of its nodes that are in ``nodes``."""
        return replace(self, nodes=tuple(name for name in self.nodes if name in nodes))


@dataclass(frozen=True)
class GateFile:
    """The included file of user partitions, and the ledger it was rendered from."""

    ledger_id: str
    generation: int
    partitions: tuple[Partition, ...] = ()

    @property
    def nodes(self) -> dict[str, frozenset[str]]:
        """The open nodes by partition."""
        return {partition.name: frozenset(partition.nodes) for partition in self.partitions}

    def render(self) -> str:
        """Return the file's text; ``parse_gate_file`` reads it back."""
        lines = [
            f"# muster ledger {self.ledger_id} generation {self.generation}",
            "# Rendered by muster.cluster.slurm_gate: it lists the admitted nodes only, and edits are lost.",
        ]
        for partition in self.partitions:
            # Slurm takes a partition without Nodes as one without nodes: jobs wait.
            nodes = f" Nodes={fold(partition.nodes)}" if partition.nodes else ""
            parameters = "".join(f" {key}={value}" for key, value in partition.parameters)
            default = "YES" if partition.default else "NO"
            lines.append(f"PartitionName={partition.name} Default={default}{nodes}{parameters}")
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class NodeState:
    """What the controller says of a node: ``state`` as it prints it (``IDLE+DRAIN``), reason and who gave it when.

    Times are as scontrol prints them, such as ``2026-11-20T10:02:27``; ``booted`` is when the node booted, by its own
    word when it registered last.
    """

    state: str
    reason: str = ""
    by: str = ""
    at: str = ""
    booted: str = ""

    @property
    def drained(self) -> bool:
        """Whether new jobs are kept off the node."""
        return "DRAIN" in self.state.split("+")

    @property
    def down(self) -> bool:
        """Whether Slurm has given the node up, or somebody has."""
        return "DOWN" in self.state.split("+")

    @property
    def busy(self) -> bool:
        """Whether a job is on the node, or just leaving it."""
        return not {"ALLOCATED", "MIXED", "COMPLETING"}.isdisjoint(self.state.split("+"))

    @property
    def drained_by_others(self) -> bool:
        """Whether somebody other than Muster drained the node."""
        return self.drained and not self.reason.startswith(OUR_REASON)


@dataclass(frozen=True)
class Examined:
    """A node whose preflight of this run passed: on which boot, when it began (seconds since the epoch).

    ``in_service`` says that users can reach it, or are about to; ``healthy`` that its health check passed too.
    """

    boot_id: str
    began: float
    in_service: bool
    healthy: bool = False

    @classmethod
    def from_params(cls, name: str, data: Any) -> Examined:
        """Return what a module was given for a node; raises GateError."""
        try:
            flags = bool(data["in_service"]), bool(data["healthy"])
            return cls(str(data["boot_id"]), float(data["began"]), *flags)
        except (KeyError, TypeError, ValueError) as exc:
            expected = "boot_id, began, in_service and healthy"
            raise GateError(f"resume: {name}: {data!r}, expected {expected} ({exc!r})") from exc


@dataclass(frozen=True)
class Care:
    """What a reconciliation does besides the partitions: nodes that may come back, jobs on nodes that leave."""

    examined: Mapping[str, Examined] = field(default_factory=dict)
    end_jobs: bool = False


@dataclass(frozen=True)
class Job:
    """A job that runs in a partition on some nodes."""

    id: str
    partition: str
    nodes: frozenset[str]


@dataclass(frozen=True)
class Steps:
    """What brings file and controller to the wanted state: closing before opening.

    ``closing`` is the wanted file without nodes that are not open yet. ``set_closed`` and ``set_open`` are the nodes to
    set live by partition; ``reconfigure`` is needed where a partition appears, goes or has other parameters.
    """

    closing: GateFile
    wanted: GateFile
    set_closed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    set_open: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reconfigure: bool = False
    opened: Mapping[str, list[str]] = field(default_factory=dict)
    closed: Mapping[str, list[str]] = field(default_factory=dict)
    changed: bool = False


def natural(name: str) -> list[Any]:
    """Return a sort key by which n2 comes before n10."""
    return [int(part) if index % 2 else part for index, part in enumerate(re.split(r"(\d+)", name))]


def fold(names: Iterable[str]) -> str:
    """Return a Slurm host list in the given order: ``gpu-01 gpu-02 gpu-04`` gives ``gpu-[01-02,04]``.

    Addresses fold by their last number: ``10.0.0.9 10.0.0.10`` gives ``10.0.0.[9-10]``.
    """
    groups: list[tuple[str, list[list[str]]]] = []
    for name in names:
        match = re.fullmatch(r"(.*?)(\d+)", name)
        if not match or ":" in name:
            groups.append((name, []))
            continue
        prefix, number = match.groups()
        if not groups or groups[-1][0] != prefix or not groups[-1][1]:
            groups.append((prefix, []))
        runs = groups[-1][1]
        # Slurm writes every number of a range as wide as its first.
        if runs and number == str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][0])):
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ",".join(_group(prefix, runs) for prefix, runs in groups)


def expand(text: str) -> list[str]:
    """Return the names in a Slurm host list; none for ``(null)``. Raises GateError for what is not one."""
    if text in ("", "(null)"):
        return []
    names: list[str] = []
    rest = text
    while rest:
        match = re.match(r"([^\[\],]*)(?:\[([\d,-]+)\])?(?:,|$)", rest)
        if not match or not match.group(0).strip(","):
            raise GateError(f"host list {text!r}: cannot read {rest!r}")
        prefix, ranges = match.groups()
        names += [prefix + number for number in _numbers(ranges)] if ranges else [prefix]
        rest = rest[match.end() :]
    return names


def parse_gate_file(text: str) -> GateFile:
    """Return what the partition file says; raises GateError where it is not one that Muster wrote."""
    first, _newline, rest = text.partition("\n")
    match = _HEADER.fullmatch(first)
    if not match:
        raise GateError(f"first line is {first[:80]!r}, expected '# muster ledger <id> generation <number>'")
    partitions = []
    for number, line in enumerate(rest.splitlines(), start=2):
        if not line.strip() or line.startswith("#"):
            continue
        pairs = [word.partition("=")[::2] for word in line.split()]
        keys = dict(pairs)
        if pairs[0][0] != "PartitionName" or not all(value for _key, value in pairs) or "Default" not in keys:
            raise GateError(f"line {number} is {line[:80]!r}, expected 'PartitionName=... Default=...'")
        own = ("PartitionName", "Default", "Nodes")
        parameters = tuple(sorted((key, value) for key, value in pairs if key not in own))
        nodes = tuple(expand(keys.get("Nodes", "")))
        partitions.append(Partition(keys["PartitionName"], keys["Default"] == "YES", nodes, parameters))
    return GateFile(match.group(1), int(match.group(2)), tuple(partitions))


def parse_partitions(text: str) -> dict[str, frozenset[str]]:
    """Return the nodes by partition from ``scontrol show partition --oneliner``; raises GateError."""
    partitions = {}
    for line in text.splitlines():
        keys = dict(re.findall(r"(?:^| )(\w+)=(\S*)", line))
        if "PartitionName" in keys and "Nodes" in keys:
            partitions[keys["PartitionName"]] = frozenset(expand(keys["Nodes"]))
        elif line.strip() and not line.startswith("No partitions"):
            raise GateError(f"scontrol show partition: {line[:80]!r}, expected PartitionName= and Nodes=")
    return partitions


def parse_nodes(text: str) -> dict[str, NodeState]:
    """Return the nodes by name from ``scontrol show node --oneliner``; raises GateError."""
    nodes = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("No nodes"):
            continue
        name = re.match(r"NodeName=(\S+)", line)
        state = re.search(r" State=(\S+)", line)
        if not name or not state:
            raise GateError(f"scontrol show node: {line[:80]!r}, expected NodeName= and State=")
        why = re.search(r" Reason=(.*) \[([^@\]]+)@([^\]]+)\]", line) or re.search(r" Reason=(.*?)()()\s*$", line)
        # A star marks a node that does not answer; other signs belong to power saving and reboots.
        booted = re.search(r" BootTime=(\S+)", line)
        reason, by, at = why.groups() if why else ("", "", "")
        clean = re.sub(r"[^A-Z_+]", "", state.group(1))
        nodes[name.group(1)] = NodeState(clean, reason, by, at, booted.group(1) if booted else "")
    return nodes


def parse_jobs(text: str) -> list[Job]:
    """Return the jobs of ``squeue --format=%A|%P|%N``; raises GateError."""
    jobs = []
    for line in text.splitlines():
        words = line.strip().split("|")
        if len(words) != 3 or not words[0].isdecimal():
            raise GateError(f"squeue: {line[:80]!r}, expected JOB|PARTITION|NODES")
        jobs.append(Job(words[0], words[1], frozenset(expand(words[2]))))
    return jobs


def leaving(jobs: Iterable[Job], wanted: GateFile) -> list[Job]:
    """Return the jobs of user partitions that run on a node which is not open there."""
    return [job for job in jobs if job.partition in wanted.nodes and job.nodes - wanted.nodes[job.partition]]


def returns(node: NodeState, examined: Examined) -> bool:
    """Return whether a node that jobs are kept off comes back now that its preflight passed.

    One that Slurm found rebooted, and one that our own checks drained for a boot, once the boot is examined on which it
    registered; one that they drained for want of a measurement that has passed since, or that users cannot reach; and
    one that they drained for a fault, if users cannot reach it and its check passes again, so that it can be tested.
    Never one that a person or Slurm drained, or of which the reason is not known.
    """
    booted, since = _seconds(node.booted), _seconds(node.at)
    if booted is None or since is None or booted > examined.began:
        return False
    if not node.drained:
        return node.down and node.reason == drain_reason.REBOOTED
    if boot := drain_reason.boot_in(node.reason):
        return boot == examined.boot_id or since <= examined.began
    if node.reason == drain_reason.RESTART:
        return booted > since
    if since > examined.began:
        return False
    if drain_reason.waits(node.reason):
        return examined.healthy or not examined.in_service
    # One whose check still fails would be drained again, by every run anew.
    return drain_reason.fault_in(node.reason) is not None and examined.healthy and not examined.in_service


def _seconds(text: str) -> float | None:
    """Return a time of scontrol's, which prints this host's own, in seconds since the epoch."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def guard(current: GateFile | None, wanted: GateFile) -> None:
    """Raise GateError if the file was rendered from another ledger or from a newer copy of this one."""
    if current is None or current.ledger_id == NO_LEDGER:
        return
    if current.ledger_id != wanted.ledger_id:
        raise GateError(f"the file belongs to ledger {current.ledger_id}, given was ledger {wanted.ledger_id}")
    if current.generation > wanted.generation:
        raise GateError(
            f"the file is of generation {current.generation}, given was generation {wanted.generation} of ledger "
            f"{wanted.ledger_id}: this is an older copy of the ledger"
        )


def plan(current: GateFile | None, live: Mapping[str, Collection[str]] | None, wanted: GateFile) -> Steps:
    """Return what has to be done; ``live`` is None where the controller does not answer."""
    filed = current.nodes if current else {}
    seen = filed if live is None else live
    goal = wanted.nodes
    closing = replace(
        wanted, partitions=tuple(each.open_for(filed.get(each.name, frozenset())) for each in wanted.partitions)
    )
    shape = _shape(current) if current else None
    reconfigure = shape != _shape(wanted) or any(each.name not in seen for each in wanted.partitions)
    before = {name: set(filed.get(name, ())) | set(seen.get(name, ())) for name in {*filed, *goal}}
    after = {name: goal.get(name, frozenset()) for name in before}
    closed = {name: sorted(before[name] - after[name], key=natural) for name in sorted(before)}
    opened = {
        name: sorted(after[name] - (set(filed.get(name, ())) & set(seen.get(name, ()))), key=natural)
        for name in sorted(before)
    }
    return Steps(
        closing=closing,
        wanted=wanted,
        set_closed={
            each.name: each.open_for(seen[each.name]).nodes
            for each in wanted.partitions
            if each.name in seen and set(seen[each.name]) - set(each.nodes)
        },
        set_open={each.name: each.nodes for each in wanted.partitions if opened[each.name]},
        reconfigure=reconfigure,
        opened={name: nodes for name, nodes in opened.items() if nodes},
        closed={name: nodes for name, nodes in closed.items() if nodes},
        changed=reconfigure or any(opened.values()) or any(closed.values()),
    )


class Controller:
    """The running slurmctld, asked through scontrol. Every method raises NoAnswer or GateError."""

    def __init__(self, host: Host, timeout_seconds: float = 60) -> None:
        self.host = host
        self.timeout_seconds = timeout_seconds

    def partitions(self) -> dict[str, frozenset[str]]:
        """Return the nodes by partition."""
        return parse_partitions(self._scontrol("show", "partition", "--all", "--oneliner"))

    def nodes(self) -> dict[str, NodeState]:
        """Return the nodes by name."""
        return parse_nodes(self._scontrol("show", "node", "--all", "--oneliner"))

    def node(self, name: str) -> NodeState:
        """Return one node; raises GateError also where Slurm has no such node."""
        found = parse_nodes(self._scontrol("show", "node", name, "--oneliner"))
        if name not in found:
            raise GateError(f"scontrol show node {name}: said {', '.join(found) or 'nothing'}, expected {name}")
        return found[name]

    def set_nodes(self, partition: str, nodes: Sequence[str]) -> None:
        """Make the partition list these nodes; an empty value makes it list none."""
        self._scontrol("update", f"PartitionName={partition}", f"Nodes={fold(nodes)}")

    def reconfigure(self) -> None:
        """Make the controller read its files again."""
        self._scontrol("reconfigure")

    def drain(self, node: str, reason: str) -> None:
        """Keep new jobs off a node."""
        self._scontrol("update", f"NodeName={node}", "State=DRAIN", f"Reason={reason or 'drained'}")

    def resume(self, node: str) -> None:
        """Let jobs on a node again, also after a reboot that Slurm did not ask for."""
        self._scontrol("update", f"NodeName={node}", "State=RESUME")

    def jobs(self) -> list[Job]:
        """Return the jobs that are on nodes."""
        self._ping()
        argv = ["squeue", "--noheader", "--states=RUNNING,SUSPENDED,CONFIGURING", "--format=%A|%P|%N", "--all"]
        return parse_jobs(self._answer(argv, self.host.run(argv, self.timeout_seconds)))

    def end(self, job: str) -> None:
        """Put a job back into the queue, or cancel it where it cannot be started again."""
        try:
            self._scontrol("requeue", job)
        except NoAnswer:
            raise
        except GateError:
            argv = ["scancel", job]
            self._answer(argv, self.host.run(argv, self.timeout_seconds))

    def _scontrol(self, *arguments: str) -> str:
        self._ping()
        argv = ["scontrol", *arguments]
        return self._answer(argv, self.host.run(argv, self.timeout_seconds))

    def _ping(self) -> None:
        # scontrol asks a controller that is gone again and again; ping tells at once.
        ping = self.host.run(["scontrol", "ping"], self.timeout_seconds)
        if ping.rc != 0:
            raise NoAnswer(f"slurmctld does not answer: {_said(ping.error, ping.stdout, ping.stderr)}")

    @staticmethod
    def _answer(argv: Sequence[str], output: Output) -> str:
        command = " ".join(argv)
        if output.rc is None or output.timed_out:
            raise NoAnswer(f"{command}: {output.error}")
        if output.rc != 0:
            raise GateError(f"{command}: {_said(output.error, output.stderr, output.stdout)}")
        return output.stdout


class Gate:
    """File, controller and marker of one cluster."""

    def __init__(self, controller: Controller, path: str, state_save_location: str, care: Care | None = None) -> None:
        self.controller = controller
        self.care = care or Care()
        self.path = Path(path)
        self.marker = Path(state_save_location, MARKER)

    def read(self) -> GateFile | None:
        """Return what the file says, None where there is none; raises GateError."""
        try:
            return parse_gate_file(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, GateError) as exc:
            raise GateError(f"{self.path}: {exc}") from exc

    def text(self) -> str:
        """Return the file's text, nothing where it cannot be read."""
        try:
            return self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def describe(self) -> dict[str, Any]:
        """Return what file, controller and marker say, as plain data; raises GateError for a file that is not ours."""
        current = self.read()
        live, silence = self.live()
        nodes = self.controller.nodes() if live is not None else {}
        rendered = current is not None and current.ledger_id != NO_LEDGER
        return {
            "ledger_id": current.ledger_id if current and rendered else None,
            "generation": current.generation if current else 0,
            "partitions": _sorted(current.nodes if current else {}),
            "live": live is not None,
            "live_error": silence,
            "live_partitions": _sorted(live or {}),
            "nodes": {
                name: {
                    "state": node.state,
                    "reason": node.reason,
                    "user": node.by,
                    "time": node.at,
                    "booted": node.booted,
                }
                for name, node in nodes.items()
            },
            "drains": {drain["node"]: drain["reason"] for drain in drains_of(nodes)},
            "slurm_state_lost": live is None or not self.marker.exists(),
        }

    def write(self, content: GateFile) -> None:
        """Replace the file as a whole, and drop what Slurm has saved of its partitions; raises GateError."""
        # With two controllers the path is a link into the directory that they share.
        place = Path(os.path.realpath(self.path))
        staged = place.with_name(f".{place.name}.new")
        try:
            with staged.open("w", encoding="utf-8") as file:
                file.write(content.render())
                file.flush()
                os.fsync(file.fileno())
            staged.chmod(0o644)
            staged.replace(place)
        except OSError as exc:
            raise GateError(f"{place}: {exc.strerror}") from exc
        self.forget_saved()

    def forget_saved(self) -> None:
        """Drop what Slurm has saved of its partitions, so that whoever starts or takes over reads the file.

        Raises GateError where it cannot be dropped: a standby might reopen what was closed.
        """
        for name in SAVED_PARTITIONS:
            try:
                self.marker.with_name(name).unlink()
            except FileNotFoundError:
                continue
            except OSError as exc:
                raise GateError(f"{self.marker.with_name(name)}: {exc.strerror}") from exc

    def live(self) -> tuple[dict[str, frozenset[str]] | None, str]:
        """Return the nodes by live partition, or None and why the controller does not answer."""
        try:
            return self.controller.partitions(), ""
        except NoAnswer as exc:
            return None, str(exc)

    def reconcile(
        self, wanted: GateFile, drains: Mapping[str, str], check: bool = False, adopt: bool = False
    ) -> dict[str, Any]:
        """Bring file and controller to ``wanted`` and return what changed; raises GateError."""
        with self._alone(check):
            return self._reconcile(wanted, drains, check, adopt)

    @contextmanager
    def _alone(self, check: bool) -> Iterator[None]:
        """Let nobody else reconcile meanwhile."""
        if check:
            yield
            return
        try:
            directory = os.open(self.path.parent, os.O_RDONLY)
        except OSError as exc:
            raise GateError(f"{self.path.parent}: {exc.strerror}") from exc
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)

    def _reconcile(self, wanted: GateFile, drains: Mapping[str, str], check: bool, adopt: bool) -> dict[str, Any]:
        current = None if adopt and not self._readable() else self.read()
        if not adopt:
            try:
                guard(current, wanted)
            except GateError as exc:
                raise GateError(f"{self.path}: {exc}; nothing was changed") from exc
        live, silence = self.live()
        steps = plan(current, live, wanted)
        if live is None and not check:
            self._file_closing(current, steps)
            # One that has started meanwhile may have read the file as it was.
            live, silence = self.live()
            steps = plan(current, live, wanted)
        result: dict[str, Any] = {
            "changed": steps.changed,
            "opened": steps.opened,
            "closed": steps.closed,
            "live": live is not None,
            **_no_drains(),
        }
        if live is None:
            return self._without_controller(steps, silence, result)
        try:
            if not check:
                self._close(current, steps)
            result |= self._end_jobs(wanted, check)
            result |= self._reconcile_drains(drains, check)
            result |= self._resume(drains, check)
            done = ("drains_restored", "resumed", "jobs_ended")
            result["changed"] = steps.changed or any(result[key] for key in done)
            if not check:
                self._open(steps)
        except GateError as exc:
            raise GateError(str(exc), result) from exc
        return result

    def _readable(self) -> bool:
        try:
            self.read()
        except GateError:
            return False
        return True

    def _file_closing(self, current: GateFile | None, steps: Steps) -> None:
        """Close in the file, for whoever reads it next."""
        if steps.closing != current:
            self.write(steps.closing)
        else:
            self.forget_saved()

    def _without_controller(self, steps: Steps, silence: str, result: dict[str, Any]) -> dict[str, Any]:
        """Nodes are closed in the file, which a controller that comes back reads; none is opened."""
        result["changed"] = bool(steps.closed) or steps.reconfigure
        result["opened"] = {}
        if steps.closed or any(steps.wanted.nodes.values()):
            closed = sum(map(len, steps.closed.values()))
            raise GateError(f"{silence}; {closed} nodes closed in {self.path.name}, none opened", result)
        return result

    def _close(self, current: GateFile | None, steps: Steps) -> None:
        if steps.closing != current:
            self.write(steps.closing)
        if steps.reconfigure:
            self.controller.reconfigure()
        # A reconfigure is done when the file is live; what was opened by hand before it is closed here.
        for name, nodes in steps.set_closed.items():
            self.controller.set_nodes(name, nodes)
        if steps.set_closed or steps.reconfigure:
            # The controller may have saved what was live since the file was written.
            self.forget_saved()
        opened = self._differences(steps, only_more=True)
        if opened:
            raise GateError(f"the controller still has open: {opened}")

    def _open(self, steps: Steps) -> None:
        try:
            if steps.wanted != steps.closing:
                self.write(steps.wanted)
            for name, nodes in steps.set_open.items():
                self.controller.set_nodes(name, nodes)
            if steps.set_open:
                self.forget_saved()
            different = self._differences(steps)
            if different:
                raise GateError(f"the controller disagrees after the update: {different}")
        except GateError as exc:
            trouble = self._undo(steps)
            raise GateError(f"{exc}; opening was undone{trouble}") from exc

    def _undo(self, steps: Steps) -> str:
        trouble = ""
        kept = {partition.name: partition.nodes for partition in steps.closing.partitions}
        try:
            self.write(steps.closing)
            for name in steps.set_open:
                self.controller.set_nodes(name, kept[name])
            self.forget_saved()
        except GateError as exc:
            trouble = f", not completely: {exc}"
        return trouble

    def _differences(self, steps: Steps, only_more: bool = False) -> str:
        live = self.controller.partitions()
        words = []
        # A partition that goes has to be closed too.
        for name, nodes in {**dict.fromkeys(steps.closed, frozenset()), **steps.wanted.nodes}.items():
            found = live.get(name, frozenset())
            if found - nodes if only_more else found != nodes:
                words.append(f"partition {name} has {_listed(found)}, expected {_listed(nodes)}")
        return "; ".join(words)

    def _end_jobs(self, wanted: GateFile, check: bool) -> dict[str, Any]:
        """End the jobs of users on nodes that are closed, where the fleet says so."""
        gone = leaving(self.controller.jobs(), wanted) if self.care.end_jobs else []
        if not check:
            for job in gone:
                self.controller.end(job.id)
        return {"jobs_ended": [job.id for job in gone]}

    def _resume(self, known: Mapping[str, str], check: bool) -> dict[str, Any]:
        """Let jobs again on the nodes that wait for nothing but this run's examination."""
        if not self.care.examined:
            return {"resumed": []}
        nodes = self.controller.nodes()
        back = [
            name
            for name, examined in sorted(self.care.examined.items(), key=lambda item: natural(item[0]))
            if name in nodes and name not in known and returns(nodes[name], examined)
        ]
        if not check:
            for name in back:
                self.controller.resume(name)
        return {"resumed": back}

    def _reconcile_drains(self, known: Mapping[str, str], check: bool) -> dict[str, Any]:
        nodes = self.controller.nodes()
        gone = sorted((name for name in known if name in nodes and not nodes[name].drained), key=natural)
        lost = not self.marker.exists()
        if lost and not check:
            for name in gone:
                self.controller.drain(name, known[name])
            nodes = self.controller.nodes() if gone else nodes
            try:
                self.marker.write_text("Removed with Slurm's state, this file tells that drains were lost.\n")
            except OSError as exc:
                raise GateError(f"{self.marker}: {exc.strerror}, expected Slurm's StateSaveLocation") from exc
        return {
            "drains_found": drains_of(nodes),
            "drains_restored": gone if lost else [],
            "drains_lifted": [] if lost else gone,
            "slurm_state_lost": lost,
        }


def drains_of(nodes: Mapping[str, NodeState]) -> list[dict[str, str]]:
    """Return the drains that are not Muster's: node, reason, user and time (as the controller prints it)."""
    return [
        {"node": name, "reason": node.reason, "user": node.by, "time": node.at}
        for name, node in sorted(nodes.items(), key=lambda item: natural(item[0]))
        if node.drained_by_others
    ]


def _no_drains() -> dict[str, Any]:
    none: dict[str, list[Any]] = {key: [] for key in ("drains_found", "drains_restored", "drains_lifted", "resumed")}
    return {**none, "jobs_ended": [], "slurm_state_lost": None}


def _shape(content: GateFile) -> list[tuple[Any, ...]]:
    return sorted((each.name, each.default, each.parameters) for each in content.partitions)


def _sorted(partitions: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    return {name: sorted(nodes, key=natural) for name, nodes in partitions.items()}


def _listed(names: Iterable[str]) -> str:
    return fold(sorted(names, key=natural)) or "no nodes"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return str(value)


def _said(*texts: str) -> str:
    return next((text.strip().splitlines()[0] for text in texts if text.strip()), "no message")


def _group(prefix: str, runs: Sequence[Sequence[str]]) -> str:
    if not runs:
        return prefix
    ranges = ",".join("-".join(run) for run in runs)
    return f"{prefix}{ranges}" if len(runs) == 1 and len(runs[0]) == 1 else f"{prefix}[{ranges}]"


def _numbers(ranges: str) -> list[str]:
    numbers = []
    for each in ranges.split(","):
        first, dash, last = each.partition("-")
        if not first or (dash and not last):
            raise GateError(f"host list: range {each!r}, expected number or number-number")
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)]
    return numbers
