"""A switch behind a real SSH server on loopback, which answers from a table of outputs, or wrongly as chosen."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import paramiko

USER, PASSWORD = "audit", "open sesame"
KEY = paramiko.ECDSAKey.generate()


@dataclass
class SshSwitch:
    """``faults`` gives a fault by command: slow, cut, dropped, refused, pager. ``heard`` is all that anybody sent."""

    outputs: Mapping[str, str]
    shell_only: bool = False
    prompt: str = "tor-1#"
    faults: Mapping[str, str] = field(default_factory=dict)
    delay_seconds: float = 0
    # Answers nobody before all of its parties have asked.
    together: threading.Barrier | None = None
    heard: list[str] = field(default_factory=list)
    address: str = "127.0.0.1"
    port: int = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[SshSwitch]:
        """Listen until the block ends."""
        with socket.create_server((self.address, self.port)) as listener:
            self.port = listener.getsockname()[1]
            transports: list[paramiko.Transport] = []
            thread = threading.Thread(target=self._accept, args=(listener, transports), daemon=True)
            thread.start()
            try:
                yield self
            finally:
                listener.shutdown(socket.SHUT_RDWR)
                thread.join(5)
                for transport in transports:
                    transport.close()

    def known_hosts(self, at: Path, key: paramiko.PKey = KEY) -> str:
        """Write the file by which a client knows this switch, and return its path."""
        name = self.address if self.port == 22 else f"[{self.address}]:{self.port}"
        with at.open("a") as file:
            file.write(f"{name} {key.get_name()} {key.get_base64()}\n")
        return str(at)

    def _accept(self, listener: socket.socket, transports: list[paramiko.Transport]) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport = paramiko.Transport(connection)
            transport.add_server_key(KEY)
            transports.append(transport)
            with contextlib.suppress(paramiko.SSHException, OSError, EOFError):  # the client went away
                transport.start_server(server=_Server(self))

    def run(self, channel: paramiko.Channel, command: str) -> None:
        """Answer one command by itself."""
        if self.together:
            self.together.wait()
        self.heard.append(command)
        # The server says that it runs the command only after this thread was started: the answer must not come first.
        time.sleep(0.03)
        with contextlib.suppress(OSError, paramiko.SSHException), channel:
            status = self.answer(channel, command)
            channel.send_exit_status(status)

    def shell(self, channel: paramiko.Channel) -> None:
        """Answer commands that are typed, echoing them, with a prompt after each."""
        with contextlib.suppress(OSError, paramiko.SSHException), channel:
            channel.sendall(f"\r\nLast login: today\r\n{self.prompt}".encode())
            typed = b""
            while data := channel.recv(1024):
                typed += data
                while b"\n" in typed:
                    line, _, typed = typed.partition(b"\n")
                    command = line.decode().strip()
                    self.heard.append(command)
                    channel.sendall(f"{command}\r\n".encode())
                    self.answer(channel, command)
                    if self.faults.get(command) == "pager":
                        return
                    channel.sendall(self.prompt.encode())

    def answer(self, channel: paramiko.Channel, command: str) -> int:
        """Send the output, or what comes of the fault, and return the exit status."""
        time.sleep(self.delay_seconds)
        fault = self.faults.get(command)
        if command.startswith("terminal "):
            return 0
        text = self.outputs.get(command)
        if fault == "refused" or text is None:
            channel.sendall(b"% Invalid input (privileged mode required)\r\n")
            return 1
        text = text.replace("\n", "\r\n")
        half = text[: len(text) // 2].encode()
        if fault == "slow":
            channel.sendall(half)
            time.sleep(4)
        elif fault == "cut":
            channel.sendall(half)
        elif fault == "pager":
            channel.sendall(half + b"\r\n--More--")
            channel.recv(1)
        elif fault == "dropped":
            channel.sendall(half)
            time.sleep(0.2)
            channel.get_transport().close()
        else:
            channel.sendall(text.encode())
        return 0


class _Server(paramiko.ServerInterface):
    def __init__(self, switch: SshSwitch) -> None:
        self.switch = switch

    def check_auth_password(self, username: str, password: str) -> int:
        """Let the one user in."""
        right = (username, password) == (USER, PASSWORD)
        return paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED

    def get_allowed_auths(self, username: str) -> str:
        """Offer passwords alone."""
        return "password"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        """Open sessions."""
        return paramiko.OPEN_SUCCEEDED if kind == "session" else paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_pty_request(self, *_: object) -> bool:
        """Give a terminal."""
        return True

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        """Run a single command, unless only a shell is offered."""
        if self.switch.shell_only:
            return False
        threading.Thread(target=self.switch.run, args=(channel, command.decode()), daemon=True).start()
        return True

    def check_channel_shell_request(self, channel: paramiko.Channel) -> bool:
        """Start a shell."""
        threading.Thread(target=self.switch.shell, args=(channel,), daemon=True).start()
        return True
