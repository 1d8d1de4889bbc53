"""What a healthy fleet showed is proposed, and what was adopted is judged by where peers are too few."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import next_round
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.baseline import adopted, proposed
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings

from tests.fleets import collectives
from tests.isolation.campaign import plan_of
from tests.isolation.fleet import expectations
from tests.unit.plugin_utils.isolation.test_acceptance_planner import campaign, fleet, passed

KEY = ("hgx_h100", "ib", "nccl 2.27")


def test_proposal_is_of_the_healthy_alone_and_survives_json() -> None:
    subject = fleet(32, "one_slow_10", rails=2)
    conclusion, _rounds, seen, settings = campaign(subject)
    proposal = proposed(KEY, passed(conclusion), seen, settings)
    assert proposal is not None
    medians = adopted(json.loads(json.dumps(proposal.to_dict())))
    assert medians["sendrecv", 2, 268435456] == pytest.approx(45.6, rel=0.01)
    everybody = proposed(KEY, subject.nodes, seen, settings)
    assert everybody is not None
    assert everybody.figures[0].count > proposal.figures[0].count
    assert medians["all_reduce", 31, 2**30] > 300


def test_too_few_healthy_nodes_propose_nothing() -> None:
    subject = fleet(7, rails=1)
    conclusion, _rounds, seen, settings = campaign(subject)
    assert len(passed(conclusion)) == 7
    assert proposed(KEY, passed(conclusion), seen, settings) is None


def test_few_nodes_are_judged_by_the_adopted_baseline() -> None:
    baseline = {("sendrecv", 2, 268435456): 46.0, ("sendrecv", 2, 65536): 65536 / 19_000}
    subject = fleet(4, "one_slow_10", rails=8)
    settings = Settings.of(collectives(expectations(subject.spec)), subject.places(), baseline)
    seen: list[tuple[int, dict[str, object], dict[str, object]]] = []
    while not isinstance(step := next_round(subject.nodes, (), seen, settings), Conclusion):
        seen += [(step.number, plan_of(step), item) for item in subject.run(plan_of(step))]
    (bad,) = subject.truth.bad
    assert {node for node, owed in step.findings.items() if all(each.verdict == PASS for each in owed)} == set(
        subject.nodes
    ) - {bad}
    assert any("the adopted baseline" in remark for remark in step.remarks)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"figures": [{}]},
        {"figures": [{"collective": "sendrecv", "nodes": 2, "size_bytes": 8, "median": "fast"}]},
        {"figures": [{"collective": "sendrecv", "nodes": 2, "size_bytes": 8, "median": -1}]},
        {"figures": [{"collective": "sendrecv", "nodes": 2, "size_bytes": 8, "median": float("nan")}]},
    ],
)
def test_what_is_no_baseline_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="baseline"):
        adopted(data)
