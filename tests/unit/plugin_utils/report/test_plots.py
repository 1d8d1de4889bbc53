from __future__ import annotations

import re
from itertools import pairwise

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.report.plots import Axes, Line, curves

FONT_PIXELS = 9.5
SIZES = [2**power for power in range(3, 35)]


def labels(values: list[float], sizes: list[int]) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """Return the labels below and beside a plot of times, each with its place along the axis, in points."""
    svg = str(curves("plot", [Line("a", sizes, values)], Axes("message size", "µs", log_y=True), "times"))
    found = re.findall(r'<text style="([^"]*)" x="([0-9.]+)" y="([0-9.]+)"[^>]*>([^<]+)</text>', svg)
    below = [(text, float(x)) for style, x, _, text in found if re.search(r"\d+ ([KMG]i)?B$", text)]
    beside = [(text, float(y)) for style, _, y, text in found if "end" in style]
    return below, beside


@pytest.mark.parametrize(
    ("low", "high"),
    [(800, 2100), (7.4, 5800), (20, 900), (18, 31), (999, 1001), (0.04, 3), (950, 1050), (3, 4e9), (1e6, 2e7), (9, 90)],
)
def test_labels_beside_times_are_numbers_people_write_and_lie_apart(low: float, high: float) -> None:
    _, beside = labels([low, high], [65536, 2**28])
    assert 2 <= len(beside) <= 8
    for text, _ in beside:
        assert re.fullmatch(r"\d{1,3}(,\d{3})*(\.\d{1,3})?", text), text
    assert len({text for text, _ in beside}) == len(beside)
    places = sorted(y for _, y in beside)
    assert all(after - before > FONT_PIXELS for before, after in pairwise(places)), beside


@pytest.mark.parametrize("sizes", [SIZES, SIZES[:5], [65536, 2**28], [8, 65536, 2**18, 2**20, 2**24, 2**28, 2**30]])
def test_sizes_are_written_with_their_units_and_lie_apart(sizes: list[int]) -> None:
    below, _ = labels([10.0 + at for at in range(len(sizes))], sizes)
    assert 2 <= len(below) <= 8
    places = sorted((x, len(text)) for text, x in below)
    # A letter is as wide as 0.62 of its height at the most, and half of each label reaches towards the other.
    assert all(
        after - before > (one + other) / 2 * 0.62 * FONT_PIXELS for (before, one), (after, other) in pairwise(places)
    ), below
