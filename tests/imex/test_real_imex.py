"""What the installed nvidia-imex prints of domains that work, lose a node, and disagree about their nodes."""

from __future__ import annotations

import time
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import imex as check
from ansible_collections.muster.cluster.plugins.module_utils.probes import imex as probe
from ansible_collections.muster.cluster.plugins.module_utils.probes.nvidia_smi import Gpus
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.placed import PLACED, laid
from tests.typed import typed

from .conftest import NETWORK, NOTICE_SECONDS, Node, Rack


@pytest.fixture(scope="session")
def expect() -> Expectations:
    """A class whose domain has three hosts."""
    domain = {"hosts": 3, "imex": {"nodes": 3, "channels": 1}}
    nvlink: dict[str, Any] = {"fabric_manager": False, "fabric_manager_log": None, "domain": domain}
    return typed(laid(expectations_of("hgx_h100", PLACED, "test"), {"nvlink": nvlink}))


def judged(node: Node, expect: Expectations, version: str) -> Finding:
    values = {"imex": probe.parse(probe.collect(node.host, expect)), "nvidia_smi": Gpus(version, ())}
    (finding,) = check.decide(values, expect)
    return finding


def test_domain_that_works_passes_and_a_node_that_ends_is_its_own_fault(
    rack: Rack, expect: Expectations, version: str
) -> None:
    nodes = rack.start(3)
    found = [judged(node, expect, version) for node in nodes]
    assert [(finding.verdict, finding.reason) for finding in found] == [("pass", "")] * 3
    nodes[2].stop()
    time.sleep(NOTICE_SECONDS)
    first, second, gone = (judged(node, expect, version) for node in nodes)
    assert (gone.verdict, gone.measured) == ("fail", "failed (failed)")
    told = f"other nodes of the NVLink domain: {nodes[2].address} (UNAVAILABLE)"
    assert [(finding.verdict, finding.reason) for finding in (first, second)] == [("pass", told)] * 2


def test_node_with_another_list_of_nodes_is_its_own_fault(rack: Rack, expect: Expectations, version: str) -> None:
    nodes = rack.start(3, odd=[f"{NETWORK}9"])
    found = [judged(node, expect, version) for node in nodes]
    assert [finding.verdict for finding in found] == ["pass", "fail", "pass"]
    assert f"{nodes[1].address} (refused, lists of nodes differ" in found[0].reason
    assert found[1].measured == 4
    # It is told by its connections as well, where the class does not say how many nodes there are.
    nvlink: dict[str, Any] = {"domain": {"hosts": 3, "imex": {"nodes": None, "channels": 1}}, "fabric_manager": False}
    unsaid = typed(laid(expectations_of("hgx_h100", PLACED, "test"), {"nvlink": nvlink}))
    finding = judged(nodes[1], unsaid, version)
    assert finding.verdict == "fail" and "cut off" in finding.reason
