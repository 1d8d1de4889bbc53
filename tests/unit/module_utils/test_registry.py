"""What stages run and owe."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination import registry
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.judging import fingerprint, identity
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError

from tests.typed import RAILS_FABRIC, typed

MINI_CLUSTERS = {"profile": "chat", "collective": "all_reduce", "sizes_bytes": [65536], "limits": []}
CHECKPOINT = {"tier": "a", "path": "/a", "shard_bytes": 1, "ranks": 1, "target_seconds": 1}


@pytest.mark.parametrize("stage", sorted(registry.STAGE_CHECKS))
def test_healthy_host_answers_everything_it_owes(fake_host, expect, stage):
    examination = registry.examine(stage, fake_host, typed(expect))
    assert {finding.verdict for finding in examination.findings} == {"pass"}, examination.findings
    owed = {pair for pair in registry.required(stage, typed(expect)) if pair != ("burn_in", "host")}
    assert {(finding.check, finding.subject) for finding in examination.findings} == owed


@pytest.mark.parametrize("stage", sorted(registry.STAGE_CHECKS))
def test_every_tool_runs_once(fake_host, expect, stage):
    registry.examine(stage, fake_host, typed(expect))
    assert len(fake_host.runs) == len(set(fake_host.runs))


# The boot loader's configuration explains why a parameter is missing: nothing passes by it. Nor by what tells the
# machine: admission asks for two identifiers of its hardware, whichever could be read.
# A draft learns from what manages NVSwitches; of this class no check needs it.
UNJUDGED = {"boot_loader", "nvlsm", "nvswitch_nics", *identity.PROBES} - {*fingerprint.PROBES}


@pytest.mark.parametrize("probe", sorted({*registry.probes_of("burn_in")} - UNJUDGED))
def test_any_probe_that_fails_costs_the_pass(fake_host, expect, probe):
    # A fabric on which rails have network interfaces.
    expect["fabric"] = RAILS_FABRIC
    assert {item.verdict for item in registry.examine("burn_in", fake_host, typed(expect)).findings} == {"pass"}
    fake_host.asked.clear()
    registry.PROBES[probe].collect(fake_host, typed(expect))
    if not fake_host.asked:
        pytest.skip(f"{probe} has nothing to ask of this class")
    for key in fake_host.asked:
        fake_host.outputs[key] = Output(rc=None, timed_out=True, error="no answer")
    verdicts = {finding.verdict for finding in registry.examine("burn_in", fake_host, typed(expect)).findings}
    assert "incomplete" in verdicts


def test_journal_that_lost_the_start_of_the_boot_passes_nobody(fake_host, expect):
    fake_host.outputs["journalctl"] = Output("2025-01-21T04:41:44+0000 host kernel: audit: after three weeks\n")
    findings = registry.examine("burn_in", fake_host, typed(expect)).findings
    assert {finding.verdict for finding in findings if finding.check == "xid"} == {"incomplete"}
    # Preflight has this finding alone to say it with.
    (unread,) = [
        item for item in registry.examine("preflight", fake_host, typed(expect)).findings if item.check == "fingerprint"
    ]
    assert unread.verdict == "incomplete"
    assert unread.reason.startswith("could not be read: gpu_errors (kernel_log: the log lacks the beginning")


def test_required_by_acceptance(expect):
    pairs = ("pair_bandwidth", "rail_bandwidth", "pair_latency", "data")
    owed = dict.fromkeys((*pairs, "group_bandwidth", "straggler", "train", "stalls", "carrier"), "network")
    assert dict(registry.required("acceptance", typed({**expect, "fabric": None}))) == owed
    collective = {**expect["collective"], "ranks_per_node": 1, "straggler": None, "train": None}
    collective["pairs"] = {**collective["pairs"], "sizes_bytes": [268435456]}
    collective["latency"] = [{"collective": "all_reduce", "nodes_min": 2, "size_bytes": 65536, "microseconds": 60}]
    least = registry.required("acceptance", typed({**expect, "fabric": None, "collective": collective}))
    assert [check for check, _ in least] == [
        *("pair_bandwidth", "data", "group_bandwidth", "group_latency"),
        *("stalls", "carrier"),
    ]


def test_acceptance_owes_mini_clusters_where_they_are_declared_and_a_class_that_does_not_say_is_an_error(expect):
    without = registry.required("acceptance", typed({**expect, "fabric": None}))
    declared = registry.required("acceptance", typed({**expect, "fabric": None, "mini_clusters": MINI_CLUSTERS}))
    assert set(declared) - set(without) == {("mini_cluster_latency", "network")}
    del expect["mini_clusters"]
    with pytest.raises(ReadError, match="mini_clusters"):
        registry.required("acceptance", typed(expect))


def test_fabric_owes_a_verified_cable_of_every_rail(expect):
    fabric = {**RAILS_FABRIC, "kind": "infiniband"}
    owed = registry.required("fabric", typed({**expect, "fabric": {**fabric, "verify_cabling": True}}))
    measured = registry.required("fabric", typed({**expect, "fabric": {**fabric, "verify_cabling": False}}))
    assert set(owed) - set(measured) == {("cabling", f"nic rail{rail}") for rail in range(8)}
    assert "cabling" not in dict(measured)
    del fabric["verify_cabling"]
    with pytest.raises(ReadError, match="verify_cabling"):
        registry.required("fabric", typed({**expect, "fabric": fabric}))


def test_every_stage_in_rounds_owes_that_no_link_was_lost(expect):
    limits = {"write_gb_per_s": 2, "read_gb_per_s": 4, "metadata_p99_ms": 50, "slowest_over_median": 1.3}
    whole = typed({**expect, "fabric": RAILS_FABRIC, "checkpoint": CHECKPOINT, "storage": limits})
    subjects = {
        stage: [subject for check, subject in registry.required(stage, whole) if check == "carrier"]
        for stage in ("fabric", "storage", "acceptance")
    }
    rails = [f"nic rail{rail}" for rail in range(8)]
    assert subjects == {"fabric": rails, "storage": ["storage"], "acceptance": ["network"]}


def test_stage_without_requirements_is_an_error(expect):
    with pytest.raises(ValueError, match="stage is 'unknown'"):
        registry.required("unknown", typed(expect))
    for missing in ({"checkpoint": None}, {"checkpoint": CHECKPOINT, "storage": None}):
        with pytest.raises(ValueError, match="stage is storage"):
            registry.required("storage", typed({**expect, **missing}))
    with pytest.raises(ValueError, match="stage is fabric"):
        registry.required("fabric", typed({**expect, "fabric": None}))


def test_class_that_lacks_a_key_is_an_error(expect):
    del expect["gpu"]
    with pytest.raises(ReadError, match="gpu"):
        registry.required("burn_in", typed(expect))


def test_check_that_stands_in_no_table_is_asked_by_burn_in():
    apart = {name for stage, names in registry.STAGE_CHECKS.items() if stage != "burn_in" for name in names}
    judging = {name for names in registry.STRESS_CHECKS.values() for name in names}
    assert set(registry.CHECKS) - apart - judging <= set(registry.STAGE_CHECKS["burn_in"])
    assert len(set(registry.STAGE_CHECKS["burn_in"])) == len(registry.STAGE_CHECKS["burn_in"])
