from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.report.comparison_shown import (
    comparison_lines,
    comparison_page,
    comparison_table,
    measured_text,
    said,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.fleet_comparison import (
    Comparison,
    ComparisonError,
    Summary,
    Value,
    compare,
    typical_ratio,
    values_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.measured import measured

from ....browser.observed import Sick, Site, rounds

SITE = Site(16, rack=2, pod=8)
REDUCE = Value("all_reduce", 4, 32, "", 2**30, 10, 5.0e6, 5.2e6, 0.01)


def side(name: str, *values: Value, fabric: str = "roce", **classes: tuple[Value, ...]) -> Summary:
    return Summary(name, fabric, classes or {"hgx_h100": values})


def fleet(name: str, seed: int, slow: float = 1.0) -> Summary:
    sick = Sick(dict.fromkeys(SITE.names, slow)) if slow != 1 else Sick()
    return side(name, *values_of(measured(rounds(SITE, 15, sick, seed=seed)), SITE.places))


def compared(left: Summary, right: Summary) -> Comparison:
    return compare(left, right)


@pytest.mark.parametrize(
    ("ns", "differs", "word"),
    [(5.0e6, False, "alike"), (5.04e6, False, "alike"), (5.06e6, True, "slower"), (4.9e6, True, "faster")],
)
def test_a_difference_counts_beyond_the_larger_spread(ns: float, differs: bool, word: str) -> None:
    (row,) = compared(side("east", REDUCE), side("west", replace(REDUCE, median_ns=ns, spread=0.005))).rows
    assert (row.spread, row.differs, said(row)) == (0.01, differs, word)
    assert row.ratio == pytest.approx(5.0e6 / ns)


def test_too_few_measurements_tell_no_difference() -> None:
    (row,) = compared(side("east", REDUCE), side("west", replace(REDUCE, median_ns=9e6, n=2, spread=None))).rows
    assert (row.differs, said(row)) == (None, "too few")


def test_values_of_a_fleet_by_collective_distance_and_size() -> None:
    values = {value.key: value for value in fleet("east", 1).classes["hgx_h100"]}
    distances = {key[3] for key in values if key[0] == "sendrecv"}
    assert distances == {"same rack", "same pod", "across pods"}
    pair = values["sendrecv", 2, 16, "across pods", 2**28]
    assert pair.n == 64 and pair.gb_per_s == pytest.approx(47.2, rel=0.03) and pair.spread is not None
    reduce = values["all_reduce", 4, 32, "", 2**30]
    assert reduce.n == 4 and reduce.p99_ns > reduce.median_ns
    assert values["all_reduce", 16, 128, "", 2**30].spread is None


def test_an_equal_fleet_is_alike_and_a_slower_one_is_found() -> None:
    alike = compared(fleet("east", 1), fleet("west", 2))
    large = [row for row in alike.rows if row.left.size >= 2**28 and row.differs is not None]
    assert large and not any(row.differs for row in large)
    slower = compared(fleet("east", 1), fleet("west", 2, 1.25))
    assert {said(row) for row in slower.rows if row.left.size >= 2**28} == {"slower", "too few"}
    assert typical_ratio(slower, "sendrecv") == pytest.approx(0.8, rel=0.02)


@pytest.mark.parametrize(
    ("left", "right", "says"),
    [
        (
            side("east", REDUCE),
            side("west", x=(REDUCE,)),
            "east has measurements of hgx_h100, west of x: nodes of different",
        ),
        (side("east", REDUCE), side("west"), "west: no acceptance measurements are recorded"),
        (Summary("east", "", {}), side("west", REDUCE), "east: no acceptance measurements are recorded"),
        (side("east", REDUCE), side("west", replace(REDUCE, nodes=8)), "measured nothing alike of hgx_h100"),
        (side("east", REDUCE), side("west", replace(REDUCE, ranks=16)), "measured nothing alike of hgx_h100"),
    ],
)
def test_what_cannot_be_compared_is_refused(left: Summary, right: Summary, says: str) -> None:
    with pytest.raises(ComparisonError, match=says):
        compare(left, right)


def test_what_only_one_has_is_told() -> None:
    left = side("east", hgx_h100=(REDUCE, replace(REDUCE, nodes=8, ranks=64)), hgx_h200=(REDUCE,))
    notes = compare(left, side("west", REDUCE)).notes
    assert notes == ("east alone has nodes of hgx_h200", "east alone measured all-reduce (8 nodes) of hgx_h100")


def test_a_summary_survives_its_file() -> None:
    whole = fleet("east", 1)
    assert Summary.from_dict(json.loads(json.dumps(whole.to_dict())), "east.json") == whole


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"n": 0}, r"classes.h\[0\].n is 0, expected a whole number"),
        ({"nodes": True}, "nodes is True"),
        ({"size": 0}, "size is 0, expected the size of all_reduce"),
        ({"median_ns": float("nan")}, "median_ns is nan, expected a number above 0"),
        ({"median_ns": "1"}, "median_ns is '1'"),
        ({"p99_ns": -1.0}, "p99_ns is -1.0"),
        ({"spread": 0}, "spread is 0"),
        ({"collective": None}, "collective is None, expected text"),
    ],
)
def test_a_garbled_file_is_refused(change: dict[str, Any], says: str) -> None:
    data = side("east", h=(REDUCE,)).to_dict()
    data["classes"]["h"][0] |= change
    with pytest.raises(ComparisonError, match=says):
        Summary.from_dict(data, "east.json")


@pytest.mark.parametrize(
    "data",
    [
        [],
        {},
        {"format": "2"},
        {"format": "muster-acceptance-1", "classes": []},
        {"format": "muster-acceptance-1", "classes": {"h": {}}},
        {"format": "muster-acceptance-1", "classes": {"h": [1]}},
    ],
)
def test_another_file_is_refused(data: Any) -> None:
    with pytest.raises(ComparisonError, match=r"east\.json"):
        Summary.from_dict(data, "east.json")


def test_small_messages_and_training_are_told_as_times() -> None:
    assert measured_text(REDUCE) == "416.1 GB/s"
    assert measured_text(replace(REDUCE, size=65536, median_ns=25_300)) == "25.3 µs"
    assert measured_text(replace(REDUCE, collective="train", size=0, median_ns=1.5e8)) == "150 ms"


def test_table_names_both_fleets_and_fits() -> None:
    both = compared(fleet("east", 1), fleet("west", 2, 1.25))
    text = comparison_table(both, 120)
    assert all(len(line) <= 120 for line in text.splitlines())
    assert text.splitlines()[0].split() == [
        "collective",
        "nodes",
        "size",
        "east",
        "west",
        "ratio",
        "spread",
        "n",
        "west",
        "is",
    ]
    assert re.search(
        r"sendrecv +2, across pods +256 MiB +[0-9.]+ GB/s +[0-9.]+ GB/s +0\.8\d\d +[0-9.]+% +64, 64 +slower", text
    )
    (line,) = [each for each in comparison_lines(both) if each.startswith("sendrecv")]
    assert line == "sendrecv: west is 0.80 times as fast as east; beyond the spread faster in 0, slower in 6 of 6"


def test_page_is_one_strict_file_with_curves_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    both = compared(fleet("<b>east", 1), fleet("west", 2))
    html = comparison_page(both, 1763640000.0, "0.1.0")
    assert "default-src 'none'; style-src 'unsafe-inline'\"" in html and "img-src" not in html
    assert html.count("<svg") == 6 and "&lt;b&gt;east" in html and "<b>east" not in html
    assert not re.search(r"<(script|link|img|iframe)\b", html) and "http:" not in html
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    bare = comparison_page(both, 1763640000.0)
    assert "No plots: matplotlib" in bare and "<svg" not in bare and "across pods" in bare
