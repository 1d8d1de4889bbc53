"""Which releases of Slurm go together."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_releases import RELEASES, pair_fault, served


# What SchedMD's upgrade guide says of each release under "Compatibility window": two before, from 24.11 on three.
@pytest.mark.parametrize(
    ("release", "window"),
    [
        ("20.11", ["20.11"]),
        ("22.05", ["20.11", "21.08", "22.05"]),
        ("24.05", ["23.02", "23.11", "24.05"]),
        ("24.11", ["23.02", "23.11", "24.05", "24.11"]),
        ("25.11", ["24.05", "24.11", "25.05", "25.11"]),
    ],
)
def test_daemon_serves_the_releases_of_its_window(release: str, window: list[str]) -> None:
    assert list(served(release)) == window
    assert [other for other in RELEASES if not pair_fault(release, other)] == window


@pytest.mark.parametrize(
    ("controller", "other", "said"),
    [
        ("24.11", "22.05", "Slurm 22.05 is older than a slurmctld of 24.11 serves, expected 23.02 to 24.11"),
        ("24.05", "22.05", "Slurm 22.05 is older than a slurmctld of 24.05 serves, expected 23.02 to 24.05"),
        ("23.11", "24.05", "Slurm 24.05 is newer than a slurmctld of 23.11 serves, expected 22.05 to 23.11"),
    ],
)
def test_pair_outside_the_window_names_what_would_be_accepted(controller: str, other: str, said: str) -> None:
    assert pair_fault(controller, other) == said


@pytest.mark.parametrize(
    ("controller", "other"), [("30.05", "25.11"), ("25.11", "30.05"), ("", "25.11"), ("25.11", "")]
)
def test_release_that_nobody_knows_goes_with_none(controller: str, other: str) -> None:
    assert "is unknown here, expected one of 20.11, " in pair_fault(controller, other)
