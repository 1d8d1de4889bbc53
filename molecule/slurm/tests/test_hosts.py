"""Nodes come, go and change their names: others are not touched, jobs go on, and a new name has nothing to show yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import (
    LOGIN,
    NODES,
    accounted,
    changed_inventory,
    job,
    now,
    on,
    open_nodes,
    play,
    submit,
    try_to_play,
    usable,
    wait_for,
    wait_for_job,
)

WHOLE = "- name: gpu-[01-03]"
KEPT = ("gpu-01", "gpu-02")


@pytest.fixture
def running() -> Iterator[str]:
    """A job that must go on whatever happens to other nodes."""
    number = submit("sleep 900", "--nodelist=gpu-01")
    wait_for_job(number, "RUNNING")
    yield number
    found = job(number)
    on(LOGIN, f"scancel {number}")
    assert (found["JobState"], found["Restarts"]) == ("RUNNING", "0")


def test_a_node_is_removed_and_added_again(running: str) -> None:
    began = now()
    last = submit("sleep 2", "--nodelist=gpu-03")
    wait_for_job(last, "COMPLETED")
    without = changed_inventory("without", (WHOLE, "- name: gpu-[01-02]"), ('"r[1-2]"', "r1"))
    run = try_to_play("site", "-e", "target=gpu-01", inventory=without)
    assert run.rc == 0, run.output[-4000:]
    assert "gpu-03" not in on(LOGIN, "sinfo --noheader --all --Node --format=%N").split()
    assert open_nodes() == set(KEPT)
    told = [row for row in accounted(began) if row.number == last]
    assert [row.nodes for row in told] == ["gpu-03"], "accounting forgot the node's job"

    run = try_to_play("site", "-e", "target=gpu-03")
    assert run.rc == 0, run.output[-4000:]
    assert not set(run.tasks) & set(KEPT), "other nodes were contacted"
    assert open_nodes() == set(NODES)
    wait_for("gpu-03 usable", lambda: usable("gpu-03"))
    wait_for_job(submit("true", "--nodelist=gpu-03"), "COMPLETED")


def test_a_renamed_node_is_a_new_one(running: str) -> None:
    fleet = ((WHOLE, "- name: gpu-[01-02]"), ('"r[1-2]"', "r1"))
    other = (
        "  - {name: gpu-07, hardware_class: lab_h100, address: 10.77.2.23, pods: {name: p1},"
        " racks: {name: r2, nodes_each: 1}}\n\nfabric:"
    )
    renamed = changed_inventory("renamed", *fleet, ("\nfabric:", other))
    run = try_to_play("provision", "-e", "target=gpu-07", inventory=renamed)
    assert run.rc == 0, run.output[-4000:]
    assert open_nodes() == set(KEPT), "evidence of another name opened a node"
    play("site", "-e", "target=gpu-03")
    assert open_nodes() == set(NODES)
    wait_for("gpu-03 usable", lambda: usable("gpu-03"))
