from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleLookupError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.muster.cluster.plugins.lookup.host_addresses import LookupModule
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet, remember

LAB = Path(__file__).parents[3] / "inventory" / "lab" / "lab.fleet.yml"


def addresses(variables: dict[str, Any], *terms: str) -> Any:
    templar = Templar(loader=DataLoader(), variables=variables)
    return LookupModule(templar=templar).run(list(terms), variables=variables)


def test_any_inventory_gives_the_same_addresses() -> None:
    fleet = Fleet.load(LAB)
    nodes = {"nodes": fleet.node_variables()}
    assert addresses({"muster_fleet": nodes}) == [{node.name: node.address for node in fleet.nodes}]


def test_fleet_that_a_play_changed_is_not_the_one_that_was_read() -> None:
    fleet = Fleet.load(LAB)
    variable = {"cluster": "lab", "nodes": trust_as_template("{{ lookup('muster.cluster.nothing') }}")}
    remember(str(LAB), fleet, variable)
    assert addresses({"muster_fleet": dict(variable)}) == [fleet.addresses]
    changed = {**variable, "nodes": {"gpu-01": {"address": "10.9.9.9"}}}
    assert addresses({"muster_fleet": changed}) == [{"gpu-01": "10.9.9.9"}]


def test_terms_are_refused() -> None:
    with pytest.raises(AnsibleLookupError, match="expected no terms"):
        addresses({"muster_fleet": {"nodes": {}}}, "gpu-01")
