"""The installed nvidia-imex as the daemons of a domain, each in a network namespace of its own, without a GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost

PROGRAMS = ("nvidia-imex", "nvidia-imex-ctl", "unshare", "nsenter", "ip", "mount")
NETWORK = "10.83.7."
START_SECONDS = 30.0
# What the daemons and their connections may take to notice that a node is gone.
NOTICE_SECONDS = 3.0
SYSTEMCTL = """#!/bin/sh
if kill -0 {pid} 2>/dev/null; then state="active running"; else state="failed failed"; fi
set -- $state
printf 'LoadState=loaded\\nActiveState=%s\\nSubState=%s\\nResult=success\\nExecMainStatus=0\\n' "$1" "$2"
"""


class Node:
    """One daemon and the host that stands for it: its tools are those of its namespace."""

    def __init__(self, directory: Path, number: int, bridge: str, listed: Sequence[str]) -> None:
        self.directory = directory
        self.address = f"{NETWORK}{number}"
        self._link, self._own = f"{bridge}o{number}", f"{bridge}i{number}"
        directory.mkdir()
        (directory / "nodes").write_text("".join(f"{address}\n" for address in listed))
        (directory / "config").write_text(
            f"LOG_LEVEL=4\nLOG_FILE_NAME={directory}/log\nSTATS_FILE_NAME={directory}/stats\nDAEMONIZE=0\n"
            f"IMEX_NODE_CONFIG_FILE={directory}/nodes\nIMEX_CMD_ENABLED=1\nIMEX_CMD_PORT=50005\n"
        )
        program = (
            # The daemon keeps files of its own beside the log.
            f"mount -t tmpfs none /var/log; ip link set lo up; until ip link show {self._own}; do sleep 0.05; done; "
            f"ip address add {self.address}/24 dev {self._own}; ip link set {self._own} up; "
            f"exec {shutil.which('nvidia-imex')} --nogpu -c {directory}/config"
        )
        with (directory / "said").open("wb") as said:
            argv = ["unshare", "--net", "--mount", "sh", "-c", program]
            self.process = subprocess.Popen(argv, stdout=said, stderr=said, start_new_session=True)
        try:
            self._connect(bridge)
        except BaseException:
            self.stop()
            raise
        pid = self.process.pid
        control = f'exec nsenter -t {pid} -n {shutil.which("nvidia-imex-ctl")} -c {directory}/config "$@"'
        self._tool("systemctl", SYSTEMCTL.format(pid=pid))
        self._tool("nvidia-imex-ctl", f"#!/bin/sh\n{control}\n")
        self._tool("nvidia-imex", f'#!/bin/sh\nexec {shutil.which("nvidia-imex")} "$@"\n')
        channels = directory / "dev/nvidia-caps-imex-channels"
        channels.mkdir(parents=True)
        (channels / "channel0").touch()
        self.host = LocalHost(f"{directory}/bin:/usr/sbin:/usr/bin:/sbin:/bin", str(directory))

    def stop(self) -> None:
        """End the daemon; its namespace and the link into it go with it."""
        self.process.kill()
        self.process.wait()

    def _connect(self, bridge: str) -> None:
        own = Path("/proc/self/ns/net").readlink()
        until = time.monotonic() + START_SECONDS
        while Path(f"/proc/{self.process.pid}/ns/net").readlink() == own:
            assert self.process.poll() is None and time.monotonic() < until, (self.directory / "said").read_text()
            time.sleep(0.02)
        run("ip", "link", "add", self._link, "type", "veth", "peer", "name", self._own, "netns", str(self.process.pid))
        run("ip", "link", "set", self._link, "master", bridge, "up")

    def _tool(self, name: str, text: str) -> None:
        path = self.directory / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)


class Rack:
    """Daemons that share a bridge."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.bridge = f"mi{os.getpid() % 100000}"
        self.nodes: list[Node] = []
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "link", "set", self.bridge, "up")

    def start(self, count: int, odd: Sequence[str] = ()) -> list[Node]:
        """Start the daemons; the second one's list of nodes has the ``odd`` addresses as well."""
        listed = [f"{NETWORK}{number}" for number in range(1, count + 1)]
        for number in range(1, count + 1):
            own = [*listed, *odd] if number == 2 else listed
            self.nodes.append(Node(self._directory / f"node{number}", number, self.bridge, own))
        for node in self.nodes:
            until = time.monotonic() + START_SECONDS
            while node.host.run(["nvidia-imex-ctl", "-q"], 10.0).stdout.strip() != "READY":
                assert time.monotonic() < until, (node.directory / "said").read_text()
                time.sleep(0.2)
        time.sleep(NOTICE_SECONDS)
        return self.nodes

    def stop(self) -> None:
        """End what was started."""
        for node in self.nodes:
            node.stop()
        run("ip", "link", "delete", self.bridge)


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=20)


@pytest.fixture(scope="session")
def version() -> str:
    """The version of the installed nvidia-imex."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        pytest.skip(f"nvidia-imex cannot be run here: there is no {', '.join(missing)}")
    argv = ["unshare", "--net", "--mount", "mount", "-t", "tmpfs", "none", "/var/log"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)
    if os.geteuid() or done.returncode:
        pytest.skip(f"nvidia-imex needs a network and a mount namespace of its own: {done.stderr.strip()[:200]}")
    said = subprocess.run(["nvidia-imex", "--version"], capture_output=True, text=True, check=True, timeout=20).stdout
    return re.findall(r"[0-9.]+", said)[-1]


@pytest.fixture
def rack(version: str, tmp_path: Path) -> Iterator[Rack]:
    """A network for daemons, which ends with the test."""
    made = Rack(tmp_path)
    try:
        yield made
    finally:
        made.stop()
