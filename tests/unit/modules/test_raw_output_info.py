"""raw_output_info gives what an examination kept, and nothing from elsewhere."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.evidence_store import EvidenceStore
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.raw_outputs import unpack
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.modules import raw_output_info

from tests.run_module import run_module

KEPT = {"last": {"lscpu": Output("48\n"), "dmesg": Output("", "denied\n", 1)}, "step_1": {"bench": Output("good")}}


@pytest.fixture
def asked(tmp_path, monkeypatch):
    store = EvidenceStore(str(tmp_path))
    monkeypatch.setattr(raw_output_info, "EvidenceStore", lambda: store)
    evidence = Evidence("b-1", "gpu-01", "burn_in", 1.0, 2.0, "b", {}, "d")
    for place, outputs in KEPT.items():
        store.write_raw(evidence, place, outputs)

    def run(places, evidence_id="b-1"):
        return run_module("raw_output_info", stage="burn_in", id=evidence_id, places=places)

    return run


def test_outputs_are_those_that_were_kept(asked):
    result = asked(["last", "step_1"])
    assert unpack(result["outputs"]) == KEPT and result["changed"] is False


@pytest.mark.parametrize(
    ("places", "evidence_id", "told"),
    [
        (["last", "first_failed"], "b-1", "first_failed"),
        (["../../../etc"], "b-1", "expected PROBE or PLACE/PROBE"),
        (["last"], "b-2", "No such file"),
        (["last"], "../burn_in/b-1", "id is"),
    ],
)
def test_outputs_that_are_not_there_fail_the_task(asked, places, evidence_id, told):
    result = asked(places, evidence_id)
    assert result["failed"] and told in result["msg"]
