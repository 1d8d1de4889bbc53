"""A lost carrier rejects its node, unless so many lost theirs that a switch is suspect; an unread one passes nobody."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Hold
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.link_findings import Owed, Told, with_links
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion

NODES = tuple(f"n{number}" for number in range(1, 9))
HOLD = Hold(nodes=2, share=0.2)
ONE = Owed("carrier", {"network": ["bond0", "rail0"]}, HOLD)
FINE: Told = {"bond0": {}, "rail0": {}}
FLAPPED: Told = {"bond0": {"eth1": [2, 4]}, "rail0": {}}


def concluded(told: list[tuple[str, Any]], owed: Owed = ONE, nodes: tuple[str, ...] = NODES) -> Conclusion:
    before = Conclusion({node: (Finding("data", "network", PASS),) for node in nodes})
    return with_links(before, owed, told)


def findings(conclusion: Conclusion, node: str) -> list[tuple[str, str, Any, str]]:
    return [(each.verdict, each.subject, each.measured, each.reason) for each in conclusion.findings[node][1:]]


def test_links_that_stayed_pass_beside_what_was_found_before() -> None:
    conclusion = concluded([(node, FINE) for node in NODES])
    assert [each.check for each in conclusion.findings["n1"]] == ["data", "carrier"]
    assert findings(conclusion, "n1") == [(PASS, "network", 0, "bond0, rail0: no carrier was lost")]
    assert conclusion.held == {}


def test_link_that_changed_in_any_round_rejects_its_node_alone() -> None:
    rounds = [*((node, FINE) for node in NODES), ("n3", FLAPPED), ("n3", FLAPPED)]
    conclusion = concluded(rounds)
    assert findings(conclusion, "n3") == [
        (FAIL, "network", 4, "carriers were lost or found while it was measured: eth1 4 times")
    ]
    assert conclusion.findings["n3"][1].action == "reseat"
    assert {node for node in NODES if findings(conclusion, node)[0][0] != PASS} == {"n3"}


@pytest.mark.parametrize(("flapping", "verdict"), [(1, FAIL), (2, INCOMPLETE)])
def test_links_of_more_than_the_class_share_speak_against_a_switch(flapping: int, verdict: str) -> None:
    told = [(node, FLAPPED if number < flapping else FINE) for number, node in enumerate(NODES)]
    conclusion = concluded(told)
    assert findings(conclusion, "n1")[0][0] == verdict
    assert sorted(conclusion.held) == ([] if verdict == FAIL else ["n1", "n2"])
    if verdict == INCOMPLETE:
        assert "so did links of 2 of 8 nodes: suspect a switch" in conclusion.held["n1"]


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (None, "the node told nothing of its links"),
        ({"bond0": {}}, "nothing was told of rail0"),
        ({**FINE, "bond0": {"eth1": [2, None]}}, "how often eth1 changed could not be read"),
        ({**FINE, "bond0": {"bond0": [None, None]}}, "how often bond0 changed could not be read"),
        ({**FINE, "bond0": {"eth1": [4, 0]}}, "the count of eth1 fell from 4 to 0: it was set back"),
    ],
)
def test_what_is_not_known_passes_nobody_and_blames_nobody(told: Told | None, why: str) -> None:
    conclusion = concluded([("n1", told)] if told else [("n2", FINE)])
    assert findings(conclusion, "n1") == [(INCOMPLETE, "network", None, why)]
    assert conclusion.held == {}


def test_each_rail_answers_for_itself_and_what_a_node_watched_besides_for_all() -> None:
    rails = Owed("carrier", {"nic rail0": ["rail0"], "nic rail1": ["rail1"]}, HOLD)
    told = {"rail0": {}, "rail1": {"rail1": [1, 2]}}
    assert [each[:3] for each in findings(concluded([("n1", told)], rails), "n1")] == [
        (PASS, "nic rail0", 0),
        (FAIL, "nic rail1", 1),
    ]
    more = {**FINE, "eth7": {"eth7": [2, 4]}}
    assert findings(concluded([("n1", more)]), "n1")[0][:3] == (FAIL, "network", 2)


def test_partner_in_service_is_doubted() -> None:
    conclusion = concluded([("n1", FINE), ("n2", FLAPPED)], nodes=("n1",))
    assert list(conclusion.doubted) == ["n2"]
    assert "eth1 2 times" in conclusion.doubted["n2"]
    assert findings(conclusion, "n1")[0][0] == PASS


def test_host_without_a_declared_interface_says_what_to_declare() -> None:
    owed = Owed("carrier", {"network": ["*"]}, HOLD)
    (found,) = findings(concluded([("n1", {"*": {"*": [None, None]}})], owed), "n1")
    assert found[0] == INCOMPLETE
    assert "fabric.socket_interface is not declared" in found[3]
