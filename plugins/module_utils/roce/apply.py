"""Setting one port and reading it back."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..host.machine import Machine
from ..host.waiting import poll, retry
from .decide import BACKENDS, FIRST, differences, missing_gid, problems, steps, unsupported, wanted
from .port import CONFIGFS, TOOL_SECONDS, Command, Place, PortError, PortState, Step, collect, find, state_of
from .settings import PortSettings

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Outcome:
    """What became of one rail's port: its settings before and after (only those that differed), what is still wrong.

    ``place`` is None where the port was not found, or was not looked for.
    """

    rail: str
    place: Place | None = None
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    problems: Sequence[str] = ()

    @property
    def changed(self) -> bool:
        """Whether a setting was changed, or would be."""
        return self.before != self.after


def read(machine: Machine, settings: PortSettings) -> PortState:
    """Return what the port shows; raises PortError."""
    backend, names = BACKENDS[settings.backend], frozenset(wanted(settings))
    place = find(machine, settings)
    return state_of(place, collect(machine, place, backend, names), backend, names)


def check(machine: Machine, settings: PortSettings) -> Outcome:
    """Return what would be changed, and all that is wrong; changes nothing."""
    if impossible := unsupported(settings):
        return Outcome(settings.name, problems=impossible)
    try:
        state = read(machine, settings)
    except PortError as exc:
        return Outcome(settings.name, problems=[str(exc)])
    wrong = differences(settings, state)
    gid = missing_gid(settings, state)
    return Outcome(
        settings.name,
        state.place,
        {name: state.values.get(name) for name in wrong},
        wrong,
        [*problems(settings, state), *([gid] if gid else [])],
    )


def apply(machine: Machine, settings: PortSettings, wait_seconds: float) -> Outcome:
    """Set the port and read it back. A device that takes a setting and does not show it is a problem of the outcome.

    Waits for a device or an address that is late, as both may be at boot.
    """
    if impossible := unsupported(settings):
        return Outcome(settings.name, problems=impossible)
    deadline = time.monotonic() + wait_seconds
    try:
        state = retry(lambda: read(machine, settings), PortError, wait_seconds, POLL_SECONDS)
    except PortError as exc:
        return Outcome(settings.name, problems=[str(exc)])
    first = state
    refused: list[str] = []
    wrong = differences(settings, state)
    try:
        if first_of_all := {name: wrong[name] for name in FIRST if name in wrong}:
            refused += _do_all(machine, steps(settings, first_of_all, state))
            state = read(machine, settings)
        if rest := differences(settings, state):
            refused += _do_all(machine, steps(settings, rest, state))
            state = read(machine, settings)
        if missing_gid(settings, state):
            # An address may be late, as at boot.
            left = deadline - time.monotonic()
            state = poll(
                lambda: read(machine, settings), lambda seen: not missing_gid(settings, seen), left, POLL_SECONDS
            )
    except PortError as exc:
        return Outcome(settings.name, first.place, problems=[*refused, str(exc)])
    still = problems(settings, state)
    gid = missing_gid(settings, state)
    names = [name for name in wanted(settings) if first.values.get(name) != state.values.get(name)]
    return Outcome(
        settings.name,
        state.place,
        {name: first.values.get(name) for name in names},
        {name: state.values.get(name) for name in names},
        # What a tool said matters where the setting is not there: some complain about what they have done.
        [*still, *(refused if still else ()), *([gid] if gid else [])],
    )


def _do_all(machine: Machine, all_steps: Sequence[Step]) -> list[str]:
    return [said for step in all_steps if (said := _do(machine, step))]


def _do(machine: Machine, step: Step) -> str:
    """Do one step and return "", or what was said against it."""
    if isinstance(step, Command):
        done = machine.run(step.argv, TOOL_SECONDS)
        said = " ".join((done.error or done.stderr or done.stdout).split())[:200]
        return "" if done.rc == 0 else f"{' '.join(step.argv)}: {said or f'exit status {done.rc}'}"
    directory = "/".join(step.path.split("/")[:6]) if step.path.startswith(CONFIGFS) else ""
    # The kernel keeps the value with the device, the directory is only the way to it (as cma_roce_tos has it).
    made = bool(directory) and not machine.paths(step.path) and machine.run(("mkdir", directory), TOOL_SECONDS).rc == 0
    error = machine.write(step.path, step.text)
    if made:
        machine.run(("rmdir", directory), TOOL_SECONDS)
    return f"{step.path}: {error}" if error else ""
