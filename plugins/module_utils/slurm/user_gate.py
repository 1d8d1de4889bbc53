"""The user gate of a Slurm 22.05 (or later) controller: its partition file, its live partitions, its nodes' drains."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..host.host_lists import fold, in_order, natural
from ..host.whole_files import replace_file
from . import drain_reason
from .gate_file import NO_LEDGER, GateFile, parse_gate_file
from .gate_plan import Closing, NodeHandling, Steps, closing_of, guard, leaving, plan, returns, seconds_of
from .scontrol_output import LivePartition, NoAnswer, NodeState, Reservation, SlurmGateError
from .slurm_controller import Controller

# Debian's; vars/main.yml of role slurm sets it.
STATE_SAVE_LOCATION = "/var/lib/slurm/slurmctld"
# Its absence says that the state directory was erased, and the operators' drains with it.
MARKER = "muster_gate"
# Where slurmctld saves its live partitions. A standby that takes over restores them from there, whatever the file says.
SAVED_PARTITIONS = ("part_state", "part_state.old")


class Gate:
    """File, controller and marker of one cluster."""

    def __init__(
        self, controller: Controller, path: str, state_save_location: str, handling: NodeHandling | None = None
    ) -> None:
        self.controller = controller
        self.handling = handling or NodeHandling()
        self.path = Path(path)
        self.marker = Path(state_save_location, MARKER)

    def read(self) -> GateFile | None:
        """Return what the file says, None where there is none; raises SlurmGateError."""
        try:
            return parse_gate_file(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, SlurmGateError) as exc:
            raise SlurmGateError(f"{self.path}: {exc}") from exc

    def text(self) -> str:
        """Return the file's text, nothing where it cannot be read."""
        try:
            return self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def describe(self) -> dict[str, Any]:
        """Return what file, controller and marker say, as plain data; raises SlurmGateError for a foreign file.

        What cannot be read of a partition, a reservation or a node is told under ``unreadable``.
        """
        current = self.read()
        live, silence = self.live()
        nodes = self.controller.nodes() if live is not None else {}
        reservations, trouble = self._reservations() if live is not None else ({}, {})
        trouble |= {f"partition {name}": each.trouble for name, each in (live or {}).items() if each.trouble}
        trouble |= {f"reservation {name}": each.trouble for name, each in reservations.items() if each.trouble}
        trouble |= {f"node {name}": node.reason for name, node in nodes.items() if not node.readable}
        rendered = current is not None and current.ledger_id != NO_LEDGER
        return {
            "ledger_id": current.ledger_id if current and rendered else None,
            "generation": current.generation if current else 0,
            "partitions": _sorted(current.nodes if current else {}),
            "live": live is not None,
            "live_error": silence,
            "live_partitions": _sorted(_nodes_of(live or {})),
            "live_access": {name: dict(each.access) for name, each in (live or {}).items()},
            "reservations": {name: asdict(each) for name, each in reservations.items() if not each.trouble},
            "unreadable": trouble,
            "nodes": {
                name: {
                    "state": node.state,
                    "reason": node.reason,
                    "user": node.by,
                    "time": node.at,
                    "booted": node.booted,
                    "boot_time": seconds_of(node.booted),
                }
                for name, node in nodes.items()
            },
            "drains": {drain["node"]: drain["reason"] for drain in drains_of(nodes)},
            "slurm_state_lost": live is None or not self.marker.exists(),
        }

    def _reservations(self) -> tuple[dict[str, Reservation], dict[str, str]]:
        """Return the reservations, or why they could not be asked for."""
        try:
            return self.controller.reservations(), {}
        except SlurmGateError as exc:
            return {}, {"reservations": str(exc)}

    def write(self, content: GateFile) -> None:
        """Replace the file as a whole, and drop what Slurm has saved of its partitions; raises SlurmGateError."""
        # With two controllers the path is a link into the directory that they share.
        place = Path(os.path.realpath(self.path))
        try:
            replace_file(place, content.render(), 0o644)
        except OSError as exc:
            raise SlurmGateError(f"{place}: {exc.strerror}") from exc
        self.forget_saved()

    def forget_saved(self) -> None:
        """Drop what Slurm has saved of its partitions, so that whoever starts or takes over reads the file.

        Raises SlurmGateError where it cannot be dropped: a standby might reopen what was closed.
        """
        for name in SAVED_PARTITIONS:
            try:
                self.marker.with_name(name).unlink()
            except FileNotFoundError:
                continue
            except OSError as exc:
                raise SlurmGateError(f"{self.marker.with_name(name)}: {exc.strerror}") from exc

    def live(self) -> tuple[dict[str, LivePartition] | None, str]:
        """Return the live partitions, or None and why the controller does not tell them."""
        try:
            return self.controller.partitions(), ""
        except SlurmGateError as exc:
            return None, str(exc)

    def close(self, names: Collection[str], check: bool = False) -> dict[str, Any]:
        """Take nodes out of every partition of the file, and out of those live; return what changed.

        Ledger and generation of the file stay. No answer of Slurm's has to be readable: a partition whose live nodes
        are not known is set to those that the file still lists. Each step is tried, whatever became of the one before.
        Raises SlurmGateError where a node may still be open.
        """
        current = self.read()
        if current is None:
            if self.live()[0] is not None:
                raise SlurmGateError(
                    f"{self.path}: no such file, so that it is not known which partitions are Muster's"
                )
            return {"changed": False, "opened": {}, "closed": {}, "live": False, **_no_drains()}
        with self._alone(check):
            return self._close_nodes(self.read() or current, frozenset(names), check)

    def _close_nodes(self, current: GateFile, names: frozenset[str], check: bool) -> dict[str, Any]:
        live, silence = self.live()
        unread = set(current.nodes) if live is None else {name for name, each in live.items() if each.trouble}
        steps = closing_of(current, _nodes_of(live or {}), unread, names)
        result: dict[str, Any] = {
            "changed": bool(steps.closed),
            "opened": {},
            "closed": steps.closed,
            "live": live is not None,
            **_no_drains(),
        }
        # A file that no ledger has rendered belongs to a cluster in which nothing has been open yet.
        if check or (live is None and current.ledger_id == NO_LEDGER):
            return result
        not_filed, not_live = self._filed_without(current, steps, silence), self._live_without(steps, names)
        if not_filed or not_live:
            filed = not_filed or f"{self.path.name} lists none of them"
            live_too = not_live or "live they are closed"
            raise SlurmGateError(f"{_listed(names)} may still be open: {live_too}; {filed}", result)
        return result

    def _filed_without(self, current: GateFile, steps: Closing, silence: str) -> str:
        """Write the file where it changes and return what went wrong."""
        try:
            if steps.file != current:
                self.write(steps.file)
            elif silence:
                self.forget_saved()
        except SlurmGateError as exc:
            return str(exc)
        return ""

    def _live_without(self, steps: Closing, names: frozenset[str]) -> str:
        """Close live and return what went wrong, or what the controller still has open."""
        trouble = []
        try:
            for name, nodes in steps.set_live.items():
                try:
                    self.controller.set_nodes(name, nodes)
                except NoAnswer:
                    raise
                except SlurmGateError as exc:
                    trouble.append(str(exc))
            if not steps.set_live:
                return ""
            # The controller may have saved what was live since the file was written.
            self.forget_saved()
            live = self.controller.partitions()
        except SlurmGateError as exc:
            return "; ".join([*trouble, str(exc)])
        for name in steps.file.nodes:
            if name in live and live[name].trouble:
                trouble.append(f"partition {name} cannot be read: {live[name].trouble}")
            elif name in live and live[name].nodes & names:
                trouble.append(f"partition {name} has {_listed(live[name].nodes & names)}")
        return "; ".join(trouble)

    def reconcile(
        self, wanted: GateFile, drains: Mapping[str, str], check: bool = False, adopt: bool = False
    ) -> dict[str, Any]:
        """Bring file and controller to ``wanted`` and return what changed; raises SlurmGateError."""
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
            raise SlurmGateError(f"{self.path.parent}: {exc.strerror}") from exc
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
            except SlurmGateError as exc:
                raise SlurmGateError(f"{self.path}: {exc}; nothing was changed") from exc
        live, silence = self.live()
        steps = plan(current, None if live is None else _nodes_of(live), wanted)
        if live is None and not check:
            self._file_closing(current, steps)
            # One that has started meanwhile may have read the file as it was.
            live, silence = self.live()
            steps = plan(current, None if live is None else _nodes_of(live), wanted)
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
            resumed, refused = self._resume(drains, check)
            result["resumed"] = resumed
            done = ("drains_restored", "resumed", "jobs_ended")
            result["changed"] = steps.changed or any(result[key] for key in done)
            if not check:
                self._open(steps)
            if refused:
                # Slurm still keeps jobs off them; that is no reason to keep the others closed.
                raise SlurmGateError(f"not resumed: {'; '.join(refused)}")
        except SlurmGateError as exc:
            raise SlurmGateError(str(exc), result) from exc
        return result

    def _readable(self) -> bool:
        try:
            self.read()
        except SlurmGateError:
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
            raise SlurmGateError(f"{silence}; {closed} nodes closed in {self.path.name}, none opened", result)
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
            raise SlurmGateError(f"the controller still has open: {opened}")

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
                raise SlurmGateError(f"the controller disagrees after the update: {different}")
        except SlurmGateError as exc:
            trouble = self._undo(steps)
            raise SlurmGateError(f"{exc}; opening was undone{trouble}") from exc

    def _undo(self, steps: Steps) -> str:
        trouble = ""
        kept = {partition.name: partition.nodes for partition in steps.closing.partitions}
        try:
            self.write(steps.closing)
            for name in steps.set_open:
                self.controller.set_nodes(name, kept[name])
            self.forget_saved()
        except SlurmGateError as exc:
            trouble = f", not completely: {exc}"
        return trouble

    def _differences(self, steps: Steps, only_more: bool = False) -> str:
        live = self.controller.partitions()
        words = []
        # A partition that goes has to be closed too.
        for name, nodes in {**dict.fromkeys(steps.closed, frozenset()), **steps.wanted.nodes}.items():
            if name in live and live[name].trouble:
                words.append(f"partition {name} cannot be read ({live[name].trouble}), expected {_listed(nodes)}")
                continue
            found = live[name].nodes if name in live else frozenset()
            if found - nodes if only_more else found != nodes:
                words.append(f"partition {name} has {_listed(found)}, expected {_listed(nodes)}")
        return "; ".join(words)

    def _end_jobs(self, wanted: GateFile, check: bool) -> dict[str, Any]:
        """End the jobs of users on nodes that are closed, where the fleet says so."""
        gone = leaving(self.controller.jobs(), wanted) if self.handling.end_jobs else []
        if not check:
            for job in gone:
                self.controller.end(job.id)
        return {"jobs_ended": [job.id for job in gone]}

    def _resume(self, known: Mapping[str, str], check: bool) -> tuple[list[str], list[str]]:
        """Let jobs again on the nodes that wait for nothing but this run's examination.

        Returns those that Slurm lets jobs on again (in check mode, would), and one text for each that it refused.
        """
        if not self.handling.examined:
            return [], []
        before = self.controller.nodes()
        back = [
            name
            for name in in_order(self.handling.examined)
            if name in before and name not in known and returns(before[name], self.handling.examined[name])
        ]
        if check or not back:
            return back, []
        refused: dict[str, str] = {}
        try:
            self.controller.resume(*back)
        except NoAnswer:
            raise
        except SlurmGateError:
            # Slurm stops at the first node that it refuses: the rest one by one.
            for name in _unchanged(back, before, self.controller.nodes()):
                try:
                    self.controller.resume(name)
                except NoAnswer:
                    raise
                except SlurmGateError as exc:
                    refused[name] = str(exc)
        after = self.controller.nodes()
        for name in _unchanged(back, before, after):
            refused.setdefault(name, f"{name} is still {after[name].state} ({after[name].reason})")
        return [name for name in back if name in after and not after[name].kept_off], list(refused.values())

    def _reconcile_drains(self, known: Mapping[str, str], check: bool) -> dict[str, Any]:
        nodes = self.controller.nodes()
        gone = in_order(name for name in known if name in nodes and not nodes[name].drained)
        lost = not self.marker.exists()
        if lost and not check:
            for name in gone:
                self.controller.drain(name, drain_reason.as_others(known[name]))
            nodes = self.controller.nodes() if gone else nodes
            try:
                self.marker.write_text("Removed with Slurm's state, this file tells that drains were lost.\n")
            except OSError as exc:
                raise SlurmGateError(f"{self.marker}: {exc.strerror}, expected Slurm's StateSaveLocation") from exc
        return {
            "drains_found": drains_of(nodes),
            "drains_restored": gone if lost else [],
            # Of a node that cannot be read it is not known.
            "drains_lifted": [] if lost else [name for name in gone if nodes[name].readable],
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


def _unchanged(names: Iterable[str], before: Mapping[str, NodeState], now: Mapping[str, NodeState]) -> list[str]:
    """Return the nodes off which jobs are kept for the same reason, since the same time, as before."""
    return [
        name
        for name in names
        if name in now
        and now[name].kept_off
        and (now[name].reason, now[name].at) == (before[name].reason, before[name].at)
    ]


def _nodes_of(live: Mapping[str, LivePartition]) -> dict[str, frozenset[str]]:
    """Return the nodes by partition, of those that could be read."""
    return {name: each.nodes for name, each in live.items() if not each.trouble}


def _sorted(partitions: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    return {name: in_order(nodes) for name, nodes in partitions.items()}


def _listed(names: Iterable[str]) -> str:
    return fold(in_order(names)) or "no nodes"
