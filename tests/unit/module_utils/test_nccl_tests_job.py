"""A group's report of nccl-tests by collective: which of its rows and sides stand for what was asked."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import Phase
from ansible_collections.muster.cluster.plugins.module_utils.rounds.nccl_tests_job import NcclTestsCodec, moved_bytes

from tests.nccl_tests_report import report

GROUP = ["gpu-01", "gpu-02"]


def read(collective: str, sizes: tuple[int, ...], stdout: str) -> tuple[list[tuple[int, Any]], list[str]]:
    """Return sizes with the nanoseconds of the first rank, and what is wrong."""
    phase = Phase("all", "groups", collective, sizes, 20, 5, 60)
    # Inside an image, where nobody tells of links.
    found = NcclTestsCodec(8, phase, "muster", container="image").read(GROUP, stdout)
    return [(each["bytes"], each["ns"][0][0]) for each in found.found["results"]], list(found.errors)


@pytest.mark.parametrize(
    ("collective", "asked", "ranks", "told"),
    [
        ("all_reduce", 8, 16, 8),
        # As recorded of 16 ranks from 8 bytes on: nothing moves below 256.
        ("all_gather", 8, 16, 256),
        ("all_gather", 256, 16, 256),
        ("reduce_scatter", 65536, 16, 65536),
        ("all_to_all", 65536, 24, 65280),
        ("all_to_all", 2**30, 96, 1073740800),
    ],
)
def test_size_that_nccl_tests_makes_of_one(collective: str, asked: int, ranks: int, told: int) -> None:
    assert moved_bytes(collective, asked, ranks) == told


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter"])
def test_row_of_the_least_size_stands_for_one_that_is_too_small(collective: str) -> None:
    stdout = report(GROUP, 8, {0: 0.25, 256: 54.07, 2**20: 79.74}, factor=1)
    assert read(collective, (8, 2**20), stdout) == ([(8, 54070), (2**20, 79740)], [])


def test_all_to_all_is_measured_out_of_place_where_alone_it_is_checked() -> None:
    whole = report(GROUP, 8, {2**20: 79.74}, factor=1)
    row = next(line for line in whole.splitlines() if line.startswith("     1048576"))
    in_place = f"{row[: -len('      0')]}    N/A"
    assert read("all_to_all", (2**20,), whole.replace(row, in_place)) == ([(2**20, 79740)], [])
    assert read("all_gather", (2**20,), whole.replace(row, in_place))[1] == ["nccl-tests: 1048576 bytes not checked"]
    neither = in_place.replace("      0  ", "    N/A  ")
    assert read("all_to_all", (2**20,), whole.replace(row, neither))[1] == ["nccl-tests: 1048576 bytes not checked"]
