"""Which of the fleet's waivers a node is told."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.muster.cluster.plugins.lookup.waivers import LookupModule
from ansible_collections.muster.cluster.plugins.module_utils.in_service.hook_settings import HookSettings
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import read

GIVEN = {"check": "clock", "nodes": "gpu-[01-02]", "reason": "no GPS", "who": "ann", "until": "2027-01-31"}


def told(node: str, *terms: Any) -> list[dict[str, Any]]:
    return LookupModule().run(list(terms), node=node)


def test_node_is_told_its_own_in_the_form_that_its_hooks_read() -> None:
    waivers = [GIVEN, {**GIVEN, "nodes": "gpu-02", "subject": "ntp *"}]
    found = told("gpu-02", waivers)
    assert found == [
        {"check": "clock", "until": "2027-01-31", "subject": "*"},
        {"check": "clock", "until": "2027-01-31", "subject": "ntp *"},
    ]
    assert (told("gpu-01", waivers), told("gpu-03", waivers)) == (found[:1], [])
    assert len(read(HookSettings, {"operator_groups": [], "waivers": found}).waivers) == 2


@pytest.mark.parametrize("waivers", [None, "clock", [{"check": "clock"}], [{**GIVEN, "until": "soon"}]])
def test_what_is_no_list_of_waivers_is_refused(waivers: Any) -> None:
    with pytest.raises(AnsibleLookupError, match="waivers"):
        told("gpu-01", waivers)


def test_node_has_to_be_named() -> None:
    with pytest.raises(AnsibleLookupError, match="and node"):
        LookupModule().run([[GIVEN]])
