"""What role nccl is given: a node's variables from an inventory's variables, a checked topology, the fleet's table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.muster.cluster.plugins.lookup import nccl_topology, nccl_variables, queue_pair_table
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

ROOT = Path(__file__).parents[3]
ROCE = ROOT / "inventory/example_roce/roce.fleet.yml"


VARIABLES = nccl_variables.LookupModule()
TOPOLOGY = nccl_topology.LookupModule()
TABLE = queue_pair_table.LookupModule()


@pytest.fixture(scope="module")
def fleet():
    return Fleet.load(ROCE)


def node(fleet):
    return next(node for node in fleet.nodes if node.rails)


def test_variables_of_a_node(fleet):
    one = node(fleet)
    given = {"fabric": fleet.fabric.to_dict(), "expect": fleet.variables()["classes"][one.hardware_class]}
    found = VARIABLES.run([json.loads(json.dumps(one.to_dict()))], **given)
    assert {"name", "value", "reason"} == set(found[0])
    assert ("NCCL_IB_TC", "104") in [(each["name"], each["value"]) for each in found]


def test_contradiction_stops_the_node(fleet):
    fabric = {**fleet.fabric.to_dict(), "nccl": {"settings": {"NCCL_DEBUG": "INFO"}}}
    one = node(fleet)
    with pytest.raises(AnsibleLookupError, match='NCCL_DEBUG: found "INFO", expected nothing'):
        VARIABLES.run([one.to_dict()], fabric=fabric, expect=fleet.variables()["classes"][one.hardware_class])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<system version='1'>", "expected NCCL's topology as XML"),
        ("<graphs/>", "found root element graphs, expected system"),
        ("", "expected NCCL's topology as XML"),
        (None, "No such file"),
    ],
)
def test_topology_that_nccl_would_pass_over_is_an_error(tmp_path, text, message):
    file = tmp_path / "topo.xml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(AnsibleLookupError, match=message):
        TOPOLOGY.run([str(file)])


def test_topology_is_given_as_it_is(tmp_path):
    text = "<system version='1'><cpu numaid='0'/></system>\n"
    (tmp_path / "topo.xml").write_text(text)
    assert TOPOLOGY.run([str(tmp_path / "topo.xml")]) == [text]


def test_table_of_a_fleet(fleet):
    lines = TABLE.run([{**fleet.variables(), "nodes": fleet.node_variables()}])
    assert [line.count("e_ecmp (declared)") for line in lines] == [0, 0, 0, 1, 0]
