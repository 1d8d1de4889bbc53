#!/usr/bin/env python3
"""Run commands against a whole Slurm cluster of one distribution's packages, and print what they answered.

    slurm_cluster.py ROOT COMMANDS [BESIDE]

ROOT is a directory with unpacked packages (``mmdebstrap --variant=extract``, which runs none of their scripts):
slurmctld, slurmd, slurmdbd, slurm-client, munge, mariadb-server, iproute2, python3. Nothing in it is changed. COMMANDS
is a JSON file with a list of commands, which run one after the other. Each is a list of words, or an object: ``argv``,
and if wanted ``user``, ``environment``, ``seconds`` (its limit), ``behind`` (true: the next ones do not wait for it).
BESIDE is a directory that the commands see as /mnt.

On standard output is a JSON list of ``argv``, ``rc``, ``stdout`` and ``stderr``, in the order of the commands.

The cluster is one machine: munged, mariadbd, slurmdbd, slurmctld, and slurmd twice, as nodes gpu-01 and gpu-02, each
with eight CPUs and eight GPUs, which are device files and no more. A third node, gpu-03, is declared and does not
answer until a command starts slurmd for it. Partitions are ``acceptance``, which is hidden and of group ``muster``, and
``batch``. Users are muster, alice and bob.

It needs root, Linux namespaces and overlayfs, and no network. Everything that it starts ends with it.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

HOST = "gpu-01"
# An address for documentation: glibc resolves nothing, not even a number, on a host that has loopback's alone.
ADDRESS = "192.0.2.1"
NODES = ("gpu-01", "gpu-02")
PATIENCE = 30.0
COMMANDS = Path("/run/commands.json")
LOGS = Path("/var/log/contract")
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
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
# Debian's scripts make these links (update-alternatives).
PROGRAMS = ("slurmctld", "slurmd", "slurmstepd")
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
NodeName=DEFAULT CPUs=8 RealMemory=1000 Gres=gpu:8 State=UNKNOWN
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


def namespaces(root: str, commands: str, *beside: str) -> int:
    """Start over in namespaces of our own: what is mounted and started there is gone when this ends."""
    place = tempfile.mkdtemp(prefix="slurm-cluster-")
    own = ["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
    argv = [*own, sys.executable, str(Path(__file__).resolve()), "--enter", place]
    try:
        paths = [os.path.realpath(path) for path in (root, commands, *beside)]
        return subprocess.run([*argv, *paths], check=False).returncode
    finally:
        Path(place).rmdir()


def enter(place: str, root: str, commands: str, *beside: str) -> None:
    """Mount the root, with a layer in memory above it for what is written, and go on inside, with its own Python."""
    # Ours are nobody else's, whatever the host shares with others.
    mount("--make-rprivate", "/")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", place)
    above, work, new = (Path(place) / name for name in ("above", "work", "root"))
    for each in (above, work, new):
        each.mkdir(mode=0o755)
    mount("-t", "overlay", "-o", f"lowerdir={root},upperdir={above},workdir={work}", "overlay", str(new))
    for name in ("proc", "sys", "dev", "run", "tmp", "mnt"):
        (new / name).mkdir(exist_ok=True)
    mount("-t", "proc", "proc", str(new / "proc"))
    mount("-t", "sysfs", "-o", "ro", "sysfs", str(new / "sys"))
    for name in ("dev", "run", "tmp"):
        mount("-t", "tmpfs", "-o", f"mode={'1777' if name == 'tmp' else '755'}", "tmpfs", str(new / name))
    for path in beside:
        mount("--bind", path, str(new / "mnt"))
        mount("-o", "remount,ro,bind", str(new / "mnt"))
    devices(new / "dev")
    shutil.copyfile(commands, new / COMMANDS.relative_to("/"))
    shutil.copyfile(__file__, new / "run/slurm_cluster.py")
    socket.sethostname(HOST)
    os.chroot(new)
    os.chdir("/")
    # An interpreter that was not configured has no link python3 in some releases, and no cache to write to.
    os.execve("/usr/bin/python3", ["python3", "-B", "/run/slurm_cluster.py", "--inside"], ENVIRONMENT)


def devices(place: Path) -> None:
    """Make what programs expect in /dev, and the GPUs: Slurm asks no more of them than that the files are there."""
    usual = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}
    os.umask(0)
    for name, number in {**usual, **{f"nvidia{index}": (195, index) for index in range(8)}}.items():
        os.mknod(place / name, 0o020666, os.makedev(*number))
    os.umask(0o022)
    (place / "shm").mkdir(mode=0o1777)
    (place / "pts").mkdir()
    mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666", "devpts", str(place / "pts"))
    (place / "ptmx").symlink_to("pts/ptmx")
    for index, name in enumerate(("stdin", "stdout", "stderr")):
        (place / name).symlink_to(f"/proc/self/fd/{index}")
    (place / "fd").symlink_to("/proc/self/fd")


def mount(*words: str) -> None:
    """Mount something."""
    subprocess.run(["mount", *words], check=True)


def inside() -> None:
    """Be the machine of the cluster: start it, run the commands, print what they said."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
    configure()
    start_cluster()
    given = json.loads(COMMANDS.read_text("utf-8"))
    # All are started before the answer of one that others did not wait for is looked at.
    started = [run(Command(**each) if isinstance(each, dict) else Command(each)) for each in given]
    json.dump([answer() for answer in started], sys.stdout, indent=1)
    sys.stdout.write("\n")


def configure() -> None:
    """Make what the packages' scripts and an operator would have made."""
    for path, owner in DIRECTORIES.items():
        Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)
        os.chown(path, USERS[owner], USERS[owner])
    # Base-files' script makes it a link; some clients look there for MariaDB's socket.
    if not Path("/var/run").is_symlink():
        shutil.rmtree("/var/run", ignore_errors=True)
        Path("/var/run").symlink_to("/run")
    for path, (text, mode) in FILES.items():
        Path(path).write_text(text, encoding="utf-8")
        Path(path).chmod(mode)
        number = USERS[OWNERS.get(path, "root")]
        os.chown(path, number, number)
    for program in PROGRAMS:
        link = Path("/usr/sbin", program)
        if not link.exists():
            link.symlink_to(f"{program}-wlm")


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


@dataclass(frozen=True)
class Command:
    """One of the commands, and how it is run."""

    argv: list[str]
    user: str = "root"
    environment: dict[str, str] = field(default_factory=dict)
    seconds: float = 60.0
    behind: bool = False


def run(command: Command) -> Callable[[], dict[str, Any]]:
    """Run a command, or start it where nobody waits for it; return what returns its answer."""
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 -- the command writes them
    number = USERS[command.user]
    try:
        process = subprocess.Popen(
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**ENVIRONMENT, **command.environment},
            user=number,
            group=number,
            extra_groups=[],
        )
    except OSError as exc:
        return partial(dict, argv=command.argv, rc=None, stdout="", stderr=str(exc))

    def answer() -> dict[str, Any]:
        rc: int | None = None
        with suppress(subprocess.TimeoutExpired):
            rc = process.wait(command.seconds)
        if rc is None:
            process.kill()
        return {"argv": command.argv, "rc": rc, "stdout": text_of(out), "stderr": text_of(err)}

    return answer if command.behind else partial(dict, answer())


def text_of(file: IO[bytes]) -> str:
    """Return what was written to a file."""
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def main(words: list[str]) -> int:
    """Run the part that is asked for."""
    if words[:1] == ["--enter"]:
        enter(*words[1:])
    elif words == ["--inside"]:
        inside()
    elif len(words) in (2, 3):
        return namespaces(*words)
    else:
        sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
