"""Observations as arrays: read once, whether they come as lists or as arrays, and nothing that is none."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import Readings, pairs_of_phases
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.packed_json import read_json

from tests.isolation.fleet import SIZES, Fleet, Spec, as_json


def observed(hosts: int) -> tuple[Fleet, dict[str, Any], dict[str, Any]]:
    fleet = Fleet(Spec.usual(hosts, "clean", 0.01, rails=2), 1)
    phase = {"name": "walk", "kind": "pairs", "sizes": list(SIZES), "shifts": [0, 1], "seconds": 30}
    plan = {"kind": "walk", "groups": [fleet.nodes], "program": {"moves": [phase]}}
    return fleet, plan, fleet.run(plan)[0]


@pytest.mark.parametrize("hosts", [4, 5])
def test_lists_and_arrays_of_json_are_the_same_exchanges(hosts: int) -> None:
    fleet, plan, item = observed(hosts)
    text = json.dumps(as_json(item))
    readings = Readings(fleet.nodes, SIZES, 2)
    lists, arrays = (readings.exchanges([(1, plan, each)]) for each in (json.loads(text), read_json(text)))
    for column in ("one", "other", "gb", "p99", "ratio"):
        assert np.array_equal(getattr(lists, column), getattr(arrays, column))
    assert isinstance(read_json(text)["results"][0]["ns"], np.ndarray)


def test_permutations_are_numbered_on_over_the_phases_of_a_job() -> None:
    fleet, plan, _item = observed(4)
    (walk,) = plan["program"]["moves"]
    racks = {**{key: walk[key] for key in ("kind", "sizes", "seconds")}, "name": "racks", "pairs": [[[0, 1]], [[2, 3]]]}
    phases = [{"name": "inside", "kind": "inside", "sizes": [SIZES[0]]}, walk, racks]
    plan = {**plan, "program": {"moves": phases}}
    exchanges = Readings(fleet.nodes, SIZES, 2).exchanges([(1, plan, fleet.run(plan)[0])])
    assert exchanges.step.tolist() == [0, 0, 1, 1, 2, 3]
    step, one, other, first = pairs_of_phases(phases, 4)
    assert first == {"inside": 0, "walk": 0, "racks": 2}
    columns = (exchanges.step, exchanges.one, exchanges.other)
    assert all(np.array_equal(*each) for each in zip((step, one, other), columns, strict=True))
    assert [each.tolist() for each in pairs_of_phases([], 4)[:3]] == [[], [], []]


def test_an_observation_is_read_once() -> None:
    fleet, plan, item = observed(4)
    readings = Readings(fleet.nodes, SIZES, 2)
    assert readings.of(1, plan, item) is readings.of(1, plan, item)
    assert readings.of(1, plan, dict(item)) is not readings.of(1, plan, item)


def test_what_was_not_measured_at_all_is_no_row() -> None:
    fleet, plan, item = observed(4)
    item["ok"] = False
    item["results"] = [each for each in item["results"] if each["step"] == 0]
    exchanges = Readings(fleet.nodes, SIZES, 2).exchanges([(1, plan, item)])
    assert len(exchanges.one) == len(exchanges.unmeasured[0]) == 2
    assert exchanges.known.all()
