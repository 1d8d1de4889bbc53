"""Stalls above the class' limit hold who has them with several others, and both of two; single ones are told."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.stall_findings import limit_ms, with_stalls

from tests.fleets import collectives
from tests.isolation.fleet import Spec, expectations

NODES = tuple(f"n{number}" for number in range(1, 9))
# All seven permutations, so that each node meets every other once at each of two sizes, twenty times.
WALK = {
    **{"name": "walk", "kind": "pairs", "collective": "sendrecv", "sizes": [65536, 2**28], "iterations": 20},
    **{"warmup": 3, "seconds": 30, "shifts": list(range(7))},
}
PLAN = {"kind": "walk", "groups": [list(NODES)], "program": {"moves": [WALK]}}


def settings(**change: Any) -> Settings:
    return Settings.of(collectives({**expectations(Spec.usual(8, "clean", 0.01)), **change}))


def stall(*nodes: str, ms: tuple[float, ...], move: str = "walk", meetings: int = 40) -> dict[str, Any]:
    return {"move": move, "nodes": list(nodes), "meetings": meetings, "lost_ns": [int(each * 1e6) for each in ms]}


def concluded(*stalls: dict[str, Any], nodes: tuple[str, ...] = NODES, **item: Any) -> Conclusion:
    before = Conclusion({node: (Finding("data", "network", PASS),) for node in nodes})
    seen = {"group": list(NODES), "started": True, "ok": True, "missing": [], "stalls": list(stalls), **item}
    return with_stalls(before, [(1, PLAN, seen)], settings())


def finding(conclusion: Conclusion, node: str) -> Finding:
    return conclusion.findings[node][1]


def open_(conclusion: Conclusion) -> set[str]:
    return {node for node in conclusion.findings if finding(conclusion, node).verdict != PASS}


def test_limit_is_what_the_class_allows_an_exchange_and_no_less_than_what_hosts_pause() -> None:
    # 256 MiB at 36.4 GB/s take 7 ms.
    assert limit_ms(settings()) == limit_ms(settings(floors=[])) == 50
    ceiling = {"collective": "sendrecv", "nodes_min": 2, "size_bytes": 65536, "microseconds": 500_000}
    assert limit_ms(settings(latency=[ceiling])) == 500
    slow = [{"collective": "sendrecv", "nodes_min": 2, "size_bytes": 2**28, "busbw_gb_per_s": 1}]
    assert limit_ms(settings(floors=slow)) == pytest.approx(268.4, abs=0.1)


def test_nothing_lost_passes_and_says_of_how_many() -> None:
    found = finding(concluded(), "n1")
    assert (found.check, found.verdict, found.measured, found.expected) == ("stalls", PASS, 0, 2)
    assert found.reason == "0 of 280 exchanges (0.00%) stalled for 50 ms and more; none was longer than 10 ms"


@pytest.mark.parametrize("ms", [(49.9, 49.9, 49.9, 49.9), (120, 110)])
def test_short_or_single_stalls_pass_with_their_length_and_share(ms: tuple[float, ...]) -> None:
    conclusion = concluded(stall("n1", "n2", ms=ms))
    assert open_(conclusion) == set()
    count = sum(each >= 50 for each in ms)
    reason = finding(conclusion, "n1").reason
    assert reason.startswith(f"{count} of 280 exchanges ({count / 280:.2%}) stalled for 50 ms and more")
    assert reason.endswith(f"the longest for {max(ms):.0f} ms in walk with n2")


def test_node_that_stalls_with_several_is_held_and_not_its_partners() -> None:
    conclusion = concluded(*(stall("n3", other, ms=(100.0,) * 4) for other in ("n1", "n2", "n7")))
    assert open_(conclusion) == {"n3"}
    assert list(conclusion.held) == ["n3"]
    found = finding(conclusion, "n3")
    assert (found.verdict, found.measured, found.expected, found.unit) == (INCOMPLETE, 12, 2, "stalls")
    assert (
        "12 of 280 exchanges (4.29%) stalled for 50 ms and more, with n1, n2, n7; the longest for 100 ms"
        in found.reason
    )
    assert finding(conclusion, "n1").measured == 0


def test_two_that_stall_with_each_other_are_both_held() -> None:
    pair = stall("n1", "n2", ms=(100.0,) * 10)
    assert open_(concluded(pair)) == {"n1", "n2"}
    # One more with somebody else clears neither.
    assert open_(concluded(pair, stall("n1", "n5", ms=(100.0,)))) == {"n1", "n2"}


def test_stalls_of_a_node_by_itself_are_its_own() -> None:
    conclusion = concluded(stall("n4", ms=(90.0, 80.0, 70.0), move="inside"))
    assert open_(conclusion) == {"n4"}
    assert "with itself" in finding(conclusion, "n4").reason


@pytest.mark.parametrize(("count", "held"), [(4, False), (5, True)])
def test_what_all_waited_holds_all_beyond_a_tenth_of_their_meetings(count: int, held: bool) -> None:
    conclusion = concluded(stall(*NODES, ms=(60.0,) * count, move="all:all_reduce", meetings=40))
    assert open_(conclusion) == (set(NODES) if held else set())
    assert sorted(conclusion.held) == (sorted(NODES) if held else [])
    assert "in all:all_reduce" in finding(conclusion, "n1").reason


def test_more_than_the_share_that_holds_are_all_held() -> None:
    many = [stall(one, other, ms=(100.0,)) for one in ("n1", "n2", "n3") for other in ("n4", "n5", "n6", "n7")]
    assert open_(concluded(*many)) == {"n1", "n2", "n3", "n4", "n5", "n6", "n7"}


@pytest.mark.parametrize("item", [{"stalls": None}, {"started": False}, {"missing": ["n1"]}])
def test_node_that_told_nothing_does_not_pass(item: dict[str, Any]) -> None:
    found = finding(concluded(**item), "n1")
    assert (found.verdict, found.reason) == (INCOMPLETE, "nothing was told of its stalls")


def test_what_nccl_tests_ran_says_nothing_of_stalls() -> None:
    group = {"group": list(NODES), "started": True, "ok": True, "missing": []}
    before = Conclusion({"n1": (Finding("data", "network", PASS),)})
    unwatched = (1, {"kind": "groups", "program": {"moves": []}}, group)
    found = finding(with_stalls(before, [unwatched], settings()), "n1")
    assert (found.verdict, found.measured) == (INCOMPLETE, None)
    assert found.reason.endswith("it took part in nccl-tests alone, which tells of none")
    # With the pairs, which PyTorch measures, it does not need to.
    told = (2, PLAN, {**group, "stalls": []})
    assert finding(with_stalls(before, [unwatched, told], settings()), "n1").verdict == PASS


def test_partner_in_service_that_stalls_is_doubted() -> None:
    conclusion = concluded(*(stall("n8", other, ms=(100.0, 90.0)) for other in ("n1", "n2")), nodes=("n1", "n2"))
    assert open_(conclusion) == set()
    assert list(conclusion.doubted) == ["n8"]
