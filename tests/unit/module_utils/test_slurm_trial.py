"""Configurations tried on a real slurmctld 22.05, which is fetched from Debian and not installed."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_trial import TrialError, try_files

ROOT = Path(__file__).parents[3]
PACKAGES = ("slurmctld", "slurm-client", "slurm-wlm-basic-plugins", "libmunge2", "libhwloc15", "libpmix2")
# slurmctld serves no host but the one it runs on.
NAME = socket.gethostname().partition(".")[0]
LIBRARIES = "usr/lib/x86_64-linux-gnu"


@pytest.fixture(scope="session")
def slurm():
    """A directory of Debian's Slurm 22.05, unpacked."""
    place = ROOT / "build" / "slurm-22.05"
    if not (place / "usr/sbin/slurmctld-wlm").exists():
        if not shutil.which("apt-get"):
            pytest.skip("apt-get fetches Slurm here")
        debs = place / "debs"
        debs.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["apt-get", "download", *PACKAGES], cwd=debs, capture_output=True, text=True, check=False, timeout=300
        )
        found = sorted(debs.glob("slurmctld_22.05*.deb"))
        if done.returncode != 0 or not found:
            pytest.skip(f"Debian's slurmctld 22.05 cannot be fetched: {done.stderr.strip()[-200:]}")
        for deb in debs.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", deb, place], check=True)
    if os.geteuid() != 0 or subprocess.run(["unshare", "-n", "-p", "-f", "true"], check=False).returncode != 0:
        pytest.skip("only root makes namespaces here")
    return place


@pytest.fixture
def host(slurm, tmp_path):
    """A host whose slurmctld and scontrol are the unpacked ones."""
    libraries = f"{slurm}/{LIBRARIES}:{slurm}/{LIBRARIES}/slurm-wlm"
    for name, program in (("slurmctld", "usr/sbin/slurmctld-wlm"), ("scontrol", "usr/bin/scontrol")):
        tool = tmp_path / name
        tool.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {slurm}/{program} "$@"\n')
        tool.chmod(0o755)
    return LocalHost(f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")


@pytest.fixture
def files(slurm):
    text = f"""# Written by Muster
ClusterName=lab
SlurmctldHost=ctl(10.0.0.1)
SlurmctldHost=ctl-2(10.0.0.2)
PluginDir={slurm}/{LIBRARIES}/slurm-wlm
AuthType=auth/none
CredType=cred/none
SlurmUser=root
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmctldPidFile=/run/slurmctld.pid
SlurmctldParameters=enable_configless
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=10.0.0.3
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ProctrackType=proctrack/cgroup
TaskPlugin=task/none
TopologyPlugin=topology/tree
GresTypes=gpu
PrologFlags=Alloc
NodeName=gpu-[01-04] NodeAddr=10.0.0.[11-14] CPUs=2 RealMemory=1000 Gres=gpu:8 State=UNKNOWN
PartitionName=acceptance Nodes=gpu-[01-04] AllowGroups=root Hidden=YES OverSubscribe=EXCLUSIVE
Include muster_partitions.conf
"""
    return {
        "slurm.conf": text,
        "cgroup.conf": "ConstrainCores=yes\nConstrainDevices=yes\n",
        "gres.conf": "NodeName=gpu-[01-04] Name=gpu File=/dev/nvidia[0-7]\n",
        "topology.conf": "SwitchName=a1 Nodes=gpu-[01-02]\nSwitchName=a2 Nodes=gpu-[03-04]\n"
        "SwitchName=r Switches=a[1-2]\n",
        "muster_partitions.conf": "PartitionName=batch Default=YES TRESBillingWeights=GRES/gpu=1.0\n",
    }


def test_whole_configuration_of_a_standby_is_accepted_and_nothing_is_left(host, files, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    try_files(host, files, NAME, 30)
    assert list((tmp_path / "temporary").iterdir()) == []
    running = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path) in _text(path)]
    assert running == []


@pytest.mark.parametrize(
    ("name", "edit", "words"),
    [
        ("slurm.conf", ("AuthType", "Foo=1\nAuthType"), "unrecognized key: Foo"),
        ("slurm.conf", ("gpu-[01-04] Allow", "gpu-[01-05] Allow"), "Invalid node names in partition acceptance"),
        ("slurm.conf", ("PrologFlags=Alloc", "PrologFlags=Foo"), "PrologFlags invalid: Foo"),
        ("slurm.conf", ("PrologFlags", "SlurmdTimeout=soon\nPrologFlags"), '"soon" is not a valid number'),
        ("slurm.conf", ("PrologFlags", "HealthCheckNodeState=FOO\nPrologFlags"), "Invalid HealthCheckNodeState"),
        ("slurm.conf", ("CR_Core_Memory", "CR_Foo"), "Bad SelectTypeParameter: CR_Foo"),
        ("slurm.conf", ("topology/tree", "topology/block"), "topology/block"),
        ("slurm.conf", ("PartitionName", "NodeName=gpu-02 CPUs=4\nPartitionName"), "Duplicated NodeName gpu-02"),
        ("muster_partitions.conf", ("Default", "MaxTime=soon Default"), 'Bad value "soon" for MaxTime'),
        ("cgroup.conf", ("ConstrainCores", "ConstrainFoo"), "unrecognized key: ConstrainFoo"),
        ("gres.conf", ("Name=gpu", "Name=gpu Foo=1"), "unrecognized key: Foo"),
        ("topology.conf", ("gpu-[03-04]", "gpu-[03-09]"), 'lookup failure for node "gpu-05"'),
        ("topology.conf", ("a[1-2]", "a[1-3]"), "invalid child"),
    ],
)
def test_wrong_value_is_found_in_slurms_own_words(host, files, name, edit, words):
    assert edit[0] in files[name]
    files[name] = files[name].replace(*edit, 1)
    with pytest.raises(TrialError, match=re.escape(words)):
        try_files(host, files, NAME, 30)


def test_missing_file_is_found_at_once(host, files):
    """slurmctld itself waits a minute for it."""
    del files["topology.conf"]
    with pytest.raises(TrialError, match=r"topology\.conf"):
        try_files(host, files, NAME, 30)


def test_user_that_is_missing_is_named(host, files):
    files["slurm.conf"] = files["slurm.conf"].replace("SlurmUser=root", "SlurmUser=nobody-here")
    with pytest.raises(TrialError, match="SlurmUser=nobody-here: this host has no such user"):
        try_files(host, files, NAME, 30)


def _text(path):
    try:
        return path.read_text()
    except OSError:
        return ""
