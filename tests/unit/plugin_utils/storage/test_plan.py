"""The arithmetic reproduces what was published, and the ledger's history is counted as it was lived."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import read
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission import Case, Policy, Trouble, judge
from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.checkpoint_plan import (
    DAY_SECONDS,
    SIZES,
    FailureRate,
    History,
    Job,
    Save,
    daly_seconds,
    gb_per_s,
    history_of,
    loss,
    plan_of,
    rate_of,
    save_seconds_for,
    seconds_between_failures,
    young_seconds,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Transition

HOUR = 3600.0
# "Revisiting Reliability" (arXiv 2410.21680), the cluster with 16,000 GPUs and the one with 8,000.
RSC_1, RSC_2 = 6.5, 2.34
# Llama 3 405B: 419 unexpected interruptions in 54 days on 2,048 nodes.
LLAMA_3 = 3.79
JOB = Job(
    checkpoint_bytes=70e9 * 14,
    gpus_per_node=8,
    target_seconds=60,
    save=Save(60, 60, "measured"),
    rate=FailureRate(RSC_1, "published"),
    restart_seconds=300,
    wanted_loss_percent=5,
)


@pytest.mark.parametrize(
    ("gpus", "rate", "hours"),
    [(1024, RSC_1, 28.8), (16384, RSC_1, 1.80), (131072, RSC_1, 0.225), (16384, LLAMA_3, 3.09)],
)
def test_mean_time_between_failures_is_the_published_one(gpus: int, rate: float, hours: float) -> None:
    assert seconds_between_failures(gpus // 8, rate) / HOUR == pytest.approx(hours, rel=0.003)


@pytest.mark.parametrize(
    ("parameters", "terabytes", "gb_per_s_of_60_s"),
    [(8e9, 0.11, 1.87), (70e9, 0.98, 16.3), (405e9, 5.67, 94.5), (1e12, 14, 233)],
)
def test_bandwidth_is_the_published_one_and_a_quarter_more(
    parameters: float, terabytes: float, gb_per_s_of_60_s: float
) -> None:
    assert parameters * 14 / 1e12 == pytest.approx(terabytes, rel=0.02)
    assert gb_per_s(parameters * 14, 60) == pytest.approx(1.25 * gb_per_s_of_60_s, rel=0.003)


@pytest.mark.parametrize(("save", "percent"), [(60, 10), (10, 4)])
def test_a_failure_every_three_hours_costs_what_the_blocking_time_says(save: float, percent: float) -> None:
    failure = seconds_between_failures(2048, LLAMA_3)
    assert 100 * loss(daly_seconds(save, failure), save, failure) == pytest.approx(percent, abs=0.3)


@pytest.mark.parametrize(
    ("gpus", "rate", "interval", "save", "restart"),
    [(2048, RSC_1, HOUR, 60, 300), (4096, RSC_1, HOUR, 60, 300), (100_000, RSC_2, 120, 5, 120)],
)
def test_the_runs_that_the_paper_calls_above_nine_tenths_are(
    gpus: int, rate: float, interval: float, save: float, restart: float
) -> None:
    failure = seconds_between_failures(gpus // 8, rate)
    exact = 1 - loss(interval, save, failure, restart)
    first_order = 1 - (restart + interval / 2) / failure - save / interval
    assert exact > 0.9
    assert exact == pytest.approx(first_order, abs=0.01)


def test_an_hour_between_saves_is_too_long_for_a_hundred_thousand_gpus() -> None:
    assert 1 - loss(HOUR, 60, seconds_between_failures(12_500, RSC_2), 300) < 0.5


@pytest.mark.parametrize("save", [0.5, 5, 60, 600])
@pytest.mark.parametrize("failure", [HOUR, 10 * HOUR, 100 * HOUR])
def test_no_other_interval_loses_noticeably_less(save: float, failure: float) -> None:
    best = loss(daly_seconds(save, failure), save, failure)
    others = [loss(daly_seconds(save, failure) * factor, save, failure) for factor in (0.5, 0.8, 0.95, 1.05, 1.25, 2)]
    assert best <= min(others) + 1e-4
    assert best < min(others[0], others[-1])


def test_dalys_interval_is_youngs_where_failures_are_rare() -> None:
    assert daly_seconds(1, 1e9) == pytest.approx(young_seconds(1, 1e9), rel=1e-4)


@pytest.mark.parametrize(("save", "interval"), [(199.9, 88.9), (200.0, 100.0), (1e9, 100.0)])
def test_saves_longer_than_failures_leave_room_for_end_in_a_loss_and_not_in_an_error(
    save: float, interval: float
) -> None:
    assert daly_seconds(save, 100) == pytest.approx(interval, rel=0.01)
    assert 0.7 < loss(daly_seconds(save, 100), save, 100, restart=1e6) <= 1


@pytest.mark.parametrize("wanted", [0.001, 0.05, 0.49])
def test_a_save_of_the_wanted_length_loses_what_is_wanted(wanted: float) -> None:
    save = save_seconds_for(wanted, 10 * HOUR)
    assert loss(daly_seconds(save, 10 * HOUR), save, 10 * HOUR) == pytest.approx(wanted, rel=1e-3)


def test_the_plan_has_a_row_for_each_size_and_each_row_loses_more() -> None:
    plan = plan_of(JOB)
    assert [row.gpus for row in plan.rows] == [1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072] == list(SIZES)
    assert plan.target_gb_per_s == pytest.approx(20.4, rel=0.001)
    losses = [row.loss_percent for row in plan.rows]
    assert losses == sorted(losses)
    assert all(row.loss_with_restart_percent > row.loss_percent for row in plan.rows)
    at_16k = plan.rows[4]
    assert (at_16k.nodes, round(at_16k.failure_seconds)) == (2048, 6490)
    assert at_16k.wanted_gb_per_s == pytest.approx(1.25 * 980 / at_16k.wanted_save_seconds)


def test_a_node_that_is_part_full_fails_like_a_whole_one() -> None:
    assert [row.nodes for row in plan_of(JOB, (1, 8, 9)).rows] == [1, 1, 2]


def test_what_is_written_behind_the_job_is_repeated_after_a_failure_and_paces_the_saves() -> None:
    (stopping,) = plan_of(replace(JOB, save=Save(5, 5, "")), (16384,)).rows
    (behind,) = plan_of(replace(JOB, save=Save(5, 60, "")), (16384,)).rows
    (slow,) = plan_of(replace(JOB, save=Save(5, 2000, "")), (16384,)).rows
    assert behind.interval_seconds == stopping.interval_seconds
    # First order: 55 s more for each failure.
    more = behind.loss_percent - stopping.loss_percent
    assert more == pytest.approx(100 * 55 / behind.failure_seconds, rel=0.1)
    assert slow.interval_seconds == 1995


def moves(*steps: tuple[float, str, str]) -> list[tuple[float, Transition]]:
    return [(day * DAY_SECONDS, Transition(node, *states.split(">"), "")) for day, node, states in steps]


@pytest.mark.parametrize(
    ("steps", "node_days", "faults"),
    [
        ([], 0, 0),
        ([(10, "a", "testing>admitted")], 90, 0),
        ([(10, "a", "testing>admitted"), (30, "a", "admitted>rejected")], 20, 1),
        ([(10, "a", "testing>admitted"), (30, "a", "admitted>quarantined")], 20, 1),
        ([(10, "a", "testing>admitted"), (30, "a", "admitted>testing")], 20, 0),
        ([(10, "a", "testing>admitted"), (30, "a", "admitted>spare")], 20, 0),
        # Faults before it was in service are what the tests are for.
        ([(10, "a", "testing>rejected"), (20, "a", "rejected>quarantined")], 0, 0),
        (
            [
                (10, "a", "testing>admitted"),
                (20, "b", "testing>admitted"),
                (30, "a", "admitted>rejected"),
                (40, "a", "rejected>testing"),
                (50, "a", "testing>admitted"),
            ],
            20 + 80 + 50,
            1,
        ),
        # Taken out of the fleet file: in service for as long as the ledger tells.
        ([(10, "gone", "testing>admitted")], 0, 0),
        ([(10, "gone", "testing>admitted"), (15, "gone", "admitted>rejected")], 5, 1),
        # The control machine's clock was set back.
        ([(10, "a", "testing>admitted"), (5, "a", "admitted>rejected")], 0, 1),
        ([(200, "a", "testing>admitted")], 0, 0),
    ],
)
def test_history_counts_time_and_faults_in_service(steps: list, node_days: float, faults: int) -> None:
    assert history_of(moves(*steps), {"a", "b"}, 100 * DAY_SECONDS) == History(node_days, faults)


POLICY = read(
    Policy,
    {
        "stages": ["preflight"],
        "burn_in_profile": "short",
        "burn_in_profiles": {"short": {"steps": [{"seconds": 60}], "interval_seconds": 5}},
        "fresh_hours": {},
        "close_limit_percent": 20,
        "retest": True,
        "heartbeat_seconds": None,
    },
)


def test_a_node_that_admission_could_not_reach_any_more_is_a_fault_in_service() -> None:
    trouble = Trouble("preflight", "reach", "unreachable in this run")
    case = Case("a", {}, [], None, {}, trouble=trouble, admitted_since=1.0)
    verdict = judge(case, POLICY, 2.0)
    lost = Transition("a", "admitted", verdict.state, verdict.reason)
    seen = [*moves((10, "a", "testing>admitted")), (30 * DAY_SECONDS, lost)]
    assert verdict.state == "testing"
    assert history_of(seen, {"a"}, 100 * DAY_SECONDS) == History(20, 1)


PUBLISHED = FailureRate(RSC_1, "declared")


def test_ten_faults_of_the_fleet_itself_are_its_rate() -> None:
    rate = rate_of(History(2000, 10), PUBLISHED)
    assert rate == FailureRate(5.0, "the ledger: 10 faults in 2000.0 node-days in service")


def test_nine_faults_are_too_few_and_the_plan_says_so() -> None:
    rate = rate_of(History(2000, 9), PUBLISHED)
    assert rate.per_1000_node_days == RSC_1
    assert rate.source == "declared; the ledger tells 9 faults in 2000.0 node-days in service, fewer than 10"


def test_without_a_ledger_the_other_rate_holds() -> None:
    assert rate_of(None, PUBLISHED) == FailureRate(RSC_1, "declared; there is no ledger yet")


def test_faults_in_no_time_are_no_rate() -> None:
    assert rate_of(History(0, 12), PUBLISHED).per_1000_node_days == RSC_1
