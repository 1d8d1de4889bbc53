"""Run in fresh namespaces as root: ask the programs of an unpacked system, and print what they gave as JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/nvidia/current",
    "LC_ALL": "C",
    "HOME": "/root",
    # The stand-in of NVML, for nvidia-smi and for what loads it.
    "LD_LIBRARY_PATH": "/opt/muster",
}
DEVICES = ("null", "zero", "random", "urandom")


def mount(*words: str) -> None:
    """Mount something, here alone."""
    subprocess.run(["mount", *words], check=True)


def enter(root: Path) -> None:
    """Make the system's directory the whole of what this process sees."""
    mount("--make-rprivate", "/")
    mount("-t", "proc", "proc", f"{root}/proc")
    mount("-t", "sysfs", "-o", "ro", "sysfs", f"{root}/sys")
    mount("-t", "tmpfs", "tmpfs", f"{root}/run")
    mount("-t", "tmpfs", "tmpfs", f"{root}/tmp")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", f"{root}/dev")
    for name in DEVICES:
        (root / "dev" / name).touch()
        mount("--bind", f"/dev/{name}", f"{root}/dev/{name}")
    # An interface to ask about; its other end stays unused.
    subprocess.run(["ip", "link", "add", "rail0", "type", "veth", "peer", "name", "other"], check=False)
    for name in ("passwd", "group"):
        # What package base-passwd would have made of it.
        (root / "etc" / name).write_bytes((root / f"usr/share/base-passwd/{name}.master").read_bytes())
    os.chroot(root)
    os.chdir("/")


def ask(argv: list[str], seconds: float) -> dict[str, object]:
    """Return what a program gave."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, env=ENVIRONMENT, check=False
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
    enter(Path(asked["root"]))
    for path, text in asked["files"].items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    print(json.dumps([ask(argv, asked["seconds"]) for argv in asked["argvs"]]))


main()
