"""Every fault that the lab gives a GPU, as the real nvidia-smi of a system prints it, and what Muster makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any
from xml.etree import ElementTree

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import judge
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS
from ansible_collections.muster.cluster.plugins.module_utils.gpu_load.gpu_telemetry_program import FIELDS, sample_of
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import nvidia_smi, nvlink
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, pci_address
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.contracts.gpus import Smi
from tests.placed import PLACED
from tests.typed import typed

# By check and part, the verdict and the action; what passes and asks for nothing is left out.
Verdicts = Mapping[tuple[str, str], tuple[str, str]]

PROBES = {probe.NAME: probe for probe in (nvidia_smi, nvlink)}
BOARD = expectations_of("hgx_h100", PLACED, "contract")
# Three GPUs are told of in half the time of eight.
SLOTS = ("SXM1", "SXM3", "SXM8")
_PARTS = [part for part in BOARD["gpu"]["parts"] if part["slot"] in SLOTS]
FEW = {**BOARD, "gpu": {**BOARD["gpu"], "count": len(SLOTS), "parts": _PARTS}}
# GPUs that are in a domain with those of other hosts.
DOMAIN = {**FEW, "nvlink": {**BOARD["nvlink"], "fabric_manager": False, "domain": {"hosts": 18, "imex": None}}}
ASKED = [check for check in CHECKS.values() if check.PROBES and set(check.PROBES) <= set(PROBES)]
AT = "0000:0c:00.0"
# Why a GPU could not join the fabric.
REFUSED = "Insufficient Resources"

FAIL = {action: ("fail", action) for action in ("investigate", "reboot", "reseat", "reset_gpu", "restart_app", "rma")}
UNREAD = ("incomplete", "investigate")
WATCHED = ("pass", "investigate")
OF_ONE = [
    *("gpu_ecc", "gpu_fabric", "gpu_nvlink", "gpu_pcie", "gpu_power", "gpu_processes", "gpu_recovery"),
    *("gpu_row_remap", "gpu_settings", "gpu_throttle", "gpu_versions"),
]


@dataclass(frozen=True)
class Fault:
    """A fault of SXM3 (``values`` of its own, or of the ``host``'s state), what is ``read`` of it, and the verdicts.

    ``read`` is by the fields of the probe's Gpu ("volatile.dram_uncorrectable"). A program of the branches ``stops`` at
    it, and tells nothing of any other GPU.
    """

    name: str
    verdicts: Verdicts = field(default_factory=dict)
    read: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    board: Mapping[str, Any] = field(default_factory=lambda: FEW)
    stops: tuple[str, ...] = ()

    def expected(self, branch: str) -> Verdicts:
        """Return the verdicts on what the program of a branch prints."""
        of_all = [*((check, slot) for check in (*OF_ONE, "gpu_inventory") for slot in SLOTS), ("gpu_versions", "host")]
        return {**(dict.fromkeys(of_all, UNREAD) if branch in self.stops else {}), **self.verdicts}

    @property
    def state(self) -> dict[str, Any]:
        others = self.host.get("gpu_values", {})
        return {**self.host, "gpu_values": {**others, "SXM3": {**others.get("SXM3", {}), **self.values}}}


def shown(name: str, value: str, read: str, found: Any) -> Fault:
    """Return what is one value, and no fault."""
    return Fault(f"{name} {value}", {}, {read: found}, {name: value})


def one(check: str, action: str, *value: Any) -> Fault:
    """Return a fault that is one value (see shown), and fails one check."""
    return replace(shown(*value), verdicts={(check, "SXM3"): FAIL[action]})


def slowed(reason: str) -> Fault:
    """Return a reason for which the clocks are lowered, and which fails."""
    at = f"clocks_event_reasons/clocks_event_reason_{reason}"
    return one("gpu_throttle", "investigate", at, "Active", f"throttle.{reason}", True)


def lost(name: str, host: Mapping[str, Any]) -> Fault:
    """Return a fault with which nothing else of the GPU is known."""
    unread = {(each, "SXM3"): UNREAD for each in OF_ONE}
    return Fault(name, {("gpu_inventory", "SXM3"): FAIL["reboot"], **unread}, host=host)


NOW, EVER, ROWS = "ecc_errors/volatile", "ecc_errors/aggregate", "remapped_rows"
LINK = "pci/pci_gpu_link_info"
POWER = "gpu_power_readings"
SPARE = f"{ROWS}/row_remapper_histogram/row_remapper_histogram_none"
LOST = [
    lost("missing", {"gpus_missing": ["SXM3"]}),
    replace(lost("no handle", {"gpus_lost": ["SXM3"]}), stops=("535", "550")),
    lost("listed and lost", {"gpus_lost_listed": ["SXM3"]}),
]
FAULTS = [
    *LOST,
    one("gpu_ecc", "reset_gpu", f"{NOW}/dram_uncorrectable", "1", "volatile.dram_uncorrectable", 1),
    one("gpu_ecc", "reset_gpu", f"{NOW}/sram_uncorrectable_parity", "2", "volatile.sram_uncorrectable", 2),
    one("gpu_ecc", "reset_gpu", f"{NOW}/sram_uncorrectable_secded", "3", "volatile.sram_uncorrectable", 3),
    one("gpu_ecc", "investigate", f"{NOW}/dram_correctable", "20000001", "volatile.dram_correctable", 20000001),
    one("gpu_ecc", "investigate", f"{NOW}/sram_correctable", "10001", "volatile.sram_correctable", 10001),
    one("gpu_ecc", "rma", f"{EVER}/sram_uncorrectable_parity", "5", "aggregate.sram_uncorrectable", 5),
    one("gpu_ecc", "rma", f"{EVER}/sram_uncorrectable_secded", "5", "aggregate.sram_uncorrectable", 5),
    one("gpu_ecc", "rma", f"{EVER}/sram_threshold_exceeded", "Yes", "sram_threshold_exceeded", True),
    Fault(
        "sram errors of an earlier day",
        {("gpu_ecc", "SXM3"): WATCHED},
        {"aggregate.sram_uncorrectable": 4, "volatile.sram_uncorrectable": 0},
        {f"{EVER}/sram_uncorrectable_secded": "4"},
    ),
    shown(f"{EVER}/dram_correctable", "7", "aggregate.dram_correctable", 7),
    replace(
        shown(f"{EVER}/dram_uncorrectable", "7", "aggregate.dram_uncorrectable", 7),
        verdicts={("gpu_ecc", "SXM3"): WATCHED},
    ),
    shown(f"{EVER}/sram_correctable", "7", "aggregate.sram_correctable", 7),
    one("gpu_ecc", "reset_gpu", "ecc_errors/channel_repair_pending", "Yes", "repair_pending", True),
    one("gpu_ecc", "reset_gpu", "ecc_errors/tpc_repair_pending", "Yes", "repair_pending", True),
    one("gpu_ecc", "rma", "ecc_errors/unrepairable_memory", "Yes", "memory_unrepairable", True),
    one("gpu_row_remap", "reset_gpu", f"{ROWS}/remapped_row_pending", "Yes", "remapped_rows.pending", True),
    one("gpu_row_remap", "rma", f"{ROWS}/remapped_row_failure", "Yes", "remapped_rows.failure", True),
    one("gpu_row_remap", "rma", f"{ROWS}/remapped_row_unc", "513", "remapped_rows.uncorrectable", 513),
    Fault(
        "rows remapped after correctable errors",
        {("gpu_row_remap", "SXM3"): WATCHED},
        {"remapped_rows.correctable": 11},
        {f"{ROWS}/remapped_row_corr": "11"},
    ),
    Fault(
        "banks without a spare row",
        {("gpu_row_remap", "SXM3"): WATCHED},
        {"remapped_rows.banks_without_spare": 2},
        {SPARE: "2 bank(s)"},
    ),
    *map(slowed, ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")),
    shown("clocks_event_reasons/clocks_event_reason_sw_power_cap", "Active", "throttle.sw_power_cap", True),
    shown("clocks_event_reasons/clocks_event_reason_gpu_idle", "Not Active", "throttle.idle", False),
    shown("temperature/gpu_temp", "86 C", "heat.gpu", 86.0),
    shown(f"{POWER}/power_draw", "690.50 W", "power_watts", 690.5),
    one("gpu_power", "investigate", f"{POWER}/current_power_limit", "650.00 W", "power_enforced_watts", 650),
    one("gpu_power", "investigate", f"{POWER}/default_power_limit", "600.00 W", "power_default_watts", 600),
    Fault(
        "default power limit unreadable",
        {("gpu_power", "SXM3"): UNREAD},
        {"power_default_watts": None},
        {f"{POWER}/default_power_limit": "Unknown Error"},
    ),
    one("gpu_settings", "investigate", "persistence_mode", "Disabled", "persistence", False),
    one("gpu_settings", "reset_gpu", "mig_mode/current_mig", "Enabled", "mig", True),
    one("gpu_settings", "reset_gpu", "mig_mode/pending_mig", "Enabled", "mig_pending", True),
    Fault(
        # Then nothing is counted.
        "ECC off",
        {("gpu_settings", "SXM3"): FAIL["reset_gpu"], ("gpu_ecc", "SXM3"): UNREAD},
        {"ecc": False, "ecc_pending": True, "volatile.dram_uncorrectable": None},
        {"ecc_mode/current_ecc": "Disabled"},
    ),
    one("gpu_settings", "reset_gpu", "ecc_mode/pending_ecc", "Disabled", "ecc_pending", False),
    one("gpu_pcie", "reseat", f"{LINK}/link_widths/current_link_width", "8x", "pcie.width", 8),
    one("gpu_pcie", "investigate", f"{LINK}/pcie_gen/max_link_gen", "4", "pcie.generation_max", 4),
    one("gpu_pcie", "reseat", "pci/replay_counter", "10001", "pcie.replays", 10001),
    shown(f"{LINK}/pcie_gen/current_link_gen", "1", "pcie.generation", 1),
    shown(f"{LINK}/pcie_gen/max_device_link_gen", "4", "pcie.generation_max_device", 4),
    Fault(
        "PCIe slow under load",
        {("gpu_pcie", "SXM3"): FAIL["reseat"]},
        {"pcie.generation": 4, "utilisation_percent": 98},
        {f"{LINK}/pcie_gen/current_link_gen": "4", "utilization/gpu_util": "98 %"},
    ),
    one("gpu_inventory", "investigate", "fb_memory_usage/total", "40960 MiB", "memory_mib", 40960),
    one("gpu_processes", "reset_gpu", "fb_memory_usage/used", "16 MiB", "memory_used_mib", 16),
    Fault(
        "another model",
        {("gpu_inventory", "SXM3"): ("fail", "replace")},
        {"model": "NVIDIA H800"},
        {"product_name": "NVIDIA H800"},
    ),
    one("gpu_versions", "investigate", "vbios_version", "96.00.89.00.01", "vbios", "96.00.89.00.01"),
    Fault(
        "a process",
        {("gpu_processes", "SXM3"): FAIL["restart_app"]},
        {"processes": (nvidia_smi.Process("42", "C", "python"),)},
        host={"gpu_processes": {"SXM3": [{"pid": 42, "name": "python", "memory_mib": 512}]}},
    ),
    Fault(
        "NVLink down",
        {("gpu_nvlink", "SXM3"): FAIL["reset_gpu"]},
        host={"nvlinks": {"SXM3": {"3": 0}}},
    ),
    Fault(
        "NVLink slow",
        {("gpu_nvlink", "SXM3"): FAIL["reset_gpu"]},
        host={"nvlinks": {"SXM3": {"4": 25000}}},
    ),
    one("gpu_fabric", "investigate", "fabric/state", "In Progress", "fabric_state", "In Progress"),
    one("gpu_fabric", "reset_gpu", "fabric/status", REFUSED, "fabric_status", REFUSED),
    # Bits 0 and 1 tell of the bandwidth: 1 is degraded, 2 is not.
    one("gpu_fabric", "reset_gpu", "fabric/health_mask", "1", "fabric_health.bandwidth", "Degraded"),
    Fault("fabric is well", {}, {"fabric_health.bandwidth": "Full"}, {"fabric/health_mask": "2"}),
    # nvml.h: 1 is healthy, 2 unhealthy, 3 of limited capacity.
    one("gpu_fabric", "reset_gpu", "fabric/health_summary", "2", "fabric_health.summary", "Unhealthy"),
    Fault(
        "in another clique",
        {("nvlink_domain", "host"): FAIL["investigate"]},
        {"clique_id": 7, "cluster_uuid": "12345678-90ab-cdef-1234-567890abcdef"},
        {"fabric/cliqueId": "7"},
        {"gpu_values": {slot: {"fabric/clusterUuid": "12345678-90ab-cdef-1234-567890abcdef"} for slot in SLOTS}},
        DOMAIN,
    ),
    one("gpu_recovery", "reboot", "gpu_recovery_action", "Reboot", "recovery_action", "Reboot"),
    one("gpu_recovery", "reset_gpu", "gpu_recovery_action", "Reset", "recovery_action", "Reset"),
    one("gpu_recovery", "reset_gpu", "gpu_recovery_action", "Drain P2P", "recovery_action", "Drain P2P"),
    one("gpu_recovery", "reset_gpu", "gpu_recovery_action", "Drain and Reset", "recovery_action", "Drain and Reset"),
    *(
        Fault(
            f"no recovery action, and {name}",
            {("gpu_recovery", "SXM3"): FAIL["reset_gpu"]},
            {"recovery_action": action},
            {f"gpu_reset_status/{name}": "Yes", "gpu_recovery_action": "N/A"},
        )
        for name, action in (("reset_required", "Reset"), ("drain_and_reset_recommended", "Drain and Reset"))
    ),
]
# What the program of a driver's branch has no place for, by branch and fault.
_SINCE_570 = "told since driver 570"
_SINCE_580 = "told since driver 580"
NOT_SHOWN = {
    **{
        (branch, f"gpu_recovery_action {action}"): _SINCE_570
        for branch in ("535", "550")
        for action in ("Reboot", "Reset", "Drain P2P", "Drain and Reset")
    },
    **{
        (branch, f"ecc_errors/{name} Yes"): _SINCE_580
        for branch in ("535", "550")
        for name in ("channel_repair_pending", "tpc_repair_pending", "unrepairable_memory")
    },
    **{(branch, "fabric/health_summary 2"): _SINCE_580 for branch in ("535", "550")},
    **{
        ("535", name): "of the fabric it tells state and status"
        for name in ("fabric/health_mask 1", "fabric is well", "in another clique")
    },
    **{
        ("580", f"no recovery action, and {name}"): "it tells the action alone"
        for name in ("reset_required", "drain_and_reset_recommended")
    },
}


def verdicts(outputs: Mapping[str, Output], expect: Expectations) -> dict[tuple[str, str], tuple[str, str]]:
    """Return what the checks say that is neither a pass nor nothing to do."""
    found = {}
    for finding in judge(outputs, PROBES, ASKED, expect).findings:
        part = finding.subject.split()[1] if " " in finding.subject else finding.subject
        if (finding.verdict, finding.action) != ("pass", "none"):
            found[finding.check, part] = (finding.verdict, finding.action)
    return found


def values_of(report: nvidia_smi.Gpus, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the named fields of SXM3."""
    gpus = [gpu for gpu in report.gpus if gpu.address == AT]
    return {name: reduce(_part, name.split("."), gpu) for gpu in gpus for name in names}


def _part(whole: Any, name: str) -> Any:
    return whole.get(name) if isinstance(whole, Mapping) else getattr(whole, name)


def test_healthy_gpus_pass_every_check(smi: Smi) -> None:
    smi.show()
    expect = typed(BOARD)
    assert len(ASKED) >= 13
    assert verdicts({name: probe.collect(smi, expect) for name, probe in PROBES.items()}, expect) == {}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_shown_read_and_judged(smi: Smi, fault: Fault) -> None:
    smi.show(SLOTS, **fault.state)
    expect = typed(fault.board)
    outputs = {name: probe.collect(smi, expect) for name, probe in PROBES.items()}
    report = nvidia_smi.parse(outputs["nvidia_smi"])
    found = (values_of(report, fault.read), verdicts(outputs, expect))
    if (smi.branch, fault.name) in NOT_SHOWN:
        assert found != (fault.read, fault.verdicts), "it is shown: NOT_SHOWN is stale"
    else:
        assert found == (fault.read, fault.expected(smi.branch))
    # As a person saves it.
    assert nvidia_smi.parse(smi.run(nvidia_smi.ARGV[:2], 30)) == report


def test_fault_that_is_not_shown_is_one_of_the_faults() -> None:
    assert {name for _, name in NOT_SHOWN} <= {fault.name for fault in FAULTS}


def test_samples_of_the_telemetry_are_read(smi: Smi) -> None:
    faults = {
        "power_watts": (f"{POWER}/power_draw", "650.50 W", 650.5),
        "power_limit_watts": (f"{POWER}/current_power_limit", "600.00 W", 600),
        "temperature_celsius": ("temperature/gpu_temp", "86 C", 86),
        "memory_temperature_celsius": ("temperature/memory_temp", "96 C", 96),
        "sm_clock_mhz": ("clocks/sm_clock", "1200 MHz", 1200),
        "memory_clock_mhz": ("clocks/mem_clock", "1593 MHz", 1593),
        "utilization_percent": ("utilization/gpu_util", "99 %", 99),
        "memory_utilization_percent": ("utilization/memory_util", "44 %", 44),
        "pcie_generation": (f"{LINK}/pcie_gen/current_link_gen", "4", 4),
        "pcie_width": (f"{LINK}/link_widths/current_link_width", "8x", 8),
        "ecc_corrected": (f"{NOW}/dram_correctable", "12", 12),
        "ecc_uncorrected": (f"{NOW}/sram_uncorrectable_parity", "3", 3),
    }
    hot = {"clocks_event_reasons/clocks_event_reason_hw_thermal_slowdown": "Active"}
    smi.show(SLOTS, gpu_values={"SXM3": {**{name: value for name, value, _ in faults.values()}, **hot}})
    asked = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    samples = [sample_of(line) for line in smi.run(asked, 30).stdout.splitlines()]
    (sample,) = [each for each in samples if each and each.gpu == AT]
    assert {**sample.quantities, **sample.counters} == {name: found for name, (_, _, found) in faults.items()}
    assert (sample.reasons, len(samples)) == (0x41, len(SLOTS))


def test_sources_of_sram_errors_are_shown(smi: Smi) -> None:
    # Muster does not read them; a person does.
    counts = {"sram_l2": "1", "sram_sm": "2", "sram_microcontroller": "3", "sram_pcie": "4", "sram_other": "5"}
    at = "ecc_errors/aggregate_uncorrectable_sram_sources"
    smi.show(SLOTS, gpu_values={"SXM3": {f"{at}/{name}": count for name, count in counts.items()}})
    report = ElementTree.fromstring(smi.run(nvidia_smi.ARGV, 30).stdout)
    (gpu,) = [each for each in report.findall("gpu") if pci_address(each.get("id") or "") == AT]
    assert {name: gpu.findtext(f"{at}/{name}") for name in counts} == counts
