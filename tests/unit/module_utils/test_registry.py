"""What stages run and owe."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination import registry
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import (
    COMPONENTS,
    DEPENDS,
    fingerprint_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.probes.infiniband import Device
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError

from tests.typed import typed

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


# The boot loader's configuration explains why a parameter is missing: nothing passes by it.
@pytest.mark.parametrize("probe", [name for name in registry.probes_of("burn_in") if name != "boot_loader"])
def test_any_probe_that_fails_costs_the_pass(fake_host, expect, probe):
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
    (identity,) = [
        item for item in registry.examine("preflight", fake_host, typed(expect)).findings if item.check == "fingerprint"
    ]
    assert identity.verdict == "incomplete"
    assert identity.reason.startswith("could not be read: gpu_errors (kernel_log: the journal no longer holds")


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
    fabric = {"kind": "infiniband", "routing": "adaptive", "port": None, "nccl_least": None}
    owed = registry.required("fabric", typed({**expect, "fabric": {**fabric, "verify_cabling": True}}))
    measured = registry.required("fabric", typed({**expect, "fabric": {**fabric, "verify_cabling": False}}))
    assert set(owed) - set(measured) == {("cabling", f"nic {rail['device']}") for rail in expect["nic"]["rails"]}
    assert "cabling" not in dict(measured)
    with pytest.raises(ReadError, match="verify_cabling"):
        registry.required("fabric", typed({**expect, "fabric": fabric}))


def test_every_stage_in_rounds_owes_that_no_link_was_lost(expect):
    fabric = {"kind": "infiniband", "routing": "adaptive", "port": None, "nccl_least": None, "verify_cabling": False}
    limits = {"write_gb_per_s": 2, "read_gb_per_s": 4, "metadata_p99_ms": 50, "slowest_over_median": 1.3}
    whole = typed({**expect, "fabric": fabric, "checkpoint": CHECKPOINT, "storage": limits})
    subjects = {
        stage: [subject for check, subject in registry.required(stage, whole) if check == "carrier"]
        for stage in ("fabric", "storage", "acceptance")
    }
    rails = [f"nic {rail['device']}" for rail in expect["nic"]["rails"]]
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


def test_fingerprint_of_nothing_is_unread():
    assert fingerprint_of({}) == dict.fromkeys(COMPONENTS)
    assert all(set(names) <= set(COMPONENTS) for names in DEPENDS.values())


def test_fingerprint_follows_serials_and_slots(fake_host, expect, make_gpu_xml):
    values = registry.examine("preflight", fake_host, typed(expect)).values
    before = fingerprint_of(values, typed(expect))
    assert before["gpu_serials"] == "0000:1b:00.0=1651,0000:ab:00.0=1652"
    fake_host.outputs["nvidia-smi"] = Output(make_gpu_xml(["00000000:AB:00.0", "00000000:1B:00.0"]))
    swapped = fingerprint_of(registry.examine("preflight", fake_host, typed(expect)).values, typed(expect))
    assert {name for name in COMPONENTS if swapped[name] != before[name]} == {"gpu_serials"}


def test_one_unread_serial_leaves_the_component_unread(fake_host, expect, make_gpu_xml):
    fake_host.outputs["nvidia-smi"] = Output(make_gpu_xml(["00000000:AB:00.0"], serial="N/A"))
    assert (
        fingerprint_of(registry.examine("preflight", fake_host, typed(expect)).values, typed(expect))["gpu_serials"]
        is None
    )


NICS = {name: Device(name, firmware="28.43", guid=f"guid-{name}") for name in ("mlx5_0", "mlx5_1", "mlx5_9")}


@pytest.mark.parametrize(
    ("devices", "nics"),
    [
        (NICS, "mlx5_0=guid-mlx5_0:28.43,mlx5_1=guid-mlx5_1:28.43"),
        ({**NICS, "mlx5_1": Device("mlx5_1", firmware="28.43")}, None),
        ({**NICS, "mlx5_1": Device("mlx5_1", guid="g")}, None),
        ({"mlx5_0": NICS["mlx5_0"]}, "mlx5_0=guid-mlx5_0:28.43"),
        ({"mlx5_9": NICS["mlx5_9"]}, None),
        ({}, None),
        (None, None),
    ],
)
def test_nics_are_the_rails_that_are_there_and_unread_where_one_of_them_is(expect, devices, nics):
    two = {**expect["nic"], "rails": expect["nic"]["rails"][:2]}
    assert [rail["device"] for rail in two["rails"]] == ["mlx5_0", "mlx5_1"]
    assert fingerprint_of({"infiniband": devices}, typed({**expect, "nic": two}))["nics"] == nics
    assert fingerprint_of({"infiniband": devices}, typed({**expect, "nic": None}))["nics"] == "none"


def test_an_error_after_burn_in_changes_what_burn_in_depends_on(fake_host, expect):
    def after(*lines: str) -> str | None:
        host = FakeLog(fake_host, lines)
        return fingerprint_of(registry.examine("preflight", host, typed(expect)).values, typed(expect))["gpu_errors"]

    assert after() == "none"
    # A user's program that failed says nothing about the GPU.
    assert after("NVRM: Xid (PCI:0000:ab:00): 31, pid=9, MMU Fault") == "none"
    lost = after("NVRM: Xid (PCI:0000:ab:00): 79, GPU has fallen off the bus.")
    assert lost not in (None, "none")
    assert "gpu_errors" in DEPENDS["burn_in"]


class FakeLog:
    """The fake host with more lines in its kernel log."""

    def __init__(self, host, lines):
        self.host = host
        self.lines = lines

    def run(self, argv, timeout_seconds):
        output = self.host.run(argv, timeout_seconds)
        if argv[0] != "journalctl":
            return output
        more = "".join(f"2026-11-20T09:00:09+0000 n1 kernel: {line}\n" for line in self.lines)
        return Output(output.stdout + more)

    def read(self, path):
        return self.host.read(path)

    def paths(self, *patterns):
        return self.host.paths(*patterns)


def test_check_that_stands_in_no_table_is_asked_by_burn_in():
    apart = {name for stage, names in registry.STAGE_CHECKS.items() if stage != "burn_in" for name in names}
    judging = {name for names in registry.STRESS_CHECKS.values() for name in names}
    assert set(registry.CHECKS) - apart - judging <= set(registry.STAGE_CHECKS["burn_in"])
    assert len(set(registry.STAGE_CHECKS["burn_in"])) == len(registry.STAGE_CHECKS["burn_in"])
