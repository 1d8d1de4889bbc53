"""DCGM 4 comes in several packages, and not all tests of ``dcgmi diag`` are in the open-source ones."""

from __future__ import annotations

import re

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError

PREFIX = "datacenter-gpu-manager-4-"
# In -proprietary and -proprietary-cudaNN, which -core only recommends. NVIDIA/DCGM: not in nvvs/plugin_src; issue 67 on
# memory_bandwidth, issue 238 on pulse_test (dcgm_private/nvvs/plugin_src/pulsetest).
CLOSED_SOURCE = ("memory_bandwidth", "pulse_test")

_CUDA = re.compile(r"(?:proprietary-)?(cuda\d+)")


def check_packages(expect: Expectations) -> None:
    """Raise ReadError if a class installs DCGM 4 without the packages of a test that it requires."""
    packages = [package.name for package in expect.gpu_stack.packages] if expect.gpu_stack else []
    named = [name for name in packages if name.startswith(PREFIX)]
    required = expect.dcgm.required if expect.dcgm else ()
    tests = [f"{test} of level {entry.level}" for entry in required for test in entry.tests if test in CLOSED_SOURCE]
    if not named or not tests:
        return
    cuda = sorted({match[1] for name in named if (match := _CUDA.fullmatch(name[len(PREFIX) :]))})
    wanted = [PREFIX + name for name in ("proprietary", *(f"proprietary-{each}" for each in cuda or ["cudaNN"]))]
    missing = [name for name in wanted if name not in named]
    if missing:
        expected = f"{' and '.join(missing)} as well, for {' and '.join(tests)} (dcgm.required)"
        raise ReadError("gpu_stack.packages", ", ".join(named), expected)
