"""The systems that hosts of the labs can have, by the suite of packages that each is made of."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from lab_machine import ROOT, run

# Another distribution's keys, which Debian signs: the package's suite, its name, and the file in it.
UBUNTU_KEYS = ("trixie", "ubuntu-keyring", "usr/share/keyrings/ubuntu-archive-keyring.gpg")


@dataclass(frozen=True)
class System:
    """A system: its name for people, its Python, the sections of its archive, and whose keys sign this.

    ``keys`` is None where the machine's own do.
    """

    name: str
    python: tuple[int, int]
    components: str = "main"
    keys: tuple[str, str, str] | None = None


SYSTEMS = {
    "bookworm": System("Debian 12", (3, 11)),
    "trixie": System("Debian 13", (3, 13)),
    "noble": System("Ubuntu 24.04", (3, 12), "main,universe", UBUNTU_KEYS),
}
DEFAULT = "bookworm"


def mmdebstrap(suite: str) -> list[str]:
    """Return how mmdebstrap is called for a suite, which it takes from where apt finds it; SUITE and TARGET go last."""
    system = SYSTEMS[suite]
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--components={system.components}"]
    return [*command, f"--keyring={keyring(*system.keys)}"] if system.keys else command


def keyring(suite: str, package: str, file: str) -> Path:
    """Return a file of keys from a package, fetched where it is not there yet."""
    place = ROOT / "build" / "keys" / package
    if not place.exists():
        unfinished = place.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        run(["mmdebstrap", "--quiet", "--variant=extract", f"--include={package}", suite, unfinished])
        unfinished.rename(place)
    return place / file
