"""A whole Slurm cluster on one unpacked system, for programs that say nothing without one.

It is one machine: munged, mariadbd, slurmdbd, slurmctld, and slurmd twice, as nodes gpu-01 and gpu-02, each with eight
CPUs and eight GPUs, which are device files and no more. Partitions are ``acceptance``, which is hidden and of group
``muster``, and ``batch``. Users are muster, alice and bob. Node gpu-03 is declared only, or is another system, which
lies within this one and has a munged of its own. Everything that it starts ends with its process namespace.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

HOST = "gpu-01"
# An address for documentation: glibc resolves nothing, not even a number, on a host that has loopback's alone.
ADDRESS = "192.0.2.1"
NODES = ("gpu-01", "gpu-02")
# Where the other system lies within the cluster's one (inside.py).
OTHER = "/mnt/root"
OTHER_NODE = "gpu-03"
PATIENCE = 30.0
LOGS = Path("/var/log/contract")
# What the packages' scripts would have made; 64030 is Debian's number for slurm.
USERS = {
    "root": 0,
    "munge": 110,
    "mysql": 111,
    "slurmrestd": 112,
    "muster": 990,
    "alice": 1001,
    "bob": 1002,
    "slurm": 64030,
    "nobody": 65534,
}
DIRECTORIES = {
    "/etc/munge": "munge",
    "/run/munge": "munge",
    "/var/lib/munge": "munge",
    "/var/log/munge": "munge",
    "/run/mysqld": "mysql",
    "/var/lib/mysql": "mysql",
    "/etc/slurm": "root",
    "/var/lib/slurm/slurmctld": "slurm",
    "/var/lib/slurm/slurmd": "root",
    "/var/log/slurm": "slurm",
    "/run/slurm": "slurm",
    "/run/slurmrestd": "slurmrestd",
    str(LOGS): "root",
}
SLURM_CONF = f"""
ClusterName=contract
SlurmctldHost={HOST}({ADDRESS})
SlurmUser=slurm
AuthType=auth/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd.%n
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurmd.%n.pid
# A namespace has no cgroups of its own.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmctldParameters=enable_configless
# What is declared counts, whatever this machine has.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=1
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={ADDRESS}
AccountingStorageTRES=gres/gpu
NodeName=DEFAULT CPUs=8 Sockets=2 CoresPerSocket=4 RealMemory=1000 Gres=gpu:8 State=UNKNOWN
NodeName=gpu-01 NodeHostname={HOST} NodeAddr={ADDRESS} Port=6818
NodeName=gpu-02 NodeHostname={HOST} NodeAddr={ADDRESS} Port=6828
NodeName=gpu-03 NodeHostname={HOST} NodeAddr={ADDRESS} Port=6838
PartitionName=acceptance Nodes=gpu-[01-03] AllowGroups=muster Hidden=YES OverSubscribe=EXCLUSIVE Default=NO State=UP
PartitionName=batch Nodes=gpu-[01-03] Default=YES State=UP
"""
SLURMDBD_CONF = f"""
AuthType=auth/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
DbdHost={HOST}
DbdAddr={ADDRESS}
SlurmUser=slurm
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurm/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageLoc=slurm_acct_db
StorageUser=slurm
"""
FILES = {
    "/etc/passwd": ("".join(f"{name}:x:{number}:{number}::/:/bin/sh\n" for name, number in USERS.items()), 0o644),
    "/etc/group": ("".join(f"{name}:x:{number}:\n" for name, number in USERS.items()), 0o644),
    "/etc/hosts": (f"127.0.0.1 localhost\n{ADDRESS} {HOST}\n", 0o644),
    "/etc/nsswitch.conf": ("passwd: files\ngroup: files\nhosts: files\n", 0o644),
    "/etc/slurm/slurm.conf": (SLURM_CONF, 0o644),
    # By itself slurmd looks for mounted cgroups (from 22.05 on), and ends where there are none; v1 waits to be used.
    "/etc/slurm/cgroup.conf": ("CgroupPlugin=cgroup/v1\n", 0o644),
    "/etc/slurm/gres.conf": ("Name=gpu File=/dev/nvidia[0-7]\n", 0o644),
    # slurmdbd refuses a file that others can read, munged a key.
    "/etc/slurm/slurmdbd.conf": (SLURMDBD_CONF, 0o600),
    "/etc/slurm/jwt_hs256.key": ("k" * 32, 0o600),
    "/etc/munge/munge.key": ("k" * 128, 0o600),
}
OWNERS = {
    "/etc/slurm/slurmdbd.conf": "slurm",
    "/etc/slurm/jwt_hs256.key": "slurm",
    "/etc/munge/munge.key": "munge",
}
DATABASE = (
    "CREATE DATABASE slurm_acct_db; CREATE USER slurm@localhost IDENTIFIED VIA unix_socket;"
    "GRANT ALL ON slurm_acct_db.* TO slurm@localhost;"
)


def start(files: Mapping[str, str]) -> None:
    """Be the machine of the cluster, inside of its system, and start it with these files besides, or in others' place.

    Exits with what a daemon said that does not start.
    """
    # Two sockets of four cores, whatever machine this is: hwloc believes it.
    os.environ["HWLOC_SYNTHETIC"] = "pack:2 core:4 pu:1"
    socket.sethostname(HOST)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
    configure()
    for path, text in files.items():
        Path(path).write_text(text, encoding="utf-8")
    start_cluster()


def configure(root: str = "") -> None:
    """Make what the packages' scripts and an operator would have made."""
    for path, owner in DIRECTORIES.items():
        place = Path(f"{root}{path}")
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
        os.chown(place, USERS[owner], USERS[owner])
    # Base-files' script makes it a link; some clients look there for MariaDB's socket.
    link = Path(f"{root}/var/run")
    if not link.is_symlink():
        shutil.rmtree(link, ignore_errors=True)
        link.symlink_to("/run")
    for path, (text, mode) in FILES.items():
        place = Path(f"{root}{path}")
        place.write_text(text, encoding="utf-8")
        place.chmod(mode)
        number = USERS[OWNERS.get(path, "root")]
        os.chown(place, number, number)


def start_other() -> None:
    """Start the other system's munged and slurmd, with the cluster's key and configuration.

    slurmd is not waited for: the cluster may refuse it.
    """
    configure(OTHER)
    must([*on_other("munge"), "munged"])
    with Path(f"{OTHER}{LOGS}/slurmd").open("wb") as log:
        command = [*on_other("root"), "slurmd", "-D", "-N", OTHER_NODE]
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def on_other(user: str) -> list[str]:
    """Return what comes before a user's command to run it on the other system."""
    return ["chroot", f"--userspec={USERS[user]}:{USERS[user]}", OTHER]


def start_cluster() -> None:
    """Start the daemons, each when the one before it answers."""
    daemon(["munged", "--foreground"], "munge", Path("/run/munge/munge.socket.2").exists)
    # It keeps its tables in memory here, and must not take more of that than it needs.
    files = ["--no-defaults", "--user=mysql", "--datadir=/var/lib/mysql"]
    files += ["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M"]
    must(["mariadb-install-db", *files, "--auth-root-authentication-method=socket", "--skip-test-db"])
    client = ["mariadb", "--no-defaults", "--execute"]
    listening = ["--socket=/run/mysqld/mysqld.sock", "--skip-networking"]
    daemon(["mariadbd", *files, *listening], "root", lambda: answers([*client, "SELECT 1"]))
    must([*client, DATABASE])
    daemon(["slurmdbd", "-D"], "slurm", lambda: connects(6819))
    daemon(["slurmctld", "-D"], "slurm", lambda: answers(["scontrol", "ping"]))
    for node in NODES:
        daemon(["slurmd", "-D", "-N", node], "root", partial(idle, node))


def daemon(argv: list[str], user: str, there: Callable[[], bool]) -> None:
    """Start a daemon by its whole path, as its unit does, and wait until it is there; what it logs is in LOGS."""
    name, number = argv[0], USERS[user]
    with (LOGS / name).open("wb") as log:
        process = subprocess.Popen(
            [shutil.which(name) or name, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            user=number,
            group=number,
            extra_groups=[],
        )
    deadline = time.monotonic() + PATIENCE
    while not there():
        ended = process.poll() is not None
        if ended or time.monotonic() > deadline:
            said = (LOGS / name).read_text("utf-8", "replace")[-4000:]
            sys.exit(f"{name} {'ended' if ended else f'does not answer after {PATIENCE:g} s'}:\n{said}")
        time.sleep(0.05)


def must(argv: list[str]) -> str:
    """Return what a command prints that has to succeed."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{argv[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def idle(node: str) -> bool:
    """Say whether a node has registered."""
    return "idle" in must(["sinfo", "--all", "--noheader", f"--nodes={node}", "--format=%T"]).split()


def answers(argv: list[str]) -> bool:
    """Say whether a command succeeds."""
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def connects(port: int) -> bool:
    """Say whether somebody listens on a port."""
    with socket.socket() as each:
        return each.connect_ex((ADDRESS, port)) == 0
