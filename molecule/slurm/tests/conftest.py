"""Lets the scenario's tests share their modules, and leaves the cluster to each file as the last one found it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cluster


@pytest.fixture(scope="module", autouse=True)
def whole_cluster() -> None:
    """Each file begins with a controller that answers and three nodes that are open and usable."""
    cluster.wait_for("a controller", cluster.answering)
    if cluster.open_nodes() != set(cluster.NODES):
        cluster.admit()
    assert cluster.open_nodes() == set(cluster.NODES)
    for node in cluster.NODES:
        cluster.wait_for(f"{node} usable", lambda node=node: cluster.usable(node))
