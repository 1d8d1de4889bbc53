"""A node that falls sick in service: it drains itself, the ledger closes it, and no job starts there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import (
    LOGIN,
    NODES,
    admit,
    decide,
    lab,
    node_state,
    on,
    open_nodes,
    show,
    submit,
    try_to_play,
    usable,
    wait_for,
    wait_for_job,
)

# Two nodes, so that one repair serves both.
SICK, STRUCK = "gpu-02", "gpu-03"
XID = "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.fixture(scope="module", autouse=True)
def healed(whole_cluster: None) -> Iterator[None]:
    """Repair the nodes afterwards, as a person would; a fault in the kernel log stays one until the next boot."""
    yield
    for node in (SICK, STRUCK):
        show(node, kernel_log=None, gpus_missing=None)
        lab("reboot", node)
        decide(node, "release")
    run = try_to_play("site", "-e", f"target={SICK},{STRUCK}")
    assert run.rc == 0, run.output[-4000:]
    assert open_nodes() == set(NODES)
    for node in (SICK, STRUCK):
        wait_for(f"{node} usable", lambda node=node: usable(node))


def reason(node: str) -> str:
    """Return why a node is drained."""
    return on(LOGIN, f"sinfo --noheader --all --list-reasons --nodes={node} --format=%E").strip()


@pytest.mark.main_road
def test_a_node_that_falls_sick_drains_itself_and_leaves_its_partitions() -> None:
    show(SICK, gpus_missing=["SXM6"])
    wait_for(f"{SICK} drained by itself", lambda: "drain" in node_state(SICK))
    assert reason(SICK).startswith("muster:health:")
    admit(SICK)
    assert open_nodes() == set(NODES) - {SICK}


def test_a_job_does_not_start_on_a_node_that_falls_sick_and_is_not_held() -> None:
    before = open_nodes()
    show(STRUCK, kernel_log=[XID])
    number = submit("hostname >/tmp/ran; sleep 1", "--nodes=1", "--exclude=gpu-01,gpu-02")
    wait_for(f"{STRUCK} drained", lambda: "drain" in node_state(STRUCK))
    on(LOGIN, f"scontrol update JobId={number} ExcNodeList=")
    found = wait_for_job(number, "COMPLETED")
    assert found["NodeList"] != STRUCK
    admit(STRUCK)
    assert open_nodes() == before - {STRUCK}
