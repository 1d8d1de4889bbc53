"""Role infiniband on this machine in check mode, below a root of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm_ansible
from tests.identified import IDENTIFIED

ROOT = Path(__file__).resolve().parents[3]
WRITTEN = "/etc/systemd/network/51-muster-ib-rail0.network"


@pytest.fixture
def check(tmp_path):
    base = tmp_path / "sys/class/infiniband/ibp24s0"
    (base / "ports/1").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices/0000:18:00.0/infiniband/ibp24s0").mkdir(parents=True)
    (base / "node_desc").write_text("MT4129 ConnectX7\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/systemctl").write_text(
        '#!/bin/sh\ncase "$*" in show*rdma-ndd*) state=active ;; *) state=inactive ;; esac\n'
        '[ "$1" != show ] || printf "LoadState=loaded\\nActiveState=$state\\n"\n'
    )
    (tmp_path / "bin/systemctl").chmod(0o755)
    given = {
        **IDENTIFIED,
        "infiniband_rails": [{"rail": 0, "address": "172.24.0.1/16", "gateway": None}],
        "infiniband_places": [{"rail": 0, "address": "0000:18:00.0"}],
        "infiniband_ipoib": "datagram",
        "infiniband_partitions": [{"name": "compute", "pkey": 0x7FFF, "ipoib": True}],
        "infiniband_root": str(tmp_path),
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
    }
    (tmp_path / "given.json").write_text(json.dumps(given))
    play = {"hosts": "all", "gather_facts": False, "roles": ["muster.cluster.infiniband"]}
    (tmp_path / "play.json").write_text(json.dumps([play]))

    def run(link_layer: str, network: str = "networkd") -> subprocess.CompletedProcess[str]:
        (base / "ports/1/link_layer").write_text(f"{link_layer}\n")
        command = [Path(sys.executable).with_name("ansible-playbook"), "--check", "--diff", "-i", "gpu-1,"]
        return warm_ansible.run(
            [*command, "-e", f"@{tmp_path}/given.json", "-e", f"infiniband_network={network}", tmp_path / "play.json"],
            cwd=ROOT,
            env={
                **os.environ,
                "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
                "ANSIBLE_NOCOLOR": "1",
                # As commands are in check mode.
                "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "1",
            },
        )

    return run


def test_check_mode_shows_what_would_be_written_and_writes_nothing(check, tmp_path):
    done = check("InfiniBand")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gpu-1 rail0" in done.stdout and WRITTEN in done.stdout and "+Mode=datagram" in done.stdout
    assert re.search(r"TASK \[muster.cluster.infiniband : Stop rdma-ndd[^\n]*\nchanged", done.stdout), done.stdout
    assert (tmp_path / "sys/class/infiniband/ibp24s0/node_desc").read_text() == "MT4129 ConnectX7\n"
    assert not Path(WRITTEN).exists()


def test_network_manager_brings_up_the_profile_of_each_rail(check):
    done = check("InfiniBand", "networkmanager")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "muster_ib-rail0.nmconnection" in done.stdout
    assert "(item=['nmcli', 'connection', 'up', 'muster-rail0'])" in done.stdout, done.stdout


def test_port_of_another_link_layer_stops_the_role_before_anything_is_written(check):
    done = check("Ethernet")
    assert done.returncode != 0 and "LINK_TYPE_P1" in done.stdout + done.stderr
    assert "rail 0 (ibp24s0): link layer is Ethernet" in done.stdout + done.stderr
    assert "Write node descriptions" not in done.stdout
