"""Answers come in lines that Slurm does not tear; what is torn all the same is told and never an answer."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.answer_lines import (
    PREFIX,
    _digest,
    decode,
    encode,
    pack,
    unpack,
)


def test_lines_of_many_ranks_among_other_output() -> None:
    records = [{"rank": rank, "sizes": []} for rank in range(3)]
    text = "a warning\n" + "\n".join(encode(record) for record in records) + "\nsrun: done\n"
    assert decode(text) == (records, [])


@pytest.mark.parametrize("damage", ["cut", "mixed", "changed", "no_json"])
def test_damaged_line_is_told_and_never_a_record(damage: str) -> None:
    line = encode({"rank": 0, "sizes": [{"bytes": 8, "seconds": [0.5]}]})
    damaged = {
        "cut": line[:-7],
        "mixed": line[:40] + line,
        "changed": line.replace("0.5", "0.1"),
        "no_json": f"{PREFIX} {_digest('[1]')} [1]",
    }[damage]
    records, faults = decode(damaged)
    assert records == []
    assert len(faults) == 1


def test_answers_of_nodes_and_of_ranks_come_back_however_their_lines_mix() -> None:
    numbers = [(7919 * index) % 100_003 for index in range(2000)]
    answers = [{"node": "gpu-01", "rank": 0, "ns": numbers}, {"node": "gpu-01", "rank": 1, "ns": numbers[::-1]}]
    lines = [line for answer in answers for line in pack(answer).splitlines()]
    assert len(lines) > 10
    assert max(map(len, lines)) < 1024
    mixed = "\n".join(sorted(lines, key=lambda line: line[-20:]))
    assert unpack(mixed) == (sorted(answers, key=lambda each: each["rank"]), []) or unpack(mixed)[1] == []
    assert sorted(each["rank"] for each in unpack(mixed)[0]) == [0, 1]
    assert unpack(pack({"node": "gpu-02", "tests": []})) == ([{"node": "gpu-02", "tests": []}], [])


def test_answer_without_one_of_its_lines_is_no_answer() -> None:
    lines = pack({"node": "gpu-01", "rank": 3, "ns": [(7919 * index) % 100_003 for index in range(2000)]}).splitlines()
    answers, faults = unpack("\n".join(lines[1:]))
    assert answers == []
    assert faults == [f"{len(lines) - 1} of {len(lines)} parts of gpu-01 rank 3's answer"]


def test_answer_that_comes_twice_is_told() -> None:
    text = pack({"node": "gpu-01", "rank": 3})
    assert "came twice" in unpack(text + text)[1][0]
