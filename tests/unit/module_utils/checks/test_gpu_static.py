"""The static GPU checks: both sides of every boundary, and nothing unread passes."""

from dataclasses import replace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.rail_names import Names
from ansible_collections.muster.cluster.plugins.module_utils.probes.fabric_manager import FabricManager
from ansible_collections.muster.cluster.plugins.module_utils.probes.nvidia_smi import (
    Errors,
    Gpu,
    Gpus,
    Heat,
    Pcie,
    Process,
    RemappedRows,
    RetiredPages,
    parse,
)
from ansible_collections.muster.cluster.plugins.module_utils.probes.nvlink import Links
from ansible_collections.muster.cluster.plugins.module_utils.probes.topology import Row, Topology

from tests.typed import typed

FIRST, SECOND = "gpu SXM1 0000:1b:00.0", "gpu SXM6 0000:ab:00.0"
OF_ONE_GPU = (
    *("gpu_power", "gpu_settings", "gpu_pcie", "gpu_row_remap", "gpu_ecc", "gpu_retired_pages", "gpu_throttle"),
    *("gpu_processes", "gpu_recovery", "gpu_fabric", "gpu_versions"),
)


@pytest.fixture
def report(make_gpu_xml):
    return parse(Output(make_gpu_xml(["00000000:1B:00.0", "00000000:AB:00.0"])))


def changed(report, **fields):
    """Return the report with other values on its second GPU."""
    return replace(report, gpus=(report.gpus[0], replace(report.gpus[1], **fields)))


def found(check, expect, **values):
    findings = CHECKS[check].decide(values, typed(expect))
    assert len({finding.subject for finding in findings}) == len(findings)
    return {finding.subject: finding for finding in findings}


def second(check, expect, report, **fields):
    """Return the finding on the changed GPU; the other one passes whatever happens to it."""
    findings = found(check, expect, nvidia_smi=changed(report, **fields))
    assert findings[FIRST].verdict == "pass"
    return findings[SECOND]


@pytest.mark.parametrize("check", OF_ONE_GPU)
def test_healthy_gpus_pass_and_one_that_is_not_described_does_not(check, expect, report):
    if check == "gpu_retired_pages":
        expect["gpu"]["retired_pages"] = 59
        report = replace(
            report, gpus=tuple(replace(gpu, retired_pages=RetiredPages(0, 0, False)) for gpu in report.gpus)
        )
    assert {finding.verdict for finding in found(check, expect, nvidia_smi=report).values()} == {"pass"}
    fewer = replace(report, gpus=report.gpus[:1])
    assert found(check, expect, nvidia_smi=fewer)[SECOND].verdict == "incomplete"
    stopped = Gpus(None, (), ("0000:ab:00.0",), stopped=True)
    assert {finding.verdict for finding in found(check, expect, nvidia_smi=stopped).values()} == {"incomplete"}
    lost = replace(fewer, lost=("0000:ab:00.0",))
    findings = found(check, expect, nvidia_smi=lost)
    assert (findings[FIRST].verdict, findings[SECOND].verdict) == ("pass", "incomplete")
    assert findings[SECOND].reason == "lost"


LOST = ("0000:ab:00.0",)


@pytest.mark.parametrize(
    ("how", "first", "second"),
    [
        ({}, "pass", ("fail", "absent", "reboot")),
        ({"lost": LOST}, "pass", ("fail", "lost", "reboot")),
        ({"nameless": 1}, "pass", ("fail", "absent", "reboot")),
        ({"lost": LOST, "stopped": True, "gpus": ()}, "incomplete", ("fail", "lost", "reboot")),
    ],
)
def test_gpu_that_is_not_described_fails_by_name_and_the_other_is_judged_by_what_is_said_of_it(
    how, first, second, expect, report
):
    how = {"gpus": report.gpus[:1], **how}
    findings = found("gpu_inventory", expect, nvidia_smi=replace(report, **how))
    assert findings[FIRST].verdict == first and set(findings) == {FIRST, SECOND}
    finding = findings[SECOND]
    assert (finding.verdict, finding.measured, finding.action) == second and SECOND in finding.reason


def test_gpu_lost_without_an_address_beside_a_whole_class_passes_nobody_by(expect, report):
    findings = found("gpu_inventory", expect, nvidia_smi=replace(report, nameless=1))
    assert findings.pop("host").verdict == "fail"
    assert {finding.verdict for finding in findings.values()} == {"pass"}


def test_gpu_that_only_has_to_be_reset_is_failed_by_what_the_driver_asks_for(expect, report):
    waiting = replace(report, gpus=(report.gpus[0], Gpu("0000:ab:00.0", recovery_action="Reset")))
    finding = found("gpu_recovery", expect, nvidia_smi=waiting)[SECOND]
    assert (finding.verdict, finding.action) == ("fail", "reset_gpu")
    others = [check for check in (*OF_ONE_GPU, "gpu_inventory") if check not in ("gpu_recovery", "gpu_retired_pages")]
    assert {found(check, expect, nvidia_smi=waiting)[SECOND].verdict for check in others} == {"incomplete"}
    # Where nvidia-smi stopped at it, the other one is not called absent.
    stopped = Gpus(None, waiting.gpus[1:], stopped=True)
    findings = found("gpu_inventory", expect, nvidia_smi=stopped)
    assert {finding.verdict for finding in findings.values()} == {"incomplete"}


@pytest.mark.parametrize(
    ("check", "fields", "answer"),
    [
        ("gpu_power", {"power_default_watts": 650.0, "power_enforced_watts": 650.0}, ("fail", "investigate")),
        ("gpu_power", {"power_enforced_watts": 699.99}, ("fail", "investigate")),
        ("gpu_power", {"power_enforced_watts": None}, ("incomplete", "investigate")),
        ("gpu_power", {"power_default_watts": None}, ("incomplete", "investigate")),
        ("gpu_power", {"sensor_errors": {"power draw": "Unknown Error"}}, ("fail", "reset_gpu")),
        ("gpu_power", {"power_watts": None}, ("incomplete", "investigate")),
        ("gpu_power", {"power_watts": 0.0}, ("incomplete", "investigate")),
        ("gpu_power", {"heat": Heat(87, memory=95)}, ("pass", "none")),
        ("gpu_power", {"heat": Heat(88, memory=95)}, ("fail", "investigate")),
        ("gpu_power", {"heat": Heat(87, memory=96)}, ("fail", "investigate")),
        ("gpu_power", {"heat": Heat(80, gpu_most=79, memory=60)}, ("fail", "investigate")),
        ("gpu_power", {"heat": Heat(80, memory=60, memory_most=59)}, ("fail", "investigate")),
        ("gpu_power", {"heat": Heat(80, left=0, memory=60)}, ("pass", "none")),
        ("gpu_power", {"heat": Heat(80, left=-1, left_least=0, memory=60)}, ("fail", "investigate")),
        ("gpu_power", {"heat": Heat(None, memory=60)}, ("incomplete", "investigate")),
        ("gpu_power", {"heat": Heat(40)}, ("incomplete", "investigate")),
        ("gpu_settings", {"compute_mode": "Prohibited"}, ("fail", "investigate")),
        ("gpu_settings", {"compute_mode": "Exclusive_Process"}, ("fail", "investigate")),
        ("gpu_settings", {"compute_mode": "Something"}, ("incomplete", "investigate")),
        ("gpu_settings", {"compute_mode": None}, ("incomplete", "investigate")),
        ("gpu_settings", {"clock_set_mhz": 1979, "clock_default_mhz": 1980}, ("fail", "investigate")),
        ("gpu_settings", {"clock_set_mhz": 1980, "clock_default_mhz": 1755}, ("pass", "none")),
        ("gpu_settings", {"clock_set_mhz": None, "clock_default_mhz": None}, ("pass", "none")),
        ("gpu_settings", {"clock_set_mhz": None, "clock_default_mhz": 1980}, ("incomplete", "investigate")),
        ("gpu_settings", {"clock_max_mhz": 1410}, ("fail", "investigate")),
        ("gpu_settings", {"clock_max_mhz": 1410, "clock_max_boost_mhz": None}, ("fail", "investigate")),
        ("gpu_versions", {"gsp_firmware": "570.86.16"}, ("fail", "investigate")),
        ("gpu_versions", {"gsp_firmware": None}, ("incomplete", "investigate")),
        ("gpu_versions", {"gsp_firmware": None, "architecture": "Ampere"}, ("pass", "none")),
        ("gpu_pcie", {"bar1_mib": 256}, ("fail", "investigate")),
        ("gpu_pcie", {"bar1_mib": 65536}, ("fail", "investigate")),
        ("gpu_pcie", {"bar1_mib": 32768, "architecture": "Ampere"}, ("pass", "none")),
        ("gpu_pcie", {"bar1_mib": 256, "architecture": "Ampere"}, ("fail", "investigate")),
        ("gpu_pcie", {"bar1_mib": None}, ("incomplete", "investigate")),
        ("gpu_settings", {"ecc": False}, ("fail", "reset_gpu")),
        ("gpu_settings", {"ecc_pending": False}, ("fail", "reset_gpu")),
        ("gpu_settings", {"ecc_pending": None}, ("incomplete", "investigate")),
        ("gpu_settings", {"mig": True}, ("fail", "reset_gpu")),
        ("gpu_settings", {"mig_pending": True}, ("fail", "reset_gpu")),
        ("gpu_settings", {"mig": None}, ("incomplete", "investigate")),
        ("gpu_settings", {"persistence": False}, ("fail", "investigate")),
        ("gpu_settings", {"persistence": None}, ("incomplete", "investigate")),
        ("gpu_pcie", {"pcie": Pcie(5, 5, 5, 8, 16, 0)}, ("fail", "reseat")),
        ("gpu_pcie", {"pcie": Pcie(5, 5, 5, None, 16, 0)}, ("incomplete", "investigate")),
        ("gpu_pcie", {"pcie": Pcie(4, 4, 5, 16, 16, 0)}, ("fail", "investigate")),
        ("gpu_pcie", {"pcie": Pcie(None, 5, 5, 16, 16, 0)}, ("incomplete", "investigate")),
        ("gpu_pcie", {"pcie": Pcie(5, None, 5, 16, 16, 0)}, ("incomplete", "investigate")),
        ("gpu_pcie", {"pcie": Pcie(5, 5, 5, 16, 16, 10000)}, ("pass", "none")),
        ("gpu_pcie", {"pcie": Pcie(5, 5, 5, 16, 16, 10001)}, ("fail", "reseat")),
        ("gpu_pcie", {"pcie": Pcie(5, 5, 5, 16, 16, None)}, ("incomplete", "investigate")),
        ("gpu_pcie", {"pcie": Pcie(1, 5, 5, 16, 16, 0), "utilisation_percent": 40}, ("fail", "reseat")),
        ("gpu_pcie", {"pcie": Pcie(1, 5, 5, 16, 16, 0), "utilisation_percent": 0}, ("pass", "none")),
        (
            "gpu_pcie",
            {"pcie": Pcie(1, 5, 5, 16, 16, 0), "utilisation_percent": None, "throttle": {}},
            ("incomplete", "investigate"),
        ),
        ("gpu_row_remap", {"remapped_rows": RemappedRows(0, 1, True, False, 0)}, ("fail", "reset_gpu")),
        ("gpu_row_remap", {"remapped_rows": RemappedRows(0, 1, True, True, 0)}, ("fail", "rma")),
        ("gpu_row_remap", {"remapped_rows": RemappedRows(0, 512, False, False, 0)}, ("pass", "investigate")),
        ("gpu_row_remap", {"remapped_rows": RemappedRows(0, 513, False, False, 0)}, ("fail", "rma")),
        ("gpu_row_remap", {"remapped_rows": RemappedRows(10, 0, False, False, 0)}, ("pass", "none")),
        ("gpu_row_remap", {"remapped_rows": RemappedRows(11, 0, False, False, 0)}, ("pass", "investigate")),
        ("gpu_row_remap", {"remapped_rows": RemappedRows(0, 0, False, False, 1)}, ("pass", "investigate")),
        ("gpu_row_remap", {"remapped_rows": RemappedRows(0, 0, None, False, 0)}, ("incomplete", "investigate")),
        ("gpu_row_remap", {"remapped_rows": RemappedRows(0, 0, False, None, 0)}, ("incomplete", "investigate")),
        ("gpu_row_remap", {"remapped_rows": RemappedRows(0, 0, False, False, None)}, ("incomplete", "investigate")),
        ("gpu_ecc", {"sram_threshold_exceeded": True}, ("fail", "rma")),
        ("gpu_ecc", {"sram_threshold_exceeded": None}, ("incomplete", "investigate")),
        ("gpu_ecc", {"memory_unrepairable": True}, ("fail", "rma")),
        ("gpu_ecc", {"repair_pending": True}, ("fail", "reset_gpu")),
        ("gpu_ecc", {"volatile": Errors(0, 0, 0, 0, 4)}, ("fail", "reset_gpu")),
        ("gpu_ecc", {"volatile": Errors(uncorrectable=0)}, ("incomplete", "investigate")),
        ("gpu_ecc", {"aggregate": Errors(0, 4, 0, 0)}, ("pass", "investigate")),
        ("gpu_ecc", {"aggregate": Errors(0, 0, 0, 3)}, ("pass", "investigate")),
        ("gpu_ecc", {"not_understood": ("channel repair pending",)}, ("incomplete", "investigate")),
        ("gpu_ecc", {"aggregate": Errors(0, 5, 0, 0)}, ("fail", "rma")),
        ("gpu_ecc", {"aggregate": Errors(0, None, 0, 0)}, ("incomplete", "investigate")),
        ("gpu_ecc", {"volatile": Errors(0, 1, 0, 0)}, ("fail", "reset_gpu")),
        ("gpu_ecc", {"volatile": Errors(0, 0, 0, 1)}, ("fail", "reset_gpu")),
        ("gpu_ecc", {"volatile": Errors(10000, 0, 20000000, 0)}, ("pass", "none")),
        ("gpu_ecc", {"volatile": Errors(10001, 0, 0, 0)}, ("fail", "investigate")),
        ("gpu_ecc", {"volatile": Errors(0, 0, 20000001, 0)}, ("fail", "investigate")),
        ("gpu_ecc", {"volatile": Errors(0, 0, 0, None)}, ("incomplete", "investigate")),
        ("gpu_ecc", {"volatile": Errors(0, None, 0, 0)}, ("incomplete", "investigate")),
        ("gpu_processes", {"processes": (Process("7", "C", "./burn"),)}, ("fail", "restart_app")),
        ("gpu_processes", {"processes": None}, ("incomplete", "investigate")),
        ("gpu_processes", {"memory_used_mib": 15}, ("pass", "none")),
        ("gpu_processes", {"memory_used_mib": 16}, ("fail", "reset_gpu")),
        ("gpu_processes", {"memory_used_mib": None}, ("incomplete", "investigate")),
        ("gpu_recovery", {"recovery_action": "Reset"}, ("fail", "reset_gpu")),
        ("gpu_recovery", {"recovery_action": "Drain and Reset"}, ("fail", "reset_gpu")),
        ("gpu_recovery", {"recovery_action": "Reboot"}, ("fail", "reboot")),
        ("gpu_recovery", {"recovery_action": "Drain P2P"}, ("fail", "reset_gpu")),
        ("gpu_recovery", {"recovery_action": "System Reboot"}, ("fail", "reboot")),
        ("gpu_recovery", {"recovery_action": "Recover IMEX Domain"}, ("fail", "investigate")),
        ("gpu_recovery", {"recovery_action": "Ask again"}, ("incomplete", "investigate")),
        ("gpu_recovery", {"recovery_action": None}, ("incomplete", "investigate")),
        ("gpu_fabric", {"fabric_state": "In Progress", "fabric_status": None}, ("fail", "investigate")),
        ("gpu_fabric", {"fabric_state": "Not Started", "fabric_status": None}, ("fail", "investigate")),
        ("gpu_fabric", {"fabric_status": "Error"}, ("fail", "reset_gpu")),
        ("gpu_fabric", {"fabric_status": None}, ("incomplete", "investigate")),
        ("gpu_fabric", {"fabric_state": None}, ("incomplete", "investigate")),
        ("gpu_fabric", {"clique_id": 7}, ("fail", "investigate")),
        ("gpu_fabric", {"cluster_uuid": "9c6f5af4-53bf-49b5-a436-b66766c413c3"}, ("fail", "investigate")),
        ("gpu_fabric", {"clique_id": None}, ("pass", "none")),
        ("gpu_fabric", {"fabric_health": {"bandwidth": "Degraded"}}, ("fail", "reset_gpu")),
        ("gpu_fabric", {"fabric_health": {"bandwidth": "Full", "route_unhealthy": "False"}}, ("pass", "none")),
    ],
)
def test_one_gpu_is_judged_by_its_own_values(check, fields, answer, expect, report):
    finding = second(check, expect, report, **fields)
    assert (finding.verdict, finding.action) == answer, finding.reason
    assert finding.verdict == "pass" or finding.reason


def test_idle_gpu_at_gen1_passes_and_says_so(expect, report):
    finding = second("gpu_pcie", expect, report, pcie=Pcie(1, 5, 5, 16, 16, 3))
    assert finding.verdict == "pass" and "idle" in finding.reason and "3 PCIe replays" in finding.reason


@pytest.mark.parametrize(
    "reason", ["hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"]
)
def test_heat_and_power_brake_are_faults(reason, expect, report):
    throttle = report.gpus[1].throttle
    assert second("gpu_throttle", expect, report, throttle={**throttle, reason: True}).verdict == "fail"
    assert second("gpu_throttle", expect, report, throttle={**throttle, reason: None}).verdict == "incomplete"


def test_power_cap_and_idleness_are_no_faults(expect, report):
    throttle = {**report.gpus[1].throttle, "idle": False, "sw_power_cap": True}
    assert second("gpu_throttle", expect, report, throttle=throttle).verdict == "pass"


@pytest.mark.parametrize(
    ("pages", "verdict", "action"),
    [
        (RetiredPages(29, 30, False), "pass", "none"),
        (RetiredPages(30, 30, False), "fail", "rma"),
        (RetiredPages(0, 1, True), "fail", "reset_gpu"),
        (RetiredPages(0, 0, None), "incomplete", "investigate"),
        (RetiredPages(None, 0, False), "incomplete", "investigate"),
    ],
)
def test_retired_pages(pages, verdict, action, expect, report):
    expect["gpu"]["retired_pages"] = 59
    finding = found("gpu_retired_pages", expect, nvidia_smi=changed(report, retired_pages=pages))[SECOND]
    assert (finding.verdict, finding.action) == (verdict, action)


def test_retired_pages_are_not_asked_of_a_gpu_that_remaps_rows(expect):
    assert CHECKS["gpu_retired_pages"].subjects(typed(expect)) == []
    expect["gpu"]["row_remap"] = None
    assert CHECKS["gpu_row_remap"].subjects(typed(expect)) == []


def test_odd_vbios_is_named_where_none_is_declared(expect, report):
    three = replace(report, gpus=(*report.gpus, replace(report.gpus[0], address="0000:cb:00.0")))
    findings = found("gpu_versions", expect, nvidia_smi=changed_last(three, 1, vbios="97.00"))
    assert (findings[SECOND].verdict, findings[FIRST].verdict, findings["host"].verdict) == ("fail", "pass", "pass")
    # Two of two differ: nobody knows which of them is the odd one.
    findings = found("gpu_versions", expect, nvidia_smi=changed(report, vbios="97.00"))
    assert findings[FIRST].verdict == findings[SECOND].verdict == "fail"


def changed_last(report, at, **fields):
    gpus = list(report.gpus)
    gpus[at] = replace(gpus[at], **fields)
    return replace(report, gpus=tuple(gpus))


def test_declared_versions_are_compared(expect, report):
    expect["gpu"].update(driver="570.86.15", vbios="96.00")
    assert {finding.verdict for finding in found("gpu_versions", expect, nvidia_smi=report).values()} == {"pass"}
    expect["gpu"].update(driver="570.86.16", vbios="96.01")
    assert {finding.verdict for finding in found("gpu_versions", expect, nvidia_smi=report).values()} == {"fail"}
    assert found("gpu_versions", expect, nvidia_smi=replace(report, driver=None))["host"].verdict == "incomplete"


def links(speeds, said="", index=1):
    return Links(index, f"GPU-{index + 1}", speeds, said)


@pytest.mark.parametrize(
    ("gpu", "verdict", "action"),
    [
        (links(dict.fromkeys(range(18), 26.562)), "pass", "none"),
        (links({**dict.fromkeys(range(17), 26.562), 17: 0.0}), "fail", "reset_gpu"),
        (links({**dict.fromkeys(range(17), 26.562), 17: 26.561}), "fail", "reset_gpu"),
        (links({**dict.fromkeys(range(17), 26.562), 17: None}), "incomplete", "investigate"),
        (links(dict.fromkeys(range(17), 26.562)), "fail", "investigate"),
        (links({}), "fail", "investigate"),
        (links({}, "Nvlink queries are not supported for Devices in MIG mode"), "incomplete", "investigate"),
        (
            links({}, "NVML: Unable to retrieve NVLink information as all links are inActive"),
            "fail",
            "reset_gpu",
        ),
    ],
)
def test_nvlinks(gpu, verdict, action, expect, report):
    whole = links(dict.fromkeys(range(18), 26.562), index=0)
    findings = found("gpu_nvlink", expect, nvlink=(whole, gpu), nvidia_smi=report)
    assert findings[FIRST].verdict == "pass"
    assert (findings[SECOND].verdict, findings[SECOND].action) == (verdict, action)


def test_nvlinks_are_matched_by_uuid_not_by_order(expect, report):
    whole, broken = dict.fromkeys(range(18), 26.562), dict.fromkeys(range(18), 0.0)
    swapped = (Links(0, "GPU-2", broken, ""), Links(1, "GPU-1", whole, ""))
    findings = found("gpu_nvlink", expect, nvlink=swapped, nvidia_smi=report)
    assert (findings[FIRST].verdict, findings[SECOND].verdict) == ("pass", "fail")


def test_nvlinks_of_fewer_gpus_blame_nobody_by_guess(expect):
    findings = found("gpu_nvlink", expect, nvlink=(links(dict.fromkeys(range(18), 26.562), index=0),))
    assert {finding.verdict for finding in findings.values()} == {"incomplete"}


def three(expect, report):
    """Return a class of three GPUs, and the report of its first and last: the middle one is lost."""
    parts = expect["gpu"]["parts"]
    parts.insert(1, {**parts[1], "slot": "SXM3", "address": "0000:5b:00.0"})
    expect["gpu"]["count"] = 3
    return replace(report, lost=("0000:5b:00.0",))


@pytest.mark.parametrize("known_by", ["uuid", "number"])
def test_nvlinks_of_the_others_are_judged_where_a_lost_gpu_is_left_out(known_by, expect, report):
    report = three(expect, report)
    if known_by == "number":
        report = replace(report, gpus=tuple(replace(gpu, uuid=None) for gpu in report.gpus))
    whole, broken = dict.fromkeys(range(18), 26.562), dict.fromkeys(range(18), 0.0)
    listed = (Links(0, "GPU-1", whole, ""), Links(2, "GPU-2", broken, ""))
    findings = found("gpu_nvlink", expect, nvlink=listed, nvidia_smi=report)
    assert {part: finding.verdict for part, finding in findings.items()} == {
        FIRST: "pass",
        "gpu SXM3 0000:5b:00.0": "incomplete",
        SECOND: "fail",
    }


def test_lost_gpu_passes_by_no_number(expect, report):
    report = replace(three(expect, report), gpus=tuple(replace(gpu, uuid=None) for gpu in report.gpus))
    listed = [links(dict.fromkeys(range(18), 26.562), index=index) for index in range(3)]
    findings = found("gpu_nvlink", expect, nvlink=listed, nvidia_smi=report)
    assert [finding.verdict for finding in findings.values()] == ["pass", "incomplete", "pass"]


@pytest.mark.parametrize("uuids", [True, False])
def test_number_that_is_left_out_without_a_lost_gpu_leaves_nobody_known(uuids, expect, report):
    report = replace(three(expect, report), lost=())
    if not uuids:
        report = replace(report, gpus=tuple(replace(gpu, uuid=None) for gpu in report.gpus))
    # What stood between may be gone from the text, and with it the end of the first GPU's links.
    listed = [links(dict.fromkeys(range(18), 26.562), index=0), Links(2, "GPU-2", dict.fromkeys(range(18), 26.562), "")]
    findings = found("gpu_nvlink", expect, nvlink=listed, nvidia_smi=report)
    assert {finding.verdict for finding in findings.values()} == {"incomplete"}


def row(index, nics=None, node=None, **more):
    nics = {"mlx5_0": "PIX", "mlx5_1": "SYS"} if nics is None else nics
    fields = {"cpus": "0-47", "numa_nodes": (index if node is None else node,), **more}
    return Row(index, {1 - index: "NV18"}, nics, **fields)


NAMES = Names({"0000:1a:00.0": ["mlx5_0"], "0000:3c:00.0": ["mlx5_1"]})


def affinity(expect, other, report, names=NAMES):
    topology = Topology((row(0), other), ("mlx5_0", "mlx5_1"))
    findings = found("gpu_affinity", expect, topology=topology, nvidia_smi=report, rail_names=names)
    assert findings[FIRST].verdict == "pass"
    return findings


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        (row(1), "pass"),
        (row(1, {"mlx5_1": "PXB"}), "pass"),
        (row(1, {"mlx5_1": "PHB"}), "fail"),
        (row(1, {}), "fail"),
        (row(1, {"mlx5_1": "??"}), "incomplete"),
        (row(1, cpus=None), "incomplete"),
        (replace(row(1), gpus={0: "SYS"}), "fail"),
    ],
)
def test_affinity_of_one_gpu(other, verdict, expect, report):
    assert affinity(expect, other, report)[SECOND].verdict == verdict


@pytest.mark.parametrize("change", [{"gpus": (), "lost": ("0000:ab:00.0",), "stopped": True}, {"nameless": 1}])
def test_no_gpu_is_known_by_its_number_where_nobody_knows_how_many_are_before_it(change, expect, report):
    report = three(expect, report)
    unnamed = tuple(replace(gpu, uuid=None) for gpu in report.gpus)
    # The first of the class is gone, or is the one without an address.
    report = replace(report, **{"gpus": unnamed, "lost": (), **change})
    listed = [Links(number, f"GPU-{number}", dict.fromkeys(range(18), 0.0), "") for number in (0, 1)]
    findings = found("gpu_nvlink", expect, nvlink=listed, nvidia_smi=report)
    # Links are down, whoever's they are.
    assert findings.pop("host").verdict == "fail"
    assert {finding.verdict for finding in findings.values()} == {"incomplete"}


def test_affinity_of_the_others_is_judged_where_a_lost_gpu_is_left_out(expect, report):
    report = three(expect, report)
    rows = (replace(row(0), gpus={2: "NV18"}), replace(row(2, node=1), gpus={0: "SYS"}))
    topology = Topology(rows, ("mlx5_0", "mlx5_1"))
    findings = found("gpu_affinity", expect, topology=topology, nvidia_smi=report, rail_names=NAMES)
    assert [findings[part].verdict for part in (FIRST, "gpu SXM3 0000:5b:00.0", SECOND, "host")] == [
        *("pass", "incomplete", "fail", "incomplete")
    ]
    unexplained = found("gpu_affinity", expect, topology=topology, nvidia_smi=replace(report, lost=()))
    assert {finding.verdict for finding in unexplained.values()} == {"incomplete"}


def test_numa_off_fails_the_host(expect, report):
    findings = affinity(expect, row(1, node=0), report)
    assert (findings["host"].verdict, findings["host"].measured) == ("fail", 1)
    assert "numa=off" in findings["host"].reason
    assert affinity(expect, row(1), report)["host"].verdict == "pass"
    assert affinity(expect, replace(row(1), numa_nodes=None), report)["host"].verdict == "incomplete"
    assert affinity(expect, replace(row(1), numa_nodes=(0, 1)), report)["host"].verdict == "incomplete"


def test_declared_places_are_exact(expect, report):
    places = [
        {"slot": "SXM1", "numa_node": 0, "rail": None},
        {"slot": "SXM6", "numa_node": 1, "rail": 1},
    ]
    expect["affinity"]["parts"] = places
    assert affinity(expect, row(1, {"mlx5_0": "SYS", "mlx5_1": "PIX"}), report)[SECOND].verdict == "pass"
    assert affinity(expect, row(1), report)[SECOND].verdict == "fail"
    assert affinity(expect, row(1, {"mlx5_0": "PIX"}), report)[SECOND].verdict == "incomplete"
    places[1]["numa_node"] = 0
    assert affinity(expect, row(1, {"mlx5_1": "PIX"}), report)[SECOND].verdict == "fail"


@pytest.mark.parametrize(
    ("names", "rail", "answer"),
    [
        # The card beside this GPU is rail 1, whatever it is called; mlx5_1 may be another one.
        (Names({"0000:3c:00.0": ["rocep60s0"]}), 1, ("pass", "")),
        (
            Names({"0000:3c:00.0": ["mlx5_1"], "0000:4d:00.0": ["rocep60s0"]}),
            1,
            ("fail", "nearest NIC is mlx5_1"),
        ),
        (Names({"0000:3d:00.0": ["rocep60s0"]}), 1, ("incomplete", "rail 1 has no RDMA device at 0000:3c:00.0")),
        (None, 1, ("incomplete", "could not be read: the name of rail 1")),
    ],
)
def test_declared_rail_is_looked_up_by_what_the_host_calls_it(names, rail, answer, expect, report):
    expect["affinity"]["parts"] = [{"slot": "SXM6", "numa_node": 1, "rail": rail}]
    nics = {"mlx5_1": "SYS", "rocep60s0": "PIX"}
    finding = affinity(expect, row(1, nics), report, names)[SECOND]
    assert finding.verdict == answer[0] and answer[1] in finding.reason


RUNNING = FabricManager("loaded", "active", "running", "success", "0", "570.86.15")


@pytest.mark.parametrize(
    ("service", "verdict"),
    [
        (RUNNING, "pass"),
        (replace(RUNNING, load="not-found", active="inactive", sub="dead"), "fail"),
        (replace(RUNNING, active="failed", sub="failed", result="exit-code", exit_status="1"), "fail"),
        (replace(RUNNING, active="activating", sub="start"), "fail"),
        (replace(RUNNING, version="570.86.16"), "fail"),
        (replace(RUNNING, version=None), "incomplete"),
    ],
)
def test_fabric_manager(service, verdict, expect, report):
    (finding,) = found("fabric_manager", expect, fabric_manager=service, nvidia_smi=report).values()
    assert (finding.subject, finding.verdict) == ("host", verdict)


@pytest.mark.parametrize("owed", [False, True])
def test_fabric_manager_that_starts_a_subnet_manager_names_what_it_needs(owed, expect, report):
    expect = {**expect, "nvlink": {**expect["nvlink"], "subnet_manager": owed}}
    service = replace(RUNNING, active="failed", sub="failed")
    (finding,) = found("fabric_manager", expect, fabric_manager=service, nvidia_smi=report).values()
    assert finding.verdict == "fail" and ("ib_umad" in finding.reason) is owed


def test_fabric_manager_is_not_compared_with_an_unread_driver(expect, report):
    unread = replace(report, driver=None)
    (finding,) = found("fabric_manager", expect, fabric_manager=RUNNING, nvidia_smi=unread).values()
    assert finding.verdict == "incomplete"


@pytest.mark.parametrize(
    ("link", "verdict"), [(Pcie(1, 1, 1, 1, 1, 0), "pass"), (Pcie(None, None, None, None, None, 0), "pass"),
                          (Pcie(1, 1, 1, 1, 1, 10001), "fail"), (Pcie(1, 1, 1, 1, 1, None), "incomplete")],
)  # fmt: skip
def test_link_that_the_class_does_not_state_is_not_judged(expect, report, link, verdict):
    expect["gpu"] |= {"pcie_generation": None, "pcie_width": None}
    assert second("gpu_pcie", expect, report, pcie=link).verdict == verdict
