"""The systems whose real programs are asked: packages unpacked below build/contracts, never configured.

A program of them runs as root in namespaces of its own, without a network, without devices, on a layer in memory, with
nothing of /proc and /sys that it could set, and without the capabilities that reach past namespaces: it cannot change
the machine that it runs on.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

from tests.contracts import gpus, slurm_cluster, table

sys.path.insert(0, str(gpus.LAB))

import lab_systems

BUILD = Path(__file__).parents[2] / "build/contracts"
_INSIDE = Path(__file__).with_name("inside.py")
# A program that says nothing for so long hangs; the slowest, stress-ng and apt without a network, take 5.
SECONDS = 60
_ALTERNATIVES = ("slurmctld", "slurmd", "slurmstepd")
_PROGRAMS = ("mmdebstrap", "gcc", "setpriv", "unshare")


class NoSystem(Exception):
    """A system that could not be made here; the text says why."""


@dataclass(frozen=True)
class Answer:
    """What a program gave: its exit status (None where it is not there or hangs), and what it printed."""

    rc: int | None
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """All that it printed."""
        return self.stdout + self.stderr


@dataclass(frozen=True)
class System:
    """An unpacked system; ``versions`` are those of its packages."""

    suite: str
    name: str
    root: Path
    versions: Mapping[str, str]

    def answers(
        self,
        asked: Sequence[tuple[Sequence[str], str]],
        cluster: bool = False,
        files: Mapping[str, str] | None = None,
        other: System | None = None,
    ) -> list[Answer]:
        """Run argument vectors, each as a user, one after the other, and return what each gave.

        With ``cluster`` a Slurm of this system runs meanwhile (slurm_cluster.py), which has users besides root; it
        finds ``files``, texts by their paths, in the place of its own. Its node gpu-03 is ``other``, a different
        system, whose programs are asked by ``on_other``.
        """
        question = {"root": str(self.root), "other": other and str(other.root), "asked": asked, "cluster": cluster}
        text = json.dumps({**question, "seconds": SECONDS, "files": dict(files or {})})
        namespaces = ["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
        # Whoever may do these is not held by a namespace.
        powers = "--bounding-set=-sys_boot,-sys_module,-sys_rawio,-sys_time,-mknod,-syslog"
        with ExitStack() as stack:
            for suite in sorted([self.suite, *([other.suite] if other else [])]):
                stack.enter_context(_alone(suite))
            done = subprocess.run(
                [*namespaces, "setpriv", powers, sys.executable, "-IS", str(_INSIDE)],
                input=text, capture_output=True, text=True, check=False,
            )  # fmt: skip
        if done.returncode != 0:
            raise NoSystem(f"{self.name}: the way in failed: {done.stderr.strip()[-2000:]}")
        return [Answer(**each) for each in json.loads(done.stdout)]


def on_other(argv: Sequence[str], user: str) -> tuple[list[str], str]:
    """Return how a user's command is asked on the other system of a cluster."""
    return [*slurm_cluster.on_other(user), *argv], "root"


def lacking() -> str:
    """Return why no system can be made on this machine, "" if one can."""
    if os.geteuid() != 0:
        return "needs root: programs are asked in namespaces"
    missing = [program for program in _PROGRAMS if not shutil.which(program)]
    return f"missing {', '.join(missing)}" if missing else ""


def suites() -> dict[str, str]:
    """Return the systems of the table: names by suite."""
    return {suite: row["name"] for suite, row in _table()["systems"].items()}


def system(suite: str) -> System:
    """Return a system, made when it is missing or when the table names other packages; raises NoSystem."""
    row = _table()["systems"][suite]
    packages = sorted(
        {*_table()["base"], *row["packages"], *filter(None, (tool.packages[suite] for tool in table.read().values()))}
    )
    root, record = BUILD / suite, BUILD / f"{suite}.json"
    made_of = {"packages": packages, "row": row}
    with _alone(suite):
        if not record.exists() or json.loads(record.read_text(encoding="utf-8")).get("made_of") != made_of:
            record.unlink(missing_ok=True)
            versions = _make(suite, row, packages, root)
            record.write_text(json.dumps({"made_of": made_of, "versions": versions}), encoding="utf-8")
        versions = json.loads(record.read_text(encoding="utf-8"))["versions"]
        gpus.lay(root)
    return System(suite, row["name"], root, versions)


def _make(suite: str, row: Mapping[str, Any], packages: Sequence[str], root: Path) -> dict[str, str]:
    shutil.rmtree(root, ignore_errors=True)
    keys = [f"--keyring={lab_systems.keyring(row['keys'])}"] if "keys" in row else []
    # The suite's own archive by its name, or the machine's mirror of it: as apt finds it.
    _unpack(suite, row["components"], packages, root, *keys)
    debs = sorted((root / "var/cache/apt/archives").glob("*.deb"))
    versions = {name: unquote(version) for name, version, _kind in (deb.name.rsplit("_", 2) for deb in debs)}
    if absent := [name for name in packages if name not in versions]:
        raise NoSystem(f"{suite} came without {', '.join(absent)}")
    shutil.rmtree(root / "var/cache/apt/archives")
    for place in ("proc", "sys", "dev", "run", "tmp", "root"):
        (root / place).mkdir(exist_ok=True)
    for name in _ALTERNATIVES:
        # A link that the package's own script makes.
        (root / "usr/sbin" / name).symlink_to(f"{name}-wlm")
    return versions


def _unpack(suite: str, components: str, packages: Sequence[str], root: Path, *more: str) -> None:
    command = ["mmdebstrap", "--quiet", "--variant=extract", "--skip=cleanup/apt", f"--components={components}"]
    command += [f"--include={','.join(packages)}", *more, suite, str(root)]
    for attempt in (1, 2):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        shutil.rmtree(root, ignore_errors=True)
        if attempt == 2:
            raise NoSystem(f"{suite}: mmdebstrap gave {done.returncode}: {_last_errors(done.stderr)}")


def _last_errors(text: str) -> str:
    return " | ".join(line for line in text.splitlines() if re.match(r"E:|W:|.*(Unable|Failed|unmet)", line))[-600:]


@contextmanager
def _alone(suite: str) -> Iterator[None]:
    """Let one process at a time make a system, or ask it."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / f"{suite}.lock").open("w") as file:
        flock(file, LOCK_EX)
        yield


def _table() -> dict[str, Any]:
    return yaml.safe_load(table.FILE.read_text(encoding="utf-8"))
