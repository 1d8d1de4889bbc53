"""What the real nvidia-smi of a system is asked of: the lab's library in NVML's place, and eight GPUs of the lab.

The library is molecule/lab/nvml.c, what it says of each GPU a file beside it (lab_gpus.py).
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output

LAB = Path(__file__).parents[2] / "molecule/lab"
sys.path.insert(0, str(LAB))

import lab_gpus  # noqa: E402 -- found on the path just set
import nvidia  # noqa: E402 -- as above
from lab_state import PARTS, declared  # noqa: E402

_PLACE = "opt/muster"
_PROGRAMS = ("usr/bin/nvidia-smi", "usr/lib/nvidia/current/nvidia-smi")


def lay(root: Path) -> None:
    """Lay the library into an unpacked system, and eight healthy GPUs."""
    nvidia.library(root / _PLACE / nvidia.LIBRARY, [program(root)])
    (root / _PLACE / "gpus").write_text(text(), encoding="utf-8")


def program(root: Path) -> Path:
    """Return a system's nvidia-smi."""
    return next(root / path for path in _PROGRAMS if (root / path).exists())


def text(slots: Sequence[str] = (), **faults: Any) -> str:
    """Return what the library reads on a lab host with GPUs in these slots (all eight), and faults (lab_state.py)."""
    parts = [part for part in PARTS if part["slot"] in slots] if slots else None
    return lab_gpus.text_of(declared("gpu-01", parts, faults))


class Smi:
    """A system's nvidia-smi on GPUs that are changed while it is asked; what it reads lies in ``place``.

    It needs nothing but its library, and looks for no device itself: it may run outside of its system.
    """

    def __init__(self, root: Path, place: Path) -> None:
        self._program, self._place = program(root), place
        (place / nvidia.LIBRARY).write_bytes((root / _PLACE / nvidia.LIBRARY).read_bytes())
        self.show()
        (self.version,) = re.findall(r"Interface -- v(\S+)", self.run(["nvidia-smi", "-h"], 10).stdout)

    @property
    def branch(self) -> str:
        """The branch of its driver: 535, 550, 580."""
        return self.version.split(".")[0]

    def show(self, slots: Sequence[str] = (), **faults: Any) -> None:
        """Give the GPUs in these slots (all eight) these faults, and no others."""
        (self._place / "gpus").write_text(text(slots, **faults), encoding="utf-8")

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        """Return what the program gives to the words behind its name, as a host gives it to a probe."""
        environment = {"LD_LIBRARY_PATH": str(self._place), "LC_ALL": "C"}
        command, seconds = [str(self._program), *argv[1:]], timeout_seconds
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
        return Output(done.stdout, done.stderr, done.returncode)
