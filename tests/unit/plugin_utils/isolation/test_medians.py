"""Medians are numpy's, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.medians import (
    median,
    median_across,
    medians_of,
)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 9, 1000])
def test_median_is_that_of_numpy(count: int, kind: Any) -> None:
    values = np.random.default_rng(count).normal(40, 1, count).astype(kind)
    found = median(values)
    assert found == np.median(values)
    assert found.dtype == kind


@pytest.mark.parametrize("count", [8_193, 26_796, 26_797])
@pytest.mark.parametrize("shape", ["noise", "sorted", "two heaps", "ties", "all one", "far tail"])
def test_median_of_many_is_that_of_numpy_however_they_lie(count: int, shape: str) -> None:
    values = np.random.default_rng(count).normal(0, 1, count)
    values = {
        "noise": values,
        "sorted": np.sort(values),
        # The middle lies between the two, or a sample of every so many sees one of them alone.
        "two heaps": np.where(np.arange(count) < count // 2, values, values + 100),
        "ties": np.round(values),
        "all one": np.ones(count),
        "far tail": np.where(np.arange(count) % (count // 1024) == 0, 1e9, values),
    }[shape]
    assert median(values) == np.median(values)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8])
def test_median_across_arrays_is_that_of_numpy_and_unknown_where_any_is(count: int) -> None:
    table = np.random.default_rng(count).normal(40, 1, (count, 50)).astype(np.float32)
    table[:, 7] = np.nan
    assert np.array_equal(median_across(table), np.median(table, axis=0), equal_nan=True)


def test_medians_of_rows_leave_out_what_is_unknown() -> None:
    table = np.array([[1, np.nan, 3], [np.nan, np.nan, np.nan], [5, 2, 9]])
    assert np.array_equal(medians_of(table), [2, np.nan, 5], equal_nan=True)
