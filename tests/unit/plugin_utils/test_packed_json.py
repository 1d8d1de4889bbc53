"""Rounds as JSON: times become arrays and come back to the letter, and nothing else is touched."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.packed_json import read_json, written_json


def result(rows: Any) -> dict[str, Any]:
    return {"move": "walk", "step": 0, "bytes": 8, "ns": rows, "ns_p99": rows, "wrong": {}}


@pytest.mark.parametrize(
    "rows", [[[1, 2], [3, 4]], [[2**31], [1]], [[7, 8], None, [9, 10]], [None, [2**53 - 1]], [[18000]] * 3]
)
def test_times_become_arrays_and_are_written_as_they_were(rows: Any) -> None:
    found = read_json(json.dumps([result(rows)]))[0]
    for key in ("ns", "ns_p99"):
        assert isinstance(found[key], np.ndarray)
        assert found[key].shape == (len(rows), len(rows[-1]))
    assert json.loads(written_json(found)) == result(rows)


@pytest.mark.parametrize(
    "rows",
    [
        *([[1, "x"]], [[1], [2, 3]], [[True, 1]], [[1, True]], [[1, -1]], [[0]], [[None]], [None], "x", None, [], [[]]),
        *([[1.5]], [[1.0]], [[2**53]], [[2**70]], [[1], 2], [[1], "x"], [[[1]]], [{"a": 1}], 5),
    ],
)
def test_what_are_no_times_stays_as_it_is(rows: Any) -> None:
    text = json.dumps(result(rows))
    found = read_json(text)
    assert not isinstance(found["ns"], np.ndarray)
    assert written_json(found) == written_json(json.loads(text))


def test_other_data_with_such_keys_stays_as_it_is() -> None:
    assert read_json('{"ns": [[1, 2]]}') == {"ns": [[1, 2]]}


def test_what_ranks_say_alike_is_kept_once() -> None:
    ranks = [{"node": "a", "rank": at, "versions": {"nccl": version}} for at, version in enumerate("112")]
    found = read_json(json.dumps(ranks))
    assert found == ranks
    assert found[0]["versions"] is found[1]["versions"]


def test_neither_reads_nor_writes_what_is_no_json() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        read_json("[1")
    with pytest.raises(TypeError, match="set is not JSON"):
        written_json({1})
