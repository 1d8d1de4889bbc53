"""Asking a switch over SSH: a fixed list of commands that only show, each answered in full or known not to be."""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_state import OutputError, Unknown

# Otherwise its complaints about hosts that hang up land on the operator's screen, beside the finding that says so.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_PROMPT = re.compile(r"[\w.@:~/()\[\]-]+ ?[#>$] ?\Z")
_PAGER = re.compile(r"(--\s*more\s*--|\(END\)|\blines \d+-\d+\b.*|\n:)\s*\Z", re.IGNORECASE)
_REFUSED = re.compile(r"^\s*(% .*|.*: command not found|.*permission denied.*)$", re.IGNORECASE | re.MULTILINE)
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
# The largest answer seen is a few MB; what never ends must not fill the memory.
_LIMIT_BYTES = 64 * 1024 * 1024


class SessionError(MusterError):
    """No session: nothing is known about the switch."""


class _ShellOnly(Exception):
    """The switch runs no single commands over SSH."""


@dataclass(frozen=True)
class Login:
    """How to log in: by password if there is one, else by ``key_file`` or the agent's keys.

    An unknown host key is an error unless ``accept_unknown``; a changed one always is.
    """

    user: str
    password: str | None = field(default=None, repr=False)
    key_file: str | None = None
    known_hosts: str = "~/.ssh/known_hosts"
    accept_unknown: bool = False
    port: int = 22


@dataclass(frozen=True)
class Limits:
    """Seconds that connecting, one command and one switch may take."""

    connect_seconds: float = 10
    command_seconds: float = 60
    switch_seconds: float = 300


class _Accept(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Take the key for this session, and keep it nowhere."""


def ask(
    address: str, login: Login, limits: Limits, commands: Mapping[str, str], prepare: Sequence[str] = ()
) -> dict[str, str | Unknown]:
    """Return the output of each command by its name, or why there is none.

    Each runs by itself where the switch allows it, else all are typed into one shell after ``prepare``. Raises
    SessionError.
    """
    end = time.monotonic() + limits.switch_seconds
    with paramiko.SSHClient() as client:
        transport = _connect(client, address, login, limits)
        answers: dict[str, str | Unknown] = {}
        shell: _Shell | None = None
        for name, command in commands.items():
            until = min(end, time.monotonic() + limits.command_seconds)
            try:
                if time.monotonic() >= end:
                    raise OutputError(f"not asked, as the switch took all of {limits.switch_seconds:g} s")
                if shell is None:
                    try:
                        answers[name] = _run(transport, command, until)
                        continue
                    except _ShellOnly:
                        if answers:
                            raise OutputError("not run") from None
                        shell = _Shell(transport, prepare, until)
                answers[name] = shell.run(command, until)
            except OutputError as exc:
                answers[name] = Unknown(str(exc))
            except (OSError, EOFError, paramiko.SSHException) as exc:
                answers[name] = Unknown(f"connection lost ({exc or type(exc).__name__})")
        return answers


def _connect(client: paramiko.SSHClient, address: str, login: Login, limits: Limits) -> paramiko.Transport:
    known_hosts = Path(login.known_hosts).expanduser()
    client.set_missing_host_key_policy(_Accept() if login.accept_unknown else paramiko.RejectPolicy())
    try:
        if known_hosts.exists():
            client.load_host_keys(str(known_hosts))
        client.connect(
            address,
            port=login.port,
            username=login.user,
            password=login.password,
            key_filename=login.key_file,
            timeout=limits.connect_seconds,
            banner_timeout=limits.connect_seconds,
            auth_timeout=limits.connect_seconds,
            allow_agent=login.password is None,
            look_for_keys=login.password is None and login.key_file is None,
        )
    except paramiko.BadHostKeyException as exc:
        raise SessionError(f"host key of {address} is not the one in {known_hosts}") from exc
    except paramiko.AuthenticationException as exc:
        how = "password" if login.password is not None else "keys"
        raise SessionError(f"{how} of user {login.user} refused") from exc
    except (OSError, EOFError, paramiko.SSHException) as exc:
        if "not found in known_hosts" in str(exc):
            raise SessionError(f"host key of {address} is not in {known_hosts}") from exc
        raise SessionError(f"no connection to {address} ({exc or type(exc).__name__})") from exc
    transport = client.get_transport()
    if transport is None:
        raise SessionError(f"no connection to {address}")
    # Each command is a few small packets there and back; held back to be sent together they would take 40 ms each.
    transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return transport


def _run(transport: paramiko.Transport, command: str, until: float) -> str:
    """Return what one command printed, once it has ended well. Raises OutputError, _ShellOnly."""
    if not transport.is_active():
        raise OutputError("connection closed before")
    channel = transport.open_session(timeout=_left(until))
    with channel:
        try:
            channel.exec_command(command)
        except paramiko.SSHException as exc:
            if transport.is_active():
                raise _ShellOnly from exc
            raise
        output = bytearray()
        try:
            while True:
                channel.settimeout(_left(until))
                data = channel.recv(65536)
                if not data:
                    break
                output += data
                _check_size(output)
        except TimeoutError:
            raise OutputError(f"no end in time, after {len(output)} bytes") from None
        if not channel.status_event.wait(_left(until)) or channel.exit_status == -1:
            raise OutputError(f"connection closed in the middle, after {len(output)} bytes")
        text = _TERMINAL.sub("", output.decode("utf-8", errors="replace"))
        _check_refused(text)
        if channel.exit_status:
            said = channel.recv_stderr(4096).decode("utf-8", errors="replace") if channel.recv_stderr_ready() else ""
            last = ((said or text).strip().splitlines() or ["no word"])[-1]
            raise OutputError(f"refused with exit status {channel.exit_status}: {last.strip()[:120]}")
        return text


def _left(until: float) -> float:
    return max(0.01, until - time.monotonic())


def _check_size(output: bytearray) -> None:
    if len(output) > _LIMIT_BYTES:
        raise OutputError(f"more than {_LIMIT_BYTES} bytes")


def _check_refused(text: str) -> None:
    """Raise OutputError where the switch says that it does not know or allow the command."""
    if refusal := _REFUSED.search(text[:2000]):
        raise OutputError(f"refused: {refusal[0].strip()[:120]}")


class _Shell:
    """An interactive shell, for switches that run no single commands. After a fault it is not used again."""

    def __init__(self, transport: paramiko.Transport, prepare: Sequence[str], until: float) -> None:
        self._broken = ""
        self._prompt = ""
        self._channel = transport.open_session(timeout=_left(until))
        # So wide that no line is broken where the terminal would end.
        self._channel.get_pty(width=32767, height=1000)
        self._channel.invoke_shell()
        try:
            self._prompt = self._read(until).splitlines()[-1]
            for command in prepare:
                self.run(command, until)
        except OutputError as exc:
            self._broken = str(exc)

    def run(self, command: str, until: float) -> str:
        """Return what a command printed, without its echo and the next prompt. Raises OutputError."""
        if self._broken:
            raise OutputError(self._broken)
        try:
            self._channel.sendall(f"{command}\n".encode())
            text = self._read(until)
        except OutputError as exc:
            self._broken = f"not asked, as an answer before it could not be used ({exc})"
            raise
        echo, _, output = text.partition("\n")
        if command not in echo:
            output = text
        output = output[: output.rindex(self._prompt)]
        _check_refused(output)
        return output

    def _read(self, until: float) -> str:
        """Return what comes up to the next prompt. Raises OutputError."""
        raw = bytearray()
        while True:
            self._channel.settimeout(_left(until))
            try:
                data = self._channel.recv(65536)
            except TimeoutError:
                tail = _TERMINAL.sub("", raw[-200:].decode("utf-8", errors="replace")).rstrip()[-40:]
                raise OutputError(f"no prompt in time, the last words are {tail!r}") from None
            if not data:
                raise OutputError(f"connection closed in the middle, after {len(raw)} bytes")
            raw += data
            _check_size(raw)
            tail = _TERMINAL.sub("", raw[-400:].decode("utf-8", errors="replace"))
            if _PAGER.search(tail):
                raise OutputError("a pager holds back the rest")
            if self._ends(tail):
                return _TERMINAL.sub("", raw.decode("utf-8", errors="replace"))

    def _ends(self, tail: str) -> bool:
        last = tail.splitlines()[-1] if tail and not tail.endswith("\n") else ""
        # JSON may end without a newline, so that the prompt stands behind its last bracket.
        ended = last.endswith(self._prompt) if self._prompt else bool(_PROMPT.fullmatch(last))
        return ended and not self._channel.recv_ready()
