#!/usr/bin/env python3
"""Container lab: hosts with systemd and ssh of their own, H100 tools simulated from one state file per host.

Hosts, addresses and faults come from the inventory; what is running is asked of podman, so that a run that was
killed half way is repaired by the next one. Everything lies under build/lab (build/$MUSTER_LAB) and, while the lab is
up, under /run/muster-lab-*.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, TextIO

import lab_gpus
import nvidia
from lab_files import copy, write, write_files
from lab_inventory import InventoryError, read_inventory
from lab_machine import ROOT, LabError, install_needed, run
from lab_state import HEALTHY, StateError, assignments, changed, declared
from lab_systems import DEFAULT_SUITE, SYSTEMS, mmdebstrap

HERE = Path(__file__).resolve().parent
# A second lab of the same checkout has another name, and its inventory another subnet.
BUILD = ROOT / "build" / os.environ.get("MUSTER_LAB", "lab")
# On tmpfs, so that a restart of the machine leaves podman nothing stale to believe in.
RUN = Path("/run") / f"muster-lab-{hashlib.sha256(str(BUILD).encode()).hexdigest()[:8]}"
# Unlike a bridge or a store of one's own, podman's list of given addresses is shared by all of its networks.
NETWORK = RUN.name
LOCKS = ROOT / "locks"
TORCH = "2.13.0"
# Command -> Debian or Ubuntu package.
NEEDED = {
    "podman": "podman",
    "mmdebstrap": "mmdebstrap",
    "crun": "crun",
    "ip": "iproute2",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "ssh-keyscan": "openssh-client",
}
NEEDED_FILES = {
    "/usr/lib/podman/netavark": "netavark",
    nvidia.KEYRING: "debian-archive-keyring",
}
BOOT_SECONDS = 60
HOLDER = "import signal; signal.pause()"
HOLDER_NAME = "muster-lab-holder"
RECIPE_LABEL = "muster-lab-recipe"


@dataclass(frozen=True)
class LabHost:
    """One host as the inventory declares it; ``state`` is what its simulated hardware shows."""

    name: str
    container: str
    address: str
    compute: bool
    state: Mapping[str, Any]
    # Where the host sees the one directory that all hosts with such a place share; empty for none.
    shared: str = ""
    suite: str = DEFAULT_SUITE

    @property
    def directory(self) -> Path:
        """What the host sees as /opt/lab."""
        return BUILD / "hosts" / self.name


@dataclass(frozen=True)
class Lab:
    """All hosts of one cluster and the network between them."""

    cluster: str
    subnet: IPv4Network
    hosts: tuple[LabHost, ...]

    def host(self, name: str) -> LabHost:
        """Return the host called ``name``."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise LabError(f"no host {name} in the inventory, found {', '.join(host.name for host in self.hosts)}")


def lab_of(inventory: Mapping[str, Any]) -> Lab:
    """Return the lab that ``ansible-inventory --list`` describes; raise LabError where it says too little."""
    hostvars: Mapping[str, Mapping[str, Any]] = inventory.get("_meta", {}).get("hostvars", {})
    if not hostvars:
        raise LabError("the inventory has no hosts")
    compute = set(inventory.get("compute", {}).get("hosts", ()))
    hosts = []
    cluster = subnet = ""
    for name, variables in sorted(hostvars.items()):
        try:
            cluster, subnet = str(variables["muster_fleet"]["cluster"]), str(variables["lab_subnet"])
            address = str(variables["ansible_host"])
        except KeyError as exc:
            raise LabError(f"inventory host {name}: no variable {exc}, which the lab needs") from exc
        try:
            state = declared(
                name,
                parts=variables.get("muster_expect", {}).get("gpu", {}).get("parts"),
                faults=variables.get("lab_state") or {},
                network_mbps=variables.get("lab_network_mbps"),
                rails=rails_of(variables),
            )
        except StateError as exc:
            raise LabError(f"inventory host {name}: {exc}") from exc
        suite = variables.get("lab_suite", DEFAULT_SUITE)
        if suite not in SYSTEMS:
            raise LabError(f"inventory host {name}: lab_suite {suite}, expected one of {', '.join(SYSTEMS)}")
        shared = str(variables.get("lab_shared") or "")
        hosts.append(LabHost(name, f"{cluster}-{name}", address, name in compute, state, shared, suite))
    return Lab(cluster, IPv4Network(subnet), tuple(hosts))


def rails_of(variables: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rails that the host's class declares, each with its address, switch and port in the fleet file."""
    rails = (variables.get("muster_expect", {}).get("nic") or {}).get("rails")
    if rails is None:
        return None
    places = {rail["rail"]: rail for rail in variables.get("muster_node", {}).get("rails", ())}
    return [{**rail, **_place(places.get(rail["rail"], {}))} for rail in rails]


def _place(rail: Mapping[str, Any]) -> dict[str, Any]:
    ip = (rail.get("address") or "").partition("/")[0]
    return {"ip": ip, "switch": rail.get("switch"), "port": rail.get("port")}


def read_lab(inventory: str) -> Lab:
    """Ask ansible-inventory, which knows every form that an inventory can have."""
    try:
        return lab_of(read_inventory(inventory))
    except InventoryError as exc:
        raise LabError(str(exc)) from exc


# --- the machine below -------------------------------------------------------------------------------------------


def processes() -> Iterator[tuple[int, list[str]]]:
    """Yield pid and command line of every process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(entry.name), (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]


def is_hybrid() -> bool:
    """Say whether cgroup v1 and v2 are mixed here, which crun refuses."""
    return Path("/sys/fs/cgroup/unified").exists()


def holder_command() -> list[str]:
    return [sys.executable, "-c", HOLDER, HOLDER_NAME, str(BUILD)]


def find_holder() -> int | None:
    """Return the process that keeps the lab's mount namespace; it is known by its command line, not by a file."""
    wanted = holder_command()[1:]
    return next((pid for pid, argv in processes() if argv[1:] == wanted), None)


def monitors() -> list[int]:
    """Return the container monitors of this lab, each of which lives in the lab's mount namespace too."""
    store = str(BUILD / "podman")
    return [pid for pid, argv in processes() if argv and Path(argv[0]).name == "conmon" and _below(store, argv)]


def _below(store: str, argv: Sequence[str]) -> bool:
    return any(word.startswith(store + "/") for word in argv)


def start_holder() -> int:
    """Start a process in a mount namespace with a pure cgroup2 view, or in the one that containers still live in."""
    survivors = monitors()
    if survivors:
        enter = ["nsenter", "-t", str(survivors[0]), "-m"]
    else:
        # Podman keeps one list of given addresses per machine; this namespace's must not outlive it.
        own, shared = RUN / "networks", "/run/containers/networks"
        script = (
            "umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup"
            f' && mkdir -p {own} {shared} && mount --bind {own} {shared} && exec "$@"'
        )
        enter = ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh"]
    log = BUILD / "holder.log"
    with log.open("w", encoding="utf-8") as file:
        child = subprocess.Popen(
            [*enter, *holder_command()], stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if (pid := find_holder()) is not None:
            return pid
        if child.poll() is not None:
            break
        time.sleep(0.02)
    raise LabError(f"no mount namespace with cgroup2 alone: {log.read_text(encoding='utf-8').strip()}")


# --- podman ------------------------------------------------------------------------------------------------------


class Podman:
    """Podman with a store, networks and settings of the lab's own."""

    def __init__(self) -> None:
        self.store = BUILD / "podman"
        self.prefix: list[str] = []
        self.hybrid = is_hybrid()
        self.environment = {**os.environ, "CONTAINERS_CONF": str(BUILD / "containers.conf")}

    def ready(self) -> bool:
        """Say whether commands can run: always on an ordinary machine, else while the holder lives."""
        if not self.hybrid:
            return self.store.exists() and RUN.exists()
        holder = find_holder()
        self.prefix = ["nsenter", "-t", str(holder), "-m"] if holder else []
        return bool(holder) and self.store.exists() and RUN.exists()

    def open(self) -> None:
        """Make commands possible; a store whose namespace is gone is thrown away."""
        BUILD.mkdir(parents=True, exist_ok=True)
        if self.hybrid and find_holder() is None:
            if not monitors():
                self.erase()
            start_holder()
        elif not RUN.exists():
            self.erase()
        systemd = Path("/run/systemd/system").exists() and not self.hybrid
        settings = [
            "[containers]",
            # Where the process may not raise limits, podman's own default is refused.
            'default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]',
            "pids_limit = 0",
            "[engine]",
            f'cgroup_manager = "{"systemd" if systemd else "cgroupfs"}"',
            'events_logger = "file"',
            # Locks in shared memory would be shared with every other store of the machine.
            'lock_type = "file"',
            "[network]",
            'network_backend = "netavark"',
            f'network_config_dir = "{self.store}/networks"',
        ]
        (self.store / "networks").mkdir(parents=True, exist_ok=True)
        RUN.mkdir(exist_ok=True)
        (BUILD / "containers.conf").write_text("\n".join(settings) + "\n", encoding="utf-8")
        if not self.ready():
            raise LabError("podman's place did not become ready")

    def command(self, *arguments: str | Path) -> list[str]:
        """Return the whole argv of one podman command."""
        place = [f"--root={self.store}/storage", f"--runroot={RUN}/containers", f"--tmpdir={RUN}/tmp"]
        return [*self.prefix, "podman", *place, *map(str, arguments)]

    def __call__(self, *arguments: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
        return run(self.command(*arguments), env=self.environment, **more)

    def containers(self, recipes: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return container name -> status (``running``, ``exited``, ... or ``stale``: not of ``recipes``)."""
        listed = json.loads(self("ps", "--all", "--format", "json").stdout)
        found = {}
        for container in listed:
            name, label = container["Names"][0], (container["Labels"] or {}).get(RECIPE_LABEL)
            stale = recipes is not None and (label is None or label != recipes.get(name))
            found[name] = "stale" if stale else container["State"]
        return found

    def orphans(self) -> list[int]:
        """Return what still runs in containers of this store, for when their monitors were killed."""
        names = [f"libpod-{entry.name}" for entry in (self.store / "storage" / "overlay-containers").glob("?" * 64)]
        found = []
        for pid, _ in processes() if names else ():
            with contextlib.suppress(OSError):
                cgroup = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
                if any(name in cgroup for name in names):
                    found.append(pid)
        return found

    def erase(self) -> None:
        """Remove store, namespace and mounts; whatever still runs in them is killed."""
        if self.ready() and (BUILD / "containers.conf").exists():
            self("rm", "--all", "--force", "--time=0", check=False)
            # Also takes the bridge away, which outlives containers that were killed from outside.
            for network in (self.store / "networks").glob("*.json"):
                self("network", "rm", "--force", network.stem, check=False)
        for pid in [*monitors(), *self.orphans(), *([holder] if (holder := find_holder()) else [])]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for place in (BUILD, RUN):
            for line in reversed(Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()):
                mount = line.split()[1]
                if mount.startswith(f"{place}/"):
                    run(["umount", "--lazy", mount], check=False)
        for place in (self.store, RUN):
            if place.exists():
                shutil.rmtree(place)
        for bridge in stray_bridges():
            run(["ip", "link", "delete", bridge], check=False)
        for parent in ("/sys/fs/cgroup/unified/libpod_parent", "/sys/fs/cgroup/libpod_parent"):
            for group in (*Path(parent).glob("*/"), Path(parent)):
                # Refused while another podman's containers live in it.
                with contextlib.suppress(OSError):
                    group.rmdir()


# --- steps of `up` -----------------------------------------------------------------------------------------------


def recipe_hash(suite: str) -> str:
    """Return a hash over everything that goes into the image of a suite."""
    digest = hashlib.sha256(f"{suite} {SYSTEMS[suite].components}".encode())
    for path in sorted((HERE / "image").rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(HERE)} {path.stat().st_mode & 0o111:o} ".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def words(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line and not line.startswith("#")]


def build_tarball(suite: str, lock: int) -> Path:
    """Return the tarball of a suite's image, built when the recipe has changed or was never built."""
    tarball = BUILD / f"image-{suite}-{recipe_hash(suite)}.tar"
    if tarball.exists():
        return tarball
    unfinished = tarball.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    recipe = HERE / "image"
    command = [*mmdebstrap(suite), "--format=tar", "--skip=cleanup/apt"]
    command += [f"--include={','.join(words(recipe / 'installed.txt'))}"]
    command += [f"--dpkgopt={recipe}/files/etc/dpkg/dpkg.cfg.d/lab", f"--customize-hook={recipe}/customize.sh"]
    run([*command, suite, unfinished], pass_fds=[lock])
    for old in BUILD.glob(f"image-{suite}-*"):
        if old != unfinished:
            old.unlink()
    return unfinished.rename(tarball)


def import_image(podman: Podman, suite: str, lock: int) -> str:
    """Return the name of a suite's image, imported when podman does not have it."""
    name = f"localhost/muster-lab:{suite}-{recipe_hash(suite)}"
    tarball = build_tarball(suite, lock)
    if podman("image", "exists", name, check=False).returncode:
        podman("import", "--quiet", tarball, name, pass_fds=[lock])
    return name


def torch_place(python: tuple[int, int]) -> Path:
    """Return where the environment with PyTorch for a Python of hosts lies."""
    return BUILD / "pytorch-{}.{}".format(*python)


def torch_packages(python: tuple[int, int]) -> Path:
    """Return where that environment has its packages."""
    return torch_place(python) / "lib/python{}.{}/site-packages".format(*python)


def install_torch(python: tuple[int, int], lock: int) -> None:
    """Install PyTorch for a Python of hosts, which need not be the control machine's, as an environment of theirs.

    A virtual environment is known by its pyvenv.cfg (PEP 405); this one is only ever used where it is mounted.
    """
    place = torch_place(python)
    if (torch_packages(python) / "numpy").exists():
        return
    unfinished = BUILD / "pytorch.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    (unfinished / "bin").mkdir(parents=True)
    (unfinished / "bin/python3").symlink_to("/usr/bin/python3")
    version = "{}.{}".format(*python)
    settings = f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {version}\n"
    (unfinished / "pyvenv.cfg").write_text(settings, encoding="utf-8")
    packages = unfinished / torch_packages(python).relative_to(place)
    # Compiled here it loads in a third of the time there, where it cannot be kept compiled.
    compiled = "--compile" if sys.version_info[:2] == python else "--no-compile"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", compiled]
    pip += ["--target", str(packages), f"--python-version={version}", "--only-binary=:all:"]
    # The CPU build where pip finds one; the ordinary one works as well, but brings gigabytes of CUDA. LAB_PIP_ARGS may
    # name an index that has another CPU build, whose hash is not known here.
    tries = [["--require-hashes", f"--requirement={LOCKS / name}"] for name in ("lab_cpu.txt", "lab.txt")]
    if "LAB_PIP_ARGS" in os.environ:
        tries = [[f"torch=={TORCH}", "numpy", *os.environ["LAB_PIP_ARGS"].split()]]
    failures = []
    for arguments in tries:
        done = run([*pip, *arguments], check=False, pass_fds=[lock])
        if done.returncode == 0:
            shutil.rmtree(place, ignore_errors=True)
            unfinished.rename(place)
            return
        failures.append(f"pip install {' '.join(arguments)}: {done.stderr.strip()}")
    raise LabError("no PyTorch for the hosts (LAB_PIP_ARGS gives pip other arguments):\n" + "\n".join(failures))


def prepare_key() -> None:
    """Make the ssh key with which the control machine reaches the hosts."""
    key = BUILD / "id_ed25519"
    if not key.exists():
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "muster-lab", "-f", key])


def write_host(host: LabHost, state: Mapping[str, Any]) -> None:
    """Write what the host sees under /opt/lab: state, tools, the files below its root."""
    (host.directory / "root").mkdir(parents=True, exist_ok=True)
    host.directory.chmod(0o755)
    shutil.copyfile(BUILD / "id_ed25519.pub", host.directory / "authorized_keys")
    write(host.directory / "state.json", json.dumps(state, indent=2, sort_keys=True) + "\n")
    if not host.compute:
        return
    write_files(host.directory, state)
    make_devices(host.directory / "root" / "dev", len(state["gpus"]))
    install_tools(host.directory, state)


def make_devices(place: Path, count: int) -> None:
    """Make the driver's device files, which Slurm asks for their numbers; nobody is behind them."""
    place.mkdir(exist_ok=True)
    for number in range(count):
        device = place / f"nvidia{number}"
        if not device.is_char_device():
            device.unlink(missing_ok=True)
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(195, number))


def install_tools(place: Path, state: Mapping[str, Any]) -> None:
    """Copy the host's tools to ``place``/bin and what they share to ``place``/lib, NVIDIA's nvidia-smi among it."""
    for part in ("bin", "lib"):
        (place / part).mkdir(parents=True, exist_ok=True)
    for source in (HERE / "tools").iterdir():
        if not source.is_file():
            continue
        text = source.read_text(encoding="utf-8")
        if source.suffix:
            write(place / "lib" / source.name, text)
            continue
        missing = state["tool_faults"].get(source.name) == "missing"
        # A missing tool must not uncover a real one further down the PATH: what cannot be started hides it.
        write(place / "bin" / source.name, "#!/nonexistent\n" if missing else text, 0o755)
    for source in nvidia.made():
        copy(source, place / "lib" / source.name)
    for name, text in lab_gpus.files_of(state).items():
        write(place / "lib" / name, text)


def read_state(host: LabHost) -> dict[str, Any]:
    """Return the state that the host shows now."""
    try:
        state: dict[str, Any] = json.loads((host.directory / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise LabError(f"{host.name} has no state yet ({exc}); is the lab up?") from exc
    # A lab that was brought up by an older checkout knows fewer kinds of fault.
    return {**HEALTHY, **state}


def bridge_name() -> str:
    return f"mlab-{RUN.name.rsplit('-', 1)[1]}"


def stray_bridges() -> list[str]:
    """Return the lab's bridge if it still exists."""
    return [bridge_name()] if Path("/sys/class/net", bridge_name()).exists() else []


def is_abandoned(interface: Path) -> bool:
    """Return whether ``interface`` is the bridge of another checkout's lab whose hosts are all gone.

    Hosts that are killed instead of taken down leave their bridge behind, and with it its address.
    """
    ports = interface / "brif"
    return interface.name.startswith("mlab-") and ports.is_dir() and not any(ports.iterdir())


def create_network(podman: Podman, lab: Lab) -> None:
    """Create the network: no name service, no way out."""
    file = podman.store / "networks" / f"{NETWORK}.json"
    wanted = {
        "name": NETWORK,
        "id": hashlib.sha256(NETWORK.encode()).hexdigest(),
        "driver": "bridge",
        "network_interface": bridge_name(),
        "created": "2024-01-01T00:00:00Z",
        "subnets": [{"subnet": str(lab.subnet), "gateway": str(lab.subnet[1])}],
        "ipv6_enabled": False,
        "internal": True,
        "dns_enabled": False,
        "ipam_options": {"driver": "host-local"},
    }
    if file.exists() and json.loads(file.read_text(encoding="utf-8")) == wanted:
        return
    for line in run(["ip", "-o", "-4", "address", "show", "to", str(lab.subnet)]).stdout.splitlines():
        if (interface := line.split()[1]) == bridge_name():
            continue
        if not is_abandoned(Path("/sys/class/net", interface)):
            raise LabError(f"{lab.subnet} is in use by {interface}; give the inventory another lab_subnet")
        run(["ip", "link", "delete", interface])
    podman("rm", "--all", "--force", "--time=0")
    write(file, json.dumps(wanted, indent=2))


def mac_of(address: str) -> str:
    """Return a hardware address that stays the host's, so that no neighbour remembers an old one."""
    return "02:4d:" + ":".join(f"{int(part):02x}" for part in address.split("."))


def run_arguments(host: LabHost, image: str) -> list[str]:
    """Return the arguments of `podman run` for one host."""
    arguments = ["--name", host.container, "--hostname", host.name, "--network", NETWORK]
    arguments += ["--ip", host.address, "--mac-address", mac_of(host.address), "--no-hosts", "--dns=none"]
    arguments += ["--privileged", "--systemd=always", "--pids-limit=-1", "--shm-size=512m", "--stop-timeout=10"]
    arguments += [f"--volume={host.directory}:/opt/lab"]
    if host.compute:
        # /opt/muster/pytorch leads there (image/files/etc/tmpfiles.d).
        arguments += [f"--volume={torch_place(SYSTEMS[host.suite].python)}:/opt/muster/pytorch-lab:ro"]
    if host.shared:
        arguments += [f"--volume={BUILD / 'shared'}:{host.shared}"]
    return [*arguments, image, "/sbin/init"]


def start_hosts(podman: Podman, lab: Lab, images: Mapping[str, str]) -> None:
    """Start what does not run; make anew what was made by another recipe, remove what the inventory does not know."""
    recipes = {
        host.container: hashlib.sha256(" ".join(run_arguments(host, images[host.suite])).encode()).hexdigest()[:12]
        for host in lab.hosts
    }
    status = podman.containers(recipes)
    for unwanted in [name for name, state in status.items() if state == "stale"]:
        podman("rm", "--force", "--time=0", unwanted)

    def start(host: LabHost) -> None:
        state = status.get(host.container, "stale")
        if state == "running":
            podman("exec", host.container, "/usr/local/lib/lab/link")
        elif state == "stale" or podman("start", host.container, check=False).returncode:
            podman("rm", "--force", "--ignore", "--time=0", host.container)
            label = f"--label={RECIPE_LABEL}={recipes[host.container]}"
            podman("run", "--detach", label, *run_arguments(host, images[host.suite]))

    each(lab.hosts, start)


def scan_keys(lab: Lab) -> None:
    """Wait until every host answers on its ssh port, and write their keys to known_hosts."""
    names = {host.address: host.name for host in lab.hosts}
    found: dict[str, str] = {}
    deadline = time.monotonic() + BOOT_SECONDS
    while len(found) < len(names):
        missing = sorted(set(names) - set(found))
        for line in run(["ssh-keyscan", "-T", "2", "-t", "ed25519", *missing], check=False).stdout.splitlines():
            if not line.startswith("#") and len(fields := line.split()) == 3:
                found[fields[0]] = f"{names[fields[0]]},{line}"
        if len(found) < len(names):
            if time.monotonic() > deadline:
                late = ", ".join(names[address] for address in missing)
                raise LabError(f"no ssh on {late} within {BOOT_SECONDS} s; see: lab.py exec HOST journalctl -b")
            time.sleep(0.2)
    write(BUILD / "known_hosts", "".join(f"{found[address]}\n" for address in sorted(found)))
    entries = [f"Host {host.name}\n  HostName {host.address}\n" for host in lab.hosts]
    common = (
        f"Host *\n  User root\n  IdentityFile {BUILD / 'id_ed25519'}\n  UserKnownHostsFile {BUILD / 'known_hosts'}\n"
    )
    write(BUILD / "ssh_config", "".join(entries) + common)


class Steps:
    """Prints each step with the seconds it took."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.began = time.monotonic()

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        print(f"{time.monotonic() - began:7.1f} s  {name}", file=self.out, flush=True)

    def total(self) -> None:
        print(f"{time.monotonic() - self.began:7.1f} s  in all", file=self.out, flush=True)


def each(hosts: Sequence[LabHost], work: Callable[[LabHost], object]) -> None:
    """Do the same for all hosts at once; all errors are told."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(hosts)) as pool:
        errors = [future.exception() for future in [pool.submit(work, host) for host in hosts]]
    failed = [f"{host.name}: {error}" for host, error in zip(hosts, errors, strict=True) if error]
    if failed:
        raise LabError("\n".join(failed))


# --- commands ----------------------------------------------------------------------------------------------------


def up(lab: Lab, podman: Podman, lock: int) -> None:
    """Bring the lab to what the inventory declares, from wherever it is."""
    step = Steps(sys.stdout)
    with step("packages of this machine"):
        install_needed(NEEDED, NEEDED_FILES)
    with step("place for the containers"):
        podman.open()
    for python in sorted({SYSTEMS[host.suite].python for host in lab.hosts if host.compute}):
        with step("PyTorch {} for Python {}.{}".format(TORCH, *python)):
            install_torch(python, lock)
    images = {}
    for suite in sorted({host.suite for host in lab.hosts}):
        with step(f"image of {SYSTEMS[suite].name}"):
            images[suite] = import_image(podman, suite, lock)
    with step("network, keys, state of the hosts"):
        prepare_key()
        create_network(podman, lab)
        (BUILD / "shared").mkdir(exist_ok=True)
        for host in lab.hosts:
            write_host(host, host.state)
    with step(f"{len(lab.hosts)} hosts"):
        start_hosts(podman, lab, images)
    with step("ssh"):
        scan_keys(lab)
    step.total()


def down(podman: Podman, everything: bool) -> None:
    """Remove every trace of the lab; image and PyTorch are kept for the next one unless ``everything`` goes."""
    podman.erase()
    kept = () if everything else ("image-*.tar", "pytorch-*", "lock")
    for entry in BUILD.iterdir() if BUILD.exists() else ():
        if not any(entry.match(pattern) for pattern in kept):
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    if everything:
        shutil.rmtree(BUILD, ignore_errors=True)


def status(lab: Lab, podman: Podman) -> int:
    """Print one line per host; give 0 when all of them run."""
    found = podman.containers() if podman.ready() else {}
    for host in lab.hosts:
        faults = ", ".join(f"{key}={json.dumps(value)}" for key, value in changed(host.name, _state_or_none(host)))
        print(f"{host.name:12} {host.address:15} {found.get(host.container, 'down'):10} {faults}".rstrip())
    return 0 if all(found.get(host.container) == "running" for host in lab.hosts) else 1


def _state_or_none(host: LabHost) -> dict[str, Any] | None:
    try:
        return read_state(host)
    except LabError:
        return None


def set_state(podman: Podman, host: LabHost, texts: Sequence[str]) -> None:
    """Change the faults of one host at once, running or not."""
    state = read_state(host)
    try:
        new = assignments(host.name, state, texts, now=int(time.time()))
    except StateError as exc:
        raise LabError(f"{host.name}: {exc}") from exc
    write_host(host, new)
    if podman.ready() and podman.containers().get(host.container) == "running":
        podman("exec", host.container, "/usr/local/lib/lab/link")


def need(podman: Podman) -> None:
    """Raise LabError when the lab is down."""
    if not podman.ready():
        raise LabError("the lab is down; start it with: lab.py up")


def restart_host(podman: Podman, host: LabHost) -> None:
    """Boot a host that was stopped."""
    podman("start", host.container)
    wait_for_ssh(host)


def wait_for_ssh(host: LabHost) -> None:
    """Wait until the host's sshd answers."""
    deadline = time.monotonic() + BOOT_SECONDS
    while not run(["ssh-keyscan", "-T", "2", "-t", "ed25519", host.address], check=False).stdout:
        if time.monotonic() > deadline:
            raise LabError(f"no ssh on {host.name} within {BOOT_SECONDS} s")
        time.sleep(0.2)


def arguments_of(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lab.py", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--inventory", default="inventory/lab", help="what `ansible-inventory -i` takes")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("up", help="start what is not running; states go back to what the inventory declares")
    everything = commands.add_parser("down", help="remove every trace, the ledger too; keeps image and PyTorch")
    everything.add_argument("--all", action="store_true", help="remove image and PyTorch as well")
    commands.add_parser("status", help="print hosts and faults; status 1 when one does not run")
    state = commands.add_parser("state", help="change faults of a host, e.g. gpus_missing='[\"SXM6\"]'; null clears")
    state.add_argument("host")
    state.add_argument("assignments", nargs="*", metavar="KEY=JSON", help="none: print the state")
    state.add_argument("--stdin", action="store_true", help="begin with the declared state, faults as a JSON mapping")
    execute = commands.add_parser("exec", help="run a command on a host")
    execute.add_argument("host")
    execute.add_argument("argv", nargs=argparse.REMAINDER)
    for name, text in (
        ("stop", "a host goes away, as by a power cut"),
        ("start", "a host comes back"),
        ("reboot", "a host boots anew, with a new boot id"),
        ("discard", "a host and all that is on it is gone; up brings a fresh one"),
    ):
        commands.add_parser(name, help=text).add_argument("host")
    return parser.parse_args(argv)


@contextlib.contextmanager
def locked() -> Iterator[int]:
    """Keep two runs from changing the lab at the same time.

    Long children inherit the lock: what a killed run has left behind is waited for, not run beside.
    """
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another run of lab.py", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def main(argv: Sequence[str] | None = None) -> int:
    arguments = arguments_of(argv)
    if os.geteuid():
        raise LabError("the lab needs root: it starts systemd in containers with a network of their own")
    podman = Podman()
    if arguments.command == "down":
        with locked():
            down(podman, arguments.all)
        return 0
    lab = read_lab(arguments.inventory)
    if arguments.command == "status":
        return status(lab, podman)
    if arguments.command == "up":
        with locked() as lock:
            up(lab, podman, lock)
        return 0
    host = lab.host(arguments.host)
    if arguments.command == "state" and arguments.stdin:
        faults = [f"{key}={json.dumps(value)}" for key, value in json.load(sys.stdin).items()]
        write_host(host, host.state)
        arguments.assignments = [*faults, *arguments.assignments]
    elif arguments.command == "state" and not arguments.assignments:
        print(json.dumps(read_state(host), indent=2, sort_keys=True))
        return 0
    if arguments.command == "exec":
        need(podman)
        command = podman.command("exec", "--interactive", host.container, *arguments.argv)
        return subprocess.run(command, env=podman.environment, check=False).returncode
    with locked():
        need(podman)
        if arguments.command == "state":
            set_state(podman, host, arguments.assignments)
        if arguments.command in ("stop", "reboot"):
            podman("stop", "--time=10" if arguments.command == "reboot" else "--time=0", host.container)
        if arguments.command in ("start", "reboot"):
            restart_host(podman, host)
        if arguments.command == "discard":
            podman("rm", "--force", "--ignore", "--time=0", host.container)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(f"lab: {error}")
