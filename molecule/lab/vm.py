#!/usr/bin/env python3
"""Kernel VM lab: Debian machines with kernels of their own in QEMU, Soft-RoCE on every NIC but the first.

A scenario's file of machines says which there are and what they can install. Everything lies under build/vm/SCENARIO;
nothing needs a network, a bridge or a right of this machine. Without a KVM that works the processors are emulated.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from lab import NEEDED_FILES, ROOT, LabError, Steps, install_needed, run, words, write
from lab_systems import DEFAULT_SUITE, SYSTEMS, mmdebstrap

HERE = Path(__file__).resolve().parent
RECIPE = HERE / "vm_image"
# Command -> Debian or Ubuntu package.
NEEDED = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mkfs.ext4": "e2fsprogs",
    "ssh": "openssh-client",
}
IMAGE_SIZE = "4G"
# Sparse: what is not written takes no room.
DRIVE_SIZE = "1G"
# Emulated processors on a busy machine; the units of roles run at boot too.
BOOT_SECONDS = 300
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# Slots of PCI bus 0 from which on the NICs to other machines lie, and the drives.
FIRST_NIC, FIRST_DRIVE = 0x08, 0x10
# Security against other tenants, which emulated processors pay for dearly; eth0 for the NIC of the management network.
KERNEL_ARGUMENTS = "root=/dev/vda rw console=ttyS0 quiet mitigations=off audit=0 net.ifnames=0 panic=-1"


@dataclass(frozen=True)
class Machine:
    """One machine. ``address`` is its own on the network over which it is managed; ``nics`` are names of networks.

    The NICs to these lie at the PCI addresses 0000:00:08.0, 0000:00:09.0, ... ``drives`` are serial numbers of NVMe
    drives, empty at first, at 0000:00:10.0, 0000:00:11.0, ...
    Each of its NUMA nodes has one processor and an equal share of the memory.
    """

    name: str
    address: str
    memory_mib: int
    nics: tuple[str, ...]
    drives: tuple[str, ...] = ()
    numa_nodes: int = 1


@dataclass(frozen=True)
class Lab:
    """The machines of one scenario, and the packages that they can install."""

    place: Path
    packages: tuple[str, ...]
    machines: tuple[Machine, ...]
    suite: str = DEFAULT_SUITE

    def machine(self, name: str) -> Machine:
        """Return the machine called ``name``."""
        for machine in self.machines:
            if machine.name == name:
                return machine
        raise LabError(f"no machine {name}, found {', '.join(machine.name for machine in self.machines)}")

    def only(self, names: Sequence[str]) -> tuple[Machine, ...]:
        """Return the machines of these names, all of them where none is given."""
        return tuple(self.machine(name) for name in names) or self.machines


def read_lab(file: Path) -> Lab:
    """Return what a scenario's ``vars/machines.yml`` describes. Raises LabError unless each network joins two."""
    data = yaml.safe_load(file.read_text(encoding="utf-8"))
    machines = tuple(
        Machine(**{**each, "nics": tuple(each["nics"]), "drives": tuple(each.get("drives", ()))})
        for each in data["machines"]
    )
    ends = [nic for machine in machines for nic in machine.nics]
    for network in ends:
        if ends.count(network) != 2:
            raise LabError(f"{file}: network {network} joins {ends.count(network)} machines, expected 2")
    suite = data.get("suite", DEFAULT_SUITE)
    if suite not in SYSTEMS:
        raise LabError(f"{file}: suite {suite}, expected one of {', '.join(SYSTEMS)}")
    place = ROOT / "build" / "vm" / file.parents[1].name
    return Lab(place, tuple(data["packages"]), machines, suite)


# --- image -------------------------------------------------------------------------------------------------------


def recipe_hash(lab: Lab) -> str:
    """Return a hash over everything that goes into the image."""
    digest = hashlib.sha256(
        f"{lab.suite} {SYSTEMS[lab.suite].components} {IMAGE_SIZE} {' '.join(lab.packages)}".encode()
    )
    shared = (HERE / "image" / "files").rglob("*")
    for path in sorted([HERE / "image" / "apt_repository.sh", *shared, *RECIPE.rglob("*")]):
        if path.is_file():
            digest.update(f"{path.relative_to(HERE)} {path.stat().st_mode & 0o111:o} ".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def build_image(lab: Lab, lock: int) -> Path:
    """Return the directory with root file system, kernel and initrd, built when the recipe changed or never was."""
    image = lab.place / f"image-{recipe_hash(lab)}"
    if image.exists():
        return image
    for old in lab.place.glob("image-*"):
        shutil.rmtree(old)
    unfinished = lab.place / "image-unfinished"
    tree = unfinished / "tree"
    unfinished.mkdir()
    command = [*mmdebstrap(lab.suite), "--format=directory", "--skip=cleanup/apt/lists"]
    command += [f"--include={','.join(words(RECIPE / 'installed.txt'))}"]
    for source in (HERE / "image", RECIPE):
        command += [f"--dpkgopt={file}" for file in (source / "files/etc/dpkg/dpkg.cfg.d").iterdir()]
    command += [f"--extract-hook=cp -RT {RECIPE}/files $1", f"--customize-hook={RECIPE}/customize.sh"]
    environment = {**os.environ, "LAB_PACKAGES": " ".join(lab.packages), "LAB_KEY": str(lab.place / "id_ed25519.pub")}
    run([*command, lab.suite, tree], env=environment, pass_fds=[lock])
    for name, pattern in (("kernel", "vmlinuz-*"), ("initrd", "initrd.img-*")):
        (found,) = (tree / "boot").glob(pattern)
        shutil.move(found, unfinished / name)
    run(["mkfs.ext4", "-q", "-m", "0", "-d", tree, unfinished / "root.img", IMAGE_SIZE], pass_fds=[lock])
    shutil.rmtree(tree)
    return unfinished.rename(image)


# --- machines ----------------------------------------------------------------------------------------------------


def accelerator(image: Path) -> list[str]:
    """Return how QEMU is to run processors: by KVM only where a kernel was seen to come up with it."""
    kvm = ["-accel", "kvm", "-cpu", "host"]
    # Without a root file system the kernel panics at once, and the machine ends.
    trial = ["-M", "q35", "-m", "256", "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"]
    trial += ["-kernel", str(image / "kernel"), "-append", "console=ttyS0 panic=-1"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = run(["qemu-system-x86_64", *kvm, *trial], check=False, timeout=10, stdin=subprocess.DEVNULL)
        if done.returncode == 0 and "Kernel panic" in done.stdout:
            return kvm
    return ["-accel", "tcg,thread=multi"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def process_of(lab: Lab, machine: Machine) -> int | None:
    """Return the QEMU process of the machine, known by its command line and not by its number alone."""
    file = lab.place / f"{machine.name}.pid"
    with contextlib.suppress(OSError, ValueError):
        pid = int(file.read_text(encoding="utf-8"))
        if str(file).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            return pid
    return None


def nic_arguments(lab: Lab, machine: Machine, ends: Sequence[socket.socket]) -> list[str]:
    """Return the NICs to other machines, one at each of the connections."""
    arguments = []
    for number, end in enumerate(ends, start=1):
        mac = f"02:4d:56:{lab.machines.index(machine):02x}:00:{number:02x}"
        # QEMU 7.2's "-netdev stream" stalls for good under load in both directions; this older one does not.
        arguments += ["-netdev", f"socket,id=n{number},fd={end.fileno()}"]
        place = f"bus=pcie.0,addr={FIRST_NIC + number - 1:#x}"
        arguments += ["-device", f"virtio-net-pci,netdev=n{number},mac={mac},{place}"]
    return arguments


def drive_arguments(lab: Lab, machine: Machine) -> list[str]:
    """Return the NVMe drives of a machine, each made where it is not there yet."""
    arguments = []
    for number, serial in enumerate(machine.drives):
        file = lab.place / f"{machine.name}-{serial}.qcow2"
        if not file.exists():
            run(["qemu-img", "create", "-q", "-f", "qcow2", file, DRIVE_SIZE])
        arguments += ["-drive", f"file={file},if=none,id=d{number},cache=unsafe"]
        arguments += ["-device", f"nvme,serial={serial},drive=d{number},bus=pcie.0,addr={FIRST_DRIVE + number:#x}"]
    return arguments


def numa_arguments(machine: Machine) -> list[str]:
    """Return the processors of a machine, each in a socket of its own, and the memory beside each."""
    if machine.numa_nodes == 1:
        return []
    arguments = ["-smp", f"{machine.numa_nodes},sockets={machine.numa_nodes}"]
    for node in range(machine.numa_nodes):
        arguments += ["-object", f"memory-backend-ram,id=m{node},size={machine.memory_mib // machine.numa_nodes}M"]
        arguments += ["-numa", f"node,nodeid={node},cpus={node},memdev=m{node}"]
    return arguments


def start(lab: Lab, machine: Machine, image: Path, processor: Sequence[str], ends: Sequence[socket.socket]) -> int:
    """Start the machine on a disk of its own and return the port of this machine where its ssh answers."""
    disk, port = lab.place / f"{machine.name}.qcow2", free_port()
    if not disk.exists():
        run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", image / "root.img", disk])
    gateway, own = f"{machine.address.rpartition('.')[0]}.2", f"{machine.name}:eth0:off"
    boot = f"{KERNEL_ARGUMENTS} ip={machine.address}::{gateway}:255.255.255.0:{own} systemd.hostname={machine.name}"
    management = f"user,id=n0,restrict=on,ipv6=off,net={gateway}/24,hostfwd=tcp:127.0.0.1:{port}-{machine.address}:22"
    command = ["qemu-system-x86_64", "-name", machine.name, "-M", "q35", *processor, "-m", str(machine.memory_mib)]
    command += ["-nodefaults", "-display", "none", "-serial", f"file:{lab.place / machine.name}.console"]
    command += ["-kernel", str(image / "kernel"), "-initrd", str(image / "initrd"), "-append", boot]
    # What is lost when this machine loses power is thrown away anyway.
    command += ["-drive", f"file={disk},if=virtio,cache=unsafe", "-device", "virtio-rng-pci"]
    command += ["-netdev", management, "-device", "virtio-net-pci,netdev=n0", *nic_arguments(lab, machine, ends)]
    command += [*numa_arguments(machine), *drive_arguments(lab, machine)]
    command += ["-daemonize", "-pidfile", str(lab.place / f"{machine.name}.pid")]
    run(command, pass_fds=[end.fileno() for end in ends])
    return port


def start_all(lab: Lab, image: Path, processor: Sequence[str]) -> list[int]:
    """Start all machines and return their ports; the two of each network have a connection between them."""
    networks = {nic: list(socket.socketpair()) for machine in lab.machines for nic in machine.nics}
    with contextlib.ExitStack() as stack:
        for end in [end for pair in networks.values() for end in pair]:
            stack.enter_context(end)
        ends = [[networks[nic].pop(0) for nic in machine.nics] for machine in lab.machines]
        return [start(lab, each, image, processor, own) for each, own in zip(lab.machines, ends, strict=True)]


def stop(lab: Lab) -> None:
    """End the machines as by a power cut."""
    pids = [pid for machine in lab.machines if (pid := process_of(lab, machine))]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.02)


def ssh(lab: Lab, machine: Machine, *argv: str) -> list[str]:
    """Return the argv that runs a shell command on the machine."""
    return ["ssh", "-F", str(lab.place / "ssh_config"), machine.name, *argv]


def on(lab: Lab, machine: Machine, command: str, check: bool = True) -> str:
    """Return what a shell command prints on the machine; raise LabError when it fails, unless told otherwise."""
    return run(ssh(lab, machine, command), check=check, timeout=BOOT_SECONDS).stdout


def write_ssh_config(lab: Lab, ports: Sequence[int]) -> None:
    """Write where ssh finds the machines, by name and by address."""
    entries = [
        f"Host {machine.name} {machine.address}\n  HostName 127.0.0.1\n  Port {port}\n  HostKeyAlias {machine.name}\n"
        for machine, port in zip(lab.machines, ports, strict=True)
    ]
    common = f"Host *\n  User root\n  IdentityFile {lab.place}/id_ed25519\n  BatchMode yes\n  ConnectTimeout 10\n"
    # Keys are made at first boot, and nobody else listens on the ports of machines that this user has just started.
    common += f"  UserKnownHostsFile {lab.place}/known_hosts\n  StrictHostKeyChecking accept-new\n"
    write(lab.place / "ssh_config", "".join(entries) + common)


def wait_for_boot(lab: Lab, machine: Machine, before: str = "") -> None:
    """Wait until the machine has come up, with another boot id than ``before``. Raises LabError."""
    deadline = time.monotonic() + BOOT_SECONDS
    ready = f"cat {BOOT_ID}; systemctl is-system-running --wait; systemctl --failed --plain --no-legend"
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            boot_id, state, *failed = [*on(lab, machine, ready, check=False).split("\n", maxsplit=2), "", ""][:3]
            if state == "degraded":
                raise LabError(f"units failed at boot: {failed[0].strip()}")
            if state == "running" and boot_id != before:
                return
        if time.monotonic() > deadline:
            raise LabError(f"not up within {BOOT_SECONDS} s; see {lab.place / machine.name}.console")
        time.sleep(0.5)


def each(machines: Sequence[Machine], work: Callable[[Machine], object]) -> None:
    """Do the same for all machines at once; all errors are told."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(machines)) as pool:
        errors = [future.exception() for future in [pool.submit(work, machine) for machine in machines]]
    failed = [f"{machine.name}: {error}" for machine, error in zip(machines, errors, strict=True) if error]
    if failed:
        raise LabError("\n".join(failed))


# --- commands ----------------------------------------------------------------------------------------------------


def up(lab: Lab, lock: int) -> None:
    """Start all machines with new disks, unless they run."""
    step = Steps(sys.stdout)
    with step("packages of this machine"):
        install_needed(NEEDED, NEEDED_FILES)
    if all(process_of(lab, machine) for machine in lab.machines):
        return
    down(lab)
    with step("image"):
        if not (lab.place / "id_ed25519").exists():
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "muster-lab", "-f", lab.place / "id_ed25519"])
        image = build_image(lab, lock)
    with step("processors"):
        processor = accelerator(image)
    with step(f"{len(lab.machines)} machines ({' '.join(processor)})"):
        write_ssh_config(lab, start_all(lab, image, processor))
    with step("boot"):
        each(lab.machines, lambda machine: wait_for_boot(lab, machine))
    step.total()


def down(lab: Lab) -> None:
    """Remove the machines and all that they wrote; the image stays for the next ones."""
    stop(lab)
    for entry in lab.place.iterdir():
        if entry.is_file() and entry.name != "lock" and not entry.name.startswith("id_ed25519"):
            entry.unlink()


def reboot(lab: Lab, machines: Sequence[Machine]) -> None:
    """Boot machines anew, all at once, by their own systemd; what they wrote stays."""

    def once(machine: Machine) -> None:
        before = on(lab, machine, f"cat {BOOT_ID}").strip()
        on(lab, machine, "systemctl reboot", check=False)
        wait_for_boot(lab, machine, before)

    each(machines, once)


@contextlib.contextmanager
def locked(place: Path) -> Iterator[int]:
    """Keep two runs from changing the lab at the same time; long children inherit the lock."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="vm.py", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("machines", type=Path, help="a scenario's vars/machines.yml")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("up", help="start the machines with new disks, unless they run")
    commands.add_parser("down", help="remove the machines and what they wrote; keeps the image")
    commands.add_parser("reboot", help="boot machines anew, all by default").add_argument("names", nargs="*")
    execute = commands.add_parser("exec", help="run a command on a machine")
    execute.add_argument("name")
    execute.add_argument("argv", nargs=argparse.REMAINDER)
    arguments = parser.parse_args(argv)
    lab = read_lab(arguments.machines.resolve())
    if arguments.command == "exec":
        return subprocess.run(ssh(lab, lab.machine(arguments.name), *arguments.argv), check=False).returncode
    with locked(lab.place) as lock:
        if arguments.command == "up":
            if os.geteuid():
                raise LabError("the image needs root: it is made with mmdebstrap in a directory")
            up(lab, lock)
        elif arguments.command == "down":
            down(lab)
        else:
            reboot(lab, lab.only(arguments.names))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(f"vm: {error}")
