"""The connection between the two ends of a fabric test, over which they meet before and after each step."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..host.waiting import retry
from ..words.errors import MusterError

# Of one message: each names at most the tests of one step.
LONGEST_BYTES = 2**16
# What a stranger who connects may cost; the other end says its name at once.
HELLO_SECONDS = 5
_RETRY_SECONDS = 0.02


class FabricError(MusterError):
    """The run cannot go on; the text says what was found and what was expected."""


class Peer:
    """The other end of the run."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def meet(self, step: int, said: Mapping[str, str]) -> dict[str, str]:
        """Tell the other end where this one is and what it has to say; return what that one says."""
        try:
            self.say([step, dict(said)])
            found = self.hear()
        except (OSError, ValueError) as exc:
            raise FabricError(f"the connection to the peer was lost in step {step}: {exc}") from exc
        if not isinstance(found, list) or len(found) != 2 or found[0] != step or not isinstance(found[1], dict):
            raise FabricError(f"the peer is at {str(found)[:80]}, expected step {step}")
        return {str(key): str(text) for key, text in found[1].items()}

    def say(self, message: Any) -> None:
        """Send one message; raises OSError."""
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def hear(self, longest_bytes: int = LONGEST_BYTES) -> Any:
        """Return the next message; raises OSError, or ValueError for what is none."""
        line = self._lines.readline(longest_bytes)
        if not line:
            raise ConnectionError("the other end closed it")
        return json.loads(line)

    def patience(self, seconds: float) -> None:
        """Set how long each message may take."""
        self._connection.settimeout(seconds)

    def close(self) -> None:
        """End the connection."""
        self._lines.close()
        self._connection.close()


def listen(address: str, port: int, names: tuple[str, str], seconds: float) -> Peer:
    """Return the connection to the end that calls; ``names`` are its word and this one's, which nobody can guess.

    Whoever else connects is sent away. Raises OSError if nobody comes within ``seconds`` or the port is taken.
    """
    end = time.monotonic() + seconds
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, port), family=family) as server:
        while True:
            server.settimeout(max(0.01, end - time.monotonic()))
            peer = Peer(server.accept()[0])
            with suppress(OSError, ValueError):
                peer.patience(HELLO_SECONDS)
                if peer.hear() == names[0]:
                    peer.say(names[1])
                    return peer
            peer.close()


def call(address: str, port: int, names: tuple[str, str], seconds: float) -> Peer:
    """Return the connection to the end that listens; ``names`` are this one's word and that one's.

    Raises OSError if only strangers, or nobody, answered within ``seconds``.
    """
    end = time.monotonic() + seconds

    def connected() -> Peer:
        peer = Peer(socket.create_connection((address, port), timeout=max(0.01, end - time.monotonic())))
        with suppress(OSError, ValueError):
            peer.say(names[0])
            if peer.hear() == names[1]:
                return peer
        peer.close()
        raise ConnectionError("who listens there is not of this round")

    return retry(connected, OSError, seconds, _RETRY_SECONDS)
