"""Fleets whose bad nodes once passed: each says who must not, and that nobody sound is rejected."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import Planner
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings

from tests.fleets import collectives
from tests.isolation.campaign import became_of, plan_of
from tests.isolation.faults import EITHER, HELD, PASSED, REJECTED, Fault, Slow
from tests.isolation.fleet import Fleet, Spec, expectations

MOST_ROUNDS = 8


def nodes(*numbers: int) -> tuple[str, ...]:
    return tuple(f"h{number:02}" for number in numbers)


def spec(hosts: int, rack: int = 0, pod: int = 0, **other: float) -> Spec:
    return Spec(hosts, "named below", 0.01, rack=rack, pod=pod, **other)


def to_their_rack(*numbers: int) -> list[Fault]:
    """Return that these are slow with the three others of their rack of four."""
    return [
        Slow(nodes(number), 0.33, to=nodes(*(each for each in _rack(number) if each != number)), expect=EITHER)
        for number in numbers
    ]


def _rack(number: int) -> range:
    first = (number - 1) // 4 * 4 + 1
    return range(first, first + 4)


SOME = nodes(6, 8, 11, 17, 20, 24, 43, 48, 52, 54, 55, 63)
MANY = nodes(1, 4, 5, 7, 9, 13, 14, 15, 16, 21, 24, 25, 26, 29, 30, 33)
NEARLY_ALWAYS = nodes(3, 7, 9, 14, 17, 19, 20, 23, 25, 26, 27, 31, 32, 33, 35, 36, 38, 41, 42, 44)
BESIDE = nodes(1, 2, 4, 7, 8, 9, 10, 12, 13, 14, 16, 18)


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        pytest.param(
            spec(32, 16, 2, rails=2, spares=4),
            [Slow(nodes(*range(1, 17)), 0.148, to=nodes(*range(17, 33)), expect=HELD, expect_to=HELD)],
            id="two racks, and nodes in service in a third",
        ),
        pytest.param(
            spec(64), [Slow(SOME, 0.2, to=SOME, expect=HELD, expect_to=HELD)], id="a fifth slow with each other alone"
        ),
        pytest.param(
            spec(40, 20, 2),
            [Slow(nodes(each), 0.133, to=nodes(*range(21, 41)), expect=EITHER) for each in (3, 10, 13, 17, 20)]
            + [Slow(nodes(each), 0.133, to=nodes(*range(1, 21)), expect=EITHER) for each in (21, 22, 28, 31, 35, 38)],
            id="some of either rack slow with the other rack alone",
        ),
        pytest.param(
            spec(24, 8, 2, rails=2),
            [Slow(nodes(each), 0.138, to=nodes(*range(9, 25)), expect=EITHER) for each in (1, 2, 3, 4, 7)]
            + [Slow(nodes(each), 0.138, to=nodes(*range(1, 9), *range(17, 25)), expect=EITHER) for each in (12, 13)]
            + [Slow(nodes(each), 0.138, to=nodes(*range(1, 17)), expect=EITHER) for each in (17, 18, 23, 24)],
            id="many of three racks slow with all other racks",
        ),
        pytest.param(
            spec(72, 8, 5),
            [Slow(nodes(2), 0.2, operations=("all_gather",), expect=EITHER)],
            id="a collective where few groups lie as far apart",
        ),
        pytest.param(
            spec(33, 4),
            [
                Slow(nodes(6), 0.2, to=nodes(19), expect=HELD, expect_to=HELD),
                Slow(MANY, 0.2, expect=HELD),
            ],
            id="a pair of sound nodes beside half that is slow",
        ),
        pytest.param(
            spec(24, 4, rails=4),
            [Slow(nodes(15), 0.354, to=nodes(19), expect=HELD, expect_to=HELD), Slow(BESIDE, 0.354, expect=EITHER)],
            id="a pair of which half of the others are slow",
        ),
        pytest.param(
            spec(24, 4), to_their_rack(1, 3, 4, 5, 8, 9, 11, 13, 16, 18, 21), id="half slow with their own racks"
        ),
        pytest.param(
            spec(32, 4),
            [Slow(nodes(1, 2, 4, 5, 7, 8, 10, 11, 16, 23, 30, 32), 0.2, when=0.3, expect=EITHER)],
            id="a third slow now and then",
        ),
        pytest.param(
            spec(48, 4),
            [Slow(NEARLY_ALWAYS, 0.12, when=0.95, operations=("sendrecv",), expect=HELD)],
            id="many slow nearly always, of whom some met well by chance",
        ),
        pytest.param(
            spec(64, rails=1),
            [Slow(nodes(first), 0.25, to=nodes(first + 30), expect=HELD, expect_to=HELD) for first in (3, 9, 14, 20)],
            id="pairs of hosts with a single rail",
        ),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_nobody_bad_passes_and_nobody_sound_is_rejected(spec: Spec, faults: Sequence[Fault], seed: int) -> None:
    fleet = Fleet(spec, seed, faults)
    members, partners = fleet.nodes[: spec.hosts], fleet.nodes[spec.hosts :]
    planner = Planner(members, partners, Settings.of(collectives(expectations(spec)), fleet.places()))
    seen = []
    while not isinstance(step := planner.next_round(seen), Conclusion):
        assert step.number <= MOST_ROUNDS
        plan = plan_of(step)
        seen += [(step.number, plan, item) for item in fleet.run(plan)]
    became = became_of(step)
    truth = fleet.truth
    assert {node for node in (*truth.bad, *truth.held, *truth.either) if became[node] == PASSED} == set()
    rejected = {node for node, its in became.items() if its == REJECTED}
    assert rejected <= {*truth.bad, *truth.either}
