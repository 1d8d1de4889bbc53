"""Where the nodes of a storage test meet: one of them listens, all tell it how far they are, and wait for the others.

A node that does not come back is left out of the rest, and the others go on: a save must not hang with one host. What
goes to a node does not grow with the number of nodes, so that thousands can meet.
"""

from __future__ import annotations

import json
import resource
import selectors
import socket
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ..host.waiting import retry
from ..rail_test.fabric_peer import HELLO_SECONDS, Peer
from ..words.errors import MusterError

# Of one message; the largest carries the checksums of a node's shards.
LONGEST_BYTES = 2**18
# Ranks of one checkpoint of PyTorch: enough to be sharded, few enough that all of them connect with all.
GROUP_NODES = 32
_TICK_SECONDS = 0.2
_RETRY_SECONDS = 0.05


class RendezvousError(MusterError):
    """The other nodes cannot be met any more."""


@dataclass(frozen=True)
class Place:
    """Where a node stands among those that are still there.

    It reads the shard of ``reads`` and ``read_by`` reads its own; both are empty where it is alone. Where that one
    finds it wrong ``second`` reads it, too; empty where there is no third node. Its checkpoint is made by
    ``group_size`` nodes that are able to, of which it is number ``group_rank``; the first is at ``group_address``.
    ``note`` is what nodes had to say to all, ``mail`` what they sent to this one, by sender.
    """

    count: int
    reads: str
    read_by: str
    second: str
    group_rank: int
    group_size: int
    group_address: str
    note: str
    mail: Mapping[str, Any]


def places_of(addresses: Mapping[str, str], able: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return where each of these nodes stands, without note and mail; those that are ``able`` make checkpoints.

    Whose shard a node reads lies half the list away: neighbours often share a switch, or a rack.
    """
    names = sorted(addresses)
    count = len(names)
    step = max(1, count // 2)
    makers = sorted(able)
    number = max(1, -(-len(makers) // GROUP_NODES))
    groups: dict[int, list[str]] = {}
    for index, name in enumerate(makers):
        groups.setdefault(index * number // len(makers), []).append(name)
    group_of = {name: group for group in groups.values() for name in group}
    found = {}
    for index, name in enumerate(names):
        group = group_of.get(name, [name])
        found[name] = {
            "count": count,
            "reads": names[(index + step) % count] if count > 1 else "",
            "read_by": names[(index - step) % count] if count > 1 else "",
            "second": names[(index - step - 1) % count] if count > 2 else "",
            "group_rank": group.index(name),
            "group_size": len(group),
            "group_address": addresses[group[0]],
        }
    return found


@dataclass
class _Member:
    connection: socket.socket
    address: str
    node: str = ""
    since: float = field(default_factory=time.monotonic)
    received: bytes = b""
    unsent: bytes = b""
    said: dict[str, Any] | None = None


class Rendezvous(threading.Thread):
    """Answers the nodes once all of them have come to a step.

    ``key`` tells this test's nodes from strangers. Whoever is not there ``join_seconds`` after the start, or does not
    come to a step ``limit_seconds`` after the first, is left out. Raises OSError where the port is taken.
    """

    def __init__(self, port: int, key: str, count: int, join_seconds: float, limit_seconds: float) -> None:
        super().__init__(daemon=True)
        self._key = key
        self._count = count
        self._join_by = time.monotonic() + join_seconds
        self._limit = limit_seconds
        self._members: dict[socket.socket, _Member] = {}
        self._seen: set[str] = set()
        self._first: float | None = None
        self._selector = selectors.DefaultSelector()
        # One connection for each node.
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * count + 256)), hard))
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        self._server = socket.create_server(("", port), family=family, backlog=1024, dualstack_ipv6=both)
        self._server.setblocking(False)
        self._selector.register(self._server, selectors.EVENT_READ)

    def run(self) -> None:
        """Serve until all nodes have left."""
        while self._members or len(self._seen) < self._count:
            if not self._members and time.monotonic() > self._join_by:
                break
            for key, events in self._selector.select(_TICK_SECONDS):
                if key.data is None:
                    self._accept()
                    continue
                member: _Member = key.data
                if events & selectors.EVENT_READ:
                    self._hear(member)
                if member.connection in self._members and events & selectors.EVENT_WRITE:
                    self._send(member)
            self._step()
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            connection, address = self._server.accept()
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            member = _Member(connection, address[0].removeprefix("::ffff:"))
            self._members[connection] = member
            self._selector.register(connection, selectors.EVENT_READ, member)

    def _drop(self, member: _Member) -> None:
        if self._members.pop(member.connection, None):
            self._selector.unregister(member.connection)
            member.connection.close()

    def _hear(self, member: _Member) -> None:
        try:
            data = member.connection.recv(2**16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        member.received += data
        if not data or len(member.received) > LONGEST_BYTES:
            self._drop(member)
            return
        while b"\n" in member.received:
            line, _, member.received = member.received.partition(b"\n")
            if not self._take(member, line):
                self._drop(member)
                return

    def _take(self, member: _Member, line: bytes) -> bool:
        """Take one message; return whether it is one."""
        try:
            message = json.loads(line)
            if member.node:
                member.said = {
                    **{"step": str(message["step"]), "mail": dict(message["mail"])},
                    **{"note": str(message["note"]), "able": message["able"] is True},
                }
                self._first = self._first or time.monotonic()
                return True
            name = str(message["node"])
            if message["key"] != self._key or not name or name in self._seen:
                return False
        except (ValueError, TypeError, KeyError):
            return False
        member.node = name
        member.address = str(message.get("address") or member.address)
        self._seen.add(name)
        return True

    def _step(self) -> None:
        now = time.monotonic()
        for member in list(self._members.values()):
            if not member.node and now > member.since + HELLO_SECONDS:
                self._drop(member)
        known = [member for member in self._members.values() if member.node]
        if not known or (len(self._seen) < self._count and now < self._join_by):
            return
        if any(member.said is None for member in known):
            if self._first is None or now < self._first + self._limit:
                return
            for member in known:
                if member.said is None:
                    self._drop(member)
        self._answer([member for member in known if member.said is not None])

    def _answer(self, members: list[_Member]) -> None:
        self._first = None
        steps = sorted(str((member.said or {})["step"]) for member in members)
        # All go the same way; whoever is elsewhere than most is lost.
        step = max(steps, key=steps.count, default="")
        there = {member.node: member for member in members if member.said and member.said["step"] == step}
        notes = [member.said["note"] for member in there.values() if member.said and member.said["note"]]
        able = [name for name, member in there.items() if (member.said or {})["able"]]
        places = places_of({name: member.address for name, member in there.items()}, able)
        mail: dict[str, dict[str, Any]] = {name: {} for name in there}
        for name, member in there.items():
            for to, text in (member.said or {})["mail"].items():
                if to in mail:
                    mail[to][name] = text
        for member in members:
            member.said = None
            if member.node not in there:
                self._drop(member)
                continue
            reply = {"step": step, **places[member.node], "note": "; ".join(notes), "mail": mail[member.node]}
            member.unsent += json.dumps(reply).encode() + b"\n"
            self._selector.modify(member.connection, selectors.EVENT_READ | selectors.EVENT_WRITE, member)

    def _send(self, member: _Member) -> None:
        try:
            sent = member.connection.send(member.unsent)
        except BlockingIOError:
            return
        except OSError:
            self._drop(member)
            return
        member.unsent = member.unsent[sent:]
        if not member.unsent:
            self._selector.modify(member.connection, selectors.EVENT_READ, member)


class Member:
    """One node's connection with the rendezvous."""

    def __init__(self, rendezvous: tuple[str, int], key: str, node: str, seconds: float, patience: float) -> None:
        """Connect and say who this is. Raises RendezvousError if the rendezvous is not there within ``seconds``."""
        end = time.monotonic() + seconds
        try:
            connection = retry(
                lambda: socket.create_connection(rendezvous, timeout=max(0.1, end - time.monotonic())),
                OSError,
                seconds,
                _RETRY_SECONDS,
            )
        except OSError as exc:
            raise RendezvousError(f"no rendezvous at {rendezvous[0]} port {rendezvous[1]}: {exc}") from exc
        address = connection.getsockname()[0]
        self._peer = Peer(connection)
        self._peer.patience(patience)
        self._peer.say({"node": node, "key": key, "address": address})

    def meet(self, step: str, mail: Mapping[str, Any] | None = None, *, note: str = "", able: bool = True) -> Place:
        """Say that this node has come to a step; return where it stands once all have. Raises RendezvousError."""
        try:
            self._peer.say({"step": step, "mail": dict(mail or {}), "note": note, "able": able})
            found = self._peer.hear(LONGEST_BYTES)
            if found.pop("step") != step:
                raise ValueError(f"it is at another step than {step}")
            return Place(**found)
        except (OSError, ValueError, TypeError, AttributeError, KeyError) as exc:
            raise RendezvousError(f"the rendezvous was lost: {exc or type(exc).__name__}") from exc

    def leave(self) -> None:
        """Go; the others go on without this node."""
        self._peer.close()
