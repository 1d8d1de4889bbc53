"""The controller's gate as an admission sees it: what is read of it, and one edit of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import Reservation
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

# Runs a module of ours on the controller, given its name and arguments.
Execute = Callable[[str, dict[str, Any]], dict[str, Any]]


class ControllerError(MusterError):
    """The controller could not be asked or did not do what it was asked; ``edit`` is what it did before."""

    def __init__(self, message: str, edit: GateEdit | None = None) -> None:
        super().__init__(message)
        self.edit = edit


@dataclass(frozen=True)
class GateInfo:
    """The gate as the controller has it: its file's header, who is open there and live, what Slurm says of nodes.

    Of all live partitions, those of others too: their nodes, and under ``live_access`` who may use them.
    ``unreadable`` is why by what could not be read, such as ``partition debug`` or ``node n0003``.
    """

    ledger_id: str | None
    generation: int
    partitions: Mapping[str, Sequence[str]]
    live_partitions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unreachable: frozenset[str] = frozenset()
    drains: Mapping[str, str] = field(default_factory=dict)
    state_lost: bool = False
    # State, reason and boot of every node, as slurm_gate_info gives them.
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    live_access: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GateEdit:
    """What one reconciliation changed, by partition."""

    changed: bool
    opened: Sequence[str] = ()
    closed: Sequence[str] = ()
    diff: Any = None
    resumed: Sequence[str] = ()
    jobs_ended: Sequence[str] = ()


class Gate(Protocol):
    """The controller's gate."""

    def read(self) -> GateInfo:
        """Return what the controller has; raises ControllerError."""

    def write(
        self,
        partitions: Sequence[Mapping[str, Any]],
        generation: int,
        drains: Mapping[str, str],
        resume: Mapping[str, Mapping[str, Any]],
    ) -> GateEdit:
        """Make file and controller list these nodes, and let those of ``resume`` back; raises ControllerError."""

    def close(self, nodes: Sequence[str]) -> GateEdit:
        """Take nodes out of file and controller, which needs no ledger; raises ControllerError."""


class ModuleGate:
    """The gate as the modules slurm_gate and slurm_gate_info on the controller."""

    def __init__(self, execute: Execute, fleet: Fleet, unreachable: Sequence[str] = ()) -> None:
        self._execute = execute
        self._fleet = fleet
        self._unreachable = unreachable

    def read(self) -> GateInfo:
        """Return what the controller has; raises ControllerError."""
        known = self._fleet.addresses
        probe = {name: known[name] for name in self._unreachable if name in known}
        result = self._run("slurm_gate_info", {"probe": probe, **self._state()})
        if result.get("failed"):
            raise ControllerError(_complaint("slurm_gate_info", result))
        return GateInfo(
            ledger_id=result["ledger_id"],
            generation=result["generation"],
            partitions=result["partitions"],
            live_partitions=result["live_partitions"],
            unreachable=frozenset(result["silent_nodes"]),
            drains=result["drains"],
            state_lost=result["slurm_state_lost"],
            nodes=result["nodes"],
            live_access=result["live_access"],
            reservations={name: Reservation.from_dict(each) for name, each in result["reservations"].items()},
            unreadable=result["unreadable"],
        )

    def _run(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._execute(name, arguments)
        except MusterError as exc:
            raise ControllerError(f"controller {self._fleet.controller} is unreachable: {exc}") from exc

    def _state(self) -> dict[str, str]:
        # What a standby would reopen nodes from, and where the mark of lost drains lies.
        return {"state_save_location": self._fleet.scheduler.state_directory}

    def write(
        self,
        partitions: Sequence[Mapping[str, Any]],
        generation: int,
        drains: Mapping[str, str],
        resume: Mapping[str, Mapping[str, Any]],
    ) -> GateEdit:
        """Make file and controller list these nodes, and let those of ``resume`` back; raises ControllerError."""
        arguments = {
            "partitions": [dict(partition) for partition in partitions],
            "ledger_id": self._fleet.ledger.id,
            "generation": generation,
            "drains": dict(drains),
            "resume": {name: dict(examined) for name, examined in resume.items()},
            "leaving_jobs": self._fleet.scheduler.leaving_jobs,
        }
        return self._edited(arguments)

    def close(self, nodes: Sequence[str]) -> GateEdit:
        """Take nodes out of file and controller, which needs no ledger; raises ControllerError."""
        return self._edited({"close": list(nodes)})

    def _edited(self, arguments: Mapping[str, Any]) -> GateEdit:
        result = self._run("slurm_gate", {**arguments, **self._state()})
        edit = GateEdit(
            changed=bool(result.get("changed")),
            opened=_named(result.get("opened")),
            closed=_named(result.get("closed")),
            diff=result.get("diff"),
            resumed=result.get("resumed") or [],
            jobs_ended=result.get("jobs_ended") or [],
        )
        if result.get("failed"):
            raise ControllerError(_complaint("slurm_gate", result), edit)
        return edit


def _complaint(name: str, result: Mapping[str, Any]) -> str:
    said = (result.get("module_stderr") or "").strip().splitlines()
    return ": ".join([name, str(result.get("msg", "no message")), *said[:1]])


def _named(nodes: Mapping[str, Sequence[str]] | None) -> list[str]:
    return sorted({name for of_partition in (nodes or {}).values() for name in of_partition})
