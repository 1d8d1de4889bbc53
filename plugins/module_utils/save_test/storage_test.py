"""One node's part in a test of checkpoint storage: all nodes save, read each other's shards, and make small files.

Started once per node by ``srun`` as ``muster storage ...``, on all nodes under test at once. This process never touches
the storage itself: it gives its ranks their orders (``storage_workers``), meets the other nodes after each step
(``storage_rendezvous``) and prints one answer in any case. A node that cannot continue answers and leaves; the others
continue.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..collectives.collective import CollectiveError, place_from
from ..collectives.collective_guard import EXIT_DEADLINE, EXIT_ENDED
from ..collectives.link_changes import LinkWatch
from ..collectives.link_words import name_sockets
from ..collectives.round_secret import word
from ..host.host import LocalHost
from ..words.answer_lines import pack
from .storage_checkpoint_process import CheckpointProcess
from .storage_rendezvous import Member, Place, Rendezvous, RendezvousError
from .storage_road import own_roads_to
from .storage_workers import Blocked, StorageError, Workers

# Nodes come within this of each other once Slurm has started them, and loading torch from a network file system takes
# longest of what each does before it meets the others.
JOIN_SECONDS = 60.0
# Nodes are answered so much later than the slowest may take: it ends what is late, and tells.
MARGIN_SECONDS = 20.0
NAMED_PARTS = 3


@dataclass(frozen=True)
class Request:
    """What all nodes are given. ``directory`` is the tier's for such tests, ``run`` a name that no run had before.

    The nodes meet at ``hub``, on ``port`` of ``hub_address``. They watch ``links``, and those that lead to the storage.
    A rank writes ``shard_bytes`` and makes ``files`` small files; PyTorch saves ``checkpoint_bytes``.
    ``timeout_seconds`` bounds each step on the storage, ``deadline_seconds`` everything.
    """

    directory: str
    run: str
    hub: str
    hub_address: str
    ranks: int
    shard_bytes: int
    files: int
    checkpoint_bytes: int
    python: str
    program: str
    links: tuple[str, ...]
    port: int
    timeout_seconds: float
    deadline_seconds: float

    @classmethod
    def read(cls, spec: Mapping[str, Any], port: int, timeout_seconds: float, deadline_seconds: float) -> Request:
        """Return the request in ``spec``; raises KeyError, TypeError or ValueError for one that is none."""
        texts = {key: str(spec[key]) for key in ("directory", "run", "hub", "hub_address", "python", "program")}
        numbers = {key: int(spec[key]) for key in ("ranks", "shard_bytes", "files", "checkpoint_bytes")}
        if min(numbers.values()) < 1 or not texts["directory"].startswith("/") or "/" in texts["run"]:
            raise ValueError("numbers above 0, an absolute directory and a run without slashes are expected")
        links = tuple(str(name) for name in spec.get("links", ()))
        both: dict[str, Any] = {**texts, **numbers, "links": links}
        return cls(**both, port=port, timeout_seconds=timeout_seconds, deadline_seconds=deadline_seconds)


class Trial:
    """This node's way through the steps; what it has found so far is in ``report`` at any moment."""

    def __init__(self, request: Request, node: str, workers: Workers, report: dict[str, Any]) -> None:
        self.request = request
        self.node = node
        self.workers = workers
        self.report = report
        self.ranks = range(request.ranks)
        self.place = f"{request.directory}/{request.run}"

    def run(self, member: Member, checkpoint: CheckpointProcess) -> None:
        """Take every step; raises StorageError, TimeoutError or RendezvousError where this node cannot go on."""
        request, leads = self.request, self.node == self.request.hub
        prepared = self._order("prepare", {rank: {"owner": self._owner(self.node, rank)} for rank in self.ranks})
        checks = [prepared[rank]["checks"] for rank in self.ranks]
        checkpoint.ready(request.timeout_seconds)
        member.meet("ready")
        note, code = self._lead() if leads else ("", "HUB")
        note = member.meet("made", note=note).note
        if note:
            raise StorageError(note, code)
        self._order("enter", {0: {"directory": request.directory, "run": request.run, "node": self.node}})
        member.meet("entered")
        where = self._save(member)
        told = member.meet("told", {where.read_by: checks} if where.read_by else {})
        self._read(member, where, {**told.mail, self.node: checks})
        self._storm()
        where = member.meet("stormed", able=checkpoint.able)
        self._checkpoint(checkpoint, where)
        member.meet("checkpointed")
        self._order("remove", {0: {"path": f"{self.place}/{self.node}"}})
        member.meet("removed")
        if leads:
            self._order("remove", {0: {"path": self.place}})
        self.report["phase"] = "end"

    def _owner(self, node: str, rank: int) -> str:
        return f"{self.request.run} {node} {rank}"

    def _file(self, node: str, rank: int) -> str:
        return f"{self.place}/{node}/shard-{rank}"

    def _order(self, what: str, orders: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
        self.report["phase"] = what
        size = {"shard_bytes": self.request.shard_bytes} if what in ("prepare", "read") else {}
        wanted = {rank: {"do": what, **size, **each} for rank, each in orders.items()}
        return self.workers.order(wanted, self.request.timeout_seconds)

    def _lead(self) -> tuple[str, str]:
        """Make the run's directory; return what is wrong with it instead of raising, as the others wait for it."""
        try:
            self._order("make", {0: {"directory": self.request.directory, "run": self.request.run}})
        except StorageError as exc:
            return f"{self.node}: {exc}", exc.code
        except TimeoutError as exc:
            self.report["blocked"] = [each.to_dict() for each in exc.args[0]]
            return f"{self.node}: make: not done after {self.request.timeout_seconds:g} s", "LATE"
        return "", ""

    def _save(self, member: Member) -> Place:
        begin = time.monotonic()
        answers = self._order("write", {rank: {"path": self._file(self.node, rank)} for rank in self.ranks})
        self.report["write"] = _traffic(answers.values())
        where = member.meet("written")
        # What a job that saves in step loses: until the last rank of all nodes is done.
        self.report["write"]["blocking_seconds"] = round(time.monotonic() - begin, 6)
        self.report["nodes"] = where.count
        return where

    def _read(self, member: Member, where: Place, checks: Mapping[str, Any]) -> None:
        """Read the shards of another host, and look again at the own ones that another found wrong.

        Where only one of the two finds them wrong a third host reads them, too. Alone, a node reads its own.
        """
        peer = where.reads or self.node
        if peer in checks:
            self.report["read"] = self._read_of(peer, checks[peer])
        else:
            # It was lost since it wrote them.
            self.report["read"] = {"of": peer, "error": f"{peer} was lost before its shards could be read"}
        wrong = self.report["read"].get("wrong_parts")
        found = member.meet("read", {peer: wrong} if wrong else {})
        mine = {int(rank): blocks for each in found.mail.values() for rank, blocks in each.items()}
        if mine:
            self._look_again(mine)
        third = found.second if mine and not self.report["own"]["wrong"] else ""
        # Where nodes were lost since, it may be the reader itself.
        asked = {third: checks[self.node]} if third and third not in found.mail else {}
        told = member.meet("rechecked", asked)
        for writer, theirs in told.mail.items():
            self.report["second"] = self._read_of(writer, theirs)
        member.meet("read again")

    def _read_of(self, peer: str, checks: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Return what is found in the shards of another host, or in the own ones."""
        orders = {
            rank: {"path": self._file(peer, rank), "owner": self._owner(peer, rank), "checks": checks[rank]}
            for rank in self.ranks
        }
        try:
            answers = self._order("read", orders)
        except StorageError as exc:
            if exc.code != "ENOENT":
                raise
            # The writer has to be asked whether it is there.
            parts = {rank: [0] for rank in self.ranks}
            return {"of": peer, "wrong": 1, "fault": f"shards of {peer}: {exc}", "wrong_parts": parts}
        wrong = {rank: answer["wrong_blocks"] for rank, answer in answers.items() if answer["wrong"]}
        faults = [f"shard {rank} of {peer}, {answers[rank]['fault']}" for rank in sorted(wrong)]
        return {
            "of": peer,
            **_traffic(answers.values()),
            "wrong": sum(answer["wrong"] for answer in answers.values()),
            "fault": "; ".join(faults[:NAMED_PARTS]),
            "wrong_parts": wrong,
        }

    def _look_again(self, mine: Mapping[int, Sequence[int]]) -> None:
        """Find out whether what another host could not read is wrong for this one, too."""
        orders = {rank: {"path": self._file(self.node, rank), "blocks": blocks} for rank, blocks in mine.items()}
        try:
            answers = self._order("recheck", orders)
            found = {rank: answer["wrong_blocks"] for rank, answer in answers.items() if answer["wrong_blocks"]}
            self.report["own"] = {"wrong": sum(len(blocks) for blocks in found.values()), "fault": ""}
            if found:
                parts = [f"block {blocks[0]} of shard {rank}" for rank, blocks in sorted(found.items())]
                self.report["own"]["fault"] = f"{', '.join(parts[:NAMED_PARTS])} is wrong for its writer, too"
        except StorageError as exc:
            if exc.code != "ENOENT":
                raise
            self.report["own"] = {"wrong": 1, "fault": f"gone for its writer, too: {exc}"}

    def _storm(self) -> None:
        each = f"{self.place}/{self.node}"
        orders = {rank: {"directory": f"{each}/files-{rank}", "files": self.request.files} for rank in self.ranks}
        answers = self._order("storm", orders)
        took: dict[str, list[float]] = {}
        for answer in answers.values():
            for operation, values in answer["milliseconds"].items():
                took.setdefault(operation, []).extend(values)
        skews = [answer["skew_seconds"] for answer in answers.values() if answer["skew_seconds"] is not None]
        self.report["metadata"] = {
            "operations": sum(len(values) for values in took.values()),
            "p99_ms": {operation: percentile(values, 99) for operation, values in took.items()},
            "median_ms": {operation: round(statistics.median(values), 4) for operation, values in took.items()},
            "skew_seconds": round(float(min(skews, key=abs)), 4) if skews else None,
            "seconds": _seconds(answers.values()),
        }

    def _checkpoint(self, checkpoint: CheckpointProcess, where: Place) -> None:
        self.report["phase"] = "checkpoint"
        self.report["checkpoint"] = checkpoint.save_and_load(
            directory=f"{self.place}/checkpoint-{where.group_address}",
            rank=where.group_rank,
            size=where.group_size,
            address=where.group_address,
            seconds=self.request.timeout_seconds,
        )


def _traffic(answers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    found = list(answers)
    return {
        "bytes": sum(answer["bytes"] for answer in found),
        "seconds": _seconds(found),
        "direct": all(answer["direct"] for answer in found),
    }


def _seconds(answers: Iterable[Mapping[str, Any]]) -> float:
    """Return how long it was from the first rank's begin to the last one's end."""
    found = list(answers)
    return round(max(answer["end"] for answer in found) - min(answer["begin"] for answer in found), 6)


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the value that ``percent`` of all are not above (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def main(arguments: Sequence[str] | None = None, _version: str = "") -> int:
    """Run as one node; print one answer whatever happens and return the exit status: 0 only at the end of the way."""
    request = _request(arguments)
    started = time.monotonic()
    report: dict[str, Any] = {
        **{"phase": "start", "error": "", "code": "", "blocked": [], "nodes": 0},
        **{"write": None, "read": None, "own": None, "second": None, "metadata": None, "checkpoint": None},
    }
    try:
        slurm = place_from(os.environ)
    except CollectiveError as exc:
        sys.stderr.write(f"muster storage: {exc}\n")
        return 2
    report["node"] = slurm.node
    # Before there is any thread: only then may a process be doubled.
    workers = Workers(request.ranks)
    watch = LinkWatch(dict.fromkeys((*request.links, *own_roads_to(request.directory)))).start()
    answer = _Answer(report, workers, watch, started)
    watchdog = threading.Timer(request.deadline_seconds, answer.give_up, ("not finished", EXIT_DEADLINE))
    watchdog.daemon = True
    watchdog.start()
    signal.signal(signal.SIGTERM, lambda *_: answer.give_up("cancelled", EXIT_ENDED))
    key = word(slurm.secret, "rendezvous")
    rendezvous: Rendezvous | None = None
    member: Member | None = None
    try:
        name_sockets(os.environ, LocalHost())
        checkpoint = CheckpointProcess(
            request.python,
            request.program,
            request.checkpoint_bytes,
            (request.port + 1, word(slurm.secret, "checkpoint")),
            # A checkpoint of one rank cannot be resharded.
            2 if slurm.ranks == 1 else 1,
        )
        answer.checkpoint = checkpoint
        if slurm.node == request.hub:
            rendezvous = Rendezvous(
                request.port, key, slurm.ranks, JOIN_SECONDS, request.timeout_seconds + MARGIN_SECONDS
            )
            rendezvous.start()
        patience = JOIN_SECONDS + 2 * (request.timeout_seconds + MARGIN_SECONDS)
        member = Member((request.hub_address, request.port), key, slurm.node, JOIN_SECONDS, patience)
        Trial(request, slurm.node, workers, report).run(member, checkpoint)
        member.leave()
        if rendezvous:
            rendezvous.join()
    except Exception as exc:  # noqa: BLE001 -- whatever goes wrong becomes this node's answer
        answer.tell(exc, request.timeout_seconds)
        if member:
            member.leave()
        if rendezvous:
            # The others still need it; they end by themselves, or by the watchdog.
            rendezvous.join()
    watchdog.cancel()
    answer.give()
    return 1 if report["error"] else 0


class _Answer:
    """What this node prints, once."""

    def __init__(self, report: dict[str, Any], workers: Workers, watch: LinkWatch, started: float) -> None:
        self.report = report
        self.workers = workers
        self.watch = watch
        self.started = started
        self.checkpoint: CheckpointProcess | None = None
        self._printed = threading.Lock()

    def tell(self, exc: Exception, timeout_seconds: float) -> None:
        """Make the answer of what went wrong."""
        phase = self.report["phase"]
        if isinstance(exc, TimeoutError) and exc.args and isinstance(exc.args[0], list):
            late: list[Blocked] = exc.args[0]
            self.report["blocked"] = [each.to_dict() for each in late]
            self.report["code"] = "LATE"
            parts = [f"rank {each.rank} ({each.state or '?'} in {each.where or 'unknown'})" for each in late]
            said = f"{phase} not done after {timeout_seconds:g} s by {', '.join(parts[:NAMED_PARTS])}"
        elif isinstance(exc, (StorageError, RendezvousError)):
            said = str(exc)
            self.report["code"] = exc.code if isinstance(exc, StorageError) else "MEETING"
        else:
            said = f"{type(exc).__name__}: {exc} (in {phase})"
        self.report["error"] = said.replace("\n", " ")[:500]

    def give(self) -> None:
        """End what still runs and print; the second of two calls does nothing."""
        if not self._printed.acquire(blocking=False):
            return
        if self.checkpoint:
            self.checkpoint.end()
        left = self.workers.dismiss()
        known = {each["pid"] for each in self.report["blocked"]}
        self.report["blocked"] += [each.to_dict() for each in left if each.pid not in known]
        self.report["links"] = self.watch.told()
        self.report["elapsed_seconds"] = round(time.monotonic() - self.started, 3)
        data = pack(self.report).encode()
        while data:
            data = data[os.write(1, data) :]

    def give_up(self, why: str, status: int) -> None:
        """End the program with what is known so far; whatever goes wrong here, it ends."""
        try:
            if not self.report["error"]:
                self.report["error"] = f"{why} in {self.report['phase']}"
                self.report["code"] = "LATE"
            self.give()
        finally:
            os._exit(status)


def _request(arguments: Sequence[str] | None) -> Request:
    parser = argparse.ArgumentParser(prog="muster storage", description="Run one node's part in a test of storage.")
    parser.add_argument("--spec", required=True, help="where and what to write (JSON)")
    parser.add_argument("--port", type=int, required=True, help="where the nodes meet; PyTorch uses the next one")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for each step on the storage")
    parser.add_argument("--deadline", type=float, default=600.0, help="seconds for everything")
    options = parser.parse_args(arguments)
    try:
        return Request.read(json.loads(options.spec), options.port, options.timeout, options.deadline)
    except (KeyError, TypeError, ValueError) as exc:
        parser.error(f"--spec: {type(exc).__name__} {exc}")
