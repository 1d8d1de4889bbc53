"""A class whose PyTorch nobody brings, and a lock that the driver cannot run, are named before anything is changed."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.readiness import pytorch_to_come

from tests.fake_host import FakeHost
from tests.typed import typed

PROVIDED = "/opt/muster/pytorch/bin/python3"
HASH = f" --hash=sha256:{'0' * 64}\n"
NUMPY = f"numpy==2.1.0{HASH}"
BARE = f"torch==2.8.0{HASH}{NUMPY}"


def told(expect: dict[str, Any], lock: str, python: str = PROVIDED, driver: str | None = "570.86.15") -> list[str]:
    """Return what a host without any PyTorch lacks."""
    gpu = {**expect["gpu"], "driver": driver}
    declared = typed({**expect, "gpu": gpu, "pytorch": {"python": python, "version": None}})
    given = {"requirements": lock, "find_links": "https://mirror.example.com/"} if lock else {}
    return pytorch_to_come.lacks(FakeHost(), declared, given)


def test_python_that_nobody_makes_is_named_with_the_ways_out(expect: dict[str, Any]) -> None:
    (said,) = told(expect, "")
    assert said.startswith(f"pytorch.python: {PROVIDED} is not there: declare gpu_stack_pytorch, or name the Python")
    # The site's own is judged by preflight.
    assert told(expect, "", "/opt/site/bin/python3") == []
    declared = typed({**expect, "pytorch": {"python": PROVIDED, "version": None}})
    assert pytorch_to_come.lacks(FakeHost({PROVIDED: Output()}), declared, {}) == []


@pytest.mark.parametrize(
    ("lock", "driver", "said"),
    [
        (BARE, "570.86.15", ""),
        (f"torch==2.9.0+cpu{HASH}{NUMPY}", "470.1", ""),
        (f"torch==2.8.0+cu128{HASH}{NUMPY}", "525.60.13", ""),
        (f"torch==2.8.0+cu128{HASH}{NUMPY}", "525.60.12", "CUDA 12.8 needs driver 525.60.13 or later, found 525.60.12"),
        (f"torch==2.9.0+cu130{HASH}{NUMPY}", "570.86.15", "CUDA 13.0 needs driver 580.65.06 or later, found 570.86.15"),
        (f"{BARE}nvidia-nccl-cu13==2.27.7{HASH}", "570.86.15", "CUDA 13.0 needs driver 580.65.06"),
        (f"{BARE}nvidia-nccl-cu12==2.27.3{HASH}", "570.86.15", ""),
        (f"{BARE}nvidia-nccl-cu13==2.27.7{HASH}", None, ""),
        # Each for other hosts.
        (f"torch==2.9.0+cu130 ; m == 'a'{HASH}torch==2.8.0+cu128 ; m == 'b'{HASH}{NUMPY}", "570.86.15", ""),
        (NUMPY, "570.86.15", "its lock has no torch"),
        (f"six==1.17{HASH}", "570.86.15", "its lock has no torch and no numpy"),
        (f"{BARE}--extra-index-url https://elsewhere\n", "570.86.15", "requirements: line 3: found '--extra-index-url"),
    ],
)
def test_lock(expect: dict[str, Any], lock: str, driver: str | None, said: str) -> None:
    found = told(expect, lock, driver=driver)
    assert len(found) == bool(said) and all(each.startswith(f"gpu_stack_pytorch: {said}") for each in found), found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pyton": "/usr/bin/python3.12"}, "found key 'pyton', expected requirements, index, find_links, python"),
        ({"requirements": None}, "found no requirements, expected the text of a lock"),
        ({"find_links": ""}, "found neither index nor find_links, expected one of the two"),
        ({"index": "https://b.example.com/simple"}, "found index and find_links, expected one of the two"),
    ],
)
def test_key_that_is_none_and_one_that_is_missing(expect: dict[str, Any], given: dict[str, Any], said: str) -> None:
    declared = {"requirements": BARE, "find_links": "https://a.example.com/", **given}
    assert pytorch_to_come.lacks(FakeHost(), typed(expect), declared) == [f"gpu_stack_pytorch: {said}"]
