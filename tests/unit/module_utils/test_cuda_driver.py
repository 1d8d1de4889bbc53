"""Which driver runs what was built for a CUDA."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.judging.cuda_driver import LEAST_DRIVERS, driver_lacking


@pytest.mark.parametrize(
    ("cuda", "driver"),
    [
        *((f"{major}.0", least) for major, least in LEAST_DRIVERS.items()),
        ("12.8", "525.147.05"),
        ("12.9.1", "570.86.15"),
        ("13", "580.65.06"),
        ("11.8", "610.1"),
        # A branch alone, as a class may declare it.
        ("13.0", "580"),
    ],
)
def test_driver_of_the_major_version_or_later_runs_it(cuda: str, driver: str) -> None:
    assert driver_lacking(cuda, driver) == ""


@pytest.mark.parametrize(
    ("cuda", "driver", "words"),
    [
        ("13.0", "580.65.05", "CUDA 13.0 needs driver 580.65.06 or later, found 580.65.05"),
        ("13.0", "570.211.01", "CUDA 13.0 needs driver 580.65.06 or later, found 570.211.01"),
        ("12.4", "525.60.12", "CUDA 12.4 needs driver 525.60.13 or later, found 525.60.12"),
        ("12.4", "470", "CUDA 12.4 needs driver 525.60.13 or later, found 470"),
        ("14.0", "999.1", "no driver is known to run CUDA 14.0, expected one of 11.x, 12.x, 13.x"),
        ("", "580.65.06", "CUDA of no version and driver 580.65.06: expected versions such as 12.8"),
        ("12.8", "open", "CUDA 12.8 and driver open: expected versions such as 12.8"),
    ],
)
def test_older_driver_and_what_nobody_knows_are_refused(cuda: str, driver: str, words: str) -> None:
    assert driver_lacking(cuda, driver) == words
