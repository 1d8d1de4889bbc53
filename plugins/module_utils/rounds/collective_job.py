"""The ranks of a group's collectives: how they are called, and what their answers say about the group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..collectives.collective_guard import DONE, GATHERING, OWN
from ..collectives.collective_program import Phase, pack_spec, read_program
from ..collectives.collective_results import Results
from ..collectives.collective_stalls import Stalls
from ..collectives.link_changes import LinksTold
from ..words.answer_lines import answers_in
from .round_job import Reading
from .slurm_round import Job

# What ranks report the versions of.
LIBRARIES = ("torch", "nccl")
ARRIVED, ABSENT = "arrived", "absent"
# What a rank says whose partner went away; anything else that goes wrong in a rank is its own.
TIMED_OUT, TOLD = "not finished after", "told to stop"
_LOST = (
    TIMED_OUT,
    TOLD,
    "Connection closed",
    "Connection reset",
    "Connection refused",
    "Broken pipe",
    "imed out",
    "imeout",
    "unhandled system error",
    "remote process exited",
)
# Once one task has ended srun ends the others so many seconds later. With gloo they learn of it at once; NCCL may wait
# for a rank that is gone until its own time is up, and has to give its answer before it is ended.
WAIT_SECONDS, WAIT_SPARE_SECONDS = 15, 20


@dataclass(frozen=True)
class CollectiveCodec:
    """The ranks of PyTorch's collectives. ``executable`` is the node program, ``program`` what the ranks run.

    ``timeout_seconds`` is for each connecting. ``links`` are watched on each node while they run. ``container``: image
    in which the ranks run, by pyxis' option of srun; None runs them on the hosts. ``groups`` are those of the round:
    a phase may be for some of its ``jobs`` alone, told by their numbers.
    """

    python: str
    executable: str
    backend: str
    tasks_per_node: int
    program: Mapping[str, Any]
    timeout_seconds: int
    links: tuple[str, ...] = ()
    container: str | None = None
    groups: tuple[tuple[str, ...], ...] = ()

    def command(self, job: Job, deadline_seconds: int) -> list[str]:
        """Return the command of one rank."""
        nodes = [[node, job.addresses.get(node, "")] for node in job.group]
        spec = {"nodes": nodes, "program": {"moves": self.moves_of(job.group)}, "links": list(self.links)}
        longest = int(max(phase.seconds for phase in self.program_for(job.group)))
        wait = WAIT_SECONDS if self.backend == "gloo" else longest + WAIT_SPARE_SECONDS
        return [
            f"--wait={wait}",
            *container_options(self.container, self.executable),
            self.python,
            self.executable,
            "collective",
            f"--backend={self.backend}",
            f"--port={job.port}",
            f"--timeout={self.timeout_seconds}",
            f"--deadline={deadline_seconds}",
            *(f"--spec={part}" for part in pack_spec(spec)),
        ]

    def moves_of(self, group: Sequence[str]) -> list[Mapping[str, Any]]:
        """Return the part of the program that a group's job runs: nothing that is for other jobs of the round."""
        number = self.groups.index(tuple(group)) if tuple(group) in self.groups else -1
        return [move for move in self.program["moves"] if runs(move, number)]

    def program_for(self, group: Sequence[str]) -> tuple[Phase, ...]:
        """Return the phases that a group's job runs; raises ProgramError."""
        return read_program({"moves": self.moves_of(group)}, len(group))

    def read(self, group: Sequence[str], stdout: str) -> Reading:
        """Return what the ranks measured and where they stood.

        Without an error every rank of every node gave one whole answer with every measurement of the program and all
        data right. What was measured before a step ended early is in ``results`` all the same; ``reached`` then says
        where each node stood.
        """
        errors: list[str] = []
        crowd = Crowd(group, self)
        for answer in answers_in(stdout, errors):
            crowd.hear(answer, errors)
        missing = [node for node in group if not crowd.stood[node]]
        reached = crowd.reached()
        absent = [node for node, (_, _, how) in reached.items() if how == ABSENT]
        if absent:
            phase, step, _ = reached[absent[0]]
            errors.insert(0, f"ended early in {phase}, step {step}: absent {', '.join(absent[:20])}")
        for what, who in crowd.said.items():
            more = f" and {len(who) - 1} more ranks" if len(who) > 1 else ""
            errors.append(f"{who[0]}{more}: {what}")
        if missing:
            errors.append(f"no result from {', '.join(missing[:50])}")
        short = [f"{node} {len(stood)}" for node, stood in crowd.stood.items() if len(stood) != self.tasks_per_node]
        if short and not missing:
            errors.append(f"ranks that answered: {', '.join(short[:50])}, expected {self.tasks_per_node} each")
        found: dict[str, Any] = {
            "ranks": sorted(crowd.ranks, key=lambda rank: rank["rank"]),
            "results": list(crowd.results.all()),
            "stalls": crowd.stalls.all(),
            "links": crowd.links.by_node,
            **({"reached": reached} if reached else {}),
        }
        return Reading(found, missing, errors)


def runs(move: Any, number: int) -> bool:
    """Return whether a phase, as it is written, is for a job of the round, told by its number."""
    return not isinstance(move, Mapping) or number in move.get("jobs", (number,))


def container_options(image: str | None, program: str | None) -> list[str]:
    """Return the options of srun that run a task inside an image (pyxis), where it finds the program as on the host."""
    if image is None:
        return []
    mounts = [f"--container-mounts={program}:{program}:ro"] if program else []
    return [f"--container-image={image}", *mounts, "--no-container-mount-home"]


@dataclass(frozen=True)
class Stood:
    """Where one rank stood in the program when it gave its answer.

    ``lost``: what ended it was that others did not come, ``told`` if one of those others said so; ``stage`` as the rank
    names it.
    """

    phase: int
    step: int
    stage: str
    lost: bool
    told: bool


class Crowd:
    """The ranks of one job as their answers come in."""

    def __init__(self, group: Sequence[str], codec: CollectiveCodec) -> None:
        self.group = list(group)
        self.each = codec.tasks_per_node
        self.phases = codec.program_for(group)
        self.results = Results(group, self.phases, self.each)
        self.stalls = Stalls(group, self.phases, self.each)
        self.links = LinksTold(group, codec.links)
        self.ranks: list[dict[str, Any]] = []
        self.stood: dict[str, list[Stood | None]] = {node: [] for node in group}
        self.said: dict[str, list[str]] = {}
        self.timed_out = False
        self._seen: set[int] = set()
        self._places: set[tuple[str, int]] = set()

    def hear(self, answer: Mapping[str, Any], errors: list[str]) -> None:
        """Take one rank's answer, or say in ``errors`` why it cannot be one."""
        rank, node, local = answer.get("rank"), answer.get("node"), answer.get("local_rank")
        known = isinstance(node, str) and node in self.stood and _below(rank, len(self.group) * self.each)
        if not known or not _below(local, self.each) or rank in self._seen or (str(node), local) in self._places:
            errors.append(f"an answer of rank {rank!r} on {node!r} that nobody asked for")
            return
        assert isinstance(rank, int) and isinstance(node, str) and isinstance(local, int)
        self._seen.add(rank)
        self._places.add((node, local))
        error = str(answer.get("error") or "")
        early = "stood" in answer or answer.get("phase") != "end"
        fault = self.results.take(node, local, answer.get("results"), early and bool(error))
        # A rank that failed before it met the others has no stalls to tell of.
        fault = fault or self.stalls.take(node, local, answer.get("stalls", {} if early else None))
        # The first rank of a node watches for all.
        fault = fault or ("" if local else self.links.take(node, answer.get("links")))
        if error or fault or early:
            self.said.setdefault(error or fault or "ended early without saying why", []).append(f"{node} rank {rank}")
        self.timed_out = self.timed_out or TIMED_OUT in error
        self.stood[node].append(self._place(answer.get("stood"), answer.get("phase"), error) if early else None)
        self.ranks.append(
            {
                "node": node,
                "rank": rank,
                "error": error,
                "phase": answer.get("phase"),
                "versions": _versions(answer.get("versions")),
                # As the rank told it; whoever judges it takes nothing in it for granted.
                **({"transport": answer["transport"]} if "transport" in answer else {}),
            }
        )

    def _place(self, stood: Any, doing: Any, error: str) -> Stood:
        names = [phase.name for phase in self.phases]
        lost, told = any(text in error for text in _LOST), error.startswith(TOLD)
        if not isinstance(stood, list) or len(stood) != 3 or stood[0] not in names or not _below(stood[1], 2**31):
            # It had not come to the program: it waited for the others to meet it, or failed before.
            return Stood(0, 0, GATHERING if doing == "rendezvous" else OWN, lost and doing == "rendezvous", told)
        return Stood(names.index(stood[0]), stood[1], str(stood[2]), lost, told)

    def _arrived(self, place: Stood) -> bool | None:
        """Return whether a rank waited in a permutation, was away from it, or (None) neither.

        Who waited for all to begin had not come to it yet. Who was told that another is lost may have been in the
        middle of its own exchange; who was told that another's time is up had as much time itself.
        """
        if not place.lost:
            return False
        if place.stage in (GATHERING, DONE) or (place.told and not self.timed_out):
            return None
        return not (place.stage == OWN and self.timed_out)

    def reached(self) -> dict[str, list[Any]]:
        """Return where nodes stood in a permutation that the step ended in, or that they never came to.

        Whoever gave no answer was absent from the earliest place at which others waited.
        """
        places = [place for found in self.stood.values() for place in found if place is not None]
        if not places:
            return {}
        front = min((place.phase, place.step) for place in places)
        waiting = [(place.phase, place.step) for place in places if place.lost]
        reached: dict[str, list[Any]] = {}
        for node, found in self.stood.items():
            stood = [place for place in found if place is not None]
            away = [(place.phase, place.step) for place in stood if self._arrived(place) is False]
            come = [(place.phase, place.step) for place in stood if self._arrived(place)]
            if len(found) < self.each:
                where, how = min(waiting, default=front), ABSENT
            elif away or come:
                where, how = min(away or come), ABSENT if away else ARRIVED
            else:
                continue
            reached[node] = [self.phases[where[0]].name, where[1], how]
        return reached


def _below(value: Any, end: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < end


def _versions(said: Any) -> dict[str, str]:
    """Return the versions of the libraries that a rank used, without what is no version of one."""
    items = said.items() if isinstance(said, dict) else ()
    return {name: text[:80] for name, text in items if name in LIBRARIES and isinstance(text, str)}
