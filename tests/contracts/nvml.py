"""A library in NVML's place, so that the real nvidia-smi gets as far as its own options.

Every function is there and says "not supported", but for those that count one GPU and hand it out: enough for the
program to read what it was asked, and nothing that could be mistaken for a GPU's state.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

_PROGRAMS = ("usr/bin/nvidia-smi", "usr/lib/nvidia/current/nvidia-smi")
_NAME = re.compile(rb"\bnvml[A-Z]\w+")
# By what NVIDIA's nvml.h declares. The table of the last one is internal to nvidia-smi: its first word is its size,
# slot 81 gives a GPU by its index, all others are asked for numbers and may leave 0.
_ANSWERED = {
    "nvmlInit": "(void) { return 0; }",
    "nvmlInit_v2": "(void) { return 0; }",
    "nvmlInitWithFlags": "(unsigned flags) { return 0; }",
    "nvmlShutdown": "(void) { return 0; }",
    "nvmlDeviceGetCount": "(unsigned *count) { *count = 1; return 0; }",
    "nvmlDeviceGetCount_v2": "(unsigned *count) { *count = 1; return 0; }",
    "nvmlDeviceGetHandleByIndex": "(unsigned index, void **gpu) { *gpu = &one; return 0; }",
    "nvmlDeviceGetHandleByIndex_v2": "(unsigned index, void **gpu) { *gpu = &one; return 0; }",
    "nvmlDeviceGetIndex": "(void *gpu, unsigned *index) { *index = 0; return 0; }",
    "nvmlInternalGetExportTable": "(void **given, void *which) { *given = slots; return 0; }",
}
_NOT_SUPPORTED = 3
_BEGIN = """
static int one;
static void *slots[300];
static int nothing(void) { return 0; }
static int by_index(unsigned index, void **gpu, int mark) { *gpu = &one; return 0; }
__attribute__((constructor)) static void fill(void) {
    slots[0] = (void *)sizeof slots;
    for (int slot = 1; slot < 300; slot++) slots[slot] = (void *)nothing;
    slots[81] = (void *)by_index;
    slots[165] = 0;
}
const char *nvmlErrorString(int result) { return "Not Supported"; }
"""


def stand_in(root: Path) -> None:
    """Build the library of an unpacked system that has nvidia-smi, with every function that this one looks up."""
    programs = [root / path for path in _PROGRAMS if (root / path).exists()]
    names = {name.decode() for program in programs for name in _NAME.findall(program.read_bytes())}
    silent = [f"int {name}(void) {{ return {_NOT_SUPPORTED}; }}" for name in names - {*_ANSWERED, "nvmlErrorString"}]
    answered = [f"int {name}{text}" for name, text in _ANSWERED.items()]
    place = root / "opt/muster"
    place.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-w", "-shared", "-fPIC", "-x", "c", "-o", str(place / "libnvidia-ml.so.1"), "-"]
    subprocess.run(command, input="\n".join([_BEGIN, *answered, *sorted(silent)]), text=True, check=True)
