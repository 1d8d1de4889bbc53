"""Clients of other file systems from declared packages: installed, configured, handed to mount(8), not believed.

The packages are stand-ins. Their helpers of mount(8) mount a tmpfs, as no kernel of the lab has the real file systems:
what role checkpoint_storage does until then is real, and that it takes no other file system for the declared one.
Package weka-agent is the lab's name for it; WEKA's agent comes by its cluster's own installer.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
SCENARIO = PROJECT / "molecule/storage"
sys.path.append(str(PROJECT / "molecule/gpu_stack"))

from repository import Signer, write_apt_repository  # noqa: E402 -- of another scenario
from stand_ins import Package  # noqa: E402 -- of another scenario

SSH = ("ssh", "-F", str(PROJECT / "build/lab/ssh_config"), "-o", "BatchMode=yes", "-l", "root")
NODE = "gpu-02"
SECRET = base64.b64encode(b"\0lab secret of beegfs\xff").decode()
HELPER = """#!/bin/sh
{first}
echo "$0 $*" >>/run/stand-in-mounts
exec mount -t tmpfs -o size=1m stand-in "$2"
"""
AGENT = "[Service]\nExecStart=/usr/bin/sleep infinity\n"
UNIT = "usr/lib/systemd/system/weka-agent.service"


def helper(first: str = "") -> str:
    return HELPER.format(first=first)


PACKAGES = [
    *(
        Package("beegfs-client-dkms", version, files={"usr/sbin/mount.beegfs": helper(f"# {version}")})
        for version in ("8.1.0", "8.2.0")
    ),
    Package(
        "weka-agent",
        "4.4.2",
        files={"usr/sbin/mount.wekafs": helper("systemctl --quiet is-active weka-agent || exit 32"), UNIT: AGENT},
    ),
    Package("vastnfs-dkms", "4.0.34", files={"usr/share/stand-in/vastnfs": ""}),
    Package("nfs-common", "1:2.6.2", files={"usr/sbin/mount.nfs": helper()}),
    Package("netbase", "6.4", files={"usr/share/stand-in/netbase": ""}),
]
EXISTING = {"name": "checkpoints", "kind": "existing", "path": "/checkpoints", "filesystem": "ext4"}
KINDS = {"/bee": "beegfs", "/wk": "wekafs", "/vast": "nfs"}


def on(command: str, text: bytes = b"") -> str:
    """Return what a shell command prints on the node; it must succeed."""
    done = subprocess.run([*SSH, NODE, command], input=text, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, f"{command}\nended with {done.returncode}: {done.stdout!r}{done.stderr!r}"
    return done.stdout.decode()


@pytest.fixture(scope="module")
def signing_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Put a repository of stand-ins onto the node, and give the key that signs it."""
    place = tmp_path_factory.mktemp("clients")
    target = place / "repository"
    target.mkdir()
    signer = Signer(place / "ours")
    try:
        write_apt_repository(PACKAGES, signer, place / "debs", target)
    finally:
        signer.close()
    archive = subprocess.run(["tar", "-c", "-C", str(target), "."], capture_output=True, check=True).stdout
    on("mkdir -p /opt/clients && tar -x -C /opt/clients", archive)
    yield signer.public_key
    on("rm -rf /opt/clients")


def tiers(signing_key: str, beegfs: str) -> list[dict[str, Any]]:
    """Return the declared tiers, with a version of BeeGFS' client."""
    repository = {"url": "file:/opt/clients", "signing_key": signing_key}
    return [
        EXISTING,
        {
            **{"name": "bee", "kind": "beegfs", "path": "/bee", "management": "10.77.6.10"},
            **{"settings": {"connUseRDMA": False}},
            "client": {"packages": [f"beegfs-client-dkms={beegfs}"], "repository": repository},
        },
        {
            **{"name": "wk", "kind": "weka", "path": "/wk", "source": "10.77.6.10,10.77.6.11/ckpt", "net": ["udp"]},
            **{"parameters": {"num_cores": 0}, "client": {"packages": ["weka-agent=4.4.2"], "repository": repository}},
        },
        {
            **{"name": "vast", "kind": "nfs", "path": "/vast", "server": "10.77.6.10", "export": "/ckpt"},
            **{"connections": 8, "remoteports": ["10.77.6.10-10.77.6.13"], "parameters": {"vers": 3}},
            "client": {"packages": ["vastnfs-dkms=4.0.34"], "repository": repository},
        },
    ]


def play(declared: list[dict[str, Any]], *options: str, **more: Any) -> dict[str, Any]:
    """Apply the role to the node as playbooks/provision.yml does; return its recap and what was printed."""
    data = yaml.safe_load((SCENARIO / "inventory/storage.fleet.yml").read_text(encoding="utf-8"))
    data["storage"] = {"tiers": declared}
    data["policy"]["stages"] = ["preflight"]
    variables = Fleet.from_data(data, "storage.fleet.yml").variables()
    given = {
        "checkpoint_storage_mounts": variables["classes"]["lab_h100"]["mounts"],
        "checkpoint_storage_tiers": variables["storage"]["tiers"],
        "checkpoint_storage_secrets": {"bee": SECRET},
        **more,
    }
    argv = [str(Path(sys.executable).parent / "ansible-playbook"), f"--inventory={SCENARIO / 'inventory'}"]
    argv += [f"--limit={NODE}", "-e", json.dumps(given), *options, str(SCENARIO / "clients.yml")]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "ANSIBLE_FORCE_COLOR": "0"}
    environment |= {"ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml", "ANSIBLE_NOCOLOR": "1", "COLUMNS": "1000"}
    done = subprocess.run(argv, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    text = done.stdout + done.stderr
    (line,) = [each for each in text.splitlines() if each.startswith(NODE) and "changed=" in each]
    recap = dict(word.split("=") for word in line.split() if "=" in word)
    assert SECRET not in text
    return {"changed": int(recap["changed"]), "failed": int(recap["failed"]), "text": text}


TRACE = (
    "find /etc /usr /opt -xdev -type f -printf '%p %s %T@ %m\\n' | sort; dpkg-query -W; cut -d' ' -f3- "
    "/proc/self/mountinfo; systemctl list-units --plain --no-legend --type=service --state=running"
)


@pytest.mark.main_road
def test_clients_are_installed_and_what_their_helpers_mount_is_not_taken_for_them(signing_key: str) -> None:
    before = on(TRACE)
    refused = play(tiers(signing_key, "8.1.0"), checkpoint_storage_secrets={})
    assert refused["failed"] == 1
    assert "checkpoint_storage_secrets: nothing for tier bee, expected its connAuthFile in base64" in refused["text"]
    rehearsed = play(tiers(signing_key, "8.1.0"), "--check", "--diff")
    assert rehearsed["failed"] == 0 and rehearsed["changed"] >= 2, rehearsed["text"]
    assert on(TRACE) == before
    first = play(tiers(signing_key, "8.1.0"))
    assert first["failed"] == 1, first["text"]
    for path, kind in KINDS.items():
        assert f"tier {path[1:]}: file system is tmpfs, expected {kind}" in first["text"]
    assert on("stat -c '%a %U' /etc/beegfs/muster-bee.auth") == "400 root\n"
    assert on("base64 -w0 /etc/beegfs/muster-bee.auth") == SECRET
    assert "connAuthFile = /etc/beegfs/muster-bee.auth\n" in on("cat /etc/beegfs/muster-bee.conf")
    called = on("cat /run/stand-in-mounts")
    assert "mount.beegfs beegfs_nodev /bee " in called
    assert "cfgFile=/etc/beegfs/muster-bee.conf,sysMgmtdHost=10.77.6.10" in called
    assert "mount.wekafs 10.77.6.10,10.77.6.11/ckpt /wk " in called and "net=udp,num_cores=0" in called
    assert "mount.nfs 10.77.6.10:/ckpt /vast " in called
    assert "nconnect=8,remoteports=10.77.6.10-10.77.6.13" in called
    again = play(tiers(signing_key, "8.1.0"))
    assert (again["changed"], again["failed"]) == (0, 0), again["text"]
    assert "file system is tmpfs, expected beegfs" in again["text"]


@pytest.mark.main_road
def test_another_version_is_installed_and_clients_declared_no_more_leave_nothing_mounted(signing_key: str) -> None:
    newer = play(tiers(signing_key, "8.2.0"))
    assert (newer["changed"], newer["failed"]) == (1, 0), newer["text"]
    assert on("dpkg-query -W -f '${Version}' beegfs-client-dkms") == "8.2.0"
    gone = play([EXISTING], checkpoint_storage_allow_remount=True, checkpoint_storage_secrets={})
    assert gone["failed"] == 0, gone["text"]
    assert on("ls /etc/beegfs; grep -c ' /bee \\| /wk \\| /vast ' /proc/self/mountinfo; true") == "0\n"
    on("apt-get -qq purge beegfs-client-dkms weka-agent vastnfs-dkms nfs-common; rm -f /run/stand-in-mounts")
