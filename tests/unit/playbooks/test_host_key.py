"""A host that shows another host key: noticed at once, and told as what it is.

The host is an SSH server in this process that runs its commands on this machine.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest
import yaml

from tests import warm_ansible

ROOT = Path(__file__).resolve().parents[3]
GROUP_VARS = str(ROOT / "playbooks/group_vars/all.yml")
PLAYS = [
    {
        "name": "A step",
        "hosts": "compute,localhost",
        "gather_facts": False,
        "vars_files": [GROUP_VARS],
        "tasks": [
            {
                "name": "Look",
                "ansible.builtin.include_tasks": str(ROOT / "playbooks/tasks/first_look.yml"),
                "when": "inventory_hostname in groups['compute']",
            }
        ],
    },
    {
        "name": "The rest of the run",
        "hosts": "compute,localhost",
        "gather_facts": False,
        "vars_files": [GROUP_VARS],
        "tasks": [
            {
                "name": "Tell",
                "ansible.builtin.debug": {"msg": "REASONS {{ muster_stopped_reasons | to_json }} END"},
                "run_once": True,
            }
        ],
    },
]

PLAIN = '#!/bin/sh\nexec ssh "$@"\n'
# An SSH client that a busy machine lets live for a while after it has closed its input.
DEAF = '#!/bin/sh\nexec <&-\nsleep 0.5\nexec ssh "$@"\n'


class Session(paramiko.ServerInterface):
    """Lets everybody with a key in, and runs what they ask for."""

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return int(paramiko.AUTH_SUCCESSFUL)

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return int(paramiko.OPEN_SUCCEEDED)

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._run, args=(channel, command), daemon=True).start()
        return True

    def _run(self, channel: paramiko.Channel, command: bytes) -> None:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        with channel.makefile("rb") as given:
            out, _ = process.communicate(given.read())
        channel.sendall(out)
        channel.send_exit_status(process.returncode)
        channel.close()


class Server:
    """An SSH server whose key can be exchanged; connections that are up stay up."""

    def __init__(self) -> None:
        self.key = paramiko.ECDSAKey.generate()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.transports: list[paramiko.Transport] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                transport = paramiko.Transport(self._socket.accept()[0])
                transport.add_server_key(self.key)
                self.transports.append(transport)
                with contextlib.suppress(paramiko.SSHException):
                    transport.start_server(event=threading.Event(), server=Session())

    def close(self) -> None:
        self._socket.close()
        for transport in self.transports:
            transport.close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def sockets() -> Iterator[str]:
    # tmp_path may be longer than the path of a socket may be.
    with tempfile.TemporaryDirectory(prefix="muster-tests-", ignore_cleanup_errors=True) as directory:
        yield directory


@pytest.fixture
def run(sockets: str, server: Server, tmp_path: Path) -> Callable[..., str]:
    """Run the plays on the server as gpu-01, whose first key is the known one; return what was printed."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{server.port} {server.key.get_name()} {server.key.get_base64()}\n")
    node = {
        "ansible_host": "127.0.0.1",
        "ansible_port": server.port,
        "ansible_ssh_private_key_file": str(tmp_path / "key"),
        "ansible_ssh_common_args": f"-F none -o UserKnownHostsFile={known}",
        "ansible_python_interpreter": sys.executable,
        "muster_expect": {},
        "muster_fleet": {"policy": {"heartbeat_seconds": None}},
        "muster_examine_seconds": 30,
    }
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"all": {"hosts": {"localhost": here}, "children": {"compute": {"hosts": {"gpu-01": node}}}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")
    (tmp_path / "play.yml").write_text(yaml.safe_dump(PLAYS, sort_keys=False), encoding="utf-8")
    command = [Path(sys.executable).with_name("ansible-playbook"), "-i", "hosts.yml", "play.yml"]
    environment = {
        **os.environ,
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": sockets,
    }

    def play(ssh: str = "ssh") -> str:
        done = warm_ansible.run([*command, "-e", f"ansible_ssh_executable={ssh}"], cwd=tmp_path, env=environment)
        return done.stdout + done.stderr

    return play


@pytest.mark.parametrize("client", [PLAIN, DEAF], ids=["plain", "deaf"])
def test_changed_host_key_is_noticed_within_controlpersist_and_is_the_reason(
    run: Callable[..., str], server: Server, tmp_path: Path, client: str
) -> None:
    first = run()
    assert "TASK [Identify the host]" in first and "unreachable=0" in first.partition("gpu-01  ")[2], first
    # The node program is not there; what counts is that the host was reached.
    assert 'REASONS {"gpu-01": "Examine the node' in first, first
    assert [transport.is_active() for transport in server.transports] == [True], "the connection persists"
    server.key = paramiko.ECDSAKey.generate()
    (tmp_path / "ssh").write_text(client)
    (tmp_path / "ssh").chmod(0o755)
    second = " ".join(run(str(tmp_path / "ssh")).split())
    assert 'REASONS {"gpu-01": "host key changed: another machine, or reinstalled; found SHA256:' in second, second
