"""The systems that hosts of the labs can have, by the suite of packages that each is made of."""

from __future__ import annotations

import fcntl
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab_machine import ROOT, run

# Another distribution's keys, in a package that Debian signs: its suite, its name, and the file in it.
KEYS = {"ubuntu": ("trixie", "ubuntu-keyring", "usr/share/keyrings/ubuntu-archive-keyring.gpg")}


@dataclass(frozen=True)
class System:
    """A system: its name for people, its Python, the sections of its archive, and which of KEYS it is signed with.

    ``keys`` is empty where it is the machine's own.
    """

    name: str
    python: tuple[int, int]
    components: str = "main"
    keys: str = ""


SYSTEMS = {
    "bookworm": System("Debian 12", (3, 11)),
    "trixie": System("Debian 13", (3, 13), "main,contrib"),
    "noble": System("Ubuntu 24.04", (3, 12), "main,universe", "ubuntu"),
}
DEFAULT_SUITE = "bookworm"


def mmdebstrap(suite: str) -> list[str]:
    """Return how mmdebstrap is called for a suite, which it takes from where apt finds it; SUITE and TARGET go last."""
    system = SYSTEMS[suite]
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--components={system.components}"]
    return [*command, f"--keyring={keyring(system.keys)}"] if system.keys else command


def keyring(name: str) -> Path:
    """Return the file of one of KEYS, its package fetched where it is not there yet."""
    suite, package, file = KEYS[name]
    place = ROOT / "build" / "keys" / package
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w", encoding="utf-8") as lock:
        # Labs and tests come here at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            unfinished = place.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            run(["mmdebstrap", "--quiet", "--variant=extract", f"--include={package}", suite, unfinished])
            unfinished.rename(place)
    return place / file
