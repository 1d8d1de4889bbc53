from __future__ import annotations

import base64
import re
import struct
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy
import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import LatencyProfile
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import StoredRound
from ansible_collections.muster.cluster.plugins.plugin_utils.report.acceptance_shown import (
    CampaignView,
    Recorded,
    campaign_view,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.compared import distances, shares
from ansible_collections.muster.cluster.plugins.plugin_utils.report.figures import heat_cells
from ansible_collections.muster.cluster.plugins.plugin_utils.report.measured import measured
from ansible_collections.muster.cluster.plugins.plugin_utils.report.page import About, report_page
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import Verdict

from ....browser.observed import START, Sick, Site, rounds

SMALL = Site(16, rack=2, pod=8)
SICK = Sick({"gpu-0007": 1.2}, {("gpu-0011", 3): 1.6}, {("gpu-0002", "gpu-0015"): 1.5})
PROFILE = LatencyProfile("mini_cluster", "all_reduce", (65536, 1048576), {16: 60.0, 32: 60.0, 48: 60.0})


def recorded(site: Site = SMALL, sick: Sick = SICK, permutations: int = 15, **changes: Any) -> Recorded:
    stored = rounds(site, permutations, sick)
    values = {"profile": PROFILE, "told": {1: "all went well", 2: "<b>groups</b>"}}
    return Recorded("c0ffee-1", "hgx_h100", tuple(stored), measured(stored), **(values | changes))


def view(one: Recorded, site: Site = SMALL) -> CampaignView:
    return campaign_view(one, site.places, 1)


def table(seen: CampaignView, title: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(row.nodes, row.cells) for each in (*seen.slow, *seen.tables) if each.title == title for row in each.rows]


def page_of(one: Recorded, site: Site = SMALL) -> str:
    verdicts = [Verdict(name, "admitted", "acceptance", ()) for name in site.names]
    return report_page(verdicts, {}, About(START, "lab", recorded=(one,)), site.places)


@cache
def sick_view() -> CampaignView:
    """Drawn once for all tests that only look at it."""
    return view(recorded())


@cache
def sick_page() -> str:
    return page_of(recorded())


def test_a_slow_node_and_a_slow_rail_are_told_apart() -> None:
    rows = table(sick_view(), "Slow with everybody")
    assert [(nodes, cells[0]) for nodes, cells in rows] == [(("gpu-0011",), "3"), (("gpu-0007",), "all")]
    assert rows[0][1][1] in ("62%", "63%") and rows[1][1][1] in ("83%", "84%")


def test_a_slow_pair_is_named_and_no_pair_of_a_slow_node() -> None:
    rows = table(sick_view(), "Slow only together")
    assert [(nodes, cells[0]) for nodes, cells in rows] == [(("gpu-0002", "gpu-0015"), "across pods")]


def test_a_healthy_fleet_has_nothing_slow() -> None:
    seen = view(recorded(sick=Sick()))
    assert not table(seen, "Slow with everybody") and not table(seen, "Slow only together")
    assert seen.notes == ()


@pytest.mark.parametrize("nodes", [3, 4, 7])
def test_one_slow_node_of_few_is_the_one_that_looks_slow(nodes: int) -> None:
    few = Site(nodes, rack=2)
    seen = view(one := recorded(few, Sick({"gpu-0003": 1.25})), few)
    assert [(named, cells[0]) for named, cells in table(seen, "Slow with everybody")] == [(("gpu-0003",), "all")]
    assert not table(seen, "Slow only together")
    cells = heat_cells(one.measured, one.measured.pairs[-1], few.places)
    slow = numpy.arange(nodes) == 2
    assert numpy.nanmax(cells.values[slow]) < 0.85 and numpy.nanmin(cells.values[~slow][:, ~slow]) > 0.95
    typical = {each.node: each.typical for each in one.measured.spread}
    assert typical.pop("gpu-0003") > 1.2 and max(typical.values()) < 1.05
    assert ", the fastest pair; the worst cell is at 7" in seen.figures[0].caption


def test_a_slow_pair_of_few_nodes_is_no_slow_node() -> None:
    seen = view(recorded(Site(3), Sick(pairs={("gpu-0001", "gpu-0002"): 1.5})), Site(3))
    assert not table(seen, "Slow with everybody")
    assert [named for named, _ in table(seen, "Slow only together")] == [("gpu-0001", "gpu-0002")]


def test_of_more_nodes_the_median_stands_for_all() -> None:
    assert " GB/s, the median of all pairs; the worst cell is at 6" in sick_view().figures[0].caption


def test_who_comes_last_leads_the_stragglers() -> None:
    rows = table(sick_view(), "Iterations of the slowest")
    assert {rows[0][0], rows[1][0]} == {("gpu-0007",), ("gpu-0011",)}
    counted = {nodes[0]: int(cells[3].split(" of ")[0].replace(",", "")) for nodes, cells in rows}
    assert max(counted, key=lambda node: counted[node]) == "gpu-0007"


def test_mini_clusters_are_judged_by_their_limit_or_said_to_be_unmeasured() -> None:
    rows = table(sick_view(), "Mini-clusters (mini cluster)")
    assert [(cells[0], cells[1]) for _, cells in rows] == [
        (gpus, size) for gpus in ("16", "32", "48") for size in ("64 KiB", "1 MiB")
    ]
    assert [cells[-1] for _, cells in rows] == ["yes"] * 4 + ["not measured"] * 2
    slow = view(recorded(profile=replace(PROFILE, limits={16: 1.0})))
    assert [cells[-1] for _, cells in table(slow, "Mini-clusters (mini cluster)")] == ["not in 8 of 8"] * 2


def test_distances_follow_the_declared_places() -> None:
    seen = recorded().measured
    (small, _) = seen.pairs
    between = distances(seen, SMALL.places)[small.size]
    number = {name: int(name[-4:]) - 1 for name in seen.nodes}
    for one, other, found in zip(small.one, small.other, between, strict=True):
        left, right = number[seen.nodes[one]], number[seen.nodes[other]]
        assert found == (0 if left // 2 == right // 2 else 1 if left // 8 == right // 8 else 2)
    unknown = distances(seen, {})[small.size]
    assert set(unknown.tolist()) == {2}


def test_timeline_shows_rounds_in_their_time() -> None:
    first, second = sick_view().rounds
    assert (first.number, first.kind, first.nodes, first.took, first.left) == (1, "walk", 16, "4 min", 0.0)
    assert (first.width, second.left, second.width) == (60.0, 65.0, 35.0)
    assert (
        first.phases == "15 permutations of pairs"
        and "all-reduce, all-gather in groups of 2, 4, 8, 16" in second.phases
    )
    assert first.told == "all went well"


def test_an_unfinished_round_and_the_end_of_a_campaign() -> None:
    one = recorded()
    open_round = StoredRound("c0ffee-1", 3, {"kind": "suspects", "groups": [["gpu-0007"]]}, None, START + 500, None)
    end = StoredRound("c0ffee-1", 4, {"kind": "concluded", "groups": []}, [], START + 600, START + 600)
    seen = view(replace(one, rounds=(*one.rounds, open_round, end)))
    assert [(each.kind, each.took) for each in seen.rounds][2:] == [("suspects", "not finished")]
    assert [each.number for each in seen.of_node["gpu-0007"]] == [1, 2, 3]
    assert all(each.left <= 99 and each.width >= 1 for each in seen.rounds)


@pytest.mark.parametrize(
    ("site", "cells", "says"),
    [
        (Site(16, rack=2, pod=8), 16, "one pair of nodes"),
        (Site(300, rack=4, pod=100), 75, "the slowest pair between two racks"),
        (Site(600, rack=2, pod=200), 150, "the slowest pair between 2 neighbouring racks and 2 others"),
    ],
)
def test_a_heat_map_keeps_its_worst_cell_however_many_nodes_share_one(site: Site, cells: int, says: str) -> None:
    stored = rounds(site, 299, Sick())
    whole = measured(stored[:1])
    pairs = whole.pairs[-1]
    slow = replace(pairs, ns=pairs.ns.copy())
    slow.ns[5] *= 2
    heat = heat_cells(whole, slow, site.places)
    assert heat.each == says
    assert heat.values.shape == (heat.bands.cells, heat.bands.cells) == (cells, cells)
    row, column = heat.row[slow.one[5]], heat.row[slow.other[5]]
    assert heat.values[row, column] == heat.values[column, row] == pytest.approx(shares(whole, slow)[5])
    assert numpy.nanmin(heat.values) == pytest.approx(0.5, abs=0.03)


def test_no_cell_of_a_heat_map_holds_two_pods() -> None:
    site = Site(600, rack=2, pod=130)
    whole = measured(rounds(site, 60, Sick())[:1])
    heat = heat_cells(whole, whole.pairs[-1], site.places)
    pods: dict[int, set[str]] = {}
    for node, cell in zip(whole.nodes, heat.row, strict=True):
        pods.setdefault(int(cell), set()).add(site.places[node]["pod"])
    assert all(len(found) == 1 for found in pods.values())
    assert heat.bands.names == ("pod-1", "pod-2", "pod-3", "pod-4", "pod-5")


def test_nodes_without_places_are_drawn_all_the_same() -> None:
    site = Site(600)
    whole = measured(rounds(site, 60, Sick())[:1])
    heat = heat_cells(whole, whole.pairs[-1], {})
    assert "neighbouring nodes" in heat.each and 32 < heat.bands.cells <= 256


def test_page_stays_one_strict_file() -> None:
    html = sick_page()
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:\"" in html
    assert not re.search(r"<(script|link|iframe|object|form|img)\b", html)
    for remote in ("http:", "https:", "@import", "xmlns", "<metadata"):
        assert remote not in html, remote
    assert all(target.startswith("url(#") for target in re.findall(r"url\([^)]{0,9}", html))
    assert all(value.startswith(("#", "data:image/png;base64,")) for value in re.findall(r'href="([^"]{0,30})', html))
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert {value[1:] for value in re.findall(r'href="(#[^"]+)"', html)} <= set(ids)
    # Text is escaped whoever wrote it.
    assert "&lt;b&gt;groups&lt;/b&gt;" in html
    # Names in the page's own colours only.
    assert not re.search(r"#0102[0-9a-f]{2}", html)


def test_page_allows_images_only_where_one_is() -> None:
    stored = rounds(SMALL, 15, SICK)
    without = replace(recorded(), measured=measured(stored[1:]))
    html = page_of(without)
    assert "img-src" not in html and "data:image" not in html and "<svg" in html


def test_heat_map_is_an_image_of_one_dot_a_cell() -> None:
    html = sick_page()
    (encoded,) = re.findall(r'href="data:image/png;base64,\s*([^"]+)"', html)[:1]
    png = base64.b64decode(encoded)
    assert struct.unpack(">II", png[16:24]) == (16, 16)


def test_every_figure_says_in_words_what_it_shows() -> None:
    seen = sick_view()
    titles = [figure.title for figure in seen.figures]
    assert len(titles) == len(set(titles)) >= 11
    for figure in seen.figures:
        assert re.match(r'<svg viewBox="[^"]+" role="img" aria-label="[^"]{30,}">', str(figure.svg)), figure.title
        assert figure.caption
    heat = next(figure for figure in seen.figures if figure.title == "Pairs")
    assert "120 of 120 pairs were measured (100%)" in heat.caption and "worst" in str(heat.svg)[:200]


def test_same_rounds_same_page() -> None:
    assert page_of(recorded()) == sick_page()


def test_page_without_matplotlib_has_the_rest_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    html = page_of(recorded())
    assert "No plots: matplotlib cannot be loaded" in html and "pip install" in html
    assert "<svg" not in html and "img-src" not in html
    assert "Slow with everybody" in html and "16 of 16 nodes admitted" in html


def test_page_of_a_garbled_round_has_the_verdicts_and_says_what_is_missing() -> None:
    (walk, _) = rounds(SMALL, 15, SICK)
    broken = replace(
        walk, observations=[{"group": SMALL.names, "started": True, "ok": True, "results": [{"move": 3}, "x"]}]
    )
    html = page_of(replace(recorded(), rounds=(broken,), measured=measured([broken])))
    assert "round 1: a result without move, step or bytes" in html and "can be drawn" in html
    assert "16 of 16 nodes admitted" in html


def test_hostile_names_are_only_text() -> None:
    name = "</text><script>alert(1)</script>$x_1$"
    stored = rounds(SMALL, 15, Sick({"gpu-0007": 1.3}))
    text = [
        replace(
            each,
            plan={**each.plan, "groups": [[name if node == "gpu-0007" else node for node in SMALL.names]]},
            observations=[
                {
                    **(each.observations or [])[0],
                    "group": [name if node == "gpu-0007" else node for node in SMALL.names],
                }
            ],
        )
        for each in stored
    ]
    one = Recorded(name, name, tuple(text), measured(text), {1: name}, PROFILE)
    html = report_page([Verdict(name, "rejected", "acceptance", ())], {}, About(START, recorded=(one,)), {})
    assert "<script" not in html and "&lt;script&gt;" in html


def test_wrong_data_is_said() -> None:
    stored = rounds(SMALL, 15, Sick())
    (stored[0].observations or [])[0]["results"][0]["wrong"] = {"gpu-0003": [2, 5]}
    seen = view(Recorded("c", "x", tuple(stored), measured(stored)))
    assert "gpu-0003 received wrong data on local ranks 2, 5." in seen.notes
