"""Nodes come, go and change their names: others are not touched, jobs go on, and a new name has nothing to show yet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import (
    LEADING,
    LOGIN,
    NODES,
    accounted,
    admit,
    changed_inventory,
    job,
    node_state,
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

WHOLE = """  - name: gpu-[01-03]
    hardware_class: lab_h100
    address: 10.77.2.21
    pods: {name: p1}
    racks: {name: "r[1-2]", nodes_each: 2}
"""
# The scenario's SlurmdTimeout, in which each node is pinged three times.
SLURMD_TIMEOUT = 20


def inventory_of(name: str, **hosts: int) -> Path:
    """Return an inventory whose nodes are those named, each with the number of its host."""
    blocks = [
        f"  - {{name: {node}, hardware_class: lab_h100, address: 10.77.2.2{host}, pods: {{name: p1}},"
        f" racks: {{name: r{1 if host < 3 else 2}, nodes_each: 1}}}}\n"
        for node, host in hosts.items()
    ]
    return changed_inventory(name, (WHOLE, "".join(blocks)))


@pytest.fixture
def running() -> Iterator[str]:
    """A job that must go on whatever happens to other nodes."""
    number = submit("sleep 900", "--nodelist=gpu-01")
    wait_for_job(number, "RUNNING")
    yield number
    found = job(number)
    on(LOGIN, f"scancel {number}")
    assert (found["JobState"], found["Restarts"]) == ("RUNNING", "0")


def test_a_node_is_removed_and_added_again_and_others_forward_to_it(running: str) -> None:
    began = now()
    last = submit("sleep 2", "--nodelist=gpu-02")
    wait_for_job(last, "COMPLETED")
    without = inventory_of("without", **{"gpu-01": 1, "gpu-03": 3})
    run = try_to_play("provision", "-e", "target=gpu-01", inventory=without)
    assert run.rc == 0, run.output[-4000:]
    assert "gpu-02" not in on(LOGIN, "sinfo --noheader --all --Node --format=%N").split()
    assert open_nodes() == {"gpu-01", "gpu-03"}
    told = [row for row in accounted(began) if row.number == last]
    assert [row.nodes for row in told] == ["gpu-02"], "accounting forgot the node's job"

    run = try_to_play("site", "-e", "target=gpu-02")
    assert run.rc == 0, run.output[-4000:]
    assert not set(run.tasks) & {"gpu-01", "gpu-03"}, "other nodes were contacted"
    assert open_nodes() == set(NODES)
    wait_for("gpu-02 usable", lambda: usable("gpu-02"))
    wait_for_job(submit("true", "--nodelist=gpu-02"), "COMPLETED")

    # With TreeWidth=2 the controller's word for gpu-02 goes by way of gpu-01, which did not know the name a while ago.
    on(LEADING, "ip route add blackhole 10.77.2.22/32")
    try:
        time.sleep(2 * SLURMD_TIMEOUT)
        assert usable("gpu-02"), f"nobody forwards to gpu-02: {node_state('gpu-02')}"
    finally:
        on(LEADING, "ip route delete blackhole 10.77.2.22/32")


def test_a_renamed_node_is_a_new_one(running: str) -> None:
    renamed = inventory_of("renamed", **{"gpu-01": 1, "gpu-02": 2, "gpu-07": 3})
    run = try_to_play("provision", "-e", "target=gpu-07", inventory=renamed)
    assert run.rc == 0, run.output[-4000:]
    assert open_nodes() == {"gpu-01", "gpu-02"}, "evidence of another name opened a node"
    play("provision", "-e", "target=gpu-03")
    admit("gpu-03")
    assert open_nodes() == set(NODES)
    wait_for("gpu-03 usable", lambda: usable("gpu-03"))
