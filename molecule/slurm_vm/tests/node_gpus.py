"""What the lab's stand-in for NVML (molecule/lab/nvml.c) says of the node's GPUs; run as a program it prints that."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

from machines import FLEET, NODE, PROJECT

sys.path.insert(0, str(PROJECT / "molecule/lab"))

import lab_gpus
from lab_state import healthy

# Where prepare.yml puts it, beside the library.
FILE = "/opt/lab/lib/gpus"


def text(**faults: Any) -> str:
    """Return what the library reads: the fleet file's GPUs, each beside its processor, with faults (lab_state.py)."""
    expect = FLEET.classes["vm_gpu"]
    # Each NUMA node of the machine has one processor, of the same number.
    beside = {part.slot: {"cpu_affinity": str(part.numa_node)} for part in expect.affinity.parts}
    state = healthy(NODE, [asdict(part) for part in expect.gpu.parts])
    return lab_gpus.text_of({**state, "gpu_values": beside, **faults})


if __name__ == "__main__":
    print(text(), end="")
