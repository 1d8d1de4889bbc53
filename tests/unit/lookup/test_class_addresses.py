"""The places of the shipped classes of real hosts, and none of a board or of the lab."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.muster.cluster.plugins.lookup.class_addresses import LookupModule
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of


def test_places_are_those_of_the_classes() -> None:
    (classes,) = LookupModule().run([])
    assert {"dgx_h100", "xe9680_h100"} <= set(classes)
    assert not {"hgx_h100", "hgx_h200", "lab_h100"} & set(classes)
    for name, places in classes.items():
        expect = expectations_of(name, {}, "test")
        assert places["gpus"] == [part["address"] for part in expect["gpu"]["parts"]]
        assert places["rails"] == [rail["address"] for rail in expect["nic"]["rails"]]


def test_terms_are_refused() -> None:
    with pytest.raises(AnsibleLookupError, match="no terms"):
        LookupModule().run(["dgx_h100"])
