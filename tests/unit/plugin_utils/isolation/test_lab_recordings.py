"""What real processes measured in the container lab, replayed: the planner asks what was asked and concludes as then.

The recordings and how they were taken: tests/isolation/lab/README.md.
"""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import Planner
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_programs import SUSPECTS_AGAIN

from tests.isolation.campaign import plan_of
from tests.isolation.recorded_noise import LAB, averaged, noise_of, of_healthy, simulated
from tests.isolation.recording import Recording, recordings

ALL = {recording.name: recording for recording in recordings()}
# Of four hosts the class' floors judge, far from what noise does; of eight their peers do, closer than noise lies.
FEW = {name: recording for name, recording in ALL.items() if len(recording.nodes) < recording.settings.cohort.peers}
# They have another system and another Python, and are 4 to 9 % slower at 64 KiB in both campaigns of eight hosts.
OTHER_SYSTEM = {"gpu-03", "gpu-04"}
SLOWED = {"healthy": set(), "slowed": {"gpu-03"}, "two": {"gpu-01", "gpu-04"}}


def slowed_in(recording: Recording) -> set[str]:
    return SLOWED[recording.name.split("-")[1]]


def planner_of(recording: Recording) -> Planner:
    return Planner(recording.nodes, (), recording.settings)


def concluded(recording: Recording) -> dict[str, str]:
    """Return what becomes of each node by all that was recorded, and at once if that is not all that is asked now."""
    planner = planner_of(recording)
    step = planner.next_round(recording.seen)
    if isinstance(step, Round):
        step = planner.conclude_early(recording.seen, "no more was recorded")
    return {node: state_of(step, node) for node in recording.nodes}


def state_of(step: Conclusion, node: str) -> str:
    verdicts = {finding.verdict for finding in step.findings[node]}
    if FAIL in verdicts:
        return "rejected"
    return "admitted" if verdicts == {PASS} and node not in step.held else "held"


@pytest.mark.parametrize("name", sorted(ALL))
def test_sweep_is_planned_as_it_ran(name: str) -> None:
    step = planner_of(ALL[name]).next_round([])
    assert isinstance(step, Round)
    assert plan_of(step) == ALL[name].plans[1]


@pytest.mark.parametrize("name", sorted(FEW))
def test_slow_hosts_of_the_sweep_and_nobody_else_are_measured_again(name: str) -> None:
    recording, slowed = FEW[name], slowed_in(FEW[name])
    step = planner_of(recording).next_round(recording.before(2))
    assert isinstance(step, Round)
    again = [phase for phase in step.program["moves"] if phase["name"] == SUSPECTS_AGAIN]
    assert bool(again) == bool(slowed)
    for phase in again:
        pairs = [{step.groups[0][position] for position in pair} for pairs in phase["pairs"] for pair in pairs]
        # Each of them meets nodes that were fast; what those do with each other is there to compare with.
        assert all(len(pair & slowed) <= 1 for pair in pairs)
        assert slowed <= set.union(*pairs)


@pytest.mark.parametrize("name", sorted(FEW))
def test_few_hosts_become_what_they_became(name: str) -> None:
    recording = FEW[name]
    step = planner_of(recording).next_round(recording.seen)
    assert isinstance(step, Conclusion)
    assert {node: state_of(step, node) for node in recording.nodes} == recording.states


@pytest.mark.parametrize("name", sorted(ALL.keys() - FEW.keys()))
def test_noise_beyond_the_margin_rejects_no_host_like_the_others_and_admits_no_slow_one(name: str) -> None:
    became, slowed = concluded(ALL[name]), slowed_in(ALL[name])
    assert {node for node, state in became.items() if state == "rejected"} <= slowed | OTHER_SYSTEM
    assert not any(became[node] == "admitted" for node in slowed)


def test_simulated_noise_is_that_of_eight_recorded_hosts() -> None:
    recorded, made_up = averaged(noise_of(each.seen) for each in of_healthy(8, recordings())), simulated(8, **LAB)
    small, large = dict(zip(recorded.values(), made_up.values(), strict=True)).items()
    for real, ours in (small, large):
        assert ours.slow == pytest.approx(real.slow, rel=0.3)
        assert ours.twice == pytest.approx(real.twice, abs=0.05)
        assert ours.nodes == pytest.approx(real.nodes, abs=0.03)
    real, ours = large
    assert ours.spread == pytest.approx(real.spread, rel=0.3)
    assert ours.common == pytest.approx(real.common, abs=0.15)
    assert ours.asymmetry == pytest.approx(real.asymmetry, rel=0.5)
