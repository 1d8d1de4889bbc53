"""What mounts say when they are used, as JSON: a program of its own, since a dead server never lets go of who asks it.

``python3 -IS -c SOURCE muster-mount-probe SECONDS PATH...``; needs no other module. Each path is asked by a child that
is given up after SECONDS and never waited for. Prints ``{PATH: {...}}`` with

- ``mountinfo``: its lines of /proc/self/mountinfo, last one on top; "" where nothing is mounted;
- ``free``, ``size``: bytes that an ordinary user may still write, and in all;
- ``write_ms``: what creating, writing (4 KiB), syncing and removing a file took, null where it failed;
- ``error``, ``errno``: why, "" and 0 where nothing did;
- ``array``: of an md device ``state``, ``disks`` and ``present`` members, null elsewhere;
- ``version``: of the file system's kernel module, or of VAST's NFS stack; "" where it tells none;
- ``stuck``: who did not answer in time: "" nobody, "mount" where not even its size was told, "write" where that was.

Files of md: Linux, Documentation/admin-guide/md.rst. It is user muster who writes, as in stage storage, or nobody where
there is no muster: a server takes root for nobody, makes its file, and then refuses to open it.
"""
# Importing pathlib takes longer than all the rest on a sound host.
# ruff: noqa: PTH103, PTH108, PTH110, PTH112, PTH123, PTH208

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import select
import signal
import sys
import time
from typing import Any

MARK = "muster-mount-probe"
USERS = ("muster", "nobody")
_BYTES = 4096
_RUN = "/run/muster-mounts"
# Where clients tell their version that have none in their module: Lustre's, and VAST's, whose modules are named like
# Linux' own (its documentation, "Detecting running version").
_VAST = "/sys/module/sunrpc/parameters/nfs_bundle_version"
VERSIONS = {"lustre": "/sys/fs/lustre/version", "nfs": _VAST, "nfs4": _VAST}


def told(path: str, say: Any) -> None:
    """Use one mount, and say each thing that it answers."""
    size = os.statvfs(path)
    say({"free": size.f_bavail * size.f_frsize, "size": size.f_blocks * size.f_frsize})
    if os.geteuid() == 0:
        import pwd  # noqa: PLC0415 -- only root has another user to become

        known = {each.pw_name: each for each in pwd.getpwall()}
        user = next((known[name] for name in USERS if name in known), None)
        if user:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
    name = f"{path}/.muster-health-{os.uname().nodename}-{os.getpid()}"
    began = time.monotonic()
    try:
        file = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        try:
            os.write(file, bytes(_BYTES))
            os.fsync(file)
        finally:
            os.close(file)
            os.unlink(name)
    except OSError as exc:
        say({"error": exc.strerror or str(exc), "errno": errno.errorcode.get(exc.errno or 0, "")})
        # A server may have made it before it refused to open it.
        with contextlib.suppress(OSError):
            os.unlink(name)
    else:
        say({"write_ms": round((time.monotonic() - began) * 1000, 3)})


def child_of(path: str) -> tuple[int, int]:
    """Start a child that uses the mount; return its number and the end of the pipe where it answers."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return child, reader
    try:
        os.setsid()
        os.dup2(writer, 3)
        # It may outlive everybody; then it must hold nobody's pipe.
        nowhere = os.open("/dev/null", os.O_RDWR)
        for number in range(3):
            os.dup2(nowhere, number)
        os.closerange(4, 1024)

        def say(values: dict[str, Any]) -> None:
            os.write(3, (json.dumps(values) + "\n").encode())

        try:
            told(path, say)
        except OSError as exc:
            say({"error": exc.strerror or str(exc), "errno": errno.errorcode.get(exc.errno or 0, "")})
        say({"done": True})
    finally:
        os._exit(0)


def ask(paths: list[str], seconds: float) -> dict[str, dict[str, Any]]:
    """Return what the mounts say, all asked at once; of one that does not answer what it said until then."""
    deadline = time.monotonic() + seconds
    pipes: dict[int, str] = {}
    children: dict[str, int] = {}
    texts = dict.fromkeys(paths, b"")
    for path in paths:
        if not hangs(path):
            children[path], reader = child_of(path)
            pipes[reader] = path
    while pipes:
        ready = select.select(list(pipes), [], [], max(0.0, deadline - time.monotonic()))[0]
        if not ready:
            break
        for reader in ready:
            data = os.read(reader, 65536)
            texts[pipes[reader]] += data
            if not data:
                os.close(reader)
                del pipes[reader]
    answers: dict[str, dict[str, Any]] = {}
    for path, text in texts.items():
        answer: dict[str, Any] = {"free": None, "size": None, "write_ms": None, "error": "", "errno": ""}
        for line in text.split(b"\n")[:-1]:
            answer.update(json.loads(line))
        done = answer.pop("done", False)
        answer["stuck"] = "" if done else "mount" if answer["size"] is None else "write"
        if path in children:
            end(path, children[path], done)
        answers[path] = answer
    return answers


def place(path: str) -> str:
    """Return the file that remembers who hangs in a mount."""
    return f"{_RUN}/{re.sub('[^A-Za-z0-9]', '_', path)}"


def hangs(path: str) -> bool:
    """Return whether an earlier child still hangs there: a second one would hang beside it, at every examination."""
    try:
        with open(place(path), encoding="ascii") as file:
            pid = int(file.read())
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return MARK.encode() in file.read()
    except (OSError, ValueError):
        return False


def end(path: str, child: int, done: bool) -> None:
    """Take leave of a child: one that hangs is killed, and dies when the kernel lets it."""
    if done:
        os.waitpid(child, 0)
        return
    os.kill(child, signal.SIGKILL)
    time.sleep(0.05)
    if os.waitpid(child, os.WNOHANG)[0] == 0:
        with contextlib.suppress(OSError):
            os.makedirs(_RUN, mode=0o755, exist_ok=True)
            with open(place(path), "w", encoding="ascii") as file:
                file.write(str(child))


def text_of(path: str) -> str:
    """Return a file's text, "" where it has none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def array_of(device: str) -> dict[str, Any] | None:
    """Return what md says of a device, None where it is none of its own."""
    base = f"/sys/dev/block/{device}/md"
    if not os.path.isdir(base):
        return None
    members = [name for name in os.listdir(base) if name.startswith("dev-")]
    # The block device of a drive that was pulled is gone, though the array may not have noticed yet.
    present = [
        name
        for name in members
        if "faulty" not in text_of(f"{base}/{name}/state") and os.path.exists(f"{base}/{name}/block/dev")
    ]
    disks = text_of(f"{base}/raid_disks").split(" ")[0]
    return {
        "state": text_of(f"{base}/array_state"),
        "disks": int(disks) if disks.isdigit() else None,
        "present": len(present),
    }


def main(words: list[str]) -> None:
    """Print what the mounts say."""
    seconds, paths = float(words[0]), words[1:]
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        lines = file.read().splitlines()
    found = {path: [line for line in lines if line.split(" ")[4] == path] for path in paths}
    answers = ask([path for path in paths if found[path]], seconds)
    for path in paths:
        if not found[path]:
            answers[path] = {"mountinfo": ""}
            continue
        before, _, after = found[path][-1].partition(" - ")
        kind = after.split(" ")[0]
        module = {"nfs4": "nfsv4", "wekafs": "wekafsio", "gpfs": "mmfslinux"}.get(kind, kind)
        answers[path].update(
            mountinfo="".join(f"{line}\n" for line in found[path]),
            array=array_of(before.split(" ")[2]),
            version=text_of(f"/sys/module/{module}/version") or text_of(VERSIONS.get(kind, "")),
        )
    sys.stdout.write(json.dumps(answers, sort_keys=True) + "\n")
    sys.stdout.flush()
    # Without taking leave of anybody who hangs.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[2:] if sys.argv[1:2] == [MARK] else sys.argv[1:])
