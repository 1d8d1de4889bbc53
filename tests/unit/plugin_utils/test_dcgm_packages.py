"""Which packages of DCGM 4 a class has to install for the tests of dcgmi diag that it requires."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

ROOT = Path(__file__).parents[3]
OPEN = "datacenter-gpu-manager-4-cuda12"
CLOSED = ["datacenter-gpu-manager-4-proprietary", "datacenter-gpu-manager-4-proprietary-cuda12"]
FOR = "for memory_bandwidth of level 3 and pulse_test of level 4 (dcgm.required)"


def declare(*names: str, **sections: Any) -> dict[str, Any]:
    packages = [{"name": name, "version": "1:4.4.1-1"} for name in names]
    stack = {"packages": packages, "services": []}
    ours = {"extends": "lab_h100", "gpu": {"driver": "570.86.15"}, "gpu_stack": stack, **sections}
    return expectations_of("ours", {"ours": ours}, "x.fleet.yml")


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        ([OPEN], CLOSED),
        ([OPEN, CLOSED[0]], CLOSED[1:]),
        ([OPEN, CLOSED[1]], CLOSED[:1]),
        (["datacenter-gpu-manager-4-core"], [CLOSED[0], "datacenter-gpu-manager-4-proprietary-cudaNN"]),
        # The driver takes the one of its own CUDA.
        ([OPEN, *CLOSED, "datacenter-gpu-manager-4-cuda13"], ["datacenter-gpu-manager-4-proprietary-cuda13"]),
    ],
)
def test_class_without_the_packages_of_its_tests_is_refused(names: list[str], missing: list[str]) -> None:
    with pytest.raises(FleetError) as caught:
        declare("libnccl2", *names)
    assert (caught.value.file, caught.value.key) == ("x.fleet.yml", "hardware_classes.ours.gpu_stack.packages")
    assert caught.value.found == ", ".join(names)
    assert caught.value.expected == f"{' and '.join(missing)} as well, {FOR}"


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["libnccl2"],
        # DCGM 3 has all tests in one package.
        ["datacenter-gpu-manager"],
        [OPEN, *CLOSED],
        ["datacenter-gpu-manager-4-core", *CLOSED],
        ["datacenter-gpu-manager-4-cuda-all", *CLOSED],
    ],
)
def test_class_with_the_packages_of_its_tests_or_without_dcgm_4_is_taken(names: list[str]) -> None:
    assert [package["name"] for package in declare(*names)["gpu_stack"]["packages"]] == names


def test_packages_are_owed_for_the_tests_that_the_class_requires() -> None:
    tests = ["diagnostic", "targeted_stress", "nvbandwidth"]
    assert declare(OPEN, dcgm={"required": [{"level": 3, "tests": tests}]})
    assert declare(OPEN, dcgm=None)
    with pytest.raises(FleetError, match=r"cuda12 as well, for pulse_test of level 4 \(dcgm.required\)"):
        declare(OPEN, dcgm={"required": [{"level": 3, "tests": tests}, {"level": 4, "tests": ["pulse_test"]}]})


@pytest.mark.parametrize(
    "place", ["roles/gpu_stack/README.md", "docs/provision.md", "molecule/gpu_stack/inventory/gpu_stack.fleet.yml"]
)
def test_lists_that_people_copy_are_taken(place: str) -> None:
    names = re.findall(
        r"- \{name: (datacenter-gpu-manager-4-[\w-]+), version", (ROOT / place).read_text(encoding="utf-8")
    )
    assert OPEN in names and declare(*names)
