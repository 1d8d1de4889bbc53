"""Run in fresh namespaces as root: ask the programs of an unpacked system, and print what they gave as JSON.

What is written goes to a layer in memory above the system's directory. Of /proc and /sys nothing can be set, and no
device is there but those that give and take nothing.
"""

import encodings.idna  # noqa: F401 -- what a socket loads when it is used, which is too late inside
import json
import os
import subprocess
import sys
from pathlib import Path

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/nvidia/current",
    "LC_ALL": "C",
    "HOME": "/root",
    # The lab's library in NVML's place, for nvidia-smi and for what loads it.
    "LD_LIBRARY_PATH": "/opt/muster",
}
# Each of the machine's own; a GPU's file has to be a device for Slurm, which one it does not ask.
DEVICES = {name: name for name in ("null", "zero", "full", "random", "urandom")} | {
    f"nvidia{index}": "null" for index in range(8)
}
CLOSED = ("bus", "irq", "sys", "sysrq-trigger")


def mount(*words: str) -> None:
    """Mount something, here alone."""
    subprocess.run(["mount", *words], check=True)


def lay(root: Path, place: Path) -> Path:
    """Return where below a place the system lies, with a layer of its own and all that its programs look for."""
    place.mkdir(exist_ok=True)
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(place))
    above, work, new = (place / name for name in ("above", "work", "root"))
    for each in (above, work, new):
        each.mkdir()
    mount("-t", "overlay", "-o", f"lowerdir={root},upperdir={above},workdir={work}", "overlay", str(new))
    mount("-t", "proc", "proc", f"{new}/proc")
    for name in CLOSED:
        if (new / "proc" / name).exists():
            mount("--bind", f"{new}/proc/{name}", f"{new}/proc/{name}")
            mount("-o", "remount,ro,bind", f"{new}/proc/{name}")
    mount("-t", "sysfs", "-o", "ro", "sysfs", f"{new}/sys")
    for name, mode in {"run": "755", "tmp": "1777", "dev": "755"}.items():
        mount("-t", "tmpfs", "-o", f"mode={mode}", "tmpfs", f"{new}/{name}")
    for name, device in DEVICES.items():
        (new / "dev" / name).touch()
        mount("--bind", f"/dev/{device}", f"{new}/dev/{name}")
    (new / "dev/shm").mkdir(mode=0o1777)
    for name in ("passwd", "group"):
        # What package base-passwd would have made of it.
        (new / "etc" / name).write_bytes((new / f"usr/share/base-passwd/{name}.master").read_bytes())
    return new


def enter(root: Path, other: Path | None) -> None:
    """Make the system the whole of what this process sees; within it lies the other one (slurm_cluster.OTHER)."""
    mount("--make-rprivate", "/")
    new = lay(root, root.with_name(f"{root.name}.inside"))
    if other:
        lay(other, Path(f"{new}{slurm_cluster.OTHER}").parent)
    os.chroot(new)
    os.chdir("/")
    os.environ.clear()
    os.environ.update(ENVIRONMENT)
    # An interface to ask about; its other end stays unused.
    subprocess.run(["ip", "link", "add", "rail0", "type", "veth", "peer", "name", "other"], check=True)


def ask(argv: list[str], user: str, seconds: float) -> dict[str, object]:
    """Return what a program gave to a user."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
            **({} if user == "root" else {"user": slurm_cluster.USERS[user], "group": slurm_cluster.USERS[user]}),
        )
    except FileNotFoundError:
        return {"rc": None, "stdout": "", "stderr": f"{argv[0]}: not there"}
    except subprocess.TimeoutExpired:
        return {"rc": None, "stdout": "", "stderr": f"{argv[0]}: still runs after {seconds} s"}
    stdout, stderr = (each.decode(errors="replace") for each in (done.stdout, done.stderr))
    return {"rc": done.returncode, "stdout": stdout, "stderr": stderr}


def main() -> None:
    """Answer what stdin asks."""
    asked = json.load(sys.stdin)
    enter(Path(asked["root"]), Path(asked["other"]) if asked["other"] else None)
    if asked["cluster"]:
        slurm_cluster.start(asked["files"])
    if asked["other"]:
        slurm_cluster.start_other()
    print(json.dumps([ask(argv, user, asked["seconds"]) for argv, user in asked["asked"]]))
    sys.stdout.flush()
    # The cluster ends with the process namespace.
    os._exit(0)


sys.path.insert(0, str(Path(__file__).parent))
import slurm_cluster  # noqa: E402 -- found only now

main()
